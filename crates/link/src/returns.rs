//! How the links bring credits back to their senders: on packets that go anyway,
//! in packets of their own, and in idle moments; and the packets by which credits
//! of a dynamic region are asked for and given back.

use crate::compulsory::Ready;
use crate::dynamic::Dynamic;
use crate::error::Violation;
use crate::link::Link;
use crate::links::Links;
use crate::mutants::{self, Mutant};
use crate::port::{Port, Token, Transmitted};
use sluice_wire::{Credits, HeadBuf, Packet, PacketSeq, PeerId, Region, ReturnResponse};

impl Links {
    /// Sends what an arrival has made due, if its [`crate::Arrival`] says so: an
    /// answer, or what waited for a credit.
    pub fn answer<P: Port>(&mut self, port: &mut P, peer: PeerId) {
        self.send_compulsory(port, peer);
        self.ask_reduced(port);
        if self.link(peer).is_some_and(Link::wants_attention) {
            self.after_free(port, peer);
        }
    }

    /// Returns the credits that wait for an idle moment.
    pub fn on_idle<P: Port>(&mut self, port: &mut P) {
        if mutants::is(Mutant::IdlesInVain) {
            return;
        }
        while let Some(peer) = self.idle_work.pop() {
            let Some(link) = self.peers.get_mut(peer.index()).and_then(Option::as_mut) else {
                continue;
            };
            link.in_idle_work = false;
            if link.compulsory.credits_kept() > 0 {
                self.send_compulsory(port, peer);
                self.ask_reduced(port);
            }
            self.return_when_idle(port, peer);
        }
        while let Some(peer) = self.dynamic.as_mut().and_then(|dynamic| dynamic.next_hungry()) {
            self.return_when_idle(port, peer);
        }
    }

    /// Sends a packet, and piggybacks credits on it.
    #[inline(always)]
    pub(crate) fn transmit<P: Port>(
        &mut self,
        port: &mut P,
        peer: PeerId,
        packet: &Packet,
        payload: Region,
        token: Token,
    ) -> Transmitted {
        let head = |seq, credits| packet.emit(seq, credits, payload.len as u32);
        self.transmit_as(port, peer, head, payload, token)
    }

    /// The same with the header that `head` makes.
    #[inline(always)]
    pub(crate) fn transmit_as<P: Port>(
        &mut self,
        port: &mut P,
        peer: PeerId,
        head: impl FnOnce(PacketSeq, Credits) -> HeadBuf,
        payload: Region,
        token: Token,
    ) -> Transmitted {
        let Links { peers, dynamic, piggybacks, someone_reduced, .. } = self;
        let Some(Some(link)) = peers.get_mut(peer.index()) else {
            unreachable!("only of peers that there are");
        };
        let link: &mut Link = link;
        let credits = match link.take_piggyback_quickly(dynamic.as_deref_mut(), *piggybacks) {
            Some(credits) => credits,
            None => {
                let credits = link.take_piggyback(dynamic.as_deref_mut(), *piggybacks);
                *someone_reduced = dynamic.as_ref().is_some_and(|d| d.someone_reduced());
                credits
            }
        };
        // Found again: what to keep it at hand pushes out of registers costs more.
        let head = head(self.link_mut(peer).take_seq(), credits);
        let transmitted = port.transmit(peer, &head, payload, token);
        if self.someone_reduced {
            self.ask_reduced(port);
        }
        transmitted
    }

