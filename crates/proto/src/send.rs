//! Sends, and what a send waits for. Which protocol it takes says `selection`.

use crate::api::{Completion, Failure, Refused, Send};
use crate::endpoint::Endpoint;
use crate::request::{SendOp, SendState, SenderCopy, Started};
use sluice_link::{PeerError, Port, Transmitted};
use sluice_portals::{Event, EventKind, Handle, NiFail, PtlError, PutExtras, UnexpectedBytes};
use sluice_wire::{
    AckKind, Addr, MatchBits, Nanos, PUT_INLINE_BYTES_MAX, Packet, PeerId, Put, slots_for,
};

/// Quotas smaller than this are not divided: half of them would hardly hold one
/// eager message.
const ANNOUNCEMENT_QUOTA_MIN: u32 = 256;

impl Endpoint {
    /// Takes a message to send.
    ///
    /// # Errors
    /// [`Refused`]; the request leaves no trace then.
    #[inline]
    pub fn send<P: Port>(&mut self, now: Nanos, port: &mut P, send: &Send) -> Result<(), Refused> {
        let before = self.footprint_to_check(Some(send.peer));
        let taken = self.take_send(now, port, send);
        self.check_refusal(before, taken)
    }

    #[inline(always)]
    fn take_send<P: Port>(&mut self, now: Nanos, port: &mut P, send: &Send) -> Result<(), Refused> {
        let eager_max = u64::from(self.core.config.eager_bytes_max);
        if send.inject && send.buf.len > eager_max {
            return Err(Refused::TooLong { len: send.buf.len, max: eager_max });
        }
        if self.sends.is_full() {
            return Err(Refused::Again);
        }
        if let Some(state) = self.core.peers.get(send.peer) {
            if let Some(why) = state.gone() {
                return self.refuse_or_fail(send, why);
            }
            if !state.queue.is_empty() {
                return self.enqueue_new(now, port, send, true);
            }
        }
        let handle = self.sends.next_handle();
        // An injected one has to be copied first.
        let announce = !send.inject && self.never_fits(send);
        match self.start(port, send, handle, announce) {
            Ok(Started::Done) => {
                if send.report {
                    self.core.complete(Completion::of_send(send, Ok(())));
                }
                Ok(())
            }
            Ok(Started::Waits(state, part)) => {
                let inserted = self.sends.insert(SendOp { send: *send, state, part, copy: None });
                assert!(inserted.is_ok_and(|inserted| inserted == handle), "room was checked");
                Ok(())
            }
            // The receiver may have no place left for the packet that would
            // bring more credits until those that are left are spent. So then a
            // message has to go in any case, as an announcement; they bound it.
            Err(PtlError::NoCredit { have, .. }) => self.enqueue_new(now, port, send, have == 0),
            Err(PtlError::Peer(why)) => self.refuse_or_fail(send, why),
            Err(PtlError::NoSpace(_) | PtlError::ListTooLong) => Err(Refused::Again),
            // Memory that runs past the end of the address space.
            Err(PtlError::ArgInvalid(_)) => {
                self.core.complete(Completion::of_send(send, Err(Failure::Fault)));
                Ok(())
            }
            Err(
                error @ (PtlError::InUse
                | PtlError::PtInUse
                | PtlError::PtFull
                | PtlError::PtEqNeeded),
            ) => {
                unreachable!("the endpoint's own objects were refused: {error}")
            }
        }
    }

    /// Sends as much of `send` as its protocol sends at once. `handle` is the
    /// name that its pending send has or will have. What fails leaves no trace.
    #[inline(always)]
    pub(crate) fn start<P: Port>(
        &mut self,
        port: &mut P,
        send: &Send,
        handle: Handle<SendOp>,
        announce: bool,
    ) -> Result<Started, PtlError> {
        if self.core.config.table().objection_to_eager(send.buf.len, !announce).is_some() {
            let started = self.start_announced(port, send, handle)?;
            self.note_sent_if_listed(send);
            return Ok(started);
        }
        if send.buf.len > u64::from(PUT_INLINE_BYTES_MAX) {
            self.keep_room_for_announcements(send)?;
        }
        let target = send.target();
        let extras = PutExtras {
            ack: send.delivery.then_some(AckKind::Full),
            hdr_data: send.data.unwrap_or(0),
            user: send.user(),
            rts: None,
        };
        let (from, len) = (send.buf.addr.0, send.buf.len);
        let used = if self.speculates {
            // A receive that was announced meets this message, and no other one.
            self.use_rtr(port, send, from, len, &target, &extras)?
        } else {
            None
        };
        // The user pointer zero says that nobody waits for the send event.
        let transmitted =
            self.core.ni.put(port, self.core.md, from, len, &target, &extras, handle.to_u64());
        assert!(transmitted.is_ok() || used.is_none(), "a put that was checked goes");
        let transmitted = transmitted?;
        self.core.stats.eager_sent += 1;
        self.note_sent_if_listed(send);
        Ok(match (transmitted, send.delivery) {
            (Transmitted::Done, false) => Started::Done,
            (Transmitted::Pending, false) => {
                Started::Waits(SendState::Transmitting, SenderCopy::None)
            }
            (_, true) => Started::Waits(SendState::Acking, SenderCopy::None),
        })
    }

    #[inline(always)]
    fn note_sent_if_listed(&mut self, send: &Send) {
        if self.speculates {
            self.note_sent(send.peer, send.space, send.tag);
        }
    }

    /// Whether a message takes more slots than its receiver can ever grant: there
    /// is nothing to wait for.
    #[inline]
    pub(crate) fn never_fits(&self, send: &Send) -> bool {
        if send.buf.len <= u64::from(PUT_INLINE_BYTES_MAX) {
            return false;
        }
        // What is granted is known from the first message on.
        let most = self.core.ni.data_credits_max(send.peer);
        most > 0 && eager_slots(send) > most
    }

