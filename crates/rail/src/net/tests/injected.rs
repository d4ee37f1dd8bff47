//! Faults that a seed draws (`crate::faults`), and that nothing is lost by them.

use super::failures::{BRISK, Pair, config, pattern};
use super::{MODES, region};
use crate::faults::{Counts, Plan, with_plan};
use crate::net::NetConfig;
use crate::net::handshake::Security;
use sluice_link::{RemoteMemory, Rights};
use sluice_multirail::Timing;

const ROUNDS: u32 = 60;
/// Until one has the fault that is looked for.
const SEEDS_MAX: u32 = 20;

/// Two that have met send each other packets, and one reads the other's memory, under the faults
/// of a plan. Says how often each was done.
fn exchange(security: Security, devices: u8, plan: &str) -> Counts {
    exchange_with(BRISK, security, devices, plan)
}

fn exchange_with(timing: Timing, security: Security, devices: u8, plan: &str) -> Counts {
    // Who meets a peer for the first time tries for longer than a test may take.
    let mut pair = Pair::with(NetConfig { security, ..config(devices, timing) });
    let ((), counts) = with_plan(Plan::parse(plan).unwrap(), || go_on(&mut pair));
    println!("{security:?}, {devices} rails, {plan}: {counts}");
    counts
}

fn go_on(pair: &mut Pair) {
    let there = pattern(100_000, 3);
    let key = pair.b.world.expose(pair.to_a, region(&there), Rights::READ);
    for round in 0..ROUNDS {
        assert!(pair.exchange(round, key, &there), "round {round}");
    }
    pair.check_packets(ROUNDS);
    assert!(pair.a.machine.gone.is_empty() && pair.b.machine.gone.is_empty());
}

/// A call that takes few bytes promises no event, so nobody waits for one: there is no suspicion
/// here that would help.
#[test]
fn a_socket_that_takes_little_at_a_time_is_given_the_rest() {
    const NEVER_NS: u64 = 1 << 50;
    let patient = Timing {
        suspect_ns: NEVER_NS,
        suspect_alone_ns: NEVER_NS,
        down_ns: NEVER_NS,
        idle_probe_ns: NEVER_NS,
        gone_ns: NEVER_NS,
        ..BRISK
    };
    for security in MODES {
        for plan in ["seed=1,short=1", "seed=2,short=0.5,stall=0.001"] {
            assert!(exchange_with(patient, security, 1, plan).of("short") > 0);
        }
    }
}

/// Each fault alone, so that none hides another, then all at once.
#[test]
fn nothing_is_lost_whatever_fault_is_drawn() {
    let alone = [
        ("drop", "0.004"),
        ("delay", "0.02"),
        ("refuse", "0.7"),
        ("stall", "0.001"),
        ("exhaust", "0.003"),
        ("short", "0.5"),
        ("corrupt", "0.01"),
    ];
    for (nth, security) in MODES.into_iter().enumerate() {
        for (name, share) in alone {
            // Of what is not sealed, nobody finds out that a byte of a chunk was altered; and
            // a refusal needs something that broke.
            let seals = security == Security::Encrypt;
            if name == "corrupt" && !seals {
                continue;
            }
            let breaks = if name == "refuse" { ",drop=0.004" } else { "" };
            // How many chances there are depends on the machine.
            let is_done = |seed: u32| {
                let plan = format!("seed={seed},{name}={share}{breaks}");
                exchange(security, 1 + nth as u8 % 2, &plan).of(name) > 0
            };
            assert!((0..SEEDS_MAX).any(is_done), "{name} with {security:?}");
        }
    }
    let all =
        "drop=0.002,delay=0.005,refuse=0.1,stall=0.0002,exhaust=0.001,short=0.1,corrupt=0.003";
    for seed in 0..4 {
        exchange(Security::Encrypt, 2, &format!("seed={seed},{all}"));
    }
}
