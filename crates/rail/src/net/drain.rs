//! How fast a socket passes on what it is given: what bounds the bytes of chunks that it is
//! given ahead, so that a small message does not wait long behind them.
//!
//! The rate is measured while the socket has something, and everything that goes counts: what
//! the system has not acknowledged is not told apart into chunks and packets. A bound that is
//! too low would keep itself: the socket runs dry before each look, so there is never enough of
//! a sample, and every chunk waits for the acknowledgement of the one before. So if chunks were
//! kept back and the socket has run dry in half the time for which it was to last, the bound
//! doubles.
//!
//! Nothing is given to a socket between two looks, so what it is given lasts for longer where
//! looks are far apart ([`Gaps`]). Whoever looks seldom would measure its looks instead of the
//! socket.
//!
//! Invariant: the bound is never below [`AHEAD_BYTES_MIN`], so a chunk goes on in any case.

use sluice_multirail::Gaps;
use sluice_wire::Nanos;

/// How far ahead a socket is given chunks, unless looks are far apart.
const AHEAD_NS: u64 = 250_000;
/// Least and most bytes of that.
const AHEAD_BYTES_MIN: u64 = 64 << 10;
const AHEAD_BYTES_MAX: u64 = 4 << 20;
/// The longest rest: a socket may have become faster.
const REST_NS_MAX: u64 = 1_000_000;
/// Least time of a sample.
const SAMPLE_NS: u64 = 500_000;

/// See the module.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Drain {
    /// Bytes that were passed on at the beginning of the sample, and when that was.
    sample: Option<(u64, Nanos)>,
    /// Bytes in a millisecond; zero before the first sample.
    per_ms: u64,
    /// When chunks were kept back, if the last look did that.
    held: Option<Nanos>,
    /// From a look that kept chunks back to the next one.
    gaps: Gaps,
}

impl Drain {
    /// How many bytes of chunks the socket may be given. It was given `given` bytes in all, and
    /// has `waiting` of them, which the other side has not acknowledged.
    pub(super) fn room(&mut self, now: Nanos, given: u64, waiting: u64) -> u64 {
        let gap_ns = self.held.map_or(0, |held| now.since(held).0);
        if waiting == 0 {
            self.run_dry(gap_ns);
        } else {
            self.measure(now, given.saturating_sub(waiting));
        }
        self.gaps.note(gap_ns, gap_ns);
        self.ahead_bytes().saturating_sub(waiting)
    }

    /// What became of that: whether chunks were kept back.
    pub(super) fn note(&mut self, now: Nanos, is_held: bool) {
        self.held = is_held.then_some(now);
    }

    /// When to look again at a socket that has had enough, and has `waiting` bytes: half of them have gone
    /// by then.
    pub(super) fn due(&self, now: Nanos, waiting: u64) -> Nanos {
        let half_ns = (waiting / 2).saturating_mul(1_000_000).checked_div(self.per_ms).unwrap_or(0);
        now.saturating_add(Nanos(half_ns.min(REST_NS_MAX)))
    }

    fn ahead_bytes(&self) -> u64 {
        match self.per_ms {
            0 => AHEAD_BYTES_MAX,
            per_ms => (per_ms.saturating_mul(self.gaps.last_ns(AHEAD_NS)) / 1_000_000)
                .clamp(AHEAD_BYTES_MIN, AHEAD_BYTES_MAX),
        }
    }

    fn measure(&mut self, now: Nanos, passed: u64) {
        let Some((before, since)) = self.sample else {
            self.sample = Some((passed, now));
            return;
        };
        let ns = now.since(since).0;
        if ns >= SAMPLE_NS {
            let per_ms = passed.saturating_sub(before).saturating_mul(1_000_000) / ns;
            let per_ms = if self.per_ms == 0 { per_ms } else { (self.per_ms + per_ms) / 2 };
            // One that passes nothing on is not one that was not measured.
            self.per_ms = per_ms.max(1);
            self.sample = Some((passed, now));
        }
    }

