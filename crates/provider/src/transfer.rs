//! Operations on an endpoint, the same for tagged and untagged messages.
//! `tagged.rs` and `msg.rs` bring them into this form.

use crate::engine::Engine;
use crate::ep::{EpCore, Posted, State};
use crate::errno::Errno;
use crate::ffi::{self, fi_addr_t};
use crate::info;
use libc::{c_void, iovec};
use sluice_proto::{Delivery, Probe, ProbeAction, Recv, Send, Space};
use sluice_wire::{Addr, PeerId, Region};

/// Flags that a send may carry. FI_MORE and FI_PRIORITY are hints, and every
/// send is complete no earlier than FI_TRANSMIT_COMPLETE asks.
const SEND_FLAGS: u64 =
    info::TX_OP_FLAGS | ffi::FI_REMOTE_CQ_DATA | ffi::FI_MORE | ffi::FI_PRIORITY | ffi::FI_FENCE;

/// Flags that a receive may carry.
const RECV_FLAGS: u64 =
    info::RX_OP_FLAGS | ffi::FI_PEEK | ffi::FI_CLAIM | ffi::FI_DISCARD | ffi::FI_MORE;

/// What makes a receive more than one that takes one message.
const SPECIAL: u64 = ffi::FI_PEEK | ffi::FI_CLAIM | ffi::FI_DISCARD | ffi::FI_MULTI_RECV;

/// What matching looks at.
#[derive(Clone, Copy, Debug)]
pub struct Match {
    pub space: Space,
    pub peer: fi_addr_t,
    pub tag: u64,
    pub ignore: u64,
}

/// The flags of an operation.
#[derive(Clone, Copy, Debug)]
pub enum Flags {
    /// Those of the endpoint.
    Default,
    /// These, and none of the endpoint's.
    Given(u64),
}

/// The bytes of a plain call.
#[inline]
pub fn buffer(buf: *const c_void, len: usize) -> Result<Region, Errno> {
    if len > info::MESSAGE_MAX {
        return Err(Errno(ffi::FI_EMSGSIZE));
    }
    Region::new(Addr(buf as u64), len as u64).ok_or(Errno::INVALID)
}

/// The bytes of a call with an array of at most one buffer.
///
/// # Safety
/// `count` entries can be read at `iov`.
#[inline]
unsafe fn gathered(iov: *const iovec, count: usize) -> Result<Region, Errno> {
    match count {
        0 => Ok(Region::EMPTY),
        1 if iov.is_null() => Err(Errno::INVALID),
        1 => {
            // SAFETY: the caller's promise.
            let iov = unsafe { &*iov };
            buffer(iov.iov_base, iov.iov_len)
        }
        _ => Err(Errno::INVALID),
    }
}

/// The bytes of a call with an array of buffers of any number, as many as are allowed.
///
/// # Safety
/// `count` entries can be read at `iov`.
pub unsafe fn pieces(iov: *const iovec, count: usize) -> Result<Vec<Region>, Errno> {
    if count > info::SIDES_MAX || (count > 0 && iov.is_null()) {
        return Err(Errno::INVALID);
    }
    // SAFETY: the caller's promise.
    let each = (0..count).map(|nth| unsafe { &*iov.add(nth) });
    each.map(|iov| buffer(iov.iov_base, iov.iov_len)).collect()
}

/// Sends a message from an array of buffers.
///
/// # Safety
/// `count` entries can be read at `iov`.
pub unsafe fn send_from(
    ep: &EpCore,
    to: Match,
    (iov, count): (*const iovec, usize),
    data: Option<u64>,
    context: *mut c_void,
    flags: Flags,
) -> Result<(), Errno> {
    if count <= 1 {
        // SAFETY: the caller's promise.
        return send(ep, to, unsafe { gathered(iov, count)? }, data, context, flags);
    }
    // SAFETY: the caller's promise.
    let pieces = unsafe { pieces(iov, count)? };
    send_bytes(ep, to, Bytes::Pieces(&pieces), data, context, flags)
}

/// What a message is sent from.
#[derive(Clone, Copy)]
enum Bytes<'a> {
    Whole(Region),
    Pieces(&'a [Region]),
}

/// Sends a message.
#[inline]
pub fn send(
    ep: &EpCore,
    to: Match,
    buf: Region,
    data: Option<u64>,
    context: *mut c_void,
    flags: Flags,
) -> Result<(), Errno> {
    send_bytes(ep, to, Bytes::Whole(buf), data, context, flags)
}

