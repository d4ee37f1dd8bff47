//! Recovery at the initiator (`docs/recovery.md`): an operation is kept until it is
//! known that its target has dealt with it, and goes again if it was refused.
//!
//! Invariants: operations of a flow are on their way in the order in which they were
//! issued, those that are not behind those that are. An operation is told of at its
//! end, once. Until then its descriptors are in use, its memory is the client's promise
//! or a copy, and its places in event queues are kept.

use crate::engine::ni::Ni;
use crate::objects::command::{Command, Local, Target, WaitingCommand};
use crate::objects::eq::Eq;
use crate::objects::event::NiFail;
use crate::objects::limits::PtlError;
use crate::objects::operation::{Operation, Place, Stage};
use crate::objects::recovery::{Flow, FlowState, Kept, UNSETTLED_MAX, name_of, parts_of};
use crate::objects::vector::Span;
use crate::table::Handle;
use sluice_link::{PeerError, Port};
use sluice_wire::{AckKind, PacketSeq, PeerId, Recovery as Packet, Region, Word};

/// What became of the first operation of a flow that is not on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Went {
    /// It is now, or has failed.
    Yes,
    /// It needs a credit, or room.
    NotNow,
}

impl Ni {
    /// As [`Ni::attempt`], of a command that is kept. False if it must wait, for credits
    /// or for places in its event queues.
    #[inline(never)]
    pub(crate) fn attempt_kept<P: Port>(
        &mut self,
        port: &mut P,
        command: &Command,
        staged: Option<Region>,
    ) -> bool {
        let Some(target) = target_of(command) else { return true };
        let kept_max = self.limits.operations_max as usize;
        let Some(recovery) = &mut self.recovery else { return true };
        if recovery.kept_now >= kept_max || recovery.is_paused(target.peer) {
            return false;
        }
        let at = recovery.find_or_make(target.peer, target.pt_index);
        if !self.keep_places(command) {
            return false;
        }
        self.hold(command);
        let copy = self.copy_of(port, command, staged);
        let is_answered = is_answered(command, self.limits.eager_bytes_max);
        let Some(recovery) = &mut self.recovery else { return true };
        recovery.kept_now += 1;
        let Some(flow) = recovery.flow_mut(at) else { return true };
        let goes_now = flow.state == FlowState::Running && flow.unsent_len() == 0;
        flow.kept.push_back(Kept {
            command: *command,
            staged: copy,
            seq: PacketSeq(0),
            awaits: Kept::ANSWER,
            is_answered,
            op: Handle::default(),
            lost: None,
        });
        if !goes_now || self.send_kept(port, at) == Went::Yes {
            return true;
        }
        // It goes back to where it came from.
        let last = self.recovery.as_mut().and_then(|recovery| {
            recovery.kept_now -= 1;
            recovery.flow_mut(at)?.kept.pop_back()
        });
        if let Some(kept) = last {
            self.release_kept(&kept);
            self.give_places_back(&kept.command);
        }
        false
    }

    /// Sends the first operation of a flow that is not on its way.
    #[inline(always)]
    fn send_kept<P: Port>(&mut self, port: &mut P, at: u32) -> Went {
        let Some(flow) = self.recovery.as_mut().and_then(|it| it.flow_mut(at)) else {
            return Went::Yes;
        };
        let (peer, number) = (flow.peer, flow.unsent);
        let seq = self.links.next_seq(peer);
        let op = self.operations.next_handle();
        let Some(kept) = flow.get_mut(number) else { return Went::Yes };
        // The end of the operation may be told before the call below returns.
        (kept.seq, kept.op, kept.awaits) = (seq, op, awaited_by(&kept.command));
        let (command, staged, is_settled) = (kept.command, kept.staged, kept.is_answered);
        flow.unsent = number.wrapping_add(1);
        flow.unsettled += u32::from(!is_settled);
        let must_ask = flow.unsettled >= UNSETTLED_MAX && flow.ask.is_none();
        match self.start(port, &command, staged, name_of(at, number)) {
            Ok(()) => {}
            Err(PtlError::NoCredit { .. }) => {
                if let Some(flow) = self.recovery.as_mut().and_then(|it| it.flow_mut(at)) {
                    flow.unsent = number;
                    flow.unsettled -= u32::from(!is_settled);
                }
                return Went::NotNow;
            }
            Err(PtlError::Peer(why)) => {
                self.fail_kept(at, number, NiFail::Undeliverable(why));
            }
            // It was checked before; only what was released since is left.
            Err(_) => self.fail_kept(at, number, NiFail::Aborted),
        }
        if !is_settled {
            self.note_unsettled(at);
            if must_ask {
                self.ask(port, at);
            }
        }
        self.forget_ended(at);
        Went::Yes
    }

