//! What moves cost on this machine, measured in a few milliseconds.
//!
//! Each figure is the best of several rounds: other work on the machine only ever
//! makes a round longer. What asks the system or another thread has a deadline, so it
//! takes no longer on a machine that is busy, it only finds out less.
//!
//! A process has no peer yet when it wants to know this, so another thread is one, on another core
//! if there is one. It stores what is read then, as a program does before it sends: where memory was in
//! this core's cache instead, a read took a third of the time, and packets were compared with what no
//! message costs. What is written is this thread's own.

use super::bulk::{self, Direction};
use super::claims_line::Line;
use super::copy::{fill, take};
use super::prefetch::{LINE_BYTES, prefetch_lines_to_write};
use super::ring::{Run, Slot, WORDS};
use super::stores::Stores;
use crate::signals::with_signals_blocked;
use crate::tune::Subject;
use rustix::thread::{sched_getaffinity, sched_getcpu, sched_setaffinity};
use sluice_link::chunk_claims::Side;
use sluice_link::{ClaimsStart, Costs, Direct};
use sluice_wire::{Addr, SLOT_BYTES};
use std::hint::{black_box, spin_loop};
use std::ops::Range;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// How long packets, reads and writes may take each, and this thread's own reads where there are no others, so 32
/// ms at most; chunk claims take microseconds.
const PATIENCE: Duration = Duration::from_millis(8);
/// Rounds of each, if they are done before.
const ROUNDS: u32 = 100;

/// Bytes of a short and of a long direct move; the line through the two is what a
/// move costs.
const SHORT_BYTES: usize = 4 << 10;
const LONG_BYTES: usize = 256 << 10;

/// The longer of two packets. Of a shorter one the way between the cores would be most of the cost.
const PACKET_BYTES: usize = 16 << 10;
const PACKET_SLOTS: usize = PACKET_BYTES.div_ceil(SLOT_BYTES);
/// What lies between two of them: a sender has other things to do, and fetches lines ahead meanwhile.
const BETWEEN: Duration = Duration::from_micros(4);
/// Slots that lie between two threads. As many as the longer packet has are stored at once.
const SLOTS: usize = LONG_BYTES.div_ceil(SLOT_BYTES);
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
    let packets = packets();
    let (packet_ns, packet_byte_ps) = packets.unwrap_or((stated.packet_ns, stated.packet_byte_ps));
    // Where no other core takes part, what is read is in this one's cache: that there are reads is all it says.
    let read = packets.and_then(|_| reads());
    let costs = Costs {
        packet_ns,
        packet_byte_ps,
        read: read.or_else(|| own(Direction::Read).and(stated.read)),
        write: own(Direction::Write),
        claim_ns: Some(claim_ns()),
    };
    // A clock that stood still, or jumped.
    if costs.are_plausible() { costs } else { stated }
}

/// A direct read of what another core has stored. `None` if no other thread runs, or the system does not
/// have direct reads.
fn reads() -> Option<Direct> {
    let mut here = vec![1_u8; LONG_BYTES];
    let lengths = [SHORT_BYTES, LONG_BYTES];
    let best = beside_another(|desk, until| {
        best_of(lengths, until, |bytes| {
            // The last ones: no line behind them is fetched while these are read.
            let first = SLOTS - bytes.div_ceil(SLOT_BYTES);
            desk.ask_for(first..SLOTS, until)?;
            let start = Instant::now();
            let (to, from) = (here.as_mut_ptr(), desk.slots[first..].as_ptr());
            // SAFETY: `here` has as many bytes, and is this function's alone.
            unsafe { move_all(Direction::Read, to, from.cast(), bytes)? };
            // The compiler does not see what the system wrote.
            black_box(&mut here);
            Some(ns_since(start))
        })
    })??;
    Some(through(best))
}

/// A direct move of this thread's own memory; `None` if the system does not have them.
fn own(direction: Direction) -> Option<Direct> {
    // Not zeroes: their pages would be mapped in the first round only.
    let (mut here, mut there) = (vec![1_u8; LONG_BYTES], vec![2_u8; LONG_BYTES]);
    let until = Instant::now() + PATIENCE;
    let best = best_of([SHORT_BYTES, LONG_BYTES], until, |bytes| {
        let start = Instant::now();
        let (local, remote) = (here.as_mut_ptr(), there.as_mut_ptr());
        // SAFETY: both have as many bytes, and are this function's alone.
        unsafe { move_all(direction, local, remote, bytes)? };
        // The compiler does not see what the system wrote.
        black_box((&mut here, &mut there));
        Some(ns_since(start))
    })?;
    Some(through(best))
}

