//! I/O vectors on either side: a memory in pieces behaves as one.

use crate::pair::net::{Event as NetEvent, Mode, roomy};
use crate::pair::{Pair, Side, entry, open, pattern, program_limits, target};
use sluice_link::PeerError;
use sluice_portals::{
    Arithmetic, Command, EventKind, Limits, List, Local, MdOptions, MeOptions, MeSpec, NiFail,
    PtlError, Vector,
};
use sluice_wire::{AckKind, Addr, AtomicOp, Datatype, Region};

use EventKind::{Ack, Put, Reply, Send};

/// Memory in pieces of these lengths, with `bytes` in it from the start on.
fn pieces(pair: &Pair, who: usize, lens: &[usize], bytes: &[u8]) -> Vec<Region> {
    let mut at = 0;
    let piece = |&len: &usize| {
        let from = at.min(bytes.len());
        let part = &bytes[from..(at + len).min(bytes.len()).max(from)];
        at += len;
        let mut part = part.to_vec();
        part.resize(len, 0);
        pair.alloc(who, &part)
    };
    lens.iter().map(piece).collect()
}

/// Ways to cut 300 bytes or more.
const CUTS: [&[usize]; 5] =
    [&[300], &[1, 299], &[0, 7, 0, 0, 293, 0], &[63, 1, 1, 235], &[100, 100, 100]];

fn modes() -> [Mode; 4] {
    let mode = Mode::default();
    [
        mode,
        Mode { can_read: false, ..mode },
        Mode { forbidden_percent: 50, ..mode },
        Mode { pending_percent: 100, ..mode },
    ]
}

#[test]
fn puts_between_pieces_arrive_whole() {
    for mode in modes() {
        for from_lens in CUTS {
            for to_lens in CUTS {
                for len in [0, 1, 64, 65, 300] {
                    let mut pair = Pair::of_program(mode);
                    let bytes = pattern(300, len as usize);
                    let source = pieces(&pair, 0, from_lens, &bytes);
                    let memory = pieces(&pair, 1, to_lens, &[]);
                    let spec = pair.vector_entry(&memory, 7, open(), 1);
                    pair.append(List::Priority, spec);
                    let whole = pair.vector_md(0, &source, MdOptions::default());
                    let from = Local { length: len, ..whole };
                    let ack = Some(AckKind::Full);
                    let command = Command::Put {
                        from,
                        ack,
                        target: target(1, 7, 0),
                        hdr_data: 0,
                        user_ptr: 9,
                    };
                    pair.issue(0, &command).unwrap();
                    pair.settle();
                    let mut expected = bytes[..len as usize].to_vec();
                    expected.resize(300, 0);
                    assert_eq!(pair.gathered(1, &memory), expected);
                    assert_eq!(pair.happened(0), [(Send, 9, len), (Ack, 9, len)]);
                    assert_eq!(pair.happened(1), [(Put, 1, len)]);
                    pair.assert_quiet();
                }
            }
        }
    }
}

#[test]
fn gets_between_pieces_arrive_whole() {
    for mode in modes() {
        for from_lens in CUTS {
            for to_lens in CUTS {
                for (offset, len) in [(0, 0), (3, 64), (299, 64), (2, 65), (7, 293), (0, 300)] {
                    let mut pair = Pair::of_program(mode);
                    let bytes = pattern(300, len as usize);
                    let memory = pieces(&pair, 1, from_lens, &bytes);
                    let spec = pair.vector_entry(&memory, 7, open(), 1);
                    pair.append(List::Priority, spec);
                    let landing = pieces(&pair, 0, to_lens, &[]);
                    let whole = pair.vector_md(0, &landing, MdOptions::default());
                    let into = Local { length: len, ..whole };
                    let get = Command::Get { into, target: target(1, 7, offset), user_ptr: 9 };
                    pair.issue(0, &get).unwrap();
                    pair.settle();
                    let moved = len.min(300 - offset);
                    let mut expected = bytes[offset as usize..][..moved as usize].to_vec();
                    expected.resize(300, 0);
                    assert_eq!(pair.gathered(0, &landing), expected);
                    assert_eq!(pair.happened(0), [(Reply, 9, moved)]);
                    pair.assert_quiet();
                }
            }
        }
    }
}

