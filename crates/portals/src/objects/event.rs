//! Events and how operations fail (Portals 4, section 3.13).

use crate::table::Handle;
use sluice_link::PeerError;
use sluice_link::RailError;
use sluice_wire::{
    Addr, AtomicOp, Datatype, Found, List, MatchBits, PeerId, PtIndex, RemoteKey, Rts, Status,
};
use std::num::NonZeroU32;

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// A put has landed in an entry.
    Put,
    /// An entry was appended that matches a put which had arrived before.
    PutOverflow,
    /// A get was answered from an entry.
    Get,
    /// As [`EventKind::PutOverflow`], of a get.
    GetOverflow,
    /// An atomic operation without answer was done on an entry.
    Atomic,
    /// As [`EventKind::PutOverflow`], of that.
    AtomicOverflow,
    /// An atomic operation that answers was done on an entry.
    FetchAtomic,
    /// As [`EventKind::PutOverflow`], of that.
    FetchAtomicOverflow,
    /// An initiator has fetched all it wants from a get entry, which is now
    /// unlinked (FIN). An extension.
    GetDone,
    /// The answer to a get has arrived.
    Reply,
    /// The memory of a put may be reused.
    Send,
    /// The target has acknowledged a put.
    Ack,
    /// The answer to a search.
    Search,
    /// A portal table entry ran out of something and takes nothing more.
    PtDisabled,
    /// An entry was linked.
    Link,
    /// An entry was unlinked by the engine.
    AutoUnlink,
    /// An unlinked overflow entry has no header left that points into it.
    AutoFree,
}

impl EventKind {
    /// Whether it tells this process of an operation of its own.
    #[inline]
    pub(crate) fn is_own(self) -> bool {
        matches!(self, EventKind::Send | EventKind::Ack | EventKind::Reply)
    }
}

/// Why an operation failed (`ni_fail_type`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NiFail {
    /// The target cannot be reached.
    #[error("undeliverable: {0}")]
    Undeliverable(PeerError),
    /// No entry matched.
    #[error("no match")]
    NoMatch,
    /// The portal table entry is disabled or does not exist.
    #[error("portal table entry disabled")]
    PtDisabled,
    /// The entry does not allow this operation.
    #[error("operation violation")]
    OpViolation,
    /// The entry is not for this user.
    #[error("permission violation")]
    PermViolation,
    /// Memory is not mapped.
    #[error("memory is not mapped")]
    Segv,
    /// The side that moves the data gave up.
    #[error("aborted by the other side")]
    Aborted,
    /// The rail may not read the target's memory; ask for the bytes instead.
    #[error("direct reads are forbidden")]
    Forbidden,
}

impl NiFail {
    /// The payload is not whole: its sender ended while it wrote it.
    pub(crate) const CUT: NiFail = NiFail::Undeliverable(PeerError::Dead);

    /// What a status on the wire means here.
    ///
    /// # Errors
    /// The failure, unless the status is [`Status::Ok`].
    pub fn check(status: Status) -> Result<(), NiFail> {
        match status {
            Status::Ok => Ok(()),
            Status::NoMatch => Err(NiFail::NoMatch),
            Status::PtDisabled => Err(NiFail::PtDisabled),
            Status::OpViolation => Err(NiFail::OpViolation),
            Status::Segv => Err(NiFail::Segv),
            Status::Aborted => Err(NiFail::Aborted),
            Status::PermViolation => Err(NiFail::PermViolation),
        }
    }
}

impl From<NiFail> for Status {
    /// What a failure at the target is called on the wire.
    fn from(fail: NiFail) -> Status {
        match fail {
            NiFail::NoMatch => Status::NoMatch,
            NiFail::PtDisabled => Status::PtDisabled,
            NiFail::OpViolation => Status::OpViolation,
            NiFail::PermViolation => Status::PermViolation,
            NiFail::Segv => Status::Segv,
            NiFail::Undeliverable(_) | NiFail::Aborted | NiFail::Forbidden => Status::Aborted,
        }
    }
}

/// Names a header that was taken out of the unexpected list while its bytes
/// are still in lent memory; see [`crate::Ni::end_hold`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hold(Handle<Hold>);

impl Hold {
    /// Of the record that has the bytes.
    #[inline]
    pub(crate) fn of<T>(record: Handle<T>) -> Hold {
        Hold(Handle::new(record.index(), record.generation()))
    }

