//! The model's words and the engine's. Only this file, and the calls, know both.

use super::model::{self, AckReq, Fail, Kind, Op, Sum, Told, Type, What};
use sluice_portals::{
    Arithmetic, Command, EqTaken, Event, EventKind, List, Local, MdOptions, MeOptions, NiFail,
    Target,
};
use sluice_wire::{AckKind, AtomicOp, Datatype, ITEM_BYTES_MAX, MatchBits, PeerId, PtIndex};

/// An event of the engine's, in the model's words.
pub fn told(event: &Event) -> Told {
    Told {
        kind: kind(event.kind),
        pt: usize::from(event.pt_index.0),
        user_ptr: event.user_ptr,
        outcome: event.outcome.map_err(|why| fail(why, event.kind)),
        list: Some(list_back(event.list)),
        initiator: Some(event.peer.index()),
        bits: Some(event.match_bits.0),
        hdr_data: Some(event.hdr_data),
        rlength: Some(event.rlength),
        mlength: Some(event.mlength),
        remote_offset: Some(event.remote_offset),
        start: Some(event.start.0),
        atomic: event.atomic.map(|(op, of)| Sum { op: op_back(op), of: type_back(of) }),
    }
}

/// The new value of one item, as the specification has it.
pub fn combined(
    op: AtomicOp,
    of: Datatype,
    target: &[u8],
    value: &[u8],
    operand: &[u8],
) -> Vec<u8> {
    model::combine(op_back(op), type_back(of), target, value, operand).0
}

/// An event that a queue had; none may have been lost before it.
pub fn taken(taken: EqTaken) -> Option<Event> {
    match taken {
        EqTaken::Empty => None,
        EqTaken::Event(event) => Some(event),
        EqTaken::EventAfterDrop(event) => panic!("events were lost before {event:?}"),
    }
}

fn kind(kind: EventKind) -> Kind {
    match kind {
        EventKind::Put => Kind::Put,
        EventKind::PutOverflow => Kind::PutOverflow,
        EventKind::Get => Kind::Get,
        EventKind::GetOverflow => Kind::GetOverflow,
        EventKind::Atomic => Kind::Atomic,
        EventKind::AtomicOverflow => Kind::AtomicOverflow,
        EventKind::FetchAtomic => Kind::FetchAtomic,
        EventKind::FetchAtomicOverflow => Kind::FetchAtomicOverflow,
        EventKind::Reply => Kind::Reply,
        EventKind::Send => Kind::Send,
        EventKind::Ack => Kind::Ack,
        EventKind::Search => Kind::Search,
        EventKind::PtDisabled => Kind::PtDisabled,
        EventKind::Link => Kind::Link,
        EventKind::AutoUnlink => Kind::AutoUnlink,
        EventKind::AutoFree => Kind::AutoFree,
        EventKind::GetDone => panic!("the specification knows no such event"),
    }
}

fn fail(fail: NiFail, kind: EventKind) -> Fail {
    match fail {
        NiFail::NoMatch if kind == EventKind::Search => Fail::NoMatch,
        NiFail::NoMatch => Fail::Dropped,
        NiFail::PtDisabled => Fail::PtDisabled,
        NiFail::OpViolation => Fail::OpViolation,
        NiFail::PermViolation => Fail::PermViolation,
        NiFail::Undeliverable(_) => Fail::Undeliverable,
        other => panic!("nothing here fails so: {other:?}"),
    }
}

fn list_back(list: List) -> model::List {
    match list {
        List::Priority => model::List::Priority,
        List::Overflow => model::List::Overflow,
    }
}

pub fn list(list: model::List) -> List {
    match list {
        model::List::Priority => List::Priority,
        model::List::Overflow => List::Overflow,
    }
}

/// The call that starts an operation, from and into this memory.
pub fn command(of: &Op, from: Local, into: Local) -> Command {
    let target = Target {
        peer: PeerId(of.to as u32),
        pt_index: PtIndex(of.pt as u8),
        match_bits: MatchBits(of.bits),
        remote_offset: of.remote_offset,
    };
    let (ack, hdr_data, user_ptr) = (ack(of.ack), of.hdr_data, of.user_ptr);
    let arithmetic = |sum: Sum| {
        let mut operand = [0; ITEM_BYTES_MAX];
        operand[..of.operand.len()].copy_from_slice(&of.operand);
        Arithmetic { op: op(sum.op), datatype: datatype(sum.of), operand }
    };
    match of.kind {
        What::Put => Command::Put { from, ack, target, hdr_data, user_ptr },
        What::Get => Command::Get { into, target, user_ptr },
        What::Atomic(sum) => {
            let arithmetic = arithmetic(sum);
            Command::Atomic { from, ack, target, hdr_data, user_ptr, arithmetic }
        }
        What::Fetch(sum) => {
            let arithmetic = arithmetic(sum);
            Command::Fetch { into, from, target, hdr_data, user_ptr, arithmetic }
        }
    }
}

