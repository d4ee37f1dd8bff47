//! Protocols for messages that are announced first and moved when the receiver
//! wants them. One file each; here is what they share: the announcement, the
//! choice of the way once it has met its receive, and the end.
//!
//! Which way it is, `selection` says.
//!
//! | way | data moved by |
//! |---|---|
//! | [`get`] | the receiver, by direct reads or by gets of chunks ([`window`], [`budget`]) |
//! | [`put`] | the sender, once it was told where to (CTS) |
//! | [`cooperative`] | both, each the chunks that it takes from a tally |
//! | [`speculative`] | both; the receiver came first and said where to (RTR) |
//!
//! `docs/protocols.md` draws them.

pub(crate) mod ability;
pub(crate) mod budget;
pub(crate) mod cooperative;
pub(crate) mod get;

pub(crate) mod moved;
pub(crate) mod pull;
pub(crate) mod put;
pub(crate) mod rtr_list;
pub(crate) mod rtr_throttle;
pub(crate) mod speculative;
pub(crate) mod window;

use crate::api::{Completion, Failure, Recv, Send};
use crate::endpoint::Endpoint;
use crate::portal::{announced_key, bulk_target};
use crate::request::{RecvOp, RecvState, SendOp, SendState, SenderCopy, Started};
use ability::shared;
use moved::Moved;
use pull::{BulkMethod, Pull};
use rtr_list::Rtr;
use sluice_link::{PeerError, Port, SharedCopy, Tally};
use sluice_portals::{Event, Handle, PtlError, PutExtras};
use sluice_wire::{MatchBits, Packet, PeerId, Region, Rts, Status};
use window::Window;

/// A word about a transfer that waits for a control credit: a get-done or a
/// written. There are at most as many get-dones as messages announced to this
/// process, which its credits bound, and requests of its own for which it took
/// messages of stalled senders; at most as many writtens as messages it announced.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fin {
    pub peer: PeerId,
    packet: FinPacket,
    taken: bool,
}

#[derive(Clone, Copy, Debug)]
enum FinPacket {
    GetDone { key: MatchBits, length: u64, status: Status },
    Written(sluice_wire::Written),
}

impl Endpoint {
    /// Announces a message; if it meets a receive that was announced here, its
    /// bytes are written there at once. `handle` is the name that its pending send has or
    /// will have. What fails leaves no trace.
    pub(crate) fn start_announced<P: Port>(
        &mut self,
        port: &mut P,
        send: &Send,
        handle: Handle<SendOp>,
    ) -> Result<Started, PtlError> {
        let key = announced_key(handle);
        let entry = self.expose(port, send.peer, send.buf, key, handle)?;
        match self.put_announcement(port, send, key) {
            Ok(rtr) => {
                self.core.stats.rendezvous_sent += 1;
                if let Some(rtr) = rtr {
                    self.core.stats.rtrs_used += 1;
                    let from = Region { addr: send.buf.addr, len: send.buf.len.min(rtr.len) };
                    let token = Moved::Send(handle).token();
                    shared(port).write_shared(send.peer, rtr.tally, from, rtr.addr, token);
                }
                let part = rtr.map_or(SenderCopy::None, |rtr| SenderCopy::Sharing(rtr.tally));
                Ok(Started::Waits(SendState::Announced(entry), part))
            }
            Err(error) => {
                let unlinked = self.core.ni.me_unlink(entry);
                assert!(unlinked.is_ok(), "the entry was appended above");
                Err(error)
            }
        }
    }

    /// Puts the announcement of a message that can be got under `key`. The receive that
    /// it meets, if that was announced.
    fn put_announcement<P: Port>(
        &mut self,
        port: &mut P,
        send: &Send,
        key: MatchBits,
    ) -> Result<Option<Rtr>, PtlError> {
        let target = send.target();
        let rts = Rts { total_len: send.buf.len, addr: send.buf.addr, key, tally: None };
        let extras = PutExtras {
            ack: None,
            hdr_data: send.data.unwrap_or(0),
            user: send.user(),
            rts: Some(rts),
        };
        let rtr =
            if self.speculates { self.use_rtr(port, send, 0, 0, &target, &extras)? } else { None };
        let rts = Rts { tally: rtr.map(|rtr| rtr.tally.0), ..rts };
        let extras = PutExtras { rts: Some(rts), ..extras };
        // The announcement has no bytes of the user's, so its own send event
        // means nothing: the user pointer zero.
        let sent = self.core.ni.put(port, self.core.md, 0, 0, &target, &extras, 0);
        assert!(sent.is_ok() || rtr.is_none(), "a put that was checked goes");
        sent.map(|_| rtr)
    }

