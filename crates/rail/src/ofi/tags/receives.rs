//! Receives that a provider matches, and messages that were taken from it to be looked at.

use super::head::{Head, Word};
use super::{Matcher, PATIENCE};
use crate::net::Place;
use sluice_fabric::{Begun, BufferId, Done, Endpoint};
use sluice_link::{Full, TaggedEnd, TaggedMessage, TaggedWanted, Token};
use sluice_wire::{PeerId, PtIndex, Region};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::time::Instant;

/// Most messages that one search takes from the provider.
const SEARCH_MAX: usize = 4096;
/// Why the endpoints are given up when a receive does not end that is taken back.
const NOT_CANCELLED: &str = "a receive does not end that was taken back";

/// A list of receives, with its endpoint.
#[derive(Debug)]
pub(super) struct List {
    pub(super) endpoint: Endpoint,
    /// Messages and words that the provider has, and for whom.
    pub(super) sending: HashMap<BufferId, PeerId>,
    /// By their order.
    receives: BTreeMap<u64, Receive>,
    next: u64,
    pub(super) max: usize,
    by_token: HashMap<Token, u64>,
    by_buffer: HashMap<BufferId, u64>,
    /// What takes a message that no receive wants, for a search.
    net: Option<BufferId>,
    has_caught: bool,
    /// A receive was refused, and still waits for room: messages that have met none may be
    /// wanted, and no descriptor tells of them.
    pub(super) is_crowded: bool,
    held: VecDeque<Held>,
}

#[derive(Debug)]
struct Receive {
    wanted: TaggedWanted,
    into: Region,
    token: Token,
    /// Where its message comes; nothing while it waits here.
    buffer: Option<BufferId>,
}

/// A message that no receive has met, taken from the provider by a search.
#[derive(Debug)]
pub(super) struct Held {
    from: PeerId,
    message: TaggedMessage,
    ack: u64,
    bytes: Box<[u8]>,
}

impl Held {
    /// What it takes of memory.
    fn size(&self) -> usize {
        size_of::<Held>() + self.bytes.len()
    }
}

/// Whether a message is wanted.
type Wants<'a> = &'a mut dyn FnMut(PeerId, &TaggedMessage) -> bool;

/// What this accepts.
fn accepted_by(wanted: &TaggedWanted) -> impl FnMut(PeerId, &TaggedMessage) -> bool {
    |from, message| wanted.accepts(from, message)
}

impl List {
    /// With at most `max` receives.
    pub(super) fn new(endpoint: Endpoint, max: usize) -> List {
        List {
            endpoint,
            sending: HashMap::new(),
            receives: BTreeMap::new(),
            next: 0,
            // One is for searches.
            max: max.saturating_sub(1),
            by_token: HashMap::new(),
            by_buffer: HashMap::new(),
            net: None,
            has_caught: false,
            is_crowded: false,
            held: VecDeque::new(),
        }
    }

    /// The oldest message that is held and wanted.
    fn find(&self, wants: Wants<'_>) -> Option<usize> {
        self.held.iter().position(|held| wants(held.from, &held.message))
    }

    fn remove(&mut self, serial: u64) -> Option<Receive> {
        let receive = self.receives.remove(&serial)?;
        self.by_token.remove(&receive.token);
        Some(receive)
    }
}

impl Matcher {
    /// Posts a receive. Its place may be written until it has ended.
    pub(crate) fn post(
        &mut self,
        wanted: &TaggedWanted,
        into: Region,
        token: Token,
    ) -> Result<(), Full> {
        let posted = self.try_post(wanted, into, token);
        self.lists[usize::from(wanted.list.0)].is_crowded = posted.is_err();
        posted
    }

    /// No receive of the list waits for room any more.
    pub(crate) fn nobody_waits(&mut self, list: PtIndex) {
        self.lists[usize::from(list.0)].is_crowded = false;
    }

    fn try_post(&mut self, wanted: &TaggedWanted, into: Region, token: Token) -> Result<(), Full> {
        let at = usize::from(wanted.list.0);
        let list = &mut self.lists[at];
        if let Some(found) = list.find(&mut accepted_by(wanted)) {
            if let Some(held) = self.unhold(at, found) {
                self.land(&held, into);
                self.tell(token, &held);
            }
            return Ok(());
        }
        if list.receives.len() >= list.max {
            return Err(Full);
        }
        let serial = list.next;
        list.next += 1;
        list.receives.insert(serial, Receive { wanted: *wanted, into, token, buffer: None });
        list.by_token.insert(token, serial);
        if self.is_known(wanted.source) && !self.offer(at, serial) {
            self.lists[at].remove(serial);
            return Err(Full);
        }
        Ok(())
    }

