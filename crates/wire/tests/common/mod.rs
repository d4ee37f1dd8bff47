//! Every kind of packet, with each of its options, beside its bytes as
//! `docs/wire.md` lays them out.

#![allow(dead_code, reason = "each test binary uses its own part")]

use sluice_wire::{
    Ack, AckKind, Addr, Answer, Atomic, AtomicOp, Bulk, Credits, Datatype, Get, GetDone, MatchBits,
    Offer, Packet, PacketSeq, PtIndex, Pull, Put, Reply, Rts, SLOT_PREFIX_BYTES, Status,
};

/// One packet in both of its forms.
pub struct Case {
    pub name: &'static str,
    pub packet: Packet,
    pub seq: PacketSeq,
    pub credits: Credits,
    pub payload_len: u32,
    /// The header, with a zero prefix; no payload.
    pub bytes: Vec<u8>,
}

/// Offsets of the head's fields, once more and by hand.
pub const VERSION_AT: usize = 6;
pub const KIND_AT: usize = 7;
pub const FLAGS_AT: usize = 15;
pub const PAYLOAD_LEN_AT: usize = 16;
pub const PT_INDEX_AT: usize = 20;
pub const USER_AT: usize = 21;
pub const DETAIL_AT: usize = 22;
/// Atomic: the type of the items. Every other kind: must be zero.
pub const DATATYPE_AT: usize = 23;

/// Bytes from hexadecimal digits; spaces and line ends separate nothing.
pub fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u32> = text.chars().filter_map(|c| c.to_digit(16)).collect();
    assert!(digits.len().is_multiple_of(2), "half a byte in {text:?}");
    digits.chunks(2).map(|pair| (pair[0] << 4 | pair[1]) as u8).collect()
}

/// `header` with the rail's prefix set to zero.
pub fn without_prefix(header: &[u8]) -> Vec<u8> {
    let mut bytes = header.to_vec();
    bytes[..SLOT_PREFIX_BYTES].fill(0);
    bytes
}

/// A put with no option.
pub const PLAIN: Put = Put {
    pt_index: PtIndex(0x11),
    match_bits: MatchBits(0x0102_0304_0506_0708),
    hdr_data: 0x1112_1314_1516_1718,
    user: 0x22,
    remote_offset: 0,
    ack: None,
    rts: None,
    bulk: None,
};

/// An atomic operation that wants nothing back.
pub const ATOMIC: Atomic = Atomic {
    pt_index: PtIndex(9),
    match_bits: MatchBits(0x0102_0304_0506_0708),
    hdr_data: 0x1112_1314_1516_1718,
    remote_offset: 0x4142,
    op: AtomicOp::Min,
    datatype: Datatype::Int8,
    answer: Answer::No,
};

const OP: u64 = 0x2122_2324_2526_2728;

fn put(name: &'static str, packet: Put, payload_len: u32, bytes: &str) -> Case {
    Case {
        name,
        packet: Packet::Put(packet),
        seq: PacketSeq(0xA1A2_A3A4),
        credits: Credits { data: 0xB1B2, control: 0xC1 },
        payload_len,
        bytes: hex(bytes),
    }
}

fn other(name: &'static str, packet: Packet, payload_len: u32, bytes: &str) -> Case {
    Case {
        name,
        packet,
        seq: PacketSeq(7),
        credits: Credits { data: 0x0100, control: 2 },
        payload_len,
        bytes: hex(bytes),
    }
}

/// Every kind and option. Each line of bytes is one field or one body.
pub fn cases() -> Vec<Case> {
    let mut cases = puts();
    cases.extend(bulks());
    cases.extend(controls());
    cases.extend(atomics());
    cases
}

