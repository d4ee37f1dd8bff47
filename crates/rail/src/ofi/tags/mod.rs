//! Matching of tags by a provider: an endpoint for each list of receives, whose provider
//! matches messages with receives by source and tag.
//!
//! A message carries what no tag has room for in front of its bytes ([`head`]). It comes into
//! a buffer of this process's own and is copied from there, once it has met its receive.
//! Which process has sent it says an id that this one has told in the handshake.
//!
//! What MPI's order asks of this side:
//! - A source is known to the provider when the two processes have met. A receive from one
//!   that is not known yet waits here; before its messages may come, it takes its place
//!   before those that were posted after it (`receives`). So a process says when messages
//!   may come ([`Word::Ready`]), and until then they wait at their senders.
//! - A search takes messages that have met no receive from the provider, in their order, until
//!   one is wanted. They are held here, and are older than any that the provider has.
//!
//! Invariants:
//! - A receive that waits here has a source that the provider does not know.
//! - No receive at the provider accepts a message that is held here.
//! - A message of an unknown process is dropped and counted, and so is one that its receive
//!   does not want. The receive stays; its place in the order is lost.
//! - Of each peer at most [`SENDS_MAX`] messages are queued or with the provider, so what a
//!   process keeps of its own is bounded. What the provider keeps that no receive has met is
//!   not.
//! - What is held here is bounded ([`HELD_BYTES_MAX`]). Beyond that messages stay with the
//!   provider: none is lost, but a search finds none of them before receives have met what is
//!   held. That is said once. A message that a search has claimed does not count: there are as
//!   many as the client claims.

mod head;
mod receives;

use super::opening::offers_at;
use crate::net::Place;
use head::{HEAD_BYTES, Head, WORD_BYTES, Word};
pub(crate) use head::{ID_BYTES, Id};
use receives::{Held, List};
use rustix::rand::{GetRandomFlags, getrandom};
use slab::Slab;
use sluice_fabric::{
    BUFFER_BYTES, Begun, BufferId, Done, Endpoint, FabricError, Kind, Peer, tagged_offers,
};
use sluice_link::{Full, TaggedEnd, TaggedMessage, Token};
use sluice_wire::{PeerId, Region};
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::net::IpAddr;
use std::os::fd::BorrowedFd;
use std::time::Duration;

/// Lists of receives, each with an endpoint.
pub(crate) const LISTS: usize = 2;
/// The endpoint that words go by.
const WORDS: usize = 0;
/// Most messages to one peer that have not left this process.
const SENDS_MAX: usize = 256;
/// Most words to one peer that have not.
const WORDS_MAX: usize = 4096;
/// Buffers for words that come.
const WORD_RECEIVES: usize = 64;
/// Completions that one look takes at most.
const LOOK_MAX: usize = 256;
/// Most bytes of messages that searches have taken from the provider and no receive has met.
const HELD_BYTES_MAX: usize = 64 << 20;
/// How long a provider may take to end a receive that is taken back.
const PATIENCE: Duration = Duration::from_secs(1);

/// See the module.
#[derive(Debug)]
pub(crate) struct Matcher {
    id: Id,
    lists: [List; LISTS],
    peers: HashMap<PeerId, Known>,
    ids: HashMap<Id, PeerId>,
    /// Messages whose end is waited for.
    acks: Slab<(PeerId, Token)>,
    /// Peers for whom the provider had no room.
    owed: BTreeSet<PeerId>,
    told: VecDeque<(Token, TaggedEnd)>,
    claimed: HashMap<Token, Held>,
    /// Of messages that are held, and the most that there may be.
    held_bytes: usize,
    held_bytes_max: usize,
    /// That there were as many, and whether that was said.
    was_full: bool,
    full_said: bool,
    /// Peers that cannot be reached, or break the rules.
    lost: Vec<PeerId>,
    /// Messages of nobody, that nobody wants, or that could not be received.
    strays: u64,
    is_broken: bool,
    /// Why, until that has been said.
    why_broken: Option<String>,
}

/// A peer, met or wanted.
#[derive(Debug, Default)]
struct Known {
    /// What the endpoints call it; nothing before it has been met.
    at: Option<[Peer; LISTS]>,
    /// Messages may go.
    is_ready: bool,
    is_gone: bool,
    words: VecDeque<Outgoing>,
    messages: VecDeque<Outgoing>,
    /// Messages that the provider has.
    under_way: usize,
}