    /// Sends what a flow holds back, as far as it goes. False if some must wait.
    pub(crate) fn pump<P: Port>(&mut self, port: &mut P, at: u32) -> bool {
        loop {
            let Some(recovery) = &mut self.recovery else { return true };
            let Some(flow) = recovery.flow(at) else { return true };
            let (peer, pt_index, state) = (flow.peer, flow.pt_index, flow.state);
            if flow.unsent_len() == 0 && state == FlowState::Running {
                return true;
            }
            if recovery.is_paused(peer) {
                return false;
            }
            match state {
                // Refused again: it is resumed later.
                FlowState::Held { .. } => return true,
                FlowState::Restarting { epoch } => {
                    let word = Word::Restart { epoch };
                    let packet = sluice_wire::Packet::Recovery(Packet { pt_index, word });
                    match self.links.send_control(port, peer, &packet) {
                        Ok(()) => {}
                        Err(error) if crate::engine::arrive::is_no_credit(&error) => return false,
                        // Its end is reported, and ends all this.
                        Err(_) => return true,
                    }
                    if let Some(flow) = self.recovery.as_mut().and_then(|it| it.flow_mut(at)) {
                        flow.state = FlowState::Running;
                    }
                }
                FlowState::Running => {
                    if self.send_kept(port, at) == Went::NotNow {
                        return false;
                    }
                }
            }
        }
    }

    /// The target has refused what came in the packet `first` and all behind it. False if
    /// no honest peer says so.
    pub(crate) fn on_refuse<P: Port>(
        &mut self,
        port: &mut P,
        at: u32,
        epoch: u32,
        first: PacketSeq,
    ) -> bool {
        let Some(flow) = self.recovery.as_mut().and_then(|it| it.flow_mut(at)) else {
            return false;
        };
        let sent = flow.kept.len() - flow.unsent_len();
        let found = flow.kept.range(..sent).rposition(|kept| kept.seq == first);
        let Some(found) = found.filter(|_| flow.state == FlowState::Running) else { return false };
        // What was answered was not refused.
        if flow.kept.range(found..sent).any(|kept| kept.awaits & Kept::ANSWER == 0) {
            return false;
        }
        flow.state = FlowState::Held { epoch };
        let from = flow.first.wrapping_add(found as u32);
        flow.unsent = from;
        // An ask that is on its way does not cover what goes again behind it.
        let asked = flow.ask.map(|asked| asked.wrapping_sub(flow.first) as usize);
        if asked.is_some_and(|asked| asked > found && asked <= flow.kept.len()) {
            flow.ask = Some(from);
        }
        let refused = flow.kept.range(found..sent);
        flow.unsettled -= refused.filter(|kept| !kept.is_answered).count() as u32;
        for number in (0..(sent - found) as u32).map(|nth| from.wrapping_add(nth)) {
            self.take_back(port, at, number);
        }
        true
    }

