//! What is not a packet is refused with the right error, and nothing panics.

mod common;

use common::{
    Case, DATATYPE_AT, DETAIL_AT, FLAGS_AT, KIND_AT, PAYLOAD_LEN_AT, PT_INDEX_AT, USER_AT,
    VERSION_AT, cases, without_prefix,
};
use sluice_wire::{HEAD_BYTES, Packet, Parsed, SLOT_PREFIX_BYTES, VERSION, WireError};

fn case(name: &str) -> Case {
    cases().into_iter().find(|case| case.name == name).unwrap_or_else(|| panic!("no {name}"))
}

fn with(name: &str, at: usize, value: u8) -> Result<Parsed, WireError> {
    let mut bytes = case(name).bytes;
    bytes[at] = value;
    Packet::parse(&bytes)
}

/// One packet of each kind, with the value of its kind field.
const KINDS: [(&str, u8); 19] = [
    ("put, plain, no payload", 1),
    ("acknowledgement", 2),
    ("get", 3),
    ("reply, no match", 4),
    ("get-done", 5),
    ("credit", 6),
    ("atomic", 7),
    ("offer", 8),
    ("pull", 9),
    ("search", 10),
    ("watch", 11),
    ("waiting, nothing", 12),
    ("decline", 13),
    ("return request", 14),
    ("return response", 15),
    ("rtr", 16),
    ("cts", 17),
    ("written", 18),
    ("recovery, refuse", 19),
];

#[test]
fn every_truncation() {
    for case in cases() {
        for have in 0..case.bytes.len() {
            let Err(WireError::Truncated { need, have: said }) = Packet::parse(&case.bytes[..have])
            else {
                panic!("{}: cut to {have} bytes but not refused as truncated", case.name);
            };
            assert_eq!(said, have, "{}", case.name);
            assert!(have < need && need <= case.bytes.len(), "{}: need {need}", case.name);
            assert!(have >= HEAD_BYTES || need == HEAD_BYTES, "{}: need {need}", case.name);
        }
    }
}

#[test]
fn an_answer_that_does_not_say_where() {
    for (name, have) in [("acknowledgement", 40), ("reply, no match", 32), ("offer", 48)] {
        let bytes = case(name).bytes;
        let need = bytes.len();
        assert_eq!(need, have + 8, "{name}");
        let read = Packet::parse(&bytes[..have]);
        assert_eq!(read, Err(WireError::Truncated { need, have }), "{name}");
    }
}

/// Whatever is read is what those bytes say: written again, it is the same
/// bytes. So a corrupted packet is another packet or an error.
fn assert_refused_or_exact(bytes: &[u8], what: &str) {
    if let Ok(parsed) = Packet::parse(bytes) {
        let again = parsed.packet.emit(parsed.seq, parsed.credits, parsed.payload_len);
        let header = &bytes[..parsed.payload_offset as usize];
        assert_eq!(again.bytes(), without_prefix(header), "{what}");
    }
}

#[test]
fn every_corruption_of_one_byte() {
    for case in cases() {
        // With bytes behind the header too, which a changed kind or flag may
        // take for more header.
        for behind in [0, 8, 64] {
            let mut bytes = case.bytes.clone();
            bytes.resize(case.bytes.len() + behind, 0x5A);
            for at in 0..case.bytes.len() {
                let before = bytes[at];
                for value in 0..=u8::MAX {
                    bytes[at] = value;
                    assert_refused_or_exact(&bytes, case.name);
                }
                bytes[at] = before;
            }
        }
    }
}

#[test]
fn every_pair_of_values_in_the_fields_that_choose_the_layout() {
    for case in cases() {
        let mut bytes = case.bytes.clone();
        bytes.resize(128, 0);
        for kind in 0..=20 {
            for flags in 0..=u8::MAX {
                for detail in 0..=8 {
                    bytes[KIND_AT] = kind;
                    bytes[FLAGS_AT] = flags;
                    bytes[DETAIL_AT] = detail;
                    assert_refused_or_exact(&bytes, case.name);
                }
            }
        }
    }
}

