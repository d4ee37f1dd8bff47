//! How much of one message may be asked for before it has come: the window of a
//! pull by chunks, and how long its chunks are.
//!
//! Both follow what the sink really takes. Answers of one sender come in the order
//! of the gets, so two measures are had without remembering every get: the rate at
//! which bytes come while something is in flight, and the shortest time that one
//! get at a time took from asking to arrival, beside the sink's own time for its
//! bytes. For the sink never to wait, what comes at that rate in that time has to be
//! in flight, and a chunk to be taken meanwhile. The window is twice both: a window
//! of exactly that would only ever measure itself, and would never notice that the
//! sink has become faster. So a faster sink is found by doubling, once in a round
//! trip; a slower one is believed by half at a time, for a sender that was away
//! looks the same at first.
//!
//! A chunk is what the sink takes in [`CHUNK_TIME`]: a get costs little beside it,
//! and a slow sink still gives its room back soon.
//!
//! Invariants: bytes in flight are those of gets asked for and not answered;
//! a window has room for one chunk at any time. No clock is read: times are
//! arguments, and a coarse or halting clock only makes the measures coarse.

use sluice_wire::Nanos;

/// What a sink should need for one chunk.
const CHUNK_TIME: Nanos = Nanos(16_000);
/// Shortest chunk that a slow sink leads to, in bytes: a header is 2 % of it.
const CHUNK_BYTES_MIN: u64 = 2 << 10;
/// In flight before anything is known: what a link of 100 Gbit/s takes in 5 µs.
const WINDOW_BYTES_START: u64 = 64 << 10;
/// What a span that is measured takes at least, and what a round trip is taken for
/// at least: shorter ones say more about the clock.
const SPAN_MIN: Nanos = Nanos(1_000);
/// Chunks that make a measured span.
const SPAN_CHUNKS_MIN: u32 = 2;
const NANOS_PER_S: u128 = 1_000_000_000;

/// See the module.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Window {
    chunk_bytes_max: u64,
    /// What all windows share.
    budget_bytes: u64,
    chunk_bytes: u64,
    bytes_max: u64,
    bytes_in_flight: u64,
    /// Gets asked for, and answered.
    asked: u64,
    answered: u64,
    /// The get whose answer is waited for to know its round trip.
    timed: Option<Timed>,
    /// The shortest round trip, and how many bytes it was for.
    shortest: Option<(Nanos, u64)>,
    span: Option<Span>,
    /// What the sink takes; `None` until the first span is over.
    bytes_per_s: Option<u64>,
}

#[derive(Clone, Copy, Debug)]
struct Timed {
    nth: u64,
    since: Nanos,
    bytes: u64,
}

/// What has come since an arrival, with something in flight all the time.
#[derive(Clone, Copy, Debug)]
struct Span {
    since: Nanos,
    bytes: u64,
    chunks: u32,
}

impl Window {
    /// For chunks of at most `chunk_bytes_max`, with `budget_bytes` for everybody.
    pub fn new(chunk_bytes_max: u64, budget_bytes: u64) -> Window {
        let budget_bytes = budget_bytes.max(1);
        let chunk_bytes_max = chunk_bytes_max.clamp(1, budget_bytes);
        Window {
            chunk_bytes_max,
            budget_bytes,
            chunk_bytes: chunk_bytes_max,
            bytes_max: WINDOW_BYTES_START.min(budget_bytes / 2).max(2 * chunk_bytes_max),
            bytes_in_flight: 0,
            asked: 0,
            answered: 0,
            timed: None,
            shortest: None,
            span: None,
            bytes_per_s: None,
        }
    }

    /// The length of the next chunk, if so many bytes are `left` to be asked for.
    pub fn chunk(&self, left: u64) -> u64 {
        left.min(self.chunk_bytes)
    }

    /// Whether a chunk may be asked for.
    pub fn has_room(&self, chunk: u64) -> bool {
        self.bytes_in_flight == 0 || self.bytes_in_flight + chunk <= self.bytes_max
    }

    pub fn bytes_in_flight(&self) -> u64 {
        self.bytes_in_flight
    }

    /// A chunk has been asked for.
    pub fn on_asked(&mut self, now: Nanos, bytes: u64) {
        if self.bytes_in_flight == 0 {
            // The sink had nothing to take: that says nothing about its rate.
            self.span = None;
        }
        self.bytes_in_flight += bytes;
        self.asked += 1;
        let nth = self.asked;
        self.timed.get_or_insert(Timed { nth, since: now, bytes });
    }

