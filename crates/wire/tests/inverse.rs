//! `parse` and `emit` are each other's exact inverse, over all packets and over
//! all byte strings.

mod common;

use common::{
    DATATYPE_AT, DETAIL_AT, FLAGS_AT, KIND_AT, PAYLOAD_LEN_AT, PLAIN, USER_AT, VERSION_AT,
    without_prefix,
};
use proptest::prelude::*;
use sluice_wire::{
    Ack, AckKind, Answer, Atomic, AtomicOp, Bulk, Credits, Cts, Datatype, Decline, Found, Get,
    GetDone, List, MatchBits, Offer, Packet, PacketSeq, Parsed, PtIndex, Pull, Put, Recovery,
    RemoteKey, Reply, ReturnResponse, Rtr, Rts, Search, Status, VERSION, Waiting, Watch, Word,
    Written,
};
use std::num::NonZeroU32;

/// Any value, the ends of the range more often than chance would have them.
fn word() -> impl Strategy<Value = u64> {
    prop_oneof![Just(0), Just(1), Just(u64::MAX), any::<u64>()]
}

fn remote_key() -> impl Strategy<Value = RemoteKey> {
    word().prop_map(RemoteKey::from_bits)
}

fn status() -> impl Strategy<Value = Status> {
    prop_oneof![
        Just(Status::Ok),
        Just(Status::NoMatch),
        Just(Status::PtDisabled),
        Just(Status::OpViolation),
        Just(Status::Segv),
        Just(Status::Aborted),
        Just(Status::PermViolation),
    ]
}

fn list() -> impl Strategy<Value = List> {
    prop_oneof![Just(List::Priority), Just(List::Overflow)]
}

fn ack_kind() -> impl Strategy<Value = AckKind> {
    prop_oneof![Just(AckKind::Full), Just(AckKind::Count), Just(AckKind::OperationCompleted)]
}

/// Those of a put that has come with its data.
fn plain_ack() -> impl Strategy<Value = AckKind> {
    prop_oneof![ack_kind(), Just(AckKind::Matched)]
}

/// What a put may have besides its match bits: an announcement; or data to be
/// fetched with a name and perhaps an offset; or any of an offset, an
/// acknowledgement and a payload.
fn put_options() -> impl Strategy<Value = (Put, u32)> {
    prop_oneof![
        (word(), proptest::option::of((plain_ack(), word())), any::<u32>(), any::<bool>())
            .prop_map(|(remote_offset, ack, len, by_control)| {
                let by_control = by_control && ack.is_some();
                (Put { remote_offset, ack, by_control, ..PLAIN }, len)
            }),
        (word(), remote_key(), word(), any::<u32>()).prop_map(|(total_len, from, key, claims)| {
            let claims = NonZeroU32::new(claims);
            let rts = Rts { total_len, from, key: MatchBits(key), claims };
            (Put { rts: Some(rts), ..PLAIN }, 0)
        }),
        (
            word(),
            prop_oneof![ack_kind(), Just(AckKind::Silent)],
            word(),
            prop_oneof![Just(0), any::<u32>()],
            remote_key(),
            any::<bool>()
        )
            .prop_map(|(remote_offset, kind, op, len, from, by_control)| {
                let (ack, bulk) = (Some((kind, op)), Some(Bulk { len, from }));
                (Put { remote_offset, ack, bulk, by_control, ..PLAIN }, 0)
            }),
    ]
}

fn answer() -> impl Strategy<Value = Answer> {
    prop_oneof![
        Just(Answer::No),
        (ack_kind(), word()).prop_map(|(kind, op)| Answer::Ack(kind, op)),
        word().prop_map(Answer::Fetch),
    ]
}

fn found() -> impl Strategy<Value = Found> {
    (any::<u8>(), any::<u8>(), word(), word(), word(), remote_key()).prop_map(
        |(pt, user, bits, hdr_data, total_len, from)| Found {
            pt_index: PtIndex(pt),
            match_bits: MatchBits(bits),
            hdr_data,
            user,
            total_len,
            from,
        },
    )
}