    fn is_known(&self, source: Option<PeerId>) -> bool {
        source.is_none_or(|peer| self.peers.get(&peer).is_some_and(|known| known.at.is_some()))
    }

    /// Gives a receive that waits here to the provider. False if that does not take it.
    fn offer(&mut self, at: usize, serial: u64) -> bool {
        let list = &mut self.lists[at];
        let Some(receive) = list.receives.get_mut(&serial) else { return true };
        let TaggedWanted { source, match_bits, ignore_bits, .. } = receive.wanted;
        let source = source.and_then(|peer| Some(self.peers.get(&peer)?.at?[at]));
        let Ok(buffer) = list.endpoint.take() else { return false };
        match list.endpoint.receive_tagged(buffer, source, match_bits.0, ignore_bits) {
            Ok(Begun::Yes) => {
                receive.buffer = Some(buffer);
                list.by_buffer.insert(buffer, serial);
                true
            }
            Ok(Begun::Later) | Err(_) => {
                list.endpoint.give_back(buffer);
                false
            }
        }
    }

    /// Receives that waited for a peer take their places before those that were posted after
    /// them. None of its messages has come yet.
    pub(super) fn seat(&mut self, peer: PeerId) {
        for at in 0..self.lists.len() {
            let waits = |one: &Receive| one.buffer.is_none() && one.wanted.source == Some(peer);
            let receives = &self.lists[at].receives;
            let Some(first) = receives.iter().find(|(_, one)| waits(one)).map(|(at, _)| *at) else {
                continue;
            };
            // From the last one on, so that what comes meanwhile meets the oldest.
            let after: Vec<u64> = receives.range(first..).map(|(at, _)| *at).collect();
            for &serial in after.iter().rev() {
                self.withdraw(at, serial);
            }
            for &serial in &after {
                let one = self.lists[at].receives.get(&serial);
                let is_due = one.is_some_and(|one| self.is_known(one.wanted.source));
                if is_due && !self.offer(at, serial) {
                    return self.break_all("it refuses a receive".to_owned());
                }
            }
        }
    }

    /// Takes a receive back from the provider, unless it has met a message.
    fn withdraw(&mut self, at: usize, serial: u64) {
        let begin = Instant::now();
        let mut asked = None;
        loop {
            let list = &mut self.lists[at];
            let buffer = list.receives.get(&serial).and_then(|one| one.buffer);
            let Some(buffer) = buffer else { return };
            // It has another one if a stranger's message came into the one before.
            if asked.replace(buffer) != Some(buffer) {
                list.endpoint.cancel(buffer);
            }
            self.look(at);
            if self.is_broken || begin.elapsed() >= PATIENCE {
                return self.break_all(NOT_CANCELLED.to_owned());
            }
        }
    }

    /// Takes a receive back. False if it has met a message.
    pub(crate) fn cancel(&mut self, token: Token) -> bool {
        for at in 0..self.lists.len() {
            if let Some(&serial) = self.lists[at].by_token.get(&token) {
                self.withdraw(at, serial);
                return self.lists[at].remove(serial).is_some();
            }
        }
        false
    }

    /// A receive has ended at the provider.
    pub(super) fn on_matched(&mut self, at: usize, done: &Done) {
        let held = match done.failed {
            None => self.read(at, done.buffer, done.len),
            Some(_) => None,
        };
        let is_net = self.lists[at].net == Some(done.buffer);
        self.lists[at].endpoint.give_back(done.buffer);
        if is_net {
            return self.on_caught(at, done, held);
        }
        let list = &mut self.lists[at];
        let Some(serial) = list.by_buffer.remove(&done.buffer) else { return };
        let Some(receive) = list.receives.get_mut(&serial) else { return };
        receive.buffer = None;
        match held {
            Some(held) if receive.wanted.accepts(held.from, &held.message) => {
                if let Some(receive) = list.remove(serial) {
                    self.land(&held, receive.into);
                    self.tell(receive.token, &held);
                }
            }
            _ if done.failed.as_ref().is_some_and(|why| why.is_cancelled()) => {}
            other => {
                self.strays += 1;
                // It says another tag than it has, or comes from another endpoint.
                self.lost.extend(other.map(|held| held.from));
                if !self.is_broken && !self.offer(at, serial) {
                    self.break_all("it refuses a receive".to_owned());
                }
            }
        }
    }

    fn on_caught(&mut self, at: usize, done: &Done, held: Option<Held>) {
        let list = &mut self.lists[at];
        list.net = None;
        list.has_caught = done.failed.is_none();
        match held {
            Some(held) => {
                self.held_bytes += held.size();
                list.held.push_back(held);
            }
            None if list.has_caught => self.strays += 1,
            None => {}
        }
    }

