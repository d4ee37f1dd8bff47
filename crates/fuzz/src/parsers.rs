//! Parsers of what peers and the launcher send: bytes are refused with an error, or are what
//! was read from them, written anew.

use sluice_link::{Grant, Opened};
use sluice_rail::Address;
use sluice_rail::net::devices::Addresses;
use sluice_rail::net::handshake::{
    Device, HandshakeError, Hello, Identity, Initiator, Responder, Security,
};
use sluice_wire::frame::{
    Ask, CloseReason, FRAME_HEAD_BYTES, Found, FrameHead, FrameKind, RemoteWrite, WriteDone,
};
use sluice_wire::{Packet, SLOT_PREFIX_BYTES};
use std::sync::LazyLock;

/// A packet.
pub fn wire_parse(bytes: &[u8]) {
    let Ok(parsed) = Packet::parse(bytes) else {
        return;
    };
    let again = parsed.packet.emit(parsed.seq, parsed.credits, parsed.payload_len);
    let header = &bytes[..parsed.payload_offset as usize];
    assert_eq!(again.len(), header.len());
    assert_eq!(parsed.packet.header_bytes(), parsed.payload_offset);
    // The prefix is the rail's: it is written as zero and not read.
    assert_eq!(again.bytes()[..SLOT_PREFIX_BYTES], [0; SLOT_PREFIX_BYTES]);
    assert_eq!(again.bytes()[SLOT_PREFIX_BYTES..], header[SLOT_PREFIX_BYTES..]);
    assert!(parsed.slots() >= 1);
}

/// An address, which comes through the launcher.
pub fn address_parse(bytes: &[u8]) {
    if let Ok(address) = Address::from_bytes(bytes) {
        assert_eq!(address.to_bytes(), bytes);
    }
}

/// What comes on a connection. The first byte says whether the check of each header is put
/// right first, so that what is behind it is reached.
pub fn frames(input: &[u8]) {
    let Some((is_mended, mut rest)) = input.split_first() else { return };
    while let Some((head, behind)) = rest.split_first_chunk::<FRAME_HEAD_BYTES>() {
        let mut head = *head;
        if is_mended & 1 == 1 {
            let check = crc32c::crc32c(&head[4..]).to_le_bytes();
            head[..4].copy_from_slice(&check);
        }
        let Ok(parsed) = FrameHead::parse(&head) else { return };
        assert_eq!(parsed.emit(), head);
        let Some((body, behind)) = behind.split_at_checked(parsed.len as usize) else { return };
        read_body(&parsed, body);
        rest = behind;
    }
}

/// A body is refused, or is what its parts write.
fn read_body(head: &FrameHead, body: &[u8]) {
    match head.kind {
        FrameKind::Ask | FrameKind::Seek => {
            if let Ok(ask) = Ask::parse(body) {
                assert!(ask.len > 0 && ask.emit()[..] == *body);
            }
        }
        FrameKind::Found => {
            let found = Found::parse(body).expect("it has the right length");
            assert_eq!(found.emit()[..], *body);
        }
        FrameKind::Write => {
            let write = RemoteWrite::parse(body).expect("it has the right length");
            assert_eq!(write.emit()[..], *body);
        }
        FrameKind::Written => {
            if let Ok(done) = WriteDone::parse(body) {
                assert_eq!(done.emit()[..], *body);
            }
        }
        FrameKind::Close => {
            if let Ok(reason) = CloseReason::from_id(head.id) {
                assert_eq!(reason.id(), head.id);
            }
        }
        FrameKind::Packet
        | FrameKind::Data
        | FrameKind::Fault
        | FrameKind::Probe
        | FrameKind::Answer => {}
    }
}

static OWN: LazyLock<Identity> = LazyLock::new(|| {
    let own = Identity::generate().expect("random numbers");
    own.at(([192, 0, 2, 7], 4660).into()).expect("one host")
});

/// A message of the handshake, in two pieces. The first bytes say the mode, the end, and
/// whether a preface stands before the rest and, in the mode `none`, a checksum behind it: then
/// a hello may be read, which the answer to it must not mind.
pub fn handshake_take(input: &[u8]) {
    let Some((&[mode, end, cut], rest)) = input.split_first_chunk() else { return };
    let mode = [Security::None, Security::Auth, Security::Encrypt][usize::from(mode % 3)];
    let is_ask = end & 1 == 0;
    let message = if end & 2 == 0 { rest.to_vec() } else { framed(mode, is_ask, rest) };
    let (first, second) = message.split_at(message.len() * usize::from(cut) / 256);
    let hello = hello();
    if is_ask {
        let mut responder = Responder::new(&OWN, mode);
        let taken = responder.take(first);
        let taken = if matches!(taken, Ok(None)) { responder.take(second) } else { taken };
        if let Ok(Some((asked, used))) = taken {
            assert_eq!(mode, Security::None, "nobody guesses a sealed ask");
            assert!(used <= message.len() && !asked.hello().devices.is_empty());
            asked.accept(&hello).expect("needs no random numbers");
        }
    } else {
        let (mut initiator, _) =
            Initiator::new(&OWN, &OWN.address(), mode, &hello).expect("random numbers");
        let taken = initiator.take(first);
        let taken = if matches!(taken, Ok(None)) { initiator.take(second) } else { taken };
        if let Ok(Some((answered, _))) = taken {
            assert_eq!(mode, Security::None, "nobody guesses a sealed answer");
            assert_eq!(answered.established.peer, OWN.address());
        }
    }
    assert!(matches!(Responder::new(&OWN, mode).ended(), HandshakeError::Ended { got: 0 }));
}

/// What a process with one device tells.
fn hello() -> Hello {
    let grant = Grant { data_slots: 1024, control_slots: 32, credit_slots: 8 };
    let nets = ["192.0.2.7/24", "2001:db8::7/64"].map(|net| net.parse().unwrap());
    let addresses = Addresses::first_of_each(&nets).unwrap();
    Hello {
        address: OWN.address(),
        attempt: 0,
        user: 0,
        label: 0,
        opened: Opened { grant, dynamic_slots: 0 },
        own_device: 0,
        peer_device: None,
        devices: vec![Device { index: 0, addresses, port: 4660, mbit_per_s: 0 }],
        fabric: None,
    }
}

/// The bytes as the body of a message; in clear, for this process, from this process, and
/// with the right checksum.
fn framed(mode: Security, is_ask: bool, bytes: &[u8]) -> Vec<u8> {
    let is_clear = mode == Security::None;
    let mut body = Vec::new();
    if is_clear && is_ask {
        body.extend(OWN.address().key());
    } else if is_clear {
        body.push(0);
    }
    if is_clear {
        body.extend(OWN.address().to_bytes());
    }
    body.extend(bytes);
    let code = 1 + mode as u8;
    let length = (body.len() + if is_clear { 4 } else { 0 }) as u16;
    let mut message = b"SLhs\x01".to_vec();
    message.extend([code, if is_ask { 1 } else { 2 }, 0]);
    message.extend(length.to_le_bytes());
    message.extend(body);
    if is_clear {
        let hash = message.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, &byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
        });
        message.extend(((hash ^ hash >> 32) as u32).to_le_bytes());
    }
    message
}
