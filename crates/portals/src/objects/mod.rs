//! What an interface has: data, and nothing that the engine does with it. No file here
//! uses the engine.

pub mod command;
pub mod ct;
pub mod eq;
pub mod event;
pub mod limits;
pub mod md;
pub mod me;
pub mod operation;
pub mod pt;
pub mod recovery;
pub mod request;
pub mod ring;
pub mod status;
pub mod triggers;
pub mod vector;
