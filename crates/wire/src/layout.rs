//! The bytes of each header, as plain little-endian structures. Their sizes
//! and offsets are asserted here at compile time; nothing else in the project
//! knows a byte offset.

use std::mem::{offset_of, size_of};
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// The version that this code speaks. A packet of another one is refused.
pub const VERSION: u8 = 2;
/// A mailbox slot: one cache line.
pub const SLOT_BYTES: usize = 64;
/// The bytes at the front of the head that belong to the rail: zero on every
/// rail but shared memory, where they hold the slot's stamp and its writer.
pub const SLOT_PREFIX_BYTES: usize = 6;
/// Bytes of the head that every packet begins with.
pub const HEAD_BYTES: usize = size_of::<Head>();

pub(crate) const KIND_PUT: u8 = 1;
pub(crate) const KIND_ACK: u8 = 2;
pub(crate) const KIND_GET: u8 = 3;
pub(crate) const KIND_REPLY: u8 = 4;
pub(crate) const KIND_GET_DONE: u8 = 5;
pub(crate) const KIND_CREDIT: u8 = 6;
pub(crate) const KIND_ATOMIC: u8 = 7;
pub(crate) const KIND_OFFER: u8 = 8;
pub(crate) const KIND_PULL: u8 = 9;
pub(crate) const KIND_SEARCH: u8 = 10;
pub(crate) const KIND_WATCH: u8 = 11;
pub(crate) const KIND_WAITING: u8 = 12;
pub(crate) const KIND_DECLINE: u8 = 13;
pub(crate) const KIND_RETURN_REQUEST: u8 = 14;
pub(crate) const KIND_RETURN_RESPONSE: u8 = 15;
pub(crate) const KIND_RTR: u8 = 16;
pub(crate) const KIND_CTS: u8 = 17;
pub(crate) const KIND_WRITTEN: u8 = 18;

pub(crate) const FLAG_OFFSET: u8 = 1 << 0;
pub(crate) const FLAG_RTS: u8 = 1 << 1;
pub(crate) const FLAG_BULK: u8 = 1 << 2;
pub(crate) const FLAG_ADDR: u8 = 1 << 3;
pub(crate) const FLAG_FOUND: u8 = 1 << 4;
pub(crate) const FLAG_WATCHED: u8 = 1 << 5;
pub(crate) const FLAG_OVERFLOW: u8 = 1 << 6;
/// In the place of an acknowledgement kind: the values from before are wanted.
pub(crate) const DETAIL_FETCH: u8 = 5;

/// Begins every packet.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct Head {
    /// Shared memory: the lap in which this slot was published. Else zero.
    pub stamp: U32,
    /// Shared memory: the writer's entry in the mailbox's peer table. Else zero.
    pub writer: U16,
    pub version: u8,
    pub kind: u8,
    /// Position in the stream of packets of this ordered pair.
    pub seq: U32,
    /// Data credits returned to the receiver of this packet.
    pub credits: U16,
    /// Control credits returned to the receiver of this packet.
    pub control_credits: u8,
    pub flags: u8,
    /// Of a put whose data is fetched: the length of that. Of an announced one:
    /// the tally it uses.
    pub payload_len: U32,
    pub pt_index: u8,
    /// Put: a byte that belongs to the layer above Portals. Atomic: what is
    /// done.
    pub user: u8,
    /// Acknowledgement kind (put, atomic) or status (ack, reply, get done).
    pub kind_detail: u8,
    /// Type of the items (atomic). Else zero.
    pub datatype: u8,
}

/// Follows the head of a put.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct PutBody {
    pub match_bits: U64,
    pub hdr_data: U64,
}

/// Follows the body of a put whose target offset is not zero.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct PutOffset {
    pub remote_offset: U64,
}

/// Follows the body of a put that asks for an acknowledgement.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct PutAck {
    pub op: U64,
}

/// Follows the body of a put that announces data instead of carrying it.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct PutRts {
    pub total_len: U64,
    pub addr: U64,
    pub key: U64,
}

/// Follows the body of a put whose data is to be fetched.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct PutBulk {
    pub addr: U64,
}

/// Follows the head of an acknowledgement.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct AckBody {
    pub op: U64,
    pub mlength: U64,
    pub offset: U64,
}

/// Follows the head of a get.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct GetBody {
    pub match_bits: U64,
    pub op: U64,
    pub remote_offset: U64,
    pub length: U64,
}

/// Follows the body of a get that says where its bytes are wanted.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct GetInto {
    pub addr: U64,
}

/// Follows the head of an atomic operation; its payload follows it.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct AtomicBody {
    pub match_bits: U64,
    pub hdr_data: U64,
    pub remote_offset: U64,
    pub op: U64,
}

