//! The packets: what each says, and its bytes. A kind has a file, with its layout,
//! `emit` and `parse`; what is common to all is here.

mod ack;
mod atomic;
mod cts;
mod decline;
mod get;
mod get_done;
mod offer;
mod parts;
mod plain;
mod pull;
mod put;
mod recovery;
mod reply;
mod return_response;
mod rtr;
mod search;
mod terms;
mod waiting;
mod watch;
mod words;
mod written;

pub use ack::Ack;
pub use atomic::{Answer, Atomic};
pub use cts::Cts;
pub use decline::Decline;
pub use get::Get;
pub use get_done::GetDone;
pub use offer::Offer;
pub use parts::{HeadBuf, SLOT_WORDS};
pub use plain::{Plain, PlainParsed};
pub use pull::Pull;
pub use put::{Bulk, Put, Rts};
pub use recovery::{Recovery, Word};
pub use reply::Reply;
pub use return_response::ReturnResponse;
pub use rtr::Rtr;
pub use search::Search;
pub use terms::{AckKind, Credits, List, Status};
pub use waiting::{Found, Waiting};
pub use watch::Watch;
pub use written::Written;

use crate::error::WireError;
use crate::ids::PacketSeq;
use crate::layout::{
    FLAG_CONTROL, FLAG_FOUND, FLAG_KEY, FLAG_OVERFLOW, FLAG_WATCHED, HEAD_BYTES, Head, KIND_ACK,
    KIND_ATOMIC, KIND_CREDIT, KIND_CTS, KIND_DECLINE, KIND_GET, KIND_GET_DONE, KIND_OFFER,
    KIND_PULL, KIND_PUT, KIND_RECOVERY, KIND_REPLY, KIND_RETURN_REQUEST, KIND_RETURN_RESPONSE,
    KIND_RTR, KIND_SEARCH, KIND_WAITING, KIND_WATCH, KIND_WRITTEN, SLOT_BYTES, VERSION,
};
use parts::{Heading, Reader, zero};

/// Payload bytes that a plain put carries in its first slot.
pub const PUT_INLINE_BYTES_MAX: u32 = (SLOT_BYTES - HEAD_BYTES - put::PLAIN_BODY_BYTES) as u32;

/// Length of a reply's header in bytes: what it takes besides its payload.
pub const REPLY_HEADER_BYTES: u64 = (HEAD_BYTES + reply::BODY_BYTES) as u64;

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
    /// See [`Recovery`].
    Recovery(Recovery),
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

    /// How many slots it takes, as [`slots_for`](crate::slots_for) counts.
    #[must_use]
    #[inline]
    pub fn slots(&self) -> u32 {
        crate::slots_for(self.payload_offset.into(), self.payload_len.into())
    }
}

impl Packet {
    /// Length of the header of this packet in bytes.
    #[must_use]
    #[inline(always)]
    pub fn header_bytes(&self) -> u32 {
        let body = match self {
            Packet::Credit | Packet::ReturnRequest => 0,
            Packet::Put(it) => it.body_bytes(),
            Packet::Ack(it) => it.body_bytes(),
            Packet::Get(it) => it.body_bytes(),
            Packet::Reply(it) => it.body_bytes(),
            Packet::GetDone(it) => it.body_bytes(),
            Packet::Atomic(it) => it.body_bytes(),
            Packet::Offer(it) => it.body_bytes(),
            Packet::Pull(it) => it.body_bytes(),
            Packet::Search(it) => it.body_bytes(),
            Packet::Watch(it) => it.body_bytes(),
            Packet::Waiting(it) => it.body_bytes(),
            Packet::Decline(it) => it.body_bytes(),
            Packet::ReturnResponse(it) => it.body_bytes(),
            Packet::Rtr(it) => it.body_bytes(),
            Packet::Cts(it) => it.body_bytes(),
            Packet::Written(it) => it.body_bytes(),
            Packet::Recovery(it) => it.body_bytes(),
        };
        (HEAD_BYTES + body) as u32
    }

    /// Writes the header of this packet with `payload_len` bytes to follow.
    ///
    /// # Panics
    /// If the packet is one that [`Packet::parse`] would refuse: an announced
    /// put with an offset, an acknowledgement or a payload; one to be fetched
    /// without a name; a silent acknowledgement of anything else; the
    /// acknowledgement of a match for what is never kept; a payload on a packet
    /// that has none.
    #[must_use]
    #[inline(always)]
    pub fn emit(&self, seq: PacketSeq, credits: Credits, payload_len: u32) -> HeadBuf {
        let heading = Heading { seq, credits, payload_len };
        match self {
            Packet::Credit => {
                assert!(payload_len == 0, "a credit packet has no payload");
                HeadBuf::new(heading.head(KIND_CREDIT, 0, 0, 0, 0))
            }
            Packet::ReturnRequest => {
                assert!(payload_len == 0, "a return request has no payload");
                HeadBuf::new(heading.head(KIND_RETURN_REQUEST, 0, 0, 0, 0))
            }
            Packet::Put(it) => it.emit(&heading),
            Packet::Ack(it) => it.emit(&heading),
            Packet::Get(it) => it.emit(&heading),
            Packet::Reply(it) => it.emit(&heading),
            Packet::GetDone(it) => it.emit(&heading),
            Packet::Atomic(it) => it.emit(&heading),
            Packet::Offer(it) => it.emit(&heading),
            Packet::Pull(it) => it.emit(&heading),
            Packet::Search(it) => it.emit(&heading),
            Packet::Watch(it) => it.emit(&heading),
            Packet::Waiting(it) => it.emit(&heading),
            Packet::Decline(it) => it.emit(&heading),
            Packet::ReturnResponse(it) => it.emit(&heading),
            Packet::Rtr(it) => it.emit(&heading),
            Packet::Cts(it) => it.emit(&heading),
            Packet::Written(it) => it.emit(&heading),
            Packet::Recovery(it) => it.emit(&heading),
        }
    }

