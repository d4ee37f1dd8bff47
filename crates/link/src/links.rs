//! Every link of one process: credits both ways, numbering, and the packets
//! that carry credits back.

use crate::account::Account;
use crate::error::{SendError, Violation};
use crate::ledger::Ledger;
use crate::port::{PeerError, Port, Token, Transmitted};
use crate::quota::{Grant, Layout};
use crate::region::{Arrival, MailboxRegion};
use sluice_wire::{Credits, Packet, PacketSeq, Parsed, PeerId, Region, slots_for};

/// Both directions between this process and one peer.
#[derive(Debug)]
struct Link {
    /// What the peer's mailbox grants; `None` until something is sent.
    granted: Option<Grant>,
    data_credits: u16,
    control_credits: u16,
    next_seq: PacketSeq,
    expected_seq: PacketSeq,
    data: Account,
    control: Account,
    /// Whether the peer is in `Links::idle_work`.
    in_idle_work: bool,
}

/// The links of one process.
#[derive(Debug)]
pub struct Links {
    peers: Vec<Option<Box<Link>>>,
    layout: Layout,
    reply_slots_free: u16,
    /// Peers to which an idle moment should return credits.
    idle_work: Vec<PeerId>,
    /// Peers given up, in order of their ids. Nothing is sent to them again,
    /// whatever the port says: their credits are void.
    gone: Vec<(PeerId, PeerError)>,
}

impl Links {
    /// Heap bytes of a peer that was named but never spoken to.
    pub const IDLE_PEER_BYTES: usize = size_of::<Option<Box<Link>>>();
    /// Heap bytes of a peer that was spoken to.
    pub const ACTIVE_PEER_BYTES: usize = Links::IDLE_PEER_BYTES + size_of::<Link>();

    /// No links yet; the mailbox of this process is divided as `layout` says.
    #[must_use]
    pub fn new(layout: Layout) -> Links {
        Links {
            peers: Vec::new(),
            layout,
            reply_slots_free: layout.reply_slots,
            idle_work: Vec::new(),
            gone: Vec::new(),
        }
    }

    /// Sends a put, which spends data credits.
    ///
    /// # Errors
    /// [`SendError`]; nothing was sent or spent then.
    #[inline(always)]
    pub fn send_data<P: Port>(
        &mut self,
        port: &mut P,
        peer: PeerId,
        packet: &Packet,
        payload: Region,
        token: Token,
    ) -> Result<Transmitted, SendError> {
        let link = self.connected(port, peer)?;
        let need = slots_for(u64::from(packet.header_bytes()) + payload.len);
        let have = u32::from(link.data_credits);
        if need > have {
            return Err(SendError::NoCredit { need, have });
        }
        link.data_credits -= need as u16;
        Ok(link.transmit(port, peer, packet, payload, token))
    }

    /// Sends an acknowledgement, get or get-done, which spends a control
    /// credit.
    ///
    /// # Errors
    /// [`SendError`]; nothing was sent or spent then.
    pub fn send_control<P: Port>(
        &mut self,
        port: &mut P,
        peer: PeerId,
        packet: &Packet,
    ) -> Result<(), SendError> {
        let link = self.connected(port, peer)?;
        if link.control_credits == 0 {
            return Err(SendError::NoCredit { need: 1, have: 0 });
        }
        link.control_credits -= 1;
        link.transmit(port, peer, packet, Region::EMPTY, Token(0));
        Ok(())
    }

    /// Sends a reply; the peer set slots aside for it when it asked.
    ///
    /// # Errors
    /// [`SendError::Peer`].
    pub fn send_reply<P: Port>(
        &mut self,
        port: &mut P,
        peer: PeerId,
        packet: &Packet,
        payload: Region,
        token: Token,
    ) -> Result<Transmitted, SendError> {
        let link = self.connected(port, peer)?;
        Ok(link.transmit(port, peer, packet, payload, token))
    }

    /// Sets `slots` of the reply region aside for an answer. False if so many
    /// are not free.
    #[must_use]
    pub fn reserve_reply(&mut self, slots: u32) -> bool {
        if slots > u32::from(self.reply_slots_free) {
            return false;
        }
        self.reply_slots_free -= slots as u16;
        true
    }

