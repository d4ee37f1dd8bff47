//! How a send starts: eagerly, the whole message in one put, or announced
//! (`rendezvous`). Which it is says `selection`.

use crate::api::Send;
use crate::core::Core;
use crate::rendezvous::announce::start_announced;
use crate::rendezvous::speculative::{note_sent, use_rtr};
use crate::request::{SendOp, SendState, SenderCopy, Started};
use sluice_link::{Port, Transmitted};
use sluice_portals::{Handle, PtlError};
use sluice_wire::{MatchBits, PUT_INLINE_BYTES_MAX, Packet, Put, Region, slots_for};

/// Quotas smaller than this are not divided: half of them would hardly hold one
/// eager message.
const ANNOUNCEMENT_QUOTA_MIN: u32 = 256;

/// Which attempt it is to start a send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Attempt {
    /// The first one.
    First,
    /// It has waited for credits, and some have come.
    Again,
    /// As an announcement, whatever its length.
    Announced,
}

/// Sends as much of `send` as its protocol sends at once. `handle` is the
/// name that its pending send has or will have. What fails leaves no trace.
#[inline(always)]
pub(crate) fn start<P: Port>(
    core: &mut Core,
    port: &mut P,
    send: &Send,
    handle: Handle<SendOp>,
    attempt: Attempt,
) -> Result<Started, PtlError> {
    let is_announced = match attempt {
        Attempt::First => {
            is_too_long(core, port, send, |port| port.is_looking(send.peer, send.buf.len))
        }
        // Who has given credits has read.
        Attempt::Again => is_too_long(core, port, send, |_| true),
        Attempt::Announced => true,
    };
    let started = if is_announced {
        start_announced(core, port, send, handle)
    } else {
        match start_eagerly(core, port, send, handle) {
            Err(PtlError::NoCredit { need, .. })
                if is_vain(core, port, send, need)
                    || attempt == Attempt::First && is_too_much(core, port, send, need) =>
            {
                start_announced(core, port, send, handle)
            }
            started => started,
        }
    };
    if core.peers.any_rtrs() && started.is_ok() {
        note_sent(core, send.peer, send.space, send.tag);
    }
    started
}

/// Whether a message is longer than those that are sent eagerly to its peer, who `looks` or not. One
/// comparison with a number that is ready, for most.
#[inline(always)]
pub(crate) fn is_too_long<P: Port>(
    core: &Core,
    port: &mut P,
    send: &Send,
    looks: impl FnOnce(&mut P) -> bool,
) -> bool {
    send.buf.len > core.short_bytes_max && {
        let is_beyond = !send.inject && port.caps(send.peer).network;
        let config = &core.config;
        let table = if is_beyond { config.network_table() } else { config.table() };
        table.objection_to_eager(send.buf.len, true, || looks(port)).is_some()
    }
}

/// Whether a message that is eager only because its receiver looks would go when the one before was read:
/// its receiver never grants two of so many slots, and so no two copies are made at a time. Of an announced
/// one both sides copy.
#[cold]
pub(crate) fn is_vain<P: Port>(core: &Core, port: &P, send: &Send, need: u32) -> bool {
    is_for_a_look(core, port, send)
        && 2 * need + slots_for_announcements(core, send) > core.ni.data_credits_max(send.peer)
}

/// Whether such a message takes more slots than its receiver has ever given at a time.
#[cold]
fn is_too_much<P: Port>(core: &Core, port: &P, send: &Send, need: u32) -> bool {
    is_for_a_look(core, port, send)
        && core.peers.get(send.peer).is_none_or(|state| state.slots_had < need)
}

/// Whether a message is eager only because its receiver looks.
fn is_for_a_look<P: Port>(core: &Core, port: &P, send: &Send) -> bool {
    send.buf.len > u64::from(core.config.eager_bytes_max)
        && !send.inject
        && !port.caps(send.peer).network
}

