//! Processes that end, and peers that are given up: how operations between the two end.
//!
//! The specification says that an operation whose target is not reached fails with
//! `PTL_NI_UNDELIVERABLE`, and that an event tells each end. When a process learns of a loss is
//! the network's affair, so the model is told ([`Model::gives_up`]). From then on nothing of the
//! peer arrives. What was under way ends once, as it would have or as undeliverable; what had
//! not arrived at the peer only as undeliverable.

use super::nouns::{AckReq, Fail, Kind, Told, What};
use super::{Bytes, Model};

/// Of the two processes of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    Initiator,
    Target,
}

/// What an operation has counted, or will, if all is well.
#[derive(Clone, Copy, Debug)]
pub struct Counted {
    pub side: Side,
    pub who: usize,
    pub ct: usize,
    pub successes: u64,
}

/// What a loss may change about an operation.
#[derive(Clone, Debug, Default)]
pub struct Ends {
    /// The initiator has given up the target, and the operation has not ended before.
    pub is_lost: bool,
    /// It had not arrived by then.
    pub is_lost_on_the_way: bool,
    /// The target has given up the initiator, and the data was not all there.
    pub is_cut: bool,
    /// What the memory of the entry was to hold, unless something else is done there.
    pub kept: Option<Bytes>,
    /// What the answer has brought is not known.
    pub has_unsure_answer: bool,
    pub has_failed_send: bool,
    /// The acknowledgement or answer, while it is due.
    pub answer_due: Option<u64>,
    /// The event of the entry that has taken its header, while it is due.
    pub over_due: Option<u64>,
    pub counted: Vec<Counted>,
}

impl Model {
    /// A process has ended: nobody looks at what it is told any more.
    pub fn dies(&mut self, who: usize) {
        self.dead.insert(who);
        self.processes[who].due.clear();
    }

    /// Data between two processes could not be moved, since the other one is gone; the loss
    /// itself may be told later. What has arrived at either may fail.
    pub fn doubts(&mut self, who: usize, peer: usize) {
        for id in 0..self.ops.len() {
            let op = &self.ops[id];
            if op.arrived.is_none() {
                continue;
            }
            if (op.from, op.to) == (who, peer) {
                self.lose(id);
            } else if (op.from, op.to) == (peer, who) {
                self.cut(id);
            }
        }
    }

    /// A process learns that a peer has ended, or is not reached any more.
    pub fn gives_up(&mut self, who: usize, peer: usize) {
        self.doubts(who, peer);
        self.gone.insert((who, peer));
        for id in 0..self.ops.len() {
            let op = &self.ops[id];
            if (op.from, op.to) == (who, peer) && op.started.is_some() {
                self.lose(id);
            }
        }
    }

    /// The initiator of an operation loses its target.
    pub(super) fn lose(&mut self, id: usize) {
        if self.ops[id].ends.is_lost {
            return;
        }
        self.ops[id].ends.is_lost = true;
        self.ops[id].ends.is_lost_on_the_way = self.ops[id].arrived.is_none();
        self.doubt_counts(id, Side::Initiator);
        let (kind, from, send_due) = (self.ops[id].kind, self.ops[id].from, self.ops[id].send_due);
        match send_due {
            Some(due) => self.may_fail(from, due),
            None if kind == What::Get => {}
            None => {
                let md = self.ops[id].source_md;
                if md.has_queue && !md.tells_of_sends() {
                    let told = self.ops[id].send_told();
                    self.may_tell(from, undeliverable(told), id);
                }
            }
        }
        self.lose_answer(id);
    }

    fn lose_answer(&mut self, id: usize) {
        let op = &self.ops[id];
        let (is_reply, from) = (op.kind.reads(), op.from);
        if !is_reply && op.ack == AckReq::None {
            return;
        }
        let (kind, md) =
            if is_reply { (Kind::Reply, op.answer_md) } else { (Kind::Ack, op.source_md) };
        let is_told = md.has_queue && (is_reply || op.ack == AckReq::Full);
        let told = Told { rlength: Some(op.len), ..Told::of(kind, op.pt, op.user_ptr) };
        let told = undeliverable(told);
        let Some(taken) = op.arrived else {
            if if is_reply { md.ct_reply } else { md.ct_ack } {
                self.may_count(from, md.ct, Err(()), None);
            }
            if is_told {
                let due = self.owe(from, told, &[], Some(id));
                self.ops[id].ends.answer_due = Some(due);
            }
            return;
        };
        let is_silent = is_told && taken.outcome.is_ok() && md.event_success_disable;
        match op.ends.answer_due {
            Some(due) => self.may_fail(from, due),
            // It was told.
            None if is_told && !is_silent => return,
            None if is_silent => self.may_tell(from, told, id),
            None => {}
        }
        // Part of an answer may have come.
        self.ops[id].ends.has_unsure_answer = true;
    }

