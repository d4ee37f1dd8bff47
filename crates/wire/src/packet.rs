//! The packets: what each says. `emit` writes them and `parse` reads them.

use crate::atomic::{AtomicOp, Datatype};
use crate::error::WireError;
use crate::ids::{MatchBits, PacketSeq, PtIndex};
use crate::layout::{FLAG_OVERFLOW, HEAD_BYTES, PutBody, ReplyBody, SLOT_BYTES};
use crate::units::Addr;
use std::mem::size_of;
use std::num::NonZeroU32;

/// Payload bytes that a plain put carries in its first slot.
pub const PUT_INLINE_BYTES_MAX: u32 = (SLOT_BYTES - HEAD_BYTES - size_of::<PutBody>()) as u32;

/// Length of a reply's header in bytes: what it takes besides its payload.
pub const REPLY_HEADER_BYTES: u64 = (HEAD_BYTES + size_of::<ReplyBody>()) as u64;

/// Credits that a packet brings back to its receiver, in slots.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Credits {
    /// Of the data region.
    pub data: u16,
    /// Of the control region.
    pub control: u8,
}

/// Which acknowledgement a put asks for (Portals 4, section 3.15).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AckKind {
    /// A full acknowledgement: an event and a count.
    Full,
    /// A count only.
    Count,
    /// A count only, also when the put was dropped.
    OperationCompleted,
    /// Nothing to tell the program: the initiator itself must learn when the
    /// target has fetched the data of an announced put.
    Silent,
}

/// How an operation went at its target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// As asked.
    Ok,
    /// No entry matched, or the portal table entry does not exist.
    NoMatch,
    /// The portal table entry is disabled.
    PtDisabled,
    /// The entry that matched does not allow this operation.
    OpViolation,
    /// The target's memory could not be reached.
    Segv,
    /// The operation was given up by the side that would have moved the data.
    Aborted,
    /// The entry that matched is not for this user.
    PermViolation,
}

/// Which list of a portal table entry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum List {
    /// Searched first; appending searches the unexpected headers.
    #[default]
    Priority,
    /// Takes what the priority list does not.
    Overflow,
}

/// A put that announces its data: the receiver fetches it when it wants it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rts {
    /// Length of the whole message in bytes.
    pub total_len: u64,
    /// Where the data lies in the sender's memory, for rails that read remote
    /// memory by address.
    pub addr: Addr,
    /// Match bits of the sender's get entry.
    pub key: MatchBits,
    /// The tally of the [`Rtr`] that this message uses: its data is being
    /// written to where that wanted it.
    pub tally: Option<NonZeroU32>,
}

/// Data of a put that the target fetches as soon as the put has matched. An
/// [`Rts`] instead leaves that to the layer above.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bulk {
    /// Length in bytes.
    pub len: u32,
    /// Where the data lies in the initiator's memory, for rails that read
    /// remote memory by address. Zero: only [`Pull`] reaches it.
    pub addr: Addr,
}

/// A put, with its payload behind the header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Put {
    /// Portal table entry aimed at.
    pub pt_index: PtIndex,
    /// Bits that select the match list entry.
    pub match_bits: MatchBits,
    /// Out-of-band data, delivered with the event.
    pub hdr_data: u64,
    /// A byte for the layer above, delivered with the event.
    pub user: u8,
    /// Offset in the target entry in bytes.
    pub remote_offset: u64,
    /// The acknowledgement asked for, and the initiator's name for it.
    pub ack: Option<(AckKind, u64)>,
    /// Present if the data is announced, not carried. Excludes an offset, an
    /// acknowledgement and a payload.
    pub rts: Option<Rts>,
    /// Present if the data is to be fetched. Needs an acknowledgement, and
    /// excludes an announcement and a payload.
    pub bulk: Option<Bulk>,
}

/// What became of a put.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ack {
    /// The initiator's name for the put.
    pub op: u64,
    /// Bytes that the target took.
    pub mlength: u64,
    /// Where in the target's entry the operation was done, in bytes.
    pub offset: u64,
    /// The list that this entry was in.
    pub list: List,
    /// How it went.
    pub status: Status,
}

/// Asks for bytes of an entry; answered by one [`Reply`] or one [`Offer`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Get {
    /// Portal table entry aimed at.
    pub pt_index: PtIndex,
    /// Bits that select the match list entry.
    pub match_bits: MatchBits,
    /// The initiator's name for the get.
    pub op: u64,
    /// Offset in the target entry in bytes.
    pub remote_offset: u64,
    /// Bytes wanted.
    pub length: u64,
    /// Where they are wanted in the initiator's memory, for rails that write
    /// remote memory by address. Zero: a reply is to carry them. All ones: they
    /// are to be offered.
    pub into: Addr,
}

