//! The receiver's side of stalled senders: what was asked of them, and what
//! their answers mean. `docs/flow-control.md` tells the whole.
//!
//! A sender whose slots are all held by messages that nobody receives cannot
//! say what else it has, so the receiver asks. For each such sender there is a
//! frontier, and one invariant:
//!
//! > No posted receive older than `unsearched` matches a message that waits
//! > there with a number up to `seen`.
//!
//! A *search* asks for the next receive (the first from `unsearched` on that
//! this sender could fill) about the messages up to `seen`; a hit is then the
//! oldest message for the oldest receive, and a miss moves `unsearched`. A
//! *watch*, once every receive is searched, asks for the first message after
//! `seen`; it is matched here against all receives, and moves `seen`. While no
//! older receive is posted that the sender could fill, a search is about all
//! messages at once, and a miss moves `seen` to the newest of them.
//!
//! So the state of a pair is of constant size, whatever is posted or waits, and
//! each receive costs a round trip. What finds no control credit is said when
//! one comes: at most two declines, a search and a watch.
//!
//! A probe takes its place among the receives, and is gone with its answers. It
//! looks at what has arrived once more before each of them counts: what came
//! meanwhile is older than what waits.

use crate::api::Space;
use crate::endpoint::Endpoint;
use crate::order::{Asker, Order};
use crate::portal::NUMBER_FIRST;
use crate::request::{RecvOp, RecvState};
use crate::wanted::Wanted;
use sluice_link::Port;
use sluice_portals::{Event, Handle, PtlError};
use sluice_wire::{Decline, Found, MatchBits, Packet, PeerId, Search, Waiting, Watch};

/// Every message counts.
const ALL: u64 = u64::MAX;

/// Declines that may wait for a control credit: one for each question.
const DECLINES_MAX: usize = 2;

/// What was asked of one sender, and how far the answers reach.
#[derive(Debug, Default)]
pub(crate) struct Frontier {
    /// The newest message that counts; zero if none does.
    pub seen: u64,
    /// The serial from which on receives do not count yet.
    pub unsearched: u64,
    /// The search that is out.
    pub search: Option<Asked>,
    /// Whether a watch for the first message after `seen` is out.
    pub watch: bool,
    /// Messages told of and not wanted, before that is said.
    pub declines: Vec<u64>,
    /// Messages taken from the sender's queue that it does not know the end of
    /// yet: it sends nothing newer by itself.
    pub taken: u32,
}

/// A search under way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked {
    serial: u64,
    asker: Asker,
    wanted: Wanted,
    newest: u64,
}

impl Endpoint {
    /// The last credit of `peer` has been spent: whatever else it has waits.
    #[cold]
    #[inline(never)]
    pub(crate) fn on_exhausted<P: Port>(&mut self, port: &mut P, peer: PeerId) {
        self.note_short(peer);
        self.ask_stalled(port, peer);
    }

    /// A receive was posted that nothing here matches, while some sender may
    /// be stalled.
    #[cold]
    #[inline(never)]
    pub(crate) fn on_posted_while_short<P: Port>(
        &mut self,
        port: &mut P,
        source: Option<PeerId>,
        serial: u64,
        handle: Handle<RecvOp>,
    ) {
        self.forget_supplied();
        let Some(order) = &mut self.order else { return };
        order.insert(source, serial, Asker::Recv(handle));
        if self.short.is_empty() {
            order.idle_posts += 1;
            // What building it again would cost has been paid by now.
            if order.idle_posts > order.len() && self.probes.is_empty() {
                self.order = None;
            }
            return;
        }
        order.idle_posts = 0;
        match source {
            Some(peer) => self.ask_stalled(port, peer),
            None => self.ask_all_stalled(port),
        }
    }

    /// Asks every sender that may be stalled.
    fn ask_all_stalled<P: Port>(&mut self, port: &mut P) {
        for nth in 0..self.short.len() {
            self.ask_stalled(port, self.short[nth]);
        }
    }

