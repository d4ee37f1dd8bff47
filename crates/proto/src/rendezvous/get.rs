//! Rendezvous by get: RTS → read → FIN.
//!
//! The sender appends a get entry and announces the message in one slot. The
//! receiver, once matched, reads the bytes: in one go where the rail can read
//! remote memory; else it pulls them, by gets of one chunk each, as many at once as
//! the message's window and the process's budget allow ([`super::window`],
//! [`super::budget`]). A get-done ends it.

use super::budget::Admission;
use super::pulls::Pulls;
use crate::api::Failure;
use crate::core::Core;
use crate::portal::bulk_target;
use crate::recvs::Recvs;
use crate::request::RecvOp;
use sluice_link::Port;
use sluice_link::mutants::{self, Mutant};
use sluice_portals::{Event, Handle, NiFail, PtlError};

/// What came of asking for the next bytes of a pull.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asked {
    /// A chunk; it wants another.
    More,
    /// It wants nothing for now: its window is full, everything has been asked
    /// for, or it has ended.
    Enough,
    /// Nothing: its sender has to give something back first.
    NotNow,
    /// Nothing: there is no room, and the room that comes next is for this one.
    NoRoom,
}

impl Pulls {
    /// The answer to a get of a pull has arrived.
    pub fn on_pulled<P: Port>(
        &mut self,
        core: &mut Core,
        recvs: &mut Recvs,
        port: &mut P,
        event: &Event,
    ) {
        let handle = Handle::from_u64(event.user_ptr);
        let Some(pull) = recvs.pull_mut(handle) else { return };
        pull.in_flight -= 1;
        if !pull.direct {
            pull.window.on_arrived(core.now, event.rlength);
            self.budget.give_back(event.peer, event.rlength);
        }
        match event.outcome {
            Ok(()) if event.mlength == event.rlength => pull.got += event.mlength,
            // A reply shorter than asked: the entry is not what was announced.
            Ok(()) => pull.failure = Some(Failure::of(NiFail::OpViolation, event.peer)),
            Err(NiFail::Forbidden) if pull.direct => {
                // What the rail can do has changed: ask for the bytes instead.
                pull.direct = false;
                pull.asked -= event.rlength;
            }
            Err(fail) => pull.failure = Some(Failure::of(fail, event.peer)),
        }
        let is_all = pull.got == pull.want || mutants::is(Mutant::EndsPullsEarly);
        if pull.in_flight == 0 && (is_all || pull.failure.is_some()) {
            self.finish(core, recvs, port, handle);
        } else {
            self.go_on(core, recvs, port, handle);
        }
        self.flush(core, recvs, port);
    }

    /// Fetches the bytes of an announced message: directly, or chunk by chunk when
    /// its turns come.
    pub(super) fn fetch<P: Port>(
        &mut self,
        core: &mut Core,
        recvs: &mut Recvs,
        port: &mut P,
        handle: Handle<RecvOp>,
    ) {
        self.go_on(core, recvs, port, handle);
        self.flush(core, recvs, port);
    }

    /// Asks for what can be read directly, or waits for a turn to ask for a chunk.
    fn go_on<P: Port>(
        &mut self,
        core: &mut Core,
        recvs: &mut Recvs,
        port: &mut P,
        handle: Handle<RecvOp>,
    ) {
        let Some(pull) = recvs.pull_mut(handle) else { return };
        // A direct read has no part in the budget, and need not wait for a turn.
        let is_direct = pull.direct && port.caps(pull.event.peer).read;
        if !is_direct || self.ask(core, recvs, port, handle) != Asked::Enough {
            self.await_turn(recvs, handle);
        }
    }

    /// Asks for what room and credits allow, the pulls in turn, and says what
    /// waited.
    #[inline(always)]
    pub fn flush<P: Port>(&mut self, core: &mut Core, recvs: &mut Recvs, port: &mut P) {
        if self.budget.senders_waiting() > 0 || !self.fins.is_empty() {
            self.flush_waiting(core, recvs, port);
        }
    }

