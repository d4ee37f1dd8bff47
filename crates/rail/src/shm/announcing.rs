//! Whether long messages that could go with their packet had better be announced.
//!
//! A message of up to 256 KiB to a receiver that looks is copied twice, through the sender's memory. An
//! announced one is copied once, by the system, and both sides share that. Where a buffer has not been written since
//! it was sent last that is faster on some processors: 7 us instead of 13 for 256 KiB. Where it was, two
//! copies are. So the reader compares both, and tells the sender which one it wants.
//!
//! Messages go eagerly at first. After [`LOOK_FIRST`] of them some are announced, and the way that takes less
//! time is taken. After [`LOOK_EVERY`] times as many as came the other way, some go the other way again, and
//! more seldom the more often that was in vain.

use super::times::{Burst, Times, is_better};
use sluice_wire::Nanos;

/// So many messages come eagerly before others are looked at.
const LOOK_FIRST: u16 = 16;
/// So many messages come one way for each that came the other way for a look, and at most so many.
const LOOK_EVERY: u16 = 32;
const LOOK_EVERY_MAX: u16 = 256;
/// At most so many lie between two looks, however long the first one was.
const UNTIL_LOOK_MAX: u16 = 16_384;
/// So many messages are looked at, for the first of them come among those of the other way, and so many times
/// of them: none that was kept from the last look counts then.
const LOOKS: u16 = 64;
const TIMES: u8 = 4;
/// Most eager messages that are timed together: of a stream some have been stored already when they are
/// copied, and others are waited for.
const BURST_MAX: u16 = 16;

/// What is known of messages of one length class from one peer.
#[derive(Clone, Debug)]
pub(super) struct Announcing {
    eager: Times,
    announced: Times,
    /// How long it took to copy the last eager one.
    copied_ns: u64,
    /// Those of them that come now.
    burst: Burst,
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

impl Default for Announcing {
    fn default() -> Announcing {
        Announcing {
            eager: Times::default(),
            announced: Times::default(),
            copied_ns: 0,
            burst: Burst::default(),
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

    /// One has come with its packet, and was copied from `begun` until now.
    pub(super) fn note_eager(&mut self, len: u64, begun: Nanos, now: Nanos) {
        // Of a stream what lies between two belongs to it. Else it is somebody else's time: an answer takes
        // as long as what it answers, and more.
        let (between, copied) = (begun.since(self.burst.until()).0, now.since(begun).0);
        let is_stream = between < copied.max(self.copied_ns) * 3 / 4;
        self.copied_ns = copied;
        let before = if is_stream { None } else { self.burst.close(None) };
        self.burst.open(begun);
        self.burst.add(len, now);
        let is_full = self.burst.count() == BURST_MAX;
        let full = if is_full { self.burst.close(Some(now)) } else { None };
        for time in before.into_iter().chain(full) {
            self.eager.note(time);
        }
        self.note(false, before.is_some() || is_full);
    }

    /// One that was announced is here. `time` is what each has taken, if that is known now.
    pub(super) fn note_announced(&mut self, time: Option<u32>) {
        if let Some(time) = time {
            self.announced.note(time);
        }
        self.note(true, time.is_some());
    }

    fn note(&mut self, was_announced: bool, is_timed: bool) {
        if was_announced == self.is_faster {
            self.is_tail = false;
            self.until_look = self.until_look.saturating_sub(1);
            // Where nothing comes eagerly there is nothing to compare with.
            if self.until_look == 0 && !self.is_look && self.eager.is_known() {
                (self.is_look, self.looks, self.timed) = (true, 0, 0);
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
        if self.looks < LOOKS || self.timed < TIMES {
            return;
        }
        if let (Some(eager), Some(announced)) = (self.eager.usual(), self.announced.usual()) {
            let (mine, others) =
                if self.is_faster { (announced, eager) } else { (eager, announced) };
            if is_better(others, mine) {
                self.is_faster = !self.is_faster;
                self.every = LOOK_EVERY;
            } else {
                self.every = (2 * self.every).min(LOOK_EVERY_MAX);
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
                    self.now += announced * u64::from(window);
                }
                for left in (0..window).rev() {
                    if is_announced {
                        self.announcing.note_announced((left == 0).then_some(announced as u32 / 2));
                    } else {
                        let begun = Nanos(self.now);
                        self.now += eager;
                        self.announcing.note_eager(LEN, begun, Nanos(self.now));
                    }
                }
            }
            told
        }
    }

    #[test]
    fn what_takes_less_time_is_wanted() {
        let mut peer = Peer::default();
        assert_eq!(peer.send(16, 1, 1300, 700), 0, "nothing is known of others");
        let told = peer.send(5000, 1, 1300, 700);
        assert!((4900..5000).contains(&told), "{told}");
        // It was written since: the next look tells.
        let told = peer.send(10_000, 1, 700, 1300);
        assert!(told < 4000, "{told}");
        let told = peer.send(10_000, 1, 1300, 700);
        assert!(told > 1500, "{told}");
        // Little better is not better, and is looked at seldom.
        let mut peer = Peer::default();
        peer.send(70_000, 1, 700, 650);
        assert_eq!(peer.send(4 * (64 + 16_384), 1, 700, 650), 4 * 64);
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

    /// What lies between two messages of a stream is of their time, and what a program does between two is not.
    #[test]
    fn streams_are_timed_as_such() {
        let usual_of = |period: u64| {
            let mut announcing = Announcing::default();
            for begun in (1..100).map(|at| at * period) {
                // Each second one was there already.
                let took = if (begun / period).is_multiple_of(2) { 900 } else { 1500 };
                announcing.note_eager(LEN, Nanos(begun), Nanos(begun + took));
            }
            announcing.eager.usual()
        };
        assert_eq!(usual_of(1600), Some(800), "a stream");
        assert_eq!(usual_of(10_000), Some(450), "one at a time");
    }

    /// Some are announced in any case, because their receiver does not look.
    #[test]
    fn those_that_nobody_asked_for_put_no_look_off() {
        let mut announcing = Announcing::default();
        for now in (0..u64::from(LOOK_FIRST)).map(|at| at * 10_000) {
            assert!(!announcing.is_wanted());
            announcing.note_announced(Some(700));
            announcing.note_eager(LEN, Nanos(now + 5000), Nanos(now + 6300));
        }
        assert!(announcing.is_wanted());
    }

    #[test]
    fn where_all_are_announced_nothing_is_wanted() {
        let mut announcing = Announcing::default();
        for _ in 0..1000 {
            announcing.note_announced(Some(1));
        }
        assert!(!announcing.is_wanted());
    }
}
