//! Requests whose matching a rail does ([`TagMatching`]).
//!
//! The requests, their tables and their ends are those of all messages. A receive stands in
//! the rail's list instead of the interface's. What it meets is told as an event of the
//! interface would be, so an announcement is fetched, and its sender told, as ever
//! (`rendezvous`).

use super::Endpoint;
use crate::api::{Completion, Failure, Probe, ProbeAction, Recv, Refused, Send};
use crate::portal::{announced_key, entry_for};
use crate::probes::{as_recv, drop_message};
use crate::rendezvous::announce::{expose, take_back};
use crate::request::{RecvOp, SendOp, SendState, SenderCopy};
use crate::start::is_too_long;
use sluice_link::{
    Full, PeerError, Port, TagMatching, TaggedEnd, TaggedMessage, TaggedWanted, Token,
};
use sluice_portals::{Event, EventKind, Handle, PtlError};
use sluice_wire::{Found, MatchBits, Nanos, PeerId, Region, Rts};

/// What matches messages in this endpoint's place. Whoever asks knows that something does.
pub(super) fn matching<P: Port>(port: &mut P) -> &mut dyn TagMatching {
    port.tag_matching().expect("a port that matches always does")
}

impl Endpoint {
    /// Sends a message that the receiver's rail matches: its bytes, or its announcement.
    #[cold]
    #[inline(never)]
    pub(super) fn send_at_rail<P: Port>(
        &mut self,
        now: Nanos,
        port: &mut P,
        send: &Send,
    ) -> Result<(), Refused> {
        self.core.note_time(now);
        let bytes_max = matching(port).bytes_max();
        if send.inject && send.buf.len > bytes_max {
            // Its memory is not there when it would be fetched.
            return Err(Refused::TooLong { len: send.buf.len, max: bytes_max });
        }
        // An announced one, or one with delivery, waits for the peer, whom it may never have
        // heard of in another way.
        if let Err(why) = self.core.await_peer(port, send.peer) {
            return self.refuse_or_fail(send, why);
        }
        let is_too_long = is_too_long(&self.core, port, send, |_| false);
        if is_too_long || send.buf.len > bytes_max {
            return self.announce_at_rail(port, send);
        }
        let token = send.delivery.map(|_| Token(self.sends.next_handle().to_u64()));
        let message = message_of(send, None);
        matching(port).send(send.peer, &message, send.buf, token).map_err(again)?;
        if send.delivery.is_some() {
            self.keep_send(send, SendState::AtRail);
        }
        self.core.stats.eager_sent += 1;
        if self.core.tells(send.report) && send.delivery.is_none() {
            self.core.complete(Completion::of_send(send, Ok(())));
        }
        Ok(())
    }

    fn announce_at_rail<P: Port>(&mut self, port: &mut P, send: &Send) -> Result<(), Refused> {
        let handle = self.sends.next_handle();
        let key = announced_key(handle);
        let exposed = match expose(&mut self.core, port, send.peer, send.buf, key, handle) {
            Ok(exposed) => exposed,
            // Memory that runs past the end of the address space.
            Err(PtlError::ArgInvalid(_)) => {
                self.core.complete(Completion::of_send(send, Err(Failure::Fault)));
                return Ok(());
            }
            Err(_) => return Err(Refused::Again),
        };
        let rts = Rts { total_len: send.buf.len, from: exposed.key, key, claims: None };
        let message = message_of(send, Some(rts));
        if matching(port).send(send.peer, &message, Region::EMPTY, None).is_err() {
            take_back(&mut self.core, port, send.peer, exposed);
            return Err(Refused::Again);
        }
        self.core.stats.rendezvous_sent += 1;
        self.keep_send(send, SendState::Announced(exposed));
        Ok(())
    }

    /// A send that went under the name that is next waits for its end.
    fn keep_send(&mut self, send: &Send, state: SendState) {
        let op = SendOp { send: *send, state, sender_copy: SenderCopy::None, copy: None };
        self.sends.insert(op);
    }

    /// Posts a receive at the rail.
    #[cold]
    #[inline(never)]
    pub(super) fn recv_at_rail<P: Port>(
        &mut self,
        port: &mut P,
        recv: &Recv,
    ) -> Result<(), Refused> {
        let handle = self.recvs.insert_at_rail(recv);
        self.post_at_rail(port, handle, recv);
        Ok(())
    }

