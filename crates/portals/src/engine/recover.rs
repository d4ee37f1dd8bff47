//! Words of recovery (`docs/recovery.md`): said in order, as control credits allow, and
//! heard. They aim at no portal table entry's lists, so nothing can refuse them.

use crate::engine::arrive::is_no_credit;
use crate::engine::ni::Ni;
use crate::objects::recovery::FlowState;
use sluice_link::Port;
use sluice_wire::{Packet, PeerId, Recovery, Word};

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
                let Some(flow) = recovery.flow_mut(at) else { return false };
                if flow.state != (FlowState::Held { epoch }) {
                    return false;
                }
                flow.state = FlowState::Restarting { epoch };
                self.wait_to_resume(port, from, at);
                true
            }
            Word::Restart { epoch } => self.on_restart(from, pt_index, epoch),
            Word::Ask => {
                recovery.put_down(from, Recovery { pt_index, word: Word::Told });
                self.say_all(port);
                true
            }
            Word::Told => flow.is_some_and(|flow| self.on_told(flow)),
            Word::Pause => {
                let is_new = recovery.paused_by.entry(from).or_default().insert(pt_index);
                recovery.put_down(from, Recovery { pt_index, word: Word::Paused });
                self.say_all(port);
                is_new
            }
            Word::Paused => {
                // Of one that was ended before, it is only late.
                if let Some(pause) = recovery.pauses.get_mut(&pt_index) {
                    pause.awaited.remove(&from);
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
        let Some(recovery) = &mut self.recovery else { return };
        let mut without_credit: Vec<PeerId> = Vec::new();
        for _ in 0..recovery.to_say.len() {
            let Some((peer, said)) = recovery.to_say.pop_front() else { break };
            let must_wait = without_credit.contains(&peer) || {
                let sent = self.links.send_control(port, peer, &Packet::Recovery(said));
                sent.is_err_and(|error| is_no_credit(&error))
            };
            if must_wait {
                without_credit.push(peer);
                recovery.to_say.push_back((peer, said));
            }
        }
    }

    /// Does what an idle moment is for, and whatever waits for a change that no packet
    /// brings: places in queues, entries that were appended.
    #[cold]
    #[inline(never)]
    pub(crate) fn recover_when_idle<P: Port>(&mut self, port: &mut P) {
        self.revive(port);
        self.ask_unsettled(port);
        self.say_all(port);
        if let Some(recovery) = &mut self.recovery {
            for spent in recovery.spent.drain(..) {
                port.give_back(spent.addr, spent.len as u32);
            }
        }
    }

    /// Whether something waits for what the program may just have done, so that the
    /// interface is to be polled before the program does something else.
    #[must_use]
    #[inline]
    pub fn wants_attention(&self) -> bool {
        self.recovery.as_ref().is_some_and(|recovery| {
            self.waiting_now != 0
                || !recovery.exhausted.is_empty()
                || !recovery.refusals.is_empty()
                || !recovery.to_say.is_empty()
                || !recovery.unsettled.is_empty()
        })
    }

    /// Operations that are kept until it is known that they were taken.
    #[must_use]
    pub fn kept_now(&self) -> usize {
        self.recovery.as_ref().map_or(0, |recovery| recovery.kept_now)
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
        flows().for_each(|flow| flow.check_invariants());
        assert!(flows().map(|flow| flow.kept.len()).sum::<usize>() == recovery.kept_now);
        for (nth, pt) in self.pts.iter().enumerate() {
            let Some(pt) = pt else { continue };
            let is_refusing = recovery.has_refused_at(sluice_wire::PtIndex(nth as u8));
            assert!(pt.is_shut == (!pt.enabled || is_refusing), "the gate of an entry");
        }
    }
}
