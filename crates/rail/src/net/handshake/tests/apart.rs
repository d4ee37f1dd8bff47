//! Two processes that do not belong together.

use super::*;
use crate::address::Secret;

/// Asks the process with `address`, and what `b` makes of it.
fn ask(
    (a, mode_of_a): (&Identity, Security),
    address: &Address,
    (b, mode_of_b): (&Identity, Security),
) -> (Initiator, Responder, Result<Asked, HandshakeError>) {
    let (initiator, ask) = Initiator::new(a, address, mode_of_a, &hello(a)).unwrap();
    let mut responder = Responder::new(b, mode_of_b);
    let asked = responder.take(&ask).map(|asked| asked.expect("it is whole").0);
    (initiator, responder, asked)
}

/// The error of a take that has one.
fn error<T>(taken: Result<T, HandshakeError>) -> HandshakeError {
    taken.err().expect("no connection comes of it")
}

#[test]
fn another_mode_is_told_to_both_by_both_names() {
    let (a, b) = (process(1), process(2));
    for (ours, theirs) in MODES.into_iter().flat_map(|a| MODES.map(|b| (a, b))) {
        if ours == theirs {
            continue;
        }
        let (mut initiator, responder, asked) = ask((&a, ours), &b.address(), (&b, theirs));
        let why = error(asked);
        assert_eq!(why, HandshakeError::Mode { theirs: ours, ours: theirs });
        let parting = responder.parting(&why).unwrap();
        let why = error(initiator.take(&parting));
        assert_eq!(why, HandshakeError::Mode { theirs, ours });
        let text = why.to_string();
        let both =
            text.contains(&format!("mode {theirs}")) && text.contains(&format!("process {ours}"));
        assert!(both && text.contains("FI_SLUICE_SECURITY"), "{text}");
    }
}

#[test]
fn another_version_is_told_to_both_by_both_names() {
    let (a, b) = (process(1), process(2));
    for mode in MODES {
        let (mut initiator, mut ask) = Initiator::new(&a, &b.address(), mode, &hello(&a)).unwrap();
        ask[4] = 7;
        let mut responder = Responder::new(&b, mode);
        // Whatever follows the version.
        let why = error(responder.take(&ask[..5]));
        assert_eq!(why, HandshakeError::Version { theirs: 7 });
        let text = why.to_string();
        assert!(text.contains("version 7") && text.contains("version 2"), "{text}");
        let mut parting = responder.parting(&why).unwrap();
        assert_eq!(parting[..5], *b"SLhs\x02");
        parting[4] = 7;
        assert_eq!(error(initiator.take(&parting)), HandshakeError::Version { theirs: 7 });
    }
}

/// What tests of other programs send gets as far as an ask does.
#[test]
fn the_shortest_ask_is_one_of_the_present_version() {
    let (a, b) = (process(1), process(2));
    for mode in MODES {
        let (preface, length) = shortest_ask(mode);
        let (_, ask) = Initiator::new(&a, &b.address(), mode, &hello(&a)).unwrap();
        assert_eq!(preface[..7], ask[..7]);
        let mut responder = Responder::new(&b, mode);
        assert!(responder.take(&[&preface[..], &vec![0; length - 1]].concat()).unwrap().is_none());
        let why = error(responder.take(&[0]));
        match mode {
            Security::None => assert!(matches!(why, HandshakeError::Malformed(_)), "{why}"),
            Security::Auth | Security::Encrypt => assert_eq!(why, HandshakeError::Stranger),
        }
    }
}

#[test]
fn another_program_is_told_by_its_first_wrong_byte_and_gets_no_answer() {
    let (a, b) = (process(1), process(2));
    for mode in MODES {
        for garbage in [&b"GET / HTTP/1.1\r\n"[..], b"\0", b"SSH-2.0", b"\x16\x03\x01", b"SLhS"] {
            let mut responder = Responder::new(&b, mode);
            let why = error(responder.take(garbage));
            assert_eq!(why, HandshakeError::NotSluice);
            assert_eq!(responder.parting(&why), None);
            let (mut initiator, _) = Initiator::new(&a, &b.address(), mode, &hello(&a)).unwrap();
            assert_eq!(error(initiator.take(garbage)), HandshakeError::NotSluice);
        }
    }
}

#[test]
fn who_has_not_the_secret_of_the_address_is_a_stranger() {
    let (a, b) = (process(1), process(2));
    let host = b.address().host().unwrap();
    let guessed = Address::local(b.address().tag(), *b.address().key())
        .with_network(host, Secret([1; 6]))
        .unwrap();
    assert_ne!(guessed, b.address());
    for mode in [Security::Auth, Security::Encrypt] {
        let (mut initiator, responder, asked) = ask((&a, mode), &guessed, (&b, mode));
        let why = error(asked);
        assert_eq!(why, HandshakeError::Stranger);
        let parting = responder.parting(&why).unwrap();
        assert_eq!(error(initiator.take(&parting)), HandshakeError::NotThePeer);
    }
}

#[test]
fn a_process_that_has_the_port_of_another_one_is_told_from_it() {
    let (a, b, former) = (process(1), process(2), process(2));
    for mode in MODES {
        let (mut initiator, responder, asked) = ask((&a, mode), &former.address(), (&b, mode));
        let why = error(asked);
        assert_eq!(why, HandshakeError::Stranger);
        let parting = responder.parting(&why).unwrap();
        assert_eq!(error(initiator.take(&parting)), HandshakeError::NotThePeer);
    }
}

