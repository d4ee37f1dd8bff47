//! An operation arrives at its target: which entry takes it, and what that changes
//! (sections 3.12 and 3.15).

use super::Model;
use super::bytes::common;
use super::losses::Side;
use super::nouns::{AckReq, Entry, Fail, Kind, List, Op, Start, Taken, Told, What};
use super::sums::combine;
use std::ops::Range;

impl Entry {
    /// Where an operation lands, and how many of its bytes fit.
    pub(super) fn place(&self, remote_offset: u64, rlength: u64) -> (u64, u64) {
        let at = if self.options.manage_local { self.local_offset } else { remote_offset };
        let at = at.min(self.memory.len());
        (at, rlength.min(self.memory.len() - at))
    }

    fn allows(&self, what: What) -> bool {
        match what {
            What::Put | What::Atomic(_) => self.options.op_put,
            What::Get => self.options.op_get,
            What::Fetch(_) => self.options.op_put && self.options.op_get,
        }
    }

    /// Whether headers of what lands in it are kept.
    fn keeps_headers(&self) -> bool {
        self.list == List::Overflow && !self.options.unexpected_hdr_disable
    }
}

/// What a portal table entry refuses an operation for the want of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Want {
    /// To be enabled by its program.
    Enabled,
    /// An entry that matches.
    Match,
    Headers,
    /// Places in its event queue.
    Places,
}

/// Whether an operation of a pair of processes must arrive before another.
fn precedes(one: Start, other: Start) -> bool {
    if one.step != other.step {
        return one.step < other.step;
    }
    // In one step a call comes before what counters set off; among counters there is no order.
    (one.by.is_none() && other.by.is_some()) || (one.by == other.by && one.order < other.order)
}

impl Model {
    /// An operation is at its target; its data, if it brings some, came with it or moves later.
    ///
    /// # Panics
    /// If it cannot arrive now.
    pub fn arrives(&mut self, from: usize, to: usize, id: usize, has_data: bool) {
        let op = self.ops.get(id).unwrap_or_else(|| panic!("nobody has issued operation {id}"));
        assert_eq!((op.from, op.to), (from, to), "the way of operation {id}: {op:?}");
        assert!(op.arrived.is_none(), "operation {id} arrives again: {op:?}");
        assert!(!self.gone.contains(&(to, from)), "{to} hears of {from}, which it has given up");
        let start = op.started;
        let start = start.unwrap_or_else(|| panic!("operation {id} is not yet to start: {op:?}"));
        let earlier = self.ops.iter().position(|other| {
            (other.from, other.to) == (from, to)
                && other.arrived.is_none()
                // What one portal table entry refuses, operations on others overtake.
                && (!self.recovers || other.pt == op.pt)
                && other.started.is_some_and(|other| precedes(other, start))
        });
        assert_eq!(earlier, None, "operation {id} from {from} to {to} overtakes");
        let taken = match self.admit(id) {
            Ok(entry) => self.take(id, entry, has_data),
            Err(why) => Taken { outcome: Err(why), offset: 0, mlength: 0 },
        };
        self.ops[id].arrived = Some(taken);
        // Who has given up the target hears of it no more.
        if !self.ops[id].ends.is_lost {
            self.answer(id, taken);
        }
    }

    /// The entry that takes an operation, or why none does.
    fn admit(&mut self, id: usize) -> Result<usize, Fail> {
        let Op { to, pt: index, kind, .. } = self.ops[id];
        let process = &mut self.processes[to];
        let Some(Some(pt)) = process.pts.get(index) else {
            process.registers.dropped += 1;
            return Err(Fail::Dropped);
        };
        if pt.disabled {
            assert!(!self.recovers, "a disabled entry has taken operation {id}");
            process.registers.dropped += 1;
            self.met.refused_disabled = 1;
            return Err(Fail::PtDisabled);
        }
        let in_order = pt.priority.iter().chain(&pt.overflow).copied();
        let found = in_order.collect::<Vec<usize>>().into_iter().find(|at| self.takes(*at, id));
        let Some(at) = found else {
            return Err(self.refuse(to, index, true));
        };
        let entry = &self.entries[at];
        if entry.is_foreign {
            self.processes[to].registers.permission_violations += 1;
            self.met.permission_violations = 1;
            return Err(Fail::PermViolation);
        }
        if !entry.allows(kind) {
            self.processes[to].registers.operation_violations += 1;
            self.met.operation_violations = 1;
            return Err(Fail::OpViolation);
        }
        // Of a header whose event was not taken yet, only the engine knows that it is free.
        if entry.keeps_headers() && !self.recovers && self.has_no_header(to) {
            self.met.headers_ran_out = 1;
            let tells = !entry.options.event_flowctrl_disable;
            return Err(self.refuse(to, index, tells));
        }
        Ok(at)
    }

