//! Reading packets: exactly what `emit` writes, and nothing else.

use crate::atomic::{AtomicOp, Datatype};
use crate::error::WireError;
use crate::ids::{MatchBits, PacketSeq, PtIndex};
use crate::layout::{
    AckBody, AtomicBody, CtsBody, DETAIL_FETCH, FLAG_ADDR, FLAG_BULK, FLAG_FOUND, FLAG_OFFSET,
    FLAG_OVERFLOW, FLAG_RTS, FLAG_WATCHED, FoundPart, GetBody, GetDoneBody, GetInto, Head,
    KIND_ACK, KIND_ATOMIC, KIND_CREDIT, KIND_CTS, KIND_DECLINE, KIND_GET, KIND_GET_DONE,
    KIND_OFFER, KIND_PULL, KIND_PUT, KIND_REPLY, KIND_RETURN_REQUEST, KIND_RETURN_RESPONSE,
    KIND_RTR, KIND_SEARCH, KIND_WAITING, KIND_WATCH, KIND_WRITTEN, NumberBody, OfferBody, PullBody,
    PutAck, PutBody, PutBulk, PutOffset, PutRts, ReplyBody, ReturnBody, RtrBody, SearchBody,
    VERSION, WrittenBody,
};
use crate::packet::{
    Ack, AckKind, Answer, Atomic, Bulk, Credits, Cts, Decline, Found, Get, GetDone, List, Offer,
    Packet, Parsed, Pull, Put, Reply, ReturnResponse, Rtr, Rts, Search, Status, Waiting, Watch,
    Written,
};
use crate::units::Addr;
use std::mem::size_of;
use std::num::NonZeroU32;
use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

