//! Which entry takes what, and what is kept of messages that come early.

use super::{PT, Stage, World, entry};
use crate::pair::{open, pattern};
use sluice_portals::{EventKind, List, MeOptions, MeSpec, NiFail, PtlError, SearchOp};
use sluice_wire::{AckKind, Region};

use EventKind::{Ack, AutoFree, AutoUnlink, Put, PutOverflow, Reply, Search};

fn once() -> MeOptions {
    MeOptions { use_once: true, ..open() }
}

fn managed() -> MeOptions {
    MeOptions { manage_local: true, ..open() }
}

/// An overflow entry takes what nobody waits for.
fn with_overflow<W: World>(setting: W::Setting, len: u64) -> (Stage<W>, Region) {
    let mut stage = Stage::<W>::open(setting, 2);
    let memory = stage.room(1, len);
    let any = MeSpec { ignore_bits: !0, ..crate::pair::entry(memory, 0, managed(), 1) };
    stage.append(1, List::Overflow, any);
    (stage, memory)
}

pub fn early_messages_are_found_by_appending<W: World>(setting: W::Setting) {
    for len in [10, 3000] {
        let (mut stage, memory) = with_overflow::<W>(setting, 3 * len);
        for number in 0..3 {
            stage.put(0, 1, 7, &pattern(len as usize, number));
        }
        stage.settle();
        assert_eq!(stage.received(1), [(Put, len, Ok(())); 3]);
        assert_eq!(stage.sent(0).len(), 6, "acknowledged as soon as they are kept");
        // One takes the oldest, and is used up.
        let used = stage.post(1, crate::pair::entry(Region::EMPTY, 7, once(), 2));
        assert_eq!(used, None);
        let events = stage.events(1);
        assert_eq!((events[0].kind, events[0].user_ptr, events[0].rlength), (PutOverflow, 2, len));
        assert_eq!((events[0].start, events[0].mlength), (memory.addr, len));
        assert_eq!((events.len(), events[1].kind), (2, AutoUnlink));
        // One for others takes none.
        assert!(stage.post(1, entry(Region::EMPTY, 8, 3)).is_some());
        assert_eq!(stage.events(1), []);
        // One that stays takes the rest, and what comes later.
        let late = stage.room(1, len);
        assert!(stage.post(1, entry(late, 7, 4)).is_some());
        assert_eq!(stage.received(1), [(PutOverflow, len, Ok(())); 2]);
        stage.put(0, 1, 7, &pattern(len as usize, 9));
        stage.settle();
        assert!(stage.bytes(1, late) == pattern(len as usize, 9));
        let kept = (0..3).flat_map(|number| pattern(len as usize, number));
        assert!(stage.bytes(1, memory).into_iter().eq(kept));
        assert_eq!(stage.ni(1).unexpected_now(), 0);
        stage.assert_quiet();
    }
}

pub fn an_overflow_entry_is_free_after_its_last_header<W: World>(setting: W::Setting) {
    for len in [10, 3000] {
        let mut stage = Stage::<W>::open(setting, 2);
        let memory = stage.room(1, 2 * len);
        let spec = crate::pair::entry(memory, 7, managed(), 1);
        stage.append(1, List::Overflow, MeSpec { min_free: 1, ..spec });
        stage.put(0, 1, 7, &pattern(len as usize, 1));
        stage.put(0, 1, 7, &pattern(len as usize, 2));
        stage.settle();
        let full = [(Put, len, Ok(())), (Put, len, Ok(())), (AutoUnlink, 0, Ok(()))];
        assert_eq!(stage.received(1), full);
        for last in [false, true] {
            assert_eq!(stage.post(1, crate::pair::entry(Region::EMPTY, 7, once(), 2)), None);
            let mut events = stage.events(1);
            let mut kinds: Vec<_> =
                events.drain(..).map(|event| (event.kind, event.user_ptr)).collect();
            assert_eq!(kinds.contains(&(AutoFree, 1)), last);
            kinds.retain(|event| event.0 != AutoFree);
            assert_eq!(kinds, [(PutOverflow, 2), (AutoUnlink, 2)]);
        }
        stage.assert_quiet();
    }
}

