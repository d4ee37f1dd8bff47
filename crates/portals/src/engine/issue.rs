//! What a program asks of the interface, as data: sent at once, kept until
//! credits come, or kept until a counter reaches a threshold (Portals 4,
//! sections 3.15 and 3.16).
//!
//! Invariant: commands for one target go out in the order in which they were
//! issued. Where one waits, every later one for that target waits behind it.

use crate::arith;
use crate::engine::initiate::{PutExtras, Target};
use crate::engine::memory::Span;
use crate::engine::ni::Ni;
use crate::objects::ct::{Ct, CtEvent};
use crate::objects::event::NiFail;
use crate::objects::limits::PtlError;
use crate::objects::md::Md;
use crate::table::Handle;
use sluice_link::Port;
use sluice_wire::{AckKind, AtomicOp, Datatype, ITEM_BYTES_MAX, PeerId, PtIndex, Region};

/// A part of a memory descriptor.
#[derive(Clone, Copy, Debug)]
pub struct Local {
    /// The descriptor.
    pub md: Handle<Md>,
    /// Where the part begins in it, in bytes.
    pub offset: u64,
    /// Its length in bytes.
    pub length: u64,
}

/// What an atomic operation does.
#[derive(Clone, Copy, Debug)]
pub struct Arithmetic {
    /// The operation.
    pub op: AtomicOp,
    /// The type of the items.
    pub datatype: Datatype,
    /// The operand of conditional and masked swaps.
    pub operand: [u8; ITEM_BYTES_MAX],
}

/// An operation of the initiator, or on a counter.
#[derive(Clone, Copy, Debug)]
pub enum Command {
    /// `PtlPut`.
    Put {
        /// The bytes.
        from: Local,
        /// The acknowledgement wanted.
        ack: Option<AckKind>,
        /// Where they go.
        target: Target,
        /// Out-of-band data.
        hdr_data: u64,
        /// Returned in events.
        user_ptr: u64,
    },
    /// `PtlGet`.
    Get {
        /// Where the bytes go.
        into: Local,
        /// Where they come from.
        target: Target,
        /// Returned in events.
        user_ptr: u64,
    },
    /// `PtlGet` to the process, and with the match bits, of the message that the
    /// counter which sets it off counted last. Only triggered. An extension
    /// ([`crate::GET_FROM_HEADER`]).
    GetFromHeader {
        /// Where the bytes go.
        into: Local,
        /// The portal table entry that they come from.
        pt_index: PtIndex,
        /// Offset in the entry in bytes.
        remote_offset: u64,
        /// Returned in events.
        user_ptr: u64,
    },
    /// `PtlAtomic`.
    Atomic {
        /// The values.
        from: Local,
        /// The acknowledgement wanted.
        ack: Option<AckKind>,
        /// What they are combined with.
        target: Target,
        /// Out-of-band data.
        hdr_data: u64,
        /// Returned in events.
        user_ptr: u64,
        /// How.
        arithmetic: Arithmetic,
    },
    /// `PtlFetchAtomic` and `PtlSwap`.
    Fetch {
        /// Where the values from before go.
        into: Local,
        /// The values.
        from: Local,
        /// What they are combined with.
        target: Target,
        /// Out-of-band data.
        hdr_data: u64,
        /// Returned in events.
        user_ptr: u64,
        /// How.
        arithmetic: Arithmetic,
    },
    /// `PtlCTInc`.
    CtInc {
        /// The counter.
        ct: Handle<Ct>,
        /// What is added.
        by: CtEvent,
    },
    /// `PtlCTSet`.
    CtSet {
        /// The counter.
        ct: Handle<Ct>,
        /// Its new value.
        to: CtEvent,
    },
}

