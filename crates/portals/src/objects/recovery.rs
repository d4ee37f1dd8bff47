//! What is kept to recover from exhaustion (`docs/recovery.md`), as data: at the
//! initiator the operations of each flow, at the target who was refused.
//!
//! A *flow* is all that this process sends to one portal table entry of one peer.

use crate::objects::command::Command;
use crate::objects::ct::CtEvent;
use crate::objects::event::NiFail;
use crate::objects::md::Md;
use crate::objects::operation::Operation;
use crate::objects::ring::Ring;
use crate::table::Handle;
use sluice_wire::{MatchBits, PacketSeq, PeerId, PtIndex, Recovery as Packet, Region};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// How an interface recovers from exhaustion. All processes of a job have the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// Only the initiators that were refused wait, each from its first refused operation on.
    Resume,
    /// The Rportals paper's: every process that this one is linked with stops and says
    /// so before the entry is enabled.
    Pause,
}

/// The books of recovery of one interface.
#[derive(Debug)]
pub(crate) struct Recovery {
    pub scheme: Scheme,
    /// By index, which names of operations have. It is used again when nothing has such a
    /// name any more, so there are never more than entries of peers that are aimed at.
    pub flows: Vec<Option<Box<Flow>>>,
    /// Indexes that may be used again.
    pub free: Vec<u32>,
    /// The newest flow to each peer, by the peer's number; [`NO_FLOW`] if there is none.
    pub newest: Vec<u32>,
    /// Operations in all flows.
    pub kept_now: usize,
    /// Operations in flows that do not run.
    pub held_now: usize,
    /// Flows with operations of which only an ask tells that they were taken.
    pub unsettled: VecDeque<u32>,
    /// Idle moments; the number wraps.
    pub idles: u32,
    /// Peers that have asked this process to pause, for these entries of theirs.
    pub paused_by: BTreeMap<PeerId, BTreeSet<PtIndex>>,
    /// Who was refused at which entry. There is nothing of who never was.
    pub refusals: BTreeMap<(PtIndex, PeerId), Refusal>,
    pub next_epoch: u32,
    /// Entries that have run out of something, and of what.
    pub exhausted: Vec<(PtIndex, Shortage)>,
    /// Enabled entries at which some who were refused wait for their turn to be resumed.
    pub in_turn: BTreeSet<PtIndex>,
    /// Entries for which a pause was asked for.
    pub pauses: BTreeMap<PtIndex, Pause>,
    /// Copies of operations that have ended. They go back to the port with the next
    /// operation or idle moment, so there are never more than operations were kept.
    pub spent: Vec<Region>,
    /// Words that wait for a control credit, of each peer in order. At most one of each kind
    /// for each entry ([`Recovery::put_down`]).
    pub to_say: BTreeMap<PeerId, VecDeque<Packet>>,
    /// Something that was waited for may be there: see [`crate::Ni::wants_attention`].
    pub needs_attention: bool,
}

/// No flow.
pub(crate) const NO_FLOW: u32 = u32::MAX;

/// Operations that nobody acknowledges after which their flow asks.
pub(crate) const UNSETTLED_MAX: u32 = 64;

/// Idle moments between two looks at flows that are to ask. One asks that has sent nothing
/// since the last look: a process that answers at once is idle for less, so one that plays
/// ping-pong asks once for many operations.
pub(crate) const IDLES_PER_LOOK: u32 = 4;

impl Recovery {
    pub fn new(scheme: Scheme) -> Recovery {
        Recovery {
            scheme,
            flows: Vec::new(),
            free: Vec::new(),
            newest: Vec::new(),
            kept_now: 0,
            held_now: 0,
            unsettled: VecDeque::new(),
            idles: 0,
            paused_by: BTreeMap::new(),
            refusals: BTreeMap::new(),
            next_epoch: 0,
            exhausted: Vec::new(),
            in_turn: BTreeSet::new(),
            pauses: BTreeMap::new(),
            spent: Vec::new(),
            to_say: BTreeMap::new(),
            needs_attention: false,
        }
    }

    /// The flow to an entry of a peer, if there is one.
    #[inline]
    pub fn find(&self, peer: PeerId, pt_index: PtIndex) -> Option<u32> {
        let mut at = *self.newest.get(peer.index())?;
        while let Some(flow) = self.flow(at) {
            if flow.pt_index == pt_index {
                return Some(at);
            }
            at = flow.older;
        }
        None
    }

    /// The flow to an entry of a peer.
    #[inline]
    pub fn find_or_make(&mut self, peer: PeerId, pt_index: PtIndex) -> u32 {
        match self.find(peer, pt_index) {
            Some(at) => at,
            None => self.make(peer, pt_index),
        }
    }

