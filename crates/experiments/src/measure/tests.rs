//! The stopping rule, on a small mesh.

use super::*;
use sluice_flit::Config;

fn simulation(load: f64) -> Simulation {
    let text = format!(
        "topology = {{ kind = \"mesh\", dims = [3, 3] }}\nrouting = {{ kind = \"minimal\" }}\n\
         traffic = {{ pattern = {{ kind = \"uniform\" }}, load = {load}, packet_flits = 4 }}"
    );
    let config: Config = toml::from_str(&text).expect("a configuration");
    Simulation::new(&config, None, 1).expect("a simulation")
}

const STOP: Stop =
    Stop { warm_up_cycles: 250, batch_cycles: 100, min_cycles: 600, max_cycles: 2000, change: 1.0 };

#[test]
fn warm_up_then_batches_until_they_agree() {
    let mut ticks = 0;
    let mut tick = |cycles| {
        ticks += cycles;
        true
    };
    let outcome = measure(&mut simulation(0.1), &STOP, false, &mut tick).expect("not stopped");
    let batches: Vec<(u64, u64, bool)> =
        outcome.batches.iter().map(|b| (b.from_cycle, b.cycles, b.warm_up)).collect();
    assert_eq!(
        batches[..4],
        [(0, 100, true), (100, 100, true), (200, 50, true), (250, 100, false)]
    );
    // Any two batches agree, but there is a least time.
    assert_eq!((outcome.stopped_by, outcome.cycles, ticks), (StoppedBy::Steady, 600, 850));
    let counted = outcome.batches.iter().filter(|b| !b.warm_up).map(|b| b.accepted_flits);
    assert_eq!(counted.sum::<u64>(), outcome.accepted_flits);
    assert!(outcome.is_stable(0.05));
    assert!(!outcome.is_stable(0.9));
}

#[test]
fn there_is_a_most_time() {
    let stop = Stop { change: -1.0, ..STOP };
    let outcome = measure(&mut simulation(0.1), &stop, false, &mut |_| true).expect("not stopped");
    assert_eq!((outcome.stopped_by, outcome.cycles), (StoppedBy::MaxCycles, 2000));
}

#[test]
fn the_user_stops_it_between_batches_too() {
    let stop = Stop { batch_cycles: 1_000_000, max_cycles: 2_000_000, ..STOP };
    let mut left = 5;
    let mut tick = |_| {
        left -= 1;
        left > 0
    };
    assert_eq!(measure(&mut simulation(0.1), &stop, false, &mut tick), None);
}

#[test]
fn loads_of_links_are_of_the_counted_cycles() {
    let outcome = measure(&mut simulation(0.1), &STOP, true, &mut |_| true).expect("not stopped");
    let to_nodes = outcome.links.iter().filter(|link| link.to_node.is_some());
    assert_eq!(to_nodes.clone().count(), 9);
    assert!(outcome.links.iter().all(|link| link.flits <= outcome.cycles));
}

#[test]
fn columns_have_names_of_their_own() {
    for (index, one) in COLUMNS.iter().enumerate() {
        assert_eq!(column(one.name), Some(index));
    }
}
