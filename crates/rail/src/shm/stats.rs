//! What a rail has done and holds, for people and tests.

/// Counts since the rail was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Packets delivered to the machine.
    pub packets_in: u64,
    /// Packets written into mailboxes.
    pub packets_out: u64,
    /// Packets refused, and other things in shared memory that no peer of this
    /// version would have put there.
    pub violations: u64,
    /// Slots skipped because their writer died.
    pub holes_skipped: u64,
    /// Direct reads that ended well.
    pub reads_done: u64,
    /// Direct reads that failed.
    pub reads_failed: u64,
    /// Bytes read directly.
    pub read_bytes: u64,
    /// Bytes of unexpected memory lent now.
    pub lent_now_bytes: u64,
    /// Most bytes of unexpected memory that were lent at once.
    pub lent_peak_bytes: u64,
    /// Peers with an id, this process included.
    pub peers_known: u32,
    /// Peers whose mailbox is mapped.
    pub peers_attached: u32,
    /// Peers that ended or were given up.
    pub peers_gone: u32,
    /// Bytes of this process's own segment.
    pub segment_bytes: u64,
    /// Bytes of it that occupy memory now.
    pub resident_bytes: u64,
}