    fn has_no_header(&self, who: usize) -> bool {
        self.processes[who].headers >= self.headers_max
    }

    /// An operation was refused, to come again. For want of what; `is_exhausted`: others were
    /// refused there before.
    ///
    /// # Panics
    /// If there is no reason.
    pub fn refuses(&mut self, id: usize, is_exhausted: bool) -> Want {
        let Op { to, pt: index, .. } = self.ops[id];
        let (disabled, has_short_queue) = {
            let pt = self.pt(to, index);
            assert!(pt.flow_control, "an entry without flow control has refused operation {id}");
            (pt.disabled, pt.has_short_queue)
        };
        let pt = self.pt(to, index);
        let in_order: Vec<usize> = pt.priority.iter().chain(&pt.overflow).copied().collect();
        if disabled {
            return Want::Enabled;
        }
        match in_order.into_iter().find(|at| self.takes(*at, id)) {
            None => Want::Match,
            Some(at) if self.entries[at].keeps_headers() && self.has_no_header(to) => Want::Headers,
            Some(_) => {
                assert!(
                    has_short_queue || is_exhausted,
                    "operation {id} is refused without reason"
                );
                Want::Places
            }
        }
    }

    /// An operation was refused, or came behind one that was.
    pub fn drops(&mut self, id: usize) {
        let Op { from, to, started, .. } = &self.ops[id];
        assert!(started.is_some(), "operation {id} from {from} to {to} is not yet to start");
        self.processes[*to].registers.dropped += 1;
    }

    /// Whether an entry matches an operation.
    fn takes(&mut self, at: usize, id: usize) -> bool {
        let (entry, op) = (&self.entries[at], &self.ops[id]);
        if !self.accepts(entry, op) {
            return false;
        }
        let fits = entry.place(op.remote_offset, op.len).1 == op.len;
        if entry.options.no_truncate && !fits {
            self.met.no_truncate_passed = 1;
            return false;
        }
        true
    }

    /// Whether match bits and source are what an entry wants.
    pub(super) fn accepts(&self, entry: &Entry, op: &Op) -> bool {
        !self.matching
            || ((entry.bits ^ op.bits) & !entry.ignore == 0
                && entry.source.is_none_or(|source| source == op.from))
    }

    /// No entry takes it, or something has run out.
    fn refuse(&mut self, who: usize, index: usize, tells: bool) -> Fail {
        self.processes[who].registers.dropped += 1;
        let pt = self.pt_mut(who, index);
        if !pt.flow_control {
            self.met.dropped = 1;
            return Fail::Dropped;
        }
        pt.disabled = true;
        self.met.disabled_by_want = 1;
        if tells {
            let outcome = Err(Fail::PtDisabled);
            let told = Told { outcome, ..Told::of(Kind::PtDisabled, index, 0) };
            self.owe(who, told, &[], None);
        }
        Fail::PtDisabled
    }

    /// An entry takes an operation.
    fn take(&mut self, id: usize, at: usize, has_data: bool) -> Taken {
        let (op, entry) = (&self.ops[id], &self.entries[at]);
        let (offset, fits) = entry.place(op.remote_offset, op.len);
        let item = op.kind.sum().map_or(1, |sum| sum.of.bytes());
        let mlength = fits - fits % item;
        self.met.truncated |= u64::from(mlength < op.len);
        let taken = Taken { outcome: Ok(at), offset, mlength };
        self.touch(id, at, offset..offset + mlength);
        let entry = &mut self.entries[at];
        if has_data && self.ops[id].kind.writes() {
            self.ops[id].settled = true;
        } else {
            entry.moving.push(id);
        }
        if entry.options.manage_local {
            entry.local_offset += mlength;
        }
        self.tell_comm(id, at, taken);
        if self.entries[at].keeps_headers() {
            self.keep_header(id, at);
        }
        let entry = &self.entries[at];
        let left = entry.memory.len() - entry.local_offset.min(entry.memory.len());
        let is_spent = entry.options.manage_local && left < entry.min_free;
        self.met.managed_unlinks |= u64::from(is_spent);
        if entry.options.use_once || is_spent {
            self.auto_unlink(at, self.ops[id].comm_due);
        }
        taken
    }

