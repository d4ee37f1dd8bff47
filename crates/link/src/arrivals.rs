//! How the links account for what arrives: its number, the credits that it brings, and the
//! slots that it takes.

use crate::error::Violation;
use crate::link::Link;
use crate::links::Links;
use crate::region::{Arrival, MailboxRegion};
use sluice_wire::{Credits, Packet, PacketSeq, Parsed, PeerId, PlainParsed};

/// What the number and the credits of a packet have done.
#[derive(Clone, Copy)]
struct Begun {
    brought_credits: bool,
    answer_due: bool,
}

impl Links {
    /// Accounts for a packet that has arrived.
    ///
    /// # Errors
    /// The [`Violation`], if it is one. The peer is not to be trusted further.
    #[inline(always)]
    pub fn on_arrival(&mut self, peer: PeerId, packet: &Parsed) -> Result<Arrival, Violation> {
        // Data comes first: it is what there is most of.
        let is_data = match &packet.packet {
            Packet::Put(put) => !put.by_control,
            Packet::Atomic(atomic) => !atomic.by_control,
            _ => false,
        };
        let slots = packet.slots();
        if is_data {
            self.on_data_arrival(peer, packet.seq, packet.credits, slots)
        } else {
            self.on_other_arrival(peer, packet, slots)
        }
    }

    /// The same for a plain put.
    ///
    /// # Errors
    /// As [`Links::on_arrival`].
    #[inline(always)]
    pub fn on_plain_arrival(
        &mut self,
        peer: PeerId,
        packet: &PlainParsed,
    ) -> Result<Arrival, Violation> {
        self.on_data_arrival(peer, packet.seq, packet.credits, packet.slots())
    }

    /// What has come last from `peer` came before its receive: it keeps its slots.
    #[inline]
    pub fn note_unexpected(&mut self, peer: PeerId) {
        if let Some(Some(link)) = self.peers.get_mut(peer.index()) {
            link.unexpected_slots_max = link.unexpected_slots_max.max(link.data.held());
        }
    }

    /// Accounts for what takes data credits.
    #[inline(always)]
    fn on_data_arrival(
        &mut self,
        peer: PeerId,
        seq: PacketSeq,
        credits: Credits,
        slots: u32,
    ) -> Result<Arrival, Violation> {
        let region = MailboxRegion::Data;
        let link = self.arriving(peer)?;
        let Begun { brought_credits, answer_due } = link.begin_arrival(seq, credits)?;
        if !link.data.arrive(slots) {
            return Err(Violation::NoCredit { region, slots });
        }
        // Fewer credits are left to the sender now: those owed to it since
        // before, too few or without a place for their packet then, may matter.
        if (answer_due || link.data.wanted_when_idle()) && !link.in_idle_work {
            link.in_idle_work = true;
            self.idle_work.push(peer);
        }
        Ok(Arrival { region, slots, brought_credits, answer_due })
    }

    /// The link by which a packet has come.
    #[inline(always)]
    fn arriving(&mut self, peer: PeerId) -> Result<&mut Link, Violation> {
        if !self.is_known(peer) && self.gone(peer).is_some() {
            return Err(Violation::Gone);
        }
        Ok(self.link_mut(peer))
    }

    /// Accounts for what carries no message.
    #[inline]
    fn on_other_arrival(
        &mut self,
        peer: PeerId,
        packet: &Parsed,
        slots: u32,
    ) -> Result<Arrival, Violation> {
        let link = self.arriving(peer)?;
        let begun = link.begin_arrival(packet.seq, packet.credits)?;
        let Begun { brought_credits, mut answer_due } = begun;
        let region = MailboxRegion::of(&packet.packet);
        let accepted = match region {
            MailboxRegion::Data => link.data.arrive(slots),
            MailboxRegion::Control => {
                slots <= Links::BY_CONTROL_SLOTS_MAX && link.control.arrive(slots)
            }
            // Replies are checked against what was asked for, by who asked.
            MailboxRegion::Reply | MailboxRegion::Credit => true,
        };
        if !accepted {
            return Err(Violation::NoCredit { region, slots });
        }
        if region == MailboxRegion::Data {
            self.take_compulsory(peer, &packet.packet)?;
            answer_due = true;
        }
        if answer_due {
            self.work_when_idle(peer);
        }
        Ok(Arrival { region, slots, brought_credits, answer_due })
    }
}

impl Link {
    /// Takes a packet's number and the credits that it brings.
    #[inline(always)]
    fn begin_arrival(&mut self, seq: PacketSeq, credits: Credits) -> Result<Begun, Violation> {
        if seq != self.expected_seq {
            return Err(Violation::Sequence { expected: self.expected_seq, got: seq });
        }
        self.expected_seq = self.expected_seq.next();
        let mut begun = Begun { brought_credits: credits != Credits::default(), answer_due: false };
        if begun.brought_credits {
            self.take_credits(credits)?;
            if self.compulsory.waits() {
                self.compulsory.take_credits(&mut self.data_credits);
                begun.answer_due = true;
            }
        }
        Ok(begun)
    }
}
