//! What there is to see of this process: counts of the layer above, snapshots.

use super::World;
use crate::observer::{Keeper, Observer, Request, Tally};
use crate::snapshot::{Snapshot, own_host, own_rank};
use sluice_link::Machine;
use sluice_wire::{Nanos, PeerId};

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

    /// What was exchanged with a peer, as far as that is counted.
    pub(crate) fn tally(&self, peer: PeerId) -> Tally {
        self.shm.tally(peer)
    }

    /// Since when messages are counted by peer, if they are.
    pub(crate) fn counted_since(&self) -> Option<Nanos> {
        self.shm.observer().map(Observer::since)
    }

    /// What there is to see of this process and its machine.
    pub fn snapshot<M: Machine>(&self, machine: &M) -> Snapshot {
        Snapshot::of(self, machine.told(), self.sent_bytes)
    }

    /// Something happens to a request of the layer above, which a trace is to show.
    #[inline(always)]
    pub fn note_request(&mut self, peer: Option<PeerId>, request: Request) {
        self.shm.observe_request(peer, request);
    }

    /// The newest request to send or to receive was refused: a trace does not show it.
    #[cold]
    pub fn withdraw_request(&mut self) {
        self.shm.observe_refusal();
    }
}

impl Drop for World {
    /// Writes the trace, if one is kept. A child that was forked is not who kept it.
    fn drop(&mut self) {
        let Some(trace) = self.shm.observer().and_then(|observer| observer.trace()) else { return };
        if !self.shm.is_own() {
            return;
        }
        let name_of = |peer| match self.peer_address(peer) {
            Some(address) => address.to_string(),
            None => self.describe(peer),
        };
        let (host, address) = (own_host(), self.address());
        let keeper = Keeper {
            host: &host,
            boot: address.tag(),
            pid: std::process::id(),
            rank: own_rank(),
            name: &address.to_string(),
        };
        if let Err((path, error)) = trace.write(&keeper, name_of) {
            self.shm.warn(&format!("no trace is written to {}: {error}", path.display()));
        }
    }
}
