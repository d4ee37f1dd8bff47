//! Posted receives, and probes that wait for answers, in the order they were
//! posted in: kept only while some sender has run out of credits.
//!
//! A receive is asked of stalled senders in this order, so the question is
//! always for the next one from a given place that one sender could fill. There
//! is one row for each source and one for any, and the next is the older of two.

use crate::request::{ProbeOp, RecvOp};
use sluice_portals::Handle;
use sluice_wire::PeerId;
use std::collections::BTreeMap;

/// Whose place it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asker {
    Recv(Handle<RecvOp>),
    Probe(Handle<ProbeOp>),
}

/// The row of receives that accept any source.
const ANY: u64 = u64::MAX;

#[derive(Debug, Default)]
pub(crate) struct Order {
    /// By source and serial.
    rows: BTreeMap<(u64, u64), Asker>,
    /// Receives posted since a sender was last found without credits.
    pub idle_posts: usize,
}

impl Order {
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    pub fn insert(&mut self, source: Option<PeerId>, serial: u64, asker: Asker) {
        self.rows.insert((row(source), serial), asker);
    }

    /// Takes a place out; it may be out already.
    pub fn remove(&mut self, source: Option<PeerId>, serial: u64) {
        self.rows.remove(&(row(source), serial));
    }

    /// The first one from `serial` on that `peer` could fill.
    pub fn next(&self, peer: PeerId, serial: u64) -> Option<(u64, Asker)> {
        let in_row = |row| self.rows.range((row, serial)..=(row, u64::MAX)).next();
        let own = in_row(row(Some(peer)));
        let any = in_row(ANY);
        let place = own.into_iter().chain(any).min_by_key(|((_, serial), _)| *serial);
        place.map(|(&(_, serial), &asker)| (serial, asker))
    }

    /// The oldest receive that `peer` could fill.
    pub fn first_recv(&self, peer: PeerId) -> Option<u64> {
        let mut from = 0;
        loop {
            match self.next(peer, from)? {
                (serial, Asker::Recv(_)) => return Some(serial),
                (serial, Asker::Probe(_)) => from = serial + 1,
            }
        }
    }

    /// Whether this place is there, and whose.
    pub fn holds(&self, source: Option<PeerId>, serial: u64, asker: Asker) -> bool {
        self.rows.get(&(row(source), serial)) == Some(&asker)
    }
}

fn row(source: Option<PeerId>) -> u64 {
    source.map_or(ANY, |peer| u64::from(peer.0))
}
