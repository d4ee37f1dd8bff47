//! Doing what a program asks: a command is checked, then sent at once or kept until
//! credits come (Portals 4, section 3.15).
//!
//! Invariant: commands for one target go out in the order in which they were
//! issued. Where one waits, every later one for that target waits behind it.

use crate::arith;
use crate::engine::keep::target_of;
use crate::engine::ni::Ni;
use crate::objects::command::{Arithmetic, Command, Local, PutExtras, Target};
use crate::objects::ct::Ct;
use crate::objects::event::NiFail;
use crate::objects::limits::PtlError;
use crate::objects::operation::Told;
use crate::objects::vector::Span;
use crate::table::Handle;
use sluice_link::Port;
use sluice_wire::{AckKind, PtIndex, Region};
use std::collections::VecDeque;

impl Ni {
    /// Does a command, now or as soon as credits allow it; events follow.
    ///
    /// # Errors
    /// [`PtlError`] if the command is wrong in itself, or
    /// [`PtlError::NoSpace`] if too many operations are under way already.
    /// Nothing has happened then.
    #[inline]
    pub fn issue<P: Port>(&mut self, port: &mut P, command: &Command) -> Result<(), PtlError> {
        self.check_command(command)?;
        if matches!(command, Command::GetFromHeader { .. }) {
            return Err(PtlError::ArgInvalid("only a counter knows a header"));
        }
        let counts = matches!(command, Command::CtInc { .. } | Command::CtSet { .. });
        let under_way = self.operations.len() as usize + self.waiting_now;
        if !counts && under_way >= self.operations.entries_max() as usize {
            return Err(PtlError::NoSpace("operations"));
        }
        if self.recovery.is_some() && self.waiting_now != 0 {
            self.check_share(command)?;
        }
        self.perform(port, command);
        self.fire(port);
        Ok(())
    }

    /// Does a command that is right in itself.
    #[inline(always)]
    pub(crate) fn perform<P: Port>(&mut self, port: &mut P, command: &Command) {
        let peer = match command {
            Command::CtInc { ct, by } => return self.ct_change(*ct, |value| value.add(*by)),
            Command::CtSet { ct, to } => return self.ct_change(*ct, |value| *value = *to),
            // No message was counted, so there is nobody to ask.
            Command::GetFromHeader { .. } => return self.fail(command, NiFail::NoMatch),
            Command::Put { target, .. }
            | Command::Get { target, .. }
            | Command::Atomic { target, .. }
            | Command::Fetch { target, .. } => target.peer,
        };
        let must_wait = self.waiting_now != 0 && self.waiting.contains_key(&peer);
        if must_wait || !self.attempt(port, command, None) {
            self.keep_waiting(port, peer, command);
            if self.limits.by_control_from.is_some() {
                // Nobody may come by to do that later, or no moment be idle.
                self.flush_waiting(port, peer);
            }
        }
    }

    /// Tries to send a command. False if it must wait for credits; every other
    /// outcome ends in events.
    #[inline(always)]
    pub(crate) fn attempt<P: Port>(
        &mut self,
        port: &mut P,
        command: &Command,
        staged: Option<Region>,
    ) -> bool {
        if self.recovery.is_some() {
            return match self.put_kept(port, command, staged) {
                Some(has_gone) => has_gone,
                None => self.attempt_kept(port, command, staged),
            };
        }
        let started = self.start(port, command, staged, 0, false);
        self.has_gone(command, started)
    }

    /// As [`Ni::attempt`], by control credits. False if it must wait on.
    #[cold]
    pub(crate) fn attempt_by_control<P: Port>(&mut self, port: &mut P, command: &Command) -> bool {
        let (is_answered, target) = match command {
            Command::Put { ack, target, .. } | Command::Atomic { ack, target, .. } => {
                (ack.is_some(), target)
            }
            Command::Fetch { target, .. } => (true, target),
            _ => return false,
        };
        if !is_answered || !self.is_by_control(target.pt_index) {
            return false;
        }
        let started = self.start(port, command, None, 0, true);
        self.has_gone(command, started)
    }

    /// Whether operations at this portal table entry may go by control credits.
    pub(crate) fn is_by_control(&self, pt_index: PtIndex) -> bool {
        self.limits.by_control_from.is_some_and(|from| pt_index >= from)
    }

    /// What came of a command that was started. False if it must wait for credits.
    #[inline(always)]
    fn has_gone(&mut self, command: &Command, started: Result<(), PtlError>) -> bool {
        match started {
            Ok(()) => true,
            Err(PtlError::NoCredit { .. }) => false,
            Err(PtlError::Peer(why)) => {
                self.fail(command, NiFail::Undeliverable(why));
                true
            }
            Err(_) => {
                // It was checked before; only what was released since is left.
                self.fail(command, NiFail::Aborted);
                true
            }
        }
    }

    /// Sends a command, one that is kept under this name if it is not zero.
    ///
    /// # Errors
    /// [`PtlError::NoCredit`] also if there is no room for what is to be awaited.
    #[inline(always)]
    pub(crate) fn start<P: Port>(
        &mut self,
        port: &mut P,
        command: &Command,
        staged: Option<Region>,
        kept: u64,
        by_control: bool,
    ) -> Result<(), PtlError> {
        // What arrives takes room too, so there may be less than there was
        // when the command was checked.
        let need = if matches!(command, Command::Fetch { .. }) { 2 } else { 1 };
        if self.operations.len() + need > self.operations.entries_max() {
            return Err(PtlError::NoCredit { need, have: 0 });
        }
        match command {
            Command::Put { from, ack, target, hdr_data, user_ptr } => {
                let (ack, hdr_data) = (*ack, *hdr_data);
                let extras = PutExtras { ack, hdr_data, by_control, ..PutExtras::default() };
                let told = Told::new(from.md, *user_ptr, kept);
                self.start_put(port, from, staged, target, &extras, told)
            }
            Command::Get { into, target, user_ptr } => {
                let told = Told::new(into.md, *user_ptr, kept);
                self.start_get(port, into, target, told)
            }
            Command::Atomic { .. } | Command::Fetch { .. } => {
                self.start_atomic(port, command, staged, kept, by_control)
            }
            Command::CtInc { .. } | Command::CtSet { .. } | Command::GetFromHeader { .. } => Ok(()),
        }
    }

