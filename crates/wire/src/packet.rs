//! The packets: what each says, how it is written and how it is read.

use crate::error::WireError;
use crate::ids::{MatchBits, PacketSeq, PtIndex};
use crate::layout::{
    AckBody, GetBody, GetDoneBody, HEAD_BYTES, Head, PutAck, PutBody, PutOffset, PutRts, ReplyBody,
    SLOT_BYTES, VERSION,
};
use crate::units::Addr;
use std::mem::size_of;
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

/// Payload bytes that a plain put carries in its first slot.
pub const PUT_INLINE_BYTES_MAX: u32 = (SLOT_BYTES - HEAD_BYTES - size_of::<PutBody>()) as u32;

const KIND_PUT: u8 = 1;
const KIND_ACK: u8 = 2;
const KIND_GET: u8 = 3;
const KIND_REPLY: u8 = 4;
const KIND_GET_DONE: u8 = 5;
const KIND_CREDIT: u8 = 6;

const FLAG_OFFSET: u8 = 1 << 0;
const FLAG_RTS: u8 = 1 << 1;

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
}

/// How an operation went at its target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// As asked.
    Ok,
    /// No entry matched.
    NoMatch,
    /// The portal table entry does not exist or is disabled.
    PtDisabled,
    /// The entry that matched does not allow this operation.
    OpViolation,
    /// The target's memory could not be reached.
    Segv,
    /// The operation was given up by the side that would have moved the data.
    Aborted,
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
}

/// What became of a put.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ack {
    /// The initiator's name for the put.
    pub op: u64,
    /// Bytes that the target took.
    pub mlength: u64,
    /// How it went.
    pub status: Status,
}

/// Asks for bytes of a get entry; answered by one [`Reply`].
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
}

/// The bytes that a get asked for, as payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reply {
    /// The initiator's name for the get.
    pub op: u64,
    /// How it went.
    pub status: Status,
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

/// Eight-byte words of a slot.
pub const SLOT_WORDS: usize = SLOT_BYTES / size_of::<u64>();

/// The header of a packet, ready to be written; its payload goes right behind.
///
/// It is kept in words, as they lie in memory: every part of a header is a
/// whole number of them, and what is built and copied in one width never waits
/// for the processor's store buffer.
#[derive(Clone, Copy, Debug)]
pub struct HeadBuf {
    words: [u64; SLOT_WORDS],
    len_words: u8,
}

impl HeadBuf {
    /// The header's bytes. The rail's prefix in front is zero.
    #[must_use]
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        &self.slot()[..self.len()]
    }

    /// The whole slot: header, then zeroes up to 64 bytes.
    #[must_use]
    #[inline]
    pub fn slot(&self) -> &[u8; SLOT_BYTES] {
        zerocopy::transmute_ref!(&self.words)
    }

    /// The whole slot in words, as they lie in memory.
    #[must_use]
    #[inline]
    pub fn words(&self) -> &[u64; SLOT_WORDS] {
        &self.words
    }

    /// Length of the header in bytes.
    #[must_use]
    #[inline]
    pub fn len(&self) -> usize {
        usize::from(self.len_words) * size_of::<u64>()
    }

    /// Never: a header has at least a head.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        false
    }

    #[inline(always)]
    fn new(head: Head) -> HeadBuf {
        let head: [u64; size_of::<Head>() / 8] = zerocopy::transmute!(head);
        let mut buf = HeadBuf { words: [0; SLOT_WORDS], len_words: 0 };
        buf.push(head);
        buf
    }

    #[inline(always)]
    fn push<const N: usize>(&mut self, part: [u64; N]) {
        let at = usize::from(self.len_words);
        self.words[at..at + N].copy_from_slice(&part);
        self.len_words += N as u8;
    }
}

