//! Shared copying: one transfer whose chunks both sides copy.

use super::{Remote, Token};
use sluice_wire::{PeerId, Region};
use std::num::NonZeroU32;

/// Names a tally of a process: the shared count of the chunks of one transfer
/// that two processes may copy together. Never zero, and not used again soon
/// after it was closed.
///
/// Its owner, the receiver, opens it for one peer. It begins *free* or *used*. A
/// free one is used by the peer ([`SharedCopy::use_tally`]) or closed by its owner
/// ([`SharedCopy::revoke_tally`]), whichever comes first: exactly one of the two
/// succeeds. Once used, each chunk is taken from it by one side and copied by
/// that side ([`SharedCopy::read_shared`], [`SharedCopy::write_shared`]).
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

/// Transfers that both processes copy together.
pub trait SharedCopy {
    /// Opens a tally for one transfer from `peer`, which has been connected, to
    /// this process. `None`: there is none to be had, or the rail knows no such
    /// thing.
    fn open_tally(&mut self, peer: PeerId, start: TallyStart) -> Option<Tally>;

    /// Closes a tally of this process if it is still free. False if the peer
    /// has used it.
    fn revoke_tally(&mut self, tally: Tally) -> bool;

    /// Closes a tally of this process, which no [`SharedCopy::read_shared`] under way
    /// names. The peer cannot use it any more.
    fn close_tally(&mut self, tally: Tally);

    /// Uses a free tally of `peer`. False if it is used or closed already.
    fn use_tally(&mut self, peer: PeerId, tally: Tally) -> bool;

    /// Whether a tally of `peer` is closed.
    fn is_tally_closed(&mut self, peer: PeerId, tally: Tally) -> bool;

    /// Whether the peer has copied all of a transfer of `len` bytes before this
    /// process took a chunk of it. `tally` is this process's, and used. Then
    /// nothing is left for [`SharedCopy::read_shared`] to do.
    fn is_written(&mut self, tally: Tally, len: u64) -> bool;

    /// Starts to move `to.len` bytes at `from` in the memory of `peer` into `to`
    /// together with the peer: each side copies the chunks that it takes from
    /// `tally`, which is this process's, and used. Ends with
    /// [`Machine::on_moved`](super::Machine::on_moved) when all bytes are here, whoever copied them; also
    /// when the peer dies.
    fn read_shared(&mut self, peer: PeerId, tally: Tally, from: Remote, to: Region, token: Token);

    /// The other side of [`SharedCopy::read_shared`]: `tally` is of `peer`, `from` is
    /// here and `to` there. Ends with [`Machine::on_moved`](super::Machine::on_moved) when no chunk is left
    /// to be taken and none that this side took is under way; at once if the
    /// tally is closed by now; or by [`SharedCopy::leave_shared`].
    fn write_shared(&mut self, peer: PeerId, tally: Tally, from: Region, to: Remote, token: Token);

    /// Ends this process's part in a [`SharedCopy::write_shared`] now, because its
    /// receiver is done with the message. True if that could be done at once: its
    /// end is not told then. False if it will be told.
    fn leave_shared(&mut self, token: Token) -> bool;

    /// Whether the shared transfer whose end is being told was copied by the
    /// writing side alone. Only within [`Machine::on_moved`](super::Machine::on_moved). `peer` owns the tally,
    /// or this process if it is `None`. Each side knows the answer from the chunks
    /// that it took itself, all of them or none; so both get the same one, though
    /// the tally may be closed by now.
    fn was_written_alone(&mut self, peer: Option<PeerId>, tally: Tally) -> bool;
}

/// The [`SharedCopy`] of a port that has none: there is no such value.
#[derive(Debug)]
pub enum NoShared {}

impl SharedCopy for NoShared {
    fn open_tally(&mut self, _: PeerId, _: TallyStart) -> Option<Tally> {
        match *self {}
    }

    fn revoke_tally(&mut self, _: Tally) -> bool {
        match *self {}
    }

    fn close_tally(&mut self, _: Tally) {
        match *self {}
    }

    fn use_tally(&mut self, _: PeerId, _: Tally) -> bool {
        match *self {}
    }

    fn is_tally_closed(&mut self, _: PeerId, _: Tally) -> bool {
        match *self {}
    }

    fn is_written(&mut self, _: Tally, _: u64) -> bool {
        match *self {}
    }

    fn read_shared(&mut self, _: PeerId, _: Tally, _: Remote, _: Region, _: Token) {
        match *self {}
    }

    fn write_shared(&mut self, _: PeerId, _: Tally, _: Region, _: Remote, _: Token) {
        match *self {}
    }

    fn leave_shared(&mut self, _: Token) -> bool {
        match *self {}
    }

    fn was_written_alone(&mut self, _: Option<PeerId>, _: Tally) -> bool {
        match *self {}
    }
}