#[inline(always)]
fn send_bytes(
    ep: &EpCore,
    to: Match,
    bytes: Bytes,
    data: Option<u64>,
    context: *mut c_void,
    flags: Flags,
) -> Result<(), Errno> {
    ep.post(|state| {
        let flags = match flags {
            Flags::Default => state.tx.op_flags,
            Flags::Given(flags) if flags & !SEND_FLAGS == 0 => {
                if flags & ffi::FI_FENCE != 0 {
                    state.fence(to.peer)?;
                }
                flags
            }
            Flags::Given(_) => return Err(Errno::BAD_FLAGS),
        };
        let report = state.tx.reports(flags);
        let inject = flags & ffi::FI_INJECT != 0;
        let delivery = delivery(flags);
        let context = context as u64;
        let (buf, pieces) = match bytes {
            Bytes::Whole(buf) => (buf, None),
            Bytes::Pieces(pieces) => (Region::EMPTY, Some(pieces)),
        };
        state.send(to, pieces, |peer| Send {
            space: to.space,
            peer,
            buf,
            tag: to.tag,
            data,
            context,
            report,
            inject,
            delivery,
        })
    })
}

/// How far a message has to come for the completion level that is asked for.
fn delivery(flags: u64) -> Option<Delivery> {
    if flags & ffi::FI_MATCH_COMPLETE != 0 {
        Some(Delivery::Matched)
    } else if flags & ffi::FI_DELIVERY_COMPLETE != 0 {
        Some(Delivery::Arrived)
    } else {
        None
    }
}

/// Sends a message whose bytes are free again when this returns, and which
/// reports only failure.
#[inline]
pub fn inject(ep: &EpCore, to: Match, buf: Region, data: Option<u64>) -> Result<(), Errno> {
    ep.post(|state| {
        state.send(to, None, |peer| Send {
            space: to.space,
            peer,
            buf,
            tag: to.tag,
            data,
            context: 0,
            report: false,
            inject: true,
            delivery: None,
        })
    })
}

/// Posts a receive into an array of buffers.
///
/// # Safety
/// `count` entries can be read at `iov`.
#[inline]
pub unsafe fn recv_into(
    ep: &EpCore,
    from: Match,
    (iov, count): (*const iovec, usize),
    context: *mut c_void,
    flags: Flags,
) -> Result<(), Errno> {
    if count <= 1 {
        // SAFETY: the caller's promise.
        return recv(ep, from, unsafe { gathered(iov, count)? }, context, flags);
    }
    // SAFETY: the caller's promise.
    let pieces = unsafe { pieces(iov, count)? };
    recv_pieces(ep, from, &pieces, context, flags)
}

/// Posts a receive into several buffers.
#[cold]
fn recv_pieces(
    ep: &EpCore,
    from: Match,
    pieces: &[Region],
    context: *mut c_void,
    flags: Flags,
) -> Result<(), Errno> {
    let len = pieces.iter().fold(0_u64, |len, piece| len.saturating_add(piece.len));
    if len > info::MESSAGE_MAX as u64 {
        return Err(Errno(ffi::FI_EMSGSIZE));
    }
    ep.post(|state| {
        let flags = state.recv_flags(flags)?;
        let report = state.rx.reports(flags);
        let context = context as u64;
        match flags & SPECIAL {
            0 => {
                let (engine, source) = state.source(from.peer)?;
                let Match { space, tag, ignore, .. } = from;
                let buf = Region::EMPTY;
                let recv = Recv { space, source, buf, tag, ignore, context, report };
                engine.recv_pieces(&recv, pieces)?;
            }
            ffi::FI_CLAIM => {
                let engine = state.engine.as_mut().ok_or(Errno::BAD_STATE)?;
                engine.recv_claimed_pieces(context, pieces, report)?;
            }
            // Each message in such a buffer is told of by its address.
            special if special & ffi::FI_MULTI_RECV != 0 && from.space == Space::Untagged => {
                return Err(Errno::INVALID);
            }
            // What looks for a message or drops it needs no buffer.
            _ => return state.recv_special(from, Region::EMPTY, context, report, flags),
        }
        Ok(Posted::Taken)
    })
}

/// Posts a receive.
#[inline]
pub fn recv(
    ep: &EpCore,
    from: Match,
    buf: Region,
    context: *mut c_void,
    flags: Flags,
) -> Result<(), Errno> {
    ep.post(|state| {
        let flags = state.recv_flags(flags)?;
        let report = state.rx.reports(flags);
        let context = context as u64;
        if flags & SPECIAL != 0 {
            return state.recv_special(from, buf, context, report, flags);
        }
        let (engine, source) = state.source(from.peer)?;
        engine.recv(&Recv {
            space: from.space,
            source,
            buf,
            tag: from.tag,
            ignore: from.ignore,
            context,
            report,
        })?;
        Ok(Posted::Taken)
    })
}

