//! Rails over TCP: how a process reaches peers on other hosts.

pub mod devices;
pub mod handshake;
