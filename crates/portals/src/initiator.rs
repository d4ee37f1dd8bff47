//! What this process starts: puts and gets (Portals 4, section 3.15), and what
//! their answers mean.

use crate::event::{Event, EventKind, NiFail};
use crate::limits::PtlError;
use crate::md::Md;
use crate::ni::{Ni, rail_failure};
use crate::table::Handle;
use sluice_link::{PeerError, Port, RailError, SendError, Token, Transmitted};
use sluice_wire::{
    Ack, AckKind, Addr, Get, GetDone, MatchBits, Packet, PeerId, PtIndex, Put, Region, Rts, Status,
    slots_for,
};

/// Where an operation aims.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// The process.
    pub peer: PeerId,
    /// Its portal table entry.
    pub pt_index: PtIndex,
    /// Bits that select the entry.
    pub match_bits: MatchBits,
    /// Offset in the entry in bytes.
    pub remote_offset: u64,
}

/// What a put carries besides its bytes.
#[derive(Clone, Copy, Debug, Default)]
pub struct PutExtras {
    /// The acknowledgement wanted.
    pub ack: Option<AckKind>,
    /// Out-of-band data.
    pub hdr_data: u64,
    /// A byte for the layer above.
    pub user: u8,
    /// Announces data instead of carrying it.
    pub rts: Option<Rts>,
}

/// An operation whose end is awaited.
#[derive(Debug)]
pub(crate) struct Operation {
    pub peer: PeerId,
    pub pt_index: PtIndex,
    pub md: Handle<Md>,
    pub user_ptr: u64,
    pub stage: Stage,
}

/// What an operation waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// The rail to have read the put's memory; then perhaps for an
    /// acknowledgement, unless the target was faster with it.
    Transmit { then_ack: Option<AckKind>, length: u64, acked: Option<Ack> },
    /// The put's acknowledgement.
    Ack { kind: AckKind, length: u64 },
    /// The bytes of a get, by a reply that has slots set aside.
    Reply { into: Region, slots: u32 },
    /// The bytes of a get, read by the rail.
    Read { into: Region },
    /// The rail to have read the memory of a reply that this process sends.
    Answer,
}

impl Ni {
    /// Puts `length` bytes of `md` at `local_offset` (`PtlPut`). Returns
    /// whether the memory may be reused already; if not, a send event follows.
    ///
    /// # Errors
    /// [`PtlError`]; nothing was sent then.
    #[inline(always)]
    #[expect(clippy::too_many_arguments, reason = "the shape of PtlPut")]
    pub fn put<P: Port>(
        &mut self,
        port: &mut P,
        md: Handle<Md>,
        local_offset: u64,
        length: u64,
        target: &Target,
        extras: &PutExtras,
        user_ptr: u64,
    ) -> Result<Transmitted, PtlError> {
        let descriptor = self.mds.get(md).ok_or(PtlError::ArgInvalid("memory descriptor"))?;
        let payload = descriptor
            .part(local_offset, length)
            .ok_or(PtlError::ArgInvalid("beyond the memory descriptor"))?;
        if length > u64::from(u32::MAX) {
            return Err(PtlError::ArgInvalid("a put carries at most 4 GiB; announce it instead"));
        }
        if self.operations.is_full() {
            return Err(PtlError::NoSpace("operations"));
        }
        // The handle is only used up if something remains to be awaited.
        let handle = self.operations.next_handle();
        let packet = Packet::Put(Put {
            pt_index: target.pt_index,
            match_bits: target.match_bits,
            hdr_data: extras.hdr_data,
            user: extras.user,
            remote_offset: target.remote_offset,
            ack: extras.ack.map(|kind| (kind, handle.to_u64())),
            rts: extras.rts,
        });
        let transmitted =
            self.links.send_data(port, target.peer, &packet, payload, Token(handle.to_u64()))?;
        let stage = match (transmitted, extras.ack) {
            (Transmitted::Done, None) => None,
            (Transmitted::Done, Some(kind)) => Some(Stage::Ack { kind, length }),
            (Transmitted::Pending, then_ack) => {
                Some(Stage::Transmit { then_ack, length, acked: None })
            }
        };
        if let Some(stage) = stage {
            let (peer, pt_index) = (target.peer, target.pt_index);
            let inserted =
                self.operations.insert(Operation { peer, pt_index, md, user_ptr, stage });
            assert!(inserted.is_ok_and(|inserted| inserted == handle), "room was checked above");
        }
        if transmitted == Transmitted::Done {
            self.sent(md, target, length, user_ptr, false);
        }
        Ok(transmitted)
    }

