//! Each packet against its literal bytes, both ways.

mod common;

use common::{ATOMIC, DATATYPE_AT, PLAIN, USER_AT, cases, hex};
use sluice_wire::{
    AckKind, Addr, Answer, Atomic, AtomicOp, Bulk, Credits, Datatype, HEAD_BYTES, ITEM_BYTES_MAX,
    List, MatchBits, Nanos, Offer, PUT_INLINE_BYTES_MAX, Packet, PacketSeq, Pull, Put, Region,
    RemoteKey, Reply, Rts, SLOT_BYTES, Status, payload_bytes_max, slots_for,
};

#[test]
fn emit_writes_these_bytes() {
    for case in cases() {
        let head = case.packet.emit(case.seq, case.credits, case.payload_len);
        assert_eq!(head.bytes(), case.bytes, "{}", case.name);
        assert_eq!(head.len(), case.bytes.len(), "{}", case.name);
        assert!(!head.is_empty());
    }
}

#[test]
fn parse_reads_these_bytes() {
    for case in cases() {
        let parsed = Packet::parse(&case.bytes).unwrap_or_else(|error| {
            panic!("{}: {error}", case.name);
        });
        assert_eq!(parsed.packet, case.packet, "{}", case.name);
        assert_eq!(parsed.seq, case.seq, "{}", case.name);
        assert_eq!(parsed.credits, case.credits, "{}", case.name);
        assert_eq!(parsed.payload_len, case.payload_len, "{}", case.name);
        assert_eq!(parsed.payload_offset as usize, case.bytes.len(), "{}", case.name);
        assert_eq!(
            parsed.total_bytes(),
            case.bytes.len() as u64 + u64::from(case.payload_len),
            "{}",
            case.name
        );
    }
}

#[test]
fn header_length_is_known_before_it_is_written() {
    for case in cases() {
        assert_eq!(case.packet.header_bytes() as usize, case.bytes.len(), "{}", case.name);
    }
}

#[test]
fn a_slot_is_the_header_and_zeroes() {
    for case in cases() {
        let head = case.packet.emit(case.seq, case.credits, case.payload_len);
        let (header, rest) = head.slot().split_at(head.len());
        assert_eq!(header, case.bytes, "{}", case.name);
        assert!(rest.iter().all(|&byte| byte == 0), "{}", case.name);
    }
}

#[test]
fn parse_ignores_the_prefix_and_what_lies_behind() {
    for case in cases() {
        let mut bytes = case.bytes.clone();
        bytes[..6].copy_from_slice(&hex("deadbeef 1234"));
        bytes.extend_from_slice(&[0xEE; 100]);
        assert_eq!(Packet::parse(&bytes), Packet::parse(&case.bytes), "{}", case.name);
    }
}

#[test]
fn payload_goes_inline_up_to_the_limit() {
    let head = Packet::Put(PLAIN).emit(PacketSeq(0), Credits::default(), PUT_INLINE_BYTES_MAX);
    assert_eq!(PUT_INLINE_BYTES_MAX, 24);
    assert_eq!(head.len() + PUT_INLINE_BYTES_MAX as usize, SLOT_BYTES);
}

#[test]
fn slots_at_each_boundary() {
    let rows = [
        (HEAD_BYTES as u64, 0, 1),
        (64, 0, 1),
        (40, 24, 1),
        // What does not fit beside the header begins with the second slot.
        (40, 25, 2),
        (64, 1, 2),
        (40, 64, 2),
        (40, 65, 3),
        (64, 128, 3),
        (40, 129, 4),
        // The example of `docs/wire.md`: a plain put of 8 KiB.
        (40, 8192, 129),
        // The largest reply; a reply region has at most 65,535 slots.
        (40, 4_194_176, 65_535),
        // The longest packet that there is: a payload of u32::MAX bytes.
        (64, u32::MAX as u64, 67_108_865),
        // No packet is that long; the answer is still more than any ring has.
        (64, u64::MAX, u32::MAX),
    ];
    for (header, payload, slots) in rows {
        assert_eq!(slots_for(header, payload), slots, "{header} and {payload} bytes");
    }
}

#[test]
fn slots_hold_their_packet_and_no_slot_is_spare() {
    for header in HEAD_BYTES as u64..=64 {
        for payload in 0..1000 {
            let slots = u64::from(slots_for(header, payload));
            if slots == 1 {
                assert!(header + payload <= 64, "{header} and {payload} bytes do not fit a slot");
                continue;
            }
            let room = payload_bytes_max(slots);
            assert!(payload <= room, "{payload} bytes do not fit {slots} slots");
            assert!(payload > room - 64, "{payload} bytes waste a slot");
            assert!(header + payload > 64, "{header} and {payload} bytes fit one slot");
        }
    }
}

const RTS: Rts =
    Rts { total_len: 1, from: RemoteKey::from_bits(1), key: MatchBits(1), claims: None };
