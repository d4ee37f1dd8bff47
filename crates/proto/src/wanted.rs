//! What a receive or a probe wants of the messages of one source.

use crate::api::{Recv, Space};

/// A space, and the bits of a tag that matter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wanted {
    pub space: Space,
    pub bits: u64,
    pub ignore: u64,
}

impl Wanted {
    /// What a receive accepts, but for its source.
    pub fn of(recv: &Recv) -> Wanted {
        Wanted::tagged(recv.space, recv.tag, recv.ignore)
    }

    /// The same of a tag and the bits of it that do not matter. In the untagged space
    /// none does.
    pub fn tagged(space: Space, tag: u64, ignore: u64) -> Wanted {
        let ignore = match space {
            Space::Tagged => ignore,
            Space::Untagged => u64::MAX,
        };
        Wanted { space, bits: tag, ignore }
    }

    /// Whether a message is wanted.
    pub fn accepts(&self, space: Space, tag: u64) -> bool {
        self.space == space && (self.bits ^ tag) & !self.ignore == 0
    }

    /// Whether a message may be accepted by both.
    pub fn overlaps(&self, other: &Wanted) -> bool {
        let matter = !self.ignore & !other.ignore;
        self.space == other.space && (self.bits ^ other.bits) & matter == 0
    }
}
