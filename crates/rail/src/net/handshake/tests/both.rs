//! Two processes that belong together.

use super::*;
use proptest::prelude::*;

/// A whole handshake, cut as given.
fn connect(
    (a, b): (&Identity, &Identity),
    mode: Security,
    cuts: impl Fn(usize) -> Vec<usize>,
) -> (Established, Established) {
    let (of_a, of_b) = (hello(a), Hello { peer_device: Some(3), ..hello(b) });
    let (mut initiator, ask) = Initiator::new(a, &b.address(), mode, &of_a).unwrap();
    assert!(ask.len() <= MESSAGE_BYTES_MAX);
    let mut responder = Responder::new(b, mode);
    let asked = feed(&ask, &cuts(ask.len()), |bytes| responder.take(bytes));
    let (asked, rest) = asked.unwrap().unwrap();
    assert_eq!((asked.hello(), &rest[..]), (&of_a, &[][..]));
    let (mut accepted, answer) = asked.accept(&of_b).unwrap();
    assert!(answer.len() <= MESSAGE_BYTES_MAX);

    let stream = [&answer[..], b"first"].concat();
    let taken = feed(&stream, &cuts(stream.len()), |bytes| initiator.take(bytes));
    let (Answered { established: at_a, proof }, rest) = taken.unwrap().unwrap();
    assert_eq!(rest, b"first");
    assert_eq!((at_a.peer, &at_a.hello), (b.address(), &of_b));
    assert!(matches!(initiator.take(b""), Err(HandshakeError::Over)));

    let stream = [&proof[..], b"frames"].concat();
    let taken = feed(&stream, &cuts(stream.len()), |bytes| accepted.take(bytes));
    let (at_b, rest) = taken.unwrap().unwrap();
    assert_eq!(rest, b"frames");
    assert_eq!((at_b.peer, &at_b.hello), (a.address(), &of_a));
    assert!(matches!(accepted.take(b""), Err(HandshakeError::Over)));
    assert!(matches!(responder.take(b""), Err(HandshakeError::Over)));

    let is_sealed = mode == Security::Encrypt;
    assert_eq!((at_a.cipher.is_some(), at_b.cipher.is_some()), (is_sealed, is_sealed));
    (at_a, at_b)
}

#[test]
fn both_know_each_other_however_the_stream_is_cut() {
    let (a, b) = (process(1), process(2));
    for mode in MODES {
        connect((&a, &b), mode, |_| Vec::new());
        connect((&a, &b), mode, |len| (1..len).collect());
        connect((&a, &b), mode, |len| vec![0, 0, len / 2, len / 2]);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn both_know_each_other_however_the_stream_is_cut_at_random(
        points in prop::collection::vec(any::<prop::sample::Index>(), 0..12),
        mode in prop::sample::select(&MODES[..]),
    ) {
        let (a, b) = (process(1), process(2));
        connect((&a, &b), mode, |len| {
            let mut cuts: Vec<_> = points.iter().map(|point| point.index(len)).collect();
            cuts.sort_unstable();
            cuts
        });
    }
}
