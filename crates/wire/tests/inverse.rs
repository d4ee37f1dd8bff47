//! `parse` and `emit` are each other's exact inverse, over all packets and over
//! all byte strings.

mod common;

use common::{DETAIL_AT, FLAGS_AT, KIND_AT, RESERVED_AT, VERSION_AT, without_prefix};
use proptest::prelude::*;
use sluice_wire::{
    Ack, AckKind, Addr, Credits, Get, GetDone, MatchBits, Packet, PacketSeq, Parsed, PtIndex, Put,
    Reply, Rts, Status, VERSION,
};

/// Any value, the ends of the range more often than chance would have them.
fn word() -> impl Strategy<Value = u64> {
    prop_oneof![Just(0), Just(1), Just(u64::MAX), any::<u64>()]
}

fn status() -> impl Strategy<Value = Status> {
    prop_oneof![
        Just(Status::Ok),
        Just(Status::NoMatch),
        Just(Status::PtDisabled),
        Just(Status::OpViolation),
        Just(Status::Segv),
        Just(Status::Aborted),
    ]
}

fn ack_kind() -> impl Strategy<Value = AckKind> {
    prop_oneof![Just(AckKind::Full), Just(AckKind::Count), Just(AckKind::OperationCompleted)]
}

/// What a put may have besides its match bits: an announcement, or any of an
/// offset, an acknowledgement and a payload.
fn put_options() -> impl Strategy<Value = (u64, Option<(AckKind, u64)>, Option<Rts>, u32)> {
    prop_oneof![
        (word(), proptest::option::of((ack_kind(), word())), any::<u32>())
            .prop_map(|(offset, ack, len)| (offset, ack, None, len)),
        (word(), word(), word()).prop_map(|(total_len, addr, key)| {
            (0, None, Some(Rts { total_len, addr: Addr(addr), key: MatchBits(key) }), 0)
        }),
    ]
}

/// A packet and the length of its payload.
fn packet() -> impl Strategy<Value = (Packet, u32)> {
    prop_oneof![
        (any::<u8>(), word(), word(), any::<u8>(), put_options()).prop_map(
            |(pt, bits, hdr_data, user, (remote_offset, ack, rts, len))| {
                let put = Put {
                    pt_index: PtIndex(pt),
                    match_bits: MatchBits(bits),
                    hdr_data,
                    user,
                    remote_offset,
                    ack,
                    rts,
                };
                (Packet::Put(put), len)
            }
        ),
        (word(), word(), status())
            .prop_map(|(op, mlength, status)| (Packet::Ack(Ack { op, mlength, status }), 0)),
        (any::<u8>(), word(), word(), word(), word()).prop_map(
            |(pt, bits, op, remote_offset, length)| {
                let get = Get {
                    pt_index: PtIndex(pt),
                    match_bits: MatchBits(bits),
                    op,
                    remote_offset,
                    length,
                };
                (Packet::Get(get), 0)
            }
        ),
        (word(), status(), any::<u32>())
            .prop_map(|(op, status, len)| (Packet::Reply(Reply { op, status }), len)),
        (any::<u8>(), word(), word(), status()).prop_map(|(pt, bits, length, status)| {
            let done =
                GetDone { pt_index: PtIndex(pt), match_bits: MatchBits(bits), length, status };
            (Packet::GetDone(done), 0)
        }),
        Just((Packet::Credit, 0)),
    ]
}

/// Bytes of which a good part is a packet: those fields that choose the layout
/// are drawn from few values, the rest is arbitrary and often zero.
fn nearly_a_packet() -> impl Strategy<Value = Vec<u8>> {
    let sparse = prop_oneof![3 => Just(0u8), 1 => any::<u8>()];
    (
        proptest::collection::vec(sparse, 0..100),
        prop_oneof![9 => Just(VERSION), 1 => any::<u8>()],
        prop_oneof![9 => 1..=6u8, 1 => any::<u8>()],
        prop_oneof![6 => Just(0u8), 4 => 0..=4u8],
        prop_oneof![6 => Just(0u8), 4 => 0..=7u8],
    )
        .prop_map(|(mut bytes, version, kind, flags, detail)| {
            for (at, value) in [
                (VERSION_AT, version),
                (KIND_AT, kind),
                (FLAGS_AT, flags),
                (DETAIL_AT, detail),
                (RESERVED_AT, 0),
            ] {
                if let Some(byte) = bytes.get_mut(at) {
                    *byte = value;
                }
            }
            bytes
        })
}

/// Whether `docs/wire.md` allows these bytes, written from its tables alone.
fn allowed(bytes: &[u8]) -> bool {
    if bytes.len() < 24 || bytes[6] != 1 || bytes[23] != 0 {
        return false;
    }
    let (kind, flags, detail) = (bytes[7], bytes[15], bytes[22]);
    let payload = bytes[16..20] != [0; 4];
    let (pt_index, user) = (bytes[20], bytes[21]);
    let long = |len: usize| bytes.len() >= len;
    match (kind, flags) {
        (1, 0) => long(40 + if detail == 0 { 0 } else { 8 }) && detail <= 3,
        (1, 1) => {
            long(48 + if detail == 0 { 0 } else { 8 }) && detail <= 3 && bytes[40..48] != [0; 8]
        }
        (1, 2) => long(64) && detail == 0 && !payload,
        (2, 0) => long(40) && detail <= 5 && pt_index == 0 && user == 0 && !payload,
        (3, 0) => long(56) && detail == 0 && user == 0 && !payload,
        (4, 0) => long(32) && detail <= 5 && pt_index == 0 && user == 0,
        (5, 0) => long(40) && detail <= 5 && user == 0 && !payload,
        (6, 0) => detail == 0 && pt_index == 0 && user == 0 && !payload,
        _ => false,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4096, ..ProptestConfig::default() })]

    #[test]
    fn parse_undoes_emit(
        (packet, payload_len) in packet(),
        seq in any::<u32>(),
        data in any::<u16>(),
        control in any::<u8>(),
    ) {
        let credits = Credits { data, control };
        let head = packet.emit(PacketSeq(seq), credits, payload_len);
        prop_assert_eq!(head.len(), packet.header_bytes() as usize);
        let parsed = Parsed {
            seq: PacketSeq(seq),
            credits,
            packet,
            payload_offset: packet.header_bytes(),
            payload_len,
        };
        prop_assert_eq!(Packet::parse(head.bytes()), Ok(parsed));
        prop_assert_eq!(Packet::parse(head.slot()), Ok(parsed));
    }

    #[test]
    fn emit_undoes_parse(bytes in nearly_a_packet()) {
        let parsed = Packet::parse(&bytes);
        prop_assert_eq!(parsed.is_ok(), allowed(&bytes), "{:?} of {:?}", parsed, bytes);
        if let Ok(parsed) = parsed {
            let head = parsed.packet.emit(parsed.seq, parsed.credits, parsed.payload_len);
            let header = &bytes[..parsed.payload_offset as usize];
            prop_assert_eq!(head.bytes(), without_prefix(header));
        }
    }

    #[test]
    fn any_bytes_at_all(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        prop_assert_eq!(Packet::parse(&bytes).is_ok(), allowed(&bytes));
    }
}
