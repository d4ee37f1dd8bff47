//! A peer that says anything about messages that wait: it may be given up, and
//! nothing else may happen. What it says is what an honest one could say at some
//! other time, with numbers that are nearly right.

use crate::world;
use crate::world::net::random::Random;
use crate::world::net::{Mode, layout};
use crate::world::{World, pattern, recv_from, send_to};
use sluice_proto::{Config, Probe, ProbeAction, Recv, Send, Space};
use sluice_wire::{
    Credits, Decline, Found, Get, GetDone, MatchBits, Packet, PtIndex, Put, RemoteKey, Rts, Search,
    Status, Waiting, Watch,
};

const LIAR: usize = 0;
const HONEST: usize = 1;

fn number(draw: &mut Random) -> u64 {
    let near = (1_u64 << 63) - 2 + draw.below(8);
    *draw.pick(&[0, near, near, near, u64::MAX - 1, u64::MAX])
}

fn packet(draw: &mut Random) -> Packet {
    let pt_index = PtIndex(*draw.pick(&[0, 0, 0, 1, 2, 9]));
    let match_bits = MatchBits(draw.below(4));
    let number = number(draw);
    let key = MatchBits(*draw.pick(&[number, 1 << 32, 1 << 32 | 1]));
    let found = Found {
        pt_index,
        match_bits,
        hdr_data: 0,
        user: draw.below(2) as u8,
        total_len: *draw.pick(&[0, 8, 100, u64::MAX]),
        // Maybe one that was given out, to whomever.
        from: RemoteKey::from_bits(*draw.pick(&[0, 1 << 32, 1 << 32 | 1, 2 << 32, u64::MAX])),
    };
    let rts = Rts { total_len: found.total_len, from: found.from, key, claims: None };
    match draw.below(9) {
        0 | 1 => Packet::Waiting(Waiting { watched: draw.percent(50), number, found: Some(found) }),
        2 => Packet::Waiting(Waiting { watched: false, number, found: None }),
        3 => Packet::Search(Search {
            pt_index,
            match_bits,
            ignore_bits: *draw.pick(&[0, 1, u64::MAX]),
            newest: number,
        }),
        4 => Packet::Watch(Watch { after: number }),
        5 => Packet::Decline(Decline { number }),
        6 => Packet::Put(Put {
            pt_index,
            match_bits,
            hdr_data: 0,
            user: 0,
            remote_offset: 0,
            ack: None,
            rts: draw.percent(50).then_some(rts),
            bulk: None,
            by_control: false,
        }),
        7 => {
            let (pt_index, length, status) = (PtIndex(2), found.total_len, Status::Ok);
            Packet::GetDone(GetDone { pt_index, match_bits: key, length, status })
        }
        _ => Packet::Get(Get {
            pt_index: PtIndex(2),
            match_bits: key,
            op: 1,
            remote_offset: 0,
            length: 8,
            into: RemoteKey::NONE,
        }),
    }
}

/// What an honest peer could say to what the honest process said last.
fn answer(world: &World, draw: &mut Random) -> Option<Packet> {
    let net = world.processes[0].port.net();
    let mut to_liar = net.log.iter().rev().filter(|(from, to, ..)| (*from, *to) == (HONEST, LIAR));
    let mut found = |pt_index, match_bits| {
        let total_len = draw.below(100);
        let from = RemoteKey::NONE;
        Some(Found { pt_index, match_bits, hdr_data: 0, user: 0, total_len, from })
    };
    let answer = match to_liar.next()?.2 {
        Packet::Search(search) => {
            let number = search.newest.min((1 << 63) + 5);
            let found = found(search.pt_index, search.match_bits);
            Packet::Waiting(Waiting { watched: false, number, found })
        }
        Packet::Watch(watch) => {
            let found = found(PtIndex(0), MatchBits(watch.after % 4));
            Packet::Waiting(Waiting { watched: true, number: watch.after.wrapping_add(1), found })
        }
        Packet::Waiting(Waiting { number, found: Some(found), .. }) if found.total_len % 2 == 0 => {
            Packet::Decline(Decline { number })
        }
        Packet::Waiting(Waiting { number, .. }) => Packet::GetDone(GetDone {
            pt_index: PtIndex(2),
            match_bits: MatchBits(number),
            length: 0,
            status: Status::Ok,
        }),
        Packet::Decline(_) | Packet::GetDone(_) => {
            let (pt_index, newest) = (PtIndex(0), u64::MAX);
            Packet::Search(Search { pt_index, match_bits: MatchBits(1), ignore_bits: 2, newest })
        }
        _ => return None,
    };
    Some(answer)
}

