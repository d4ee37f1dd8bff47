//! The sender's part in moving an announced message: it copies with the receiver
//! (`cooperative`), writes all of it (`put`), or only learns of the end.

use super::ability::{revoke, shared};
use super::fins::{Fin, Fins};
use super::moved::Moved;
use crate::core::Core;
use crate::portal::PT_BULK;
use crate::request::{SendOp, SendState, SenderCopy};
use crate::sends::Sends;
use crate::stalled::Stalled;
use crate::start::Attempt;
use sluice_link::mutants::{self, Mutant};
use sluice_link::{ClaimsId, Port, RailError, Remote, SharedCopy};
use sluice_portals::{Handle, NiFail};
use sluice_wire::{Cts, PeerId, Region, Status, Written};

/// The receiver of an announced message says where it wants the bytes. False if
/// there is no such message, or it is shorter, or was asked for before.
pub(crate) fn on_cts<P: Port>(
    core: &mut Core,
    sends: &mut Sends,
    port: &mut P,
    peer: PeerId,
    cts: &Cts,
) -> bool {
    let Some(found) = core.ni.me_that_matches(PT_BULK, cts.key, peer) else { return false };
    let handle = Handle::from_u64(found);
    let Some(op) = sends.get_mut(handle) else { return false };
    let bytes = op.bytes();
    if op.send.peer != peer || op.sender_copy != SenderCopy::None || cts.len > bytes.len {
        return false;
    }
    let from = Region { addr: bytes.addr, len: cts.len };
    let into = Remote::whole(cts.into);
    let token = Moved::Send(handle).token();
    match cts.claims.map(ClaimsId) {
        Some(claims) => {
            let Some(shared) = port.shared() else { return false };
            op.sender_copy = SenderCopy::Sharing(claims);
            shared.write_shared(peer, claims, from, into, token);
        }
        None => {
            op.sender_copy = SenderCopy::Putting { op: cts.op, len: cts.len };
            port.write_remote(peer, from, into, token);
        }
    }
    true
}

/// The rail does not write from a send's memory any more.
pub(crate) fn on_written_out<P: Port>(
    core: &mut Core,
    sends: &mut Sends,
    stalled: &mut Stalled,
    fins: &mut Fins,
    port: &mut P,
    handle: Handle<SendOp>,
    outcome: Result<(), RailError>,
) {
    let Some(op) = sends.get_mut(handle) else { return };
    let (peer, sender_copy) =
        (op.send.peer, std::mem::replace(&mut op.sender_copy, SenderCopy::Done));
    let state = op.state;
    let is_done = match sender_copy {
        SenderCopy::Sharing(claims) => {
            // Who waits for delivery hears of it: what was handed over may wait at the receiver.
            let is_told = op.send.delivery.is_some();
            outcome.is_ok() && !is_told && shared(port).was_written_alone(Some(peer), claims)
        }
        SenderCopy::Putting { op, len } => {
            let written = Written { op, len, status: status_of(outcome) };
            fins.say(core, port, Fin::written(peer, written));
            outcome.is_ok()
        }
        SenderCopy::None | SenderCopy::Done => false,
    };
    match state {
        SendState::Leaving(outcome) => sends.end(core, port, handle, outcome),
        // Nobody fetches what was written.
        SendState::Announced(exposed) | SendState::Offered(exposed, _)
            if is_done && core.ni.me_unlink(exposed.entry).is_ok() =>
        {
            end_exposed(core, sends, stalled, port, handle, Ok(()));
        }
        _ => {}
    }
}

/// A message is behind no get entry any more. It stays while the rail still
/// writes from its memory.
pub(crate) fn end_exposed<P: Port>(
    core: &mut Core,
    sends: &mut Sends,
    stalled: &mut Stalled,
    port: &mut P,
    handle: Handle<SendOp>,
    outcome: Result<(), NiFail>,
) {
    let Some(op) = sends.get_mut(handle) else { return };
    let (peer, state) = (op.send.peer, op.state);
    if let SendState::Announced(exposed) | SendState::Offered(exposed, _) = state
        && !mutants::is(Mutant::KeepsExposures)
    {
        revoke(port, peer, exposed.key);
    }
    // Mostly it was invited and ended before this process looked.
    if matches!(op.sender_copy, SenderCopy::Sharing(_))
        && shared(port).leave_shared(Moved::Send(handle).token())
    {
        op.sender_copy = SenderCopy::Done;
    }
    if matches!(op.sender_copy, SenderCopy::None | SenderCopy::Done) {
        sends.end(core, port, handle, outcome);
    } else {
        op.state = SendState::Leaving(outcome);
    }
    if let SendState::Offered(_, number) = state {
        core.peers.state_mut(peer).queue.end_offer(number, false);
        stalled.settle(core, peer);
        // Those behind it were kept back by it.
        stalled.flush_peer(core, sends, port, peer, Attempt::First);
    }
}

/// How a put went, as its receiver is told.
fn status_of(outcome: Result<(), RailError>) -> Status {
    match outcome {
        Ok(()) => Status::Ok,
        Err(RailError::Fault) => Status::Segv,
        Err(RailError::Forbidden | RailError::PeerGone | RailError::Shared) => Status::Aborted,
    }
}