    /// Frees what [`Links::reserve_reply`] set aside.
    ///
    /// # Panics
    /// If more is freed than was set aside.
    pub fn release_reply(&mut self, slots: u32) {
        let free = u32::from(self.reply_slots_free) + slots;
        assert!(free <= u32::from(self.layout.reply_slots), "reply slots freed twice");
        self.reply_slots_free = free as u16;
    }

    /// Slots of the reply region.
    #[must_use]
    pub fn reply_slots(&self) -> u16 {
        self.layout.reply_slots
    }

    /// Data slots that `peer` grants; zero if it was never spoken to.
    #[must_use]
    #[inline]
    pub fn data_quota(&self, peer: PeerId) -> u32 {
        let granted = self.link(peer).and_then(|link| link.granted);
        granted.map_or(0, |granted| u32::from(granted.data_slots))
    }

    /// Data credits that are left toward `peer`; zero if it was never spoken
    /// to.
    #[must_use]
    pub fn data_credits(&self, peer: PeerId) -> u32 {
        self.link(peer).map_or(0, |link| u32::from(link.data_credits))
    }

    /// Data slots that `peer` has, or that are on their way here; all of them if
    /// it never sent anything.
    #[must_use]
    #[inline]
    pub fn data_at_sender(&self, peer: PeerId) -> u16 {
        self.link(peer).map_or(self.layout.grant.data_slots, |link| link.data.at_sender())
    }

    /// Accounts for a packet that has arrived.
    ///
    /// # Errors
    /// The [`Violation`], if it is one. The peer is not to be trusted further.
    #[inline(always)]
    pub fn on_arrival(&mut self, peer: PeerId, packet: &Parsed) -> Result<Arrival, Violation> {
        if self.link(peer).is_none() && self.gone(peer).is_some() {
            return Err(Violation::Gone);
        }
        let link = self.link_mut(peer);
        if packet.seq != link.expected_seq {
            return Err(Violation::Sequence { expected: link.expected_seq, got: packet.seq });
        }
        link.expected_seq = link.expected_seq.next();
        let brought_credits = packet.credits != Credits::default();
        if brought_credits {
            link.take_credits(packet.credits)?;
        }
        let region = MailboxRegion::of(&packet.packet);
        let slots = slots_for(packet.total_bytes());
        let accepted = match region {
            MailboxRegion::Data => link.data.arrive(slots),
            MailboxRegion::Control => link.control.arrive(slots),
            // Replies are checked against what was asked for, by who asked.
            MailboxRegion::Reply | MailboxRegion::Credit => true,
        };
        if !accepted {
            return Err(Violation::NoCredit { region, slots });
        }
        // Fewer credits are left to the sender now: those owed to it since
        // before, too few or without a place for their packet then, may matter.
        if region == MailboxRegion::Data && link.data.wanted_when_idle() && !link.in_idle_work {
            link.in_idle_work = true;
            self.idle_work.push(peer);
        }
        Ok(Arrival { region, slots, brought_credits })
    }

    /// Frees `slots` of the data region: the message that lay in them is
    /// matched, or dropped. Returns the credits if enough have come together.
    #[inline]
    pub fn free_data<P: Port>(&mut self, port: &mut P, peer: PeerId, slots: u32) {
        let Some(Some(link)) = self.peers.get_mut(peer.index()) else {
            // The peer has gone since; nobody is owed anything.
            return;
        };
        link.data.free(slots);
        if link.wants_attention() {
            self.after_free(port, peer);
        }
    }

    /// Frees `slots` of the control region.
    #[inline]
    pub fn free_control<P: Port>(&mut self, port: &mut P, peer: PeerId, slots: u32) {
        let Some(Some(link)) = self.peers.get_mut(peer.index()) else {
            // The peer has gone since; nobody is owed anything.
            return;
        };
        link.control.free(slots);
        if link.wants_attention() {
            self.after_free(port, peer);
        }
    }

