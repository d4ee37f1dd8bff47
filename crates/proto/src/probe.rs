//! Probes: looking for an unexpected message, claiming it, dropping it.

use crate::api::{Completion, Failure, Kind, Probe, ProbeAction, Recv, Refused};
use crate::endpoint::{Endpoint, RecvOp, RecvState, USER_HAS_DATA};
use crate::recv::entry_for;
use sluice_link::Port;
use sluice_portals::{EqTaken, Event, EventKind, SearchOp};
use sluice_wire::{Nanos, Region};

/// Most messages that may be claimed and not yet received.
const CLAIMED_MAX: usize = 1 << 16;

/// A message taken out of the matching by a probe.
#[derive(Debug)]
pub(crate) struct Claimed {
    context: u64,
    event: Event,
}

impl Endpoint {
    /// Looks for an unexpected message; the answer is a completion, pushed
    /// before this returns.
    ///
    /// # Errors
    /// [`Refused::Again`] if too many messages are claimed.
    ///
    /// # Panics
    /// Never: the interface has the entries that the endpoint uses.
    pub fn probe<P: Port>(
        &mut self,
        _now: Nanos,
        port: &mut P,
        probe: &Probe,
    ) -> Result<(), Refused> {
        if self.claimed.len() >= CLAIMED_MAX {
            return Err(Refused::Again);
        }
        let wanted = Recv {
            space: probe.space,
            source: probe.source,
            buf: Region::EMPTY,
            tag: probe.tag,
            ignore: probe.ignore,
            context: probe.context,
            report: true,
        };
        let op = match probe.action {
            ProbeAction::Peek => SearchOp::Only,
            ProbeAction::Claim | ProbeAction::Discard => SearchOp::Delete,
        };
        self.ni
            .me_search(port, probe.space.pt(), op, &entry_for(&wanted, 0))
            .expect("the endpoint's own portal table entries exist");
        // Every earlier event has been taken out, so this is the answer.
        let EqTaken::Event(event) = self.ni.eq_take(self.eq) else {
            unreachable!("a search is always answered")
        };
        self.complete(answer(probe, &event));
        if event.kind == EventKind::PutOverflow {
            match probe.action {
                ProbeAction::Claim => {
                    self.claimed.push(Claimed { context: probe.context, event });
                }
                ProbeAction::Peek | ProbeAction::Discard => self.drop_message(port, &event),
            }
        }
        Ok(())
    }

    /// Receives the message claimed by the probe with this `context`.
    ///
    /// # Errors
    /// [`Refused::NotClaimed`] if there is none, [`Refused::Again`].
    pub fn recv_claimed<P: Port>(
        &mut self,
        _now: Nanos,
        port: &mut P,
        context: u64,
        buf: Region,
        report: bool,
    ) -> Result<(), Refused> {
        let at = self.claimed_at(context)?;
        let mut event = self.claimed[at].event;
        let recv = Recv {
            space: crate::api::Space::of(event.pt_index),
            source: Some(event.peer),
            buf,
            tag: event.match_bits.0,
            ignore: 0,
            context,
            report,
        };
        let serial = self.next_serial;
        let op = RecvOp { recv, serial, state: RecvState::Posted(None) };
        let Ok(handle) = self.recvs.insert(op) else {
            return Err(Refused::Again);
        };
        self.next_serial += 1;
        self.claimed.swap_remove(at);
        event.user_ptr = handle.to_u64();
        self.on_matched(port, &event);
        Ok(())
    }

    /// Drops the message claimed by the probe with this `context`; completes
    /// like a receive of no bytes.
    ///
    /// # Errors
    /// [`Refused::NotClaimed`] if there is none.
    pub fn discard_claimed<P: Port>(
        &mut self,
        _now: Nanos,
        port: &mut P,
        context: u64,
        report: bool,
    ) -> Result<(), Refused> {
        let at = self.claimed_at(context)?;
        let event = self.claimed.swap_remove(at).event;
        self.drop_message(port, &event);
        if report {
            self.complete(Completion {
                kind: Kind::Recv,
                space: crate::api::Space::of(event.pt_index),
                context,
                len: 0,
                buf: sluice_wire::Addr(0),
                tag: event.match_bits.0,
                data: data_of(&event),
                peer: Some(event.peer),
                outcome: Ok(()),
            });
        }
        Ok(())
    }

    fn claimed_at(&self, context: u64) -> Result<usize, Refused> {
        let at = self.claimed.iter().position(|claimed| claimed.context == context);
        at.ok_or(Refused::NotClaimed)
    }

    /// Lets go of a message that nobody will receive.
    fn drop_message<P: Port>(&mut self, port: &mut P, event: &Event) {
        if let Some(hold) = event.hold {
            self.ni.end_hold(port, hold);
        }
        if let Some(rts) = event.rts() {
            // Its sender waits for somebody to fetch it: nobody will, and MPI
            // calls that sent.
            self.finish_fetch(port, event.peer, rts.key, 0, sluice_wire::Status::Ok);
        }
    }
}

fn answer(probe: &Probe, event: &Event) -> Completion {
    let outcome = event.outcome.map_err(|_| Failure::NoMessage);
    let found = outcome.is_ok();
    Completion {
        kind: Kind::Probe,
        space: probe.space,
        context: probe.context,
        len: event.rlength,
        buf: sluice_wire::Addr(0),
        tag: if found { event.match_bits.0 } else { probe.tag },
        data: data_of(event),
        peer: if found { Some(event.peer) } else { probe.source },
        outcome,
    }
}

fn data_of(event: &Event) -> Option<u64> {
    (event.user & USER_HAS_DATA != 0).then_some(event.hdr_data)
}
