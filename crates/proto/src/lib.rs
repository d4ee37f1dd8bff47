//! Messages between processes: tagged and untagged, of any length, matched in
//! MPI's order, over a Portals interface. One file per protocol.
//!
//! | files | what they hold |
//! |---|---|
//! | `api` `completion` | what is asked and answered; how each request's end is told |
//! | `endpoint/` | the machine: requests and packets in, and what leads from one part to the next |
//! | `core` `peers` | what every part works with: the interface, and the peers' states |
//! | `request` `wanted` `portal` | data of pending requests, what a receive wants, the use of Portals |
//! | `start` `sends` `stalled` | how a send starts; pending ones, and those without credits |
//! | `queue` `offer` | stalled sends as their receiver finds them, and how it is told of them |
//! | `recvs` `multi` | pending receives, and their pieces; buffers that take many messages |
//! | `probes` | probes and what they claimed |
//! | `rma/` | regions for peers, and operations on theirs |
//! | `rendezvous/` | announced messages and how they are fetched |
//! | `exhausted` `stall_cursor` `order` | asking the senders that have no credits |
//! | `selection` | which protocol a message takes, and why |
//!
//! A part owns its state and is given what it needs of the others, so files depend on
//! each other in one direction: data, then the parts, then `endpoint/`.

#![forbid(unsafe_code)]

mod api;
mod completion;
mod core;
mod endpoint;
mod exhausted;
mod multi;
mod offer;
mod order;
mod peers;
mod portal;
mod probes;
mod queue;
mod recvs;
mod rendezvous;
mod request;
mod rma;
pub mod selection;
mod sends;
mod stall_cursor;
mod stalled;
mod start;
mod wanted;

pub use api::{
    Cancelled, Completion, Config, Delivery, Failure, Kind, Pending, Probe, ProbeAction, Recv,
    Refused, Send, Space, Stats,
};
pub use endpoint::Endpoint;
pub use endpoint::footprint::Footprint;
pub use endpoint::remote::{COMBINED_BYTES_MAX, RegionId};
pub use rma::api::{Access, Deed, Exposed, Part, Rma};
pub use sluice_portals::is_defined;
