use super::*;
use crate::config;
use std::collections::BTreeMap;

fn program(pattern: Pattern, ranks: u32, processes: u32) -> Program {
    Program {
        pattern,
        bytes: 100,
        processes,
        phases: vec![Phase { ranks, repetitions: 3 }],
        root_repetitions: 1,
        warm_up: 0,
        barrier: true,
        partner: 4,
        side: 4,
        overlap: None,
        pace: None,
    }
}

/// Messages sent and received of every ordered pair.
fn pairs(program: &Program) -> [BTreeMap<(u32, u32), u32>; 2] {
    let mut sent = BTreeMap::new();
    let mut received = BTreeMap::new();
    for rank in 0..program.processes {
        let mut cursor = Cursor::default();
        loop {
            let (to, from) = match program.next(rank, &mut cursor) {
                Next::End => break,
                Next::Repeated(_)
                | Next::Do(
                    Op::Settle
                    | Op::Stream { .. }
                    | Op::Await { .. }
                    | Op::Away { .. }
                    | Op::Rest { .. },
                ) => (None, None),
                Next::Do(Op::Send { to, .. } | Op::PostSend { to, .. }) => (Some(to), None),
                Next::Do(Op::Recv { from } | Op::PostRecv { from }) => (None, Some(from)),
                Next::Do(Op::Both { to, from, .. } | Op::Post { to, from, .. }) => {
                    (Some(to), Some(from))
                }
            };
            if let Some(to) = to {
                assert_ne!(to, rank);
                *sent.entry((rank, to)).or_insert(0) += 1;
            }
            if let Some(from) = from {
                *received.entry((from, rank)).or_insert(0) += 1;
            }
        }
    }
    [sent, received]
}

/// The operations of a rank's first repetition.
fn first_repetition(program: &Program, rank: u32) -> Vec<Op> {
    let mut cursor = Cursor::default();
    let next = || match program.next(rank, &mut cursor) {
        Next::Do(op) => Some(op),
        Next::Repeated(_) | Next::End => None,
    };
    std::iter::from_fn(next).collect()
}

#[test]
fn what_is_sent_is_received() {
    use config::Pattern::*;
    for pattern in [
        PingPong,
        MultiPingPong,
        PingPing,
        Sendrecv,
        Exchange,
        Reduce,
        ReduceScatter,
        Bcast,
        Barrier,
        Alltoall,
        AlltoallPosted,
        Alltoallv,
        Allgatherv,
        Gather,
        Gatherv,
        Scatter,
        Scatterv,
        Allreduce,
        Allgather,
    ] {
        for (ranks, processes) in [(8, 8), (8, 12), (7, 8), (6, 11), (2, 8), (13, 13), (3, 8)] {
            if pattern == Allreduce && ranks != 8 {
                continue;
            }
            // Some ranks have nothing of eight bytes that are spread.
            for bytes in [100, 8] {
                let [sent, received] =
                    pairs(&Program { bytes, ..program(pattern, ranks, processes) });
                assert_eq!(sent, received, "{pattern:?} of {ranks} in {processes}");
                assert!(!sent.is_empty());
            }
        }
    }
}

#[test]
fn all_to_all_begins_with_the_next_rank() {
    let program = program(Pattern::Alltoall, 4, 4);
    let mut cursor = Cursor::default();
    let ops: Vec<Next> = (0..10).map(|_| program.next(2, &mut cursor)).collect();
    let send = |to| Next::Do(Op::Send { to, bytes: 100 });
    let recv = |from| Next::Do(Op::Recv { from });
    let settle = Next::Do(Op::Settle);
    let round = |reach: u32| {
        let (to, from) = ((2 + reach) % 4, (6 - reach) % 4);
        Next::Do(Op::Both { to, bytes: 0, from })
    };
    let barrier = [round(1), round(2), Next::Repeated(1)];
    let wanted = [send(3), send(0), send(1), recv(3), recv(0), recv(1), settle];
    let wanted = [&wanted[..], &barrier].concat();
    assert_eq!(ops, wanted);
}

#[test]
fn a_scatter_halves_what_it_hands_on() {
    let program = program(Pattern::Scatter, 8, 8);
    let mut cursor = Cursor::default();
    let ops: Vec<Next> = (0..4).map(|_| program.next(0, &mut cursor)).collect();
    let wanted = [(4, 400), (2, 200), (1, 100)].map(|(to, bytes)| Next::Do(Op::Send { to, bytes }));
    assert_eq!(ops[..3], wanted);
}

#[test]
fn a_reduce_scatter_halves_what_it_keeps() {
    // 25 words: four for rank 0, three for each of the others.
    let program = program(Pattern::ReduceScatter, 8, 8);
    let both = |other, bytes| Op::Both { to: other, bytes, from: other };
    let wanted = [both(4, 48), both(2, 24), both(1, 12), Op::Settle];
    assert_eq!(first_repetition(&program, 0)[..4], wanted);
    let wanted = [both(1, 52), both(7, 24), both(4, 12), Op::Settle];
    assert_eq!(first_repetition(&program, 5)[..4], wanted);
}

#[test]
fn ranks_without_a_word_of_a_reduce_scatter_wait_for_nobody() {
    let program = Program { bytes: 16, barrier: false, ..program(Pattern::ReduceScatter, 8, 8) };
    for rank in 4..8 {
        let wanted = [Op::Send { to: rank - 4, bytes: 16 }, Op::Settle];
        assert_eq!(first_repetition(&program, rank), wanted);
    }
}

#[test]
fn ranks_beyond_a_power_of_two_are_given_their_words_at_the_end() {
    let program = Program { bytes: 20, barrier: false, ..program(Pattern::ReduceScatter, 5, 5) };
    let wanted = [Op::Send { to: 1, bytes: 20 }, Op::Recv { from: 1 }, Op::Settle];
    assert_eq!(first_repetition(&program, 0), wanted);
    let both = |other, bytes| Op::Both { to: other, bytes, from: other };
    let wanted =
        [Op::Recv { from: 0 }, both(3, 8), both(2, 4), Op::Send { to: 0, bytes: 4 }, Op::Settle];
    assert_eq!(first_repetition(&program, 1), wanted);
}

#[test]
fn an_allgather_brings_everybody_the_blocks_of_all_others() {
    for (pattern, ranks) in [Pattern::Allgather, Pattern::Allgatherv]
        .into_iter()
        .flat_map(|pattern| [2, 5, 8].map(|ranks| (pattern, ranks)))
    {
        let program = Program { barrier: false, ..program(pattern, ranks, ranks) };
        for rank in 0..ranks {
            let sent: u32 = first_repetition(&program, rank)
                .into_iter()
                .map(|op| if let Op::Both { bytes, .. } = op { bytes } else { 0 })
                .sum();
            assert_eq!(sent, 100 * (ranks - 1), "{pattern:?} of {ranks}");
        }
    }
}
