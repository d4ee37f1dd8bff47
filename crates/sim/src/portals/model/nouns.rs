//! What the specification speaks of: entries, operations and events, with their fields.

use super::bytes::Bytes;
use super::losses::Ends;

/// `PTL_PRIORITY_LIST` and `PTL_OVERFLOW_LIST`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum List {
    Priority,
    Overflow,
}

/// `ptl_ni_fail_t`, as far as programs here come by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fail {
    Dropped,
    NoMatch,
    PtDisabled,
    OpViolation,
    PermViolation,
    /// The other process has ended, or is not reached any more.
    Undeliverable,
}

/// `ptl_op_t`, and what libfabric has beyond it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    Min,
    Max,
    Sum,
    Prod,
    Lor,
    Land,
    Bor,
    Band,
    Lxor,
    Bxor,
    Swap,
    Cswap,
    CswapNe,
    CswapLe,
    CswapLt,
    CswapGe,
    CswapGt,
    Mswap,
    Diff,
}

/// `ptl_datatype_t`, those that are computed here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Type {
    I8,
    U8,
    I16,
    U16,
    I32,
    U32,
    I64,
    U64,
    F32,
    F64,
}

/// What an atomic operation computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sum {
    pub op: Operation,
    pub of: Type,
}

/// Which operation it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    Put,
    Get,
    Atomic(Sum),
    /// `PtlFetchAtomic`, `PtlSwap`.
    Fetch(Sum),
}

/// `ptl_ack_req_t`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AckReq {
    None,
    Full,
    Count,
    Completed,
}

/// Options of a memory descriptor.
#[derive(Clone, Copy, Debug, Default)]
pub struct Md {
    pub has_queue: bool,
    pub event_success_disable: bool,
    pub event_send_disable: bool,
    pub ct: Option<usize>,
    pub ct_send: bool,
    pub ct_reply: bool,
    pub ct_ack: bool,
    pub ct_bytes: bool,
}

/// Options of a list entry.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    pub op_put: bool,
    pub op_get: bool,
    pub use_once: bool,
    pub manage_local: bool,
    pub inc_by_rlength: bool,
    pub no_truncate: bool,
    pub event_link_disable: bool,
    pub event_comm_disable: bool,
    pub event_success_disable: bool,
    pub event_over_disable: bool,
    pub event_unlink_disable: bool,
    pub event_flowctrl_disable: bool,
    pub ct_comm: bool,
    pub ct_overflow: bool,
    pub ct_bytes: bool,
    pub unexpected_hdr_disable: bool,
}

/// A list entry.
#[derive(Clone, Debug)]
pub struct Entry {
    pub who: usize,
    pub pt: usize,
    pub list: List,
    pub bits: u64,
    pub ignore: u64,
    pub source: Option<usize>,
    /// It is for another user than all who are here.
    pub is_foreign: bool,
    pub min_free: u64,
    pub options: Options,
    pub ct: Option<usize>,
    pub user_ptr: u64,
    /// Where its memory begins, if that is one piece.
    pub start: Option<u64>,
    pub memory: Bytes,
    pub local_offset: u64,
    pub linked: bool,
    pub auto_unlinked: bool,
    /// Headers in it that no entry has taken.
    pub headers: usize,
    /// Operations on it that may not be over.
    pub moving: Vec<usize>,
    /// The event of its unlinking, while it is due.
    pub unlink_due: Option<u64>,
}

/// When an operation was started: by the program, or set off by a counter.
#[derive(Clone, Copy, Debug)]
pub struct Start {
    pub step: u64,
    pub by: Option<usize>,
    pub order: u64,
}

/// What became of an operation at its target.
#[derive(Clone, Copy, Debug)]
pub struct Taken {
    pub outcome: Result<usize, Fail>,
    pub offset: u64,
    pub mlength: u64,
}

/// An operation.
#[derive(Clone, Debug)]
pub struct Op {
    pub kind: What,
    pub from: usize,
    pub to: usize,
    pub pt: usize,
    pub bits: u64,
    pub hdr_data: u64,
    pub len: u64,
    pub remote_offset: u64,
    pub ack: AckReq,
    pub user_ptr: u64,
    /// Where the values come from, and where an answer goes.
    pub source_md: Md,
    pub answer_md: Md,
    pub sent: Vec<u8>,
    pub operand: Vec<u8>,
    pub started: Option<Start>,
    pub arrived: Option<Taken>,
    /// What it brings back, as far as that is known.
    pub answer: Bytes,
    /// Its data is where it belongs.
    pub settled: bool,
    /// Its header is in the list of those that wait.
    pub is_unexpected: bool,
    /// An entry has taken its header while it takes room.
    pub is_claimed: bool,
    pub send_due: Option<u64>,
    /// The event at its target, while it is due.
    pub comm_due: Option<u64>,
    pub ends: Ends,
}

/// `ptl_event_kind_t`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Get,
    GetOverflow,
    Put,
    PutOverflow,
    Atomic,
    AtomicOverflow,
    FetchAtomic,
    FetchAtomicOverflow,
    Reply,
    Send,
    Ack,
    Search,
    PtDisabled,
    Link,
    AutoUnlink,
    AutoFree,
}

/// An event. What is `None` in one that is due, the specification does not define for its kind.
#[derive(Clone, Copy, Debug)]
pub struct Told {
    pub kind: Kind,
    pub pt: usize,
    pub user_ptr: u64,
    pub outcome: Result<(), Fail>,
    pub list: Option<List>,
    pub initiator: Option<usize>,
    pub bits: Option<u64>,
    pub hdr_data: Option<u64>,
    pub rlength: Option<u64>,
    pub mlength: Option<u64>,
    pub remote_offset: Option<u64>,
    pub start: Option<u64>,
    pub atomic: Option<Sum>,
}

