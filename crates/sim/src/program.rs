//! What the processes do: for each pattern a rule that gives the next
//! operation of a rank, so that a program takes no memory however many
//! messages it sends.

mod large;

pub(crate) use large::{OverlapPlan, PacePlan};

use crate::config::{Config, Pattern, Phase};

/// What a process does next. All of them end when the process may go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Op {
    /// Sends a message. Ends when its packets, or its announcement, have gone.
    Send { to: u32, bytes: u32 },
    /// Receives the next message of a rank.
    Recv { from: u32 },
    /// Both at once.
    Both { to: u32, bytes: u32, from: u32 },
    /// Begins both and ends at once. Between two [`Op::Settle`] there is at most
    /// one for each other rank.
    Post { to: u32, bytes: u32, from: u32 },
    /// Begins a send and ends at once.
    PostSend { to: u32, bytes: u32 },
    /// Begins a receive and ends at once.
    PostRecv { from: u32 },
    /// Receives so many messages of a rank, with so many receives begun at any time,
    /// and ends at once.
    Stream { from: u32, count: u32, window: u32 },
    /// Waits until so many receives from a rank have ended, counted from the start.
    Await { from: u32, number: u32 },
    /// Waits until all that was begun or announced has ended.
    Settle,
    /// Computes, or has not come yet: no call of the library until then.
    Away { until_ns: u64 },
    /// Waits in the library until then.
    Rest { until_ns: u64 },
}

/// What comes after an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    Do(Op),
    /// A repetition has ended, counted over all phases.
    Repeated(u32),
    /// The rank has done all.
    End,
}

/// The program of all ranks.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    pattern: Pattern,
    bytes: u32,
    processes: u32,
    phases: Vec<Phase>,
    root_repetitions: u32,
    warm_up: u32,
    barrier: bool,
    /// First rank of the partner's node, and ranks of a pair's side.
    partner: u32,
    side: u32,
    overlap: Option<OverlapPlan>,
    pace: Option<PacePlan>,
}

/// Where a rank is in the program.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Cursor {
    phase: u32,
    /// In this phase, and over all.
    repetition: u32,
    repeated: u32,
    step: u32,
    /// Of the barrier after a repetition.
    round: u32,
    in_barrier: bool,
}

impl Program {
    pub fn new(config: &Config) -> Program {
        let program = &config.program;
        let per_node = config.network.processes_per_node;
        let side = if program.pattern == Pattern::PingPong { 1 } else { per_node };
        Program {
            pattern: program.pattern,
            bytes: program.bytes,
            processes: config.processes,
            phases: program.all_phases(config.processes),
            root_repetitions: program.root_repetitions,
            warm_up: program.warm_up,
            barrier: program.barrier,
            partner: config.partner_node().unwrap_or(0) * per_node,
            side,
            overlap: program.overlap.map(|overlap| OverlapPlan::new(config, overlap)),
            pace: program.pace.map(|pace| PacePlan::new(config, pace)),
        }
    }

    /// Moves the cursor of a rank on.
    pub fn next(&self, rank: u32, cursor: &mut Cursor) -> Next {
        loop {
            let Some(phase) = self.phases.get(cursor.phase as usize) else {
                return Next::End;
            };
            if cursor.in_barrier {
                if let Some(op) = barrier(rank, self.processes, cursor.step) {
                    cursor.step += 1;
                    return Next::Do(op);
                }
                cursor.phase += 1;
                (cursor.repetition, cursor.step, cursor.in_barrier) = (0, 0, false);
                continue;
            }
            let repetitions = match &self.pace {
                Some(pace) => pace.repetitions(rank),
                None => phase.repetitions,
            };
            if !self.takes_part(rank, phase.ranks) || cursor.repetition == repetitions {
                // One phase of all ranks needs no barrier at its end.
                let alone =
                    self.phases.len() == 1 && (phase.ranks == self.processes || self.is_of_pairs());
                if alone {
                    return Next::End;
                }
                (cursor.step, cursor.in_barrier) = (0, true);
                continue;
            }
            let step = cursor.step;
            cursor.step += 1;
            if let Some(op) = self.step(rank, phase.ranks, cursor, step) {
                return Next::Do(op);
            }
            let round = cursor.round;
            if let Some(op) =
                barrier(rank, phase.ranks, round).filter(|_| self.barrier && !self.is_of_pairs())
            {
                // The step that was over is asked for again.
                cursor.step -= 1;
                cursor.round += 1;
                return Next::Do(op);
            }
            (cursor.step, cursor.round) = (0, 0);
            cursor.repetition += 1;
            if self.pace.as_ref().is_some_and(|pace| rank != pace.fast().1) {
                continue;
            }
            cursor.repeated += 1;
            return Next::Repeated(cursor.repeated);
        }
    }

