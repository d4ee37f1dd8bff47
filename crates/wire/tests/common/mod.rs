//! Every kind of packet, with each of its options, beside its bytes as
//! `docs/wire.md` lays them out.

#![allow(dead_code, reason = "each test binary uses its own part")]

mod other;

use other::{atomics, controls};
use sluice_wire::{
    AckKind, Answer, Atomic, AtomicOp, Bulk, Credits, Datatype, MatchBits, Packet, PacketSeq,
    PtIndex, Put, RemoteKey, Rts, SLOT_PREFIX_BYTES,
};
use std::num::NonZeroU32;

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
    by_control: false,
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
    by_control: false,
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
            "000000000000 04 01 a4a3a2a1 b2b1 c1 00 00000000 11 22 00 00
             0807060504030201 1817161514131211",
        ),
        put(
            "put, plain, eight bytes",
            PLAIN,
            8,
            "000000000000 04 01 a4a3a2a1 b2b1 c1 00 08000000 11 22 00 00
             0807060504030201 1817161514131211",
        ),
        put(
            "put, plain, as long as a payload can be",
            PLAIN,
            u32::MAX,
            "000000000000 04 01 a4a3a2a1 b2b1 c1 00 ffffffff 11 22 00 00
             0807060504030201 1817161514131211",
        ),
        put(
            "put with an offset",
            Put { remote_offset: 0x4142_4344_4546_4748, ..PLAIN },
            8,
            "000000000000 04 01 a4a3a2a1 b2b1 c1 01 08000000 11 22 00 00
             0807060504030201 1817161514131211
             4847464544434241",
        ),
        put(
            "put, full acknowledgement",
            Put { ack: Some((AckKind::Full, OP)), ..PLAIN },
            8,
            "000000000000 04 01 a4a3a2a1 b2b1 c1 00 08000000 11 22 01 00
             0807060504030201 1817161514131211
             2827262524232221",
        ),
        put(
            "put in the control region",
            Put { ack: Some((AckKind::Full, OP)), by_control: true, ..PLAIN },
            8,
            "000000000000 04 01 a4a3a2a1 b2b1 c1 80 08000000 11 22 01 00
             0807060504030201 1817161514131211
             2827262524232221",
        ),
        put(
            "put, counting acknowledgement",
            Put { ack: Some((AckKind::Count, OP)), ..PLAIN },
            8,
            "000000000000 04 01 a4a3a2a1 b2b1 c1 00 08000000 11 22 02 00
             0807060504030201 1817161514131211
             2827262524232221",
        ),
        put(
            "put, acknowledgement of completion",
            Put { ack: Some((AckKind::OperationCompleted, OP)), ..PLAIN },
            8,
            "000000000000 04 01 a4a3a2a1 b2b1 c1 00 08000000 11 22 03 00
             0807060504030201 1817161514131211
             2827262524232221",
        ),
        put(
            "put, acknowledgement of its match",
            Put { ack: Some((AckKind::Matched, OP)), ..PLAIN },
            8,
            "000000000000 04 01 a4a3a2a1 b2b1 c1 00 08000000 11 22 05 00
             0807060504030201 1817161514131211
             2827262524232221",
        ),
        put(
            "put with an offset and an acknowledgement",
            Put { remote_offset: 1, ack: Some((AckKind::Full, OP)), ..PLAIN },
            1,
            "000000000000 04 01 a4a3a2a1 b2b1 c1 01 01000000 11 22 01 00
             0807060504030201 1817161514131211
             0100000000000000
             2827262524232221",
        ),
        put(
            "put, announced",
            Put {
                rts: Some(Rts {
                    total_len: 0x5152_5354_5556_5758,
                    from: RemoteKey::from_bits(0x6162_6364_6566_6768),
                    key: MatchBits(0x7172_7374_7576_7778),
                    claims: None,
                }),
                ..PLAIN
            },
            0,
            "000000000000 04 01 a4a3a2a1 b2b1 c1 02 00000000 11 22 00 00
             0807060504030201 1817161514131211
             5857565554535251 6867666564636261 7877767574737271",
        ),
        put(
            "put, announced, with chunk claims",
            Put {
                rts: Some(Rts {
                    total_len: 0x5152_5354_5556_5758,
                    from: RemoteKey::from_bits(0x6162_6364_6566_6768),
                    key: MatchBits(0x7172_7374_7576_7778),
                    claims: NonZeroU32::new(0x9192_9394),
                }),
                ..PLAIN
            },
            0,
            "000000000000 04 01 a4a3a2a1 b2b1 c1 02 94939291 11 22 00 00
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
                bulk: Some(Bulk {
                    len: 0x0010_0000,
                    from: RemoteKey::from_bits(0x8182_8384_8586_8788),
                }),
                ..PLAIN
            },
            0,
            "000000000000 04 01 a4a3a2a1 b2b1 c1 04 00001000 11 22 01 00
             0807060504030201 1817161514131211
             2827262524232221 8887868584838281",
        ),
        put(
            "put to be fetched, counting acknowledgement",
            Put {
                ack: Some((AckKind::Count, OP)),
                bulk: Some(Bulk {
                    len: 0x0010_0000,
                    from: RemoteKey::from_bits(0x8182_8384_8586_8788),
                }),
                ..PLAIN
            },
            0,
            "000000000000 04 01 a4a3a2a1 b2b1 c1 04 00001000 11 22 02 00
             0807060504030201 1817161514131211
             2827262524232221 8887868584838281",
        ),
        put(
            "put to be fetched, acknowledgement of completion",
            Put {
                ack: Some((AckKind::OperationCompleted, OP)),
                bulk: Some(Bulk {
                    len: 0x0010_0000,
                    from: RemoteKey::from_bits(0x8182_8384_8586_8788),
                }),
                ..PLAIN
            },
            0,
            "000000000000 04 01 a4a3a2a1 b2b1 c1 04 00001000 11 22 03 00
             0807060504030201 1817161514131211
             2827262524232221 8887868584838281",
        ),
        put(
            "put to be fetched, silent",
            Put {
                ack: Some((AckKind::Silent, OP)),
                bulk: Some(Bulk {
                    len: 0x0010_0000,
                    from: RemoteKey::from_bits(0x8182_8384_8586_8788),
                }),
                ..PLAIN
            },
            0,
            "000000000000 04 01 a4a3a2a1 b2b1 c1 04 00001000 11 22 04 00
             0807060504030201 1817161514131211
             2827262524232221 8887868584838281",
        ),
        put(
            "put to be fetched, with an offset",
            Put {
                remote_offset: 0x4142_4344_4546_4748,
                ack: Some((AckKind::Silent, OP)),
                bulk: Some(Bulk {
                    len: 0x0010_0000,
                    from: RemoteKey::from_bits(0x8182_8384_8586_8788),
                }),
                ..PLAIN
            },
            0,
            "000000000000 04 01 a4a3a2a1 b2b1 c1 05 00001000 11 22 04 00
             0807060504030201 1817161514131211
             4847464544434241
             2827262524232221 8887868584838281",
        ),
        put(
            "put to be fetched, as much as can be, pulled only",
            Put {
                ack: Some((AckKind::Full, OP)),
                bulk: Some(Bulk { len: u32::MAX, from: RemoteKey::NONE }),
                ..PLAIN
            },
            0,
            "000000000000 04 01 a4a3a2a1 b2b1 c1 04 ffffffff 11 22 01 00
             0807060504030201 1817161514131211
             2827262524232221 0000000000000000",
        ),
        put(
            "put to be fetched, in the control region",
            Put {
                ack: Some((AckKind::Full, OP)),
                bulk: Some(Bulk { len: 961, from: RemoteKey::NONE }),
                by_control: true,
                ..PLAIN
            },
            0,
            "000000000000 04 01 a4a3a2a1 b2b1 c1 84 c1030000 11 22 01 00
             0807060504030201 1817161514131211
             2827262524232221 0000000000000000",
        ),
        put(
            "put to be fetched, nothing",
            Put {
                ack: Some((AckKind::Full, OP)),
                bulk: Some(Bulk { len: 0, from: RemoteKey::from_bits(0x8182_8384_8586_8788) }),
                ..PLAIN
            },
            0,
            "000000000000 04 01 a4a3a2a1 b2b1 c1 04 00000000 11 22 01 00
             0807060504030201 1817161514131211
             2827262524232221 8887868584838281",
        ),
    ]
}
