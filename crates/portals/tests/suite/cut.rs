//! Packets whose sender ended while it wrote their payload: they arrive, and their bytes do not.

use crate::pair::net::Mode;
use crate::pair::{Pair, entry, open, pattern};
use sluice_link::PeerError;
use sluice_portals::{EventKind, List, MeOptions, NiFail};
use sluice_wire::AckKind;

use EventKind::{Ack, AutoUnlink, Put, PutOverflow, Reply, Send};

const LEN: usize = 60;
/// What the receiver is told, and the sender, should it live.
const DEAD: Result<(), NiFail> = Err(NiFail::Undeliverable(PeerError::Dead));
const ABORTED: Result<(), NiFail> = Err(NiFail::Aborted);

fn cut(pair: &Pair, who: usize, is_cut: bool) {
    pair.sides[who].port.net_mut().cut(who, is_cut);
}

#[test]
fn a_put_into_an_entry_fails_there_and_the_next_one_does_not() {
    for once in [false, true] {
        let mut pair = Pair::of_program(Mode::default());
        let memory = pair.alloc(1, &[0; LEN]);
        let options = MeOptions { use_once: once, ..open() };
        pair.append(List::Priority, entry(memory, 7, options, 1));
        cut(&pair, 1, true);
        pair.issue_put(0, 7, &pattern(LEN, 1), Some(AckKind::Full));
        pair.settle();
        let mut expected = vec![(Put, LEN as u64, DEAD)];
        expected.extend(once.then_some((AutoUnlink, 0, Ok(()))));
        assert_eq!(pair.outcomes(1), expected);
        assert_eq!(pair.outcomes(0), [(Send, LEN as u64, Ok(())), (Ack, LEN as u64, ABORTED)]);
        cut(&pair, 1, false);
        if once {
            pair.append(List::Priority, entry(memory, 7, options, 2));
        }
        pair.issue_put(0, 7, &pattern(LEN, 2), None);
        pair.settle();
        assert_eq!(pair.outcomes(1)[0], (Put, LEN as u64, Ok(())));
        assert_eq!(pair.bytes(1, memory), pattern(LEN, 2));
        pair.assert_quiet();
    }
}

#[test]
fn a_put_into_an_entry_of_several_pieces_fails_there() {
    let mut pair = Pair::of_program(Mode::default());
    let pieces = [10, 50].map(|len| pair.alloc(1, &vec![0; len]));
    let spec = pair.vector_entry(&pieces, 7, open(), 1);
    pair.append(List::Priority, spec);
    cut(&pair, 1, true);
    pair.issue_put(0, 7, &pattern(LEN, 1), None);
    pair.settle();
    assert_eq!(pair.outcomes(1), [(Put, LEN as u64, DEAD)]);
}

/// Nobody was told of it, so nothing of it is kept: no header, no memory, no credit.
#[test]
fn a_put_that_nobody_waits_for_is_as_if_it_had_not_come() {
    let mut pair = Pair::new();
    let none = pair.alloc(1, &[]);
    let options = MeOptions { lent: true, ..open() };
    pair.append(List::Overflow, entry(none, 7, options, 1));
    cut(&pair, 1, true);
    pair.issue_put(0, 7, &pattern(LEN, 1), None);
    pair.settle();
    cut(&pair, 1, false);
    pair.assert_quiet();
    pair.issue_put(0, 7, &pattern(LEN, 2), None);
    pair.settle();
    let memory = pair.alloc(1, &[0; LEN]);
    pair.append(List::Priority, entry(memory, 7, MeOptions { use_once: true, ..open() }, 2));
    let happened = pair.outcomes(1);
    let puts = happened.iter().filter(|(kind, ..)| *kind == PutOverflow);
    assert_eq!(puts.count(), 1, "{happened:?}");
}

#[test]
fn a_get_whose_answer_is_cut_fails() {
    let mut pair = Pair::of_program(Mode::default());
    let memory = pair.alloc(1, &pattern(LEN, 1));
    pair.append(List::Priority, entry(memory, 7, open(), 1));
    cut(&pair, 0, true);
    pair.issue_get(0, 7, 0, LEN as u64);
    pair.settle();
    assert_eq!(pair.outcomes(0), [(Reply, LEN as u64, DEAD)]);
    cut(&pair, 0, false);
    let into = pair.issue_get(0, 7, 0, LEN as u64);
    pair.settle();
    assert_eq!(pair.outcomes(0), [(Reply, LEN as u64, Ok(()))]);
    assert_eq!(pair.bytes(0, into), pattern(LEN, 1));
    pair.assert_quiet();
}
