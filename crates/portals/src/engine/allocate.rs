//! Allocating and freeing an interface's objects (Portals 4, sections 3.7, 3.10, 3.13
//! and 3.14).

use crate::engine::ni::Ni;
use crate::objects::ct::{Ct, CtEvent};
use crate::objects::eq::{Eq, Taken as EqTaken};
use crate::objects::limits::PtlError;
use crate::objects::md::{Md, MdOptions};
use crate::objects::me::Me;
use crate::objects::pt::{Pt, PtOptions};
use crate::objects::vector::Vector;
use crate::table::Handle;
use sluice_wire::{PtIndex, Region};

impl Ni {
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
        self.set_gate(index);
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
        // Whoever was refused is to learn that nothing is there.
        self.resume_all(index);
        Ok(())
    }

    /// Stops a portal table entry from taking operations (`PtlPTDisable`). It
    /// is quiet when [`Ni::pt_is_active`] says so.
    ///
    /// # Errors
    /// [`PtlError::ArgInvalid`] if it is not allocated.
    pub fn pt_disable(&mut self, index: PtIndex) -> Result<(), PtlError> {
        self.pt_mut(index)?.enabled = false;
        self.set_gate(index);
        // It is the program that enables it.
        self.forget_shortage(index);
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
        let eq = match self.recovery {
            Some(_) => Eq::apart(events_max),
            None => Eq::new(events_max),
        };
        self.eqs.insert(eq).map_err(|_| PtlError::NoSpace("event queues"))
    }

    /// The oldest event of a queue (`PtlEQGet`); nothing of a stale one.
    #[inline(always)]
    pub fn eq_take(&mut self, eq: Handle<Eq>) -> EqTaken {
        let taken = self.eqs.get_mut(eq).map_or(EqTaken::Empty, Eq::take);
        if self.recovery.is_some() {
            self.note_taken(eq);
        }
        taken
    }

    /// Whether an event queue has no event; so it is with a stale one.
    #[must_use]
    #[inline]
    pub fn eq_is_empty(&self, eq: Handle<Eq>) -> bool {
        self.eqs.get(eq).is_none_or(Eq::is_empty)
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

    /// Keeps an I/O vector for descriptors and entries to name.
    ///
    /// # Errors
    /// [`PtlError::NoSpace`].
    pub fn vector_bind(&mut self, vector: Vector) -> Result<Handle<Vector>, PtlError> {
        self.vectors.insert(vector).map_err(|_| PtlError::NoSpace("I/O vectors"))
    }

    /// Forgets it. False if it is stale.
    pub fn vector_release(&mut self, vector: Handle<Vector>) -> bool {
        self.vectors.discard(vector)
    }
}
