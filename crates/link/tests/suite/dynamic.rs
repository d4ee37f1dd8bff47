//! Dynamic credits between several processes, whatever they do: nothing overflows,
//! no credit is lost, and nobody waits for ever.

use crate::net::dynamic_layout;
use crate::net::random::Random;
use crate::traffic::Traffic;
use proptest::prelude::*;
use sluice_link::Grant;

/// Any mixture of traffic.
#[derive(Clone, Debug)]
struct Scenario {
    processes: usize,
    data_slots: u16,
    dynamic_slots: u32,
    credit_slots: u8,
    /// Of a hundred packets, how many may carry credits.
    piggyback_percent: u64,
    answers_at_once: bool,
    /// Whether there are idle moments. Without, thresholds alone bring credits back.
    is_ever_idle: bool,
    admit_all: bool,
    kill_at: Option<u64>,
    seed: u64,
}

fn scenarios() -> impl Strategy<Value = Scenario> {
    (
        2usize..6,
        1u16..10,
        0u32..41,
        2u8..11,
        prop_oneof![Just(0u64), Just(100), Just(50)],
        any::<bool>(),
        any::<bool>(),
        any::<bool>(),
        prop::option::of(0u64..600),
        any::<u64>(),
    )
        .prop_map(
            |(
                processes,
                data_slots,
                dynamic_slots,
                credit_slots,
                piggyback_percent,
                answers_at_once,
                is_ever_idle,
                admit_all,
                kill_at,
                seed,
            )| Scenario {
                processes,
                data_slots,
                dynamic_slots,
                credit_slots,
                piggyback_percent,
                answers_at_once: answers_at_once || !is_ever_idle,
                is_ever_idle,
                admit_all,
                kill_at,
                seed,
            },
        )
}

fn run(scenario: &Scenario) {
    let mut random = Random::new(scenario.seed);
    let grant = Grant {
        data_slots: scenario.data_slots,
        control_slots: 4,
        credit_slots: scenario.credit_slots,
    };
    let layout = dynamic_layout(scenario.processes as u16, grant, scenario.dynamic_slots, 0);
    let mut traffic = Traffic::new(vec![layout; scenario.processes], scenario.seed);
    traffic.answers_at_once = scenario.answers_at_once;
    if scenario.admit_all {
        for process in &mut traffic.processes {
            process.links.admit_all(scenario.processes as u16);
        }
    }
    // Some pairs talk more than others, and which do changes.
    let mut favourite = (0, 1);
    let most = u64::from(scenario.data_slots) + u64::from(scenario.dynamic_slots);
    for step in 0..600 {
        if step % 150 == 0 {
            favourite = (random.below(scenario.processes as u64), random.draw());
        }
        if scenario.kill_at == Some(step) {
            let who = *random.pick(&traffic.alive());
            traffic.kill(who);
        }
        let alive = traffic.alive();
        let who = match random.percent(50) {
            true if alive.contains(&(favourite.0 as usize)) => favourite.0 as usize,
            _ => *random.pick(&alive),
        };
        let to = match random.percent(60) {
            true => alive[(favourite.1 % alive.len() as u64) as usize],
            false => *random.pick(&alive),
        };
        let carry = random.percent(scenario.piggyback_percent);
        traffic.processes[who].links.set_piggyback(carry);
        match random.below(20) {
            0..7 if who != to => {
                let slots = match random.percent(70) {
                    true => random.between(1, 3),
                    false => random.between(1, most + 2),
                };
                traffic.processes[who].queues[to].push_back(slots as u32);
                traffic.send_queued(who, to, random.percent(30));
            }
            7..13 => traffic.deliver_one(&mut random),
            13..17 => {
                let held = traffic.processes[who].held.len();
                if held > 0 {
                    traffic.free(who, random.below(held as u64) as usize);
                }
            }
            17 if scenario.is_ever_idle => traffic.idle(who),
            18 if who != to => traffic.send_control(who, to),
            _ => {}
        }
        traffic.check();
        if scenario.is_ever_idle && step % 64 == 63 {
            traffic.settle();
        }
    }
    traffic.drain(scenario.is_ever_idle);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn credits_are_conserved_and_everything_is_sent(scenario in scenarios()) {
        run(&scenario);
    }
}

/// The answer of a sender that is asked for credits in an idle moment comes late: its one
/// slot is given back in the idle moment after that.
#[test]
fn a_late_answer_leaves_nobody_without_credits() {
    run(&Scenario {
        processes: 4,
        data_slots: 1,
        dynamic_slots: 4,
        credit_slots: 3,
        piggyback_percent: 100,
        answers_at_once: false,
        is_ever_idle: true,
        admit_all: false,
        kill_at: Some(5),
        seed: 1974528663739556308,
    });
}
