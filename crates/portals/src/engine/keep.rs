//! Recovery at the initiator (`docs/recovery.md`): an operation is kept until it is
//! known that its target has dealt with it, and goes again if it was refused.
//!
//! Invariants: operations of a flow are on their way in the order in which they were
//! issued, those that are not behind those that are. An operation is told of at its
//! end, once. Until then its descriptors are in use, and its memory is the client's
//! promise or a copy; while it is on its way, its places in event queues are kept.

use crate::engine::ni::Ni;
use crate::engine::wait::descriptors;
use crate::objects::command::{Command, Target, WaitingCommand};
use crate::objects::event::NiFail;
use crate::objects::limits::PtlError;
use crate::objects::md::Md;
use crate::objects::recovery::{Flow, FlowState, Kept, Recovery, UNSETTLED_MAX, name_of};
use crate::objects::vector::Span;
use crate::table::Handle;
use sluice_link::Port;
use sluice_link::mutants::{self, Mutant};
use sluice_wire::{PeerId, Recovery as Said, Region, Word};

/// What became of the first operation of a flow that is not on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Went {
    /// It is now, or has failed.
    Yes,
    /// It needs a credit, room, places in its event queues, or the rail to be done with it.
    NotNow,
}

impl Ni {
    /// As [`Ni::attempt`], of a command that is kept. False if it must wait, for credits,
    /// for places in its event queues, or for its share of what is kept.
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
        if recovery.is_paused(target.peer) {
            return false;
        }
        let at = recovery.find_or_make(target.peer, target.pt_index);
        if !recovery.has_share(at, kept_max) {
            return false;
        }
        if !recovery.spent.is_empty() {
            self.give_spent_back(port);
        }
        let goes_now = self
            .recovery
            .as_ref()
            .and_then(|it| it.flow(at))
            .is_some_and(|flow| flow.state == FlowState::Running && flow.unsent_len() == 0);
        // It may be tried often before it can go, and is copied once.
        let is_copied = staged.is_some() || self.volatile_span(command).is_some();
        if goes_now && is_copied && !self.may_go(command, target.peer) {
            return false;
        }
        let copy = self.copy_of(port, command, staged);
        self.keep(at, command, copy);
        if !goes_now || self.send_kept(port, at, command, copy) == Went::Yes {
            return true;
        }
        // It goes back to where it came from.
        let last = self.recovery.as_mut().and_then(|recovery| {
            recovery.kept_now -= 1;
            recovery.flow_mut(at)?.kept.pop_back()
        });
        if let Some(kept) = last {
            self.release_kept(descriptors(&kept.command), kept.staged);
        }
        false
    }

    /// Whether there is a credit for an operation that carries data, or no connection yet,
    /// and places for its events.
    fn may_go(&mut self, command: &Command, peer: PeerId) -> bool {
        if self.links.is_known(peer) && self.links.data_credits(peer) == 0 {
            return false;
        }
        let places = self.keep_places(command);
        if let Some(which) = places {
            self.return_places(command, which);
        }
        places.is_some()
    }

    /// Puts an operation at the end of a flow.
    #[inline(always)]
    fn keep(&mut self, at: u32, command: &Command, staged: Option<Region>) {
        self.hold(command);
        let is_answered = is_answered(command, self.limits.eager_bytes_max);
        let Some(recovery) = &mut self.recovery else { return };
        let Recovery { flows, kept_now, held_now, .. } = &mut **recovery;
        let Some(Some(flow)) = flows.get_mut(at as usize) else { return };
        *kept_now += 1;
        *held_now += usize::from(flow.state != FlowState::Running);
        *flow.kept.push(Kept::BLANK) =
            Kept { command: *command, staged, awaits: Kept::ANSWER, is_answered, ..Kept::BLANK };
    }

    /// Sends again what was held back, the first of a flow.
    fn send_next<P: Port>(&mut self, port: &mut P, at: u32) -> Went {
        let Some(flow) = self.recovery.as_mut().and_then(|it| it.flow_mut(at)) else {
            return Went::Yes;
        };
        let number = flow.unsent;
        let Some(kept) = flow.get_mut(number) else { return Went::Yes };
        if kept.has_failed {
            flow.unsent = number.wrapping_add(1);
            return Went::Yes;
        }
        // The rail still reads what was refused.
        if kept.awaits & Kept::RAIL != 0 {
            return Went::NotNow;
        }
        let (command, staged) = (kept.command, kept.staged);
        self.send_kept(port, at, &command, staged)
    }

    /// Sends the first operation of a flow that is not on its way, which is this.
    #[inline(always)]
    fn send_kept<P: Port>(
        &mut self,
        port: &mut P,
        at: u32,
        command: &Command,
        staged: Option<Region>,
    ) -> Went {
        let Some(places) = self.keep_places(command) else { return Went::NotNow };
        let eager_bytes_max = self.limits.eager_bytes_max;
        let op = self.operations.next_handle();
        let Some(flow) = self.recovery.as_mut().and_then(|it| it.flow_mut(at)) else {
            return Went::Yes;
        };
        let number = flow.unsent;
        let seq = self.links.next_seq(flow.peer);
        let Some(kept) = flow.get_mut(number) else { return Went::Yes };
        let is_settled = kept.is_answered;
        // The end of the operation may be told before the call below returns.
        kept.awaits = awaited_by(command, eager_bytes_max);
        (kept.seq, kept.op, kept.places) = (seq, op, places);
        flow.unsent = number.wrapping_add(1);
        flow.unsettled += u32::from(!is_settled);
        flow.is_quiet = false;
        let must_ask = flow.unsettled >= UNSETTLED_MAX && flow.ask.is_none();
        match self.start(port, command, staged, name_of(at, number), false) {
            Ok(()) => {}
            Err(PtlError::NoCredit { .. }) => {
                self.unsend(at, number);
                return Went::NotNow;
            }
            Err(PtlError::Peer(why)) => self.end_kept(at, number, NiFail::Undeliverable(why)),
            // It was checked before; only what was released since is left.
            Err(_) => self.end_kept(at, number, NiFail::Aborted),
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

    /// There was no credit for an operation: it is not on its way after all.
    fn unsend(&mut self, at: u32, number: u32) {
        let Some(flow) = self.recovery.as_mut().and_then(|it| it.flow_mut(at)) else { return };
        flow.unsent = number;
        let Some(kept) = flow.get_mut(number) else { return };
        kept.awaits = Kept::ANSWER;
        let is_settled = kept.is_answered;
        flow.unsettled -= u32::from(!is_settled);
        self.give_places_back(at, number, Kept::SOURCE | Kept::REPLY);
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
                    let packet = sluice_wire::Packet::Recovery(Said { pt_index, word });
                    let forgets = mutants::is(Mutant::ForgetsRestarts);
                    let said =
                        if forgets { Ok(()) } else { self.links.send_control(port, peer, &packet) };
                    match said {
                        Ok(()) => {}
                        Err(error) if crate::engine::arrive::is_no_credit(&error) => return false,
                        // Its end is reported, and ends all this.
                        Err(_) => return true,
                    }
                    if let Some(recovery) = &mut self.recovery {
                        recovery.set_state(at, FlowState::Running);
                    }
                }
                FlowState::Running => {
                    if self.send_next(port, at) == Went::NotNow {
                        return false;
                    }
                }
            }
        }
    }

    /// A flow that was resumed goes on before anything else to its peer.
    pub(crate) fn wait_to_resume<P: Port>(&mut self, port: &mut P, peer: PeerId, at: u32) {
        let flow = self.recovery.as_mut().and_then(|it| it.flow_mut(at));
        if let Some(flow) = flow.filter(|flow| !flow.is_waiting) {
            flow.is_waiting = true;
            self.waiting_now += 1;
            self.waiting.entry(peer).or_default().push_front(WaitingCommand::Flow(at));
        }
        self.flush_waiting(port, peer);
    }

    /// A flow waits for its peer no more.
    pub(crate) fn waits_no_more(&mut self, at: u32) {
        if let Some(flow) = self.recovery.as_mut().and_then(|it| it.flow_mut(at)) {
            flow.is_waiting = false;
        }
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

    /// The copy goes back with the next operation, or at the next idle moment.
    fn release_kept(&mut self, held: [Option<Handle<Md>>; 2], staged: Option<Region>) {
        for md in held.into_iter().flatten() {
            self.let_go(md);
        }
        if let (Some(staged), Some(recovery)) = (staged, &mut self.recovery) {
            recovery.spent.push(staged);
        }
    }

    #[cold]
    pub(crate) fn give_spent_back<P: Port>(&mut self, port: &mut P) {
        if let Some(recovery) = &mut self.recovery {
            for spent in recovery.spent.drain(..) {
                port.give_back(spent.addr, spent.len as u32);
            }
        }
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
pub(crate) fn is_answered(command: &Command, eager_bytes_max: u32) -> bool {
    match command {
        Command::Put { ack, from, .. } => ack.is_some() || from.length > u64::from(eager_bytes_max),
        Command::Atomic { ack, .. } => ack.is_some(),
        _ => true,
    }
}

/// What an operation that is sent waits for. The data of a long put is fetched, so the rail
/// sends nothing of it.
fn awaited_by(command: &Command, eager_bytes_max: u32) -> u8 {
    match command {
        Command::Get { .. } => Kept::ANSWER,
        Command::Put { from, .. } if from.length > u64::from(eager_bytes_max) => Kept::ANSWER,
        _ => Kept::ANSWER | Kept::RAIL,
    }
}

impl Flow {
    /// Panics unless the books of the flow are in order.
    pub(crate) fn check_invariants(&self) {
        assert!(self.unsent_len() <= self.kept.len(), "what is not sent is kept");
        let sent = self.kept.len() - self.unsent_len();
        let waits = |kept: &&Kept| kept.awaits & Kept::ANSWER != 0 && !kept.is_answered;
        let unsettled = self.kept.iter().take(sent).filter(waits).count();
        assert!(self.is_gone || unsettled == self.unsettled as usize, "operations to ask about");
        assert!(self.kept.get(0).is_none_or(|kept| kept.awaits != 0), "what has ended is gone");
        let is_unsent = |kept: &Kept| (kept.awaits != 0) != kept.has_failed && kept.places == 0;
        assert!(self.kept.iter().skip(sent).all(is_unsent), "none ends unsent, or has places");
    }
}
