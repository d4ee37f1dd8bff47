//! `sluice perf`: what the rail does between two processes, beside what the
//! machine allows.
//!
//! The command starts its second process itself (`other`, `session`), as the hidden
//! command `perf-peer` of the same program (`serve`); it pins both, and drives the
//! same endpoint that an MPI drives through libfabric (`node`). For each size it
//! checks every byte of a message each way, warms up, measures (`sweep`, by `latency`
//! and `stream`) and checks again. Nothing is timed while it is checked.
//!
//! With `--rail tcp` the two speak over the network, and with `--other` and `--here`, or in
//! a lab (`lab`), they are on other hosts (`hosts`, `launch`). `--raw` measures a plain
//! connection beside (`raw`). `sluice perf stripe`, `sluice perf failover` (`feed`) and
//! `sluice perf behind` run on two hosts of a lab, whose rails have known rates, and fail.
//! `sluice perf memory` counts what a peer takes.
//!
//! With `--api portals` the same is driven through `libportals` (`portals`).
//!
//! `sluice perf alltoall` has many processes that all send to each other (`alltoall`).
//!
//! `sluice perf flood` sends more than is wanted (`flood`); `sluice perf overlap`
//! computes meanwhile (`overlap`, `compute`); `sluice perf pace` has a receiver
//! that takes slowly (`pace`). `sluice perf rma` and `sluice perf atomic` work on the memory
//! of a process that may compute (`remote`). `sluice perf recover` has many processes put to one whose
//! queue is short (`recover`).
//!
//! `sluice perf match` is apart: it measures the engine without a rail, in this
//! process alone (`matching`).

#![forbid(unsafe_code)]

mod access;
mod alltoall;
mod behind;
mod buffers;
mod command;
mod compute;
mod cores;
mod direct;
mod effort;
mod failover;
mod feed;
mod flood;
mod gaps;
mod hosts;
mod lab;
mod latency;
mod launch;
mod limits;
mod matching;
mod measured;
mod memory;
mod messages;
mod node;
mod other;
mod overlap;
mod own_lab;
mod pace;
mod portals;
mod progress;
mod rail;
mod raw;
mod read;
mod recover;
mod remote;
mod report;
mod serve;
mod session;
mod stats;
mod step;
mod stream;
mod stripe;
mod sweep;
mod verify;

pub use command::{PerfCommand, run};
pub use serve::{PeerArgs, run_peer};
