//! Recovery: what initiator and target say of operations that a portal table entry has
//! refused because it is disabled (`docs/recovery.md`).

use super::parts::{HeadBuf, Heading, Reader, zero};
use crate::error::WireError;
use crate::ids::{PacketSeq, PtIndex};
use crate::layout::{HEAD_BYTES, Head, KIND_RECOVERY, SLOT_BYTES};
use std::mem::size_of;
use zerocopy::little_endian::U32;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// One word about a portal table entry of the target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recovery {
    /// The entry.
    pub pt_index: PtIndex,
    /// What is said.
    pub word: Word,
}

/// What is said. An *epoch* is the target's number of one refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Word {
    /// Target: the operation in the packet `first` was refused, and so is every later one
    /// for this entry until [`Word::Restart`].
    Refuse {
        /// Number of the refusal.
        epoch: u32,
        /// Number of the packet in the initiator's stream.
        first: PacketSeq,
    },
    /// Target: the entry takes operations again.
    Resume {
        /// Number of the refusal that ends.
        epoch: u32,
    },
    /// Initiator: behind this come the refused operations, from the first on.
    Restart {
        /// Number of the refusal.
        epoch: u32,
    },
    /// Initiator: asks whether all that came before this was taken.
    Ask,
    /// Target: answers an ask. All before it that was not refused was dealt with.
    Told,
    /// Target: send me nothing, one of my entries has run out of something.
    Pause,
    /// Initiator: nothing more comes before [`Word::Unpause`].
    Paused,
    /// Target: ends a pause.
    Unpause,
}

/// Follows the head.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RecoveryBody {
    pub epoch: U32,
    pub first: U32,
}

const _: () = {
    assert!(size_of::<RecoveryBody>() == 8);
    assert!(HEAD_BYTES + size_of::<RecoveryBody>() <= SLOT_BYTES);
};

impl Recovery {
    /// Bytes of the header behind the head.
    #[inline(always)]
    pub(super) fn body_bytes(&self) -> usize {
        size_of::<RecoveryBody>()
    }

    pub(super) fn emit(&self, heading: &Heading) -> HeadBuf {
        assert!(heading.payload_len == 0, "a word of recovery has no payload");
        let (code, epoch, first) = match self.word {
            Word::Refuse { epoch, first } => (1, epoch, first.0),
            Word::Resume { epoch } => (2, epoch, 0),
            Word::Restart { epoch } => (3, epoch, 0),
            Word::Ask => (4, 0, 0),
            Word::Told => (5, 0, 0),
            Word::Pause => (6, 0, 0),
            Word::Paused => (7, 0, 0),
            Word::Unpause => (8, 0, 0),
        };
        let mut buf = HeadBuf::new(heading.head(KIND_RECOVERY, 0, self.pt_index.0, 0, code));
        buf.push::<1>(zerocopy::transmute!(RecoveryBody {
            epoch: U32::new(epoch),
            first: U32::new(first),
        }));
        buf
    }

    pub(super) fn parse(reader: &mut Reader<'_>, head: &Head) -> Result<Recovery, WireError> {
        zero(KIND_RECOVERY, head.user)?;
        let body: RecoveryBody = reader.take()?;
        let (epoch, first) = (body.epoch.get(), body.first.get());
        let word = match head.kind_detail {
            1 => Word::Refuse { epoch, first: PacketSeq(first) },
            2 => Word::Resume { epoch },
            3 => Word::Restart { epoch },
            4 => Word::Ask,
            5 => Word::Told,
            6 => Word::Pause,
            7 => Word::Paused,
            8 => Word::Unpause,
            other => return Err(WireError::Word(other)),
        };
        // What a word does not say is zero: one form for each meaning.
        let says = (head.kind_detail <= 3, head.kind_detail == 1);
        if (!says.0 && epoch != 0) || (!says.1 && first != 0) {
            return Err(WireError::Reserved(KIND_RECOVERY));
        }
        Ok(Recovery { pt_index: PtIndex(head.pt_index), word })
    }
}