#[derive(Clone, Copy, Debug)]
struct Outgoing {
    list: usize,
    buffer: BufferId,
    len: usize,
    /// None of a word.
    tag: Option<u64>,
}

impl Matcher {
    /// Opens endpoints by the device that a provider calls so, at an address, or at none of
    /// the system's.
    pub(crate) fn open(provider: &str, at: IpAddr, device: &str) -> Result<Matcher, FabricError> {
        let open = |words| {
            let missing = || FabricError::NoProvider {
                provider: provider.to_owned(),
                filter: format!(" and matches their tags, by {device}"),
            };
            let offers = offers_at(provider, at, tagged_offers)?;
            let offer = offers.into_iter().find(|offer| offer.domain() == device);
            let offer = offer.ok_or_else(missing)?;
            let max = offer.receives_max();
            Ok(List::new(Endpoint::open(offer, words)?, max.saturating_sub(words)))
        };
        let mut id = Id::default();
        // So few bytes come all at once or not at all.
        if getrandom(&mut id, GetRandomFlags::empty()) != Ok(ID_BYTES) {
            return Err(FabricError::Missing(String::from("the system gives no random numbers")));
        }
        let lists = [open(WORD_RECEIVES)?, open(0)?];
        let [words, messages] = lists.each_ref().map(|list| list.endpoint.name().len());
        if words != messages {
            // A hello has room for one length.
            let missing = format!("names of one length for two endpoints of {provider}");
            return Err(FabricError::Missing(missing));
        }
        Ok(Matcher {
            id,
            lists,
            peers: HashMap::new(),
            ids: HashMap::new(),
            acks: Slab::new(),
            owed: BTreeSet::new(),
            told: VecDeque::new(),
            claimed: HashMap::new(),
            held_bytes: 0,
            held_bytes_max: HELD_BYTES_MAX,
            was_full: false,
            full_said: false,
            lost: Vec::new(),
            strays: 0,
            is_broken: false,
            why_broken: None,
        })
    }

    /// By which this process is told from others.
    pub(crate) fn id(&self) -> Id {
        self.id
    }

    /// The names of the endpoints, by list.
    pub(crate) fn names(&self) -> [Vec<u8>; LISTS] {
        [0, 1].map(|list: usize| self.lists[list].endpoint.name().to_vec())
    }

    /// Longest message that is sent with its bytes.
    pub(crate) const fn bytes_max() -> u64 {
        (BUFFER_BYTES - HEAD_BYTES) as u64
    }

    /// This process has met a peer, or is it.
    ///
    /// # Errors
    /// [`FabricError`] if that is none of the provider's.
    pub(crate) fn introduce(
        &mut self,
        peer: PeerId,
        id: Id,
        names: &[Vec<u8>; LISTS],
    ) -> Result<(), FabricError> {
        let at =
            [self.lists[0].endpoint.insert(&names[0])?, self.lists[1].endpoint.insert(&names[1])?];
        self.ids.entry(id).or_insert(peer);
        let is_own = id == self.id;
        let known = self.peers.entry(peer).or_default();
        known.at = Some(at);
        known.is_ready |= is_own;
        let is_asking = !known.is_ready;
        self.seat(peer);
        if !is_own {
            self.say(peer, Word::Ready { is_asking });
        }
        self.pay(peer);
        Ok(())
    }

    /// Whether a process with this id may be this peer.
    pub(crate) fn may_be(&self, id: Id, peer: PeerId) -> bool {
        self.ids.get(&id).is_none_or(|&known| known == peer)
    }

    /// A peer is gone: what is for it is dropped. What it has sent may still be received.
    pub(crate) fn forget(&mut self, peer: PeerId) {
        let known = self.peers.entry(peer).or_default();
        known.is_gone = true;
        for out in known.words.drain(..).chain(known.messages.drain(..)) {
            self.lists[out.list].endpoint.give_back(out.buffer);
        }
        self.owed.remove(&peer);
        self.acks.retain(|_, (of, _)| *of != peer);
    }

