//! Remote memory, from the calls to what the interface tells.

use super::Endpoint;
use crate::api::{Completion, Failure, Kind, Refused, Space};
use crate::portal::{PT_REMOTE, PT_REMOTE_REGION, PT_REMOTE_TOLD};
use crate::rma::api::{Deed, Exposed, Part, Rma};
use crate::rma::pending::{Common, Next, OPERATIONS_OF_PIECE, RmaOp};
use crate::rma::pieces::{self, Piece, Pieces, pieces_of};
use crate::rma::regions::{RegionOp, region_named};
use sluice_link::mutants::{self, Mutant};
use sluice_link::{PeerError, Port, RailError};
use sluice_portals::{
    Arithmetic, Command, Event, EventKind, Handle, Local, Ni, NiFail, PtlError, Target,
};
use sluice_wire::{AckKind, MatchBits, Nanos, PeerId, PtIndex, Region};

/// Names a region of this process until it is hidden.
pub type RegionId = Handle<RegionOp>;

/// Most bytes of values of one part of an operation that combines.
pub const COMBINED_BYTES_MAX: u64 = Ni::BY_CONTROL_BYTES_MAX;

impl Endpoint {
    /// Exposes memory to all peers.
    ///
    /// # Errors
    /// [`Refused::Again`] if as many regions are exposed as may be.
    pub fn expose<P: Port>(
        &mut self,
        port: &mut P,
        exposed: &Exposed,
    ) -> Result<RegionId, Refused> {
        self.regions.expose(&mut self.core, port, exposed).map_err(|_| Refused::Again)
    }

    /// Exposes a region no more. What a peer moves now without a call of this process ends
    /// before this returns; what this process moves itself may end later.
    pub fn hide<P: Port>(&mut self, port: &mut P, region: RegionId) {
        self.regions.hide(&mut self.core, port, region);
    }

    /// Begins an operation on the memory of a peer.
    ///
    /// # Errors
    /// [`Refused::Again`] if there is no room for it, or it has to wait for earlier ones;
    /// [`Refused::TooLong`] if a part that combines is too long. It leaves no trace then.
    pub fn rma<P: Port>(&mut self, now: Nanos, port: &mut P, rma: &Rma) -> Result<(), Refused> {
        self.core.note_time(now);
        let combined = matches!(rma.deed, Deed::Combine(..) | Deed::Fetch(..));
        let parts_max = if combined { COMBINED_BYTES_MAX } else { u64::MAX };
        if let Some(part) = rma.parts.iter().find(|part| part.local.len > parts_max) {
            return Err(Refused::TooLong { len: part.local.len, max: parts_max });
        }
        let commands = OPERATIONS_OF_PIECE as usize * pieces::count(rma.parts);
        let has_room = self.core.ni.operations_room() > commands;
        let is_fenced = rma.fence && !mutants::is(Mutant::IgnoresFences);
        let must_wait = is_fenced && self.is_busy_with(rma.peer);
        if self.operations.is_full() || self.core.is_unread() || !has_room || must_wait {
            return Err(Refused::Again);
        }
        let (moved, outcome) = self.move_published(port, rma);
        let is_whole = moved > 0 && moved == rma.parts.len();
        if is_whole || outcome.is_err() {
            let handle = self.operations.begin(rma, None);
            self.piece_ended(port, handle, outcome);
            return Ok(());
        }
        let asked = if mutants::is(Mutant::AsksForWhatHasMoved) { 0 } else { moved };
        self.ask_for(port, rma, &rma.parts[asked..]);
        self.drain_events(port);
        Ok(())
    }