impl Told {
    /// One of which nothing more is known.
    pub fn of(kind: Kind, pt: usize, user_ptr: u64) -> Told {
        Told {
            kind,
            pt,
            user_ptr,
            outcome: Ok(()),
            list: None,
            initiator: None,
            bits: None,
            hdr_data: None,
            rlength: None,
            mlength: None,
            remote_offset: None,
            start: None,
            atomic: None,
        }
    }

    /// Whether an event that was seen says all that this one says.
    pub fn is_said_by(&self, seen: &Told) -> bool {
        fn holds<T: PartialEq>(due: Option<T>, seen: Option<T>) -> bool {
            due.is_none() || due == seen
        }
        (self.kind, self.pt, self.user_ptr) == (seen.kind, seen.pt, seen.user_ptr)
            && self.outcome == seen.outcome
            && holds(self.list, seen.list)
            && holds(self.initiator, seen.initiator)
            && holds(self.bits, seen.bits)
            && holds(self.hdr_data, seen.hdr_data)
            && holds(self.rlength, seen.rlength)
            && holds(self.mlength, seen.mlength)
            && holds(self.remote_offset, seen.remote_offset)
            && holds(self.start, seen.start)
            && holds(self.atomic, seen.atomic)
    }

    /// Whether an event that was seen tells that this one was not to be, since the other
    /// process was lost: what was asked for is the same, what came of it is nothing.
    pub fn is_failed_by(&self, seen: &Told) -> bool {
        let Told { initiator, bits, hdr_data, rlength, atomic, .. } = *seen;
        let outcome = Err(Fail::Undeliverable);
        let asked = Told { initiator, bits, hdr_data, rlength, atomic, outcome, ..*self };
        seen.outcome == outcome
            && Told { outcome, ..*self }.is_said_by(&asked)
            && (self.kind, self.pt, self.user_ptr) == (seen.kind, seen.pt, seen.user_ptr)
    }
}

impl Op {
    /// The event that its memory may be used again.
    pub fn send_told(&self) -> Told {
        let (rlength, mlength) = (Some(self.len), Some(self.len));
        Told { rlength, mlength, ..Told::of(Kind::Send, self.pt, self.user_ptr) }
    }
}

impl Md {
    /// Whether it is told that memory may be used again, and all is well.
    pub fn tells_of_sends(&self) -> bool {
        self.has_queue && !self.event_send_disable && !self.event_success_disable
    }
}

impl What {
    pub fn sum(self) -> Option<Sum> {
        match self {
            What::Atomic(sum) | What::Fetch(sum) => Some(sum),
            What::Put | What::Get => None,
        }
    }

    /// The event at the target, and that of an entry that takes the header.
    pub fn kinds(self) -> (Kind, Kind) {
        match self {
            What::Put => (Kind::Put, Kind::PutOverflow),
            What::Get => (Kind::Get, Kind::GetOverflow),
            What::Atomic(_) => (Kind::Atomic, Kind::AtomicOverflow),
            What::Fetch(_) => (Kind::FetchAtomic, Kind::FetchAtomicOverflow),
        }
    }

    pub fn reads(self) -> bool {
        matches!(self, What::Get | What::Fetch(_))
    }

    pub fn writes(self) -> bool {
        !matches!(self, What::Get)
    }
}

impl Type {
    pub const ALL: [Type; 10] = [
        Type::I8,
        Type::U8,
        Type::I16,
        Type::U16,
        Type::I32,
        Type::U32,
        Type::I64,
        Type::U64,
        Type::F32,
        Type::F64,
    ];

    pub fn bytes(self) -> u64 {
        match self {
            Type::I8 | Type::U8 => 1,
            Type::I16 | Type::U16 => 2,
            Type::I32 | Type::U32 | Type::F32 => 4,
            Type::I64 | Type::U64 | Type::F64 => 8,
        }
    }

    pub fn is_integer(self) -> bool {
        !matches!(self, Type::F32 | Type::F64)
    }
}

impl Operation {
    pub const ALL: [Operation; 19] = [
        Operation::Min,
        Operation::Max,
        Operation::Sum,
        Operation::Prod,
        Operation::Lor,
        Operation::Land,
        Operation::Bor,
        Operation::Band,
        Operation::Lxor,
        Operation::Bxor,
        Operation::Swap,
        Operation::Cswap,
        Operation::CswapNe,
        Operation::CswapLe,
        Operation::CswapLt,
        Operation::CswapGe,
        Operation::CswapGt,
        Operation::Mswap,
        Operation::Diff,
    ];

    /// Whether it is only for integers.
    pub fn needs_integers(self) -> bool {
        use Operation::{Band, Bor, Bxor, Land, Lor, Lxor, Mswap};
        matches!(self, Lor | Land | Lxor | Bor | Band | Bxor | Mswap)
    }

    /// Whether it is an operation of `PtlSwap` alone.
    pub fn is_swap(self) -> bool {
        self.has_operand() || self == Operation::Swap
    }

    /// Whether it takes an operand, and one item only.
    pub fn has_operand(self) -> bool {
        use Operation::{Cswap, CswapGe, CswapGt, CswapLe, CswapLt, CswapNe, Mswap};
        matches!(self, Cswap | CswapNe | CswapLe | CswapLt | CswapGe | CswapGt | Mswap)
    }
}
