//! How messages use the Portals interface: its portal table entries, the match
//! bits of announced messages, and the entries and puts that requests make.

use crate::api::{Delivery, Recv, Send, Space};
use crate::request::SendOp;
use sluice_portals::{Event, Handle, MeOptions, MeSpec, PutExtras, Target};
use sluice_wire::{AckKind, MatchBits, PeerId, Plain, PtIndex, Region};

/// Portal table entry of get entries, which hold announced messages.
pub(crate) const PT_BULK: PtIndex = PtIndex(2);

/// Portal table entries of remote memory, by what the target is told of: an operation, which it
/// counts if it counts any; a write with out-of-band data; nothing, of a part that is not the
/// last; and that an operation is done at one of its regions, which alone counts it.
pub(crate) const PT_REMOTE: PtIndex = PtIndex(3);
pub(crate) const PT_REMOTE_TOLD: PtIndex = PtIndex(4);
pub(crate) const PT_REMOTE_PART: PtIndex = PtIndex(5);
pub(crate) const PT_REMOTE_REGION: PtIndex = PtIndex(6);

/// All of them: a region has an entry at each.
pub(crate) const PTS_REMOTE: [PtIndex; 4] =
    [PT_REMOTE, PT_REMOTE_TOLD, PT_REMOTE_PART, PT_REMOTE_REGION];

/// Set in the user byte of a put that carries out-of-band data.
pub(crate) const USER_HAS_DATA: u8 = 1 << 0;

/// Set in that of a message whose end is told when its bytes are placed. The sender has to hear that
/// from the receiver: what it has handed over itself may wait there (`rail`, chunks handed over).
pub(crate) const USER_WANTS_DELIVERY: u8 = 1 << 1;

/// The number of the first message of a pair that waits. Half of all numbers
/// are smaller: the keys of announced messages ([`announced_key`]).
pub(crate) const NUMBER_FIRST: u64 = 1 << 63;

/// The key of the get entry of an announced message: the name of its send,
/// which no number of a waiting message can be.
pub(crate) fn announced_key(handle: Handle<SendOp>) -> MatchBits {
    MatchBits(handle.to_u64() & (NUMBER_FIRST - 1))
}

impl Space {
    #[inline]
    pub(crate) fn pt(self) -> PtIndex {
        match self {
            Space::Tagged => PtIndex(0),
            Space::Untagged => PtIndex(1),
        }
    }

    /// The space that a portal table entry named by a peer is of.
    pub(crate) fn named(pt_index: PtIndex) -> Option<Space> {
        [Space::Tagged, Space::Untagged].into_iter().find(|space| space.pt() == pt_index)
    }

    #[inline]
    pub(crate) fn of(pt_index: PtIndex) -> Space {
        if pt_index == PtIndex(1) { Space::Untagged } else { Space::Tagged }
    }
}

impl Send {
    /// Where its put goes.
    #[inline(always)]
    pub(crate) fn target(&self) -> Target {
        Target {
            peer: self.peer,
            pt_index: self.space.pt(),
            match_bits: MatchBits(self.tag),
            remote_offset: 0,
        }
    }

    /// What its put has besides, if it is sent eagerly.
    #[inline(always)]
    pub(crate) fn extras(&self) -> PutExtras {
        PutExtras {
            by_control: false,
            ack: self.ack(),
            hdr_data: self.data.unwrap_or(0),
            user: self.user(),
            rts: None,
        }
    }

    /// The acknowledgement of its put, if it is sent eagerly.
    #[inline(always)]
    pub(crate) fn ack(&self) -> Option<AckKind> {
        self.delivery.map(|delivery| match delivery {
            Delivery::Arrived => AckKind::Full,
            Delivery::Matched => AckKind::Matched,
        })
    }

    /// Its put, if it is sent eagerly and nobody waits for its delivery.
    #[inline(always)]
    pub(crate) fn plain(&self) -> Plain {
        Plain {
            pt_index: self.space.pt(),
            match_bits: MatchBits(self.tag),
            hdr_data: self.data.unwrap_or(0),
            user: self.user(),
        }
    }

    /// The user byte of its put.
    #[inline(always)]
    pub(crate) fn user(&self) -> u8 {
        let delivery = if self.delivery.is_some() { USER_WANTS_DELIVERY } else { 0 };
        self.data.map_or(0, |_| USER_HAS_DATA) | delivery
    }
}

/// Where a get-done or a get of a message behind this key goes.
pub(crate) fn bulk_target(peer: PeerId, key: MatchBits, remote_offset: u64) -> Target {
    Target { peer, pt_index: PT_BULK, match_bits: key, remote_offset }
}

/// The out-of-band data of a message, which `event` tells of.
#[inline(always)]
pub(crate) fn data_of(event: &Event) -> Option<u64> {
    data_with(event.user, event.hdr_data)
}

/// The same by the user byte and the header data of its put.
#[inline(always)]
pub(crate) fn data_with(user: u8, hdr_data: u64) -> Option<u64> {
    (user & USER_HAS_DATA != 0).then_some(hdr_data)
}

/// Whether the sender of a message waits to hear that it is placed.
#[inline]
pub(crate) fn wants_delivery(event: &Event) -> bool {
    event.user & USER_WANTS_DELIVERY != 0
}

/// The match list entry of a receive.
#[inline]
pub(crate) fn entry_for(recv: &Recv, user_ptr: u64) -> MeSpec {
    let ignore_bits = match recv.space {
        Space::Tagged => recv.ignore,
        Space::Untagged => u64::MAX,
    };
    MeSpec {
        region: recv.buf,
        match_bits: MatchBits(recv.tag),
        ignore_bits,
        source: recv.source,
        options: MeOptions {
            op_put: true,
            use_once: true,
            event_link_disable: true,
            event_unlink_disable: true,
            ..MeOptions::default()
        },
        user_ptr,
        ..MeSpec::default()
    }
}

/// The entry that takes what no receive waits for.
pub(crate) fn overflow_entry() -> MeSpec {
    let options = MeOptions {
        op_put: true,
        lent: true,
        event_link_disable: true,
        event_unlink_disable: true,
        ..MeOptions::default()
    };
    MeSpec { ignore_bits: u64::MAX, options, ..MeSpec::default() }
}

/// The get entry from which `peer` fetches a message.
pub(crate) fn get_entry(
    peer: PeerId,
    bytes: Region,
    key: MatchBits,
    handle: Handle<SendOp>,
) -> MeSpec {
    MeSpec {
        region: bytes,
        match_bits: key,
        source: Some(peer),
        options: MeOptions {
            op_get: true,
            get_done: true,
            event_link_disable: true,
            event_unlink_disable: true,
            event_comm_disable: true,
            ..MeOptions::default()
        },
        user_ptr: handle.to_u64(),
        ..MeSpec::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_never_a_number() {
        assert!(announced_key(Handle::from_u64(u64::MAX)).0 < NUMBER_FIRST);
    }
}
