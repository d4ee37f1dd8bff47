//! Portals 4.3 as its specification has it: lists that are vectors, memory that is bytes, and
//! for each operation what its two sides are still to be told. Nothing here knows the engine.
//!
//! The specification leaves to the network when an operation reaches its target, and when its
//! data has moved. So the model is told which operation has arrived ([`Model::arrives`]), and it
//! says what must come of it: at once at the target's lists, and as events and counts some time
//! later. A program acts by [`Model::begin`], [`Model::append`] and so on, and shows each
//! event that it takes ([`Model::sees`]) and each counter after a step ([`Model::counters_are`]).
//! Whatever was not due panics there; what never came, in [`Model::check_end`].
//!
//! | room | what it holds |
//! |---|---|
//! | `nouns` | entries, operations, events, as the specification lists their fields |
//! | `target` | an operation arrives: who takes it, and what that changes |
//! | `lists` | appending, searching, unlinking, and headers that wait |
//! | `bytes` | what memory holds, as far as the order of operations says it |
//! | `sums` | what atomic operations compute |
//! | `due` | events that are due, and in which order |
//! | `counters` | counts, thresholds, and what they set off |
//! | `losses` | processes that end or are given up, and how operations end then |

mod bytes;
mod counters;
mod due;
mod lists;
mod losses;
mod nouns;
mod sums;
mod target;

pub use bytes::Bytes;
pub use counters::{Count, Counter, Shot};
pub use lists::Unlinked;
pub use losses::Ends;
pub use nouns::*;
pub use sums::combine;
pub use target::Want;

use due::Due;
use losses::Side;
use std::collections::BTreeSet;

/// A portal table entry.
#[derive(Clone, Debug, Default)]
pub struct Pt {
    pub flow_control: bool,
    pub has_queue: bool,
    pub disabled: bool,
    /// Its queue may run out of places.
    pub has_short_queue: bool,
    pub priority: Vec<usize>,
    pub overflow: Vec<usize>,
    /// Operations whose headers wait, in order of arrival.
    pub unexpected: Vec<usize>,
}

/// What the status registers of an interface say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Registers {
    pub dropped: u64,
    pub operation_violations: u64,
    pub permission_violations: u64,
}

/// One process.
#[derive(Debug, Default)]
pub struct Process {
    /// By index; none where nothing is allocated.
    pub pts: Vec<Option<Pt>>,
    pub counters: Vec<Counter>,
    pub registers: Registers,
    /// Headers that take room.
    headers: usize,
    due: Vec<Due>,
}

/// See the module.
#[derive(Debug)]
pub struct Model {
    /// Whether interfaces match bits and sources.
    pub matching: bool,
    /// `max_unexpected_headers`.
    pub headers_max: usize,
    /// Whether interfaces recover from exhaustion: an operation that a portal table entry with
    /// flow control has no room for is refused, and comes again.
    pub recovers: bool,
    pub processes: Vec<Process>,
    pub entries: Vec<Entry>,
    pub ops: Vec<Op>,
    pub met: Met,
    /// Who has ended.
    dead: BTreeSet<usize>,
    /// Who has given up whom.
    gone: BTreeSet<(usize, usize)>,
    /// Calls and arrivals so far.
    step: u64,
    fired: u64,
    next_due: u64,
}

/// What the model has come by.
#[derive(Clone, Copy, Debug, Default)]
pub struct Met {
    pub overflow_taken: u64,
    pub truncated: u64,
    pub managed_unlinks: u64,
    pub unlinked_on_append: u64,
    pub no_truncate_passed: u64,
    pub searches_found: u64,
    pub searches_missed: u64,
    pub searches_deleted: u64,
    pub dropped: u64,
    pub refused_disabled: u64,
    pub disabled_by_want: u64,
    pub headers_ran_out: u64,
    pub operation_violations: u64,
    pub permission_violations: u64,
    pub triggered: u64,
    pub triggered_late: u64,
    pub chained: u64,
    pub cancelled: u64,
    pub swaps_refused: u64,
    pub freed_late: u64,
    pub claimed_moving: u64,
    pub completed_though_dropped: u64,
    pub counted_bytes: u64,
    pub lost: u64,
    pub lost_at_target: u64,
    pub lost_on_the_way: u64,
}

