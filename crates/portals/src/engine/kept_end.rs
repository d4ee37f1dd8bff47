//! How operations that are kept end (`docs/recovery.md`): answered, failed by themselves,
//! or with their peer. Each is told once, when neither the target nor the rail needs it
//! any more.

use crate::engine::ni::Ni;
use crate::engine::operations::let_go;
use crate::engine::wait::descriptors;
use crate::objects::command::{Command, Local, Target};
use crate::objects::event::NiFail;
use crate::objects::operation::{Operation, Place, Stage};
use crate::objects::recovery::{FlowState, Kept, NO_FLOW, Recovery, parts_of};
use crate::objects::vector::Span;
use sluice_link::PeerError;
use sluice_wire::PeerId;

impl Ni {
    /// An operation that is kept has its answer, or will not have any.
    #[inline(never)]
    pub(crate) fn kept_answered(
        &mut self,
        operation: &Operation,
        mlength: u64,
        place: Place,
        outcome: Result<(), NiFail>,
        answered: bool,
    ) {
        let Some((at, number)) = parts_of(operation.user_ptr) else { return };
        let flow = self.recovery.as_mut().and_then(|it| it.flow_mut(at));
        let Some(kept) = flow.and_then(|flow| flow.get_mut(number)) else { return };
        if kept.awaits & Kept::ANSWER == 0 {
            return;
        }
        kept.awaits &= !Kept::ANSWER;
        match kept.command {
            Command::Put { from, ack, target, user_ptr, .. }
            | Command::Atomic { from, ack, target, user_ptr, .. } => {
                kept.awaits = 0;
                let Local { md, length, .. } = from;
                let Target { peer, pt_index, .. } = target;
                let sent = if answered { Ok(()) } else { outcome };
                if kept.places != 0 {
                    self.give_places_back(at, number, Kept::SOURCE);
                }
                self.sent(md, peer, pt_index, length, user_ptr, true, sent);
                if let Some(kind) = ack {
                    let stage = Stage::Ack { kind, length };
                    let told = Operation { peer, pt_index, md, user_ptr, stage };
                    self.acked(&told, mlength, place, outcome, answered);
                }
            }
            Command::Get { into, target, user_ptr }
            | Command::Fetch { into, target, user_ptr, .. } => {
                let is_ended = kept.awaits == 0;
                kept.is_replied = true;
                if let Err(why @ NiFail::Undeliverable(_)) = outcome {
                    kept.lost = Some(why);
                }
                self.give_places_back(at, number, Kept::REPLY);
                self.tell_reply(&into, &target, user_ptr, mlength, place, outcome);
                if is_ended {
                    self.conclude(at, number);
                }
            }
            Command::CtInc { .. } | Command::CtSet { .. } | Command::GetFromHeader { .. } => {}
        }
        self.forget_ended(at);
    }

    /// The rail has read the memory of an operation that is kept.
    #[inline(never)]
    pub(crate) fn kept_sent(&mut self, name: u64) {
        let Some((at, number)) = parts_of(name) else { return };
        let flow = self.recovery.as_mut().and_then(|it| it.flow_mut(at));
        let Some(kept) = flow.and_then(|flow| flow.get_mut(number)) else { return };
        if kept.awaits & Kept::RAIL == 0 {
            return;
        }
        kept.awaits &= !Kept::RAIL;
        if kept.awaits == 0 {
            self.conclude(at, number);
            self.forget_ended(at);
        }
    }

    /// Tells that the memory of an operation may be reused, when it awaits nothing more; or
    /// that it is lost with its peer.
    pub(crate) fn conclude(&mut self, at: u32, number: u32) {
        let flow = self.recovery.as_mut().and_then(|it| it.flow_mut(at));
        let Some(kept) = flow.and_then(|flow| flow.get_mut(number)) else { return };
        if kept.awaits != 0 {
            return;
        }
        let (lost, has_places) = (kept.lost, kept.places != 0);
        if let Some(why) = lost.filter(|_| !kept.is_replied) {
            let command = kept.command;
            self.give_places_back(at, number, Kept::SOURCE | Kept::REPLY);
            return self.fail(&command, why);
        }
        let sent = match &kept.command {
            Command::Put { from, target, user_ptr, .. }
            | Command::Atomic { from, target, user_ptr, .. }
            | Command::Fetch { from, target, user_ptr, .. } => {
                Some((from.md, from.length, target.peer, target.pt_index, *user_ptr))
            }
            _ => None,
        };
        if has_places {
            self.give_places_back(at, number, Kept::SOURCE | Kept::REPLY);
        }
        if let Some((md, length, peer, pt_index, user_ptr)) = sent {
            let outcome = lost.map_or(Ok(()), Err);
            self.sent(md, peer, pt_index, length, user_ptr, true, outcome);
        }
    }

