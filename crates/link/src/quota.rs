//! How a mailbox is divided among its senders: equal fixed quotas, or few static
//! slots each and a dynamic region for all.
//!
//! A mailbox has a data region, a control region, a credit region (all three
//! cut into equal shares, one per sender, but for the dynamic part of the data
//! region) and one reply region, which its owner fills by asking for data. The
//! regions are counts, not places: slots are taken from one ring in order of
//! arrival (EXTOLL paper, section 5.1), so a ring as long as the sum can never
//! overflow.

/// What one sender may have in a mailbox at once, in slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grant {
    /// Slots for messages, held until the message is matched. In a mailbox with a
    /// dynamic region, the static slots: what the sender owns at any time.
    pub data_slots: u16,
    /// Slots for control packets, freed as soon as they are read.
    pub control_slots: u8,
    /// Slots for credit packets; they consume no credit (EXTOLL paper,
    /// equation 1). Split evenly between both regions' returns.
    pub credit_slots: u8,
}

/// Slots of one sender, beside its grant, for packets of the rail itself: chunks of a transfer
/// that both sides copy, handed over in memory of the sender's. They consume no credit.
pub const HANDOVER_SLOTS: u32 = 2;

impl Grant {
    /// All slots of one sender.
    #[must_use]
    pub fn total(self) -> u32 {
        u32::from(self.data_slots)
            + u32::from(self.control_slots)
            + u32::from(self.credit_slots)
            + HANDOVER_SLOTS
    }
}

/// What a mailbox offers to one sender that has been connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opened {
    /// What the sender is granted at once.
    pub grant: Grant,
    /// Slots of the dynamic region: beyond its grant a sender may get as many
    /// credits as there are. Zero: the mailbox is divided once and for all.
    pub dynamic_slots: u32,
}

/// The division of one process's mailbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// What each sender is granted.
    pub grant: Grant,
    /// Data slots that belong to no sender for good (EXTOLL paper, section 6). Zero:
    /// quotas are equal and fixed (section 5).
    pub dynamic_slots: u32,
    /// How many senders there is room for.
    pub senders_max: u16,
    /// Slots kept for replies that the owner asked for.
    pub reply_slots: u16,
    /// Slots of the ring: a power of two, at least the sum of all the above.
    pub ring_slots: u32,
}

/// A mailbox that cannot be divided as asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LayoutError {
    /// Not even the least quota fits.
    #[error("{senders_max} senders need {need_slots} mailbox slots, the limit is {slots_max}")]
    TooManySenders {
        /// Senders asked for.
        senders_max: u16,
        /// Slots that they need at the least.
        need_slots: u32,
        /// The limit.
        slots_max: u32,
    },
    /// Not even one data slot a sender is within the limit.
    #[error("{senders_max} senders need {need_slots} data slots, the limit is {slots_max}")]
    DataSlots {
        /// Senders asked for.
        senders_max: u16,
        /// Data slots that they need at the least.
        need_slots: u32,
        /// The limit.
        slots_max: u32,
    },
    /// A count from another process that no Sluice process would write.
    #[error("mailbox layout is not one that this version makes")]
    Foreign,
}

/// Least and greatest data quota of one sender. The least must hold one eager
/// message of 8 KiB; beyond the greatest more slots gain nothing
/// that measurement shows.
const DATA_SLOTS_MIN: u16 = 160;
const DATA_SLOTS_MAX: u16 = 1024;
const CONTROL_SLOTS: u8 = 32;
const CREDIT_SLOTS: u8 = 8;
/// Of a mailbox with a dynamic region: places for credit packets, two for each
/// region, the paper's best trade-off (section 5.3); and slots that a sender owns.
/// Equation 2 asks for as many as there are places. With two more a message and an
/// announcement can be there beside a request for credits and its answer.
const DYNAMIC_CREDIT_SLOTS: u8 = 4;
const STATIC_SLOTS: u16 = 4;
/// Where there is room, a sender owns one of so many parts of its equal share, up to so many
/// slots: 15 messages of 1 KiB. Many senders that send at once, as in an all-to-all, then need
/// not wait for slots to move.
const STATIC_PART: u32 = 4;
const STATIC_SLOTS_MAX: u16 = 256;
/// Replies of 16 KiB each, eight at once: an asker that is only run now and then
/// by a busy system has enough asked for when it is.
const REPLY_SLOTS: u16 = 2048;

impl Layout {
    /// What each sender is offered.
    #[must_use]
    pub fn opened(&self) -> Opened {
        Opened { grant: self.grant, dynamic_slots: self.dynamic_slots }
    }

