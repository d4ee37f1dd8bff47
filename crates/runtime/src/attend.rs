//! Progress without the program's calls: what a thread does in its place.
//!
//! The thread is there for a program that is not: one that computes, or blocks
//! elsewhere. While the program calls (it is *attentive*) its calls take in
//! what has arrived, and the thread only looks now and then whether that is
//! still so; a thread that polled beside a polling program would take its core
//! and its lock. When no call has come for a tick the thread takes over: it
//! takes in what arrives and sleeps by the waker in between, so that a
//! message to an absent program costs one wake.
//!
//! How long a tick is follows the program (`Pace`): short when it was away for
//! long, because it may be gone again already; longer each time it is found
//! calling, and at once longer if it comes back soon after the thread took
//! over, because then taking over was no use.
//!
//! Invariant: whoever leaves work behind that only time or this process can get
//! on with, and finds the thread asleep ([`Attention::is_asleep`]), wakes
//! it; and the thread looks for such work after it has said that it
//! sleeps. Both do so under the lock of what is attended to.

use sluice_rail::waker::Waker;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The shortest time for which a program must be silent before the thread takes
/// over: many times a call, and several times the thread's own wake.
const TICK_NS_MIN: u64 = 50_000;
/// The longest. A thread that looks so rarely costs the program nothing that
/// can be measured.
const TICK_NS_MAX: u64 = 500_000;
/// How long a thread with nothing to do looks on before it sleeps: about what
/// falling asleep and being woken costs.
const LINGER: Duration = Duration::from_micros(10);
/// Between two looks while threads of the program wait in its place.
const WAITED_TICK_NS: u64 = 100_000_000;

/// Whether the program calls, and what it and the thread let each other know.
#[derive(Debug, Default)]
pub struct Attention {
    calls: AtomicU32,
    /// The thread sleeps by the waker, or is about to.
    is_asleep: AtomicBool,
    /// A call found the lock taken.
    is_wanted: AtomicBool,
    /// The thread waits here while the program is attentive, unless it shall not.
    hurried: Mutex<Hurry>,
    hurry: Condvar,
}

/// Why the thread shall not wait until its tick is over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Hurry {
    #[default]
    No,
    /// Something has changed.
    Look,
    /// The program goes away.
    TakeOver,
}

/// What a thread attends to.
pub trait Attended {
    /// What the thread sleeps by.
    type Waker: Waker;

    /// Whether the thread is to end. To be set before
    /// [`Attention::look_again`] and [`Waker::wake`], which wake it.
    fn is_closed(&self) -> bool;

    /// Whether threads of the program sleep by the waker and will take in
    /// themselves what arrives.
    fn is_waited_at(&self) -> bool;

    /// Takes in what has arrived.
    fn look(&mut self) -> Looked;

    /// For how long, in nanoseconds, there is nothing to do unless somebody
    /// wakes it; zero if there is something.
    fn rest_ns(&mut self) -> u64;

    /// What the thread sleeps by. `None`: it is closed.
    fn waker(&self) -> Option<Self::Waker>;

    /// The thread goes round; for what has to be done every now and then.
    fn on_turn(&mut self) {}
}

/// What a look has found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Looked {
    /// The program is there itself.
    Held,
    /// Nothing to take in.
    Nothing,
    /// The same, and what comes is gathered: nothing is worth a look for far longer than
    /// falling asleep takes.
    Gathering,
    /// Something was taken in.
    Something,
}

impl Attention {
    /// Nobody has called yet.
    #[must_use]
    pub const fn new() -> Attention {
        Attention {
            calls: AtomicU32::new(0),
            is_asleep: AtomicBool::new(false),
            is_wanted: AtomicBool::new(false),
            hurried: Mutex::new(Hurry::No),
            hurry: Condvar::new(),
        }
    }

    /// A call that has taken in what had arrived.
    #[inline]
    pub fn noted(&self) {
        // Not atomically added: it need only change.
        let calls = self.calls.load(Ordering::Relaxed);
        self.calls.store(calls.wrapping_add(1), Ordering::Relaxed);
    }

    /// Whether the thread sleeps by the waker. A call that leaves work behind
    /// and is told so has to wake it; it asks under the lock.
    #[inline]
    #[must_use]
    pub fn is_asleep(&self) -> bool {
        self.is_asleep.load(Ordering::Relaxed)
    }

    /// A call has found the lock taken: the thread is to let go.
    #[cold]
    pub fn want(&self) {
        self.is_wanted.store(true, Ordering::Relaxed);
    }

    /// The program goes away and knows it: the thread takes over at once.
    pub fn hand_over(&self) {
        self.end_tick(Hurry::TakeOver);
    }

    /// Something has changed that the thread looks at between two ticks: whoever
    /// slept by the waker is back, or it is closed.
    pub fn look_again(&self) {
        self.end_tick(Hurry::Look);
    }

    fn end_tick(&self, why: Hurry) {
        let mut hurried = self.hurried.lock().unwrap_or_else(PoisonError::into_inner);
        if *hurried != Hurry::TakeOver {
            *hurried = why;
        }
        drop(hurried);
        self.hurry.notify_all();
    }

