//! The order in which packets of remote memory must come, of one origin toward one target.
//!
//! Parts are sent in the order in which they were begun. But the target is told of an operation
//! with the last of its parts at each region, and such a part is held back at its origin until
//! the parts before it have ended, where one of them is long or data comes with it. It comes
//! some time after them then, between parts of any other operation.

use super::books::{Op, Piece, State};
use sluice_proto::Deed;
use sluice_wire::Packet;
use std::collections::{BTreeMap, VecDeque};

/// A part, by its operation and its number.
pub(super) type Name = (u64, usize);

/// Parts whose packets have not been read.
#[derive(Debug, Default)]
pub(super) struct Way {
    /// They come in this order.
    next: VecDeque<Name>,
    /// They come when the earlier parts of their operations have ended, and others with them.
    held: Vec<Name>,
}

/// What a packet says of the part that it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Looks {
    key: u64,
    offset: u64,
    pub len: u64,
    of: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Put,
    Get,
    Atomic,
}

impl Looks {
    /// None if the packet is of something else than remote memory.
    pub fn of(packet: &Packet, payload_len: u64) -> Option<Looks> {
        let (bits, offset, len, of) = match packet {
            Packet::Put(put) => {
                let len = put.bulk.map_or(payload_len, |bulk| u64::from(bulk.len));
                (put.match_bits, put.remote_offset, len, Kind::Put)
            }
            Packet::Get(get) => (get.match_bits, get.remote_offset, get.length, Kind::Get),
            Packet::Atomic(atomic) => {
                let operand = if atomic.op.has_operand() { atomic.datatype.bytes() } else { 0 };
                let len = payload_len - operand as u64;
                (atomic.match_bits, atomic.remote_offset, len, Kind::Atomic)
            }
            _ => return None,
        };
        Some(Looks { key: bits.0, offset, len, of })
    }

    pub fn of_part(deed: Deed, part: &Piece) -> Looks {
        let of = match deed {
            Deed::Write => Kind::Put,
            Deed::Read => Kind::Get,
            Deed::Combine(..) | Deed::Fetch(..) => Kind::Atomic,
        };
        Looks { key: part.key, offset: part.offset, len: part.local.len, of }
    }
}

impl Op {
    /// Whether its target is told with this part that the operation is done at its region.
    pub fn is_told_at(&self, nth: usize) -> bool {
        self.parts[nth + 1..].iter().all(|later| later.key != self.parts[nth].key)
    }

    /// The parts that are sent at once, if the first of them is this one.
    fn sent_with(&self, first: usize) -> std::ops::Range<usize> {
        let waits_for = |part: &Piece| self.data.is_some() || part.local.len > self.short_bytes_max;
        let mut waits = false;
        let begins = |nth: &usize| {
            let begins = !waits || !self.is_told_at(*nth);
            waits |= waits_for(&self.parts[*nth]);
            begins
        };
        let count = (first..self.parts.len()).take_while(begins).count();
        first..first + count
    }

    /// Whether a part of it is held back.
    pub fn is_held(&self) -> bool {
        self.sent_with(self.at_once).end < self.parts.len()
    }

    /// The parts that have not come, as they look.
    fn looks(&self) -> impl Iterator<Item = Looks> {
        let coming = self.parts.iter().filter(|part| part.state == State::OnItsWay);
        coming.map(|part| Looks::of_part(self.deed, part))
    }

    /// Whether the packets of this operation, which is about to begin, could be taken for one
    /// another, or for those of another one toward the same process.
    pub fn is_mistakable(&self, ops: &BTreeMap<u64, Op>) -> bool {
        let mine: Vec<Looks> = self.looks().collect();
        let is_twice = |at: usize| mine[..at].contains(&mine[at]);
        let under_way = ops.values().filter(|op| !op.is_done || op.is_lost);
        let mut others = under_way.filter(|op| {
            (op.who, op.peer) == (self.who, self.peer) && (self.is_held() || op.is_held())
        });
        self.is_held() && (0..mine.len()).any(is_twice)
            || others.any(|op| op.looks().any(|look| mine.contains(&look)))
    }
}

impl Way {
    pub fn begin(&mut self, context: u64, op: &Op) {
        let sent = self.sent(context, op, op.at_once);
        self.next.extend(sent);
    }

    /// What is sent from this part on. The next part is held.
    fn sent(&mut self, context: u64, op: &Op, first: usize) -> impl Iterator<Item = Name> + use<> {
        let sent = op.sent_with(first);
        if sent.end < op.parts.len() {
            self.held.push((context, sent.end));
        }
        sent.map(move |nth| (context, nth))
    }

    /// The part that a packet is, which was just read.
    ///
    /// # Panics
    /// If no part that may come now looks like it.
    pub fn take(&mut self, ops: &BTreeMap<u64, Op>, looks: &Looks) -> Name {
        let is_it = |&(context, nth): &Name| {
            let op = &ops[&context];
            Looks::of_part(op.deed, &op.parts[nth]) == *looks
        };
        if let Some(name) = self.next.front().copied().filter(is_it) {
            self.next.pop_front();
            return name;
        }
        let Some(at) = self.held.iter().position(is_it) else {
            panic!("{looks:?} has come out of order: before {:?}, {:?}", self.next, self.held);
        };
        let (context, nth) = self.held.swap_remove(at);
        let op = &ops[&context];
        let is_taken = |part: &Piece| matches!(part.state, State::Taken { .. });
        let may_come = op.parts[..nth].iter().all(is_taken);
        assert!(may_come, "part {nth} of {context} has come before others of it");
        // The others that are sent with it come before all that was begun later.
        let sent: Vec<Name> = self.sent(context, op, nth).skip(1).collect();
        sent.into_iter().rev().for_each(|name| self.next.push_front(name));
        (context, nth)
    }

    /// An operation has ended: what is held of it never comes.
    pub fn ended(&mut self, context: u64) {
        self.held.retain(|(of, _)| *of != context);
    }
}
