//! What there is to see of this process: counts of the layer above, snapshots.

use super::World;
use crate::snapshot::Snapshot;
use sluice_link::Machine;

impl World {
    /// A message of so many bytes was taken to be sent.
    #[inline(always)]
    pub fn count_sent(&mut self, bytes: u64) {
        self.sent_bytes += bytes;
    }

    /// Bytes of all of these.
    #[must_use]
    pub fn sent_bytes(&self) -> u64 {
        self.sent_bytes
    }

    /// What there is to see of this process and its machine.
    pub fn snapshot<M: Machine>(&self, machine: &M) -> Snapshot {
        Snapshot::of(self, machine.told(), self.sent_bytes)
    }
}
