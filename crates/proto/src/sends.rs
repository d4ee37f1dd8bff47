//! Pending sends, and the memory of injected ones.

use crate::api::{Cancelled, Completion, Failure, Refused, Send};
use crate::core::Core;
use crate::queue::Waiter;
use crate::rendezvous::ability::{revoke, shared};
use crate::rendezvous::moved::Moved;
use crate::request::{SendOp, SendState, SenderCopy};
use sluice_link::mutants::{self, Mutant};
use sluice_link::{PeerError, Port, SharedCopy};
use sluice_portals::{Handle, NiFail, Table, UnexpectedBytes};
use sluice_wire::{Addr, PeerId, Region};

/// See the module.
#[derive(Debug)]
pub(crate) struct Sends {
    ops: Table<SendOp>,
    /// Memory of injected messages that wait.
    injected_bytes: u64,
}

impl Sends {
    /// Heap bytes of a send that waits for credits, besides an injected message's
    /// copy.
    pub const PENDING_BYTES: usize = Table::<SendOp>::ENTRY_BYTES + size_of::<Waiter>();

    pub fn new(requests_max: u32) -> Sends {
        Sends { ops: Table::new(requests_max), injected_bytes: 0 }
    }

    pub fn len(&self) -> u32 {
        self.ops.len()
    }

    #[inline]
    pub fn is_full(&self) -> bool {
        self.ops.is_full()
    }

    /// The name that the next send will have.
    #[inline]
    pub fn next_handle(&self) -> Handle<SendOp> {
        self.ops.next_handle()
    }

    #[inline]
    pub fn get(&self, handle: Handle<SendOp>) -> Option<&SendOp> {
        self.ops.get(handle)
    }

    pub fn get_mut(&mut self, handle: Handle<SendOp>) -> Option<&mut SendOp> {
        self.ops.get_mut(handle)
    }

    /// Whether one goes to this peer.
    pub fn any_to(&self, peer: PeerId) -> bool {
        self.ops.iter().any(|(_, op)| op.send.peer == peer)
    }

    /// A send of this `context` that may end before its time: of which nothing has gone, or that
    /// waits for nothing but its acknowledgement.
    pub fn cancellable(&self, context: u64) -> Option<(Handle<SendOp>, Cancelled)> {
        let named = self.ops.iter().filter(|(_, op)| op.send.context == context && !op.send.inject);
        let mut cancellable = named.filter_map(|(handle, op)| match op.state {
            SendState::Queued => Some((handle, Cancelled::Withdrawn)),
            SendState::Acking { read } if read || mutants::is(Mutant::CancelsWhatIsRead) => {
                Some((handle, Cancelled::Sent))
            }
            _ => None,
        });
        cancellable.next()
    }

    /// Where those go whose bytes the caller may have back: the injected ones, and all of several
    /// pieces, of which copies are sent.
    pub fn injected_to(&self) -> impl Iterator<Item = PeerId> {
        let is_injected = |op: &SendOp| op.send.inject || op.copy.is_some();
        self.ops.iter().filter(move |(_, op)| is_injected(op)).map(|(_, op)| op.send.peer)
    }

    /// Memory of injected messages that wait, in bytes.
    pub fn injected_bytes(&self) -> u64 {
        self.injected_bytes
    }

    /// Memory that an injected message takes while it waits.
    pub fn injected_bytes_of(send: &Send) -> u64 {
        Sends::PENDING_BYTES as u64 + UnexpectedBytes::lent(send.buf.len)
    }

    /// A pending send, and its name.
    ///
    /// # Panics
    /// If there are as many as may be.
    #[inline]
    pub fn insert(&mut self, op: SendOp) -> Handle<SendOp> {
        let Ok(handle) = self.ops.insert(op) else { unreachable!("room was checked") };
        handle
    }

    /// Copies the bytes of an injected message that has to wait; where to. `bytes_max`
    /// is what all such copies may take.
    pub fn lend_copy<P: Port>(
        &mut self,
        port: &mut P,
        send: &Send,
        bytes_max: Option<u64>,
    ) -> Result<Addr, Refused> {
        let bytes = self.injected_bytes + Sends::injected_bytes_of(send);
        if bytes_max.is_some_and(|max| bytes > max) {
            return Err(Refused::Again);
        }
        self.injected_bytes = bytes;
        // No bytes need no memory.
        let mut copy = Addr(0);
        if send.buf.len > 0 {
            copy = port.lend(send.buf.len as u32);
            port.copy(send.buf.addr, copy, send.buf.len);
        }
        Ok(copy)
    }

