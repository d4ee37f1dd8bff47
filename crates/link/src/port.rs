//! The seam between the machines and a world.
//!
//! A machine (`portals`, `proto`) is driven by a world (`rail`, `sim`): the
//! world calls a [`Machine`] with what arrived, and the machine asks the world
//! for what it wants done through a [`Port`]. Both sides are statically
//! dispatched, so the fast path is straight code without a queue in between
//! (`docs/decisions/0002-outputs-are-calls.md`).
//!
//! Contract: a port never calls back into the machine from inside one of its
//! methods. What a request leads to arrives later as an input. Machines handle
//! descriptors ([`Addr`], [`Region`]); only a port touches the bytes.

use crate::quota::Grant;
use sluice_wire::{Addr, HeadBuf, Nanos, Parsed, PeerId, Region};
use std::num::NonZeroU32;

/// Names a request to a port until the port has reported its end. Chosen by
/// the machine; the port only hands it back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Token(pub u64);

/// What became of a packet given to [`Port::transmit`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transmitted {
    /// Written; the payload's memory may be reused at once.
    Done,
    /// Accepted; the memory is in use until [`Machine::on_transmitted`].
    Pending,
}

/// Names a tally of a process: the shared count of the chunks of one transfer
/// that two processes may copy together. Never zero, and not used again soon
/// after it was closed.
///
/// Its owner, the receiver, opens it for one peer. It begins *free* or *used*. A
/// free one is used by the peer ([`Port::use_tally`]) or closed by its owner
/// ([`Port::revoke_tally`]), whichever comes first: exactly one of the two
/// succeeds. Once used, each chunk is taken from it by one side and copied by
/// that side ([`Port::read_shared`], [`Port::write_shared`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Tally(pub NonZeroU32);

/// How a tally begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TallyStart {
    /// The peer has to use it before anything moves.
    Free,
    /// Both sides know which message it is for.
    Used,
}

/// Why a rail could not move bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RailError {
    /// The system does not allow it; the port will not offer it again
    /// ([`Port::can_read`] is false from now on).
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

/// Why a peer cannot be spoken to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PeerError {
    /// The process has ended.
    #[error("the process has ended")]
    Dead,
    /// Its mailbox could not be opened.
    #[error("its mailbox could not be opened")]
    Unreachable,
    /// Its mailbox has no room for another sender.
    #[error("its mailbox has no room for another sender; raise FI_SLUICE_PEERS_MAX there")]
    Full,
    /// It broke the protocol.
    #[error("it broke the protocol")]
    Protocol,
    /// Memory that it shares with this process was overwritten, so what it has
    /// sent cannot be told from garbage.
    #[error("memory shared with it was overwritten")]
    Damaged,
}

/// What a machine may ask of the world.
pub trait Port {
    /// Opens the way to `peer`, if it is not open yet, and says what its
    /// mailbox grants to this process.
    ///
    /// # Errors
    /// Why the peer cannot be reached. The machine fails the operation that asked;
    /// if it is the peer's end, [`Machine::on_peer_gone`] follows for all others.
    fn connect(&mut self, peer: PeerId) -> Result<Grant, PeerError>;

    /// Asks for the end of `peer`: it is told by [`Machine::on_peer_gone`], also if it
    /// has come already. A world need not watch a peer that was neither connected
    /// nor asked for here and has sent nothing; one that tells of every end has
    /// nothing to do.
    fn watch(&mut self, _peer: PeerId) {}

    /// Slots of the dynamic region of the mailbox of `peer`, which has been
    /// connected: beyond its [`Grant`] a sender may get as many credits as there
    /// are. Zero: that mailbox is divided once and for all.
    fn dynamic_slots(&self, _peer: PeerId) -> u32 {
        0
    }

    /// Writes one packet, `head` then the bytes of `payload`, into the mailbox
    /// of `peer`, which has been connected. Credits guarantee the room. A peer
    /// that has died swallows it; [`Machine::on_peer_gone`] follows.
    fn transmit(
        &mut self,
        peer: PeerId,
        head: &HeadBuf,
        payload: Region,
        token: Token,
    ) -> Transmitted;

    /// Copies `len` payload bytes of the packet being handled, from `offset`
    /// within the payload, to `to`. Only within [`Machine::on_packet`].
    fn copy_payload(&mut self, offset: u32, to: Addr, len: u32);

    /// Copies within this process. The regions do not overlap.
    fn copy(&mut self, from: Addr, to: Addr, len: u64);

    /// Lends `len` bytes, never zero, for a message that arrived unexpected or
    /// an injected one that waits, to be returned by [`Port::give_back`].
    /// Credits bound what is lent for the former, a limit of the machine's what
    /// is lent for the latter.
    fn lend(&mut self, len: u32) -> Addr;

    /// Returns what [`Port::lend`] lent.
    fn give_back(&mut self, addr: Addr, len: u32);

    /// Whether [`Port::read_remote`] can reach the memory of `peer`.
    fn can_read(&self, peer: PeerId) -> bool;

    /// Starts to read `to.len` bytes at `from` in the memory of `peer` into
    /// `to`. Ends with [`Machine::on_moved`], also when the peer dies.
    fn read_remote(&mut self, peer: PeerId, from: Addr, to: Region, token: Token);

    /// Whether [`Port::write_remote`] can reach the memory of `peer`.
    fn can_write(&self, peer: PeerId) -> bool;

    /// Starts to write the bytes of `from` to `to` in the memory of `peer`.
    /// Ends with [`Machine::on_moved`], also when the peer dies.
    fn write_remote(&mut self, peer: PeerId, from: Region, to: Addr, token: Token);

