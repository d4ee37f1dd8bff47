//! Where the payload of an eager message lies on its way, for people who ask.

use super::bounce::{may_bounce, worth_bytes_min};
use super::portions::{portion_bytes, whole_bytes_max};
use super::ways::is_compared;
use sluice_wire::{Plain, slots_for};

/// Where the payload of an eager message lies on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PayloadPlace {
    /// In the slot of the header.
    Slot,
    /// In further slots of the receiver's mailbox.
    Slots,
    /// In a buffer of the sender's, which the slot names; in further slots if none is free,
    /// or if stores to the receiver are streamed.
    Buffer,
    /// In such a buffer, and read in portions while it is stored; in further slots if none is
    /// free.
    Portions,
}

impl PayloadPlace {
    /// The shortest payload that is sent by a buffer on this processor.
    #[must_use]
    pub fn buffer_bytes_min() -> u64 {
        worth_bytes_min()
    }

    /// What of a payload of so many bytes is stored before it is read.
    #[must_use]
    pub fn portion_bytes(len: u64) -> u64 {
        portion_bytes(usize::try_from(len).unwrap_or(usize::MAX)) as u64
    }

    /// Whether the receiver of messages of so many bytes measures if they had better be announced.
    #[must_use]
    pub fn is_compared(len: u64) -> bool {
        is_compared(len)
    }

    /// That of a message of so many bytes without options.
    #[must_use]
    pub fn of(len: u64) -> PayloadPlace {
        PayloadPlace::by(PayloadPlace::buffer_bytes_min(), whole_bytes_max() as u64, len)
    }

    /// The same where the shortest one that is sent by a buffer, and the longest one that is stored in
    /// one piece, have so many bytes.
    fn by(buffer_bytes_min: u64, whole_bytes_max: u64, len: u64) -> PayloadPlace {
        let header = Plain::HEADER_BYTES;
        if slots_for(header.into(), len) == 1 {
            PayloadPlace::Slot
        } else if len >= buffer_bytes_min && may_bounce(header as usize, len) {
            if len > whole_bytes_max { PayloadPlace::Portions } else { PayloadPlace::Buffer }
        } else {
            PayloadPlace::Slots
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn payload_lies_where_its_length_says() {
        let lens = [0, 24, 25, 2047, 2048, 4096, 4097, 131_072];
        let places = [
            PayloadPlace::Slot,
            PayloadPlace::Slot,
            PayloadPlace::Slots,
            PayloadPlace::Slots,
            PayloadPlace::Buffer,
            PayloadPlace::Buffer,
            PayloadPlace::Portions,
            PayloadPlace::Portions,
        ];
        assert_eq!(lens.map(|len| PayloadPlace::by(2 << 10, 4 << 10, len)), places);
        let intel = |len| PayloadPlace::by(3 << 10, 8 << 10, len);
        assert_eq!(intel(3071), PayloadPlace::Slots);
        assert_eq!([3072, 8192].map(intel), [PayloadPlace::Buffer; 2]);
        assert_eq!(intel(8193), PayloadPlace::Portions);
    }
}