fn ack(ack: AckReq) -> Option<AckKind> {
    match ack {
        AckReq::None => None,
        AckReq::Full => Some(AckKind::Full),
        AckReq::Count => Some(AckKind::Count),
        AckReq::Completed => Some(AckKind::OperationCompleted),
    }
}

pub fn me_options(of: &model::Options) -> MeOptions {
    MeOptions {
        op_put: of.op_put,
        op_get: of.op_get,
        use_once: of.use_once,
        manage_local: of.manage_local,
        inc_by_rlength: of.inc_by_rlength,
        no_truncate: of.no_truncate,
        event_link_disable: of.event_link_disable,
        event_comm_disable: of.event_comm_disable,
        event_success_disable: of.event_success_disable,
        event_over_disable: of.event_over_disable,
        event_unlink_disable: of.event_unlink_disable,
        event_flowctrl_disable: of.event_flowctrl_disable,
        ct_comm: of.ct_comm,
        ct_overflow: of.ct_overflow,
        ct_bytes: of.ct_bytes,
        unexpected_hdr_disable: of.unexpected_hdr_disable,
        ..MeOptions::default()
    }
}

pub fn md_options(of: &model::Md, volatile: bool) -> MdOptions {
    MdOptions {
        event_success_disable: of.event_success_disable,
        event_send_disable: of.event_send_disable,
        ct_send: of.ct_send,
        ct_reply: of.ct_reply,
        ct_ack: of.ct_ack,
        ct_bytes: of.ct_bytes,
        volatile,
        ..MdOptions::default()
    }
}

/// The operations and types of both, side by side.
const OPERATIONS: [(model::Operation, AtomicOp); 19] = {
    use model::Operation as M;
    [
        (M::Min, AtomicOp::Min),
        (M::Max, AtomicOp::Max),
        (M::Sum, AtomicOp::Sum),
        (M::Prod, AtomicOp::Prod),
        (M::Lor, AtomicOp::Lor),
        (M::Land, AtomicOp::Land),
        (M::Bor, AtomicOp::Bor),
        (M::Band, AtomicOp::Band),
        (M::Lxor, AtomicOp::Lxor),
        (M::Bxor, AtomicOp::Bxor),
        (M::Swap, AtomicOp::Swap),
        (M::Cswap, AtomicOp::Cswap),
        (M::CswapNe, AtomicOp::CswapNe),
        (M::CswapLe, AtomicOp::CswapLe),
        (M::CswapLt, AtomicOp::CswapLt),
        (M::CswapGe, AtomicOp::CswapGe),
        (M::CswapGt, AtomicOp::CswapGt),
        (M::Mswap, AtomicOp::Mswap),
        (M::Diff, AtomicOp::Diff),
    ]
};

const TYPES: [(Type, Datatype); 10] = [
    (Type::I8, Datatype::Int8),
    (Type::U8, Datatype::Uint8),
    (Type::I16, Datatype::Int16),
    (Type::U16, Datatype::Uint16),
    (Type::I32, Datatype::Int32),
    (Type::U32, Datatype::Uint32),
    (Type::I64, Datatype::Int64),
    (Type::U64, Datatype::Uint64),
    (Type::F32, Datatype::Float),
    (Type::F64, Datatype::Double),
];

fn op(op: model::Operation) -> AtomicOp {
    OPERATIONS.iter().find(|(ours, _)| *ours == op).expect("all are there").1
}

fn op_back(op: AtomicOp) -> model::Operation {
    OPERATIONS.iter().find(|(_, theirs)| *theirs == op).expect("all are there").0
}

fn datatype(of: Type) -> Datatype {
    TYPES.iter().find(|(ours, _)| *ours == of).expect("all are there").1
}

fn type_back(of: Datatype) -> Type {
    TYPES.iter().find(|(_, theirs)| *theirs == of).expect("only these are used").0
}
