//! What only large messages need: what the rail moves by itself, the limits of
//! the protocols, and the two programs that measure them.

use super::{Config, Layer, Pattern};
use crate::error::ConfigError;
use serde::{Deserialize, Serialize};

/// What the interfaces of the nodes move without a processor. Layer `messages` only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Rail {
    /// A process can have another one's memory read.
    pub reads: bool,
    /// A process can have another one's memory written.
    pub writes: bool,
    /// The interfaces keep chunk claims: words that two processes exchange. Receives
    /// are announced only where there are some.
    pub chunk_claims: bool,
}

impl Default for Rail {
    fn default() -> Rail {
        Rail { reads: true, writes: true, chunk_claims: false }
    }
}

/// Limits of the protocols. Layer `messages` only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Endpoint {
    /// Longest message that is sent eagerly.
    pub eager_bytes_max: u32,
    /// Shortest receive that is announced to its source, and shortest message
    /// for which a process takes in first what has arrived. None: never.
    pub announce_bytes_min: u64,
    /// Shortest message that both sides may copy.
    pub share_bytes_min: u64,
    /// Slots of a mailbox for answers to gets.
    pub reply_slots: u16,
}

impl Default for Endpoint {
    fn default() -> Endpoint {
        Endpoint {
            eager_bytes_max: 2048,
            announce_bytes_min: 32 << 10,
            share_bytes_min: 64 << 10,
            reply_slots: 2048,
        }
    }
}

/// Who comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum First {
    /// Rank 0.
    Sender,
    /// Rank 1.
    Receiver,
}

/// Who computes while the message moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Side {
    /// The receiver.
    Receive,
    /// The sender.
    Send,
}

/// Rank 0 sends to rank 1. One of the two begins, computes without a call of the
/// library, and then waits; the other begins and waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Overlap {
    /// Who comes first, by more than the message takes.
    pub first: First,
    /// Who computes.
    pub side: Side,
    /// How long, from the moment at which both are there. None: three times what
    /// the bytes take, and 100 µs.
    #[serde(default)]
    pub compute_ns: Option<u64>,
}

/// What the fast flow shares with the slow one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Shares {
    /// The receiver: it comes from rank 2.
    Receiver,
    /// The sender: it goes to rank 2.
    Sender,
}

/// Rank 0 sends a slow flow to rank 1, where bytes are taken slowly; a fast one
/// shares a node with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pace {
    /// What the fast flow shares.
    pub shares: Shares,
    /// Messages of the slow flow, all sent at the start. Without any the fast
    /// one is alone.
    pub slow_messages: u32,
    /// Receives of the slow flow that are begun at any time.
    pub slow_window: u32,
    /// As many times slower than a link the sink of the slow flow is.
    pub sink_factor: u32,
    /// Of a hundred bytes that a link could carry, what the fast flow sends.
    pub load_percent: u32,
    /// What lies between two nodes at most: bytes that have left one interface
    /// and are not in the other one's, and as many in that one that are not in
    /// memory.
    pub buffer_bytes: u64,
}

/// Processes of a [`Pace`].
pub(crate) const PACE_PROCESSES: u32 = 3;
/// Most nanoseconds of computation in an [`Overlap`]: timetables are sums of a few.
const COMPUTE_NS_MAX: u64 = 1_000_000_000_000;
/// Most messages of a flow of a [`Pace`]: its program has two steps for each.
const PACE_MESSAGES_MAX: u32 = 1 << 30;

impl Config {
    pub(super) fn check_large(&self) -> Result<(), ConfigError> {
        let fault = |key: &str, reason: &str| Err(ConfigError::new(key, reason));
        let program = &self.program;
        for (key, pattern, is_there) in [
            ("program.overlap", Pattern::Overlap, program.overlap.is_some()),
            ("program.pace", Pattern::Pace, program.pace.is_some()),
        ] {
            if is_there != (program.pattern == pattern) {
                return fault(key, "must be there if the pattern is of that name, and only then");
            }
            if is_there && self.layer != Layer::Messages {
                return fault("layer", "must be \"messages\" for this pattern");
            }
        }
        let is_large = program.overlap.is_some() || program.pace.is_some();
        if self.network.processes_per_node != 1 && is_large {
            return fault("network.processes_per_node", "must be 1 for this pattern");
        }
        let is_plain = !program.barrier && program.phases.is_empty() && program.ranks.is_none();
        if is_large && !is_plain {
            return fault("program", "has no ranks, phases or barrier in this pattern");
        }
        if program.overlap.is_some() && self.processes != 2 {
            return fault("processes", "must be 2 for an overlap");
        }
        // Timetables are sums of these in nanoseconds.
        let compute_ns = program.overlap.and_then(|overlap| overlap.compute_ns).unwrap_or(0);
        if compute_ns > COMPUTE_NS_MAX {
            return fault("program.overlap.compute_ns", "must be at most 10^12");
        }
        let Some(pace) = &program.pace else { return Ok(()) };
        if self.processes != PACE_PROCESSES {
            return fault("processes", "must be 3 for a pace");
        }
        for (key, value) in [
            ("program.pace.sink_factor", pace.sink_factor),
            ("program.pace.slow_window", pace.slow_window),
        ] {
            if value == 0 {
                return fault(key, "must be at least 1");
            }
        }
        if program.repetitions > PACE_MESSAGES_MAX || pace.slow_messages >= PACE_MESSAGES_MAX {
            return fault("program", "has at most 2^30 messages in a pace");
        }
        if !(1..=100).contains(&pace.load_percent) {
            return fault("program.pace.load_percent", "must be from 1 to 100");
        }
        Ok(())
    }
}
