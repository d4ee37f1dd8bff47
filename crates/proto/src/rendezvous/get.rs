//! Rendezvous by get: RTS → read → FIN.
//!
//! The sender appends a get entry and announces the message in one slot. The
//! receiver, once matched, reads the bytes: in one go where the rail can read
//! remote memory, else by gets of one chunk each, as many at once as its reply
//! region holds, the pulls of several messages in turn. A get-done ends it.

use crate::api::{Completion, Failure, Recv, Send};
use crate::endpoint::{Endpoint, PT_BULK, RecvOp, RecvState, SendOp, SendState, USER_HAS_DATA};
use crate::queue::announced_key;
use crate::recv::received;
use crate::send::Started;
use sluice_link::{PeerError, Port};
use sluice_portals::{Event, Handle, NiFail, PtlError, PutExtras, Target};
use sluice_wire::{Addr, MatchBits, PeerId, Rts, Status};

/// An announced message being fetched.
#[derive(Debug)]
pub(crate) struct Pull {
    /// The event that matched it.
    event: Event,
    /// It was taken from the queue of a stalled sender.
    taken: bool,
    /// The sender's get entry.
    key: MatchBits,
    /// Where the bytes are in the sender's memory.
    from: Addr,
    /// Bytes wanted: what fits of what there is.
    want: u64,
    /// Bytes asked for.
    asked: u64,
    /// Bytes arrived.
    got: u64,
    /// Gets that are out.
    in_flight: u32,
    /// Whether the rail may be asked to read directly.
    direct: bool,
    /// What went wrong; the pull ends once nothing is in flight.
    failure: Option<Failure>,
}

/// A get-done that waits for a control credit. There are at most as many as
/// messages announced to this process, which its credits bound, and requests of
/// its own for which it took messages of stalled senders.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fin {
    pub target: Target,
    length: u64,
    status: Status,
    taken: bool,
}

impl Endpoint {
    /// Announces a message. `handle` is the name that its pending send has or
    /// will have.
    pub(crate) fn start_announced<P: Port>(
        &mut self,
        port: &mut P,
        send: &Send,
        handle: Handle<SendOp>,
    ) -> Result<Started, PtlError> {
        let key = announced_key(handle);
        let entry = self.expose(port, send.peer, send.buf, key, handle)?;
        let target = Target {
            peer: send.peer,
            pt_index: send.space.pt(),
            match_bits: MatchBits(send.tag),
            remote_offset: 0,
        };
        let extras = PutExtras {
            ack: None,
            hdr_data: send.data.unwrap_or(0),
            user: send.data.map_or(0, |_| USER_HAS_DATA),
            rts: Some(Rts { total_len: send.buf.len, addr: send.buf.addr, key }),
        };
        // The announcement has no bytes of the user's, so its own send event
        // means nothing: the user pointer zero.
        match self.ni.put(port, self.md, 0, 0, &target, &extras, 0) {
            Ok(_) => {
                self.stats.rendezvous_sent += 1;
                Ok(Started::Waits(SendState::Announced(entry)))
            }
            Err(error) => {
                let unlinked = self.ni.me_unlink(entry);
                assert!(unlinked.is_ok(), "the entry was appended above");
                Err(error)
            }
        }
    }

    /// An announced message has met its receive.
    pub(crate) fn start_pull<P: Port>(
        &mut self,
        port: &mut P,
        handle: Handle<RecvOp>,
        event: Event,
        rts: Rts,
        taken: bool,
    ) {
        // Matched: the announcement's slot goes back now, not when the bytes
        // are here.
        if let Some(hold) = event.hold {
            self.ni.end_hold(port, hold);
        }
        let gone = self.gone(event.peer);
        let Some(op) = self.recvs.get_mut(handle) else { return };
        let want = rts.total_len.min(op.recv.buf.len);
        op.state = RecvState::Pulling(Box::new(Pull {
            event,
            taken,
            key: rts.key,
            from: rts.addr,
            want,
            asked: 0,
            got: 0,
            in_flight: 0,
            direct: true,
            failure: gone.map(|why| Failure::PeerGone { peer: event.peer, why }),
        }));
        if want == 0 || gone.is_some() {
            self.finish_pull(port, handle);
        } else if !self.ask(port, handle) {
            self.pulls.push_back(handle);
        }
    }

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

    /// Asks for what room and credits allow, the pulls in turn, and sends the
    /// get-dones that waited.
    #[inline]
    pub(crate) fn flush_pulls<P: Port>(&mut self, port: &mut P) {
        // A peer that returns no credits delays only its own.
        for _ in 0..self.fins.len() {
            let Some(fin) = self.fins.pop_front() else { break };
            let sent = self.ni.get_done(port, &fin.target, fin.length, fin.status);
            if matches!(sent, Err(PtlError::NoCredit { .. })) {
                self.fins.push_back(fin);
            } else if fin.taken {
                self.note_told(fin.target.peer);
            }
        }
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

    /// Ends the pulls from a peer that is gone. One whose memory the rail is
    /// still reading into ends with that read: until then the buffer is not
    /// the caller's. (A peer that has died has no reads left by now; one that
    /// broke the protocol may.)
    pub(crate) fn fail_pulls<P: Port>(&mut self, port: &mut P, peer: PeerId, why: PeerError) {
        let doomed: Vec<_> = self
            .recvs
            .iter()
            .filter(
                |(_, op)| matches!(&op.state, RecvState::Pulling(pull) if pull.event.peer == peer),
            )
            .map(|(handle, _)| handle)
            .collect();
        for handle in doomed {
            self.pulls.retain(|pull| *pull != handle);
            let Some(op) = self.recvs.get_mut(handle) else { continue };
            let RecvState::Pulling(pull) = &mut op.state else { continue };
            pull.failure.get_or_insert(Failure::PeerGone { peer, why });
            if pull.in_flight == 0 {
                self.finish_pull(port, handle);
            }
        }
    }

    /// Tells a sender that its message is done with.
    pub(crate) fn finish_fetch<P: Port>(
        &mut self,
        port: &mut P,
        peer: PeerId,
        key: MatchBits,
        length: u64,
        status: Status,
        taken: bool,
    ) {
        let target = Target { peer, pt_index: PT_BULK, match_bits: key, remote_offset: 0 };
        let sent = self.ni.get_done(port, &target, length, status);
        // A peer that cannot be reached has no use for it.
        if matches!(sent, Err(PtlError::NoCredit { .. })) {
            self.fins.push_back(Fin { target, length, status, taken });
        } else if taken {
            self.note_told(peer);
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
    fn ask<P: Port>(&mut self, port: &mut P, handle: Handle<RecvOp>) -> bool {
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

    fn finish_pull<P: Port>(&mut self, port: &mut P, handle: Handle<RecvOp>) {
        let Some(op) = self.recvs.remove(handle) else { return };
        let RecvState::Pulling(pull) = op.state else { return };
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
        if self.gone(pull.event.peer).is_none() {
            self.finish_fetch(port, pull.event.peer, pull.key, pull.got, status, pull.taken);
        }
        if op.recv.report || outcome.is_err() {
            let completion: Completion = received(&op.recv, &pull.event, pull.got, outcome);
            self.complete(completion);
        }
    }
}
