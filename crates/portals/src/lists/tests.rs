//! The lists against a plain vector: same answers, same questions to `accept`,
//! invariants after each step; and the bounds on memory and steps.

use super::{Age, Arrived, Criteria, LONG, Posted, SHORT, Slab, Unexpected, Waiting};
use crate::table::Handle;
use proptest::prelude::*;
use sluice_wire::{MatchBits, PeerId};

/// Choices from a seed (splitmix64).
struct Choices(u64);

impl Iterator for Choices {
    type Item = u64;
    fn next(&mut self) -> Option<u64> {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        Some(mixed ^ mixed >> 31)
    }
}

/// What kind of keys a stream uses.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Mix {
    /// Exact bits and given sources.
    Exact,
    /// A handful of masks that MPI programs use, sources given or not.
    Recurring,
    /// A mask of its own for nearly every entry.
    Storm,
    /// Recurring masks, and a few odd ones among them.
    Seasoned,
    OneKey,
    Wildcards,
}

const MIXES: [Mix; 6] =
    [Mix::Exact, Mix::Recurring, Mix::Storm, Mix::Seasoned, Mix::OneKey, Mix::Wildcards];

const MASKS: [u64; 4] = [0, 0x7fff_ffff, 0x00ff_ffff_0000_0000, 0xffff_ffff];

fn criteria(mix: Mix, choice: u64) -> Criteria {
    let (bits, source) = header(mix, choice);
    let part = |shift: u32, of: u64| (choice >> shift) % of;
    let recurring = MASKS[part(20, 4) as usize];
    let random = Choices(choice).next().unwrap_or(0) & Choices(!choice).next().unwrap_or(0);
    let (ignore, any_source) = match mix {
        Mix::Exact | Mix::OneKey => (0, false),
        Mix::Recurring => (recurring, part(24, 3) == 0),
        Mix::Storm => (random, part(24, 2) == 0),
        Mix::Seasoned if part(26, 10) == 0 => (random, part(24, 2) == 0),
        Mix::Seasoned => (recurring, part(24, 2) == 0),
        Mix::Wildcards => (u64::MAX, true),
    };
    Criteria { bits, ignore, source: (!any_source).then_some(source) }
}

fn header(mix: Mix, choice: u64) -> (MatchBits, PeerId) {
    if mix == Mix::OneKey {
        return (MatchBits(5), PeerId(1));
    }
    // Few contexts and sources, so that keys meet; tags enough to make chains
    // of one and chains of many.
    let tag = if choice >> 40 & 1 == 0 { choice >> 32 & 3 } else { choice >> 32 & 0x7f };
    (MatchBits((choice >> 44 & 1) << 48 | tag), PeerId((choice >> 46) as u32 & 3))
}

/// An element of either kind of list.
#[derive(Clone, Copy, Debug, Default)]
struct Record {
    is: Criteria,
    item: u32,
    mark: u8,
}

impl super::Record for Record {
    type Cold = ();
}

impl Waiting for Record {
    fn criteria(&self) -> Criteria {
        self.is
    }
    fn mark(&self) -> u8 {
        self.mark
    }
    fn set_mark(&mut self, mark: u8) {
        self.mark = mark;
    }
}

impl Arrived for Record {
    fn bits(&self) -> MatchBits {
        self.is.bits
    }
    fn source(&self) -> PeerId {
        self.is.source.unwrap_or(NOBODY)
    }
}

type Place = Handle<Record>;

/// Both kinds of list, with what is pushed and what is asked exchanged.
trait List {
    const POSTED: bool;
    fn push(&mut self, is: &Criteria, item: u32) -> Place;
    fn find(&mut self, ask: &Criteria, accept: &mut dyn FnMut(u32) -> bool)
    -> Option<(Place, u32)>;
    fn remove(&mut self, place: Place) -> Option<u32>;
    fn age(&self, place: Place) -> Option<Age>;
    /// Of posted entries alone: one that is as old as another that was taken out.
    fn put_back(&mut self, is: &Criteria, item: u32, age: Age) -> Place;
    fn get(&self, place: Place) -> Option<u32>;
    fn items(&self) -> Vec<(Place, u32)>;
    fn len(&self) -> usize;
    fn check(&self);
    fn is_indexed(&self) -> bool;
    fn capacity(&self) -> usize;
}

/// A list and its slab, in which a second list and records of no list stand
/// between those of the first.
struct Alone<L> {
    slab: Slab<Record>,
    list: L,
    other: L,
}

