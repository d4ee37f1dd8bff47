//! What an interface has: data, and nothing that the engine does with it.

pub mod ct;
pub mod eq;
pub mod event;
pub mod limits;
pub mod md;
pub mod me;
pub mod operation;
pub mod pt;
