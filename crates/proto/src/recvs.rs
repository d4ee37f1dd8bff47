//! Pending receives: those that are posted, and those whose message is on its way.

use crate::api::Recv;
use crate::core::Core;
use crate::multi::Multis;
use crate::rendezvous::pull::Pull;
use crate::request::{RecvOp, RecvState, Shape};
use sluice_link::mutants::{self, Mutant};
use sluice_portals::{Handle, Me, Table, Vector};
use sluice_wire::{PeerId, Region};

/// See the module.
#[derive(Debug)]
pub(crate) struct Recvs {
    ops: Table<RecvOp>,
    next_serial: u64,
    pub multis: Multis,
    /// The buffers of those that lie in several pieces.
    pieces: Table<Pieces>,
    /// Of all lent memory that messages for such buffers come to.
    staged_bytes: u64,
}

/// A buffer in several pieces.
#[derive(Debug)]
pub(crate) struct Pieces {
    vector: Vector,
    /// Lent memory that the rail which matches puts its message into.
    staged: Option<Region>,
}

impl Recvs {
    pub fn new(requests_max: u32) -> Recvs {
        Recvs {
            ops: Table::new(requests_max),
            next_serial: 0,
            multis: Multis::new(requests_max),
            pieces: Table::new(requests_max),
            staged_bytes: 0,
        }
    }

    pub fn len(&self) -> u32 {
        self.ops.len()
    }

    #[inline]
    pub fn is_full(&self) -> bool {
        self.ops.is_full()
    }

    /// The name that the next receive will have.
    #[inline]
    pub fn next_handle(&self) -> Handle<RecvOp> {
        self.ops.next_handle()
    }

    #[inline]
    pub fn get(&self, handle: Handle<RecvOp>) -> Option<&RecvOp> {
        self.ops.get(handle)
    }

    #[inline]
    pub fn get_mut(&mut self, handle: Handle<RecvOp>) -> Option<&mut RecvOp> {
        self.ops.get_mut(handle)
    }

    pub fn iter(&self) -> impl Iterator<Item = (Handle<RecvOp>, &RecvOp)> {
        self.ops.iter()
    }

    /// Places of receives and probes that were given.
    pub fn serials_given(&self) -> u64 {
        self.next_serial
    }

    /// The place of a receive or a probe in the order of their calls.
    #[inline]
    pub fn take_serial(&mut self) -> u64 {
        let serial = self.next_serial;
        self.next_serial += 1;
        serial
    }

    /// A receive that waits behind `entry` for a message; without one, for that which
    /// was there already. Its name and its place.
    ///
    /// # Panics
    /// If there are as many as may be.
    #[inline]
    pub fn insert(&mut self, recv: &Recv, entry: Option<Handle<Me>>) -> (Handle<RecvOp>, u64) {
        self.insert_as(recv, RecvState::Posted(entry))
    }

    /// The same for one that the rail matches.
    pub fn insert_at_rail(&mut self, recv: &Recv) -> Handle<RecvOp> {
        self.insert_as(recv, RecvState::AtRail).0
    }

    #[inline(always)]
    fn insert_as(&mut self, recv: &Recv, state: RecvState) -> (Handle<RecvOp>, u64) {
        let serial = self.next_serial;
        let op = RecvOp { recv: *recv, serial, state, announced: None, shape: Shape::Whole };
        let Ok(handle) = self.ops.insert(op) else { unreachable!("room was checked") };
        self.next_serial += 1;
        (handle, serial)
    }

    /// The buffer of a receive that was just inserted lies in these pieces.
    pub fn set_pieces(&mut self, handle: Handle<RecvOp>, vector: Vector) {
        let Some(op) = self.ops.get_mut(handle) else { return };
        let Ok(pieces) = self.pieces.insert(Pieces { vector, staged: None }) else {
            unreachable!("there are as many places as receives")
        };
        op.shape = Shape::Pieces(pieces);
    }

    /// The pieces that a receive puts its message into, if there are several.
    pub fn pieces(&self, handle: Handle<RecvOp>) -> Option<&Vector> {
        Some(&self.pieces.get(self.pieces_of(handle)?)?.vector)
    }

    fn pieces_of(&self, handle: Handle<RecvOp>) -> Option<Handle<Pieces>> {
        match self.ops.get(handle)?.shape {
            Shape::Pieces(pieces) => Some(pieces),
            Shape::Whole | Shape::Part(_) => None,
        }
    }

    /// Bytes of all lent memory that messages for pieces come to.
    pub fn staged_bytes(&self) -> u64 {
        self.staged_bytes
    }

    /// A message for the pieces of a receive comes to this lent memory.
    pub fn stage(&mut self, handle: Handle<RecvOp>, staged: Region) {
        let Some(pieces) = self.pieces_of(handle) else { return };
        let Some(pieces) = self.pieces.get_mut(pieces) else { return };
        self.staged_bytes += staged.len;
        pieces.staged = Some(staged);
    }

    /// It comes there no more. None if none was to.
    pub fn unstage(&mut self, handle: Handle<RecvOp>) -> Option<Region> {
        let pieces = self.pieces_of(handle)?;
        let staged = self.pieces.get_mut(pieces)?.staged.take()?;
        self.staged_bytes -= staged.len;
        Some(staged)
    }