    /// The target of an operation loses its initiator, and what has not come never will.
    fn cut(&mut self, id: usize) {
        let op = &self.ops[id];
        let Some(taken) = op.arrived else { return };
        let Ok(at) = taken.outcome else { return };
        // Of a get, the target learns last that it is done.
        if op.ends.is_cut || (op.settled && op.kind != What::Get) {
            return;
        }
        let entry = &self.entries[at];
        let (who, options) = (entry.who, entry.options);
        let has_queue = self.pt(who, entry.pt).has_queue;
        let is_told = has_queue && !options.event_comm_disable && !options.event_success_disable;
        if is_told && op.comm_due.is_none() {
            return;
        }
        let told = self.of_header(op, taken, op.kind.kinds().0, entry.user_ptr);
        let (comm_due, over_due, writes) = (op.comm_due, op.ends.over_due, op.kind.writes());
        self.ops[id].ends.is_cut = true;
        self.doubt_counts(id, Side::Target);
        if writes {
            let range = taken.offset..taken.offset + taken.mlength;
            let memory = &mut self.entries[at].memory;
            self.ops[id].ends.kept = Some(memory.part(range.clone()));
            memory.forget(range);
        }
        for due in comm_due.into_iter().chain(over_due) {
            self.may_fail(who, due);
        }
        if comm_due.is_none() && has_queue && !options.event_comm_disable {
            self.may_tell(who, undeliverable(told), id);
        }
    }

    /// The data of an operation is there, though its initiator is gone.
    pub(super) fn is_whole_after_all(&mut self, id: usize) {
        let op = &mut self.ops[id];
        let (Some(kept), Some(taken)) = (op.ends.kept.take(), op.arrived) else { return };
        if let Ok(at) = taken.outcome {
            self.entries[at].memory.put_back(taken.offset, &kept);
        }
    }

    /// An operation counts, or will: of one that a loss may have ended, maybe a failure.
    pub(super) fn note_counted(&mut self, id: usize, counted: Counted) {
        let ends = &mut self.ops[id].ends;
        let is_doubtful = match counted.side {
            Side::Initiator => ends.is_lost,
            Side::Target => ends.is_cut,
        };
        ends.counted.push(counted);
        if is_doubtful {
            self.doubt_counts(id, counted.side);
        }
    }

    /// What an operation was to count at one side may be failures.
    fn doubt_counts(&mut self, id: usize, side: Side) {
        let counted = std::mem::take(&mut self.ops[id].ends.counted);
        for Counted { who, ct, successes, .. } in counted.iter().filter(|it| it.side == side) {
            self.processes[*who].counters[*ct].doubt(*successes);
        }
        self.ops[id].ends.counted = counted.into_iter().filter(|it| it.side != side).collect();
    }

    /// An initiator was told that an operation is lost.
    pub(super) fn note_lost(&mut self, id: usize) {
        self.met.lost = 1;
        self.met.lost_on_the_way |= u64::from(self.ops[id].ends.is_lost_on_the_way);
    }

    /// The bytes that an operation has brought back, as far as they are known; none if it has
    /// brought none.
    pub fn answer_of(&self, id: usize) -> Option<Bytes> {
        let op = &self.ops[id];
        let taken = op.arrived.filter(|_| !op.ends.is_lost_on_the_way)?;
        taken.outcome.ok()?;
        let mut answer = op.answer.clone();
        if op.ends.has_unsure_answer {
            answer.forget(0..answer.len());
        }
        Some(answer)
    }
}

fn undeliverable(told: Told) -> Told {
    let (outcome, mlength) = (Err(Fail::Undeliverable), None);
    Told { outcome, mlength, ..told }
}