/// Whether the operation goes with the type is not a matter of the bytes: the
/// target refuses that.
#[test]
fn every_operation_on_every_type() {
    for answer in ["atomic", "atomic, full acknowledgement", "atomic, fetching"] {
        let mut bytes = case(answer).bytes;
        for op in 0..=u8::MAX {
            for datatype in 0..=u8::MAX {
                bytes[USER_AT] = op;
                bytes[DATATYPE_AT] = datatype;
                assert_refused_or_exact(&bytes, answer);
                let there_are = op <= 18 && datatype <= 19;
                assert_eq!(Packet::parse(&bytes).is_ok(), there_are, "{op}, {datatype}");
            }
        }
    }
}

#[test]
fn other_versions() {
    for (name, _) in KINDS {
        for version in (0..=u8::MAX).filter(|&version| version != VERSION) {
            assert_eq!(with(name, VERSION_AT, version), Err(WireError::Version(version)));
        }
    }
}

#[test]
fn unknown_kinds() {
    for kind in (0..=u8::MAX).filter(|kind| !(1..=19).contains(kind)) {
        assert_eq!(with("credit", KIND_AT, kind), Err(WireError::Kind(kind)));
        // Said of the kind even where other fields are wrong for every kind.
        let mut bytes = case("credit").bytes;
        bytes[KIND_AT] = kind;
        bytes[FLAGS_AT] = 0xFF;
        bytes[DATATYPE_AT] = 0xFF;
        assert_eq!(Packet::parse(&bytes), Err(WireError::Kind(kind)));
    }
}

#[test]
fn flags() {
    for (name, kind) in KINDS {
        for flags in 1..=u8::MAX {
            let allowed = (kind == 1 && flags & !0b1000_0111 == 0)
                || (kind == 7 && flags == 0x80)
                || (kind == 3 && flags == 8)
                || ([2, 4, 8].contains(&kind) && flags == 0x40)
                || (kind == 12 && (flags == 0x10 || flags == 0x30));
            if !allowed {
                assert_eq!(with(name, FLAGS_AT, flags), Err(WireError::Flags { kind, flags }));
            }
        }
    }
    // An offset that is written out but zero.
    let mut bytes = case("put with an offset").bytes;
    bytes[40..48].fill(0);
    assert_eq!(Packet::parse(&bytes), Err(WireError::Flags { kind: 1, flags: 1 }));
    // Announced, with an offset, with an acknowledgement.
    let mut bytes = case("put, announced").bytes;
    bytes.resize(128, 1);
    bytes[FLAGS_AT] = 3;
    assert_eq!(Packet::parse(&bytes), Err(WireError::Flags { kind: 1, flags: 3 }));
    bytes[FLAGS_AT] = 2;
    bytes[DETAIL_AT] = 1;
    assert_eq!(Packet::parse(&bytes), Err(WireError::Flags { kind: 1, flags: 2 }));
}

#[test]
fn flags_of_what_is_fetched() {
    // Nobody could be told that the data has been fetched.
    let mut bytes = case("put to be fetched, silent").bytes;
    bytes[DETAIL_AT] = 0;
    assert_eq!(Packet::parse(&bytes), Err(WireError::Flags { kind: 1, flags: 4 }));
    assert_eq!(
        with("put, plain, no payload", FLAGS_AT, 4),
        Err(WireError::Flags { kind: 1, flags: 4 })
    );
    // Announced to the layer above and to be fetched at once, in each order.
    for flags in [6, 7] {
        for detail in 0..=4 {
            let mut bytes = case("put, announced").bytes;
            bytes.resize(128, 1);
            bytes[FLAGS_AT] = flags;
            bytes[DETAIL_AT] = detail;
            assert_eq!(Packet::parse(&bytes), Err(WireError::Flags { kind: 1, flags }));
        }
    }
    // An offset that is written out but zero.
    let mut bytes = case("put to be fetched, with an offset").bytes;
    bytes[40..48].fill(0);
    assert_eq!(Packet::parse(&bytes), Err(WireError::Flags { kind: 1, flags: 5 }));
}

