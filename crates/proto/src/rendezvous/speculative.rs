//! Speculative rendezvous: the receiver comes first and says where the bytes go
//! (RTR), so that the late sender can write them with its send.
//!
//! Both sides compute the same match. The receiver announces a receive of a known
//! source when every older one that could meet the same message of that source is
//! announced there too ([`Rtrs`]). The sender lists what was announced, in order
//! ([`RtrList`]); each message that it sends uses the first receive listed that
//! accepts it. What they cannot know of each other, one word of the receiver's memory
//! decides, the *chunk claims*: a receive is used by its sender or taken back (cancelled),
//! whoever is first. `docs/decisions/0007-large-messages.md` gives the whole rule.
//!
//! Invariant of the receiver: a posted receive with chunk claims has a known source, which
//! was told of it.

use super::ability::{able_with, open_claims, revoke, shared};
use super::rtr_list::{AnnouncedRecv, RTRS_MAX, Rtr, RtrList};
use super::rtr_throttle::{RtrThrottle, Use};
use crate::api::{Recv, Send, Space};
use crate::core::Core;
use crate::recvs::Recvs;
use crate::request::RecvOp;
use crate::wanted::Wanted;
use sluice_link::mutants::{self, Mutant};
use sluice_link::{ClaimsId, ClaimsStart, Port, Rights, SharedCopy};
use sluice_portals::{Handle, PtlError, PutExtras, Target};
use sluice_wire::{MatchBits, Packet, PeerId};

/// Older receives looked at before one is announced.
const OLDER_MAX: u32 = 64;

/// The receives of this process that are announced to their sources.
#[derive(Debug, Default)]
pub(crate) struct Rtrs {
    throttle: RtrThrottle,
    /// A peer whose message named chunk claims that are not those of the receive it met.
    mismatch: Option<PeerId>,
}

impl Rtrs {
    /// Announces a receive that was posted and met nothing, if that is of use and
    /// the rule allows it.
    #[inline(never)]
    pub fn announce<P: Port>(
        &mut self,
        core: &mut Core,
        recvs: &mut Recvs,
        port: &mut P,
        handle: Handle<RecvOp>,
        recv: &Recv,
    ) {
        let Some(peer) = recv.source else { return };
        if !self.throttle.may_announce(peer, recv)
            || core.peers.state_mut(peer).announced.len() >= RTRS_MAX
            || !is_next_to_be_met(core, recvs, peer, handle, recv)
            || core.ni.ensure_connected(port, peer).is_err()
        {
            return;
        }
        // Chunk claims may be used up, which opening some will tell.
        let able = able_with(port, peer, true);
        let table = core.config.table();
        if table.objection_to_announcing(recv.buf.len, true, able).is_some() {
            return;
        }
        let Some(claims) = open_claims(port, peer, ClaimsStart::Free) else { return };
        let into = port.expose(peer, recv.buf, Rights::WRITE);
        let wanted = Wanted::of(recv);
        let rtr = sluice_wire::Rtr {
            pt_index: wanted.space.pt(),
            match_bits: MatchBits(wanted.bits),
            ignore_bits: wanted.ignore,
            into,
            len: recv.buf.len,
            seen: core.ni.links().expected_seq(peer),
            claims: claims.0,
        };
        if core.ni.tell(port, peer, &Packet::Rtr(rtr)).is_err() {
            shared(port).close_claims(claims);
            return revoke(port, peer, into);
        }
        core.stats.announced += 1;
        core.peers.state_mut(peer).announced.push(AnnouncedRecv { claims, into });
        if let Some(op) = recvs.get_mut(handle) {
            op.announced = Some(claims);
        }
    }

    /// The connection to a peer is open: receives that were posted before can be announced.
    pub fn announce_posted<P: Port>(
        &mut self,
        core: &mut Core,
        recvs: &mut Recvs,
        port: &mut P,
        peer: PeerId,
    ) {
        let table = core.config.table();
        let waits = |op: &RecvOp| {
            op.recv.source == Some(peer)
                && op.is_posted()
                && op.announced.is_none()
                && !op.is_in_pieces()
                && op.multi().is_none()
                && table.minds_who_is_first(op.recv.buf.len)
        };
        let posted = recvs.iter().filter(|(_, op)| waits(op));
        let mut posted: Vec<_> = posted.map(|(handle, op)| (op.serial, handle, op.recv)).collect();
        posted.sort_unstable_by_key(|(serial, ..)| *serial);
        for (_, handle, recv) in posted {
            self.announce(core, recvs, port, handle, &recv);
        }
    }

    /// An announced message has met a receive, and names these chunk claims, if any. The
    /// receive as it was announced, if the sender writes there already.
    pub fn on_announcement<P: Port>(
        &mut self,
        core: &mut Core,
        recvs: &mut Recvs,
        port: &mut P,
        handle: Handle<RecvOp>,
        peer: PeerId,
        claims: Option<ClaimsId>,
    ) -> Option<AnnouncedRecv> {
        let announced = recvs.get(handle).and_then(|op| op.announced);
        if claims.is_some() && claims != announced {
            // The message is taken all the same: its receive would be lost else.
            self.mismatch = Some(peer);
        }
        let is_used = claims.is_some() && claims == announced;
        announced?;
        let used = if is_used { Use::Used } else { Use::InVain };
        self.end(core, recvs, port, handle, used)
    }