    /// Begins an operation with what is left of its parts, by packets.
    fn ask_for<P: Port>(&mut self, port: &mut P, rma: &Rma, parts: &[Part]) {
        let in_place = rma.deed == Deed::Read || mutants::is(Mutant::InjectsInPlace);
        let copies = rma.inject && !in_place;
        let copy = if copies { copied(port, parts) } else { None };
        let handle = self.operations.begin(rma, copy);
        if let Err(why) = self.core.await_peer(port, rma.peer) {
            let failure = Failure::PeerGone { peer: rma.peer, why };
            return self.piece_ended(port, handle, Err(failure));
        }
        let mut copied = copy.map(|copy| copy.addr);
        let mut pieces = pieces_of(parts).map(|mut piece| {
            let local = &mut piece.part.local;
            if let Some(at) = &mut copied {
                (local.addr, *at) = (*at, at.offset(local.len));
            }
            piece
        });
        match pieces.next() {
            None => self.piece_ended(port, handle, Ok(())),
            Some(only) if pieces::count(parts) == 1 => {
                let &Rma { deed, peer, data, .. } = rma;
                self.issue_piece(port, &Common { deed, peer, data, name: handle }, &only);
            }
            Some(first) => {
                let pieces = Pieces::new(std::iter::once(first).chain(pieces));
                self.operations.hold(&mut self.core.ni, handle, pieces);
                self.begin_pieces(port, handle);
            }
        }
    }

    /// Writes or reads what the peer lets others move without its call: how many parts, from
    /// the first on, and whether one has failed. For the others it is asked.
    fn move_published<P: Port>(&mut self, port: &mut P, rma: &Rma) -> (usize, Result<(), Failure>) {
        let peer = rma.peer;
        let moves = matches!(rma.deed, Deed::Write | Deed::Read) && rma.data.is_none();
        if !moves || rma.parts.is_empty() || self.core.peers.gone(peer).is_some() {
            return (0, Ok(()));
        }
        // What it offers is seen when the way to it is open. Who cannot be reached is told below.
        if self.core.ni.ensure_connected(port, peer).is_err() {
            return (0, Ok(()));
        }
        for (nth, &Part { local, key, offset, .. }) in rma.parts.iter().enumerate() {
            let moved = match rma.deed {
                Deed::Write => port.write_published(peer, key, offset, local),
                _ => port.read_published(peer, key, offset, local),
            };
            let failure = match moved {
                Some(Ok(())) => continue,
                None => return (nth, Ok(())),
                Some(Err(RailError::PeerGone)) => Failure::PeerGone { peer, why: PeerError::Dead },
                Some(Err(_)) => Failure::of(NiFail::Segv, peer),
            };
            return (nth, Err(failure));
        }
        (rma.parts.len(), Ok(()))
    }

    /// Whether an earlier operation on this peer has not ended, or a message to it.
    #[must_use]
    pub fn is_busy_with(&self, peer: PeerId) -> bool {
        self.operations.any_to(peer) || self.sends.any_to(peer)
    }

    /// Begins those pieces of an operation that may begin now.
    fn begin_pieces<P: Port>(&mut self, port: &mut P, handle: Handle<RmaOp>) {
        let begun = self.operations.go_on(&mut self.core.ni, handle);
        let Some((common, pieces)) = begun else { return };
        for piece in &pieces {
            self.issue_piece(port, &common, piece);
        }
    }

    fn issue_piece<P: Port>(&mut self, port: &mut P, common: &Common, piece: &Piece) {
        let &Common { deed, peer, data, name } = common;
        let (part, pt_index) = (&piece.part, piece.pt_index(data.is_some()));
        let md = self.core.remote_md;
        let local = |region: Region| Local { md, offset: region.addr.0, length: region.len };
        let target =
            Target { peer, pt_index, match_bits: MatchBits(part.key), remote_offset: part.offset };
        let data = data.filter(|_| pt_index == PT_REMOTE_TOLD);
        let (user_ptr, hdr_data) = (name.to_u64(), data.unwrap_or(0));
        let (from, ack) = (local(part.local), Some(AckKind::Full));
        let arithmetic = |op, datatype| Arithmetic { op, datatype, operand: part.operand };
        let command = match deed {
            Deed::Write => Command::Put { from, ack, target, hdr_data, user_ptr },
            Deed::Read => Command::Get { into: from, target, user_ptr },
            Deed::Combine(op, datatype) => {
                let arithmetic = arithmetic(op, datatype);
                Command::Atomic { from, ack, target, hdr_data, user_ptr, arithmetic }
            }
            Deed::Fetch(op, datatype) => {
                let into = local(Region { addr: part.result, len: part.local.len });
                let arithmetic = arithmetic(op, datatype);
                Command::Fetch { into, from, target, hdr_data, user_ptr, arithmetic }
            }
        };
        match self.core.ni.issue(port, &command) {
            Ok(()) => {}
            Err(PtlError::ArgInvalid(_)) => self.piece_ended(port, name, Err(Failure::Fault)),
            // Room was kept for it, but what waits for credits counts too: millions at most.
            Err(_) => self.piece_ended(port, name, Err(Failure::Aborted)),
        }
    }