/// Somebody who knows the secret of an address, and not its private key.
#[test]
fn nobody_answers_for_another_process() {
    let (a, b, other) = (process(1), process(2), process(3));
    let b_as_other = Identity::with(&other, b.address());
    for mode in [Security::Auth, Security::Encrypt] {
        let (mut initiator, _, asked) = ask((&a, mode), &b.address(), (&b, mode));
        let (_, answer) = asked.unwrap().accept(&hello(&b)).unwrap();
        // The answer to somebody else's ask.
        let (mut second, _, asked) = ask((&a, mode), &b.address(), (&b_as_other, mode));
        assert_eq!(error(asked), HandshakeError::Stranger);
        assert_eq!(error(second.take(&answer)), HandshakeError::NotThePeer);
        assert!(initiator.take(&answer).unwrap().is_some());
    }
}

#[test]
fn nobody_asks_by_the_address_of_another_process() {
    let (a, b, other) = (process(1), process(2), process(3));
    for mode in [Security::Auth, Security::Encrypt] {
        let a_as_other = Identity::with(&a, other.address());
        let (_, responder, asked) = ask((&a_as_other, mode), &b.address(), (&b, mode));
        let why = error(asked);
        assert_eq!(why, HandshakeError::OtherAddress);
        assert_eq!(responder.parting(&why), None);
    }
}

#[test]
fn who_answers_shows_the_address_that_was_asked() {
    let (a, b) = (process(1), process(2));
    let elsewhere = b.clone().at("198.51.100.1:9".parse().unwrap()).unwrap();
    for mode in MODES {
        let (mut initiator, _, asked) = ask((&a, mode), &b.address(), (&elsewhere, mode));
        let (_, answer) = asked.unwrap().accept(&hello(&elsewhere)).unwrap();
        assert_eq!(error(initiator.take(&answer)), HandshakeError::OtherAddress);
    }
}

#[test]
fn a_refusal_arrives_with_its_reason() {
    let (a, b) = (process(1), process(2));
    for mode in MODES {
        for (refusal, text) in [
            (Refusal::OwnFirst, "its own attempt goes first"),
            (Refusal::GivenUp, "given this process up"),
            (Refusal::NoRoom, "no room"),
            (Refusal::Matching, "FI_SLUICE_MATCHING"),
        ] {
            let (mut initiator, _, asked) = ask((&a, mode), &b.address(), (&b, mode));
            let answer = asked.unwrap().refuse(refusal).unwrap();
            let why = error(initiator.take(&answer));
            assert_eq!(why, HandshakeError::Refused(refusal));
            assert!(why.to_string().contains(text), "{why}");
        }
    }
}

#[test]
fn an_ask_that_is_sent_again_by_somebody_else_comes_to_nothing() {
    let (a, b) = (process(1), process(2));
    for mode in [Security::Auth, Security::Encrypt] {
        let (mut initiator, ask) = Initiator::new(&a, &b.address(), mode, &hello(&a)).unwrap();
        let answer_it = || {
            let (asked, _) = Responder::new(&b, mode).take(&ask).unwrap().unwrap();
            asked.accept(&hello(&b)).unwrap()
        };
        let (mut accepted, answer) = answer_it();
        let (answered, _) = initiator.take(&answer).unwrap().unwrap();
        // It is answered again, and a proof that was seen before proves nothing.
        let (mut replayed, _) = answer_it();
        assert_eq!(error(replayed.take(&answered.proof)), HandshakeError::Unproven);
        assert!(matches!(replayed.take(&answered.proof), Err(HandshakeError::Over)));
        let (mut replayed, _) = answer_it();
        let ask_again = replayed.take(&ask);
        assert!(matches!(ask_again, Err(HandshakeError::Malformed(_))));
        assert!(accepted.take(&answered.proof).unwrap().is_some());
    }
}

#[test]
fn what_comes_back_as_it_was_sent_is_no_answer() {
    let (a, b) = (process(1), process(2));
    for mode in MODES {
        let (mut initiator, ask) = Initiator::new(&a, &b.address(), mode, &hello(&a)).unwrap();
        assert!(matches!(error(initiator.take(&ask)), HandshakeError::Malformed(_)));
    }
}

#[test]
fn an_address_without_a_host_cannot_be_asked() {
    let (a, b) = (process(1), Identity::generate().unwrap());
    for mode in MODES {
        let asked = Initiator::new(&a, &b.address(), mode, &hello(&a));
        assert_eq!(asked.err(), Some(HandshakeError::NoNetwork));
    }
}

#[test]
fn nothing_private_is_in_any_text() {
    let (a, b) = (process(1), process(2));
    let (initiator, ask) = Initiator::new(&a, &b.address(), Security::Encrypt, &hello(&a)).unwrap();
    let mut responder = Responder::new(&b, Security::Encrypt);
    let (asked, _) = responder.take(&ask).unwrap().unwrap();
    let texts = [format!("{a:?}{responder:?}"), format!("{initiator:?}"), format!("{asked:?}")];
    for text in texts {
        for own in [&a, &b] {
            let private = format!("{:?}", own.private());
            let secret = format!("{:?}", own.address().secret().0);
            for hidden in [private, secret] {
                assert!(!text.contains(hidden.trim_matches(['[', ']'])), "{text}");
            }
        }
    }
}