impl<L> Alone<L> {
    fn new(new: impl Fn() -> L) -> Alone<L> {
        Alone { slab: Slab::new(1 << 20), list: new(), other: new() }
    }
}

fn posted() -> Alone<Posted> {
    Alone::new(Posted::new)
}

fn unexpected() -> Alone<Unexpected<Record>> {
    Alone::new(Unexpected::new)
}

macro_rules! list {
    ($list:ty, $posted:expr, $indexed:expr, $find:expr, $put_back:expr) => {
        impl List for Alone<$list> {
            const POSTED: bool = $posted;
            fn push(&mut self, is: &Criteria, item: u32) -> Place {
                let record = Record { is: *is, item, mark: 0 };
                if item % 16 == 5 {
                    let other = self.slab.insert(record).expect("room");
                    assert!(!self.slab.is_listed(other));
                    self.other.push(&mut self.slab, other);
                }
                let slot = self.slab.insert(record).expect("room");
                self.list.push(&mut self.slab, slot);
                self.slab.handle(slot)
            }
            fn find(
                &mut self,
                ask: &Criteria,
                accept: &mut dyn FnMut(u32) -> bool,
            ) -> Option<(Place, u32)> {
                let slot = $find(self, ask, accept)?;
                Some((self.slab.handle(slot), self.slab.at(slot).item))
            }
            fn remove(&mut self, place: Place) -> Option<u32> {
                let slot = self.slab.locate(place)?;
                assert!(self.slab.is_listed(slot));
                let item = self.slab.at(slot).item;
                self.list.remove(&mut self.slab, slot);
                assert!(!self.slab.is_listed(slot));
                self.slab.discard(slot);
                if let Some(&slot) = self.other.slots(&self.slab).first().filter(|_| item % 8 == 3)
                {
                    self.other.remove(&mut self.slab, slot);
                    self.slab.discard(slot);
                }
                Some(item)
            }
            fn age(&self, place: Place) -> Option<Age> {
                Some(self.slab.age(self.slab.locate(place)?))
            }
            fn put_back(&mut self, is: &Criteria, item: u32, age: Age) -> Place {
                let slot = $put_back(self, Record { is: *is, item, mark: 0 }, age);
                self.slab.handle(slot)
            }
            fn get(&self, place: Place) -> Option<u32> {
                Some(self.slab.get(place)?.item)
            }
            fn items(&self) -> Vec<(Place, u32)> {
                let slots = self.list.slots(&self.slab).into_iter();
                slots.map(|slot| (self.slab.handle(slot), self.slab.at(slot).item)).collect()
            }
            fn len(&self) -> usize {
                self.list.len()
            }
            fn check(&self) {
                self.slab.check_invariants();
                self.list.check_invariants(&self.slab);
                self.other.check_invariants(&self.slab);
            }
            fn is_indexed(&self) -> bool {
                $indexed(&self.list)
            }
            fn capacity(&self) -> usize {
                self.slab.capacity() + self.list.capacity()
            }
        }
    };
}

const NOBODY: PeerId = PeerId(77);

type Accept<'a> = &'a mut dyn FnMut(u32) -> bool;

list!(
    Posted,
    true,
    |list: &Posted| list.is_indexed(),
    |alone: &mut Alone<Posted>, ask: &Criteria, accept: Accept| {
        let source = ask.source.unwrap_or(NOBODY);
        alone.list.find(&mut alone.slab, ask.bits, source, |slab, slot| accept(slab.at(slot).item))
    },
    |alone: &mut Alone<Posted>, record: Record, age: Age| {
        alone.list.add_by_age(&mut alone.slab, record, age).expect("room")
    }
);
list!(
    Unexpected<Record>,
    false,
    |list: &Unexpected<Record>| list.index_count() > 0,
    |alone: &mut Alone<Unexpected<Record>>, ask: &Criteria, accept: Accept| {
        alone.list.find(&alone.slab, ask, |record| accept(record.item))
    },
    |_: &mut Alone<Unexpected<Record>>, _: Record, _: Age| -> u32 {
        unreachable!("nothing unexpected comes back")
    }
);

/// What a stream has gone through.
#[derive(Default)]
struct Seen {
    built: u32,
    dropped: u32,
    found: u32,
    asked_again: u32,
    put_back: u32,
}

