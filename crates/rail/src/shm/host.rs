//! Whose part shared memory is: the port of the machines that it drives.

use super::Shm;
use sluice_link::{Machine, Port};
use sluice_wire::Nanos;

/// A port that has shared memory among its rails. What arrives on shared memory is
/// handed to a machine with the host as the port, so that the machine asks the host, for
/// which shared memory may be one rail of several.
pub(crate) trait Host: Port {
    /// Its shared memory.
    fn shm_mut(&mut self) -> &mut Shm;

    /// Polls its other rails. Says how many inputs the machine got. Asked with every look
    /// beyond the mailbox, so that a poll of shared memory costs nothing for it.
    fn poll_others<M: Machine>(&mut self, _now: Nanos, _machine: &mut M) -> usize {
        0
    }

    /// Somebody watches: shows what there is to see.
    fn show<M: Machine>(&mut self, _machine: &M) {}

    /// Whether they want to be polled by the next poll again.
    fn others_want(&self) -> bool {
        false
    }
}
