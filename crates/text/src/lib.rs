//! How people read and write figures: tables, ladders, sizes, times.
//!
//! Every part of the `sluice` command prints and parses them alike.

#![forbid(unsafe_code)]

mod ladder;
mod size;
mod table;

pub use ladder::{Columns, nanoseconds};
pub use size::{SIZE_MAX, bytes, parse_bytes, parse_seconds, parse_size};
pub use table::{Column, Table};