    /// A message that has come, if it is one, and of a peer.
    fn read(&self, at: usize, buffer: BufferId, len: usize) -> Option<Held> {
        let bytes = self.lists[at].endpoint.bytes(buffer).get(..len)?;
        let (head, body) = Head::parse(bytes)?;
        let from = *self.ids.get(&head.from)?;
        let message = head.message;
        let is_its = usize::from(message.list.0) == at;
        is_its.then(|| Held { from, message, ack: head.ack, bytes: body.into() })
    }

    /// Copies what fits, and has the sender told.
    fn land(&mut self, held: &Held, into: Region) {
        let into = Place::of_region(into);
        let len = held.bytes.len().min(into.len);
        if len > 0 {
            // SAFETY: the machine lets the place be written until the receive has ended; the
            // bytes are of this process's own.
            unsafe { std::ptr::copy_nonoverlapping(held.bytes.as_ptr(), into.at, len) };
        }
        if held.ack != 0 {
            self.say(held.from, Word::Met(held.ack));
        }
    }

    fn tell(&mut self, token: Token, held: &Held) {
        let end = TaggedEnd::Met { from: held.from, message: held.message };
        self.told.push_back((token, end));
    }

    /// Looks for the oldest message that is wanted and that no receive has met.
    pub(crate) fn search(
        &mut self,
        wanted: &TaggedWanted,
        claim: Option<Token>,
    ) -> Option<(PeerId, TaggedMessage)> {
        self.find_first(wanted.list, &mut accepted_by(wanted), claim)
    }

    /// Claims the oldest message of a list that is wanted and that no receive has met.
    pub(crate) fn claim_first(
        &mut self,
        list: PtIndex,
        wants: Wants<'_>,
        claim: Token,
    ) -> Option<(PeerId, TaggedMessage)> {
        self.find_first(list, wants, Some(claim))
    }

    fn find_first(
        &mut self,
        list: PtIndex,
        wants: Wants<'_>,
        claim: Option<Token>,
    ) -> Option<(PeerId, TaggedMessage)> {
        let at = usize::from(list.0);
        let found = self.find(at, wants)?;
        let Held { from, message, .. } = self.lists[at].held[found];
        if let Some(claim) = claim
            && let Some(held) = self.unhold(at, found)
        {
            self.claimed.insert(claim, held);
        }
        Some((from, message))
    }

    /// Where it is among those that are held: it was, or has been taken from the provider with
    /// those before it.
    fn find(&mut self, at: usize, wants: Wants<'_>) -> Option<usize> {
        if let Some(found) = self.lists[at].find(wants) {
            return Some(found);
        }
        for _ in 0..SEARCH_MAX {
            if self.held_bytes >= self.held_bytes_max {
                self.was_full = true;
                return None;
            }
            let before = self.lists[at].held.len();
            if !self.catch(at) {
                return None;
            }
            let caught = self.lists[at].held.range(before..);
            let mut places = caught.zip(before..);
            if let Some((_, found)) = places.find(|(held, _)| wants(held.from, &held.message)) {
                return Some(found);
            }
        }
        None
    }

    /// A message is held no more.
    fn unhold(&mut self, at: usize, found: usize) -> Option<Held> {
        let held = self.lists[at].held.remove(found)?;
        self.held_bytes -= held.size();
        Some(held)
    }

    /// Takes the oldest message that no receive has met from the provider. Behind all
    /// receives, a receive for anything gets it; without one it is taken back.
    fn catch(&mut self, at: usize) -> bool {
        let list = &mut self.lists[at];
        let Ok(buffer) = list.endpoint.take() else { return false };
        if list.endpoint.receive_tagged(buffer, None, 0, u64::MAX) != Ok(Begun::Yes) {
            list.endpoint.give_back(buffer);
            return false;
        }
        list.net = Some(buffer);
        self.look(at);
        if self.lists[at].net.is_some() {
            self.lists[at].endpoint.cancel(buffer);
        }
        let begin = Instant::now();
        while self.lists[at].net.is_some() {
            self.look(at);
            if self.is_broken || begin.elapsed() >= PATIENCE {
                self.break_all(NOT_CANCELLED.to_owned());
                return false;
            }
        }
        self.lists[at].has_caught
    }

    /// Puts the bytes of a claimed message where they are wanted.
    pub(crate) fn take(&mut self, claim: Token, into: Region) {
        if let Some(held) = self.claimed.remove(&claim) {
            self.land(&held, into);
        }
    }
}
