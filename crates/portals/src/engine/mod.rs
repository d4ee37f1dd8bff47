//! What an interface does.

pub mod admit;
pub mod append;
pub mod atomic;
pub mod initiate;
pub mod issue;
pub mod memory;
pub mod ni;
pub mod peers;
pub mod put_target;
pub mod transfer;
pub mod triggers;
