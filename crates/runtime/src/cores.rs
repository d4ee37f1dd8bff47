//! A core for a thread that is to disturb nobody: one that the process may use,
//! that the caller does not run on, that is idle, and that no other such thread
//! of this user on this machine has taken.
//!
//! What is taken is a name of an abstract socket, which the system forgets with
//! the process that has it, however that ends. Where such names are not shared
//! (another network namespace) nobody knows of each other, and only idleness
//! keeps two threads apart.

use rustix::thread::{CpuSet, sched_getaffinity, sched_getcpu, sched_setaffinity};
use std::fmt;
use std::io::ErrorKind;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::{Duration, Instant};

/// How long cores are watched: several ticks of what the system counts in.
const WATCH: Duration = Duration::from_millis(100);
/// A core is idle that does nothing for so many thousandths of the time.
const IDLE_PERMILLE_MIN: u64 = 500;

/// A look at the cores that has begun.
#[derive(Debug)]
pub struct Search {
    allowed: CpuSet,
    callers: usize,
    before: Vec<Times>,
    began: Instant,
}

/// A core that was found; the calling thread runs there. Dropped, it is free for
/// the threads of others.
#[derive(Debug)]
pub struct Pinned {
    /// Its number.
    pub core: usize,
    _claim: Claim,
}

/// A name that nobody else has meanwhile, where there are such names.
#[derive(Debug)]
struct Claim {
    _socket: Option<UnixDatagram>,
}

/// Why there is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoCore {
    /// The process may use one core only.
    OneAllowed,
    /// None of the allowed ones is idle.
    NoneIdle,
    /// The idle ones have been taken.
    AllTaken,
    /// The system does not tell, or does not let.
    Unknown,
}

impl fmt::Display for NoCore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            NoCore::OneAllowed => "the process may use one core only",
            NoCore::NoneIdle => "no core that the process may use is idle",
            NoCore::AllTaken => "the idle cores have threads of this kind already",
            NoCore::Unknown => "the system does not tell which core is idle",
        })
    }
}

/// What the system has counted of a core, in its ticks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Times {
    core: usize,
    idle: u64,
    all: u64,
}

impl Search {
    /// Begins to watch. To be called by the thread that will go on computing.
    ///
    /// # Errors
    /// [`NoCore`] where nothing can come of it.
    pub fn begin() -> Result<Search, NoCore> {
        let allowed = sched_getaffinity(None).map_err(|_| NoCore::Unknown)?;
        if allowed.count() < 2 {
            return Err(NoCore::OneAllowed);
        }
        let before = read_times()?;
        Ok(Search { allowed, callers: sched_getcpu(), before, began: Instant::now() })
    }

    /// Whether it was watched for long enough.
    #[must_use]
    pub fn is_due(&self) -> bool {
        self.began.elapsed() >= WATCH
    }

    /// Pins the calling thread.
    ///
    /// # Errors
    /// [`NoCore`]; the thread then runs where it did.
    pub fn finish(self) -> Result<Pinned, NoCore> {
        let after = read_times()?;
        let idle = idle_cores(&self.before, &after);
        let allowed = |core| core < CpuSet::MAX_CPU && self.allowed.is_set(core);
        let candidates = candidates(&idle, self.callers, allowed);
        if candidates.is_empty() {
            return Err(NoCore::NoneIdle);
        }
        let claimed = candidates.into_iter().find_map(|core| Some((core, claim(core)?)));
        let (core, claim) = claimed.ok_or(NoCore::AllTaken)?;
        let mut only = CpuSet::new();
        only.set(core);
        sched_setaffinity(None, &only).map_err(|_| NoCore::Unknown)?;
        Ok(Pinned { core, _claim: claim })
    }
}

/// The name of a core, if nobody has it. A system that has no such names, or
/// gives none, is no reason to go without a core.
fn claim(core: usize) -> Option<Claim> {
    let uid = rustix::process::geteuid().as_raw();
    let address = SocketAddr::from_abstract_name(format!("sluice/{uid}/core/{core}"));
    match address.and_then(|address| UnixDatagram::bind_addr(&address)) {
        Ok(socket) => Some(Claim { _socket: Some(socket) }),
        Err(error) if error.kind() == ErrorKind::AddrInUse => None,
        Err(_) => Some(Claim { _socket: None }),
    }
}

fn read_times() -> Result<Vec<Times>, NoCore> {
    let text = std::fs::read_to_string("/proc/stat").map_err(|_| NoCore::Unknown)?;
    Ok(parse(&text))
}