    #[cold]
    fn make(&mut self, peer: PeerId, pt_index: PtIndex) -> u32 {
        if peer.index() >= self.newest.len() {
            self.newest.resize(peer.index() + 1, NO_FLOW);
        }
        let at = self.free.pop().unwrap_or_else(|| {
            self.flows.push(None);
            self.flows.len() as u32 - 1
        });
        let older = std::mem::replace(&mut self.newest[peer.index()], at);
        self.flows[at as usize] = Some(Box::new(Flow {
            peer,
            pt_index,
            older,
            kept: Ring::new(),
            first: 0,
            unsent: 0,
            state: FlowState::Running,
            unsettled: 0,
            ask: None,
            is_quiet: false,
            is_listed: false,
            is_waiting: false,
            is_gone: false,
        }));
        at
    }

    #[inline]
    pub fn flow(&self, at: u32) -> Option<&Flow> {
        self.flows.get(at as usize)?.as_deref()
    }

    #[inline]
    pub fn flow_mut(&mut self, at: u32) -> Option<&mut Flow> {
        self.flows.get_mut(at as usize)?.as_deref_mut()
    }

    /// The flows to a peer, the newest first.
    pub fn flows_to(&self, peer: PeerId) -> Vec<u32> {
        let mut at = self.newest.get(peer.index()).copied().unwrap_or(NO_FLOW);
        let mut found = Vec::new();
        while let Some(flow) = self.flow(at) {
            found.push(at);
            at = flow.older;
        }
        found
    }

    /// Whether a flow may keep one more operation. The more room there is in the log, the
    /// more of it one flow may have: each has at most half of what the others leave. Those
    /// that do not run have half of the log together, beyond what was on its way when they
    /// were refused, so however many there are, those that run go on.
    #[inline]
    pub fn has_share(&self, at: u32, kept_max: usize) -> bool {
        let Some(flow) = self.flow(at) else { return false };
        let is_refused = flow.state != FlowState::Running && self.held_now >= kept_max / 2;
        flow.kept.len() < kept_max.saturating_sub(self.kept_now) && !is_refused
    }

    /// Forgets the first `count` operations of a flow, which have ended and were unsettled.
    pub fn forget_first(&mut self, at: u32, count: u32) {
        let Some(flow) = self.flows.get_mut(at as usize).and_then(Option::as_mut) else { return };
        flow.kept.pop_first(count as usize);
        flow.first = flow.first.wrapping_add(count);
        flow.unsettled -= count;
        self.kept_now -= count as usize;
        if flow.state != FlowState::Running {
            self.held_now -= count as usize;
        }
    }

    /// Changes the state of a flow.
    pub fn set_state(&mut self, at: u32, state: FlowState) {
        let Some(flow) = self.flows.get_mut(at as usize).and_then(Option::as_mut) else { return };
        let was_running = flow.state == FlowState::Running;
        let runs = state == FlowState::Running;
        flow.state = state;
        match (was_running, runs) {
            (true, false) => self.held_now += flow.kept.len(),
            (false, true) => self.held_now -= flow.kept.len(),
            _ => {}
        }
    }

    /// Whether an entry waits for room for headers.
    pub fn lacks_headers(&self) -> bool {
        self.exhausted.iter().any(|(_, of)| *of == Shortage::Headers)
    }

    /// Whether an idle moment is for anything here. Flows that are to ask are looked at every
    /// few moments.
    #[inline]
    pub fn minds_idle(&mut self) -> bool {
        let has_to_look = !self.unsettled.is_empty() && {
            self.idles = self.idles.wrapping_add(1);
            self.idles.is_multiple_of(IDLES_PER_LOOK)
        };
        has_to_look
            || self.needs_attention
            || !self.refusals.is_empty()
            || !self.exhausted.is_empty()
            || !self.in_turn.is_empty()
            || !self.to_say.is_empty()
            || !self.spent.is_empty()
    }

    #[inline]
    pub fn is_paused(&self, peer: PeerId) -> bool {
        !self.paused_by.is_empty() && self.paused_by.contains_key(&peer)
    }
}

/// What this process sends to one portal table entry of one peer.
#[derive(Debug)]
pub(crate) struct Flow {
    pub peer: PeerId,
    pub pt_index: PtIndex,
    /// The flow to the same peer that was made before.
    pub older: u32,
    /// Operations whose end is not known, in the order in which they were issued.
    pub kept: Ring<Kept>,
    /// Number of the first of these. Numbers wrap.
    pub first: u32,
    /// Number of the first that is not on its way.
    pub unsent: u32,
    pub state: FlowState,
    /// Operations on their way that nobody acknowledges.
    pub unsettled: u32,
    /// An ask is on its way, for what has a lower number.
    pub ask: Option<u32>,
    /// Nothing was sent since an idle moment looked at what is unsettled.
    pub is_quiet: bool,
    /// Stands in [`Recovery::unsettled`].
    pub is_listed: bool,
    /// Stands in the queue of what waits for its peer.
    pub is_waiting: bool,
    /// The peer is gone: what is left waits for the rail only.
    pub is_gone: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FlowState {
    /// Operations go as they come.
    Running,
    /// The target has refused some, and has not enabled its entry since.
    Held { epoch: u32 },
    /// It has; it must hear so before the first of them goes again.
    Restarting { epoch: u32 },
}

impl Flow {
    #[inline]
    pub fn next(&self) -> u32 {
        self.first.wrapping_add(self.kept.len() as u32)
    }