/// A command that waits for credits.
#[derive(Debug)]
pub(crate) struct Waiting {
    pub command: Command,
    /// A copy of bytes that the client may have changed since.
    pub staged: Option<Region>,
}

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
        Ni::check_from_header(command, false)?;
        let counts = matches!(command, Command::CtInc { .. } | Command::CtSet { .. });
        let under_way = self.operations.len() as usize + self.waiting_now;
        if !counts && under_way >= self.operations.entries_max() as usize {
            return Err(PtlError::NoSpace("operations"));
        }
        self.perform(port, command);
        self.fire(port);
        Ok(())
    }

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

    /// Commands that wait for credits.
    #[must_use]
    pub fn waiting_now(&self) -> usize {
        self.waiting_now
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

    /// Sends what waited for credits toward `peer`, as far as they go.
    #[cold]
    pub(crate) fn flush_waiting<P: Port>(&mut self, port: &mut P, peer: PeerId) {
        let Some(mut queue) = self.waiting.remove(&peer) else { return };
        while let Some(waiting) = queue.pop_front() {
            if !self.attempt(port, &waiting.command, waiting.staged) {
                queue.push_front(waiting);
                break;
            }
            self.waiting_now -= 1;
            self.unhold(&waiting.command);
            if let Some(staged) = waiting.staged {
                port.give_back(staged.addr, staged.len as u32);
            }
        }
        if !queue.is_empty() {
            self.waiting.insert(peer, queue);
        }
    }

    /// Sends what waited for anything, as far as it goes.
    pub(crate) fn flush_all_waiting<P: Port>(&mut self, port: &mut P) {
        let peers: Vec<PeerId> = self.waiting.keys().copied().collect();
        for peer in peers {
            self.flush_waiting(port, peer);
        }
    }

    /// Ends what waits for a peer that is gone.
    pub(crate) fn drop_waiting<P: Port>(&mut self, port: &mut P, peer: PeerId, why: NiFail) {
        let Some(queue) = self.waiting.remove(&peer) else { return };
        for waiting in queue {
            self.waiting_now -= 1;
            self.unhold(&waiting.command);
            if let Some(staged) = waiting.staged {
                port.give_back(staged.addr, staged.len as u32);
            }
            self.fail(&waiting.command, why);
        }
    }

    /// Does a command that is right in itself.
    #[inline(always)]
    fn perform<P: Port>(&mut self, port: &mut P, command: &Command) {
        let peer = match command {
            Command::CtInc { ct, by } => return self.ct_change(*ct, |value| add(value, *by)),
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
        }
    }

    #[cold]
    fn keep_waiting<P: Port>(&mut self, port: &mut P, peer: PeerId, command: &Command) {
        let volatile = match command {
            Command::Put { from, .. }
            | Command::Atomic { from, .. }
            | Command::Fetch { from, .. } => self.span_of(from).filter(|span| {
                let volatile = self.mds.get(from.md).is_some_and(|md| md.options.volatile);
                volatile && span.len > 0 && span.len <= self.limits.volatile_bytes_max()
            }),
            _ => None,
        };
        let staged = volatile
            .filter(|&span| self.is_readable(port, span))
            .map(|span| self.gather(port, span));
        self.hold(command);
        self.waiting_now += 1;
        self.waiting.entry(peer).or_default().push_back(Waiting { command: *command, staged });
    }

    /// Tries to send a command. False if it must wait for credits; every other
    /// outcome ends in events.
    #[inline(always)]
    fn attempt<P: Port>(
        &mut self,
        port: &mut P,
        command: &Command,
        staged: Option<Region>,
    ) -> bool {
        // What arrives takes room too, so there may be less than there was
        // when the command was checked.
        let need = if matches!(command, Command::Fetch { .. }) { 2 } else { 1 };
        if self.operations.len() + need > self.operations.entries_max() {
            return false;
        }
        let sent = match command {
            Command::Put { from, ack, target, hdr_data, user_ptr } => {
                let extras = PutExtras { ack: *ack, hdr_data: *hdr_data, ..PutExtras::default() };
                self.start_put(port, from, staged, target, &extras, *user_ptr)
            }
            Command::Get { into, target, user_ptr } => {
                self.start_get(port, into, target, *user_ptr)
            }
            Command::Atomic { .. } | Command::Fetch { .. } => {
                self.start_atomic(port, command, staged)
            }
            Command::CtInc { .. } | Command::CtSet { .. } | Command::GetFromHeader { .. } => Ok(()),
        };
        match sent {
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

    #[inline(always)]
    fn check_command(&self, command: &Command) -> Result<(), PtlError> {
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
            Some(AckKind::Silent) => false,
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

    fn ct_change(&mut self, ct: Handle<Ct>, change: impl FnOnce(&mut CtEvent)) {
        if let Some(counter) = self.cts.get_mut(ct) {
            change(&mut counter.value);
            self.note_ripe(ct);
        }
    }

    /// The descriptors of a command are in use while it waits.
    fn hold(&mut self, command: &Command) {
        for md in descriptors(command).into_iter().flatten() {
            if let Some(md) = self.mds.get_mut(md) {
                md.pending += 1;
            }
        }
    }

    fn unhold(&mut self, command: &Command) {
        for md in descriptors(command).into_iter().flatten() {
            self.let_go(md);
        }
    }
}

fn descriptors(command: &Command) -> [Option<Handle<Md>>; 2] {
    match command {
        Command::Put { from, .. } | Command::Atomic { from, .. } => [Some(from.md), None],
        Command::Get { into, .. } | Command::GetFromHeader { into, .. } => [Some(into.md), None],
        Command::Fetch { into, from, .. } => [Some(into.md), Some(from.md)],
        Command::CtInc { .. } | Command::CtSet { .. } => [None, None],
    }
}

fn add(value: &mut CtEvent, by: CtEvent) {
    value.success = value.success.wrapping_add(by.success);
    value.failure = value.failure.wrapping_add(by.failure);
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
