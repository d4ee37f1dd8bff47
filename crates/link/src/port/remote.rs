//! Remote memory: reads and writes that need no call of the peer.

use super::Token;
use sluice_wire::{Addr, PeerId, Region};

/// Why a rail could not move bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RailError {
    /// The system does not allow it; the port will not offer it again
    /// ([`RemoteMemory::caps`] says so from now on).
    #[error("the system does not allow direct reads of that process")]
    Forbidden,
    /// The memory, here or there, is not mapped.
    #[error("memory is not mapped")]
    Fault,
    /// The peer is gone.
    #[error("the peer is gone")]
    PeerGone,
    /// The other side of a shared transfer could not copy what it took: the
    /// bytes have to be moved in another way.
    #[error("the peer gave up its part of a shared transfer")]
    Shared,
}

/// What the port can do with the memory of one peer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RemoteCaps {
    /// Whether [`RemoteMemory::read_remote`] can reach it.
    pub read: bool,
    /// Whether [`RemoteMemory::write_remote`] can reach it.
    pub write: bool,
}

/// The memory of the peers.
pub trait RemoteMemory {
    /// What can be done with the memory of `peer` now. An ability that has
    /// failed with [`RailError::Forbidden`] does not come back.
    fn caps(&self, peer: PeerId) -> RemoteCaps;

    /// Starts to read `to.len` bytes at `from` in the memory of `peer` into
    /// `to`. Ends with [`Machine::on_moved`](super::Machine::on_moved), also when the peer dies.
    fn read_remote(&mut self, peer: PeerId, from: Addr, to: Region, token: Token);

    /// Starts to write the bytes of `from` to `to` in the memory of `peer`.
    /// Ends with [`Machine::on_moved`](super::Machine::on_moved), also when the peer dies.
    fn write_remote(&mut self, peer: PeerId, from: Region, to: Addr, token: Token);
}
