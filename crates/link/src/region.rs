//! The regions of a mailbox, and how an arrived packet is counted in them.

use sluice_wire::{Atomic, Packet, Put};

/// Which region of a mailbox a packet lies in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MailboxRegion {
    /// Puts and atomic operations, held until the message is matched; requests to
    /// return credits and their answers.
    Data,
    /// Acknowledgements, gets, pulls, get-dones, what is said of messages that
    /// wait for credits, where data is wanted, words of recovery. Freed as soon as read.
    /// Also puts and atomic operations that say so ([`Links::send_by_control`](crate::Links)),
    /// which hold their slots until they are acknowledged.
    Control,
    /// Replies and offers that the owner of the mailbox asked for.
    Reply,
    /// Credit packets.
    Credit,
}

impl MailboxRegion {
    /// The region that `packet` is accounted in.
    #[must_use]
    #[inline]
    pub fn of(packet: &Packet) -> MailboxRegion {
        match packet {
            Packet::Put(Put { by_control: true, .. })
            | Packet::Atomic(Atomic { by_control: true, .. }) => MailboxRegion::Control,
            Packet::Put(_)
            | Packet::Atomic(_)
            | Packet::ReturnRequest
            | Packet::ReturnResponse(_) => MailboxRegion::Data,
            Packet::Ack(_)
            | Packet::Get(_)
            | Packet::GetDone(_)
            | Packet::Pull(_)
            | Packet::Search(_)
            | Packet::Watch(_)
            | Packet::Waiting(_)
            | Packet::Decline(_)
            | Packet::Rtr(_)
            | Packet::Cts(_)
            | Packet::Written(_)
            | Packet::Recovery(_) => MailboxRegion::Control,
            Packet::Reply(_) | Packet::Offer(_) => MailboxRegion::Reply,
            Packet::Credit => MailboxRegion::Credit,
        }
    }
}

/// Slots of a mailbox that an operation takes until it is done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Held(u32);

impl Held {
    /// None.
    pub const NONE: Held = Held(0);
    /// Set where they are of the control region. No packet takes as many slots.
    const BY_CONTROL: u32 = 1 << 31;

    /// Slots of the data region.
    #[must_use]
    #[inline(always)]
    pub const fn data(slots: u32) -> Held {
        Held(slots)
    }

    /// Slots of the control region.
    #[must_use]
    pub const fn control(slots: u32) -> Held {
        Held(slots | Held::BY_CONTROL)
    }

    /// Whether there are none.
    #[must_use]
    #[inline(always)]
    pub const fn is_none(self) -> bool {
        self.0 == 0
    }

    /// Those of the control region; `None` if they are of the data region.
    #[must_use]
    #[inline(always)]
    pub const fn of_control(self) -> Option<u32> {
        if self.0 & Held::BY_CONTROL == 0 { None } else { Some(self.0 & !Held::BY_CONTROL) }
    }

    /// Those of the data region.
    #[must_use]
    #[inline(always)]
    pub const fn of_data(self) -> u32 {
        if self.0 & Held::BY_CONTROL == 0 { self.0 } else { 0 }
    }
}

/// A packet as it was accounted for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// The region that it lies in.
    pub region: MailboxRegion,
    /// Slots that it takes there.
    pub slots: u32,
    /// Whether it brought credits.
    pub brought_credits: bool,
    /// Whether [`crate::Links::answer`] has something to send to this peer. An idle
    /// moment does it too.
    pub answer_due: bool,
}

impl Arrival {
    /// What an operation that is held until it is done takes.
    #[must_use]
    #[inline(always)]
    pub fn held(&self) -> Held {
        match self.region {
            MailboxRegion::Control => Held::control(self.slots),
            _ => Held::data(self.slots),
        }
    }
}
