//! What the first process tells the second one to do, and what that answers.
//! It goes through a pipe, so that nothing but what is measured goes through
//! the interface.

use serde::{Deserialize, Serialize};

/// One thing to do together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Order {
    /// Puts each way and a get whose every byte is checked.
    Verify { size: u64, seed: u64 },
    /// So many puts, each answered by one of the same size.
    PingPong { size: u64, count: u64 },
    /// Wait in the library until so many more puts have arrived.
    Await { count: u64 },
    /// Nothing more.
    Stop,
}

/// What the second process says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Answer {
    /// It does what it was told from now on.
    Ready,
    /// Every byte was right.
    Right,
    /// What was wrong.
    Wrong(String),
}
