//! Sends to one peer that wait for credits: in order, numbered, and found again
//! by what a receive wants.
//!
//! Each message that joins gets the next number of its pair. Most queues are
//! only ever emptied from the front, so they begin as a plain deque, whose
//! numbers are consecutive. The first question of the receiver, or a message that
//! is withdrawn, turns a queue into an indexed one, until it is empty again: by number, and by the bits
//! that each kind of question looks at. Programs ask few kinds (an MPI library
//! ignores the same bits in every receive), so an index is made for a kind once
//! walks for it have cost as much as making it.
//!
//! Invariants: a send is in the queue once, waiting or offered; the waiting
//! ones are in every index that exists; numbers rise and are never used twice.
//! Only waiting ones are found, so nobody is told of a message twice.
//!
//! Why not the engine's list of unexpected headers, which has such indexes too:
//! a question here asks for the oldest match up to a number, and another for
//! the first message after one. Its chains would have to be walked for either.

use crate::api::Space;
use crate::portal::NUMBER_FIRST;
use crate::request::SendOp;
use crate::wanted::Wanted;
use sluice_portals::Handle;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Kinds of question that are remembered, with an index or walked for.
const KINDS_MAX: usize = 4;

/// Messages that any question may look at one by one.
const STEPS_FREE: u64 = 16;

/// A send that waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Waiter {
    pub handle: Handle<SendOp>,
    pub space: Space,
    pub tag: u64,
}

/// The sends to one peer that wait, oldest first.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    /// Without an index: all of them. The last has the newest number.
    plain: VecDeque<Waiter>,
    /// How many numbers were given.
    given: u64,
    indexed: Option<Box<Indexed>>,
}

#[derive(Debug, Default)]
struct Indexed {
    waiting: BTreeMap<u64, Waiter>,
    offered: BTreeMap<u64, Waiter>,
    kinds: Vec<Kind>,
    questions: u64,
}

/// Questions for a space that ignore the same bits.
#[derive(Debug)]
struct Kind {
    space: Space,
    ignore: u64,
    /// When it was last asked, in questions.
    asked: u64,
    /// Messages that were walked for it.
    steps: u64,
    /// Significant bits and number of every waiting message of the space.
    index: Option<BTreeSet<(u64, u64)>>,
}

