//! Operations under way on the memory of peers.

use crate::api::{Completion, Failure, Kind, Space};
use crate::rma::api::{Deed, Rma};
use sluice_link::Port;
use sluice_link::mutants::{self, Mutant};
use sluice_portals::{Handle, Table};
use sluice_wire::{Addr, PeerId, Region};

/// An operation that waits for its parts.
#[derive(Debug)]
pub struct RmaOp {
    kind: Kind,
    peer: PeerId,
    context: u64,
    report: bool,
    buf: Addr,
    len: u64,
    /// Parts that have not ended.
    left: u32,
    outcome: Result<(), Failure>,
    /// The port's memory that holds the bytes of an injected one.
    copy: Option<Region>,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Operations {
    table: Table<RmaOp>,
}

impl Operations {
    pub fn new(requests_max: u32) -> Operations {
        Operations { table: Table::new(requests_max) }
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

    /// Adds an operation of so many parts.
    ///
    /// # Panics
    /// If there are as many as may be.
    pub fn begin(&mut self, rma: &Rma, parts: u32, copy: Option<Region>) -> Handle<RmaOp> {
        let op = RmaOp {
            kind: rma.deed.kind(),
            peer: rma.peer,
            context: rma.context,
            report: rma.report,
            buf: rma.parts.first().map_or(Addr(0), |part| part.local.addr),
            len: rma.parts.iter().map(|part| part.local.len).sum(),
            left: parts,
            outcome: Ok(()),
            copy,
        };
        let Ok(handle) = self.table.insert(op) else { unreachable!("room was checked") };
        handle
    }

    /// A part has ended. The operation's completion, if it was the last one.
    pub fn part_ended<P: Port>(
        &mut self,
        port: &mut P,
        handle: Handle<RmaOp>,
        outcome: Result<(), Failure>,
    ) -> Option<Completion> {
        let op = self.table.get_mut(handle)?;
        op.outcome = op.outcome.and(outcome);
        op.left = op.left.saturating_sub(1);
        if op.left > 0 && !mutants::is(Mutant::EndsWithTheFirstPart) {
            return None;
        }
        let op = self.table.remove(handle)?;
        if let Some(copy) = op.copy.filter(|_| !mutants::is(Mutant::KeepsInjectedCopies)) {
            port.give_back(copy.addr, copy.len as u32);
        }
        Some(Completion {
            kind: op.kind,
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
