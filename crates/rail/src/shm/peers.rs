//! The peers of one process, as it knows them.
//!
//! Invariants: ids are dense and never reused; one key has one id, and one card for
//! good once it is known; a peer's card is known and it is watched from the moment it
//! is spoken to or has spoken, or somebody waits for it, and it costs no descriptor and
//! no look into a file before. A peer that is elsewhere has an id and an address here and
//! nothing more: no card, no mailbox, no end.

use super::bounce::OwnBounces;
use super::card::Card;
use super::doorbell;
use super::error::CardError;
use super::limits::PEERS_MAX;
use super::segment::{Entry, Segment, SharedBell, Standing, Writer};
use super::watch::Watch;
use crate::address::{Address, AddressError, KEY_BYTES};
use sluice_link::PeerError;
use sluice_wire::PeerId;
use std::collections::HashMap;

/// How far a peer's life has got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Life {
    /// Only its label is known; it is looked up when it is spoken to, or its card
    /// comes with what it sends.
    Named,
    /// Its address is known, and its card once it was needed.
    Quiet,
    /// It is watched.
    Watched,
    /// It has ended; what it had reserved ends at this position, and until
    /// that is read it is not reported.
    Ending { until: u64 },
    /// It has ended and nothing of it is left.
    Ended,
    /// Another rail reaches it, and shared memory has nothing to do with it. So it
    /// stays.
    Elsewhere,
}

/// One peer. The part that every packet needs is elsewhere ([`Peers::mailboxes`]).
#[derive(Debug)]
pub(super) struct Peer {
    /// Who it is; unknown while only its label is known.
    pub(super) address: Option<Address>,
    /// What it says of itself, once that was needed or it has spoken.
    pub(super) card: Option<Box<Card>>,
    /// What it calls itself, as far as is known; zero for nothing.
    pub(super) label: u64,
    pub(super) life: Life,
    /// Why nothing is taken from it or sent to it any more.
    pub(super) gone: Option<PeerError>,
    /// Whether anybody above has seen this id, so that its end is reported.
    pub(super) seen: bool,
    /// Its end was reported.
    pub(super) told: bool,
    /// Its memory can be read directly.
    pub(super) direct: bool,
    /// It was tried to map its mailbox, and there is none: its label may lead to
    /// another one by now.
    lost: bool,
    pub(super) watch: Option<Box<Watch>>,
    /// Its mailbox, if mapped.
    pub(super) segment: Option<Box<Segment>>,
}

impl Peer {
    /// Whether its label still leads to it, as far as is known.
    fn lives(&self) -> bool {
        let ended = matches!(self.life, Life::Ending { .. } | Life::Ended);
        !ended && !self.lost && self.gone.is_none()
    }

    /// Its mailbox, if mapped, and the entry that this process has there.
    pub(super) fn entry(&self) -> Option<(&Segment, Entry)> {
        let segment = self.segment.as_deref()?;
        Some((segment, segment.entry?))
    }

    /// Whether another rail reaches it.
    pub(super) fn is_elsewhere(&self) -> bool {
        self.life == Life::Elsewhere
    }
}

/// A peer's mailbox, to be written into: all that a packet needs.
#[derive(Debug)]
pub(super) struct RemoteMailbox {
    pub(super) writer: Writer,
    /// To be rung after each packet, if its owner may sleep.
    bell: Option<SharedBell>,
}

impl RemoteMailbox {
    /// Wakes the owner of the mailbox if it sleeps. To be called when a packet
    /// is published.
    #[inline(always)]
    pub(super) fn ring(&self) {
        if let Some(bell) = &self.bell {
            doorbell::ring(bell.bell());
        }
    }
}

/// All peers.
#[derive(Debug, Default)]
pub(super) struct Peers {
    list: Vec<Peer>,
    /// The mailboxes by peer. The segment of one is in its [`Peer`].
    mailboxes: Vec<Option<RemoteMailbox>>,
    by_key: HashMap<[u8; KEY_BYTES], PeerId>,
    /// The newest peer of each label that is not zero.
    by_label: HashMap<u64, PeerId>,
}

/// Bytes that a known peer costs which has never been spoken to. Mapped or
/// watched it costs its card, its mapping, a descriptor and one table entry more.
#[must_use]
pub const fn bytes_per_idle_peer() -> usize {
    // It is known by its key or by its label. A hash table holds at most 7/8 of its
    // capacity, each with a control byte.
    let (by_key, by_label) = (size_of::<([u8; KEY_BYTES], PeerId)>(), size_of::<(u64, PeerId)>());
    let hashed = if by_key > by_label { by_key } else { by_label } + 1;
    size_of::<Peer>() + size_of::<Option<RemoteMailbox>>() + hashed * 8 / 7 + 1
}

