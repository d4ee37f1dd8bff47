//! Packets: the connection to a peer, and what is written into its mailbox.

use super::Token;
use crate::quota::Opened;
use sluice_wire::{HeadBuf, PeerId, Region};

/// Whether the connection to a peer is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Connect {
    /// It is; the peer's mailbox grants this.
    Ready(Opened),
    /// It is being opened. [`Machine::on_connected`](super::Machine::on_connected) follows, or
    /// [`Machine::on_peer_gone`](super::Machine::on_peer_gone); the port sets the deadline.
    Pending,
}

/// What became of a packet given to [`Transport::transmit`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transmitted {
    /// Written; the payload's memory may be reused at once.
    Done,
    /// Accepted; the memory is in use until [`Machine::on_transmitted`](super::Machine::on_transmitted),
    /// which follows also if the peer is gone by then.
    Pending,
}

/// Why a peer cannot be spoken to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PeerError {
    /// The process has ended.
    #[error("the process has ended")]
    Dead,
    /// Its mailbox could not be opened, or no connection to it holds.
    #[error("it cannot be reached: its mailbox could not be opened, or no connection to it holds")]
    Unreachable,
    /// Its mailbox has no room for another sender.
    #[error("its mailbox has no room for another sender")]
    Full,
    /// Memory that it shares with this process was overwritten, so what it has
    /// sent cannot be told from garbage.
    #[error("memory shared with it was overwritten")]
    Damaged,
    /// It has given this process up, for a reason of its own, and lives on.
    #[error("it takes nothing more from this process")]
    Refused,
    /// It broke the protocol.
    #[error("it broke the protocol")]
    Protocol,
}

/// The connections to the peers' mailboxes.
pub trait Transport {
    /// Opens the connection to `peer`, if it is not open yet, and says what its
    /// mailbox grants to this process. Never [`Connect::Pending`] for a peer of
    /// which a packet has arrived: a connection is open in both directions, or not yet.
    ///
    /// # Errors
    /// Why the peer cannot be reached. The machine fails the operation that asked;
    /// if it is the peer's end, [`Machine::on_peer_gone`](super::Machine::on_peer_gone)
    /// follows for all others.
    fn connect(&mut self, peer: PeerId) -> Result<Connect, PeerError>;

    /// Asks for the end of `peer`: it is told by
    /// [`Machine::on_peer_gone`](super::Machine::on_peer_gone), also if it has come
    /// already. A world need not watch a peer that was neither connected nor asked
    /// for here and has sent nothing; one that tells of every end has nothing to do.
    fn watch(&mut self, peer: PeerId);

    /// The machine has given `peer` up for a reason of its own. Before long nothing of it
    /// is delivered any more, what is moved from or to it ends, and it learns that it was
    /// refused. [`Machine::on_peer_gone`](super::Machine::on_peer_gone) may follow.
    fn refuse(&mut self, peer: PeerId);

    /// Writes one packet, `head` then the bytes of `payload`, into the mailbox
    /// of `peer`, which has been connected. Credits guarantee the room. A peer
    /// that has died swallows it; [`Machine::on_peer_gone`](super::Machine::on_peer_gone) follows.
    fn transmit(
        &mut self,
        peer: PeerId,
        head: &HeadBuf,
        payload: Region,
        token: Token,
    ) -> Transmitted;

    /// Whether the process of a peer takes in what it is sent, now, and a payload of so many bytes had
    /// better go with its packet then: it is read while it is written, or soon after. A hint, which
    /// takes some microseconds at most; no, where nothing is known.
    fn is_looking(&mut self, peer: PeerId, bytes: u64) -> bool;

    /// The user that the process of `peer` belongs to, as far as the rail has
    /// made sure of it. In a world of one user that is user zero.
    fn uid(&self, peer: PeerId) -> u32;
}
