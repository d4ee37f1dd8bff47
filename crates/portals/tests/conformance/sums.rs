//! Atomic operations.

use super::{Stage, World, entry};
use crate::pair::open;
use sluice_portals::{Arithmetic, Command, EventKind, MeOptions};
use sluice_wire::{AckKind, AtomicOp, Datatype, Region};

use EventKind::{Ack, Atomic, FetchAtomic, Reply, Send};

fn numbers(values: &[u64]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

impl<W: World> Stage<W> {
    /// Issues an atomic operation of side 0 on side 1, with what is at `source`.
    pub fn atomic(&mut self, source: Region, bits: u64, op: AtomicOp, datatype: Datatype) {
        let command = Command::Atomic {
            from: self.local(0, source),
            ack: Some(AckKind::Full),
            target: self.target(0, 1, bits, 0),
            hdr_data: 77,
            user_ptr: 500,
            arithmetic: Arithmetic { op, datatype, operand: [0; 32] },
        };
        self.issue(0, &command).expect("it is right in itself");
    }

    /// Issues one that brings back what was there, and says to where.
    pub fn fetch(&mut self, who: usize, values: &[u8], op: AtomicOp, operand: u64) -> Region {
        let source = self.alloc(who, values);
        let into = self.room(who, values.len() as u64);
        let mut wide = [0; 32];
        wide[..8].copy_from_slice(&operand.to_le_bytes());
        let command = Command::Fetch {
            into: self.local(who, into),
            from: self.local(who, source),
            target: self.target(who, 1, 7, 0),
            hdr_data: 77,
            user_ptr: 600,
            arithmetic: Arithmetic { op, datatype: Datatype::Uint64, operand: wide },
        };
        self.issue(who, &command).expect("it is right in itself");
        into
    }
}

pub fn items_are_combined<W: World>(setting: W::Setting) {
    let words = |values: [u32; 2]| values.map(u32::to_le_bytes).concat();
    let reals = |values: [f64; 2]| values.map(f64::to_le_bytes).concat();
    for (op, datatype, there, given, expected) in [
        (AtomicOp::Sum, Datatype::Uint64, numbers(&[10, 20]), numbers(&[1, 2]), numbers(&[11, 22])),
        (AtomicOp::Sum, Datatype::Uint32, words([!0, 7]), words([1, 1]), words([0, 8])),
        (AtomicOp::Min, Datatype::Int32, words([5, !0]), words([4, 1]), words([4, !0])),
        (
            AtomicOp::Prod,
            Datatype::Double,
            reals([1.5, -2.0]),
            reals([2.0, 0.5]),
            reals([3.0, -1.0]),
        ),
        (AtomicOp::Bxor, Datatype::Uint8, vec![0b1100, 1], vec![0b1010, 1], vec![0b0110, 0]),
    ] {
        let mut stage = Stage::<W>::open(setting, 2);
        let memory = stage.alloc(1, &there);
        stage.post(1, entry(memory, 7, 1));
        let source = stage.alloc(0, &given);
        stage.atomic(source, 7, op, datatype);
        stage.settle();
        assert_eq!(stage.bytes(1, memory), expected, "{op:?}");
        let len = memory.len;
        assert_eq!(stage.sent(0), [(Send, len, Ok(())), (Ack, len, Ok(()))]);
        let event = stage.events(1)[0];
        assert_eq!((event.kind, event.mlength, event.hdr_data), (Atomic, len, 77));
        assert_eq!(event.atomic, Some((op, datatype)));
        stage.assert_quiet();
    }
}

pub fn swaps_swap_and_bring_back<W: World>(setting: W::Setting) {
    for (op, operand, there, given, expected) in [
        (AtomicOp::Sum, 0, 10, 5, 15),
        (AtomicOp::Swap, 0, 10, 99, 99),
        (AtomicOp::Cswap, 10, 10, 99, 99),
        (AtomicOp::Cswap, 11, 10, 99, 10),
        (AtomicOp::Mswap, 0b0110, 0b1010, 0b0101, 0b1100),
    ] {
        let mut stage = Stage::<W>::open(setting, 2);
        let memory = stage.alloc(1, &numbers(&[there]));
        stage.post(1, entry(memory, 7, 1));
        let into = stage.fetch(0, &numbers(&[given]), op, operand);
        stage.settle();
        assert_eq!(stage.bytes(1, memory), numbers(&[expected]), "{op:?}");
        assert_eq!(stage.bytes(0, into), numbers(&[there]), "what was there");
        assert_eq!(stage.sent(0), [(Send, 8, Ok(())), (Reply, 8, Ok(()))]);
        assert_eq!(stage.received(1), [(FetchAtomic, 8, Ok(()))]);
        stage.assert_quiet();
    }
}

pub fn nobody_s_step_is_lost<W: World>(setting: W::Setting) {
    const STEPS: usize = 30;
    let mut stage = Stage::<W>::open(setting, 3);
    let memory = stage.alloc(1, &numbers(&[0]));
    let silent = MeOptions { event_comm_disable: true, ..open() };
    stage.post(1, crate::pair::entry(memory, 7, silent, 1));
    let mut fetched = Vec::new();
    for _ in 0..STEPS {
        for who in 0..3 {
            fetched.push((who, stage.fetch(who, &numbers(&[1]), AtomicOp::Sum, 0)));
            stage.step();
        }
    }
    stage.settle();
    assert_eq!(stage.bytes(1, memory), numbers(&[3 * STEPS as u64]));
    let seen = fetched.iter().map(|&(who, into)| stage.bytes(who, into));
    let mut seen: Vec<_> =
        seen.map(|bytes| u64::from_le_bytes(bytes.try_into().unwrap())).collect();
    seen.sort_unstable();
    assert!(seen.into_iter().eq(0..3 * STEPS as u64));
    assert_eq!(stage.events(1), []);
    stage.assert_quiet();
}
