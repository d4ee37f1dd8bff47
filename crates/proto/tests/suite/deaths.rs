//! Random programs in which one process dies at a random moment: whatever the
//! survivors asked of it ends once, with an error that names it or, if the
//! message made it, without; and nothing between the survivors is disturbed.

use crate::seeds;
use crate::world::net::random::Random;
use crate::world::net::{Mode, layout, roomy};
use crate::world::{World, pattern, recv_from, send_to};
use sluice_link::PeerError;
use sluice_proto::{
    Completion, Config, Delivery, Failure, Kind, Pending, Probe, ProbeAction, Send, Space,
};
use sluice_wire::{Nanos, PeerId};
use std::collections::BTreeMap;

const VICTIM: usize = 2;

/// Requests by process and context: the other side, and whether it ended.
type Asked = BTreeMap<(usize, u64), (usize, bool)>;

fn look(world: &mut World, asked: &mut Asked, told: bool) {
    for who in 0..VICTIM {
        while let Some(Completion { context, outcome, .. }) = world.pop(who) {
            let (peer, ended) = asked.get_mut(&(who, context)).expect("it was asked");
            assert!(!*ended, "ended twice");
            *ended = true;
            match outcome {
                Ok(()) => {}
                // The rail may know it before the endpoint does.
                Err(Failure::PeerGone { peer: named, why: PeerError::Dead }) => {
                    assert_eq!((named, *peer), (PeerId(VICTIM as u32), VICTIM));
                    assert!(told || world.is_dead(VICTIM));
                }
                Err(other) => panic!("{other}"),
            }
        }
    }
    while world.pop(VICTIM).is_some() {}
}

fn run(seed: u64) {
    let mut draw = Random::stream(seed, 3);
    let few = *draw.pick(&[1, 2, 12]);
    let mailbox = if draw.percent(30) { roomy() } else { layout(3, few, 2, 3, 6) };
    let mode = Mode {
        can_read: draw.percent(50),
        pending_percent: *draw.pick(&[0, 50]),
        placing_percent: 50,
        ..Mode::default()
    };
    let config = Config { eager_bytes_max: 500, patience: Nanos(20), ..Config::default() };
    let mut world = World::new(&[mailbox; 3], mode, config, seed);
    let mut asked = Asked::new();
    let death = draw.below(60);
    for context in 0..60 {
        if context == death {
            world.kill(VICTIM);
        }
        let (who, peer) = (draw.below(3) as usize, draw.below(3) as usize);
        if world.is_dead(who) {
            continue;
        }
        let len = *draw.pick(&[0, 8, 100, 400, 2000]);
        if draw.percent(50) {
            let bytes = world.alloc(who, &pattern(context, len));
            let delivery = draw.percent(30).then_some(Delivery::Arrived);
            world.send(who, &Send { delivery, ..send_to(peer, bytes, 7, context) }).unwrap();
        } else {
            let buf = world.alloc(who, &[0; 2000]);
            world.recv(who, &recv_from(peer, buf, 7, context)).unwrap();
        }
        asked.insert((who, context), (peer, who == VICTIM));
        for _ in 0..draw.below(8) {
            world.step();
        }
        look(&mut world, &mut asked, false);
    }
    for who in 0..VICTIM {
        for _ in 0..draw.below(20) {
            world.step();
        }
        look(&mut world, &mut asked, false);
        world.tell_death(who, VICTIM);
        look(&mut world, &mut asked, true);
    }
    world.run();
    look(&mut world, &mut asked, true);
    for ((who, context), (peer, ended)) in &asked {
        assert!(*ended || *peer != VICTIM, "{context} of {who} on the dead has not ended");
    }
    finish(&mut world, &mut asked);
}