    /// A peer that holds its initiator back fills no more than its share of what may wait.
    #[cold]
    fn check_share(&self, command: &Command) -> Result<(), PtlError> {
        let Some(target) = target_of(command) else { return Ok(()) };
        let waiting = self.waiting.get(&target.peer).map_or(0, VecDeque::len);
        let room = self.operations.entries_max() as usize - self.waiting_now;
        if waiting < room { Ok(()) } else { Err(PtlError::NoSpace("operations on this peer")) }
    }

    #[inline(always)]
    pub(crate) fn check_command(&self, command: &Command) -> Result<(), PtlError> {
        match command {
            Command::Put { from, target, ack, .. } => {
                self.check_local(from, u64::from(u32::MAX))?;
                self.check_source(from, *ack)?;
                self.check_target(target)
            }
            Command::Get { into, target, .. } => {
                self.check_local(into, u64::from(u32::MAX))?;
                self.check_target(target)
            }
            Command::GetFromHeader { into, pt_index, .. } => {
                self.check_local(into, u64::from(u32::MAX))?;
                self.check_pt_index(*pt_index)
            }
            Command::Atomic { from, target, arithmetic, ack, .. } => {
                self.check_local(from, u64::from(self.limits.eager_bytes_max))?;
                self.check_source(from, *ack)?;
                if arithmetic.op.is_swap() {
                    return Err(PtlError::ArgInvalid("a swap answers"));
                }
                check_arithmetic(arithmetic, from.length)?;
                self.check_target(target)
            }
            Command::Fetch { into, from, target, arithmetic, .. } => {
                let most = u64::from(self.limits.eager_bytes_max);
                self.check_local(from, most)?;
                self.check_local(into, most)?;
                if into.length != from.length {
                    return Err(PtlError::ArgInvalid("as many values come back as go out"));
                }
                check_arithmetic(arithmetic, from.length)?;
                self.check_target(target)
            }
            Command::CtInc { ct, by } => {
                if by.success != 0 && by.failure != 0 {
                    return Err(PtlError::ArgInvalid("an increment changes one of the counts"));
                }
                self.check_ct(*ct)
            }
            Command::CtSet { ct, .. } => self.check_ct(*ct),
        }
    }

    #[inline(always)]
    fn check_local(&self, local: &Local, most: u64) -> Result<(), PtlError> {
        if local.length > most {
            return Err(PtlError::ArgInvalid("longer than the limit"));
        }
        let md = self.mds.get(local.md).filter(|md| !md.is_released);
        md.and_then(|md| md.span(local.offset, local.length))
            .map(|_| ())
            .ok_or(PtlError::ArgInvalid("memory descriptor"))
    }

    /// An acknowledgement goes to the descriptor's queue or counter, and only so
    /// much can be copied at once. As in the reference implementation, completion may
    /// be asked for without a counter; then nothing is counted.
    #[inline(always)]
    fn check_source(&self, from: &Local, ack: Option<AckKind>) -> Result<(), PtlError> {
        let md = self.mds.get(from.md).ok_or(PtlError::ArgInvalid("memory descriptor"))?;
        let goes = match ack {
            None | Some(AckKind::OperationCompleted) => true,
            Some(AckKind::Full) => md.eq.is_some(),
            Some(AckKind::Count) => md.ct.is_some(),
            Some(AckKind::Silent | AckKind::Matched) => false,
        };
        if !goes {
            return Err(PtlError::ArgInvalid("an acknowledgement to nowhere"));
        }
        if md.options.volatile && from.length > self.limits.volatile_bytes_max() {
            return Err(PtlError::ArgInvalid("longer than volatile memory may be"));
        }
        Ok(())
    }

    #[inline(always)]
    fn check_target(&self, target: &Target) -> Result<(), PtlError> {
        self.check_pt_index(target.pt_index)
    }

    #[inline(always)]
    fn check_pt_index(&self, pt_index: PtIndex) -> Result<(), PtlError> {
        if pt_index.0 > self.limits.pt_index_max {
            return Err(PtlError::ArgInvalid("portal table index beyond the limit"));
        }
        Ok(())
    }

    fn check_ct(&self, ct: Handle<Ct>) -> Result<(), PtlError> {
        self.cts.get(ct).map(|_| ()).ok_or(PtlError::ArgInvalid("counter"))
    }

    #[inline(always)]
    pub(crate) fn span_of(&self, local: &Local) -> Option<Span> {
        self.mds.get(local.md)?.span(local.offset, local.length)
    }
}

fn check_arithmetic(arithmetic: &Arithmetic, length: u64) -> Result<(), PtlError> {
    let item = arithmetic.datatype.bytes() as u64;
    if !arith::is_defined(arithmetic.op, arithmetic.datatype) {
        return Err(PtlError::ArgInvalid("operation not defined for the datatype"));
    }
    if !length.is_multiple_of(item) {
        return Err(PtlError::ArgInvalid("length is no multiple of the datatype's"));
    }
    if arithmetic.op.has_operand() && length > item {
        return Err(PtlError::ArgInvalid("conditional and masked swaps take one item"));
    }
    Ok(())
}
