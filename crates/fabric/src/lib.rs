//! libfabric: its C interface ([`ffi`]), and what a client of it needs: which providers
//! there are ([`offers`], [`tagged_offers`]), and an endpoint of one ([`Endpoint`]).
//!
//! The provider `libsluice-fi.so` uses the structures; rails over other providers use the
//! client. That is loaded at run time, when the first rail asks for it, so nothing needs
//! libfabric that does not use it. It is never unloaded.
//!
//! Invariant: nothing here is called while libfabric initializes itself, which it does
//! under a lock: a process that is loaded by libfabric as a provider asks for rails when
//! an endpoint is opened.

// Tests inside and outside name it alike.
#[cfg(test)]
extern crate self as sluice_fabric;

mod endpoint;
mod error;
pub mod ffi;
mod library;
mod memory;
mod offer;
mod tagged;

pub use endpoint::{Begun, Done, Endpoint, Kind, NAME_BYTES_MAX, Peer, Registered};
pub use error::FabricError;
pub use memory::{BUFFER_BYTES, BufferId};
pub use offer::{Offer, Source, offers};
pub use tagged::tagged_offers;
