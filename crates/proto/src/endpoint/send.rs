//! Sends, from the call to what they wait for.

use super::Endpoint;
use crate::api::{Cancelled, Completion, Failure, Refused, Send};
use crate::request::{SendOp, Started};
use crate::start::{Attempt, never_fits, start};
use sluice_link::mutants::{self, Mutant};
use sluice_link::{PeerError, Port};
use sluice_portals::PtlError;
use sluice_wire::{Nanos, Region};

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

    /// Takes a message to send whose bytes lie in several pieces: a copy of them in one is
    /// sent, so they may be reused as soon as the call returns. `send` has no bytes.
    ///
    /// # Errors
    /// [`Refused`]; the request leaves no trace then. One that is longer than all copies may
    /// be together ([`Config::inject_bytes_max`](crate::Config)) is too long.
    #[cold]
    pub fn send_pieces<P: Port>(
        &mut self,
        now: Nanos,
        port: &mut P,
        send: &Send,
        pieces: &[Region],
    ) -> Result<(), Refused> {
        let len = pieces.iter().fold(0_u64, |len, piece| len.saturating_add(piece.len));
        let whole = Region { len, ..send.buf };
        let Some(copy) =
            self.sends.lend_pieces(port, &Send { buf: whole, ..*send }, pieces, &self.core)?
        else {
            return self.send(now, port, send);
        };
        let name = self.sends.next_handle();
        let taken = self.send(now, port, &Send { buf: copy, inject: false, ..*send });
        if taken.is_err() || !self.sends.keep_copy(name, copy) {
            port.give_back(copy.addr, copy.len as u32);
        }
        taken
    }

    /// Cancels a send with this `context`: one that waits for credits, or for the word that it
    /// was delivered. Its completion says [`Failure::Cancelled`], and its memory is free. One
    /// whose receiver may be fetching it is not cancelled, nor one that the rail still reads, and
    /// none that is injected, or that a rail matches: they end by themselves.
    ///
    /// Why one that has gone is cancelled too: its receiver may never want it, and then its
    /// sender would wait for ever.
    pub fn cancel_send<P: Port>(
        &mut self,
        now: Nanos,
        port: &mut P,
        context: u64,
    ) -> Option<Cancelled> {
        self.core.note_time(now);
        let Endpoint { core, sends, stalled, .. } = self;
        let (handle, cancelled) = sends.cancellable(context)?;
        let peer = sends.get(handle)?.send.peer;
        sends.finish(core, port, handle, Err(Failure::Cancelled));
        if cancelled == Cancelled::Withdrawn {
            stalled.withdraw(core, sends, port, peer, handle);
        }
        Some(cancelled)
    }

    #[inline(always)]
    fn take_send<P: Port>(&mut self, now: Nanos, port: &mut P, send: &Send) -> Result<(), Refused> {
        let eager_max = u64::from(self.core.config.eager_bytes_max);
        if send.inject && send.buf.len > eager_max {
            return Err(Refused::TooLong { len: send.buf.len, max: eager_max });
        }
        if self.sends.is_full() || self.core.is_unread() {
            return Err(Refused::Again);
        }
        if port.tag_matching().is_some() {
            return self.send_at_rail(now, port, send);
        }
        if let Some(state) = self.core.peers.get(send.peer) {
            if let Some(why) = state.gone() {
                return self.refuse_or_fail(send, why);
            }
            if !state.queue.is_empty() && !mutants::is(Mutant::OvertakesTheQueue) {
                return self.enqueue(now, port, send, true);
            }
        }
        let handle = self.sends.next_handle();
        // An injected one has to be copied first.
        let never_fits = !send.inject && never_fits(&self.core, send);
        let attempt = if never_fits { Attempt::Announced } else { Attempt::First };
        match start(&mut self.core, port, send, handle, attempt) {
            Ok(Started::Done) => {
                if self.core.tells(send.report) {
                    self.core.complete(Completion::of_send(send, Ok(())));
                }
                Ok(())
            }
            Ok(Started::Waits(state, sender_copy)) => {
                let op = SendOp { send: *send, state, sender_copy, copy: None };
                let inserted = self.sends.insert(op);
                assert!(inserted == handle, "what was started has this name");
                Ok(())
            }
            // The receiver may have no place left for the packet that would
            // bring more credits until those that are left are spent. So then a
            // message has to go in any case, as an announcement; they bound it.
            Err(PtlError::NoCredit { have, .. }) => self.enqueue(now, port, send, have == 0),
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

    /// Puts a new send behind those that wait: an injected one as a copy, if
    /// the memory for those allows or they are not to be `bounded`.
    #[cold]
    fn enqueue<P: Port>(
        &mut self,
        now: Nanos,
        port: &mut P,
        send: &Send,
        bounded: bool,
    ) -> Result<(), Refused> {
        let Endpoint { core, sends, stalled, .. } = self;
        let mut copy = None;
        if send.inject {
            let bytes_max = bounded.then_some(core.config.inject_bytes_max);
            copy = Some(sends.lend_copy(port, send, bytes_max)?);
        }
        stalled.enqueue(core, sends, port, now, send, copy);
        Ok(())
    }

    /// The end of a send that has left no trace yet.
    #[cold]
    pub(super) fn refuse_or_fail(&mut self, send: &Send, why: PeerError) -> Result<(), Refused> {
        if send.inject {
            return Err(Refused::PeerGone { peer: send.peer, why });
        }
        let outcome = Err(Failure::PeerGone { peer: send.peer, why });
        self.core.complete(Completion::of_send(send, outcome));
        Ok(())
    }
}
