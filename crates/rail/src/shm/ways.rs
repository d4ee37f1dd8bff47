//! Which of two ways moves a transfer that both sides copy in less time: chunks that are handed over
//! (`handover`), or chunks that both have the system copy into their place.
//!
//! Neither is faster everywhere. Where a sender's buffer is in its own cache and nobody has written it
//! since, the system takes half the time on some processors, and where buffers are new each time it takes more
//! (`docs/decisions/0030-the-reader-chooses-the-way.md`). So the reader of a transfer measures both. It knows when a transfer has begun and
//! when all of it is there; its writer is told by what the reader says in the line of the claims.
//!
//! What counts is how many bytes of transfers from the peer were completed while one was under way, and in what time: those of a
//! window wait for each other. Each peer and each length class, a power of two, is judged by itself. After [`LOOK_EVERY`]
//! transfers one goes the other way, or one window of so many, and the next one too if that took less time.

use sluice_wire::Nanos;

/// So many transfers go the way that took less time before one goes the other.
const LOOK_EVERY: u16 = 64;
/// Times that are kept of each way. The second shortest counts: one that was held up changes nothing, nor
/// does one that was luckier than others.
const KEPT: usize = 4;
/// So many are wanted of each way before one is chosen.
const WANTED: usize = 2;
/// The other way has to take less than so many percent of the time, or nothing changes.
const BETTER_PERCENT: u64 = 90;
/// Length classes: the first ends here, each other one is twice as long, and the last has no end.
const CLASS_BYTES: u64 = 512 << 10;
const CLASSES: usize = 5;
/// Times are kept as if transfers had so many bytes.
const UNIT_BYTES: u64 = 64 << 10;
/// Most transfers that are looked at together.
const TOGETHER_MAX: u16 = 64;

/// How a transfer goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    HandedOver = 0,
    BySystem = 1,
}

impl Way {
    fn other(self) -> Way {
        match self {
            Way::HandedOver => Way::BySystem,
            Way::BySystem => Way::HandedOver,
        }
    }
}

/// What is known of transfers from one peer.
#[derive(Clone, Debug, Default)]
pub(super) struct Ways {
    classes: [Class; CLASSES],
}

/// A transfer that is under way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Begun {
    pub(super) way: Way,
    at: Nanos,
    /// Bytes of those of its class that had ended.
    ended_bytes: u64,
}

#[derive(Clone, Debug, Default)]
struct Class {
    /// Bytes of all that were begun and have come whole.
    ended_bytes: u64,
    /// The last times of each way, in nanoseconds; zero for none.
    times: [[u32; KEPT]; 2],
    next: [u8; 2],
    /// The way of the next transfers.
    way: Option<Way>,
    /// So many go that way until one goes the other.
    until_look: u16,
    /// So many more go the other.
    looks: u16,
    /// How many are under way together: so many end while one is, if it is the last of a window.
    together: Together,
}

/// The others of a window have seen only some of it, so they tell nothing.
#[derive(Clone, Debug, Default)]
struct Together {
    count: u16,
    /// How many have told of fewer since one told of so many, and of how many at most.
    fewer: u16,
    fewer_max: u16,
}

impl Ways {
    /// A transfer of so many bytes begins, by a way that is chosen now.
    pub(super) fn begin(&mut self, len: u64, now: Nanos) -> Begun {
        let class = &mut self.classes[class_of(len)];
        Begun { way: class.choose(), at: now, ended_bytes: class.ended_bytes }
    }

    /// It has ended, and all of it has gone that way if it `is_pure`.
    pub(super) fn end(&mut self, begun: Begun, len: u64, is_pure: bool, now: Nanos) {
        let class = &mut self.classes[class_of(len)];
        class.ended_bytes = class.ended_bytes.wrapping_add(len);
        if !is_pure || len == 0 {
            return;
        }
        let bytes = class.ended_bytes.wrapping_sub(begun.ended_bytes).max(len);
        let took = u128::from(now.since(begun.at).0) * u128::from(UNIT_BYTES) / u128::from(bytes);
        let ended = (bytes / len).min(TOGETHER_MAX.into()) as u16;
        let is_last = class.together.is_last(ended);
        class.until_look = class.until_look.min(class.looks_every());
        class.looks = class.looks.min(class.together.count);
        if is_last {
            class.note(begun.way, u32::try_from(took).unwrap_or(u32::MAX).max(1));
        }
    }
}

impl Class {
    fn choose(&mut self) -> Way {
        let Some(way) = self.way else {
            let is_tried = self.time(Way::HandedOver).is_some();
            return if is_tried { Way::BySystem } else { Way::HandedOver };
        };
        if self.looks == 0 && self.until_look == 0 {
            self.looks = self.together.count.max(1);
            self.until_look = self.looks_every();
        }
        if self.looks != 0 {
            self.looks -= 1;
            return way.other();
        }
        self.until_look -= 1;
        way
    }

    fn note(&mut self, way: Way, time: u32) {
        let at = &mut self.next[way as usize];
        self.times[way as usize][usize::from(*at)] = time;
        *at = (*at + 1) % KEPT as u8;
        let (Some(handed), Some(by_system)) =
            (self.time(Way::HandedOver), self.time(Way::BySystem))
        else {
            return;
        };
        let Some(now) = self.way else {
            self.take(if handed <= by_system { Way::HandedOver } else { Way::BySystem });
            return;
        };
        let (mine, others) = match now {
            Way::HandedOver => (handed, by_system),
            Way::BySystem => (by_system, handed),
        };
        if is_better(others, mine) {
            self.take(now.other());
        } else if way != now && is_better(time, mine) {
            self.until_look = 0;
        }
    }

