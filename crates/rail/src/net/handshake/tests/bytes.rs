//! Bytes as they travel.

use super::super::hello::{FABRICS_MAX, FabricHello, FabricName, TagsName};
use super::*;
use crate::address::Secret;
use crate::hash::check_of;
use crate::net::devices::DEVICES_MAX;
use crate::net::handshake::noise::{PATTERN, prologue_of, psk_of};

/// The bytes of [`hello`] of a process with this address.
fn hello_bytes(address: &Address) -> Vec<u8> {
    let mut bytes = address.to_bytes().to_vec();
    // Attempt, user, label.
    bytes.extend(*b"\x04\x03\x02\x01\xe8\x03\0\0\x88\x77\x66\x55\x44\x33\x22\x11");
    // Slots: data, control, credit, dynamic.
    bytes.extend(*b"\0\x04\x20\x08\x0d\x0c\x0b\x0a");
    // Device here, there, how many, zero.
    bytes.extend(*b"\x03\xff\x02\0");
    // Index, prefixes, zero, port, IPv4, IPv6, speed.
    bytes.extend(*b"\0\x18\x40\0\x34\x12\xc0\0\x02\x07");
    bytes.extend(*b"\x20\x01\x0d\xb8\0\0\0\0\0\0\0\0\0\0\0\x08\x10\x27\0\0");
    bytes.extend(*b"\x03\0\x20\0\x34\x12\0\0\0\0");
    bytes.extend(*b"\x20\x01\x0d\xb8\0\0\0\0\0\0\0\0\0\0\0\x09\x10\x27\0\0");
    bytes
}

#[test]
fn every_field_of_a_hello_has_its_place() {
    let own = process(1);
    let bytes = hello_bytes(&own.address());
    assert_eq!(hello(&own).to_bytes(), bytes);
    assert_eq!(Hello::from_bytes(&bytes), Ok(hello(&own)));
    let known = Hello { peer_device: Some(2), ..hello(&own) };
    assert_eq!(known.to_bytes()[89], 2);
    assert_eq!(Hello::from_bytes(&known.to_bytes()), Ok(known));
}

#[test]
fn the_messages_in_clear_are_these_bytes() {
    let (a, b) = (process(1), process(2));
    let (mut initiator, ask) =
        Initiator::new(&a, &b.address(), Security::None, &hello(&a)).unwrap();
    // The key that is wanted, the hello, the checksum: 32 + 152 + 4 bytes.
    let mut wanted = b"SLhs\x02\x01\x01\0\xbc\0".to_vec();
    wanted.extend(b.address().key());
    wanted.extend(hello_bytes(&a.address()));
    wanted.extend(check_of(&wanted).to_le_bytes());
    assert_eq!(ask, wanted);

    let (asked, _) = Responder::new(&b, Security::None).take(&ask).unwrap().unwrap();
    let (mut accepted, answer) = asked.accept(&hello(&b)).unwrap();
    let mut wanted = b"SLhs\x02\x01\x02\0\x9d\0\0".to_vec();
    wanted.extend(hello_bytes(&b.address()));
    wanted.extend(check_of(&wanted).to_le_bytes());
    assert_eq!(answer, wanted);

    let (answered, _) = initiator.take(&answer).unwrap().unwrap();
    assert_eq!(answered.proof, b"SLhs\x02\x01\x03\0\0\0");
    assert!(accepted.take(&answered.proof).unwrap().is_some());

    for (refusal, code) in [
        (Refusal::OwnFirst, 1),
        (Refusal::GivenUp, 2),
        (Refusal::NoRoom, 3),
        (Refusal::Matching, 4),
    ] {
        let (asked, _) = Responder::new(&b, Security::None).take(&ask).unwrap().unwrap();
        let mut wanted = b"SLhs\x02\x01\x02\0\x05\0".to_vec();
        wanted.push(code);
        wanted.extend(check_of(&wanted).to_le_bytes());
        assert_eq!(asked.refuse(refusal).unwrap(), wanted);
    }
}