    /// Opens a tally for one transfer from `peer`, which has been connected, to
    /// this process. `None`: there is none to be had, or the rail knows no such
    /// thing.
    fn open_tally(&mut self, _peer: PeerId, _start: TallyStart) -> Option<Tally> {
        None
    }

    /// Closes a tally of this process if it is still free. False if the peer
    /// has used it.
    fn revoke_tally(&mut self, _tally: Tally) -> bool {
        false
    }

    /// Closes a tally of this process, which no [`Port::read_shared`] under way
    /// names. The peer cannot use it any more.
    fn close_tally(&mut self, _tally: Tally) {}

    /// Uses a free tally of `peer`. False if it is used or closed already.
    fn use_tally(&mut self, _peer: PeerId, _tally: Tally) -> bool {
        false
    }

    /// Whether a tally of `peer` is closed.
    fn is_tally_closed(&self, _peer: PeerId, _tally: Tally) -> bool {
        true
    }

    /// Whether the peer has copied all of a transfer of `len` bytes before this
    /// process took a chunk of it. `tally` is this process's, and used. Then
    /// nothing is left for [`Port::read_shared`] to do.
    fn is_written(&mut self, _tally: Tally, _len: u64) -> bool {
        false
    }

    /// Starts to move `to.len` bytes at `from` in the memory of `peer` into `to`
    /// together with the peer: each side copies the chunks that it takes from
    /// `tally`, which is this process's, and used. Ends with
    /// [`Machine::on_moved`] when all bytes are here, whoever copied them; also
    /// when the peer dies.
    fn read_shared(&mut self, peer: PeerId, tally: Tally, from: Addr, to: Region, token: Token) {
        let _ = tally;
        self.read_remote(peer, from, to, token);
    }

    /// The other side of [`Port::read_shared`]: `tally` is of `peer`, `from` is
    /// here and `to` there. Ends with [`Machine::on_moved`] when no chunk is left
    /// to be taken and none that this side took is under way; at once if the
    /// tally is closed by now; or by [`Port::leave_shared`].
    fn write_shared(&mut self, peer: PeerId, tally: Tally, from: Region, to: Addr, token: Token) {
        let _ = tally;
        self.write_remote(peer, from, to, token);
    }

    /// Ends this process's part in a [`Port::write_shared`] now, because its
    /// receiver is done with the message. True if that could be done at once: its
    /// end is not told then. False if it will be told.
    fn leave_shared(&mut self, _token: Token) -> bool {
        false
    }

    /// Whether the shared transfer whose end is being told was copied by the
    /// writing side alone. Only within [`Machine::on_moved`]. `peer` owns the tally,
    /// or this process if it is `None`. Each side knows the answer from the chunks
    /// that it took itself, all of them or none; so both get the same one, though
    /// the tally may be closed by now.
    fn was_written_alone(&self, _peer: Option<PeerId>, _tally: Tally) -> bool {
        false
    }

    /// The user that the process of `peer` belongs to, as far as the rail has
    /// made sure of it. In a world of one user that is user zero.
    fn uid(&self, _peer: PeerId) -> u32 {
        0
    }

    /// Whether all bytes of a local region may be read now. A world whose
    /// client vouches for its memory says yes without looking.
    fn readable(&self, region: Region) -> bool;

    /// Whether all bytes of a local region may be written now.
    fn writable(&self, region: Region) -> bool;

    /// Copies local memory into the machine, which needs the values: operands
    /// of atomic operations. The region is readable.
    fn load(&self, from: Addr, into: &mut [u8]);

    /// Copies values of the machine to local memory. The region is writable.
    fn store(&mut self, to: Addr, bytes: &[u8]);

    /// Replaces the `width` bytes (1, 2, 4 or 8, aligned) at `at` by the low
    /// bytes of `new` if they are `old`, in one step for every other thread and
    /// process; else says what they are. The region is writable.
    ///
    /// # Errors
    /// The value found, if it is not `old`.
    fn compare_exchange(&mut self, at: Addr, width: u32, old: u64, new: u64) -> Result<(), u64>;

    /// Copies payload bytes of the packet being handled, from `offset` within
    /// the payload, into the machine. Only within [`Machine::on_packet`].
    fn payload(&self, offset: u32, into: &mut [u8]);
}

/// A machine, as a world drives it.
pub trait Machine {
    /// A packet from `from` has arrived, parsed by the world from a private
    /// copy of its header. Its payload is `packet.payload_len` bytes, reached
    /// through [`Port::copy_payload`] until this call returns.
    fn on_packet<P: Port>(&mut self, now: Nanos, port: &mut P, from: PeerId, packet: &Parsed);

    /// A pending transmission has been written; its memory may be reused.
    fn on_transmitted<P: Port>(&mut self, now: Nanos, port: &mut P, token: Token);

    /// A [`Port::read_remote`] or [`Port::write_remote`] has ended.
    fn on_moved<P: Port>(
        &mut self,
        now: Nanos,
        port: &mut P,
        token: Token,
        outcome: Result<(), RailError>,
    );

    /// `peer` will never answer again. Reported once per peer, after the end
    /// of every read from it, if it was connected or watched or has sent anything.
    fn on_peer_gone<P: Port>(&mut self, now: Nanos, port: &mut P, peer: PeerId, why: PeerError);

    /// The mailbox is empty, or [`Machine::deadline`] has passed: the moment
    /// for what can wait (credit returns, stalled sends).
    fn on_idle<P: Port>(&mut self, now: Nanos, port: &mut P);

    /// When [`Machine::on_idle`] is wanted next even if nothing arrives.
    /// `None`: whenever the mailbox is empty will do.
    fn deadline(&self) -> Option<Nanos>;
}
