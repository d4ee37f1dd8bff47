//! Which way long messages from a peer come in less time: chunks of an announced one that are handed over
//! (`handover`), chunks of one that both sides have the system copy into their place, or, up to 256 KiB, with
//! its packet (`announcing`).
//!
//! None is faster everywhere. Where a sender's buffer is in its own cache and nobody has written it
//! since, the system takes half the time on some processors, and where buffers are new each time it takes more
//! (`docs/decisions/0030-the-reader-chooses-the-way.md`). So the reader measures. It knows when a message begins
//! to come and when all of it is there; its writer is told by what the reader says in the line of the claims,
//! and in its entry.
//!
//! What counts is how many bytes have come in a burst, and in what time ([`Burst`]). All transfers of a burst go
//! one way. Each peer and each length class, a power of two, is judged by itself. After [`LOOK_EVERY`] times as
//! many transfers as came the other way, a burst goes the other way, and the next one too if that took less
//! time.

use super::announcing::Announcing;
use super::bounce::PAYLOAD_BYTES_MAX;
use super::times::{Burst, Times, is_better};
use sluice_wire::Nanos;

/// So many transfers go the way that took less time for each that goes the other.
const LOOK_EVERY: u16 = 64;
/// Length classes: the first ends here, each other one is twice as long, and the last has no end.
const CLASS_BYTES: u64 = 128 << 10;
const CLASSES: usize = 7;
/// The first of them are of messages that may come eagerly.
const EAGER_CLASSES: usize = 3;
/// The shortest message of which eager and announced ones are compared.
const COMPARED_BYTES_MIN: u64 = 64 << 10;
/// Most transfers that are timed together.
const BURST_MAX: u16 = 256;
/// Another way has to take less than so many percent of the time, or nothing changes.
const BETTER_PERCENT: u64 = 90;

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

/// What is known of messages from one peer.
#[derive(Clone, Debug, Default)]
pub(super) struct Ways {
    classes: [Class; CLASSES],
    announcing: [Announcing; EAGER_CLASSES],
    /// How many messages have been sent to the peer that may go eagerly because it looks, as a count that wraps.
    sent: u32,
}

#[derive(Clone, Debug, Default)]
struct Class {
    /// Transfers that are under way, and how they go.
    burst: Burst,
    burst_way: Option<Way>,
    /// The last times of each way.
    times: [Times; 2],
    /// The way of the next transfers.
    way: Option<Way>,
    /// So many go that way until some go the other.
    until_look: u16,
}

impl Ways {
    /// A transfer of so many bytes begins, by a way that is chosen now if it `may_be_handed` over. Whether it
    /// `is_first`: none of its class is under way.
    pub(super) fn begin(
        &mut self,
        len: u64,
        may_be_handed: bool,
        is_first: bool,
        now: Nanos,
    ) -> Way {
        // What is handed over goes as an eager message does, with more around it.
        let is_instead = self.compared(len).is_some_and(|announcing| announcing.is_wanted());
        let class = &mut self.classes[class_of(len)];
        if is_first {
            // Those of a burst that failed told nothing of their end.
            class.give_up();
        }
        let chosen = if is_instead { Way::BySystem } else { class.choose() };
        let way = class.begin(chosen, may_be_handed, now);
        let sent = self.sent;
        if let Some(announcing) = self.compared(len).filter(|_| way == Way::BySystem) {
            announcing.begin_announced(is_first, sent, now);
        }
        way
    }

    /// One that went this way has ended. Whether it `is_last`: no other one of its class is under way.
    pub(super) fn end(&mut self, len: u64, way: Way, is_last: bool, now: Nanos) {
        let sent = self.sent;
        self.classes[class_of(len)].end(len, is_last, now);
        match (self.compared(len), way) {
            (None, _) => {}
            (Some(announcing), Way::BySystem) => announcing.end_announced(len, is_last, sent, now),
            (Some(announcing), Way::HandedOver) => announcing.note_untimed(),
        }
    }

