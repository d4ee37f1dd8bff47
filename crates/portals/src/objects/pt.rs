//! Portal table entries: two match lists, and the headers of messages that
//! matched in the overflow list and wait for an entry of the priority list.

use crate::lists::{Arrived, Posted, Record, Slab, Unexpected};
use crate::objects::ct::Ct;
use crate::objects::eq::Eq;
use crate::objects::event::{Event, EventKind, NiFail};
use crate::objects::me::{Me, MeSpec, place_in};
use crate::objects::request::{Request, What};
use crate::table::Handle;
use sluice_wire::{Addr, AtomicOp, Datatype, List, MatchBits, PeerId, PtIndex, RemoteKey, Rts};

/// Options of a portal table entry (`PtlPTAlloc`). Hints that change nothing
/// here have no place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PtOptions {
    /// What cannot be taken disables the entry instead of being dropped.
    pub flow_control: bool,
    /// Begins disabled.
    pub disabled: bool,
}

/// A portal table entry.
#[derive(Debug)]
pub(crate) struct Pt {
    pub eq: Option<Handle<Eq>>,
    pub flow_control: bool,
    pub enabled: bool,
    /// Not everybody is let in, since it is disabled or refuses somebody.
    pub is_shut: bool,
    /// Disabled by exhaustion, and the event that says so is owed: it comes
    /// when nothing is under way any more.
    pub event_owed: bool,
    /// Operations whose data is on its way.
    pub active: u32,
    pub priority: Posted,
    pub overflow: Posted,
    pub unexpected: Unexpected<Header>,
}

impl Pt {
    pub fn new(options: PtOptions, eq: Option<Handle<Eq>>) -> Pt {
        Pt {
            eq,
            flow_control: options.flow_control,
            enabled: !options.disabled,
            is_shut: options.disabled,
            event_owed: false,
            active: 0,
            priority: Posted::new(),
            overflow: Posted::new(),
            unexpected: Unexpected::new(),
        }
    }

    #[inline]
    pub fn list(&mut self, list: List) -> &mut Posted {
        match list {
            List::Priority => &mut self.priority,
            List::Overflow => &mut self.overflow,
        }
    }
}

/// What is kept of a message that arrived before its receive. What taking it
/// reads stands first.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Header {
    pub(crate) match_bits: MatchBits,
    pub(crate) peer: PeerId,
    pub(crate) pt_index: PtIndex,
    pub(crate) user: u8,
    /// The kind of the event when an entry takes it.
    pub(crate) kind: EventKind,
    /// Its data is on its way. An entry that takes it is told at the end.
    pub(crate) arriving: bool,
    pub(crate) hdr_data: u64,
    pub(crate) rlength: u64,
    pub(crate) mlength: u64,
    /// Where its bytes are: in the overflow entry, or lent.
    pub(crate) start: Addr,
    pub(crate) remote_offset: u64,
    /// The overflow entry that took it.
    pub(crate) entry: Handle<Me>,
    /// The initiator's name for a put in lent memory that wants to know when it has met an entry,
    /// or was not told yet, for want of a credit, that it is kept.
    pub(crate) ack: Option<u64>,
    /// Mailbox slots whose credits it holds.
    pub(crate) slots: u32,
    /// Its bytes are in lent memory.
    pub(crate) is_lent: bool,
    /// It announces data.
    pub(crate) is_announced: bool,
    /// How the operation went.
    pub(crate) outcome: Result<(), NiFail>,
    pub(crate) atomic: Option<(AtomicOp, Datatype)>,
}

/// With sixteen bytes of its list: two cache lines.
const _: () = assert!(size_of::<Header>() <= 112);

/// What few headers have, beside them in the slab: announcements, and those
/// whose data is on its way.
#[derive(Clone, Copy, Debug, Default)]
pub struct ColdHeader {
    /// The key to the announced data, and its name.
    rts: (RemoteKey, MatchBits),
    /// What has taken it while its data was on its way, and the entry that did
    /// if that is still there: it is in use until this is told.
    pub(crate) claim: Option<Claim>,
    pub(crate) claimer: Option<Handle<Me>>,
}

