//! A flit-level simulator of interconnects: input-queued routers with virtual
//! channels and credits, topologies, routing, traffic, endpoints.
//!
//! `docs/simulation.md` specifies it, cycle by cycle. State is kept in arrays,
//! arbitration works on bit masks, and a link is a delay in a wheel of future cycles.
//! A router with nothing to do costs nothing. The same configuration and seed give
//! the same results on any number of threads.

#![forbid(unsafe_code)]

mod audit;
pub mod config;
mod cut;
mod endpoint;
mod error;
mod fleet;
mod network;
mod packet;
mod peer;
mod rng;
mod router;
pub mod routing;
mod run;
mod sample;
mod shard;
mod simulation;
pub mod topology;
pub mod traffic;
mod wheel;

pub use config::Config;
pub use error::ConfigError;
pub use rng::{Rng, Stream};
pub use sample::Sample;
#[doc(hidden)]
pub use shard::Passage;
pub use simulation::{LinkLoad, Simulation, Stuck};