    /// Sends a message. Its bytes are copied.
    ///
    /// # Safety
    /// They can be read.
    pub(crate) unsafe fn send(
        &mut self,
        peer: PeerId,
        message: &TaggedMessage,
        bytes: Region,
        token: Option<Token>,
    ) -> Result<(), Full> {
        let (list, bytes) = (usize::from(message.list.0), Place::of_region(bytes));
        let known = self.peers.entry(peer).or_default();
        if known.is_gone {
            return Ok(());
        }
        if known.messages.len() + known.under_way >= SENDS_MAX {
            return Err(Full);
        }
        let endpoint = &mut self.lists[list].endpoint;
        let buffer = endpoint.take().map_err(|_| Full)?;
        let ack = token.map_or(0, |token| self.acks.insert((peer, token)) as u64 + 1);
        let head = Head { from: self.id, message: *message, ack };
        let into = endpoint.bytes_mut(buffer);
        into[..HEAD_BYTES].copy_from_slice(&head.emit());
        let into = &mut into[HEAD_BYTES..][..bytes.len];
        if !into.is_empty() {
            // SAFETY: the caller's promise; the room is there, and of this process's own.
            unsafe { std::ptr::copy_nonoverlapping(bytes.at, into.as_mut_ptr(), bytes.len) };
        }
        let len = HEAD_BYTES + bytes.len;
        known.messages.push_back(Outgoing { list, buffer, len, tag: Some(message.match_bits.0) });
        self.pay(peer);
        Ok(())
    }

    fn say(&mut self, peer: PeerId, word: Word) {
        let bytes = word.emit(&self.id);
        let known = self.peers.entry(peer).or_default();
        if known.is_gone {
            return;
        }
        let endpoint = &mut self.lists[WORDS].endpoint;
        if known.words.len() >= WORDS_MAX {
            return self.lost.push(peer);
        }
        let Ok(buffer) = endpoint.take() else { return self.lost.push(peer) };
        endpoint.bytes_mut(buffer)[..WORD_BYTES].copy_from_slice(&bytes);
        let out = Outgoing { list: WORDS, buffer, len: WORD_BYTES, tag: None };
        known.words.push_back(out);
        self.pay(peer);
    }

    /// Gives the provider what there is for a peer, as far as it takes it.
    fn pay(&mut self, peer: PeerId) {
        self.owed.remove(&peer);
        let Some(known) = self.peers.get_mut(&peer) else { return };
        let Some(at) = known.at else { return };
        loop {
            let queue = match known.words.is_empty() {
                false => &mut known.words,
                true if known.is_ready => &mut known.messages,
                true => return,
            };
            let Some(&Outgoing { list, buffer, len, tag }) = queue.front() else { return };
            let List { endpoint, sending, .. } = &mut self.lists[list];
            let begun = match tag {
                Some(tag) => endpoint.send_tagged(buffer, len, at[list], tag),
                None => endpoint.send(buffer, len, at[list]),
            };
            match begun {
                Ok(Begun::Later) => {
                    self.owed.insert(peer);
                    return;
                }
                Ok(Begun::Yes) => {
                    queue.pop_front();
                    sending.insert(buffer, peer);
                    known.under_way += 1;
                }
                Err(_) => {
                    queue.pop_front();
                    endpoint.give_back(buffer);
                    return self.lost.push(peer);
                }
            }
        }
    }

    /// Looks what has ended and what has come.
    pub(crate) fn progress(&mut self) {
        for list in 0..LISTS {
            self.look(list);
        }
        for peer in std::mem::take(&mut self.owed) {
            self.pay(peer);
        }
    }

    fn look(&mut self, list: usize) {
        for _ in 0..LOOK_MAX {
            if self.is_broken {
                return;
            }
            match self.lists[list].endpoint.poll() {
                Ok(Some(done)) => self.on_done(list, &done),
                Ok(None) => return,
                Err(why) => return self.break_all(why.to_string()),
            }
        }
    }

    fn on_done(&mut self, list: usize, done: &Done) {
        match done.kind {
            Kind::Matched => self.on_matched(list, done),
            Kind::Sent | Kind::Read => self.on_sent(list, done),
            Kind::Received => {
                if done.failed.is_none() {
                    let bytes = &self.lists[list].endpoint.bytes(done.buffer)[..done.len];
                    let word = Word::parse(bytes);
                    self.on_word(word);
                } else {
                    self.strays += 1;
                }
                self.lists[list].endpoint.receive_into(done.buffer);
            }
        }
    }

    fn on_sent(&mut self, list: usize, done: &Done) {
        self.lists[list].endpoint.give_back(done.buffer);
        let Some(peer) = self.lists[list].sending.remove(&done.buffer) else { return };
        if let Some(known) = self.peers.get_mut(&peer) {
            known.under_way -= 1;
        }
        if done.failed.is_some() {
            self.lost.push(peer);
        } else {
            self.pay(peer);
        }
    }

