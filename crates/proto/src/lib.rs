//! Messages between processes: tagged and untagged, of any length, matched in
//! MPI's order, over a Portals interface. One file per protocol.

#![forbid(unsafe_code)]

mod api;
mod endpoint;
mod probe;
mod recv;
mod rendezvous;
mod send;
mod stalled;

pub use api::{
    Completion, Config, Failure, Kind, Pending, Probe, ProbeAction, Recv, Refused, Send, Space,
    Stats,
};
pub use endpoint::Endpoint;
