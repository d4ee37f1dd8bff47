//! Calls, waits and the thread around one context, which is scripted.

use super::*;
use crate::{ProgressThread, ThreadOptions};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::{Duration, Instant};

/// Far longer than anything takes here.
const PATIENCE: Duration = Duration::from_secs(60);

/// What the other side has done, and how threads here sleep: without a rail, by
/// counting who woke.
#[derive(Clone, Debug, Default)]
struct Other {
    /// Inputs that nobody has taken in.
    inputs: Arc<AtomicU64>,
    wakes: Arc<(Mutex<u64>, std::sync::Condvar)>,
    /// How often a thread slept.
    sleeps: Arc<AtomicU64>,
    /// The next sleep panics, which holds no lock.
    panics_asleep: Arc<AtomicBool>,
}

impl Other {
    /// Gives an input and wakes, as a peer does.
    fn give(&self) {
        self.inputs.fetch_add(1, Ordering::SeqCst);
        self.wake();
    }
}

impl Waker for Other {
    fn sleep(&self, rest_ns: impl FnOnce() -> u64) {
        let (count, woken) = &*self.wakes;
        let before = *count.lock().unwrap();
        let rest_ns = rest_ns();
        if rest_ns == 0 {
            return;
        }
        self.sleeps.fetch_add(1, Ordering::SeqCst);
        assert!(!self.panics_asleep.load(Ordering::SeqCst), "as the test wants");
        // Who is not woken is missed.
        let rest = Duration::from_nanos(rest_ns).min(PATIENCE);
        let count = count.lock().unwrap();
        let (_count, timed) =
            woken.wait_timeout_while(count, rest, |count| *count == before).unwrap();
        assert!(!timed.timed_out() || rest < PATIENCE, "slept in vain");
    }

    fn wake(&self) {
        *self.wakes.0.lock().unwrap() += 1;
        self.wakes.1.notify_all();
    }
}

/// A context that takes in what the other side gives.
struct Scripted {
    other: Other,
    taken: u64,
    is_busy: bool,
    /// When it has something to do for which nobody wakes.
    due: Option<Instant>,
    /// Whoever looks after it while nobody calls panics.
    panics: bool,
}

impl Polled for Scripted {
    type Waker = Other;

    fn poll(&mut self) -> usize {
        self.is_busy = false;
        let inputs = self.other.inputs.swap(0, Ordering::SeqCst);
        self.taken += inputs;
        inputs as usize
    }

    fn poll_after_sleep(&mut self) -> usize {
        assert!(!self.panics, "on purpose");
        if self.due.take_if(|due| *due <= Instant::now()).is_some() {
            self.other.inputs.fetch_add(1, Ordering::SeqCst);
        }
        self.poll()
    }

    fn rest_ns(&mut self, _: Haste) -> u64 {
        assert!(!self.panics, "on purpose");
        if self.is_busy || self.other.inputs.load(Ordering::SeqCst) != 0 {
            return 0;
        }
        let left = |due: Instant| due.saturating_duration_since(Instant::now()).as_nanos() as u64;
        self.due.map_or(u64::MAX, left)
    }

    fn gathers(&self) -> bool {
        false
    }

    fn is_busy(&self) -> bool {
        self.is_busy
    }

    fn waker(&self) -> Other {
        self.other.clone()
    }
}

struct Place(Option<Scripted>);

impl Holds for Place {
    type Polled = Scripted;

    fn polled(&self) -> Option<&Scripted> {
        self.0.as_ref()
    }

    fn polled_mut(&mut self) -> Option<&mut Scripted> {
        self.0.as_mut()
    }
}

const NEVER: fn() -> bool = || false;

fn taken(place: &mut Place, wanted: u64) -> Option<u64> {
    place.0.as_ref().map(|scripted| scripted.taken).filter(|taken| *taken >= wanted)
}

fn opened() -> (Arc<Shared<Place>>, Other) {
    let other = Other::default();
    let scripted =
        Scripted { other: other.clone(), taken: 0, is_busy: false, due: None, panics: false };
    let shared = Arc::new(Shared::new(Lock::new(Place(Some(scripted)))));
    shared.open(other.clone());
    (shared, other)
}

fn with_thread() -> (Arc<Shared<Place>>, Other) {
    let (shared, other) = opened();
    let options = ThreadOptions { name: "test", pin: None };
    shared.start_thread(Arc::clone(&shared), |shared| shared, options).unwrap();
    (shared, other)
}

fn close(shared: &Shared<Place>) {
    shared.close();
    if let Some(thread) = shared.take_thread().and_then(ProgressThread::here) {
        thread.join();
    }
}

fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !is_so() {
        assert!(begin.elapsed() < PATIENCE, "{what} never comes");
        std::thread::yield_now();
    }
}

#[test]
fn a_waiter_that_sleeps_is_woken_by_each_input() {
    let (shared, other) = opened();
    let generation = shared.generation();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for sleeps in 1..20 {
                until("a sleep", || other.sleeps.load(Ordering::SeqCst) >= sleeps);
                other.give();
            }
        });
        for wanted in 1..20 {
            let met = shared.wait(generation, None, NEVER, |place| taken(place, wanted));
            assert!(met.is_ok_and(|taken| taken >= wanted));
        }
    });
}

/// Another thread's call takes in what the sleeper waits for.
#[test]
fn a_call_wakes_who_sleeps_for_what_it_took_in() {
    let (shared, other) = opened();
    let generation = shared.generation();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            until("a sleep", || other.sleeps.load(Ordering::SeqCst) > 0);
            // Nobody wakes but the call.
            other.inputs.fetch_add(1, Ordering::SeqCst);
            shared.call(|place| place.polled_mut().map(Polled::poll)).unwrap();
        });
        assert_eq!(shared.wait(generation, None, NEVER, |place| taken(place, 1)), Ok(1));
    });
}

#[test]
fn a_wait_ends_in_time_when_aborted_and_when_closed() {
    let (shared, other) = opened();
    let generation = shared.generation();
    let late = Some(Instant::now());
    assert_eq!(shared.wait(generation, late, NEVER, |_| None::<()>), Err(Unmet::TimedOut));
    let is_aborted = AtomicBool::new(false);
    let abortable = || is_aborted.load(Ordering::SeqCst);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            until("a sleep", || other.sleeps.load(Ordering::SeqCst) > 0);
            is_aborted.store(true, Ordering::SeqCst);
            shared.wake();
        });
        let unmet = shared.wait(generation, None, abortable, |_| None::<()>);
        assert_eq!(unmet, Err(Unmet::Aborted));
    });
    let slept = other.sleeps.load(Ordering::SeqCst);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            until("a sleep", || other.sleeps.load(Ordering::SeqCst) > slept);
            let place = shared.lock_anyway();
            shared.close();
            drop(place);
        });
        assert_eq!(shared.wait(generation, None, NEVER, |_| None::<()>), Err(Unmet::Gone));
    });
    assert_eq!(shared.with(generation, |_| ()), Err(Unmet::Gone));
    assert_eq!(shared.with(shared.generation(), |_| ()), Ok(()));
}

#[test]
fn the_thread_takes_in_what_comes_while_nobody_calls() {
    let (shared, other) = with_thread();
    for wanted in 1..50 {
        other.give();
        until("progress", || taken(&mut shared.lock_anyway(), wanted).is_some());
    }
    close(&shared);
}

/// What a call leaves behind wakes the thread, for no peer will.
#[test]
fn a_call_that_leaves_work_behind_wakes_the_thread() {
    let (shared, other) = with_thread();
    for sleeps in 1..20 {
        until("a sleep", || other.sleeps.load(Ordering::SeqCst) >= sleeps);
        let leave = |place: &mut Place| place.0.as_mut().unwrap().is_busy = true;
        if sleeps % 2 == 0 {
            shared.call(leave).unwrap();
        } else {
            leave(&mut shared.visit().unwrap());
        }
        until("progress", || !shared.lock_anyway().0.as_ref().unwrap().is_busy);
    }
    close(&shared);
}

#[test]
fn a_closed_one_is_opened_again_with_a_thread_of_its_own() {
    let (shared, other) = with_thread();
    let first = shared.generation();
    close(&shared);
    assert!(shared.take_thread().is_none());
    let options = ThreadOptions { name: "test", pin: None };
    shared.open(other.clone());
    shared.start_thread(Arc::clone(&shared), |shared| shared, options).unwrap();
    assert!(shared.generation() != first);
    other.give();
    until("progress", || taken(&mut shared.lock_anyway(), 1).is_some());
    close(&shared);
}

/// The promise that such a lock is made with would be broken.
#[test]
#[should_panic(expected = "a lock of one thread")]
#[allow(unsafe_code)]
fn a_lock_of_one_thread_is_not_shared_with_a_progress_thread() {
    // SAFETY: this thread alone has it.
    let lock = unsafe { Lock::serial(Place(None), true) };
    let shared = Arc::new(Shared::new(lock));
    let options = ThreadOptions { name: "test", pin: None };
    let _ = shared.start_thread(Arc::clone(&shared), |shared| shared, options);
}

