//! Whether long messages that could go with their packet had better be announced.
//!
//! A message of up to 256 KiB to a receiver that looks is copied twice, through the sender's memory. An
//! announced one is copied once, by the system, and both sides share that. Where a buffer has not been written since
//! it was sent last that is faster on some processors: 7 us instead of 13 for 256 KiB. Where it was, two
//! copies are. So the reader compares both, and tells the sender which one it wants.
//!
//! Both are timed alike, as a stream ([`Stream`]). Messages go eagerly at first. After [`LOOK_FIRST`] of them some
//! are announced, and the way that takes less time is taken. After [`LOOK_EVERY`] times as many as that look
//! had, some go the other way again, and more seldom the more often that was in vain.

use super::times::{Stream, Times, is_better};
use sluice_wire::Nanos;

/// So many messages come eagerly before others are looked at, or as many as it takes until what they take is
/// known. The first ones may be stored into memory that nobody has touched yet; of three times the second
/// shortest counts.
const LOOK_FIRST: u16 = 128;
/// So many messages come one way for each of a look that changed something, four times as many with each look
/// in vain, and at most so many.
const LOOK_EVERY: u16 = 8;
const LOOK_EVERY_MAX: u16 = 256;
/// At most so many lie between two looks, however long the first one was.
const UNTIL_LOOK_MAX: u16 = 16_384;
/// So many times of the other way are taken in a look: none that was kept from the last one counts then.
const TIMES: u8 = 4;
/// A look of which so many messages do not tell has been in vain: their sender may have reasons of its own.
const LOOK_MAX: u16 = 2048;
/// The other one has to take less than so many percent of the time, or nothing changes.
const BETTER_PERCENT: u64 = 95;

/// What is known of messages of one length class from one peer.
#[derive(Clone, Debug)]
pub(super) struct Announcing {
    /// Those that came with their packet, and those that were announced.
    kinds: [Kind; 2],
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
    /// How many have come in a look, and how many times of the other kind are known.
    looks: u16,
    timed: u8,
}

/// Messages that come one way.
#[derive(Clone, Debug, Default)]
struct Kind {
    stream: Stream,
    times: Times,
}