    /// A posted receive waits no more. If it was announced, that is over: used
    /// by the message that it has met, which has claims and key from now on, or not. The
    /// receive as it was announced, if it was used.
    #[cold]
    #[inline(never)]
    pub fn end<P: Port>(
        &mut self,
        core: &mut Core,
        recvs: &mut Recvs,
        port: &mut P,
        handle: Handle<RecvOp>,
        used: Use,
    ) -> Option<AnnouncedRecv> {
        let op = recvs.get_mut(handle)?;
        let claims = op.announced.take()?;
        let recv = op.recv;
        let peer = recv.source?;
        self.throttle.note(peer, &recv, used);
        let announced = core.peers.take_announced(peer, claims)?;
        if used == Use::Used {
            return Some(announced);
        }
        shared(port).close_claims(claims);
        revoke(port, peer, announced.into);
        None
    }

    /// Whether a message named wrong chunk claims since the last look.
    #[inline]
    pub fn take_mismatch(&mut self) -> bool {
        self.mismatch.take().is_some()
    }
}

/// Whether every older receive that could meet the same messages of `peer` is
/// announced.
fn is_next_to_be_met(
    core: &mut Core,
    recvs: &Recvs,
    peer: PeerId,
    handle: Handle<RecvOp>,
    recv: &Recv,
) -> bool {
    if mutants::is(Mutant::AnnouncesOutOfOrder) {
        return true;
    }
    let wanted = Wanted::of(recv);
    let pt_index = recv.space.pt();
    let bits = match recv.space {
        Space::Tagged if wanted.ignore == 0 => MatchBits(wanted.bits),
        // Any entry might overlap it.
        Space::Tagged => return core.ni.priority_len(pt_index) == 1,
        // Messages of a space without tags all have the same bits.
        Space::Untagged => MatchBits(0),
    };
    let mut steps = 0;
    let mut is_older = true;
    core.ni.all_that_match(pt_index, bits, peer, |user_ptr| {
        steps += 1;
        let older = Handle::<RecvOp>::from_u64(user_ptr);
        let is_announced = || recvs.get(older).is_some_and(|op| op.announced.is_some());
        is_older &= older != handle;
        steps <= OLDER_MAX && (!is_older || is_announced())
    })
}

/// A peer has announced a receive. False if it has announced too many.
pub(crate) fn on_rtr<P: Port>(
    core: &mut Core,
    port: &mut P,
    peer: PeerId,
    rtr: &sluice_wire::Rtr,
) -> bool {
    let Some(space) = Space::named(rtr.pt_index) else { return false };
    let Some(shared) = port.shared() else { return false };
    let next_seq = core.ni.links().next_seq(peer);
    core.peers.note_rtr();
    let state = core.peers.state_mut(peer);
    let waits = !state.queue.is_empty();
    let rtrs = state.rtrs.get_or_insert_with(|| Box::new(RtrList::new(next_seq)));
    let wanted = Wanted { space, bits: rtr.match_bits.0, ignore: rtr.ignore_bits };
    rtrs.list(shared, peer, wanted, rtr, waits)
}

/// The receive that a message meets which goes now, if that is known: with a put
/// of `len` bytes from `from`. Using the receive cannot be undone, so the put is
/// looked at first.
///
/// # Errors
/// Why that put cannot go. No receive is used then.
#[inline(never)]
pub(crate) fn use_rtr<P: Port>(
    core: &mut Core,
    port: &mut P,
    send: &Send,
    from: u64,
    len: u64,
    target: &Target,
    extras: &PutExtras,
) -> Result<Option<Rtr>, PtlError> {
    let Core { peers, ni, md, .. } = core;
    let state = peers.get_mut(send.peer);
    let Some(rtrs) = state.and_then(|state| state.rtrs.as_mut()) else { return Ok(None) };
    while let Some(at) = rtrs.met_by(send.space, send.tag) {
        ni.check_put(port, *md, from, len, target, extras)?;
        let rtr = rtrs.take(at);
        // Else it was cancelled, and the message meets another.
        if let Some(rtr) = rtr
            && shared(port).use_claims(send.peer, rtr.claims)
        {
            return Ok(Some(rtr));
        }
    }
    Ok(None)
}

/// A message has been sent to a peer that may announce receives.
#[inline(never)]
pub(crate) fn note_sent(core: &mut Core, peer: PeerId, space: Space, tag: u64) {
    let next = core.ni.links().next_seq(peer);
    let state = core.peers.get_mut(peer);
    if let Some(rtrs) = state.and_then(|state| state.rtrs.as_mut()) {
        rtrs.note_sent(next, space, tag);
    }
}