#[test]
fn a_panic_in_a_call_refuses_later_ones_and_ends_the_thread() {
    let (shared, _) = with_thread();
    let call = || shared.call(|_| panic!("on purpose"));
    assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(call)).is_err());
    assert!(shared.call(|_| ()).is_none() && shared.visit().is_none());
    assert_eq!(shared.try_visit(|_| ()), Err(Unavailable::Poisoned));
    close(&shared);
}

/// A waiter slept past it, until somebody woke it for something else.
#[test]
fn a_waiter_does_what_is_due_while_it_sleeps() {
    let (shared, _) = opened();
    let due = Instant::now() + Duration::from_millis(5);
    shared.lock_anyway().0.as_mut().unwrap().due = Some(due);
    let generation = shared.generation();
    assert_eq!(shared.wait(generation, None, NEVER, |place| taken(place, 1)), Ok(1));
}

/// Only calls that poll did, so a thread that polls in a loop starved the others.
#[test]
fn whoever_finds_the_lock_taken_says_that_it_wants_it() {
    let (shared, _) = opened();
    shared.others.fetch_or(THREAD, Ordering::SeqCst);
    let generation = shared.generation();
    let callers: [&(dyn Fn() + Sync); 3] =
        [&|| shared.with(generation, |_| ()).unwrap(), &|| drop(shared.lock_anyway()), &|| {
            drop(shared.visit())
        }];
    for caller in callers {
        std::thread::scope(|scope| {
            let held = shared.lock_anyway();
            scope.spawn(caller);
            until("a want", || shared.attention.take_wanted());
            drop(held);
        });
    }
}

fn panics(call: impl FnOnce()) {
    assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(call)).is_err());
}

/// It took the lock all the same, which was not poisoned any more then.
#[test]
fn a_wait_after_a_panic_is_refused_and_mends_nothing() {
    let (shared, _) = opened();
    let generation = shared.generation();
    panics(|| shared.with(generation, |_| panic!("on purpose")).unwrap());
    for _ in 0..2 {
        let unmet = shared.wait(generation, None, NEVER, |_| None::<()>);
        assert_eq!(unmet, Err(Unmet::Poisoned));
        assert_eq!(shared.with(generation, |_| ()), Err(Unmet::Poisoned));
        assert!(shared.lock_anyway().is_poisoned());
    }
    shared.lock_anyway().mend();
    assert_eq!(shared.with(generation, |_| ()), Ok(()));
}

#[test]
fn a_panic_wakes_those_who_sleep() {
    let ways: [fn(&Shared<Place>); 3] = [
        |shared| shared.call(|_| panic!("on purpose")).unwrap(),
        |shared| shared.try_visit(|_| panic!("on purpose")).unwrap(),
        |shared| {
            let _visit = shared.visit();
            panic!("on purpose");
        },
    ];
    for way in ways {
        let (shared, other) = opened();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                until("a sleep", || other.sleeps.load(Ordering::SeqCst) > 0);
                panics(|| way(&shared));
            });
            let unmet = shared.wait(shared.generation(), None, NEVER, |_| None::<()>);
            assert_eq!(unmet, Err(Unmet::Poisoned));
        });
    }
}

/// The thread was gone and calls went on as if it were there.
#[test]
fn a_panic_of_the_thread_refuses_calls() {
    let (shared, other) = with_thread();
    until("a sleep", || other.sleeps.load(Ordering::SeqCst) > 0);
    other.panics_asleep.store(true, Ordering::SeqCst);
    other.wake();
    // A call would tell the thread that the program is there, and it would not sleep again.
    until("an end", || shared.lock_anyway().is_poisoned());
    assert!(shared.visit().is_none());
    close(&shared);
}

/// The panic was elsewhere, and passes while this is taken down.
#[test]
fn a_look_while_a_panic_passes_refuses_no_calls() {
    struct Looks(Arc<Shared<Place>>);
    impl Drop for Looks {
        fn drop(&mut self) {
            assert!(self.0.lock_anyway().0.is_some());
        }
    }
    let (shared, _) = opened();
    let looks = Looks(Arc::clone(&shared));
    panics(move || {
        let _looks = looks;
        panic!("as the test wants");
    });
    assert!(shared.visit().is_some());
}

/// It was counted for good, and each call woke it.
#[test]
fn a_sleeper_that_panics_is_not_counted_any_more() {
    let (shared, _) = opened();
    shared.lock_anyway().0.as_mut().unwrap().panics = true;
    panics(|| shared.wait(shared.generation(), None, NEVER, |_| None).unwrap());
    assert!(!shared.has_sleepers());
}
