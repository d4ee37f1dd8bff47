//! The Portals 4 engine, in the specification's nouns: network interface,
//! portal table, match list entries, memory descriptors, event queues,
//! counting events; initiator and target. It is sans-IO and drives a
//! [`sluice_link::Links`].
//!
//! Here are put, get, acknowledgements, unexpected headers, search and unlink
//! of the matching interface. Atomics, triggered operations, flow control and
//! the non-matching interface have rooms of their own to come.

#![forbid(unsafe_code)]

mod ct;
mod eq;
mod event;
mod initiator;
mod limits;
mod matching;
mod md;
mod me;
mod ni;
mod pt;
mod table;
mod target;

pub use ct::Ct;
pub use eq::{Eq, Taken as EqTaken};
pub use event::{Event, EventKind, Hold, NiFail};
pub use initiator::{PutExtras, Target};
pub use limits::{Limits, PtlError};
pub use matching::SearchOp;
pub use md::{Md, MdOptions};
pub use me::{List, Me, MeOptions, MeSpec};
pub use ni::{Ni, Status};
pub use pt::Header;
pub use table::{Handle, Table};
pub use target::Taken;
