//! The regions of a mailbox, and how an arrived packet is counted in them.

use sluice_wire::Packet;

/// Which region of a mailbox a packet lies in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MailboxRegion {
    /// Puts and atomic operations, held until the message is matched; requests to
    /// return credits and their answers.
    Data,
    /// Acknowledgements, gets, pulls, get-dones, what is said of messages that
    /// wait for credits, where data is wanted, words of recovery. Freed as soon as read.
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
