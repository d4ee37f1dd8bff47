//! Two endpoints and more, in virtual time.
//!
//! It is one program. With one for each file, what they share is compiled and linked for each.
//! `tests/state.rs` stands apart, because it counts what its own allocator gives.

mod announced_again;
mod asking;
mod at_rail;
mod bounds;
mod connecting;
mod credits;
mod deaths;
mod eager;
mod ending;
mod hostile;
mod inviting;
mod looks;
mod matching;
mod oracle;
mod paced;
mod pieces;
mod pull;
mod remote;
mod remote_counts;
mod remote_published;
mod remote_without_credits;
mod rendezvous;
mod seeds;
mod selection;
mod speculative;
mod stalled;
mod withdrawn;
mod world;
