//! The last times that something took, and bursts of messages, which are timed together.

use sluice_wire::Nanos;

/// Times that are kept. The second shortest counts: one that was held up changes nothing, nor does one that
/// was luckier than others.
const KEPT: usize = 4;
/// So many are wanted before anything is said.
const WANTED: usize = 3;
/// Another way has to take less than so many percent of the time, or nothing changes.
const BETTER_PERCENT: u64 = 90;
/// Times are kept as if so many bytes had been moved.
const UNIT_BYTES: u64 = 64 << 10;

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

    /// When the last message came, of this one or of the one before.
    pub(super) fn until(&self) -> Nanos {
        self.until
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
        let burst = std::mem::replace(self, Burst { since, until: self.until, ..Burst::default() });
        let took = burst.until.since(burst.since?).0;
        (burst.count != 0 && !burst.is_mixed).then(|| for_unit(took, burst.bytes))
    }
}

/// What it would have taken to move [`UNIT_BYTES`], if so many bytes took so long. At least one.
pub(super) fn for_unit(took_ns: u64, bytes: u64) -> u32 {
    let took = u128::from(took_ns) * u128::from(UNIT_BYTES) / u128::from(bytes.max(1));
    u32::try_from(took).unwrap_or(u32::MAX).max(1)
}

/// Whether another way, which takes so long, is worth a change.
pub(super) fn is_better(others: u32, mine: u32) -> bool {
    u64::from(others) * 100 < u64::from(mine) * BETTER_PERCENT
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
        assert_eq!((burst.since, burst.until()), (Some(Nanos(900)), Nanos(900)));
        burst.is_mixed = true;
        burst.add(128 << 10, Nanos(1000));
        assert_eq!((burst.close(None), burst.since, burst.is_mixed), (None, None, false));
    }

    #[test]
    fn times_are_of_64_kib() {
        assert_eq!(for_unit(10_000, 128 << 10), 5000);
        assert_eq!(for_unit(0, 1), 1);
        assert_eq!(for_unit(u64::MAX, 0), u32::MAX);
    }
}
