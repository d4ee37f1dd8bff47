//! Records behind a handshake.

use super::*;
use proptest::prelude::*;

/// The ciphers of two processes.
fn ciphers() -> (Cipher, Cipher) {
    let (a, b) = (process(1), process(2));
    let mode = Security::Encrypt;
    let (mut initiator, ask) = Initiator::new(&a, &b.address(), mode, &hello(&a)).unwrap();
    let (asked, _) = Responder::new(&b, mode).take(&ask).unwrap().unwrap();
    let (mut accepted, answer) = asked.accept(&hello(&b)).unwrap();
    let (answered, _) = initiator.take(&answer).unwrap().unwrap();
    let (established, _) = accepted.take(&answered.proof).unwrap().unwrap();
    (answered.established.cipher.unwrap(), established.cipher.unwrap())
}

fn sealed(cipher: &mut Cipher, plain: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    cipher.sealer.seal(plain, &mut out);
    out
}

/// Opens all records of a stream, in their place.
fn opened(cipher: &mut Cipher, stream: &[u8]) -> Vec<u8> {
    let mut bytes = stream.to_vec();
    let (mut at, mut to) = (0, 0);
    while at < bytes.len() {
        let record = cipher.opener.open(&mut bytes, at, to).unwrap().expect("it is whole");
        assert!(record.used <= RECORD_BYTES_MAX);
        at += record.used;
        to += record.plain;
    }
    bytes.truncate(to);
    bytes
}

/// Opens the record that a stream begins with.
fn open(cipher: &mut Cipher, stream: &[u8]) -> Result<Option<OpenedRecord>, RecordError> {
    cipher.opener.open(&mut stream.to_vec(), 0, 0)
}

#[test]
fn a_record_is_its_length_its_bytes_and_a_tag() {
    let (mut a, mut b) = ciphers();
    assert_eq!(sealed(&mut a, b""), b"");
    let record = sealed(&mut a, b"frame");
    assert_eq!((record.len(), &record[..2]), (2 + 5 + 16, &[21, 0][..]));
    assert_ne!(&record[2..7], b"frame");
    for cut in 0..record.len() {
        assert_eq!(open(&mut b, &record[..cut]), Ok(None));
    }
    let mut bytes = [b"before ", &record[..], b"more"].concat();
    let opened = b.opener.open(&mut bytes, 7, 7);
    assert_eq!(opened, Ok(Some(OpenedRecord { used: record.len(), plain: 5 })));
    assert!(bytes.starts_with(b"before frame") && bytes.ends_with(b"more"));
}

#[test]
fn many_bytes_are_as_few_records_as_hold_them() {
    let (mut a, mut b) = ciphers();
    let most = PLAIN_BYTES_MAX;
    for (bytes, records) in [(1, 1), (most, 1), (most + 1, 2), (200_000, 7)] {
        let plain: Vec<u8> = (0..bytes).map(|i| (i * 7) as u8).collect();
        let stream = sealed(&mut a, &plain);
        assert_eq!(stream.len(), bytes + records * 18);
        assert_eq!(opened(&mut b, &stream), plain);
    }
}

#[test]
fn every_flipped_bit_of_a_record_is_found() {
    for bit in 0..(2 + 5 + 16) * 8 {
        let (mut a, mut b) = ciphers();
        let mut record = sealed(&mut a, b"frame");
        record[bit / 8] ^= 1 << (bit % 8);
        // A length that has grown waits for more, which comes.
        record.resize(RECORD_BYTES_MAX, 0);
        let why = open(&mut b, &record).unwrap_err();
        let is_length = matches!(why, RecordError::Length(_)) && bit < 16;
        assert!(is_length || why == RecordError::Altered, "{bit}: {why}");
    }
}

#[test]
fn a_record_out_of_its_place_does_not_open() {
    let (mut a, mut b) = ciphers();
    let (first, second) = (sealed(&mut a, b"first"), sealed(&mut a, b"second"));
    assert_eq!(open(&mut a, &second), Err(RecordError::Altered), "back to its sender");
    assert_eq!(opened(&mut b, &first), b"first");
    assert_eq!(open(&mut b, &first), Err(RecordError::Altered), "again");
    let (_, mut other) = ciphers();
    assert_eq!(open(&mut other, &first), Err(RecordError::Altered), "of another connection");
    let (mut a, mut b) = ciphers();
    let (_, second) = (sealed(&mut a, b"first"), sealed(&mut a, b"second"));
    assert_eq!(open(&mut b, &second), Err(RecordError::Altered), "one is left out");
    for length in (0..=16).chain([PLAIN_BYTES_MAX + 17, usize::from(u16::MAX)]) {
        let record = [&(length as u16).to_le_bytes()[..], &[0; 16]].concat();
        assert_eq!(open(&mut b, &record), Err(RecordError::Length(length)));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn what_is_sealed_is_what_is_opened(
        there in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..300), 0..8),
        back in prop::collection::vec(any::<u8>(), 0..300),
    ) {
        let (mut a, mut b) = ciphers();
        let mut stream = Vec::new();
        for plain in &there {
            a.sealer.seal(plain, &mut stream);
        }
        prop_assert_eq!(opened(&mut b, &stream), there.concat());
        let stream = sealed(&mut b, &back);
        prop_assert_eq!(opened(&mut a, &stream), back);
    }
}