    /// Where the rail that matches puts the message of a receive.
    ///
    /// # Panics
    /// If there is no such receive.
    pub fn place_at_rail(&self, handle: Handle<RecvOp>) -> Region {
        let op = self.ops.get(handle).expect("it is pending until it has met a message");
        match op.shape {
            Shape::Pieces(pieces) => {
                self.pieces.get(pieces).and_then(|it| it.staged).unwrap_or(Region::EMPTY)
            }
            Shape::Whole | Shape::Part(_) => op.recv.buf,
        }
    }

    /// A receive into one region has ended; this was all of it that counts. Of one into
    /// several, they have to be forgotten besides.
    #[inline]
    pub fn discard(&mut self, handle: Handle<RecvOp>) {
        self.ops.discard(handle);
    }

    /// The pieces of a receive that is no more.
    pub fn forget_pieces(&mut self, pieces: Handle<Pieces>) {
        self.pieces.discard(pieces);
    }

    pub fn remove(&mut self, handle: Handle<RecvOp>) -> Option<RecvOp> {
        let op = self.ops.remove(handle)?;
        if let Shape::Pieces(pieces) = op.shape {
            self.forget_pieces(pieces);
        }
        Some(op)
    }

    /// Takes a posted receive back.
    pub fn unpost(&mut self, core: &mut Core, handle: Handle<RecvOp>) -> Option<RecvOp> {
        let op = self.remove(handle)?;
        if let RecvState::Posted(Some(entry)) = op.state {
            let unlinked = core.ni.me_unlink(entry);
            assert!(unlinked.is_ok(), "a posted receive's entry is linked");
        }
        Some(op)
    }

    /// The oldest one with this context that has met no message.
    pub fn oldest_posted(&self, context: u64) -> Option<Handle<RecvOp>> {
        let posted = self.ops.iter().filter(|(_, op)| op.recv.context == context);
        let oldest = posted.filter(|(_, op)| op.is_posted()).min_by_key(|(_, op)| op.serial);
        oldest.map(|(handle, _)| handle)
    }

    /// Those that only `peer` could fill.
    pub fn only_from(&self, peer: PeerId) -> Vec<Handle<RecvOp>> {
        let waits =
            |op: &RecvOp| op.recv.source == Some(peer) && matches!(op.state, RecvState::Posted(_));
        self.ops.iter().filter(|(_, op)| waits(op)).map(|(handle, _)| handle).collect()
    }

    /// Those that the rail matches and that `is_meant`, oldest first.
    pub fn at_rail(&self, is_meant: impl Fn(&Recv) -> bool) -> Vec<Handle<RecvOp>> {
        let at_rail = self.ops.iter().filter(|(_, op)| matches!(op.state, RecvState::AtRail));
        let meant = at_rail.filter(|(_, op)| is_meant(&op.recv));
        let mut meant: Vec<_> = meant.map(|(handle, op)| (op.serial, handle)).collect();
        meant.sort_unstable_by_key(|(serial, _)| *serial);
        meant.into_iter().map(|(_, handle)| handle).collect()
    }

    /// Those whose message is on its way from `peer`.
    pub fn pulled_from(&self, peer: PeerId) -> Vec<Handle<RecvOp>> {
        let is_pulled =
            |op: &RecvOp| matches!(&op.state, RecvState::Pulling(pull) if pull.event.peer == peer);
        self.ops.iter().filter(|(_, op)| is_pulled(op)).map(|(handle, _)| handle).collect()
    }

    /// The buffer of a receive whose message is on its way, if that is one region, and the
    /// message.
    pub fn pulling(&mut self, handle: Handle<RecvOp>) -> Option<(Region, &mut Pull)> {
        let op = self.ops.get_mut(handle)?;
        match (&mut op.state, op.shape) {
            (RecvState::Pulling(pull), Shape::Whole | Shape::Part(_)) => Some((op.recv.buf, pull)),
            _ => None,
        }
    }

    /// Where the bytes go that are asked for next of a message that is on its way, as many as
    /// lie in one region; and the message.
    pub fn next_place(&mut self, handle: Handle<RecvOp>) -> Option<(Region, &mut Pull)> {
        let op = self.ops.get_mut(handle)?;
        let RecvState::Pulling(pull) = &mut op.state else { return None };
        let left = pull.want.saturating_sub(pull.asked);
        let rest = match op.shape {
            Shape::Pieces(pieces) => {
                let at = if mutants::is(Mutant::FillsOnePieceAgain) { 0 } else { pull.asked };
                self.pieces.get(pieces)?.vector.piece_at(at)
            }
            Shape::Whole | Shape::Part(_) => {
                Region { addr: op.recv.buf.addr.offset(pull.asked), len: left }
            }
        };
        Some((rest.truncated(left), pull))
    }

    /// Panics unless each receive into pieces has them, and nobody else does. For tests.
    pub fn check_invariants(&self) {
        let in_pieces = self.ops.iter().filter(|(handle, _)| self.pieces(*handle).is_some());
        assert!(in_pieces.count() == self.pieces.len() as usize, "pieces of no receive");
        let staged = self.pieces.iter().filter_map(|(_, pieces)| pieces.staged);
        let staged: u64 = staged.map(|staged| staged.len).sum();
        assert!(staged == self.staged_bytes, "lent memory of receives");
    }

    /// The message that is on its way to a receive.
    pub fn pull_mut(&mut self, handle: Handle<RecvOp>) -> Option<&mut Pull> {
        match &mut self.ops.get_mut(handle)?.state {
            RecvState::Pulling(pull) => Some(pull),
            RecvState::Posted(_) | RecvState::AtRail => None,
        }
    }
}