    /// A message of so many bytes has come with its packet, and was copied from `begun` until now.
    pub(super) fn note_eager(&mut self, len: u64, begun: Nanos, now: Nanos) {
        let sent = self.sent;
        if let Some(announcing) = self.compared(len) {
            announcing.note_eager(len, sent, begun, now);
        }
    }

    /// The reader alone has had the system copy a transfer, from `begun` until now if that was at once. Where
    /// announced messages are copied by both sides it was none.
    pub(super) fn note_alone(&mut self, len: u64, begun: Option<Nanos>, now: Nanos) {
        let sent = self.sent;
        let is_shared = self.classes[class_of(len)].time(Way::BySystem).is_some();
        match (self.compared(len), begun.filter(|_| !is_shared)) {
            (None, _) => {}
            (Some(announcing), Some(begun)) => {
                announcing.begin_announced(true, sent, begun);
                announcing.end_announced(len, true, sent, now);
            }
            (Some(announcing), None) => announcing.note_untimed(),
        }
    }

    /// A message goes to the peer that may go eagerly because it looks.
    #[inline(always)]
    pub(super) fn note_sent(&mut self) {
        self.sent = self.sent.wrapping_add(1);
    }

    /// The length classes, a bit each, of messages that had better be announced.
    pub(super) fn wanted(&self) -> u64 {
        self.announcing.iter().rev().fold(0, |bits, one| bits << 1 | u64::from(one.is_wanted()))
    }

    /// What is known of whether messages of so many bytes had better be announced.
    fn compared(&mut self, len: u64) -> Option<&mut Announcing> {
        if is_compared(len) { self.announcing.get_mut(class_of(len)) } else { None }
    }
}

/// Whether the reader of a message, who has said what it `wanted`, wants it announced. Whatever was said,
/// short ones are not, nor those that are never sent eagerly.
pub(super) fn wants_announced(wanted: u64, len: u64) -> bool {
    is_compared(len) && wanted >> class_of(len) & 1 != 0
}

/// Whether eager and announced messages of so many bytes are compared.
pub(super) fn is_compared(len: u64) -> bool {
    (COMPARED_BYTES_MIN..=PAYLOAD_BYTES_MAX as u64).contains(&len)
}

impl Class {
    fn give_up(&mut self) {
        self.burst.close(None);
        self.burst_way = None;
    }

    fn begin(&mut self, chosen: Way, may_be_handed: bool, now: Nanos) -> Way {
        let chosen = self.burst_way.unwrap_or(chosen);
        self.burst.open(now);
        let way = if may_be_handed { chosen } else { Way::BySystem };
        self.burst.is_mixed |= way != chosen;
        self.burst_way = Some(chosen);
        way
    }

    fn choose(&self) -> Way {
        match self.way {
            None if self.time(Way::HandedOver).is_none() => Way::HandedOver,
            None => Way::BySystem,
            Some(way) if self.until_look == 0 => way.other(),
            Some(way) => way,
        }
    }

    /// One has ended.
    fn end(&mut self, len: u64, is_last: bool, now: Nanos) {
        self.burst.add(len, now);
        if !is_last && self.burst.count() < BURST_MAX {
            return;
        }
        let count = self.burst.count();
        let time = self.burst.close((!is_last).then_some(now));
        // Of a stream without an end those that are under way still go as they do.
        let Some(way) = self.burst_way.take() else { return };
        let is_usual = self.way == Some(way);
        self.until_look = if is_usual {
            self.until_look.saturating_sub(count)
        } else {
            count.saturating_mul(LOOK_EVERY)
        };
        if let Some(time) = time {
            self.note(way, time);
        }
    }

