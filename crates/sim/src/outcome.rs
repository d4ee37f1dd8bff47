//! What a run has counted. Integers only, so that figures taken from a journal
//! are the same to the last digit as those just measured.

use serde::{Deserialize, Serialize};

/// Counts from the end of the warm-up on, over all processes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Messages sent through the network.
    pub messages: u64,
    /// Of these, had to wait for credits at least once.
    pub delayed: u64,
    /// Packets other than credit packets.
    pub data_packets: u64,
    /// Packets of nothing but credits.
    pub credit_packets: u64,
    /// Processor time spent on credit packets, at both ends.
    pub credit_ns: u64,
    /// Time in which a process had something to send, no credit, and nothing
    /// else to do.
    pub stalled_ns: u64,
}

/// Credits that rank 0 has toward a group of ranks after a repetition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CreditSample {
    /// Counted from 1.
    pub repetition: u32,
    /// The ranks of the group, as in `256-511`.
    pub group: String,
    /// Its ranks, rank 0 itself not counted.
    pub ranks: u32,
    /// Least credits toward a rank of it.
    pub min: u32,
    /// Half of the ranks have no more.
    pub median: u32,
    /// Most.
    pub max: u32,
    /// Over the group.
    pub sum: u64,
}

/// Of an overlap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OverlapTimes {
    /// The computation of a repetition.
    pub compute_ns: u64,
    /// From when both sides are there until the receiver has the message: the
    /// counted repetitions together.
    pub arrived_ns: u64,
}

/// Of a pace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PaceTimes {
    /// Of a message.
    pub bytes: u64,
    /// What the slow sink has taken in the counted time.
    pub slow_bytes: u64,
    /// What it needs for 1,024 bytes.
    pub sink_kib_ns: u64,
    /// From when a message of the fast flow is there until it has been received:
    /// the counted ones together.
    pub delay_ns: u64,
}

/// What a run has counted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outcome {
    /// Processes simulated.
    pub processes: u32,
    /// Time of the counted repetitions together, the mean over the processes that
    /// take part; of a ping-pong, one way.
    pub time_ns: u64,
    /// Counted repetitions.
    pub repetitions: u32,
    /// Most processes that take part in one.
    pub active: u32,
    /// Ways that a repetition has and `time_ns` counts one of.
    pub ways: u32,
    /// See [`Counts`].
    pub counts: Counts,
    /// Most slots of one mailbox with packets unread.
    pub unread_slots_max: u64,
    /// Heap of one process's links: the most.
    pub link_bytes_max: u64,
    /// Other processes that such a process has links with.
    pub link_peers_max: u64,
    /// Events simulated.
    pub events: u64,
    /// Of all arrivals, in order: two runs are the same if this is.
    pub hash: u64,
    /// If the program asks for them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub credits: Vec<CreditSample>,
    /// If it is an overlap. Then `time_ns` is that of the side that computes, from
    /// when both are there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overlap: Option<OverlapTimes>,
    /// If it is a pace. Then a repetition is a message of the fast flow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pace: Option<PaceTimes>,
    /// Why the run did not come to its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stuck: Option<String>,
}

impl Counts {
    /// What was counted since `before`.
    pub(crate) fn since(self, before: Counts) -> Counts {
        Counts {
            messages: self.messages - before.messages,
            delayed: self.delayed - before.delayed,
            data_packets: self.data_packets - before.data_packets,
            credit_packets: self.credit_packets - before.credit_packets,
            credit_ns: self.credit_ns - before.credit_ns,
            stalled_ns: self.stalled_ns - before.stalled_ns,
        }
    }
}

impl Outcome {
    /// Nanoseconds of a repetition.
    #[must_use]
    pub fn repetition_ns(&self) -> f64 {
        self.time_ns as f64 / f64::from(self.repetitions.max(1))
    }
}