    /// Whether `peer` may have messages that it cannot send by itself.
    pub(crate) fn may_be_stalled(&self, peer: PeerId) -> bool {
        let taken = self.core.peers.get(peer).is_some_and(|state| state.frontier.taken > 0);
        (taken || self.core.ni.is_exhausted(peer)) && self.core.peers.gone(peer).is_none()
    }

    /// Forgets the senders that have credits again: they help themselves.
    pub(crate) fn forget_supplied(&mut self) {
        let mut short = std::mem::take(&mut self.short);
        short.retain(|&peer| self.may_be_stalled(peer));
        self.short = short;
    }

    /// Says and asks what there is to be said to `peer` and asked of it, as far
    /// as control credits allow.
    pub(crate) fn ask_stalled<P: Port>(&mut self, port: &mut P, peer: PeerId) {
        if self.core.peers.gone(peer).is_some() {
            return;
        }
        while let Some(word) = self.next_word(peer) {
            let packet = word.packet(self.frontier(peer).seen);
            match self.core.ni.tell(port, peer, &packet) {
                Ok(()) => self.said(peer, word),
                Err(PtlError::NoCredit { .. }) => {
                    return self.core.peers.note_pending_control(peer);
                }
                // It has sent, and has no room for what is sent to it. Receives
                // wait for what it may still send; no probe waits for it.
                Err(PtlError::Peer(why)) => return self.fail_probes(port, peer, why),
                Err(error) => unreachable!("a word needs nothing but a credit: {error}"),
            }
        }
    }

    /// An answer of `peer`. False if it answers nothing that was asked.
    pub(crate) fn on_waiting<P: Port>(
        &mut self,
        port: &mut P,
        peer: PeerId,
        waiting: &Waiting,
    ) -> bool {
        let is_sound = match (&waiting.found, waiting.watched) {
            (Some(found), true) => self.on_watched(port, peer, waiting.number, found),
            (Some(found), false) => self.on_found(port, peer, waiting.number, found),
            (None, _) => self.on_missed(port, peer, waiting.number),
        };
        if is_sound {
            self.ask_stalled(port, peer);
        }
        is_sound
    }

    /// Ends what was asked of a peer that is gone.
    pub(crate) fn forget_frontier(&mut self, peer: PeerId) {
        self.core.peers.state_mut(peer).frontier = Frontier::default();
        self.short.retain(|short| *short != peer);
        self.core.peers.end_pending_control(peer);
    }

    /// A message of the queue of `peer` is not in the matching any more, and its
    /// sender is told so when its bytes are here.
    pub(crate) fn note_taken(&mut self, peer: PeerId) {
        self.frontier(peer).taken += 1;
        self.note_short(peer);
    }

    /// The sender of a message that was taken has been told of its end.
    pub(crate) fn note_told(&mut self, peer: PeerId) {
        self.frontier(peer).taken -= 1;
    }

    /// Panics unless the places of receives and probes are in order.
    pub(crate) fn check_order(&self) {
        let Some(order) = &self.order else {
            return assert!(self.probes.is_empty(), "a probe waits without a place");
        };
        let posted = self.recvs.iter().filter_map(|(handle, op)| {
            op.is_posted().then_some((op.recv.source, op.serial, Asker::Recv(handle)))
        });
        let probes = self.probes.iter().map(|(handle, op)| {
            assert!(!op.pending.is_empty(), "a probe waits for nobody");
            (op.probe.source, op.serial, Asker::Probe(handle))
        });
        let mut count = 0;
        for (source, serial, asker) in posted.chain(probes) {
            assert!(order.holds(source, serial, asker), "a receive has no place");
            count += 1;
        }
        assert!(count == order.len(), "a place is nobody's");
        for state in self.core.peers.iter() {
            assert!(state.frontier.declines.len() <= DECLINES_MAX);
        }
    }

