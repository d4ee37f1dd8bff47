//! The last times that something took, and messages that are timed together: bursts, and streams of which what
//! lies between two messages is a part.

use sluice_wire::Nanos;

/// Times that are kept. The second shortest counts: one that was held up changes nothing, nor does one that
/// was luckier than others.
const KEPT: usize = 4;
/// So many are wanted before anything is said.
const WANTED: usize = 3;
/// Times are kept as if so many bytes had been moved.
const UNIT_BYTES: u64 = 64 << 10;
/// A time of a stream is of at least so many bytes: of fewer, most may have been moved before they are looked at.
const STREAM_BYTES: u64 = 4 << 20;
/// A stream of which always one is under way is cut when so many are there.
const STREAM_BYTES_MAX: u64 = 8 << 20;

/// In nanoseconds; zero for none.
#[derive(Clone, Debug, Default)]
pub(super) struct Times {
    kept: [u32; KEPT],
    next: u8,
}

impl Times {
    pub(super) fn note(&mut self, time: u32) {
        self.kept[usize::from(self.next)] = time;
        self.next = (self.next + 1) % KEPT as u8;
    }

    /// What it takes, once that is known.
    pub(super) fn usual(&self) -> Option<u32> {
        let mut sorted = self.kept;
        sorted.sort_unstable();
        let known = &sorted[sorted.iter().take_while(|&&time| time == 0).count()..];
        (known.len() >= WANTED).then(|| known[1])
    }

    pub(super) fn is_known(&self) -> bool {
        self.usual().is_some()
    }
}

/// Messages that are timed together. Announced ones of a window move side by side, and end nearly together: they
/// count from when the first begins until none is under way.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Burst {
    since: Option<Nanos>,
    until: Nanos,
    bytes: u64,
    count: u16,
    /// Not all of them went one way, so it is not timed.
    pub(super) is_mixed: bool,
}

impl Burst {
    /// It begins, unless it has.
    pub(super) fn open(&mut self, now: Nanos) {
        self.since.get_or_insert(now);
    }

    /// How many have come.
    pub(super) fn count(&self) -> u16 {
        self.count
    }

    /// One is here.
    pub(super) fn add(&mut self, len: u64, now: Nanos) {
        self.until = now;
        self.bytes += len;
        self.count += 1;
    }

    /// It is over, and what each of it has taken is said. The next one begins at `since`, or when it is
    /// opened.
    pub(super) fn close(&mut self, since: Option<Nanos>) -> Option<u32> {
        let burst = std::mem::replace(self, Burst { since, ..Burst::default() });
        let took = burst.until.since(burst.since?).0;
        (burst.count != 0 && !burst.is_mixed).then(|| for_unit(took, burst.bytes))
    }
}

/// Messages of one kind from one sender, which are timed together whether they come one by one or side by side.
///
/// What lies between two of them counts if it is shorter than twice what a message takes: a sender that stores more
/// slowly than its reader copies makes it wait. What lies before an answer is not theirs: then a message has
/// gone to the sender meanwhile.
#[derive(Clone, Debug, Default)]
pub(super) struct Stream {
    /// What is under way began then, and so much of it is here. It counts once none is under way.
    begun: Option<Nanos>,
    here: Moved,
    /// The last one came then, unless what came since was not timed. So many messages had gone to the sender.
    until: Option<Nanos>,
    sent: u32,
    /// So long takes a message, as far as is known.
    message_ns: u64,
    /// What is timed now.
    took_ns: u64,
    bytes: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Moved {
    bytes: u64,
    count: u64,
}

impl Stream {
    /// How long a message takes; zero if nothing is known.
    pub(super) fn message_ns(&self) -> u64 {
        self.message_ns
    }

    /// A message begins. Whether it `is_first`: no other one is under way. So many messages have been `sent` to
    /// its sender, and one takes so long in one of the ways that are compared.
    pub(super) fn begin(&mut self, is_first: bool, sent: u32, message_ns: u64, now: Nanos) {
        if is_first {
            // The last of those before failed, or was not timed.
            (self.begun, self.here) = (None, Moved::default());
        }
        if self.begun.is_some() {
            return;
        }
        if let Some(until) = self.until.filter(|_| sent == self.sent) {
            let between = now.since(until).0;
            self.took_ns += if between < 2 * message_ns { between } else { 0 };
        }
        self.begun = Some(now);
    }

    /// One is here. Whether it `is_last`: no other one is under way. Says what each of them took, as
    /// [`for_unit`] does, once enough are here.
    pub(super) fn end(&mut self, len: u64, is_last: bool, sent: u32, now: Nanos) -> Option<u32> {
        let begun = self.begun?;
        self.here = Moved { bytes: self.here.bytes + len, count: self.here.count + 1 };
        (self.until, self.sent) = (Some(now), sent);
        if !is_last && self.bytes + self.here.bytes < STREAM_BYTES_MAX {
            return None;
        }
        let here = std::mem::take(&mut self.here);
        let took = now.since(begun).0;
        self.begun = (!is_last).then_some(now);
        self.note_message(took / here.count);
        self.took_ns += took;
        self.bytes += here.bytes;
        if self.bytes < STREAM_BYTES {
            return None;
        }
        let (took, bytes) = (std::mem::take(&mut self.took_ns), std::mem::take(&mut self.bytes));
        Some(for_unit(took, bytes))
    }

    /// Something has come that is not timed: it is no part of what lies between two that are.
    pub(super) fn interrupt(&mut self) {
        self.until = None;
    }