impl Header {
    /// The header of an operation that `entry` has taken, without bytes.
    #[inline(always)]
    pub(crate) fn of(request: &Request, entry: Handle<Me>, kind: EventKind) -> Header {
        Header {
            match_bits: request.match_bits,
            peer: request.peer,
            pt_index: request.pt_index,
            user: request.user,
            kind,
            arriving: false,
            hdr_data: request.hdr_data,
            rlength: request.rlength,
            mlength: 0,
            start: Addr(0),
            remote_offset: request.remote_offset,
            entry,
            ack: None,
            slots: 0,
            is_lent: false,
            is_announced: request.rts.is_some(),
            outcome: Ok(()),
            atomic: None,
        }
    }
}

impl Record for Header {
    type Cold = ColdHeader;
}

impl Slab<Header> {
    /// Adds a header, of what announced `rts` if anything. `None` if there is
    /// no room.
    #[inline(always)]
    pub(crate) fn add(&mut self, header: Header, rts: Option<Rts>) -> Option<u32> {
        let slot = self.insert(header)?;
        if header.arriving || header.is_announced {
            let rts = rts.map_or_else(Default::default, |rts| (rts.from, rts.key));
            *self.beside_mut(slot) = ColdHeader { rts, claim: None, claimer: None };
        }
        Some(slot)
    }

    /// What a header announced, if anything.
    #[inline]
    pub(crate) fn rts(&self, slot: u32) -> Option<Rts> {
        let header = self.at(slot);
        if !header.is_announced {
            return None;
        }
        let (from, key) = self.beside(slot).rts;
        // Whoever uses chunk claims meets a posted entry.
        Some(Rts { total_len: header.rlength, from, key, claims: None })
    }
}

impl Default for Header {
    /// Of nothing, for a slot that is not in use.
    fn default() -> Header {
        let request = Request {
            peer: PeerId(0),
            pt_index: PtIndex(0),
            match_bits: MatchBits(0),
            hdr_data: 0,
            user: 0,
            remote_offset: 0,
            rlength: 0,
            what: What::Put,
            rts: None,
        };
        Header::of(&request, Handle::default(), EventKind::PutOverflow)
    }
}

impl Arrived for Header {
    #[inline(always)]
    fn bits(&self) -> MatchBits {
        self.match_bits
    }

    #[inline(always)]
    fn source(&self) -> PeerId {
        self.peer
    }
}

/// What an entry that has taken a header wants to be told.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Claim {
    pub user_ptr: u64,
    pub event: bool,
    /// The entry was used up by it.
    pub unlink_event: bool,
    pub ct: Option<Handle<Ct>>,
    pub ct_bytes: bool,
}

impl Header {
    /// Bytes in memory that the port has lent.
    #[inline]
    pub(crate) fn lent_len(&self) -> u64 {
        if self.is_lent { self.mlength } else { 0 }
    }

    /// Whether an entry that refuses truncation would have taken the whole.
    pub(crate) fn fits(&self, spec: &MeSpec, offset: u64) -> bool {
        let from = if spec.options.manage_local { offset } else { self.remote_offset };
        !spec.options.no_truncate || place_in(spec.region.len, from, self.rlength).1 == self.rlength
    }

    pub(crate) fn event(&self, kind: EventKind, user_ptr: u64) -> Event {
        let mut event = Event::new(kind, self.pt_index, self.peer, user_ptr);
        event.match_bits = self.match_bits;
        event.hdr_data = self.hdr_data;
        event.user = self.user;
        event.rlength = self.rlength;
        event.mlength = self.mlength;
        event.remote_offset = self.remote_offset;
        event.list = List::Overflow;
        event.atomic = self.atomic;
        event.start = self.start;
        event.outcome = self.outcome;
        event
    }
}
