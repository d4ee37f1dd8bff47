//! What the first process tells the second one to do.

use crate::overlap::{Role, When};
use crate::pace::{Mix, Span};
use anyhow::{Result, bail};

/// Bytes of a step as it is sent.
pub const STEP_BYTES: usize = 32;
/// Where the span of an overlap is in the word behind its role of 33 bits.
const QUIET_SHIFT: u32 = 33;

/// One thing to do together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Both buffers hold messages of this size from now on.
    Reserve { size: u64 },
    /// A message each way whose every byte is checked.
    Verify { size: u64, seed: u64 },
    /// So many messages, each answered by one of the same size.
    PingPong { size: u64, count: u64 },
    /// So many windows of messages, each window answered.
    Stream { size: u64, count: u64, window: u64 },
    /// Answer with the address of the buffer that messages are sent from.
    Expose,
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
    /// Nothing more.
    Stop,
}

impl Step {
    /// As it is sent.
    pub fn to_bytes(self) -> [u8; STEP_BYTES] {
        let words = match self {
            Step::Reserve { size } => [0, size, 0, 0],
            Step::Verify { size, seed } => [1, size, seed, 0],
            Step::PingPong { size, count } => [2, size, count, 0],
            Step::Stream { size, count, window } => [3, size, count, window],
            Step::Expose => [4, 0, 0, 0],
            Step::Stop => [5, 0, 0, 0],
            Step::Flood { size, count } => [6, size, count, 0],
            Step::Overlap { size, when, role } => {
                let role = u64::from(role.seed) << 1 | u64::from(role.sends);
                [7, size, when.come_ns, u64::from(when.quiet_us) << QUIET_SHIFT | role]
            }
            Step::PaceOpen { size, window, bytes_per_s } => {
                [8, size, u64::from(window), bytes_per_s]
            }
            Step::Pace { mix, span } => [9, mix.to_word(), span.from_ns, span.until_ns],
        };
        let mut bytes = [0; STEP_BYTES];
        for (to, word) in bytes.chunks_exact_mut(8).zip(words) {
            to.copy_from_slice(&u64::to_le_bytes(word));
        }
        bytes
    }

    /// As it was sent.
    pub fn from_bytes(bytes: &[u8; STEP_BYTES]) -> Result<Step> {
        let mut words = [0; 4];
        for (word, from) in words.iter_mut().zip(bytes.chunks_exact(8)) {
            let mut part = [0; 8];
            part.copy_from_slice(from);
            *word = u64::from_le_bytes(part);
        }
        Ok(match words {
            [0, size, _, _] => Step::Reserve { size },
            [1, size, seed, _] => Step::Verify { size, seed },
            [2, size, count, _] => Step::PingPong { size, count },
            [3, size, count, window] => Step::Stream { size, count, window },
            [4, ..] => Step::Expose,
            [5, ..] => Step::Stop,
            [6, size, count, _] => Step::Flood { size, count },
            [7, size, come_ns, word] => {
                let when = When { come_ns, quiet_us: (word >> QUIET_SHIFT) as u32 };
                let role = Role { sends: word & 1 == 1, seed: (word >> 1) as u32 };
                Step::Overlap { size, when, role }
            }
            [8, size, window, bytes_per_s] => {
                Step::PaceOpen { size, window: window as u32, bytes_per_s }
            }
            [9, mix, from_ns, until_ns] => {
                Step::Pace { mix: Mix::from_word(mix), span: Span { from_ns, until_ns } }
            }
            [other, ..] => bail!("step {other} does not exist; are both processes the same build?"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_arrive_as_they_were_sent() {
        let steps = [
            Step::Reserve { size: 1 },
            Step::Verify { size: 2, seed: 3 },
            Step::PingPong { size: 4, count: 5 },
            Step::Stream { size: 6, count: 7, window: 8 },
            Step::Expose,
            Step::Flood { size: 9, count: 10 },
            Step::Overlap {
                size: 11,
                when: When { come_ns: 12, quiet_us: (1 << 31) - 1 },
                role: Role { sends: true, seed: u32::MAX },
            },
            Step::Overlap {
                size: 13,
                when: When { come_ns: 14, quiet_us: 0 },
                role: Role { sends: false, seed: 15 },
            },
            Step::PaceOpen { size: 16, window: 17, bytes_per_s: 18 },
            Step::Pace { mix: Mix::from_word(7), span: Span { from_ns: 19, until_ns: 20 } },
            Step::Stop,
        ];
        for step in steps {
            assert_eq!(Step::from_bytes(&step.to_bytes()).expect("a step"), step);
        }
        assert!(Step::from_bytes(&[99; STEP_BYTES]).is_err());
    }
}
