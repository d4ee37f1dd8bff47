//! Commands that wait for counters (Portals 4, section 3.16).

use crate::engine::ni::Ni;
use crate::objects::command::Command;
use crate::objects::ct::{Ct, CtEvent, HeaderNote};
use crate::objects::event::Event;
use crate::objects::limits::PtlError;
use crate::table::Handle;
use sluice_link::Port;
use sluice_link::mutants::{self, Mutant};

/// What [`Ni::fire`] has yet to do, the last first.
#[derive(Debug)]
pub(crate) enum Step {
    /// All that is due of a counter.
    Counter(Handle<Ct>),
    /// A command that was taken from its counter.
    Command(Box<Command>),
}

impl Ni {
    /// Keeps a command until `ct` reaches `threshold`; does it at once if it
    /// has already. Commands of equal threshold keep their order.
    ///
    /// # Errors
    /// As [`Ni::issue`]; [`PtlError::NoSpace`] also beyond the limit of
    /// triggered operations.
    pub fn trigger<P: Port>(
        &mut self,
        port: &mut P,
        command: Command,
        ct: Handle<Ct>,
        threshold: u64,
    ) -> Result<(), PtlError> {
        self.check_command(&command)?;
        let counter = self.cts.get_mut(ct).ok_or(PtlError::ArgInvalid("counter"))?;
        if self.triggers.len() >= self.limits.triggered_ops_max as usize {
            return Err(PtlError::NoSpace("triggered operations"));
        }
        self.triggers.add(ct, threshold, command);
        counter.threshold = self.triggers.first_threshold(ct);
        self.note_ripe(ct);
        self.fire(port);
        Ok(())
    }

    /// Destroys what waits for a counter (`PtlCTCancelTriggered`).
    ///
    /// # Errors
    /// [`PtlError::ArgInvalid`] for a stale counter.
    pub fn ct_cancel_triggered(&mut self, ct: Handle<Ct>) -> Result<(), PtlError> {
        let counter = self.cts.get_mut(ct).ok_or(PtlError::ArgInvalid("counter"))?;
        counter.threshold = None;
        self.triggers.cancel(ct);
        Ok(())
    }

    /// Does what counters have become ripe for. Every entry point that can
    /// count ends with it.
    #[inline(always)]
    pub(crate) fn fire<P: Port>(&mut self, port: &mut P) {
        if !self.ripe.is_empty() {
            self.fire_ripe(port);
        }
        while let Some(md) = self.released.pop() {
            self.settle_md(md);
        }
    }

    /// Depth first: what a change of a counter sets off goes before the next command of the
    /// counter that has changed it. So a threshold counts as reached also if that next command
    /// sets the counter back. What the end of an operation counts comes from outside, and
    /// waits for its turn; a command that sets such a counter waits for what is due there.
    #[cold]
    fn fire_ripe<P: Port>(&mut self, port: &mut P) {
        while let Some(ct) = self.ripe.pop_front() {
            self.chain.push(Step::Counter(ct));
            while let Some(step) = self.chain.pop() {
                let command = match step {
                    Step::Command(command) => *command,
                    // A command may change its own counter, so each is looked for anew.
                    Step::Counter(ct) => {
                        let Some(command) = self.take_due(ct) else { continue };
                        self.chain.push(Step::Counter(ct));
                        if let Some(first) = self.set_while_due(&command) {
                            self.chain.push(Step::Command(Box::new(command)));
                            self.chain.push(Step::Counter(first));
                            continue;
                        }
                        command
                    }
                };
                // What it names may have been released since; it is void then.
                if self.check_command(&command).is_ok() {
                    self.perform(port, &command);
                }
            }
        }
    }

    /// The counter that a command sets while others are due there which have not had their turn.
    fn set_while_due(&self, command: &Command) -> Option<Handle<Ct>> {
        let &Command::CtSet { ct, .. } = command else { return None };
        let is_due = self.cts.get(ct).is_some_and(Ct::is_due);
        let has_turn = self.chain.iter().any(|step| matches!(step, Step::Counter(it) if *it == ct));
        (is_due && !has_turn && !mutants::is(Mutant::FiresBreadthFirst)).then_some(ct)
    }

    fn take_due(&mut self, ct: Handle<Ct>) -> Option<Command> {
        let counter = self.cts.get_mut(ct).filter(|counter| counter.is_due())?;
        let command = self.triggers.take_first(ct)?;
        counter.threshold = self.triggers.first_threshold(ct);
        Some(command.resolved(counter.header))
    }

    /// Puts a counter down for [`Ni::fire`] if something is due.
    #[inline]
    pub(crate) fn note_ripe(&mut self, ct: Handle<Ct>) {
        if self.cts.get(ct).is_some_and(Ct::is_due) && self.ripe.back() != Some(&ct) {
            self.ripe.push_back(ct);
        }
    }

    pub(crate) fn ct_change(&mut self, ct: Handle<Ct>, change: impl FnOnce(&mut CtEvent)) {
        let Some(counter) = self.cts.get_mut(ct) else { return };
        change(&mut counter.value);
        if self.chain.is_empty() || mutants::is(Mutant::FiresBreadthFirst) {
            self.note_ripe(ct);
        } else if counter.is_due()
            && !matches!(self.chain.last(), Some(Step::Counter(last)) if *last == ct)
        {
            self.chain.push(Step::Counter(ct));
        }
    }

    /// An entry counts a message: its counter keeps from whom it is, for
    /// [`Command::GetFromHeader`].
    #[inline]
    pub(crate) fn note_header(&mut self, ct: Option<Handle<Ct>>, event: &Event) {
        if let Some(counter) = ct.and_then(|ct| self.cts.get_mut(ct)) {
            let Event { peer, match_bits, .. } = *event;
            counter.header = Some(HeaderNote { peer, match_bits });
        }
    }
}
