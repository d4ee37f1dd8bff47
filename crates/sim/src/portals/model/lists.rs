//! Appending, searching and unlinking entries (sections 3.11 and 3.12), and the headers of
//! operations that wait for an entry.

use super::losses::Side;
use super::nouns::{Entry, Kind, List, Op, Taken, Told};
use super::{Fail, Model};

/// What a call to unlink an entry must answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unlinked {
    /// It is.
    Done,
    /// It is not linked any more.
    Gone,
    /// Headers wait in it.
    InUse,
    /// Something may be under way on it: it is done, or in use.
    Either,
}

impl Model {
    /// The header of an operation waits for an entry of the priority list.
    pub(super) fn keep_header(&mut self, id: usize, at: usize) {
        let entry = &mut self.entries[at];
        entry.headers += 1;
        let (who, pt) = (entry.who, entry.pt);
        self.processes[who].headers += 1;
        self.ops[id].is_unexpected = true;
        self.pt_mut(who, pt).unexpected.push(id);
    }

    /// A header that was taken takes no room any more.
    pub(super) fn release_header(&mut self, id: usize) {
        let op = &mut self.ops[id];
        op.is_claimed = false;
        self.processes[op.to].headers -= 1;
    }

    /// What became of an operation whose header waits.
    fn taken(&self, id: usize) -> Taken {
        match self.ops[id].arrived {
            Some(taken) => taken,
            None => unreachable!("a header is kept of what has arrived"),
        }
    }

    /// Whether an entry would have taken the operation of a header.
    fn wants(&self, entry: &Entry, offset: u64, id: usize) -> bool {
        let op: &Op = &self.ops[id];
        let at = if entry.options.manage_local { offset } else { op.remote_offset };
        let room = entry.memory.len() - at.min(entry.memory.len());
        self.accepts(entry, op) && (!entry.options.no_truncate || op.len <= room)
    }

    /// An entry takes a header. The events that the taking is told by, and comes after.
    fn claim(&mut self, entry: &Entry, id: usize) -> Vec<u64> {
        let (who, pt, options) = (entry.who, entry.pt, entry.options);
        self.met.overflow_taken = 1;
        self.pt_mut(who, pt).unexpected.retain(|header| *header != id);
        self.ops[id].is_unexpected = false;
        self.ops[id].is_claimed = true;
        let taken = self.taken(id);
        let at = taken.outcome.unwrap_or_else(|_| unreachable!("an entry took it"));
        let is_moving = self.entries[at].moving.contains(&id);
        self.met.claimed_moving |= u64::from(is_moving);
        if options.ct_overflow {
            let count = Ok(options.ct_bytes.then_some(taken.mlength));
            self.may_count(who, entry.ct, count, Some((id, Side::Target)));
        }
        let mut events: Vec<u64> = self.ops[id].comm_due.into_iter().collect();
        if !options.event_over_disable && self.pt(who, pt).has_queue {
            let op = &self.ops[id];
            let told = Told {
                list: Some(List::Overflow),
                ..self.of_header(op, taken, op.kind.kinds().1, entry.user_ptr)
            };
            let due = self.owe(who, told, &events, Some(id));
            self.ops[id].ends.over_due = Some(due);
            if self.ops[id].ends.is_cut {
                self.may_fail(who, due);
            }
            events.push(due);
        }
        if !is_moving {
            self.release_header(id);
        }
        self.entries[at].headers -= 1;
        if self.entries[at].headers == 0 && self.entries[at].auto_unlinked {
            self.met.freed_late = 1;
            self.free(at, &events);
        }
        events
    }

    /// Appends an entry. Its number, and whether it is linked.
    pub fn append(&mut self, mut entry: Entry) -> (usize, bool) {
        let (who, pt) = (entry.who, entry.pt);
        let mut is_spent = false;
        let mut events = Vec::new();
        while entry.list == List::Priority && !is_spent {
            let headers = &self.pt(who, pt).unexpected;
            let offset = entry.local_offset;
            let found = headers.iter().copied().find(|id| self.wants(&entry, offset, *id));
            let Some(id) = found else { break };
            events = self.claim(&entry, id);
            if entry.options.manage_local && entry.options.inc_by_rlength {
                entry.local_offset += self.ops[id].len;
            }
            let left = entry.memory.len() - entry.local_offset.min(entry.memory.len());
            is_spent =
                entry.options.use_once || (entry.options.manage_local && left < entry.min_free);
        }
        entry.linked = !is_spent;
        let (list, options, user_ptr) = (entry.list, entry.options, entry.user_ptr);
        let id = self.entries.len();
        self.entries.push(entry);
        let has_queue = self.pt(who, pt).has_queue;
        if is_spent {
            self.met.unlinked_on_append = 1;
            if has_queue && !options.event_unlink_disable {
                self.owe(who, Told::of(Kind::AutoUnlink, pt, user_ptr), &events, None);
            }
        } else {
            let table = self.pt_mut(who, pt);
            match list {
                List::Priority => table.priority.push(id),
                List::Overflow => table.overflow.push(id),
            }
            if has_queue && !options.event_link_disable {
                self.owe(who, Told::of(Kind::Link, pt, user_ptr), &[], None);
            }
        }
        (id, !is_spent)
    }