pub fn searches_look_or_take<W: World>(setting: W::Setting) {
    let (mut stage, _) = with_overflow::<W>(setting, 20_000);
    for (bits, len) in [(7, 5), (8, 6), (7, 4000)] {
        stage.put(0, 1, bits, &pattern(len, 1));
    }
    stage.settle();
    stage.events(1);
    let mut search = |op, bits, options| {
        let (ni, port) = stage.world.side(1);
        let spec = crate::pair::entry(Region::EMPTY, bits, options, 2);
        ni.me_search(port, PT, op, &spec).unwrap();
        ni.check_invariants();
        stage.received(1)
    };
    let miss = [(Search, 0, Err(NiFail::NoMatch))];
    assert_eq!(search(SearchOp::Only, 7, once()), [(Search, 5, Ok(()))]);
    assert_eq!(search(SearchOp::Only, 7, open()), [(Search, 5, Ok(())), (Search, 4000, Ok(()))]);
    assert_eq!(search(SearchOp::Only, 9, once()), miss);
    assert_eq!(search(SearchOp::Delete, 7, once()), [(PutOverflow, 5, Ok(()))]);
    assert_eq!(search(SearchOp::Delete, 7, open()), [(PutOverflow, 4000, Ok(()))]);
    assert_eq!(search(SearchOp::Delete, 7, open()), miss);
    assert_eq!(stage.ni(1).unexpected_now(), 1);
    stage.assert_quiet();
}

pub fn what_must_not_be_cut_goes_to_the_next_entry<W: World>(setting: W::Setting) {
    for len in [20, 2000] {
        let mut stage = Stage::<W>::open(setting, 2);
        let whole = MeOptions { no_truncate: true, ..open() };
        let regions = [len - 1, len, len + 1].map(|room| stage.room(1, room));
        for (at, &region) in regions.iter().enumerate() {
            stage.post(1, crate::pair::entry(region, 7, whole, at as u64));
        }
        stage.put(0, 1, 7, &pattern(len as usize, 1));
        stage.settle();
        assert_eq!(stage.events(1)[0].user_ptr, 1);
        assert!(stage.bytes(1, regions[1]) == pattern(len as usize, 1));
        stage.get(0, 1, 7, 1, len);
        stage.settle();
        assert_eq!(stage.events(1)[0].user_ptr, 2, "the offset counts too");
        stage.sent(0);
        stage.put(0, 1, 7, &pattern(len as usize + 2, 1));
        stage.settle();
        assert!(stage.outcome_of(0, Ack).1.is_err());
        assert_eq!((stage.ni(1).status().dropped, stage.events(1).len()), (1, 0));
        stage.assert_quiet();
    }
}

pub fn entries_fill_up_and_unlink_themselves<W: World>(setting: W::Setting) {
    for len in [30, 1500] {
        let mut stage = Stage::<W>::open(setting, 2);
        let memory = stage.room(1, 4 * len - 1);
        let spec = crate::pair::entry(memory, 7, managed(), 1);
        stage.post(1, MeSpec { min_free: len, ..spec });
        let next = stage.room(1, len);
        stage.post(1, entry(next, 7, 2));
        for number in 0..4 {
            // Where it lands is not the initiator's to say.
            let region = stage.alloc(0, &pattern(len as usize, number));
            stage.put_at(0, 1, 7, 17, region, Some(AckKind::Full));
        }
        stage.settle();
        let events = stage.events(1);
        let to_first = |event: &&sluice_portals::Event| event.kind == Put && event.user_ptr == 1;
        assert_eq!(events.iter().filter(to_first).count(), 3);
        assert_eq!(events.iter().filter(|event| event.kind == AutoUnlink).count(), 1);
        assert_eq!(events.len(), 5);
        let filled = (0..3).flat_map(|number| pattern(len as usize, number));
        assert!(stage.bytes(1, Region { len: 3 * len, ..memory }).into_iter().eq(filled));
        assert!(stage.bytes(1, next)[17..] == pattern(len as usize, 3)[..len as usize - 17]);
        stage.assert_quiet();
    }
}