#[test]
fn flags_of_what_is_in_the_control_region() {
    // Nobody could be told that its slots are free.
    for (name, kind) in [("put, plain, no payload", 1), ("atomic", 7)] {
        let refused = Err(WireError::Flags { kind, flags: 0x80 });
        assert_eq!(with(name, FLAGS_AT, 0x80), refused);
    }
    // What waits for a receive is never there.
    let refused = Err(WireError::Flags { kind: 1, flags: 0x82 });
    assert_eq!(with("put, announced", FLAGS_AT, 0x82), refused);
}

#[test]
fn an_address_of_a_get_that_is_written_out_but_zero() {
    let mut bytes = case("get with an address").bytes;
    bytes[56..64].fill(0);
    assert_eq!(Packet::parse(&bytes), Err(WireError::Flags { kind: 3, flags: 8 }));
    // One byte of it is enough to be an address.
    for at in 56..64 {
        bytes[at] = 1;
        assert!(Packet::parse(&bytes).is_ok(), "byte {at}");
        bytes[at] = 0;
    }
}

#[test]
fn a_name_for_an_answer_that_nobody_wants() {
    for at in 48..56 {
        for value in 1..=u8::MAX {
            assert_eq!(with("atomic", at, value), Err(WireError::Reserved(7)), "byte {at}");
        }
    }
    assert_eq!(with("atomic, fetching", DETAIL_AT, 0), Err(WireError::Reserved(7)));
}

#[test]
fn fields_that_must_be_zero() {
    // Kind, and the fields that it leaves unused.
    let rows: [(u8, &[usize]); 14] = [
        (1, &[DATATYPE_AT]),
        (2, &[DATATYPE_AT, PT_INDEX_AT, USER_AT]),
        (3, &[DATATYPE_AT, USER_AT, DETAIL_AT]),
        (4, &[DATATYPE_AT, PT_INDEX_AT, USER_AT]),
        (5, &[DATATYPE_AT, USER_AT]),
        (6, &[DATATYPE_AT, PT_INDEX_AT, USER_AT, DETAIL_AT]),
        (8, &[DATATYPE_AT, PT_INDEX_AT, USER_AT, DETAIL_AT]),
        (9, &[DATATYPE_AT, PT_INDEX_AT, USER_AT, DETAIL_AT]),
        (10, &[DATATYPE_AT, USER_AT, DETAIL_AT]),
        (11, &[DATATYPE_AT, PT_INDEX_AT, USER_AT, DETAIL_AT]),
        (12, &[DATATYPE_AT, PT_INDEX_AT, USER_AT, DETAIL_AT]),
        (13, &[DATATYPE_AT, PT_INDEX_AT, USER_AT, DETAIL_AT]),
        (14, &[DATATYPE_AT, PT_INDEX_AT, USER_AT, DETAIL_AT]),
        (15, &[DATATYPE_AT, PT_INDEX_AT, USER_AT, DETAIL_AT]),
    ];
    for (kind, fields) in rows {
        let name = KINDS[usize::from(kind) - 1].0;
        for &at in fields {
            for value in 1..=u8::MAX {
                assert_eq!(
                    with(name, at, value),
                    Err(WireError::Reserved(kind)),
                    "{name}, byte {at}"
                );
            }
        }
    }
}

#[test]
fn acknowledgement_kinds_and_states() {
    for code in 6..=u8::MAX {
        for name in ["put, plain, no payload", "put to be fetched, silent"] {
            assert_eq!(with(name, DETAIL_AT, code), Err(WireError::AckKind(code)), "{name}");
        }
    }
    // What is fetched has met an entry.
    assert_eq!(with("put to be fetched, silent", DETAIL_AT, 5), Err(WireError::AckKind(5)));
    for code in 6..=u8::MAX {
        assert_eq!(with("atomic", DETAIL_AT, code), Err(WireError::AckKind(code)));
    }
    for code in 7..=u8::MAX {
        for name in ["acknowledgement", "reply, no match", "get-done"] {
            assert_eq!(with(name, DETAIL_AT, code), Err(WireError::Status(code)), "{name}");
        }
    }
}