    /// Gives a receive to the rail, or lets it wait until that has room.
    pub(super) fn post_at_rail<P: Port>(
        &mut self,
        port: &mut P,
        handle: Handle<RecvOp>,
        recv: &Recv,
    ) {
        self.serve_crowded(port);
        let wanted = wanted_of(recv);
        let token = Token(handle.to_u64());
        let into = self.recvs.place_at_rail(handle);
        if self.crowded.has(wanted.list) || matching(port).post(&wanted, into, token).is_err() {
            self.crowded.add(handle, wanted);
            self.serve_crowded(port);
        }
        if let Some(source) = recv.source
            && let Err(why) = self.core.await_peer(port, source)
            && self.withdraw(port, handle)
        {
            self.fail_posted(handle, source, why);
        }
    }

    /// Cancels the oldest receive with this context that has met no message.
    #[cold]
    pub(super) fn cancel_at_rail<P: Port>(&mut self, port: &mut P, context: u64) -> bool {
        self.serve_crowded(port);
        for handle in self.recvs.at_rail(|recv| recv.context == context) {
            if self.withdraw(port, handle) {
                let Some(op) = self.recvs.remove(handle) else { return false };
                self.core.complete(Completion::of_unmatched(&op.recv, Failure::Cancelled));
                return true;
            }
        }
        false
    }

    /// Ends the receives that only a peer that is gone could fill. What has met a message
    /// is told of still.
    pub(super) fn fail_at_rail<P: Port>(&mut self, port: &mut P, peer: PeerId, why: PeerError) {
        self.serve_crowded(port);
        for handle in self.recvs.at_rail(|recv| recv.source == Some(peer)) {
            if self.withdraw(port, handle) {
                self.fail_posted(handle, peer, why);
            }
        }
    }

    /// Answers a probe from what the rail has.
    #[cold]
    #[inline(never)]
    pub(super) fn probe_at_rail<P: Port>(&mut self, port: &mut P, probe: &Probe) {
        self.serve_crowded(port);
        let claim = match probe.action {
            ProbeAction::Peek => None,
            ProbeAction::Claim | ProbeAction::Discard => Some(Token(self.recvs.take_serial())),
        };
        let wanted = wanted_of(&as_recv(probe));
        let Some((from, message)) = matching(port).search(&wanted, claim) else {
            let failure = self.failure_of(port, probe);
            self.core.complete(Completion::of_vain_probe(probe, failure));
            return;
        };
        let event = event_of(from, &message, 0);
        self.core.complete(Completion::of_probe(probe, &event));
        match (probe.action, claim) {
            (ProbeAction::Claim, Some(name)) => {
                self.probes.claim_at_rail(probe.context, &event, name);
            }
            (ProbeAction::Discard, Some(name)) => {
                matching(port).take(name, Region::EMPTY);
                drop_message(&mut self.core, &mut self.pulls.fins, port, &event, false);
            }
            _ => {}
        }
    }

    /// What the rail tells of a request.
    pub(super) fn on_end_at_rail<P: Port>(&mut self, port: &mut P, token: Token, end: TaggedEnd) {
        match end {
            TaggedEnd::Met { from, message } => {
                self.unstage_met(port, Handle::from_u64(token.0), &message);
                self.on_matched(port, &event_of(from, &message, token.0));
            }
            TaggedEnd::Sent => {
                let handle = Handle::from_u64(token.0);
                self.sends.end(&mut self.core, port, handle, Ok(()));
            }
        }
    }
}

fn again(_: Full) -> Refused {
    Refused::Again
}

fn message_of(send: &Send, rts: Option<Rts>) -> TaggedMessage {
    TaggedMessage {
        list: send.space.pt(),
        match_bits: MatchBits(send.tag),
        hdr_data: send.data.unwrap_or(0),
        user: send.user(),
        len: send.buf.len,
        rts,
    }
}

/// As the interface would match it.
pub(super) fn wanted_of(recv: &Recv) -> TaggedWanted {
    let entry = entry_for(recv, 0);
    TaggedWanted {
        list: recv.space.pt(),
        source: entry.source,
        match_bits: entry.match_bits,
        ignore_bits: entry.ignore_bits,
    }
}

/// As the interface would tell of it.
pub(super) fn event_of(from: PeerId, message: &TaggedMessage, user_ptr: u64) -> Event {
    let &TaggedMessage { list, match_bits, hdr_data, user, len, rts } = message;
    if let Some(rts) = rts {
        let found = Found {
            pt_index: list,
            match_bits,
            hdr_data,
            user,
            total_len: rts.total_len,
            from: rts.from,
        };
        return Event::of_waiting(from, rts.key, &found, user_ptr);
    }
    let mut event = Event::new(EventKind::Put, list, from, user_ptr);
    (event.match_bits, event.hdr_data, event.user) = (match_bits, hdr_data, user);
    (event.rlength, event.mlength) = (len, len);
    event
}