fn puts() -> Vec<Case> {
    vec![
        put(
            "put, plain, no payload",
            PLAIN,
            0,
            "000000000000 01 01 a4a3a2a1 b2b1 c1 00 00000000 11 22 00 00
             0807060504030201 1817161514131211",
        ),
        put(
            "put, plain, eight bytes",
            PLAIN,
            8,
            "000000000000 01 01 a4a3a2a1 b2b1 c1 00 08000000 11 22 00 00
             0807060504030201 1817161514131211",
        ),
        put(
            "put, plain, as long as a payload can be",
            PLAIN,
            u32::MAX,
            "000000000000 01 01 a4a3a2a1 b2b1 c1 00 ffffffff 11 22 00 00
             0807060504030201 1817161514131211",
        ),
        put(
            "put with an offset",
            Put { remote_offset: 0x4142_4344_4546_4748, ..PLAIN },
            8,
            "000000000000 01 01 a4a3a2a1 b2b1 c1 01 08000000 11 22 00 00
             0807060504030201 1817161514131211
             4847464544434241",
        ),
        put(
            "put, full acknowledgement",
            Put { ack: Some((AckKind::Full, OP)), ..PLAIN },
            8,
            "000000000000 01 01 a4a3a2a1 b2b1 c1 00 08000000 11 22 01 00
             0807060504030201 1817161514131211
             2827262524232221",
        ),
        put(
            "put, counting acknowledgement",
            Put { ack: Some((AckKind::Count, OP)), ..PLAIN },
            8,
            "000000000000 01 01 a4a3a2a1 b2b1 c1 00 08000000 11 22 02 00
             0807060504030201 1817161514131211
             2827262524232221",
        ),
        put(
            "put, acknowledgement of completion",
            Put { ack: Some((AckKind::OperationCompleted, OP)), ..PLAIN },
            8,
            "000000000000 01 01 a4a3a2a1 b2b1 c1 00 08000000 11 22 03 00
             0807060504030201 1817161514131211
             2827262524232221",
        ),
        put(
            "put with an offset and an acknowledgement",
            Put { remote_offset: 1, ack: Some((AckKind::Full, OP)), ..PLAIN },
            1,
            "000000000000 01 01 a4a3a2a1 b2b1 c1 01 01000000 11 22 01 00
             0807060504030201 1817161514131211
             0100000000000000
             2827262524232221",
        ),
        put(
            "put, announced",
            Put {
                rts: Some(Rts {
                    total_len: 0x5152_5354_5556_5758,
                    addr: Addr(0x6162_6364_6566_6768),
                    key: MatchBits(0x7172_7374_7576_7778),
                }),
                ..PLAIN
            },
            0,
            "000000000000 01 01 a4a3a2a1 b2b1 c1 02 00000000 11 22 00 00
             0807060504030201 1817161514131211
             5857565554535251 6867666564636261 7877767574737271",
        ),
    ]
}

/// Puts whose data is fetched. The length is that of the data; no payload follows.
fn bulks() -> Vec<Case> {
    vec![
        put(
            "put to be fetched, full acknowledgement",
            Put {
                ack: Some((AckKind::Full, OP)),
                bulk: Some(Bulk { len: 0x0010_0000, addr: Addr(0x8182_8384_8586_8788) }),
                ..PLAIN
            },
            0,
            "000000000000 01 01 a4a3a2a1 b2b1 c1 04 00001000 11 22 01 00
             0807060504030201 1817161514131211
             2827262524232221 8887868584838281",
        ),
        put(
            "put to be fetched, counting acknowledgement",
            Put {
                ack: Some((AckKind::Count, OP)),
                bulk: Some(Bulk { len: 0x0010_0000, addr: Addr(0x8182_8384_8586_8788) }),
                ..PLAIN
            },
            0,
            "000000000000 01 01 a4a3a2a1 b2b1 c1 04 00001000 11 22 02 00
             0807060504030201 1817161514131211
             2827262524232221 8887868584838281",
        ),
        put(
            "put to be fetched, acknowledgement of completion",
            Put {
                ack: Some((AckKind::OperationCompleted, OP)),
                bulk: Some(Bulk { len: 0x0010_0000, addr: Addr(0x8182_8384_8586_8788) }),
                ..PLAIN
            },
            0,
            "000000000000 01 01 a4a3a2a1 b2b1 c1 04 00001000 11 22 03 00
             0807060504030201 1817161514131211
             2827262524232221 8887868584838281",
        ),
        put(
            "put to be fetched, silent",
            Put {
                ack: Some((AckKind::Silent, OP)),
                bulk: Some(Bulk { len: 0x0010_0000, addr: Addr(0x8182_8384_8586_8788) }),
                ..PLAIN
            },
            0,
            "000000000000 01 01 a4a3a2a1 b2b1 c1 04 00001000 11 22 04 00
             0807060504030201 1817161514131211
             2827262524232221 8887868584838281",
        ),
        put(
            "put to be fetched, with an offset",
            Put {
                remote_offset: 0x4142_4344_4546_4748,
                ack: Some((AckKind::Silent, OP)),
                bulk: Some(Bulk { len: 0x0010_0000, addr: Addr(0x8182_8384_8586_8788) }),
                ..PLAIN
            },
            0,
            "000000000000 01 01 a4a3a2a1 b2b1 c1 05 00001000 11 22 04 00
             0807060504030201 1817161514131211
             4847464544434241
             2827262524232221 8887868584838281",
        ),
        put(
            "put to be fetched, as much as can be, pulled only",
            Put {
                ack: Some((AckKind::Full, OP)),
                bulk: Some(Bulk { len: u32::MAX, addr: Addr(0) }),
                ..PLAIN
            },
            0,
            "000000000000 01 01 a4a3a2a1 b2b1 c1 04 ffffffff 11 22 01 00
             0807060504030201 1817161514131211
             2827262524232221 0000000000000000",
        ),
        put(
            "put to be fetched, nothing",
            Put {
                ack: Some((AckKind::Full, OP)),
                bulk: Some(Bulk { len: 0, addr: Addr(0x8182_8384_8586_8788) }),
                ..PLAIN
            },
            0,
            "000000000000 01 01 a4a3a2a1 b2b1 c1 04 00000000 11 22 01 00
             0807060504030201 1817161514131211
             2827262524232221 8887868584838281",
        ),
    ]
}

