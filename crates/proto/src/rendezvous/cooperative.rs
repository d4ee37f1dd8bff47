//! Cooperative rendezvous: both sides copy, each the chunks that it takes from
//! one tally in the receiver's memory.
//!
//! The receiver begins when the message has met its receive. If the sender does
//! not write already because of an RTR (`speculative`), a CTS invites it. A sender
//! that looks too late finds no chunk left, and has done nothing. Whoever comes
//! second in the library only helps the other; nobody waits for anybody but for
//! chunks that are being copied.
//!
//! If the sender took every chunk, both sides see that, the sender is done at
//! once, and no get-done follows. Else a get-done ends the sender's part, at once
//! if that has not had its turn. A side whose copying fails leaves the rest to the
//! receiver, which then moves the message as if there were no tally.

use super::ability::{able_with, open_tally, shared};
use super::moved::Moved;
use super::pull::BulkMethod;
use crate::api::Failure;
use crate::endpoint::Endpoint;
use crate::portal::PT_BULK;
use crate::request::{RecvOp, RecvState, SendOp, SendState, SenderCopy};
use crate::selection::Protocol;
use sluice_link::{PeerError, Port, RailError, SharedCopy, Tally, TallyStart};
use sluice_portals::{Handle, NiFail};
use sluice_wire::{Cts, Packet, PeerId, Region};

impl Endpoint {
    /// Begins a transfer that the sender is invited to take part in, or to do.
    /// False if it is left to this process.
    pub(super) fn invite<P: Port>(&mut self, port: &mut P, handle: Handle<RecvOp>) -> bool {
        let Some(op) = self.recvs.get_mut(handle) else { return false };
        let buf = op.recv.buf;
        let RecvState::Pulling(pull) = &mut op.state else { return false };
        let (peer, key, want) = (pull.event.peer, pull.key, pull.want);
        let table = self.core.config.table();
        let mut able = able_with(port, peer, true);
        let mut method = table.way(want, able);
        let mut tally = None;
        if method == Protocol::Cooperative {
            tally = open_tally(port, peer, TallyStart::Used);
            // They may be used up.
            able.tallies = tally.is_some();
            method = table.way(want, able);
        }
        if !matches!(method, Protocol::Cooperative | Protocol::Put) {
            return false;
        }
        let cts = Cts {
            key,
            addr: buf.addr,
            len: want,
            op: handle.to_u64(),
            tally: tally.map(|tally| tally.0),
        };
        if self.core.ni.tell(port, peer, &Packet::Cts(cts)).is_err() {
            if let Some(tally) = tally {
                shared(port).close_tally(tally);
            }
            return false;
        }
        match tally {
            Some(tally) => {
                pull.method = BulkMethod::Shared(tally);
                self.read_shared(port, handle);
            }
            None => self.await_written(handle),
        }
        true
    }

    /// Takes part, as the receiver.
    pub(super) fn read_shared<P: Port>(&mut self, port: &mut P, handle: Handle<RecvOp>) {
        let Some(op) = self.recvs.get_mut(handle) else { return };
        let RecvState::Pulling(pull) = &mut op.state else { return };
        let BulkMethod::Shared(tally) = pull.method else { return };
        (pull.asked, pull.in_flight) = (pull.want, 1);
        let to = Region { addr: op.recv.buf.addr, len: pull.want };
        let token = Moved::Recv(handle).token();
        shared(port).read_shared(pull.event.peer, tally, pull.from, to, token);
    }