const BULK: Bulk = Bulk { len: 1, from: RemoteKey::from_bits(1) };

fn emit(packet: Packet, payload_len: u32) {
    let _ = packet.emit(PacketSeq(0), Credits::default(), payload_len);
}

#[test]
#[should_panic(expected = "an announced put has no offset")]
fn announced_with_an_offset_is_not_emitted() {
    emit(Packet::Put(Put { rts: Some(RTS), remote_offset: 1, ..PLAIN }), 0);
}

#[test]
#[should_panic(expected = "an announced put has no offset")]
fn announced_with_an_acknowledgement_is_not_emitted() {
    emit(Packet::Put(Put { rts: Some(RTS), ack: Some((AckKind::Full, 1)), ..PLAIN }), 0);
}

#[test]
#[should_panic(expected = "an announced put has no offset")]
fn announced_with_a_payload_is_not_emitted() {
    emit(Packet::Put(Put { rts: Some(RTS), ..PLAIN }), 1);
}

#[test]
#[should_panic(expected = "a credit packet has no payload")]
fn credit_with_a_payload_is_not_emitted() {
    emit(Packet::Credit, 1);
}

#[test]
#[should_panic(expected = "a put whose data is fetched has a name and no payload")]
fn fetched_and_announced_is_not_emitted() {
    emit(Packet::Put(Put { rts: Some(RTS), bulk: Some(BULK), ..PLAIN }), 0);
}

#[test]
#[should_panic(expected = "a put whose data is fetched has a name and no payload")]
fn fetched_without_a_name_is_not_emitted() {
    emit(Packet::Put(Put { bulk: Some(BULK), ..PLAIN }), 0);
}

#[test]
#[should_panic(expected = "a put whose data is fetched has a name and no payload")]
fn fetched_with_a_payload_is_not_emitted() {
    emit(Packet::Put(Put { bulk: Some(BULK), ack: Some((AckKind::Full, 1)), ..PLAIN }), 1);
}

#[test]
#[should_panic(expected = "only a put whose data is fetched")]
fn silence_about_a_plain_put_is_not_emitted() {
    emit(Packet::Put(Put { ack: Some((AckKind::Silent, 1)), ..PLAIN }), 0);
}

#[test]
#[should_panic(expected = "an atomic operation carries its data")]
fn silence_about_an_atomic_is_not_emitted() {
    emit(Packet::Atomic(Atomic { answer: Answer::Ack(AckKind::Silent, 1), ..ATOMIC }), 0);
}

#[test]
#[should_panic(expected = "an offer has no payload")]
fn offer_with_a_payload_is_not_emitted() {
    emit(Packet::Offer(Offer { op: 1, mlength: 1, offset: 0, list: List::Priority, source: 1 }), 1);
}

#[test]
#[should_panic(expected = "a pull has no payload")]
fn pull_with_a_payload_is_not_emitted() {
    emit(Packet::Pull(Pull { source: 1, op: 1, offset: 0, length: 1 }), 1);
}

/// The numbers in `docs/wire.md`, which are also those of the C header.
#[test]
fn operations_by_number() {
    use AtomicOp::*;
    let rows = [
        (Min, 0, false, false),
        (Max, 1, false, false),
        (Sum, 2, false, false),
        (Prod, 3, false, false),
        (Lor, 4, false, false),
        (Land, 5, false, false),
        (Bor, 6, false, false),
        (Band, 7, false, false),
        (Lxor, 8, false, false),
        (Bxor, 9, false, false),
        (Swap, 10, true, false),
        (Cswap, 11, true, true),
        (CswapNe, 12, true, true),
        (CswapLe, 13, true, true),
        (CswapLt, 14, true, true),
        (CswapGe, 15, true, true),
        (CswapGt, 16, true, true),
        (Mswap, 17, true, true),
        (Diff, 18, false, false),
    ];
    assert_eq!(AtomicOp::ALL, rows.map(|row| row.0));
    for (op, code, is_swap, has_operand) in rows {
        assert_eq!(op.code(), code, "{op:?}");
        assert_eq!(AtomicOp::from_code(code), Ok(op));
        assert_eq!((op.is_swap(), op.has_operand()), (is_swap, has_operand), "{op:?}");
        let packet = Packet::Atomic(Atomic { op, ..ATOMIC });
        let head = packet.emit(PacketSeq(0), Credits::default(), 0);
        assert_eq!(head.bytes()[USER_AT], code, "{op:?}");
        assert_eq!(Packet::parse(head.bytes()).map(|parsed| parsed.packet), Ok(packet));
    }
}

