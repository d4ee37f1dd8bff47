//! Remote memory of a process whose mailbox is full of messages that it does not receive.

use crate::world::net::Mode;
use crate::world::{Process, World, recv_from, send_to};
use sluice_link::Layout;
use sluice_proto::{Access, Config, Deed, Exposed, Part, Rma};
use sluice_wire::{Addr, AtomicOp, Datatype, ITEM_BYTES_MAX, PeerId, Region};

const KEY: u64 = 9;
const ADD: (AtomicOp, Datatype) = (AtomicOp::Sum, Datatype::Uint64);

/// Mailboxes as they are divided, but short: with fixed quotas, and with dynamic ones of
/// which messages leave nothing.
fn mailboxes() -> [Layout; 2] {
    let fixed = Layout::divide(2, 4096).unwrap().within(16).unwrap();
    let dynamic = Layout::divide_dynamic(2, 4096).unwrap().within(64).unwrap();
    assert!(fixed.grant.data_slots == 8 && dynamic.dynamic_slots > 0);
    [fixed, dynamic]
}

/// What a rail can do: read memory, or nothing, and late.
fn modes() -> [Mode; 2] {
    [Mode::default(), Mode { can_read: false, pending_percent: 30, ..Mode::default() }]
}

/// Two processes; each has sent the other more messages than it has credits for.
fn stuffed(layout: Layout, mode: Mode) -> (World, [Region; 2]) {
    let mut world = World::new(&[layout; 2], mode, Config::default(), 3);
    let exposed = [0, 1].map(|who| {
        let there = world.alloc_filled(who, 20_000, 1);
        let Process { endpoint, port, .. } = &mut world.processes[who];
        let access = Access { read: true, write: true };
        let region = Exposed { key: KEY, pieces: &[there], access, addressed: false, told: None };
        endpoint.expose(port, &region).expect("room");
        there
    });
    for who in [0, 1] {
        let bytes = world.alloc_filled(who, 8, 7);
        for context in 0..100 {
            world.send(who, &send_to(1 - who, bytes, 4, context)).unwrap();
        }
    }
    world.run();
    for who in [0, 1] {
        world.ends(who);
        assert_eq!(world.data_credits(who, 1 - who), 0, "messages have taken all");
        assert!(world.pending(who).sends > 0);
    }
    (world, exposed)
}

fn begin(world: &mut World, who: usize, deed: Deed, part: Part) {
    let now = world.now;
    let peer = PeerId(1 - who as u32);
    let (data, report, inject, fence) = (None, true, false, false);
    let rma = Rma { deed, peer, parts: &[part], data, context: 1000, report, inject, fence };
    let Process { endpoint, port, .. } = &mut world.processes[who];
    endpoint.rma(now, port, &rma).expect("taken");
}

fn part(local: Region, offset: u64, result: Addr) -> Part {
    Part { local, key: KEY, offset, result, operand: [0; ITEM_BYTES_MAX] }
}

/// They waited behind the messages, for receives that a program may post only after them.
#[test]
fn operations_end_though_messages_that_nobody_receives_have_all_credits() {
    for (layout, mode) in
        mailboxes().into_iter().flat_map(|layout| modes().map(|mode| (layout, mode)))
    {
        for len in [0, 1, 8, 960, 961, 4096, 4097, 20_000] {
            let (mut world, exposed) = stuffed(layout, mode);
            for who in [0, 1] {
                let from = world.alloc_filled(who, len, 50 + who as u8);
                begin(&mut world, who, Deed::Write, part(from, 0, Addr(0)));
            }
            world.run();
            for who in [0, 1] {
                assert_eq!(world.ends(who), [(1000, Ok(()))], "{len} bytes");
                let there = Region { len, ..exposed[1 - who] };
                assert!(world.bytes(1 - who, there).iter().all(|byte| *byte == 50 + who as u8));
            }
        }
    }
}

#[test]
fn many_at_once_and_both_ways_keep_their_order_and_the_messages_arrive_after_them() {
    for (layout, mode) in
        mailboxes().into_iter().flat_map(|layout| modes().map(|mode| (layout, mode)))
    {
        let (mut world, exposed) = stuffed(layout, mode);
        let count = 300;
        let results = [0, 1].map(|who| {
            let ones = world.alloc(who, &1_u64.to_le_bytes().repeat(120));
            let result = world.alloc_filled(who, 8 * count, 0);
            for nth in 0..count {
                let result = result.addr.offset(8 * nth);
                let fetch = part(Region { len: 8, ..ones }, 0, result);
                begin(&mut world, who, Deed::Fetch(ADD.0, ADD.1), fetch);
                begin(&mut world, who, Deed::Combine(ADD.0, ADD.1), part(ones, 1000, Addr(0)));
            }
            result
        });
        world.run();
        let first = u64::from_le_bytes([1; 8]);
        for who in [0, 1] {
            let ends = world.ends(who);
            assert_eq!(ends.len(), 2 * count as usize);
            assert!(ends.iter().all(|end| *end == (1000, Ok(()))));
            let seen = world.bytes(who, results[who]);
            for (nth, seen) in seen.chunks(8).enumerate() {
                assert_eq!(seen, (first + nth as u64).to_le_bytes(), "in order");
            }
            let there = Region { addr: exposed[who].addr.offset(1000), len: 960 };
            let sums = world.bytes(who, there);
            assert!(sums.chunks(8).all(|sum| sum == (first + count).to_le_bytes()));
        }
        for who in [0, 1] {
            let into = world.alloc_filled(who, 8, 0);
            for context in 0..100 {
                world.recv(who, &recv_from(1 - who, into, 4, context)).unwrap();
            }
        }
        world.run();
        for who in [0, 1] {
            assert_eq!(world.pending(who).sends, 0);
        }
    }
}