impl Packet {
    /// Length of the header of this packet in bytes.
    #[must_use]
    #[inline(always)]
    pub fn header_bytes(&self) -> u32 {
        let body = match self {
            Packet::Put(put) => {
                let mut len = size_of::<PutBody>();
                if put.remote_offset != 0 {
                    len += size_of::<PutOffset>();
                }
                if put.ack.is_some() {
                    len += size_of::<PutAck>();
                }
                if put.rts.is_some() {
                    len += size_of::<PutRts>();
                }
                len
            }
            Packet::Ack(_) => size_of::<AckBody>(),
            Packet::Get(_) => size_of::<GetBody>(),
            Packet::Reply(_) => size_of::<ReplyBody>(),
            Packet::GetDone(_) => size_of::<GetDoneBody>(),
            Packet::Credit => 0,
        };
        (HEAD_BYTES + body) as u32
    }

    /// Writes the header of this packet with `payload_len` bytes to follow.
    ///
    /// # Panics
    /// If the packet is one that [`Packet::parse`] would refuse: an announced
    /// put with an offset, an acknowledgement or a payload; a payload on a
    /// packet that has none.
    #[must_use]
    #[inline(always)]
    pub fn emit(&self, seq: PacketSeq, credits: Credits, payload_len: u32) -> HeadBuf {
        let head = |kind: u8, flags: u8, pt: u8, user: u8, detail: u8| Head {
            stamp: U32::ZERO,
            writer: U16::ZERO,
            version: VERSION,
            kind,
            seq: U32::new(seq.0),
            credits: U16::new(credits.data),
            control_credits: credits.control,
            flags,
            payload_len: U32::new(payload_len),
            pt_index: pt,
            user,
            kind_detail: detail,
            reserved: 0,
        };
        match *self {
            Packet::Put(put) => {
                let mut flags = 0;
                if put.remote_offset != 0 {
                    flags |= FLAG_OFFSET;
                }
                if put.rts.is_some() {
                    assert!(
                        put.remote_offset == 0 && put.ack.is_none() && payload_len == 0,
                        "an announced put has no offset, acknowledgement or payload"
                    );
                    flags |= FLAG_RTS;
                }
                let detail = put.ack.map_or(0, |(kind, _)| kind.code());
                let mut buf = HeadBuf::new(head(KIND_PUT, flags, put.pt_index.0, put.user, detail));
                buf.push::<2>(zerocopy::transmute!(PutBody {
                    match_bits: U64::new(put.match_bits.0),
                    hdr_data: U64::new(put.hdr_data),
                }));
                if put.remote_offset != 0 {
                    buf.push::<1>(zerocopy::transmute!(PutOffset {
                        remote_offset: U64::new(put.remote_offset)
                    }));
                }
                if let Some((_, op)) = put.ack {
                    buf.push::<1>(zerocopy::transmute!(PutAck { op: U64::new(op) }));
                }
                if let Some(rts) = put.rts {
                    buf.push::<3>(zerocopy::transmute!(PutRts {
                        total_len: U64::new(rts.total_len),
                        addr: U64::new(rts.addr.0),
                        key: U64::new(rts.key.0),
                    }));
                }
                buf
            }
            Packet::Ack(ack) => {
                assert!(payload_len == 0, "an acknowledgement has no payload");
                let mut buf = HeadBuf::new(head(KIND_ACK, 0, 0, 0, ack.status.code()));
                buf.push::<2>(zerocopy::transmute!(AckBody {
                    op: U64::new(ack.op),
                    mlength: U64::new(ack.mlength)
                }));
                buf
            }
            Packet::Get(get) => {
                assert!(payload_len == 0, "a get has no payload");
                let mut buf = HeadBuf::new(head(KIND_GET, 0, get.pt_index.0, 0, 0));
                buf.push::<4>(zerocopy::transmute!(GetBody {
                    match_bits: U64::new(get.match_bits.0),
                    op: U64::new(get.op),
                    remote_offset: U64::new(get.remote_offset),
                    length: U64::new(get.length),
                }));
                buf
            }
            Packet::Reply(reply) => {
                let mut buf = HeadBuf::new(head(KIND_REPLY, 0, 0, 0, reply.status.code()));
                buf.push::<1>(zerocopy::transmute!(ReplyBody { op: U64::new(reply.op) }));
                buf
            }
            Packet::GetDone(done) => {
                assert!(payload_len == 0, "a get-done has no payload");
                let mut buf =
                    HeadBuf::new(head(KIND_GET_DONE, 0, done.pt_index.0, 0, done.status.code()));
                buf.push::<2>(zerocopy::transmute!(GetDoneBody {
                    match_bits: U64::new(done.match_bits.0),
                    length: U64::new(done.length),
                }));
                buf
            }
            Packet::Credit => {
                assert!(payload_len == 0, "a credit packet has no payload");
                HeadBuf::new(head(KIND_CREDIT, 0, 0, 0, 0))
            }
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
        let mut reader = Reader { bytes, at: 0 };
        let head: Head = reader.take()?;
        let kind = head.kind;
        if head.version != VERSION {
            return Err(WireError::Version(head.version));
        }
        // First of all the kind: which fields must be zero depends on it.
        if !(KIND_PUT..=KIND_CREDIT).contains(&kind) {
            return Err(WireError::Kind(kind));
        }
        if head.reserved != 0 {
            return Err(WireError::Reserved(kind));
        }
        let payload_len = head.payload_len.get();
        let flags = head.flags;
        if flags != 0 && kind != KIND_PUT {
            return Err(WireError::Flags { kind, flags });
        }
        let packet = match kind {
            KIND_PUT => Packet::Put(parse_put(&mut reader, &head)?),
            KIND_ACK => {
                zero(kind, head.pt_index | head.user)?;
                let body: AckBody = reader.take()?;
                Packet::Ack(Ack {
                    op: body.op.get(),
                    mlength: body.mlength.get(),
                    status: Status::from_code(head.kind_detail)?,
                })
            }
            KIND_GET => {
                zero(kind, head.user | head.kind_detail)?;
                let body: GetBody = reader.take()?;
                Packet::Get(Get {
                    pt_index: PtIndex(head.pt_index),
                    match_bits: MatchBits(body.match_bits.get()),
                    op: body.op.get(),
                    remote_offset: body.remote_offset.get(),
                    length: body.length.get(),
                })
            }
            KIND_REPLY => {
                zero(kind, head.pt_index | head.user)?;
                let body: ReplyBody = reader.take()?;
                Packet::Reply(Reply {
                    op: body.op.get(),
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
            other => return Err(WireError::Kind(other)),
        };
        if payload_len != 0 && !matches!(packet, Packet::Put(_) | Packet::Reply(_)) {
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
    if flags & !(FLAG_OFFSET | FLAG_RTS) != 0 {
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
        if flags & FLAG_OFFSET != 0 || ack.is_some() {
            return Err(bad_flags);
        }
        let len = head.payload_len.get();
        if len != 0 {
            return Err(WireError::Payload { kind: KIND_PUT, len });
        }
        let part: PutRts = reader.take()?;
        Some(Rts {
            total_len: part.total_len.get(),
            addr: Addr(part.addr.get()),
            key: MatchBits(part.key.get()),
        })
    };
    Ok(Put {
        pt_index: PtIndex(head.pt_index),
        match_bits: MatchBits(body.match_bits.get()),
        hdr_data: body.hdr_data.get(),
        user: head.user,
        remote_offset,
        ack,
        rts,
    })
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

impl AckKind {
    fn code(self) -> u8 {
        match self {
            AckKind::Full => 1,
            AckKind::Count => 2,
            AckKind::OperationCompleted => 3,
        }
    }

    fn from_code(code: u8) -> Result<Option<AckKind>, WireError> {
        match code {
            0 => Ok(None),
            1 => Ok(Some(AckKind::Full)),
            2 => Ok(Some(AckKind::Count)),
            3 => Ok(Some(AckKind::OperationCompleted)),
            other => Err(WireError::AckKind(other)),
        }
    }
}

impl Status {
    fn code(self) -> u8 {
        match self {
            Status::Ok => 0,
            Status::NoMatch => 1,
            Status::PtDisabled => 2,
            Status::OpViolation => 3,
            Status::Segv => 4,
            Status::Aborted => 5,
        }
    }

    fn from_code(code: u8) -> Result<Status, WireError> {
        match code {
            0 => Ok(Status::Ok),
            1 => Ok(Status::NoMatch),
            2 => Ok(Status::PtDisabled),
            3 => Ok(Status::OpViolation),
            4 => Ok(Status::Segv),
            5 => Ok(Status::Aborted),
            other => Err(WireError::Status(other)),
        }
    }
}
