//! Protocols for messages that are announced first and moved when the receiver
//! wants them. One file each.

pub(crate) mod get;