    /// Puts a new send behind those that wait: an injected one as a copy, if
    /// the memory for those allows or they are not to be `bounded`.
    #[cold]
    fn enqueue_new<P: Port>(
        &mut self,
        now: Nanos,
        port: &mut P,
        send: &Send,
        bounded: bool,
    ) -> Result<(), Refused> {
        if !send.inject {
            return self.enqueue(now, port, send, None);
        }
        let bytes = self.injected_bytes + Endpoint::injected_bytes_of(send);
        if bounded && bytes > self.core.config.inject_bytes_max {
            return Err(Refused::Again);
        }
        self.injected_bytes = bytes;
        // No bytes need no memory.
        let mut copy = Addr(0);
        if send.buf.len > 0 {
            copy = port.lend(send.buf.len as u32);
            port.copy(send.buf.addr, copy, send.buf.len);
        }
        self.enqueue(now, port, send, Some(copy))
    }

    /// Memory that an injected message takes while it waits.
    pub(crate) fn injected_bytes_of(send: &Send) -> u64 {
        Endpoint::PENDING_SEND_BYTES as u64 + UnexpectedBytes::lent(send.buf.len)
    }

    /// Refuses an eager message of several slots that would eat into the half
    /// of the quota kept for messages of one slot. Else a few long messages
    /// that the receiver does not want yet would lock out the ones it waits
    /// for, which could come as announcements.
    #[inline]
    fn keep_room_for_announcements(&self, send: &Send) -> Result<(), PtlError> {
        let quota = self.core.ni.data_quota(send.peer);
        if quota < ANNOUNCEMENT_QUOTA_MIN {
            return Ok(());
        }
        let (need, have) = (eager_slots(send), self.core.ni.data_credits(send.peer));
        if have < need + quota / 2 { Err(PtlError::NoCredit { need, have }) } else { Ok(()) }
    }

    /// A send that waited for its end has it.
    pub(crate) fn on_send_ended<P: Port>(&mut self, port: &mut P, event: &Event) {
        let handle = Handle::from_u64(event.user_ptr);
        let Some(op) = self.sends.get(handle) else { return };
        let expected = match event.kind {
            EventKind::Send => op.state == SendState::Transmitting || event.outcome.is_err(),
            EventKind::Ack => op.state == SendState::Acking,
            EventKind::GetDone => {
                let exposed = matches!(op.state, SendState::Announced(_) | SendState::Offered(..));
                if exposed && op.send.peer == event.peer {
                    self.end_exposed(port, handle, event.outcome);
                }
                return;
            }
            _ => false,
        };
        if expected {
            self.end_send(port, handle, event.outcome);
        }
    }

    /// A send has come to its end.
    pub(crate) fn end_send<P: Port>(
        &mut self,
        port: &mut P,
        handle: Handle<SendOp>,
        outcome: Result<(), NiFail>,
    ) {
        let Some(op) = self.sends.remove(handle) else { return };
        self.give_back(port, &op);
        let outcome = outcome.map_err(|fail| Failure::of(fail, op.send.peer));
        if op.send.report || outcome.is_err() {
            self.core.complete(Completion::of_send(&op.send, outcome));
        }
    }

    /// Returns the memory that a send's bytes were copied to, if they were.
    pub(crate) fn give_back<P: Port>(&mut self, port: &mut P, op: &SendOp) {
        let Some(copy) = op.copy else { return };
        self.injected_bytes -= Endpoint::injected_bytes_of(&op.send);
        if op.send.buf.len > 0 {
            port.give_back(copy, op.send.buf.len as u32);
        }
    }

    /// Ends every send to a peer that is gone.
    pub(crate) fn fail_sends<P: Port>(&mut self, port: &mut P, peer: PeerId, why: PeerError) {
        self.core.peers.state_mut(peer).queue.clear();
        self.stalled.retain(|stalled| *stalled != peer);
        let doomed: Vec<_> = self
            .sends
            .iter()
            .filter(|(_, op)| op.send.peer == peer)
            .map(|(handle, _)| handle)
            .collect();
        for handle in doomed {
            let Some(op) = self.sends.remove(handle) else { continue };
            if let SendState::Announced(entry) | SendState::Offered(entry, _) = op.state {
                // It may be gone already; then there is nothing to unlink.
                let _ = self.core.ni.me_unlink(entry);
            }
            self.give_back(port, &op);
            self.send_failed(&op.send, why);
        }
    }

    /// The end of a send that has left no trace yet.
    #[cold]
    fn refuse_or_fail(&mut self, send: &Send, why: PeerError) -> Result<(), Refused> {
        if send.inject {
            return Err(Refused::PeerGone { peer: send.peer, why });
        }
        self.send_failed(send, why);
        Ok(())
    }

    pub(crate) fn send_failed(&mut self, send: &Send, why: PeerError) {
        let outcome = Err(Failure::PeerGone { peer: send.peer, why });
        self.core.complete(Completion::of_send(send, outcome));
    }
}

/// Slots that `send` takes if it goes eagerly.
pub(crate) fn eager_slots(send: &Send) -> u32 {
    let put = Packet::Put(Put {
        pt_index: send.space.pt(),
        match_bits: MatchBits(send.tag),
        hdr_data: 0,
        user: 0,
        remote_offset: 0,
        ack: send.delivery.then_some((AckKind::Full, 0)),
        rts: None,
        bulk: None,
    });
    slots_for(u64::from(put.header_bytes()).saturating_add(send.buf.len))
}