impl Packet {
    /// Reads the header at the front of `bytes`. The payload itself need not
    /// be there; the caller checks that it is, from [`Parsed::total_bytes`].
    /// The rail's prefix is the rail's affair and is not looked at.
    ///
    /// # Errors
    /// A [`WireError`] for every byte string that [`Packet::emit`] cannot
    /// have produced.
    #[inline]
    pub fn parse(bytes: &[u8]) -> Result<Parsed, WireError> {
        let mut reader = Reader { bytes, at: 0 };
        let head: Head = reader.take()?;
        let kind = head.kind;
        if head.version != VERSION {
            return Err(WireError::Version(head.version));
        }
        // First of all the kind: which fields must be zero depends on it.
        if !(KIND_PUT..=KIND_WRITTEN).contains(&kind) {
            return Err(WireError::Kind(kind));
        }
        if head.datatype != 0 && kind != KIND_ATOMIC {
            return Err(WireError::Reserved(kind));
        }
        let mut payload_len = head.payload_len.get();
        let flags = head.flags;
        if flags != 0 {
            let are_known = match kind {
                // Which exclude each other is a question for later.
                KIND_PUT => true,
                KIND_GET => flags == FLAG_ADDR,
                KIND_ACK | KIND_REPLY | KIND_OFFER => flags == FLAG_OVERFLOW,
                KIND_WAITING => flags == FLAG_FOUND || flags == FLAG_FOUND | FLAG_WATCHED,
                _ => false,
            };
            if !are_known {
                return Err(WireError::Flags { kind, flags });
            }
        }
        let packet = match kind {
            KIND_PUT => {
                let put = parse_put(&mut reader, &head)?;
                if put.bulk.is_some() || put.rts.is_some() {
                    payload_len = 0;
                }
                Packet::Put(put)
            }
            KIND_ACK => {
                zero(kind, head.pt_index | head.user)?;
                let body: AckBody = reader.take()?;
                Packet::Ack(Ack {
                    op: body.op.get(),
                    mlength: body.mlength.get(),
                    offset: body.offset.get(),
                    list: List::from_flags(flags),
                    status: Status::from_code(head.kind_detail)?,
                })
            }
            KIND_GET => {
                zero(kind, head.user | head.kind_detail)?;
                let body: GetBody = reader.take()?;
                let into = if flags == 0 {
                    Addr(0)
                } else {
                    let part: GetInto = reader.take()?;
                    // Zero is written by leaving the part out.
                    if part.addr.get() == 0 {
                        return Err(WireError::Flags { kind, flags });
                    }
                    Addr(part.addr.get())
                };
                Packet::Get(Get {
                    pt_index: PtIndex(head.pt_index),
                    match_bits: MatchBits(body.match_bits.get()),
                    op: body.op.get(),
                    remote_offset: body.remote_offset.get(),
                    length: body.length.get(),
                    into,
                })
            }
            KIND_REPLY => {
                zero(kind, head.pt_index | head.user)?;
                let body: ReplyBody = reader.take()?;
                Packet::Reply(Reply {
                    op: body.op.get(),
                    offset: body.offset.get(),
                    list: List::from_flags(flags),
                    status: Status::from_code(head.kind_detail)?,
                })
            }
            KIND_GET_DONE => {
                zero(kind, head.user)?;
                let body: GetDoneBody = reader.take()?;
                Packet::GetDone(GetDone {
                    pt_index: PtIndex(head.pt_index),
                    match_bits: MatchBits(body.match_bits.get()),
                    length: body.length.get(),
                    status: Status::from_code(head.kind_detail)?,
                })
            }
            KIND_CREDIT => {
                zero(kind, head.pt_index | head.user | head.kind_detail)?;
                Packet::Credit
            }
            KIND_ATOMIC => Packet::Atomic(parse_atomic(&mut reader, &head)?),
            KIND_OFFER => {
                zero(kind, head.pt_index | head.user | head.kind_detail)?;
                let body: OfferBody = reader.take()?;
                Packet::Offer(Offer {
                    op: body.op.get(),
                    mlength: body.mlength.get(),
                    offset: body.offset.get(),
                    list: List::from_flags(flags),
                    source: body.source.get(),
                })
            }
            KIND_PULL => {
                zero(kind, head.pt_index | head.user | head.kind_detail)?;
                let body: PullBody = reader.take()?;
                Packet::Pull(Pull {
                    source: body.source.get(),
                    op: body.op.get(),
                    offset: body.offset.get(),
                    length: body.length.get(),
                })
            }
            KIND_SEARCH => {
                zero(kind, head.user | head.kind_detail)?;
                let body: SearchBody = reader.take()?;
                Packet::Search(Search {
                    pt_index: PtIndex(head.pt_index),
                    match_bits: MatchBits(body.match_bits.get()),
                    ignore_bits: body.ignore_bits.get(),
                    newest: body.newest.get(),
                })
            }
            KIND_WATCH => {
                zero(kind, head.pt_index | head.user | head.kind_detail)?;
                let body: NumberBody = reader.take()?;
                Packet::Watch(Watch { after: body.number.get() })
            }
            KIND_WAITING => Packet::Waiting(parse_waiting(&mut reader, &head)?),
            KIND_DECLINE => {
                zero(kind, head.pt_index | head.user | head.kind_detail)?;
                let body: NumberBody = reader.take()?;
                Packet::Decline(Decline { number: body.number.get() })
            }
            KIND_RETURN_REQUEST => {
                zero(kind, head.pt_index | head.user | head.kind_detail)?;
                Packet::ReturnRequest
            }
            KIND_RETURN_RESPONSE => {
                zero(kind, head.pt_index | head.user | head.kind_detail)?;
                let body: ReturnBody = reader.take()?;
                Packet::ReturnResponse(ReturnResponse { slots: body.slots.get() })
            }
            KIND_RTR => {
                zero(kind, head.user | head.kind_detail)?;
                let body: RtrBody = reader.take()?;
                Packet::Rtr(Rtr {
                    pt_index: PtIndex(head.pt_index),
                    match_bits: MatchBits(body.match_bits.get()),
                    ignore_bits: body.ignore_bits.get(),
                    addr: Addr(body.addr.get()),
                    len: body.len.get(),
                    seen: PacketSeq(body.seen.get()),
                    tally: NonZeroU32::new(body.tally.get()).ok_or(WireError::NoTally)?,
                })
            }
            KIND_CTS => {
                zero(kind, head.pt_index | head.user | head.kind_detail)?;
                let body: CtsBody = reader.take()?;
                if body.reserved.get() != 0 {
                    return Err(WireError::Reserved(kind));
                }
                Packet::Cts(Cts {
                    key: MatchBits(body.key.get()),
                    addr: Addr(body.addr.get()),
                    len: body.len.get(),
                    op: body.op.get(),
                    tally: NonZeroU32::new(body.tally.get()),
                })
            }
            KIND_WRITTEN => {
                zero(kind, head.pt_index | head.user)?;
                let body: WrittenBody = reader.take()?;
                Packet::Written(Written {
                    op: body.op.get(),
                    len: body.len.get(),
                    status: Status::from_code(head.kind_detail)?,
                })
            }
            other => return Err(WireError::Kind(other)),
        };
        let may_carry = matches!(packet, Packet::Put(_) | Packet::Reply(_) | Packet::Atomic(_));
        if payload_len != 0 && !may_carry {
            return Err(WireError::Payload { kind, len: payload_len });
        }
        Ok(Parsed {
            seq: PacketSeq(head.seq.get()),
            credits: Credits { data: head.credits.get(), control: head.control_credits },
            packet,
            payload_offset: reader.at as u32,
            payload_len,
        })
    }
}

