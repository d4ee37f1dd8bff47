//! Recovery at the target (`docs/recovery.md`): who was refused at a portal table entry
//! stays refused until he has restarted, so that nothing overtakes what was refused.
//!
//! Invariant: an entry's gate is shut if and only if it is disabled, or somebody who
//! was refused there has not restarted. So one that is neither costs one look.

use crate::engine::ni::Ni;
use crate::lists::Slab;
use crate::objects::limits::PtlError;
use crate::objects::me::Me;
use crate::objects::recovery::{Pause, Recovery, Refusal, Scheme, Shortage, Wanted};
use crate::objects::request::Request;
use sluice_link::Port;
use sluice_wire::{PacketSeq, PeerId, PtIndex, Recovery as Packet, Status, Word};

impl Ni {
    /// The gate of an entry is shut: whether an operation of `peer` is let in all the same.
    ///
    /// # Errors
    /// What the initiator is told.
    #[cold]
    #[inline(never)]
    pub(crate) fn at_gate(&mut self, peer: PeerId, pt_index: PtIndex) -> Result<(), Status> {
        let is_enabled = self.pt(pt_index).is_ok_and(|pt| pt.enabled);
        let Some(recovery) = &self.recovery else { return Err(Status::PtDisabled) };
        if is_enabled && !recovery.refusals.contains_key(&(pt_index, peer)) {
            return Ok(());
        }
        self.turn_away(peer, pt_index, None);
        Err(Status::PtDisabled)
    }

    /// Puts down that an operation was refused, unless it is the initiator's second.
    fn turn_away(&mut self, peer: PeerId, pt_index: PtIndex, wants: Option<Wanted>) {
        let Some(recovery) = &mut self.recovery else { return };
        if recovery.refusals.contains_key(&(pt_index, peer)) {
            return;
        }
        let epoch = recovery.next_epoch;
        recovery.next_epoch = epoch.wrapping_add(1);
        recovery.refusals.insert((pt_index, peer), Refusal { epoch, is_resumed: false, wants });
        // The packet that is being handled is the last that was accounted for.
        let first = PacketSeq(self.links.expected_seq(peer).0.wrapping_sub(1));
        recovery.put_down(peer, Packet { pt_index, word: Word::Refuse { epoch, first } });
        self.set_gate(pt_index);
    }

    /// Whether an operation that ends with `status` is kept by its initiator, so that no
    /// other answer is due; what was put down goes out.
    #[cold]
    #[inline(never)]
    pub(crate) fn is_turned_away<P: Port>(&mut self, port: &mut P, status: Status) -> bool {
        if status != Status::PtDisabled || self.recovery.is_none() {
            return false;
        }
        self.say_all(port);
        true
    }

    /// An operation meets an entry that has run out of something, which is to be enabled
    /// when there is enough again; or it matches nothing, which concerns its initiator alone.
    pub(crate) fn note_shortage(&mut self, request: &Request, of: Option<Shortage>) {
        let &Request { peer, pt_index, match_bits, remote_offset, rlength, .. } = request;
        let Some(of) = of else {
            let wants = Wanted { match_bits, remote_offset, rlength };
            return self.turn_away(peer, pt_index, Some(wants));
        };
        if let Ok(pt) = self.pt_mut(pt_index) {
            pt.enabled = false;
        }
        let Some(recovery) = &mut self.recovery else { return };
        recovery.exhausted.push((pt_index, of));
        if recovery.scheme == Scheme::Pause {
            let asked: Vec<PeerId> = self.links.known().collect();
            for &peer in &asked {
                recovery.put_down(peer, Packet { pt_index, word: Word::Pause });
            }
            let awaited = asked.iter().copied().collect();
            recovery.pauses.insert(pt_index, Pause { asked, awaited });
        }
        self.turn_away(peer, pt_index, None);
    }