    /// How many ranks take part in each repetition, over all phases.
    pub fn participants(&self) -> Vec<u32> {
        let of_phase = |phase: &Phase| {
            let ranks = match self.pattern {
                _ if self.is_of_pairs() => 2 * self.side,
                Pattern::Pace => 1,
                _ => phase.ranks,
            };
            std::iter::repeat_n(ranks, phase.repetitions as usize)
        };
        self.phases.iter().flat_map(of_phase).collect()
    }

    /// The timetable, if it is an overlap.
    pub fn overlap(&self) -> Option<&OverlapPlan> {
        self.overlap.as_ref()
    }

    /// The flows, if it is a pace.
    pub fn pace(&self) -> Option<&PacePlan> {
        self.pace.as_ref()
    }

    /// A ping-pong is timed one way.
    pub fn ways(&self) -> u32 {
        if self.is_of_pairs() { 2 } else { 1 }
    }

    fn is_of_pairs(&self) -> bool {
        matches!(self.pattern, Pattern::PingPong | Pattern::MultiPingPong)
    }

    fn takes_part(&self, rank: u32, ranks: u32) -> bool {
        if self.is_of_pairs() {
            rank < self.side || (self.partner..self.partner + self.side).contains(&rank)
        } else {
            rank < ranks
        }
    }

