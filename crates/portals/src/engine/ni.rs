//! The network interface: all of Portals' objects of one process, over its
//! links (Portals 4, section 3.6).
//!
//! Invariants, checked by [`Ni::check_invariants`]: every linked entry is in
//! exactly one list; every unexpected header is in its list or held by the
//! client; the credits of a message are freed once, when it is matched.

use crate::engine::admit::Owed;
use crate::engine::initiate::reply_slots;
use crate::engine::issue::Waiting;
use crate::engine::memory::Vector;
use crate::lists::Slab;
use crate::objects::ct::{Ct, CtEvent};
use crate::objects::eq::{Eq, Taken};
use crate::objects::event::Event;
use crate::objects::limits::{Limits, PtlError};
use crate::objects::md::{Md, MdOptions};
use crate::objects::me::Me;
use crate::objects::operation::{LongGets, Operation};
use crate::objects::pt::{Header, Pt, PtOptions};
use crate::table::{Handle, Table};
use sluice_link::{Layout, Links, Port, RailError};
use sluice_wire::{List, PeerId, PtIndex, REPLY_HEADER_BYTES, Region};
use std::collections::{BTreeMap, VecDeque};

/// Counts of what an interface saw (`PTL_SR_*` and ours).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// Puts that no entry took (`PTL_SR_DROP_COUNT`).
    pub dropped: u64,
    /// Operations that an entry did not allow (`PTL_SR_OPERATION_VIOLATIONS`).
    pub operation_violations: u64,
    /// Operations on entries that are for another user
    /// (`PTL_SR_PERMISSION_VIOLATIONS`).
    pub permission_violations: u64,
    /// Packets that broke the protocol.
    pub protocol_violations: u64,
    /// Messages that arrived before a matching entry.
    pub unexpected: u64,
}

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
    pub(crate) owed: VecDeque<Owed>,
    /// Commands that wait for credits, by their targets.
    pub(crate) waiting: BTreeMap<PeerId, VecDeque<Waiting>>,
    pub(crate) waiting_now: usize,
    /// Transfers that wait for credits or reply slots.
    pub(crate) starved: VecDeque<Handle<Operation>>,
    pub(crate) has_freed_reply_slots: bool,
    /// Gets under way whose data does not come with a reply, by peer: those
    /// asked for here, and those answered from here.
    pub(crate) long_gets: BTreeMap<PeerId, LongGets>,
    /// Counters that something has become due of.
    pub(crate) ripe: VecDeque<Handle<Ct>>,
    pub(crate) triggered_now: u32,
    /// Released descriptors on which nothing is pending any more.
    pub(crate) released: Vec<Handle<Md>>,
    /// What orders triggered operations of equal threshold.
    pub(crate) next_age: u64,
    pub(crate) status: Status,
    pub(crate) unexpected_bytes: UnexpectedBytes,
}

/// Memory of messages that no entry has taken yet, in bytes: their records, and
/// the memory lent for their payloads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UnexpectedBytes {
    /// Now.
    pub now: u64,
    /// The most that there ever was.
    pub peak: u64,
}

impl UnexpectedBytes {
    /// The record of one message, with what few records have and its places in
    /// the indexes of the list.
    pub const RECORD: u64 = crate::lists::record_bytes::<Header>() as u64;
    /// The most that a mailbox slot can be made to hold: a message of one slot
    /// has the most record for its bytes.
    pub const SLOT_MAX: u64 =
        UnexpectedBytes::RECORD + UnexpectedBytes::lent(sluice_wire::PUT_INLINE_BYTES_MAX as u64);

    /// What a port keeps for a payload of so many bytes: it may round up to a
    /// power of two, and to a cache line.
    #[must_use]
    #[inline]
    pub const fn lent(len: u64) -> u64 {
        match len {
            0 => 0,
            1..=64 => 64,
            _ => len.next_power_of_two(),
        }
    }

    pub(crate) fn add(&mut self, lent_len: u64) {
        self.now += UnexpectedBytes::RECORD + UnexpectedBytes::lent(lent_len);
        self.peak = self.peak.max(self.now);
    }

    pub(crate) fn remove(&mut self, lent_len: u64) {
        self.now -= UnexpectedBytes::RECORD + UnexpectedBytes::lent(lent_len);
    }
}

