//! Process-to-process delivery: who may write how much into whose mailbox.
//!
//! Every packet takes mailbox slots; every slot was granted beforehand. The
//! crate counts those credits, carries them back (piggybacked or in packets of
//! their own), numbers packets, and defines the seam to the world that moves
//! them ([`Port`], [`Machine`]). It is sans-IO: no clock, no socket, no thread.

#![forbid(unsafe_code)]

mod account;
mod links;
mod port;
mod quota;

pub use account::{Account, ReturnPolicy, StaticReturn};
pub use links::{Arrival, Ledger, Links, MailboxRegion, SendError, Violation};
pub use port::{Machine, PeerError, Port, RailError, Token, Transmitted};
pub use quota::{Grant, Layout, LayoutError};
