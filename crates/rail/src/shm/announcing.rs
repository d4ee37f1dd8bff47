//! Whether long messages that could go with their packet had better be announced.
//!
//! A message of up to 256 KiB to a receiver that looks is copied twice, through the sender's memory. An
//! announced one is copied once, by the system, and both sides share that. Where a buffer has not been written since
//! it was sent last that is faster on some processors: 7 us instead of 13 for 256 KiB. Where it was, two
//! copies are. So the reader compares both, and tells the sender which one it wants.
//!
//! Both are timed alike, as a stream ([`Stream`]). Messages go eagerly at first. After [`LOOK_FIRST`] of them some
//! are announced, and the way that takes less time is taken. After [`LOOK_EVERY`] times as many as came the
//! other way, some go the other way again, and more seldom the more often that was in vain.

use super::times::{Stream, Times, is_better};
use sluice_wire::Nanos;

/// So many messages come eagerly before others are looked at: the first ones may be stored into memory that
/// nobody has touched yet.
const LOOK_FIRST: u16 = 128;
/// So many messages come one way for each that came the other way for a look, four times as many with each look
/// in vain, and at most so many.
const LOOK_EVERY: u16 = 8;
const LOOK_EVERY_MAX: u16 = 256;
/// At most so many lie between two looks, however long the first one was.
const UNTIL_LOOK_MAX: u16 = 16_384;
/// So many messages are looked at, for the first of them come among those of the other way, and so many times
/// of them: none that was kept from the last look counts then.
const LOOKS: u16 = 64;
const TIMES: u8 = 4;
/// The other one has to take less than so many percent of the time, or nothing changes.
const BETTER_PERCENT: u64 = 95;

/// What is known of messages of one length class from one peer.
#[derive(Clone, Debug)]
pub(super) struct Announcing {
    /// Those that came with their packet, and those that were announced.
    ways: [Way; 2],
    /// Whether announced ones are faster, as far as is known.
    is_faster: bool,
    /// The other one is looked at.
    is_look: bool,
    /// So many messages come until it is.
    until_look: u16,
    /// A look has ended, and none has come since of those that are faster.
    is_tail: bool,
    /// So many come for each of a look.
    every: u16,
    /// How many of a look have come, and how many times of them are known.
    looks: u16,
    timed: u8,
}

/// Messages that come one way.
#[derive(Clone, Debug, Default)]
struct Way {
    stream: Stream,
    times: Times,
}

impl Default for Announcing {
    fn default() -> Announcing {
        Announcing {
            ways: Default::default(),
            is_faster: false,
            is_look: false,
            until_look: LOOK_FIRST,
            is_tail: false,
            every: LOOK_EVERY,
            looks: 0,
            timed: 0,
        }
    }
}

impl Announcing {
    /// Whether the next messages had better be announced.
    pub(super) fn is_wanted(&self) -> bool {
        self.is_faster != self.is_look
    }

    /// One has come with its packet, and was copied from `begun` until now. So many messages have been `sent` to
    /// its sender.
    pub(super) fn note_eager(&mut self, len: u64, sent: u32, begun: Nanos, now: Nanos) {
        self.note_whole(false, len, sent, begun, now);
    }

    /// One that was announced was copied by its reader alone.
    pub(super) fn note_alone(&mut self, len: u64, sent: u32, begun: Nanos, now: Nanos) {
        self.note_whole(true, len, sent, begun, now);
    }

    fn note_whole(&mut self, was_announced: bool, len: u64, sent: u32, begun: Nanos, now: Nanos) {
        self.ways[usize::from(was_announced)].stream.begin(true, sent, begun);
        self.note_end(was_announced, len, true, sent, now);
    }

    /// One that was announced begins to move. Whether it `is_first`: no other one is under way.
    pub(super) fn begin_announced(&mut self, is_first: bool, sent: u32, now: Nanos) {
        self.ways[1].stream.begin(is_first, sent, now);
    }

    /// It is here. Whether it `is_last`: no other one is under way.
    pub(super) fn end_announced(&mut self, len: u64, is_last: bool, sent: u32, now: Nanos) {
        self.note_end(true, len, is_last, sent, now);
    }

    /// One that was announced has gone otherwise than was wanted.
    pub(super) fn note_untimed(&mut self) {
        self.ways[1].stream.forget();
        self.note(true, false);
    }

    fn note_end(&mut self, was_announced: bool, len: u64, is_last: bool, sent: u32, now: Nanos) {
        let way = &mut self.ways[usize::from(was_announced)];
        let time = way.stream.end(len, is_last, sent, now);
        if let Some(time) = time {
            way.times.note(time);
        }
        self.note(was_announced, time.is_some());
    }