/// A long message went eagerly.
#[cold]
fn note_slots(core: &mut Core, send: &Send) {
    let slots = eager_slots(send);
    let state = core.peers.state_mut(send.peer);
    state.slots_had = state.slots_had.max(slots);
}

/// Puts the whole message.
#[inline(always)]
fn start_eagerly<P: Port>(
    core: &mut Core,
    port: &mut P,
    send: &Send,
    handle: Handle<SendOp>,
) -> Result<Started, PtlError> {
    if send.buf.len > u64::from(PUT_INLINE_BYTES_MAX) {
        keep_room_for_announcements(core, send)?;
    }
    let (from, len) = (send.buf.addr.0, send.buf.len);
    let used = if core.peers.any_rtrs() {
        // A receive that was announced meets this message, and no other one.
        use_rtr(core, port, send, from, len, &send.target(), &send.extras())?
    } else {
        None
    };
    // The user pointer zero says that nobody waits for the send event.
    let user_ptr = handle.to_u64();
    let transmitted = if send.delivery.is_some() {
        core.ni.put(port, core.md, from, len, &send.target(), &send.extras(), user_ptr)
    } else {
        let payload = Region::new(send.buf.addr, len).ok_or(PtlError::ArgInvalid("memory"))?;
        core.ni.put_plain(port, core.md, payload, send.peer, &send.plain(), user_ptr)
    };
    assert!(transmitted.is_ok() || used.is_none(), "a put that was checked goes");
    let transmitted = transmitted?;
    if len > u64::from(core.config.eager_bytes_max) {
        note_slots(core, send);
    }
    core.stats.eager_sent += 1;
    Ok(match (transmitted, send.delivery.is_some()) {
        (Transmitted::Done, false) => Started::Done,
        (Transmitted::Pending, false) => Started::Waits(SendState::Transmitting, SenderCopy::None),
        (Transmitted::Done, true) => {
            Started::Waits(SendState::Acking { read: true }, SenderCopy::None)
        }
        (Transmitted::Pending, true) => {
            Started::Waits(SendState::Acking { read: false }, SenderCopy::None)
        }
    })
}

/// Whether a message takes more slots than its receiver can ever grant: there
/// is nothing to wait for.
#[inline]
pub(crate) fn never_fits(core: &Core, send: &Send) -> bool {
    if send.buf.len <= u64::from(PUT_INLINE_BYTES_MAX) {
        return false;
    }
    // What is granted is known from the first message on.
    let most = core.ni.data_credits_max(send.peer);
    most > 0 && eager_slots(send) + slots_for_announcements(core, send) > most
}

/// Slots that `send` takes if it goes eagerly.
pub(crate) fn eager_slots(send: &Send) -> u32 {
    let put = Packet::Put(Put {
        pt_index: send.space.pt(),
        match_bits: MatchBits(send.tag),
        hdr_data: 0,
        user: 0,
        remote_offset: 0,
        ack: send.ack().map(|kind| (kind, 0)),
        rts: None,
        bulk: None,
        by_control: false,
    });
    slots_for(put.header_bytes().into(), send.buf.len)
}

/// Refuses an eager message of several slots that would eat into the half
/// of the quota kept for messages of one slot. Else a few long messages
/// that the receiver does not want yet would lock out the ones it waits
/// for, which could come as announcements.
#[inline]
fn keep_room_for_announcements(core: &Core, send: &Send) -> Result<(), PtlError> {
    let kept = slots_for_announcements(core, send);
    if kept == 0 {
        return Ok(());
    }
    let (need, have) = (eager_slots(send), core.ni.data_credits(send.peer));
    if have < need + kept { Err(PtlError::NoCredit { need, have }) } else { Ok(()) }
}

/// Slots of the receiver that eager messages leave free.
#[inline]
fn slots_for_announcements(core: &Core, send: &Send) -> u32 {
    match core.ni.data_quota(send.peer) {
        quota if quota < ANNOUNCEMENT_QUOTA_MIN => 0,
        quota => quota / 2,
    }
}
