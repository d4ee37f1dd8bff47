//! Writing packets: the header of each, ready to go out.

use crate::ids::PacketSeq;
use crate::layout::{
    AckBody, AtomicBody, CtsBody, DETAIL_FETCH, FLAG_ADDR, FLAG_BULK, FLAG_FOUND, FLAG_OFFSET,
    FLAG_RTS, FLAG_WATCHED, FoundPart, GetBody, GetDoneBody, GetInto, HEAD_BYTES, Head, KIND_ACK,
    KIND_ATOMIC, KIND_CREDIT, KIND_CTS, KIND_DECLINE, KIND_GET, KIND_GET_DONE, KIND_OFFER,
    KIND_PULL, KIND_PUT, KIND_REPLY, KIND_RETURN_REQUEST, KIND_RETURN_RESPONSE, KIND_RTR,
    KIND_SEARCH, KIND_WAITING, KIND_WATCH, KIND_WRITTEN, NumberBody, OfferBody, PullBody, PutAck,
    PutBody, PutBulk, PutOffset, PutRts, ReplyBody, ReturnBody, RtrBody, SLOT_BYTES, SearchBody,
    VERSION, WrittenBody,
};
use crate::packet::{AckKind, Answer, Credits, Packet, Rts, Waiting};
use crate::units::Addr;
use std::mem::size_of;
use std::num::NonZeroU32;
use zerocopy::little_endian::{U16, U32, U64};

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

    /// A header whose body is a number.
    fn numbered(head: Head, number: u64) -> HeadBuf {
        let mut buf = HeadBuf::new(head);
        buf.push::<1>(zerocopy::transmute!(NumberBody { number: U64::new(number) }));
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
                if put.bulk.is_some() {
                    len += size_of::<PutBulk>();
                }
                len
            }
            Packet::Ack(_) => size_of::<AckBody>(),
            Packet::Get(get) if get.into != Addr(0) => size_of::<GetBody>() + size_of::<GetInto>(),
            Packet::Get(_) => size_of::<GetBody>(),
            Packet::Reply(_) => size_of::<ReplyBody>(),
            Packet::GetDone(_) => size_of::<GetDoneBody>(),
            Packet::Credit => 0,
            Packet::Atomic(_) => size_of::<AtomicBody>(),
            Packet::Offer(_) => size_of::<OfferBody>(),
            Packet::Pull(_) => size_of::<PullBody>(),
            Packet::Search(_) => size_of::<SearchBody>(),
            Packet::Waiting(Waiting { found: Some(_), .. }) => {
                size_of::<NumberBody>() + size_of::<FoundPart>()
            }
            Packet::Watch(_) | Packet::Waiting(_) | Packet::Decline(_) => size_of::<NumberBody>(),
            Packet::ReturnRequest => 0,
            Packet::ReturnResponse(_) => size_of::<ReturnBody>(),
            Packet::Rtr(_) => size_of::<RtrBody>(),
            Packet::Cts(_) => size_of::<CtsBody>(),
            Packet::Written(_) => size_of::<WrittenBody>(),
        };
        (HEAD_BYTES + body) as u32
    }

    /// Writes the header of this packet with `payload_len` bytes to follow.
    ///
    /// # Panics
    /// If the packet is one that [`Packet::parse`] would refuse: an announced
    /// put with an offset, an acknowledgement or a payload; one to be fetched
    /// without a name; a silent acknowledgement of anything else; a payload on
    /// a packet that has none.
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
            datatype: 0,
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
                let mut payload_len = payload_len;
                if let Some(Rts { tally: Some(tally), .. }) = put.rts {
                    payload_len = tally.get();
                }
                if let Some(bulk) = put.bulk {
                    assert!(
                        put.rts.is_none() && put.ack.is_some() && payload_len == 0,
                        "a put whose data is fetched has a name and no payload"
                    );
                    flags |= FLAG_BULK;
                    payload_len = bulk.len;
                } else {
                    assert!(
                        !matches!(put.ack, Some((AckKind::Silent, _))),
                        "only a put whose data is fetched is acknowledged silently"
                    );
                }
                let detail = put.ack.map_or(0, |(kind, _)| kind.code());
                let mut head = head(KIND_PUT, flags, put.pt_index.0, put.user, detail);
                head.payload_len = U32::new(payload_len);
                let mut buf = HeadBuf::new(head);
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
                if let Some(bulk) = put.bulk {
                    buf.push::<1>(zerocopy::transmute!(PutBulk { addr: U64::new(bulk.addr.0) }));
                }
                buf
            }
            Packet::Ack(ack) => {
                assert!(payload_len == 0, "an acknowledgement has no payload");
                let mut buf =
                    HeadBuf::new(head(KIND_ACK, ack.list.flag(), 0, 0, ack.status.code()));
                buf.push::<3>(zerocopy::transmute!(AckBody {
                    op: U64::new(ack.op),
                    mlength: U64::new(ack.mlength),
                    offset: U64::new(ack.offset),
                }));
                buf
            }
            Packet::Get(get) => {
                assert!(payload_len == 0, "a get has no payload");
                let flags = if get.into == Addr(0) { 0 } else { FLAG_ADDR };
                let mut buf = HeadBuf::new(head(KIND_GET, flags, get.pt_index.0, 0, 0));
                buf.push::<4>(zerocopy::transmute!(GetBody {
                    match_bits: U64::new(get.match_bits.0),
                    op: U64::new(get.op),
                    remote_offset: U64::new(get.remote_offset),
                    length: U64::new(get.length),
                }));
                if get.into != Addr(0) {
                    buf.push::<1>(zerocopy::transmute!(GetInto { addr: U64::new(get.into.0) }));
                }
                buf
            }
            Packet::Reply(reply) => {
                let mut buf =
                    HeadBuf::new(head(KIND_REPLY, reply.list.flag(), 0, 0, reply.status.code()));
                buf.push::<2>(zerocopy::transmute!(ReplyBody {
                    op: U64::new(reply.op),
                    offset: U64::new(reply.offset),
                }));
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
            Packet::Atomic(atomic) => {
                let (detail, op) = match atomic.answer {
                    Answer::No => (0, 0),
                    Answer::Ack(kind, op) => (kind.code(), op),
                    Answer::Fetch(op) => (DETAIL_FETCH, op),
                };
                assert!(
                    atomic.answer != Answer::Ack(AckKind::Silent, op),
                    "an atomic operation carries its data"
                );
                let (pt, what) = (atomic.pt_index.0, atomic.op.code());
                let mut head = head(KIND_ATOMIC, 0, pt, what, detail);
                head.datatype = atomic.datatype.code();
                let mut buf = HeadBuf::new(head);
                buf.push::<4>(zerocopy::transmute!(AtomicBody {
                    match_bits: U64::new(atomic.match_bits.0),
                    hdr_data: U64::new(atomic.hdr_data),
                    remote_offset: U64::new(atomic.remote_offset),
                    op: U64::new(op),
                }));
                buf
            }
            Packet::Offer(offer) => {
                assert!(payload_len == 0, "an offer has no payload");
                let mut buf = HeadBuf::new(head(KIND_OFFER, offer.list.flag(), 0, 0, 0));
                buf.push::<4>(zerocopy::transmute!(OfferBody {
                    op: U64::new(offer.op),
                    mlength: U64::new(offer.mlength),
                    offset: U64::new(offer.offset),
                    source: U64::new(offer.source),
                }));
                buf
            }
            Packet::Pull(pull) => {
                assert!(payload_len == 0, "a pull has no payload");
                let mut buf = HeadBuf::new(head(KIND_PULL, 0, 0, 0, 0));
                buf.push::<4>(zerocopy::transmute!(PullBody {
                    source: U64::new(pull.source),
                    op: U64::new(pull.op),
                    offset: U64::new(pull.offset),
                    length: U64::new(pull.length),
                }));
                buf
            }
            Packet::Search(search) => {
                assert!(payload_len == 0, "a search has no payload");
                let mut buf = HeadBuf::new(head(KIND_SEARCH, 0, search.pt_index.0, 0, 0));
                buf.push::<3>(zerocopy::transmute!(SearchBody {
                    match_bits: U64::new(search.match_bits.0),
                    ignore_bits: U64::new(search.ignore_bits),
                    newest: U64::new(search.newest),
                }));
                buf
            }
            Packet::Watch(watch) => {
                assert!(payload_len == 0, "a watch has no payload");
                HeadBuf::numbered(head(KIND_WATCH, 0, 0, 0, 0), watch.after)
            }
            Packet::Waiting(waiting) => {
                assert!(payload_len == 0, "a waiting has no payload");
                assert!(
                    waiting.found.is_some() || !waiting.watched,
                    "a watch is answered when there is a message"
                );
                let mut flags = if waiting.watched { FLAG_WATCHED } else { 0 };
                let Some(found) = waiting.found else {
                    return HeadBuf::numbered(head(KIND_WAITING, flags, 0, 0, 0), waiting.number);
                };
                flags |= FLAG_FOUND;
                let head = head(KIND_WAITING, flags, found.pt_index.0, found.user, 0);
                let mut buf = HeadBuf::numbered(head, waiting.number);
                buf.push::<4>(zerocopy::transmute!(FoundPart {
                    match_bits: U64::new(found.match_bits.0),
                    hdr_data: U64::new(found.hdr_data),
                    total_len: U64::new(found.total_len),
                    addr: U64::new(found.addr.0),
                }));
                buf
            }
            Packet::Decline(decline) => {
                assert!(payload_len == 0, "a decline has no payload");
                HeadBuf::numbered(head(KIND_DECLINE, 0, 0, 0, 0), decline.number)
            }
            Packet::ReturnRequest => {
                assert!(payload_len == 0, "a return request has no payload");
                HeadBuf::new(head(KIND_RETURN_REQUEST, 0, 0, 0, 0))
            }
            Packet::ReturnResponse(response) => {
                assert!(payload_len == 0, "a return response has no payload");
                let mut buf = HeadBuf::new(head(KIND_RETURN_RESPONSE, 0, 0, 0, 0));
                let slots = U64::new(response.slots);
                buf.push::<1>(zerocopy::transmute!(ReturnBody { slots }));
                buf
            }
            Packet::Rtr(rtr) => {
                assert!(payload_len == 0, "an RTR has no payload");
                let mut buf = HeadBuf::new(head(KIND_RTR, 0, rtr.pt_index.0, 0, 0));
                buf.push::<5>(zerocopy::transmute!(RtrBody {
                    match_bits: U64::new(rtr.match_bits.0),
                    ignore_bits: U64::new(rtr.ignore_bits),
                    addr: U64::new(rtr.addr.0),
                    len: U64::new(rtr.len),
                    seen: U32::new(rtr.seen.0),
                    tally: U32::new(rtr.tally.get()),
                }));
                buf
            }
            Packet::Cts(cts) => {
                assert!(payload_len == 0, "a CTS has no payload");
                let mut buf = HeadBuf::new(head(KIND_CTS, 0, 0, 0, 0));
                buf.push::<5>(zerocopy::transmute!(CtsBody {
                    key: U64::new(cts.key.0),
                    addr: U64::new(cts.addr.0),
                    len: U64::new(cts.len),
                    op: U64::new(cts.op),
                    tally: U32::new(cts.tally.map_or(0, NonZeroU32::get)),
                    reserved: U32::ZERO,
                }));
                buf
            }
            Packet::Written(written) => {
                assert!(payload_len == 0, "a written has no payload");
                let mut buf = HeadBuf::new(head(KIND_WRITTEN, 0, 0, 0, written.status.code()));
                buf.push::<2>(zerocopy::transmute!(WrittenBody {
                    op: U64::new(written.op),
                    len: U64::new(written.len),
                }));
                buf
            }
        }
    }
}