#[test]
fn the_key_made_of_a_secret_is_the_hash_of_label_and_secret() {
    // BLAKE2s-256 by Python's hashlib.
    let wanted = "5354d385945ee4a2fdaee096df541f59a50fa3e31fe247dc12cf89273e0d2963";
    let psk = psk_of(Secret(*b"\x11\x12\x13\x14\x15\x16"));
    assert_eq!(psk.map(|byte| format!("{byte:02x}")).concat(), wanted);
}

/// The other end made of `snow` alone: the messages are those of the pattern, over the
/// label and the preface of the ask.
#[test]
fn the_sealed_messages_are_those_of_noise() {
    let (a, b) = (process(1), process(2));
    for (mode, code) in [(Security::Auth, 2), (Security::Encrypt, 3)] {
        let (mut initiator, ask) = Initiator::new(&a, &b.address(), mode, &hello(&a)).unwrap();
        assert_eq!(PATTERN, "Noise_IKpsk0_25519_ChaChaPoly_BLAKE2s");
        // 248: 96 of Noise, 152 of the hello.
        assert_eq!(ask[..10], [b'S', b'L', b'h', b's', 2, code, 1, 0, 248, 0]);
        let prologue = [b"Sluice handshake 2", &ask[..10]].concat();
        assert_eq!(prologue_of(&ask[..10]), prologue);
        let psk = psk_of(b.address().secret());
        let mut other = snow::Builder::new(PATTERN.parse().unwrap())
            .psk(0, &psk)
            .and_then(|builder| builder.local_private_key(b.private()))
            .and_then(|builder| builder.prologue(&prologue))
            .and_then(snow::Builder::build_responder)
            .unwrap();
        let mut payload = [0; 1024];
        let length = other.read_message(&ask[10..], &mut payload).unwrap();
        assert_eq!(payload[..length], hello_bytes(&a.address()));
        assert_eq!(other.get_remote_static().unwrap(), a.address().key());

        let content = [&[0], &hello_bytes(&b.address())[..]].concat();
        // 201: 48 of Noise, 1 and 152 of the hello.
        let mut answer = vec![b'S', b'L', b'h', b's', 2, code, 2, 0, 201, 0];
        answer.resize(211, 0);
        assert_eq!(other.write_message(&content, &mut answer[10..]).unwrap(), 201);
        let (answered, used) = initiator.take(&answer).unwrap().unwrap();
        assert_eq!((answered.established.hello, used), (hello(&b), 211));
        assert_eq!(answered.proof[..10], [b'S', b'L', b'h', b's', 2, code, 3, 0, 16, 0]);
        let mut other = other.into_transport_mode().unwrap();
        assert_eq!(other.read_message(&answered.proof[10..], &mut payload).unwrap(), 0);
    }
}

