//! Asking (`docs/recovery.md`): an operation that nobody acknowledges ends without an
//! answer, so its flow asks from time to time how far the target has come.

use crate::engine::ni::Ni;
use crate::objects::command::Command;
use crate::objects::recovery::{Flow, IDLES_PER_LOOK, Kept, Recovery};
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
        let done = self.end_plain(at, end);
        let Some(flow) = self.recovery.as_ref().and_then(|it| it.flow(at)) else { return false };
        let first = flow.first;
        for number in (0..end - done).map(|nth| first.wrapping_add(nth)) {
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

    /// Ends those of the first `end` operations of a flow at its front that are puts which
    /// nobody acknowledges and the rail is done with: nearly all. Says how many those are.
    fn end_plain(&mut self, at: u32, end: u32) -> u32 {
        let mut done = 0;
        while done < end {
            match self.end_plain_run(at, end - done) {
                0 => break,
                run => done += run,
            }
        }
        done
    }

    /// The same of those that stand one behind the other and send from one descriptor, so that
    /// what is the same for all is done once.
    fn end_plain_run(&mut self, at: u32, end: u32) -> u32 {
        let Ni { recovery: Some(recovery), mds, eqs, released, .. } = self else { return 0 };
        let Some(flow) = recovery.flow_mut(at) else { return 0 };
        let Some(first) = flow.kept.get(0) else { return 0 };
        let (Some(from), places) = (first.plain_source(), first.places) else { return 0 };
        let Some(md) = mds.get_mut(from) else { return 0 };
        let is_alike = |kept: &&Kept| kept.plain_source() == Some(from) && kept.places == places;
        let run = flow.kept.iter().take(end as usize).take_while(is_alike).count();
        if places != 0
            && let Some((eq, count)) = md.own_events(true, false)
            && let Some(queue) = eqs.get_mut(eq)
        {
            queue.give_back_own(count * run);
        }
        md.pending -= run as u32;
        if md.is_released && md.pending == 0 {
            released.push(from);
        }
        if md.tells_sent() {
            self.tell_sent(at, run);
        }
        if let Some(recovery) = &mut self.recovery {
            recovery.forget_first(at, run as u32);
        }
        run as u32
    }

    /// Tells that the first `run` puts of a flow were sent.
    fn tell_sent(&mut self, at: u32, run: usize) {
        for nth in 0..run {
            let Some(flow) = self.recovery.as_ref().and_then(|it| it.flow(at)) else { return };
            let (peer, pt_index) = (flow.peer, flow.pt_index);
            let Some(Command::Put { from, user_ptr, .. }) = flow.kept.get(nth).map(|it| it.command)
            else {
                return;
            };
            self.sent(from.md, peer, pt_index, from.length, user_ptr, true, Ok(()));
        }
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
        self.ask_where(port, |_| true);
    }

    /// The same of those flows that have sent nothing for some idle moments.
    pub(crate) fn ask_if_quiet<P: Port>(&mut self, port: &mut P) {
        let is_due = |it: &Recovery| it.idles.is_multiple_of(IDLES_PER_LOOK);
        if self.recovery.as_deref().is_some_and(is_due) {
            self.ask_where(port, |flow| std::mem::replace(&mut flow.is_quiet, true));
        }
    }

    fn ask_where<P: Port>(&mut self, port: &mut P, is_to_ask: impl Fn(&mut Flow) -> bool) {
        let listed = self.recovery.as_ref().map_or(0, |it| it.unsettled.len());
        for _ in 0..listed {
            let Some(recovery) = &mut self.recovery else { return };
            let Some(at) = recovery.unsettled.pop_front() else { return };
            let Some(flow) = recovery.flow_mut(at) else { continue };
            flow.is_listed = false;
            if flow.ask.is_none() && flow.unsettled > 0 && is_to_ask(flow) {
                self.ask(port, at);
            }
            self.note_unsettled(at);
        }
    }
}