/// The lines `cpu<n> user nice system idle iowait ...`.
fn parse(stat: &str) -> Vec<Times> {
    let line = |line: &str| {
        // The line without a number is the sum of the others.
        let (core, counts) = line.strip_prefix("cpu")?.split_once(' ')?;
        let core = core.parse().ok()?;
        let words = counts.split_ascii_whitespace();
        let counts: Vec<u64> = words.map_while(|word| word.parse().ok()).collect();
        // Of eight kinds; guests, which follow, are counted as users already.
        let all = counts.iter().take(8).fold(0, |all: u64, count| all.saturating_add(*count));
        let idle = counts.get(3)?.saturating_add(counts.get(4).copied().unwrap_or(0));
        Some(Times { core, idle, all })
    };
    stat.lines().filter_map(line).collect()
}

/// The cores that were idle between two looks, and for how many thousandths of
/// the time.
fn idle_cores(before: &[Times], after: &[Times]) -> Vec<(usize, u64)> {
    let permille = |after: &Times| {
        let before = before.iter().find(|before| before.core == after.core)?;
        let all = after.all.checked_sub(before.all)?;
        let idle = after.idle.checked_sub(before.idle)?;
        // A core that sleeps deeply is not counted at all by some systems.
        let permille = idle.saturating_mul(1000).checked_div(all).unwrap_or(1000);
        (permille >= IDLE_PERMILLE_MIN).then_some((after.core, permille.min(1000)))
    };
    after.iter().filter_map(permille).collect()
}

/// Cores to be tried, best first: the idlest, and among equals the next ones
/// after the caller's.
fn candidates(
    idle: &[(usize, u64)],
    callers: usize,
    is_allowed: impl Fn(usize) -> bool,
) -> Vec<usize> {
    let mut found: Vec<_> =
        idle.iter().filter(|(core, _)| *core != callers && is_allowed(*core)).copied().collect();
    let distance = |core: usize| core.wrapping_sub(callers);
    found.sort_by_key(|(core, permille)| (std::cmp::Reverse(permille / 100), distance(*core)));
    found.into_iter().map(|(core, _)| core).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAT: &str = "cpu  30 0 20 150 0 0 0 0 0 0\n\
        cpu0 10 0 5 85 0 0 0 0 4 0\n\
        cpu1 20 0 15 60 5 0 0 0 0 0\n\
        intr 5 1 2\nctxt 99\ncpu2 1 2\ncpux 1 2 3 4\n";

    #[test]
    fn the_systems_counts_are_read() {
        let core = |core, idle, all| Times { core, idle, all };
        assert_eq!(parse(STAT), [core(0, 85, 100), core(1, 65, 100)]);
        assert_eq!(parse(""), []);
        let most = format!("cpu7 {0} {0} {0} {0} {0}", u64::MAX);
        assert_eq!(parse(&most), [core(7, u64::MAX, u64::MAX)]);
    }

    #[test]
    fn idle_is_what_was_idle_between_the_looks() {
        let before = [(0, 1000, 2000), (1, 0, 2000), (2, 9, 9), (3, 50, 60)];
        let after = [(0, 1001, 2010), (1, 9, 2010), (2, 9, 9), (3, 0, 70), (4, 10, 10)];
        let times = |all: &[(usize, u64, u64)]| -> Vec<Times> {
            all.iter().map(|&(core, idle, all)| Times { core, idle, all }).collect()
        };
        // Core 3 was taken away and came back, core 4 was not there before.
        assert_eq!(idle_cores(&times(&before), &times(&after)), [(1, 900), (2, 1000)]);
    }

    #[test]
    fn the_callers_core_and_foreign_ones_are_not_tried() {
        let idle = [(0, 1000), (1, 1000), (2, 1000), (3, 1000)];
        assert_eq!(candidates(&idle, 1, |core| core != 3), [2, 0]);
        assert_eq!(candidates(&idle[..1], 0, |_| true), []);
    }

    #[test]
    fn the_idlest_comes_first_and_the_next_one_of_equals() {
        let idle = [(0, 960), (1, 700), (2, 910), (3, 1000)];
        assert_eq!(candidates(&idle, 1, |_| true), [3, 2, 0]);
    }

    #[test]
    fn a_core_is_taken_once_until_it_is_let_go() {
        // No machine has it, and no other run of this test.
        let core = (1 << 40) + std::process::id() as usize;
        let taken = claim(core).expect("it is free");
        if taken._socket.is_none() {
            // This system has no abstract sockets, so nothing is claimed.
            return;
        }
        assert!(claim(core).is_none());
        drop(taken);
        assert!(claim(core).is_some());
    }

    /// On a thread of its own, which may be pinned to one core.
    #[test]
    fn a_process_of_one_core_is_not_pinned() {
        let refused = std::thread::spawn(|| {
            let mut only = CpuSet::new();
            only.set(sched_getcpu());
            sched_setaffinity(None, &only).expect("it runs there");
            Search::begin().err()
        });
        assert_eq!(refused.join().unwrap(), Some(NoCore::OneAllowed));
    }
}
