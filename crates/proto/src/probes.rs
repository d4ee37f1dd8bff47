//! Probes that wait for answers, messages that probes have claimed, and the search
//! of what has arrived.

use crate::api::{Completion, Probe, ProbeAction, Recv, Refused};
use crate::core::Core;
use crate::portal::entry_for;
use crate::rendezvous::fins::{Fin, Fins};
use crate::request::{Claimed, ProbeOp};
use crate::wanted::Wanted;
use sluice_link::{Port, Token};
use sluice_portals::{EqTaken, Event, EventKind, Handle, SearchOp, Table};
use sluice_wire::{PeerId, Region, Status};

/// Most messages that may be claimed and not yet received.
const CLAIMED_MAX: usize = 1 << 16;

/// See the module.
#[derive(Debug)]
pub(crate) struct Probes {
    /// Those that wait for answers.
    ops: Table<ProbeOp>,
    claimed: Vec<Claimed>,
}

impl Probes {
    pub fn new(requests_max: u32) -> Probes {
        Probes { ops: Table::new(requests_max), claimed: Vec::new() }
    }

    /// How many wait for answers.
    pub fn len(&self) -> u32 {
        self.ops.len()
    }

    pub fn is_empty(&self) -> bool {
        self.ops.is_empty()
    }

    /// Whether no probe can be taken: it may wait, and claim a message.
    pub fn is_full(&self) -> bool {
        self.claimed.len() + self.ops.len() as usize >= CLAIMED_MAX || self.ops.is_full()
    }

    pub fn iter(&self) -> impl Iterator<Item = (Handle<ProbeOp>, &ProbeOp)> {
        self.ops.iter()
    }

    /// Messages claimed and not received.
    pub fn claimed_count(&self) -> usize {
        self.claimed.len()
    }

    pub fn insert(&mut self, op: ProbeOp) -> Result<Handle<ProbeOp>, Refused> {
        self.ops.insert(op).map_err(|_| Refused::Again)
    }

    pub fn remove(&mut self, handle: Handle<ProbeOp>) -> Option<ProbeOp> {
        self.ops.remove(handle)
    }

    /// Whether some probe counts on an answer of `peer`.
    pub fn await_answer_of(&self, peer: PeerId) -> bool {
        self.ops.iter().any(|(_, op)| op.pending.contains(&peer))
    }

    /// Those that count on an answer of `peer`, and which source they want.
    pub fn awaiting(&self, peer: PeerId) -> Vec<(Handle<ProbeOp>, Option<PeerId>)> {
        let waiting = self.ops.iter().filter(|(_, op)| op.pending.contains(&peer));
        waiting.map(|(handle, op)| (handle, op.probe.source)).collect()
    }

    /// What a probe wants of `peer`, if it counts on its answer.
    pub fn wanted_of(&self, handle: Handle<ProbeOp>, peer: PeerId) -> Option<Wanted> {
        let op = self.ops.get(handle).filter(|op| op.pending.contains(&peer))?;
        Some(Wanted::tagged(op.probe.space, op.probe.tag, op.probe.ignore))
    }

    /// `peer` has nothing for a probe. True if nobody else is to answer it.
    pub fn note_answer(&mut self, handle: Handle<ProbeOp>, peer: PeerId) -> bool {
        let Some(op) = self.ops.get_mut(handle) else { return false };
        op.pending.retain(|pending| *pending != peer);
        op.pending.is_empty()
    }

    /// A message has been taken out of the matching.
    pub fn claim(&mut self, context: u64, event: &Event, taken: bool) {
        self.claimed.push(Claimed { context, event: *event, taken, at_rail: None });
    }

    /// The same of one that the rail has matched.
    pub fn claim_at_rail(&mut self, context: u64, event: &Event, name: Token) {
        let at_rail = Some(name);
        self.claimed.push(Claimed { context, event: *event, taken: false, at_rail });
    }

    /// Where the message is that was claimed with this context, and what is known of it.
    pub fn claimed(&self, context: u64) -> Result<(usize, Event), Refused> {
        let at = self.claimed.iter().position(|claimed| claimed.context == context);
        at.map(|at| (at, self.claimed[at].event)).ok_or(Refused::NotClaimed)
    }

    /// It is claimed no more.
    pub fn end_claim(&mut self, at: usize) -> Claimed {
        self.claimed.swap_remove(at)
    }

    /// Answers a probe from what has arrived. False if nothing of it matches.
    pub fn answer_arrived<P: Port>(
        &mut self,
        core: &mut Core,
        fins: &mut Fins,
        port: &mut P,
        probe: &Probe,
    ) -> bool {
        let op = match probe.action {
            ProbeAction::Peek => SearchOp::Only,
            ProbeAction::Claim | ProbeAction::Discard => SearchOp::Delete,
        };
        core.ni
            .me_search(port, probe.space.pt(), op, &entry_for(&as_recv(probe), 0))
            .expect("the endpoint's own portal table entries exist");
        // Every earlier event has been taken out, so this is the answer.
        let EqTaken::Event(event) = core.ni.eq_take(core.eq) else {
            unreachable!("a search is always answered")
        };
        if event.outcome.is_err() {
            return false;
        }
        core.complete(Completion::of_probe(probe, &event));
        if event.kind == EventKind::PutOverflow {
            match probe.action {
                ProbeAction::Claim => self.claim(probe.context, &event, false),
                ProbeAction::Peek | ProbeAction::Discard => {
                    drop_message(core, fins, port, &event, false);
                }
            }
        }
        true
    }
}

/// Lets go of a message that nobody will receive.
pub(crate) fn drop_message<P: Port>(
    core: &mut Core,
    fins: &mut Fins,
    port: &mut P,
    event: &Event,
    taken: bool,
) {
    if let Some(hold) = event.hold {
        core.ni.end_hold(port, hold);
    }
    if let Some(rts) = event.rts() {
        // Its sender waits for somebody to fetch it: nobody will, and MPI
        // calls that sent.
        fins.say(core, port, Fin::get_done(event.peer, rts.key, 0, Status::Ok, taken));
    }
}

/// A probe as a receive.
pub(crate) fn as_recv(probe: &Probe) -> Recv {
    Recv {
        space: probe.space,
        source: probe.source,
        buf: Region::EMPTY,
        tag: probe.tag,
        ignore: probe.ignore,
        context: probe.context,
        report: true,
    }
}
