//! Every kind of packet but a put.

use super::{ATOMIC, Case, OP, hex};
use sluice_wire::{
    Ack, AckKind, Answer, Atomic, AtomicOp, Credits, Cts, Datatype, Decline, Found, Get, GetDone,
    List, MatchBits, Offer, Packet, PacketSeq, PtIndex, Pull, Recovery, RemoteKey, Reply,
    ReturnResponse, Rtr, Search, Status, Waiting, Watch, Word, Written,
};
use std::num::NonZeroU32;

/// Where in the target's entry an operation was done.
const OFFSET: u64 = 0x4142_4344_4546_4748;

/// The number of a message that waits.
const NUMBER: u64 = 0x6162_6364_6566_6768;

const FOUND: Found = Found {
    pt_index: PtIndex(9),
    match_bits: MatchBits(0x0102_0304_0506_0708),
    hdr_data: 0x1112_1314_1516_1718,
    user: 0x22,
    total_len: 0x5152_5354_5556_5758,
    from: RemoteKey::from_bits(0x8182_8384_8586_8788),
};

fn other(name: &'static str, packet: Packet, payload_len: u32, bytes: &str) -> Case {
    Case {
        name,
        packet,
        seq: PacketSeq(7),
        credits: Credits { data: 0x0100, control: 2 },
        payload_len,
        bytes: hex(bytes),
    }
}