    /// Returns the credits that wait for an idle moment.
    pub fn on_idle<P: Port>(&mut self, port: &mut P) {
        while let Some(peer) = self.idle_work.pop() {
            let Some(link) = self.peers.get_mut(peer.index()).and_then(Option::as_mut) else {
                continue;
            };
            link.in_idle_work = false;
            let data = link.data.packet_due_when_idle();
            let control = link.control.packet_due_when_idle();
            if data || control {
                self.send_credits(port, peer, data);
            }
        }
    }

    /// Gives up a peer that will not answer again; why, is what sends to it
    /// fail with from now on.
    pub fn drop_peer(&mut self, peer: PeerId, why: PeerError) {
        if let Some(slot) = self.peers.get_mut(peer.index()) {
            *slot = None;
        }
        if let Err(at) = self.gone.binary_search_by_key(&peer, |&(gone, _)| gone) {
            self.gone.insert(at, (peer, why));
        }
    }

    /// Where the credits of the link with `peer` are; `None` if there is none.
    #[must_use]
    pub fn ledger(&self, peer: PeerId) -> Option<Ledger> {
        let link = self.link(peer)?;
        Some(Ledger {
            granted: link.granted,
            data_credits: link.data_credits,
            control_credits: link.control_credits,
            data_held: link.data.held(),
            data_owed: link.data.owed(),
            control_held: link.control.held(),
            control_owed: link.control.owed(),
        })
    }

    /// Reply slots that are set aside for answers on their way.
    #[must_use]
    pub fn reply_slots_reserved(&self) -> u16 {
        self.layout.reply_slots - self.reply_slots_free
    }

    /// Bytes of heap that hold the links.
    #[must_use]
    pub fn heap_bytes(&self) -> usize {
        self.peers.capacity() * Links::IDLE_PEER_BYTES
            + self.peers.iter().flatten().count() * size_of::<Link>()
            + self.idle_work.capacity() * size_of::<PeerId>()
            + self.gone.capacity() * size_of::<(PeerId, PeerError)>()
    }

    /// Slots of this mailbox that hold messages not yet matched.
    #[must_use]
    pub fn slots_held(&self) -> u64 {
        self.peers.iter().flatten().map(|link| u64::from(link.data.held())).sum()
    }

    /// Panics unless every credit is in exactly one place.
    pub fn check_invariants(&self) {
        for link in self.peers.iter().flatten() {
            link.data.check_invariants();
            link.control.check_invariants();
            if let Some(granted) = link.granted {
                assert!(link.data_credits <= granted.data_slots);
                assert!(link.control_credits <= u16::from(granted.control_slots));
            }
        }
        assert!(self.reply_slots_free <= self.layout.reply_slots);
    }

    #[cold]
    #[inline(never)]
    fn after_free<P: Port>(&mut self, port: &mut P, peer: PeerId) {
        let link = self.link_mut(peer);
        if link.data.packet_due() {
            self.send_credits(port, peer, true);
        } else if link.control.packet_due() {
            self.send_credits(port, peer, false);
        } else if !link.in_idle_work
            && (link.data.wanted_when_idle() || link.control.wanted_when_idle())
        {
            link.in_idle_work = true;
            self.idle_work.push(peer);
        }
    }

    /// Sends a credit packet in a place of the data or the control region's
    /// returns; whatever the other region owes rides along.
    fn send_credits<P: Port>(&mut self, port: &mut P, peer: PeerId, data: bool) {
        // A peer that cannot be reached needs no credits.
        let Ok(link) = self.connected(port, peer) else {
            return;
        };
        let credits = if data {
            Credits {
                data: link.data.take_for_packet(u16::MAX),
                control: link.control.piggyback(u16::from(u8::MAX)) as u8,
            }
        } else {
            Credits {
                data: link.data.piggyback(u16::MAX),
                control: link.control.take_for_packet(u16::from(u8::MAX)) as u8,
            }
        };
        let head = Packet::Credit.emit(link.take_seq(), credits, 0);
        port.transmit(peer, &head, Region::EMPTY, Token(0));
    }

    #[inline]
    fn link(&self, peer: PeerId) -> Option<&Link> {
        self.peers.get(peer.index())?.as_deref()
    }