    /// One that was held up, or had come before it was looked at, changes little.
    fn note_message(&mut self, took: u64) {
        let before = self.message_ns;
        self.message_ns = if before == 0 { took } else { took.clamp(before / 2, before * 2) };
    }
}

/// What it would have taken to move [`UNIT_BYTES`], if so many bytes took so long. At least one.
pub(super) fn for_unit(took_ns: u64, bytes: u64) -> u32 {
    let took = u128::from(took_ns) * u128::from(UNIT_BYTES) / u128::from(bytes.max(1));
    u32::try_from(took).unwrap_or(u32::MAX).max(1)
}

/// Whether another way, which takes so long, takes less than so many percent of the time.
pub(super) fn is_better(others: u32, mine: u32, percent: u64) -> bool {
    u64::from(others) * 100 < u64::from(mine) * percent
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_shortest_of_the_last_counts() {
        let mut times = Times::default();
        assert_eq!(times.usual(), None);
        times.note(5);
        assert_eq!(times.usual(), None, "one may have been held up");
        times.note(900);
        assert_eq!(times.usual(), None);
        for (time, usual) in [(7, 7), (3, 5), (8, 7), (9, 7), (9, 8), (9, 9)] {
            times.note(time);
            assert_eq!(times.usual(), Some(usual), "{times:?}");
        }
    }

    #[test]
    fn a_burst_is_timed_as_a_whole() {
        let mut burst = Burst::default();
        assert_eq!(burst.close(None), None);
        for now in [100, 200] {
            burst.open(Nanos(now));
        }
        for now in [700, 900] {
            burst.add(128 << 10, Nanos(now));
        }
        assert_eq!((burst.count(), burst.close(Some(Nanos(900)))), (2, Some(200)));
        assert_eq!(burst.since, Some(Nanos(900)));
        burst.is_mixed = true;
        burst.add(128 << 10, Nanos(1000));
        assert_eq!((burst.close(None), burst.since, burst.is_mixed), (None, None, false));
    }

    /// A stream of messages of 64 KiB, each of which is copied in so long, so long after the one before. Says
    /// what its last time is.
    fn stream_time(count: u32, copied: u64, between: u64, is_answered: bool) -> Option<u32> {
        let (mut stream, mut now, mut time) = (Stream::default(), 1_000_000, None);
        for at in 0..count {
            let sent = if is_answered { at } else { 0 };
            now += between;
            stream.begin(true, sent, stream.message_ns(), Nanos(now));
            now += copied;
            time = stream.end(64 << 10, true, sent, Nanos(now)).or(time);
        }
        time
    }

    #[test]
    fn what_lies_between_messages_of_a_stream_is_of_their_time() {
        assert_eq!(stream_time(63, 3500, 0, false), None);
        assert_eq!(stream_time(64, 3500, 0, false), Some(3500));
        assert_eq!(stream_time(128, 3500, 3500, false), Some(7000), "the sender is slower");
        assert_eq!(stream_time(128, 3500, 7000, false), Some(3500), "the program computes");
        assert_eq!(stream_time(128, 3500, 3500, true), Some(3500), "one at a time");
    }

    /// Windows of 16 messages of 64 KiB, each in 64 us, of which so many are told to have come. Says all times.
    fn window_times(windows: u64, told: u64) -> Vec<u32> {
        let (mut stream, mut times) = (Stream::default(), Vec::new());
        for window in 1..=windows {
            let since = window * 1_000_000;
            for at in 0..16 {
                stream.begin(at == 0, 0, stream.message_ns(), Nanos(since + at));
            }
            // All are there at once.
            for left in (16 - told..16).rev() {
                times.extend(stream.end(64 << 10, left == 0, 0, Nanos(since + 64_000)));
            }
        }
        times
    }

    #[test]
    fn those_of_a_stream_that_come_side_by_side_count_from_the_first_to_the_last() {
        assert_eq!(window_times(8, 16), [4000, 4000]);
        assert_eq!(window_times(8, 15), [], "of those whose last one fails nothing counts");
        // A stream without an end is cut.
        let mut stream = Stream::default();
        stream.begin(true, 0, 0, Nanos(0));
        let cut = (1..=300).filter(|now| stream.end(64 << 10, false, 0, Nanos(*now)).is_some());
        assert_eq!(cut.collect::<Vec<_>>(), [128, 256]);
    }

    #[test]
    fn what_was_not_timed_lies_between_no_two() {
        let mut stream = Stream::default();
        for at in 1..=64 {
            let now = at * 7000;
            stream.begin(true, 0, 3500, Nanos(now));
            stream.interrupt();
            let time = stream.end(64 << 10, true, 0, Nanos(now + 3500));
            assert_eq!(time, (at == 64).then_some(3500));
            stream.interrupt();
        }
    }

    #[test]
    fn a_message_that_was_held_up_changes_little() {
        let mut stream = Stream::default();
        let mut now = 0;
        for (took, known) in [(4000, 4000), (4_000_000, 8000), (4000, 4000), (190, 2000)] {
            now += 1_000_000;
            stream.begin(true, 0, 0, Nanos(now));
            stream.end(64 << 10, true, 0, Nanos(now + took));
            assert_eq!(stream.message_ns(), known);
        }
    }

    #[test]
    fn times_are_of_64_kib() {
        assert_eq!(for_unit(10_000, 128 << 10), 5000);
        assert_eq!(for_unit(0, 1), 1);
        assert_eq!(for_unit(u64::MAX, 0), u32::MAX);
    }
}