    fn take(&mut self, way: Way) {
        self.way = Some(way);
        self.until_look = self.looks_every();
        self.looks = 0;
    }

    fn looks_every(&self) -> u16 {
        LOOK_EVERY * self.together.count.max(1)
    }

    /// What a transfer takes that goes this way, once that is known.
    fn time(&self, way: Way) -> Option<u32> {
        let mut sorted = self.times[way as usize];
        sorted.sort_unstable();
        let known = &sorted[sorted.iter().take_while(|&&time| time == 0).count()..];
        (known.len() >= WANTED).then(|| known[1])
    }
}

impl Together {
    /// One has ended, and so many while it was under way. Says whether it was the last of a window.
    fn is_last(&mut self, ended: u16) -> bool {
        let is_last = ended >= self.count;
        if is_last {
            *self = Together { count: ended, ..Together::default() };
        } else {
            self.fewer += 1;
            self.fewer_max = self.fewer_max.max(ended);
            if self.fewer > 2 * self.count {
                *self = Together { count: self.fewer_max, ..Together::default() };
            }
        }
        is_last
    }
}

fn is_better(others: u32, mine: u32) -> bool {
    u64::from(others) * 100 < u64::from(mine) * BETTER_PERCENT
}

fn class_of(len: u64) -> usize {
    let class = (len / CLASS_BYTES).checked_ilog2().map_or(0, |class| class as usize + 1);
    class.min(CLASSES - 1)
}

#[cfg(test)]
impl Ways {
    /// The next transfers of each class go this way, [`LOOK_EVERY`] of them.
    pub(super) fn only(way: Way) -> Ways {
        let class = Class { way: Some(way), until_look: LOOK_EVERY, ..Class::default() };
        Ways { classes: [(); CLASSES].map(|()| class.clone()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEN: u64 = 1 << 20;

    /// So many transfers, one after the other, which take so long by the two ways. Says how many were handed over.
    fn transfers(ways: &mut Ways, now: &mut u64, count: u32, took: [u64; 2]) -> u32 {
        let mut handed = 0;
        for _ in 0..count {
            let begun = ways.begin(LEN, Nanos(*now));
            handed += u32::from(begun.way == Way::HandedOver);
            *now += took[begun.way as usize];
            ways.end(begun, LEN, true, Nanos(*now));
        }
        handed
    }

    #[test]
    fn the_way_that_takes_less_time_is_taken() {
        let (mut ways, mut now) = (Ways::default(), 1000);
        assert_eq!(transfers(&mut ways, &mut now, 4, [90_000, 50_000]), 2, "both are tried");
        assert_eq!(
            transfers(&mut ways, &mut now, 650, [90_000, 50_000]),
            10,
            "one in 65 is a look"
        );
        // Other buffers: what was faster is slow at once.
        let handed = transfers(&mut ways, &mut now, 100, [90_000, 120_000]);
        assert!((90..100).contains(&handed), "{handed}");
        // And what was slow is fast: the next look tells, and one more.
        assert!(transfers(&mut ways, &mut now, 200, [90_000, 60_000]) < 70);
        // Little better is not better.
        let few = transfers(&mut ways, &mut now, 650, [56_000, 60_000]);
        assert!(few <= 10, "{few}");
    }

    #[test]
    fn one_that_was_held_up_changes_nothing() {
        let (mut ways, mut now) = (Ways::default(), 1000);
        transfers(&mut ways, &mut now, 20, [50_000, 90_000]);
        transfers(&mut ways, &mut now, 1, [9_000_000, 90_000]);
        assert!(transfers(&mut ways, &mut now, 50, [50_000, 90_000]) >= 49);
    }

    /// Those of a window begin and end at once, and what they take together counts.
    #[test]
    fn windows_are_judged_as_a_whole() {
        const WINDOW: u64 = 32;
        let (mut ways, mut now) = (Ways::default(), 1000);
        let mut handed = Vec::new();
        for _ in 0..200 {
            let begun = [(); WINDOW as usize].map(|()| ways.begin(LEN, Nanos(now)));
            let by_hand = begun.iter().filter(|one| one.way == Way::HandedOver).count() as u64;
            now += by_hand * 80_000 + (WINDOW - by_hand) * 40_000;
            begun.into_iter().for_each(|one| ways.end(one, LEN, true, Nanos(now)));
            handed.push(by_hand);
        }
        assert_eq!(handed[..3], [WINDOW, 0, 0], "both are tried");
        let looks: Vec<_> = handed[3..].iter().filter(|&&by_hand| by_hand != 0).collect();
        assert!(looks.len() < 10 && looks.contains(&&WINDOW), "{handed:?}");
        // One at a time again.
        transfers(&mut ways, &mut now, 80, [40_000, 80_000]);
        assert!(transfers(&mut ways, &mut now, 200, [40_000, 80_000]) > 100);
    }

    #[test]
    fn what_went_both_ways_tells_nothing() {
        let mut ways = Ways::default();
        for now in 1..10 {
            let begun = ways.begin(LEN, Nanos(now));
            assert_eq!(begun.way, Way::HandedOver);
            ways.end(begun, LEN, false, Nanos(now + 1));
        }
    }

    #[test]
    fn lengths_are_judged_apart() {
        let classes = [1, 511 << 10, 512 << 10, LEN, 2 << 20, 4 << 20, 1 << 40].map(class_of);
        assert_eq!(classes, [0, 0, 1, 2, 3, 4, 4]);
    }
}