/// The survivors receive what there is for them, send what is wanted, and have
/// nothing left.
fn finish(world: &mut World, asked: &mut Asked) {
    let mut context = 1000;
    for _ in 0..60 {
        for who in 0..VICTIM {
            for peer in 0..VICTIM {
                context += 2;
                let buf = world.alloc(who, &[0; 2000]);
                world.send(who, &send_to(peer, buf.truncated(1), 7, context)).unwrap();
                world.recv(who, &recv_from(peer, buf, 7, context + 1)).unwrap();
                asked.insert((who, context), (peer, false));
                asked.insert((who, context + 1), (peer, false));
            }
        }
    }
    world.run();
    look(world, asked, true);
    // As many receives as sends are in excess on one side or the other.
    let open: Vec<_> = asked.iter().filter(|(_, (_, ended))| !ended).map(|(key, _)| *key).collect();
    for (who, context) in open {
        world.cancel(who, context);
        let cancelled = world.pop(who).filter(|end| end.kind == Kind::Recv);
        let known = cancelled.is_none_or(|end| end.outcome == Err(Failure::Cancelled));
        assert!(known, "only an unmatched receive is left to cancel");
    }
    for who in 0..VICTIM {
        for peer in 0..=VICTIM {
            // What is left, also of the dead, is received.
            loop {
                let buf = world.alloc(who, &[0; 2000]);
                let before = world.processes[who].endpoint.stats().unexpected_now;
                world.recv(who, &recv_from(peer, buf, 7, 9999)).unwrap();
                world.tell_death(who, VICTIM);
                // Of the dead, what was only announced is lost.
                let fewer = world.processes[who].endpoint.stats().unexpected_now < before;
                world.run();
                let ends: Vec<_> = std::iter::from_fn(|| world.pop(who)).collect();
                let received = ends.iter().any(|end| end.kind == Kind::Recv && end.outcome.is_ok());
                if !fewer && !received {
                    world.cancel(who, 9999);
                    while world.pop(who).is_some() {}
                    break;
                }
            }
        }
    }
    world.run();
    for who in 0..VICTIM {
        assert_eq!(world.pending(who), Pending::default(), "process {who}");
        assert_eq!(world.processes[who].port.net().lent(who), (0, 0));
        assert_eq!(world.processes[who].endpoint.links().reply_slots_reserved(), 0);
        assert_eq!(world.processes[who].endpoint.stats().violations, 0);
    }
}

/// What names the dead.
const GONE: Failure = Failure::PeerGone { peer: PeerId(VICTIM as u32), why: PeerError::Dead };

fn three() -> World {
    World::new(&[roomy(); 3], Mode::default(), Config::default(), 1)
}

#[test]
fn a_short_receive_ends_with_a_peer_that_never_spoke() {
    for dies_first in [false, true] {
        let mut world = three();
        if dies_first {
            world.kill(VICTIM);
        }
        let buf = world.alloc(0, &[0; 8]);
        world.recv(0, &recv_from(VICTIM, buf, 7, 1)).unwrap();
        world.kill(VICTIM);
        assert_eq!(world.ends(0), [], "it cannot know yet");
        assert!(world.tell_death(0, VICTIM), "it has asked for the end of its source");
        assert_eq!(world.ends(0), [(1, Err(GONE))]);
        world.recv(0, &recv_from(VICTIM, buf, 7, 2)).unwrap();
        world.send(0, &send_to(VICTIM, buf, 7, 3)).unwrap();
        assert_eq!(world.ends(0), [(2, Err(GONE)), (3, Err(GONE))], "later ones end at once");
        assert!(!world.tell_death(1, VICTIM), "who waits for nobody is not told");
        assert_eq!(world.pending(0), Pending::default());
    }
}

#[test]
fn a_probe_of_the_dead_names_it() {
    let mut world = three();
    let source = Some(PeerId(VICTIM as u32));
    let probe = |context| Probe {
        space: Space::Tagged,
        source,
        tag: 7,
        ignore: 0,
        context,
        action: ProbeAction::Peek,
    };
    world.probe(0, &probe(1)).unwrap();
    assert_eq!(world.ends(0), [(1, Err(Failure::NoMessage))]);
    world.kill(VICTIM);
    assert!(world.tell_death(0, VICTIM), "who probes waits too");
    world.probe(0, &probe(2)).unwrap();
    assert_eq!(world.ends(0), [(2, Err(GONE))]);
}

#[test]
fn a_death_ends_what_was_asked_of_the_dead_and_nothing_else() {
    let only: Option<u64> = std::env::var("SLUICE_SEED").ok().and_then(|seed| seed.parse().ok());
    seeds::run_all(only.map_or(0..300, |seed| seed..seed + 1), |seed| {
        if let Err(cause) = std::panic::catch_unwind(|| run(seed)) {
            eprintln!("replay with: SLUICE_SEED={seed}");
            std::panic::resume_unwind(cause);
        }
    });
}
