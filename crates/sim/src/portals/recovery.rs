//! What recovery from exhaustion may do to a flow, which is all that one process sends to one portal
//! table entry of another or of itself: from the first operation that is refused on, everything
//! is held back; then the same operation comes again, and the rest behind it.
//!
//! Which operations are refused is the engine's affair, as far as it has a reason. So this is told
//! whether the engine has let an operation in; only then it arrives for the model, which sees
//! that each arrives once, in order, and that all do in the end.

use super::model::Want;
use sluice_portals::Scheme;
use sluice_wire::Word;
use std::collections::{BTreeMap, BTreeSet};

/// Initiator, target and portal table entry.
pub type Flow = (usize, usize, usize);

/// What recovery has come by.
#[derive(Clone, Copy, Debug, Default)]
pub struct Met {
    pub recovered: u64,
    pub recovered_by_pause: u64,
    pub recovered_queue: u64,
    pub recovered_headers: u64,
    pub recovered_match: u64,
    pub recovered_switch: u64,
    pub held_back: u64,
    pub refused_again: u64,
    pub refused_at_several: u64,
    pub refused_to_self: u64,
    pub refused_triggered: u64,
    pub asked: u64,
    pub refused_and_lost: u64,
}

/// See the module.
#[derive(Debug, Default)]
pub struct Recovered {
    /// Of each flow that was refused and has not come again, the operation that was.
    refused: BTreeMap<Flow, (usize, Want)>,
    /// Flows that were refused once.
    before: BTreeSet<Flow>,
    /// Targets and entries that have refused a process that is gone, and taken nothing since: they
    /// ran out for it, and are enabled at an idle moment.
    shut_for_lost: BTreeSet<(usize, usize)>,
    pub met: Met,
}

impl Recovered {
    /// An operation was at its target, where its flow was refused before or not, and is or is
    /// not now. Whether the entry has taken it. `why` says for want of what it may be refused.
    ///
    /// # Panics
    /// If no honest engine does so.
    pub fn is_taken(
        &mut self,
        flow: Flow,
        id: usize,
        (was_refused, is_refused): (bool, bool),
        why: impl FnOnce() -> Want,
    ) -> bool {
        assert!(!was_refused || is_refused, "operation {id} ends the refusal of {flow:?}");
        let first = self.refused.get(&flow).copied();
        if was_refused {
            self.met.held_back |= u64::from(first.is_some_and(|(first, _)| first != id));
            return false;
        }
        if let Some((first, _)) = first {
            assert_eq!(id, first, "what {flow:?} begins again with, after {first} was refused");
        }
        if is_refused {
            self.met.refused_again |= u64::from(self.before.contains(&flow));
            self.met.refused_to_self |= u64::from(flow.0 == flow.1);
            self.refused.insert(flow, (id, why()));
            self.before.insert(flow);
            let entries = self.refused.keys().filter(|(_, to, pt)| *to == flow.1 && *pt != flow.2);
            self.met.refused_at_several |= u64::from(entries.count() > 0);
            return false;
        }
        self.shut_for_lost.remove(&(flow.1, flow.2));
        if let Some((_, want)) = self.refused.remove(&flow) {
            self.met.recovered = 1;
            let mark = match want {
                Want::Places => &mut self.met.recovered_queue,
                Want::Headers => &mut self.met.recovered_headers,
                Want::Match => &mut self.met.recovered_match,
                Want::Enabled => &mut self.met.recovered_switch,
            };
            *mark = 1;
        }
        true
    }

    /// A word was said.
    pub fn hears(&mut self, word: Word, scheme: Option<Scheme>) {
        assert!(scheme.is_some(), "a word of recovery where nobody recovers: {word:?}");
        let pauses = matches!(word, Word::Pause | Word::Paused | Word::Unpause);
        assert!(!pauses || scheme == Some(Scheme::Pause), "only the paper's scheme pauses");
        self.met.asked |= u64::from(word == Word::Ask);
        self.met.recovered_by_pause |= u64::from(word == Word::Unpause);
    }

    /// Of two processes, one has ended or has given up the other.
    pub fn forget(&mut self, one: usize, other: usize) {
        let is_of_both =
            |(from, to): (usize, usize)| (from, to) == (one, other) || (to, from) == (one, other);
        let lost = self.refused.keys().copied().filter(|(from, to, _)| is_of_both((*from, *to)));
        for flow in lost.collect::<Vec<Flow>>() {
            self.refused.remove(&flow);
            self.shut_for_lost.insert((flow.1, flow.2));
            self.met.refused_and_lost = 1;
        }
    }

    /// Whether an entry may refuse what comes because it has refused one that is gone.
    pub fn is_shut_for_lost(&self, to: usize, pt: usize) -> bool {
        self.shut_for_lost.contains(&(to, pt))
    }

    /// Panics if anybody is still refused.
    pub fn check_end(&self) {
        assert!(self.refused.is_empty(), "refused for ever: {:?}", self.refused);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_that_ran_out_for_one_that_is_gone_is_shut_until_it_takes_something() {
        let mut recovered = Recovered::default();
        let why = || Want::Headers;
        assert!(!recovered.is_taken((1, 0, 2), 7, (false, true), why));
        assert!(!recovered.is_shut_for_lost(0, 2));
        recovered.forget(0, 1);
        recovered.check_end();
        assert!(recovered.is_shut_for_lost(0, 2) && !recovered.is_shut_for_lost(0, 1));
        assert!(!recovered.is_taken((0, 0, 2), 8, (false, true), why));
        assert!(recovered.is_shut_for_lost(0, 2));
        assert!(recovered.is_taken((0, 0, 2), 8, (false, false), why));
        assert!(!recovered.is_shut_for_lost(0, 2));
    }
}
