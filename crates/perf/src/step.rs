//! What the first process tells the second one to do.

use crate::buffers::Places;
use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

/// Bytes of a step as it is sent.
pub const STEP_BYTES: usize = 256;

/// One thing to do together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Step {
    /// Both buffers hold messages of this size from now on.
    Reserve { size: u64 },
    /// The buffer that messages are received into has so many bytes from now on.
    ReservePlaces { bytes: u64 },
    /// A message each way whose every byte is checked; the first one lies at `at` of both
    /// buffers, the answer at their beginning.
    Verify { size: u64, seed: u64, at: u64 },
    /// So many messages, each answered by one of the same size.
    PingPong { size: u64, count: u64 },
    /// So many windows of messages, each window answered.
    Stream { size: u64, count: u64, window: u64, places: Places },
    /// A plain connection: answer with the port to connect to.
    RawOpen,
    /// As [`Step::PingPong`], over the plain connection.
    RawPingPong { size: u64, count: u64 },
    /// So many windows of so many bytes over it, each answered by a byte.
    RawStream { window_bytes: u64, count: u64 },
    /// Answer with a key to the buffer that messages are sent from.
    Expose,
    /// Numbered messages of this size, at most `window` under way and one in so many
    /// nanoseconds, until the next step, which is answered with their count.
    Feed { size: u64, window: u64, every_ns: u64 },
    /// No more of them.
    EndFeed,
    /// Answers to so many messages of this size, beside receives of large ones, until
    /// [`Step::EndFeed`], which is answered with the bytes of those that came.
    Behind { size: u64, count: u64, bulk_bytes: u64, window: u64 },
    /// So many more endpoints; answered with the length of their addresses, which follow in
    /// a message.
    Gather { count: u64 },
    /// Each of them answers the message that comes.
    Echo,
    /// So many messages at once, which are received when it pleases.
    Flood { size: u64, count: u64 },
    /// A message to be sent or received at a moment of the machine's clock, and
    /// answered, after a quiet span, with the moment at which that was done.
    Overlap { size: u64, when: When, role: Role },
    /// Endpoints for two flows, whose addresses are exchanged; one of them has a
    /// sink of this rate.
    PaceOpen { size: u64, window: u32, bytes_per_s: u64 },
    /// The flows of this mix, of which those messages count that come in this
    /// span; answered when they are there, and with the counts.
    Pace { mix: Mix, span: Span },
    /// The receive buffer, for operations on it.
    Share,
    /// Nothing of the library is called for so long, from the answer on.
    Away { for_ns: u64 },
    /// Nothing more.
    Stop,
}

/// When the second process does what, in one repetition of an overlap.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct When {
    /// It comes, on the machine's monotonic clock.
    pub come_ns: u64,
    /// From then on it sends nothing but the message for so long.
    pub quiet_ns: u64,
}

/// What a process does in one repetition of an overlap.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Role {
    pub sends: bool,
    /// What the bytes of this repetition are told by; both sides know it.
    pub seed: u32,
}

/// Which flows are there, and where the fast one goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mix {
    pub fast: bool,
    pub slow: bool,
    pub receiver: Receiver,
}

/// Where the fast flow goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Receiver {
    /// To the receiver of the slow flow.
    Same,
    /// To another one.
    Other,
}

/// From when until when messages of flows count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Span {
    pub from_ns: u64,
    pub until_ns: u64,
}

impl Step {
    /// As it is sent: JSON, and spaces up to the length of every step.
    pub fn to_bytes(self) -> [u8; STEP_BYTES] {
        let mut bytes = [b' '; STEP_BYTES];
        serde_json::to_writer(&mut bytes[..], &self).expect("the longest step fits");
        bytes
    }

    /// As it was sent.
    pub fn from_bytes(bytes: &[u8; STEP_BYTES]) -> Result<Step> {
        serde_json::from_slice(bytes)
            .context("a step that does not exist; are both processes the same build?")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_arrive_as_they_were_sent() {
        let max = u64::MAX;
        let (when, role) = (When { come_ns: max, quiet_ns: max }, Role { sends: false, seed: 15 });
        let mix = Mix { fast: false, slow: false, receiver: Receiver::Other };
        let steps = [
            Step::Reserve { size: 1 },
            Step::ReservePlaces { bytes: max },
            Step::Verify { size: 2, seed: 3, at: 4 },
            Step::PingPong { size: 4, count: 5 },
            Step::Stream { size: max, count: max, window: max, places: Places::new(max, max - 1) },
            Step::RawOpen,
            Step::RawPingPong { size: max, count: max },
            Step::RawStream { window_bytes: max, count: max },
            Step::Expose,
            Step::Feed { size: max, window: max, every_ns: max },
            Step::EndFeed,
            Step::Behind { size: max, count: max, bulk_bytes: max, window: max },
            Step::Gather { count: max },
            Step::Echo,
            Step::Flood { size: 9, count: 10 },
            Step::Overlap { size: max, when, role },
            Step::Overlap { size: max, when, role: Role { sends: true, seed: u32::MAX } },
            Step::PaceOpen { size: max, window: u32::MAX, bytes_per_s: max },
            Step::Pace { mix, span: Span { from_ns: max, until_ns: max } },
            Step::Share,
            Step::Away { for_ns: max },
            Step::Stop,
        ];
        for step in steps {
            assert_eq!(Step::from_bytes(&step.to_bytes()).expect("a step"), step);
        }
        assert!(Step::from_bytes(&[99; STEP_BYTES]).is_err());
    }
}
