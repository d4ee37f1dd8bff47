//! Rendezvous by put: RTS → CTS → write → FIN.
//!
//! For rails that write remote memory and cannot read it. The CTS names no chunk claims:
//! the sender writes all that was asked for ([`super::sender`]), says so, and is done.
//! If it cannot, the receiver asks for the bytes by gets.

use super::pull::BulkMethod;
use super::pulls::Pulls;
use crate::core::Core;
use crate::recvs::Recvs;
use crate::request::RecvOp;
use sluice_link::Port;
use sluice_portals::Handle;
use sluice_wire::{PeerId, Status, Written};

impl Pulls {
    /// The sender has been asked to write.
    pub(super) fn await_written(recvs: &mut Recvs, handle: Handle<RecvOp>) {
        let Some(pull) = recvs.pull_mut(handle) else { return };
        pull.method = BulkMethod::Written;
        (pull.asked, pull.in_flight) = (pull.want, 1);
    }

    /// The sender has written, or will not. False if it was not asked to, or not
    /// for as much.
    pub fn on_written<P: Port>(
        &mut self,
        core: &mut Core,
        recvs: &mut Recvs,
        port: &mut P,
        peer: PeerId,
        written: &Written,
    ) -> bool {
        let handle = Handle::from_u64(written.op);
        let Some(pull) = recvs.pull_mut(handle) else { return false };
        if pull.method != BulkMethod::Written || pull.event.peer != peer || pull.in_flight == 0 {
            return false;
        }
        pull.in_flight = 0;
        match written.status {
            Status::Ok if written.len == pull.want => {
                pull.got = pull.want;
                pull.sender_knows = true;
                self.finish(core, recvs, port, handle);
            }
            Status::Ok => return false,
            // Whose memory it was that could not be reached, a get finds out.
            _ => {
                pull.method = BulkMethod::Asked;
                pull.asked = 0;
                self.fetch(core, recvs, port, handle);
            }
        }
        true
    }
}
