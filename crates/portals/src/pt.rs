//! Portal table entries: two match lists, and the headers of messages that
//! matched in the overflow list and wait for an entry of the priority list.

use crate::ct::Ct;
use crate::eq::Eq;
use crate::event::{EventKind, NiFail};
use crate::lists::{Place, Posted, Unexpected};
use crate::me::{List, Me};
use crate::table::Handle;
use sluice_wire::{Addr, AtomicOp, Datatype, MatchBits, PeerId, PtIndex, Rts};

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
    /// Disabled by exhaustion, and the event that says so is owed: it comes
    /// when nothing is under way any more.
    pub event_owed: bool,
    /// Operations whose data is on its way.
    pub active: u32,
    pub priority: Posted<Handle<Me>>,
    pub overflow: Posted<Handle<Me>>,
    pub unexpected: Unexpected<Handle<Header>>,
}

impl Pt {
    pub fn new(options: PtOptions, eq: Option<Handle<Eq>>) -> Pt {
        Pt {
            eq,
            flow_control: options.flow_control,
            enabled: !options.disabled,
            event_owed: false,
            active: 0,
            priority: Posted::new(),
            overflow: Posted::new(),
            unexpected: Unexpected::new(),
        }
    }

    #[inline]
    pub fn list(&mut self, list: List) -> &mut Posted<Handle<Me>> {
        match list {
            List::Priority => &mut self.priority,
            List::Overflow => &mut self.overflow,
        }
    }
}

/// What is kept of a message that arrived before its receive.
#[derive(Debug)]
pub struct Header {
    pub(crate) pt_index: PtIndex,
    pub(crate) peer: PeerId,
    pub(crate) match_bits: MatchBits,
    pub(crate) hdr_data: u64,
    pub(crate) user: u8,
    pub(crate) rlength: u64,
    pub(crate) mlength: u64,
    /// Where its bytes are: in the overflow entry, or lent.
    pub(crate) start: Addr,
    pub(crate) rts: Option<Rts>,
    /// The overflow entry that took it.
    pub(crate) entry: Handle<Me>,
    /// Bytes of lent memory that it holds.
    pub(crate) lent: Option<u32>,
    /// Mailbox slots whose credits it holds.
    pub(crate) slots: u32,
    /// The initiator's name for a put in lent memory that wants to know when
    /// it is done with.
    pub(crate) ack: Option<u64>,
    /// The kind of the event when an entry takes it.
    pub(crate) kind: EventKind,
    pub(crate) atomic: Option<(AtomicOp, Datatype)>,
    pub(crate) remote_offset: u64,
    /// How the operation went.
    pub(crate) outcome: Result<(), NiFail>,
    /// Its data is on its way. An entry that takes it is told at the end.
    pub(crate) arriving: bool,
    /// What has taken it while its data was on its way, and the entry that did
    /// if that is still there: it is in use until this is told.
    pub(crate) claim: Option<Claim>,
    pub(crate) claimer: Option<Handle<Me>>,
    /// Where it is in its list, until it is taken.
    pub(crate) place: Option<Place>,
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
