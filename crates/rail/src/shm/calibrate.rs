//! What moves cost on this machine, measured in a few milliseconds.
//!
//! Each figure is the best of several rounds: other work on the machine only ever
//! makes a round longer. What asks the system or another thread has a deadline, so it
//! takes no longer on a machine that is busy, it only finds out less.
//!
//! A process has no peer yet when it wants to know this, so it moves its own memory, by the
//! same calls that move a peer's. That memory is warm in this core's cache, a peer's is
//! not: direct moves come out a little cheaper than they are. Packets do go to another
//! thread, on another core if there is one: there the way between the cores is nearly
//! all of the cost.

use super::bulk::{self, Direction};
use super::claims_line::Line;
use super::copy::{fill, take};
use super::ring::{Run, Slot, WORDS};
use super::stores::Stores;
use crate::signals::with_signals_blocked;
use crate::tune::Subject;
use rustix::thread::{sched_getaffinity, sched_getcpu, sched_setaffinity};
use sluice_link::chunk_claims::Side;
use sluice_link::{ClaimsStart, Costs, Direct};
use sluice_wire::{Addr, SLOT_BYTES};
use std::hint::{black_box, spin_loop};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// How long reads, writes and packets may take each, so 24 ms in all; chunk claims take
/// microseconds.
const PATIENCE: Duration = Duration::from_millis(8);
/// Rounds of each, if they are done before.
const ROUNDS: u32 = 100;

/// Bytes of a short and of a long direct move; the line through the two is what a
/// move costs.
const SHORT_BYTES: usize = 4 << 10;
const LONG_BYTES: usize = 256 << 10;

/// Slots of the longest packet that is handed over: that of an eager message of 4 KiB.
const SLOTS: usize = (4usize << 10).div_ceil(SLOT_BYTES);
/// A handover of one slot that took longer was waiting for a core: two threads on one
/// take turns no faster than that ([`Desk::wait_for`]).
const HANDOVER_NS_MAX: u64 = 2_000;

/// How often chunk claims are opened and closed in a round.
const CLAIMS_OPENED: u32 = 64;

/// What moves cost on the rail in shared memory, between memories of hosts.
pub const COSTS: Subject = Subject { name: "shm-host", measure: calibrate };

/// Measures. What could not be measured is stated.
fn calibrate() -> Costs {
    let stated = Costs::default();
    let (packet_ns, packet_byte_ps) =
        packets().unwrap_or((stated.packet_ns, stated.packet_byte_ps));
    let costs = Costs {
        packet_ns,
        packet_byte_ps,
        read: direct(Direction::Read),
        write: direct(Direction::Write),
        claim_ns: Some(claim_ns()),
    };
    // A clock that stood still, or jumped.
    if costs.are_plausible() { costs } else { stated }
}

/// A direct move; `None` if the system does not have them.
fn direct(direction: Direction) -> Option<Direct> {
    // Not zeroes: their pages would be mapped in the first round only.
    let (mut here, mut there) = (vec![1_u8; LONG_BYTES], vec![2_u8; LONG_BYTES]);
    let mut best = [u64::MAX; 2];
    let until = Instant::now() + PATIENCE;
    for _ in 0..ROUNDS {
        for (bytes, best) in [SHORT_BYTES, LONG_BYTES].into_iter().zip(&mut best) {
            let start = Instant::now();
            move_own(direction, &mut here[..bytes], &mut there[..bytes])?;
            *best = (*best).min(ns_since(start));
        }
        if Instant::now() > until {
            break;
        }
    }
    let [short, long] = best;
    let byte_ps = per_byte(long.saturating_sub(short), LONG_BYTES - SHORT_BYTES);
    let copied_ns = byte_ps * SHORT_BYTES as u64 / 1000;
    Some(Direct { start_ns: short.saturating_sub(copied_ns).max(1), byte_ps })
}

