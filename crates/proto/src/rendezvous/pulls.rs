//! The announced messages that are on their way to this process: what they share,
//! and their end.

use super::ability::{revoke, shared};
use super::budget::Budget;
use super::fins::{Fin, Fins};
use super::invitations::Invitations;
use super::pull::{BulkMethod, Pull};
use crate::api::{Completion, Failure, Recv};
use crate::completion::Met;
use crate::core::Core;
use crate::recvs::Recvs;
use crate::request::{RecvOp, RecvState};
use sluice_link::{PeerError, Port, SharedCopy};
use sluice_portals::Handle;
use sluice_wire::{Nanos, PeerId, Status};

/// See the module. The pulls themselves are states of receives.
#[derive(Debug)]
pub(crate) struct Pulls {
    /// Receives with chunks that are still to be asked for, and what is in flight.
    pub(super) budget: Budget,
    /// What is to be said of transfers and waits for a control credit.
    pub fins: Fins,
    /// Transfers that both sides copy, and messages whose senders are still to be invited.
    pub(super) invitations: Invitations,
}

impl Pulls {
    /// Pulls that have at most so many bytes of chunks in flight.
    pub fn new(bytes_max: u64) -> Pulls {
        Pulls {
            budget: Budget::new(bytes_max),
            fins: Fins::default(),
            invitations: Invitations::default(),
        }
    }

    /// Bytes of chunks that were asked for and have not come.
    pub fn bytes_now(&self) -> u64 {
        self.budget.bytes_now()
    }

    /// How many senders have transfers that wait for their turn.
    pub fn senders_waiting(&self) -> u64 {
        self.budget.senders_waiting() as u64
    }

    /// When messages have waited long enough for a credit to invite their sender by.
    pub fn deadline(&self) -> Option<Nanos> {
        self.invitations.deadline()
    }

    /// The most that there ever were.
    pub fn bytes_peak(&self) -> u64 {
        self.budget.bytes_peak()
    }

    /// A pull of which nothing is under way has ended.
    pub(super) fn finish<P: Port>(
        &mut self,
        core: &mut Core,
        recvs: &mut Recvs,
        port: &mut P,
        handle: Handle<RecvOp>,
    ) {
        let Some(op) = recvs.remove(handle) else { return };
        let multi = op.multi();
        let RecvState::Pulling(pull) = op.state else { return };
        if pull.awaits_turn {
            self.budget.leave(pull.event.peer, handle);
        }
        self.end(core, port, &op.recv, &pull);
        if let Some(multi) = multi {
            recvs.multis.message_ended(core, multi);
        }
    }

    /// Nothing of a pull is under way, and its receive is no more.
    pub(super) fn end<P: Port>(&mut self, core: &mut Core, port: &mut P, recv: &Recv, pull: &Pull) {
        if let BulkMethod::Shared(claims) = pull.method {
            shared(port).close_claims(claims);
        }
        revoke(port, pull.event.peer, pull.into);
        let excess = pull.event.rlength - pull.want;
        let outcome = match pull.failure {
            Some(failure) => Err(failure),
            None if excess > 0 => Err(Failure::Truncated { excess }),
            None => Ok(()),
        };
        let status = match pull.failure {
            None => Status::Ok,
            Some(Failure::Fault) => Status::Segv,
            Some(_) => Status::Aborted,
        };
        let peer = pull.event.peer;
        if pull.sender_knows {
            if pull.taken {
                core.peers.note_told(peer);
            }
        } else if core.peers.gone(peer).is_none() {
            let end = Fin::get_done(peer, pull.key, pull.got, status, pull.taken);
            self.fins.say(core, port, end);
        }
        if core.tells(recv.report) || outcome.is_err() {
            core.complete(Completion::of_recv(recv, &Met::of(&pull.event), pull.got, outcome));
        }
    }

    /// Ends the pulls from a peer that is gone. One whose memory the rail is
    /// still reading into ends with that read: until then the buffer is not
    /// the caller's. (A peer that has died has no reads left by now; one that
    /// broke the protocol may.)
    pub fn fail<P: Port>(
        &mut self,
        core: &mut Core,
        recvs: &mut Recvs,
        port: &mut P,
        peer: PeerId,
        why: PeerError,
    ) {
        let doomed = recvs.pulled_from(peer);
        self.budget.forget_waiting(peer);
        self.invitations.forget_waiting(peer);
        for handle in doomed {
            let Some(pull) = recvs.pull_mut(handle) else { continue };
            pull.failure.get_or_insert(Failure::PeerGone { peer, why });
            pull.awaits_turn = false;
            // What the peer was to say it will not say any more.
            if pull.in_flight == 0 || pull.method == BulkMethod::Written {
                self.finish(core, recvs, port, handle);
            }
        }
    }

    /// Panics unless windows, turns, the budget and invitations agree. For tests.
    pub fn check_invariants(&self, core: &Core, recvs: &Recvs) {
        let mut bytes = 0;
        let (mut waiting, mut under_way, mut uninvited) = (0, 0, 0);
        for (_, op) in recvs.iter() {
            let RecvState::Pulling(pull) = &op.state else { continue };
            pull.window.check_invariants();
            bytes += pull.window.bytes_in_flight();
            waiting += usize::from(pull.awaits_turn);
            let is_asked = pull.method == BulkMethod::Asked;
            under_way +=
                usize::from(pull.in_flight > 0 && matches!(pull.method, BulkMethod::Shared(_)));
            let is_idle = pull.in_flight == 0 && pull.got == 0 && !pull.awaits_turn;
            uninvited += usize::from(is_asked && is_idle);
        }
        self.invitations.check_invariants(under_way, uninvited);
        assert!(bytes == self.budget.bytes_now(), "bytes in flight of all pulls");
        assert!(waiting == self.budget.check_invariants(), "each pull that waits has a turn");
        assert!(self.budget.bytes_peak() <= core.config.pull_bytes_max.max(1));
    }
}