fn compare<L: List>(list: &mut L, mix: Mix, choices: impl Iterator<Item = u64>) -> Seen {
    let exact = |choice| {
        let (bits, source) = header(mix, choice);
        Criteria { bits, ignore: 0, source: Some(source) }
    };
    let mut oracle: Vec<(Place, Criteria, u32)> = Vec::new();
    let (mut gone, mut seen, mut indexed) = (Vec::new(), Seen::default(), false);
    // The ages of what was found and will come back.
    let mut away: Vec<Age> = Vec::new();
    for (step, choice) in (0u32..).zip(choices) {
        // It grows for a while, then shrinks, so that indexes come and go.
        let (pushes, removes) = if step / 200 % 2 == 0 { (6, 8..9) } else { (1, 4..9) };
        match choice % 10 {
            op if op < pushes && choice >> 60 < 4 && !away.is_empty() => {
                let age = away.swap_remove((choice >> 8) as usize % away.len());
                let is = criteria(mix, choice);
                let place = list.put_back(&is, step, age);
                let at = oracle.partition_point(|(other, ..)| list.age(*other) < Some(age));
                oracle.insert(at, (place, is, step));
                gone.retain(|gone| *gone != place);
                seen.put_back += 1;
            }
            op if op < pushes => {
                let is = if L::POSTED { criteria(mix, choice) } else { exact(choice) };
                let place = list.push(&is, step);
                assert!(oracle.iter().all(|(other, ..)| *other != place));
                oracle.push((place, is, step));
            }
            op if removes.contains(&op) && !oracle.is_empty() => {
                let (place, _, item) = oracle.remove((choice >> 8) as usize % oracle.len());
                assert_eq!(list.remove(place), Some(item));
                gone.push(place);
            }
            9 => {
                if let Some(&place) = gone.get((choice >> 8) as usize % gone.len().max(1)) {
                    assert_eq!((list.get(place), list.remove(place)), (None, None));
                }
                if let Some((place, _, item)) = oracle.last() {
                    assert_eq!(list.get(*place), Some(*item));
                }
            }
            _ => {
                let ask = if L::POSTED { exact(choice) } else { criteria(mix, choice) };
                let refuse = choice >> 10 & 3;
                let takes = |item: u32| match refuse {
                    0 => item.is_multiple_of(3),
                    1 => item.wrapping_mul(0x9e37_79b9) >> 28 == 3,
                    _ => true,
                };
                let (mut asked, mut expected) = (Vec::new(), Vec::new());
                let found = list.find(&ask, &mut |item| {
                    asked.push(item);
                    takes(item)
                });
                let nth = oracle.iter().position(|(_, is, item)| {
                    let (entry, header) = if L::POSTED { (is, &ask) } else { (&ask, is) };
                    let accepts = entry.accept(header.bits, header.source.unwrap_or(NOBODY));
                    if accepts {
                        expected.push(*item);
                    }
                    accepts && takes(*item)
                });
                assert_eq!(found, nth.map(|nth| (oracle[nth].0, oracle[nth].2)), "{mix:?} {step}");
                assert_eq!(asked, expected, "asked in another order");
                seen.asked_again += u32::from(asked.len() > 1);
                if let (Some(nth), true) = (nth, choice >> 12 & 3 != 0) {
                    let (place, _, item) = oracle.remove(nth);
                    away.extend(list.age(place).filter(|_| L::POSTED && choice >> 58 & 3 == 0));
                    assert_eq!(list.remove(place), Some(item));
                    gone.push(place);
                    seen.found += 1;
                }
            }
        }
        list.check();
        assert_eq!(list.len(), oracle.len());
        seen.built += u32::from(list.is_indexed() && !indexed);
        seen.dropped += u32::from(!list.is_indexed() && indexed);
        indexed = list.is_indexed();
    }
    assert_eq!(list.items(), oracle.iter().map(|o| (o.0, o.2)).collect::<Vec<_>>());
    seen
}

fn many_streams<L: List>(new: impl Fn() -> L) {
    for mix in MIXES {
        let (mut rebuilt, mut found, mut asked_again, mut put_back) = (0, 0, 0, 0);
        for seed in 0..350 {
            let seen = compare(&mut new(), mix, Choices(seed << 8).take(1000));
            rebuilt += u32::from(seen.built > 1 && seen.dropped > 0);
            found += seen.found;
            asked_again += seen.asked_again;
            put_back += seen.put_back;
        }
        assert!(put_back > 500 || !L::POSTED, "{mix:?}: {put_back}");
        assert!(found > 4_000 && asked_again > 1_000, "{mix:?}: {found} {asked_again}");
        // These match at the head, and no question of a storm comes twice.
        let unwanted =
            matches!(mix, Mix::OneKey | Mix::Wildcards) || mix == Mix::Storm && !L::POSTED;
        assert!(rebuilt > 20 || unwanted, "{mix:?}: {rebuilt}");
    }
}

