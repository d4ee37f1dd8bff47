//! Which faults happen, and when.
//!
//! Each thread that drives rails has draws of its own, from the seed and the number of the
//! thread in its process. A process tells at its end how often each fault was done.

use rustix::net::Shutdown;
use std::cell::RefCell;
use std::fmt;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// What `FI_SLUICE_FAULTS` names, in this order.
const NAMES: [&str; KINDS] = [
    "drop", "delay", "refuse", "stall", "exhaust", "short", "corrupt", "away", "deny", "claims",
    "make", "map",
];
const KINDS: usize = 12;
const DROP: usize = 0;
const DELAY: usize = 1;
const REFUSE: usize = 2;
const STALL: usize = 3;
const EXHAUST: usize = 4;
const SHORT: usize = 5;
const CORRUPT: usize = 6;
const AWAY: usize = 7;
const DENY: usize = 8;
const CLAIMS: usize = 9;
const MAKE: usize = 10;
const MAP: usize = 11;

/// Longest delay of one call, and longest stall.
const DELAY_US_MAX: u64 = 500;
const STALL_US_MAX: u64 = 50_000;
/// Longest time for which polls find nothing, as if the system ran others.
const AWAY_US_MAX: u64 = 2_000;
/// Most bytes of a call that is cut short.
const SHORT_BYTES_MAX: u64 = 64;
/// Most bytes that one thread alters: beyond a number of altered connections a peer is given up.
const CORRUPT_MAX: u64 = 200;

/// How often each fault was done in this process.
static DONE: [AtomicU64; KINDS] = [const { AtomicU64::new(0) }; KINDS];

/// How often each fault was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Counts([u64; KINDS]);

impl Counts {
    /// How often the fault of this name was.
    #[cfg(test)]
    pub(crate) fn of(&self, name: &str) -> u64 {
        NAMES.iter().position(|known| *known == name).map_or(0, |at| self.0[at])
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (nth, (name, count)) in NAMES.iter().zip(self.0).enumerate() {
            write!(f, "{}{name} {count}", if nth > 0 { ", " } else { "" })?;
        }
        Ok(())
    }
}

/// What is wanted: a seed, and how likely each fault is at each chance, in millionths.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Plan {
    seed: u64,
    millionths: [u64; KINDS],
}

impl Plan {
    /// As `seed=7,drop=0.001,short=0.2` says.
    ///
    /// # Errors
    /// The part that has no meaning.
    pub(crate) fn parse(text: &str) -> Result<Plan, String> {
        let mut plan = Plan::default();
        for part in text.split(',').filter(|part| !part.is_empty()) {
            let said = || part.to_owned();
            let (name, value) = part.split_once('=').ok_or_else(said)?;
            if name == "seed" {
                plan.seed = value.parse().map_err(|_| said())?;
                continue;
            }
            let kind = NAMES.iter().position(|known| *known == name).ok_or_else(said)?;
            let share: f64 = value.parse().map_err(|_| said())?;
            if !(0.0..=1.0).contains(&share) {
                return Err(said());
            }
            plan.millionths[kind] = (share * 1e6) as u64;
        }
        Ok(plan)
    }
}

/// The draws of a thread.
struct Draws {
    plan: Plan,
    state: u64,
    /// Nothing moves until then.
    stalled_until: Option<Instant>,
    done: [u64; KINDS],
}

thread_local! {
    static DRAWS: RefCell<Option<Draws>> = RefCell::new(planned().map(Draws::new));
}

/// What the environment wants. What has no meaning is said, and then there are no faults.
fn planned() -> Option<Plan> {
    static PLANNED: OnceLock<Option<Plan>> = OnceLock::new();
    if cfg!(not(feature = "faults")) {
        return None;
    }
    let planned = || {
        let text = std::env::var("FI_SLUICE_FAULTS").ok().filter(|text| !text.is_empty())?;
        match Plan::parse(&text) {
            Ok(plan) => {
                // SAFETY: the function takes nothing, and is there for as long as the process.
                unsafe { libc::atexit(tell) };
                Some(plan)
            }
            Err(part) => {
                eprintln!("sluice: FI_SLUICE_FAULTS is ignored: `{part}` has no meaning");
                None
            }
        }
    };
    *PLANNED.get_or_init(planned)
}