    /// Panics unless this endpoint's frontier toward `peer`, whose endpoint is
    /// `sender` and knows this one as `own`, keeps the invariant. For tests.
    pub fn check_frontier(&self, peer: PeerId, sender: &Endpoint, own: PeerId) {
        let Some(state) = self.core.peers.get(peer) else { return };
        let Some(theirs) = sender.core.peers.get(own) else { return };
        let Frontier { seen, unsearched, .. } = state.frontier;
        for (number, waiter) in theirs.queue.waiting() {
            for (_, op) in self.recvs.iter() {
                let counts = op.serial < unsearched
                    && number <= seen
                    && op.is_posted()
                    && op.recv.source.is_none_or(|source| source == peer);
                let matches = Wanted::of(&op.recv).accepts(waiter.space, waiter.tag);
                assert!(!(counts && matches), "a receive that was searched for matches");
            }
        }
    }

    fn note_short(&mut self, peer: PeerId) {
        if !self.short.contains(&peer) {
            self.short.push(peer);
            // It is to have a frontier.
            self.core.peers.state_mut(peer);
        }
        if self.order.is_none() {
            self.order = Some(self.order_of_posted());
        }
    }

    /// Every posted receive, in order.
    fn order_of_posted(&self) -> Box<Order> {
        let mut order = Box::<Order>::default();
        for (handle, op) in self.recvs.iter() {
            if let RecvState::Posted(Some(_)) = op.state {
                order.insert(op.recv.source, op.serial, Asker::Recv(handle));
            }
        }
        order
    }

    /// What is to be said to `peer` next: no question before the declines, and
    /// one of a kind at a time.
    fn next_word(&mut self, peer: PeerId) -> Option<Word> {
        let frontier = &self.core.peers.get(peer)?.frontier;
        if let Some(&number) = frontier.declines.first() {
            return Some(Word::Decline(number));
        }
        let Frontier { seen, unsearched, watch, .. } = *frontier;
        // A probe that counts on an answer gets it, though the sender may have
        // credits by now; a receive then meets what comes by itself.
        let is_awaited = || self.probes.iter().any(|(_, op)| op.pending.contains(&peer));
        if frontier.search.is_some() || !(self.may_be_stalled(peer) || is_awaited()) {
            return None;
        }
        let order = self.order.as_ref()?;
        let first = order.first_recv(peer);
        let mut from = unsearched;
        while let Some((serial, asker)) = order.next(peer, from) {
            let wanted = match asker {
                Asker::Recv(handle) => self.recvs.get(handle).map(|op| Wanted::of(&op.recv)),
                Asker::Probe(handle) => {
                    let op = self.probes.get(handle).filter(|op| op.pending.contains(&peer));
                    op.map(|op| Wanted::tagged(op.probe.space, op.probe.tag, op.probe.ignore))
                }
            };
            if let Some(wanted) = wanted {
                // A watch that is out answers for messages that were not seen.
                let is_first = !watch && first.is_none_or(|first| serial <= first);
                let newest = if is_first { ALL } else { seen };
                return Some(Word::Search(Asked { serial, asker, wanted, newest }));
            }
            // A probe that does not ask this sender.
            from = serial + 1;
        }
        (!watch && first.is_some()).then_some(Word::Watch)
    }

    fn said(&mut self, peer: PeerId, word: Word) {
        let frontier = self.frontier(peer);
        match word {
            Word::Decline(number) => frontier.declines.retain(|decline| *decline != number),
            Word::Search(asked) => frontier.search = Some(asked),
            Word::Watch => frontier.watch = true,
        }
    }

    fn frontier(&mut self, peer: PeerId) -> &mut Frontier {
        &mut self.core.peers.state_mut(peer).frontier
    }

    fn decline(&mut self, peer: PeerId, number: u64) {
        self.frontier(peer).declines.push(number);
    }