    /// Reads the header at the front of `bytes`. The payload itself need not
    /// be there; the caller checks that it is, from [`Parsed::total_bytes`].
    /// The rail's prefix is the rail's affair and is not looked at.
    ///
    /// # Errors
    /// A [`WireError`] for every byte string that [`Packet::emit`] cannot
    /// have produced.
    #[inline]
    pub fn parse(bytes: &[u8]) -> Result<Parsed, WireError> {
        let mut reader = Reader::new(bytes);
        let head: Head = reader.take()?;
        check_head(&head)?;
        if head.kind == KIND_PUT && head.flags == 0 && head.kind_detail == 0 {
            // Of nearly every packet this is all, and the registers that the others need
            // are saved for none of them.
            let put = Put::parse(&mut reader, &head)?;
            return Ok(parsed(&head, Packet::Put(put), head.payload_len.get(), &reader));
        }
        Packet::parse_rest(reader, &head)
    }

    /// Reads a packet whose head is read.
    #[inline(never)]
    fn parse_rest(mut reader: Reader<'_>, head: &Head) -> Result<Parsed, WireError> {
        let mut payload_len = head.payload_len.get();
        let packet = Packet::parse_body(&mut reader, head, &mut payload_len)?;
        let may_carry = matches!(packet, Packet::Put(_) | Packet::Reply(_) | Packet::Atomic(_));
        if payload_len != 0 && !may_carry {
            return Err(WireError::Payload { kind: head.kind, len: payload_len });
        }
        Ok(parsed(head, packet, payload_len, &reader))
    }

    /// Reads what its kind says. The length of the payload is what the head says,
    /// unless that field says something else.
    #[inline(always)]
    fn parse_body(
        reader: &mut Reader<'_>,
        head: &Head,
        payload_len: &mut u32,
    ) -> Result<Packet, WireError> {
        Ok(match head.kind {
            KIND_PUT => {
                let put = Put::parse(reader, head)?;
                if put.bulk.is_some() || put.rts.is_some() {
                    *payload_len = 0;
                }
                Packet::Put(put)
            }
            KIND_ACK => Packet::Ack(Ack::parse(reader, head)?),
            KIND_GET => Packet::Get(Get::parse(reader, head)?),
            KIND_REPLY => Packet::Reply(Reply::parse(reader, head)?),
            KIND_GET_DONE => Packet::GetDone(GetDone::parse(reader, head)?),
            KIND_ATOMIC => Packet::Atomic(Atomic::parse(reader, head)?),
            KIND_OFFER => Packet::Offer(Offer::parse(reader, head)?),
            KIND_PULL => Packet::Pull(Pull::parse(reader, head)?),
            KIND_SEARCH => Packet::Search(Search::parse(reader, head)?),
            KIND_WATCH => Packet::Watch(Watch::parse(reader, head)?),
            KIND_WAITING => Packet::Waiting(Waiting::parse(reader, head)?),
            KIND_DECLINE => Packet::Decline(Decline::parse(reader, head)?),
            KIND_RETURN_RESPONSE => Packet::ReturnResponse(ReturnResponse::parse(reader, head)?),
            KIND_RTR => Packet::Rtr(Rtr::parse(reader, head)?),
            KIND_CTS => Packet::Cts(Cts::parse(reader, head)?),
            KIND_WRITTEN => Packet::Written(Written::parse(reader, head)?),
            KIND_RECOVERY => Packet::Recovery(Recovery::parse(reader, head)?),
            KIND_CREDIT => {
                zero(KIND_CREDIT, head.pt_index | head.user | head.kind_detail)?;
                Packet::Credit
            }
            KIND_RETURN_REQUEST => {
                zero(KIND_RETURN_REQUEST, head.pt_index | head.user | head.kind_detail)?;
                Packet::ReturnRequest
            }
            other => return Err(WireError::Kind(other)),
        })
    }
}

/// A packet whose header ends where the reader is.
#[inline(always)]
fn parsed(head: &Head, packet: Packet, payload_len: u32, reader: &Reader<'_>) -> Parsed {
    Parsed {
        seq: PacketSeq(head.seq.get()),
        credits: Credits { data: head.credits.get(), control: head.control_credits },
        packet,
        payload_offset: reader.at as u32,
        payload_len,
    }
}

/// What can be said of a packet by its head alone.
#[inline(always)]
fn check_head(head: &Head) -> Result<(), WireError> {
    let (kind, flags) = (head.kind, head.flags);
    if head.version != VERSION {
        return Err(WireError::Version(head.version));
    }
    // First of all the kind: which fields must be zero depends on it.
    if !(KIND_PUT..=KIND_RECOVERY).contains(&kind) {
        return Err(WireError::Kind(kind));
    }
    if head.datatype != 0 && kind != KIND_ATOMIC {
        return Err(WireError::Reserved(kind));
    }
    if flags == 0 {
        return Ok(());
    }
    let are_known = match kind {
        // Which exclude each other is a question for later.
        KIND_PUT => true,
        KIND_ATOMIC => flags == FLAG_CONTROL,
        KIND_GET => flags == FLAG_KEY,
        KIND_ACK | KIND_REPLY | KIND_OFFER => flags == FLAG_OVERFLOW,
        KIND_WAITING => flags == FLAG_FOUND || flags == FLAG_FOUND | FLAG_WATCHED,
        _ => false,
    };
    if are_known { Ok(()) } else { Err(WireError::Flags { kind, flags }) }
}