/// How many packets the honest process took before it gave the other up.
fn run(seed: u64) -> u32 {
    let mut draw = Random::stream(seed, 5);
    let mailbox = layout(3, draw.between(1, 3) as u16, 32, 4, 64);
    let config = Config { eager_bytes_max: 500, ..Config::default() };
    let mode = Mode { can_read: draw.percent(50), placing_percent: 50, ..Mode::default() };
    let mut world = World::new(&[mailbox; 3], mode, config, seed);
    let buf = world.alloc(HONEST, &[0; 200]);
    let bytes = world.alloc(HONEST, &pattern(seed, 200));
    let mut said = 0;
    for context in 0..40 {
        match draw.below(5) {
            0 => {
                let buf = bytes.truncated(draw.below(200));
                let inject = draw.percent(30);
                let send = Send { inject, ..send_to(LIAR, buf, draw.below(4), context) };
                let _ = world.send(HONEST, &send);
            }
            1 => {
                let recv = recv_from(LIAR, buf, draw.below(4), context);
                let source = recv.source.filter(|_| draw.percent(60));
                world.recv(HONEST, &Recv { source, ..recv }).unwrap();
            }
            2 => {
                let action = *draw.pick(&[ProbeAction::Peek, ProbeAction::Claim]);
                let (tag, ignore) = (draw.below(4), 0);
                let probe =
                    Probe { space: Space::Tagged, source: None, tag, ignore, context, action };
                world.probe(HONEST, &probe).unwrap();
            }
            3 => {
                let one = draw.below(context + 1);
                world.cancel(HONEST, one);
                world.cancel_send(HONEST, one);
            }
            _ => {}
        }
        let is_given_up = world.processes[HONEST].endpoint.stats().violations > 0;
        if !is_given_up {
            let plausible = if draw.percent(85) { answer(&world, &mut draw) } else { None };
            let harmless = Packet::Credit;
            let other = if draw.percent(25) { packet(&mut draw) } else { harmless };
            let packet = plausible.unwrap_or(other);
            world.forge(LIAR, HONEST, &packet, said, Credits::default());
            said += 1;
        }
        world.idle(HONEST);
        while !world.processes[0].port.net().reads.is_empty() {
            world.happen(world::net::Event::Read(0));
        }
    }
    // The third process is served as ever.
    let own = world.alloc(HONEST, &pattern(1, 8));
    world.send(HONEST, &send_to(2, own, 77, 500)).unwrap();
    let theirs = world.alloc(2, &[0; 8]);
    world.recv(2, &recv_from(HONEST, theirs, 77, 501)).unwrap();
    world.processes[0].port.net_mut().lose(HONEST, LIAR);
    world.run();
    assert_eq!(world.bytes(2, theirs), pattern(1, 8));
    said
}

#[test]
fn nothing_that_a_peer_says_does_more_than_end_its_own_messages() {
    let only: Option<u64> = std::env::var("SLUICE_SEED").ok().and_then(|seed| seed.parse().ok());
    let mut said = 0;
    for seed in only.map_or(0..3000, |seed| seed..seed + 1) {
        let run = || run(seed);
        match std::panic::catch_unwind(run) {
            Ok(count) => said += count,
            Err(cause) => {
                eprintln!("replay with: SLUICE_SEED={seed}");
                std::panic::resume_unwind(cause);
            }
        }
    }
    assert!(only.is_some() || said > 9000, "{said} packets are no test");
}
