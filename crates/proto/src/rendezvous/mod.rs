//! Protocols for messages that are announced first and moved when the receiver
//! wants them. One file each; here is the choice of the method once the announcement
//! has met its receive. Which method it is, `selection` says.
//!
//! | method | data moved by |
//! |---|---|
//! | [`get`] | the receiver, by direct reads or by gets of chunks ([`window`], [`budget`]) |
//! | [`put`] | the sender, once it was told where to (CTS) |
//! | [`cooperative`] | both, each the chunks that it claims |
//! | [`speculative`] | both; the receiver came first and said where to (RTR) |
//!
//! What they share: [`announce`] and [`sender`] are the sender's half, [`pulls`],
//! [`invitations`] and [`fins`] the receiver's. `docs/protocols.md` draws them.

pub(crate) mod ability;
pub(crate) mod announce;
pub(crate) mod budget;
pub(crate) mod cooperative;
pub(crate) mod fins;
pub(crate) mod get;
pub(crate) mod invitations;
pub(crate) mod moved;
pub(crate) mod pull;
pub(crate) mod pulls;
pub(crate) mod put;
pub(crate) mod rtr_list;
pub(crate) mod rtr_throttle;
pub(crate) mod sender;
pub(crate) mod speculative;
pub(crate) mod window;

use crate::api::Failure;
use crate::core::Core;
use crate::portal::wants_delivery;
use crate::recvs::Recvs;
use crate::request::{RecvOp, RecvState};
use ability::shared;
use pull::{Announced, BulkMethod, Pull};
use pulls::Pulls;
use sluice_link::{Port, SharedCopy};
use sluice_portals::Handle;
use sluice_wire::RemoteKey;
use window::Window;

impl Pulls {
    /// An announced message has met its receive.
    pub fn start<P: Port>(
        &mut self,
        core: &mut Core,
        recvs: &mut Recvs,
        port: &mut P,
        handle: Handle<RecvOp>,
        message: Announced,
    ) {
        let Announced { event, rts, taken, recv: announced } = message;
        // Matched: the announcement's slot goes back now, not when the bytes
        // are here.
        if let Some(hold) = event.hold {
            core.ni.end_hold(port, hold);
        }
        let gone = core.peers.gone(event.peer);
        let claims = announced.map(|announced| announced.claims);
        let Some(op) = recvs.get_mut(handle) else { return };
        let want = rts.total_len.min(op.recv.buf.len);
        let delivery = wants_delivery(&event);
        let is_written =
            gone.is_none() && claims.is_some_and(|claims| shared(port).is_written(claims, want));
        let pull = Pull {
            event,
            taken,
            key: rts.key,
            from: rts.from,
            into: announced.map_or(RemoteKey::NONE, |announced| announced.into),
            want,
            asked: 0,
            got: if is_written { want } else { 0 },
            in_flight: 0,
            window: Window::new(core.ni.get_bytes_max(), self.budget.bytes_max()),
            awaits_turn: false,
            method: claims.map_or(BulkMethod::Asked, BulkMethod::Shared),
            direct: rts.from.is_some(),
            sender_knows: is_written && !delivery,
            failure: gone.map(|why| Failure::PeerGone { peer: event.peer, why }),
        };
        if want == 0 || gone.is_some() || is_written {
            let (recv, multi) = (op.recv, op.multi());
            recvs.remove(handle);
            self.end(core, port, &recv, &pull);
            if let Some(multi) = multi {
                recvs.multis.message_ended(core, multi);
            }
            return;
        }
        op.state = RecvState::Pulling(Box::new(pull));
        if claims.is_some() {
            self.read_shared(recvs, port, handle);
        } else {
            self.invite_or_fetch(core, recvs, port, handle);
        }
    }
}
