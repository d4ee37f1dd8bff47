//! Remote memory: reads and writes that need no call of the peer.

use super::Token;
use sluice_wire::{PeerId, Region, RemoteKey};

/// Why a rail could not move bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RailError {
    /// The system does not allow it; the port will not offer it again
    /// ([`RemoteMemory::caps`] says so from now on).
    #[error("the system does not allow direct reads of that process")]
    Forbidden,
    /// The memory, here or there, is not mapped, or is not exposed to this process.
    #[error("memory is not mapped, or not exposed")]
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
    /// Whether a network is between: to ask for something costs far more than to copy it.
    pub network: bool,
}

/// What a peer may do with memory that is exposed to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rights {
    /// It may read it.
    pub read: bool,
    /// It may write it.
    pub write: bool,
}

impl Rights {
    /// To read it.
    pub const READ: Rights = Rights { read: true, write: false };
    /// To write it.
    pub const WRITE: Rights = Rights { read: false, write: true };
}

/// A place in memory that a peer has exposed to this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Remote {
    /// Names the memory.
    pub key: RemoteKey,
    /// Where in it the place is, in bytes from its beginning.
    pub offset: u64,
}

impl Remote {
    /// The beginning of what `key` names.
    #[must_use]
    #[inline(always)]
    pub fn whole(key: RemoteKey) -> Remote {
        Remote { key, offset: 0 }
    }
}

/// A region that peers move without a call of this process, until it is withdrawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Published(pub u16);

/// Memory between processes: what is exposed of this one, and what the peers have
/// exposed.
///
/// A key is of one peer: no other can use it. A revoked key never reaches memory
/// again. A move through a key that is not valid, or that does not allow it, or past
/// the end of what it names, ends with [`RailError::Fault`], and nothing else comes of
/// it. Rails on which the system decides what a process may touch leave that to it.
///
/// The machine revokes each key exactly once, when the operation ends for which it was
/// exposed, also if the peer is gone. Moves of a peer that is not gone are over by then:
/// the protocols see to that. Only a move of no bytes may come late, and reaches nothing.
pub trait RemoteMemory {
    /// What can be done with the memory of `peer` now. An ability that has
    /// failed with [`RailError::Forbidden`] does not come back.
    fn caps(&self, peer: PeerId) -> RemoteCaps;

    /// Exposes a region of this process to `peer` until [`RemoteMemory::revoke`]. Its
    /// memory is the client's to vouch for: whether it is mapped is not looked at.
    /// [`RemoteKey::NONE`], which is not revoked, if there is nothing that a peer could
    /// reach by a key.
    fn expose(&mut self, peer: PeerId, region: Region, rights: Rights) -> RemoteKey;

    /// Ends what [`RemoteMemory::expose`] began, with the same peer.
    fn revoke(&mut self, peer: PeerId, key: RemoteKey);

    /// Starts to read `to.len` bytes at `from` in the memory of `peer` into
    /// `to`. Ends with [`Machine::on_moved`](super::Machine::on_moved), also when the peer dies.
    fn read_remote(&mut self, peer: PeerId, from: Remote, to: Region, token: Token);

    /// Starts to write the bytes of `from` to `to` in the memory of `peer`.
    /// Ends with [`Machine::on_moved`](super::Machine::on_moved), also when the peer dies.
    fn write_remote(&mut self, peer: PeerId, from: Region, to: Remote, token: Token);

    /// Lets peers on this machine move bytes of a region without a call of this process. They
    /// name it by `key`, and its first byte has the offset `first`. `None` if the rail cannot
    /// do that, or not for one more: then they have to ask.
    fn publish(
        &mut self,
        _key: u64,
        _region: Region,
        _first: u64,
        _rights: Rights,
    ) -> Option<Published> {
        None
    }

    /// Ends that. When this returns no peer moves bytes of the region.
    fn withdraw(&mut self, _published: Published) {}

    /// Reads bytes at `offset` of the region that `peer` has published under `key`, now.
    /// `None` if there is no such region that has them and may be read: the peer is to be
    /// asked. Nothing has moved then.
    fn read_published(
        &mut self,
        _peer: PeerId,
        _key: u64,
        _offset: u64,
        _to: Region,
    ) -> Option<Result<(), RailError>> {
        None
    }

    /// Writes there, likewise. The bytes are in their place when this returns.
    fn write_published(
        &mut self,
        _peer: PeerId,
        _key: u64,
        _offset: u64,
        _from: Region,
    ) -> Option<Result<(), RailError>> {
        None
    }
}