impl State {
    /// Whether all earlier operations on this peer have ended, and messages to it.
    #[cold]
    fn fence(&mut self, peer: fi_addr_t) -> Result<(), Errno> {
        let engine = self.engine.as_mut().ok_or(Errno::BAD_STATE)?;
        let peer = self.peers.peer(engine, peer)?;
        if engine.is_busy_with(peer) {
            engine.poll();
        }
        if engine.is_busy_with(peer) { Err(Errno::AGAIN) } else { Ok(()) }
    }

    #[inline(always)]
    fn send(
        &mut self,
        to: Match,
        pieces: Option<&[Region]>,
        send: impl FnOnce(PeerId) -> Send,
    ) -> Result<Posted, Errno> {
        let engine = self.engine.as_mut().ok_or(Errno::BAD_STATE)?;
        let send = send(self.peers.peer(engine, to.peer)?);
        let len = pieces.map_or(send.buf.len, |pieces| pieces.iter().map(|piece| piece.len).sum());
        if send.inject && len > self.inject_bytes as u64 {
            return Err(Errno(ffi::FI_EMSGSIZE));
        }
        match pieces {
            None => engine.send(&send)?,
            Some(pieces) => engine.send_pieces(&send, pieces)?,
        }
        Ok(Posted::Taken)
    }

    /// The flags of a receive.
    #[inline(always)]
    fn recv_flags(&self, flags: Flags) -> Result<u64, Errno> {
        match flags {
            Flags::Default => Ok(self.rx.op_flags),
            Flags::Given(flags) if flags & !RECV_FLAGS == 0 => Ok(flags),
            Flags::Given(_) => Err(Errno::BAD_FLAGS),
        }
    }

    /// The sender that a receive accepts: `None` for any.
    #[inline]
    fn source(&mut self, from: fi_addr_t) -> Result<(&mut Engine, Option<PeerId>), Errno> {
        let engine = self.engine.as_mut().ok_or(Errno::BAD_STATE)?;
        if !self.directed || from == ffi::FI_ADDR_UNSPEC {
            return Ok((engine, None));
        }
        let peer = self.peers.peer(engine, from)?;
        Ok((engine, Some(peer)))
    }

    /// Looks for a message, claims one, fetches or drops a claimed one.
    fn recv_special(
        &mut self,
        from: Match,
        buf: Region,
        context: u64,
        report: bool,
        flags: u64,
    ) -> Result<Posted, Errno> {
        let has = |flag| flags & flag != 0;
        if has(ffi::FI_MULTI_RECV) {
            // Bits that name one message say nothing of a buffer for many.
            if from.space == Space::Tagged || flags & SPECIAL != ffi::FI_MULTI_RECV {
                return Err(Errno::BAD_FLAGS);
            }
            let left_min = self.multi_recv_min as u64;
            let (engine, source) = self.source(from.peer)?;
            let (space, tag, ignore) = (from.space, from.tag, from.ignore);
            let recv = Recv { space, source, buf, tag, ignore, context, report };
            engine.recv_many(&recv, left_min)?;
            return Ok(Posted::Taken);
        }
        let (peek, claim, discard) = (has(ffi::FI_PEEK), has(ffi::FI_CLAIM), has(ffi::FI_DISCARD));
        let action = match (peek, claim, discard) {
            (true, false, false) => ProbeAction::Peek,
            (true, true, false) => ProbeAction::Claim,
            (true, false, true) => ProbeAction::Discard,
            (false, true, false) => {
                let engine = self.engine.as_mut().ok_or(Errno::BAD_STATE)?;
                engine.recv_claimed(context, buf, report)?;
                return Ok(Posted::Taken);
            }
            (false, true, true) => {
                let engine = self.engine.as_mut().ok_or(Errno::BAD_STATE)?;
                engine.discard_claimed(context, report)?;
                return Ok(Posted::Taken);
            }
            _ => return Err(Errno::INVALID),
        };
        let (engine, source) = self.source(from.peer)?;
        engine.probe(&Probe {
            space: from.space,
            source,
            tag: from.tag,
            ignore: from.ignore,
            context,
            action,
        })?;
        Ok(Posted::Looked)
    }
}
