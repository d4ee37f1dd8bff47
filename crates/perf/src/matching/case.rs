//! The cases that are measured of matching, and what one costs.

use crate::report::word;
use crate::stats::Spread;
use serde::Serialize;
use std::fmt;

/// A list that can be long.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Queue {
    Posted,
    Unexpected,
}

/// Which element is matched next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Order {
    /// The oldest.
    In,
    /// Any, drawn at random, the same in every run.
    Out,
}

impl Order {
    pub const ALL: [Order; 2] = [Order::In, Order::Out];
}

/// What entries ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Match {
    /// All bits and the source.
    Exact,
    /// The source, and the bits outside of a mask that recurs.
    Masked,
    /// All bits; every other entry, the source.
    Wildcard,
}

impl Match {
    pub const ALL: [Match; 3] = [Match::Exact, Match::Masked, Match::Wildcard];
}

/// One row of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Case {
    pub depth: u32,
    pub queue: Queue,
    pub order: Order,
    #[serde(rename = "match")]
    pub kind: Match,
}

/// What was measured of a subject.
#[derive(Clone, Copy, Debug)]
pub struct Cost {
    /// Nanoseconds of a step.
    pub spread: Spread,
    pub blocks: u64,
    pub block_steps: usize,
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Case { depth, queue, order, kind } = self;
        let (queue, order, kind) = (word(queue), word(order), word(kind));
        write!(f, "{queue}, {order} of order, {kind}, depth {depth}")
    }
}