    /// An operation that was refused is on its way no more.
    fn take_back<P: Port>(&mut self, port: &mut P, at: u32, number: u32) {
        let name = name_of(at, number);
        let flow = self.recovery.as_mut().and_then(|it| it.flow_mut(at));
        let Some(kept) = flow.and_then(|flow| flow.get_mut(number)) else { return };
        let (op, with_rail) = (kept.op, kept.awaits & Kept::RAIL != 0);
        kept.awaits = Kept::ANSWER;
        kept.op = Handle::default();
        if let Some(operation) = self.operations.get_mut(op).filter(|it| it.user_ptr == name) {
            match &mut operation.stage {
                // The rail still reads the memory, and reports it to nobody.
                Stage::Transmit { then_ack, acked, .. } => {
                    (*then_ack, *acked) = (None, None);
                    operation.user_ptr = 0;
                }
                Stage::Reply { slots, .. } => {
                    let slots = *slots;
                    self.links.release_reply(slots);
                    self.has_freed_reply_slots = true;
                    self.end_revoked(port, op);
                }
                _ => self.end_revoked(port, op),
            }
        }
        // What fetches may have another operation with the rail.
        if with_rail {
            let left = self.operations.iter().find(|(_, it)| it.user_ptr == name);
            if let Some(left) = left.map(|(left, _)| left)
                && let Some(operation) = self.operations.get_mut(left)
            {
                operation.user_ptr = 0;
            }
        }
    }

    fn end_revoked<P: Port>(&mut self, port: &mut P, op: Handle<Operation>) {
        if let Some(operation) = self.end(op) {
            Ni::revoke_of(port, &operation);
        }
    }

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
    fn note_unsettled(&mut self, at: u32) {
        let Some(recovery) = &mut self.recovery else { return };
        let Some(flow) = recovery.flow_mut(at) else { return };
        if flow.unsettled > 0 && !flow.is_listed && flow.ask.is_none() {
            flow.is_listed = true;
            recovery.unsettled.push_back(at);
        }
    }

    /// Asks about all that is on its way.
    fn ask<P: Port>(&mut self, port: &mut P, at: u32) {
        let Some(flow) = self.recovery.as_ref().and_then(|it| it.flow(at)) else { return };
        let (peer, pt_index) = (flow.peer, flow.pt_index);
        let packet = sluice_wire::Packet::Recovery(Packet { pt_index, word: Word::Ask });
        if self.links.send_control(port, peer, &packet).is_ok()
            && let Some(flow) = self.recovery.as_mut().and_then(|it| it.flow_mut(at))
        {
            flow.ask = Some(flow.unsent);
        }
    }

    /// Asks about what nobody acknowledges, and keeps on the list what cannot be asked now.
    pub(crate) fn ask_unsettled<P: Port>(&mut self, port: &mut P) {
        let listed = self.recovery.as_ref().map_or(0, |it| it.unsettled.len());
        for _ in 0..listed {
            let Some(recovery) = &mut self.recovery else { return };
            let Some(at) = recovery.unsettled.pop_front() else { return };
            let Some(flow) = recovery.flow_mut(at) else { continue };
            flow.is_listed = false;
            if flow.ask.is_none() && flow.unsettled > 0 {
                self.ask(port, at);
            }
            self.note_unsettled(at);
        }
    }

