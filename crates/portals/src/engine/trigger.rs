//! A triggered get that goes where a message came from: an extension, not in
//! Portals 4 (`docs/offload.md`).
//!
//! The arguments of a triggered operation are fixed when it is posted, so a
//! receive from any source cannot prepare its get: it does not know whom to ask.
//! [`crate::Command::GetFromHeader`] leaves two of them open, the process and
//! the match bits. They are those of the message that its counter counted last;
//! so a counter is to be fed by one entry that is used once.
//!
//! Nobody gains a right by it: the get asks the process that sent the message
//! for what that process exposes.

use crate::engine::ni::Ni;
use crate::objects::command::{Command, Target};
use crate::objects::ct::{Ct, CtEvent, HeaderNote};
use crate::objects::limits::PtlError;
use crate::table::Handle;
use sluice_link::Port;

/// Whether there is [`Command::GetFromHeader`]. Without it the engine is Portals
/// and nothing else.
pub const GET_FROM_HEADER: bool = true;

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
        Ni::check_from_header(&command, true)?;
        let counter = self.cts.get_mut(ct).ok_or(PtlError::ArgInvalid("counter"))?;
        if self.triggered_now >= self.limits.triggered_ops_max {
            return Err(PtlError::NoSpace("triggered operations"));
        }
        self.triggered_now += 1;
        let age = self.next_age;
        self.next_age += 1;
        counter.triggered.insert((threshold, age), Box::new(command));
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
        self.triggered_now -= counter.triggered.len() as u32;
        counter.triggered.clear();
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

    #[cold]
    fn fire_ripe<P: Port>(&mut self, port: &mut P) {
        while let Some(ct) = self.ripe.pop_front() {
            if let Some(counter) = self.cts.get_mut(ct) {
                counter.is_ripe = false;
            }
            // A command may change its own counter, so each is looked for anew.
            while let Some(counter) = self.cts.get_mut(ct)
                && counter.is_due()
                && let Some((_, command)) = counter.triggered.pop_first()
            {
                let command = counter.resolve(&command);
                self.triggered_now -= 1;
                // What it names may have been released since; it is void then.
                if self.check_command(&command).is_ok() {
                    self.perform(port, &command);
                }
            }
        }
    }

    /// Puts a counter down for [`Ni::fire`] if something is due.
    #[inline]
    pub(crate) fn note_ripe(&mut self, ct: Handle<Ct>) {
        if let Some(counter) = self.cts.get_mut(ct)
            && !counter.is_ripe
            && counter.is_due()
        {
            counter.is_ripe = true;
            self.ripe.push_back(ct);
        }
    }

    pub(crate) fn ct_change(&mut self, ct: Handle<Ct>, change: impl FnOnce(&mut CtEvent)) {
        if let Some(counter) = self.cts.get_mut(ct) {
            change(&mut counter.value);
            self.note_ripe(ct);
        }
    }

    /// Such a command waits for a counter, if there is such a command.
    pub(crate) fn check_from_header(command: &Command, waits: bool) -> Result<(), PtlError> {
        match command {
            Command::GetFromHeader { .. } if !GET_FROM_HEADER => {
                Err(PtlError::ArgInvalid("gets from headers are not built in"))
            }
            Command::GetFromHeader { .. } if !waits => {
                Err(PtlError::ArgInvalid("only a counter knows a header"))
            }
            _ => Ok(()),
        }
    }
}

impl Ct {
    /// A command as it is done when this counter sets it off. One that wants a
    /// header stays what it is if no message was counted.
    pub(crate) fn resolve(&self, command: &Command) -> Command {
        match (*command, self.header) {
            (Command::GetFromHeader { into, pt_index, remote_offset, user_ptr }, Some(note)) => {
                let HeaderNote { peer, match_bits } = note;
                let target = Target { peer, pt_index, match_bits, remote_offset };
                Command::Get { into, target, user_ptr }
            }
            (command, _) => command,
        }
    }
}
