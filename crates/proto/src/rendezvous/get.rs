//! Rendezvous by get: RTS → read → FIN.
//!
//! The sender appends a get entry and announces the message in one slot. The
//! receiver, once matched, reads the bytes: in one go where the rail can read
//! remote memory, else by gets of one chunk each, as many at once as its reply
//! region holds, the pulls of several messages in turn. A get-done ends it.

use crate::api::{Failure, Recv};
use crate::endpoint::{Endpoint, PT_BULK, RecvOp, RecvState};
use sluice_link::Port;
use sluice_portals::{Event, Handle, NiFail, PtlError, Target};

impl Endpoint {
    /// The answer to a get of a pull has arrived.
    pub(crate) fn on_pulled<P: Port>(&mut self, port: &mut P, event: &Event) {
        let handle = Handle::from_u64(event.user_ptr);
        let Some(op) = self.recvs.get_mut(handle) else { return };
        let RecvState::Pulling(pull) = &mut op.state else { return };
        pull.in_flight -= 1;
        match event.outcome {
            Ok(()) if event.mlength == event.rlength => pull.got += event.mlength,
            // A reply shorter than asked: the entry is not what was announced.
            Ok(()) => pull.failure = Some(Failure::of(NiFail::OpViolation, event.peer)),
            Err(NiFail::Forbidden) => {
                // What the rail can do has changed: ask for the bytes instead.
                pull.direct = false;
                pull.asked -= event.rlength;
            }
            Err(fail) => pull.failure = Some(Failure::of(fail, event.peer)),
        }
        let ended = pull.in_flight == 0 && (pull.got == pull.want || pull.failure.is_some());
        let more = pull.asked < pull.want && pull.failure.is_none();
        if ended {
            self.finish_pull(port, handle);
        } else if more && !self.pulls.contains(&handle) {
            self.pulls.push_back(handle);
        }
        self.flush_pulls(port);
    }

    /// Asks for what room and credits allow, the pulls in turn, and says what
    /// waited.
    #[inline]
    pub(crate) fn flush_pulls<P: Port>(&mut self, port: &mut P) {
        self.flush_fins(port);
        let mut idle_turns = 0;
        while idle_turns < self.pulls.len() {
            let Some(handle) = self.pulls.pop_front() else { return };
            let before = self.asked(handle);
            if !self.ask(port, handle) {
                self.pulls.push_back(handle);
                // Every pull has its turn before one that got nothing has
                // another.
                idle_turns = if self.asked(handle) == before { idle_turns + 1 } else { 0 };
            }
        }
    }

    fn asked(&self, handle: Handle<RecvOp>) -> u64 {
        match self.recvs.get(handle).map(|op| &op.state) {
            Some(RecvState::Pulling(pull)) => pull.asked,
            _ => 0,
        }
    }

    /// Asks for the next bytes of a pull: all of them directly, or one chunk.
    /// True if everything has been asked for.
    pub(super) fn ask<P: Port>(&mut self, port: &mut P, handle: Handle<RecvOp>) -> bool {
        let chunk_max = self.ni.get_bytes_max();
        if self.any_gone && self.fail_if_gone(port, handle) {
            return true;
        }
        let Some(op) = self.recvs.get_mut(handle) else { return true };
        let recv: Recv = op.recv;
        let RecvState::Pulling(pull) = &mut op.state else { return true };
        if pull.asked >= pull.want || pull.failure.is_some() {
            return true;
        }
        let peer = pull.event.peer;
        pull.direct = pull.direct && port.can_read(peer);
        let left = pull.want - pull.asked;
        let length = if pull.direct { left } else { left.min(chunk_max) };
        let target =
            Target { peer, pt_index: PT_BULK, match_bits: pull.key, remote_offset: pull.asked };
        let from = pull.direct.then_some(pull.from);
        let into = recv.buf.addr.offset(pull.asked);
        match self.ni.get(port, self.md, into.0, length, &target, from, handle.to_u64()) {
            Ok(()) => {
                pull.asked += length;
                pull.in_flight += 1;
                pull.asked >= pull.want
            }
            Err(PtlError::Peer(why)) => {
                pull.failure = Some(Failure::PeerGone { peer, why });
                if pull.in_flight == 0 {
                    self.finish_pull(port, handle);
                }
                true
            }
            Err(_) => false,
        }
    }

    /// Nothing more is asked of a peer that is gone. True if the peer is.
    #[cold]
    fn fail_if_gone<P: Port>(&mut self, port: &mut P, handle: Handle<RecvOp>) -> bool {
        let Some(RecvState::Pulling(pull)) = self.recvs.get(handle).map(|op| &op.state) else {
            return false;
        };
        let peer = pull.event.peer;
        let Some(why) = self.gone(peer) else { return false };
        let Some(op) = self.recvs.get_mut(handle) else { return true };
        let RecvState::Pulling(pull) = &mut op.state else { return true };
        pull.failure.get_or_insert(Failure::PeerGone { peer, why });
        if pull.in_flight == 0 {
            self.finish_pull(port, handle);
        }
        true
    }
}
