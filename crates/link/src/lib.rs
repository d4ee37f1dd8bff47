//! Process-to-process delivery: who may write how much into whose mailbox.
//!
//! Every packet takes mailbox slots; every slot was granted beforehand. The
//! crate counts those credits, carries them back (piggybacked or in packets of
//! their own), numbers packets, and defines the seam to the world that moves
//! them ([`Port`], [`Machine`]). It is sans-IO: no clock, no socket, no thread.

#![forbid(unsafe_code)]

mod account;
mod arrivals;
pub mod chunk_claims;
mod compulsory;
mod costs;
mod dynamic;
mod equations;
mod error;
mod exposures;
mod ledger;
mod link;
mod links;
pub mod mutants;
mod port;
mod quota;
mod region;
mod returns;

pub use account::Account;
pub use costs::{Costs, Direct};
pub use dynamic::Activity;
pub use equations::{return_threshold, stolen_credits};
pub use error::{SendError, Violation};
pub use exposures::{Exposures, KeyError};
pub use ledger::{DynamicLedger, Ledger};
pub use links::Links;
pub use port::{
    ClaimsId, ClaimsStart, Connect, Full, LocalMemory, Machine, NoShared, NullPort, PeerError,
    Port, Published, RailError, Remote, RemoteCaps, RemoteMemory, Rights, SharedCopy, TagMatching,
    TaggedEnd, TaggedMessage, TaggedWanted, Token, Told, ToldPeer, Transmitted, Transport,
};
pub use quota::{Grant, HANDOVER_SLOTS, Layout, LayoutError, Opened};
pub use region::{Arrival, Held, MailboxRegion};