/// The bytes that a get asked for, as payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reply {
    /// The initiator's name for the get.
    pub op: u64,
    /// Where in the target's entry the operation was done, in bytes.
    pub offset: u64,
    /// The list that this entry was in.
    pub list: List,
    /// How it went.
    pub status: Status,
}

/// Answers a get without carrying its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offer {
    /// The initiator's name for the get.
    pub op: u64,
    /// Bytes that the target's entry gave.
    pub mlength: u64,
    /// Where in the target's entry the operation was done, in bytes.
    pub offset: u64,
    /// The list that this entry was in.
    pub list: List,
    /// The target's name for them, to be pulled by; zero if they have been
    /// written where the get wanted them.
    pub source: u64,
}

/// Asks for a piece of data that the other side has named; answered by one
/// [`Reply`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pull {
    /// The name: of an announced put ([`Put::ack`]) or an offer
    /// ([`Offer::source`]).
    pub source: u64,
    /// The asker's name for this piece.
    pub op: u64,
    /// Where the piece begins, in bytes.
    pub offset: u64,
    /// Bytes wanted.
    pub length: u64,
}

/// Asks a stalled sender for the oldest message that waits there for credits and
/// matches; answered by one [`Waiting`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Search {
    /// Portal table entry that the message is for.
    pub pt_index: PtIndex,
    /// Bits that it must have.
    pub match_bits: MatchBits,
    /// Bits of these that do not matter.
    pub ignore_bits: u64,
    /// Greatest number of a message that counts; all ones: every one.
    pub newest: u64,
}

/// Asks a stalled sender for the first message that waits there for credits and
/// has a number above this; answered by one [`Waiting`] as soon as there is one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Watch {
    /// The number.
    pub after: u64,
}

/// Answers a [`Search`] or a [`Watch`]. The message stays where it is until it is
/// got or declined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// Whether it answers a watch.
    pub watched: bool,
    /// The message's number, which is also the match bits of its get entry; of
    /// a search that found nothing, the newest number given to any message.
    pub number: u64,
    /// The message. A watch is answered only when there is one.
    pub found: Option<Found>,
}

/// A message that waits for credits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    /// Portal table entry that it is for.
    pub pt_index: PtIndex,
    /// Its match bits.
    pub match_bits: MatchBits,
    /// Out-of-band data.
    pub hdr_data: u64,
    /// The byte for the layer above.
    pub user: u8,
    /// Its length in bytes.
    pub total_len: u64,
    /// Where its bytes lie in the sender's memory, for rails that read remote
    /// memory by address.
    pub addr: Addr,
}

/// The message of this number, told of by a [`Waiting`], is not wanted now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decline {
    /// The number.
    pub number: u64,
}

/// Answers a compulsory credit return request: data credits given back (EXTOLL
/// paper, section 6.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReturnResponse {
    /// How many, in slots. The one that this packet takes is not among them.
    pub slots: u64,
}

/// Announces a receive to the only process that can fill it (RTR).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rtr {
    /// Portal table entry in which it waits.
    pub pt_index: PtIndex,
    /// Bits that it accepts.
    pub match_bits: MatchBits,
    /// Bits of these that do not matter.
    pub ignore_bits: u64,
    /// Where its buffer begins in the receiver's memory.
    pub addr: Addr,
    /// Length of the buffer in bytes.
    pub len: u64,
    /// The first packet of this pair that was not handled when the receive was
    /// posted: none before it matches the receive.
    pub seen: PacketSeq,
    /// The tally in the receiver's memory that decides who uses the receive.
    pub tally: NonZeroU32,
}

/// Says where the data of an announced put is to be written (CTS).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cts {
    /// Match bits of the sender's get entry.
    pub key: MatchBits,
    /// Where the bytes go in the receiver's memory.
    pub addr: Addr,
    /// How many, from the first one on.
    pub len: u64,
    /// The receiver's name for the transfer, to be said in [`Written`].
    pub op: u64,
    /// The tally in the receiver's memory from which both sides take chunks. `None`:
    /// the sender writes all of them, and answers with a [`Written`].
    pub tally: Option<NonZeroU32>,
}

/// The bytes that a [`Cts`] without a tally asked for have been written, or will
/// not be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Written {
    /// The receiver's name for the transfer.
    pub op: u64,
    /// Bytes written.
    pub len: u64,
    /// How it went.
    pub status: Status,
}

/// What the initiator of an atomic operation wants back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Nothing.
    No,
    /// An acknowledgement; and the initiator's name for it.
    Ack(AckKind, u64),
    /// The values from before, in a [`Reply`] to this name.
    Fetch(u64),
}

