//! What a process can tell of its network.

use sluice_wire::Nanos;

/// Counts, and when something happened last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NetStats {
    /// Connections of strangers, who were dropped.
    pub strangers: u64,
    /// Peers that broke the protocol.
    pub violations: u64,
    /// Connections that were opened.
    pub opened: u64,
    /// Connections that broke, were closed because they were silent, or gave way to a newer one.
    pub broken: u64,
    /// Connections that were closed because what came was not what the peer had sent.
    pub altered: u64,
    /// Packets that came twice.
    pub duplicates: u64,
    /// Bytes of chunks that came with other frames, and were copied from there into their
    /// place.
    pub copied: u64,
    /// Bytes of chunks that were received into their place.
    pub placed: u64,
    /// When a rail was closed or suspected.
    pub noticed: Option<Nanos>,
    /// When a stream went on over another rail.
    pub resumed: Option<Nanos>,
}