    /// How many are not on their way.
    #[inline]
    pub fn unsent_len(&self) -> usize {
        self.next().wrapping_sub(self.unsent) as usize
    }

    #[inline]
    pub fn get_mut(&mut self, number: u32) -> Option<&mut Kept> {
        self.kept.get_mut(number.wrapping_sub(self.first) as usize)
    }
}

/// An operation whose end is not known.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kept {
    pub command: Command,
    /// A copy of bytes that the client may change.
    pub staged: Option<Region>,
    /// The packet that it went in.
    pub seq: PacketSeq,
    /// What it waits for: [`Kept::ANSWER`], [`Kept::RAIL`]. Nothing: it has ended. An
    /// operation that was refused goes again only when the rail is done with it, so it is
    /// with the rail once at most.
    pub awaits: u8,
    /// Places kept in event queues: [`Kept::SOURCE`], [`Kept::REPLY`]. Only what is on its
    /// way has any.
    pub places: u8,
    /// The target answers it without being asked.
    pub is_answered: bool,
    /// It failed before it was sent, so no packet of it is on its way and none will be.
    pub has_failed: bool,
    /// Its reply was told.
    pub is_replied: bool,
    /// What the engine keeps of it while it is on its way, if not only this.
    pub op: Handle<Operation>,
    /// Its peer is gone, and why.
    pub lost: Option<NiFail>,
}

/// What an operation costs that is kept, besides a copy of volatile memory.
const _: () = assert!(size_of::<Kept>() <= 208);

impl Kept {
    /// A slot that has no operation.
    pub const BLANK: Kept = Kept {
        command: Command::CtSet { ct: Handle::STALE, to: CtEvent { success: 0, failure: 0 } },
        staged: None,
        seq: PacketSeq(0),
        awaits: 0,
        places: 0,
        is_answered: false,
        has_failed: false,
        is_replied: false,
        op: Handle::STALE,
        lost: None,
    };

    /// An acknowledgement, a reply, or that an ask is answered.
    pub const ANSWER: u8 = 1;
    /// The rail to have read its memory.
    pub const RAIL: u8 = 2;
    /// In the queue of the descriptor that it sends from.
    pub const SOURCE: u8 = 1;
    /// In the queue of the descriptor that is replied to.
    pub const REPLY: u8 = 2;

    /// The descriptor it sends from, if it is a put that only awaits the answer to an ask.
    #[inline(always)]
    pub fn plain_source(&self) -> Option<Handle<Md>> {
        let Command::Put { from, .. } = &self.command else { return None };
        let awaits_an_ask = self.awaits == Kept::ANSWER && !self.is_answered;
        (awaits_an_ask && self.lost.is_none() && self.staged.is_none()).then_some(from.md)
    }
}

/// What the handle of an operation never has ([`Handle::to_u64`]).
const IS_NAME: u64 = 1 << 63;
const _: () = assert!((crate::table::GENERATION_MAX as u64) << 32 < IS_NAME);

/// A name for the operation `number` of a flow, as the operations table has it, and packets
/// of puts whose only record is the kept one; never zero, and no handle.
#[inline]
pub(crate) fn name_of(flow: u32, number: u32) -> u64 {
    IS_NAME | u64::from(flow) << 32 | u64::from(number)
}

/// Flow and number of a name.
#[inline]
pub(crate) fn parts_of(name: u64) -> Option<(u32, u32)> {
    (name & IS_NAME != 0).then_some(((name & !IS_NAME) >> 32) as u32).map(|at| (at, name as u32))
}

/// An initiator that was refused at an entry, until it has restarted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Refusal {
    pub epoch: u32,
    /// It was told to go on.
    pub is_resumed: bool,
    /// What it waits for, if it is not that the entry is enabled: an entry of the lists
    /// that its operation matches.
    pub wants: Option<Wanted>,
}

/// What decides whether an operation matches.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted {
    pub match_bits: MatchBits,
    pub remote_offset: u64,
    pub rlength: u64,
}

/// What a portal table entry has run out of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shortage {
    /// Places in its event queue, of which an operation needs so many.
    Events { need: usize },
    /// Room for headers.
    Headers,
}

/// A pause that this process has asked for.
#[derive(Debug, Default)]
pub(crate) struct Pause {
    /// Who was asked.
    pub asked: Vec<PeerId>,
    /// Who of these has not answered.
    pub awaited: BTreeSet<PeerId>,
}