/// An atomic operation. Its payload is the operand, if the operation has one,
/// then the values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Atomic {
    /// Portal table entry aimed at.
    pub pt_index: PtIndex,
    /// Bits that select the match list entry.
    pub match_bits: MatchBits,
    /// Out-of-band data, delivered with the event.
    pub hdr_data: u64,
    /// Offset in the target entry in bytes.
    pub remote_offset: u64,
    /// What is done.
    pub op: AtomicOp,
    /// With what.
    pub datatype: Datatype,
    /// What is wanted back.
    pub answer: Answer,
}

/// The initiator has fetched all it wants from a get entry (FIN).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GetDone {
    /// Portal table entry of the get entry.
    pub pt_index: PtIndex,
    /// Match bits of the get entry.
    pub match_bits: MatchBits,
    /// Bytes fetched in all.
    pub length: u64,
    /// How it went.
    pub status: Status,
}

/// One packet, without its payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packet {
    /// See [`Put`].
    Put(Put),
    /// See [`Ack`].
    Ack(Ack),
    /// See [`Get`].
    Get(Get),
    /// See [`Reply`].
    Reply(Reply),
    /// See [`GetDone`].
    GetDone(GetDone),
    /// Nothing but the credits that every packet can carry.
    Credit,
    /// See [`Atomic`].
    Atomic(Atomic),
    /// See [`Offer`].
    Offer(Offer),
    /// See [`Pull`].
    Pull(Pull),
    /// See [`Search`].
    Search(Search),
    /// See [`Watch`].
    Watch(Watch),
    /// See [`Waiting`].
    Waiting(Waiting),
    /// See [`Decline`].
    Decline(Decline),
    /// Asks a sender to give back the data credits beyond its static slots
    /// (compulsory credit return request; EXTOLL paper, section 6.1).
    ReturnRequest,
    /// See [`ReturnResponse`].
    ReturnResponse(ReturnResponse),
    /// See [`Rtr`].
    Rtr(Rtr),
    /// See [`Cts`].
    Cts(Cts),
    /// See [`Written`].
    Written(Written),
}

/// A packet as it was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parsed {
    /// Its position in the stream of its pair.
    pub seq: PacketSeq,
    /// The credits that it brings.
    pub credits: Credits,
    /// What it says.
    pub packet: Packet,
    /// Where its payload begins, in bytes from the packet's first byte.
    pub payload_offset: u32,
    /// Length of its payload in bytes.
    pub payload_len: u32,
}

impl Parsed {
    /// Length of the whole packet in bytes.
    #[must_use]
    #[inline]
    pub fn total_bytes(&self) -> u64 {
        u64::from(self.payload_offset) + u64::from(self.payload_len)
    }
}

impl AckKind {
    pub(crate) fn code(self) -> u8 {
        match self {
            AckKind::Full => 1,
            AckKind::Count => 2,
            AckKind::OperationCompleted => 3,
            AckKind::Silent => 4,
        }
    }

    pub(crate) fn from_code(code: u8) -> Result<Option<AckKind>, WireError> {
        match code {
            0 => Ok(None),
            1 => Ok(Some(AckKind::Full)),
            2 => Ok(Some(AckKind::Count)),
            3 => Ok(Some(AckKind::OperationCompleted)),
            4 => Ok(Some(AckKind::Silent)),
            other => Err(WireError::AckKind(other)),
        }
    }
}

impl List {
    /// As the flag of an answer.
    #[inline]
    pub(crate) fn flag(self) -> u8 {
        match self {
            List::Priority => 0,
            List::Overflow => FLAG_OVERFLOW,
        }
    }

    #[inline]
    pub(crate) fn from_flags(flags: u8) -> List {
        if flags & FLAG_OVERFLOW == 0 { List::Priority } else { List::Overflow }
    }
}

impl Status {
    pub(crate) fn code(self) -> u8 {
        match self {
            Status::Ok => 0,
            Status::NoMatch => 1,
            Status::PtDisabled => 2,
            Status::OpViolation => 3,
            Status::Segv => 4,
            Status::Aborted => 5,
            Status::PermViolation => 6,
        }
    }

    pub(crate) fn from_code(code: u8) -> Result<Status, WireError> {
        match code {
            0 => Ok(Status::Ok),
            1 => Ok(Status::NoMatch),
            2 => Ok(Status::PtDisabled),
            3 => Ok(Status::OpViolation),
            4 => Ok(Status::Segv),
            5 => Ok(Status::Aborted),
            6 => Ok(Status::PermViolation),
            other => Err(WireError::Status(other)),
        }
    }
}
