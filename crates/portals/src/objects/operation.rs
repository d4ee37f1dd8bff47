//! Operations whose end is awaited, at either side, and what each waits for.

use crate::engine::memory::Span;
use crate::engine::ni::Ni;
use crate::objects::event::{Event, NiFail};
use crate::objects::md::Md;
use crate::objects::me::Me;
use crate::objects::pt::Header;
use crate::table::Handle;
use sluice_wire::{Ack, AckKind, Addr, List, PeerId, PtIndex, Region};

/// An operation whose end is awaited.
#[derive(Debug)]
pub(crate) struct Operation {
    pub peer: PeerId,
    pub pt_index: PtIndex,
    /// The descriptor that its events go to; at the target, none.
    pub md: Handle<Md>,
    pub user_ptr: u64,
    pub stage: Stage,
}

/// What an operation waits for.
#[derive(Debug)]
pub(crate) enum Stage {
    /// The rail to have read the memory of a put; then perhaps for an
    /// acknowledgement, unless the target was faster with it.
    Transmit { then_ack: Option<AckKind>, length: u64, acked: Option<Ack>, staged: Option<Region> },
    /// The acknowledgement of a put or an atomic operation.
    Ack { kind: AckKind, length: u64 },
    /// The target to have fetched the data of a put.
    Exposed { kind: AckKind, span: Span },
    /// The answer to a get or a fetching operation, that has slots set aside.
    Reply { into: Span, slots: u32, by: AnswerBy },
    /// The bytes of a get, read by the rail.
    Read { into: Region },
    /// Data on its way here.
    Incoming(Box<Incoming>),
    /// A piece of it.
    Chunk { of: Handle<Operation>, into: Span, slots: u32 },
    /// Data of an entry, on its way to where a get wants it.
    Outgoing(Box<Outgoing>),
    /// The rail to have read the memory of a reply that this process sends.
    Answer { staged: Option<Region> },
}

/// How an answer may come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AnswerBy {
    /// With its bytes.
    Reply,
    /// Offered.
    Offer,
    /// Offered, or written to where it was wanted.
    Write,
}

/// Gets under way between this process and one peer whose data does not come
/// with a reply.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LongGets {
    pub asked: u32,
    pub served: u32,
}

impl LongGets {
    /// As many as one process may have under way at one other. Both keep count,
    /// so what a peer can make this process remember is bounded.
    pub const MAX: u32 = 64;
}

/// Data on its way here: the rest of a put, or the answer to a get.
#[derive(Debug)]
pub(crate) struct Incoming {
    pub purpose: Purpose,
    /// The other side's name for the data.
    pub source: u64,
    /// Where it lies there, if the rail reads it by address.
    pub direct: Option<Addr>,
    pub into: Span,
    /// Bytes asked for.
    pub asked: u64,
    /// Bytes arrived, or read.
    pub arrived: u64,
    /// Pieces asked for and not arrived.
    pub chunks: u32,
    pub outcome: Result<(), NiFail>,
    /// Waits in `Ni::starved` for credits or reply slots.
    pub is_starved: bool,
}

/// What the data is for.
#[derive(Debug)]
pub(crate) enum Purpose {
    /// A put that matched; its end is told as this says.
    Put(Done),
    /// A get of this process, for so much.
    Get { into: Span, place: Place },
}

/// Where at its target an operation was done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Place {
    /// In the entry, in bytes.
    pub offset: u64,
    /// The list that the entry was in.
    pub list: List,
}

/// Data of an entry that a get wants.
#[derive(Debug)]
pub(crate) struct Outgoing {
    pub done: Done,
    pub from: Span,
    /// Where it goes, if the rail writes it by address; else it is pulled.
    pub direct: Option<Addr>,
    /// Bytes written.
    pub written: u64,
    /// The initiator's name for the get.
    pub op: u64,
}

/// How the end of an operation on an entry is told.
#[derive(Debug)]
pub(crate) struct Done {
    pub entry: Handle<Me>,
    /// Its header, if one was kept.
    pub header: Option<Handle<Header>>,
    /// The entry's event, complete but for the outcome.
    pub event: Event,
    /// Where in the entry it was done.
    pub offset: u64,
    /// What the initiator waits for, if anything.
    pub answer: Option<u64>,
    /// Slots whose credits are freed with it.
    pub slots: u32,
}

impl Done {
    pub fn place(&self) -> Place {
        Place { offset: self.offset, list: self.event.list }
    }
}

impl Ni {
    /// Puts down an operation. Room was checked when it was asked for; what a
    /// peer asks for is bounded by its credits, and refused beyond the table.
    pub(crate) fn begin(&mut self, operation: Operation) -> Option<Handle<Operation>> {
        let md = operation.md;
        if self.operations.is_full() {
            return None;
        }
        self.count_long_get(&operation, |count| *count += 1);
        let handle = self.operations.insert(operation).ok()?;
        if let Some(md) = self.mds.get_mut(md) {
            md.pending += 1;
        }
        Some(handle)
    }

    /// Takes an operation out. Its descriptor stays until [`Ni::fire`], for the
    /// events that are still to be told.
    #[inline]
    pub(crate) fn end(&mut self, handle: Handle<Operation>) -> Option<Operation> {
        let operation = self.operations.remove(handle)?;
        self.let_go(operation.md);
        self.count_long_get(&operation, |count| *count -= 1);
        Some(operation)
    }

    /// Changes the count that an operation is part of, if it is a long get.
    fn count_long_get(&mut self, operation: &Operation, change: impl FnOnce(&mut u32)) {
        let asked = match &operation.stage {
            Stage::Reply { by: AnswerBy::Offer | AnswerBy::Write, .. } => true,
            Stage::Incoming(incoming) => match incoming.purpose {
                Purpose::Get { .. } => true,
                Purpose::Put(_) => return,
            },
            Stage::Outgoing(_) => false,
            _ => return,
        };
        let gets = self.long_gets.entry(operation.peer).or_default();
        change(if asked { &mut gets.asked } else { &mut gets.served });
        if *gets == LongGets::default() {
            self.long_gets.remove(&operation.peer);
        } else if asked && gets.asked == LongGets::MAX - 1 {
            // Another may be asked for.
            self.has_freed_reply_slots = true;
        }
    }

    /// One operation fewer is pending on a descriptor.
    #[inline]
    pub(crate) fn let_go(&mut self, handle: Handle<Md>) {
        if let Some(md) = self.mds.get_mut(handle) {
            md.pending -= 1;
            if md.is_released && md.pending == 0 {
                self.released.push(handle);
            }
        }
    }
}