#[test]
fn a_part_of_a_descriptor_in_pieces_is_put() {
    for length in [50, 150] {
        let mut pair = Pair::of_program(Mode::default());
        let source = pieces(&pair, 0, &[10, 90, 200], &pattern(300, 1));
        let memory = pair.alloc(1, &[0; 200]);
        pair.append(List::Priority, entry(memory, 7, open(), 1));
        let from = Local { offset: 95, length, ..pair.vector_md(0, &source, MdOptions::default()) };
        let (ack, target) = (None, target(1, 7, 0));
        pair.issue(0, &Command::Put { from, ack, target, hdr_data: 0, user_ptr: 9 }).unwrap();
        pair.settle();
        let end = 95 + length as usize;
        assert_eq!(pair.bytes(1, memory)[..length as usize], pattern(300, 1)[95..end]);
        let beyond = Command::Put {
            from: Local { offset: 301 - length, ..from },
            ack,
            target,
            hdr_data: 0,
            user_ptr: 9,
        };
        assert!(matches!(pair.issue(0, &beyond), Err(PtlError::ArgInvalid(_))));
    }
}

#[test]
fn the_start_of_an_event_is_where_its_first_byte_lies() {
    let mut pair = Pair::of_program(Mode::default());
    let memory = pieces(&pair, 1, &[10, 20], &[]);
    let spec = pair.vector_entry(&memory, 7, MeOptions { manage_local: true, ..open() }, 1);
    pair.append(List::Priority, spec);
    for expected in [
        memory[0].addr,
        memory[0].addr.offset(4),
        memory[0].addr.offset(8),
        memory[1].addr.offset(2),
    ] {
        pair.issue_put(0, 7, b"four", None);
        pair.settle();
        assert_eq!(pair.events(1)[0].start, expected);
    }
}

/// The eight bytes of a number over pieces.
fn spread(pair: &Pair, number: u64, cut: usize) -> Vec<Region> {
    pieces(pair, 1, &[cut, 8 - cut], &number.to_le_bytes())
}

#[test]
fn an_item_that_straddles_pieces_changes_as_a_whole() {
    for cut in 0..=8 {
        let mut pair = Pair::of_program(Mode::default());
        let memory = spread(&pair, 0xFFFF_FFFF, cut);
        let spec = pair.vector_entry(&memory, 7, open(), 1);
        pair.append(List::Priority, spec);
        let value = pair.alloc(0, &1_u64.to_le_bytes());
        let landing = pieces(&pair, 0, &[8 - cut, cut], &[]);
        let into = pair.vector_md(0, &landing, MdOptions::default());
        let arithmetic =
            Arithmetic { op: AtomicOp::Sum, datatype: Datatype::Uint64, operand: [0; 32] };
        let command = Command::Fetch {
            into,
            from: pair.local(0, value),
            target: target(1, 7, 0),
            hdr_data: 0,
            user_ptr: 9,
            arithmetic,
        };
        pair.issue(0, &command).unwrap();
        pair.settle();
        assert_eq!(pair.gathered(1, &memory), 0x1_0000_0000_u64.to_le_bytes());
        assert_eq!(pair.gathered(0, &landing), 0xFFFF_FFFF_u64.to_le_bytes());
        assert_eq!(pair.happened(0), [(Send, 9, 8), (Reply, 9, 8)]);
        pair.assert_quiet();
    }
}

#[test]
fn a_piece_that_is_not_mapped_faults() {
    for len in [60, 300] {
        let mut pair = Pair::of_program(Mode::default());
        let memory = pieces(&pair, 1, &[20, 20, 260], &[]);
        pair.sides[1].port.unmap(memory[1]);
        let spec = pair.vector_entry(&memory, 7, open(), 1);
        pair.append(List::Priority, spec);
        pair.issue_put(0, 7, &pattern(len, 1), Some(AckKind::Full));
        pair.settle();
        let expected = [(Send, len as u64, Ok(())), (Ack, len as u64, Err(NiFail::Segv))];
        assert_eq!(pair.outcomes(0), expected);
        assert_eq!(pair.outcomes(1), [(Put, len as u64, Err(NiFail::Segv))]);
        assert_eq!(pair.bytes(1, memory[0]), [0; 20], "nothing was written");
        pair.assert_quiet();
    }
}