    /// Gets `length` bytes into `md` at `local_offset` (`PtlGet`); a reply
    /// event follows. With `from`, the address of the target entry's memory as
    /// announced by its owner, and a rail that can read it, the bytes are read
    /// directly and the target takes no part; else at most
    /// [`Ni::get_bytes_max`] bytes can be asked for.
    ///
    /// # Errors
    /// [`PtlError`]; nothing was asked for then. [`PtlError::NoCredit`] also
    /// if no room is left for the reply.
    #[expect(clippy::too_many_arguments, reason = "the shape of PtlGet")]
    pub fn get<P: Port>(
        &mut self,
        port: &mut P,
        md: Handle<Md>,
        local_offset: u64,
        length: u64,
        target: &Target,
        from: Option<Addr>,
        user_ptr: u64,
    ) -> Result<(), PtlError> {
        let descriptor = self.mds.get(md).ok_or(PtlError::ArgInvalid("memory descriptor"))?;
        let into = descriptor
            .part(local_offset, length)
            .ok_or(PtlError::ArgInvalid("beyond the memory descriptor"))?;
        if self.operations.is_full() {
            return Err(PtlError::NoSpace("operations"));
        }
        let direct = from.filter(|_| port.can_read(target.peer));
        let slots = if direct.is_some() {
            0
        } else {
            if length > self.get_bytes_max() {
                return Err(PtlError::ArgInvalid("a get's reply must fit the reply region"));
            }
            reply_slots(length)
        };
        if !self.links.reserve_reply(slots) {
            return Err(PtlError::NoCredit { need: slots, have: 0 });
        }
        let stage = match direct {
            Some(_) => Stage::Read { into },
            None => Stage::Reply { into, slots },
        };
        let handle = self
            .operations
            .insert(Operation { peer: target.peer, pt_index: target.pt_index, md, user_ptr, stage })
            .map_err(|_| PtlError::NoSpace("operations"))?;
        if let Some(from) = direct {
            let from = from.offset(target.remote_offset);
            port.read_remote(target.peer, from, into, Token(handle.to_u64()));
            return Ok(());
        }
        let packet = Packet::Get(Get {
            pt_index: target.pt_index,
            match_bits: target.match_bits,
            op: handle.to_u64(),
            remote_offset: target.remote_offset,
            length,
        });
        if let Err(error) = self.links.send_control(port, target.peer, &packet) {
            self.operations.remove(handle);
            self.links.release_reply(slots);
            return Err(error.into());
        }
        Ok(())
    }

    /// Tells the target of earlier gets that all that is wanted of its entry
    /// has been fetched (FIN).
    ///
    /// # Errors
    /// [`PtlError::NoCredit`]: try again after progress; [`PtlError::Peer`].
    pub fn get_done<P: Port>(
        &mut self,
        port: &mut P,
        target: &Target,
        length: u64,
        status: Status,
    ) -> Result<(), PtlError> {
        let packet = Packet::GetDone(GetDone {
            pt_index: target.pt_index,
            match_bits: target.match_bits,
            length,
            status,
        });
        Ok(self.links.send_control(port, target.peer, &packet)?)
    }

