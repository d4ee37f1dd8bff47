//! How far one stalled sender has been asked for what the receives here want.
//! `docs/flow-control.md` tells the whole.
//!
//! A sender whose slots are all held by messages that nobody receives cannot
//! say what else it has, so the receiver asks. For each such sender there is a
//! cursor, and one invariant:
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

use crate::api::Space;
use crate::order::{Asker, Order};
use crate::portal::NUMBER_FIRST;
use crate::wanted::Wanted;
use sluice_wire::{Decline, Found, MatchBits, Packet, PeerId, Search, Watch};

/// Every message counts.
const ALL: u64 = u64::MAX;

/// Declines that may wait for a control credit: one for each question.
const DECLINES_MAX: usize = 2;

/// What was asked of one sender, and how far the answers reach.
#[derive(Debug, Default)]
pub(crate) struct StallCursor {
    /// The newest message that counts; zero if none does.
    seen: u64,
    /// The serial from which on receives do not count yet.
    unsearched: u64,
    /// The search that is out.
    search: Option<Asked>,
    /// Whether a watch for the first message after `seen` is out.
    watch: bool,
    /// Messages told of and not wanted, before that is said.
    declines: Vec<u64>,
    /// Messages taken from the sender's queue that it does not know the end of
    /// yet: it sends nothing newer by itself.
    taken: u32,
}

/// A search under way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked {
    serial: u64,
    asker: Asker,
    wanted: Wanted,
    newest: u64,
}

/// Something to be said to a sender.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Word {
    Decline(u64),
    Search(Asked),
    Watch,
}

/// What it means that a search has found nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Missed {
    /// Nothing was asked.
    Unasked,
    /// There are newer messages by now: the search is repeated.
    AskAgain,
    /// The sender has nothing for this one.
    Searched(Asker),
}

impl StallCursor {
    /// What is said next, before any question: a message is not wanted.
    pub fn next_decline(&self) -> Option<Word> {
        self.declines.first().map(|&number| Word::Decline(number))
    }

    /// Whether a search is out: nothing is asked meanwhile.
    pub fn is_searching(&self) -> bool {
        self.search.is_some()
    }

    /// What is asked of `peer` next, for what stands in `order`. `wanted_of` says
    /// what somebody wants of this sender, if anything.
    pub fn next_question(
        &self,
        peer: PeerId,
        order: &Order,
        wanted_of: impl Fn(Asker) -> Option<Wanted>,
    ) -> Option<Word> {
        let first = order.first_recv(peer);
        let mut from = self.unsearched;
        while let Some((serial, asker)) = order.next(peer, from) {
            if let Some(wanted) = wanted_of(asker) {
                // A watch that is out answers for messages that were not seen.
                let is_first = !self.watch && first.is_none_or(|first| serial <= first);
                let newest = if is_first { ALL } else { self.seen };
                return Some(Word::Search(Asked { serial, asker, wanted, newest }));
            }
            // A probe that does not ask this sender.
            from = serial + 1;
        }
        (!self.watch && first.is_some()).then_some(Word::Watch)
    }

    /// The packet that says it.
    pub fn packet(&self, word: &Word) -> Packet {
        match *word {
            Word::Decline(number) => Packet::Decline(Decline { number }),
            Word::Search(Asked { wanted, newest, .. }) => Packet::Search(Search {
                pt_index: wanted.space.pt(),
                match_bits: MatchBits(wanted.bits),
                ignore_bits: wanted.ignore,
                newest,
            }),
            Word::Watch => Packet::Watch(Watch { after: self.seen }),
        }
    }

    /// It has been said.
    pub fn on_said(&mut self, word: Word) {
        match word {
            Word::Decline(number) => self.declines.retain(|decline| *decline != number),
            Word::Search(asked) => self.search = Some(asked),
            Word::Watch => self.watch = true,
        }
    }

    /// A message newer than all that was seen waits. The serial up to which receives
    /// were searched for: only they may take it. `None` if that was not asked.
    pub fn on_watched(&mut self, number: u64, found: &Found) -> Option<u64> {
        if !self.watch || number <= self.seen || Space::named(found.pt_index).is_none() {
            return None;
        }
        self.watch = false;
        // There is none between what was seen and this one; and this one is
        // taken, or met by no receive that was searched for.
        self.seen = number;
        Some(self.unsearched)
    }

    /// A search has found a message. For whom; `None` if it is not what was asked.
    pub fn on_found(&mut self, number: u64, found: &Found) -> Option<Asker> {
        let asked = self.search.take()?;
        let is_what_was_asked = (NUMBER_FIRST..=asked.newest).contains(&number)
            && Space::named(found.pt_index)
                .is_some_and(|space| asked.wanted.accepts(space, found.match_bits.0));
        if !is_what_was_asked {
            return None;
        }
        // It has left its place, or leaves it now. What is left of a buffer for many is back there, and
        // is next.
        Some(asked.asker)
    }

    /// A search has found nothing; `newest` is the newest number of all.
    pub fn on_missed(&mut self, newest: u64) -> Missed {
        let Some(asked) = self.search.take() else { return Missed::Unasked };
        if asked.newest == ALL {
            self.seen = self.seen.max(newest);
        } else if asked.newest < self.seen {
            // A watch has shown newer ones meanwhile.
            return Missed::AskAgain;
        }
        self.unsearched = asked.serial + 1;
        Missed::Searched(asked.asker)
    }

    /// A message told of is not wanted: that is to be said.
    pub fn decline(&mut self, number: u64) {
        self.declines.push(number);
    }

    /// A message of the sender's queue is not in the matching any more.
    pub fn note_taken(&mut self) {
        self.taken += 1;
    }

    /// The sender of a message that was taken has been told of its end.
    pub fn note_told(&mut self) {
        self.taken -= 1;
    }

    /// Whether the sender keeps newer messages back because some were taken.
    pub fn is_held_back(&self) -> bool {
        self.taken > 0
    }

    /// Whether the invariant speaks of a receive of this serial and a message of this
    /// number. For tests.
    pub fn covers(&self, serial: u64, number: u64) -> bool {
        serial < self.unsearched && number <= self.seen
    }

    /// Panics unless its size is bounded. For tests.
    pub fn check_invariants(&self) {
        assert!(self.declines.len() <= DECLINES_MAX, "as many declines as questions");
    }
}