pub fn entries_admit_whom_and_what_they_say<W: World>(setting: W::Setting) {
    for len in [20, 2000] {
        let mut stage = Stage::<W>::open(setting, 3);
        let memory = [0; 3].map(|_| stage.room(1, len));
        // For 2 alone; for nobody's user; for gets alone.
        let source = Some(stage.world.peer(1, 2));
        stage.post(1, MeSpec { source, ..entry(memory[0], 7, 1) });
        stage.post(1, MeSpec { uid: Some(u32::MAX - 7), ..entry(memory[1], 8, 2) });
        let gets = MeOptions { op_put: false, ..open() };
        stage.post(1, crate::pair::entry(memory[2], 9, gets, 3));
        stage.put(2, 1, 7, &pattern(len as usize, 2));
        stage.settle();
        assert_eq!(stage.outcome_of(2, Ack), (len, Ok(())));
        assert!(stage.bytes(1, memory[0]) == pattern(len as usize, 2));
        stage.put(0, 1, 7, &pattern(len as usize, 0));
        stage.settle();
        assert!(stage.outcome_of(0, Ack).1.is_err());
        let violation = (0, Err(NiFail::PermViolation));
        stage.put(0, 1, 8, &pattern(len as usize, 0));
        stage.settle();
        assert_eq!(stage.outcome_of(0, Ack), violation);
        stage.get(0, 1, 8, 0, len);
        stage.settle();
        assert_eq!(stage.outcome_of(0, Reply), violation);
        stage.put(0, 1, 9, &pattern(len as usize, 0));
        stage.settle();
        assert_eq!(stage.outcome_of(0, Ack), (0, Err(NiFail::OpViolation)));
        stage.get(0, 1, 9, 0, len);
        stage.settle();
        assert_eq!(stage.outcome_of(0, Reply), (len, Ok(())));
        let status = stage.ni(1).status();
        let registers = (status.dropped, status.permission_violations, status.operation_violations);
        assert_eq!(registers, (1, 2, 1));
        assert!(memory[1..].iter().all(|&part| stage.bytes(1, part) == vec![0; len as usize]));
        stage.assert_quiet();
    }
}

pub fn what_is_in_use_cannot_be_taken_away<W: World>(setting: W::Setting) {
    for len in [20, 2000] {
        let (mut stage, _) = with_overflow::<W>(setting, 2 * len);
        let again = stage.room(1, len);
        let handle = stage.append(1, List::Overflow, entry(again, 9, 5)).unwrap();
        stage.ni(1).me_unlink(handle).expect("nothing has come yet");
        let memory = stage.room(1, len);
        let posted = stage.post(1, entry(memory, 8, 2)).unwrap();
        stage.put(0, 1, 7, &pattern(len as usize, 1));
        stage.put(0, 1, 8, &pattern(len as usize, 1));
        stage.settle();
        let ni = stage.ni(1);
        ni.me_unlink(posted).expect("its put is there");
        assert!(matches!(ni.me_unlink(posted), Err(PtlError::ArgInvalid(_))));
        assert_eq!(ni.pt_free(PT), Err(PtlError::InUse), "there is an early message");
        let (ni, port) = stage.world.side(1);
        let all = entry(Region::EMPTY, 7, 3);
        ni.me_search(port, PT, SearchOp::Delete, &all).unwrap();
        assert_eq!(ni.pt_free(PT), Err(PtlError::InUse), "there is an entry");
        assert_eq!(stage.events(1).len(), 3);
        stage.assert_quiet();
    }
}