    #[inline(always)]
    fn link_mut(&mut self, peer: PeerId) -> &mut Link {
        let index = peer.index();
        if !matches!(self.peers.get(index), Some(Some(_))) {
            self.make_link(index);
        }
        match &mut self.peers[index] {
            Some(link) => link,
            None => unreachable!("made above"),
        }
    }

    #[cold]
    #[inline(never)]
    fn make_link(&mut self, index: usize) {
        if index >= self.peers.len() {
            self.peers.resize_with(index + 1, || None);
        }
        self.peers[index] = Some(Box::new(Link::new(self.layout.grant)));
    }

    #[inline(always)]
    fn connected<P: Port>(&mut self, port: &mut P, peer: PeerId) -> Result<&mut Link, PeerError> {
        if !matches!(self.peers.get(peer.index()), Some(Some(link)) if link.granted.is_some()) {
            self.connect(port, peer)?;
        }
        Ok(self.link_mut(peer))
    }

    #[cold]
    #[inline(never)]
    fn connect<P: Port>(&mut self, port: &mut P, peer: PeerId) -> Result<(), PeerError> {
        if let Some(why) = self.gone(peer) {
            return Err(why);
        }
        let granted = port.connect(peer)?;
        // A mailbox without places for credit packets is one that nobody made.
        if granted.credit_slots < 2 {
            return Err(PeerError::Unreachable);
        }
        self.link_mut(peer).connect(granted);
        Ok(())
    }

    fn gone(&self, peer: PeerId) -> Option<PeerError> {
        let at = self.gone.binary_search_by_key(&peer, |&(gone, _)| gone).ok()?;
        Some(self.gone[at].1)
    }
}

impl Link {
    /// `grant`: what the own mailbox grants to the peer.
    fn new(grant: Grant) -> Link {
        let half = grant.credit_slots / 2;
        Link {
            granted: None,
            data_credits: 0,
            control_credits: 0,
            next_seq: PacketSeq(0),
            expected_seq: PacketSeq(0),
            data: Account::new(grant.data_slots, half),
            control: Account::new(u16::from(grant.control_slots), grant.credit_slots - half),
            in_idle_work: false,
        }
    }

    /// `granted`: what the peer's mailbox grants to this process, also places
    /// for the packets that return credits to it.
    fn connect(&mut self, granted: Grant) {
        self.granted = Some(granted);
        self.data_credits = granted.data_slots;
        self.control_credits = u16::from(granted.control_slots);
        let half = granted.credit_slots / 2;
        self.data.set_places(half);
        self.control.set_places(granted.credit_slots - half);
    }

    #[inline]
    fn take_seq(&mut self) -> PacketSeq {
        let seq = self.next_seq;
        self.next_seq = seq.next();
        seq
    }

    /// Whether credits may be due, by packet or in an idle moment.
    #[inline]
    fn wants_attention(&self) -> bool {
        self.data.may_be_due()
            || self.control.may_be_due()
            || (!self.in_idle_work
                && (self.data.wanted_when_idle() || self.control.wanted_when_idle()))
    }

    #[inline(always)]
    fn transmit<P: Port>(
        &mut self,
        port: &mut P,
        peer: PeerId,
        packet: &Packet,
        payload: Region,
        token: Token,
    ) -> Transmitted {
        let credits = Credits {
            data: self.data.piggyback(u16::MAX),
            control: self.control.piggyback(u16::from(u8::MAX)) as u8,
        };
        let head = packet.emit(self.take_seq(), credits, payload.len as u32);
        port.transmit(peer, &head, payload, token)
    }

    #[inline]
    fn take_credits(&mut self, credits: Credits) -> Result<(), Violation> {
        let granted = self.granted.ok_or(Violation::TooManyCredits)?;
        let data = u32::from(self.data_credits) + u32::from(credits.data);
        let control = u32::from(self.control_credits) + u32::from(credits.control);
        if data > u32::from(granted.data_slots) || control > u32::from(granted.control_slots) {
            return Err(Violation::TooManyCredits);
        }
        self.data_credits = data as u16;
        self.control_credits = control as u16;
        Ok(())
    }
}