impl Peers {
    /// The id of the peer with this address, new if it was not known.
    pub(super) fn intern(&mut self, address: &Address) -> Result<PeerId, AddressError> {
        self.intern_as(Life::Quiet, address)
    }

    /// As [`Peers::intern`], for a peer that another rail reaches.
    pub(super) fn intern_elsewhere(&mut self, address: &Address) -> Result<PeerId, AddressError> {
        self.intern_as(Life::Elsewhere, address)
    }

    fn intern_as(&mut self, life: Life, address: &Address) -> Result<PeerId, AddressError> {
        if let Some(&peer) = self.by_key.get(address.key()) {
            let known = &mut self.list[peer.index()];
            // A card, by which it may be known, says nothing of a network.
            let is_same = known.is_elsewhere() == (life == Life::Elsewhere)
                && known.address.is_some_and(|before| {
                    let is_local = before.host().is_none() || address.host().is_none();
                    before == *address || is_local && before.tag() == address.tag()
                });
            if !is_same {
                return Err(AddressError::Conflict);
            }
            if address.host().is_some() {
                known.address = Some(*address);
            }
            return Ok(peer);
        }
        let peer = self.add(Some(*address), 0, life).ok_or(AddressError::TooMany)?;
        self.by_key.insert(*address.key(), peer);
        Ok(peer)
    }

    /// The id of the peer with this card, new if it was not known. A peer of which
    /// only the label was known is the one that calls itself so. Who has the key of a
    /// peer elsewhere is none: addresses are no secret.
    pub(super) fn intern_card(&mut self, card: &Card) -> Result<PeerId, CardError> {
        let address = card.address();
        let awaited = self.by_label.get(&card.label).copied();
        let awaited = awaited.filter(|peer| self.list[peer.index()].life == Life::Named);
        let peer = match awaited {
            Some(peer) if !self.by_key.contains_key(&card.key) => {
                let known = &mut self.list[peer.index()];
                known.address = Some(address);
                known.life = Life::Quiet;
                self.by_key.insert(card.key, peer);
                peer
            }
            _ => self.intern(&address)?,
        };
        let known = &mut self.list[peer.index()];
        match &known.card {
            Some(earlier) if **earlier == *card => {}
            Some(earlier) => return Err(CardError::Conflict { pid: earlier.pid }),
            None => {
                known.card = Some(Box::new(*card));
                known.label = card.label;
                if card.label != 0 {
                    self.by_label.insert(card.label, peer);
                }
            }
        }
        Ok(peer)
    }

    /// A peer without an address that is to call itself `label`. `None` if there are too
    /// many peers, and for the label zero.
    pub(super) fn add_named(&mut self, label: u64) -> Option<PeerId> {
        if label == 0 { None } else { self.add(None, label, Life::Named) }
    }

    /// The newest peer that calls itself `label` and has not ended, if there is one.
    pub(super) fn find_named(&mut self, label: u64) -> Option<PeerId> {
        let newest = *self.by_label.get(&label)?;
        if self.list[newest.index()].lives() {
            return Some(newest);
        }
        // A look at all peers, once for each time that a label changes
        // hands: an older one may have outlived the newest.
        let lives = |known: &Peer| known.label == label && known.lives();
        let peer = PeerId(self.list.iter().rposition(lives)? as u32);
        self.by_label.insert(label, peer);
        Some(peer)
    }

    fn add(&mut self, address: Option<Address>, label: u64, life: Life) -> Option<PeerId> {
        if self.list.len() == PEERS_MAX {
            return None;
        }
        let peer = PeerId(self.list.len() as u32);
        self.list.push(Peer {
            address,
            card: None,
            label,
            life,
            gone: None,
            seen: false,
            told: false,
            direct: false,
            lost: false,
            watch: None,
            segment: None,
        });
        self.mailboxes.push(None);
        if label != 0 {
            self.by_label.insert(label, peer);
        }
        Some(peer)
    }

    #[inline]
    pub(super) fn mailbox(&self, peer: PeerId) -> Option<&RemoteMailbox> {
        self.mailboxes.get(peer.index())?.as_ref()
    }

    /// The mailbox of a mapped peer, and what is kept with its memory.
    #[inline]
    pub(super) fn mailbox_and_segment(
        &mut self,
        peer: PeerId,
    ) -> Option<(&RemoteMailbox, &mut Segment)> {
        let mailbox = self.mailboxes.get(peer.index())?.as_ref()?;
        let segment = self.list.get_mut(peer.index())?.segment.as_mut()?;
        Some((mailbox, segment))
    }

    /// The memory of a mapped peer.
    #[inline]
    pub(super) fn segment(&self, peer: PeerId) -> Option<&Segment> {
        self.list.get(peer.index())?.segment.as_deref()
    }

