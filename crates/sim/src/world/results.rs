//! What a world counts: repetitions, messages, credits, and how it ended.

use super::World;
use crate::library::Library;
use crate::outcome::{Counts, CreditSample, Outcome, OverlapTimes, PaceTimes};

/// What is summed up over the counted repetitions of an overlap or a pace.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LargeSums {
    /// Of the side that computes, from when both are there.
    measured_ns: u64,
    /// Until the receiver has the message.
    arrived_ns: u64,
    /// What the slow sink had taken when counting began, and when it ended.
    slow_bytes: [u64; 2],
    /// A repetition went on after its place in the timetable.
    is_late: bool,
}

impl<L: Library> World<L> {
    /// What was counted, once nothing happens any more.
    pub fn outcome(&self) -> Outcome {
        let counted = self.participants.len() as u32 - self.warm_up;
        let at = |repetition: u32| match repetition {
            0 => 0,
            some => {
                let (count, sum_ns) = self.repeated[some as usize - 1];
                sum_ns / u64::from(count.max(1))
            }
        };
        let mut time_ns = at(self.warm_up + counted).saturating_sub(at(self.warm_up));
        let overlap = self.program.overlap().map(|plan| {
            time_ns = self.large.measured_ns;
            OverlapTimes { compute_ns: plan.compute_ns(), arrived_ns: self.large.arrived_ns }
        });
        let pace = self.program.pace().map(|plan| PaceTimes {
            bytes: plan.bytes(),
            slow_bytes: self.large.slow_bytes[1] - self.large.slow_bytes[0],
            sink_kib_ns: plan.sink_kib_ns(),
            delay_ns: self.large.arrived_ns,
        });
        let largest = self.libraries.iter().map(|library| library.links().heap_bytes()).max();
        Outcome {
            processes: self.hosts.len() as u32,
            time_ns: time_ns / u64::from(self.program.ways()),
            repetitions: counted,
            active: self.participants.iter().copied().max().unwrap_or(0),
            ways: self.program.ways(),
            counts: self.totals().since(self.before),
            unread_slots_max: self.unread_slots_max,
            link_bytes_max: largest.unwrap_or(0) as u64,
            link_peers_max: self.hosts.len() as u64 - 1,
            events: self.events,
            hash: self.hash,
            credits: self.credits.clone(),
            overlap,
            pace,
            stuck: self.describe_stuck(),
        }
    }

    fn describe_stuck(&self) -> Option<String> {
        if self.unended == 0 {
            let text = "a repetition took longer than its place in the timetable";
            return self.large.is_late.then(|| text.to_owned());
        }
        let stuck: Vec<usize> =
            (0..self.hosts.len()).filter(|&who| !self.hosts[who].has_ended).collect();
        let blocked = stuck.iter().filter(|&&who| self.libraries[who].is_blocked()).count();
        Some(format!(
            "{} of {} processes wait for ever (the first is {}), {blocked} of them for credits",
            stuck.len(),
            self.hosts.len(),
            stuck[0]
        ))
    }

    fn totals(&self) -> Counts {
        let mut totals = self.counts;
        for library in &self.libraries {
            let (messages, delayed) = library.messages();
            totals.messages += messages;
            totals.delayed += delayed;
        }
        totals
    }

    /// A process has done a repetition.
    pub(super) fn repeat(&mut self, process: u32, at: u64, repetition: u32) {
        // A process that ends the warm-up early counts what it sends from then on: it would
        // else count the delay of a message and not the message.
        if repetition == self.warm_up {
            self.messages_before[process as usize] =
                Some(self.libraries[process as usize].messages());
        }
        let (count, sum_ns) = &mut self.repeated[repetition as usize - 1];
        *count += 1;
        *sum_ns += at;
        let all = *count == self.participants[repetition as usize - 1];
        if all && repetition == self.warm_up {
            self.end_warm_up();
        }
        if process == 0 {
            self.sample_credits(repetition);
        }
        self.sum_up(process, at, repetition);
    }

    /// All processes have done the last repetition of the warm-up.
    fn end_warm_up(&mut self) {
        let own = self.messages_before.iter().zip(&self.libraries);
        let (messages, delayed) = own
            .map(|(own, library)| own.unwrap_or_else(|| library.messages()))
            .fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
        self.before = Counts { messages, delayed, ..self.totals() };
    }

    fn sum_up(&mut self, process: u32, at: u64, repetition: u32) {
        let is_counted = repetition > self.warm_up;
        let large = &mut self.large;
        if let Some(plan) = self.program.overlap() {
            large.is_late |= at > plan.comes_ns(repetition);
            if is_counted {
                // A short message may have gone before the other side is there.
                let since_ns = at.saturating_sub(plan.meets_ns(repetition - 1));
                large.measured_ns += if process == plan.measured() { since_ns } else { 0 };
                large.arrived_ns += if process == 1 { since_ns } else { 0 };
            }
        }
        if let Some(plan) = self.program.pace() {
            large.slow_bytes[usize::from(is_counted)] = self.slow_bytes;
            if is_counted {
                large.arrived_ns += at - plan.sends_ns(repetition - 1);
            }
        }
    }

    fn sample_credits(&mut self, repetition: u32) {
        let mut first = 1;
        for &end in &self.credit_groups {
            let group = format!("{first}-{}", end.saturating_sub(1));
            let mut all: Vec<u32> =
                (first..end).map(|other| self.libraries[0].credits_toward(other)).collect();
            first = end.max(first);
            all.sort_unstable();
            let (Some(&min), Some(&max)) = (all.first(), all.last()) else { continue };
            self.credits.push(CreditSample {
                repetition,
                group,
                ranks: all.len() as u32,
                min,
                median: all[(all.len() - 1) / 2],
                max,
                sum: all.iter().map(|&credits| u64::from(credits)).sum(),
            });
        }
    }
}