pub fn controls() -> Vec<Case> {
    let (mlength, list) = (0x3132, List::Priority);
    let ack = |status| Packet::Ack(Ack { op: OP, mlength, offset: OFFSET, list, status });
    vec![
        other(
            "acknowledgement",
            ack(Status::Ok),
            0,
            "000000000000 04 02 07000000 0001 02 00 00000000 00 00 00 00
             2827262524232221 3231000000000000 4847464544434241",
        ),
        other(
            "acknowledgement, no match",
            ack(Status::NoMatch),
            0,
            "000000000000 04 02 07000000 0001 02 00 00000000 00 00 01 00
             2827262524232221 3231000000000000 4847464544434241",
        ),
        other(
            "acknowledgement, disabled",
            ack(Status::PtDisabled),
            0,
            "000000000000 04 02 07000000 0001 02 00 00000000 00 00 02 00
             2827262524232221 3231000000000000 4847464544434241",
        ),
        other(
            "acknowledgement, not allowed",
            ack(Status::OpViolation),
            0,
            "000000000000 04 02 07000000 0001 02 00 00000000 00 00 03 00
             2827262524232221 3231000000000000 4847464544434241",
        ),
        other(
            "acknowledgement, memory not reached",
            ack(Status::Segv),
            0,
            "000000000000 04 02 07000000 0001 02 00 00000000 00 00 04 00
             2827262524232221 3231000000000000 4847464544434241",
        ),
        other(
            "acknowledgement, given up",
            ack(Status::Aborted),
            0,
            "000000000000 04 02 07000000 0001 02 00 00000000 00 00 05 00
             2827262524232221 3231000000000000 4847464544434241",
        ),
        other(
            "acknowledgement, not for this user",
            ack(Status::PermViolation),
            0,
            "000000000000 04 02 07000000 0001 02 00 00000000 00 00 06 00
             2827262524232221 3231000000000000 4847464544434241",
        ),
        other(
            "acknowledgement, from the overflow list",
            Packet::Ack(Ack {
                op: OP,
                mlength,
                offset: OFFSET,
                list: List::Overflow,
                status: Status::Ok,
            }),
            0,
            "000000000000 04 02 07000000 0001 02 40 00000000 00 00 00 00
             2827262524232221 3231000000000000 4847464544434241",
        ),
        other(
            "acknowledgement, from the overflow list, memory not reached",
            Packet::Ack(Ack {
                op: OP,
                mlength,
                offset: OFFSET,
                list: List::Overflow,
                status: Status::Segv,
            }),
            0,
            "000000000000 04 02 07000000 0001 02 40 00000000 00 00 04 00
             2827262524232221 3231000000000000 4847464544434241",
        ),
        other(
            "get",
            Packet::Get(Get {
                pt_index: PtIndex(9),
                match_bits: MatchBits(0x0102_0304_0506_0708),
                op: OP,
                remote_offset: 0x4142,
                length: 0x5152_5354_5556_5758,
                into: RemoteKey::NONE,
            }),
            0,
            "000000000000 04 03 07000000 0001 02 00 00000000 09 00 00 00
             0807060504030201 2827262524232221 4241000000000000 5857565554535251",
        ),
        other(
            "get with an address",
            Packet::Get(Get {
                pt_index: PtIndex(9),
                match_bits: MatchBits(0x0102_0304_0506_0708),
                op: OP,
                remote_offset: 0,
                length: 0x5152_5354_5556_5758,
                into: RemoteKey::from_bits(0x8182_8384_8586_8788),
            }),
            0,
            "000000000000 04 03 07000000 0001 02 08 00000000 09 00 00 00
             0807060504030201 2827262524232221 0000000000000000 5857565554535251
             8887868584838281",
        ),
        other(
            "get to be offered",
            Packet::Get(Get {
                pt_index: PtIndex(9),
                match_bits: MatchBits(0x0102_0304_0506_0708),
                op: OP,
                remote_offset: 0,
                length: 0x5152_5354_5556_5758,
                into: RemoteKey::OFFER,
            }),
            0,
            "000000000000 04 03 07000000 0001 02 08 00000000 09 00 00 00
             0807060504030201 2827262524232221 0000000000000000 5857565554535251
             ffffffffffffffff",
        ),
        other(
            "reply",
            Packet::Reply(Reply { op: OP, offset: OFFSET, list, status: Status::Ok }),
            0x1000,
            "000000000000 04 04 07000000 0001 02 00 00100000 00 00 00 00
             2827262524232221 4847464544434241",
        ),
        other(
            "reply, from the overflow list",
            Packet::Reply(Reply {
                op: OP,
                offset: OFFSET,
                list: List::Overflow,
                status: Status::Ok,
            }),
            0x1000,
            "000000000000 04 04 07000000 0001 02 40 00100000 00 00 00 00
             2827262524232221 4847464544434241",
        ),
        other(
            "reply, no match",
            Packet::Reply(Reply { op: OP, offset: 0, list, status: Status::NoMatch }),
            0,
            "000000000000 04 04 07000000 0001 02 00 00000000 00 00 01 00
             2827262524232221 0000000000000000",
        ),
        other(
            "reply, not for this user",
            Packet::Reply(Reply { op: OP, offset: 0, list, status: Status::PermViolation }),
            0,
            "000000000000 04 04 07000000 0001 02 00 00000000 00 00 06 00
             2827262524232221 0000000000000000",
        ),
        other(
            "get-done",
            Packet::GetDone(GetDone {
                pt_index: PtIndex(9),
                match_bits: MatchBits(0x0102_0304_0506_0708),
                length: 0x5152_5354_5556_5758,
                status: Status::Ok,
            }),
            0,
            "000000000000 04 05 07000000 0001 02 00 00000000 09 00 00 00
             0807060504030201 5857565554535251",
        ),
        other(
            "get-done, given up",
            Packet::GetDone(GetDone {
                pt_index: PtIndex(9),
                match_bits: MatchBits(0x0102_0304_0506_0708),
                length: 0,
                status: Status::Aborted,
            }),
            0,
            "000000000000 04 05 07000000 0001 02 00 00000000 09 00 05 00
             0807060504030201 0000000000000000",
        ),
        other(
            "credit",
            Packet::Credit,
            0,
            "000000000000 04 06 07000000 0001 02 00 00000000 00 00 00 00",
        ),
        other(
            "offer",
            Packet::Offer(Offer {
                op: OP,
                mlength: 0x5152_5354_5556_5758,
                offset: OFFSET,
                list,
                source: 0x9192_9394_9596_9798,
            }),
            0,
            "000000000000 04 08 07000000 0001 02 00 00000000 00 00 00 00
             2827262524232221 5857565554535251 4847464544434241 9897969594939291",
        ),
        other(
            "offer, from the overflow list",
            Packet::Offer(Offer {
                op: OP,
                mlength,
                offset: OFFSET,
                list: List::Overflow,
                source: 0x9192_9394_9596_9798,
            }),
            0,
            "000000000000 04 08 07000000 0001 02 40 00000000 00 00 00 00
             2827262524232221 3231000000000000 4847464544434241 9897969594939291",
        ),
        other(
            "offer, already written",
            Packet::Offer(Offer { op: OP, mlength, offset: OFFSET, list, source: 0 }),
            0,
            "000000000000 04 08 07000000 0001 02 00 00000000 00 00 00 00
             2827262524232221 3231000000000000 4847464544434241 0000000000000000",
        ),
        other(
            "pull",
            Packet::Pull(Pull {
                source: 0x9192_9394_9596_9798,
                op: OP,
                offset: 0x4142_4344_4546_4748,
                length: 0x5152_5354_5556_5758,
            }),
            0,
            "000000000000 04 09 07000000 0001 02 00 00000000 00 00 00 00
             9897969594939291 2827262524232221 4847464544434241 5857565554535251",
        ),
        other(
            "search",
            Packet::Search(Search {
                pt_index: PtIndex(9),
                match_bits: MatchBits(0x0102_0304_0506_0708),
                ignore_bits: 0x5152_5354_5556_5758,
                newest: NUMBER,
            }),
            0,
            "000000000000 04 0a 07000000 0001 02 00 00000000 09 00 00 00
             0807060504030201 5857565554535251 6867666564636261",
        ),
        other(
            "watch",
            Packet::Watch(Watch { after: NUMBER }),
            0,
            "000000000000 04 0b 07000000 0001 02 00 00000000 00 00 00 00
             6867666564636261",
        ),
        other(
            "waiting, nothing",
            Packet::Waiting(Waiting { watched: false, number: NUMBER, found: None }),
            0,
            "000000000000 04 0c 07000000 0001 02 00 00000000 00 00 00 00
             6867666564636261",
        ),
        other(
            "waiting, found by a search",
            Packet::Waiting(Waiting { watched: false, number: NUMBER, found: Some(FOUND) }),
            0,
            "000000000000 04 0c 07000000 0001 02 10 00000000 09 22 00 00
             6867666564636261 0807060504030201 1817161514131211 5857565554535251
             8887868584838281",
        ),
        other(
            "waiting, watched for",
            Packet::Waiting(Waiting { watched: true, number: NUMBER, found: Some(FOUND) }),
            0,
            "000000000000 04 0c 07000000 0001 02 30 00000000 09 22 00 00
             6867666564636261 0807060504030201 1817161514131211 5857565554535251
             8887868584838281",
        ),
        other(
            "decline",
            Packet::Decline(Decline { number: NUMBER }),
            0,
            "000000000000 04 0d 07000000 0001 02 00 00000000 00 00 00 00
             6867666564636261",
        ),
        other(
            "return request",
            Packet::ReturnRequest,
            0,
            "000000000000 04 0e 07000000 0001 02 00 00000000 00 00 00 00",
        ),
        other(
            "return response",
            Packet::ReturnResponse(ReturnResponse { slots: 0x3132 }),
            0,
            "000000000000 04 0f 07000000 0001 02 00 00000000 00 00 00 00
             3231000000000000",
        ),
        other(
            "rtr",
            Packet::Rtr(Rtr {
                pt_index: PtIndex(9),
                match_bits: MatchBits(0x0102_0304_0506_0708),
                ignore_bits: 0x5152_5354_5556_5758,
                into: RemoteKey::from_bits(0x8182_8384_8586_8788),
                len: NUMBER,
                seen: PacketSeq(0xa1a2_a3a4),
                claims: NonZeroU32::new(0x9192_9394).expect("not zero"),
            }),
            0,
            "000000000000 04 10 07000000 0001 02 00 00000000 09 00 00 00
             0807060504030201 5857565554535251 8887868584838281 6867666564636261
             a4a3a2a1 94939291",
        ),
        other(
            "cts",
            Packet::Cts(Cts {
                key: MatchBits(0x0102_0304_0506_0708),
                into: RemoteKey::from_bits(0x8182_8384_8586_8788),
                len: NUMBER,
                op: OP,
                claims: None,
            }),
            0,
            "000000000000 04 11 07000000 0001 02 00 00000000 00 00 00 00
             0807060504030201 8887868584838281 6867666564636261 2827262524232221
             00000000 00000000",
        ),
        other(
            "cts with chunk claims",
            Packet::Cts(Cts {
                key: MatchBits(0x0102_0304_0506_0708),
                into: RemoteKey::from_bits(0x8182_8384_8586_8788),
                len: NUMBER,
                op: OP,
                claims: NonZeroU32::new(0x9192_9394),
            }),
            0,
            "000000000000 04 11 07000000 0001 02 00 00000000 00 00 00 00
             0807060504030201 8887868584838281 6867666564636261 2827262524232221
             94939291 00000000",
        ),
        other(
            "written",
            Packet::Written(Written { op: OP, len: NUMBER, status: Status::Segv }),
            0,
            "000000000000 04 12 07000000 0001 02 00 00000000 00 00 04 00
             2827262524232221 6867666564636261",
        ),
        word(
            "recovery, refuse",
            Word::Refuse { epoch: 0x3132_3334, first: PacketSeq(0x5152_5354) },
            "000000000000 04 13 07000000 0001 02 00 00000000 09 00 01 00
             34333231 54535251",
        ),
        word(
            "recovery, resume",
            Word::Resume { epoch: 0x3132_3334 },
            "000000000000 04 13 07000000 0001 02 00 00000000 09 00 02 00
             34333231 00000000",
        ),
        word(
            "recovery, restart",
            Word::Restart { epoch: 0x3132_3334 },
            "000000000000 04 13 07000000 0001 02 00 00000000 09 00 03 00
             34333231 00000000",
        ),
        word(
            "recovery, ask",
            Word::Ask,
            "000000000000 04 13 07000000 0001 02 00 00000000 09 00 04 00
             00000000 00000000",
        ),
        word(
            "recovery, told",
            Word::Told,
            "000000000000 04 13 07000000 0001 02 00 00000000 09 00 05 00
             00000000 00000000",
        ),
        word(
            "recovery, pause",
            Word::Pause,
            "000000000000 04 13 07000000 0001 02 00 00000000 09 00 06 00
             00000000 00000000",
        ),
        word(
            "recovery, paused",
            Word::Paused,
            "000000000000 04 13 07000000 0001 02 00 00000000 09 00 07 00
             00000000 00000000",
        ),
        word(
            "recovery, unpause",
            Word::Unpause,
            "000000000000 04 13 07000000 0001 02 00 00000000 09 00 08 00
             00000000 00000000",
        ),
    ]
}

