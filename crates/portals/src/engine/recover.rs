//! Words of recovery (`docs/recovery.md`): said in order, as control credits allow, and
//! heard. They aim at no portal table entry's lists, so nothing can refuse them.

use crate::engine::arrive::is_no_credit;
use crate::engine::ni::Ni;
use crate::objects::recovery::{Flow, FlowState};
use sluice_link::Port;
use sluice_wire::{Packet, PeerId, PtIndex, Recovery, Word};

impl Ni {
    /// Handles a word. False if no honest peer says it, or this interface does not recover.
    #[cold]
    #[inline(never)]
    pub(crate) fn on_recovery<P: Port>(
        &mut self,
        port: &mut P,
        from: PeerId,
        said: &Recovery,
    ) -> bool {
        let &Recovery { pt_index, word } = said;
        let Some(recovery) = &mut self.recovery else { return false };
        let flow = recovery.find(from, pt_index);
        match word {
            Word::Refuse { epoch, first } => {
                flow.is_some_and(|flow| self.on_refuse(port, flow, epoch, first))
            }
            Word::Resume { epoch } => {
                let Some(at) = flow else { return false };
                if recovery.flow(at).map(|flow| flow.state) != Some(FlowState::Held { epoch }) {
                    return false;
                }
                recovery.set_state(at, FlowState::Restarting { epoch });
                self.wait_to_resume(port, from, at);
                true
            }
            Word::Restart { epoch } => self.on_restart(from, pt_index, epoch),
            Word::Ask => {
                recovery.put_down(from, Recovery { pt_index, word: Word::Told });
                self.say_to(port, from);
                true
            }
            Word::Told => flow.is_some_and(|flow| self.on_told(flow)),
            Word::Pause => {
                let is_new = recovery.paused_by.entry(from).or_default().insert(pt_index);
                recovery.put_down(from, Recovery { pt_index, word: Word::Paused });
                self.say_to(port, from);
                is_new
            }
            Word::Paused => {
                // Of one that was ended before, it is only late.
                if let Some(pause) = recovery.pauses.get_mut(&pt_index) {
                    pause.awaited.remove(&from);
                    if pause.awaited.is_empty() {
                        self.revive(port);
                    }
                }
                true
            }
            Word::Unpause => {
                let Some(pausing) = recovery.paused_by.get_mut(&from) else { return false };
                let was_there = pausing.remove(&pt_index);
                if pausing.is_empty() {
                    recovery.paused_by.remove(&from);
                    self.flush_waiting(port, from);
                }
                was_there
            }
        }
    }

    /// Says what was put down, as far as control credits go. What is said to one peer
    /// keeps its order.
    pub(crate) fn say_all<P: Port>(&mut self, port: &mut P) {
        let Some(recovery) = &self.recovery else { return };
        if recovery.to_say.is_empty() {
            return;
        }
        let peers: Vec<PeerId> = recovery.to_say.keys().copied().collect();
        for peer in peers {
            self.say_to(port, peer);
        }
    }

    /// The same of one peer.
    #[inline]
    pub(crate) fn say_to<P: Port>(&mut self, port: &mut P, peer: PeerId) {
        if self.recovery.as_ref().is_some_and(|recovery| !recovery.to_say.is_empty()) {
            self.say_what_waits(port, peer);
        }
    }

    #[cold]
    #[inline(never)]
    fn say_what_waits<P: Port>(&mut self, port: &mut P, peer: PeerId) {
        let Some(recovery) = &mut self.recovery else { return };
        let Some(waiting) = recovery.to_say.get_mut(&peer) else { return };
        while let Some(&said) = waiting.front() {
            let sent = self.links.send_control(port, peer, &Packet::Recovery(said));
            if sent.is_err_and(|error| is_no_credit(&error)) {
                return;
            }
            waiting.pop_front();
        }
        recovery.to_say.remove(&peer);
    }

    /// Does what an idle moment is for, and whatever waits for a change that no packet
    /// brings: places in queues, entries that were appended.
    #[cold]
    #[inline(never)]
    pub(crate) fn recover_when_idle<P: Port>(&mut self, port: &mut P) {
        if let Some(recovery) = &mut self.recovery {
            recovery.needs_attention = false;
        }
        self.revive(port);
        self.ask_if_quiet(port);
        self.say_all(port);
        self.give_spent_back(port);
    }

    /// Whether what the program has just done, or what has arrived, is what somebody waited
    /// for: [`Ni::on_idle`] is to be called before the program does something else.
    #[must_use]
    #[inline]
    pub fn wants_attention(&self) -> bool {
        self.recovery.as_ref().is_some_and(|recovery| recovery.needs_attention)
    }

    /// Operations that are kept until it is known that they were taken.
    #[must_use]
    pub fn kept_now(&self) -> usize {
        self.recovery.as_ref().map_or(0, |recovery| recovery.kept_now)
    }

    /// Who was refused at which portal table entry, and has not restarted.
    pub fn refusals(&self) -> impl Iterator<Item = (PtIndex, PeerId)> + '_ {
        self.recovery.iter().flat_map(|recovery| recovery.refusals.keys().copied())
    }

    /// Initiators that were refused and have not restarted.
    #[must_use]
    pub fn refused_now(&self) -> usize {
        self.recovery.as_ref().map_or(0, |recovery| recovery.refusals.len())
    }

    /// Panics unless the books of recovery are in order.
    pub(crate) fn check_recovery(&self) {
        let Some(recovery) = &self.recovery else {
            assert!(self.pts.iter().flatten().all(|pt| pt.is_shut != pt.enabled));
            return;
        };
        let flows = || recovery.flows.iter().flatten();
        let free = recovery.free.iter().all(|&at| recovery.flow(at).is_none());
        assert!(free, "an index that is used again names nothing");
        assert!(recovery.to_say.values().all(|words| !words.is_empty()));
        flows().for_each(|flow| flow.check_invariants());
        let kept = |flow: &Flow| flow.kept.len();
        assert!(flows().map(|flow| kept(flow)).sum::<usize>() == recovery.kept_now);
        let held = flows().filter(|flow| flow.state != FlowState::Running);
        assert!(held.map(|flow| kept(flow)).sum::<usize>() == recovery.held_now);
        for (nth, pt) in self.pts.iter().enumerate() {
            let Some(pt) = pt else { continue };
            let is_refusing = recovery.has_refused_at(PtIndex(nth as u8));
            assert!(pt.is_shut == (!pt.enabled || is_refusing), "the gate of an entry");
        }
    }
}