    /// Copies the pieces of a message, that has so many bytes, to one; none if it has no
    /// bytes.
    pub fn lend_pieces<P: Port>(
        &self,
        port: &mut P,
        send: &Send,
        pieces: &[Region],
        core: &Core,
    ) -> Result<Option<Region>, Refused> {
        let (len, max) = (send.buf.len, core.config.inject_bytes_max.min(u32::MAX.into()));
        if Sends::injected_bytes_of(send) > max {
            return Err(Refused::TooLong { len, max });
        }
        if self.injected_bytes + Sends::injected_bytes_of(send) > max {
            return Err(Refused::Again);
        }
        if len == 0 {
            return Ok(None);
        }
        let copy = Region { addr: port.lend(len as u32), len };
        let mut at = copy.addr;
        for piece in pieces {
            port.copy(piece.addr, at, piece.len);
            at = at.offset(piece.len);
        }
        Ok(Some(copy))
    }

    /// A send was given bytes that were copied for it. Whether it is pending, and gives them
    /// back at its end.
    pub fn keep_copy(&mut self, name: Handle<SendOp>, copy: Region) -> bool {
        let Some(op) = self.ops.get_mut(name) else { return false };
        op.copy = Some(copy.addr);
        self.injected_bytes += Sends::injected_bytes_of(&op.send);
        true
    }

    /// A send has come to its end on this process or as the interface says.
    pub fn end<P: Port>(
        &mut self,
        core: &mut Core,
        port: &mut P,
        handle: Handle<SendOp>,
        outcome: Result<(), NiFail>,
    ) {
        let Some(peer) = self.ops.get(handle).map(|op| op.send.peer) else { return };
        self.finish(core, port, handle, outcome.map_err(|fail| Failure::of(fail, peer)));
    }

    /// A send has come to its end: with its memory given back and its completion
    /// pushed.
    pub fn finish<P: Port>(
        &mut self,
        core: &mut Core,
        port: &mut P,
        handle: Handle<SendOp>,
        outcome: Result<(), Failure>,
    ) {
        let Some(op) = self.ops.remove(handle) else { return };
        // The memory that its bytes were copied to, if they were.
        if let Some(copy) = op.copy {
            self.injected_bytes -= Sends::injected_bytes_of(&op.send);
            if op.send.buf.len > 0 {
                port.give_back(copy, op.send.buf.len as u32);
            }
        }
        if core.tells(op.send.report) || outcome.is_err() {
            core.complete(Completion::of_send(&op.send, outcome));
        }
    }

    /// Ends every send to a peer that is gone. One whose memory the rail still reads
    /// stays until that has ended.
    pub fn fail_all<P: Port>(
        &mut self,
        core: &mut Core,
        port: &mut P,
        peer: PeerId,
        why: PeerError,
    ) {
        let doomed: Vec<_> = self
            .ops
            .iter()
            .filter(|(_, op)| op.send.peer == peer)
            .map(|(handle, op)| (handle, op.state))
            .collect();
        for (handle, state) in doomed {
            if let SendState::Announced(exposed) | SendState::Offered(exposed, _) = state {
                // It may be gone already; then there is nothing to unlink.
                let _ = core.ni.me_unlink(exposed.entry);
                revoke(port, peer, exposed.key);
            }
            if !self.stays(port, handle, why) {
                self.finish(core, port, handle, Err(Failure::PeerGone { peer, why }));
            }
        }
    }

    /// Whether the rail still reads the memory of a send to a peer that is gone. Then
    /// its end is known, and comes when the rail has read.
    fn stays<P: Port>(&mut self, port: &mut P, handle: Handle<SendOp>, why: PeerError) -> bool {
        let Some(op) = self.ops.get_mut(handle) else { return false };
        // The engine below keeps what the rail has not read yet, and tells its end.
        if matches!(op.state, SendState::Transmitting | SendState::Acking { .. }) {
            return true;
        }
        let is_leaving = matches!(op.state, SendState::Leaving(_));
        let is_written = match op.sender_copy {
            SenderCopy::None | SenderCopy::Done => false,
            SenderCopy::Putting { .. } => true,
            SenderCopy::Sharing(_) => {
                is_leaving || !shared(port).leave_shared(Moved::Send(handle).token())
            }
        };
        if is_written && !is_leaving {
            op.state = SendState::Leaving(Err(NiFail::Undeliverable(why)));
        }
        is_written
    }

    /// Panics unless the counts are in order, and as many sends wait for credits as
    /// are `queued`. For tests.
    pub fn check_invariants(&self, queued: usize) {
        let waits = |op: &SendOp| matches!(op.state, SendState::Queued | SendState::Offered(..));
        let waiting = self.ops.iter().filter(|(_, op)| waits(op)).count();
        assert!(queued == waiting, "every waiting send is in its peer's queue");
        let copied = self.ops.iter().filter(|(_, op)| op.copy.is_some());
        let copied: u64 = copied.map(|(_, op)| Sends::injected_bytes_of(&op.send)).sum();
        assert!(copied == self.injected_bytes, "memory of injected messages");
    }
}

impl SendOp {
    /// A send of which nothing has gone yet; `copy` is where its bytes are, if not in
    /// its own memory.
    pub fn queued(send: &Send, copy: Option<Addr>) -> SendOp {
        SendOp { send: *send, state: SendState::Queued, sender_copy: SenderCopy::None, copy }
    }
}