#[inline]
fn parse_put(reader: &mut Reader<'_>, head: &Head) -> Result<Put, WireError> {
    let flags = head.flags;
    let bad_flags = WireError::Flags { kind: KIND_PUT, flags };
    if flags & !(FLAG_OFFSET | FLAG_RTS | FLAG_BULK) != 0 {
        return Err(bad_flags);
    }
    let ack = AckKind::from_code(head.kind_detail)?;
    let body: PutBody = reader.take()?;
    let remote_offset = if flags & FLAG_OFFSET == 0 {
        0
    } else {
        let part: PutOffset = reader.take()?;
        // Zero is written by leaving the part out: one form for each meaning.
        if part.remote_offset.get() == 0 {
            return Err(bad_flags);
        }
        part.remote_offset.get()
    };
    let ack = match ack {
        None => None,
        Some(kind) => {
            let part: PutAck = reader.take()?;
            Some((kind, part.op.get()))
        }
    };
    let rts = if flags & FLAG_RTS == 0 {
        None
    } else {
        if flags & (FLAG_OFFSET | FLAG_BULK) != 0 || ack.is_some() {
            return Err(bad_flags);
        }
        let part: PutRts = reader.take()?;
        Some(Rts {
            total_len: part.total_len.get(),
            addr: Addr(part.addr.get()),
            key: MatchBits(part.key.get()),
            tally: NonZeroU32::new(head.payload_len.get()),
        })
    };
    let bulk = if flags & FLAG_BULK == 0 {
        // Only who must be told when data has been fetched asks for that.
        if ack.is_some_and(|(kind, _)| kind == AckKind::Silent) {
            return Err(WireError::AckKind(head.kind_detail));
        }
        None
    } else {
        if ack.is_none() {
            return Err(bad_flags);
        }
        let part: PutBulk = reader.take()?;
        Some(Bulk { len: head.payload_len.get(), addr: Addr(part.addr.get()) })
    };
    Ok(Put {
        pt_index: PtIndex(head.pt_index),
        match_bits: MatchBits(body.match_bits.get()),
        hdr_data: body.hdr_data.get(),
        user: head.user,
        remote_offset,
        ack,
        rts,
        bulk,
    })
}

fn parse_atomic(reader: &mut Reader<'_>, head: &Head) -> Result<Atomic, WireError> {
    let op = AtomicOp::from_code(head.user)?;
    let datatype = Datatype::from_code(head.datatype)?;
    let body: AtomicBody = reader.take()?;
    let name = body.op.get();
    let answer = match head.kind_detail {
        0 if name == 0 => Answer::No,
        0 => return Err(WireError::Reserved(KIND_ATOMIC)),
        DETAIL_FETCH => Answer::Fetch(name),
        code => match AckKind::from_code(code)? {
            Some(AckKind::Silent) | None => return Err(WireError::AckKind(code)),
            Some(kind) => Answer::Ack(kind, name),
        },
    };
    Ok(Atomic {
        pt_index: PtIndex(head.pt_index),
        match_bits: MatchBits(body.match_bits.get()),
        hdr_data: body.hdr_data.get(),
        remote_offset: body.remote_offset.get(),
        op,
        datatype,
        answer,
    })
}

fn parse_waiting(reader: &mut Reader<'_>, head: &Head) -> Result<Waiting, WireError> {
    zero(KIND_WAITING, head.kind_detail)?;
    let watched = head.flags & FLAG_WATCHED != 0;
    let body: NumberBody = reader.take()?;
    let number = body.number.get();
    if head.flags & FLAG_FOUND == 0 {
        zero(KIND_WAITING, head.pt_index | head.user)?;
        return Ok(Waiting { watched, number, found: None });
    }
    let part: FoundPart = reader.take()?;
    let found = Found {
        pt_index: PtIndex(head.pt_index),
        match_bits: MatchBits(part.match_bits.get()),
        hdr_data: part.hdr_data.get(),
        user: head.user,
        total_len: part.total_len.get(),
        addr: Addr(part.addr.get()),
    };
    Ok(Waiting { watched, number, found: Some(found) })
}

#[inline]
fn zero(kind: u8, fields: u8) -> Result<(), WireError> {
    if fields == 0 { Ok(()) } else { Err(WireError::Reserved(kind)) }
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Reader<'_> {
    #[inline]
    fn take<T: FromBytes + Immutable + KnownLayout + Unaligned + Copy>(
        &mut self,
    ) -> Result<T, WireError> {
        let need = self.at + size_of::<T>();
        let truncated = WireError::Truncated { need, have: self.bytes.len() };
        let part = self.bytes.get(self.at..need).ok_or(truncated)?;
        let value = T::read_from_bytes(part).map_err(|_| truncated)?;
        self.at = need;
        Ok(value)
    }
}