/// The line through what a short and a long direct move took.
fn through([short, long]: [u64; 2]) -> Direct {
    let byte_ps = per_byte(long.saturating_sub(short), LONG_BYTES - SHORT_BYTES);
    let copied_ns = byte_ps * SHORT_BYTES as u64 / 1000;
    Direct { start_ns: short.saturating_sub(copied_ns).max(1), byte_ps }
}

/// Moves so many bytes within this process. `None` if the system does not.
///
/// # Safety
/// What is written to has so many bytes, and may be written.
unsafe fn move_all(
    direction: Direction,
    local: *mut u8,
    remote: *const u8,
    bytes: usize,
) -> Option<()> {
    let local = Addr(local.expose_provenance() as u64);
    let remote = Addr(remote.expose_provenance() as u64);
    let (mut done, bytes) = (0, bytes as u64);
    while done < bytes {
        let (local, remote) = (local.offset(done), remote.offset(done));
        // SAFETY: the caller's, and `done` is inside.
        let moved =
            unsafe { bulk::step(direction, std::process::id(), local, remote, bytes - done) };
        done += moved.ok()?;
    }
    Some(())
}

/// The shortest times of something short and something long, one after the other until it is too late, or one
/// of them cannot be timed. `None` if either never was.
fn best_of<T: Copy>(
    both: [T; 2],
    until: Instant,
    mut time: impl FnMut(T) -> Option<u64>,
) -> Option<[u64; 2]> {
    let mut best = [u64::MAX; 2];
    'rounds: for _ in 0..ROUNDS {
        for (one, best) in both.into_iter().zip(&mut best) {
            let Some(time) = time(one) else { break 'rounds };
            *best = (*best).min(time);
        }
        if Instant::now() > until {
            break;
        }
    }
    best.iter().all(|&time| time != u64::MAX).then_some(best)
}

/// A packet of one slot, and each byte of a longer one. `None` where two threads do not
/// run at once: one core's own slots are in its cache, which says nothing of a peer's.
fn packets() -> Option<(u64, u64)> {
    let mut to = vec![1_u8; PACKET_BYTES];
    let mut behind = 0;
    let best = beside_another(|desk, until| {
        best_of([1, PACKET_SLOTS], until, |slots| {
            // Each packet lies behind the one before, where lines were fetched meanwhile, but for one that begins
            // again in front. The shortest time is of one that does not.
            let first = if behind + slots > SLOTS { 0 } else { behind };
            behind = first + slots;
            wait(BETWEEN);
            let start = Instant::now();
            desk.ask_for(first..behind, until)?;
            desk.take(first..behind, &mut to);
            Some(ns_since(start))
        })
    });
    let [one, many] = best??;
    let byte_ps = per_byte(many.saturating_sub(one), (PACKET_SLOTS - 1) * SLOT_BYTES);
    // A slot crosses to the other core and the word of it back, and a packet crosses
    // once; what the layers above do with it is about as much again.
    (one <= HANDOVER_NS_MAX).then_some((one, byte_ps))
}

/// Does something while another thread serves a desk, on another core if there is one. `None` if there is no
/// other thread.
fn beside_another<T>(measure: impl FnOnce(&Desk, Instant) -> T) -> Option<T> {
    let until = Instant::now() + PATIENCE;
    let desk = Desk::new();
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
        with_signals_blocked(spawn).ok()?;
        let measured = measure(desk, until);
        desk.want(0..0);
        Some(measured)
    })
}