    /// An entry leaves its list by itself.
    pub(super) fn auto_unlink(&mut self, at: usize, after: Option<u64>) {
        self.leave(at);
        let entry = &mut self.entries[at];
        entry.auto_unlinked = true;
        let (who, pt, list) = (entry.who, entry.pt, entry.list);
        let is_told = !entry.options.event_unlink_disable && self.pt(who, pt).has_queue;
        if is_told {
            let told = Told {
                list: Some(list),
                ..Told::of(Kind::AutoUnlink, pt, self.entries[at].user_ptr)
            };
            let after: Vec<u64> = after.into_iter().collect();
            let due = self.owe(who, told, &after, None);
            self.entries[at].unlink_due = Some(due);
        }
        if self.entries[at].headers == 0 {
            self.free(at, &[]);
        }
    }

    /// Nothing refers to an unlinked entry of the overflow list any more.
    fn free(&mut self, at: usize, after: &[u64]) {
        let entry = &self.entries[at];
        let (who, pt) = (entry.who, entry.pt);
        let is_told = entry.list == List::Overflow
            && !entry.options.event_unlink_disable
            && self.pt(who, pt).has_queue;
        if is_told {
            let after: Vec<u64> =
                entry.unlink_due.into_iter().chain(after.iter().copied()).collect();
            let user_ptr = entry.user_ptr;
            self.owe(who, Told::of(Kind::AutoFree, pt, user_ptr), &after, None);
        }
    }

    fn leave(&mut self, at: usize) {
        let entry = &mut self.entries[at];
        entry.linked = false;
        let (who, pt) = (entry.who, entry.pt);
        let pt = self.pt_mut(who, pt);
        pt.priority.retain(|linked| *linked != at);
        pt.overflow.retain(|linked| *linked != at);
    }

    /// What unlinking an entry must answer.
    pub fn may_unlink(&self, at: usize) -> Unlinked {
        let entry = &self.entries[at];
        // A header that was taken may be in the entry until its data is there.
        let is_claimed =
            |op: &Op| op.is_claimed && op.arrived.is_some_and(|taken| taken.outcome == Ok(at));
        match () {
            () if !entry.linked => Unlinked::Gone,
            () if entry.headers > 0 => Unlinked::InUse,
            () if !entry.moving.is_empty() || self.ops.iter().any(is_claimed) => Unlinked::Either,
            () if self.has_claims_moving(at) => Unlinked::Either,
            () => Unlinked::Done,
        }
    }

    /// Whether an entry has taken headers whose data may still move.
    fn has_claims_moving(&self, at: usize) -> bool {
        let (who, pt) = (self.entries[at].who, self.entries[at].pt);
        self.ops.iter().any(|op| (op.to, op.pt) == (who, pt) && op.is_claimed)
    }

    /// `PtlMEUnlink` has unlinked an entry.
    pub fn unlink(&mut self, at: usize) {
        self.leave(at);
    }

    /// `PtlMESearch`: how many headers it finds.
    pub fn search(&mut self, entry: &Entry, deletes: bool) -> usize {
        let (who, pt, options) = (entry.who, entry.pt, entry.options);
        let has_queue = self.pt(who, pt).has_queue;
        let headers = self.pt(who, pt).unexpected.clone();
        let mut found = 0;
        for id in headers {
            if !self.wants(entry, 0, id) {
                continue;
            }
            found += 1;
            if deletes {
                self.met.searches_deleted = 1;
                self.claim(entry, id);
            } else {
                self.met.searches_found = 1;
                let taken = self.taken(id);
                if options.ct_overflow {
                    let count = Ok(options.ct_bytes.then_some(taken.mlength));
                    self.may_count(who, entry.ct, count, None);
                }
                if has_queue && !options.event_comm_disable {
                    let op = &self.ops[id];
                    let told = self.of_header(op, taken, Kind::Search, entry.user_ptr);
                    self.owe(who, told, &[], None);
                }
            }
            if options.use_once {
                break;
            }
        }
        if found == 0 && has_queue && !options.event_comm_disable {
            self.met.searches_missed = 1;
            let outcome = Err(Fail::NoMatch);
            let told = Told { outcome, ..Told::of(Kind::Search, pt, entry.user_ptr) };
            self.owe(who, told, &[], None);
        }
        // One that goes on until nothing is left ends with a miss.
        if options.ct_overflow && (found == 0 || !options.use_once) {
            self.may_count(who, entry.ct, Err(()), None);
        }
        found
    }
}
