//! Running shards: window after window, on one thread or several.
//!
//! Nothing arrives late, since no cut link has a shorter latency than the window. The
//! order of delivery does not matter. A link brings at most one flit a cycle, to a
//! place of its own, and its letters come from one shard, in order. So results
//! depend neither on the cut nor on the number of threads.

use crate::network::Network;
use crate::shard::{Post, Shard};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Runs all shards up to but not including the cycle `until`.
pub(crate) fn run<const P: usize, const V: usize>(
    shards: &mut [Shard<P, V>],
    net: &Network,
    until: u32,
) {
    match shards {
        [only] => only.run(until),
        shards if net.threads == 1 => alone(shards, net, until),
        shards => together(shards, net, until),
    }
}

fn alone<const P: usize, const V: usize>(shards: &mut [Shard<P, V>], net: &Network, until: u32) {
    let mut now = shards[0].state.now;
    while now < until {
        now = until.min(now.saturating_add(net.window));
        for shard in &mut *shards {
            shard.touch();
            shard.run(now);
        }
        for from in 0..shards.len() {
            let mut post = std::mem::take(&mut shards[from].outbox[0]);
            deliver(shards, 0, &mut post);
            shards[from].outbox[0] = post;
        }
    }
}

/// Delivers the letters of a post to their receivers. `first` is the index of the
/// first receiver.
fn deliver<const P: usize, const V: usize>(
    shards: &mut [Shard<P, V>],
    first: usize,
    post: &mut Post,
) {
    let mut packets = post.packets.drain(..);
    for letter in post.letters.drain(..) {
        shards[usize::from(letter.shard) - first].deliver(letter, &mut packets);
    }
    debug_assert!(packets.next().is_none());
}

/// Runs a range of shards on each thread.
fn together<const P: usize, const V: usize>(shards: &mut [Shard<P, V>], net: &Network, until: u32) {
    let threads = net.threads;
    let barrier = Barrier::new(threads);
    // By receiver and sender. A box is filled before a barrier and emptied
    // after it, so nobody ever waits for its lock.
    let mail: Vec<Vec<Mutex<Vec<Post>>>> =
        (0..threads).map(|_| (0..threads).map(|_| Mutex::new(Vec::new())).collect()).collect();
    let mut rest = shards;
    let mut first = 0;
    std::thread::scope(|scope| {
        for me in 0..threads {
            let count =
                (first..first + rest.len()).take_while(|&shard| net.thread_of(shard) == me).count();
            let (mine, others) = std::mem::take(&mut rest).split_at_mut(count);
            rest = others;
            let (barrier, mail, my_first) = (&barrier, &mail, first);
            first += count;
            scope.spawn(move || {
                let _leave = Leave(barrier);
                let mut now = mine[0].state.now;
                while now < until {
                    now = until.min(now.saturating_add(net.window));
                    for shard in &mut *mine {
                        shard.touch();
                        shard.run(now);
                        for (to, post) in shard.outbox.iter_mut().enumerate() {
                            let mut filled =
                                mail[to][me].lock().expect("no thread panics with a box");
                            filled.push(std::mem::take(post));
                        }
                    }
                    barrier.wait();
                    for sender in &mail[me] {
                        for mut post in
                            sender.lock().expect("no thread panics with a box").drain(..)
                        {
                            deliver(mine, my_first, &mut post);
                        }
                    }
                    barrier.wait();
                }
            });
        }
    });
}

/// A barrier between the threads. They reach it every few hundred microseconds and at
/// about the same time, so each spins for a while before it sleeps.
struct Barrier {
    threads: usize,
    arrived: AtomicUsize,
    round: AtomicUsize,
    /// A thread has panicked and will not reach the barrier.
    is_broken: AtomicBool,
}

/// Releases the other threads if its own panics: else they would wait for ever.
struct Leave<'a>(&'a Barrier);

impl Drop for Leave<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.is_broken.store(true, Ordering::Release);
        }
    }
}

/// How often a thread spins before it yields its core instead.
const LOOKS: u32 = 4_000;

impl Barrier {
    fn new(threads: usize) -> Barrier {
        Barrier {
            threads,
            arrived: AtomicUsize::new(0),
            round: AtomicUsize::new(0),
            is_broken: AtomicBool::new(false),
        }
    }

    fn wait(&self) {
        let round = self.round.load(Ordering::Acquire);
        if self.arrived.fetch_add(1, Ordering::AcqRel) + 1 == self.threads {
            self.arrived.store(0, Ordering::Relaxed);
            self.round.store(round.wrapping_add(1), Ordering::Release);
            return;
        }
        let mut looks = 0;
        while self.round.load(Ordering::Acquire) == round {
            if looks < LOOKS {
                looks += 1;
                std::hint::spin_loop();
            } else {
                assert!(!self.is_broken.load(Ordering::Acquire), "another thread panicked");
                std::thread::yield_now();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_meet_each_round() {
        let (barrier, count) = (Barrier::new(3), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    for round in 1..=100 {
                        count.fetch_add(1, Ordering::Relaxed);
                        barrier.wait();
                        assert_eq!(count.load(Ordering::Relaxed), 3 * round);
                        barrier.wait();
                    }
                });
            }
        });
    }

    #[test]
    fn a_thread_that_panics_is_not_waited_for() {
        let barrier = Barrier::new(2);
        let waits = std::thread::scope(|scope| {
            let waiting = scope.spawn(|| barrier.wait());
            let failing = scope.spawn(|| {
                let _leave = Leave(&barrier);
                panic!("on purpose");
            });
            (waiting.join().is_err(), failing.join().is_err())
        });
        assert_eq!(waits, (true, true));
    }
}
