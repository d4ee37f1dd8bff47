//! Recovery at the target (`docs/recovery.md`): who was refused at a portal table entry
//! stays refused until he has restarted, so that nothing overtakes what was refused.
//!
//! Invariant: an entry's gate is shut if and only if it is disabled, or somebody who
//! was refused there has not restarted. So one that is neither costs one look.

use crate::engine::ni::Ni;
use crate::objects::recovery::{Pause, Recovery, Refusal, Scheme, Shortage, Wanted};
use crate::objects::request::Request;
use sluice_link::Port;
use sluice_link::mutants::{self, Mutant};
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
        let is_refused = recovery.refusals.contains_key(&(pt_index, peer));
        if is_enabled && (!is_refused || mutants::is(Mutant::OverlooksRefusals)) {
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
        let eq = self.eq_of(pt_index);
        if let Ok(pt) = self.pt_mut(pt_index) {
            pt.enabled = false;
        }
        self.status.exhaustions += 1;
        if let (Shortage::Events { need }, Some(eq)) = (of, eq)
            && let Some(queue) = self.eqs.get_mut(eq)
        {
            // It tells when it has room again.
            queue.may_relieve(need);
        }
        let Some(recovery) = &mut self.recovery else { return };
        recovery.in_turn.remove(&pt_index);
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

    /// An initiator begins again with what was refused. False if nobody told it to.
    pub(crate) fn on_restart(&mut self, peer: PeerId, pt_index: PtIndex, epoch: u32) -> bool {
        let Some(recovery) = &mut self.recovery else { return false };
        let refusal = recovery.refusals.get(&(pt_index, peer));
        let was_told = refusal.is_some_and(|it| it.is_resumed && it.epoch == epoch)
            && !recovery.is_to_say(peer, Packet { pt_index, word: Word::Resume { epoch } });
        if !was_told {
            return false;
        }
        recovery.refusals.remove(&(pt_index, peer));
        self.set_gate(pt_index);
        true
    }

    /// A peer is gone: nobody waits for its word, and nothing is owed to it.
    pub(crate) fn forget_refusals(&mut self, peer: PeerId) {
        let Some(recovery) = &mut self.recovery else { return };
        recovery.to_say.remove(&peer);
        recovery.paused_by.remove(&peer);
        for pause in recovery.pauses.values_mut() {
            pause.awaited.remove(&peer);
            pause.asked.retain(|asked| *asked != peer);
        }
        // Others may have waited for its answer to a pause, or for their turn behind it.
        recovery.needs_attention = true;
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
    /// Puts a word down to be said, unless the same waits to be said already. The end of a
    /// pause that was not said takes the pause back, so that there is one of each at most.
    pub(crate) fn put_down(&mut self, peer: PeerId, packet: Packet) {
        let waiting = self.to_say.entry(peer).or_default();
        if packet.word == Word::Unpause {
            let pause = Packet { word: Word::Pause, ..packet };
            if let Some(at) = waiting.iter().position(|&said| said == pause) {
                waiting.remove(at);
                if waiting.is_empty() {
                    self.to_say.remove(&peer);
                }
                return;
            }
        }
        if !waiting.contains(&packet) {
            waiting.push_back(packet);
        }
    }

    fn is_to_say(&self, peer: PeerId, packet: Packet) -> bool {
        self.to_say.get(&peer).is_some_and(|waiting| waiting.contains(&packet))
    }

    pub(crate) fn has_refused_at(&self, pt_index: PtIndex) -> bool {
        let all = (pt_index, PeerId(0))..=(pt_index, PeerId(u32::MAX));
        self.refusals.range(all).next().is_some()
    }
}