fn move_own(direction: Direction, here: &mut [u8], there: &mut [u8]) -> Option<()> {
    let bytes = here.len().min(there.len()) as u64;
    let at = |slice: &mut [u8]| Addr(slice.as_mut_ptr().expose_provenance() as u64);
    let (local, remote) = (at(here), at(there));
    let mut done = 0;
    while done < bytes {
        let (local, remote) = (local.offset(done), remote.offset(done));
        // SAFETY: both slices are this function's alone, and `done` is inside them.
        let moved =
            unsafe { bulk::step(direction, std::process::id(), local, remote, bytes - done) };
        done += moved.ok()?;
    }
    // The compiler does not see what the system wrote.
    black_box((here, there));
    Some(())
}

/// A packet of one slot, and each byte of a longer one. `None` where two threads do not
/// run at once: one core's own slots are in its cache, which says nothing of a peer's.
fn packets() -> Option<(u64, u64)> {
    let [one, many] = handovers()?;
    let byte_ps = per_byte(many.saturating_sub(one), (SLOTS - 1) * SLOT_BYTES);
    // A slot crosses to the other core and the word of it back, and a packet crosses
    // once; what the layers above do with it is about as much again.
    Some((one, byte_ps))
}

/// What two threads hand over: slots, and whose turn it is.
struct Desk {
    turn: Turn,
    slots_wanted: AtomicU32,
    slots: Vec<Slot>,
}

/// Apart from the slots, and from the line that is fetched with it. Odd: the writer's
/// turn.
#[repr(align(128))]
struct Turn(AtomicU32);

impl Desk {
    fn new() -> Desk {
        let slot = || Slot { words: std::array::from_fn::<_, WORDS, _>(|_| AtomicU64::new(0)) };
        Desk {
            turn: Turn(AtomicU32::new(0)),
            slots_wanted: AtomicU32::new(0),
            slots: std::iter::repeat_with(slot).take(SLOTS).collect(),
        }
    }

    fn fill(&self, stores: &mut Stores, slots: usize) {
        let from = [1_u8; SLOTS * SLOT_BYTES];
        // SAFETY: the source has as many bytes, and whose turn it is touches the slots.
        unsafe {
            let run = Run(&self.slots[..slots], &[]);
            fill(stores, run, black_box(&from).as_ptr(), slots * SLOT_BYTES);
        }
    }

    fn take(&self, slots: usize) {
        let mut to = [0_u8; SLOTS * SLOT_BYTES];
        // SAFETY: the destination has as many bytes, and whose turn it is touches the slots.
        unsafe { take(Run(&self.slots[..slots], &[]), 0, to.as_mut_ptr(), slots * SLOT_BYTES) };
        black_box(&mut to);
    }

    /// Waits for a turn of this kind; `None` if it is too late.
    fn wait_for(&self, odd: bool, until: Instant) -> Option<u32> {
        loop {
            for _ in 0..200 {
                let turn = self.turn.0.load(Ordering::Acquire);
                if (turn % 2 == 1) == odd {
                    return Some(turn);
                }
                spin_loop();
            }
            if Instant::now() > until {
                return None;
            }
            // The other one may want this core.
            thread::yield_now();
        }
    }

    /// Writes what is wanted until nothing is any more.
    fn serve(&self, until: Instant) {
        let mut stores = Stores::default();
        while let Some(turn) = self.wait_for(true, until) {
            let slots = self.slots_wanted.load(Ordering::Relaxed) as usize;
            if slots == 0 {
                return;
            }
            self.fill(&mut stores, slots);
            self.turn.0.store(turn + 1, Ordering::Release);
        }
    }

    fn want(&self, slots: usize) {
        self.slots_wanted.store(slots as u32, Ordering::Relaxed);
        let turn = self.turn.0.load(Ordering::Relaxed);
        self.turn.0.store(turn + 1, Ordering::Release);
    }
}

