//! Memory that is not mapped: an event, never a crash, and the world goes on.

use super::{SEGV, Stage, World, entry};
use crate::pair::pattern;
use sluice_portals::{Command, EventKind};
use sluice_wire::{AckKind, AtomicOp, Datatype};

use EventKind::{Ack, Atomic, Get, Put, Reply};

/// Lengths of operations, and how many of their bytes come before the hole.
const HOLES: [(usize, u64); 4] = [(60, 30), (3000, 1000), (3000, 0), (20_000, 8000)];

pub fn puts_from_and_to_unmapped_memory_fail<W: World>(setting: W::Setting) {
    for (len, before) in HOLES {
        let mut stage = Stage::<W>::open(setting, 2);
        let memory = stage.room(1, len as u64);
        let handle = stage.post(1, entry(memory, 7, 1)).unwrap();
        let source = stage.holed(0, before, &pattern(len, 1));
        stage.put_at(0, 1, 7, 0, source, Some(AckKind::Full));
        stage.settle();
        assert_eq!(stage.outcome_of(0, Ack).1, SEGV);
        // A short one is not sent at all.
        let told = stage.received(1);
        assert!(told.len() <= 1 && told.iter().all(|event| (event.0, event.2) == (Put, SEGV)));
        stage.ni(1).me_unlink(handle).unwrap();
        stage.still_works();

        let memory = stage.holed(1, before, &vec![0; len]);
        let handle = stage.post(1, entry(memory, 7, 1)).unwrap();
        stage.put(0, 1, 7, &pattern(len, 1));
        stage.settle();
        assert_eq!(stage.outcome_of(0, Ack).1, SEGV);
        let told = stage.received(1);
        assert_eq!((told.len(), told[0].0, told[0].2), (1, Put, SEGV));
        // What does not touch the hole is taken.
        stage.put(0, 1, 7, &pattern(before as usize, 2));
        stage.settle();
        assert_eq!(stage.outcome_of(0, Ack), (before, Ok(())));
        let part = sluice_wire::Region { len: before, ..memory };
        assert!(stage.bytes(1, part) == pattern(before as usize, 2));
        stage.events(1);
        stage.ni(1).me_unlink(handle).unwrap();
        stage.still_works();
    }
}

pub fn gets_from_and_into_unmapped_memory_fail<W: World>(setting: W::Setting) {
    for (len, before) in HOLES {
        let mut stage = Stage::<W>::open(setting, 2);
        let memory = stage.holed(1, before, &pattern(len, 1));
        let handle = stage.post(1, entry(memory, 7, 1)).unwrap();
        stage.get(0, 1, 7, 0, len as u64);
        stage.settle();
        assert_eq!(stage.outcome_of(0, Reply).1, SEGV);
        let told = stage.received(1);
        assert_eq!((told.len(), told[0].0, told[0].2), (1, Get, SEGV));
        stage.ni(1).me_unlink(handle).unwrap();
        stage.still_works();

        let memory = stage.alloc(1, &pattern(len, 1));
        let handle = stage.post(1, entry(memory, 7, 1)).unwrap();
        let into = stage.holed(0, before, &vec![0; len]);
        stage.get_into(0, 1, 7, 0, into);
        stage.settle();
        assert_eq!(stage.outcome_of(0, Reply).1, SEGV);
        assert!(stage.received(1).len() <= 1);
        stage.ni(1).me_unlink(handle).unwrap();
        stage.still_works();
    }
}

pub fn atomics_on_unmapped_memory_fail<W: World>(setting: W::Setting) {
    let mut stage = Stage::<W>::open(setting, 2);
    let memory = stage.holed(1, 24, &[0; 64]);
    let handle = stage.post(1, entry(memory, 7, 1)).unwrap();
    let source = stage.alloc(0, &[1; 64]);
    stage.atomic(source, 7, AtomicOp::Sum, Datatype::Uint64);
    stage.settle();
    assert_eq!(stage.outcome_of(0, Ack).1, SEGV);
    let told = stage.received(1);
    assert_eq!((told.len(), told[0].0, told[0].2), (1, Atomic, SEGV));
    stage.fetch(0, &[1; 64], AtomicOp::Sum, 0);
    stage.settle();
    assert_eq!(stage.outcome_of(0, Reply).1, SEGV);
    stage.events(1);
    stage.ni(1).me_unlink(handle).unwrap();
    stage.still_works();
}

pub fn pieces_that_are_unmapped_fail<W: World>(setting: W::Setting) {
    for (len, before) in HOLES {
        let mut stage = Stage::<W>::open(setting, 2);
        let good = stage.room(1, 10);
        let bad = stage.holed(1, before, &vec![0; len]);
        let spec = stage.pieces_entry(1, &[good, bad], 7, 1);
        let handle = stage.post(1, spec).unwrap();
        stage.put(0, 1, 7, &pattern(len, 1));
        stage.settle();
        assert_eq!(stage.outcome_of(0, Ack).1, SEGV);
        stage.get(0, 1, 7, 0, len as u64);
        stage.settle();
        assert_eq!(stage.outcome_of(0, Reply).1, SEGV);
        assert!(stage.received(1).iter().all(|event| event.2 == SEGV));
        stage.ni(1).me_unlink(handle).unwrap();

        let memory = stage.room(1, len as u64 + 10);
        let handle = stage.post(1, entry(memory, 7, 1)).unwrap();
        let good = stage.room(0, 10);
        let bad = stage.holed(0, before, &vec![0; len]);
        let local = stage.pieces_md(0, &[good, bad]);
        let target = stage.target(0, 1, 7, 0);
        let (ack, hdr_data, user_ptr) = (Some(AckKind::Full), 0, 1);
        stage.issue(0, &Command::Put { from: local, ack, target, hdr_data, user_ptr }).unwrap();
        stage.settle();
        assert_eq!(stage.outcome_of(0, Ack).1, SEGV);
        stage.issue(0, &Command::Get { into: local, target, user_ptr }).unwrap();
        stage.settle();
        assert_eq!(stage.outcome_of(0, Reply).1, SEGV);
        stage.events(1);
        stage.ni(0).md_release(local.md).unwrap();
        stage.ni(1).me_unlink(handle).unwrap();
        stage.still_works();
    }
}