    fn piece_ended<P: Port>(
        &mut self,
        port: &mut P,
        handle: Handle<RmaOp>,
        outcome: Result<(), Failure>,
    ) {
        match self.operations.piece_ended(&mut self.core.ni, port, handle, outcome) {
            Next::Waits => {}
            Next::GoesOn => self.begin_pieces(port, handle),
            Next::Ends(completion) => self.core.complete(completion),
        }
    }

    /// An event of an operation on remote memory, of this process's or of a peer's.
    #[cold]
    pub(super) fn on_remote_event<P: Port>(&mut self, port: &mut P, event: &Event) {
        match event.kind {
            EventKind::Ack | EventKind::Reply => {
                let outcome = event.outcome.map_err(|fail| refused_there(fail, event.peer));
                self.piece_ended(port, Handle::from_u64(event.user_ptr), outcome);
            }
            // It is followed by one of those.
            EventKind::Send => {}
            _ => self.on_touched(event),
        }
    }

    /// A peer has done something with a region of this process.
    fn on_touched(&mut self, event: &Event) {
        let is_put = event.kind == EventKind::Put;
        let data = (is_put && event.pt_index == PT_REMOTE_TOLD).then_some(event.hdr_data);
        let Some(region) = self.regions.get(region_named(event.user_ptr)) else { return };
        let told = region.told;
        let forgets = data.is_some() && mutants::is(Mutant::ForgetsDataOfWrites);
        if event.outcome.is_err() || (data.is_none() && told.is_none()) || forgets {
            return;
        }
        let is_read = event.kind == EventKind::Get && !mutants::is(Mutant::TellsReadsAsWrites);
        let kind = match (is_read, event.pt_index == PT_REMOTE_REGION) {
            (true, true) => Kind::RegionRead,
            (true, false) => Kind::PeerRead,
            (false, true) => Kind::RegionWrite,
            (false, false) => Kind::PeerWrite,
        };
        self.core.complete(Completion {
            kind,
            space: Space::Untagged,
            context: told.unwrap_or(0),
            len: event.mlength,
            buf: event.start,
            tag: 0,
            data,
            peer: Some(event.peer),
            quiet: data.is_none(),
            outcome: Ok(()),
        });
    }
}

/// All bytes of these parts, in memory of the port.
fn copied<P: Port>(port: &mut P, parts: &[Part]) -> Option<Region> {
    let len: u64 = parts.iter().map(|part| part.local.len).sum();
    if len == 0 {
        return None;
    }
    let copy = Region { addr: port.lend(len as u32), len };
    let mut at = copy.addr;
    for Region { addr, len } in parts.iter().map(|part| part.local) {
        port.copy(addr, at, len);
        at = at.offset(len);
    }
    Some(copy)
}

/// What a failure means of an operation on the memory of `peer`.
fn refused_there(fail: NiFail, peer: PeerId) -> Failure {
    match fail {
        NiFail::NoMatch | NiFail::PtDisabled => Failure::NoRegion { peer },
        NiFail::OpViolation | NiFail::PermViolation => Failure::NoRight { peer },
        other => Failure::of(other, peer),
    }
}

/// Whether events of this portal table entry are those of remote memory.
#[inline]
pub(super) fn is_remote(pt_index: PtIndex) -> bool {
    pt_index >= PT_REMOTE
}
