//! Events that are due, and in which order.

use super::Model;
use super::nouns::{Fail, Kind, Told};

/// An event that must come.
#[derive(Clone, Debug)]
pub(super) struct Due {
    id: u64,
    told: Told,
    /// Events that come before it.
    after: Vec<u64>,
    /// The operation that it tells of, if it tells of one.
    op: Option<usize>,
    /// It may come, and need not.
    pub(super) is_excused: bool,
    /// It may come as undeliverable instead.
    pub(super) may_fail: bool,
}

impl Due {
    fn is_said_by(&self, seen: &Told) -> bool {
        self.told.is_said_by(seen) || self.may_fail && self.told.is_failed_by(seen)
    }
}

impl Model {
    /// An event is due, after these. Its name.
    pub(super) fn owe(&mut self, who: usize, told: Told, after: &[u64], op: Option<usize>) -> u64 {
        let id = self.next_due;
        self.next_due += 1;
        let after = after.to_vec();
        self.processes[who].due.push(Due {
            id,
            told,
            after,
            op,
            is_excused: false,
            may_fail: false,
        });
        id
    }

    /// The same of one that need not come.
    pub(super) fn may_tell(&mut self, who: usize, told: Told, op: usize) {
        self.owe(who, told, &[], Some(op));
        if let Some(due) = self.processes[who].due.last_mut() {
            due.is_excused = true;
        }
    }

    /// An event that is due to a process may come as undeliverable.
    pub(super) fn may_fail(&mut self, who: usize, id: u64) {
        for due in self.processes[who].due.iter_mut().filter(|due| due.id == id) {
            due.may_fail = true;
        }
    }

    /// A process switches a portal table entry, so that it need not be told that exhaustion did.
    pub(super) fn excuse_disabled(&mut self, who: usize, pt: usize) {
        let due = self.processes[who].due.iter_mut();
        for due in due.filter(|due| due.told.kind == Kind::PtDisabled && due.told.pt == pt) {
            due.is_excused = true;
        }
    }

    /// A process takes an event. The operation whose memory is free by it, if one is.
    ///
    /// # Panics
    /// Unless the event is due now.
    pub fn sees(&mut self, who: usize, seen: &Told) -> Option<usize> {
        let all = &self.processes[who].due;
        let is_open = |id: &u64| all.iter().any(|due| due.id == *id);
        let fits = |excused| move |due: &Due| due.is_excused == excused && due.is_said_by(seen);
        let found = all.iter().position(fits(false)).or_else(|| all.iter().position(fits(true)));
        let Some(found) = found else {
            let like =
                |due: &&Due| (due.told.kind, due.told.user_ptr) == (seen.kind, seen.user_ptr);
            let like: Vec<&Due> = all.iter().filter(like).collect();
            panic!("{who} is told what is not due: {seen:?}; due is of this kind: {like:?}");
        };
        if let Some(before) = all[found].after.iter().find(|id| is_open(id)) {
            let before = all.iter().find(|due| due.id == *before);
            panic!("{who} is told too early: {seen:?}; first comes {before:?}");
        }
        let due = self.processes[who].due.remove(found);
        let op = due.op?;
        let is_lost = seen.outcome == Err(Fail::Undeliverable);
        match due.told.kind {
            Kind::Send => {
                self.ops[op].send_due = None;
                self.ops[op].ends.has_failed_send |= is_lost;
                return Some(op);
            }
            Kind::Put | Kind::Get | Kind::Atomic | Kind::FetchAtomic => {
                self.ops[op].comm_due = None;
                self.met.lost_at_target |= u64::from(is_lost);
                if !is_lost {
                    self.is_whole_after_all(op);
                }
                self.settle(op);
            }
            Kind::Ack | Kind::Reply if is_lost => {
                self.ops[op].ends.answer_due = None;
                self.note_lost(op);
            }
            Kind::Ack => {
                self.ops[op].ends.answer_due = None;
                if due.told.outcome.is_ok() {
                    let was_sent = !self.ops[op].ends.has_failed_send;
                    assert!(was_sent, "operation {op} was taken, and its memory never sent");
                    self.settle(op);
                }
            }
            // The initiator has its bytes; the target may not know it yet.
            Kind::Reply => {
                self.ops[op].ends.answer_due = None;
                self.ops[op].ends.has_unsure_answer = false;
                self.ops[op].settled = true;
            }
            Kind::PutOverflow
            | Kind::GetOverflow
            | Kind::AtomicOverflow
            | Kind::FetchAtomicOverflow => self.ops[op].ends.over_due = None,
            _ => {}
        }
        None
    }

    /// The data of an operation is where it belongs, and its target knows it.
    pub(super) fn settle(&mut self, id: usize) {
        let op = &mut self.ops[id];
        op.settled = true;
        let Some(entry) = op.arrived.and_then(|taken| taken.outcome.ok()) else { return };
        self.entries[entry].moving.retain(|moving| *moving != id);
        if self.ops[id].is_claimed {
            self.release_header(id);
        }
    }
}
