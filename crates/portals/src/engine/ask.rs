//! Asking (`docs/recovery.md`): an operation that nobody acknowledges ends without an
//! answer, so its flow asks from time to time how far the target has come.

use crate::engine::ni::Ni;
use crate::objects::recovery::{IDLE_ASK, Kept};
use sluice_link::Port;
use sluice_wire::{Recovery as Packet, Word};

impl Ni {
    /// What was asked about is dealt with, unless it was refused, which was said before.
    pub(crate) fn on_told(&mut self, at: u32) -> bool {
        let Some(flow) = self.recovery.as_mut().and_then(|it| it.flow_mut(at)) else {
            return false;
        };
        let Some(asked) = flow.ask.take() else { return false };
        let sent = flow.unsent.wrapping_sub(flow.first);
        let asked = asked.wrapping_sub(flow.first);
        // All that was asked about may have ended since.
        let end = if asked as usize > flow.kept.len() { 0 } else { asked.min(sent) };
        let first = flow.first;
        for number in (0..end).map(|nth| first.wrapping_add(nth)) {
            let flow = self.recovery.as_mut().and_then(|it| it.flow_mut(at));
            let Some(flow) = flow else { break };
            let Some(kept) = flow.get_mut(number) else { continue };
            if kept.awaits & Kept::ANSWER != 0 && !kept.is_answered {
                kept.awaits &= !Kept::ANSWER;
                flow.unsettled -= 1;
                self.conclude(at, number);
            }
        }
        self.note_unsettled(at);
        self.forget_ended(at);
        true
    }

    /// Puts a flow down for an ask, if anything of it is to be asked about.
    #[inline]
    pub(crate) fn note_unsettled(&mut self, at: u32) {
        let Some(recovery) = &mut self.recovery else { return };
        let Some(flow) = recovery.flow_mut(at) else { return };
        if flow.unsettled > 0 && !flow.is_listed && flow.ask.is_none() {
            flow.is_listed = true;
            recovery.unsettled.push_back(at);
        }
    }

    /// Asks about all that is on its way.
    pub(crate) fn ask<P: Port>(&mut self, port: &mut P, at: u32) {
        let Some(flow) = self.recovery.as_ref().and_then(|it| it.flow(at)) else { return };
        let (peer, pt_index) = (flow.peer, flow.pt_index);
        let packet = sluice_wire::Packet::Recovery(Packet { pt_index, word: Word::Ask });
        if self.links.send_control(port, peer, &packet).is_ok()
            && let Some(flow) = self.recovery.as_mut().and_then(|it| it.flow_mut(at))
        {
            flow.ask = Some(flow.unsent);
        }
    }

    /// Whether operations are on their way of whose end only an ask tells, and none is. A
    /// driver that is about to sleep sees to it that [`Ni::ask_unsettled`] is called.
    #[must_use]
    #[inline]
    pub fn has_to_ask(&self) -> bool {
        self.recovery.as_ref().is_some_and(|recovery| !recovery.unsettled.is_empty())
    }

    /// Asks about what nobody acknowledges, and keeps on the list what cannot be asked now.
    pub fn ask_unsettled<P: Port>(&mut self, port: &mut P) {
        self.ask_where(port, 0);
    }

    /// The same of those flows that have sent nothing for some idle moments.
    pub(crate) fn ask_if_quiet<P: Port>(&mut self, port: &mut P) {
        self.ask_where(port, IDLE_ASK);
    }

    fn ask_where<P: Port>(&mut self, port: &mut P, idles_min: u8) {
        let listed = self.recovery.as_ref().map_or(0, |it| it.unsettled.len());
        for _ in 0..listed {
            let Some(recovery) = &mut self.recovery else { return };
            let Some(at) = recovery.unsettled.pop_front() else { return };
            let Some(flow) = recovery.flow_mut(at) else { continue };
            flow.is_listed = false;
            flow.idles = flow.idles.saturating_add(1);
            if flow.ask.is_none() && flow.unsettled > 0 && flow.idles >= idles_min {
                self.ask(port, at);
            }
            self.note_unsettled(at);
        }
    }
}