    /// Nobody has called yet.
    pub fn reset(&self) {
        self.calls.store(0, Ordering::Relaxed);
    }

    fn calls(&self) -> u32 {
        self.calls.load(Ordering::Relaxed)
    }

    pub(crate) fn take_wanted(&self) -> bool {
        self.is_wanted.load(Ordering::Relaxed) && self.is_wanted.swap(false, Ordering::Relaxed)
    }

    /// Waits for a tick, or until somebody ends it, or has done so since the last
    /// one. Says why it ended.
    fn tick(&self, tick_ns: u64) -> Hurry {
        let tick = Duration::from_nanos(tick_ns);
        let hurried = self.hurried.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.hurry.wait_timeout_while(hurried, tick, |hurried| *hurried == Hurry::No);
        let (mut hurried, _) = waited.unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut *hurried)
    }
}

/// What the thread does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
    /// It leaves the program alone for so many nanoseconds.
    Back(u64),
    /// It takes the program's place.
    StandIn,
}

/// When the thread takes over. Times are nanoseconds of any clock that only goes
/// forward.
#[derive(Debug)]
struct Pace {
    calls_seen: u32,
    tick_ns: u64,
    /// The first tick after the program has come back.
    first_ns: u64,
    took_over_at_ns: Option<u64>,
}

impl Pace {
    fn new(calls: u32) -> Pace {
        Pace {
            calls_seen: calls,
            tick_ns: TICK_NS_MIN,
            first_ns: TICK_NS_MIN,
            took_over_at_ns: None,
        }
    }

    fn next(&mut self, now_ns: u64, calls: u32, is_wanted: bool) -> Turn {
        if calls == self.calls_seen && !is_wanted {
            self.took_over_at_ns.get_or_insert(now_ns);
            return Turn::StandIn;
        }
        self.calls_seen = calls;
        self.tick_ns = match self.took_over_at_ns.take() {
            Some(at_ns) => {
                let was_no_use = now_ns.saturating_sub(at_ns) < TICK_NS_MAX;
                self.first_ns = if was_no_use { longer(self.first_ns) } else { TICK_NS_MIN };
                self.first_ns
            }
            None => longer(self.tick_ns),
        };
        Turn::Back(self.tick_ns)
    }

    /// The program has gone away and said so, which was a call too.
    fn handed_over(&mut self, calls: u32) {
        self.calls_seen = calls;
    }
}

fn longer(tick_ns: u64) -> u64 {
    (2 * tick_ns).min(TICK_NS_MAX)
}

/// Stands in for the program whenever it is away, until `attended` is closed.
pub fn attend(attention: &Attention, attended: &mut impl Attended) {
    let began = Instant::now();
    let mut pace = Pace::new(attention.calls());
    while !attended.is_closed() {
        attended.on_turn();
        if attended.is_waited_at() {
            // Who sleeps in the library is woken by what arrives, and takes it
            // in; nobody needs this thread meanwhile.
            pace.calls_seen = attention.calls();
            attention.tick(WAITED_TICK_NS);
            continue;
        }
        let now_ns = u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX);
        match pace.next(now_ns, attention.calls(), attention.take_wanted()) {
            Turn::Back(tick_ns) => {
                if attention.tick(tick_ns) == Hurry::TakeOver {
                    pace.handed_over(attention.calls());
                }
            }
            Turn::StandIn => stand_in(attention, attended, pace.calls_seen),
        }
    }
}

/// Takes in what arrives until the program is back, or until there was nothing
/// and the thread has slept.
fn stand_in(attention: &Attention, attended: &mut impl Attended, calls_seen: u32) {
    let is_back = || attention.calls() != calls_seen || attention.is_wanted.load(Ordering::Relaxed);
    let mut idle_since: Option<Instant> = None;
    while !is_back() && !attended.is_closed() && !attended.is_waited_at() {
        match attended.look() {
            Looked::Held => return attention.want(),
            Looked::Something => {
                idle_since = None;
                continue;
            }
            Looked::Gathering => return rest(attention, attended),
            Looked::Nothing => {}
        }
        let since = *idle_since.get_or_insert_with(Instant::now);
        if since.elapsed() < LINGER {
            std::hint::spin_loop();
            continue;
        }
        return rest(attention, attended);
    }
}

/// Sleeps until somebody wakes the thread, unless there is something to do.
fn rest(attention: &Attention, attended: &mut impl Attended) {
    let Some(waker) = attended.waker() else { return };
    // Said before the look under the lock: a call that leaves work behind comes
    // before that look, which finds it, or after it, and then is told.
    attention.is_asleep.store(true, Ordering::Relaxed);
    waker.sleep(|| {
        let rest_ns = attended.rest_ns();
        if attended.is_closed() { 0 } else { rest_ns }
    });
    attention.is_asleep.store(false, Ordering::Relaxed);
}

#[cfg(test)]
#[path = "attend_tests.rs"]
mod tests;