    /// Enables entries that ran out of something of which there is enough again, and has
    /// those go on whose operations match now.
    pub(crate) fn revive<P: Port>(&mut self, port: &mut P) {
        self.resume_matching();
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

    /// Whether an entry has enough again: half of its queue is free.
    fn is_relieved(&self, pt_index: PtIndex, of: Shortage) -> bool {
        let Ok(pt) = self.pt(pt_index) else { return true };
        match of {
            Shortage::Headers => !self.headers.is_full(),
            Shortage::Events => pt
                .eq
                .and_then(|eq| self.eqs.get(eq))
                .is_none_or(|eq| eq.has_room(eq.events_max().div_ceil(2))),
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
            self.resume_all(index);
            self.say_all(port);
        }
        self.set_gate(index);
        Ok(())
    }

    /// Tells who was refused at an entry to go on, and who paused for it.
    pub(crate) fn resume_all(&mut self, pt_index: PtIndex) {
        let Some(recovery) = &mut self.recovery else { return };
        recovery.exhausted.retain(|(pt, _)| *pt != pt_index);
        let all = (pt_index, PeerId(0))..=(pt_index, PeerId(u32::MAX));
        let waits = |refusal: &Refusal| !refusal.is_resumed;
        let mut refused: Vec<(u32, PeerId)> = recovery
            .refusals
            .range_mut(all)
            .filter(|(_, refusal)| waits(refusal))
            .map(|(&(_, peer), refusal)| {
                refusal.is_resumed = true;
                (refusal.epoch, peer)
            })
            .collect();
        // Who was refused first is told first; by turns, so that none is always the first.
        refused.sort_unstable();
        let turn = recovery.turn as usize % refused.len().max(1);
        recovery.turn = recovery.turn.wrapping_add(1);
        refused.rotate_left(turn);
        for (epoch, peer) in refused {
            recovery.put_down(peer, Packet { pt_index, word: Word::Resume { epoch } });
        }
        if let Some(pause) = recovery.pauses.remove(&pt_index) {
            for peer in pause.asked {
                recovery.put_down(peer, Packet { pt_index, word: Word::Unpause });
            }
        }
    }

    /// An initiator begins again with what was refused. False if nobody told it to.
    pub(crate) fn on_restart(&mut self, peer: PeerId, pt_index: PtIndex, epoch: u32) -> bool {
        let Some(recovery) = &mut self.recovery else { return false };
        let refusal = recovery.refusals.get(&(pt_index, peer));
        if !refusal.is_some_and(|refusal| refusal.is_resumed && refusal.epoch == epoch) {
            return false;
        }
        recovery.refusals.remove(&(pt_index, peer));
        self.set_gate(pt_index);
        true
    }

    /// A peer is gone: nobody waits for its word, and nothing is owed to it.
    pub(crate) fn forget_refusals(&mut self, peer: PeerId) {
        let Some(recovery) = &mut self.recovery else { return };
        recovery.to_say.retain(|(to, _)| *to != peer);
        recovery.paused_by.remove(&peer);
        for pause in recovery.pauses.values_mut() {
            pause.awaited.remove(&peer);
            pause.asked.retain(|asked| *asked != peer);
        }
        let of_peer = recovery.refusals.keys().filter(|(_, of)| *of == peer);
        let entries: Vec<PtIndex> = of_peer.map(|&(pt_index, _)| pt_index).collect();
        for pt_index in entries {
            if let Some(recovery) = &mut self.recovery {
                recovery.refusals.remove(&(pt_index, peer));
            }
            self.set_gate(pt_index);
        }
    }

    /// Shuts or opens the gate of an entry, as it has to be.
    pub(crate) fn set_gate(&mut self, pt_index: PtIndex) {
        let is_refusing = self.recovery.as_ref().is_some_and(|it| it.has_refused_at(pt_index));
        if let Ok(pt) = self.pt_mut(pt_index) {
            pt.is_shut = !pt.enabled || is_refusing;
        }
    }
}

impl Recovery {
    /// Puts a word down to be said, unless the same waits to be said already.
    pub(crate) fn put_down(&mut self, peer: PeerId, packet: Packet) {
        if !self.to_say.contains(&(peer, packet)) {
            self.to_say.push_back((peer, packet));
        }
    }

    pub(crate) fn has_refused_at(&self, pt_index: PtIndex) -> bool {
        let all = (pt_index, PeerId(0))..=(pt_index, PeerId(u32::MAX));
        self.refusals.range(all).next().is_some()
    }
}
