//! When the thread takes over, in virtual time; and that it wakes and ends, with
//! real threads.

use super::*;
use sluice_rail::shm::{Config, Doorbell, SLEEP_NS_MAX, Shm};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::mpsc;

/// Far longer than anything takes here.
const PATIENCE: Duration = Duration::from_secs(60);

#[test]
fn a_silent_program_is_stood_in_for() {
    let mut pace = Pace::new(7);
    assert_eq!(pace.next(0, 7, false), Turn::StandIn);
    assert_eq!(pace.next(1, 7, false), Turn::StandIn);
}

#[test]
fn a_program_that_calls_is_left_alone_and_looked_at_ever_more_rarely() {
    let mut pace = Pace::new(0);
    let ticks: Vec<_> = (1..8).map(|calls| pace.next(0, calls, false)).collect();
    let wanted = [100, 200, 400, 500, 500, 500, 500].map(|us| Turn::Back(us * 1000));
    assert_eq!(ticks, wanted);
    assert_eq!(pace.next(0, 7, false), Turn::StandIn);
}

#[test]
fn a_call_that_is_turned_away_counts_as_a_call() {
    let mut pace = Pace::new(0);
    assert!(matches!(pace.next(0, 0, true), Turn::Back(_)));
    assert_eq!(pace.next(0, 0, false), Turn::StandIn);
}

#[test]
fn a_program_that_hands_over_is_stood_in_for_at_once() {
    let mut pace = Pace::new(0);
    assert!(matches!(pace.next(0, 1, false), Turn::Back(_)));
    // Handing over is a call.
    pace.handed_over(2);
    assert_eq!(pace.next(0, 2, false), Turn::StandIn);
}

#[test]
fn what_ends_a_tick_is_told_and_handing_over_is_not_lost() {
    let attention = Attention::new();
    assert_eq!(attention.tick(1), Hurry::No);
    attention.look_again();
    assert_eq!(attention.tick(u64::MAX), Hurry::Look);
    attention.hand_over();
    attention.look_again();
    assert_eq!(attention.tick(u64::MAX), Hurry::TakeOver);
    assert_eq!(attention.tick(1), Hurry::No);
}

#[test]
fn after_a_long_absence_the_thread_is_soon_back() {
    let mut pace = Pace::new(0);
    for calls in 1..10 {
        pace.next(0, calls, false);
    }
    assert_eq!(pace.next(0, 9, false), Turn::StandIn);
    assert_eq!(pace.next(TICK_NS_MAX, 10, false), Turn::Back(TICK_NS_MIN));
    assert_eq!(pace.next(TICK_NS_MAX, 10, false), Turn::StandIn);
}

/// A program that calls every 60 us is taken over from once or twice, and then
/// left alone.
#[test]
fn taking_over_for_nothing_is_soon_given_up() {
    let mut pace = Pace::new(0);
    let mut now_ns = 0;
    let mut stood_in = 0;
    while now_ns < 10_000_000 {
        let calls = u32::try_from(now_ns / 60_000).unwrap();
        now_ns += match pace.next(now_ns, calls, false) {
            Turn::Back(tick_ns) => tick_ns,
            Turn::StandIn => {
                stood_in += 1;
                60_000 - now_ns % 60_000
            }
        };
    }
    assert!((1..4).contains(&stood_in), "{stood_in} times");
}

/// A waker of one process, without a rail: how often somebody woke.
#[derive(Clone, Debug, Default)]
struct Wakes {
    count: Arc<(Mutex<u64>, Condvar)>,
}

impl Waker for Wakes {
    fn sleep(&self, rest_ns: impl FnOnce() -> u64) {
        let (count, woken) = &*self.count;
        let before = *count.lock().unwrap();
        let rest = Duration::from_nanos(rest_ns().min(SLEEP_NS_MAX));
        let count = count.lock().unwrap();
        drop(woken.wait_timeout_while(count, rest, |count| *count == before).unwrap());
    }

    fn wake(&self) {
        *self.count.0.lock().unwrap() += 1;
        self.count.1.notify_all();
    }
}

/// A machine that counts looks.
struct Scripted<W> {
    shared: Arc<Shared>,
    waker: W,
    looks: mpsc::Sender<u64>,
    rests: mpsc::Sender<()>,
}

#[derive(Default)]
struct Shared {
    attention: Attention,
    is_closed: AtomicBool,
    /// What is there to be taken in.
    work: AtomicU64,
    /// What comes is gathered.
    gathers: AtomicBool,
    looks_in_vain: AtomicU64,
}

impl<W: Waker> Attended for Scripted<W> {
    type Waker = W;

    fn is_closed(&self) -> bool {
        self.shared.is_closed.load(Ordering::SeqCst)
    }

    fn is_waited_at(&self) -> bool {
        false
    }