    /// An announced message has met its receive. With `tally` its sender writes
    /// already.
    pub(crate) fn start_pull<P: Port>(
        &mut self,
        port: &mut P,
        handle: Handle<RecvOp>,
        event: Event,
        rts: Rts,
        taken: bool,
        tally: Option<Tally>,
    ) {
        // Matched: the announcement's slot goes back now, not when the bytes
        // are here.
        if let Some(hold) = event.hold {
            self.core.ni.end_hold(port, hold);
        }
        let gone = self.core.peers.gone(event.peer);
        let Some(op) = self.recvs.get_mut(handle) else { return };
        let want = rts.total_len.min(op.recv.buf.len);
        let is_written =
            gone.is_none() && tally.is_some_and(|tally| shared(port).is_written(tally, want));
        let pull = Pull {
            event,
            taken,
            key: rts.key,
            from: rts.addr,
            want,
            asked: 0,
            got: if is_written { want } else { 0 },
            in_flight: 0,
            window: Window::new(self.core.ni.get_bytes_max(), self.budget.bytes_max()),
            awaits_turn: false,
            method: tally.map_or(BulkMethod::Asked, BulkMethod::Shared),
            direct: true,
            sender_knows: is_written,
            failure: gone.map(|why| Failure::PeerGone { peer: event.peer, why }),
        };
        if want == 0 || gone.is_some() || is_written {
            let recv = op.recv;
            self.recvs.remove(handle);
            return self.end_pull(port, &recv, &pull);
        }
        op.state = RecvState::Pulling(Box::new(pull));
        if tally.is_some() {
            self.read_shared(port, handle);
        } else if !self.invite(port, handle) {
            self.fetch(port, handle);
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
        self.budget.forget_waiting(peer);
        for handle in doomed {
            let Some(op) = self.recvs.get_mut(handle) else { continue };
            let RecvState::Pulling(pull) = &mut op.state else { continue };
            pull.failure.get_or_insert(Failure::PeerGone { peer, why });
            pull.awaits_turn = false;
            // What the peer was to say it will not say any more.
            if pull.in_flight == 0 || pull.method == BulkMethod::Written {
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
        self.say(port, Fin { peer, packet: FinPacket::GetDone { key, length, status }, taken });
    }

    /// Says what waited for control credits, as far as there are some.
    pub(crate) fn flush_fins<P: Port>(&mut self, port: &mut P) {
        // A peer that returns no credits delays only its own.
        for _ in 0..self.fins.len() {
            let Some(fin) = self.fins.pop_front() else { return };
            self.say(port, fin);
        }
    }

    fn say<P: Port>(&mut self, port: &mut P, fin: Fin) {
        let sent = match fin.packet {
            FinPacket::GetDone { key, length, status } => {
                self.core.ni.get_done(port, &bulk_target(fin.peer, key, 0), length, status)
            }
            FinPacket::Written(written) => {
                self.core.ni.tell(port, fin.peer, &Packet::Written(written))
            }
        };
        // A peer that cannot be reached has no use for it.
        if matches!(sent, Err(PtlError::NoCredit { .. })) {
            self.fins.push_back(fin);
        } else if fin.taken {
            self.note_told(fin.peer);
        }
    }

    fn finish_pull<P: Port>(&mut self, port: &mut P, handle: Handle<RecvOp>) {
        let Some(op) = self.recvs.remove(handle) else { return };
        let RecvState::Pulling(pull) = op.state else { return };
        if pull.awaits_turn {
            self.budget.leave(pull.event.peer, handle);
        }
        self.end_pull(port, &op.recv, &pull);
    }

    /// Nothing of a pull is under way, and its receive is no more.
    fn end_pull<P: Port>(&mut self, port: &mut P, recv: &Recv, pull: &Pull) {
        if let BulkMethod::Shared(tally) = pull.method {
            shared(port).close_tally(tally);
        }
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
                self.note_told(peer);
            }
        } else if self.core.peers.gone(peer).is_none() {
            self.finish_fetch(port, peer, pull.key, pull.got, status, pull.taken);
        }
        if recv.report || outcome.is_err() {
            let completion = Completion::of_recv(recv, &pull.event, pull.got, outcome);
            self.core.complete(completion);
        }
    }
}