    /// What an operation does to the memory of an entry.
    fn touch(&mut self, id: usize, at: usize, range: Range<u64>) {
        let (entry, kind) = (&mut self.entries[at], self.ops[id].kind);
        let mut answer = entry.memory.part(range.clone());
        let mut unsure = Vec::new();
        for &other in &entry.moving {
            if self.ops[other].settled {
                continue;
            }
            let Some(taken) = self.ops[other].arrived else { continue };
            let theirs = taken.offset..taken.offset + taken.mlength;
            let Some(both) = common(&range, &theirs) else { continue };
            if self.ops[other].kind.writes() {
                answer.forget(both.start - range.start..both.end - range.start);
                if kind.writes() {
                    self.ops[other].ends.kept = None;
                }
                unsure.push(both);
            } else if kind.writes() {
                self.ops[other].answer.forget(both.start - theirs.start..both.end - theirs.start);
            }
        }
        match kind {
            What::Get => {}
            What::Put => {
                entry.memory.write(range.start, &self.ops[id].sent[..answer.len() as usize])
            }
            What::Atomic(sum) | What::Fetch(sum) => {
                let width = sum.of.bytes();
                for (item, place) in range.clone().step_by(width as usize).enumerate() {
                    let value = &self.ops[id].sent[item * width as usize..][..width as usize];
                    let target = entry.memory.values(place..place + width);
                    let operand = &self.ops[id].operand;
                    let (new, is_refused) = combine(sum.op, sum.of, target, value, operand);
                    self.met.swaps_refused |= u64::from(is_refused);
                    if entry.memory.is_known(place..place + width) {
                        entry.memory.write(place, &new);
                    } else {
                        entry.memory.forget(place..place + width);
                    }
                }
            }
        }
        if kind.writes() {
            for both in unsure {
                entry.memory.forget(both);
            }
        }
        self.ops[id].answer = answer;
    }

    /// Counts and tells what happened on an entry.
    fn tell_comm(&mut self, id: usize, at: usize, taken: Taken) {
        let (op, entry) = (&self.ops[id], &self.entries[at]);
        let (who, options, ct) = (entry.who, entry.options, entry.ct);
        let told = Told {
            list: Some(entry.list),
            ..self.of_header(op, taken, op.kind.kinds().0, entry.user_ptr)
        };
        if options.ct_comm {
            let count = Ok(options.ct_bytes.then_some(taken.mlength));
            self.may_count(who, ct, count, Some((id, Side::Target)));
        }
        let is_told = !options.event_comm_disable && !options.event_success_disable;
        if is_told && self.pt(who, self.entries[at].pt).has_queue {
            self.ops[id].comm_due = Some(self.owe(who, told, &[], Some(id)));
        }
    }

    /// What an event at the target says of an operation.
    pub(super) fn of_header(&self, op: &Op, taken: Taken, kind: Kind, user_ptr: u64) -> Told {
        let entry = taken.outcome.ok().map(|at| &self.entries[at]);
        let start = entry.and_then(|entry| entry.start).filter(|_| taken.mlength > 0);
        Told {
            initiator: Some(op.from),
            bits: Some(op.bits),
            hdr_data: (op.kind != What::Get).then_some(op.hdr_data),
            rlength: Some(op.len),
            mlength: Some(taken.mlength),
            remote_offset: Some(op.remote_offset),
            start: start.map(|start| start + taken.offset),
            atomic: op.kind.sum(),
            ..Told::of(kind, op.pt, user_ptr)
        }
    }

    /// What the initiator is told.
    fn answer(&mut self, id: usize, taken: Taken) {
        let op = &self.ops[id];
        let (from, outcome) = (op.from, taken.outcome.map(|_| ()));
        let list = taken.outcome.ok().map(|at| self.entries[at].list);
        let (kind, md) = if op.kind.reads() {
            (Kind::Reply, op.answer_md)
        } else if op.ack == AckReq::None {
            return;
        } else {
            (Kind::Ack, op.source_md)
        };
        let is_reply = kind == Kind::Reply;
        let counts = if is_reply { md.ct_reply } else { md.ct_ack };
        // Completed is also what the target did not take.
        let is_good = outcome.is_ok() || op.ack == AckReq::Completed;
        self.met.completed_though_dropped |= u64::from(is_good && outcome.is_err());
        let is_full = is_reply || op.ack == AckReq::Full;
        let told = Told {
            outcome,
            list,
            rlength: Some(op.len),
            mlength: Some(taken.mlength),
            remote_offset: Some(taken.offset),
            ..Told::of(kind, op.pt, op.user_ptr)
        };
        // An acknowledgement says that the memory is free; an answer does not.
        let send_due: Vec<u64> = op.send_due.into_iter().filter(|_| !is_reply).collect();
        if counts {
            let bytes = md.ct_bytes.then_some(taken.mlength);
            let count = if is_good { Ok(bytes) } else { Err(()) };
            self.may_count(from, md.ct, count, Some((id, Side::Initiator)));
        }
        let is_unwanted = outcome.is_ok() && md.event_success_disable;
        if is_full && md.has_queue && !is_unwanted {
            let due = self.owe(from, told, &send_due, Some(id));
            self.ops[id].ends.answer_due = Some(due);
        }
    }
}
