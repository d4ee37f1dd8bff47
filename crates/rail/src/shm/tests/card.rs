//! What a card says, and what is none.

use super::*;
use crate::address::ADDRESS_BYTES;
use crate::hash::fnv1a;
use crate::shm::tests::Noise;

fn example(place: Place) -> Card {
    let mut key = [0; KEY_BYTES];
    for (byte, value) in key.iter_mut().zip(0x40..) {
        *byte = value;
    }
    Card {
        key,
        host: 0x0102_0304_0506_0708,
        start_time: 3,
        pid_ns: 4,
        pid: 1234,
        place,
        probe_addr: 0x7fff_0000,
        label: 0x1122_3344_5566_7788,
    }
}

#[test]
fn bytes_and_back() {
    for place in [Place::Memfd { fd: 7 }, Place::File { uid: 1000 }] {
        let card = example(place);
        assert_eq!(Card::from_bytes(&card.to_bytes()).unwrap(), card);
    }
}

#[test]
fn every_field_has_its_place() {
    let mut wanted = b"SLcd\x01\x02\0\0".to_vec();
    wanted.extend(0x40..0x60);
    wanted.extend(*b"\x08\x07\x06\x05\x04\x03\x02\x01");
    wanted.extend(*b"\x03\0\0\0\0\0\0\0");
    wanted.extend(*b"\x88\x77\x66\x55\x44\x33\x22\x11");
    wanted.extend(*b"\0\0\xff\x7f\0\0\0\0");
    wanted.extend(*b"\xd2\x04\0\0");
    wanted.extend(*b"\xe8\x03\0\0");
    wanted.extend(*b"\x04\0\0\0");
    let check = fnv1a(&wanted);
    wanted.extend(((check ^ check >> 32) as u32).to_le_bytes());
    assert_eq!(example(Place::File { uid: 1000 }).to_bytes()[..], wanted);
    assert_eq!(example(Place::Memfd { fd: 1000 }).to_bytes()[..6], *b"SLcd\x01\x01");
}

#[test]
fn a_card_of_another_version_is_refused_by_both_names() {
    let mut bytes = example(Place::Memfd { fd: 7 }).to_bytes();
    bytes[4] = 2;
    let why = Card::from_bytes(&bytes).unwrap_err();
    assert!(matches!(why, CardError::Version(2)));
    let text = why.to_string();
    assert!(text.contains("version 2") && text.contains("version 1"), "{text}");
}

#[test]
fn every_flipped_bit_and_every_truncation_is_refused() {
    let bytes = example(Place::Memfd { fd: 7 }).to_bytes();
    for bit in 0..CARD_BYTES * 8 {
        let mut bad = bytes;
        bad[bit / 8] ^= 1 << (bit % 8);
        assert!(Card::from_bytes(&bad).is_err(), "bit {bit}");
    }
    for len in (0..CARD_BYTES).chain([CARD_BYTES + 1]) {
        let bad = [&bytes[..], &[0]].concat();
        assert!(Card::from_bytes(&bad[..len]).is_err(), "length {len}");
    }
}

/// Noise, and noise that gets past magic, version and checksum: refused, or read so
/// that it is written as it was.
#[test]
fn garbage_is_refused_or_comes_back_byte_for_byte() {
    const ROUNDS: usize = 100_000;
    let mut noise = Noise(11);
    let (mut cards, mut addresses) = (0, 0);
    for _ in 0..ROUNDS {
        let mut card: [u8; CARD_BYTES] = noise.bytes(CARD_BYTES).try_into().unwrap();
        let mut address: [u8; ADDRESS_BYTES] = noise.bytes(ADDRESS_BYTES).try_into().unwrap();
        let depth = noise.below(4);
        if depth > 0 {
            card[..6].copy_from_slice(&[b'S', b'L', b'c', b'd', 1, noise.below(4) as u8]);
            address[..2].copy_from_slice(b"S\x04");
        }
        if depth > 1 {
            card[6..8].fill(0);
            // No network, IPv4, IPv6 or both.
            match noise.below(4) {
                0 => address[4..32].fill(0),
                1 => address[6..22].fill(0),
                2 => address[22..26].fill(0),
                _ => {}
            }
        }
        if depth > 2 {
            address[4 + noise.below(28) as usize] = noise.below(2) as u8;
        }
        let check = check_of(&card[..CHECK_AT]);
        if depth > 0 {
            card[CHECK_AT..].copy_from_slice(&check.to_le_bytes());
        }
        if let Ok(read) = Card::from_bytes(&card) {
            assert_eq!(read.to_bytes(), card);
            cards += 1;
        }
        if let Ok(read) = Address::from_bytes(&address) {
            assert_eq!(read.to_bytes(), address);
            addresses += 1;
        }
    }
    assert!(cards > ROUNDS / 16 && addresses > ROUNDS / 8, "some are read: {cards} {addresses}");
}

#[test]
fn a_file_is_named_after_its_owner() {
    let card = example(Place::File { uid: 1000 });
    let path = card.path(Path::new("/dev/shm"));
    let wanted = format!("/dev/shm/sluice-1000/1234-3-{:016x}.seg", fnv1a(&card.key));
    assert_eq!(path.to_str(), Some(&wanted[..]));
}
