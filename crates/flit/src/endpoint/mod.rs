//! The nodes: what makes packets and what takes them.
//!
//! - `source`: messages, packets, the injection link, the limit of packets on
//!   their way, throttling by backward marks.
//! - `sink`: memory that takes flits at a link's rate or slower, credits and
//!   marks that go back.

mod arrival;
mod sink;
mod source;

pub(crate) use sink::Sinks;
pub(crate) use source::{Home, Nodes};
