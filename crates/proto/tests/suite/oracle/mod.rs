//! Random programs, and what the reference matcher says of them.

pub mod buffer;
/// The swarm's: there is one reference matcher.
#[allow(dead_code, reason = "nobody ends here")]
#[path = "../../../../sim/src/swarm/matcher.rs"]
pub mod matcher;
pub mod program;
pub mod said;
