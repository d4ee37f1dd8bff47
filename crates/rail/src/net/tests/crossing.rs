//! Two processes that open one rail at the same time.

use super::changes::two_hosts;
use super::failures::HOUR_NS;
use super::{Chance, Process, until};
use sluice_link::{Connect, Transport};
use sluice_multirail::Timing;
use sluice_wire::PeerId;
use std::time::{Duration, Instant};

/// Two that have met by the first of two rails, and open the second one by themselves only
/// once.
fn met() -> [(Process, PeerId); 2] {
    // Nothing is closed for its silence, however slow this machine is.
    let timing = Timing {
        suspect_ns: HOUR_NS,
        suspect_alone_ns: HOUR_NS,
        down_ns: HOUR_NS,
        open_ns: HOUR_NS,
        idle_probe_ns: HOUR_NS,
        ..Timing::default()
    };
    let [mut a, mut b] = two_hosts(timing);
    let (to_b, to_a) = (a.knows(&b), b.knows(&a));
    assert_eq!(a.world.connect(to_b), Ok(Connect::Pending));
    until(&mut [&mut a, &mut b], "the first rail", |all| {
        all[0].is_up(to_b, [0]) && all[1].is_up(to_a, [0])
    });
    [(a, to_b), (b, to_a)]
}

/// A rail that both ends close would be opened again by nobody for an hour.
#[test]
fn a_rail_that_both_open_at_once_stays_open_whoever_is_slower() {
    for seed in 0..300 {
        let mut chance = Chance(seed);
        let mut both = met();
        let order = chance.below(2) as usize;
        both[order].0.open_all();
        // The other one hears of it before it begins, or while it does.
        for _ in 0..chance.below(4) {
            both[chance.below(2) as usize].0.poll();
        }
        both[1 - order].0.open_all();
        for _ in 0..chance.below(8) {
            let (process, _) = &mut both[chance.below(2) as usize];
            process.poll();
        }
        let [(a, to_b), (b, to_a)] = &mut both;
        let begin = Instant::now();
        let mut quiet = None;
        until(&mut [a, b], "the rail", |all| {
            let is_up = all[0].is_up(*to_b, [1]) && all[1].is_up(*to_a, [1]);
            assert!(is_up || begin.elapsed() < Duration::from_secs(5), "seed {seed}: both closed");
            // What crosses it has been read by then.
            let since = *quiet.get_or_insert_with(Instant::now);
            quiet = is_up.then_some(since);
            is_up && since.elapsed() > Duration::from_millis(5)
        });
    }
}
