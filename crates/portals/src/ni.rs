//! The network interface: all of Portals' objects of one process, over its
//! links (Portals 4, section 3.6).
//!
//! Invariants, checked by [`Ni::check_invariants`]: every linked entry is in
//! exactly one list; every unexpected header is in its list or held by the
//! client; the credits of a message are freed once, when it is matched.

use crate::ct::Ct;
use crate::eq::{Eq, Taken};
use crate::event::Event;
use crate::initiator::Operation;
use crate::limits::{Limits, PtlError};
use crate::md::{Md, MdOptions};
use crate::me::Me;
use crate::pt::{Header, Pt};
use crate::table::{Handle, Table};
use sluice_link::{Layout, Links, Port, RailError};
use sluice_wire::{PeerId, PtIndex, Region};

/// Counts of what an interface saw (`PTL_SR_*` and ours).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// Puts that no entry took (`PTL_SR_DROP_COUNT`).
    pub dropped: u64,
    /// Operations that an entry did not allow (`PTL_SR_OPERATION_VIOLATIONS`).
    pub operation_violations: u64,
    /// Packets that broke the protocol.
    pub protocol_violations: u64,
    /// Messages that arrived before a matching entry.
    pub unexpected: u64,
}

/// A matching network interface.
#[derive(Debug)]
pub struct Ni {
    pub(crate) links: Links,
    pub(crate) limits: Limits,
    pub(crate) pts: Vec<Option<Pt>>,
    pub(crate) mes: Table<Me>,
    pub(crate) headers: Table<Header>,
    pub(crate) mds: Table<Md>,
    pub(crate) cts: Table<Ct>,
    pub(crate) eqs: Table<Eq>,
    pub(crate) operations: Table<Operation>,
    pub(crate) owed: std::collections::VecDeque<crate::target::Owed>,
    pub(crate) status: Status,
}

impl Ni {
    /// An interface with nothing in it, over a mailbox divided as `mailbox`
    /// says.
    #[must_use]
    pub fn new(mut limits: Limits, mailbox: Layout) -> Ni {
        let granted = u32::from(mailbox.senders_max) * u32::from(mailbox.grant.data_slots);
        limits.unexpected_headers_max = limits.unexpected_headers_max.max(granted);
        Ni {
            links: Links::new(mailbox),
            limits,
            pts: Vec::new(),
            mes: Table::new(limits.entries_max),
            headers: Table::new(limits.unexpected_headers_max),
            mds: Table::new(limits.mds_max),
            cts: Table::new(limits.cts_max),
            eqs: Table::new(limits.eqs_max),
            operations: Table::new(limits.operations_max),
            owed: std::collections::VecDeque::new(),
            status: Status::default(),
        }
    }

    /// Allocates the portal table entry `index` (`PtlPTAlloc`).
    ///
    /// # Errors
    /// [`PtlError::ArgInvalid`] beyond the limit or for a stale queue,
    /// [`PtlError::PtInUse`].
    pub fn pt_alloc(&mut self, index: PtIndex, eq: Option<Handle<Eq>>) -> Result<(), PtlError> {
        if index.0 > self.limits.pt_index_max {
            return Err(PtlError::ArgInvalid("portal table index beyond the limit"));
        }
        if eq.is_some_and(|eq| self.eqs.get(eq).is_none()) {
            return Err(PtlError::ArgInvalid("event queue"));
        }
        let at = usize::from(index.0);
        if at >= self.pts.len() {
            self.pts.resize_with(at + 1, || None);
        }
        if self.pts[at].is_some() {
            return Err(PtlError::PtInUse);
        }
        self.pts[at] = Some(Pt::new(eq));
        Ok(())
    }

