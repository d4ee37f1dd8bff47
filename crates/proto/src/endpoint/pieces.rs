//! Receives into several pieces of memory, which are filled one behind the other as if they
//! were one (`docs/decisions/0021-receives-into-pieces.md`).
//!
//! What comes with its bytes lands in an entry whose memory is an I/O vector. What was here
//! already is copied from where it lies, before it is told of. What was announced is asked
//! for piece by piece (`rendezvous/get`). No peer is told where the bytes go, so no sender
//! writes them: such receives are not announced, and their senders are not invited to write.
//!
//! A rail that matches puts bytes into one region alone. There such a receive has memory that
//! the port lends, as much as a message with its bytes may have.

use super::Endpoint;
use super::at_rail::matching;
use crate::api::{Recv, Refused};
use crate::portal::entry_for;
use crate::request::{Claimed, RecvOp};
use sluice_link::mutants::{self, Mutant};
use sluice_link::{Port, TaggedMessage, Token};
use sluice_portals::{EqTaken, Event, Handle, List, MeSpec, Vector};
use sluice_wire::{Addr, Nanos, Region};

impl Endpoint {
    /// Takes a receive whose buffer lies in several pieces. `recv` has no buffer, and its
    /// completion tells of none.
    ///
    /// # Errors
    /// [`Refused`]; the request leaves no trace then.
    #[cold]
    pub fn recv_pieces<P: Port>(
        &mut self,
        now: Nanos,
        port: &mut P,
        recv: &Recv,
        pieces: &[Region],
    ) -> Result<(), Refused> {
        let vector = vector_of(pieces)?;
        let recv = Recv { buf: extent_of(&vector), ..*recv };
        let before = self.footprint_to_check(recv.source);
        let taken = self.take_recv_pieces(now, port, &recv, vector);
        self.check_refusal(before, taken)
    }

    fn take_recv_pieces<P: Port>(
        &mut self,
        now: Nanos,
        port: &mut P,
        recv: &Recv,
        vector: Vector,
    ) -> Result<(), Refused> {
        self.core.note_time(now);
        if self.recvs.is_full() || self.core.is_unread() {
            return Err(Refused::Again);
        }
        if port.tag_matching().is_some() {
            return self.recv_pieces_at_rail(port, recv, vector);
        }
        let name = self.recvs.next_handle();
        let Ok(of_entry) = self.core.ni.vector_bind(vector.clone()) else {
            return Err(Refused::Again);
        };
        let spec = MeSpec { vector: Some(of_entry), ..entry_for(recv, name.to_u64()) };
        let list = recv.space.pt();
        let Ok(entry) = self.core.ni.me_append(port, list, List::Priority, spec) else {
            self.core.ni.vector_release(of_entry);
            return Err(Refused::Again);
        };
        let (handle, serial) = self.recvs.insert(recv, entry);
        assert!(handle == name, "the entry names its receive");
        self.recvs.set_pieces(handle, vector);
        match entry {
            Some(_) => self.await_message(port, recv, (handle, serial)),
            None => self.take_what_was_here(port),
        }
        Ok(())
    }

    /// Receives the message claimed by the probe with this `context` into several pieces.
    ///
    /// # Errors
    /// As [`Endpoint::recv_claimed`].
    #[cold]
    pub fn recv_claimed_pieces<P: Port>(
        &mut self,
        now: Nanos,
        port: &mut P,
        context: u64,
        pieces: &[Region],
        report: bool,
    ) -> Result<(), Refused> {
        self.core.note_time(now);
        let vector = vector_of(pieces)?;
        let (handle, mut event, claimed) =
            self.begin_claimed(context, extent_of(&vector), report)?;
        self.recvs.set_pieces(handle, vector);
        let Claimed { taken, at_rail, .. } = claimed;
        if let Some(name) = at_rail {
            self.take_from_rail(port, name, handle, &event);
        }
        self.place_held(port, &mut event);
        self.receive_claimed(port, handle, &event, taken);
        Ok(())
    }

    /// A receive that was just posted has met what was here already.
    fn take_what_was_here<P: Port>(&mut self, port: &mut P) {
        // Every earlier event has been taken out, so this is what it has met.
        let taken = self.core.ni.eq_take(self.core.eq);
        if let EqTaken::Event(mut event) | EqTaken::EventAfterDrop(mut event) = taken {
            self.place_held(port, &mut event);
            self.on_matched(port, &event);
        }
        self.drain_events(port);
    }