    /// The rail has read the memory of a packet.
    pub fn on_transmitted(&mut self, token: Token) {
        let handle = Handle::from_u64(token.0);
        let Some(operation) = self.operations.get_mut(handle) else { return };
        let Stage::Transmit { then_ack, length, acked } = operation.stage else {
            if operation.stage == Stage::Answer {
                self.operations.remove(handle);
            }
            return;
        };
        let (md, user_ptr) = (operation.md, operation.user_ptr);
        let target = Target {
            peer: operation.peer,
            pt_index: operation.pt_index,
            match_bits: MatchBits(0),
            remote_offset: 0,
        };
        match then_ack {
            Some(kind) => operation.stage = Stage::Ack { kind, length },
            None => {
                self.operations.remove(handle);
            }
        }
        self.sent(md, &target, length, user_ptr, true);
        if let Some(ack) = acked {
            self.on_ack(target.peer, &ack);
        }
    }

    /// The rail has read remote memory, or could not.
    pub fn on_moved(&mut self, token: Token, outcome: Result<(), RailError>) {
        let handle = Handle::from_u64(token.0);
        let Some(operation) = self.operations.get(handle) else { return };
        let Stage::Read { into } = operation.stage else { return };
        let operation = self.operations.remove(handle).expect("looked up above");
        self.replied(&operation, into, into.len, outcome.map_err(rail_failure));
    }

    /// An acknowledgement has arrived. False if it answers nothing that was
    /// asked of this peer.
    pub(crate) fn on_ack(&mut self, peer: PeerId, ack: &Ack) -> bool {
        let handle = Handle::from_u64(ack.op);
        let stage = self.operations.get(handle).filter(|op| op.peer == peer).map(|op| op.stage);
        let (kind, length) = match stage {
            Some(Stage::Ack { kind, length }) => (kind, length),
            Some(Stage::Transmit { then_ack: Some(kind), length, acked: None }) => {
                // The target has it all, but the rail has not said so yet: the
                // memory is not free before it does.
                if let Some(operation) = self.operations.get_mut(handle) {
                    operation.stage =
                        Stage::Transmit { then_ack: Some(kind), length, acked: Some(*ack) };
                }
                return true;
            }
            _ => return false,
        };
        let operation = self.operations.remove(handle).expect("looked up above");
        self.acked(&operation, kind, length, ack.mlength.min(length), NiFail::check(ack.status));
        true
    }

    /// A reply has arrived; its payload is in the packet being handled. False
    /// if it answers nothing that was asked of this peer, or with more bytes.
    pub(crate) fn on_reply<P: Port>(
        &mut self,
        port: &mut P,
        peer: PeerId,
        op: u64,
        status: Status,
        payload_len: u32,
    ) -> bool {
        let handle = Handle::from_u64(op);
        let stage = self.operations.get(handle).filter(|op| op.peer == peer).map(|op| op.stage);
        let Some(Stage::Reply { into, slots }) = stage else { return false };
        if u64::from(payload_len) > into.len {
            return false;
        }
        let operation = self.operations.remove(handle).expect("looked up above");
        self.links.release_reply(slots);
        if payload_len > 0 {
            port.copy_payload(0, into.addr, payload_len);
        }
        self.replied(&operation, into, u64::from(payload_len), NiFail::check(status));
        true
    }