    /// The operations of a repetition, then [`Op::Settle`], then none.
    fn step(&self, rank: u32, ranks: u32, cursor: &Cursor, step: u32) -> Option<Op> {
        let repetition = cursor.repetition;
        let count = |ops: u32| -> Option<Op> { (step == ops).then_some(Op::Settle) };
        let (up, down) = ((rank + 1) % ranks, (rank + ranks - 1) % ranks);
        let bytes = self.bytes;
        let root = repetition / self.root_repetitions % ranks;
        let place = (rank + ranks - root) % ranks;
        let at = |place: u32| (place + root) % ranks;
        let levels = u32::BITS - (ranks - 1).leading_zeros();
        match self.pattern {
            Pattern::PingPong | Pattern::MultiPingPong => {
                let (is_first, other) = if rank < self.side {
                    (true, rank + self.partner)
                } else {
                    (false, rank - self.partner)
                };
                match (step, is_first) {
                    (0, true) | (1, false) => Some(Op::Send { to: other, bytes }),
                    (0, false) | (1, true) => Some(Op::Recv { from: other }),
                    _ => count(2),
                }
            }
            Pattern::PingPing => {
                let other = rank ^ 1;
                if step == 0 && other < ranks {
                    return Some(Op::Both { to: other, bytes, from: other });
                }
                count(u32::from(other < ranks))
            }
            Pattern::Sendrecv => match step {
                0 => Some(Op::Both { to: up, bytes, from: down }),
                _ => count(1),
            },
            Pattern::Exchange => match step {
                0 => Some(Op::Both { to: up, bytes, from: down }),
                1 => Some(Op::Both { to: down, bytes, from: up }),
                _ => count(2),
            },
            Pattern::Allreduce if step < levels => {
                let other = rank ^ (1 << step);
                Some(Op::Both { to: other, bytes, from: other })
            }
            Pattern::Allreduce => count(levels),
            Pattern::Barrier => match barrier(rank, ranks, step) {
                None => count(levels),
                op => op,
            },
            Pattern::Alltoall => {
                let others = ranks - 1;
                if step < others {
                    let to = (rank + 1 + step) % ranks;
                    Some(Op::Send { to, bytes: self.bytes_of_pair(rank, to, cursor) })
                } else if step < 2 * others {
                    Some(Op::Recv { from: (rank + 1 + step - others) % ranks })
                } else {
                    count(2 * others)
                }
            }
            Pattern::AlltoallPosted => {
                if step < ranks - 1 {
                    // Receives go upwards and sends downwards, so that messages
                    // come in the order in which they are asked for.
                    let (to, from) = ((rank + ranks - step - 1) % ranks, (rank + step + 1) % ranks);
                    let bytes = self.bytes_of_pair(rank, to, cursor);
                    return Some(Op::Post { to, bytes, from });
                }
                count(ranks - 1)
            }
            Pattern::Alltoallv => {
                if step < ranks - 1 {
                    let (to, from) = ((rank + step + 1) % ranks, (rank + ranks - step - 1) % ranks);
                    let bytes = self.bytes_of_pair(rank, to, cursor);
                    return Some(Op::Both { to, bytes, from });
                }
                count(ranks - 1)
            }
            Pattern::Allgather | Pattern::Allgatherv if ranks % 2 == 1 => {
                if step < ranks - 1 {
                    return Some(Op::Both { to: up, bytes, from: down });
                }
                count(ranks - 1)
            }
            Pattern::Allgather | Pattern::Allgatherv => {
                if step < ranks / 2 {
                    let other = if (rank + step).is_multiple_of(2) { up } else { down };
                    let bytes = if step == 0 { bytes } else { bytes.saturating_mul(2) };
                    return Some(Op::Both { to: other, bytes, from: other });
                }
                count(ranks / 2)
            }
            Pattern::ReduceScatter => {
                let mut ops = reduce_scatter(rank, ranks, bytes).chain([Op::Settle]);
                ops.nth(step as usize)
            }
            Pattern::Reduce | Pattern::Gather => {
                let grows = self.pattern == Pattern::Gather;
                let size = |level: u32| block(bytes, grows, place, level, ranks);
                // The level at which this place hands on to its parent.
                let top = place.trailing_zeros().min(levels);
                let children = (0..top).filter(|level| place + (1 << level) < ranks).count() as u32;
                match step {
                    _ if step < children => Some(Op::Recv { from: at(place + (1 << step)) }),
                    _ if step == children && place != 0 => {
                        Some(Op::Send { to: at(place - (1 << top)), bytes: size(top) })
                    }
                    _ => count(children + u32::from(place != 0)),
                }
            }
            Pattern::Bcast | Pattern::Scatter => {
                let shrinks = self.pattern == Pattern::Scatter;
                let top = place.trailing_zeros().min(levels);
                let first = u32::from(place != 0);
                let children = (0..top).filter(|level| place + (1 << level) < ranks).count() as u32;
                match step {
                    0 if place != 0 => Some(Op::Recv { from: at(place - (1 << top)) }),
                    _ if step < first + children => {
                        // The largest subtree first.
                        let child = place + (1 << (children - 1 - (step - first)));
                        let level = child.trailing_zeros();
                        let bytes = block(bytes, shrinks, child, level, ranks);
                        Some(Op::Send { to: at(child), bytes })
                    }
                    _ => count(first + children),
                }
            }
            Pattern::Overlap => self.overlap.as_ref()?.step(rank, repetition, step),
            Pattern::Pace => self.pace.as_ref()?.step(rank, repetition, step),
            Pattern::Gatherv | Pattern::Scatterv => {
                let root_sends = self.pattern == Pattern::Scatterv;
                let ops = if place == 0 { ranks - 1 } else { 1 };
                if step >= ops {
                    return count(ops);
                }
                let other = if place == 0 { at(step + 1) } else { at(0) };
                if root_sends == (place == 0) {
                    Some(Op::Send { to: other, bytes })
                } else {
                    Some(Op::Recv { from: other })
                }
            }
        }
    }

    /// Length of an all-to-all's message from `rank` to another.
    fn bytes_of_pair(&self, rank: u32, to: u32, cursor: &Cursor) -> u32 {
        let is_counted = cursor.repeated >= self.warm_up;
        if is_counted { self.bytes } else { drawn(rank, to, self.bytes) }
    }
}