    /// An operation that is kept has its answer, or will not have any.
    #[cold]
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
        let command = kept.command;
        match &command {
            Command::Put { from, ack, target, user_ptr, .. }
            | Command::Atomic { from, ack, target, user_ptr, .. } => {
                kept.awaits = 0;
                let (md, length) = (from.md, from.length);
                let sent = if answered { Ok(()) } else { outcome };
                self.give_places_back(&command);
                self.tell_sent(from, target, *user_ptr, sent);
                if let Some(kind) = *ack {
                    let stage = Stage::Ack { kind, length };
                    let (peer, pt_index, user_ptr) = (target.peer, target.pt_index, *user_ptr);
                    let told = Operation { peer, pt_index, md, user_ptr, stage };
                    self.acked(&told, mlength, place, outcome, answered);
                }
            }
            Command::Get { into, target, user_ptr }
            | Command::Fetch { into, target, user_ptr, .. } => {
                let is_ended = kept.awaits == 0;
                if let Err(why @ NiFail::Undeliverable(_)) = outcome {
                    kept.lost = Some(why);
                }
                self.give_places_of(into.md, reply_places(&command));
                self.tell_reply(into, target, *user_ptr, mlength, place, outcome);
                if is_ended {
                    self.conclude(at, number);
                }
            }
            Command::CtInc { .. } | Command::CtSet { .. } | Command::GetFromHeader { .. } => {}
        }
        self.forget_ended(at);
    }

    /// The rail has read the memory of an operation that is kept.
    #[cold]
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

    /// Tells that the memory of an operation may be reused, when it awaits nothing more.
    fn conclude(&mut self, at: u32, number: u32) {
        let flow = self.recovery.as_mut().and_then(|it| it.flow_mut(at));
        let Some(kept) = flow.and_then(|flow| flow.get_mut(number)) else { return };
        if kept.awaits != 0 {
            return;
        }
        let (command, sent) = (kept.command, kept.lost.map_or(Ok(()), Err));
        match &command {
            Command::Put { from, target, user_ptr, .. }
            | Command::Atomic { from, target, user_ptr, .. }
            | Command::Fetch { from, target, user_ptr, .. } => {
                self.give_places_of(from.md, source_places(&command));
                self.tell_sent(from, target, *user_ptr, sent);
            }
            _ => {}
        }
    }

    /// An operation that cannot be sent fails.
    fn fail_kept(&mut self, at: u32, number: u32, why: NiFail) {
        self.end_kept(at, number, why);
        self.forget_ended(at);
    }

    /// A kept operation cannot begin, since its memory is not there. Its flow is being sent, so
    /// it is forgotten later.
    pub(crate) fn kept_unreadable(&mut self, name: u64) {
        if let Some((at, number)) = parts_of(name) {
            self.end_kept(at, number, NiFail::Segv);
        }
    }

    /// Tells that a kept operation has failed, and that nothing more comes of it.
    fn end_kept(&mut self, at: u32, number: u32, why: NiFail) {
        let flow = self.recovery.as_mut().and_then(|it| it.flow_mut(at));
        let Some(flow) = flow else { return };
        let Some(kept) = flow.get_mut(number) else { return };
        let (command, is_answered) = (kept.command, kept.is_answered);
        kept.awaits = 0;
        if !is_answered {
            flow.unsettled -= 1;
        }
        self.give_places_back(&command);
        self.fail(&command, why);
    }

    /// Forgets the operations at the front of a flow that have ended, but for those that
    /// are not on their way.
    pub(crate) fn forget_ended(&mut self, at: u32) {
        loop {
            let Some(recovery) = &mut self.recovery else { return };
            let Some(flow) = recovery.flow_mut(at) else { return };
            let is_ended = flow.kept.front().is_some_and(|kept| kept.awaits == 0);
            if !is_ended {
                if flow.is_gone && flow.kept.is_empty() {
                    recovery.flows[at as usize] = None;
                }
                return;
            }
            let Some(kept) = flow.kept.pop_front() else { return };
            flow.first = flow.first.wrapping_add(1);
            recovery.kept_now -= 1;
            self.release_kept(&kept);
        }
    }

    /// The peer of flows is gone. Operations that the engine or the rail still has end there;
    /// the others end here.
    pub(crate) fn drop_flows(&mut self, peer: PeerId, why: PeerError) {
        let why = NiFail::Undeliverable(why);
        let flows = self.recovery.as_ref().map_or_else(Vec::new, |it| it.flows_to(peer));
        for at in flows {
            let Some(flow) = self.recovery.as_mut().and_then(|it| it.flow_mut(at)) else {
                continue;
            };
            flow.is_gone = true;
            (flow.state, flow.ask, flow.unsettled) = (FlowState::Running, None, 0);
            let (first, unsent, next) = (flow.first, flow.unsent, flow.next());
            flow.unsent = next;
            let sent = unsent.wrapping_sub(first);
            for nth in 0..next.wrapping_sub(first) {
                let number = first.wrapping_add(nth);
                let flow = self.recovery.as_mut().and_then(|it| it.flow_mut(at));
                let Some(kept) = flow.and_then(|flow| flow.get_mut(number)) else { continue };
                if kept.awaits == 0 {
                    continue;
                }
                let is_with_rail = nth < sent && kept.awaits & Kept::RAIL != 0;
                if !is_with_rail {
                    self.fail_kept_quietly(at, number, why);
                } else if !kept.is_answered {
                    kept.awaits = Kept::RAIL;
                    kept.lost = Some(why);
                }
            }
            self.forget_ended(at);
        }
        if let Some(first) = self.recovery.as_mut().and_then(|it| it.newest.get_mut(peer.index())) {
            *first = crate::objects::recovery::NO_FLOW;
        }
    }

    /// As [`Ni::fail_kept`], and what has ended stays for the caller to forget.
    fn fail_kept_quietly(&mut self, at: u32, number: u32, why: NiFail) {
        let flow = self.recovery.as_mut().and_then(|it| it.flow_mut(at));
        let Some(kept) = flow.and_then(|flow| flow.get_mut(number)) else { return };
        kept.awaits = 0;
        let command = kept.command;
        self.give_places_back(&command);
        self.fail(&command, why);
    }

    /// A flow that was resumed goes on before anything else to its peer.
    pub(crate) fn wait_to_resume<P: Port>(&mut self, port: &mut P, peer: PeerId, at: u32) {
        self.waiting_now += 1;
        self.waiting.entry(peer).or_default().push_front(WaitingCommand::Flow(at));
        self.flush_waiting(port, peer);
    }

    /// A copy of what the client may change as soon as the call has returned.
    fn copy_of<P: Port>(
        &mut self,
        port: &mut P,
        command: &Command,
        staged: Option<Region>,
    ) -> Option<Region> {
        let span = match staged {
            Some(staged) => Some(Span::new(staged, None, 0, staged.len)),
            None => self.volatile_span(command).filter(|&span| self.is_readable(port, span)),
        };
        span.map(|span| self.gather(port, span))
    }

    /// The copy goes back at the next idle moment.
    fn release_kept(&mut self, kept: &Kept) {
        self.unhold(&kept.command);
        if let (Some(staged), Some(recovery)) = (kept.staged, &mut self.recovery) {
            recovery.spent.push(staged);
        }
    }

    fn tell_sent(
        &mut self,
        from: &Local,
        target: &Target,
        user_ptr: u64,
        outcome: Result<(), NiFail>,
    ) {
        let (peer, pt_index) = (target.peer, target.pt_index);
        self.sent(from.md, peer, pt_index, from.length, user_ptr, true, outcome);
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

    /// Keeps places for the events of an operation. False if there are none now.
    fn keep_places(&mut self, command: &Command) -> bool {
        let [source, reply] = mds_of(command);
        let wanted = [
            source.and_then(|from| self.places_in(from, source_places(command))),
            reply.and_then(|into| self.places_in(into, reply_places(command))),
        ];
        for (nth, place) in wanted.into_iter().enumerate() {
            let Some((eq, count)) = place else { continue };
            let Some(queue) = self.eqs.get_mut(eq) else { continue };
            if !queue.has_room(count) {
                if let (1, Some((eq, count))) = (nth, wanted[0])
                    && let Some(queue) = self.eqs.get_mut(eq)
                {
                    queue.give_back(count);
                }
                return false;
            }
            queue.keep(count);
        }
        true
    }

    fn give_places_back(&mut self, command: &Command) {
        let [source, reply] = mds_of(command);
        if let Some(from) = source {
            self.give_places_of(from, source_places(command));
        }
        if let Some(into) = reply {
            self.give_places_of(into, reply_places(command));
        }
    }

    fn give_places_of(&mut self, md: Handle<crate::Md>, events: Places) {
        if let Some((eq, count)) = self.places_in(md, events)
            && let Some(queue) = self.eqs.get_mut(eq)
        {
            queue.give_back(count);
        }
    }

    /// The queue of a descriptor, and how many places there are kept. A queue that is
    /// shorter than an operation has events is filled by one.
    fn places_in(&self, md: Handle<crate::Md>, events: Places) -> Option<(Handle<Eq>, usize)> {
        let md = self.mds.get(md)?;
        let options = md.options;
        let sends = events.sends && !options.event_send_disable;
        let count = usize::from(sends) + usize::from(events.answers);
        if options.event_success_disable || count == 0 {
            return None;
        }
        let eq = md.eq?;
        Some((eq, count.min(self.eqs.get(eq)?.events_max())))
    }
}