    /// A shared transfer to this process has ended.
    pub(crate) fn on_read_shared<P: Port>(
        &mut self,
        port: &mut P,
        handle: Handle<RecvOp>,
        outcome: Result<(), RailError>,
    ) {
        let Some(op) = self.recvs.get_mut(handle) else { return };
        let RecvState::Pulling(pull) = &mut op.state else { return };
        let BulkMethod::Shared(tally) = pull.method else { return };
        let peer = pull.event.peer;
        pull.in_flight = 0;
        match outcome {
            Ok(()) => {
                pull.got = pull.want;
                pull.sender_knows = shared(port).was_written_alone(None, tally);
            }
            Err(RailError::PeerGone) => {
                pull.failure.get_or_insert(Failure::PeerGone { peer, why: PeerError::Dead });
            }
            Err(RailError::Fault) => {
                pull.failure.get_or_insert(Failure::Fault);
            }
            Err(RailError::Shared | RailError::Forbidden) => {
                shared(port).close_tally(tally);
                pull.method = BulkMethod::Asked;
                pull.asked = 0;
                if pull.failure.is_none() {
                    self.fetch(port, handle);
                    return;
                }
            }
        }
        self.finish_pull(port, handle);
    }

    /// The receiver of an announced message says where it wants the bytes. False if
    /// there is no such message, or it is shorter, or was asked for before.
    pub(crate) fn on_cts<P: Port>(&mut self, port: &mut P, peer: PeerId, cts: &Cts) -> bool {
        let Some(found) = self.core.ni.me_that_matches(PT_BULK, cts.key, peer) else {
            return false;
        };
        let handle = Handle::from_u64(found);
        let Some(op) = self.sends.get_mut(handle) else { return false };
        let bytes = op.bytes();
        if op.send.peer != peer || op.part != SenderCopy::None || cts.len > bytes.len {
            return false;
        }
        let from = Region { addr: bytes.addr, len: cts.len };
        let token = Moved::Send(handle).token();
        match cts.tally.map(Tally) {
            Some(tally) => {
                let Some(shared) = port.shared() else { return false };
                op.part = SenderCopy::Sharing(tally);
                shared.write_shared(peer, tally, from, cts.addr, token);
            }
            None => {
                op.part = SenderCopy::Putting { op: cts.op, len: cts.len };
                port.write_remote(peer, from, cts.addr, token);
            }
        }
        true
    }

    /// The rail does not write from a send's memory any more.
    pub(crate) fn on_written_out<P: Port>(
        &mut self,
        port: &mut P,
        handle: Handle<SendOp>,
        outcome: Result<(), RailError>,
    ) {
        let Some(op) = self.sends.get_mut(handle) else { return };
        let (peer, part) = (op.send.peer, std::mem::replace(&mut op.part, SenderCopy::Done));
        let is_done = match part {
            SenderCopy::Sharing(tally) => {
                outcome.is_ok() && shared(port).was_written_alone(Some(peer), tally)
            }
            SenderCopy::Putting { op, len } => self.put_ended(port, peer, op, len, outcome),
            SenderCopy::None | SenderCopy::Done => false,
        };
        match self.sends.get(handle).map(|op| op.state) {
            Some(SendState::Leaving(outcome)) => self.end_send(port, handle, outcome),
            // Nobody fetches what was written.
            Some(SendState::Announced(entry) | SendState::Offered(entry, _))
                if is_done && self.core.ni.me_unlink(entry).is_ok() =>
            {
                self.end_exposed(port, handle, Ok(()));
            }
            _ => {}
        }
    }

    /// A message is behind no get entry any more. It stays while the rail still
    /// writes from its memory.
    pub(crate) fn end_exposed<P: Port>(
        &mut self,
        port: &mut P,
        handle: Handle<SendOp>,
        outcome: Result<(), NiFail>,
    ) {
        let Some(op) = self.sends.get_mut(handle) else { return };
        let (peer, state) = (op.send.peer, op.state);
        // Mostly it was invited and ended before this process looked.
        if matches!(op.part, SenderCopy::Sharing(_))
            && shared(port).leave_shared(Moved::Send(handle).token())
        {
            op.part = SenderCopy::Done;
        }
        if matches!(op.part, SenderCopy::None | SenderCopy::Done) {
            self.end_send(port, handle, outcome);
        } else {
            op.state = SendState::Leaving(outcome);
        }
        if let SendState::Offered(_, number) = state {
            self.core.peers.state_mut(peer).queue.end_offer(number, false);
            self.settle_queue(peer);
            // Those behind it were kept back by it.
            self.flush_peer(port, peer);
        }
    }
}