    /// A message newer than all that was seen waits at `peer`.
    fn on_watched<P: Port>(
        &mut self,
        port: &mut P,
        peer: PeerId,
        number: u64,
        found: &Found,
    ) -> bool {
        let frontier = self.frontier(peer);
        if !frontier.watch || number <= frontier.seen || Space::named(found.pt_index).is_none() {
            return false;
        }
        frontier.watch = false;
        // There is none between what was seen and this one; and this one is
        // taken, or met by no receive that was searched for.
        frontier.seen = number;
        let unsearched = frontier.unsearched;
        let oldest = self.core.ni.me_that_matches(found.pt_index, found.match_bits, peer);
        let handle = oldest.map(Handle::from_u64);
        match handle.and_then(|handle| Some((handle, self.recvs.get(handle)?.serial))) {
            Some((handle, serial)) if serial < unsearched => {
                self.take(port, peer, number, found, handle);
            }
            // Nobody wants it, or somebody whose search will find it, unless
            // that finds an older one.
            _ => self.decline(peer, number),
        }
        true
    }

    /// A search has found a message.
    fn on_found<P: Port>(
        &mut self,
        port: &mut P,
        peer: PeerId,
        number: u64,
        found: &Found,
    ) -> bool {
        let frontier = self.frontier(peer);
        let Some(asked) = frontier.search.take() else { return false };
        let is_what_was_asked = (NUMBER_FIRST..=asked.newest).contains(&number)
            && Space::named(found.pt_index)
                .is_some_and(|space| asked.wanted.accepts(space, found.match_bits.0));
        if !is_what_was_asked {
            return false;
        }
        frontier.unsearched = asked.serial + 1;
        match asked.asker {
            Asker::Recv(handle) => match self.recvs.get(handle).map(|op| &op.state) {
                Some(RecvState::Posted(Some(_))) => self.take(port, peer, number, found, handle),
                // It has met another message, or was cancelled.
                _ => self.decline(peer, number),
            },
            Asker::Probe(handle) => {
                let event = Event::of_waiting(peer, MatchBits(number), found, 0);
                if !self.probe_found(port, handle, &event) {
                    self.decline(peer, number);
                }
            }
        }
        true
    }

    /// A search has found nothing; `newest` is the newest number of all.
    fn on_missed<P: Port>(&mut self, port: &mut P, peer: PeerId, newest: u64) -> bool {
        let frontier = self.frontier(peer);
        let Some(asked) = frontier.search.take() else { return false };
        if asked.newest == ALL {
            frontier.seen = frontier.seen.max(newest);
        } else if asked.newest < frontier.seen {
            // A watch has shown newer ones meanwhile: it asks again.
            return true;
        }
        frontier.unsearched = asked.serial + 1;
        if let Asker::Probe(handle) = asked.asker {
            self.probe_missed(port, handle, peer);
        }
        true
    }

    /// A receive takes a message that waits at `peer`, as if it had been
    /// announced.
    fn take<P: Port>(
        &mut self,
        port: &mut P,
        peer: PeerId,
        number: u64,
        found: &Found,
        handle: Handle<RecvOp>,
    ) {
        let Some(op) = self.recvs.get_mut(handle) else { return };
        let RecvState::Posted(Some(entry)) = op.state else { return };
        self.end_announced(port, handle, false);
        let Some(op) = self.recvs.get(handle) else { return };
        let (source, serial) = (op.recv.source, op.serial);
        let unlinked = self.core.ni.me_unlink(entry);
        assert!(unlinked.is_ok(), "a posted receive's entry is linked");
        // This may make the order anew, of what is posted.
        self.note_taken(peer);
        self.leave_order(source, serial);
        self.core.stats.asked_for += 1;
        let event = Event::of_waiting(peer, MatchBits(number), found, handle.to_u64());
        if let Some(rts) = event.rts() {
            self.start_pull(port, handle, event, rts, true, None);
        }
    }
}

/// Something to be said to a sender.
#[derive(Clone, Copy, Debug)]
enum Word {
    Decline(u64),
    Search(Asked),
    Watch,
}

impl Word {
    fn packet(&self, seen: u64) -> Packet {
        match *self {
            Word::Decline(number) => Packet::Decline(Decline { number }),
            Word::Search(Asked { wanted, newest, .. }) => Packet::Search(Search {
                pt_index: wanted.space.pt(),
                match_bits: MatchBits(wanted.bits),
                ignore_bits: wanted.ignore,
                newest,
            }),
            Word::Watch => Packet::Watch(Watch { after: seen }),
        }
    }
}