impl Default for Announcing {
    fn default() -> Announcing {
        Announcing {
            kinds: Default::default(),
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
        self.begin(false, true, sent, begun);
        self.note_end(false, len, true, sent, now);
    }

    /// One that was announced begins to move. Whether it `is_first`: no other one is under way.
    pub(super) fn begin_announced(&mut self, is_first: bool, sent: u32, now: Nanos) {
        self.begin(true, is_first, sent, now);
    }

    /// It is here. Whether it `is_last`: no other one is under way.
    pub(super) fn end_announced(&mut self, len: u64, is_last: bool, sent: u32, now: Nanos) {
        self.note_end(true, len, is_last, sent, now);
    }

    /// One that was announced is here, and tells nothing of the time: it was not copied by the system alone, or
    /// not at once.
    pub(super) fn note_untimed(&mut self) {
        self.kinds[1].stream.interrupt();
        self.note(true, false);
    }

    fn begin(&mut self, is_announced: bool, is_first: bool, sent: u32, now: Nanos) {
        // One bound for both kinds, or what lies between two would count for one of them alone.
        let message_ns = self.kinds.iter().map(|kind| kind.stream.message_ns()).max();
        let stream = &mut self.kinds[usize::from(is_announced)].stream;
        stream.begin(is_first, sent, message_ns.unwrap_or(0), now);
    }

    fn note_end(&mut self, was_announced: bool, len: u64, is_last: bool, sent: u32, now: Nanos) {
        let kind = &mut self.kinds[usize::from(was_announced)];
        let time = kind.stream.end(len, is_last, sent, now);
        if let Some(time) = time {
            kind.times.note(time);
        }
        self.note(was_announced, time.is_some());
    }

    fn note(&mut self, was_announced: bool, is_timed: bool) {
        let is_usual = was_announced == self.is_faster;
        if self.is_look {
            self.looks += 1;
            self.timed += u8::from(is_timed && !is_usual);
            if self.timed == TIMES || self.looks == LOOK_MAX {
                self.end_look();
            }
        } else if is_usual {
            self.is_tail = false;
            self.until_look = self.until_look.saturating_sub(1);
            // Where nothing comes eagerly there is nothing to compare with.
            if self.until_look == 0 && self.kinds[0].times.is_known() {
                self.begin_look();
            }
        } else if self.is_tail {
            // Of the same window as those that were looked at. Others come from who does not see this process look.
            self.until_look = self.until_look.saturating_add(self.every).min(UNTIL_LOOK_MAX);
        }
    }

    fn begin_look(&mut self) {
        (self.is_look, self.looks, self.timed) = (true, 0, 0);
        // What is left of the last one is old.
        self.kinds[usize::from(self.is_wanted())].stream = Stream::default();
    }

    fn end_look(&mut self) {
        let usual = |is_announced: bool| self.kinds[usize::from(is_announced)].times.usual();
        let both = usual(self.is_faster).zip(usual(!self.is_faster));
        let known = both.filter(|_| self.timed == TIMES);
        if known.is_some_and(|(mine, others)| is_better(others, mine, BETTER_PERCENT)) {
            self.is_faster = !self.is_faster;
            self.every = LOOK_EVERY;
        } else {
            let growth = if known.is_some() { 4 } else { LOOK_EVERY_MAX };
            self.every = self.every.saturating_mul(growth).min(LOOK_EVERY_MAX);
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
            announcing.begin_announced(true, 0, Nanos(now));
            announcing.end_announced(LEN, true, 0, Nanos(now + 700));
            announcing.note_eager(LEN, 0, Nanos(now + 5000), Nanos(now + 6300));
        }
        assert!(announcing.is_wanted());
    }

    #[test]
    fn where_all_are_announced_nothing_is_wanted() {
        let mut announcing = Announcing::default();
        for now in (0..1000).map(|at| at * 10_000) {
            announcing.begin_announced(true, 0, Nanos(now));
            announcing.end_announced(LEN, true, 0, Nanos(now + 1));
        }
        assert!(!announcing.is_wanted());
    }

    /// A look ends, though those that come tell nothing of the time or come as ever.
    #[test]
    fn what_tells_nothing_ends_a_look_in_vain() {
        let untimed = |peer: &mut Peer| {
            peer.announcing.begin_announced(true, 0, Nanos(peer.now));
            peer.announcing.note_untimed();
        };
        let as_ever = |peer: &mut Peer| {
            let begun = Nanos(peer.now);
            peer.announcing.note_eager(LEN, 0, begun, begun.saturating_add(Nanos(1300)));
        };
        for come in [&untimed as &dyn Fn(&mut Peer), &as_ever] {
            let mut peer = Peer::default();
            peer.send(u32::from(LOOK_FIRST), 1, 1300, 700);
            for _ in 0..LOOK_MAX {
                assert!(peer.announcing.is_wanted());
                come(&mut peer);
            }
            assert!(!peer.announcing.is_wanted() && !peer.announcing.kinds[1].times.is_known());
            assert_eq!(peer.announcing.until_look, UNTIL_LOOK_MAX);
        }
    }

    /// What lies between two messages counts for both kinds, or for neither.
    #[test]
    fn between_messages_the_longer_of_both_times_is_the_bound() {
        let mut peer = Peer::default();
        peer.send(u32::from(LOOK_FIRST), 1, 4000, 1000);
        assert!(peer.announcing.is_wanted());
        for _ in 0..3 * 32 {
            peer.now += 7000;
            peer.announcing.begin_announced(true, 0, Nanos(peer.now));
            peer.now += 1000;
            peer.announcing.end_announced(LEN, true, 0, Nanos(peer.now));
        }
        // As 64 KiB take, what lies between two included.
        assert_eq!(peer.announcing.kinds[1].times.usual(), Some(4000));
    }
}