fn word(name: &'static str, word: Word, bytes: &str) -> Case {
    other(name, Packet::Recovery(Recovery { pt_index: PtIndex(9), word }), 0, bytes)
}

pub fn atomics() -> Vec<Case> {
    vec![
        other(
            "atomic",
            Packet::Atomic(Atomic {
                op: AtomicOp::Min,
                datatype: Datatype::Int8,
                answer: Answer::No,
                ..ATOMIC
            }),
            0,
            "000000000000 04 07 07000000 0001 02 00 00000000 09 00 00 00
             0807060504030201 1817161514131211 4241000000000000 0000000000000000",
        ),
        other(
            "atomic, full acknowledgement",
            Packet::Atomic(Atomic {
                op: AtomicOp::Sum,
                datatype: Datatype::Double,
                answer: Answer::Ack(AckKind::Full, OP),
                ..ATOMIC
            }),
            8,
            "000000000000 04 07 07000000 0001 02 00 08000000 09 02 01 09
             0807060504030201 1817161514131211 4241000000000000 2827262524232221",
        ),
        other(
            "atomic, counting acknowledgement",
            Packet::Atomic(Atomic {
                op: AtomicOp::Bxor,
                datatype: Datatype::Uint64,
                answer: Answer::Ack(AckKind::Count, OP),
                ..ATOMIC
            }),
            0x1000,
            "000000000000 04 07 07000000 0001 02 00 00100000 09 09 02 08
             0807060504030201 1817161514131211 4241000000000000 2827262524232221",
        ),
        other(
            "atomic, acknowledgement of completion",
            Packet::Atomic(Atomic {
                op: AtomicOp::Prod,
                datatype: Datatype::LongDoubleComplex,
                answer: Answer::Ack(AckKind::OperationCompleted, OP),
                ..ATOMIC
            }),
            32,
            "000000000000 04 07 07000000 0001 02 00 20000000 09 03 03 0d
             0807060504030201 1817161514131211 4241000000000000 2827262524232221",
        ),
        other(
            "atomic, acknowledgement to the name zero",
            Packet::Atomic(Atomic {
                op: AtomicOp::Sum,
                datatype: Datatype::Double,
                answer: Answer::Ack(AckKind::Full, 0),
                ..ATOMIC
            }),
            8,
            "000000000000 04 07 07000000 0001 02 00 08000000 09 02 01 09
             0807060504030201 1817161514131211 4241000000000000 0000000000000000",
        ),
        other(
            "atomic in the control region",
            Packet::Atomic(Atomic {
                op: AtomicOp::Sum,
                datatype: Datatype::Double,
                answer: Answer::Ack(AckKind::Full, OP),
                by_control: true,
                ..ATOMIC
            }),
            960,
            "000000000000 04 07 07000000 0001 02 80 c0030000 09 02 01 09
             0807060504030201 1817161514131211 4241000000000000 2827262524232221",
        ),
        other(
            "atomic, fetching",
            Packet::Atomic(Atomic {
                op: AtomicOp::Mswap,
                datatype: Datatype::Uint32,
                answer: Answer::Fetch(OP),
                ..ATOMIC
            }),
            8,
            "000000000000 04 07 07000000 0001 02 00 08000000 09 11 05 05
             0807060504030201 1817161514131211 4241000000000000 2827262524232221",
        ),
        other(
            "atomic, fetching to the name zero",
            Packet::Atomic(Atomic {
                op: AtomicOp::Swap,
                datatype: Datatype::Int64,
                answer: Answer::Fetch(0),
                ..ATOMIC
            }),
            8,
            "000000000000 04 07 07000000 0001 02 00 08000000 09 0a 05 07
             0807060504030201 1817161514131211 4241000000000000 0000000000000000",
        ),
        other(
            "atomic, as long as a payload can be",
            Packet::Atomic(Atomic {
                op: AtomicOp::Max,
                datatype: Datatype::Float,
                answer: Answer::No,
                ..ATOMIC
            }),
            u32::MAX,
            "000000000000 04 07 07000000 0001 02 00 ffffffff 09 01 00 06
             0807060504030201 1817161514131211 4241000000000000 0000000000000000",
        ),
    ]
}