    /// That record.
    #[inline]
    pub(crate) fn record<T>(self) -> Handle<T> {
        Handle::new(self.0.index(), self.0.generation())
    }
}

/// No initiator: of events that an entry alone causes.
pub const NOBODY: PeerId = PeerId(u32::MAX);

/// One event. Fields that a kind of event does not have are zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// What happened.
    pub kind: EventKind,
    /// Portal table entry.
    pub pt_index: PtIndex,
    /// Which list the target's entry was in. At the initiator, of the events that an
    /// answer brings, if an entry took the operation.
    pub list: List,
    /// How it went (`ni_fail_type`).
    pub outcome: Result<(), NiFail>,
    /// The other side.
    pub peer: PeerId,
    /// The upper layer's byte of the put.
    pub user: u8,
    /// What an atomic operation did, with what.
    pub atomic: Option<(AtomicOp, Datatype)>,
    /// The put announced its data instead of carrying it: see [`Event::rts`].
    is_announced: bool,
    /// The user pointer of the entry or of the operation.
    pub user_ptr: u64,
    /// Match bits of the operation.
    pub match_bits: MatchBits,
    /// Out-of-band data of the put.
    pub hdr_data: u64,
    /// Length that was asked for, or announced.
    pub rlength: u64,
    /// Length that was moved. Of an announcement nothing was; the name of its chunk
    /// claims stands here.
    pub mlength: u64,
    /// Offset that was asked for in the target's entry. An announcement has
    /// none; the name of the data stands here.
    pub remote_offset: u64,
    /// Where the bytes are. Of an announcement the key to them stands here.
    pub start: Addr,
    /// Present if bytes lie in lent memory: to be ended by the client.
    pub hold: Option<Hold>,
}

/// Each message writes one and reads it.
const _: () = assert!(size_of::<Event>() <= 80);

impl Event {
    /// An event of `kind` with nothing in it yet.
    #[must_use]
    #[inline(always)]
    pub fn new(kind: EventKind, pt_index: PtIndex, peer: PeerId, user_ptr: u64) -> Event {
        Event {
            kind,
            pt_index,
            list: List::Priority,
            outcome: Ok(()),
            peer,
            user: 0,
            atomic: None,
            is_announced: false,
            user_ptr,
            match_bits: MatchBits(0),
            hdr_data: 0,
            rlength: 0,
            mlength: 0,
            remote_offset: 0,
            start: Addr(0),
            hold: None,
        }
    }

    /// As if the put that `found` tells of had been announced by `peer` under
    /// the name `key`, and met the entry with this user pointer.
    #[must_use]
    pub fn of_waiting(peer: PeerId, key: MatchBits, found: &Found, user_ptr: u64) -> Event {
        let mut event = Event::new(EventKind::PutOverflow, found.pt_index, peer, user_ptr);
        event.match_bits = found.match_bits;
        event.hdr_data = found.hdr_data;
        event.user = found.user;
        event.rlength = found.total_len;
        let (total_len, from) = (found.total_len, found.from);
        event.announce(Some(Rts { total_len, from, key, claims: None }));
        event
    }

    /// What the put announced instead of carrying it, if it did. Such a put
    /// has no bytes and no offset, so that their places are free for it.
    #[must_use]
    #[inline]
    pub fn rts(&self) -> Option<Rts> {
        let from = RemoteKey::from_bits(self.start.0);
        let key = MatchBits(self.remote_offset);
        let claims = NonZeroU32::new(self.mlength as u32);
        self.is_announced.then_some(Rts { total_len: self.rlength, from, key, claims })
    }

    /// The event tells of an announcement.
    #[inline(always)]
    pub(crate) fn announce(&mut self, rts: Option<Rts>) {
        if let Some(rts) = rts {
            self.is_announced = true;
            (self.start, self.remote_offset) = (Addr(rts.from.bits()), rts.key.0);
            self.mlength = rts.claims.map_or(0, |claims| u64::from(claims.get()));
        }
    }
}

impl From<RailError> for NiFail {
    /// What a rail's failure means to an operation.
    fn from(error: RailError) -> NiFail {
        match error {
            RailError::Forbidden | RailError::Shared => NiFail::Forbidden,
            RailError::Fault => NiFail::Segv,
            RailError::PeerGone => NiFail::Undeliverable(PeerError::Dead),
        }
    }
}
