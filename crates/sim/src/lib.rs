//! The protocols in virtual time: the code that ships, on thousands of
//! simulated processes.
//!
//! A process is a processor, a mailbox and a machine (`link` alone, or the
//! whole stack of `proto`); the processes of a node share a network interface,
//! and the nodes a network (`network.rs`). The world (`world.rs`) calls the
//! machines with what arrives, collects what they ask for, and computes when it
//! arrives. Nobody polls: a process that waits costs nothing.
//!
//! A run is a function of its configuration and seed, to the bit.
//!
//! Between hosts there may be rails (`hosts.rs`, `rails`), which the machine that ships
//! (`sluice_multirail`) works: those of the swarm. `stripes` has two processes and their rails
//! alone, for messages of any length.
//!
//! `swarm` uses the same parts to look for faults: small worlds and programs
//! that a seed draws, checked after every step.

#![forbid(unsafe_code)]

mod chunk_claims;
pub mod config;
mod connections;
mod error;
mod fabric;
mod flight;
mod grid;
mod hosts;
mod library;
mod mailbox;
mod memory;
mod messages;
mod network;
mod nic;
mod outcome;
mod packets;
mod port;
pub mod portals;
mod program;
mod published;
mod queue;
mod rails;
mod reference;
mod simulation;
pub mod stripes;
pub mod swarm;
mod world;

pub use config::Config;
pub use error::ConfigError;
pub use outcome::{Counts, CreditSample, Outcome, OverlapTimes, PaceTimes};
pub use reference::References;
pub use simulation::Simulation;
