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
/// Messages of a stream are timed together until so many bytes are there and no other one is under way, and no
/// longer than until so many are. Fewer may have been moved before they are looked at, and those that follow
/// are waited for.
const STREAM_BYTES: u64 = 4 << 20;
const STREAM_BYTES_MAX: u64 = 16 << 20;

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
    /// What is under way began then, and so many of it are here.
    begun: Option<Nanos>,
    count: u16,
    /// The last one came then. So many messages had gone to the sender, and each of the last ones had taken so
    /// long.
    until: Nanos,
    sent: u32,
    message_ns: u64,
    /// What is timed now.
    took_ns: u64,
    bytes: u64,
}

impl Stream {
    /// A message begins. Whether it `is_first`: no other one is under way. So many messages have been `sent` to
    /// its sender.
    pub(super) fn begin(&mut self, is_first: bool, sent: u32, now: Nanos) {
        if is_first {
            // Those that failed told nothing of their end.
            (self.begun, self.count) = (None, 0);
        }
        if self.begun.is_some() {
            return;
        }
        let between = now.since(self.until).0;
        if sent == self.sent && between < 2 * self.message_ns {
            self.took_ns += between;
        }
        self.begun = Some(now);
    }

    /// One is here. Whether it `is_last`: no other one is under way. Says what each of them took, as
    /// [`for_unit`] does, once enough are here.
    pub(super) fn end(&mut self, len: u64, is_last: bool, sent: u32, now: Nanos) -> Option<u32> {
        let begun = self.begun?;
        self.bytes += len;
        self.count = self.count.saturating_add(1);
        (self.until, self.sent) = (now, sent);
        let is_full = self.bytes >= STREAM_BYTES_MAX;
        if is_last || is_full {
            let took = now.since(begun).0;
            self.took_ns += took;
            self.message_ns = took / u64::from(self.count);
            (self.begun, self.count) = ((!is_last).then_some(now), 0);
        }
        if !(is_full || is_last && self.bytes >= STREAM_BYTES) {
            return None;
        }
        let (took, bytes) = (std::mem::take(&mut self.took_ns), std::mem::take(&mut self.bytes));
        Some(for_unit(took, bytes))
    }

    /// What is timed now tells nothing.
    pub(super) fn forget(&mut self) {
        (self.begun, self.count) = (None, 0);
        (self.took_ns, self.bytes) = (0, 0);
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
            stream.begin(true, sent, Nanos(now));
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

    #[test]
    fn those_of_a_stream_that_come_side_by_side_count_from_the_first_to_the_last() {
        let mut stream = Stream::default();
        let mut times = Vec::new();
        for window in 1..=8 {
            let since = window * 1_000_000;
            for at in 0..16 {
                stream.begin(at == 0, 0, Nanos(since + at));
            }
            // All but the first are there at once.
            for left in (0..16).rev() {
                times.extend(stream.end(64 << 10, left == 0, 0, Nanos(since + 64_000)));
            }
        }
        assert_eq!(times, [4000, 4000]);
        // A stream without an end is cut.
        stream.begin(true, 0, Nanos(0));
        let cut = (1..=300).filter(|now| stream.end(64 << 10, false, 0, Nanos(*now)).is_some());
        assert_eq!(cut.collect::<Vec<_>>(), [256]);
    }

    #[test]
    fn times_are_of_64_kib() {
        assert_eq!(for_unit(10_000, 128 << 10), 5000);
        assert_eq!(for_unit(0, 1), 1);
        assert_eq!(for_unit(u64::MAX, 0), u32::MAX);
    }
}
