//! How an operation ends at its initiator: acknowledgements, answers, failures, and
//! what each is told as.

use crate::engine::ni::Ni;
use crate::objects::command::{Command, Target};
use crate::objects::event::{Event, EventKind, NOBODY, NiFail};
use crate::objects::md::Md;
use crate::objects::operation::{Operation, Place, Stage};
use crate::objects::recovery::parts_of;
use crate::objects::vector::Span;
use crate::table::Handle;
use sluice_link::Port;
use sluice_link::mutants::{self, Mutant};
use sluice_wire::{Ack, AckKind, PeerId, PtIndex};

impl Ni {
    /// An acknowledgement has arrived. False if it answers nothing that was
    /// asked of this peer.
    pub(crate) fn on_ack<P: Port>(&mut self, port: &mut P, peer: PeerId, ack: &Ack) -> bool {
        if self.recovery.is_some()
            && let Some((at, number)) = parts_of(ack.op)
        {
            return self.on_ack_by_name(port, peer, ack, at, number);
        }
        let handle = Handle::from_u64(ack.op);
        let Some(operation) = self.operations.get_mut(handle).filter(|op| op.peer == peer) else {
            return false;
        };
        match &mut operation.stage {
            Stage::Ack { .. } | Stage::Exposed { .. } => {
                let operation = self.end(handle).expect("looked up above");
                Ni::revoke_of(port, &operation);
                let outcome = NiFail::check(ack.status);
                // Of a fault in memory, only this side can say that it was here.
                let unsent = match operation.stage {
                    Stage::Exposed { span, .. } if outcome == Err(NiFail::Segv) => {
                        !self.is_readable(port, span)
                    }
                    _ => false,
                };
                let place = Place { offset: ack.offset, list: ack.list };
                self.acked(&operation, ack.mlength, place, outcome, !unsent);
                true
            }
            Stage::Transmit { then_ack: Some(_), acked, .. } if acked.is_none() => {
                // The target has it all, but the rail has not said so yet: the
                // memory is not free before it does.
                *acked = Some(*ack);
                true
            }
            Stage::Outgoing(outgoing) if outgoing.direct.is_none() => {
                let operation = self.end(handle).expect("looked up above");
                if let Stage::Outgoing(outgoing) = operation.stage {
                    self.finish(port, outgoing.done, NiFail::check(ack.status));
                }
                true
            }
            _ => false,
        }
    }

    /// An operation has ended, or its peer needs its memory no more.
    #[inline]
    pub(crate) fn revoke_of<P: Port>(port: &mut P, operation: &Operation) {
        if let Some(key) = operation.exposed() {
            port.revoke(operation.peer, key);
        }
    }

    /// What an acknowledgement, or the want of one, means to its operation.
    pub(crate) fn acked(
        &mut self,
        operation: &Operation,
        mlength: u64,
        place: Place,
        outcome: Result<(), NiFail>,
        answered: bool,
    ) {
        let (kind, length) = match operation.stage {
            Stage::Ack { kind, length } => (kind, length),
            Stage::Exposed { kind, span, .. } => {
                let (peer, pt) = (operation.peer, operation.pt_index);
                // What the target refused has been dealt with too: the memory
                // is free. Only what never got an answer was not sent.
                let sent = if answered { Ok(()) } else { outcome };
                self.sent(operation.md, peer, pt, span.len, operation.user_ptr, true, sent);
                (kind, span.len)
            }
            _ => return,
        };
        let mlength = mlength.min(length);
        let Some(descriptor) = self.mds.get(operation.md) else {
            return self.kept_answered(operation, mlength, place, outcome, answered);
        };
        let (eq, ct, options) = (descriptor.eq, descriptor.ct, descriptor.options);
        if kind == AckKind::Silent {
            return;
        }
        if options.ct_ack {
            // Completed is also what the target dropped, but not what it never
            // answered, or what never left.
            let completed = kind == AckKind::OperationCompleted && answered;
            let ok = outcome.is_ok() || completed || mutants::is(Mutant::CountsTheDropped);
            self.count(ct, ok, options.ct_bytes.then_some(mlength));
        }
        let is_event = matches!(kind, AckKind::Full | AckKind::Matched);
        let wanted = is_event && !(outcome.is_ok() && options.event_success_disable);
        if wanted {
            let mut event =
                Event::new(EventKind::Ack, operation.pt_index, operation.peer, operation.user_ptr);
            event.rlength = length;
            event.mlength = mlength;
            (event.remote_offset, event.list) = (place.offset, place.list);
            event.outcome = outcome;
            self.post_own(eq, event);
        }
    }

