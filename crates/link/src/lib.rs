//! Process-to-process delivery: who may write how much into whose mailbox.
//!
//! Every packet takes mailbox slots; every slot was granted beforehand. The
//! crate counts those credits, carries them back (piggybacked or in packets of
//! their own), numbers packets, and defines the seam to the world that moves
//! them ([`Port`], [`Machine`]). It is sans-IO: no clock, no socket, no thread.

#![forbid(unsafe_code)]

mod account;
mod error;
mod ledger;
mod links;
mod port;
mod quota;
mod region;

pub use account::{Account, ReturnPolicy, StaticReturn};
pub use error::{SendError, Violation};
pub use ledger::Ledger;
pub use links::Links;
pub use port::{Machine, PeerError, Port, RailError, Token, Transmitted};
pub use quota::{Grant, Layout, LayoutError};
pub use region::{Arrival, MailboxRegion};