/// Entries kept their vectors' places for ever.
#[test]
fn a_vector_goes_with_its_entry_or_descriptor() {
    let limits = Limits { vectors_max: 1, ..program_limits() };
    let layouts = [roomy(); 2];
    let mut pair = Pair::with_limits(&layouts, Mode::default(), MdOptions::default(), limits);
    let memory = pieces(&pair, 1, &[10, 20], &[]);
    let once = MeOptions { use_once: true, ..open() };

    // Used up by an operation, at once and after its data has moved.
    for len in [3, 300] {
        let spec = pair.vector_entry(&memory, 7, once, 1);
        pair.append(List::Priority, spec);
        let vector = Vector::new(memory.clone()).unwrap();
        let refused = pair.sides[1].ni.vector_bind(vector);
        assert_eq!(refused, Err(PtlError::NoSpace("I/O vectors")));
        pair.issue_put(0, 7, &pattern(len, 1), None);
        pair.settle();
    }
    // Unlinked by the program.
    let spec = pair.vector_entry(&memory, 7, open(), 1);
    let handle = pair.append(List::Priority, spec).unwrap();
    pair.sides[1].ni.me_unlink(handle).unwrap();
    // Never linked, because a header has used it up.
    let unexpected = pair.alloc(1, &[0; 10]);
    let overflow = pair.append(List::Overflow, entry(unexpected, 7, open(), 2)).unwrap();
    pair.issue_put(0, 7, b"early", None);
    pair.settle();
    let spec = pair.vector_entry(&memory, 7, once, 1);
    assert_eq!(pair.append(List::Priority, spec), None);
    pair.sides[1].ni.me_unlink(overflow).unwrap();
    // An overflow entry, when its last header is taken.
    let spec = pair.vector_entry(&memory, 7, once, 1);
    pair.append(List::Overflow, spec);
    pair.issue_put(0, 7, b"early", None);
    pair.settle();
    let refused = pair.sides[1].ni.vector_bind(Vector::new(memory.clone()).unwrap());
    assert_eq!(refused, Err(PtlError::NoSpace("I/O vectors")));
    pair.append(List::Priority, MeSpec { ..entry(unexpected, 7, once, 3) });
    // A descriptor.
    let local = pair.vector_md(1, &memory, MdOptions::default());
    let Side { ni, .. } = &mut pair.sides[1];
    ni.md_release(local.md).unwrap();
    ni.vector_bind(Vector::new(memory).unwrap()).expect("there is room again");
}

#[test]
fn lengths_that_overflow_make_no_vector() {
    let half = Region { addr: Addr(0), len: u64::MAX / 2 + 1 };
    assert!(Vector::new(vec![half, half]).is_none());
    let none = Vector::new(Vec::new()).unwrap();
    assert!(none.is_empty() && none.total_bytes() == 0);
}

/// The rail goes on reading what it was given. Its copy was given back, and the put
/// told as over, as soon as the target was gone.
#[test]
fn a_copy_stays_while_a_packet_to_a_lost_target_is_written() {
    for ack in [None, Some(AckKind::Full)] {
        let mut pair = Pair::of_program(Mode { pending_percent: 100, ..Mode::default() });
        let source = pieces(&pair, 0, &[10, 20], &pattern(30, 1));
        let from = pair.vector_md(0, &source, MdOptions::default());
        let (target, hdr_data, user_ptr) = (target(1, 7, 0), 0, 1);
        pair.issue(0, &Command::Put { from, ack, target, hdr_data, user_ptr }).unwrap();
        pair.kill(1);
        assert_eq!(pair.sides[0].port.net().lent(0), (0, 30), "the rail reads it");
        assert_eq!(pair.events(0), [], "its memory is in use");
        pair.settle();
        let gone = Err(NiFail::Undeliverable(PeerError::Dead));
        let ends: Vec<_> = pair.outcomes(0).iter().map(|(kind, _, end)| (*kind, *end)).collect();
        let expected = [(Send, gone), (Ack, gone)];
        assert_eq!(ends, expected[..1 + usize::from(ack.is_some())]);
        pair.assert_quiet();
    }
}

/// As for puts.
#[test]
fn a_copy_stays_while_an_answer_to_a_lost_process_is_written() {
    let mut pair = Pair::of_program(Mode { pending_percent: 100, ..Mode::default() });
    let memory = pieces(&pair, 1, &[10, 20], &pattern(30, 1));
    let spec = pair.vector_entry(&memory, 7, open(), 1);
    pair.append(List::Priority, spec);
    pair.issue_get(0, 7, 0, 30);
    pair.happen(NetEvent::Deliver(0, 1));
    pair.kill(0);
    assert_eq!(pair.sides[1].port.net().lent(1), (30, 0), "the rail reads it");
    pair.settle();
    pair.assert_quiet();
}

/// The table of operations is as full as it may be; the answer is read by the rail all the
/// same.
#[test]
fn a_copy_stays_while_an_answer_is_written_also_where_the_table_is_full() {
    let limits = Limits { operations_max: 1, ..program_limits() };
    let mode = Mode { pending_percent: 100, ..Mode::default() };
    let mut pair = Pair::with_limits(&[roomy(); 2], mode, MdOptions::default(), limits);
    let memory = pieces(&pair, 1, &[10, 20], &pattern(30, 1));
    let spec = pair.vector_entry(&memory, 7, open(), 1);
    pair.append(List::Priority, spec);
    pair.issue_get(1, 7, 0, 30);
    pair.issue_get(0, 7, 0, 30);
    pair.happen(NetEvent::Deliver(0, 1));
    assert_eq!(pair.sides[1].port.net().lent(1), (30, 0), "the rail reads it");
    pair.settle();
    pair.assert_quiet();
}