/// Says how often each fault was done.
extern "C" fn tell() {
    let counts = Counts(std::array::from_fn(|kind| DONE[kind].load(Ordering::Relaxed)));
    let line = format!("sluice: faults done: {counts}\n");
    // At the end of a process nobody is left to say that this went wrong.
    let _ = io::Write::write_all(&mut io::stderr(), line.as_bytes());
}

impl Draws {
    fn new(plan: Plan) -> Draws {
        static THREADS: AtomicU64 = AtomicU64::new(0);
        let thread = THREADS.fetch_add(1, Ordering::Relaxed);
        Draws::of(plan, thread)
    }

    fn of(plan: Plan, thread: u64) -> Draws {
        let state = plan.seed ^ thread.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        Draws { plan, state, stalled_until: None, done: [0; KINDS] }
    }

    /// The next number (splitmix64).
    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.state;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    /// Whether a fault happens at this chance.
    fn happens(&mut self, kind: usize) -> bool {
        let millionths = self.plan.millionths[kind];
        let happens = millionths > 0 && self.below(1_000_000) < millionths;
        if happens {
            self.done[kind] += 1;
            DONE[kind].fetch_add(1, Ordering::Relaxed);
        }
        happens
    }

    fn is_stalled(&mut self) -> bool {
        let Some(until) = self.stalled_until else { return false };
        let is_over = Instant::now() >= until;
        if is_over {
            self.stalled_until = None;
        }
        !is_over
    }
}

/// Does something with the draws of this thread, if there are any. A thread that ends has none.
fn draw<R>(with: impl FnOnce(&mut Draws) -> R) -> Option<R> {
    let drawn = |place: &RefCell<Option<Draws>>| place.borrow_mut().as_mut().map(with);
    DRAWS.try_with(drawn).ok().flatten()
}

/// See [`super::on_send`].
pub(super) fn on_lane(lane: BorrowedFd<'_>) -> io::Result<Option<usize>> {
    let on_lane = |draws: &mut Draws| {
        if draws.happens(STALL) {
            // Not `WouldBlock` of this call: that promises an event, which the system alone gives.
            let micros = draws.below(STALL_US_MAX);
            draws.stalled_until = Some(Instant::now() + Duration::from_micros(micros));
        }
        if draws.happens(DELAY) {
            std::thread::sleep(Duration::from_micros(draws.below(DELAY_US_MAX)));
        }
        if draws.happens(DROP) {
            // What then comes of the call is what comes of one on a connection that broke.
            let _ = rustix::net::shutdown(lane, Shutdown::Both);
        }
        if draws.happens(EXHAUST) {
            return Err(io::Error::from_raw_os_error(libc::ENOBUFS));
        }
        Ok(draws.happens(SHORT).then(|| 1 + draws.below(SHORT_BYTES_MAX) as usize))
    };
    draw(on_lane).unwrap_or(Ok(None))
}

/// See [`super::on_sealed`].
pub(super) fn on_sealed(bytes: &mut [u8]) {
    draw(|draws| {
        if !bytes.is_empty() && draws.done[CORRUPT] < CORRUPT_MAX && draws.happens(CORRUPT) {
            let at = draws.below(bytes.len() as u64) as usize;
            bytes[at] ^= 1 << draws.below(8);
        }
    });
}

/// See [`super::on_connect`]. Not as a host refuses at whose port nobody listens: who does so
/// again and again has ended.
pub(super) fn on_connect() -> io::Result<()> {
    match draw(|draws| draws.happens(REFUSE)) {
        Some(true) => Err(io::Error::from_raw_os_error(libc::EHOSTUNREACH)),
        _ => Ok(()),
    }
}

/// See [`super::on_direct`].
pub(super) fn on_direct(len: usize) -> io::Result<usize> {
    let on_direct = |draws: &mut Draws| {
        if draws.happens(DENY) {
            return Err(io::Error::from_raw_os_error(libc::EPERM));
        }
        let is_short = draws.happens(SHORT);
        Ok(if is_short { len.min(1 + draws.below(SHORT_BYTES_MAX) as usize) } else { len })
    };
    draw(on_direct).unwrap_or(Ok(len))
}