    /// The memory of a put may be reused.
    #[inline]
    #[expect(clippy::too_many_arguments, reason = "the fields of the event")]
    pub(crate) fn sent(
        &mut self,
        md: Handle<Md>,
        peer: PeerId,
        pt_index: PtIndex,
        length: u64,
        user_ptr: u64,
        was_pending: bool,
        outcome: Result<(), NiFail>,
    ) {
        let Some(descriptor) = self.mds.get(md) else { return self.kept_sent(user_ptr) };
        let (eq, ct, options) = (descriptor.eq, descriptor.ct, descriptor.options);
        if options.ct_send {
            self.count(ct, outcome.is_ok(), options.ct_bytes.then_some(length));
        }
        let told = options.event_send_if_pending && !was_pending;
        let unwanted = told || options.event_send_disable || options.event_success_disable;
        if outcome.is_ok() && unwanted {
            return;
        }
        let mut event = Event::new(EventKind::Send, pt_index, peer, user_ptr);
        event.rlength = length;
        event.mlength = length;
        event.outcome = outcome;
        self.post_own(eq, event);
    }

    /// The end of a get or of a fetching operation.
    pub(crate) fn replied(
        &mut self,
        operation: &Operation,
        into: Span,
        mlength: u64,
        place: Place,
        outcome: Result<(), NiFail>,
    ) {
        let Some(descriptor) = self.mds.get(operation.md) else {
            return self.kept_answered(operation, mlength, place, outcome, true);
        };
        let (eq, ct, options) = (descriptor.eq, descriptor.ct, descriptor.options);
        if options.ct_reply {
            self.count(ct, outcome.is_ok(), options.ct_bytes.then_some(mlength));
        }
        if outcome.is_ok() && options.event_success_disable {
            return;
        }
        let mut event =
            Event::new(EventKind::Reply, operation.pt_index, operation.peer, operation.user_ptr);
        event.rlength = into.len;
        event.mlength = mlength;
        event.start = self.start_of(into);
        (event.remote_offset, event.list) = (place.offset, place.list);
        event.outcome = outcome;
        self.post_own(eq, event);
    }

    /// A command ends before it began.
    pub(crate) fn fail(&mut self, command: &Command, why: NiFail) {
        match command {
            Command::Put { from, ack, target, user_ptr, .. }
            | Command::Atomic { from, ack, target, user_ptr, .. } => {
                self.fail_put(from.md, target, from.length, *ack, *user_ptr, why);
            }
            Command::Get { into, target, user_ptr }
            | Command::Fetch { into, target, user_ptr, .. } => {
                let (peer, pt_index) = (target.peer, target.pt_index);
                if let Command::Fetch { from, .. } = command {
                    let length = from.length;
                    self.sent(from.md, peer, pt_index, length, *user_ptr, true, Err(why));
                }
                let operation = Operation {
                    peer,
                    pt_index,
                    md: into.md,
                    user_ptr: *user_ptr,
                    stage: Stage::Answer { staged: None },
                };
                let span = self.span_of(into).unwrap_or(Span::EMPTY);
                self.replied(&operation, span, 0, Place::default(), Err(why));
            }
            Command::GetFromHeader { into, pt_index, user_ptr, .. } => {
                let (md, stage) = (into.md, Stage::Answer { staged: None });
                let (peer, pt_index, user_ptr) = (NOBODY, *pt_index, *user_ptr);
                let operation = Operation { peer, pt_index, md, user_ptr, stage };
                let span = self.span_of(into).unwrap_or(Span::EMPTY);
                self.replied(&operation, span, 0, Place::default(), Err(why));
            }
            Command::CtInc { .. } | Command::CtSet { .. } => {}
        }
    }

    /// First the send event fails, then the acknowledgement: who waits for
    /// either is told.
    pub(crate) fn fail_put(
        &mut self,
        md: Handle<Md>,
        target: &Target,
        length: u64,
        ack: Option<AckKind>,
        user_ptr: u64,
        why: NiFail,
    ) {
        let (peer, pt_index) = (target.peer, target.pt_index);
        self.sent(md, peer, pt_index, length, user_ptr, true, Err(why));
        if let Some(kind) = ack {
            let stage = Stage::Ack { kind, length };
            let operation = Operation { peer, pt_index, md, user_ptr, stage };
            self.acked(&operation, 0, Place::default(), Err(why), false);
        }
    }
}
