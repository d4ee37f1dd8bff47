//! The path of most operations that are kept (`docs/recovery.md`): a put that carries its
//! bytes from one piece of memory, whose flow holds nothing back. It is sent first and kept
//! afterwards, since a port never calls back; what cannot be done so takes the longer way
//! ([`Ni::attempt_kept`]), as if this had not been tried.
//!
//! Invariant: the record of such a put is the kept one alone, and its name is what the
//! acknowledgement brings back. Only one that the rail still reads has an operation besides.

use crate::engine::initiate::put_packet;
use crate::engine::ni::Ni;
use crate::objects::command::{Command, Local, PutExtras, Target};
use crate::objects::event::NiFail;
use crate::objects::operation::{Operation, Place, Stage};
use crate::objects::recovery::{FlowState, Kept, Recovery, UNSETTLED_MAX, name_of};
use crate::table::Handle;
use sluice_link::{Port, SendError, Token, Transmitted};
use sluice_wire::{Ack, AckKind, PeerId, Region};

impl Ni {
    /// Sends and keeps such a put. False if it must wait for a credit; `None` if it is not
    /// one, or something stands in its way.
    #[inline(never)]
    pub(crate) fn put_kept<P: Port>(
        &mut self,
        port: &mut P,
        command: &Command,
        staged: Option<Region>,
    ) -> Option<bool> {
        let &Command::Put { from, ack, target, hdr_data, .. } = command else { return None };
        let kept_max = self.limits.operations_max as usize;
        let is_short = from.length <= u64::from(self.limits.eager_bytes_max);
        let Ni { recovery: Some(recovery), links, operations, mds, eqs, .. } = self else {
            return None;
        };
        let Recovery { flows, newest, kept_now, unsettled, paused_by, spent, .. } = &mut **recovery;
        let is_free = paused_by.is_empty() && spent.is_empty() && !operations.is_full();
        if staged.is_some() || !is_short || !is_free {
            return None;
        }
        let at = *newest.get(target.peer.index())?;
        let flow = flows.get_mut(at as usize)?.as_deref_mut()?;
        let next = flow.next();
        let goes_now = flow.pt_index == target.pt_index
            && flow.state == FlowState::Running
            && flow.unsent == next
            && flow.kept.len() < kept_max.saturating_sub(*kept_now);
        if !goes_now || (ack.is_none() && flow.unsettled + 1 >= UNSETTLED_MAX) {
            return None;
        }
        let md = mds.get_mut(from.md).filter(|md| md.vector.is_none() && !md.options.volatile)?;
        let payload = md.part(from.offset, from.length)?;
        if payload.len > 0 && !port.readable(payload) {
            return None;
        }
        let places = md.own_events(true, ack == Some(AckKind::Full));
        let queue = places.and_then(|(eq, count)| Some((eqs.get_mut(eq)?, count)));
        if let Some((queue, count)) = queue
            && !queue.keep_own(count)
        {
            return None;
        }
        let name = name_of(at, next);
        let extras = PutExtras { ack, hdr_data, ..PutExtras::default() };
        let packet = put_packet(&target, &extras, name);
        let seq = links.next_seq(target.peer);
        let token = Token(operations.next_handle().to_u64());
        let sent = links.send_data(port, target.peer, &packet, payload, token);
        let Ok(transmitted) = sent else {
            if let Some((eq, count)) = places
                && let Some(queue) = eqs.get_mut(eq)
            {
                queue.give_back_own(count);
            }
            return matches!(sent, Err(SendError::NoCredit { .. } | SendError::Connecting))
                .then_some(false);
        };
        md.pending += 1;
        *kept_now += 1;
        let kept = flow.kept.push(Kept::BLANK);
        kept.command = *command;
        (kept.staged, kept.seq, kept.lost) = (None, seq, None);
        kept.awaits = Kept::ANSWER;
        kept.places = if places.is_some() { Kept::SOURCE } else { 0 };
        kept.is_answered = ack.is_some();
        (kept.has_failed, kept.is_replied, kept.op) = (false, false, Handle::STALE);
        if transmitted == Transmitted::Pending {
            let stage =
                Stage::Transmit { then_ack: ack, length: payload.len, acked: None, staged: None };
            let Target { peer, pt_index, .. } = target;
            let operation = Operation { peer, pt_index, md: Handle::STALE, user_ptr: name, stage };
            kept.awaits |= Kept::RAIL;
            kept.op = operations.insert_beyond(operation);
        }
        flow.unsent = next.wrapping_add(1);
        flow.is_quiet = false;
        if ack.is_none() {
            flow.unsettled += 1;
            if !flow.is_listed && flow.ask.is_none() {
                flow.is_listed = true;
                unsettled.push_back(at);
            }
        }
        Some(true)
    }

    /// An acknowledgement of a put whose only record is the kept one. False if it answers
    /// nothing that was asked of this peer.
    pub(crate) fn on_ack_by_name<P: Port>(
        &mut self,
        port: &mut P,
        peer: PeerId,
        ack: &Ack,
        at: u32,
        number: u32,
    ) -> bool {
        let flow = self.recovery.as_mut().and_then(|it| it.flow_mut(at));
        let Some(flow) = flow.filter(|flow| flow.peer == peer) else { return false };
        let is_sent = number.wrapping_sub(flow.first) < flow.unsent.wrapping_sub(flow.first);
        let Some(kept) = flow.get_mut(number).filter(|_| is_sent) else { return false };
        if kept.op != Handle::STALE {
            let ack = Ack { op: kept.op.to_u64(), ..*ack };
            return self.on_ack(port, peer, &ack);
        }
        let is_awaited = kept.awaits & Kept::ANSWER != 0;
        let Command::Put { from, ack: Some(kind), target, user_ptr, .. } = kept.command else {
            return false;
        };
        if !is_awaited {
            return false;
        }
        kept.awaits = 0;
        if kept.places != 0 {
            self.give_places_back(at, number, Kept::SOURCE);
        }
        let Local { md, length, .. } = from;
        let Target { pt_index, .. } = target;
        self.sent(md, peer, pt_index, length, user_ptr, true, Ok(()));
        let told = Operation { peer, pt_index, md, user_ptr, stage: Stage::Ack { kind, length } };
        let place = Place { offset: ack.offset, list: ack.list };
        self.acked(&told, ack.mlength, place, NiFail::check(ack.status), true);
        self.forget_ended(at);
        true
    }
}
