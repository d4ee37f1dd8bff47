//! The rails between hosts.

pub mod handshake;
