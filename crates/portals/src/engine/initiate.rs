//! What this process starts: puts and gets (Portals 4, section 3.15).

use crate::engine::ni::Ni;
use crate::objects::command::{Local, PutExtras, Target};
use crate::objects::event::NiFail;
use crate::objects::limits::PtlError;
use crate::objects::md::Md;
use crate::objects::operation::{AnswerBy, LongGets, Operation, Stage, Told, reply_slots};
use crate::objects::vector::Span;
use crate::table::Handle;
use sluice_link::{Port, Remote, Rights, SendError, Token, Transmitted};
use sluice_wire::{
    AckKind, Atomic, Bulk, Get, GetDone, Packet, PeerId, Plain, Put, Region, RemoteKey, Status,
};

impl Ni {
    /// Puts `length` bytes of `md` at `local_offset` in one packet (`PtlPut`).
    /// Returns whether the memory may be reused already; if not, a send event
    /// follows. For descriptors without a vector whose memory the client
    /// vouches for; [`Ni::issue`] takes all.
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
        let payload = self.checked_payload(md, local_offset, length)?;
        self.send_put(port, md, payload, None, target, extras, user_ptr)
    }

    /// Puts memory that the client vouches for, in one packet without options. Of one that
    /// is out nothing is told; if the memory may not be reused yet, a send event of `md`
    /// follows.
    ///
    /// # Errors
    /// [`PtlError`]; nothing was sent then.
    #[inline(always)]
    pub fn put_plain<P: Port>(
        &mut self,
        port: &mut P,
        md: Handle<Md>,
        payload: Region,
        peer: PeerId,
        plain: &Plain,
        user_ptr: u64,
    ) -> Result<Transmitted, PtlError> {
        if self.operations.is_full() {
            return Err(PtlError::NoSpace("operations"));
        }
        let token = Token(self.operations.next_handle().to_u64());
        let transmitted = self.links.send_plain(port, peer, plain, payload, token)?;
        if transmitted == Transmitted::Pending {
            let length = payload.len;
            let stage = Stage::Transmit { then_ack: None, length, acked: None, staged: None };
            let pt_index = plain.pt_index;
            let begun = self.begin(Operation { peer, pt_index, md, user_ptr, stage });
            assert!(begun.is_some(), "room was checked before");
        }
        Ok(transmitted)
    }

    /// Whether [`Ni::put`] would put this now: for who has to do something before
    /// that cannot be undone. It does then, unless the interface is called between.
    ///
    /// # Errors
    /// The one that it would give.
    pub fn check_put<P: Port>(
        &mut self,
        port: &mut P,
        md: Handle<Md>,
        local_offset: u64,
        length: u64,
        target: &Target,
        extras: &PutExtras,
    ) -> Result<(), PtlError> {
        self.checked_payload(md, local_offset, length)?;
        let packet = put_packet(target, extras, 0);
        Ok(self.links.check_data(port, target.peer, &packet, length)?)
    }

    /// The memory of a put that there is room for.
    #[inline(always)]
    fn checked_payload(
        &self,
        md: Handle<Md>,
        local_offset: u64,
        length: u64,
    ) -> Result<Region, PtlError> {
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
        Ok(payload)
    }

    #[inline(always)]
    #[expect(clippy::too_many_arguments, reason = "the shape of PtlPut")]
    fn send_put<P: Port>(
        &mut self,
        port: &mut P,
        md: Handle<Md>,
        payload: Region,
        staged: Option<Region>,
        target: &Target,
        extras: &PutExtras,
        user_ptr: u64,
    ) -> Result<Transmitted, PtlError> {
        let length = payload.len;
        // The handle is only used up if something remains to be awaited.
        let handle = self.operations.next_handle();
        let packet = put_packet(target, extras, handle.to_u64());
        let token = Token(handle.to_u64());
        let transmitted = self.send_operation(port, target.peer, &packet, payload, token)?;
        self.transmitted(transmitted, md, length, extras.ack, staged, target, user_ptr);
        Ok(transmitted)
    }

    /// Sends a put or an atomic operation by the credits that it says.
    #[inline(always)]
    pub(crate) fn send_operation<P: Port>(
        &mut self,
        port: &mut P,
        peer: PeerId,
        packet: &Packet,
        payload: Region,
        token: Token,
    ) -> Result<Transmitted, SendError> {
        match packet {
            Packet::Put(Put { by_control: true, .. })
            | Packet::Atomic(Atomic { by_control: true, .. }) => {
                self.links.send_by_control(port, peer, packet, payload, token)
            }
            _ => self.links.send_data(port, peer, packet, payload, token),
        }
    }

    /// What follows a put or an atomic operation without answer that is out.
    #[inline(always)]
    #[expect(clippy::too_many_arguments, reason = "the parts of an operation")]
    pub(crate) fn transmitted(
        &mut self,
        transmitted: Transmitted,
        md: Handle<Md>,
        length: u64,
        ack: Option<AckKind>,
        staged: Option<Region>,
        target: &Target,
        user_ptr: u64,
    ) {
        let stage = match (transmitted, ack) {
            (Transmitted::Done, None) => None,
            (Transmitted::Done, Some(kind)) => Some(Stage::Ack { kind, length }),
            (Transmitted::Pending, then_ack) => {
                Some(Stage::Transmit { then_ack, length, acked: None, staged })
            }
        };
        if let Some(stage) = stage {
            let (peer, pt_index) = (target.peer, target.pt_index);
            let begun = self.begin(Operation { peer, pt_index, md, user_ptr, stage });
            assert!(begun.is_some(), "room was checked before");
        }
        if transmitted == Transmitted::Done && self.mds.get(md).is_none_or(Md::minds_sent) {
            self.sent(md, target.peer, target.pt_index, length, user_ptr, false, Ok(()));
        }
    }

    /// A put of any length from any descriptor.
    #[inline(always)]
    pub(crate) fn start_put<P: Port>(
        &mut self,
        port: &mut P,
        from: &Local,
        staged: Option<Region>,
        target: &Target,
        extras: &PutExtras,
        told: Told,
    ) -> Result<(), PtlError> {
        let span = self.span_of(from).ok_or(PtlError::ArgInvalid("memory descriptor"))?;
        if span.len > self.carried_bytes_max(extras) {
            return self.expose_put(port, span, target, extras, told);
        }
        let flat = staged.or(span.flat());
        if staged.is_none() && !self.is_readable(port, span) {
            if self.mds.get(told.md).is_none() {
                self.kept_unreadable(told.user_ptr);
                return Ok(());
            }
            self.fail_put(told.md, target, span.len, extras.ack, told.user_ptr, NiFail::Segv);
            return Ok(());
        }
        match flat {
            Some(payload) if staged.is_none() => {
                self.send_put(port, told.md, payload, None, target, extras, told.user_ptr)?;
            }
            Some(payload) => {
                // The copy belongs to the command that waited; the rail must
                // be done with it before that gives it back.
                let own = self.gather(port, Span::new(payload, None, 0, payload.len));
                self.send_staged(port, own, target, extras, told)?;
            }
            None if span.len == 0 => {
                self.send_put(port, told.md, Region::EMPTY, None, target, extras, told.user_ptr)?;
            }
            None => {
                let own = self.gather(port, span);
                self.send_staged(port, own, target, extras, told)?;
            }
        }
        Ok(())
    }

    /// Most bytes that such a put carries.
    #[inline(always)]
    fn carried_bytes_max(&self, extras: &PutExtras) -> u64 {
        let eager_bytes_max = u64::from(self.limits.eager_bytes_max);
        if extras.by_control {
            eager_bytes_max.min(Ni::BY_CONTROL_BYTES_MAX)
        } else {
            eager_bytes_max
        }
    }

    /// A put from memory that the port has lent for it.
    fn send_staged<P: Port>(
        &mut self,
        port: &mut P,
        staged: Region,
        target: &Target,
        extras: &PutExtras,
        told: Told,
    ) -> Result<(), PtlError> {
        let Told { md, user_ptr } = told;
        let sent = self.send_put(port, md, staged, Some(staged), target, extras, user_ptr);
        if sent != Ok(Transmitted::Pending) {
            port.give_back(staged.addr, staged.len as u32);
        }
        sent.map(|_| ())
    }

    /// A put whose data the target fetches.
    fn expose_put<P: Port>(
        &mut self,
        port: &mut P,
        span: Span,
        target: &Target,
        extras: &PutExtras,
        told: Told,
    ) -> Result<(), PtlError> {
        let kind = extras.ack.unwrap_or(AckKind::Silent);
        let handle = self.operations.next_handle();
        // What lies in pieces is pulled.
        let expose = |region| port.expose(target.peer, region, Rights::READ);
        let key = span.flat().map_or(RemoteKey::NONE, expose);
        let packet = Packet::Put(Put {
            pt_index: target.pt_index,
            match_bits: target.match_bits,
            hdr_data: extras.hdr_data,
            user: extras.user,
            remote_offset: target.remote_offset,
            ack: Some((kind, handle.to_u64())),
            rts: None,
            bulk: Some(Bulk { len: span.len as u32, from: key }),
            by_control: extras.by_control,
        });
        let sent = self.send_operation(port, target.peer, &packet, Region::EMPTY, Token(0));
        if let Err(error) = sent {
            if key.is_some() {
                port.revoke(target.peer, key);
            }
            return Err(error.into());
        }
        let (peer, pt_index) = (target.peer, target.pt_index);
        let Told { md, user_ptr } = told;
        let stage = Stage::Exposed { kind, span, key };
        let begun = self.begin(Operation { peer, pt_index, md, user_ptr, stage });
        assert!(begun == Some(handle), "room was checked before");
        Ok(())
    }

    /// Gets `length` bytes into `md` at `local_offset` (`PtlGet`); a reply
    /// event follows. With `from`, the key to the target entry's memory as
    /// announced by its owner, and a rail that can read it, the bytes are read
    /// directly and the target takes no part; else at most
    /// [`Ni::get_bytes_max`] bytes can be asked for. For descriptors without a
    /// vector whose memory the client vouches for; [`Ni::issue`] takes all.
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
        from: Option<RemoteKey>,
        user_ptr: u64,
    ) -> Result<(), PtlError> {
        let descriptor = self.mds.get(md).ok_or(PtlError::ArgInvalid("memory descriptor"))?;
        let into = descriptor
            .part(local_offset, length)
            .ok_or(PtlError::ArgInvalid("beyond the memory descriptor"))?;
        if self.operations.is_full() {
            return Err(PtlError::NoSpace("operations"));
        }
        let Some(from) = from.filter(|_| port.caps(target.peer).read) else {
            if length > self.get_bytes_max() {
                return Err(PtlError::ArgInvalid("a get's reply must fit the reply region"));
            }
            let slots = reply_slots(length);
            let span = Span::new(into, None, 0, length);
            return self.send_get(port, md, span, slots, AnswerBy::Reply, target, user_ptr);
        };
        let (peer, pt_index) = (target.peer, target.pt_index);
        let stage = Stage::Read { into };
        let handle = self
            .begin(Operation { peer, pt_index, md, user_ptr, stage })
            .ok_or(PtlError::NoSpace("operations"))?;
        let from = Remote { key: from, offset: target.remote_offset };
        port.read_remote(peer, from, into, Token(handle.to_u64()));
        Ok(())
    }

    #[expect(clippy::too_many_arguments, reason = "the parts of a get")]
    fn send_get<P: Port>(
        &mut self,
        port: &mut P,
        md: Handle<Md>,
        span: Span,
        slots: u32,
        by: AnswerBy,
        target: &Target,
        user_ptr: u64,
    ) -> Result<(), PtlError> {
        if !self.links.reserve_reply(slots) {
            return Err(PtlError::NoCredit { need: slots, have: 0 });
        }
        let handle = self.operations.next_handle();
        let into = match by {
            AnswerBy::Reply => RemoteKey::NONE,
            AnswerBy::Offer => RemoteKey::OFFER,
            AnswerBy::Write(key) => key,
        };
        let packet = Packet::Get(Get {
            pt_index: target.pt_index,
            match_bits: target.match_bits,
            op: handle.to_u64(),
            remote_offset: target.remote_offset,
            length: span.len,
            into,
        });
        if let Err(error) = self.links.send_control(port, target.peer, &packet) {
            self.links.release_reply(slots);
            return Err(error.into());
        }
        let (peer, pt_index) = (target.peer, target.pt_index);
        let stage = Stage::Reply { into: span, slots, by };
        let begun = self.begin(Operation { peer, pt_index, md, user_ptr, stage });
        assert!(begun == Some(handle), "room was checked before");
        Ok(())
    }

    /// A get of any length into any descriptor.
    pub(crate) fn start_get<P: Port>(
        &mut self,
        port: &mut P,
        into: &Local,
        target: &Target,
        told: Told,
    ) -> Result<(), PtlError> {
        let Told { md, user_ptr } = told;
        let span = self.span_of(into).ok_or(PtlError::ArgInvalid("memory descriptor"))?;
        let inline_max = u64::from(self.limits.eager_bytes_max).min(self.get_bytes_max());
        let asked = self.long_gets.get(&target.peer).map_or(0, |gets| gets.asked);
        if span.len > inline_max && asked >= LongGets::MAX {
            return Err(PtlError::NoCredit { need: 1, have: 0 });
        }
        if span.len <= inline_max {
            let slots = reply_slots(span.len);
            return self.send_get(port, md, span, slots, AnswerBy::Reply, target, user_ptr);
        }
        let expose = |region| port.expose(target.peer, region, Rights::WRITE);
        let key = span.flat().map(expose).filter(|key| key.is_some());
        let by = key.map_or(AnswerBy::Offer, AnswerBy::Write);
        let sent = self.send_get(port, md, span, reply_slots(0), by, target, user_ptr);
        if let (Err(_), Some(key)) = (&sent, key) {
            port.revoke(target.peer, key);
        }
        sent
    }

    /// Tells the target of earlier gets that all that is wanted of its entry
    /// has been fetched (FIN). An extension: the entry must have the option
    /// `get_done`.
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

    /// Opens the connection to `peer`, if it is not open.
    ///
    /// # Errors
    /// [`SendError::Connecting`] if it is not open yet; why it cannot be reached.
    pub fn ensure_connected<P: Port>(
        &mut self,
        port: &mut P,
        peer: PeerId,
    ) -> Result<(), SendError> {
        self.links.ensure_connected(port, peer)
    }

    /// Sends what the layer above has to say of messages that wait for credits, and
    /// of where data is wanted.
    ///
    /// # Errors
    /// [`PtlError::NoCredit`], [`PtlError::Peer`].
    pub fn tell<P: Port>(
        &mut self,
        port: &mut P,
        peer: PeerId,
        packet: &Packet,
    ) -> Result<(), PtlError> {
        Ok(self.links.send_control(port, peer, packet)?)
    }
}

/// A put that carries its data, or announces it for the layer above; `op` is its name.
#[inline(always)]
pub(crate) fn put_packet(target: &Target, extras: &PutExtras, op: u64) -> Packet {
    Packet::Put(Put {
        pt_index: target.pt_index,
        match_bits: target.match_bits,
        hdr_data: extras.hdr_data,
        user: extras.user,
        remote_offset: target.remote_offset,
        ack: extras.ack.map(|kind| (kind, op)),
        rts: extras.rts,
        bulk: None,
        by_control: extras.by_control,
    })
}
