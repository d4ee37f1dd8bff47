//! Rendezvous by put: RTS → CTS → write → FIN.
//!
//! For rails that write remote memory and cannot read it. The CTS names no tally:
//! the sender writes all that was asked for, says so, and is done. If it cannot,
//! the receiver asks for the bytes by gets.

use super::pull::BulkMethod;
use super::{Fin, FinPacket};
use crate::endpoint::Endpoint;
use crate::request::{RecvOp, RecvState};
use sluice_link::{Port, RailError};
use sluice_portals::Handle;
use sluice_wire::{PeerId, Status, Written};

impl Endpoint {
    /// The sender has been asked to write.
    pub(super) fn await_written(&mut self, handle: Handle<RecvOp>) {
        let Some(op) = self.recvs.get_mut(handle) else { return };
        let RecvState::Pulling(pull) = &mut op.state else { return };
        pull.method = BulkMethod::Written;
        (pull.asked, pull.in_flight) = (pull.want, 1);
    }

    /// The sender has written, or will not. False if it was not asked to, or not
    /// for as much.
    pub(crate) fn on_written<P: Port>(
        &mut self,
        port: &mut P,
        peer: PeerId,
        written: &Written,
    ) -> bool {
        let handle = Handle::from_u64(written.op);
        let Some(op) = self.recvs.get_mut(handle) else { return false };
        let RecvState::Pulling(pull) = &mut op.state else { return false };
        if pull.method != BulkMethod::Written || pull.event.peer != peer || pull.in_flight == 0 {
            return false;
        }
        pull.in_flight = 0;
        match written.status {
            Status::Ok if written.len == pull.want => {
                pull.got = pull.want;
                pull.sender_knows = true;
                self.finish_pull(port, handle);
            }
            Status::Ok => return false,
            // Whose memory it was that could not be reached, a get finds out.
            _ => {
                pull.method = BulkMethod::Asked;
                pull.asked = 0;
                self.fetch(port, handle);
            }
        }
        true
    }

    /// All has been written that a receiver asked for, or not. True if that ends
    /// the message here.
    pub(super) fn put_ended<P: Port>(
        &mut self,
        port: &mut P,
        peer: PeerId,
        op: u64,
        len: u64,
        outcome: Result<(), RailError>,
    ) -> bool {
        let status = match outcome {
            Ok(()) => Status::Ok,
            Err(RailError::Fault) => Status::Segv,
            Err(RailError::Forbidden | RailError::PeerGone | RailError::Shared) => Status::Aborted,
        };
        let packet = FinPacket::Written(Written { op, len, status });
        self.say(port, Fin { peer, packet, taken: false });
        outcome.is_ok()
    }
}
