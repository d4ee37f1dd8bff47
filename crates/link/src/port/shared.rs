//! Shared copying: one transfer whose chunks both sides copy.

use super::{Remote, Token};
use sluice_wire::{PeerId, Region};
use std::num::NonZeroU32;

/// Names chunk claims of a process: the shared word that records who has claimed which
/// chunks of one transfer that two processes may copy together. Never zero, and not
/// used again soon after the claims were closed.
///
/// Their owner, the receiver, opens them for one peer. They begin *free* or *used*.
/// Free ones are used by the peer ([`SharedCopy::use_claims`]) or closed by their owner
/// ([`SharedCopy::revoke_claims`]), whichever comes first: exactly one of the two
/// succeeds. Once they are used, each chunk is claimed by one side and copied by
/// that side ([`SharedCopy::read_shared`], [`SharedCopy::write_shared`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ClaimsId(pub NonZeroU32);

/// How chunk claims begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClaimsStart {
    /// The peer has to use them before anything moves.
    Free,
    /// Both sides know which message they are for.
    Used,
}

/// Transfers that both processes copy together.
pub trait SharedCopy {
    /// Opens chunk claims for one transfer from `peer`, which has been connected, to
    /// this process. `None`: there are none to be had, or the rail knows no such
    /// thing.
    fn open_claims(&mut self, peer: PeerId, start: ClaimsStart) -> Option<ClaimsId>;

    /// Closes chunk claims of this process if they are still free. False if the peer
    /// has used them.
    fn revoke_claims(&mut self, claims: ClaimsId) -> bool;

    /// Closes chunk claims of this process, which no [`SharedCopy::read_shared`] under
    /// way names. The peer cannot use them any more.
    fn close_claims(&mut self, claims: ClaimsId);

    /// Uses free chunk claims of `peer`. False if they are used or closed already.
    fn use_claims(&mut self, peer: PeerId, claims: ClaimsId) -> bool;

    /// Whether chunk claims of `peer` are closed.
    fn are_claims_closed(&mut self, peer: PeerId, claims: ClaimsId) -> bool;

    /// Whether the peer has copied all of a transfer of `len` bytes before this
    /// process took a chunk of it. `claims` are this process's, and used. Then
    /// nothing is left for [`SharedCopy::read_shared`] to do.
    fn is_written(&mut self, claims: ClaimsId, len: u64) -> bool;

    /// Starts to move `to.len` bytes at `from` in the memory of `peer` into `to`
    /// together with the peer: each side copies the chunks that it takes by
    /// `claims`, which are this process's, and used. Ends with
    /// [`Machine::on_moved`](super::Machine::on_moved) when all bytes are here, whoever
    /// copied them; also when the peer dies.
    fn read_shared(
        &mut self,
        peer: PeerId,
        claims: ClaimsId,
        from: Remote,
        to: Region,
        token: Token,
    );

    /// The other side of [`SharedCopy::read_shared`]: `claims` are of `peer`, `from` is
    /// here and `to` there. Ends with [`Machine::on_moved`](super::Machine::on_moved) when
    /// no chunk is left to be taken and none that this side took is under way; at once if
    /// the claims are closed by now; or by [`SharedCopy::leave_shared`].
    fn write_shared(
        &mut self,
        peer: PeerId,
        claims: ClaimsId,
        from: Region,
        to: Remote,
        token: Token,
    );

    /// Ends this process's part in a [`SharedCopy::write_shared`] now, because its
    /// receiver is done with the message. True if that could be done at once: its
    /// end is not told then. False if it will be told.
    fn leave_shared(&mut self, token: Token) -> bool;

    /// Whether the shared transfer whose end is being told was copied by the
    /// writing side alone. Only within [`Machine::on_moved`](super::Machine::on_moved).
    /// `peer` owns the claims, or this process if it is `None`. Each side knows the answer
    /// from the chunks that it took itself, all of them or none; so both get the same one,
    /// though the claims may be closed by now. Taken is not placed: at its end the writing side
    /// may have handed over what the other one has still to copy.
    fn was_written_alone(&mut self, peer: Option<PeerId>, claims: ClaimsId) -> bool;
}

/// The [`SharedCopy`] of a port that has none: there is no such value.
#[derive(Debug)]
pub enum NoShared {}

impl SharedCopy for NoShared {
    fn open_claims(&mut self, _: PeerId, _: ClaimsStart) -> Option<ClaimsId> {
        match *self {}
    }

    fn revoke_claims(&mut self, _: ClaimsId) -> bool {
        match *self {}
    }

    fn close_claims(&mut self, _: ClaimsId) {
        match *self {}
    }

    fn use_claims(&mut self, _: PeerId, _: ClaimsId) -> bool {
        match *self {}
    }

    fn are_claims_closed(&mut self, _: PeerId, _: ClaimsId) -> bool {
        match *self {}
    }

    fn is_written(&mut self, _: ClaimsId, _: u64) -> bool {
        match *self {}
    }

    fn read_shared(&mut self, _: PeerId, _: ClaimsId, _: Remote, _: Region, _: Token) {
        match *self {}
    }

    fn write_shared(&mut self, _: PeerId, _: ClaimsId, _: Region, _: Remote, _: Token) {
        match *self {}
    }

    fn leave_shared(&mut self, _: Token) -> bool {
        match *self {}
    }

    fn was_written_alone(&mut self, _: Option<PeerId>, _: ClaimsId) -> bool {
        match *self {}
    }
}