/// See [`super::on_claims`].
pub(super) fn on_claims() -> bool {
    draw(|draws| draws.happens(CLAIMS)).unwrap_or(false)
}

/// See [`super::segment::on_make`].
pub(super) fn on_make() -> bool {
    draw(|draws| draws.happens(MAKE)).unwrap_or(false)
}

/// See [`super::segment::on_map`].
pub(super) fn on_map() -> bool {
    draw(|draws| draws.happens(MAP)).unwrap_or(false)
}

/// See [`super::on_poll`].
pub(super) fn on_poll() -> bool {
    let on_poll = |draws: &mut Draws| {
        if draws.happens(AWAY) {
            let micros = draws.below(AWAY_US_MAX);
            draws.stalled_until = Some(Instant::now() + Duration::from_micros(micros));
        }
        draws.is_stalled()
    };
    draw(on_poll).unwrap_or(false)
}

/// Runs something with these faults on this thread, and says how often each was done.
#[cfg(test)]
pub(crate) fn with_plan<R>(plan: Plan, run: impl FnOnce() -> R) -> (R, Counts) {
    DRAWS.with(|place| *place.borrow_mut() = Some(Draws::of(plan, 0)));
    let result = run();
    let draws = DRAWS.with(|place| place.borrow_mut().take());
    (result, Counts(draws.map_or([0; KINDS], |draws| draws.done)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_says_what_it_is_told() {
        let plan = Plan::parse("seed=7,drop=0.001,short=1").unwrap();
        assert_eq!(
            (plan.seed, plan.millionths[DROP], plan.millionths[SHORT]),
            (7, 1000, 1_000_000)
        );
        assert_eq!(Plan::parse(""), Ok(Plan::default()));
        for wrong in ["drop", "drop=2", "drop=-1", "drop=x", "flood=0.1", "seed=x"] {
            assert_eq!(Plan::parse(wrong), Err(wrong.to_owned()));
        }
    }

    #[test]
    fn shared_memory_has_faults_of_its_own() {
        let plan = Plan::parse("seed=1,deny=0.2,claims=0.3,away=0.05,short=0.5").unwrap();
        let (moved, counts) = with_plan(plan, || {
            let moved: Vec<Option<usize>> = (0..200).map(|_| on_direct(4096).ok()).collect();
            let has_none = (0..200).filter(|_| on_claims()).count();
            let finds_nothing = (0..200).filter(|_| on_poll()).count();
            (moved, has_none, finds_nothing)
        });
        let (moved, has_none, finds_nothing) = moved;
        let denied = moved.iter().filter(|moved| moved.is_none()).count();
        assert_eq!((denied as u64, has_none as u64), (counts.of("deny"), counts.of("claims")));
        assert!(denied > 10 && has_none > 10 && finds_nothing as u64 >= counts.of("away"));
        let short = moved.iter().flatten().filter(|moved| **moved < 4096).count();
        assert_eq!(short as u64, counts.of("short"));
        assert!(counts.of("away") > 0 && moved.iter().flatten().all(|moved| *moved > 0));
    }

    #[test]
    fn the_same_seed_has_the_same_faults() {
        let of = |seed: u64| {
            let plan = Plan::parse(&format!("seed={seed},refuse=0.3,corrupt=0.3")).unwrap();
            let run = || {
                let mut bytes = [0; 64];
                let refused: Vec<bool> = (0..100).map(|_| on_connect().is_err()).collect();
                (0..100).for_each(|_| on_sealed(&mut bytes));
                (refused, bytes)
            };
            with_plan(plan, run)
        };
        assert_eq!(of(3), of(3));
        assert_ne!(of(3).0, of(4).0);
        let counts = of(3).1;
        assert!(counts.of("refuse") > 10 && counts.of("corrupt") > 10 && counts.of("drop") == 0);
        assert!(counts.to_string().starts_with("drop 0, delay 0, refuse "));
    }
}
