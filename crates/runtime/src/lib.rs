//! What `provider`, `libportals` and `perf` stand on: a machine at work over a rail,
//! and how threads of one process share it.
//!
//! | file | what it holds |
//! |---|---|
//! | `settings` | the variables `FI_SLUICE_*`, and the words that options may say |
//! | `context` | a machine and the rail beneath it: open, poll, rest |
//! | `shared` | a context under a lock, between the program's calls, its waits and the thread |
//! | `wait`, `unmet` | how a call waits: look, spin, yield, sleep; why it ended in vain |
//! | `progress_thread`, `progress` | a thread that makes progress while the program does not call; what it does |
//! | `attend` | when that thread takes over, and when it keeps back |
//! | `cores` | which core it runs on |
//! | `lock`, `spin` | a lock of one word; when a call that finds nothing yields |
//!
//! It knows no message and no object of Portals: the machine is any
//! [`sluice_link::Machine`]. `unsafe` is in `lock` alone.

#![deny(unsafe_code)]

pub mod attend;
pub mod context;
pub mod cores;
#[allow(unsafe_code)]
pub mod lock;
mod progress;
mod progress_thread;
pub mod settings;
pub mod shared;
pub mod spin;
mod unmet;
pub mod wait;

pub use context::{Context, POLL_BUDGET};
pub use progress::ThreadOptions;
pub use progress_thread::ProgressThread;
pub use settings::{Choice, NetworkOptions, RailOptions, Rails, Settings};
pub use shared::{Holds, Polled, Shared, Visit};
pub use unmet::Unmet;
