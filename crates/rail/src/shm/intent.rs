//! What a writer of a mailbox says of what it is doing there, in one word that nobody else writes
//! (`ring`).

/// What a writer is doing, in one word: two bits of state, the number of slots
/// and the low bits of the first one's position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Intent {
    /// It holds no slot. Its last packet, if it has written one, began at
    /// `last` (low bits).
    Idle { last: Option<u64> },
    /// It may hold slots, nobody knows which.
    Reserving,
    /// It holds `count` slots from `position` (low bits).
    Writing { position: u64, count: u16 },
}

pub(super) const STATE_IDLE: u64 = 0;
pub(super) const STATE_RESERVING: u64 = 1;
pub(super) const STATE_WRITING: u64 = 2;
pub(super) const STATE_MASK: u64 = 3;
pub(super) const COUNT_SHIFT: u32 = 2;
pub(super) const COUNT_MASK: u64 = 0xffff;
pub(super) const POSITION_SHIFT: u32 = 18;
pub(super) const POSITION_MASK: u64 = u64::MAX >> POSITION_SHIFT;

impl Intent {
    pub(super) fn from_word(word: u64) -> Intent {
        let position = word >> POSITION_SHIFT;
        let count = (word >> COUNT_SHIFT & COUNT_MASK) as u16;
        match word & STATE_MASK {
            STATE_IDLE if count != 0 => Intent::Idle { last: Some(position) },
            STATE_RESERVING => Intent::Reserving,
            STATE_WRITING => Intent::Writing { position, count },
            // The fourth state is one that no writer stores.
            _ => Intent::Idle { last: None },
        }
    }

    /// Whether the slot at `position` may be held under this intent.
    pub(super) fn may_cover(self, position: u64) -> bool {
        match self {
            Intent::Idle { .. } => false,
            Intent::Reserving => true,
            Intent::Writing { position: first, count } => {
                position.wrapping_sub(first) & POSITION_MASK < u64::from(count)
            }
        }
    }
}

/// The word of a writer that holds `count` slots from `position` on; with
/// `STATE_IDLE`, of one that has published them.
#[inline]
pub(super) fn word_of(state: u64, position: u64, count: u16) -> u64 {
    state | u64::from(count) << COUNT_SHIFT | (position & POSITION_MASK) << POSITION_SHIFT
}
