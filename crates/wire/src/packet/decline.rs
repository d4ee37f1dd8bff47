//! Decline: a message that waits is not wanted now.

use super::parts::{HeadBuf, Heading, NumberBody, Reader, zero};
use crate::error::WireError;
use crate::layout::{Head, KIND_DECLINE};
use std::mem::size_of;

/// The message of this number, told of by a [`Waiting`](super::Waiting), is not wanted now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decline {
    /// The number.
    pub number: u64,
}

impl Decline {
    /// Bytes of the header behind the head.
    #[inline(always)]
    pub(super) fn body_bytes(&self) -> usize {
        size_of::<NumberBody>()
    }

    #[inline(always)]
    pub(super) fn emit(&self, heading: &Heading) -> HeadBuf {
        assert!(heading.payload_len == 0, "a decline has no payload");
        HeadBuf::numbered(heading.head(KIND_DECLINE, 0, 0, 0, 0), self.number)
    }

    #[inline]
    pub(super) fn parse(reader: &mut Reader<'_>, head: &Head) -> Result<Decline, WireError> {
        zero(KIND_DECLINE, head.pt_index | head.user | head.kind_detail)?;
        let body: NumberBody = reader.take()?;
        Ok(Decline { number: body.number.get() })
    }
}
