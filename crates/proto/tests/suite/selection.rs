//! What the endpoint does is what the table says: messages around each threshold, on
//! rails of every ability and of stated performance, either side first.

use crate::world::net::{Mode, roomy};
use crate::world::{World, pattern, recv_from, send_to};
use sluice_link::{Costs, Direct};
use sluice_proto::selection::{Able, Facts, First, Protocol, Table};
use sluice_proto::{Config, Endpoint};
use sluice_wire::Packet;

/// A rail, and whether the simulated one behaves like it.
fn rails() -> Vec<(Mode, Able)> {
    let able = |reads, writes, chunk_claims| Able { reads, writes, chunk_claims };
    let nothing = Mode { can_read: false, ..Mode::default() };
    vec![
        (Mode { chunk_claims: true, ..Mode::default() }, able(true, true, true)),
        (Mode::default(), able(true, true, false)),
        (Mode { only_writes: true, ..nothing }, able(false, true, false)),
        (nothing, able(false, false, false)),
    ]
}

fn tables() -> Vec<Table> {
    let stated = Costs::default();
    let slow_call = Some(Direct { start_ns: 5000, byte_ps: 75 });
    let fast = Some(Direct { start_ns: 100, byte_ps: 20 });
    let costs = [
        stated,
        Costs { read: slow_call, ..stated },
        Costs { read: fast, packet_ns: 400, ..stated },
        Costs { read: None, ..stated },
    ];
    // Not reached by any costs: thresholds in another order.
    let odd = Table {
        eager_bytes_max: 700,
        looking_bytes_max: 0,
        announce_bytes_min: 300,
        share_bytes_min: 500,
    };
    costs.iter().map(Table::of).chain([odd]).collect()
}

/// One message, and how it went, between a sender and a receiver with these tables.
fn observed(tables: [&Table; 2], mode: Mode, facts: &Facts) -> Protocol {
    let mut world = World::new(&[roomy(); 2], mode, Config::default(), 1);
    for (process, table) in world.processes.iter_mut().zip(tables) {
        process.config = process.config.with_table(table);
        process.endpoint = Endpoint::new(process.config, roomy());
    }
    let from = world.alloc(0, &pattern(1, facts.len));
    let to = world.alloc(1, &vec![0; facts.recv_len as usize]);
    let mut recv = recv_from(0, to, 7, 70);
    if !facts.source_known {
        recv.source = None;
    }
    if facts.first == First::Receiver {
        world.recv(1, &recv).expect("room");
        world.run();
    }
    world.send(0, &send_to(1, from, 7, 1)).expect("room");
    if facts.first == First::Sender {
        while world.on_their_way(0, 1) > 0 {
            world.deliver(0, 1);
        }
        world.recv(1, &recv).expect("room");
    }
    world.run();
    assert_eq!(world.bytes(1, to), pattern(1, facts.len), "{facts:?}");
    let stats = world.processes[0].endpoint.stats();
    let net = world.processes[0].port.net();
    let mut packets = net.log.iter().map(|(_, _, packet, _)| packet);
    match (stats.eager_sent, stats.rtrs_used) {
        (1, _) => Protocol::Eager,
        (_, 1) => Protocol::Speculative,
        _ => {
            let way = packets.find_map(|packet| match packet {
                Packet::Cts(cts) if cts.claims.is_some() => Some(Protocol::Cooperative),
                Packet::Cts(_) => Some(Protocol::Put),
                Packet::Get(_) => Some(Protocol::Pull),
                _ => None,
            });
            way.unwrap_or(Protocol::Get)
        }
    }
}

#[test]
fn endpoints_do_what_the_table_says() {
    let mut seen = std::collections::HashSet::new();
    for table in tables() {
        let thresholds =
            [u64::from(table.eager_bytes_max) + 1, table.announce_bytes_min, table.share_bytes_min];
        // What never pays begins beyond any message.
        let lens =
            thresholds.into_iter().filter(|&len| len < 1 << 20).flat_map(|len| [len - 1, len]);
        for len in lens.chain([8]) {
            for (mode, able) in rails() {
                for first in [First::Sender, First::Receiver] {
                    for source_known in [true, false] {
                        let facts = Facts {
                            len,
                            recv_len: len,
                            first,
                            source_known,
                            fits: true,
                            looks: false,
                            able,
                        };
                        let choice = table.choose(&facts);
                        assert_eq!(
                            observed([&table; 2], mode, &facts),
                            choice.protocol,
                            "{table:?}: {facts:?}"
                        );
                        seen.insert(choice.protocol);
                    }
                }
            }
        }
    }
    assert_eq!(seen.len(), Protocol::ALL.len(), "every protocol was the choice somewhere");
}

/// Each length is used by one side, and the other does what the packets say.
#[test]
fn processes_need_not_agree_on_any_length() {
    let tables = tables();
    for sender in &tables {
        for receiver in &tables {
            let eager_bytes_max = sender.eager_bytes_max;
            // The receiver announces none that it would send eagerly itself.
            let announced =
                receiver.announce_bytes_min.max(u64::from(receiver.eager_bytes_max) + 1);
            let both = Table { eager_bytes_max, announce_bytes_min: announced, ..*receiver };
            for len in [64, 650, 701, 5_000, 17_000, 40_000, 70_000, 200_000] {
                for (mode, able) in rails() {
                    for first in [First::Sender, First::Receiver] {
                        let facts = Facts {
                            len,
                            recv_len: len,
                            first,
                            source_known: true,
                            fits: true,
                            looks: false,
                            able,
                        };
                        let expected = both.choose(&facts).protocol;
                        let found = observed([sender, receiver], mode, &facts);
                        assert_eq!(found, expected, "{sender:?}, {receiver:?}: {facts:?}");
                    }
                }
            }
        }
    }
}
