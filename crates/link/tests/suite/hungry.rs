//! Few slots for two senders, and many idle moments: who has nothing gets what the
//! other leaves.

use crate::net::dynamic_layout;
use crate::net::random::Random;
use crate::traffic::Traffic;
use sluice_link::Grant;

const STEPS: u64 = 80;
const SEEDS: u64 = 3_000;

#[test]
fn a_sender_without_credits_gets_what_the_other_leaves() {
    for seed in 0..SEEDS {
        let mut random = Random::new(seed);
        let grant = Grant {
            data_slots: random.between(1, 2) as u16,
            control_slots: 2,
            credit_slots: random.between(2, 5) as u8,
        };
        let layout = dynamic_layout(3, grant, random.between(1, 4) as u32, 0);
        let mut traffic = Traffic::new(vec![layout; 3], seed);
        // With answers in idle moments alone nothing else brings them.
        traffic.answers_at_once = random.percent(50);
        // The other sender may end, also while it waits.
        let end_at = random.below(2 * STEPS);
        for step in 0..STEPS {
            if step == end_at {
                traffic.kill(2);
            }
            let from = random.between(1, 2).min(traffic.alive().len() as u64 - 1) as usize;
            match random.below(8) {
                0..3 => {
                    traffic.processes[from].queues[0].push_back(random.between(1, 2) as u32);
                    traffic.send_queued(from, 0, false);
                }
                3..5 => traffic.deliver_one(&mut random),
                5..7 => {
                    let held = traffic.processes[0].held.len() as u64;
                    if held > 0 {
                        traffic.free(0, random.below(held) as usize);
                    }
                }
                _ => traffic.settle(),
            }
        }
        traffic.drain(true);
    }
}