    fn look(&mut self) -> Looked {
        let work = self.shared.work.swap(0, Ordering::SeqCst);
        if work == 0 {
            self.shared.looks_in_vain.fetch_add(1, Ordering::SeqCst);
            let gathers = self.shared.gathers.load(Ordering::SeqCst);
            return if gathers { Looked::Gathering } else { Looked::Nothing };
        }
        let _ = self.looks.send(work);
        Looked::Something
    }

    fn rest_ns(&mut self) -> u64 {
        let _ = self.rests.send(());
        let is_idle = self.shared.work.load(Ordering::SeqCst) == 0;
        // For ever: who is not woken is missed.
        if is_idle { u64::MAX } else { 0 }
    }

    fn waker(&self) -> Option<W> {
        Some(self.waker.clone())
    }
}

struct Running<W> {
    shared: Arc<Shared>,
    waker: W,
    taken: mpsc::Receiver<u64>,
    rested: mpsc::Receiver<()>,
    thread: std::thread::JoinHandle<()>,
}

/// A doorbell outlives its rail.
fn doorbell() -> Doorbell {
    Shm::open(Config { sleeps: true, ..Config::default() }).unwrap().doorbell()
}

impl<W: Waker> Running<W> {
    fn start(waker: W) -> Running<W> {
        let (looks, taken) = mpsc::channel();
        let (rests, rested) = mpsc::channel();
        let shared = Arc::new(Shared::default());
        let mut scripted =
            Scripted { shared: Arc::clone(&shared), waker: waker.clone(), looks, rests };
        let thread = std::thread::spawn(move || {
            let shared = Arc::clone(&scripted.shared);
            attend(&shared.attention, &mut scripted);
        });
        Running { shared, waker, taken, rested, thread }
    }

    fn await_sleep(&self) {
        let begin = Instant::now();
        while !self.shared.attention.is_asleep() {
            assert!(begin.elapsed() < PATIENCE, "it never sleeps");
            std::thread::yield_now();
        }
    }

    fn end(self) {
        self.shared.is_closed.store(true, Ordering::SeqCst);
        self.waker.wake();
        self.shared.attention.look_again();
        self.thread.join().unwrap();
    }
}

#[test]
fn what_arrives_wakes_the_thread_each_time() {
    wakes_each_time(Running::start(doorbell()));
    wakes_each_time(Running::start(Wakes::default()));
}

fn wakes_each_time(running: Running<impl Waker>) {
    let begin = Instant::now();
    for n in 1..200 {
        running.await_sleep();
        running.shared.work.store(n, Ordering::SeqCst);
        running.waker.wake();
        assert_eq!(running.taken.recv_timeout(PATIENCE), Ok(n));
    }
    // Whom nobody wakes looks by itself after SLEEP_NS_MAX: 20 s in all. Woken, it
    // takes some 20 ms.
    let unwoken = Duration::from_nanos(199 * SLEEP_NS_MAX);
    assert!(begin.elapsed() < unwoken / 2, "it is not woken");
    running.end();
}

#[test]
fn a_thread_that_sleeps_or_keeps_back_ends_at_once() {
    for attentive in [false, true] {
        ends_at_once(Running::start(doorbell()), attentive);
        ends_at_once(Running::start(Wakes::default()), attentive);
    }
}

fn ends_at_once(running: Running<impl Waker>, attentive: bool) {
    running.await_sleep();
    if attentive {
        running.shared.attention.noted();
        running.waker.wake();
    }
    running.end();
}

#[test]
fn a_thread_with_nothing_to_do_sleeps_as_long_as_it_may() {
    let running = Running::start(doorbell());
    running.await_sleep();
    // Before the queue is emptied: a rest that comes in between only adds to it.
    let begin = Instant::now();
    while running.rested.try_recv().is_ok() {}
    for _ in 0..5 {
        running.rested.recv_timeout(PATIENCE).expect("it looks again and again");
    }
    assert!(begin.elapsed() >= Duration::from_nanos(4 * SLEEP_NS_MAX), "it sleeps less");
    running.end();
}

#[test]
fn who_gathers_looks_once_and_sleeps() {
    let running = Running::start(Wakes::default());
    running.shared.gathers.store(true, Ordering::SeqCst);
    // What it did before it knew of that.
    for _ in 0..2 {
        running.waker.wake();
        running.rested.recv_timeout(PATIENCE).unwrap();
    }
    running.await_sleep();
    while running.rested.try_recv().is_ok() {}
    let before = running.shared.looks_in_vain.load(Ordering::SeqCst);
    for _ in 0..50 {
        running.waker.wake();
        running.rested.recv_timeout(PATIENCE).unwrap();
    }
    let looks = running.shared.looks_in_vain.load(Ordering::SeqCst) - before;
    // It also wakes by itself. A look at either end may be without its rest.
    let rests = 50 + running.rested.try_iter().count() as u64;
    assert!(looks <= rests + 2, "{looks} looks for {rests} sleeps");
    running.end();
}