    fn note(&mut self, was_announced: bool, is_timed: bool) {
        if was_announced == self.is_faster {
            self.is_tail = false;
            self.until_look = self.until_look.saturating_sub(1);
            // Where nothing comes eagerly there is nothing to compare with.
            if self.until_look == 0 && !self.is_look && self.ways[0].times.is_known() {
                self.begin_look();
            }
            return;
        }
        if !self.is_look {
            // Either of the same window as those that were looked at, or one whose receiver did not look.
            if self.is_tail {
                self.until_look = self.until_look.saturating_add(self.every).min(UNTIL_LOOK_MAX);
            }
            return;
        }
        self.looks = self.looks.saturating_add(1);
        self.timed += u8::from(is_timed);
        if self.looks >= LOOKS && self.timed >= TIMES {
            self.end_look();
        }
    }

    fn begin_look(&mut self) {
        (self.is_look, self.looks, self.timed) = (true, 0, 0);
        self.ways[usize::from(self.is_wanted())].stream.forget();
    }

    fn end_look(&mut self) {
        let [mine, others] =
            [self.is_faster, !self.is_faster].map(|way| self.ways[usize::from(way)].times.usual());
        if let (Some(mine), Some(others)) = (mine, others) {
            if is_better(others, mine, BETTER_PERCENT) {
                self.is_faster = !self.is_faster;
                self.every = LOOK_EVERY;
            } else {
                self.every = (4 * self.every).min(LOOK_EVERY_MAX);
            }
        }
        (self.is_look, self.is_tail) = (false, true);
        self.until_look = self.looks.saturating_mul(self.every).min(UNTIL_LOOK_MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEN: u64 = 128 << 10;

    /// A peer that sends as is wanted, and the clock.
    #[derive(Default)]
    struct Peer {
        announcing: Announcing,
        now: u64,
    }

    impl Peer {
        /// So many windows of so many messages, which take so long eagerly and announced. Says how many
        /// were announced.
        fn send(&mut self, windows: u32, window: u32, eager: u64, announced: u64) -> u32 {
            let mut told = 0;
            for _ in 0..windows {
                self.now += 100_000;
                let is_announced = self.announcing.is_wanted();
                if is_announced {
                    told += window;
                    for at in 0..window {
                        self.announcing.begin_announced(at == 0, 0, Nanos(self.now));
                    }
                    self.now += announced * u64::from(window);
                }
                for left in (0..window).rev() {
                    let begun = Nanos(self.now);
                    if is_announced {
                        self.announcing.end_announced(LEN, left == 0, 0, begun);
                    } else {
                        self.now += eager;
                        self.announcing.note_eager(LEN, 0, begun, Nanos(self.now));
                    }
                }
            }
            told
        }
    }

    #[test]
    fn what_takes_less_time_is_wanted() {
        let mut peer = Peer::default();
        assert_eq!(peer.send(u32::from(LOOK_FIRST), 1, 1300, 700), 0, "nothing is known of others");
        let told = peer.send(5000, 1, 1300, 700);
        assert!((4800..4900).contains(&told), "{told}");
        // It was written since: the next look tells.
        let told = peer.send(10_000, 1, 700, 1300);
        assert!(told < 4000, "{told}");
        let told = peer.send(30_000, 1, 1300, 700);
        assert!(told > 10_000, "{told}");
        // Little better is not better, and is looked at seldom.
        let mut peer = Peer::default();
        peer.send(70_000, 1, 700, 670);
        assert_eq!(peer.send(4 * (128 + 16_384), 1, 700, 670), 4 * 128);
    }

    /// All of a window that was asked for is announced, and its messages count together.
    #[test]
    fn windows_are_looked_at_and_paid_for_as_a_whole() {
        let mut peer = Peer::default();
        let told = peer.send(2000, 64, 700, 1300) / 64;
        assert!((16..=40).contains(&told), "{told}");
        let mut peer = Peer::default();
        let told = peer.send(2000, 64, 1300, 700) / 64;
        assert!((1950..1995).contains(&told), "{told}");
    }

    /// Some are announced in any case, because their receiver does not look.
    #[test]
    fn those_that_nobody_asked_for_put_no_look_off() {
        let mut announcing = Announcing::default();
        for now in (0..u64::from(LOOK_FIRST)).map(|at| at * 10_000) {
            assert!(!announcing.is_wanted());
            announcing.note_alone(LEN, 0, Nanos(now), Nanos(now + 700));
            announcing.note_eager(LEN, 0, Nanos(now + 5000), Nanos(now + 6300));
        }
        assert!(announcing.is_wanted());
    }

    #[test]
    fn where_all_are_announced_nothing_is_wanted() {
        let mut announcing = Announcing::default();
        for now in (0..1000).map(|at| at * 10_000) {
            announcing.note_alone(LEN, 0, Nanos(now), Nanos(now + 1));
        }
        assert!(!announcing.is_wanted());
    }

    /// Of a look those that have not gone as was wanted tell nothing of the time.
    #[test]
    fn what_went_otherwise_ends_no_look() {
        let mut peer = Peer::default();
        peer.send(u32::from(LOOK_FIRST), 1, 1300, 700);
        for _ in 0..1000 {
            peer.announcing.begin_announced(true, 0, Nanos(peer.now));
            peer.announcing.note_untimed();
        }
        assert!(peer.announcing.is_look);
        assert!(!peer.announcing.ways[1].times.is_known());
    }
}