    /// A kept operation cannot begin, since its memory is not there. Its flow is being sent, so
    /// it is forgotten later.
    pub(crate) fn kept_unreadable(&mut self, name: u64) {
        if let Some((at, number)) = parts_of(name) {
            self.end_kept(at, number, NiFail::Segv);
        }
    }

    /// Tells that a kept operation has failed before it was sent, and that nothing more comes
    /// of it. Its flow is being sent, so it is forgotten later.
    pub(crate) fn end_kept(&mut self, at: u32, number: u32, why: NiFail) {
        let flow = self.recovery.as_mut().and_then(|it| it.flow_mut(at));
        let Some(flow) = flow else { return };
        let Some(kept) = flow.get_mut(number) else { return };
        let (command, is_answered) = (kept.command, kept.is_answered);
        (kept.awaits, kept.has_failed) = (0, true);
        if !is_answered {
            flow.unsettled -= 1;
        }
        self.give_places_back(at, number, Kept::SOURCE | Kept::REPLY);
        self.fail(&command, why);
    }

    /// Forgets the operations at the front of a flow that have ended.
    #[inline]
    pub(crate) fn forget_ended(&mut self, at: u32) {
        let Ni { recovery: Some(recovery), mds, released, .. } = self else { return };
        let Recovery { flows, free, kept_now, held_now, spent, .. } = &mut **recovery;
        let Some(Some(flow)) = flows.get_mut(at as usize) else { return };
        while let Some(kept) = flow.kept.get(0).filter(|kept| kept.awaits == 0) {
            for handle in descriptors(&kept.command).into_iter().flatten() {
                let_go(mds, released, handle);
            }
            spent.extend(kept.staged);
            flow.kept.pop_first(1);
            // One that failed may be among those that are not on their way.
            if flow.unsent == flow.first {
                flow.unsent = flow.unsent.wrapping_add(1);
            }
            flow.first = flow.first.wrapping_add(1);
            *kept_now -= 1;
            *held_now -= usize::from(flow.state != FlowState::Running);
        }
        if flow.is_gone && flow.kept.is_empty() {
            flows[at as usize] = None;
            free.push(at);
        }
    }

    /// The peer of flows is gone. Operations that the engine or the rail still has end there;
    /// the others end here.
    pub(crate) fn drop_flows(&mut self, peer: PeerId, why: PeerError) {
        let why = NiFail::Undeliverable(why);
        let flows = self.recovery.as_ref().map_or_else(Vec::new, |it| it.flows_to(peer));
        for at in flows {
            let Some(recovery) = &mut self.recovery else { return };
            recovery.set_state(at, FlowState::Running);
            let Some(flow) = recovery.flow_mut(at) else { continue };
            flow.is_gone = true;
            (flow.ask, flow.unsettled) = (None, 0);
            let (first, unsent, next) = (flow.first, flow.unsent, flow.next());
            flow.unsent = next;
            let sent = unsent.wrapping_sub(first);
            for nth in 0..next.wrapping_sub(first) {
                self.drop_kept(at, first.wrapping_add(nth), nth < sent, why);
            }
            self.forget_ended(at);
        }
        if let Some(first) = self.recovery.as_mut().and_then(|it| it.newest.get_mut(peer.index())) {
            *first = NO_FLOW;
        }
    }

    /// The peer of an operation is gone, which was on its way or not.
    fn drop_kept(&mut self, at: u32, number: u32, was_sent: bool, why: NiFail) {
        let flow = self.recovery.as_mut().and_then(|it| it.flow_mut(at));
        let Some(kept) = flow.and_then(|flow| flow.get_mut(number)) else { return };
        if kept.awaits == 0 {
            return;
        }
        let is_with_rail = kept.awaits & Kept::RAIL != 0;
        // The engine has it, and ends it with the rail's report.
        if is_with_rail && was_sent && kept.is_answered {
            return;
        }
        // One whose end the target has told waits for the rail alone.
        if kept.awaits & Kept::ANSWER != 0 {
            kept.lost = kept.lost.or(Some(why));
        }
        kept.awaits &= Kept::RAIL;
        self.conclude(at, number);
    }

    fn tell_reply(
        &mut self,
        into: &Local,
        target: &Target,
        user_ptr: u64,
        mlength: u64,
        place: Place,
        outcome: Result<(), NiFail>,
    ) {
        let (peer, pt_index, md) = (target.peer, target.pt_index, into.md);
        let stage = Stage::Answer { staged: None };
        let span = self.span_of(into).unwrap_or(Span::EMPTY);
        let told = Operation { peer, pt_index, md, user_ptr, stage };
        self.replied(&told, span, mlength, place, outcome);
    }
}