/// A rank's part in the recursive halving of a vector of `bytes`, in words of
/// four bytes that are spread as evenly as possible. Of a rank without a word
/// nothing is sent, so with fewer words than ranks those behind only send, and
/// wait for nobody. Ranks beyond a power of two leave their part to the next
/// one and are given their words at the end.
fn reduce_scatter(rank: u32, ranks: u32, bytes: u32) -> impl Iterator<Item = Op> {
    let words = bytes / 4;
    let words_before = move |rank: u32| rank * (words / ranks) + rank.min(words % ranks);
    let between = move |first: u32, end: u32| 4 * (words_before(end) - words_before(first));
    let halving = 1 << ranks.ilog2();
    let extra = ranks - halving;
    let is_paired = rank < 2 * extra;
    let stays_out = is_paired && rank.is_multiple_of(2);
    let place = if is_paired { rank / 2 } else { rank - extra };
    // The first rank whose words a place answers for, and who is there.
    let first = move |place: u32| place + place.min(extra);
    let who = move |place: u32| place + if place < extra { place + 1 } else { extra };
    let halve = move |level: u32| {
        let half = halving >> (level + 1);
        let start = place & !(2 * half - 1);
        let (low, high) = (
            between(first(start), first(start + half)),
            between(first(start + half), first(start + 2 * half)),
        );
        let is_low = place < start + half;
        let (sent, kept) = if is_low { (high, low) } else { (low, high) };
        exchange(who(place ^ half), sent, kept)
    };
    let partner = rank ^ 1;
    let words_of = move |rank: u32| between(rank, rank + 1);
    let all = 4 * words;
    let before = is_paired
        .then(|| if stays_out { exchange(partner, all, 0) } else { exchange(partner, 0, all) });
    let after = is_paired.then(|| {
        if stays_out {
            exchange(partner, 0, words_of(rank))
        } else {
            exchange(partner, words_of(partner), 0)
        }
    });
    let levels = if stays_out { 0 } else { halving.ilog2() };
    before.into_iter().chain((0..levels).map(halve)).chain(after).flatten()
}

/// Sends, receives, or both; nothing is not sent.
fn exchange(with: u32, sent_bytes: u32, received_bytes: u32) -> Option<Op> {
    match (sent_bytes > 0, received_bytes > 0) {
        (true, true) => Some(Op::Both { to: with, bytes: sent_bytes, from: with }),
        (true, false) => Some(Op::Send { to: with, bytes: sent_bytes }),
        (false, true) => Some(Op::Recv { from: with }),
        (false, false) => None,
    }
}

/// Bytes of the part of a tree that hangs from `place` at a level.
fn block(bytes: u32, by_subtree: bool, place: u32, level: u32, ranks: u32) -> u32 {
    let leaves = if by_subtree { (1u32 << level).min(ranks - place) } else { 1 };
    bytes.saturating_mul(leaves)
}

/// A length up to `bytes`, another one for each pair. Messages of one length
/// would keep all pairs at the same place between two credit packets, where
/// nothing is typical; so the repetitions of the warm-up put them out of step.
fn drawn(rank: u32, to: u32, bytes: u32) -> u32 {
    let mixed = (u64::from(rank) << 32 | u64::from(to)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let mixed = (mixed ^ mixed >> 29).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    ((u128::from(mixed) * (u128::from(bytes) + 1)) >> 64) as u32
}

/// A round of a dissemination barrier; none when it is over.
fn barrier(rank: u32, ranks: u32, step: u32) -> Option<Op> {
    let reach = 1u32.checked_shl(step).filter(|&reach| reach < ranks)?;
    let (to, from) = ((rank + reach) % ranks, (rank + ranks - reach) % ranks);
    Some(Op::Both { to, bytes: 0, from })
}

#[cfg(test)]
mod tests {
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
        let wanted =
            [(4, 400), (2, 200), (1, 100)].map(|(to, bytes)| Next::Do(Op::Send { to, bytes }));
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
        let program =
            Program { bytes: 16, barrier: false, ..program(Pattern::ReduceScatter, 8, 8) };
        for rank in 4..8 {
            let wanted = [Op::Send { to: rank - 4, bytes: 16 }, Op::Settle];
            assert_eq!(first_repetition(&program, rank), wanted);
        }
    }

    #[test]
    fn ranks_beyond_a_power_of_two_are_given_their_words_at_the_end() {
        let program =
            Program { bytes: 20, barrier: false, ..program(Pattern::ReduceScatter, 5, 5) };
        let wanted = [Op::Send { to: 1, bytes: 20 }, Op::Recv { from: 1 }, Op::Settle];
        assert_eq!(first_repetition(&program, 0), wanted);
        let both = |other, bytes| Op::Both { to: other, bytes, from: other };
        let wanted = [
            Op::Recv { from: 0 },
            both(3, 8),
            both(2, 4),
            Op::Send { to: 0, bytes: 4 },
            Op::Settle,
        ];
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
}
