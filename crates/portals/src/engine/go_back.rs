//! Going back (`docs/recovery.md`): the target has refused an operation and all later
//! ones of the flow; they are on their way no more, and go again when it says so.

use crate::engine::ni::Ni;
use crate::objects::operation::{Operation, Stage};
use crate::objects::recovery::{FlowState, Kept, name_of};
use crate::table::Handle;
use sluice_link::Port;
use sluice_link::mutants::{self, Mutant};
use sluice_wire::PacketSeq;

impl Ni {
    /// The target has refused what came in the packet `first` and all behind it. False if
    /// no honest peer says so.
    pub(crate) fn on_refuse<P: Port>(
        &mut self,
        port: &mut P,
        at: u32,
        epoch: u32,
        first: PacketSeq,
    ) -> bool {
        let Some(flow) = self.recovery.as_ref().and_then(|it| it.flow(at)) else {
            return false;
        };
        let sent = flow.kept.len() - flow.unsent_len();
        // One that failed before it was sent has the number of the packet that went instead.
        let found =
            (0..sent).rev().find(|&nth| flow.kept.get(nth).is_some_and(|kept| kept.seq == first));
        let Some(found) = found.filter(|_| flow.state == FlowState::Running) else { return false };
        let from = flow.first.wrapping_add(found as u32);
        let has_failed = |nth: usize| flow.kept.get(nth).is_none_or(|kept| kept.has_failed);
        // What was answered was not refused.
        let is_refusable = |nth: usize| {
            let name = name_of(at, flow.first.wrapping_add(nth as u32));
            has_failed(nth) || flow.kept.get(nth).is_some_and(|kept| !self.is_answered(kept, name))
        };
        if has_failed(found) || !(found..sent).all(is_refusable) {
            return false;
        }
        let unsettled = flow
            .kept
            .iter()
            .take(sent)
            .skip(found)
            .filter(|kept| !kept.is_answered && !kept.has_failed)
            .count() as u32;
        let Some(recovery) = &mut self.recovery else { return false };
        recovery.set_state(at, FlowState::Held { epoch });
        let Some(flow) = recovery.flow_mut(at) else { return false };
        let begins_behind = mutants::is(Mutant::BeginsBehindTheRefused) && found + 1 < sent;
        flow.unsent = from.wrapping_add(u32::from(begins_behind));
        flow.unsettled -= unsettled;
        // An ask that is on its way does not cover what goes again behind it.
        let asked = flow.ask.map(|asked| asked.wrapping_sub(flow.first) as usize);
        if asked.is_some_and(|asked| asked > found && asked <= flow.kept.len()) {
            flow.ask = Some(from);
        }
        for number in (0..(sent - found) as u32).map(|nth| from.wrapping_add(nth)) {
            self.take_back(port, at, number);
        }
        true
    }

    /// Whether the target has answered an operation of this name, in whole or in part.
    fn is_answered(&self, kept: &Kept, name: u64) -> bool {
        let operation = self.operations.get(kept.op).filter(|it| it.user_ptr == name);
        let is_being_answered = operation.is_some_and(|it| {
            matches!(it.stage, Stage::Incoming(_) | Stage::Transmit { acked: Some(_), .. })
        });
        kept.awaits & Kept::ANSWER == 0 || is_being_answered
    }

    /// An operation that was refused is on its way no more. What the rail still reads of it
    /// keeps its name, and is reported.
    fn take_back<P: Port>(&mut self, port: &mut P, at: u32, number: u32) {
        let name = name_of(at, number);
        self.give_places_back(at, number, Kept::SOURCE | Kept::REPLY);
        let flow = self.recovery.as_mut().and_then(|it| it.flow_mut(at));
        let Some(kept) = flow.and_then(|flow| flow.get_mut(number)) else { return };
        if kept.has_failed {
            return;
        }
        let op = std::mem::take(&mut kept.op);
        if let Some(operation) = self.operations.get_mut(op).filter(|it| it.user_ptr == name) {
            match &mut operation.stage {
                Stage::Transmit { then_ack, .. } => *then_ack = None,
                Stage::Reply { slots, .. } => {
                    let slots = *slots;
                    self.links.release_reply(slots);
                    self.has_freed_reply_slots = true;
                    self.end_revoked(port, op);
                }
                _ => self.end_revoked(port, op),
            }
        }
    }

    fn end_revoked<P: Port>(&mut self, port: &mut P, op: Handle<Operation>) {
        if let Some(operation) = self.end(op) {
            Ni::revoke_of(port, &operation);
        }
    }
}
