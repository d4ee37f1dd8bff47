//! Operations that look for an entry, and what is owed for them.

use sluice_link::Held;
use sluice_wire::{Ack, AtomicOp, Datatype, MatchBits, PeerId, PtIndex, Put, Rts};

/// An operation that looks for an entry.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request {
    pub peer: PeerId,
    pub pt_index: PtIndex,
    pub match_bits: MatchBits,
    pub hdr_data: u64,
    pub user: u8,
    pub remote_offset: u64,
    pub rlength: u64,
    pub what: What,
    pub rts: Option<Rts>,
}

/// What an operation does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    Put,
    Get,
    Atomic(AtomicOp, Datatype),
    Fetch(AtomicOp, Datatype),
}

impl Request {
    #[inline(always)]
    pub(crate) fn put(peer: PeerId, put: &Put, payload_len: u32) -> Request {
        let rlength = match (&put.rts, &put.bulk) {
            (Some(rts), _) => rts.total_len,
            (None, Some(bulk)) => u64::from(bulk.len),
            (None, None) => u64::from(payload_len),
        };
        Request {
            peer,
            pt_index: put.pt_index,
            match_bits: put.match_bits,
            hdr_data: put.hdr_data,
            user: put.user,
            remote_offset: put.remote_offset,
            rlength,
            what: What::Put,
            rts: put.rts,
        }
    }
}

/// An acknowledgement that is to be sent, or waits for a control credit. There
/// are at most as many as the data credits granted and the transfers under way:
/// the put that asked for one keeps its slots until the acknowledgement is
/// gone.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Owed {
    pub peer: PeerId,
    pub ack: Ack,
    /// Slots that are freed with it. None for a put whose header is in an overflow entry of
    /// the client's: the header has them.
    pub held: Held,
}

/// What [`Ni::on_packet`](crate::Ni::on_packet) made of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken {
    /// It was what it should be.
    Fine {
        /// Whether it brought credits, so that stalled sends may go.
        brought_credits: bool,
    },
    /// It tells of messages that wait for credits, and is for the layer above,
    /// which alone knows them. It is accounted for.
    Above {
        /// Whether it brought credits, so that stalled sends may go.
        brought_credits: bool,
    },
    /// The peer broke the protocol; nothing from it can be trusted.
    Violation,
}
