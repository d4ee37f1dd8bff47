//! The head of each packet and the numbers of kinds and flags. The bytes behind the head
//! stand with their kind (`packet`), as plain little-endian structures; sizes and offsets
//! are asserted at compile time. Nothing else in the project knows a byte offset.

use std::mem::{offset_of, size_of};
use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// The version that this code speaks. A packet of another one is refused.
pub const VERSION: u8 = 4;
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
pub(crate) const KIND_RECOVERY: u8 = 19;

pub(crate) const FLAG_OFFSET: u8 = 1 << 0;
pub(crate) const FLAG_RTS: u8 = 1 << 1;
pub(crate) const FLAG_BULK: u8 = 1 << 2;
pub(crate) const FLAG_KEY: u8 = 1 << 3;
pub(crate) const FLAG_FOUND: u8 = 1 << 4;
pub(crate) const FLAG_WATCHED: u8 = 1 << 5;
pub(crate) const FLAG_OVERFLOW: u8 = 1 << 6;
pub(crate) const FLAG_CONTROL: u8 = 1 << 7;
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
    /// the name of the chunk claims that it uses.
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
};
