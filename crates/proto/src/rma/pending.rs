//! Operations under way on the memory of peers.

use crate::api::{Completion, Failure, Kind, Space};
use crate::rma::api::{Deed, Rma};
use crate::rma::pieces::{Piece, Pieces};
use sluice_link::Port;
use sluice_link::mutants::{self, Mutant};
use sluice_portals::{Handle, Ni, Table};
use sluice_wire::{Addr, PeerId, Region};

/// How many operations of the interface a piece may be: one that fetches is two.
pub(crate) const OPERATIONS_OF_PIECE: u32 = 2;

/// An operation that waits for its pieces.
#[derive(Debug)]
pub struct RmaOp {
    deed: Deed,
    peer: PeerId,
    data: Option<u64>,
    context: u64,
    report: bool,
    buf: Addr,
    len: u64,
    /// Pieces that have begun and not ended.
    under_way: usize,
    /// Those that begin when these have ended.
    held: Pieces,
    outcome: Result<(), Failure>,
    is_injected: bool,
    /// The port's memory that holds the bytes of an injected one.
    copy: Option<Region>,
}

/// What the commands of an operation have in common.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Common {
    pub deed: Deed,
    pub peer: PeerId,
    pub data: Option<u64>,
    pub name: Handle<RmaOp>,
}

/// What becomes of an operation when a piece has ended.
#[derive(Debug)]
pub(crate) enum Next {
    /// It waits for others.
    Waits,
    /// More of it begins.
    GoesOn,
    Ends(Completion),
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Operations {
    table: Table<RmaOp>,
    /// Pieces of all of them that have not begun. Room for them is kept in the interface.
    held: usize,
}

impl Operations {
    pub fn new(requests_max: u32) -> Operations {
        Operations { table: Table::new(requests_max), held: 0 }
    }

    /// # Panics
    /// If room is kept for other pieces than there are.
    pub fn check_invariants(&self) {
        let held: usize = self.table.iter().map(|(_, op)| op.held.len()).sum();
        assert!(held == self.held, "room is kept for each piece that has not begun");
    }

    pub fn len(&self) -> u32 {
        self.table.len()
    }

    pub fn is_full(&self) -> bool {
        self.table.is_full()
    }

    /// Whether one aims at this peer.
    pub fn any_to(&self, peer: PeerId) -> bool {
        self.table.iter().any(|(_, op)| op.peer == peer)
    }

    /// What the injected ones aim at.
    pub fn injected_to(&self) -> impl Iterator<Item = PeerId> {
        self.table.iter().filter(|(_, op)| op.is_injected).map(|(_, op)| op.peer)
    }

    /// Adds an operation, one piece of which is under way.
    ///
    /// # Panics
    /// If there are as many as may be.
    pub fn begin(&mut self, rma: &Rma, copy: Option<Region>) -> Handle<RmaOp> {
        let op = RmaOp {
            deed: rma.deed,
            peer: rma.peer,
            data: rma.data,
            context: rma.context,
            report: rma.report,
            buf: rma.parts.first().map_or(Addr(0), |part| part.local.addr),
            len: rma.parts.iter().map(|part| part.local.len).sum(),
            under_way: 1,
            held: Pieces::default(),
            outcome: Ok(()),
            is_injected: rma.inject,
            copy,
        };
        let Ok(handle) = self.table.insert(op) else { unreachable!("room was checked") };
        handle
    }

    /// These are the pieces of an operation that was just added. Room for them was found.
    pub fn hold(&mut self, ni: &mut Ni, handle: Handle<RmaOp>, pieces: Pieces) {
        if let Some(op) = self.table.get_mut(handle) {
            self.held += pieces.len();
            ni.keep_operations_room(room_of(pieces.len()));
            op.held = pieces;
        }
    }

    /// The pieces of an operation that begin now, as nothing else of it is under way.
    pub fn go_on(&mut self, ni: &mut Ni, handle: Handle<RmaOp>) -> Option<(Common, Vec<Piece>)> {
        let op = self.table.get_mut(handle)?;
        let short_bytes_max = match op.deed {
            Deed::Read => Ni::BY_CONTROL_BYTES_MAX.min(ni.get_bytes_max()),
            _ => Ni::BY_CONTROL_BYTES_MAX,
        };
        let pieces = op.held.next(short_bytes_max, op.data.is_some());
        self.held -= pieces.len();
        ni.give_operations_room(room_of(pieces.len()));
        op.under_way = pieces.len();
        let RmaOp { deed, peer, data, .. } = *op;
        Some((Common { deed, peer, data, name: handle }, pieces))
    }

    /// A piece has ended. Of one that has failed, what has not begun never does.
    pub fn piece_ended<P: Port>(
        &mut self,
        ni: &mut Ni,
        port: &mut P,
        handle: Handle<RmaOp>,
        outcome: Result<(), Failure>,
    ) -> Next {
        let Some(op) = self.table.get_mut(handle) else { return Next::Waits };
        op.outcome = op.outcome.and(outcome);
        op.under_way = op.under_way.saturating_sub(1);
        if !mutants::is(Mutant::EndsWithTheFirstPart) {
            if op.under_way > 0 {
                return Next::Waits;
            }
            if !op.held.is_empty() && op.outcome.is_ok() {
                return Next::GoesOn;
            }
        }
        let Some(op) = self.table.remove(handle) else { return Next::Waits };
        self.held -= op.held.len();
        ni.give_operations_room(room_of(op.held.len()));
        if let Some(copy) = op.copy.filter(|_| !mutants::is(Mutant::KeepsInjectedCopies)) {
            port.give_back(copy.addr, copy.len as u32);
        }
        Next::Ends(Completion {
            kind: op.deed.kind(),
            space: Space::Untagged,
            context: op.context,
            len: op.len,
            buf: op.buf,
            tag: 0,
            data: None,
            peer: Some(op.peer),
            quiet: !op.report,
            outcome: op.outcome,
        })
    }
}

/// What so many pieces take of the interface at most.
fn room_of(pieces: usize) -> u32 {
    pieces as u32 * OPERATIONS_OF_PIECE
}

impl Deed {
    pub(crate) fn kind(self) -> Kind {
        match self {
            Deed::Write => Kind::Write,
            Deed::Read => Kind::Read,
            Deed::Combine(..) => Kind::Combine,
            Deed::Fetch(..) => Kind::Fetch,
        }
    }
}