    fn on_word(&mut self, word: Option<(Id, Word)>) {
        let known = word.and_then(|(id, word)| Some((*self.ids.get(&id)?, word)));
        // One that is not known yet is asked when it is.
        let Some((peer, word)) = known else {
            self.strays += 1;
            return;
        };
        match word {
            Word::Ready { is_asking } => {
                self.peers.entry(peer).or_default().is_ready = true;
                if is_asking {
                    self.say(peer, Word::Ready { is_asking: false });
                }
                self.pay(peer);
            }
            Word::Met(ack) => {
                let at = usize::try_from(ack).ok().and_then(|ack| ack.checked_sub(1));
                let is_its = |at: &usize| self.acks.get(*at).is_some_and(|(of, _)| *of == peer);
                match at.filter(is_its) {
                    Some(at) => self.told.push_back((self.acks.remove(at).1, TaggedEnd::Sent)),
                    None => self.lost.push(peer),
                }
            }
        }
    }

    /// The endpoints are of no use any more: neither is any peer.
    fn break_all(&mut self, why: String) {
        if std::mem::replace(&mut self.is_broken, true) {
            return;
        }
        self.why_broken = Some(why);
        self.lost.extend(self.peers.iter().filter(|(_, known)| !known.is_gone).map(|(at, _)| *at));
    }

    /// Why the endpoints are of no use any more, if that is so; said once.
    pub(crate) fn take_broken(&mut self) -> Option<String> {
        self.why_broken.take()
    }

    /// That a search has left messages with the provider, because as many are held as may be;
    /// said once.
    pub(crate) fn take_full(&mut self) -> Option<String> {
        if !self.was_full || std::mem::replace(&mut self.full_said, true) {
            return None;
        }
        let mib = self.held_bytes_max >> 20;
        Some(format!(
            "a probe has looked through {mib} MiB of messages that no receive wants and finds \
             none behind them until some are received"
        ))
    }

    /// Searches hold so many bytes of messages at most.
    #[cfg(test)]
    pub(crate) fn limit_held(&mut self, bytes: usize) {
        self.held_bytes_max = bytes;
    }

    /// At most so many receives of a list.
    #[cfg(test)]
    pub(crate) fn limit_receives(&mut self, max: usize) {
        self.lists.iter_mut().for_each(|list| list.max = max);
    }

    /// How many bytes of messages searches hold.
    #[cfg(test)]
    pub(crate) fn held_bytes(&self) -> usize {
        self.held_bytes
    }

    /// What the machine is to be told next.
    pub(crate) fn next_told(&mut self) -> Option<(Token, TaggedEnd)> {
        self.told.pop_front()
    }

    /// Peers that are to be given up.
    pub(crate) fn take_lost(&mut self) -> Vec<PeerId> {
        std::mem::take(&mut self.lost)
    }

    /// Messages that are of no peer, or that no receive wants.
    #[cfg(test)]
    pub(crate) fn strays(&self) -> u64 {
        self.strays
    }

    /// Whether there is something to do that nobody else calls for.
    pub(crate) fn has_work(&self) -> bool {
        !self.told.is_empty() || !self.lost.is_empty()
    }

    /// Whether the provider has had no room for something, which no descriptor tells of.
    pub(crate) fn is_waiting(&self) -> bool {
        !self.owed.is_empty()
    }

    /// Whether a receive was refused that may wait for a message that is here.
    pub(crate) fn is_crowded(&self) -> bool {
        self.lists.iter().any(|list| list.is_crowded)
    }

    /// Whether something may come, or end.
    pub(crate) fn is_used(&self) -> bool {
        self.has_work() || !self.is_broken && !self.peers.is_empty()
    }

    /// Whether all that was sent has left this process.
    pub(crate) fn is_drained(&self) -> bool {
        self.is_broken
            || self.peers.values().all(|known| {
                known.is_gone
                    || known.under_way == 0 && known.messages.is_empty() && known.words.is_empty()
            })
    }

    /// What is readable when something has come, where the provider has such a thing.
    pub(crate) fn descriptors(&self) -> impl Iterator<Item = Option<BorrowedFd<'_>>> {
        self.lists.iter().map(|list| list.endpoint.descriptor())
    }

    /// Whether a thread may sleep by these.
    pub(crate) fn may_sleep(&mut self) -> bool {
        self.lists.iter_mut().all(|list| list.endpoint.may_sleep())
    }
}
