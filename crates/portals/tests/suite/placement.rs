//! Where a reply's payload will be copied, as a rail asks before it has it: it is told
//! only of packets that the machine would take.

use crate::pair::net::{Mode, roomy};
use crate::pair::{Pair, Side, entry, open, pattern};
use sluice_link::Layout;
use sluice_portals::{List, MdOptions, Taken};
use sluice_wire::{Credits, Packet, PacketSeq, Parsed, PeerId, Region, Status};

const LEN: u64 = 300;

/// A pair, with a get of side 0 from side 1 whose reply is on its way.
fn asked() -> (Pair, Region, Parsed) {
    let layouts: [Layout; 3] = [roomy(); 3];
    let mut pair = Pair::with(&layouts, Mode::default(), MdOptions::default());
    let memory = pair.alloc(1, &pattern(LEN as usize, 3));
    pair.append(List::Priority, entry(memory, 7, open(), 1));
    // Side 2 is known to side 0 too.
    pair.put_from(2, 7, b"hello", 0, None);
    let into = pair.issue_get(0, 7, 0, LEN);
    while pair.sides[0].port.net().flights(1, 0).next().is_none() {
        let event = pair.sides[0].port.net().events()[0];
        pair.happen(event);
    }
    let reply = pair.sides[0].port.net().flights(1, 0).next().unwrap().parsed;
    (pair, into, reply)
}

fn placement(pair: &Pair, from: u32, packet: &Parsed) -> Option<Region> {
    pair.sides[0].ni.placement(PeerId(from), packet)
}

#[test]
fn a_reply_is_placed_where_it_is_copied() {
    let (mut pair, into, reply) = asked();
    assert_eq!(u64::from(reply.payload_len), LEN);
    assert_eq!(placement(&pair, 1, &reply), Some(into));
    assert_eq!(placement(&pair, 1, &reply), Some(into), "asking changes nothing");
    pair.run();
    assert_eq!(pair.bytes(0, into), pattern(LEN as usize, 3));
    assert_eq!(placement(&pair, 1, &reply), None, "it has been answered");
}

/// Every lie about one field: it names no place, and breaks the protocol when it arrives.
#[test]
fn a_lying_peer_is_told_no_place() {
    let lies: [fn(&mut Parsed); 5] = [
        |packet| packet.seq = packet.seq.next(),
        |packet| packet.payload_len += 1,
        |packet| packet.payload_len = u32::MAX,
        |packet| packet.credits = Credits { data: u16::MAX, control: 0 },
        |packet| {
            let Packet::Reply(reply) = &mut packet.packet else { panic!("it is a reply") };
            reply.op += 1 << 32;
        },
    ];
    for (nth, lie) in lies.into_iter().enumerate() {
        let (mut pair, _, mut packet) = asked();
        lie(&mut packet);
        assert_eq!(placement(&pair, 1, &packet), None, "lie {nth}");
        let Side { ni, port, .. } = &mut pair.sides[0];
        assert_eq!(ni.on_packet(port, PeerId(1), &packet), Taken::Violation, "lie {nth}");
    }
    // The answer to what another was asked for.
    let (mut pair, _, packet) = asked();
    let packet = Parsed { seq: PacketSeq(0), ..packet };
    for from in [0, 2, 9] {
        assert_eq!(placement(&pair, from, &packet), None, "from {from}");
    }
    let Side { ni, port, .. } = &mut pair.sides[0];
    assert_eq!(ni.on_packet(port, PeerId(2), &packet), Taken::Violation);
}

#[test]
fn only_replies_with_bytes_to_one_region_have_a_place() {
    let (mut pair, into, packet) = asked();
    let Packet::Reply(mut reply) = packet.packet else { panic!("it is a reply") };
    assert_eq!(placement(&pair, 1, &Parsed { payload_len: 0, ..packet }), None);
    // Fewer bytes than were asked for: the entry is shorter.
    let shorter = Parsed { payload_len: 9, ..packet };
    assert_eq!(placement(&pair, 1, &shorter), Some(into.truncated(9)));
    // What is refused is copied all the same.
    reply.status = Status::OpViolation;
    let refused = Parsed { packet: Packet::Reply(reply), ..packet };
    assert_eq!(placement(&pair, 1, &refused), Some(into));
    let put = Parsed { packet: Packet::Credit, ..packet };
    assert_eq!(placement(&pair, 1, &put), None);
    pair.kill(1);
    assert_eq!(placement(&pair, 1, &packet), None, "its peer is gone");
}