fn controls() -> Vec<Case> {
    let ack = |status| Packet::Ack(Ack { op: OP, mlength: 0x3132, status });
    vec![
        other(
            "acknowledgement",
            ack(Status::Ok),
            0,
            "000000000000 01 02 07000000 0001 02 00 00000000 00 00 00 00
             2827262524232221 3231000000000000",
        ),
        other(
            "acknowledgement, no match",
            ack(Status::NoMatch),
            0,
            "000000000000 01 02 07000000 0001 02 00 00000000 00 00 01 00
             2827262524232221 3231000000000000",
        ),
        other(
            "acknowledgement, disabled",
            ack(Status::PtDisabled),
            0,
            "000000000000 01 02 07000000 0001 02 00 00000000 00 00 02 00
             2827262524232221 3231000000000000",
        ),
        other(
            "acknowledgement, not allowed",
            ack(Status::OpViolation),
            0,
            "000000000000 01 02 07000000 0001 02 00 00000000 00 00 03 00
             2827262524232221 3231000000000000",
        ),
        other(
            "acknowledgement, memory not reached",
            ack(Status::Segv),
            0,
            "000000000000 01 02 07000000 0001 02 00 00000000 00 00 04 00
             2827262524232221 3231000000000000",
        ),
        other(
            "acknowledgement, given up",
            ack(Status::Aborted),
            0,
            "000000000000 01 02 07000000 0001 02 00 00000000 00 00 05 00
             2827262524232221 3231000000000000",
        ),
        other(
            "acknowledgement, not for this user",
            ack(Status::PermViolation),
            0,
            "000000000000 01 02 07000000 0001 02 00 00000000 00 00 06 00
             2827262524232221 3231000000000000",
        ),
        other(
            "get",
            Packet::Get(Get {
                pt_index: PtIndex(9),
                match_bits: MatchBits(0x0102_0304_0506_0708),
                op: OP,
                remote_offset: 0x4142,
                length: 0x5152_5354_5556_5758,
                into: Addr(0),
            }),
            0,
            "000000000000 01 03 07000000 0001 02 00 00000000 09 00 00 00
             0807060504030201 2827262524232221 4241000000000000 5857565554535251",
        ),
        other(
            "get with an address",
            Packet::Get(Get {
                pt_index: PtIndex(9),
                match_bits: MatchBits(0x0102_0304_0506_0708),
                op: OP,
                remote_offset: 0,
                length: 0x5152_5354_5556_5758,
                into: Addr(0x8182_8384_8586_8788),
            }),
            0,
            "000000000000 01 03 07000000 0001 02 08 00000000 09 00 00 00
             0807060504030201 2827262524232221 0000000000000000 5857565554535251
             8887868584838281",
        ),
        other(
            "reply",
            Packet::Reply(Reply { op: OP, status: Status::Ok }),
            0x1000,
            "000000000000 01 04 07000000 0001 02 00 00100000 00 00 00 00
             2827262524232221",
        ),
        other(
            "reply, no match",
            Packet::Reply(Reply { op: OP, status: Status::NoMatch }),
            0,
            "000000000000 01 04 07000000 0001 02 00 00000000 00 00 01 00
             2827262524232221",
        ),
        other(
            "reply, not for this user",
            Packet::Reply(Reply { op: OP, status: Status::PermViolation }),
            0,
            "000000000000 01 04 07000000 0001 02 00 00000000 00 00 06 00
             2827262524232221",
        ),
        other(
            "get-done",
            Packet::GetDone(GetDone {
                pt_index: PtIndex(9),
                match_bits: MatchBits(0x0102_0304_0506_0708),
                length: 0x5152_5354_5556_5758,
                status: Status::Ok,
            }),
            0,
            "000000000000 01 05 07000000 0001 02 00 00000000 09 00 00 00
             0807060504030201 5857565554535251",
        ),
        other(
            "get-done, given up",
            Packet::GetDone(GetDone {
                pt_index: PtIndex(9),
                match_bits: MatchBits(0x0102_0304_0506_0708),
                length: 0,
                status: Status::Aborted,
            }),
            0,
            "000000000000 01 05 07000000 0001 02 00 00000000 09 00 05 00
             0807060504030201 0000000000000000",
        ),
        other(
            "credit",
            Packet::Credit,
            0,
            "000000000000 01 06 07000000 0001 02 00 00000000 00 00 00 00",
        ),
        other(
            "offer",
            Packet::Offer(Offer {
                op: OP,
                mlength: 0x5152_5354_5556_5758,
                source: 0x9192_9394_9596_9798,
            }),
            0,
            "000000000000 01 08 07000000 0001 02 00 00000000 00 00 00 00
             2827262524232221 5857565554535251 9897969594939291",
        ),
        other(
            "offer, already written",
            Packet::Offer(Offer { op: OP, mlength: 0x3132, source: 0 }),
            0,
            "000000000000 01 08 07000000 0001 02 00 00000000 00 00 00 00
             2827262524232221 3231000000000000 0000000000000000",
        ),
        other(
            "pull",
            Packet::Pull(Pull {
                source: 0x9192_9394_9596_9798,
                op: OP,
                offset: 0x4142_4344_4546_4748,
                length: 0x5152_5354_5556_5758,
            }),
            0,
            "000000000000 01 09 07000000 0001 02 00 00000000 00 00 00 00
             9897969594939291 2827262524232221 4847464544434241 5857565554535251",
        ),
    ]
}

