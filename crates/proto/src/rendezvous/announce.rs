//! The sender's half of every rendezvous: the message stands behind a get entry, is
//! announced, and leaves the entry when it has been got, or written.

use super::ability::{revoke, shared};
use super::moved::Moved;
use super::rtr_list::Rtr;
use super::speculative::use_rtr;
use crate::api::Send;
use crate::core::Core;
use crate::portal::{PT_BULK, announced_key, get_entry};
use crate::request::{Exposed, SendOp, SendState, SenderCopy, Started};
use sluice_link::mutants::{self, Mutant};
use sluice_link::{Port, Remote, Rights, SharedCopy};
use sluice_portals::{Handle, List, PtlError, PutExtras};
use sluice_wire::{MatchBits, PeerId, Region, RemoteKey, Rts};

/// Announces a message; if it meets a receive that was announced here, its
/// bytes are written there at once. `handle` is the name that its pending send has or
/// will have. What fails leaves no trace.
pub(crate) fn start_announced<P: Port>(
    core: &mut Core,
    port: &mut P,
    send: &Send,
    handle: Handle<SendOp>,
) -> Result<Started, PtlError> {
    let key = announced_key(handle);
    let exposed = expose(core, port, send.peer, send.buf, key, handle)?;
    match put_announcement(core, port, send, key, exposed.key) {
        Ok(rtr) => {
            core.stats.rendezvous_sent += 1;
            if let Some(rtr) = rtr {
                core.stats.rtrs_used += 1;
                let from = Region { addr: send.buf.addr, len: send.buf.len.min(rtr.len) };
                let token = Moved::Send(handle).token();
                let into = Remote::whole(rtr.into);
                shared(port).write_shared(send.peer, rtr.claims, from, into, token);
            }
            let sender_copy = rtr.map_or(SenderCopy::None, |rtr| SenderCopy::Sharing(rtr.claims));
            Ok(Started::Waits(SendState::Announced(exposed), sender_copy))
        }
        Err(error) => {
            take_back(core, port, send.peer, exposed);
            Err(error)
        }
    }
}

/// Exposes a message to `peer`: by a get entry, and under a remote key. The key is
/// revoked when the message is behind the entry no more.
pub(crate) fn expose<P: Port>(
    core: &mut Core,
    port: &mut P,
    peer: PeerId,
    bytes: Region,
    key: MatchBits,
    handle: Handle<SendOp>,
) -> Result<Exposed, PtlError> {
    let spec = get_entry(peer, bytes, key, handle);
    let entry = core.ni.me_append(port, PT_BULK, List::Priority, spec)?;
    let entry = entry.ok_or(PtlError::ArgInvalid("a get entry meets no unexpected header"))?;
    let key = port.expose(peer, bytes, Rights::READ);
    if mutants::is(Mutant::RevokesTooEarly) {
        revoke(port, peer, key);
    }
    Ok(Exposed { entry, key })
}

/// Ends that for a message that was not announced.
pub(crate) fn take_back<P: Port>(core: &mut Core, port: &mut P, peer: PeerId, exposed: Exposed) {
    let unlinked = core.ni.me_unlink(exposed.entry);
    assert!(unlinked.is_ok(), "the entry of a message that nobody knows of is linked");
    revoke(port, peer, exposed.key);
}

/// Puts the announcement of a message that can be got under `key`, or read at `from`.
/// The receive that it meets, if that was announced.
fn put_announcement<P: Port>(
    core: &mut Core,
    port: &mut P,
    send: &Send,
    key: MatchBits,
    from: RemoteKey,
) -> Result<Option<Rtr>, PtlError> {
    let target = send.target();
    let rts = Rts { total_len: send.buf.len, from, key, claims: None };
    let extras = PutExtras {
        by_control: false,
        ack: None,
        hdr_data: send.data.unwrap_or(0),
        user: send.user(),
        rts: Some(rts),
    };
    let rtr = if core.peers.any_rtrs() {
        use_rtr(core, port, send, 0, 0, &target, &extras)?
    } else {
        None
    };
    let rts = Rts { claims: rtr.map(|rtr| rtr.claims.0), ..rts };
    let extras = PutExtras { rts: Some(rts), ..extras };
    // The announcement has no bytes of the user's, so its own send event
    // means nothing: the user pointer zero.
    let sent = core.ni.put(port, core.md, 0, 0, &target, &extras, 0);
    assert!(sent.is_ok() || rtr.is_none(), "a put that was checked goes");
    sent.map(|_| rtr)
}