/// Follows the head of an offer.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct OfferBody {
    pub op: U64,
    pub mlength: U64,
    pub offset: U64,
    pub source: U64,
}

/// Follows the head of a pull.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct PullBody {
    pub source: U64,
    pub op: U64,
    pub offset: U64,
    pub length: U64,
}

/// Follows the head of a search.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct SearchBody {
    pub match_bits: U64,
    pub ignore_bits: U64,
    pub newest: U64,
}

/// Follows the head of a watch, a waiting, a decline.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct NumberBody {
    pub number: U64,
}

/// Follows the body of a waiting that tells of a message.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct FoundPart {
    pub match_bits: U64,
    pub hdr_data: U64,
    pub total_len: U64,
    pub addr: U64,
}

/// Follows the head of a return response.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct ReturnBody {
    pub slots: U64,
}

/// Follows the head of an RTR.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct RtrBody {
    pub match_bits: U64,
    pub ignore_bits: U64,
    pub addr: U64,
    pub len: U64,
    pub seen: U32,
    pub tally: U32,
}

/// Follows the head of a CTS.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct CtsBody {
    pub key: U64,
    pub addr: U64,
    pub len: U64,
    pub op: U64,
    pub tally: U32,
    pub reserved: U32,
}

/// Follows the head of a written.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct WrittenBody {
    pub op: U64,
    pub len: U64,
}

/// Follows the head of a reply; its payload follows it.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct ReplyBody {
    pub op: U64,
    pub offset: U64,
}

/// Follows the head of a get-done.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct GetDoneBody {
    pub match_bits: U64,
    pub length: U64,
}

const _: () = {
    assert!(size_of::<Head>() == 24);
    assert!(offset_of!(Head, stamp) == 0);
    assert!(offset_of!(Head, writer) == 4);
    assert!(offset_of!(Head, version) == SLOT_PREFIX_BYTES);
    assert!(offset_of!(Head, kind) == 7);
    assert!(offset_of!(Head, seq) == 8);
    assert!(offset_of!(Head, credits) == 12);
    assert!(offset_of!(Head, control_credits) == 14);
    assert!(offset_of!(Head, flags) == 15);
    assert!(offset_of!(Head, payload_len) == 16);
    assert!(offset_of!(Head, pt_index) == 20);
    assert!(offset_of!(Head, user) == 21);
    assert!(offset_of!(Head, kind_detail) == 22);
    assert!(offset_of!(Head, datatype) == 23);
    assert!(size_of::<PutBody>() == 16);
    assert!(size_of::<PutOffset>() == 8);
    assert!(size_of::<PutAck>() == 8);
    assert!(size_of::<PutRts>() == 24);
    assert!(size_of::<AckBody>() == 24);
    assert!(size_of::<GetBody>() == 32);
    assert!(size_of::<ReplyBody>() == 16);
    assert!(size_of::<GetDoneBody>() == 16);
    assert!(size_of::<PutBulk>() == 8);
    assert!(size_of::<GetInto>() == 8);
    assert!(size_of::<AtomicBody>() == 32);
    assert!(size_of::<OfferBody>() == 32);
    assert!(size_of::<PullBody>() == 32);
    assert!(size_of::<SearchBody>() == 24);
    assert!(size_of::<NumberBody>() == 8);
    assert!(size_of::<FoundPart>() == 32);
    assert!(size_of::<ReturnBody>() == 8);
    assert!(size_of::<RtrBody>() == 40);
    assert!(size_of::<CtsBody>() == 40);
    assert!(size_of::<WrittenBody>() == 16);
    // Every header fits into the first slot, so one read of it is enough.
    assert!(size_of::<Head>() + size_of::<PutBody>() + size_of::<PutRts>() <= SLOT_BYTES);
    let put = size_of::<Head>() + size_of::<PutBody>() + size_of::<PutOffset>();
    assert!(put + size_of::<PutAck>() + size_of::<PutBulk>() <= SLOT_BYTES);
    assert!(size_of::<Head>() + size_of::<GetBody>() + size_of::<GetInto>() <= SLOT_BYTES);
    assert!(size_of::<Head>() + size_of::<AtomicBody>() <= SLOT_BYTES);
    assert!(size_of::<Head>() + size_of::<SearchBody>() <= SLOT_BYTES);
    assert!(size_of::<Head>() + size_of::<NumberBody>() + size_of::<FoundPart>() <= SLOT_BYTES);
    assert!(size_of::<Head>() + size_of::<OfferBody>() <= SLOT_BYTES);
    assert!(size_of::<Head>() + size_of::<PullBody>() <= SLOT_BYTES);
    assert!(size_of::<Head>() + size_of::<RtrBody>() <= SLOT_BYTES);
    assert!(size_of::<Head>() + size_of::<CtsBody>() <= SLOT_BYTES);
};
