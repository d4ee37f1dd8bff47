//! Watch: asks a stalled sender for its next message.

use super::parts::{HeadBuf, Heading, NumberBody, Reader, zero};
use crate::error::WireError;
use crate::layout::{Head, KIND_WATCH};
use std::mem::size_of;

/// Asks a stalled sender for the first message that waits there for credits and
/// has a number above this; answered by one [`Waiting`](super::Waiting) as soon as there is one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Watch {
    /// The number.
    pub after: u64,
}

impl Watch {
    /// Bytes of the header behind the head.
    #[inline(always)]
    pub(super) fn body_bytes(&self) -> usize {
        size_of::<NumberBody>()
    }

    #[inline(always)]
    pub(super) fn emit(&self, heading: &Heading) -> HeadBuf {
        assert!(heading.payload_len == 0, "a watch has no payload");
        HeadBuf::numbered(heading.head(KIND_WATCH, 0, 0, 0, 0), self.after)
    }

    #[inline]
    pub(super) fn parse(reader: &mut Reader<'_>, head: &Head) -> Result<Watch, WireError> {
        zero(KIND_WATCH, head.pt_index | head.user | head.kind_detail)?;
        let body: NumberBody = reader.take()?;
        Ok(Watch { after: body.number.get() })
    }
}