fn atomics() -> Vec<Case> {
    vec![
        other(
            "atomic",
            Packet::Atomic(Atomic {
                op: AtomicOp::Min,
                datatype: Datatype::Int8,
                answer: Answer::No,
                ..ATOMIC
            }),
            0,
            "000000000000 01 07 07000000 0001 02 00 00000000 09 00 00 00
             0807060504030201 1817161514131211 4241000000000000 0000000000000000",
        ),
        other(
            "atomic, full acknowledgement",
            Packet::Atomic(Atomic {
                op: AtomicOp::Sum,
                datatype: Datatype::Double,
                answer: Answer::Ack(AckKind::Full, OP),
                ..ATOMIC
            }),
            8,
            "000000000000 01 07 07000000 0001 02 00 08000000 09 02 01 09
             0807060504030201 1817161514131211 4241000000000000 2827262524232221",
        ),
        other(
            "atomic, counting acknowledgement",
            Packet::Atomic(Atomic {
                op: AtomicOp::Bxor,
                datatype: Datatype::Uint64,
                answer: Answer::Ack(AckKind::Count, OP),
                ..ATOMIC
            }),
            0x1000,
            "000000000000 01 07 07000000 0001 02 00 00100000 09 09 02 08
             0807060504030201 1817161514131211 4241000000000000 2827262524232221",
        ),
        other(
            "atomic, acknowledgement of completion",
            Packet::Atomic(Atomic {
                op: AtomicOp::Prod,
                datatype: Datatype::LongDoubleComplex,
                answer: Answer::Ack(AckKind::OperationCompleted, OP),
                ..ATOMIC
            }),
            32,
            "000000000000 01 07 07000000 0001 02 00 20000000 09 03 03 0d
             0807060504030201 1817161514131211 4241000000000000 2827262524232221",
        ),
        other(
            "atomic, acknowledgement to the name zero",
            Packet::Atomic(Atomic {
                op: AtomicOp::Sum,
                datatype: Datatype::Double,
                answer: Answer::Ack(AckKind::Full, 0),
                ..ATOMIC
            }),
            8,
            "000000000000 01 07 07000000 0001 02 00 08000000 09 02 01 09
             0807060504030201 1817161514131211 4241000000000000 0000000000000000",
        ),
        other(
            "atomic, fetching",
            Packet::Atomic(Atomic {
                op: AtomicOp::Mswap,
                datatype: Datatype::Uint32,
                answer: Answer::Fetch(OP),
                ..ATOMIC
            }),
            8,
            "000000000000 01 07 07000000 0001 02 00 08000000 09 11 05 05
             0807060504030201 1817161514131211 4241000000000000 2827262524232221",
        ),
        other(
            "atomic, fetching to the name zero",
            Packet::Atomic(Atomic {
                op: AtomicOp::Swap,
                datatype: Datatype::Int64,
                answer: Answer::Fetch(0),
                ..ATOMIC
            }),
            8,
            "000000000000 01 07 07000000 0001 02 00 08000000 09 0a 05 07
             0807060504030201 1817161514131211 4241000000000000 0000000000000000",
        ),
        other(
            "atomic, as long as a payload can be",
            Packet::Atomic(Atomic {
                op: AtomicOp::Max,
                datatype: Datatype::Float,
                answer: Answer::No,
                ..ATOMIC
            }),
            u32::MAX,
            "000000000000 01 07 07000000 0001 02 00 ffffffff 09 01 00 06
             0807060504030201 1817161514131211 4241000000000000 0000000000000000",
        ),
    ]
}