    /// An idle socket says nothing about its rate, unless it is the bound that made it so.
    fn run_dry(&mut self, gap_ns: u64) {
        self.sample = None;
        let ahead_ns = self.gaps.last_ns(AHEAD_NS);
        if self.held.is_some() && gap_ns < ahead_ns / 2 {
            let ahead = (2 * self.ahead_bytes()).min(AHEAD_BYTES_MAX);
            self.per_ms = ahead * 1_000_000 / ahead_ns;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A socket that passes on so many bytes in a microsecond, in virtual time.
    struct Socket {
        drain: Drain,
        now: u64,
        per_us: u64,
        given: u64,
        waiting: u64,
    }

    impl Socket {
        fn new(per_us: u64) -> Socket {
            Socket { drain: Drain::default(), now: 0, per_us, given: 0, waiting: 0 }
        }

        fn give(&mut self, bytes: u64) {
            self.given += bytes;
            self.waiting += bytes;
        }

        /// So much time passes, with chunks to be given and a look at the end of each step.
        /// Says how many bytes were passed on.
        fn pours(&mut self, us: u64, step_us: u64) -> u64 {
            let mut passed = 0;
            for _ in 0..us / step_us {
                self.now += step_us * 1000;
                let now = self.waiting.min(self.per_us * step_us);
                self.waiting -= now;
                passed += now;
                let room = self.drain.room(Nanos(self.now), self.given, self.waiting);
                self.give(room);
                self.drain.note(Nanos(self.now), true);
            }
            passed
        }

        /// So much time passes in which only packets go, at a fiftieth of the rate.
        fn trickles(&mut self, us: u64) {
            for _ in 0..us / 100 {
                self.now += 100_000;
                self.waiting = 1;
                self.given += self.per_us * 2;
                self.drain.room(Nanos(self.now), self.given, self.waiting);
                self.drain.note(Nanos(self.now), false);
            }
        }
    }

    #[test]
    fn a_socket_is_given_what_it_passes_on_in_a_quarter_of_a_millisecond() {
        let mut socket = Socket::new(1_000);
        socket.pours(20_000, 1);
        assert!((240_000..=260_000).contains(&socket.waiting), "{}", socket.waiting);
        // One that becomes slower is given less soon.
        socket.per_us = 100;
        socket.pours(20_000, 1);
        assert_eq!(socket.waiting, AHEAD_BYTES_MIN);
    }

    /// Who rests until it is due keeps the socket busy.
    #[test]
    fn there_is_something_left_when_it_is_due() {
        let mut drain = Drain::default();
        assert_eq!(drain.due(Nanos(7), 1 << 20), Nanos(7), "nothing is known");
        let mut socket = Socket::new(1_000);
        socket.pours(20_000, 1);
        drain = socket.drain;
        let due = drain.due(Nanos(0), 250_000).0;
        assert!((115_000..=135_000).contains(&due), "{due}");
        assert_eq!(drain.due(Nanos(5), 0), Nanos(5));
        assert_eq!(drain.due(Nanos(0), u64::MAX), Nanos(REST_NS_MAX));
    }

    #[test]
    fn what_goes_beside_chunks_counts() {
        let mut socket = Socket::new(2_000);
        for _ in 0..20_000 {
            socket.pours(1, 1);
            // Packets take half of it.
            socket.give(1_000);
        }
        let ahead = socket.drain.ahead_bytes();
        assert!((490_000..=510_000).contains(&ahead), "{ahead}");
    }

    #[test]
    fn a_bound_that_is_too_low_does_not_stay() {
        let mut socket = Socket::new(5_000);
        socket.trickles(10_000);
        assert_eq!(socket.drain.ahead_bytes(), AHEAD_BYTES_MIN);
        // A look in 20 microseconds finds the socket dry, in which 100,000 bytes could go.
        socket.waiting = 0;
        socket.pours(200, 20);
        assert_eq!(socket.pours(20_000, 20), 20_000 * 5_000);
        let ahead = socket.drain.ahead_bytes();
        assert!((1_000_000..=1_500_000).contains(&ahead), "{ahead}");
    }

    /// What is given at one look lasts until the next, as far as the bound has no end. Who looks
    /// often again gives no more than before, soon.
    #[test]
    fn who_looks_seldom_keeps_a_socket_busy() {
        for (per_us, gap_us) in [(400, 1_000), (400, 5_000), (125, 10_000)] {
            let mut socket = Socket::new(per_us);
            socket.trickles(10_000);
            socket.waiting = 0;
            socket.pours(200_000, gap_us);
            let passed = socket.pours(100_000, gap_us);
            assert!(passed >= 95_000 * per_us, "{per_us} {gap_us}: {passed}");
            let ahead = socket.drain.ahead_bytes();
            assert!(ahead <= 4 * gap_us * per_us, "{per_us} {gap_us}: {ahead}");
            socket.pours(100_000, 10);
            let ahead = socket.drain.ahead_bytes();
            assert!(ahead <= (300 * per_us).max(AHEAD_BYTES_MIN), "{per_us} {gap_us}: {ahead}");
        }
    }

    /// One late look in many does not change how much waits in front of a packet.
    #[test]
    fn who_looks_late_now_and_then_gives_no_more() {
        let mut socket = Socket::new(1_000);
        let mut most = 0;
        for _ in 0..100 {
            socket.pours(20_000, 10);
            most = most.max(socket.waiting);
            socket.pours(1_000, 1_000);
            most = most.max(socket.waiting);
        }
        assert!(most <= 300_000, "{most}");
    }

    #[test]
    fn the_bound_has_bounds() {
        let mut drain = Drain::default();
        for step in 0..100 {
            assert!(drain.room(Nanos(step), u64::MAX, 0) <= AHEAD_BYTES_MAX);
            drain.note(Nanos(step), true);
        }
        assert_eq!(drain.room(Nanos(1_000), 0, u64::MAX), 0);
        assert_eq!(drain.room(Nanos(SAMPLE_NS * 2), u64::MAX, 1), AHEAD_BYTES_MAX - 1);
        for step in 3..100 {
            drain.room(Nanos(SAMPLE_NS * step), u64::MAX, 1);
        }
        assert_eq!(drain.room(Nanos(u64::MAX), u64::MAX, 1), AHEAD_BYTES_MIN - 1);
    }
}