#[test]
fn a_hello_is_refused_that_nobody_sends() {
    let own = process(1);
    let good = hello_bytes(&own.address());
    // Where, what, and what is said of it.
    let cases: [(usize, &[u8], &str); 21] = [
        (1, &[9], "version 9"),
        (80, &[0, 0], "slots"),
        (82, &[0], "slots"),
        (83, &[1], "slots"),
        (84, &[0xff; 4], "slots"),
        (88, &[1], "does not tell of"),
        (88, &[16], "does not tell of"),
        (88, &[255], "does not tell of"),
        (89, &[16], "impossible device"),
        (90, &[1], "length of its devices"),
        (91, &[1], "reserved"),
        (92, &[16], "impossible device"),
        (92, &[3], "twice"),
        (93, &[33], "prefix"),
        (94, &[129], "prefix"),
        (95, &[1], "reserved"),
        (96, &[0, 0], "nobody can be asked"),
        (98, &[224], "nobody can be asked"),
        (98, &[0; 4], "nobody can be asked"),
        (102, &[0xff], "nobody can be asked"),
        (124, &[0; 26], "without address"),
    ];
    for (at, bytes, why) in cases {
        let mut bad = good.clone();
        bad[at..at + bytes.len()].copy_from_slice(bytes);
        let text = Hello::from_bytes(&bad).unwrap_err().to_string();
        assert!(text.contains(why), "{at}: {text}");
    }
    for length in (0..good.len()).chain([good.len() + 1]) {
        let bad = [&good[..], &[0]].concat();
        assert!(Hello::from_bytes(&bad[..length]).is_err(), "length {length}");
    }
    // A device may have an address of its link alone: both ends know which link it is.
    let mut of_link = good.clone();
    of_link[132..140].copy_from_slice(b"\xfe\x80\0\0\0\0\0\0");
    let read = Hello::from_bytes(&of_link).unwrap();
    let at = read.devices[1].addresses.first().to_string();
    assert_eq!((&*at, read.to_bytes()), ("fe80::9", of_link));
    let none = [&good[..90], &[0, 0]].concat();
    assert!(Hello::from_bytes(&none).unwrap_err().to_string().contains("none or too many"));
    let mut many = good[..92].to_vec();
    many[90] = 17;
    for index in 0..17 {
        many.extend(&good[92..122]);
        many[92 + 30 * index] = index as u8;
    }
    assert!(Hello::from_bytes(&many).is_err());
    many[90] = 16;
    many.truncate(92 + 16 * 30);
    let mut most = Hello::from_bytes(&many).unwrap();
    assert_eq!(most.devices.len(), DEVICES_MAX);
    let name =
        |index| FabricName { index, provider: "p".repeat(32), name: vec![7; 64], tags: None };
    let mut devices: Vec<FabricName> = (0..FABRICS_MAX as u8).map(name).collect();
    devices[3].tags = Some(TagsName { id: [5; 16], names: [vec![8; 64], vec![9; 64]] });
    most.fabric = Some(FabricHello { token: [9; 16], devices });
    let peer = process(2);
    let (_, ask) = Initiator::new(&own, &peer.address(), Security::Auth, &most).unwrap();
    assert_eq!((ask.len(), MESSAGE_BYTES_MAX), (1638, 1638), "docs/wire.md says so");
}

/// What is told of libfabric's devices is read as it was written, and nothing else is taken
/// for it.
#[test]
fn devices_of_libfabric_are_told_behind_the_others() {
    let mut told = hello(&process(1));
    let name =
        |index| FabricName { index, provider: "udp;ofi_rxd".into(), name: vec![7; 16], tags: None };
    told.fabric = Some(FabricHello { token: [9; 16], devices: vec![name(3), name(0)] });
    let bytes = told.to_bytes();
    assert_eq!(bytes[152..168], [9; 16]);
    assert_eq!(bytes[168..172], [3, 11, 16, 0]);
    assert_eq!(Hello::from_bytes(&bytes), Ok(told.clone()));
    assert_eq!((told.provider_of(3), told.provider_of(1)), (Some("udp;ofi_rxd"), None));
    for length in 153..bytes.len() {
        // The second device is whole or not there.
        let is_whole = length == 199;
        assert_eq!(Hello::from_bytes(&bytes[..length]).is_ok(), is_whole, "length {length}");
    }
    for (at, byte) in [(168, 1), (169, 0), (170, 0), (171, 1), (172, 0xff), (199, 3)] {
        let mut bad = bytes.clone();
        bad[at] = byte;
        assert!(Hello::from_bytes(&bad).is_err(), "{at}");
    }
}

#[test]
fn endpoints_that_match_tags_are_told_of_one_device_at_most() {
    let mut told = hello(&process(1));
    let tags = TagsName { id: [5; 16], names: [vec![8; 16], vec![9; 16]] };
    let name = |index| FabricName {
        index,
        provider: "tcp".into(),
        name: vec![7; 16],
        tags: (index == 3).then(|| tags.clone()),
    };
    told.fabric = Some(FabricHello { token: [9; 16], devices: vec![name(3), name(0)] });
    let bytes = told.to_bytes();
    assert_eq!(Hello::from_bytes(&bytes), Ok(told.clone()));
    assert_eq!(told.tags(), Some(("tcp", &tags)));
    let twice = [&bytes[..231], &[0], &bytes[161..231]].concat();
    assert!(Hello::from_bytes(&twice).is_err());
}
