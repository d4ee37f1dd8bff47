//! To whom a node sends, and the messages of a trace.
//!
//! What depends on the whole network (partners, hot nodes) is drawn once;
//! what a node draws for each message comes from its own stream.

mod pattern;
mod trace;

pub use pattern::Pattern;
pub use trace::{Message, Trace, TraceError};