impl Model {
    /// Processes with nothing in them.
    pub fn new(count: usize, matching: bool, headers_max: usize, recovers: bool) -> Model {
        Model {
            matching,
            headers_max,
            recovers,
            processes: (0..count).map(|_| Process::default()).collect(),
            entries: Vec::new(),
            ops: Vec::new(),
            met: Met::default(),
            dead: BTreeSet::new(),
            gone: BTreeSet::new(),
            step: 0,
            fired: 0,
            next_due: 0,
        }
    }

    /// A call or an arrival begins.
    pub fn begin_step(&mut self) {
        self.step += 1;
    }

    /// `PtlPTAlloc`.
    pub fn pt_alloc(&mut self, who: usize, index: usize, pt: Pt) {
        let pts = &mut self.processes[who].pts;
        if pts.len() <= index {
            pts.resize(index + 1, None);
        }
        pts[index] = Some(pt);
    }

    /// `PtlPTDisable` and `PtlPTEnable`.
    pub fn pt_switch(&mut self, who: usize, index: usize, enabled: bool) {
        let pt = self.pt_mut(who, index);
        pt.disabled = !enabled;
        // Who switches it before it was told that it is disabled need not be told any more.
        self.excuse_disabled(who, index);
    }

    fn pt_mut(&mut self, who: usize, index: usize) -> &mut Pt {
        self.processes[who].pts[index].as_mut().expect("the program uses what it has allocated")
    }

    fn pt(&self, who: usize, index: usize) -> &Pt {
        self.processes[who].pts[index].as_ref().expect("the program uses what it has allocated")
    }

    /// The call that starts an operation which was written down.
    pub fn begin(&mut self, id: usize) {
        self.start(id, None);
    }

    /// Writes down an operation that may start later.
    pub fn add_op(&mut self, op: Op) -> usize {
        self.ops.push(op);
        self.ops.len() - 1
    }

    /// An operation starts, maybe set off by a counter.
    fn start(&mut self, id: usize, by: Option<usize>) {
        self.fired += 1;
        let (step, order) = (self.step, self.fired);
        let op = &mut self.ops[id];
        op.started = Some(Start { step, by, order });
        let (from, to) = (op.from, op.to);
        if op.kind != What::Get {
            self.owe_send(id);
        }
        if self.gone.contains(&(from, to)) {
            self.lose(id);
        }
    }

    /// The memory of an operation may be used again, some time.
    fn owe_send(&mut self, id: usize) {
        let op = &self.ops[id];
        let (from, len, md) = (op.from, op.len, op.source_md);
        let told = op.send_told();
        if md.ct_send {
            let count = Ok(md.ct_bytes.then_some(len));
            self.may_count(from, md.ct, count, Some((id, Side::Initiator)));
        }
        if md.tells_of_sends() {
            let due = self.owe(from, told, &[], Some(id));
            self.ops[id].send_due = Some(due);
        }
    }

    /// Nothing is under way: what has arrived is done.
    pub fn rests(&mut self) {
        for id in 0..self.ops.len() {
            if self.ops[id].arrived.is_some() {
                self.settle(id);
            }
        }
    }

    /// Panics unless everything that was due has come, at rest.
    pub fn check_end(&self) {
        for (id, op) in self.ops.iter().enumerate() {
            let has_ended = op.arrived.is_some() || op.ends.is_lost || self.dead.contains(&op.from);
            assert!(
                op.started.is_none() || has_ended,
                "operation {id} has started and never arrived: {op:?}"
            );
        }
        for (who, process) in self.processes.iter().enumerate() {
            if self.dead.contains(&who) {
                continue;
            }
            let missing: Vec<&Due> = process.due.iter().filter(|due| !due.is_excused).collect();
            assert!(missing.is_empty(), "{who} was never told: {missing:?}");
            for (at, counter) in process.counters.iter().enumerate() {
                counter.check_end(who, at);
            }
        }
    }
}