    /// The answer to the oldest get has come, or its end.
    pub fn on_arrived(&mut self, now: Nanos, bytes: u64) {
        assert!(bytes <= self.bytes_in_flight, "what comes was asked for");
        self.bytes_in_flight -= bytes;
        self.answered += 1;
        if let Some(timed) = self.timed.take_if(|timed| timed.nth == self.answered) {
            let sample = (now.since(timed.since), timed.bytes);
            if self.shortest.is_none_or(|shortest| self.way(sample) < self.way(shortest)) {
                self.shortest = Some(sample);
            }
        }
        let Some(span) = &mut self.span else {
            self.span = Some(Span { since: now, bytes: 0, chunks: 0 });
            return;
        };
        span.bytes += bytes;
        span.chunks += 1;
        let took = now.since(span.since);
        let least = self.shortest.map_or(SPAN_MIN, |(shortest, _)| shortest.max(SPAN_MIN));
        if span.chunks >= SPAN_CHUNKS_MIN && took >= least {
            let bytes_per_s = per_second(span.bytes, took);
            self.span = Some(Span { since: now, bytes: 0, chunks: 0 });
            self.adapt(bytes_per_s);
        }
    }

    fn adapt(&mut self, measured: u64) {
        let rate = match self.bytes_per_s {
            Some(known) if measured < known => known - (known - measured).div_ceil(2),
            _ => measured,
        };
        self.bytes_per_s = Some(rate);
        let chunk = bytes_in(rate, CHUNK_TIME).max(CHUNK_BYTES_MIN);
        self.chunk_bytes = chunk.min(self.chunk_bytes_max);
        let way = self.shortest.map_or(SPAN_MIN, |shortest| self.way(shortest).max(SPAN_MIN));
        let on_its_way = bytes_in(rate, way).min(self.budget_bytes);
        self.bytes_max = 2 * on_its_way + 2 * self.chunk_bytes;
    }

    /// What a round trip for so many bytes took beside the sink's time for them.
    fn way(&self, (took, bytes): (Nanos, u64)) -> Nanos {
        took.since(self.bytes_per_s.map_or(Nanos(0), |rate| time_of(bytes, rate)))
    }

    /// Panics unless the counts are in order. For tests.
    pub fn check_invariants(&self) {
        assert!(self.answered <= self.asked);
        assert!((self.bytes_in_flight == 0) == (self.answered == self.asked));
        assert!(self.chunk_bytes >= 1 && self.chunk_bytes <= self.chunk_bytes_max);
        assert!(self.bytes_max >= 2 * self.chunk_bytes);
        assert!(self.bytes_in_flight <= self.budget_bytes, "a window beyond the budget");
    }
}

fn per_second(bytes: u64, took: Nanos) -> u64 {
    let rate = u128::from(bytes) * NANOS_PER_S / u128::from(took.0.max(1));
    u64::try_from(rate.max(1)).unwrap_or(u64::MAX)
}

fn bytes_in(bytes_per_s: u64, time: Nanos) -> u64 {
    let bytes = u128::from(bytes_per_s) * u128::from(time.0) / NANOS_PER_S;
    u64::try_from(bytes).unwrap_or(u64::MAX)
}