impl Ni {
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
            owed: VecDeque::new(),
            waiting: BTreeMap::new(),
            waiting_now: 0,
            starved: VecDeque::new(),
            has_freed_reply_slots: false,
            long_gets: BTreeMap::new(),
            ripe: VecDeque::new(),
            triggered_now: 0,
            released: Vec::new(),
            next_age: 0,
            status: Status::default(),
            unexpected_bytes: UnexpectedBytes::default(),
        }
    }

    /// The limits that hold.
    #[must_use]
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Allocates the portal table entry `index` (`PtlPTAlloc`).
    ///
    /// # Errors
    /// [`PtlError::ArgInvalid`] beyond the limit or for a stale queue,
    /// [`PtlError::PtInUse`], [`PtlError::PtEqNeeded`].
    pub fn pt_alloc(
        &mut self,
        index: PtIndex,
        options: PtOptions,
        eq: Option<Handle<Eq>>,
    ) -> Result<(), PtlError> {
        if index.0 > self.limits.pt_index_max {
            return Err(PtlError::ArgInvalid("portal table index beyond the limit"));
        }
        if eq.is_some_and(|eq| self.eqs.get(eq).is_none()) {
            return Err(PtlError::ArgInvalid("event queue"));
        }
        if options.flow_control && eq.is_none() {
            return Err(PtlError::PtEqNeeded);
        }
        let at = usize::from(index.0);
        if at >= self.pts.len() {
            self.pts.resize_with(at + 1, || None);
        }
        if self.pts[at].is_some() {
            return Err(PtlError::PtInUse);
        }
        self.pts[at] = Some(Pt::new(options, eq));
        Ok(())
    }

    /// The lowest index that is not allocated (`PTL_PT_ANY`).
    ///
    /// # Errors
    /// [`PtlError::PtFull`].
    pub fn pt_free_index(&self) -> Result<PtIndex, PtlError> {
        (0..=self.limits.pt_index_max)
            .find(|&index| !matches!(self.pts.get(usize::from(index)), Some(Some(_))))
            .map(PtIndex)
            .ok_or(PtlError::PtFull)
    }

    /// Frees a portal table entry (`PtlPTFree`).
    ///
    /// # Errors
    /// [`PtlError::InUse`] while entries or headers are left in it or data is
    /// on its way, [`PtlError::ArgInvalid`] if it is not allocated.
    pub fn pt_free(&mut self, index: PtIndex) -> Result<(), PtlError> {
        let pt = self.pt(index)?;
        let empty = pt.priority.is_empty() && pt.overflow.is_empty() && pt.unexpected.is_empty();
        if !empty || pt.active > 0 {
            return Err(PtlError::InUse);
        }
        self.pts[usize::from(index.0)] = None;
        Ok(())
    }

    /// Lets a portal table entry take operations again (`PtlPTEnable`).
    ///
    /// # Errors
    /// [`PtlError::ArgInvalid`] if it is not allocated.
    pub fn pt_enable(&mut self, index: PtIndex) -> Result<(), PtlError> {
        let pt = self.pt_mut(index)?;
        pt.enabled = true;
        pt.event_owed = false;
        Ok(())
    }

    /// Stops a portal table entry from taking operations (`PtlPTDisable`). It
    /// is quiet when [`Ni::pt_is_active`] says so.
    ///
    /// # Errors
    /// [`PtlError::ArgInvalid`] if it is not allocated.
    pub fn pt_disable(&mut self, index: PtIndex) -> Result<(), PtlError> {
        self.pt_mut(index)?.enabled = false;
        Ok(())
    }

    /// Whether data is on its way to or from entries of a portal table entry.
    #[must_use]
    pub fn pt_is_active(&self, index: PtIndex) -> bool {
        self.pt(index).is_ok_and(|pt| pt.active > 0)
    }

    /// Allocates an event queue for `events_max` events (`PtlEQAlloc`).
    ///
    /// # Errors
    /// [`PtlError::NoSpace`].
    pub fn eq_alloc(&mut self, events_max: usize) -> Result<Handle<Eq>, PtlError> {
        self.eqs.insert(Eq::new(events_max)).map_err(|_| PtlError::NoSpace("event queues"))
    }

    /// The oldest event of a queue (`PtlEQGet`); nothing of a stale one.
    #[inline(always)]
    pub fn eq_take(&mut self, eq: Handle<Eq>) -> Taken {
        self.eqs.get_mut(eq).map_or(Taken::Empty, Eq::take)
    }

    /// Frees an event queue (`PtlEQFree`). False if it is stale.
    pub fn eq_free(&mut self, eq: Handle<Eq>) -> bool {
        self.eqs.discard(eq)
    }

    /// Whether this event queue exists.
    #[must_use]
    pub fn has_eq(&self, eq: Handle<Eq>) -> bool {
        self.eqs.get(eq).is_some()
    }

    /// Whether this descriptor exists.
    #[must_use]
    pub fn has_md(&self, md: Handle<Md>) -> bool {
        self.mds.get(md).is_some_and(|md| !md.is_released)
    }

    /// Whether this entry exists, linked or with headers left in it.
    #[must_use]
    pub fn has_me(&self, me: Handle<Me>) -> bool {
        self.mes.get(me).is_some()
    }

    /// Allocates a counter (`PtlCTAlloc`).
    ///
    /// # Errors
    /// [`PtlError::NoSpace`].
    pub fn ct_alloc(&mut self) -> Result<Handle<Ct>, PtlError> {
        self.cts.insert(Ct::default()).map_err(|_| PtlError::NoSpace("counters"))
    }

    /// What a counter says (`PtlCTGet`).
    #[must_use]
    #[inline]
    pub fn ct(&self, ct: Handle<Ct>) -> Option<CtEvent> {
        self.cts.get(ct).map(|ct| ct.value)
    }

    /// Frees a counter, and what it would have triggered (`PtlCTFree`). False
    /// if it is stale.
    pub fn ct_free(&mut self, ct: Handle<Ct>) -> bool {
        if self.ct_cancel_triggered(ct).is_err() {
            return false;
        }
        self.cts.discard(ct)
    }

    /// Binds memory for the initiator's use (`PtlMDBind`).
    ///
    /// # Errors
    /// [`PtlError::NoSpace`].
    pub fn md_bind(
        &mut self,
        region: Region,
        vector: Option<Handle<Vector>>,
        eq: Option<Handle<Eq>>,
        ct: Option<Handle<Ct>>,
        options: MdOptions,
    ) -> Result<Handle<Md>, PtlError> {
        self.mds
            .insert(Md { region, vector, eq, ct, options, pending: 0, is_released: false })
            .map_err(|_| PtlError::NoSpace("memory descriptors"))
    }

    /// Releases it (`PtlMDRelease`), with its vector. What is pending on it goes
    /// on and is told where the descriptor said; new operations are refused.
    ///
    /// # Errors
    /// [`PtlError::ArgInvalid`] if it is stale.
    pub fn md_release(&mut self, md: Handle<Md>) -> Result<(), PtlError> {
        let descriptor = self.mds.get_mut(md).filter(|md| !md.is_released);
        let descriptor = descriptor.ok_or(PtlError::ArgInvalid("memory descriptor"))?;
        descriptor.is_released = true;
        self.settle_md(md);
        Ok(())
    }

    /// Forgets a descriptor that was released and that nothing is pending on.
    #[inline]
    pub(crate) fn settle_md(&mut self, md: Handle<Md>) {
        let Some(descriptor) = self.mds.get(md) else { return };
        if !descriptor.is_released || descriptor.pending > 0 {
            return;
        }
        if let Some(vector) = descriptor.vector {
            self.vectors.discard(vector);
        }
        self.mds.discard(md);
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

    /// Acknowledgements that wait for a control credit.
    #[must_use]
    pub fn owed_now(&self) -> usize {
        self.owed.len()
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
        let slots = self.get_slots_max();
        let room = sluice_wire::FIRST_SLOT_BYTES + (slots - 1) * sluice_wire::NEXT_SLOT_BYTES;
        room - REPLY_HEADER_BYTES
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

    /// Sends what an idle moment is for: credits, and answers that waited for
    /// a control credit.
    pub fn on_idle<P: Port>(&mut self, port: &mut P) {
        self.flush_owed(port);
        if self.has_freed_reply_slots || !self.starved.is_empty() || self.waiting_now != 0 {
            self.feed_starved(port);
        }
        self.links.on_idle(port);
        self.fire(port);
    }

    /// Panics unless the interface's books are in order.
    pub fn check_invariants(&self) {
        self.links.check_invariants();
        let mut held: Vec<(PeerId, u64)> = Vec::new();
        for (_, header) in self.headers.iter() {
            match held.iter_mut().find(|(peer, _)| *peer == header.peer) {
                Some((_, slots)) => *slots += u64::from(header.slots),
                None => held.push((header.peer, u64::from(header.slots))),
            }
        }
        for (peer, slots) in held {
            // What a peer that is gone has left behind holds no credits.
            if let Some(ledger) = self.links.ledger(peer) {
                assert!(
                    slots <= u64::from(ledger.data_held),
                    "unexpected headers hold more credits than the mailbox is short of"
                );
            }
        }
        let kept: u64 = self
            .headers
            .iter()
            .map(|(_, kept)| UnexpectedBytes::RECORD + UnexpectedBytes::lent(kept.lent_len()))
            .sum();
        assert!(self.unexpected_bytes.now == kept, "memory of unexpected messages");
        let mut waiting = 0;
        for queue in self.waiting.values() {
            assert!(!queue.is_empty(), "a peer nothing waits for has no queue");
            waiting += queue.len();
        }
        assert!(waiting == self.waiting_now);
        let triggered: usize = self.cts.iter().map(|(_, ct)| ct.triggered.len()).sum();
        assert!(triggered == self.triggered_now as usize);
        self.check_lists();
    }

    fn check_lists(&self) {
        self.mes.check_invariants();
        self.headers.check_invariants();
        let mut linked = 0;
        for (nth, pt) in self.pts.iter().enumerate() {
            let Some(pt) = pt else { continue };
            pt.unexpected.check_invariants(&self.headers);
            for slot in pt.unexpected.slots(&self.headers) {
                let header = self.headers.at(slot);
                assert!(usize::from(header.pt_index.0) == nth);
                assert!(!header.arriving || self.headers.beside(slot).claim.is_none());
                let entry = self.mes.locate(header.entry);
                assert!(entry.is_some_and(|entry| self.mes.rare(entry).headers > 0));
            }
            for (list, entries) in [(List::Priority, &pt.priority), (List::Overflow, &pt.overflow)]
            {
                entries.check_invariants(&self.mes);
                for slot in entries.slots(&self.mes) {
                    let me = self.mes.at(slot);
                    assert!(usize::from(me.pt_index.0) == nth && me.list() == list);
                    linked += 1;
                }
            }
        }
        for (slot, _) in self.mes.iter() {
            let rare = self.mes.rare(slot);
            let is_linked = self.mes.is_listed(slot);
            linked -= i64::from(is_linked);
            assert!(is_linked || rare.busy > 0 || rare.headers > 0, "an entry nobody refers to");
        }
        assert!(linked == 0, "every linked entry is in one list");
    }

    pub(crate) fn pt(&self, index: PtIndex) -> Result<&Pt, PtlError> {
        self.pts
            .get(usize::from(index.0))
            .and_then(Option::as_ref)
            .ok_or(PtlError::ArgInvalid("portal table index"))
    }

    fn pt_mut(&mut self, index: PtIndex) -> Result<&mut Pt, PtlError> {
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

    #[inline(always)]
    pub(crate) fn post(&mut self, eq: Option<Handle<Eq>>, event: Event) {
        if let Some(eq) = eq.and_then(|eq| self.eqs.get_mut(eq)) {
            eq.push(event);
        }
    }

    #[inline]
    pub(crate) fn count(&mut self, ct: Option<Handle<Ct>>, ok: bool, bytes: Option<u64>) {
        let Some(handle) = ct else { return };
        if let Some(ct) = self.cts.get_mut(handle) {
            ct.value.count(ok, bytes);
            if !ct.triggered.is_empty() {
                self.note_ripe(handle);
            }
        }
    }
}

/// What a rail's failure means to an operation.
pub(crate) fn rail_failure(error: RailError) -> crate::objects::event::NiFail {
    match error {
        RailError::Forbidden | RailError::Shared => crate::objects::event::NiFail::Forbidden,
        RailError::Fault => crate::objects::event::NiFail::Segv,
        RailError::PeerGone => {
            crate::objects::event::NiFail::Undeliverable(sluice_link::PeerError::Dead)
        }
    }
}
