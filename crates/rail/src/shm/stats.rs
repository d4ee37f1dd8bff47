//! What a rail has done and holds, for people and tests.

use super::bulk::Direction;

/// Counts since the rail was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Packets delivered to the machine.
    pub packets_in: u64,
    /// Packets written into mailboxes.
    pub packets_out: u64,
    /// Of these, packets whose payload went by a bounce buffer.
    pub bounces_out: u64,
    /// Chunks of transfers that both sides copy that were handed over (`handover`).
    pub chunks_handed: u64,
    /// Packets refused, and other things in shared memory that no peer of this
    /// version would have put there.
    pub violations: u64,
    /// Slots skipped because their writer died.
    pub holes_skipped: u64,
    /// Direct reads that ended well, those that the peer helped with among them.
    pub reads_done: u64,
    /// Direct reads that failed.
    pub reads_failed: u64,
    /// Bytes that this process read directly.
    pub read_bytes: u64,
    /// Direct writes that ended well, and parts in the reads of peers.
    pub writes_done: u64,
    /// Direct writes that failed.
    pub writes_failed: u64,
    /// Bytes that this process wrote directly.
    pub written_bytes: u64,
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

impl Stats {
    /// Part of a transfer is done.
    pub(super) fn count_moved(&mut self, direction: Direction, bytes: u64) {
        match direction {
            Direction::Read => self.read_bytes += bytes,
            Direction::Write => self.written_bytes += bytes,
        }
    }

    /// A transfer has ended.
    pub(super) fn count_end(&mut self, direction: Direction, well: bool) {
        *match (direction, well) {
            (Direction::Read, true) => &mut self.reads_done,
            (Direction::Read, false) => &mut self.reads_failed,
            (Direction::Write, true) => &mut self.writes_done,
            (Direction::Write, false) => &mut self.writes_failed,
        } += 1;
    }
}