    fn note(&mut self, way: Way, time: u32) {
        self.times[way as usize].note(time);
        let (Some(handed), Some(by_system)) =
            (self.time(Way::HandedOver), self.time(Way::BySystem))
        else {
            return;
        };
        let Some(now) = self.way else {
            self.way = Some(if handed <= by_system { Way::HandedOver } else { Way::BySystem });
            self.until_look = LOOK_EVERY;
            return;
        };
        let (mine, others) = match now {
            Way::HandedOver => (handed, by_system),
            Way::BySystem => (by_system, handed),
        };
        if is_better(others, mine, BETTER_PERCENT) {
            self.way = Some(now.other());
            self.until_look = self.until_look.max(LOOK_EVERY);
        } else if way != now && is_better(time, mine, BETTER_PERCENT) {
            self.until_look = 0;
        }
    }

    /// What a transfer takes that goes this way, once that is known.
    fn time(&self, way: Way) -> Option<u32> {
        self.times[way as usize].usual()
    }
}

/// The length class of a transfer.
pub(super) fn class_of(len: u64) -> usize {
    let class = (len / CLASS_BYTES).checked_ilog2().map_or(0, |class| class as usize + 1);
    class.min(CLASSES - 1)
}

#[cfg(test)]
impl Ways {
    /// The next transfers of each class go this way, [`LOOK_EVERY`] of them.
    pub(super) fn only(way: Way) -> Ways {
        let class = Class { way: Some(way), until_look: LOOK_EVERY, ..Class::default() };
        Ways { classes: [(); CLASSES].map(|()| class.clone()), ..Ways::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEN: u64 = 1 << 20;

    /// A peer that sends windows, and the clock.
    #[derive(Default)]
    struct Peer {
        ways: Ways,
        now: u64,
    }

    impl Peer {
        /// So many windows of so many transfers, each of which takes so long by the two ways. Says how many
        /// were handed over.
        fn send(&mut self, windows: u32, window: u32, took: [u64; 2]) -> u32 {
            let (mut handed, mut way) = (0, Way::HandedOver);
            for _ in 0..windows {
                self.now += 1_000_000;
                for at in 0..window {
                    way = self.ways.begin(LEN, true, at == 0, Nanos(self.now));
                    handed += u32::from(way == Way::HandedOver);
                    self.now += took[way as usize];
                }
                // They end one soon after the other.
                for left in (0..window).rev() {
                    self.now += 1;
                    self.ways.end(LEN, way, left == 0, Nanos(self.now));
                }
            }
            handed
        }
    }

    #[test]
    fn the_way_that_takes_less_time_is_taken() {
        let mut peer = Peer::default();
        assert_eq!(peer.send(6, 1, [90_000, 50_000]), 3, "both are tried");
        assert_eq!(peer.send(650, 1, [90_000, 50_000]), 10, "one in 65 is a look");
        // Other buffers: what was faster is slow at once.
        let handed = peer.send(100, 1, [90_000, 120_000]);
        assert!((90..100).contains(&handed), "{handed}");
        // And what was slow is fast: the next look tells, and one more.
        assert!(peer.send(200, 1, [90_000, 60_000]) < 70);
        // Little better is not better.
        let few = peer.send(650, 1, [56_000, 60_000]);
        assert!(few <= 10, "{few}");
    }

    #[test]
    fn one_that_was_held_up_changes_nothing() {
        let mut peer = Peer::default();
        peer.send(20, 1, [50_000, 90_000]);
        peer.send(1, 1, [9_000_000, 90_000]);
        assert!(peer.send(50, 1, [50_000, 90_000]) >= 49);
    }

    /// Those of a window go one way, and what they take together counts.
    #[test]
    fn windows_are_judged_as_a_whole() {
        let mut peer = Peer::default();
        assert_eq!(peer.send(6, 32, [80_000, 40_000]), 3 * 32, "both are tried");
        assert_eq!(peer.send(650, 32, [80_000, 40_000]), 10 * 32, "one in 65 is a look");
        // One at a time again: the next look tells.
        peer.send(64 * 32 + 10, 1, [40_000, 80_000]);
        assert!(peer.send(200, 1, [40_000, 80_000]) > 190);
    }

    /// A stream without an end is cut, and one that failed holds nothing up.
    #[test]
    fn a_burst_ends() {
        let mut ways = Ways::default();
        let mut now = 0;
        for at in 0..10 * BURST_MAX {
            let way = ways.begin(LEN, true, at == 0, Nanos(now));
            now += if way == Way::HandedOver { 90 } else { 50 };
            ways.end(LEN, way, false, Nanos(now));
        }
        assert_eq!(ways.classes[class_of(LEN)].way, Some(Way::BySystem));
        ways.begin(LEN, true, false, Nanos(now));
        let mut peer = Peer { ways, now };
        assert!(peer.send(200, 1, [90_000, 50_000]) < 10);
        assert!(
            peer.ways.classes[class_of(LEN)].time(Way::BySystem) < Some(4000),
            "its time is none"
        );
    }

    /// Of a stream without an end in which pairs end together: what is wanted of it is found out.
    #[test]
    fn a_look_at_a_stream_without_an_end_ends() {
        const LEN: u64 = 64 << 10;
        let (mut ways, mut now) = (Ways::default(), 0);
        let mut eager = 0;
        while ways.wanted() == 0 {
            now += 4000;
            ways.note_eager(LEN, Nanos(now - 4000), Nanos(now));
            eager += 1;
            assert!(eager < 1000);
        }
        let mut under_way = vec![ways.begin(LEN, true, true, Nanos(now))];
        for at in 0..2000 {
            now += 6000;
            under_way.push(ways.begin(LEN, true, false, Nanos(now)));
            if at % 2 == 0 {
                continue;
            }
            for way in under_way.drain(..2) {
                ways.end(LEN, way, false, Nanos(now));
            }
        }
        assert_eq!(ways.wanted(), 0, "they take longer");
    }

    /// Where nothing can be handed over just now, nothing is learned of what could be.
    #[test]
    fn what_went_both_ways_tells_nothing() {
        let mut ways = Ways::default();
        for now in 1..10 {
            assert_eq!(ways.begin(LEN, false, true, Nanos(now)), Way::BySystem);
            ways.end(LEN, Way::BySystem, true, Nanos(now + 1));
        }
        assert_eq!(ways.begin(LEN, true, true, Nanos(20)), Way::HandedOver);
    }

    #[test]
    fn lengths_are_judged_apart() {
        let lens = [1, (128 << 10) - 1, 128 << 10, 256 << 10, 512 << 10, LEN, 4 << 20, 1 << 40];
        assert_eq!(lens.map(class_of), [0, 0, 1, 2, 3, 4, 6, 6]);
    }

    #[test]
    fn messages_are_wanted_announced_by_length() {
        let mut ways = Ways::default();
        assert_eq!(ways.wanted(), 0);
        let eager = |ways: &mut Ways, len, took| {
            for at in (1..300).map(|at| at * 100_000) {
                ways.note_eager(len, Nanos(at), Nanos(at + took));
            }
        };
        eager(&mut ways, 256 << 10, 13_000);
        eager(&mut ways, 64 << 10, 4000);
        assert_eq!(ways.wanted(), 0b101, "both are looked at");
        let mut now = 1000;
        for (len, took) in [(256 << 10, 7_000), (64 << 10, 6_000)] {
            for _ in 0..300 {
                let way = ways.begin(len, true, true, Nanos(now));
                now += took;
                ways.end(len, way, true, Nanos(now));
            }
        }
        assert_eq!(ways.wanted(), 0b100);
        let wants = [63, 64, 127, 128, 256, 257, 512, 1 << 30]
            .map(|kib: u64| wants_announced(0b100, kib << 10));
        assert_eq!(wants, [false, false, false, false, true, false, false, false]);
        assert!(!wants_announced(u64::MAX, 63 << 10) && wants_announced(u64::MAX, 64 << 10));
    }
}
