//! The programs of large messages: one beside a computation, and a fast flow
//! beside a slow one. Both keep to a timetable, so that nothing that the
//! processes would have to tell each other for that disturbs what is measured.

use super::op::Op;
use crate::config::{Config, First, Overlap, Pace, Shares, Side};

/// What the other side of an overlap comes later by, besides twice the bytes' time.
const LEAD_NS: u64 = 50_000;
/// What a computation is longer by than three times the bytes' time.
const COMPUTE_NS: u64 = 100_000;
/// What repetitions are apart besides what they should take.
const SPARE_NS: u64 = 2_000_000;

/// An overlap and its timetable.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OverlapPlan {
    overlap: Overlap,
    bytes: u32,
    lead_ns: u64,
    compute_ns: u64,
    period_ns: u64,
}

impl OverlapPlan {
    pub fn new(config: &Config, overlap: Overlap) -> OverlapPlan {
        let bytes = config.program.bytes;
        let bytes_ns = u64::from(bytes) * config.network.kib_ns / 1024;
        let lead_ns = 2 * bytes_ns + LEAD_NS;
        let compute_ns = overlap.compute_ns.unwrap_or(3 * bytes_ns + COMPUTE_NS);
        let period_ns = 2 * (lead_ns + compute_ns) + 10 * bytes_ns + SPARE_NS;
        OverlapPlan { overlap, bytes, lead_ns, compute_ns, period_ns }
    }

    pub fn compute_ns(&self) -> u64 {
        self.compute_ns
    }

    /// The rank that computes.
    pub fn measured(&self) -> u32 {
        u32::from(self.overlap.side == Side::Receive)
    }

    /// When both sides of a repetition, counted from zero, are there.
    pub fn meets_ns(&self, repetition: u32) -> u64 {
        (u64::from(repetition) + 1) * self.period_ns + self.lead_ns
    }

    /// When the first side of a repetition, counted from zero, comes.
    pub fn comes_ns(&self, repetition: u32) -> u64 {
        self.meets_ns(repetition) - self.lead_ns
    }

    /// The operations of a rank: it comes, begins, computes, waits.
    pub fn step(&self, rank: u32, repetition: u32, step: u32) -> Option<Op> {
        let meets_ns = self.meets_ns(repetition);
        let is_sender = rank == 0;
        let is_first = is_sender == (self.overlap.first == First::Sender);
        let computes = rank == self.measured() && self.compute_ns > 0;
        match step {
            0 => Some(Op::Away { until_ns: meets_ns - if is_first { self.lead_ns } else { 0 } }),
            1 if is_sender => Some(Op::PostSend { to: 1, bytes: self.bytes }),
            1 => Some(Op::PostRecv { from: 0 }),
            2 if computes => Some(Op::Away { until_ns: meets_ns + self.compute_ns }),
            2 | 3 if step == 2 + u32::from(computes) => Some(Op::Settle),
            _ => None,
        }
    }
}

/// Two flows and the timetable of the fast one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PacePlan {
    pace: Pace,
    bytes: u32,
    /// Messages of the fast flow.
    messages: u32,
    interval_ns: u64,
    sink_kib_ns: u64,
}

impl PacePlan {
    pub fn new(config: &Config, pace: Pace) -> PacePlan {
        // Packets carry the bytes, so it is their time that counts.
        let bytes_ns = u64::from(config.program.bytes) * config.network.packet_ns / 64;
        PacePlan {
            pace,
            bytes: config.program.bytes,
            messages: config.program.repetitions,
            interval_ns: bytes_ns * 100 / u64::from(pace.load_percent),
            sink_kib_ns: config.network.packet_ns * 16 * u64::from(pace.sink_factor),
        }
    }

    pub fn bytes(&self) -> u64 {
        u64::from(self.bytes)
    }

    /// What 1,024 bytes take the slow sink.
    pub fn sink_kib_ns(&self) -> u64 {
        self.sink_kib_ns
    }

    /// Sender and receiver of the fast flow.
    pub fn fast(&self) -> (u32, u32) {
        match self.pace.shares {
            Shares::Receiver => (2, 1),
            Shares::Sender => (0, 2),
        }
    }

    /// When the sender of the fast flow has a message, counted from zero.
    pub fn sends_ns(&self, message: u32) -> u64 {
        (u64::from(message) + 1) * self.interval_ns
    }

    /// The operations of a rank. Those of a repetition of the receiver of the fast
    /// flow end with a message of it; the others have one repetition.
    pub fn step(&self, rank: u32, repetition: u32, step: u32) -> Option<Op> {
        let bytes = self.bytes;
        let (from, to) = self.fast();
        let slow = self.pace.slow_messages;
        let slow_sends = if rank == 0 { slow } else { 0 };
        let slow_receives = u32::from(rank == 1 && slow > 0);
        let begins = if repetition > 0 { 0 } else { slow_sends + slow_receives };
        if step < begins {
            return Some(if rank == 0 {
                Op::PostSend { to: 1, bytes }
            } else {
                Op::Stream { from: 0, count: slow, window: self.pace.slow_window }
            });
        }
        let step = step - begins;
        if rank == to {
            let ops = [
                Op::Stream { from, count: self.messages, window: self.messages },
                Op::Await { from, number: repetition + 1 },
            ];
            return ops[usize::from(repetition > 0)..].get(step as usize).copied();
        }
        let sends = if rank == from { self.messages } else { 0 };
        match step {
            _ if step < 2 * sends && step.is_multiple_of(2) => {
                Some(Op::Rest { until_ns: self.sends_ns(step / 2) })
            }
            _ if step < 2 * sends => Some(Op::PostSend { to, bytes }),
            _ => (step == 2 * sends).then_some(Op::Settle),
        }
    }

    /// Repetitions of a rank: of the receiver of the fast flow a message each.
    pub fn repetitions(&self, rank: u32) -> u32 {
        if rank == self.fast().1 { self.messages } else { 1 }
    }
}
