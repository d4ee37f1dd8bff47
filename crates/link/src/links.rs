//! Every link of one process: credits both ways, numbering, and the packets
//! that carry credits back.

use crate::dynamic::Dynamic;
use crate::error::SendError;
use crate::ledger::{DynamicLedger, Ledger};
use crate::link::Link;
use crate::mutants::{self, Mutant};
use crate::port::{Connect, PeerError, Port, Token, Transmitted};
use crate::quota::{Layout, Opened};
use crate::region::{Held, MailboxRegion};
use sluice_wire::{Credits, Packet, PacketSeq, Parsed, PeerId, Plain, Region, slots_for};

/// Control credits that operations in the control region leave: acknowledgements, whose
/// slots are freed as soon as they are read, always get one of them.
const CONTROL_LEFT: u32 = 4;

/// The links of one process.
#[derive(Debug)]
pub struct Links {
    pub(crate) peers: Vec<Option<Box<Link>>>,
    pub(crate) layout: Layout,
    /// Who gets how much of a dynamic data region; `None` if quotas are fixed.
    pub(crate) dynamic: Option<Box<Dynamic>>,
    /// Whether credits are piggybacked on packets that go anyway.
    pub(crate) piggybacks: bool,
    /// Whether a steal has left a sender that may have to be asked for credits.
    pub(crate) someone_reduced: bool,
    reply_slots_free: u16,
    /// Slots of the data region that hold messages of peers that were given up.
    departed: u32,
    /// Peers to which an idle moment should return credits, or that a packet of the
    /// flow control is ready for.
    pub(crate) idle_work: Vec<PeerId>,
    /// Peers given up, in order of their ids. Nothing is sent to them again,
    /// whatever the port says: their credits are void.
    gone: Vec<(PeerId, PeerError)>,
}

impl Links {
    /// Heap bytes of a peer that was named but never spoken to.
    pub const IDLE_PEER_BYTES: usize = size_of::<Option<Box<Link>>>();
    /// Heap bytes of a peer that was spoken to.
    pub const ACTIVE_PEER_BYTES: usize = Links::IDLE_PEER_BYTES + size_of::<Link>();
    /// What a dynamic data region adds to that.
    pub const DYNAMIC_PEER_BYTES: usize = Dynamic::SENDER_BYTES;

    /// Most slots of a put or an atomic operation in the control region. Of the 32 that a
    /// peer grants, more than these and the 4 that are left are with this process when nothing
    /// is under way: fewer than 11 are owed then.
    pub const BY_CONTROL_SLOTS_MAX: u32 = 16;

    /// No links yet; the mailbox of this process is divided as `layout` says.
    #[must_use]
    pub fn new(layout: Layout) -> Links {
        let Layout { grant, dynamic_slots, .. } = layout;
        let dynamic = (dynamic_slots > 0).then(|| {
            Box::new(Dynamic::new(grant.data_slots, dynamic_slots, grant.credit_slots / 2))
        });
        Links {
            peers: Vec::new(),
            layout,
            piggybacks: true,
            someone_reduced: false,
            dynamic,
            reply_slots_free: layout.reply_slots,
            departed: 0,
            idle_work: Vec::new(),
            gone: Vec::new(),
        }
    }

    /// Makes `count` peers, from the first, before anyone else is one, with equal
    /// intended quotas (EXTOLL paper, section 6.3). Else peers are made when they
    /// are first spoken to, and share then.
    ///
    /// # Panics
    /// If there is a peer already, or if there are more than the mailbox is for.
    pub fn admit_all(&mut self, count: u16) {
        assert!(count <= self.layout.senders_max && self.peers.is_empty());
        if let Some(dynamic) = &mut self.dynamic {
            dynamic.admit_all(u32::from(count));
        }
        let link = |number| {
            let mut link = Link::new(self.layout.grant);
            if let Some(dynamic) = &self.dynamic {
                link.sender = number;
                link.data = dynamic.account();
            }
            Some(Box::new(link))
        };
        self.peers = (0..u32::from(count)).map(link).collect();
    }