fn time_of(bytes: u64, bytes_per_s: u64) -> Nanos {
    let nanos = u128::from(bytes) * NANOS_PER_S / u128::from(bytes_per_s.max(1));
    Nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::VecDeque;

    const CHUNK: u64 = 15_000;
    const BUDGET: u64 = 1 << 20;

    /// One transfer without end over a way of so many nanoseconds, into a sink that
    /// takes a byte in so many picoseconds.
    struct Pipe {
        window: Window,
        now_ns: u64,
        way_ns: u64,
        sink_ps: u64,
        sink_free_ps: u64,
        coming: VecDeque<(u64, u64)>,
        /// When the sink had nothing to do, in all.
        idle_ps: u64,
    }

    impl Pipe {
        fn new(way_ns: u64, sink_ps: u64) -> Pipe {
            let window = Window::new(CHUNK, BUDGET);
            let coming = VecDeque::new();
            Pipe { window, now_ns: 0, way_ns, sink_ps, sink_free_ps: 0, coming, idle_ps: 0 }
        }

        fn ask(&mut self) {
            let chunk = self.window.chunk(u64::MAX);
            while self.window.has_room(chunk) {
                self.window.on_asked(Nanos(self.now_ns), chunk);
                let there_ps = (self.now_ns + self.way_ns) * 1000;
                self.idle_ps += there_ps.saturating_sub(self.sink_free_ps);
                self.sink_free_ps = self.sink_free_ps.max(there_ps) + chunk * self.sink_ps;
                self.coming.push_back((self.sink_free_ps.div_ceil(1000), chunk));
            }
        }

        /// The share of the time, in percent, that the sink was busy over so many
        /// chunks.
        fn run(&mut self, chunks: u32) -> u64 {
            let (from_ps, idle_ps) = (self.sink_free_ps, self.idle_ps);
            for _ in 0..chunks {
                self.ask();
                let (at, bytes) = self.coming.pop_front().expect("something is in flight");
                self.now_ns = self.now_ns.max(at);
                self.window.on_arrived(Nanos(self.now_ns), bytes);
                self.window.check_invariants();
            }
            let took_ps = self.sink_free_ps - from_ps;
            100 - 100 * (self.idle_ps - idle_ps) / took_ps
        }

        /// What has to be in flight for the sink to be busy.
        fn needed(&self) -> u64 {
            self.way_ns * 1000 / self.sink_ps + self.window.chunk_bytes
        }
    }

    #[test]
    fn the_sink_is_kept_busy_by_at_most_twice_what_that_takes() {
        for way_ns in [500, 2_000, 10_000, 40_000] {
            // From 10 GB/s to 50 MB/s.
            for sink_ps in [100, 400, 1_000, 5_000, 20_000] {
                let mut pipe = Pipe::new(way_ns, sink_ps);
                pipe.run(200);
                let busy = pipe.run(400);
                assert!(busy >= 99, "{busy} % with {way_ns} ns and {sink_ps} ps");
                let (window, needed) = (pipe.window.bytes_max, pipe.needed());
                let floor = 2 * 1000 * SPAN_MIN.0 / sink_ps;
                assert!(window >= needed, "{window} of {needed}: {way_ns} ns, {sink_ps} ps");
                let most = 2 * needed + floor + needed / 8;
                assert!(window <= most, "{window} for {needed}: {way_ns} ns, {sink_ps} ps");
            }
        }
    }

    #[test]
    fn a_sink_that_slows_down_gets_less_and_one_that_recovers_gets_more() {
        let mut pipe = Pipe::new(2_000, 100);
        pipe.run(200);
        let fast = pipe.window.bytes_max;
        assert_eq!(pipe.window.chunk_bytes, CHUNK);
        pipe.sink_ps = 10_000;
        pipe.run(100);
        let slow = pipe.window.bytes_max;
        assert!(slow * 8 < fast, "{slow} after {fast}");
        assert_eq!(pipe.window.chunk_bytes, CHUNK_BYTES_MIN);
        pipe.sink_ps = 100;
        pipe.run(200);
        assert!(pipe.window.bytes_max * 10 > fast * 9, "{} of {fast}", pipe.window.bytes_max);
        assert!(pipe.run(100) >= 99);
    }

    #[test]
    fn a_slow_sink_is_known_after_three_chunks() {
        let mut pipe = Pipe::new(1_000, 20_000);
        pipe.run(3);
        assert!(pipe.window.bytes_max <= 5 * CHUNK_BYTES_MIN, "{:?}", pipe.window);
    }

    #[test]
    fn a_clock_that_stands_still_changes_nothing() {
        let mut window = Window::new(CHUNK, BUDGET);
        let before = window.bytes_max;
        for _ in 0..1000 {
            window.on_asked(Nanos(7), CHUNK);
            window.on_asked(Nanos(7), CHUNK);
            window.on_arrived(Nanos(7), CHUNK);
            window.on_arrived(Nanos(7), CHUNK);
        }
        assert_eq!((window.bytes_max, window.chunk_bytes), (before, CHUNK));
        // Nor does one that goes back break anything.
        window.on_asked(Nanos(5), CHUNK);
        window.on_arrived(Nanos(3), CHUNK);
        window.check_invariants();
    }

    #[test]
    fn a_sender_that_was_away_is_not_taken_for_a_slow_sink_for_long() {
        let mut pipe = Pipe::new(1_000, 100);
        pipe.run(100);
        let fast = pipe.window.bytes_max;
        pipe.sink_free_ps += 1_000_000_000_000;
        pipe.run(3);
        assert!(pipe.window.bytes_max * 2 >= fast);
        pipe.run(100);
        assert!(pipe.window.bytes_max * 10 >= fast * 9);
    }

    #[test]
    fn the_smallest_budget_is_a_chunk() {
        for budget in [0, 1, 24, CHUNK - 1] {
            let mut window = Window::new(CHUNK, budget);
            let chunk = window.chunk(u64::MAX);
            assert_eq!(chunk, budget.max(1));
            assert!(window.has_room(chunk));
            window.on_asked(Nanos(0), chunk);
            window.on_arrived(Nanos(9), chunk);
            assert_eq!(window.bytes_in_flight(), 0);
        }
    }
}
