//! Both directions between this process and one peer.

use crate::account::Account;
use crate::compulsory::Compulsory;
use crate::dynamic::Dynamic;
use crate::error::Violation;
use crate::mutants::{self, Mutant};
use crate::port::{Port, Token, Transmitted};
use crate::quota::{Grant, Opened};
use sluice_wire::{Credits, Packet, PacketSeq, PeerId, Region};

/// See the module.
#[derive(Debug)]
pub(crate) struct Link {
    /// What the peer's mailbox grants; `None` until the connection is open.
    pub(crate) granted: Option<Grant>,
    pub(crate) data_credits: u16,
    /// Most data credits that the peer's mailbox can give.
    pub(crate) data_credits_max: u16,
    pub(crate) control_credits: u16,
    pub(crate) next_seq: PacketSeq,
    pub(crate) expected_seq: PacketSeq,
    pub(crate) data: Account,
    pub(crate) control: Account,
    /// Whether the peer is in `Links::idle_work`.
    pub(crate) in_idle_work: bool,
    /// Whether the peer's mailbox has a dynamic region.
    pub(crate) peer_is_dynamic: bool,
    /// Whether the connection to the peer is being opened.
    pub(crate) is_connecting: bool,
    pub(crate) compulsory: Compulsory,
    /// Most slots that messages of the peer have held which came before their receive.
    pub(crate) unexpected_slots_max: u16,
    /// The peer's number as a sender into a dynamic region of this process.
    pub(crate) sender: u32,
}

impl Link {
    /// `grant`: what the own mailbox grants to the peer.
    pub(crate) fn new(grant: Grant) -> Link {
        let half = grant.credit_slots / 2;
        Link {
            granted: None,
            data_credits: 0,
            data_credits_max: 0,
            control_credits: 0,
            next_seq: PacketSeq(0),
            expected_seq: PacketSeq(0),
            data: Account::new(grant.data_slots, half),
            control: Account::new(u16::from(grant.control_slots), grant.credit_slots - half),
            in_idle_work: false,
            peer_is_dynamic: false,
            is_connecting: false,
            compulsory: Compulsory::default(),
            unexpected_slots_max: 0,
            sender: 0,
        }
    }

    /// `granted`: what the peer's mailbox grants to this process, also places
    /// for the packets that return credits to it. The places for those of the data
    /// region are `granted.credit_slots / 2`, to be set by the caller.
    pub(crate) fn connect(&mut self, opened: Opened) {
        let Opened { grant: granted, dynamic_slots } = opened;
        self.is_connecting = false;
        self.granted = Some(granted);
        self.data_credits = granted.data_slots;
        let most = u32::from(granted.data_slots).saturating_add(dynamic_slots);
        self.data_credits_max = most.min(u32::from(u16::MAX)) as u16;
        self.peer_is_dynamic = dynamic_slots > 0;
        self.control_credits = u16::from(granted.control_slots);
        self.control.set_places(granted.credit_slots - granted.credit_slots / 2);
    }

    #[inline]
    pub(crate) fn take_seq(&mut self) -> PacketSeq {
        let seq = self.next_seq;
        self.next_seq = seq.next();
        if mutants::is_now(Mutant::SkipsNumbers) {
            self.next_seq = self.next_seq.next();
        }
        seq
    }

    /// Whether credits may be due, by packet or in an idle moment.
    #[inline]
    pub(crate) fn wants_attention(&self) -> bool {
        self.data.may_be_due() || self.control.may_be_due() || self.wants_idle_moment()
    }

    /// Whether an idle moment should look at credits, and does not know yet.
    #[inline]
    pub(crate) fn wants_idle_moment(&self) -> bool {
        !self.in_idle_work && (self.data.wanted_when_idle() || self.control.wanted_when_idle())
    }

    #[inline(always)]
    pub(crate) fn transmit<P: Port>(
        &mut self,
        port: &mut P,
        peer: PeerId,
        packet: &Packet,
        credits: Credits,
        payload: Region,
        token: Token,
    ) -> Transmitted {
        let head = packet.emit(self.take_seq(), credits, payload.len as u32);
        port.transmit(peer, &head, payload, token)
    }

    /// Credits for a packet that goes anyway, if there is nothing to decide about
    /// them: the common case. `piggybacks`: whether any are at all.
    #[inline(always)]
    pub(crate) fn take_piggyback_quickly(
        &mut self,
        dynamic: Option<&mut Dynamic>,
        piggybacks: bool,
    ) -> Option<Credits> {
        if !piggybacks {
            return None;
        }
        let data = match dynamic {
            None => self.data.piggyback(u16::MAX),
            Some(dynamic) => dynamic.take_piggyback_quickly(&mut self.data)?,
        };
        let data = data + u16::from(mutants::is(Mutant::ReturnsOneTooMany));
        Some(Credits { data, control: self.take_owed_control() })
    }

    /// Credits for a packet that goes anyway, whatever follows from them.
    #[cold]
    #[inline(never)]
    pub(crate) fn take_piggyback(
        &mut self,
        dynamic: Option<&mut Dynamic>,
        piggybacks: bool,
    ) -> Credits {
        if !piggybacks {
            return Credits::default();
        }
        let data = match dynamic {
            None => self.data.piggyback(u16::MAX),
            Some(_) if self.data.owed() == 0 => 0,
            Some(dynamic) => dynamic.take_piggyback(self.sender, &mut self.data),
        };
        Credits { data, control: self.take_owed_control() }
    }

    #[inline(always)]
    fn take_owed_control(&mut self) -> u8 {
        // A control region has at most 255 slots.
        self.control.piggyback(u16::MAX) as u8
    }

    #[inline]
    pub(crate) fn take_credits(&mut self, credits: Credits) -> Result<(), Violation> {
        let sum = self.credits_with(credits)?;
        if !mutants::is_now(Mutant::LosesCredits) {
            (self.data_credits, self.control_credits) = sum;
        }
        Ok(())
    }

    /// What data and control credits there would be with these.
    #[inline]
    pub(crate) fn credits_with(&self, credits: Credits) -> Result<(u16, u16), Violation> {
        let granted = self.granted.ok_or(Violation::TooManyCredits)?;
        let data = u32::from(self.data_credits) + u32::from(credits.data);
        let control = u32::from(self.control_credits) + u32::from(credits.control);
        if data > u32::from(self.data_credits_max) || control > u32::from(granted.control_slots) {
            return Err(Violation::TooManyCredits);
        }
        Ok((data as u16, control as u16))
    }

    /// What a response gives back: all but the static slots, one of which the
    /// response itself takes (section 6.5.4).
    pub(crate) fn take_excess(&mut self) -> u16 {
        let static_slots = self.granted.map_or(0, |granted| granted.data_slots);
        let excess = self.data_credits.saturating_sub(static_slots.saturating_sub(1));
        if !mutants::is(Mutant::GivesBackAndKeeps) {
            self.data_credits -= excess;
        }
        excess
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_response_gives_back_all_but_the_static_slots() {
        let grant = Grant { data_slots: 4, control_slots: 1, credit_slots: 2 };
        let mut link = Link::new(grant);
        link.connect(Opened { grant, dynamic_slots: 100 });
        // The response has taken one already, and that is one of the static ones.
        link.data_credits = 50;
        assert_eq!((link.take_excess(), link.data_credits), (47, 3));
        assert_eq!((link.take_excess(), link.data_credits), (0, 3));
        link.data_credits = 1;
        assert_eq!((link.take_excess(), link.data_credits), (0, 1), "it has fewer");
    }
}