    /// Copies the bytes of a message that lie in lent memory to the pieces of its receive, and
    /// lets go of that memory. What follows finds a message whose bytes are where they belong.
    fn place_held<P: Port>(&mut self, port: &mut P, event: &mut Event) {
        if event.rts().is_some() {
            return;
        }
        let Some(hold) = event.hold.take() else { return };
        let bytes = Region { addr: event.start, len: event.rlength };
        if !mutants::is(Mutant::LeavesWhatWasHere) {
            self.scatter(port, Handle::from_u64(event.user_ptr), bytes);
        }
        self.core.ni.end_hold(port, hold);
    }

    /// Copies bytes to the pieces of a receive, as far as they fit.
    fn scatter<P: Port>(&mut self, port: &mut P, handle: Handle<RecvOp>, bytes: Region) {
        let Some(vector) = self.recvs.pieces(handle) else { return };
        let len = bytes.len.min(vector.total_bytes());
        let mut at = 0;
        while at < len {
            let piece = vector.piece_at(at).truncated(len - at);
            port.copy(bytes.addr.offset(at), piece.addr, piece.len);
            at += piece.len;
        }
    }
}

/// Of a rail that matches.
impl Endpoint {
    fn recv_pieces_at_rail<P: Port>(
        &mut self,
        port: &mut P,
        recv: &Recv,
        vector: Vector,
    ) -> Result<(), Refused> {
        let len = recv.buf.len.min(matching(port).bytes_max());
        let max = self.core.config.inject_bytes_max;
        if len > max {
            return Err(Refused::TooLong { len, max });
        }
        if self.recvs.staged_bytes() + len > max {
            return Err(Refused::Again);
        }
        let staged = lend(port, len);
        let handle = self.recvs.insert_at_rail(recv);
        self.recvs.set_pieces(handle, vector);
        self.recvs.stage(handle, staged);
        self.post_at_rail(port, handle, recv);
        Ok(())
    }

    /// A receive that the rail matches has met a message.
    pub(super) fn unstage_met<P: Port>(
        &mut self,
        port: &mut P,
        handle: Handle<RecvOp>,
        message: &TaggedMessage,
    ) {
        let len = if message.rts.is_some() { 0 } else { message.len };
        self.unstage(port, handle, len);
    }

    /// The lent memory of a receive that the rail matches, if it has some, goes back. As many
    /// bytes of it are a message's.
    pub(super) fn unstage<P: Port>(&mut self, port: &mut P, handle: Handle<RecvOp>, len: u64) {
        let Some(staged) = self.recvs.unstage(handle) else { return };
        self.scatter(port, handle, staged.truncated(len));
        if !mutants::is(Mutant::KeepsStagedMemory) {
            give_back(port, staged);
        }
    }

    /// Takes the bytes of a claimed message from the rail.
    fn take_from_rail<P: Port>(
        &mut self,
        port: &mut P,
        name: Token,
        handle: Handle<RecvOp>,
        event: &Event,
    ) {
        let len = if event.rts().is_some() { 0 } else { event.rlength };
        let staged = lend(port, len);
        matching(port).take(name, staged);
        self.scatter(port, handle, staged);
        give_back(port, staged);
    }
}

fn vector_of(pieces: &[Region]) -> Result<Vector, Refused> {
    let too_long = Refused::TooLong { len: u64::MAX, max: i64::MAX as u64 };
    Vector::new(pieces.to_vec()).ok_or(too_long)
}

/// What entries and receives say of their memory if it is a vector.
fn extent_of(vector: &Vector) -> Region {
    Region { addr: Addr(0), len: vector.total_bytes() }
}

fn lend<P: Port>(port: &mut P, len: u64) -> Region {
    // No bytes need no memory.
    let addr = if len > 0 { port.lend(len as u32) } else { Addr(0) };
    Region { addr, len }
}

fn give_back<P: Port>(port: &mut P, lent: Region) {
    if lent.len > 0 {
        port.give_back(lent.addr, lent.len as u32);
    }
}