    /// Divides a mailbox of at most `slots_max` slots among `senders_max`.
    ///
    /// # Errors
    /// [`LayoutError::TooManySenders`] if the least quota does not fit.
    pub fn divide(senders_max: u16, slots_max: u32) -> Result<Layout, LayoutError> {
        let senders = u32::from(senders_max.max(1));
        // The ring is a power of two, so a limit that is none rounds down.
        let ring_max = prev_power_of_two(slots_max);
        let room = ring_max.saturating_sub(u32::from(REPLY_SLOTS)) / senders;
        let overhead = u32::from(CONTROL_SLOTS) + u32::from(CREDIT_SLOTS) + HANDOVER_SLOTS;
        let data = room.saturating_sub(overhead).min(u32::from(DATA_SLOTS_MAX));
        if data < u32::from(DATA_SLOTS_MIN) {
            let need = senders * (u32::from(DATA_SLOTS_MIN) + overhead) + u32::from(REPLY_SLOTS);
            return Err(LayoutError::TooManySenders {
                senders_max,
                need_slots: need.next_power_of_two(),
                slots_max,
            });
        }
        let grant = Grant {
            data_slots: data as u16,
            control_slots: CONTROL_SLOTS,
            credit_slots: CREDIT_SLOTS,
        };
        let layout = Layout {
            grant,
            dynamic_slots: 0,
            senders_max: senders_max.max(1),
            reply_slots: REPLY_SLOTS,
            ring_slots: (senders * grant.total() + u32::from(REPLY_SLOTS)).next_power_of_two(),
        };
        layout.check()?;
        Ok(layout)
    }

    /// Divides a mailbox of at most `slots_max` slots among `senders_max`, each with
    /// a quarter of its equal share of its own and the rest of the data region dynamic, so
    /// that the ring is full.
    ///
    /// # Errors
    /// [`LayoutError::TooManySenders`] if what cannot be shared does not fit, with a
    /// dynamic region that an eager message of 8 KiB goes into.
    pub fn divide_dynamic(senders_max: u16, slots_max: u32) -> Result<Layout, LayoutError> {
        let senders_max = senders_max.max(1);
        let senders = u32::from(senders_max);
        let grant = Grant {
            data_slots: STATIC_SLOTS,
            control_slots: CONTROL_SLOTS,
            credit_slots: DYNAMIC_CREDIT_SLOTS,
        };
        let fixed = senders * grant.total() + u32::from(REPLY_SLOTS);
        let wanted = fixed + senders * u32::from(DATA_SLOTS_MAX);
        let ring_slots = wanted.next_power_of_two().min(prev_power_of_two(slots_max));
        let need = fixed + u32::from(DATA_SLOTS_MIN);
        if ring_slots < need {
            return Err(LayoutError::TooManySenders {
                senders_max,
                need_slots: need.next_power_of_two(),
                slots_max,
            });
        }
        let share = (ring_slots - fixed) / senders / STATIC_PART;
        let data_slots = share.clamp(u32::from(STATIC_SLOTS), u32::from(STATIC_SLOTS_MAX)) as u16;
        let grant = Grant { data_slots, ..grant };
        let fixed = senders * grant.total() + u32::from(REPLY_SLOTS);
        let dynamic_slots = ring_slots - fixed;
        let layout =
            Layout { grant, dynamic_slots, senders_max, reply_slots: REPLY_SLOTS, ring_slots };
        layout.check()?;
        Ok(layout)
    }

    /// The same with at most so many data slots in all, which bounds what a process
    /// keeps of messages not matched yet.
    ///
    /// # Errors
    /// [`LayoutError::DataSlots`] if not even one a sender is within it.
    pub fn within(self, data_slots_max: u32) -> Result<Layout, LayoutError> {
        if self.data_slots_total() <= data_slots_max {
            return Ok(self);
        }
        let senders = u32::from(self.senders_max);
        let is_dynamic = self.dynamic_slots > 0;
        // Half of a small region stays dynamic.
        let share = data_slots_max / if is_dynamic { 2 * senders } else { senders };
        let need_slots = if is_dynamic { 2 * senders } else { senders };
        if share == 0 {
            return Err(LayoutError::DataSlots {
                senders_max: self.senders_max,
                need_slots,
                slots_max: data_slots_max,
            });
        }
        let data_slots = share.min(u32::from(self.grant.data_slots)) as u16;
        let mut layout = Layout { grant: Grant { data_slots, ..self.grant }, ..self };
        if is_dynamic {
            layout.dynamic_slots = data_slots_max - senders * u32::from(data_slots);
        }
        layout.ring_slots =
            (senders * layout.grant.total() + layout.dynamic_slots + u32::from(layout.reply_slots))
                .next_power_of_two();
        layout.check()?;
        Ok(layout)
    }

    /// Slots of the data region, of all senders together.
    #[must_use]
    pub fn data_slots_total(&self) -> u32 {
        u32::from(self.senders_max) * u32::from(self.grant.data_slots) + self.dynamic_slots
    }

    /// Checks a layout read from another process's memory.
    ///
    /// # Errors
    /// [`LayoutError::Foreign`] if the regions do not fit the ring or a region
    /// that must exist is empty.
    pub fn check(&self) -> Result<(), LayoutError> {
        let sum = u64::from(self.senders_max) * u64::from(self.grant.total())
            + u64::from(self.dynamic_slots)
            + u64::from(self.reply_slots);
        let sound = self.ring_slots.is_power_of_two()
            && sum <= u64::from(self.ring_slots)
            && self.grant.data_slots > 0
            && self.grant.control_slots > 0
            && self.grant.credit_slots >= 2
            && self.senders_max > 0;
        if sound { Ok(()) } else { Err(LayoutError::Foreign) }
    }
}

fn prev_power_of_two(n: u32) -> u32 {
    if n == 0 { 0 } else { 1 << (31 - n.leading_zeros()) }
}
