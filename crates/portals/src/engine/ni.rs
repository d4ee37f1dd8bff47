//! The network interface: all of Portals' objects of one process, over its
//! links (Portals 4, section 3.6).
//!
//! Invariants, checked by [`Ni::check_invariants`]: every linked entry is in
//! exactly one list; every unexpected header is in its list or held by the
//! client; the credits of a message are freed once, when it is matched.

use crate::engine::trigger::Step;
use crate::lists::Slab;
use crate::objects::command::WaitingCommand;
use crate::objects::ct::Ct;
use crate::objects::eq::Eq;
use crate::objects::limits::{Limits, PtlError};
use crate::objects::md::Md;
use crate::objects::me::Me;
use crate::objects::operation::{LongGets, Operation, reply_slots};
use crate::objects::pt::{Header, Pt};
use crate::objects::recovery::Recovery;
use crate::objects::request::Owed;
use crate::objects::status::{Status, UnexpectedBytes};
use crate::objects::triggers::Triggers;
use crate::objects::vector::Vector;
use crate::table::{Handle, Table};
use sluice_link::{Layout, Links};
use sluice_wire::{PeerId, PtIndex, REPLY_HEADER_BYTES, SLOT_BYTES, payload_bytes_max};
use std::collections::{BTreeMap, VecDeque};

/// A network interface. One without matching is one whose entries ignore all
/// bits and sources.
#[derive(Debug)]
pub struct Ni {
    pub(crate) links: Links,
    pub(crate) limits: Limits,
    pub(crate) pts: Vec<Option<Pt>>,
    pub(crate) mes: Slab<Me>,
    pub(crate) headers: Slab<Header>,
    pub(crate) mds: Table<Md>,
    pub(crate) cts: Table<Ct>,
    pub(crate) eqs: Table<Eq>,
    pub(crate) vectors: Table<Vector>,
    pub(crate) operations: Table<Operation>,
    /// By initiator: acknowledgements that wait for a control credit.
    pub(crate) owed: BTreeMap<PeerId, VecDeque<Owed>>,
    /// By initiator: puts that are kept in lent memory, of which it is not told yet, for want of
    /// a control credit. Also such as have met an entry since: they are `owed`, and dropped at the next
    /// look. Each holds data credits, there or here, which bound them.
    pub(crate) kept_untold: BTreeMap<PeerId, VecDeque<Handle<Header>>>,
    /// Commands that wait for credits, by their targets.
    pub(crate) waiting: BTreeMap<PeerId, VecDeque<WaitingCommand>>,
    pub(crate) waiting_now: usize,
    /// Transfers that wait for credits or reply slots.
    pub(crate) starved: VecDeque<Handle<Operation>>,
    pub(crate) has_freed_reply_slots: bool,
    /// Gets under way whose data does not come with a reply, by peer: those
    /// asked for here, and those answered from here.
    pub(crate) long_gets: BTreeMap<PeerId, LongGets>,
    /// Counters that something has become due of.
    pub(crate) ripe: VecDeque<Handle<Ct>>,
    /// While they are fired: a counter, one that it has changed, and so on. One may be there
    /// more than once. There are no more commands than counters.
    pub(crate) chain: Vec<Step>,
    pub(crate) triggers: Triggers,
    /// Released descriptors on which nothing is pending any more.
    pub(crate) released: Vec<Handle<Md>>,
    pub(crate) status: Status,
    pub(crate) unexpected_bytes: UnexpectedBytes,
    /// Absent: an interface as specified.
    pub(crate) recovery: Option<Box<Recovery>>,
}

impl Ni {
    /// Most bytes of values of an atomic operation that goes by control credits where it
    /// finds no data credits, and of a put that carries its data then.
    pub const BY_CONTROL_BYTES_MAX: u64 = payload_bytes_max(Links::BY_CONTROL_SLOTS_MAX as u64);

    /// An interface with nothing in it, over a mailbox divided as `mailbox`
    /// says.
    #[must_use]
    pub fn new(mut limits: Limits, mailbox: Layout) -> Ni {
        if limits.credits_until_matched {
            let granted = mailbox.data_slots_total();
            limits.unexpected_headers_max = limits.unexpected_headers_max.max(granted);
        }
        Ni {
            links: Links::new(mailbox),
            limits,
            pts: Vec::new(),
            mes: Slab::new(limits.entries_max),
            headers: Slab::new(limits.unexpected_headers_max),
            mds: Table::new(limits.mds_max),
            cts: Table::new(limits.cts_max),
            eqs: Table::new(limits.eqs_max),
            vectors: Table::new(limits.vectors_max),
            operations: Table::new(limits.operations_max),
            owed: BTreeMap::new(),
            kept_untold: BTreeMap::new(),
            waiting: BTreeMap::new(),
            waiting_now: 0,
            starved: VecDeque::new(),
            has_freed_reply_slots: false,
            long_gets: BTreeMap::new(),
            ripe: VecDeque::new(),
            chain: Vec::new(),
            triggers: Triggers::default(),
            released: Vec::new(),
            status: Status::default(),
            unexpected_bytes: UnexpectedBytes::default(),
            recovery: limits.recovery.map(|scheme| Box::new(Recovery::new(scheme))),
        }
    }