    /// Whether packets that go anyway carry credits. They do unless told otherwise.
    pub fn set_piggyback(&mut self, piggyback: bool) {
        self.piggybacks = piggyback;
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
        spend(self.connected(port, peer)?, packet.header_bytes(), payload.len)?;
        Ok(self.transmit(port, peer, packet, payload, token))
    }

    /// Sends a plain put, as [`Links::send_data`] would.
    ///
    /// # Errors
    /// [`SendError`]; nothing was sent or spent then.
    #[inline(always)]
    pub fn send_plain<P: Port>(
        &mut self,
        port: &mut P,
        peer: PeerId,
        plain: &Plain,
        payload: Region,
        token: Token,
    ) -> Result<Transmitted, SendError> {
        spend(self.connected(port, peer)?, Plain::HEADER_BYTES, payload.len)?;
        let head = |seq, credits| plain.emit(seq, credits, payload.len as u32);
        Ok(self.transmit_as(port, peer, head, payload, token))
    }

    /// Whether [`Links::send_data`] would send this now.
    ///
    /// # Errors
    /// The one that it would give.
    pub fn check_data<P: Port>(
        &mut self,
        port: &mut P,
        peer: PeerId,
        packet: &Packet,
        payload_len: u64,
    ) -> Result<(), SendError> {
        affordable(self.connected(port, peer)?, packet.header_bytes(), payload_len).map(drop)
    }

    /// Sends a put or an atomic operation that says so in the control region: for one that
    /// finds no data credits, and that no receive of the peer may have to be posted for. It
    /// takes at most [`Links::BY_CONTROL_SLOTS_MAX`] slots, which the peer frees with the
    /// acknowledgement. Some credits are left for that of the peer's own operations.
    ///
    /// # Errors
    /// [`SendError`]; nothing was sent or spent then.
    #[cold]
    pub fn send_by_control<P: Port>(
        &mut self,
        port: &mut P,
        peer: PeerId,
        packet: &Packet,
        payload: Region,
        token: Token,
    ) -> Result<Transmitted, SendError> {
        assert!(MailboxRegion::of(packet) == MailboxRegion::Control, "it says so");
        let link = self.connected(port, peer)?;
        let slots = slots_for(packet.header_bytes().into(), payload.len);
        assert!(slots <= Links::BY_CONTROL_SLOTS_MAX, "longer ones are announced");
        let (need, have) = (slots + CONTROL_LEFT, u32::from(link.control_credits));
        if have < need {
            return Err(SendError::NoCredit { need, have });
        }
        link.control_credits -= slots as u16;
        Ok(self.transmit(port, peer, packet, payload, token))
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
        self.transmit(port, peer, packet, Region::EMPTY, Token(0));
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
        self.connected(port, peer)?;
        Ok(self.transmit(port, peer, packet, payload, token))
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
        let slots = if mutants::is(Mutant::KeepsReplySlots) { 0 } else { slots };
        let free = u32::from(self.reply_slots_free) + slots;
        assert!(free <= u32::from(self.layout.reply_slots), "reply slots freed twice");
        self.reply_slots_free = free as u16;
    }

    /// Slots of the reply region.
    #[must_use]
    pub fn reply_slots(&self) -> u16 {
        self.layout.reply_slots
    }

    /// Data slots that `peer` grants, of a dynamic region the static ones; zero if
    /// it was never spoken to.
    #[must_use]
    #[inline]
    pub fn data_quota(&self, peer: PeerId) -> u32 {
        let granted = self.link(peer).and_then(|link| link.granted);
        granted.map_or(0, |granted| u32::from(granted.data_slots))
    }

    /// Most data slots that `peer` may ever grant, its dynamic region among them; zero
    /// if it was never spoken to.
    #[must_use]
    #[inline]
    pub fn data_credits_max(&self, peer: PeerId) -> u32 {
        self.link(peer).map_or(0, |link| u32::from(link.data_credits_max))
    }