    /// Ends every operation on a peer that is gone, and forgets its link. The
    /// events say why. Reads are not touched: the rail reports their end.
    pub fn on_peer_gone(&mut self, peer: PeerId, why: PeerError) {
        self.links.drop_peer(peer, why);
        self.owed.retain(|owed| owed.peer != peer);
        let failed = Err(NiFail::Undeliverable(why));
        let doomed: Vec<_> = self
            .operations
            .iter()
            .filter(|(_, op)| op.peer == peer && !matches!(op.stage, Stage::Read { .. }))
            .map(|(handle, _)| handle)
            .collect();
        for handle in doomed {
            let Some(operation) = self.operations.remove(handle) else { continue };
            match operation.stage {
                Stage::Ack { kind, length } => self.acked(&operation, kind, length, 0, failed),
                Stage::Reply { into, slots } => {
                    self.links.release_reply(slots);
                    self.replied(&operation, into, 0, failed);
                }
                Stage::Transmit { length, .. } => {
                    if let Some(&md) = self.mds.get(operation.md).filter(|md| md.options.ct_send) {
                        self.count(md.ct, false, None);
                    }
                    let mut event =
                        Event::new(EventKind::Send, operation.pt_index, peer, operation.user_ptr);
                    event.rlength = length;
                    event.outcome = failed;
                    self.post(self.mds.get(operation.md).and_then(|md| md.eq), event);
                }
                Stage::Answer | Stage::Read { .. } => {}
            }
        }
    }

    #[inline]
    fn sent(
        &mut self,
        md: Handle<Md>,
        target: &Target,
        length: u64,
        user_ptr: u64,
        was_pending: bool,
    ) {
        let Some(&descriptor) = self.mds.get(md) else { return };
        let options = descriptor.options;
        if options.ct_send {
            self.count(descriptor.ct, true, options.ct_bytes.then_some(length));
        }
        let told = options.event_send_if_pending && !was_pending;
        if !told && !options.event_send_disable && !options.event_success_disable {
            let mut event = Event::new(EventKind::Send, target.pt_index, target.peer, user_ptr);
            event.rlength = length;
            event.mlength = length;
            self.post(descriptor.eq, event);
        }
    }

    fn acked(
        &mut self,
        operation: &Operation,
        kind: AckKind,
        length: u64,
        mlength: u64,
        outcome: Result<(), NiFail>,
    ) {
        let Some(&descriptor) = self.mds.get(operation.md) else { return };
        let options = descriptor.options;
        if options.ct_ack {
            // Completed is also what the target dropped, but not what it never
            // answered.
            let completed = kind == AckKind::OperationCompleted
                && !matches!(outcome, Err(NiFail::Undeliverable(_)));
            let ok = outcome.is_ok() || completed;
            self.count(descriptor.ct, ok, options.ct_bytes.then_some(mlength));
        }
        let wanted = kind == AckKind::Full && !(outcome.is_ok() && options.event_success_disable);
        if wanted {
            let mut event =
                Event::new(EventKind::Ack, operation.pt_index, operation.peer, operation.user_ptr);
            event.rlength = length;
            event.mlength = mlength;
            event.outcome = outcome;
            self.post(descriptor.eq, event);
        }
    }

    fn replied(
        &mut self,
        operation: &Operation,
        into: Region,
        mlength: u64,
        outcome: Result<(), NiFail>,
    ) {
        let Some(&descriptor) = self.mds.get(operation.md) else { return };
        let options = descriptor.options;
        if options.ct_reply {
            self.count(descriptor.ct, outcome.is_ok(), options.ct_bytes.then_some(mlength));
        }
        if outcome.is_ok() && options.event_success_disable {
            return;
        }
        let mut event =
            Event::new(EventKind::Reply, operation.pt_index, operation.peer, operation.user_ptr);
        event.rlength = into.len;
        event.mlength = mlength;
        event.start = into.addr;
        event.outcome = outcome;
        self.post(descriptor.eq, event);
    }
}

/// Slots that the reply to a get of `length` bytes takes.
pub(crate) fn reply_slots(length: u64) -> u32 {
    let reply = Packet::Reply(sluice_wire::Reply { op: 0, status: Status::Ok });
    slots_for(u64::from(reply.header_bytes()) + length)
}

/// A send that needs a credit it does not have waits; any other failure is the
/// peer's.
pub(crate) fn is_no_credit(error: &SendError) -> bool {
    matches!(error, SendError::NoCredit { .. })
}
