//! Messages that arrive cut off, altered or as noise.

use super::*;
use proptest::prelude::*;

/// What came of a message that cannot be right: an error, or the wait for more, which
/// ends with the stream.
fn assert_nothing<T: std::fmt::Debug>(
    taken: Result<Option<T>, HandshakeError>,
    ended: HandshakeError,
    what: &str,
) {
    match taken {
        Ok(Some(taken)) => panic!("{what}: {taken:?}"),
        Ok(None) => assert!(matches!(ended, HandshakeError::Ended { .. }), "{what}"),
        Err(_) => {}
    }
}

/// A hello as short as it can be.
fn short(own: &Identity) -> Hello {
    Hello { own_device: 0, devices: vec![device(0, &["192.0.2.7/24"])], ..hello(own) }
}

/// The three messages of a handshake, of which one is altered on its way.
fn connect_altered(
    (a, b): (&Identity, &Identity),
    mode: Security,
    number: usize,
    alter: impl Fn(&mut Vec<u8>),
    what: &str,
) {
    let (mut initiator, mut ask) = Initiator::new(a, &b.address(), mode, &short(a)).unwrap();
    let mut responder = Responder::new(b, mode);
    if number == 0 {
        alter(&mut ask);
        return assert_nothing(responder.take(&ask), responder.ended(), what);
    }
    let (asked, _) = responder.take(&ask).unwrap().unwrap();
    let (mut accepted, mut answer) = asked.accept(&short(b)).unwrap();
    if number == 1 {
        alter(&mut answer);
        return assert_nothing(initiator.take(&answer), initiator.ended(), what);
    }
    let (mut answered, _) = initiator.take(&answer).unwrap().unwrap();
    alter(&mut answered.proof);
    assert_nothing(accepted.take(&answered.proof), accepted.ended(), what);
}

/// Lengths of the three messages.
fn lengths(mode: Security) -> [usize; 3] {
    let hello = HELLO_BYTES_MIN;
    match mode {
        Security::None => [10 + 32 + hello + 4, 10 + 1 + hello + 4, 10],
        Security::Auth | Security::Encrypt => [10 + 96 + hello, 10 + 48 + 1 + hello, 10 + 16],
    }
}

#[test]
fn every_flipped_bit_of_every_message_ends_the_handshake() {
    let (a, b) = (process(1), process(2));
    for mode in MODES {
        for (number, length) in lengths(mode).into_iter().enumerate() {
            for bit in 0..length * 8 {
                let what = format!("mode {mode}, message {number}, bit {bit}");
                let flip = |message: &mut Vec<u8>| {
                    assert_eq!(message.len(), length);
                    message[bit / 8] ^= 1 << (bit % 8);
                };
                connect_altered((&a, &b), mode, number, flip, &what);
            }
        }
    }
}

#[test]
fn every_message_that_is_cut_off_ends_the_handshake_with_the_stream() {
    let (a, b) = (process(1), process(2));
    for mode in MODES {
        let (mut initiator, ask) = Initiator::new(&a, &b.address(), mode, &short(&a)).unwrap();
        for got in 0..ask.len() {
            let mut responder = Responder::new(&b, mode);
            assert!(responder.take(&ask[..got]).unwrap().is_none());
            assert_eq!(responder.ended(), HandshakeError::Ended { got });
        }
        let (asked, _) = Responder::new(&b, mode).take(&ask).unwrap().unwrap();
        let (mut accepted, answer) = asked.accept(&short(&b)).unwrap();
        // Byte by byte, so each beginning is there once.
        let (last, rest) = answer.split_last().unwrap();
        for (got, byte) in rest.iter().enumerate() {
            assert_eq!(initiator.ended(), HandshakeError::Ended { got });
            assert!(initiator.take(&[*byte]).unwrap().is_none());
        }
        let (answered, _) = initiator.take(&[*last]).unwrap().unwrap();
        let (last, rest) = answered.proof.split_last().unwrap();
        for (got, byte) in rest.iter().enumerate() {
            assert_eq!(accepted.ended(), HandshakeError::Ended { got });
            assert!(accepted.take(&[*byte]).unwrap().is_none());
        }
        assert!(accepted.take(&[*last]).unwrap().is_some());
    }
}

#[test]
fn a_message_of_impossible_length_is_refused_by_its_preface() {
    let b = process(2);
    for mode in MODES {
        let (least, most) = (*ask_bytes(mode).start(), *ask_bytes(mode).end());
        assert!(PREFACE_BYTES + most <= MESSAGE_BYTES_MAX);
        for length in [0, least - 1, most + 1, usize::from(u16::MAX)] {
            let mut responder = Responder::new(&b, mode);
            let preface = preface::preface(mode, preface::Kind::Ask, length);
            let why = responder.take(&preface).unwrap_err();
            assert_eq!(why, HandshakeError::Malformed("impossible length"));
        }
    }
}

/// Bytes that get as far as `depth` says: noise, a preface, a body with a checksum.
fn message(depth: u8, mode: Security, kind: preface::Kind, noise: &[u8], prefix: &[u8]) -> Vec<u8> {
    if depth == 0 {
        return noise.to_vec();
    }
    let check = if depth > 1 { CHECK_BYTES } else { 0 };
    let mut message = preface::preface(mode, kind, prefix.len() + noise.len() + check).to_vec();
    message.extend(prefix);
    message.extend(noise);
    if depth > 1 {
        clear::close(&mut message);
    }
    message
}

proptest! {
    #[test]
    fn noise_is_refused_or_waited_behind(
        noise in prop::collection::vec(any::<u8>(), 0..700),
        depth in 0_u8..3,
        mode in prop::sample::select(&MODES[..]),
    ) {
        let (a, b) = (process(1), process(2));
        let bytes = message(depth, mode, preface::Kind::Ask, &noise, b.address().key());
        let mut responder = Responder::new(&b, mode);
        assert_nothing(responder.take(&bytes), responder.ended(), "ask");
        let (mut initiator, ask) = Initiator::new(&a, &b.address(), mode, &hello(&a)).unwrap();
        let bytes = message(depth, mode, preface::Kind::Answer, &noise, &[0]);
        assert_nothing(initiator.take(&bytes), initiator.ended(), "answer");
        if mode != Security::None {
            let (asked, _) = Responder::new(&b, mode).take(&ask).unwrap().unwrap();
            let (mut accepted, _) = asked.accept(&hello(&b)).unwrap();
            let bytes = message(depth, mode, preface::Kind::Proof, &noise, &[]);
            assert_nothing(accepted.take(&bytes), accepted.ended(), "proof");
        }
    }

    #[test]
    fn an_altered_hello_is_refused_or_comes_back_byte_for_byte(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        length in prop::option::weighted(0.2, any::<prop::sample::Index>()),
    ) {
        let mut bytes = hello(&process(1)).to_bytes();
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        if let Some(length) = length {
            bytes.truncate(length.index(bytes.len()));
        }
        if let Ok(read) = Hello::from_bytes(&bytes) {
            prop_assert_eq!(read.to_bytes(), bytes);
        }
    }
}