    /// The peers that were spoken to, or have spoken, in order of their ids.
    pub fn known(&self) -> impl Iterator<Item = PeerId> + '_ {
        let peers = self.peers.iter().enumerate();
        peers.filter_map(|(nth, link)| link.as_ref().map(|_| PeerId(nth as u32)))
    }

    /// Whether `peer` was spoken to, or has spoken: the world tells of its end.
    #[must_use]
    #[inline]
    pub fn is_known(&self, peer: PeerId) -> bool {
        self.link(peer).is_some()
    }

    /// Data credits that are left toward `peer`; zero if it was never spoken
    /// to.
    #[must_use]
    pub fn data_credits(&self, peer: PeerId) -> u32 {
        self.link(peer).map_or(0, |link| u32::from(link.data_credits))
    }

    /// Whether `peer` grants a control credit, or may do so once it is spoken to.
    #[must_use]
    pub fn has_control_credit(&self, peer: PeerId) -> bool {
        self.link(peer).is_none_or(|link| link.granted.is_none() || link.control_credits > 0)
    }

    /// Most slots that messages of `peer` have held which came before their receive.
    #[must_use]
    pub fn unexpected_slots_max(&self, peer: PeerId) -> u32 {
        self.link(peer).map_or(0, |link| u32::from(link.unexpected_slots_max))
    }

    /// Number that the next packet to `peer` has.
    #[must_use]
    pub fn next_seq(&self, peer: PeerId) -> PacketSeq {
        self.link(peer).map_or(PacketSeq(0), |link| link.next_seq)
    }

    /// Number of the first packet of `peer` that has not been accounted for.
    #[must_use]
    pub fn expected_seq(&self, peer: PeerId) -> PacketSeq {
        self.link(peer).map_or(PacketSeq(0), |link| link.expected_seq)
    }

    /// Data slots that `peer` has, or that are on their way here; all of them if
    /// it never sent anything.
    #[must_use]
    #[inline]
    pub fn data_at_sender(&self, peer: PeerId) -> u16 {
        self.link(peer).map_or(self.layout.grant.data_slots, |link| link.data.at_sender())
    }

    /// Whether a reply of `peer` is the one that comes next, with credits that it may
    /// return: [`Links::on_arrival`] would accept it.
    #[must_use]
    pub fn is_next_reply(&self, peer: PeerId, packet: &Parsed) -> bool {
        self.link(peer).is_some_and(|link| {
            let is_next = packet.seq == link.expected_seq;
            let bears = packet.credits != Credits::default();
            is_next && (!bears || link.credits_with(packet.credits).is_ok())
        })
    }

    /// Frees `slots` of the data region: the message that lay in them is
    /// matched, or dropped. Returns the credits if enough have come together.
    #[inline]
    pub fn free_data<P: Port>(&mut self, port: &mut P, peer: PeerId, slots: u32) {
        let Some(Some(link)) = self.peers.get_mut(peer.index()) else {
            return self.free_departed(slots);
        };
        // Not the box: it would be looked into anew after each write to the pool.
        let link: &mut Link = link;
        link.data.free(slots);
        if let Some(dynamic) = &mut self.dynamic {
            dynamic.on_freed(&link.data, slots);
        }
        if link.wants_attention() {
            self.after_free(port, peer);
        }
    }

    /// As [`Links::free_data`], of a peer that has gone since. It is owed nothing; what
    /// its message has held may be given to others now.
    #[cold]
    #[inline(never)]
    fn free_departed(&mut self, slots: u32) {
        assert!(slots <= self.departed, "slots of a peer that has gone are freed twice");
        self.departed -= slots;
        if let Some(dynamic) = &mut self.dynamic {
            dynamic.on_departed_freed(slots);
        }
    }

    /// Frees what an operation has held.
    #[inline(always)]
    pub fn free<P: Port>(&mut self, port: &mut P, peer: PeerId, held: Held) {
        match held.of_control() {
            None => self.free_data(port, peer, held.of_data()),
            Some(slots) => self.free_control(port, peer, slots),
        }
    }

    /// Frees `slots` of the control region.
    #[inline]
    pub fn free_control<P: Port>(&mut self, port: &mut P, peer: PeerId, slots: u32) {
        let Some(Some(link)) = self.peers.get_mut(peer.index()) else {
            // The peer has gone since; nobody is owed anything.
            return;
        };
        if mutants::is(Mutant::KeepsControlSlots) {
            return;
        }
        link.control.free(slots);
        if link.wants_attention() {
            self.after_free(port, peer);
        }
    }

    /// Gives up a peer that will not answer again; why, is what sends to it
    /// fail with from now on. Slots that hold its messages are to be freed as ever.
    pub fn drop_peer(&mut self, peer: PeerId, why: PeerError) {
        if let Some(link) = self.peers.get_mut(peer.index()).and_then(Option::take) {
            self.departed += u32::from(link.data.held());
            if let Some(dynamic) = &mut self.dynamic {
                dynamic.leave(link.sender, &link.data);
            }
        }
        if let Err(at) = self.gone.binary_search_by_key(&peer, |&(gone, _)| gone) {
            self.gone.insert(at, (peer, why));
        }
    }

    /// Where the credits of the link with `peer` are; `None` if there is none.
    #[must_use]
    pub fn ledger(&self, peer: PeerId) -> Option<Ledger> {
        let link = self.link(peer)?;
        let dynamic = self.dynamic.as_ref().map(|dynamic| DynamicLedger {
            intended_quota: dynamic.intended(link.sender),
            kept: dynamic.kept(&link.data),
            activity: dynamic.activity(link.sender),
            is_blocked: dynamic.is_blocked(link.sender),
        });
        Some(Ledger {
            granted: link.granted,
            data_credits: link.data_credits,
            data_credits_kept: link.compulsory.credits_kept(),
            control_credits: link.control_credits,
            data_at_sender: link.data.at_sender(),
            data_held: link.data.held(),
            data_owed: link.data.owed(),
            control_held: link.control.held(),
            control_owed: link.control.owed(),
            dynamic,
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
            + self.dynamic.as_ref().map_or(0, |d| size_of::<Dynamic>() + d.heap_bytes())
    }

    /// Slots of this mailbox that hold messages not yet matched.
    #[must_use]
    pub fn slots_held(&self) -> u64 {
        let held = self.peers.iter().flatten().map(|link| u64::from(link.data.held()));
        held.sum::<u64>() + self.slots_departed()
    }

    /// Those of them whose senders were given up.
    #[must_use]
    pub fn slots_departed(&self) -> u64 {
        u64::from(self.departed)
    }

    /// Slots by which those exceed what a dynamic region could spare: the next that
    /// are freed are not given to anyone.
    #[must_use]
    pub fn slots_overdrawn(&self) -> u64 {
        self.dynamic.as_ref().map_or(0, |dynamic| u64::from(dynamic.pool_owes()))
    }

    /// Slots of a dynamic data region that no sender has or fills: the dynamic ones
    /// that nobody has, and those that are kept for one sender each.
    #[must_use]
    pub fn slots_available(&self) -> u64 {
        let Some(dynamic) = &self.dynamic else { return 0 };
        let kept = |link: &Link| u64::from(dynamic.kept(&link.data));
        let kept: u64 = self.peers.iter().flatten().map(|link| kept(link)).sum();
        kept + u64::from(dynamic.pool())
    }

    /// Panics unless every credit is in exactly one place.
    pub fn check_invariants(&self) {
        for link in self.peers.iter().flatten() {
            link.data.check_invariants();
            link.control.check_invariants();
            if let Some(granted) = link.granted {
                assert!(link.data_credits <= link.data_credits_max);
                assert!(!link.compulsory.waits() || link.data_credits == 0);
                assert!(link.control_credits <= u16::from(granted.control_slots));
            }
        }
        assert!(self.reply_slots_free <= self.layout.reply_slots);
        if let Some(dynamic) = &self.dynamic {
            let links = self.peers.iter().flatten();
            let accounts = links.map(|link| (link.sender, &link.data));
            dynamic.check_invariants(self.departed, accounts);
        }
    }

    #[inline]
    pub(crate) fn link(&self, peer: PeerId) -> Option<&Link> {
        self.peers.get(peer.index())?.as_deref()
    }

    #[inline(always)]
    pub(crate) fn link_mut(&mut self, peer: PeerId) -> &mut Link {
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
        let mut link = Link::new(self.layout.grant);
        if let Some(dynamic) = &mut self.dynamic {
            link.sender = dynamic.admit(PeerId(index as u32));
            link.data = dynamic.account();
        }
        self.peers[index] = Some(Box::new(link));
    }

    /// Opens the connection to `peer`, if it is not open.
    ///
    /// # Errors
    /// [`SendError::Connecting`] if it is not open yet; why the peer cannot be
    /// reached.
    pub fn ensure_connected<P: Port>(
        &mut self,
        port: &mut P,
        peer: PeerId,
    ) -> Result<(), SendError> {
        self.connected(port, peer).map(drop)
    }

    /// The connection to `peer` has been opened, which was asked for before.
    ///
    /// # Errors
    /// Why nothing can be sent there all the same. The peer is to be given up.
    pub fn on_connected(&mut self, peer: PeerId, opened: Opened) -> Result<(), PeerError> {
        // It may have been given up meanwhile.
        if self.link(peer).is_some_and(|link| link.is_connecting) {
            self.open(peer, opened)?;
        }
        Ok(())
    }

    #[inline(always)]
    pub(crate) fn connected<P: Port>(
        &mut self,
        port: &mut P,
        peer: PeerId,
    ) -> Result<&mut Link, SendError> {
        if !matches!(self.peers.get(peer.index()), Some(Some(link)) if link.granted.is_some()) {
            self.connect(port, peer)?;
        }
        Ok(self.link_mut(peer))
    }

    #[cold]
    #[inline(never)]
    fn connect<P: Port>(&mut self, port: &mut P, peer: PeerId) -> Result<(), SendError> {
        if let Some(why) = self.gone(peer) {
            return Err(why.into());
        }
        if self.link(peer).is_some_and(|link| link.is_connecting) {
            return Err(SendError::Connecting);
        }
        match port.connect(peer)? {
            Connect::Ready(opened) => Ok(self.open(peer, opened)?),
            Connect::Pending => {
                let heard_of = self.expected_seq(peer) != PacketSeq(0);
                assert!(!heard_of, "the connection to a peer that has sent something is open");
                self.link_mut(peer).is_connecting = true;
                Err(SendError::Connecting)
            }
        }
    }

    fn open(&mut self, peer: PeerId, opened: Opened) -> Result<(), PeerError> {
        let grant = opened.grant;
        // A mailbox without places for credit packets is one that nobody made.
        if grant.credit_slots < 2 {
            return Err(PeerError::Unreachable);
        }
        self.link_mut(peer).connect(opened);
        let places = grant.credit_slots / 2;
        match (&mut self.dynamic, &mut self.peers[peer.index()]) {
            (Some(dynamic), Some(link)) => dynamic.set_places(link.sender, &mut link.data, places),
            (None, Some(link)) => link.data.set_places(places),
            (_, None) => unreachable!("made above"),
        }
        Ok(())
    }

    /// Why a peer that was given up is gone.
    #[must_use]
    pub fn gone(&self, peer: PeerId) -> Option<PeerError> {
        let at = self.gone.binary_search_by_key(&peer, |&(gone, _)| gone).ok()?;
        Some(self.gone[at].1)
    }
}

/// Slots that a put takes, if there are credits for them.
#[inline(always)]
fn affordable(link: &Link, header_bytes: u32, payload_len: u64) -> Result<u32, SendError> {
    let need = slots_for(header_bytes.into(), payload_len);
    let have = u32::from(link.data_credits);
    if need > have { Err(SendError::NoCredit { need, have }) } else { Ok(need) }
}

/// Spends the credits for them.
#[inline(always)]
fn spend(link: &mut Link, header_bytes: u32, payload_len: u64) -> Result<(), SendError> {
    let need = affordable(link, header_bytes, payload_len)?;
    let kept = mutants::is(Mutant::SpendsTooLittle) && need > 1;
    link.data_credits -= need as u16 - u16::from(kept);
    Ok(())
}
