//! Atomic operations as the engine does them: what fits, what comes back, who
//! may ask. What they compute is tested beside `arith`.

use crate::pair;
use crate::pair::net::{Event as NetEvent, Mode, random::Random, roomy};
use crate::pair::{Pair, Side, entry, open, program_limits, target};
use sluice_portals::{
    Arithmetic, Command, EventKind, List, Local, MdOptions, MeOptions, NiFail, PtlError, Taken,
};
use sluice_wire::{
    AckKind, Answer, Atomic, AtomicOp, Credits, Datatype, MatchBits, Packet, PacketSeq, PeerId,
    Region,
};

use EventKind::{Ack, AtomicOverflow, FetchAtomic, FetchAtomicOverflow, Reply, Send};

fn arithmetic(op: AtomicOp, datatype: Datatype) -> Arithmetic {
    Arithmetic { op, datatype, operand: [0; 32] }
}

fn numbers(values: &[u64]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

fn issue(
    pair: &mut Pair,
    who: usize,
    values: &[u8],
    offset: u64,
    arithmetic: Arithmetic,
) -> Result<(), PtlError> {
    let region = pair.alloc(who, values);
    let command = Command::Atomic {
        from: pair.local(who, region),
        ack: Some(AckKind::Full),
        target: target(1, 7, offset),
        hdr_data: 77,
        user_ptr: 500,
        arithmetic,
    };
    pair.issue(who, &command)
}

fn fetch(
    pair: &mut Pair,
    who: usize,
    values: &[u8],
    offset: u64,
    arithmetic: Arithmetic,
) -> Result<Region, PtlError> {
    let region = pair.alloc(who, values);
    let into = pair.alloc(who, &vec![0xEE; values.len()]);
    let command = Command::Fetch {
        into: pair.local(who, into),
        from: pair.local(who, region),
        target: target(1, 7, offset),
        hdr_data: 77,
        user_ptr: 600,
        arithmetic,
    };
    pair.issue(who, &command)?;
    Ok(into)
}

#[test]
fn items_are_combined_and_the_event_says_how() {
    let mut pair = Pair::of_program(Mode::default());
    let memory = pair.alloc(1, &numbers(&[10, 20, 30]));
    pair.append(List::Priority, entry(memory, 7, open(), 1));
    let sum = arithmetic(AtomicOp::Sum, Datatype::Uint64);
    issue(&mut pair, 0, &numbers(&[1, 2]), 8, sum).unwrap();
    pair.settle();
    assert_eq!(pair.bytes(1, memory), numbers(&[10, 21, 32]));
    let event = pair.events(1)[0];
    assert_eq!((event.kind, event.mlength, event.hdr_data), (EventKind::Atomic, 16, 77));
    assert_eq!(event.atomic, Some((AtomicOp::Sum, Datatype::Uint64)));
    assert_eq!((event.remote_offset, event.start), (8, memory.addr.offset(8)));
    assert_eq!(pair.happened(0), [(Send, 500, 16), (Ack, 500, 16)]);
    pair.assert_quiet();
}

#[test]
fn only_whole_items_are_touched() {
    for (datatype, len, moved) in [
        (Datatype::Uint64, 20, 16),
        (Datatype::Uint64, 7, 0),
        (Datatype::DoubleComplex, 31, 16),
        (Datatype::Uint8, 5, 5),
    ] {
        let mut pair = Pair::of_program(Mode::default());
        let memory = pair.alloc(1, &vec![0; len]);
        pair.append(List::Priority, entry(memory, 7, open(), 1));
        let swap = arithmetic(AtomicOp::Swap, datatype);
        let into = fetch(&mut pair, 0, &[3; 32], 0, swap).unwrap();
        pair.settle();
        let found = pair.bytes(1, memory);
        assert!(found[..moved].iter().all(|&byte| byte == 3));
        assert!(found[moved..].iter().all(|&byte| byte == 0), "{datatype:?}");
        let mut before = vec![0; moved];
        before.resize(32, 0xEE);
        assert_eq!(pair.bytes(0, into), before);
        assert_eq!(pair.happened(1), [(FetchAtomic, 1, moved as u64)]);
        assert_eq!(pair.happened(0), [(Send, 600, 32), (Reply, 600, moved as u64)]);
        pair.assert_quiet();
    }
}

#[test]
fn a_fetch_brings_back_what_was_there() {
    for mode in [Mode::default(), Mode { pending_percent: 100, ..Mode::default() }] {
        let mut pair = Pair::of_program(mode);
        let memory = pair.alloc(1, &numbers(&[10, 20]));
        pair.append(List::Priority, entry(memory, 7, open(), 1));
        let sum = arithmetic(AtomicOp::Sum, Datatype::Uint64);
        let into = fetch(&mut pair, 0, &numbers(&[1, 2]), 0, sum).unwrap();
        pair.settle();
        assert_eq!(pair.bytes(0, into), numbers(&[10, 20]));
        assert_eq!(pair.bytes(1, memory), numbers(&[11, 22]));
        pair.assert_quiet();
    }
}

#[test]
fn the_operand_of_a_swap_travels_with_it() {
    for (operand, expected) in [(10_u64, 99_u64), (11, 10)] {
        let mut pair = Pair::of_program(Mode::default());
        let memory = pair.alloc(1, &numbers(&[10]));
        pair.append(List::Priority, entry(memory, 7, open(), 1));
        let mut cswap = arithmetic(AtomicOp::Cswap, Datatype::Uint64);
        cswap.operand[..8].copy_from_slice(&operand.to_le_bytes());
        let into = fetch(&mut pair, 0, &numbers(&[99]), 0, cswap).unwrap();
        pair.settle();
        assert_eq!(pair.bytes(1, memory), numbers(&[expected]));
        assert_eq!(pair.bytes(0, into), numbers(&[10]));
    }
    let mut pair = Pair::of_program(Mode::default());
    let memory = pair.alloc(1, &[0b1010]);
    pair.append(List::Priority, entry(memory, 7, open(), 1));
    let mut mswap = arithmetic(AtomicOp::Mswap, Datatype::Uint8);
    mswap.operand[0] = 0b0110;
    fetch(&mut pair, 0, &[0b0101], 0, mswap).unwrap();
    pair.settle();
    assert_eq!(pair.bytes(1, memory), [0b1100]);
}

/// The values of a fetch were called free, and a copy of them was never given
/// back, while the rail had not read them yet.
#[test]
fn values_on_their_way_stay_in_use() {
    let mode = Mode { pending_percent: 100, ..Mode::default() };
    let mut pair = Pair::of_program(mode);
    let memory = pair.alloc(1, &numbers(&[10]));
    pair.append(List::Priority, entry(memory, 7, open(), 1));
    let sum = arithmetic(AtomicOp::Sum, Datatype::Uint64);
    fetch(&mut pair, 0, &numbers(&[5]), 0, sum).unwrap();
    assert_eq!(pair.happened(0), [], "the rail has not read the values");
    let cswap = arithmetic(AtomicOp::Cswap, Datatype::Uint64);
    fetch(&mut pair, 0, &numbers(&[5]), 0, cswap).unwrap();
    pair.settle();
    assert_eq!(pair.happened(0).len(), 4);
    assert_eq!(pair.bytes(1, memory), numbers(&[15]));
    pair.assert_quiet();
    // Nor may they be lost with the peer.
    fetch(&mut pair, 0, &numbers(&[5]), 0, cswap).unwrap();
    pair.kill(1);
    pair.settle();
    let kinds: Vec<_> =
        pair.outcomes(0).iter().map(|(kind, _, outcome)| (*kind, outcome.is_ok())).collect();
    assert_eq!(kinds.len(), 2);
    assert!(kinds.contains(&(Send, false)) && kinds.contains(&(Reply, false)));
    pair.assert_quiet();
}

#[test]
fn two_initiators_count_every_step_once() {
    for seed in 0..50 {
        let limits = program_limits();
        let mode = Mode { pending_percent: 30, ..Mode::default() };
        let mut pair = Pair::with_limits(&[roomy(); 3], mode, MdOptions::default(), limits);
        let memory = pair.alloc(1, &[0; 24]);
        // Aligned or not.
        let part = Region { addr: memory.addr.offset(seed % 8), len: 8 };
        pair.append(List::Priority, entry(part, 7, open(), 1));
        let mut draw = Random::new(seed);
        let sum = arithmetic(AtomicOp::Sum, Datatype::Uint64);
        let mut fetched = Vec::new();
        for _ in 0..40 {
            let who = *draw.pick(&[0, 2]);
            fetched.push((who, fetch(&mut pair, who, &numbers(&[1]), 0, sum).unwrap()));
            for _ in 0..draw.below(3) {
                let events = pair.sides[0].port.net().events();
                if !events.is_empty() {
                    pair.happen(*draw.pick(&events));
                }
            }
        }
        pair.settle();
        let seen = fetched.iter().map(|&(who, into)| pair.bytes(who, into));
        let mut seen: Vec<u64> =
            seen.map(|bytes| u64::from_le_bytes(bytes.try_into().unwrap())).collect();
        seen.sort_unstable();
        assert_eq!(seen, (0..40).collect::<Vec<u64>>());
        assert_eq!(pair.bytes(1, part), numbers(&[40]));
        pair.assert_quiet();
    }
}

#[test]
fn what_is_wrong_in_itself_is_refused() {
    let mut pair = Pair::of_program(Mode::default());
    let refused = |result: Result<(), PtlError>| matches!(result, Err(PtlError::ArgInvalid(_)));
    for (op, datatype, len) in [
        (AtomicOp::Swap, Datatype::Uint64, 8),
        (AtomicOp::Sum, Datatype::Uint64, 12),
        (AtomicOp::Bor, Datatype::Double, 8),
        (AtomicOp::Max, Datatype::FloatComplex, 8),
        (AtomicOp::Sum, Datatype::Uint64, 72),
    ] {
        assert!(refused(issue(&mut pair, 0, &vec![0; len], 0, arithmetic(op, datatype))));
    }
    let cswap = arithmetic(AtomicOp::Cswap, Datatype::Uint64);
    assert!(refused(fetch(&mut pair, 0, &[0; 16], 0, cswap).map(|_| ())));
    // What comes back is as long as what goes out.
    let region = pair.alloc(0, &[0; 16]);
    let local = pair.local(0, region);
    let command = Command::Fetch {
        into: Local { length: 8, ..local },
        from: local,
        target: target(1, 7, 0),
        hdr_data: 0,
        user_ptr: 0,
        arithmetic: arithmetic(AtomicOp::Sum, Datatype::Uint64),
    };
    assert!(refused(pair.issue(0, &command)));
    assert_eq!(pair.sides[0].port.net().events(), []);
    pair.assert_quiet();
}

#[test]
fn an_atomic_operation_that_no_honest_peer_sends_is_a_violation() {
    for (op, datatype, answer, len) in [
        (AtomicOp::Bor, Datatype::Double, Answer::No, 8),
        (AtomicOp::Sum, Datatype::Uint64, Answer::No, 9),
        (AtomicOp::Swap, Datatype::Uint64, Answer::No, 8),
        (AtomicOp::Cswap, Datatype::Uint64, Answer::Fetch(1), 4),
        (AtomicOp::Cswap, Datatype::Uint64, Answer::Fetch(1), 24),
    ] {
        let mut pair = Pair::of_program(Mode::default());
        let memory = pair.alloc(1, &[0; 64]);
        pair.append(List::Priority, entry(memory, 7, open(), 1));
        let packet = Packet::Atomic(Atomic {
            pt_index: pair::PT,
            match_bits: MatchBits(7),
            hdr_data: 0,
            remote_offset: 0,
            op,
            datatype,
            answer,
            by_control: false,
        });
        let head = packet.emit(PacketSeq(0), Credits::default(), len);
        let net = pair.sides[0].port.clone();
        net.net_mut().forge(0, 1, &head, &vec![1; len as usize]);
        pair.happen(NetEvent::Deliver(0, 1));
        assert_eq!(pair.taken, Some(Taken::Violation), "{op:?} {datatype:?} {len}");
        assert_eq!(pair.bytes(1, memory), [0; 64]);
    }
}

#[test]
fn permissions_of_atomic_operations() {
    let put = MeOptions { op_put: true, ..MeOptions::default() };
    let get = MeOptions { op_get: true, ..MeOptions::default() };
    let violation = Err(NiFail::OpViolation);
    for (options, atomic, fetched) in
        [(open(), Ok(()), Ok(())), (put, Ok(()), violation), (get, violation, violation)]
    {
        let mut pair = Pair::of_program(Mode::default());
        let memory = pair.alloc(1, &[0; 8]);
        pair.append(List::Priority, entry(memory, 7, options, 1));
        let sum = arithmetic(AtomicOp::Sum, Datatype::Uint64);
        issue(&mut pair, 0, &numbers(&[1]), 0, sum).unwrap();
        fetch(&mut pair, 0, &numbers(&[1]), 0, sum).unwrap();
        pair.settle();
        let outcomes = pair.outcomes(0);
        assert_eq!(outcomes[1].2.and(outcomes[2].2), atomic.and(Ok(())).and(outcomes[2].2));
        let of = |kind| outcomes.iter().find(|outcome| outcome.0 == kind).unwrap().2;
        assert_eq!((of(Ack), of(Reply)), (atomic, fetched));
        let refused = u64::from(atomic.is_err()) + u64::from(fetched.is_err());
        assert_eq!(pair.sides[1].ni.status().operation_violations, refused);
        pair.assert_quiet();
    }
}

#[test]
fn unexpected_atomic_operations_are_done_and_told_when_taken() {
    let mut pair = Pair::of_program(Mode::default());
    let overflow = pair.alloc(1, &numbers(&[0]));
    pair.append(List::Overflow, entry(overflow, 7, open(), 1));
    let sum = arithmetic(AtomicOp::Sum, Datatype::Uint64);
    issue(&mut pair, 0, &numbers(&[3]), 0, sum).unwrap();
    let into = fetch(&mut pair, 0, &numbers(&[4]), 0, sum).unwrap();
    pair.settle();
    assert_eq!(pair.bytes(0, into), numbers(&[3]));
    pair.events(1);
    pair.append(List::Priority, entry(Region::EMPTY, 7, open(), 2));
    let events = pair.events(1);
    let kinds: Vec<_> = events.iter().map(|event| (event.kind, event.user_ptr)).collect();
    assert_eq!(kinds, [(AtomicOverflow, 2), (FetchAtomicOverflow, 2)]);
    assert!(events.iter().all(|event| event.start == overflow.addr));
    assert_eq!(events[0].atomic, Some((AtomicOp::Sum, Datatype::Uint64)));
    pair.assert_quiet();
}

#[test]
fn nothing_is_counted_twice_by_counters_of_the_initiator() {
    let options = MdOptions { ct_send: true, ct_ack: true, ct_reply: true, ..MdOptions::default() };
    let limits = program_limits();
    let mut pair = Pair::with_limits(&[roomy(); 2], Mode::default(), options, limits);
    let memory = pair.alloc(1, &[0; 8]);
    pair.append(List::Priority, entry(memory, 7, open(), 1));
    let sum = arithmetic(AtomicOp::Sum, Datatype::Uint64);
    issue(&mut pair, 0, &numbers(&[1]), 0, sum).unwrap();
    pair.settle();
    assert_eq!(pair.ct(0), (2, 0), "sent and acknowledged");
    fetch(&mut pair, 0, &numbers(&[1]), 0, sum).unwrap();
    pair.settle();
    assert_eq!(pair.ct(0), (4, 0), "sent and answered");
    let Side { ni, .. } = &mut pair.sides[1];
    assert_eq!(ni.status().protocol_violations, 0);
    assert_eq!(pair.sides[0].ni.links().ledger(PeerId(1)).unwrap().data_held, 0);
}