    /// Slots of a peer were freed, and that may matter.
    #[cold]
    #[inline(never)]
    pub(crate) fn after_free<P: Port>(&mut self, port: &mut P, peer: PeerId) {
        if let Links { peers, dynamic: Some(dynamic), idle_work, .. } = self {
            let Some(Some(link)) = peers.get_mut(peer.index()) else {
                unreachable!("only of peers that there are");
            };
            if link.wants_idle_moment() {
                link.in_idle_work = true;
                idle_work.push(peer);
            }
            let data = dynamic.is_due(link.sender, &link.data);
            if data || link.control.may_be_due() {
                self.return_due(port, peer, data);
            }
            return;
        }
        let link = self.link_mut(peer);
        if link.data.packet_due() {
            self.send_credits(port, peer, true);
        } else if link.control.packet_due() {
            self.send_credits(port, peer, false);
        } else if link.wants_idle_moment() {
            link.in_idle_work = true;
            self.idle_work.push(peer);
        }
    }

    /// A packet of the flow control's own has arrived, and is read at once.
    #[cold]
    #[inline(never)]
    pub(crate) fn take_compulsory(
        &mut self,
        peer: PeerId,
        packet: &Packet,
    ) -> Result<(), Violation> {
        let (mut dynamic, link) = self.parts(peer);
        link.data.free(1);
        if let Some(dynamic) = &mut dynamic {
            dynamic.on_freed(&link.data, 1);
        }
        if let &Packet::ReturnResponse(ReturnResponse { slots }) = packet {
            let Some(dynamic) = dynamic.filter(|_| link.compulsory.be_answered()) else {
                return Err(Violation::UnaskedReturn);
            };
            if !dynamic.take_back(link.sender, &mut link.data, slots) {
                return Err(Violation::ReturnedTooMany);
            }
        } else {
            if !link.peer_is_dynamic || !link.compulsory.be_asked() {
                return Err(Violation::ReturnRequest);
            }
            link.compulsory.take_credits(&mut link.data_credits);
        }
        Ok(())
    }

    /// Returns the dynamic region's credits if they are due, and the control
    /// region's.
    #[cold]
    #[inline(never)]
    fn return_due<P: Port>(&mut self, port: &mut P, peer: PeerId, data: bool) {
        if data {
            self.return_dynamic(port, peer, Dynamic::take_regular);
        }
        if self.link_mut(peer).control.packet_due() {
            self.send_credits(port, peer, false);
        }
    }

    fn return_when_idle<P: Port>(&mut self, port: &mut P, peer: PeerId) {
        let (dynamic, link) = self.parts(peer);
        let data = match dynamic {
            None => link.data.packet_due_when_idle(),
            Some(dynamic)
                if dynamic.wants_when_idle(link.sender, &link.data) && link.data.packet_fits() =>
            {
                if dynamic.is_exhausted(&link.data) {
                    dynamic.wait_for_pool(link.sender);
                }
                self.return_dynamic(port, peer, Dynamic::take_when_idle);
                false
            }
            Some(_) => false,
        };
        if data || self.link_mut(peer).control.packet_due_when_idle() {
            self.send_credits(port, peer, data);
        }
    }

    /// Sends a credit packet with what `take` says of a dynamic data region, if the
    /// sender's mailbox has a place for it.
    fn return_dynamic<P: Port>(
        &mut self,
        port: &mut P,
        peer: PeerId,
        take: impl FnOnce(&mut Dynamic, u32, &mut crate::Account) -> u16,
    ) {
        // A peer that cannot be reached needs no credits. One that can be may
        // change its thresholds as it says how many places it has.
        if self.connected(port, peer).is_err() {
            return;
        }
        let piggybacks = self.piggybacks;
        let (Some(dynamic), link) = self.parts(peer) else {
            unreachable!("asked before");
        };
        let least = dynamic.gives_at_least(link.sender, &link.data);
        if !link.data.packet_may_bring(least) {
            return;
        }
        let (lacking, granted_before) = (link.data.lacking(), link.data.granted_total());
        let mut data = take(dynamic, link.sender, &mut link.data);
        if data > 0 {
            data += dynamic.top_up(&mut link.data, lacking.saturating_sub(u64::from(data)));
            link.data.note_packet(granted_before);
            let control = if piggybacks { link.control.piggyback(u16::MAX) as u8 } else { 0 };
            let credits = Credits { data, control };
            link.transmit(port, peer, &Packet::Credit, credits, Region::EMPTY, Token(0));
        }
        self.ask_reduced(port);
    }

