//! Cooperative rendezvous: both sides copy, each the chunks that it claims. The chunk
//! claims are in the receiver's memory.
//!
//! The receiver begins when the message has met its receive. If the sender does
//! not write already because of an RTR (`speculative`), a CTS invites it
//! (`sender`); without a credit for that the message waits for a while (`invitations`). A sender that looks too
//! late finds no chunk left, and has done nothing. Whoever comes second in the library only helps the other; nobody waits
//! for anybody but for chunks that are being copied.
//!
//! If the sender took every chunk, both sides see that, the sender is done at
//! once, and no get-done follows. Else a get-done ends the sender's part, at once
//! if that has not had its turn. A side whose copying fails leaves the rest to the
//! receiver, which then moves the message as if there were no chunk claims.

use super::ability::{able_with, open_claims, revoke, shared};
use super::moved::Moved;
use super::pull::BulkMethod;
use super::pulls::Pulls;
use crate::api::Failure;
use crate::core::Core;
use crate::portal::wants_delivery;
use crate::recvs::Recvs;
use crate::request::RecvOp;
use crate::selection::Protocol;
use sluice_link::mutants::{self, Mutant};
use sluice_link::{ClaimsStart, PeerError, Port, RailError, Remote, Rights, SharedCopy};
use sluice_portals::Handle;
use sluice_wire::{Cts, Packet, PeerId, Region};

/// What came of an invitation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Invited {
    Yes,
    /// It waits for a credit to say it by.
    NotNow,
    /// The sender has no part in it.
    No,
}

impl Pulls {
    /// Begins to move a message: its sender is invited to take part, or to do it, if it can. Else
    /// this process moves it, unless it waits for a credit to invite by.
    pub(super) fn invite_or_fetch<P: Port>(
        &mut self,
        core: &mut Core,
        recvs: &mut Recvs,
        port: &mut P,
        handle: Handle<RecvOp>,
    ) {
        let Some(pull) = recvs.pull_mut(handle) else { return };
        let peer = pull.event.peer;
        let is_next = !self.invitations.waits(peer);
        match self.invite(core, recvs, port, handle, is_next) {
            Invited::Yes => {}
            Invited::NotNow => self.invitations.wait(peer, handle, core.now),
            Invited::No => self.fetch(core, recvs, port, handle),
        }
    }

    /// A credit of a sender's is here, a transfer has ended, or patience has: what waits for that goes on.
    pub fn go_on_inviting<P: Port>(
        &mut self,
        core: &mut Core,
        recvs: &mut Recvs,
        port: &mut P,
        peer: PeerId,
    ) {
        while let Some(handle) = self.invitations.first(peer) {
            match self.invite(core, recvs, port, handle, true) {
                Invited::Yes => {
                    self.invitations.leave(peer);
                    self.invitations.note_invited(peer, core.now);
                }
                Invited::NotNow => return,
                Invited::No => {
                    self.invitations.leave(peer);
                    self.fetch(core, recvs, port, handle);
                }
            }
        }
    }

    /// Moves what has waited too long.
    pub fn end_patience<P: Port>(&mut self, core: &mut Core, recvs: &mut Recvs, port: &mut P) {
        while let Some(peer) = self.invitations.due(core.now) {
            self.go_on_inviting(core, recvs, port, peer);
        }
    }

    /// Invites the sender of a message, which is the next one of those that wait, or has to wait behind them.
    fn invite<P: Port>(
        &mut self,
        core: &mut Core,
        recvs: &mut Recvs,
        port: &mut P,
        handle: Handle<RecvOp>,
        is_next: bool,
    ) -> Invited {
        let Some((buf, pull)) = recvs.pulling(handle) else { return Invited::No };
        let (peer, key, want) = (pull.event.peer, pull.key, pull.want);
        let table = core.config.table();
        let mut able = able_with(port, peer, true);
        let mut method = table.way(want, able);
        let mut claims = None;
        if method == Protocol::Cooperative {
            let has_credit = core.ni.has_control_credit(peer);
            if !(is_next && has_credit) && self.invitations.may_wait(peer, core.now) {
                return Invited::NotNow;
            }
            if !has_credit {
                return Invited::No;
            }
            claims = open_claims(port, peer, ClaimsStart::Used);
            // They may be used up.
            able.chunk_claims = claims.is_some();
            method = table.way(want, able);
        }
        if !matches!(method, Protocol::Cooperative | Protocol::Put) {
            return Invited::No;
        }
        let into = port.expose(peer, buf.truncated(want), Rights::WRITE);
        let cts = Cts {
            key,
            into,
            len: want,
            op: handle.to_u64(),
            claims: claims.map(|claims| claims.0),
        };
        if core.ni.tell(port, peer, &Packet::Cts(cts)).is_err() {
            if let Some(claims) = claims {
                shared(port).close_claims(claims);
            }
            revoke(port, peer, into);
            return Invited::No;
        }
        pull.into = into;
        match claims {
            Some(claims) => {
                pull.method = BulkMethod::Shared(claims);
                self.read_shared(recvs, port, handle);
            }
            None => Pulls::await_written(recvs, handle),
        }
        Invited::Yes
    }

    /// Takes part, as the receiver.
    pub(super) fn read_shared<P: Port>(
        &mut self,
        recvs: &mut Recvs,
        port: &mut P,
        handle: Handle<RecvOp>,
    ) {
        let Some((buf, pull)) = recvs.pulling(handle) else { return };
        let BulkMethod::Shared(claims) = pull.method else { return };
        (pull.asked, pull.in_flight) = (pull.want, 1);
        self.invitations.begin(pull.event.peer);
        let to = Region { addr: buf.addr, len: pull.want };
        let token = Moved::Recv(handle).token();
        let from = Remote::whole(pull.from);
        shared(port).read_shared(pull.event.peer, claims, from, to, token);
    }

    /// A shared transfer to this process has ended. Others may have waited for that.
    pub fn on_read_shared<P: Port>(
        &mut self,
        core: &mut Core,
        recvs: &mut Recvs,
        port: &mut P,
        handle: Handle<RecvOp>,
        outcome: Result<(), RailError>,
    ) {
        let Some(pull) = recvs.pull_mut(handle) else { return };
        let BulkMethod::Shared(claims) = pull.method else { return };
        let peer = pull.event.peer;
        pull.in_flight = 0;
        self.invitations.end(peer);
        match outcome {
            Ok(()) => {
                pull.got = pull.want;
                pull.sender_knows =
                    !wants_delivery(&pull.event) && shared(port).was_written_alone(None, claims);
            }
            Err(RailError::PeerGone) => {
                pull.failure.get_or_insert(Failure::PeerGone { peer, why: PeerError::Dead });
            }
            Err(RailError::Fault) => {
                pull.failure.get_or_insert(Failure::Fault);
            }
            Err(RailError::Shared | RailError::Forbidden) => {
                shared(port).close_claims(claims);
                pull.method = BulkMethod::Asked;
                pull.asked = 0;
            }
        }
        if pull.method == BulkMethod::Asked && pull.failure.is_none() {
            self.fetch(core, recvs, port, handle);
        } else {
            self.finish(core, recvs, port, handle);
        }
        if !mutants::is(Mutant::LeavesOthersUninvited) {
            self.go_on_inviting(core, recvs, port, peer);
        }
    }
}
