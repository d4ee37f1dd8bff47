//! Messages between processes: tagged and untagged, of any length, matched in
//! MPI's order, over a Portals interface. One file per protocol.
//!
//! | room | what it holds |
//! |---|---|
//! | `api` `endpoint` | what is asked and answered; the machine and its tables |
//! | `request` | pending sends and receives, and what they wait for |
//! | `send` `recv` `probe` | requests, from the call to the completion |
//! | `rendezvous` | announced messages and how they are fetched |
//! | `selection` | which of them a message takes, and why |
//! | `stalled` `queue` `offer` | sends without credits: waiting, found, told of |
//! | `frontier` `order` | asking the senders that have none |

#![forbid(unsafe_code)]

mod api;
mod completion;
mod core;
mod endpoint;
mod exhausted;
mod offer;
mod order;
mod peers;
mod portal;
mod probes;
mod queue;
mod recvs;
mod rendezvous;
mod request;
pub mod selection;
mod sends;
mod stall_cursor;
mod stalled;
mod start;
mod wanted;

pub use api::{
    Completion, Config, Failure, Kind, Pending, Probe, ProbeAction, Recv, Refused, Send, Space,
    Stats,
};
pub use endpoint::Endpoint;
pub use endpoint::footprint::Footprint;