#[test]
fn types_by_number() {
    use Datatype::*;
    // Number, bytes of an item, bytes of its alignment.
    let rows = [
        (Int8, 0, 1, 1),
        (Uint8, 1, 1, 1),
        (Int16, 2, 2, 2),
        (Uint16, 3, 2, 2),
        (Int32, 4, 4, 4),
        (Uint32, 5, 4, 4),
        (Float, 6, 4, 4),
        (Int64, 7, 8, 8),
        (Uint64, 8, 8, 8),
        (Double, 9, 8, 8),
        (FloatComplex, 10, 8, 4),
        (DoubleComplex, 11, 16, 8),
        (LongDouble, 12, 16, 16),
        (LongDoubleComplex, 13, 32, 16),
        (Int128, 14, 16, 16),
        (Uint128, 15, 16, 16),
        (Float16, 16, 2, 2),
        (Bfloat16, 17, 2, 2),
        (Float8E4m3, 18, 1, 1),
        (Float8E5m2, 19, 1, 1),
    ];
    assert_eq!(Datatype::ALL, rows.map(|row| row.0));
    for (datatype, code, bytes, align) in rows {
        assert_eq!(datatype.code(), code, "{datatype:?}");
        assert_eq!(Datatype::from_code(code), Ok(datatype));
        assert_eq!((datatype.bytes(), datatype.align()), (bytes, align), "{datatype:?}");
        assert!(bytes <= ITEM_BYTES_MAX);
        let packet = Packet::Atomic(Atomic { datatype, ..ATOMIC });
        let head = packet.emit(PacketSeq(0), Credits::default(), 0);
        assert_eq!(head.bytes()[DATATYPE_AT], code, "{datatype:?}");
        assert_eq!(Packet::parse(head.bytes()).map(|parsed| parsed.packet), Ok(packet));
    }
    let integers = Datatype::ALL.iter().filter(|datatype| datatype.is_integer());
    let narrow = [Int8, Uint8, Int16, Uint16, Int32, Uint32, Int64, Uint64];
    assert!(integers.eq(narrow.iter().chain(&[Int128, Uint128])));
    let complex = Datatype::ALL.iter().filter(|datatype| datatype.is_complex());
    assert!(complex.eq(&[FloatComplex, DoubleComplex, LongDoubleComplex]));
}

#[test]
fn an_atomic_on_one_word_takes_one_slot() {
    let head = Packet::Atomic(ATOMIC).emit(PacketSeq(0), Credits::default(), 8);
    assert_eq!(slots_for(head.len() as u64, 8), 1);
}

#[test]
fn a_header_without_payload_takes_one_slot() {
    for case in cases() {
        assert_eq!(slots_for(case.packet.header_bytes().into(), 0), 1, "{}", case.name);
    }
}

#[test]
fn a_reply_shares_its_slot_with_three_words() {
    let reply = Packet::Reply(Reply { op: 1, offset: 0, list: List::Priority, status: Status::Ok });
    let header = u64::from(reply.header_bytes());
    assert_eq!((slots_for(header, 24), slots_for(header, 25)), (1, 2));
}

#[test]
fn sequence_numbers_wrap() {
    assert_eq!(PacketSeq(0).next(), PacketSeq(1));
    assert_eq!(PacketSeq(u32::MAX).next(), PacketSeq(0));
}

#[test]
fn ignored_match_bits_do_not_matter() {
    let entry = MatchBits(0xFF00);
    assert!(entry.accepts(0, MatchBits(0xFF00)));
    assert!(!entry.accepts(0, MatchBits(0xFF01)));
    assert!(entry.accepts(0x00FF, MatchBits(0xFF01)));
    assert!(!entry.accepts(0x00FF, MatchBits(0xFE00)));
    assert!(entry.accepts(u64::MAX, MatchBits(1)));
}

#[test]
fn regions_end_within_the_address_space() {
    assert_eq!(Region::new(Addr(u64::MAX), 1), None);
    assert_eq!(Region::new(Addr(u64::MAX), 0), Some(Region { addr: Addr(u64::MAX), len: 0 }));
    let region = Region::new(Addr(10), 20).expect("ends at 30");
    assert_eq!(region.truncated(5), Region { addr: Addr(10), len: 5 });
    assert_eq!(region.truncated(50), region);
    assert_eq!(region.addr.offset(3), Addr(13));
}

#[test]
fn spans_of_time_neither_overflow_nor_go_negative() {
    assert_eq!(Nanos(u64::MAX).saturating_add(Nanos(1)), Nanos(u64::MAX));
    assert_eq!(Nanos(5).since(Nanos(3)), Nanos(2));
    assert_eq!(Nanos(3).since(Nanos(5)), Nanos(0));
}

#[test]
fn a_remote_key_is_eight_bytes_and_two_of_them_name_no_memory() {
    assert_eq!(size_of::<RemoteKey>(), 8);
    assert_eq!((RemoteKey::NONE.bits(), RemoteKey::OFFER.bits()), (0, u64::MAX));
    assert!(!RemoteKey::NONE.is_some() && !RemoteKey::OFFER.is_some());
    for bits in [1, 0x8182_8384_8586_8788, u64::MAX - 1] {
        let key = RemoteKey::from_bits(bits);
        assert!(key.is_some() && key.bits() == bits);
    }
}
