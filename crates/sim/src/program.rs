//! What the processes do: for each pattern a rule that gives the next
//! operation of a rank, so that a program takes no memory however many
//! messages it sends.
//!
//! | file | what it holds |
//! |---|---|
//! | here | the order of phases, repetitions and barriers |
//! | `op` | the operations |
//! | `patterns` | the operations of one repetition, by pattern |
//! | `collectives` | the arithmetic of collective operations |
//! | `large` | the programs of large messages, with their timetables |

mod collectives;
mod large;
mod op;
mod patterns;

pub(crate) use large::{OverlapPlan, PacePlan};
pub(crate) use op::{Next, Op};

use crate::config::{Config, Pattern, Phase};
use collectives::barrier;

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
}

#[cfg(test)]
mod tests;