/// Events that a descriptor is told for one operation, if all goes well.
#[derive(Clone, Copy)]
struct Places {
    sends: bool,
    answers: bool,
}

fn source_places(command: &Command) -> Places {
    match command {
        Command::Put { ack, .. } | Command::Atomic { ack, .. } => {
            Places { sends: true, answers: *ack == Some(AckKind::Full) }
        }
        Command::Fetch { .. } => Places { sends: true, answers: false },
        _ => Places { sends: false, answers: false },
    }
}

fn reply_places(command: &Command) -> Places {
    let answers = matches!(command, Command::Get { .. } | Command::Fetch { .. });
    Places { sends: false, answers }
}

/// The descriptor that sends, and the one that is replied to.
fn mds_of(command: &Command) -> [Option<Handle<crate::Md>>; 2] {
    match command {
        Command::Put { from, .. } | Command::Atomic { from, .. } => [Some(from.md), None],
        Command::Get { into, .. } => [None, Some(into.md)],
        Command::Fetch { into, from, .. } => [Some(from.md), Some(into.md)],
        _ => [None, None],
    }
}

pub(crate) fn target_of(command: &Command) -> Option<&Target> {
    match command {
        Command::Put { target, .. }
        | Command::Get { target, .. }
        | Command::Atomic { target, .. }
        | Command::Fetch { target, .. } => Some(target),
        _ => None,
    }
}

/// Whether the target answers such an operation without being asked.
fn is_answered(command: &Command, eager_bytes_max: u32) -> bool {
    match command {
        Command::Put { ack, from, .. } => ack.is_some() || from.length > u64::from(eager_bytes_max),
        Command::Atomic { ack, .. } => ack.is_some(),
        _ => true,
    }
}

fn awaited_by(command: &Command) -> u8 {
    match command {
        Command::Get { .. } => Kept::ANSWER,
        _ => Kept::ANSWER | Kept::RAIL,
    }
}

impl Flow {
    /// Panics unless the books of the flow are in order.
    pub(crate) fn check_invariants(&self) {
        assert!(self.unsent_len() <= self.kept.len(), "what is not sent is kept");
        let sent = self.kept.len() - self.unsent_len();
        let waits = |kept: &&Kept| kept.awaits & Kept::ANSWER != 0 && !kept.is_answered;
        let unsettled = self.kept.range(..sent).filter(waits).count();
        assert!(self.is_gone || unsettled == self.unsettled as usize, "operations to ask about");
        assert!(self.kept.front().is_none_or(|kept| kept.awaits != 0), "what has ended is gone");
        assert!(self.kept.range(sent..).all(|kept| kept.awaits != 0), "none ends unsent");
    }
}