    #[inline(never)]
    fn flush_waiting<P: Port>(&mut self, core: &mut Core, recvs: &mut Recvs, port: &mut P) {
        self.fins.flush(core, port);
        let mut passes = 0;
        while passes < self.budget.senders_waiting() {
            let Some(handle) = self.budget.next() else { return };
            match self.ask(core, recvs, port, handle) {
                asked @ (Asked::More | Asked::Enough) => {
                    // One that has ended has left by itself.
                    if self.budget.next() == Some(handle) {
                        let stays = asked == Asked::More;
                        self.budget.end_turn(stays);
                        if let Some(pull) = recvs.pull_mut(handle) {
                            pull.awaits_turn = stays;
                        }
                    }
                    passes = 0;
                }
                Asked::NotNow => {
                    self.budget.pass();
                    passes += 1;
                }
                Asked::NoRoom => return,
            }
        }
    }

    /// A pull that has something to ask for waits for its turn.
    fn await_turn(&mut self, recvs: &mut Recvs, handle: Handle<RecvOp>) {
        let Some(pull) = recvs.pull_mut(handle) else { return };
        if pull.asked < pull.want && pull.failure.is_none() && !pull.awaits_turn {
            pull.awaits_turn = true;
            self.budget.join(pull.event.peer, handle);
        }
    }

    /// Asks for the next bytes of a pull that go to one region: all of them directly, or one
    /// chunk.
    fn ask<P: Port>(
        &mut self,
        core: &mut Core,
        recvs: &mut Recvs,
        port: &mut P,
        handle: Handle<RecvOp>,
    ) -> Asked {
        if core.peers.any_gone() && self.fail_if_gone(core, recvs, port, handle) {
            return Asked::Enough;
        }
        let Some((place, pull)) = recvs.next_place(handle) else { return Asked::Enough };
        if pull.asked >= pull.want || pull.failure.is_some() {
            return Asked::Enough;
        }
        let peer = pull.event.peer;
        pull.direct = pull.direct && port.caps(peer).read;
        let length = if pull.direct { place.len } else { pull.window.chunk(place.len) };
        if !pull.direct {
            if !pull.window.has_room(length) {
                return Asked::Enough;
            }
            match self.budget.admission(peer, length) {
                Admission::Granted if core.ni.has_reply_room(length) => {}
                Admission::HasShare => return Asked::NotNow,
                Admission::Granted | Admission::NoRoom => return Asked::NoRoom,
            }
        }
        let target = bulk_target(peer, pull.key, pull.asked);
        let from = pull.direct.then_some(pull.from);
        match core.ni.get(port, core.md, place.addr.0, length, &target, from, handle.to_u64()) {
            Ok(()) => {
                if !mutants::is_now(Mutant::AsksForAChunkTwice) {
                    pull.asked += length;
                }
                pull.in_flight += 1;
                if !pull.direct {
                    pull.window.on_asked(core.now, length);
                    self.budget.spend(peer, length);
                }
                // Of several direct reads one goes at a time: what follows a refusal is known.
                let has_more = pull.asked < pull.want && !pull.direct;
                return if has_more { Asked::More } else { Asked::Enough };
            }
            Err(PtlError::NoCredit { .. }) => return Asked::NotNow,
            Err(PtlError::NoSpace(_)) => return Asked::NoRoom,
            Err(PtlError::Peer(why)) => pull.failure = Some(Failure::PeerGone { peer, why }),
            // Memory that runs past the end of the address space.
            Err(_) => pull.failure = Some(Failure::Fault),
        }
        if pull.in_flight == 0 {
            self.finish(core, recvs, port, handle);
        }
        Asked::Enough
    }

    /// Nothing more is asked of a peer that is gone. True if the peer is.
    #[cold]
    fn fail_if_gone<P: Port>(
        &mut self,
        core: &mut Core,
        recvs: &mut Recvs,
        port: &mut P,
        handle: Handle<RecvOp>,
    ) -> bool {
        let Some(pull) = recvs.pull_mut(handle) else { return false };
        let peer = pull.event.peer;
        let Some(why) = core.peers.gone(peer) else { return false };
        pull.failure.get_or_insert(Failure::PeerGone { peer, why });
        if pull.in_flight == 0 {
            self.finish(core, recvs, port, handle);
        }
        true
    }
}