    /// Bytes of the bounce buffers of a peer: none if it is not mapped, or its memory is lost.
    #[inline]
    pub(super) fn bounces_len(&self, peer: PeerId) -> usize {
        let segment = self.list.get(peer.index()).and_then(|known| known.segment.as_ref());
        segment.filter(|segment| !segment.is_lost()).map_or(0, |segment| segment.bounces_len())
    }

    /// The entry that a peer has in the own mailbox.
    pub(super) fn set_entry_here(&mut self, peer: PeerId, entry: Option<u16>) {
        let segment = self.list.get_mut(peer.index()).and_then(|known| known.segment.as_mut());
        if let Some(segment) = segment {
            segment.bounces.entry = entry;
        }
    }

    /// Takes back what all peers have read of the bounce buffers of this process, whose
    /// mailbox is `own`.
    #[cold]
    pub(super) fn take_back_bounces(&mut self, bounces: &mut OwnBounces, own: &Segment) {
        for pair in
            self.list.iter_mut().filter_map(|known| Some(&mut known.segment.as_mut()?.bounces))
        {
            if let Some(entry) = pair.entry {
                bounces.take_back(pair, own.bounces_read(entry));
            }
        }
    }

    /// A buffer of a peer's was read.
    #[inline]
    pub(super) fn note_bounce_read(&mut self, peer: PeerId) {
        let Some(known) = self.list.get_mut(peer.index()) else { return };
        if let Some(segment) = &mut known.segment {
            segment.note_bounce_read();
        }
    }

    pub(super) fn get(&self, peer: PeerId) -> Option<&Peer> {
        self.list.get(peer.index())
    }

    pub(super) fn get_mut(&mut self, peer: PeerId) -> Option<&mut Peer> {
        self.list.get_mut(peer.index())
    }

    /// Maps a peer: keeps its mailbox, and the writing end with `entry`.
    pub(super) fn attach(&mut self, peer: PeerId, mut segment: Box<Segment>, entry: Entry) {
        assert!(self.mailboxes[peer.index()].is_none(), "a peer is mapped once");
        segment.entry = Some(entry);
        let bell = segment.sleeps().then(|| segment.bell());
        let mailbox = RemoteMailbox { writer: segment.writer(entry.index), bell };
        self.mailboxes[peer.index()] = Some(mailbox);
        self.list[peer.index()].segment = Some(segment);
        self.list[peer.index()].lost = false;
    }

    /// Tells all mapped peers that this process writes no more.
    pub(super) fn close(&self, own: &Card) {
        for (peer, mailbox) in self.list.iter().zip(&self.mailboxes) {
            tell_closed(peer, mailbox.as_ref(), own);
        }
    }

    /// Unmaps a peer, which learns that this process writes no more to it.
    pub(super) fn detach(&mut self, peer: PeerId, own: &Card, bounces: &mut OwnBounces) {
        tell_closed(&self.list[peer.index()], self.mailboxes[peer.index()].as_ref(), own);
        self.mailboxes[peer.index()] = None;
        if let Some(mut segment) = self.list[peer.index()].segment.take() {
            bounces.keep(peer, &mut segment.bounces);
        }
    }

    /// Whether the owner of a mapped mailbox has said that it reads no more.
    pub(super) fn has_closed(&self, peer: PeerId) -> bool {
        let segment = self.list.get(peer.index()).and_then(|known| known.segment.as_ref());
        segment.is_some_and(|segment| segment.is_closed())
    }

    /// Whether a mapped mailbox still takes what this process writes. If so, puts
    /// right there what only this process writes.
    pub(super) fn renew(&self, peer: PeerId) -> Standing {
        let known = &self.list[peer.index()];
        let Some((segment, entry)) = known.entry() else { return Standing::Fine };
        if segment.is_lost() {
            return Standing::Overwritten;
        }
        // An entry that is not this process's any more has an intent of others.
        if let (Standing::Fine, Some(mailbox)) =
            (segment.standing(entry), &self.mailboxes[peer.index()])
        {
            mailbox.writer.renew_intent();
        }
        segment.standing(entry)
    }

    /// A peer's mailbox is no more, so another one may have its label.
    pub(super) fn lose(&mut self, peer: PeerId) {
        if let Some(known) = self.list.get_mut(peer.index()) {
            known.lost = true;
        }
    }

    /// Whether that is known.
    pub(super) fn is_lost(&self, peer: PeerId) -> bool {
        self.list.get(peer.index()).is_some_and(|known| known.lost)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (PeerId, &Peer)> {
        self.list.iter().enumerate().map(|(i, peer)| (PeerId(i as u32), peer))
    }
}

fn tell_closed(peer: &Peer, mailbox: Option<&RemoteMailbox>, own: &Card) {
    if let (Some((segment, entry)), Some(mailbox)) = (peer.entry(), mailbox) {
        segment.close(entry, own);
        mailbox.ring();
    }
}
