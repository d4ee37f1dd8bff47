//! Operations whose end is awaited, at either side, and what each waits for.

use crate::objects::event::{Event, NiFail};
use crate::objects::md::Md;
use crate::objects::me::Me;
use crate::objects::pt::Header;
use crate::objects::vector::Span;
use crate::table::Handle;
use sluice_link::Held;
use sluice_wire::{
    Ack, AckKind, List, PeerId, PtIndex, REPLY_HEADER_BYTES, Region, RemoteKey, slots_for,
};

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

impl Operation {
    /// Whether the rail uses its memory, and will say when it does not any more.
    pub fn is_with_rail(&self) -> bool {
        matches!(
            self.stage,
            Stage::Transmit { .. } | Stage::Answer { .. } | Stage::Lent(_) | Stage::Read { .. }
        )
    }

    /// Names the memory that is exposed to the peer as long as this waits.
    pub fn exposed(&self) -> Option<RemoteKey> {
        let key = match self.stage {
            Stage::Exposed { key, .. } | Stage::Reply { by: AnswerBy::Write(key), .. } => key,
            _ => return None,
        };
        Some(key).filter(|key| key.is_some())
    }
}

/// Who is told of an operation of this process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Told {
    /// The descriptor; none if the operation is kept, which is told by its name.
    pub md: Handle<Md>,
    /// The client's word for it, or that name.
    pub user_ptr: u64,
}

impl Told {
    /// Of an operation that is kept under a name that is not zero, or is not.
    #[inline(always)]
    pub fn new(md: Handle<Md>, user_ptr: u64, kept: u64) -> Told {
        if kept == 0 {
            Told { md, user_ptr }
        } else {
            Told { md: Handle::default(), user_ptr: kept }
        }
    }
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
    Exposed { kind: AckKind, span: Span, key: RemoteKey },
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
    /// The same of an entry's memory, which a get wants: the target is told when it is done.
    Lent(Box<Done>),
}

/// How an answer may come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AnswerBy {
    /// With its bytes.
    Reply,
    /// Offered.
    Offer,
    /// Offered, or written to where it was wanted: to memory exposed under this key.
    Write(RemoteKey),
}

/// Slots that the reply to a get of `length` bytes takes.
pub(crate) fn reply_slots(length: u64) -> u32 {
    slots_for(REPLY_HEADER_BYTES, length)
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
    /// Names it there, if the rail reads it by its key.
    pub direct: Option<RemoteKey>,
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

impl Incoming {
    pub fn new(purpose: Purpose, source: u64, direct: Option<RemoteKey>, into: Span) -> Incoming {
        Incoming {
            purpose,
            source,
            direct,
            into,
            asked: 0,
            arrived: 0,
            chunks: 0,
            outcome: Ok(()),
            is_starved: false,
        }
    }

    /// The data slots that a put holds, and whose they are.
    pub fn held(&self) -> Option<(PeerId, u32)> {
        match &self.purpose {
            Purpose::Put(done) => Some((done.event.peer, done.held.of_data())),
            Purpose::Get { .. } => None,
        }
    }
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
    /// Names where it goes, if the rail writes it by a key; else it is pulled.
    pub direct: Option<RemoteKey>,
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
    pub held: Held,
}

impl Done {
    pub fn place(&self) -> Place {
        Place { offset: self.offset, list: self.event.list }
    }
}
