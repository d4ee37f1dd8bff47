//! Two processes that run at the same time, each in a thread: payload is read while it is stored, and
//! each writes over its own mailbox while the other one uses it.

use super::super::super::{Shm, looks};
use super::super::reads::reads_work;
use super::super::{Noise, advance_clock};
use super::place::{OF_HANDED, Place, tamper};
use super::{
    Kind, Process, ROUND, TAMPERED_ROUNDS, TAMPERED_ROUNDS_MAX, Told, answer, judge, open, states,
    step_of,
};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// For how long they may take, and when time goes faster.
const RUN_MAX: Duration = Duration::from_secs(60);
const RUN_SOON: Duration = Duration::from_millis(200);

/// One of the two.
struct Runner<'a> {
    rounds: Vec<(u64, Place)>,
    noise: Noise,
    /// How many still write over something, and how many have not ended.
    tampering: &'a AtomicUsize,
    running: &'a AtomicUsize,
}

impl Runner<'_> {
    /// Returns when both have ended; false if somebody has waited for ever.
    fn run(&mut self, one: &mut (Option<Shm>, Process)) -> bool {
        let (begin, mut has_ended) = (Instant::now(), false);
        for round in 0.. {
            self.tamper(one, round);
            let is_calm = self.tampering.load(Ordering::SeqCst) == 0;
            step_of(one, is_calm, &mut self.noise);
            look_long(one);
            if !has_ended && one.1.has_ended() {
                has_ended = true;
                self.running.fetch_sub(1, Ordering::SeqCst);
            }
            if self.running.load(Ordering::SeqCst) == 0 {
                return true;
            }
            // What is waited for that long does not come soon.
            if begin.elapsed() > RUN_SOON {
                advance_clock(ROUND);
            }
            if begin.elapsed() > RUN_MAX {
                return false;
            }
        }
        unreachable!("there is a last moment");
    }

    fn tamper(&mut self, (shm, process): &(Option<Shm>, Process), round: u64) {
        if self.rounds.is_empty() {
            return;
        }
        let noise = &mut self.noise;
        self.rounds.retain(|&(at, place)| {
            let is_done =
                at <= round && shm.as_ref().is_none_or(|shm| tamper(shm, process, place, noise));
            !is_done && round < TAMPERED_ROUNDS_MAX
        });
        if self.rounds.is_empty() {
            self.tampering.fetch_sub(1, Ordering::SeqCst);
        }
    }
}

/// Polls again and again: each is to find the other in the library, and answered at once.
fn look_long((rail, process): &mut (Option<Shm>, Process)) {
    const LOOKS: u32 = 500;
    let Some(shm) = rail else { return };
    for _ in 0..LOOKS {
        shm.poll(shm.now(), process, 1);
        answer(shm, &mut process.others[0], 0);
    }
    // Also while it does what a program does between two polls.
    looks::note_work(shm.segment.look());
}

fn run_at_once(seed: u64) -> Result<Told, String> {
    let mut noise = Noise(seed);
    let kind = Kind { processes: 2, ..Kind::draw(&mut noise) };
    let mut all = open(kind);
    let (tampering, running) = (AtomicUsize::new(2), AtomicUsize::new(2));
    let mut runners: Vec<Runner> = (0..2)
        .map(|_| {
            let place = OF_HANDED[noise.below(OF_HANDED.len() as u64) as usize];
            let rounds = vec![(noise.below(TAMPERED_ROUNDS), place)];
            let noise = Noise(noise.next());
            Runner { rounds, noise, tampering: &tampering, running: &running }
        })
        .collect();
    let places: Vec<Place> = runners.iter().map(|runner| runner.rounds[0].1).collect();
    let have_ended = std::thread::scope(|scope| {
        let run = |(runner, one): (&mut Runner, &mut _)| runner.run(one);
        let threads: Vec<_> =
            runners.iter_mut().zip(&mut all).map(|pair| scope.spawn(move || run(pair))).collect();
        threads.into_iter().all(|thread| thread.join().expect("no panic"))
    });
    if !have_ended {
        return Err(format!("somebody waits for ever after {places:?}: {:#?}", states(&all)));
    }
    judge(&all, &places)
}

#[test]
fn whoever_writes_while_chunks_are_handed_over_leaves_nobody_waiting() {
    const TRIALS: u64 = 100;
    if !reads_work() {
        return;
    }
    let mut handed = 0;
    for seed in 0..TRIALS {
        match run_at_once(seed) {
            Ok(told) => handed += told.handed,
            Err(what) => panic!("seed {seed}: {what}"),
        }
    }
    println!("{handed} chunks were handed over");
}
