//! What the first rank tells the others to do, and what they answer. It goes through pipes, so
//! that nothing but what is measured goes through the mailboxes.

use serde::{Deserialize, Serialize};

/// What a rank is told first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Job {
    pub ranks: usize,
    /// Its own number.
    pub rank: usize,
    /// The core that it has to itself, if it has one.
    pub core: Option<usize>,
}

/// One thing to do together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Order {
    /// A round whose every byte is checked; answered with what was wrong.
    Verify { size: u64, seed: u64 },
    /// So many rounds.
    Rounds { size: u64, count: u64 },
    /// Nothing more.
    Stop,
}

/// Bytes that did not come as they were sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wrong {
    /// Who has sent them.
    pub from: usize,
    /// The first of them.
    pub byte: usize,
}