impl Queue {
    /// Sends that wait, offered ones included.
    pub fn len(&self) -> usize {
        match &self.indexed {
            None => self.plain.len(),
            Some(indexed) => indexed.waiting.len() + indexed.offered.len(),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Sends that have ever waited.
    pub fn given(&self) -> u64 {
        self.given
    }

    /// The newest number that was given to a message; one less than the first
    /// if there was none.
    pub fn newest(&self) -> u64 {
        NUMBER_FIRST - 1 + self.given
    }

    /// Adds a send; this is its number.
    pub fn push(&mut self, waiter: Waiter) -> u64 {
        self.given += 1;
        let number = self.newest();
        match &mut self.indexed {
            None => self.plain.push_back(waiter),
            Some(indexed) => indexed.enter(number, waiter),
        }
        number
    }

    /// The oldest send, unless it is offered: then neither it nor one behind it
    /// may go.
    pub fn front(&self) -> Option<Handle<SendOp>> {
        let Some(indexed) = &self.indexed else {
            return self.plain.front().map(|waiter| waiter.handle);
        };
        let (number, waiter) = indexed.waiting.first_key_value()?;
        let offered = indexed.offered.first_key_value();
        offered.is_none_or(|(offered, _)| number < offered).then_some(waiter.handle)
    }

    /// Takes the oldest send out, which is not offered.
    pub fn pop(&mut self) {
        match &mut self.indexed {
            None => {
                self.plain.pop_front();
            }
            Some(indexed) => {
                if let Some((&number, _)) = indexed.waiting.first_key_value() {
                    indexed.leave(number);
                }
            }
        }
        self.settle();
    }

    /// Takes a send out that is not offered, wherever it stands. Its number is not used again.
    pub fn withdraw(&mut self, handle: Handle<SendOp>) {
        let Some((number, _)) = self.waiting().find(|(_, waiter)| waiter.handle == handle) else {
            unreachable!("a send that waits is in the queue of its peer")
        };
        self.indexed().leave(number);
        self.settle();
    }

    /// The oldest waiting message that is wanted, up to a number.
    pub fn find(&mut self, wanted: &Wanted, newest: u64) -> Option<(u64, Waiter)> {
        self.indexed().find(wanted, newest)
    }

    /// The first waiting message after a number.
    pub fn after(&mut self, number: u64) -> Option<(u64, Waiter)> {
        let next = self.indexed().waiting.range(number.checked_add(1)?..).next();
        next.map(|(&number, &waiter)| (number, waiter))
    }

    /// The message of this number is offered from now on, and found no more.
    pub fn offer(&mut self, number: u64) {
        let indexed = self.indexed();
        if let Some(waiter) = indexed.leave(number) {
            indexed.offered.insert(number, waiter);
        }
    }

    /// The send that is offered under this number.
    pub fn offered(&self, number: u64) -> Option<Handle<SendOp>> {
        Some(self.indexed.as_ref()?.offered.get(&number)?.handle)
    }

    /// Takes an offered message out: it waits again, or has been got.
    pub fn end_offer(&mut self, number: u64, waits: bool) -> Option<Handle<SendOp>> {
        let indexed = self.indexed.as_mut()?;
        let waiter = indexed.offered.remove(&number)?;
        if waits {
            indexed.enter(number, waiter);
        }
        self.settle();
        Some(waiter.handle)
    }

    /// Forgets all of them.
    pub fn clear(&mut self) {
        self.plain.clear();
        self.indexed = None;
    }

    /// A queue that has run empty is plain again. Its last number was given, so
    /// those of a plain queue stay consecutive.
    fn settle(&mut self) {
        if self.is_empty() {
            self.indexed = None;
        }
    }

    fn indexed(&mut self) -> &mut Indexed {
        let first = self.newest() + 1 - self.plain.len() as u64;
        let plain = &mut self.plain;
        self.indexed.get_or_insert_with(|| {
            let waiting = (first..).zip(std::mem::take(plain)).collect();
            Box::new(Indexed { waiting, ..Indexed::default() })
        })
    }

    /// The waiting sends with their numbers.
    pub fn waiting(&self) -> impl Iterator<Item = (u64, Waiter)> {
        let first = self.newest() + 1 - self.plain.len() as u64;
        let indexed = self.indexed.iter().flat_map(|indexed| &indexed.waiting);
        let indexed = indexed.map(|(&number, &waiter)| (number, waiter));
        (first..).zip(self.plain.iter().copied()).chain(indexed)
    }

    /// Panics unless every send is where it is said to be.
    pub fn check_invariants(&self) {
        let Some(indexed) = &self.indexed else { return };
        assert!(self.plain.is_empty(), "waiting in two places");
        let numbers = indexed.waiting.keys().chain(indexed.offered.keys());
        assert!(numbers.clone().all(|&number| number >= NUMBER_FIRST && number <= self.newest()));
        assert!(indexed.offered.keys().all(|number| !indexed.waiting.contains_key(number)));
        for kind in &indexed.kinds {
            let Some(index) = &kind.index else { continue };
            let of_space = indexed.waiting.iter().filter(|(_, waiter)| waiter.space == kind.space);
            let expected: BTreeSet<_> =
                of_space.map(|(&number, waiter)| (waiter.tag & !kind.ignore, number)).collect();
            assert!(*index == expected, "an index does not hold what waits");
        }
    }
}

impl Indexed {
    fn enter(&mut self, number: u64, waiter: Waiter) {
        self.waiting.insert(number, waiter);
        for kind in self.kinds.iter_mut().filter(|kind| kind.space == waiter.space) {
            if let Some(index) = &mut kind.index {
                index.insert((waiter.tag & !kind.ignore, number));
            }
        }
    }

    fn leave(&mut self, number: u64) -> Option<Waiter> {
        let waiter = self.waiting.remove(&number)?;
        for kind in self.kinds.iter_mut().filter(|kind| kind.space == waiter.space) {
            if let Some(index) = &mut kind.index {
                index.remove(&(waiter.tag & !kind.ignore, number));
            }
        }
        Some(waiter)
    }

    fn find(&mut self, wanted: &Wanted, newest: u64) -> Option<(u64, Waiter)> {
        self.questions += 1;
        let asked = self.questions;
        let same = |kind: &Kind| kind.space == wanted.space && kind.ignore == wanted.ignore;
        let nth = self.kinds.iter().position(same);
        if let Some(nth) = nth {
            let kind = &mut self.kinds[nth];
            kind.asked = asked;
            if let Some(index) = &kind.index {
                let key = wanted.bits & !wanted.ignore;
                let (_, number) = *index.range((key, 0)..=(key, newest)).next()?;
                return self.waiting.get(&number).map(|&waiter| (number, waiter));
            }
        }
        let mut steps = 0;
        let found = self.waiting.range(..=newest).find(|(_, waiter)| {
            steps += 1;
            wanted.accepts(waiter.space, waiter.tag)
        });
        let found = found.map(|(&number, &waiter)| (number, waiter));
        if steps > STEPS_FREE {
            self.note_walk(wanted, nth, asked, steps);
        }
        found
    }

    /// Remembers a long walk, and makes the index when walks have cost as much.
    #[cold]
    fn note_walk(&mut self, wanted: &Wanted, nth: Option<usize>, asked: u64, steps: u64) {
        let nth = nth.unwrap_or_else(|| {
            if self.kinds.len() == KINDS_MAX {
                let oldest = (0..KINDS_MAX).min_by_key(|&nth| self.kinds[nth].asked);
                self.kinds.swap_remove(oldest.unwrap_or(0));
            }
            let Wanted { space, ignore, .. } = *wanted;
            self.kinds.push(Kind { space, ignore, asked, steps: 0, index: None });
            self.kinds.len() - 1
        });
        let kind = &mut self.kinds[nth];
        kind.steps += steps;
        if kind.steps >= self.waiting.len() as u64 {
            let of_space = self.waiting.iter().filter(|(_, waiter)| waiter.space == kind.space);
            let keys = of_space.map(|(&number, waiter)| (waiter.tag & !kind.ignore, number));
            kind.index = Some(keys.collect());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waiter(nth: u64, tag: u64) -> Waiter {
        Waiter { handle: Handle::from_u64(1 << 32 | nth), space: Space::Tagged, tag }
    }

    fn wanted(bits: u64, ignore: u64) -> Wanted {
        Wanted { space: Space::Tagged, bits, ignore }
    }

    #[test]
    fn the_oldest_match_is_found_walked_or_indexed() {
        let mut queue = Queue::default();
        let tags = 100;
        for nth in 0..1000 {
            assert_eq!(queue.push(waiter(nth, nth % tags)), NUMBER_FIRST + nth);
        }
        // Each kind of question is walked for first, then has an index; a fifth
        // displaces the one that was not asked for the longest time.
        for round in 0..3 {
            for ignore in [0, 1 << 40, 1 << 41, 1 << 42, 1 << 43] {
                for tag in [99, 50, 0] {
                    let found = queue.find(&wanted(tag, ignore), u64::MAX);
                    assert_eq!(found, Some((NUMBER_FIRST + tag, waiter(tag, tag))), "{round}");
                    queue.check_invariants();
                }
            }
        }
        assert_eq!(queue.find(&wanted(50, 0), NUMBER_FIRST + 49), None);
        assert_eq!(queue.find(&wanted(100, 0), u64::MAX), None);
        let other = Wanted { space: Space::Untagged, bits: 0, ignore: u64::MAX };
        assert_eq!(queue.find(&other, u64::MAX), None);
    }

    #[test]
    fn what_is_newer_than_asked_for_is_not_found() {
        let mut queue = Queue::default();
        for nth in 0..100 {
            queue.push(waiter(nth, nth));
        }
        let found = |queue: &mut Queue, newest| queue.find(&wanted(99, 0), newest).is_some();
        let is_indexed = |queue: &Queue| {
            let kinds = &queue.indexed.as_ref().expect("it was asked").kinds;
            kinds.iter().any(|kind| kind.index.is_some())
        };
        assert!(!found(&mut queue, NUMBER_FIRST + 98));
        while !is_indexed(&queue) {
            assert!(!found(&mut queue, NUMBER_FIRST + 98), "walked");
        }
        assert!(!found(&mut queue, NUMBER_FIRST + 98), "indexed");
        assert!(found(&mut queue, NUMBER_FIRST + 99));
    }

    #[test]
    fn an_offered_message_stays_in_its_place_and_is_not_found() {
        let mut queue = Queue::default();
        for nth in 0..4 {
            queue.push(waiter(nth, 7));
        }
        queue.offer(NUMBER_FIRST + 1);
        let second = queue.find(&wanted(7, 0), u64::MAX);
        assert_eq!(second, Some((NUMBER_FIRST, waiter(0, 7))));
        assert_eq!(queue.after(NUMBER_FIRST), Some((NUMBER_FIRST + 2, waiter(2, 7))));
        queue.pop();
        assert_eq!(queue.front(), None, "nothing overtakes it");
        assert_eq!(queue.len(), 3);
        queue.check_invariants();
        assert_eq!(queue.end_offer(NUMBER_FIRST + 1, true), Some(waiter(1, 7).handle));
        assert_eq!(queue.end_offer(NUMBER_FIRST + 1, true), None, "it is not offered any more");
        assert_eq!(queue.front(), Some(waiter(1, 7).handle));
        queue.check_invariants();
    }

    #[test]
    fn a_message_is_withdrawn_from_wherever_it_stands() {
        for is_indexed in [false, true] {
            let mut queue = Queue::default();
            for nth in 0..4 {
                queue.push(waiter(nth, nth));
            }
            if is_indexed {
                assert!(queue.find(&wanted(3, 0), u64::MAX).is_some());
            }
            queue.withdraw(waiter(2, 2).handle);
            assert_eq!(queue.find(&wanted(2, 0), u64::MAX), None);
            assert_eq!(queue.after(NUMBER_FIRST + 1), Some((NUMBER_FIRST + 3, waiter(3, 3))));
            queue.withdraw(waiter(0, 0).handle);
            assert_eq!(queue.front(), Some(waiter(1, 1).handle));
            assert_eq!(queue.push(waiter(4, 4)), NUMBER_FIRST + 4, "numbers are given once");
            queue.check_invariants();
            for nth in [1, 3, 4] {
                queue.withdraw(waiter(nth, nth).handle);
            }
            assert!(queue.is_empty());
            assert_eq!(queue.push(waiter(5, 5)), NUMBER_FIRST + 5);
        }
    }

    #[test]
    fn a_queue_that_ran_empty_goes_on_with_its_numbers() {
        let mut queue = Queue::default();
        assert_eq!(queue.newest(), NUMBER_FIRST - 1);
        queue.push(waiter(0, 7));
        queue.offer(NUMBER_FIRST);
        assert_eq!(queue.end_offer(NUMBER_FIRST, false), Some(waiter(0, 7).handle));
        assert!(queue.is_empty());
        assert_eq!(queue.push(waiter(1, 7)), NUMBER_FIRST + 1);
        assert_eq!(queue.after(0), Some((NUMBER_FIRST + 1, waiter(1, 7))));
        assert_eq!(queue.after(u64::MAX), None);
    }
}
