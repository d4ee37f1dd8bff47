//! Operations under way: begun, ended, counted.

use crate::engine::ni::Ni;
use crate::objects::md::Md;
use crate::objects::operation::{AnswerBy, LongGets, Operation, Purpose, Stage};
use crate::table::{Handle, Table};

impl Ni {
    /// Puts down an operation. Room was checked when it was asked for; what a
    /// peer asks for is bounded by its credits, and refused beyond the table.
    pub(crate) fn begin(&mut self, operation: Operation) -> Option<Handle<Operation>> {
        let md = operation.md;
        if self.operations.is_full() {
            return None;
        }
        self.count_long_get(&operation, |count| *count += 1);
        let handle = self.operations.insert(operation).ok()?;
        if let Some(md) = self.mds.get_mut(md) {
            md.pending += 1;
        }
        Some(handle)
    }

    /// Takes an operation out. Its descriptor stays until [`Ni::fire`], for the
    /// events that are still to be told.
    #[inline]
    pub(crate) fn end(&mut self, handle: Handle<Operation>) -> Option<Operation> {
        let operation = self.operations.remove(handle)?;
        self.let_go(operation.md);
        self.count_long_get(&operation, |count| *count -= 1);
        Some(operation)
    }

    /// Changes the count that an operation is part of, if it is a long get.
    fn count_long_get(&mut self, operation: &Operation, change: impl FnOnce(&mut u32)) {
        let asked = match &operation.stage {
            Stage::Reply { by: AnswerBy::Offer | AnswerBy::Write(_), .. } => true,
            Stage::Incoming(incoming) => match incoming.purpose {
                Purpose::Get { .. } => true,
                Purpose::Put(_) => return,
            },
            Stage::Outgoing(_) => false,
            _ => return,
        };
        let gets = self.long_gets.entry(operation.peer).or_default();
        change(if asked { &mut gets.asked } else { &mut gets.served });
        if *gets == LongGets::default() {
            self.long_gets.remove(&operation.peer);
        } else if asked && gets.asked == LongGets::MAX - 1 {
            // Another may be asked for.
            self.has_freed_reply_slots = true;
        }
    }

    /// One operation fewer is pending on a descriptor.
    #[inline]
    pub(crate) fn let_go(&mut self, handle: Handle<Md>) {
        let_go(&mut self.mds, &mut self.released, handle);
    }
}

/// As [`Ni::let_go`], where the interface is in parts.
#[inline(always)]
pub(crate) fn let_go(mds: &mut Table<Md>, released: &mut Vec<Handle<Md>>, handle: Handle<Md>) {
    if let Some(md) = mds.get_mut(handle) {
        md.pending -= 1;
        if md.is_released && md.pending == 0 {
            released.push(handle);
        }
    }
}