/// What is said about messages that wait for credits, and of credits.
fn stalled() -> impl Strategy<Value = (Packet, u32)> {
    prop_oneof![
        (any::<u8>(), word(), word(), word()).prop_map(|(pt, bits, ignore_bits, newest)| {
            let (pt_index, match_bits) = (PtIndex(pt), MatchBits(bits));
            Packet::Search(Search { pt_index, match_bits, ignore_bits, newest })
        }),
        word().prop_map(|after| Packet::Watch(Watch { after })),
        word().prop_map(|number| {
            Packet::Waiting(Waiting { watched: false, number, found: None })
        }),
        (any::<bool>(), word(), found()).prop_map(|(watched, number, found)| {
            Packet::Waiting(Waiting { watched, number, found: Some(found) })
        }),
        word().prop_map(|number| Packet::Decline(Decline { number })),
        Just(Packet::ReturnRequest),
        word().prop_map(|slots| Packet::ReturnResponse(ReturnResponse { slots })),
        (any::<u8>(), word(), word(), remote_key(), word(), any::<(u32, NonZeroU32)>()).prop_map(
            |(pt, bits, ignore_bits, into, len, (seen, claims))| {
                Packet::Rtr(Rtr {
                    pt_index: PtIndex(pt),
                    match_bits: MatchBits(bits),
                    ignore_bits,
                    into,
                    len,
                    seen: PacketSeq(seen),
                    claims,
                })
            }
        ),
        (word(), remote_key(), word(), word(), any::<u32>()).prop_map(
            |(key, into, len, op, claims)| {
                let (key, claims) = (MatchBits(key), NonZeroU32::new(claims));
                Packet::Cts(Cts { key, into, len, op, claims })
            }
        ),
        (word(), word(), status()).prop_map(|(op, len, status)| Packet::Written(Written {
            op,
            len,
            status
        })),
        (any::<u8>(), recovery_word())
            .prop_map(|(pt, word)| { Packet::Recovery(Recovery { pt_index: PtIndex(pt), word }) }),
    ]
    .prop_map(|packet| (packet, 0))
}

fn recovery_word() -> impl Strategy<Value = Word> {
    prop_oneof![
        any::<(u32, u32)>()
            .prop_map(|(epoch, first)| Word::Refuse { epoch, first: PacketSeq(first) }),
        any::<u32>().prop_map(|epoch| Word::Resume { epoch }),
        any::<u32>().prop_map(|epoch| Word::Restart { epoch }),
        Just(Word::Ask),
        Just(Word::Told),
        Just(Word::Pause),
        Just(Word::Paused),
        Just(Word::Unpause),
    ]
}

/// A packet and the length of its payload.
fn packet() -> impl Strategy<Value = (Packet, u32)> {
    prop_oneof![
        (any::<u8>(), word(), word(), any::<u8>(), put_options()).prop_map(
            |(pt, bits, hdr_data, user, (options, len))| {
                let (pt_index, match_bits) = (PtIndex(pt), MatchBits(bits));
                (Packet::Put(Put { pt_index, match_bits, hdr_data, user, ..options }), len)
            }
        ),
        (word(), word(), word(), list(), status()).prop_map(
            |(op, mlength, offset, list, status)| {
                (Packet::Ack(Ack { op, mlength, offset, list, status }), 0)
            }
        ),
        (any::<u8>(), word(), word(), word(), word(), remote_key()).prop_map(
            |(pt, bits, op, remote_offset, length, into)| {
                let get = Get {
                    pt_index: PtIndex(pt),
                    match_bits: MatchBits(bits),
                    op,
                    remote_offset,
                    length,
                    into,
                };
                (Packet::Get(get), 0)
            }
        ),
        (word(), word(), list(), status(), any::<u32>()).prop_map(
            |(op, offset, list, status, len)| {
                (Packet::Reply(Reply { op, offset, list, status }), len)
            }
        ),
        (any::<u8>(), word(), word(), status()).prop_map(|(pt, bits, length, status)| {
            let done =
                GetDone { pt_index: PtIndex(pt), match_bits: MatchBits(bits), length, status };
            (Packet::GetDone(done), 0)
        }),
        Just((Packet::Credit, 0)),
        (
            (any::<u8>(), word(), word(), word()),
            proptest::sample::select(AtomicOp::ALL),
            proptest::sample::select(Datatype::ALL),
            answer(),
            any::<(u32, bool)>()
        )
            .prop_map(
                |((pt, bits, hdr_data, remote_offset), op, datatype, answer, (len, by_control))| {
                    let atomic = Atomic {
                        pt_index: PtIndex(pt),
                        match_bits: MatchBits(bits),
                        hdr_data,
                        remote_offset,
                        op,
                        datatype,
                        answer,
                        by_control: by_control && answer != Answer::No,
                    };
                    (Packet::Atomic(atomic), len)
                }
            ),
        (word(), word(), word(), list(), word()).prop_map(|(op, mlength, offset, list, source)| {
            (Packet::Offer(Offer { op, mlength, offset, list, source }), 0)
        }),
        (word(), word(), word(), word()).prop_map(|(source, op, offset, length)| {
            (Packet::Pull(Pull { source, op, offset, length }), 0)
        }),
        stalled(),
    ]
}