#[test]
fn silence_where_the_packet_carries_its_data() {
    for name in [
        "put, full acknowledgement",
        "put with an offset and an acknowledgement",
        "atomic",
        "atomic, full acknowledgement",
        "atomic, fetching",
    ] {
        assert_eq!(with(name, DETAIL_AT, 4), Err(WireError::AckKind(4)), "{name}");
    }
}

#[test]
fn operations_and_types() {
    for name in ["atomic", "atomic, full acknowledgement", "atomic, fetching"] {
        for code in 19..=u8::MAX {
            assert_eq!(with(name, USER_AT, code), Err(WireError::AtomicOp(code)), "{name}");
        }
        for code in 20..=u8::MAX {
            assert_eq!(with(name, DATATYPE_AT, code), Err(WireError::Datatype(code)), "{name}");
        }
    }
}

#[test]
fn an_rtr_without_claims() {
    let mut bytes = case("rtr").bytes;
    bytes[60..64].fill(0);
    assert_eq!(Packet::parse(&bytes), Err(WireError::NoClaims));
}

#[test]
fn a_cts_with_something_behind_its_claims() {
    for at in 60..64 {
        assert_eq!(with("cts", at, 1), Err(WireError::Reserved(17)));
    }
}

#[test]
fn words_of_recovery() {
    for code in [0].into_iter().chain(9..=u8::MAX) {
        assert_eq!(with("recovery, told", DETAIL_AT, code), Err(WireError::Word(code)));
    }
    // What a word does not say is zero.
    for name in ["recovery, ask", "recovery, told", "recovery, pause", "recovery, paused"] {
        for at in 24..32 {
            assert_eq!(with(name, at, 1), Err(WireError::Reserved(19)), "{name}");
        }
    }
    for name in ["recovery, resume", "recovery, restart"] {
        for at in 28..32 {
            assert_eq!(with(name, at, 1), Err(WireError::Reserved(19)), "{name}");
        }
    }
}

#[test]
fn payload_where_none_may_be() {
    let rows = [
        ("acknowledgement", 2),
        ("get", 3),
        ("get with an address", 3),
        ("get-done", 5),
        ("credit", 6),
        ("offer", 8),
        ("pull", 9),
        ("search", 10),
        ("watch", 11),
        ("waiting, nothing", 12),
        ("decline", 13),
        ("return request", 14),
        ("return response", 15),
        ("rtr", 16),
        ("cts", 17),
        ("written", 18),
        ("recovery, told", 19),
    ];
    for (name, kind) in rows {
        for (byte, len) in [(0, 1), (3, 1 << 24)] {
            assert_eq!(
                with(name, PAYLOAD_LEN_AT + byte, 1),
                Err(WireError::Payload { kind, len }),
                "{name}"
            );
        }
    }
}

#[test]
fn errors_read_well() {
    let rows = [
        (
            WireError::Truncated { need: 24, have: 3 },
            "packet truncated: 3 bytes, its headers need 24",
        ),
        (WireError::Version(9), "wire version 9 is not 4"),
        (WireError::Kind(9), "unknown packet kind 9"),
        (WireError::Flags { kind: 2, flags: 1 }, "flags 0x01 are not allowed on packet kind 2"),
        (WireError::Reserved(2), "reserved field of packet kind 2 is not zero"),
        (WireError::AckKind(9), "unknown acknowledgement kind 9"),
        (WireError::Status(9), "unknown status 9"),
        (WireError::AtomicOp(19), "unknown atomic operation 19"),
        (WireError::Datatype(20), "unknown datatype 20"),
        (WireError::Word(9), "unknown word of recovery 9"),
        (WireError::NoClaims, "an RTR names no chunk claims"),
        (
            WireError::Payload { kind: 6, len: 1 },
            "packet kind 6 carries 1 bytes of payload but may carry none",
        ),
    ];
    for (error, text) in rows {
        assert_eq!(error.to_string(), text);
    }
    assert_eq!(SLOT_PREFIX_BYTES, 6);
}
