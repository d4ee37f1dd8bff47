//! Portal table entries: two match lists, and the headers of messages that
//! matched in the overflow list and wait for an entry of the priority list.

use crate::eq::Eq;
use crate::me::Me;
use crate::table::Handle;
use sluice_wire::{Addr, MatchBits, PeerId, PtIndex, Rts};

/// A doubly linked list through the entries of a table.
#[derive(Debug)]
pub(crate) struct Chain<T> {
    pub head: Option<Handle<T>>,
    pub tail: Option<Handle<T>>,
}

impl<T> Chain<T> {
    fn new() -> Chain<T> {
        Chain { head: None, tail: None }
    }
}

/// A portal table entry.
#[derive(Debug)]
pub(crate) struct Pt {
    pub eq: Option<Handle<Eq>>,
    pub priority: Chain<Me>,
    pub overflow: Chain<Me>,
    pub unexpected: Chain<Header>,
    pub unexpected_count: u32,
}

impl Pt {
    pub fn new(eq: Option<Handle<Eq>>) -> Pt {
        Pt {
            eq,
            priority: Chain::new(),
            overflow: Chain::new(),
            unexpected: Chain::new(),
            unexpected_count: 0,
        }
    }
}

/// What is kept of a message that arrived before its receive.
#[derive(Debug)]
pub struct Header {
    pub(crate) pt_index: PtIndex,
    pub(crate) peer: PeerId,
    pub(crate) match_bits: MatchBits,
    pub(crate) hdr_data: u64,
    pub(crate) user: u8,
    pub(crate) rlength: u64,
    pub(crate) mlength: u64,
    /// Where its bytes are: in the overflow entry, or lent.
    pub(crate) start: Addr,
    pub(crate) rts: Option<Rts>,
    /// The overflow entry that took it.
    pub(crate) entry: Handle<Me>,
    /// Bytes of lent memory that it holds.
    pub(crate) lent: Option<u32>,
    /// Mailbox slots whose credits it holds.
    pub(crate) slots: u32,
    /// The initiator's name for a put in lent memory that wants to know when
    /// it is done with.
    pub(crate) ack: Option<u64>,
    pub(crate) prev: Option<Handle<Header>>,
    pub(crate) next: Option<Handle<Header>>,
}
