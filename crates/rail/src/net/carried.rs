//! How many bytes went by each device: what a report of a job tells.
//!
//! What this process has given to connections counts, headers too, and what a device has
//! fetched or sent by itself. A connection counts for itself, and its count is added here
//! when it ends, so that a message costs one addition.

use super::{Entry, Net};

/// Bytes by device, without those of connections that are open.
#[derive(Clone, Debug, Default)]
pub(super) struct Carried(Vec<u64>);

impl Carried {
    pub(super) fn of(devices: usize) -> Carried {
        Carried(vec![0; devices])
    }

    pub(super) fn note(&mut self, device: u8, bytes: u64) {
        if let Some(count) = self.0.get_mut(usize::from(device)) {
            *count = count.saturating_add(bytes);
        }
    }
}

impl Net {
    /// The devices that are used, and how many bytes this process has sent by each, or
    /// has had it fetch.
    #[must_use]
    pub fn carried(&self) -> Vec<(&str, u64)> {
        let mut all = self.carried.clone();
        for (_, entry) in &self.entries {
            if let Entry::Conn(conn) = entry {
                all.note(conn.device, conn.out.sent_bytes());
            }
        }
        let names = self.config.devices.iter().map(|device| device.name.as_str());
        names.zip(all.0).collect()
    }
}