/// The shortest times in which another thread was asked for one slot, and for many,
/// and this one had taken them.
fn handovers() -> Option<[u64; 2]> {
    let until = Instant::now() + PATIENCE;
    let desk = Desk::new();
    let mut best = [u64::MAX; 2];
    // The system may leave both on one core for longer than this takes.
    let core = sched_getcpu();
    thread::scope(|scope| {
        let builder = thread::Builder::new().name("sluice-tune".to_owned());
        // A system that allows no thread has one core, for all this is concerned.
        let desk = &desk;
        let serve = move || {
            leave_core(core);
            desk.serve(until);
        };
        let spawn = || builder.spawn_scoped(scope, serve);
        let Ok(_) = with_signals_blocked(spawn) else { return };
        for _ in 0..ROUNDS {
            for (slots, best) in [1, SLOTS].into_iter().zip(&mut best) {
                let start = Instant::now();
                desk.want(slots);
                if desk.wait_for(false, until).is_none() {
                    return;
                }
                desk.take(slots);
                *best = (*best).min(ns_since(start));
            }
        }
        desk.want(0);
    });
    (best[0] <= HANDOVER_NS_MAX && best[1] < u64::MAX).then_some(best)
}

/// Chunk claims, from opening to closing them, with two chunks taken.
fn claim_ns() -> u64 {
    let line = Line::unused();
    let mut best = u64::MAX;
    for _ in 0..ROUNDS {
        let start = Instant::now();
        for generation in 1..=CLAIMS_OPENED {
            line.open(generation, ClaimsStart::Used);
            for side in [Side::Owner, Side::Peer] {
                black_box(line.take(generation, side, 2));
                black_box(line.account(generation, side, 2, true));
            }
            line.close(generation);
        }
        best = best.min(ns_since(start));
    }
    (best / u64::from(CLAIMS_OPENED)).max(1)
}

/// Keeps the calling thread away from this core, if the process may use another.
/// Whether that was done.
fn leave_core(core: usize) -> bool {
    let Ok(mut others) = sched_getaffinity(None) else { return false };
    others.unset(core);
    others.count() > 0 && sched_setaffinity(None, &others).is_ok()
}

fn ns_since(start: Instant) -> u64 {
    u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX)
}

fn per_byte(ns: u64, bytes: usize) -> u64 {
    (ns.saturating_mul(1000) / bytes as u64).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::thread::CpuSet;

    #[test]
    fn who_leaves_a_core_may_not_run_there_any_more() {
        let left = std::thread::spawn(|| {
            let core = sched_getcpu();
            let left = leave_core(core);
            assert_eq!(left, !sched_getaffinity(None).unwrap().is_set(core));
            (left, leave_core(CpuSet::MAX_CPU - 1))
        });
        let several = sched_getaffinity(None).unwrap().count() > 1;
        assert_eq!(left.join().unwrap(), (several, true), "one that is not used is left at once");
    }

    /// It ends, and figures of a loaded machine are no good for more than this: what
    /// is not plausible is replaced.
    #[test]
    fn whatever_the_machine_does_the_figures_can_be_used() {
        let costs = calibrate();
        assert!(costs.are_plausible(), "{costs:?}");
        assert!(costs.claim_ns.is_some(), "{costs:?}");
    }

    #[test]
    fn what_was_filled_is_what_is_taken() {
        let desk = Desk::new();
        desk.fill(&mut Stores::default(), SLOTS);
        for slot in &desk.slots {
            for word in &slot.words {
                assert_eq!(word.load(Ordering::Relaxed), u64::from_ne_bytes([1; 8]));
            }
        }
    }

    /// Nobody answers: both sides give up by themselves.
    #[test]
    fn a_side_that_is_alone_gives_up() {
        let desk = Desk::new();
        let late = Instant::now();
        desk.want(1);
        assert_eq!(desk.wait_for(false, late), None);
        desk.turn.0.store(2, Ordering::Release);
        desk.serve(late);
    }

    #[test]
    fn own_memory_moves_both_ways_or_not_at_all() {
        let (mut here, mut there) = (vec![1; 5000], vec![2; 5000]);
        if move_own(Direction::Read, &mut here, &mut there).is_some() {
            assert_eq!((here[0], here[4999]), (2, 2));
        }
        here.fill(3);
        if move_own(Direction::Write, &mut here, &mut there).is_some() {
            assert_eq!((there[0], there[4999]), (3, 3));
        }
    }
}