    /// Sends a credit packet in a place of the data (of fixed quotas) or the control
    /// region's returns; whatever the other region owes is piggybacked.
    fn send_credits<P: Port>(&mut self, port: &mut P, peer: PeerId, data: bool) {
        // A peer that cannot be reached needs no credits. One that can be may have said just now
        // that it has fewer places.
        if self.connected(port, peer).is_err() {
            return;
        }
        let link = self.link_mut(peer);
        let account = if data { &mut link.data } else { &mut link.control };
        if !account.packet_may_bring(account.owed()) {
            return;
        }
        let taken = if data {
            Credits { data: link.data.take_for_packet(u16::MAX), control: 0 }
        } else {
            let control = link.control.take_for_packet(u16::MAX) as u8;
            Credits { data: 0, control }
        };
        // Nothing is left to piggyback of what has been taken.
        let piggybacked = self.take_piggyback(peer);
        let credits = Credits {
            data: taken.data + piggybacked.data,
            control: taken.control + piggybacked.control,
        };
        let link = self.link_mut(peer);
        link.transmit(port, peer, &Packet::Credit, credits, Region::EMPTY, Token(0));
        self.ask_reduced(port);
    }

    /// Sends to a peer what credits are set aside for.
    fn send_compulsory<P: Port>(&mut self, port: &mut P, peer: PeerId) {
        while let Some(Some(link)) = self.peers.get_mut(peer.index()) {
            let packet = match link.compulsory.next_ready() {
                None => return,
                Some(Ready::Request) => Packet::ReturnRequest,
                Some(Ready::Response) => {
                    let slots = u64::from(link.take_excess());
                    Packet::ReturnResponse(ReturnResponse { slots })
                }
            };
            let credits = self.take_piggyback(peer);
            let link = self.link_mut(peer);
            link.transmit(port, peer, &packet, credits, Region::EMPTY, Token(0));
        }
    }

    /// Asks those senders for credits that a steal has left with static slots only
    /// and with more credits than that.
    #[cold]
    #[inline(never)]
    fn ask_reduced<P: Port>(&mut self, port: &mut P) {
        self.someone_reduced = false;
        loop {
            let Links { peers, dynamic: Some(dynamic), .. } = self else { return };
            let current = |peer: PeerId| {
                let link = peers.get(peer.index()).and_then(Option::as_deref);
                link.map_or(0, |link| link.data.at_sender())
            };
            let Some(peer) = dynamic.next_reduced(current) else { return };
            let link = self.link_mut(peer);
            // What is blocked is looked at each time.
            link.data.note_limits(0, u16::MAX);
            link.compulsory.ask();
            link.compulsory.take_credits(&mut link.data_credits);
            // What is piggybacked reaches no threshold: the peer is blocked.
            self.send_compulsory(port, peer);
        }
    }

    /// Credits for a packet of the flow control's own.
    fn take_piggyback(&mut self, peer: PeerId) -> Credits {
        let piggybacks = self.piggybacks;
        let (dynamic, link) = self.parts(peer);
        link.take_piggyback(dynamic, piggybacks)
    }

    pub(crate) fn work_when_idle(&mut self, peer: PeerId) {
        let link = self.link_mut(peer);
        if !link.in_idle_work {
            link.in_idle_work = true;
            self.idle_work.push(peer);
        }
    }

    /// The dynamic region, if there is one, and the link with a peer.
    #[inline(always)]
    fn parts(&mut self, peer: PeerId) -> (Option<&mut Dynamic>, &mut Link) {
        let Some(Some(link)) = self.peers.get_mut(peer.index()) else {
            unreachable!("only of peers that there are");
        };
        (self.dynamic.as_deref_mut(), link)
    }
}
