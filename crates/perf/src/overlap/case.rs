//! The cases of an overlap: who comes first, and whose operation is measured.

use clap::ValueEnum;
use serde::Serialize;

/// Who comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum First {
    Sender,
    Receiver,
}

/// Whose operation is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum MeasuredSide {
    Receive,
    Send,
}

impl MeasuredSide {
    /// Whether it is the side that comes first.
    pub fn is(self, first: First) -> bool {
        (self == MeasuredSide::Send) == (first == First::Sender)
    }
}

/// Who makes progress while the measured side computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum ProgressBy {
    /// Nobody: it is made in calls alone
    Manual,
    /// A thread of the library
    Thread,
}

/// In the order of the table.
pub const CASES: [(First, MeasuredSide); 4] = [
    (First::Receiver, MeasuredSide::Receive),
    (First::Sender, MeasuredSide::Send),
    (First::Sender, MeasuredSide::Receive),
    (First::Receiver, MeasuredSide::Send),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_side_comes_first_in_one_of_two_orders() {
        let early: Vec<bool> = CASES.iter().map(|(first, side)| side.is(*first)).collect();
        assert_eq!(early, [true, true, false, false]);
    }
}
