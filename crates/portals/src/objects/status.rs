//! What an interface counts of itself.

use crate::objects::pt::Header;

/// Counts of what an interface saw (`PTL_SR_*` and ours).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// Puts that no entry took (`PTL_SR_DROP_COUNT`).
    pub dropped: u64,
    /// Operations that an entry did not allow (`PTL_SR_OPERATION_VIOLATIONS`).
    pub operation_violations: u64,
    /// Operations on entries that are for another user
    /// (`PTL_SR_PERMISSION_VIOLATIONS`).
    pub permission_violations: u64,
    /// Packets that broke the protocol.
    pub protocol_violations: u64,
    /// Messages that arrived before a matching entry.
    pub unexpected: u64,
    /// How often a portal table entry with flow control ran out of something.
    pub exhaustions: u64,
}

/// Memory of messages that no entry has taken yet, in bytes: their records, and
/// the memory lent for their payloads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UnexpectedBytes {
    /// Now.
    pub now: u64,
    /// The most that there ever was.
    pub peak: u64,
}

impl UnexpectedBytes {
    /// The record of one message, with what few records have and its places in
    /// the indexes of the list.
    pub const RECORD: u64 = crate::lists::record_bytes::<Header>() as u64;
    /// The most that a mailbox slot can be made to hold: a message of one slot
    /// has the most record for its bytes.
    pub const SLOT_MAX: u64 =
        UnexpectedBytes::RECORD + UnexpectedBytes::lent(sluice_wire::PUT_INLINE_BYTES_MAX as u64);

    /// What a port keeps for a payload of so many bytes: it may round up to a
    /// power of two, and to a cache line.
    #[must_use]
    #[inline]
    pub const fn lent(len: u64) -> u64 {
        match len {
            0 => 0,
            1..=64 => 64,
            _ => len.next_power_of_two(),
        }
    }

    pub(crate) fn add(&mut self, lent_len: u64) {
        self.now += UnexpectedBytes::RECORD + UnexpectedBytes::lent(lent_len);
        self.peak = self.peak.max(self.now);
    }

    pub(crate) fn remove(&mut self, lent_len: u64) {
        self.now -= UnexpectedBytes::RECORD + UnexpectedBytes::lent(lent_len);
    }
}
