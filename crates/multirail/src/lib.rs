//! One peer over several rails: which rail takes what, and what happens when one fails.
//!
//! The machines above see a peer, never a rail. Below them this crate keeps, for each
//! peer, one numbered stream of packets ([`Session`]), how each rail is ([`Rails`]), and
//! the chunks of what is read from the peer's memory ([`Stripes`]). It is sans-IO: time
//! is an argument, and whoever moves bytes (sockets or a simulation) asks it what to do
//! next and tells it what came of it. [`Peer`] has all of a peer.
//!
//! Source: "Development of multirail feature in MPC" (data striping); the share of each
//! rail is decided by what it does now, not by equal fragments
//! (`docs/decisions/0011-several-rails.md`).

#![forbid(unsafe_code)]

mod gaps;
mod pace;
mod peer;
mod rails;
mod session;
mod stripes;

pub use gaps::Gaps;
pub use pace::Pace;
pub use peer::{Below, Peer, RailSpec};
pub use rails::{RailState, Rails, Timing, Verdict};
pub use session::{Arrival, Misnumbered, Number, Session};
pub use stripes::{Ask, ChunkId, Landing, ReadId, Stripes, Striping};

/// A rail of one peer: the place of its device among those that both have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RailId(pub u8);

impl RailId {
    /// Most rails between two processes.
    pub const COUNT_MAX: usize = 16;

    /// As an index into a table of rails.
    #[must_use]
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}