/// Bytes of which a good part is a packet: those fields that choose the layout
/// are drawn from few values, the rest is arbitrary and often zero.
fn nearly_a_packet() -> impl Strategy<Value = Vec<u8>> {
    let sparse = prop_oneof![3 => Just(0u8), 1 => any::<u8>()];
    (
        proptest::collection::vec(sparse, 0..100),
        prop_oneof![9 => Just(VERSION), 1 => any::<u8>()],
        prop_oneof![9 => 1..=19u8, 1 => any::<u8>()],
        prop_oneof![6 => Just(0u8), 2 => 0..=9u8, 2 => Just(4u8), 2 => Just(8u8), 2 => Just(0x10u8), 2 => Just(0x30u8), 2 => Just(0x40u8), 2 => 0x80u8..=0x85],
        prop_oneof![6 => Just(0u8), 4 => 0..=8u8],
        prop_oneof![6 => Just(0u8), 4 => 0..=19u8],
        prop_oneof![6 => Just(0u8), 4 => 0..=15u8],
        any::<bool>(),
    )
        .prop_map(|(mut bytes, version, kind, flags, detail, user, datatype, is_empty)| {
            for (at, value) in [
                (VERSION_AT, version),
                (KIND_AT, kind),
                (FLAGS_AT, flags),
                (DETAIL_AT, detail),
                (USER_AT, user),
                (DATATYPE_AT, datatype),
            ] {
                if let Some(byte) = bytes.get_mut(at) {
                    *byte = value;
                }
            }
            if is_empty && let Some(len) = bytes.get_mut(PAYLOAD_LEN_AT..PAYLOAD_LEN_AT + 4) {
                len.fill(0);
            }
            bytes
        })
}

/// Whether `docs/wire.md` allows these bytes, written from its tables alone.
fn allowed(bytes: &[u8]) -> bool {
    if bytes.len() < 24 || bytes[6] != 4 {
        return false;
    }
    let is_ack = |detail| detail <= 3 || detail == 5;
    let (kind, flags, detail) = (bytes[7], bytes[15], bytes[22]);
    let payload = bytes[16..20] != [0; 4];
    let (pt_index, user, datatype) = (bytes[20], bytes[21], bytes[23]);
    if kind != 7 && datatype != 0 {
        return false;
    }
    let long = |len: usize| bytes.len() >= len;
    // In the control region: what is acknowledged, and waits for no receive.
    let flags = match (kind, flags) {
        (1, 0x80..) if detail != 0 && flags != 0x82 => flags & 0x7F,
        (7, 0x80) if detail != 0 => 0,
        _ => flags,
    };
    match (kind, flags) {
        (1, 0) => long(40 + if detail == 0 { 0 } else { 8 }) && is_ack(detail),
        (1, 1) => {
            long(48 + if detail == 0 { 0 } else { 8 }) && is_ack(detail) && bytes[40..48] != [0; 8]
        }
        (1, 2) => long(64) && detail == 0,
        (1, 4) => long(56) && (1..=4).contains(&detail),
        (1, 5) => long(64) && (1..=4).contains(&detail) && bytes[40..48] != [0; 8],
        (2, 0 | 64) => long(48) && detail <= 6 && pt_index == 0 && user == 0 && !payload,
        (3, 0) => long(56) && detail == 0 && user == 0 && !payload,
        (3, 8) => long(64) && detail == 0 && user == 0 && !payload && bytes[56..64] != [0; 8],
        (4, 0 | 64) => long(40) && detail <= 6 && pt_index == 0 && user == 0,
        (5, 0) => long(40) && detail <= 6 && user == 0 && !payload,
        (6, 0) => detail == 0 && pt_index == 0 && user == 0 && !payload,
        (7, 0) => {
            let answer = match detail {
                0 => long(56) && bytes[48..56] == [0; 8],
                1..=3 | 5 => long(56),
                _ => false,
            };
            answer && user <= 18 && datatype <= 19
        }
        (8, 0 | 64) => long(56) && detail == 0 && pt_index == 0 && user == 0 && !payload,
        (9, 0) => long(56) && detail == 0 && pt_index == 0 && user == 0 && !payload,
        (10, 0) => long(48) && detail == 0 && user == 0 && !payload,
        (12, 16 | 48) => long(64) && detail == 0 && !payload,
        (11..=13 | 15, 0) => long(32) && detail == 0 && pt_index == 0 && user == 0 && !payload,
        (14, 0) => detail == 0 && pt_index == 0 && user == 0 && !payload,
        (16, 0) => long(64) && detail == 0 && user == 0 && !payload && bytes[60..64] != [0; 4],
        (17, 0) => {
            let reserved = long(64) && bytes[60..64] == [0; 4];
            reserved && detail == 0 && pt_index == 0 && user == 0 && !payload
        }
        (18, 0) => long(40) && detail <= 6 && pt_index == 0 && user == 0 && !payload,
        (19, 0) => {
            let is_zero = |from: usize, to: usize| bytes[from..to].iter().all(|&byte| byte == 0);
            let says = match detail {
                1 => true,
                2 | 3 => long(32) && is_zero(28, 32),
                4..=8 => long(32) && is_zero(24, 32),
                _ => false,
            };
            long(32) && says && user == 0 && !payload
        }
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
