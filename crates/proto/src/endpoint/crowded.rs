//! Receives that the rail which matches has no room for: they wait here, and are posted in
//! their order as places come free.
//!
//! They are younger than those of their list that the rail has. So a message that has met none
//! of those belongs to the oldest of these that accepts it, and the oldest such message comes
//! first. Who claims by that order has the same pairs as a rail with room for all: messages
//! prefer older receives, and receives older messages, so there is one way to pair them.
//!
//! Invariants: those of a list are in the order in which they were posted; while one waits, no
//! younger one of its list is given to the rail; the rail is told when the last one of a list
//! waits no more.

use super::Endpoint;
use super::at_rail::{event_of, matching};
use crate::request::RecvOp;
use sluice_link::mutants::{self, Mutant};
use sluice_link::{Port, TaggedWanted, Token};
use sluice_portals::Handle;
use sluice_wire::PtIndex;
use std::collections::{BTreeMap, VecDeque};

/// See the module. There are no more than the table of receives holds.
#[derive(Debug, Default)]
pub(super) struct Crowded {
    /// By list; a list that none waits for is not here.
    waiting: BTreeMap<PtIndex, VecDeque<(Handle<RecvOp>, TaggedWanted)>>,
}

impl Crowded {
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Whether one of a list waits.
    pub fn has(&self, list: PtIndex) -> bool {
        self.waiting.contains_key(&list)
    }

    pub fn add(&mut self, handle: Handle<RecvOp>, wanted: TaggedWanted) {
        self.waiting.entry(wanted.list).or_default().push_back((handle, wanted));
    }

    /// The oldest of a list.
    fn oldest(&self, list: PtIndex) -> Option<(Handle<RecvOp>, TaggedWanted)> {
        self.waiting.get(&list)?.front().copied()
    }

    /// One of a list waits no more. False if it does not.
    fn remove<P: Port>(&mut self, port: &mut P, list: PtIndex, handle: Handle<RecvOp>) -> bool {
        let Some(waiting) = self.waiting.get_mut(&list) else { return false };
        let Some(at) = waiting.iter().position(|(one, _)| *one == handle) else { return false };
        waiting.remove(at);
        if waiting.is_empty() {
            self.waiting.remove(&list);
            matching(port).nobody_waits(list);
        }
        true
    }
}

impl Endpoint {
    /// Gives those that wait what has come for them, and to the rail what it has room for.
    #[inline]
    pub(super) fn serve_crowded<P: Port>(&mut self, port: &mut P) {
        if !self.crowded.is_empty() {
            self.serve_those_that_wait(port);
        }
    }

    #[cold]
    #[inline(never)]
    fn serve_those_that_wait<P: Port>(&mut self, port: &mut P) {
        let lists: Vec<PtIndex> = self.crowded.waiting.keys().copied().collect();
        for list in lists {
            while self.claim_for_crowded(port, list) {}
            self.post_crowded(port, list);
        }
        // Whoever calls this need not know what a message that has met its receive brings.
        self.drain_events(port);
    }

    /// The oldest message that one of them accepts is received. False if there is none.
    fn claim_for_crowded<P: Port>(&mut self, port: &mut P, list: PtIndex) -> bool {
        if mutants::is(Mutant::ForgetsTheCrowded) {
            return false;
        }
        let name = Token(self.recvs.take_serial());
        let Some(waiting) = self.crowded.waiting.get(&list) else { return false };
        let mut wants =
            |from, message: &_| waiting.iter().any(|(_, wanted)| wanted.accepts(from, message));
        let Some((from, message)) = matching(port).claim_first(list, &mut wants, name) else {
            return false;
        };
        let mut accepting = waiting.iter().filter(|(_, wanted)| wanted.accepts(from, &message));
        let found = match mutants::is(Mutant::ServesTheNewestFirst) {
            true => accepting.next_back(),
            false => accepting.next(),
        };
        let handle = found.expect("one of them accepts it").0;
        self.crowded.remove(port, list, handle);
        matching(port).take(name, self.recvs.place_at_rail(handle));
        self.unstage_met(port, handle, &message);
        self.on_matched(port, &event_of(from, &message, handle.to_u64()));
        true
    }

    /// Posts the oldest of them while there is room.
    fn post_crowded<P: Port>(&mut self, port: &mut P, list: PtIndex) {
        while let Some((handle, wanted)) = self.crowded.oldest(list) {
            let into = self.recvs.place_at_rail(handle);
            if matching(port).post(&wanted, into, Token(handle.to_u64())).is_err() {
                return;
            }
            self.crowded.remove(port, list, handle);
        }
    }

    /// Takes a receive back that waits here or at the rail. False if it has met a message.
    pub(super) fn withdraw<P: Port>(&mut self, port: &mut P, handle: Handle<RecvOp>) -> bool {
        let list = self.recvs.get(handle).map(|op| op.recv.space.pt());
        let is_back = list.is_some_and(|list| self.crowded.remove(port, list, handle))
            || matching(port).cancel(Token(handle.to_u64()));
        if is_back {
            self.unstage(port, handle, 0);
        }
        is_back
    }
}