/// What two threads hand over: slots, which of them are wanted, and whose turn it is.
struct Desk {
    turn: Turn,
    wanted: [AtomicU32; 2],
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
            wanted: Default::default(),
            slots: std::iter::repeat_with(slot).take(SLOTS).collect(),
        }
    }

    fn fill(&self, stores: &mut Stores, slots: Range<usize>, from: &[u8; PACKET_BYTES]) {
        for piece in self.slots[slots].chunks(PACKET_SLOTS) {
            // SAFETY: the source has as many bytes, and whose turn it is touches the slots.
            unsafe { fill(stores, Run(piece, &[]), black_box(from).as_ptr(), size_of_val(piece)) };
        }
    }

    /// Fetches what is likely to be filled next, as `ahead` does.
    fn fetch(&self, from: usize) {
        let next = &self.slots[from..self.slots.len().min(from + PACKET_SLOTS)];
        let lines = size_of_val(next) / LINE_BYTES;
        prefetch_lines_to_write(next.as_ptr().addr(), lines);
    }

    fn take(&self, slots: Range<usize>, to: &mut [u8]) {
        let (run, to) = (Run(&self.slots[slots.clone()], &[]), &mut to[..slots.len() * SLOT_BYTES]);
        // SAFETY: the destination has as many bytes, and whose turn it is touches the slots.
        unsafe { take(run, 0, to.as_mut_ptr(), to.len()) };
        black_box(to);
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
        let (mut stores, from) = (Stores::default(), [1; PACKET_BYTES]);
        while let Some(turn) = self.wait_for(true, until) {
            let [start, end] = self.wanted.each_ref().map(|at| at.load(Ordering::Relaxed) as usize);
            // Who has given up may be at changing them.
            if start >= end {
                return;
            }
            self.fill(&mut stores, start..end, &from);
            self.turn.0.store(turn + 1, Ordering::Release);
            self.fetch(end);
        }
    }

    /// Asks for so many slots, and waits for them; `None` if it is too late.
    fn ask_for(&self, slots: Range<usize>, until: Instant) -> Option<()> {
        self.want(slots);
        self.wait_for(false, until).map(|_| ())
    }

    /// Asks for so many slots; for none when that is all.
    fn want(&self, slots: Range<usize>) {
        for (at, to) in [slots.start, slots.end].into_iter().zip(&self.wanted) {
            to.store(at as u32, Ordering::Relaxed);
        }
        let turn = self.turn.0.load(Ordering::Relaxed);
        self.turn.0.store(turn + 1, Ordering::Release);
    }
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

/// Does nothing for so long.
fn wait(time: Duration) {
    let start = Instant::now();
    while start.elapsed() < time {
        spin_loop();
    }
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
        assert!(desk.slots.len() > PACKET_SLOTS);
        desk.fill(&mut Stores::default(), 0..SLOTS, &[1; PACKET_BYTES]);
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
        desk.want(0..1);
        assert_eq!(desk.wait_for(false, late), None);
        desk.turn.0.store(2, Ordering::Release);
        desk.serve(late);
        // Half of what is wanted is of the one before.
        desk.turn.0.store(3, Ordering::Release);
        desk.wanted[0].store(64, Ordering::Relaxed);
        desk.wanted[1].store(0, Ordering::Relaxed);
        desk.serve(late);
        assert_eq!(desk.turn.0.load(Ordering::Relaxed), 3);
    }

    #[test]
    fn own_memory_moves_both_ways_or_not_at_all() {
        let (mut here, mut there) = (vec![1_u8; 5000], vec![2_u8; 5000]);
        let mut moved = |direction, here: &mut [u8]| {
            // SAFETY: both have as many bytes.
            unsafe { move_all(direction, here.as_mut_ptr(), there.as_mut_ptr(), 5000) }
                .map(|()| black_box(&mut there)[4999])
        };
        if moved(Direction::Read, &mut here).is_some() {
            assert_eq!((here[0], here[4999]), (2, 2));
        }
        here.fill(3);
        assert!(moved(Direction::Write, &mut here).is_none_or(|last| last == 3));
    }

    /// Where memory is not moved, or no other thread runs, nothing is said of it.
    #[test]
    fn of_two_the_shortest_times_count_and_one_without_a_time_ends_it() {
        let until = Instant::now() + Duration::from_secs(60);
        let mut times = 0;
        let best = best_of([1, 100], until, |length| {
            times += 1;
            Some(length * if times > 100 { 2 } else { 3 })
        });
        assert_eq!((best, times), (Some([2, 200]), 2 * ROUNDS as u64));
        assert_eq!(best_of([1, 2], until, |length| (length == 1).then_some(1)), None);
        let mut left = 3;
        let until_late = |length: u64| {
            left -= 1;
            (left >= 0).then_some(length)
        };
        assert_eq!(best_of([1, 2], until, until_late), Some([1, 2]), "a round before was whole");
    }
}
