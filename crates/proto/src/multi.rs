//! Buffers that take many messages, one behind the other (`FI_MULTI_RECV`).
//!
//! At any time a buffer waits for one message, as a receive of what is left of it. What has
//! met one goes on by itself, and the rest waits in its place, before the next packet is looked
//! at. So a buffer is filled before receives that were posted after it meet anything it takes. The
//! rest wants what the whole wanted, so what is known of the place (`stall_cursor`) holds for it.
//!
//! Invariants: messages lie in a buffer in the order in which they were matched and do not
//! overlap; a buffer is told to be consumed once, after the ends of all its messages.

use crate::api::{Completion, Failure, Kind, Recv, Space};
use crate::core::Core;
use sluice_link::mutants::{self, Mutant};
use sluice_portals::{Age, Handle, Table};
use sluice_wire::Region;

/// A buffer that takes many messages.
#[derive(Debug)]
pub struct MultiOp {
    /// What it waits for now: what is left of the buffer.
    pub next: Recv,
    /// Where it waits, once it has.
    place: Option<Place>,
    /// With less left it takes no more.
    left_min: u64,
    /// Messages that have met it and not ended.
    under_way: u32,
    /// It takes no more.
    is_used_up: bool,
    /// Why, if not because it is full.
    failure: Option<Failure>,
}

/// Where a buffer waits among the receives.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    /// Of its entry, among the entries.
    pub age: Age,
    /// Among the calls.
    pub serial: u64,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Multis {
    table: Table<MultiOp>,
}

impl Multis {
    pub fn new(requests_max: u32) -> Multis {
        Multis { table: Table::new(requests_max) }
    }

    pub fn is_full(&self) -> bool {
        self.table.is_full()
    }

    /// Where a buffer waits, or has waited.
    pub fn place(&self, multi: Handle<MultiOp>) -> Option<Place> {
        self.table.get(multi)?.place
    }

    /// It waits here from now on.
    pub fn set_place(&mut self, multi: Handle<MultiOp>, place: Place) {
        if let Some(op) = self.table.get_mut(multi) {
            op.place = Some(place);
        }
    }

    /// A buffer that waits from now on.
    ///
    /// # Panics
    /// If there are as many as may be.
    pub fn insert(&mut self, recv: &Recv, left_min: u64) -> Handle<MultiOp> {
        let op = MultiOp {
            next: *recv,
            place: None,
            left_min,
            under_way: 0,
            is_used_up: false,
            failure: None,
        };
        let Ok(handle) = self.table.insert(op) else { unreachable!("room was checked") };
        handle
    }

    /// It was never posted.
    pub fn forget(&mut self, multi: Handle<MultiOp>) {
        self.table.discard(multi);
    }

    /// It waits no more, because of this, which is told when its messages have ended.
    pub fn fail(&mut self, core: &mut Core, multi: Handle<MultiOp>, failure: Failure) {
        let Some(op) = self.table.get_mut(multi) else { return };
        (op.is_used_up, op.failure) = (true, Some(failure));
        if op.under_way == 0 {
            self.end(core, multi);
        }
    }

    /// A message of so many bytes has met it. What it waits for next, if anything.
    pub fn met(&mut self, multi: Handle<MultiOp>, len: u64) -> Option<Recv> {
        let op = self.table.get_mut(multi)?;
        op.under_way += 1;
        let Region { addr, len: left } = op.next.buf;
        let len = len.min(left);
        let moved = if mutants::is(Mutant::OverlapsInBuffers) { 0 } else { len };
        op.next.buf = Region { addr: addr.offset(moved), len: left - len };
        op.is_used_up = op.next.buf.len < op.left_min.max(1);
        (!op.is_used_up).then_some(op.next)
    }

    /// The rest cannot wait: it is given back.
    pub fn give_up(&mut self, multi: Handle<MultiOp>) {
        if let Some(op) = self.table.get_mut(multi) {
            op.is_used_up = true;
        }
    }

    /// A message that has met it has ended.
    pub fn message_ended(&mut self, core: &mut Core, multi: Handle<MultiOp>) {
        let Some(op) = self.table.get_mut(multi) else { return };
        op.under_way -= 1;
        if op.under_way == 0 && op.is_used_up {
            self.end(core, multi);
        }
    }

    fn end(&mut self, core: &mut Core, multi: Handle<MultiOp>) {
        let Some(op) = self.table.remove(multi) else { return };
        let recv = op.next;
        if mutants::is(Mutant::ForgetsUsedBuffers) {
            return;
        }
        if let Some(failure) = op.failure {
            return core.complete(Completion::of_unmatched(&recv, failure));
        }
        core.complete(Completion {
            kind: Kind::Consumed,
            space: Space::Untagged,
            context: recv.context,
            len: 0,
            buf: recv.buf.addr,
            tag: 0,
            data: None,
            peer: None,
            quiet: false,
            outcome: Ok(()),
        });
    }
}