    /// Frees a portal table entry (`PtlPTFree`).
    ///
    /// # Errors
    /// [`PtlError::InUse`] while entries or headers are left in it,
    /// [`PtlError::ArgInvalid`] if it is not allocated.
    pub fn pt_free(&mut self, index: PtIndex) -> Result<(), PtlError> {
        let pt = self.pt(index)?;
        if pt.priority.head.is_some() || pt.overflow.head.is_some() || pt.unexpected.head.is_some()
        {
            return Err(PtlError::InUse);
        }
        self.pts[usize::from(index.0)] = None;
        Ok(())
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

    /// Allocates a counter (`PtlCTAlloc`).
    ///
    /// # Errors
    /// [`PtlError::NoSpace`].
    pub fn ct_alloc(&mut self) -> Result<Handle<Ct>, PtlError> {
        self.cts.insert(Ct::default()).map_err(|_| PtlError::NoSpace("counters"))
    }

    /// What a counter says (`PtlCTGet`).
    #[must_use]
    pub fn ct(&self, ct: Handle<Ct>) -> Option<Ct> {
        self.cts.get(ct).copied()
    }

    /// Sets a counter (`PtlCTSet`). False if it is stale.
    pub fn ct_set(&mut self, ct: Handle<Ct>, value: Ct) -> bool {
        self.cts.get_mut(ct).map(|ct| *ct = value).is_some()
    }

    /// Frees a counter (`PtlCTFree`). False if it is stale.
    pub fn ct_free(&mut self, ct: Handle<Ct>) -> bool {
        self.cts.remove(ct).is_some()
    }

    /// Binds memory for the initiator's use (`PtlMDBind`).
    ///
    /// # Errors
    /// [`PtlError::NoSpace`].
    pub fn md_bind(
        &mut self,
        region: Region,
        eq: Option<Handle<Eq>>,
        ct: Option<Handle<Ct>>,
        options: MdOptions,
    ) -> Result<Handle<Md>, PtlError> {
        self.mds
            .insert(Md { region, eq, ct, options })
            .map_err(|_| PtlError::NoSpace("memory descriptors"))
    }

    /// Releases it (`PtlMDRelease`). False if it is stale.
    pub fn md_release(&mut self, md: Handle<Md>) -> bool {
        self.mds.remove(md).is_some()
    }

    /// Counts of what the interface saw.
    #[must_use]
    pub fn status(&self) -> Status {
        self.status
    }

    /// Unexpected messages not yet matched.
    #[must_use]
    pub fn unexpected_now(&self) -> u64 {
        self.pts.iter().flatten().map(|pt| u64::from(pt.unexpected_count)).sum()
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

    /// Data slots that `peer` grants; zero if it was never spoken to.
    #[must_use]
    pub fn data_quota(&self, peer: PeerId) -> u32 {
        self.links.data_quota(peer)
    }

    /// Data credits left toward `peer`.
    #[must_use]
    pub fn data_credits(&self, peer: PeerId) -> u32 {
        self.links.data_credits(peer)
    }

    /// Most bytes that one get without a direct read can ask for: a fraction of
    /// the reply region, so that some replies travel while another is taken
    /// out, and at most what takes 256 slots.
    #[must_use]
    pub fn get_bytes_max(&self) -> u64 {
        let slots = u64::from(self.links.reply_slots() / 2).clamp(1, 256);
        let head = u64::from(
            sluice_wire::Packet::Reply(sluice_wire::Reply {
                op: 0,
                status: sluice_wire::Status::Ok,
            })
            .header_bytes(),
        );
        sluice_wire::FIRST_SLOT_BYTES + (slots - 1) * sluice_wire::NEXT_SLOT_BYTES - head
    }

    /// Sends what an idle moment is for: credits, and answers that waited for
    /// a control credit.
    pub fn on_idle<P: Port>(&mut self, port: &mut P) {
        self.flush_owed(port);
        self.links.on_idle(port);
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
        for pt in self.pts.iter().flatten() {
            let mut count = 0;
            let mut at = pt.unexpected.head;
            let mut before = None;
            while let Some(handle) = at {
                let header = self.headers.get(handle).expect("unexpected list names a header");
                assert!(header.prev == before, "unexpected list is linked both ways");
                before = at;
                at = header.next;
                count += 1;
            }
            assert!(pt.unexpected.tail == before && pt.unexpected_count == count);
            for chain in [&pt.priority, &pt.overflow] {
                let mut at = chain.head;
                let mut before = None;
                while let Some(handle) = at {
                    let me = self.mes.get(handle).expect("match list names an entry");
                    assert!(me.prev == before, "match list is linked both ways");
                    before = at;
                    at = me.next;
                }
                assert!(chain.tail == before);
            }
        }
    }

    pub(crate) fn pt(&self, index: PtIndex) -> Result<&Pt, PtlError> {
        self.pts
            .get(usize::from(index.0))
            .and_then(Option::as_ref)
            .ok_or(PtlError::ArgInvalid("portal table index"))
    }

    #[inline(always)]
    pub(crate) fn post(&mut self, eq: Option<Handle<Eq>>, event: Event) {
        if let Some(eq) = eq.and_then(|eq| self.eqs.get_mut(eq)) {
            eq.push(event);
        }
    }

    #[inline]
    pub(crate) fn count(&mut self, ct: Option<Handle<Ct>>, ok: bool, bytes: Option<u64>) {
        if let Some(ct) = ct.and_then(|ct| self.cts.get_mut(ct)) {
            ct.count(ok, bytes);
        }
    }
}

/// What a rail's failure means to an operation.
pub(crate) fn rail_failure(error: RailError) -> crate::event::NiFail {
    match error {
        RailError::Forbidden => crate::event::NiFail::Forbidden,
        RailError::Fault => crate::event::NiFail::Segv,
        RailError::PeerGone => crate::event::NiFail::Undeliverable(sluice_link::PeerError::Dead),
    }
}
