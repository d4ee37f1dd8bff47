//! A device that has broken is opened anew.

use super::Device;
use std::time::{Duration, Instant};

/// Least time between two attempts to open an endpoint anew.
const MEND_PAUSE: Duration = Duration::from_secs(1);

impl Device {
    /// Opens the endpoint anew, if it has broken and no stream is left of it. Says whether it
    /// did; its name and its descriptor are others then.
    pub(crate) fn mend(&mut self) -> bool {
        let is_due = self.tried.is_none_or(|tried| tried.elapsed() >= MEND_PAUSE);
        if !self.is_broken || !self.streams.is_empty() || !is_due {
            return false;
        }
        self.tried = Some(Instant::now());
        let Ok(endpoint) = self.spec.open() else { return false };
        self.withdraw_all();
        self.endpoint = endpoint;
        self.reads.clear();
        self.peers.clear();
        self.names.clear();
        self.under_way.clear();
        self.is_broken = false;
        true
    }
}
