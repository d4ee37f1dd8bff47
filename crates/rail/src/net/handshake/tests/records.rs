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
    cipher.seal(plain, &mut out);
    out
}

/// Opens all records of a stream.
fn opened(cipher: &mut Cipher, mut stream: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    while !stream.is_empty() {
        let used = cipher.open(stream, &mut out).unwrap().expect("it is whole");
        assert!(used <= RECORD_BYTES_MAX);
        stream = &stream[used..];
    }
    out
}

#[test]
fn a_record_is_its_length_its_bytes_and_a_tag() {
    let (mut a, mut b) = ciphers();
    assert_eq!(sealed(&mut a, b""), b"");
    let record = sealed(&mut a, b"frame");
    assert_eq!((record.len(), &record[..2]), (2 + 5 + 16, &[21, 0][..]));
    assert_ne!(&record[2..7], b"frame");
    let mut out = b"before ".to_vec();
    for cut in 0..record.len() {
        assert_eq!(b.open(&record[..cut], &mut out), Ok(None));
    }
    let with_more = [&record[..], b"more"].concat();
    assert_eq!(b.open(&with_more, &mut out), Ok(Some(record.len())));
    assert_eq!(out, b"before frame");
}

#[test]
fn many_bytes_are_as_few_records_as_hold_them() {
    let (mut a, mut b) = ciphers();
    let most = usize::from(u16::MAX) - 16;
    for (bytes, records) in [(1, 1), (most, 1), (most + 1, 2), (200_000, 4)] {
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
        let mut out = b"before".to_vec();
        let why = b.open(&record, &mut out).unwrap_err();
        let is_short = why == RecordError::Short(usize::from(record[0]));
        assert!(
            is_short && record[..2] <= [16, 0][..] || why == RecordError::Altered,
            "{bit}: {why}"
        );
        assert_eq!(out, b"before");
    }
}

#[test]
fn a_record_out_of_its_place_does_not_open() {
    let (mut a, mut b) = ciphers();
    let (first, second) = (sealed(&mut a, b"first"), sealed(&mut a, b"second"));
    let mut out = Vec::new();
    assert_eq!(b.open(&second, &mut out), Err(RecordError::Altered), "one is left out");
    assert_eq!(opened(&mut b, &first), b"first");
    assert_eq!(b.open(&first, &mut out), Err(RecordError::Altered), "again");
    assert_eq!(a.open(&second, &mut out), Err(RecordError::Altered), "back to its sender");
    let (_, mut other) = ciphers();
    assert_eq!(other.open(&first, &mut out), Err(RecordError::Altered), "of another connection");
    assert_eq!(out, b"");
    for length in 0..=16 {
        let empty = [&[length, 0][..], &[0; 16]].concat();
        let short = RecordError::Short(usize::from(length));
        assert_eq!(b.open(&empty, &mut out), Err(short));
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
            a.seal(plain, &mut stream);
        }
        prop_assert_eq!(opened(&mut b, &stream), there.concat());
        let stream = sealed(&mut b, &back);
        prop_assert_eq!(opened(&mut a, &stream), back);
    }
}
