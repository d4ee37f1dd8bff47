//! Remote memory: regions that peers may read, write and combine with, and this process's
//! operations on theirs. A region is a match list entry whose match bits are its key; an
//! operation is a Portals command for each of its pieces, and ends when all of them have.
//!
//! | file | what it holds |
//! |---|---|
//! | `api` | what is asked |
//! | `regions` | the regions of this process |
//! | `pieces` | what an operation is cut into, and which piece its target is told of |
//! | `pending` | operations under way |
//!
//! Invariants: an operation ends once, when each piece has been answered by the process
//! whose memory it was, or cannot be any more. So a write that has ended is in its place.
//! The target is told of it once, when all of it is done there.
//! Who may touch what is decided at the target, by the entry.

pub mod api;
pub(crate) mod pending;
pub(crate) mod pieces;
pub(crate) mod regions;
