//! A receiver announces as many receives as it likes, if not all at once.

use crate::world::net::{Mode, roomy};
use crate::world::{World, pattern, recv_from, send_to};
use sluice_proto::Config;
use sluice_wire::Nanos;

/// More than may be announced at once.
const ROUNDS: u64 = 40;
const LEN: u64 = 500;

const CONFIG: Config = Config {
    looking_bytes_max: 0,
    eager_bytes_max: 64,
    network_eager_bytes_max: 64,
    patience: Nanos(20_000),
    regions_max: 8,
    requests_max: 1 << 10,
    inject_bytes_max: 1 << 20,
    announce_bytes_min: 100,
    share_bytes_min: 100,
    pull_bytes_max: 1 << 20,
};

fn pair() -> World {
    World::new(&[roomy(); 2], Mode { chunk_claims: true, ..Mode::default() }, CONFIG, 1)
}

fn post(world: &mut World, context: u64) {
    let buf = world.alloc(1, &[0; LEN as usize]);
    world.recv(1, &recv_from(0, buf, 7, context)).unwrap();
}

#[test]
fn receives_that_were_used_make_room_for_others() {
    let mut world = pair();
    for round in 1..=ROUNDS {
        post(&mut world, round);
        world.run();
        let bytes = world.alloc(0, &pattern(round, LEN));
        world.send(0, &send_to(1, bytes, 7, round)).unwrap();
        world.run();
        assert_eq!(world.ends(1), [(round, Ok(()))]);
        let used = world.processes[0].endpoint.stats().rtrs_used;
        assert_eq!((used, world.processes[1].endpoint.stats().announced), (round, round));
    }
}

#[test]
fn receives_that_were_cancelled_make_room_for_others() {
    let mut world = pair();
    for round in 1..=ROUNDS {
        post(&mut world, round);
        world.run();
        assert!(world.cancel(1, round));
        assert_eq!(world.processes[1].endpoint.stats().announced, round);
    }
}
