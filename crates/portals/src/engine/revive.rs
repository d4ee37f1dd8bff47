//! Recovery at the target (`docs/recovery.md`): an entry that has run out of something is
//! enabled when there is enough again, and those who were refused there are resumed, as
//! many at a time as its queue has places for. So the receiver sets the pace, and what goes
//! again does not exhaust the entry at once.

use crate::engine::ni::Ni;
use crate::lists::Slab;
use crate::objects::eq::Eq;
use crate::objects::limits::PtlError;
use crate::objects::me::Me;
use crate::objects::recovery::{Refusal, Scheme, Shortage, Wanted};
use crate::table::Handle;
use sluice_link::{Links, Port};
use sluice_wire::{PeerId, PtIndex, Recovery as Packet, Word};

/// What becomes of those whose operation matched nothing when others are resumed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Unmatched {
    /// They wait until an entry matches: resumed before that they would be refused again.
    Stay,
    /// They go on too, and learn that there is nothing any more.
    Too,
}

/// Most operations that come from a peer before this process frees anything for it: the data
/// slots that this process has granted to it, and that nothing unexpected is kept in.
fn burst_of(links: &Links, peer: PeerId) -> usize {
    let granted = links.ledger(peer).map_or(0, |it| it.data_at_sender + it.data_owed);
    usize::from(granted.max(1))
}

impl Ni {
    /// Enables entries that ran out of something of which there is enough again, and has
    /// those go on whose operations match now or whose turn it is.
    pub(crate) fn revive<P: Port>(&mut self, port: &mut P) {
        self.resume_matching();
        let Some(recovery) = &self.recovery else { return };
        if !recovery.in_turn.is_empty() {
            for pt_index in recovery.in_turn.clone() {
                self.resume_next(pt_index);
            }
        }
        let exhausted = match &self.recovery {
            Some(recovery) if !recovery.exhausted.is_empty() => recovery.exhausted.clone(),
            _ => return,
        };
        for (pt_index, of) in exhausted {
            let is_awaited = self
                .recovery
                .as_ref()
                .and_then(|recovery| recovery.pauses.get(&pt_index))
                .is_some_and(|pause| !pause.awaited.is_empty());
            if !is_awaited && self.is_relieved(pt_index, of) {
                // Only one that is freed meanwhile is not there.
                let _ = self.pt_enable(port, pt_index);
            }
        }
    }

    fn resume_matching(&mut self) {
        let Ni { recovery: Some(recovery), pts, mes, .. } = self else { return };
        let mut matching: Vec<(PeerId, Packet)> = Vec::new();
        for (&(pt_index, peer), refusal) in &mut recovery.refusals {
            let Some(wants) = refusal.wants.filter(|_| !refusal.is_resumed) else { continue };
            let Some(pt) = pts.get_mut(usize::from(pt_index.0)).and_then(Option::as_mut) else {
                continue;
            };
            let Wanted { match_bits, remote_offset, rlength } = wants;
            let fits = |mes: &Slab<Me>, slot: u32| {
                !mes.at(slot).flags.no_truncate()
                    || mes.place(slot, remote_offset, rlength).1 == rlength
            };
            let matches = pt.enabled
                && (pt.priority.find(mes, match_bits, peer, fits).is_some()
                    || pt.overflow.find(mes, match_bits, peer, fits).is_some());
            if matches {
                refusal.is_resumed = true;
                let word = Word::Resume { epoch: refusal.epoch };
                matching.push((peer, Packet { pt_index, word }));
            }
        }
        for (peer, packet) in matching {
            recovery.put_down(peer, packet);
        }
    }

    /// Whether an entry has enough again: half of its queue is free, and what the operation
    /// needs that was refused first.
    fn is_relieved(&mut self, pt_index: PtIndex, of: Shortage) -> bool {
        match of {
            Shortage::Headers => !self.headers.is_full(),
            Shortage::Events { need } => {
                let eq = self.eq_of(pt_index).and_then(|eq| self.eqs.get_mut(eq));
                eq.is_none_or(|eq| eq.may_relieve(need))
            }
        }
    }

    /// Lets a portal table entry take operations again (`PtlPTEnable`), and tells those
    /// that were refused.
    ///
    /// # Errors
    /// [`PtlError::ArgInvalid`] if it is not allocated.
    pub fn pt_enable<P: Port>(&mut self, port: &mut P, index: PtIndex) -> Result<(), PtlError> {
        let pt = self.pt_mut(index)?;
        pt.enabled = true;
        pt.event_owed = false;
        if self.recovery.is_some() {
            self.forget_shortage(index);
            let places = self.places_free(index);
            self.resume_as_many(index, places, Unmatched::Stay);
            self.say_all(port);
        }
        self.set_gate(index);
        Ok(())
    }