    /// The limits that hold.
    #[must_use]
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Counts of what the interface saw.
    #[must_use]
    pub fn status(&self) -> Status {
        self.status
    }

    /// Counts a packet that the layer above has found to break the protocol.
    pub fn note_violation(&mut self) {
        self.status.protocol_violations += 1;
    }

    /// Unexpected messages not yet matched.
    #[must_use]
    pub fn unexpected_now(&self) -> u64 {
        self.pts.iter().flatten().map(|pt| pt.unexpected.len() as u64).sum()
    }

    /// Memory of unexpected messages.
    #[must_use]
    pub fn unexpected_bytes(&self) -> UnexpectedBytes {
        self.unexpected_bytes
    }

    /// The links under this interface, to be looked at.
    #[must_use]
    pub fn links(&self) -> &Links {
        &self.links
    }

    /// Operations whose end is awaited.
    #[must_use]
    pub fn operations_now(&self) -> u32 {
        self.operations.len()
    }

    /// How many more there may be.
    #[must_use]
    pub fn operations_room(&self) -> usize {
        let under_way = self.operations.len() as usize + self.waiting_now;
        (self.operations.entries_max() as usize).saturating_sub(under_way)
    }

    /// Keeps room for so many, of [`Ni::operations_room`]: for commands that follow later, and
    /// must not fail then. Nobody else begins an operation there.
    pub fn keep_operations_room(&mut self, count: u32) {
        self.operations.keep_room(count);
    }

    /// Gives again what was kept, before the commands follow or as they never will.
    pub fn give_operations_room(&mut self, count: u32) {
        self.operations.give_room(count);
    }

    /// Acknowledgements that wait for a control credit.
    #[must_use]
    pub fn owed_now(&self) -> usize {
        let owed: usize = self.owed.values().map(VecDeque::len).sum();
        owed + self.kept_untold.values().map(VecDeque::len).sum::<usize>()
    }

    /// Most data slots that `peer` may ever grant; zero if it was never spoken to.
    #[must_use]
    #[inline]
    pub fn data_credits_max(&self, peer: PeerId) -> u32 {
        self.links.data_credits_max(peer)
    }

    /// Data slots that `peer` grants, of a dynamic region those that this process
    /// owns; zero if it was never spoken to.
    #[must_use]
    pub fn data_quota(&self, peer: PeerId) -> u32 {
        self.links.data_quota(peer)
    }

    /// Data credits left toward `peer`.
    #[must_use]
    pub fn data_credits(&self, peer: PeerId) -> u32 {
        self.links.data_credits(peer)
    }

    /// Whether a control credit is left toward `peer`, or may be once it is spoken to.
    #[must_use]
    pub fn has_control_credit(&self, peer: PeerId) -> bool {
        self.links.has_control_credit(peer)
    }

    /// Whether `peer` has no data credit left and nothing on its way that took
    /// one: whatever else it wants to send waits there.
    #[must_use]
    #[inline]
    pub fn is_exhausted(&self, peer: PeerId) -> bool {
        self.links.data_at_sender(peer) == 0
    }

    /// Most bytes that one get without a direct read can ask for: a fraction of
    /// the reply region, so that some replies travel while another is taken
    /// out, and at most what takes 256 slots.
    #[must_use]
    pub fn get_bytes_max(&self) -> u64 {
        match self.get_slots_max() {
            1 => SLOT_BYTES as u64 - REPLY_HEADER_BYTES,
            slots => payload_bytes_max(slots),
        }
    }

    fn get_slots_max(&self) -> u64 {
        u64::from(self.links.reply_slots() / 2).clamp(1, 256)
    }

    /// Most bytes that gets of [`Ni::get_bytes_max`] each can ask for at once.
    #[must_use]
    pub fn gets_bytes_max(&self) -> u64 {
        u64::from(self.links.reply_slots()) / self.get_slots_max() * self.get_bytes_max()
    }

    /// Whether the reply region has room for the answer to a get of `length` bytes.
    #[must_use]
    pub fn has_reply_room(&self, length: u64) -> bool {
        let free = self.links.reply_slots() - self.links.reply_slots_reserved();
        reply_slots(length) <= u32::from(free)
    }

    pub(crate) fn pt(&self, index: PtIndex) -> Result<&Pt, PtlError> {
        self.pts
            .get(usize::from(index.0))
            .and_then(Option::as_ref)
            .ok_or(PtlError::ArgInvalid("portal table index"))
    }

    pub(crate) fn pt_mut(&mut self, index: PtIndex) -> Result<&mut Pt, PtlError> {
        self.pts
            .get_mut(usize::from(index.0))
            .and_then(Option::as_mut)
            .ok_or(PtlError::ArgInvalid("portal table index"))
    }

    /// Where the events of a portal table entry go.
    #[inline]
    pub(crate) fn eq_of(&self, index: PtIndex) -> Option<Handle<Eq>> {
        self.pts.get(usize::from(index.0)).and_then(Option::as_ref).and_then(|pt| pt.eq)
    }
}