#[test]
fn posted_is_a_plain_list_in_2100_streams() {
    many_streams(posted);
}

#[test]
fn unexpected_is_a_plain_list_in_2100_streams() {
    many_streams(unexpected);
}

proptest! {
    #[test]
    fn posted_is_a_plain_list(
        mix in prop::sample::select(&MIXES[..]),
        choices in prop::collection::vec(any::<u64>(), 0..500),
    ) {
        compare(&mut posted(), mix, choices.into_iter());
    }

    #[test]
    fn unexpected_is_a_plain_list(
        mix in prop::sample::select(&MIXES[..]),
        choices in prop::collection::vec(any::<u64>(), 0..500),
    ) {
        compare(&mut unexpected(), mix, choices.into_iter());
    }
}

/// A million elements pass through a list of `depth`, matched newest first, so
/// that it is indexed.
fn memory_is_bounded<L: List>(mut list: L, depth: u32) {
    let is =
        |n: u32| Criteria { bits: MatchBits(u64::from(n)), ignore: 0, source: Some(PeerId(n % 5)) };
    for n in 0..depth {
        list.push(&is(n), n);
    }
    for n in depth..1_000_000 {
        let (place, item) = list.find(&is(n - 1), &mut |_| true).expect("the newest");
        assert_eq!((item, list.remove(place)), (n - 1, Some(n - 1)));
        list.push(&is(n), n);
        let most = if list.is_indexed() { 9 } else { 2 };
        assert!(list.capacity() <= most * (depth as usize).max(LONG as usize), "{n}");
    }
    assert_eq!(list.is_indexed(), depth > LONG);
    list.check();
    // From the newest on: the memory behind goes with them.
    for (place, _) in list.items().into_iter().rev() {
        list.remove(place);
        assert!(list.len() > SHORT as usize || !list.is_indexed());
    }
    list.check();
    assert!(list.capacity() <= 128, "{}", list.capacity());
}

#[test]
fn memory_follows_the_live_elements() {
    for depth in [10, 10_000] {
        memory_is_bounded(posted(), depth);
        memory_is_bounded(unexpected(), depth);
    }
}

#[test]
fn rare_shapes_do_not_keep_a_frequent_one_out() {
    let mut list = posted();
    let ask = |list: &mut Alone<Posted>, n| {
        let asked = Criteria { bits: MatchBits(n), ignore: 0, source: Some(PeerId(0)) };
        list.find(&asked, &mut |_| true).map(|(_, item)| u64::from(item))
    };
    // Forty shapes that match nothing come first and take all places.
    for odd in 0..40 {
        let bits = MatchBits(1 << 63);
        list.push(&Criteria { bits, ignore: 1 << odd, source: None }, 0);
    }
    for _ in 0..4 {
        assert_eq!(ask(&mut list, u64::MAX >> 2), None);
    }
    assert!(list.is_indexed() && list.list.odd_len() == 32);
    for n in 1..=1000 {
        let bits = MatchBits(u64::from(n));
        list.push(&Criteria { bits, ignore: 0, source: Some(PeerId(0)) }, n);
    }
    assert_eq!(list.list.odd_len(), 1032);
    for n in (1..=1000).rev() {
        assert_eq!(ask(&mut list, n), Some(n));
    }
    assert_eq!(list.list.odd_len(), 33, "the frequent shape was elected");
    list.check();
}

#[test]
fn questions_asked_once_displace_no_index() {
    let mut list = unexpected();
    for n in 0..1000 {
        let bits = MatchBits(u64::from(n));
        list.push(&Criteria { bits, ignore: 0, source: Some(PeerId(0)) }, n);
    }
    let ask = |list: &mut Alone<Unexpected<Record>>, ignore, n| {
        list.find(&Criteria { bits: MatchBits(n), ignore, source: None }, &mut |_| true)
    };
    for storm in 1..100 {
        assert_eq!(ask(&mut list, storm << 20, 5000), None);
        assert_eq!(list.list.index_count(), 0);
    }
    for shape in 1..=6 {
        for _ in 0..3 {
            assert_eq!(ask(&mut list, shape << 40, 999).map(|(_, item)| item), Some(999));
        }
        assert_eq!(list.list.index_count(), (shape as usize).min(4));
    }
    list.check();
}