    /// Places free for operations on an entry; the paper's scheme does not count them.
    fn places_free(&self, pt_index: PtIndex) -> usize {
        let scheme = self.recovery.as_ref().map(|recovery| recovery.scheme);
        let eq = self.eq_of(pt_index).filter(|_| scheme == Some(Scheme::Resume));
        eq.and_then(|eq| self.eqs.get(eq)).map_or(usize::MAX, Eq::places_free)
    }

    /// Tells those who were refused at an entry that is freed to go on, and learn of it.
    pub(crate) fn resume_all(&mut self, pt_index: PtIndex) {
        self.forget_shortage(pt_index);
        self.resume_as_many(pt_index, usize::MAX, Unmatched::Too);
    }

    /// An entry is enabled, or the program has disabled or freed it: it is looked after no
    /// more, and who paused for it goes on.
    pub(crate) fn forget_shortage(&mut self, pt_index: PtIndex) {
        let Some(recovery) = &mut self.recovery else { return };
        recovery.exhausted.retain(|(pt, _)| *pt != pt_index);
        recovery.in_turn.remove(&pt_index);
        if let Some(pause) = recovery.pauses.remove(&pt_index) {
            for peer in pause.asked {
                recovery.put_down(peer, Packet { pt_index, word: Word::Unpause });
            }
        }
        recovery.needs_attention = true;
    }

    /// Resumes the next, if those before them have restarted and half of the queue is free.
    fn resume_next(&mut self, pt_index: PtIndex) {
        let Some(recovery) = &mut self.recovery else { return };
        let all = (pt_index, PeerId(0))..=(pt_index, PeerId(u32::MAX));
        let are_under_way = recovery.refusals.range(all).any(|(_, refusal)| refusal.is_resumed);
        if !are_under_way && self.is_relieved(pt_index, Shortage::Events { need: 1 }) {
            let places = self.places_free(pt_index);
            self.resume_as_many(pt_index, places, Unmatched::Stay);
        }
    }

    /// Tells those who were refused at an entry to go on, who was refused first being told
    /// first: one, and others if there are `places` for all that each may have on its way.
    fn resume_as_many(&mut self, pt_index: PtIndex, places: usize, unmatched: Unmatched) {
        let Some(recovery) = &mut self.recovery else { return };
        let all = (pt_index, PeerId(0))..=(pt_index, PeerId(u32::MAX));
        let newest = recovery.next_epoch;
        let waits = |(_, refusal): &(&(PtIndex, PeerId), &mut Refusal)| {
            !refusal.is_resumed && (refusal.wants.is_none() || unmatched == Unmatched::Too)
        };
        let mut refused: Vec<_> = recovery.refusals.range_mut(all).filter(waits).collect();
        // Epochs wrap.
        refused.sort_unstable_by_key(|(_, refusal)| {
            std::cmp::Reverse(newest.wrapping_sub(refusal.epoch))
        });
        let (mut left, mut words) = (places, Vec::new());
        let mut are_left = false;
        for (nth, (&(_, peer), refusal)) in refused.into_iter().enumerate() {
            let burst = burst_of(&self.links, peer);
            if nth > 0 && burst > left {
                are_left = true;
                break;
            }
            left = left.saturating_sub(burst);
            refusal.is_resumed = true;
            words.push((peer, Packet { pt_index, word: Word::Resume { epoch: refusal.epoch } }));
        }
        for (peer, packet) in words {
            recovery.put_down(peer, packet);
        }
        if are_left {
            recovery.in_turn.insert(pt_index);
        } else {
            recovery.in_turn.remove(&pt_index);
        }
    }

    /// An event was taken out of a queue: somebody may have waited for its place.
    #[inline(never)]
    pub(crate) fn note_taken(&mut self, eq: Handle<Eq>) {
        let is_relieved = self.eqs.get_mut(eq).is_some_and(Eq::is_relieved);
        if let Some(recovery) = &mut self.recovery {
            recovery.needs_attention |= is_relieved;
        }
    }

    /// An entry was appended: somebody who was refused may have waited for it.
    #[cold]
    pub(crate) fn note_appended(&mut self, pt_index: PtIndex) {
        if let Some(recovery) = &mut self.recovery {
            recovery.needs_attention |= recovery.has_refused_at(pt_index);
        }
    }
}
