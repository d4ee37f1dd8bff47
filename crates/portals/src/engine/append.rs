//! Appending and unlinking entries (Portals 4, sections 3.11 and 3.12). An entry that
//! is appended to the priority list first meets the headers that wait.

use crate::engine::ni::Ni;
use crate::lists::Age;
use crate::objects::event::{Event, EventKind, NOBODY};
use crate::objects::limits::PtlError;
use crate::objects::me::{Me, MeSpec};
use crate::table::Handle;
use sluice_link::Port;
use sluice_link::mutants::{self, Mutant};
use sluice_wire::{List, PtIndex};

impl Ni {
    /// Appends an entry (`PtlMEAppend`, `PtlLEAppend`). One that is used up by
    /// unexpected headers is not linked, and `None` is returned. From then on its
    /// I/O vector is the entry's, and goes with it.
    ///
    /// # Errors
    /// [`PtlError::ArgInvalid`], [`PtlError::NoSpace`],
    /// [`PtlError::ListTooLong`].
    #[inline(always)]
    pub fn me_append<P: Port>(
        &mut self,
        port: &mut P,
        pt_index: PtIndex,
        list: List,
        spec: MeSpec,
    ) -> Result<Option<Handle<Me>>, PtlError> {
        if list == List::Overflow {
            return self.me_append_overflow(pt_index, spec).map(Some);
        }
        let pt = self
            .pts
            .get_mut(usize::from(pt_index.0))
            .and_then(Option::as_mut)
            .ok_or(PtlError::ArgInvalid("portal table index"))?;
        if self.mes.is_full() {
            return Err(PtlError::NoSpace("match list entries"));
        }
        if pt.priority.len() >= self.limits.list_size_max as usize {
            return Err(PtlError::ListTooLong);
        }
        if !pt.unexpected.is_empty() && !mutants::is(Mutant::OverlooksMessages) {
            return self.me_append_claiming(port, pt_index, spec, None);
        }
        // Nothing waits: the common case, and all of it.
        let slot = pt.priority.add(&mut self.mes, Me::new(&spec, pt_index, list));
        let slot = slot.expect("room was checked above");
        self.mes.complete(slot, &spec, 0);
        let handle = self.mes.handle(slot);
        let (eq, is_shut) = (pt.eq, pt.is_shut);
        if is_shut {
            self.note_appended(pt_index);
        }
        if !spec.options.event_link_disable {
            self.post(eq, Event::new(EventKind::Link, pt_index, NOBODY, spec.user_ptr));
        }
        Ok(Some(handle))
    }

    /// Puts an entry into the priority list where one of this `age` stood, which is not linked
    /// any more ([`Ni::me_age`]). An extension.
    ///
    /// # Errors
    /// As [`Ni::me_append`].
    pub fn me_put_back<P: Port>(
        &mut self,
        port: &mut P,
        pt_index: PtIndex,
        spec: MeSpec,
        age: Age,
    ) -> Result<Option<Handle<Me>>, PtlError> {
        let list_len = self.pt(pt_index)?.priority.len();
        if self.mes.is_full() {
            return Err(PtlError::NoSpace("match list entries"));
        }
        if list_len >= self.limits.list_size_max as usize {
            return Err(PtlError::ListTooLong);
        }
        self.me_append_claiming(port, pt_index, spec, Some(age))
    }

    /// The age of an entry in the order of its list.
    #[must_use]
    pub fn me_age(&self, handle: Handle<Me>) -> Option<Age> {
        Some(self.mes.age(self.mes.locate(handle)?))
    }

    /// Appends an entry to the priority list, or puts it where one of this age stood, if
    /// headers that wait do not use it up.
    #[inline(never)]
    fn me_append_claiming<P: Port>(
        &mut self,
        port: &mut P,
        pt_index: PtIndex,
        spec: MeSpec,
        age: Option<Age>,
    ) -> Result<Option<Handle<Me>>, PtlError> {
        let mut offset = 0_u64;
        let mut arriving = Vec::new();
        while let Some(found) = self.find_unexpected(pt_index, &spec, offset) {
            let increments = spec.options.inc_by_rlength && !mutants::is(Mutant::IgnoresIncrements);
            if spec.options.manage_local && increments {
                offset = offset.saturating_add(self.headers.at(found).rlength);
            }
            let left = spec.region.len.saturating_sub(offset);
            let exhausted = spec.options.manage_local && left < spec.min_free;
            let once = spec.options.use_once && !mutants::is(Mutant::LinksUsedEntries);
            let used_up = once || exhausted;
            if let Some(header) = self.take_unexpected(port, pt_index, found, &spec, used_up) {
                arriving.push(header);
            }
            if used_up {
                if let Some(vector) = spec.vector {
                    self.vectors.discard(vector);
                }
                self.fire(port);
                return Ok(None);
            }
        }
        let handle = self.link(pt_index, List::Priority, &spec, offset, age)?;
        self.note_appended(pt_index);
        for found in arriving {
            if let Some(slot) = self.headers.locate(found) {
                self.headers.beside_mut(slot).claimer = Some(handle);
                self.hold_entry(handle);
            }
        }
        if !spec.options.event_link_disable {
            let eq = self.eq_of(pt_index);
            self.post(eq, Event::new(EventKind::Link, pt_index, NOBODY, spec.user_ptr));
        }
        self.fire(port);
        Ok(Some(handle))
    }

    /// Appends an entry to the overflow list, which looks at no headers.
    ///
    /// # Errors
    /// As [`Ni::me_append`].
    #[inline(never)]
    pub fn me_append_overflow(
        &mut self,
        pt_index: PtIndex,
        spec: MeSpec,
    ) -> Result<Handle<Me>, PtlError> {
        if self.is_by_control(pt_index) {
            return Err(PtlError::ArgInvalid("an entry of operations by control credits"));
        }
        let pt = self.pt(pt_index)?;
        let eq = pt.eq;
        if pt.overflow.len() >= self.limits.list_size_max as usize {
            return Err(PtlError::ListTooLong);
        }
        let handle = self.link(pt_index, List::Overflow, &spec, 0, None)?;
        self.note_appended(pt_index);
        if !spec.options.event_link_disable {
            let mut event = Event::new(EventKind::Link, pt_index, NOBODY, spec.user_ptr);
            event.list = List::Overflow;
            self.post(eq, event);
        }
        Ok(handle)
    }

    /// A handle of an entry that is not linked any more: what a call that
    /// used its entry up gives back.
    pub fn me_spent(&mut self) -> Handle<Me> {
        let Some(slot) = self.mes.insert(Me::default()) else { return Handle::default() };
        let handle = self.mes.handle(slot);
        self.mes.discard(slot);
        handle
    }

    /// Unlinks an entry (`PtlMEUnlink`).
    ///
    /// # Errors
    /// [`PtlError::ArgInvalid`] if it is not linked any more,
    /// [`PtlError::InUse`] while unexpected headers point into it or data is on
    /// its way from or to it.
    pub fn me_unlink(&mut self, handle: Handle<Me>) -> Result<(), PtlError> {
        let slot = self.mes.locate(handle).filter(|&slot| self.mes.is_listed(slot));
        let slot = slot.ok_or(PtlError::ArgInvalid("entry is not linked"))?;
        let cold = self.mes.cold(slot);
        if cold.headers > 0 || cold.busy > 0 {
            return Err(PtlError::InUse);
        }
        self.unlink_from_list(slot);
        self.forget_entry(slot);
        Ok(())
    }

    /// Unlinks an entry also while data is on its way from or to it: nothing meets it any
    /// more, and it is forgotten when that has ended. An extension.
    pub fn me_withdraw(&mut self, handle: Handle<Me>) {
        if let Some(slot) = self.mes.locate(handle).filter(|&slot| self.mes.is_listed(slot)) {
            self.unlink_from_list(slot);
            self.settle_entry(handle);
        }
    }

    fn link(
        &mut self,
        pt_index: PtIndex,
        list: List,
        spec: &MeSpec,
        offset: u64,
        age: Option<Age>,
    ) -> Result<Handle<Me>, PtlError> {
        let pt = self.pts[usize::from(pt_index.0)].as_mut().expect("looked up by the caller");
        let me = Me::new(spec, pt_index, list);
        let slot = match age {
            None => pt.list(list).add(&mut self.mes, me),
            Some(age) => pt.list(list).add_by_age(&mut self.mes, me, age),
        };
        let slot = slot.ok_or(PtlError::NoSpace("match list entries"))?;
        self.mes.complete(slot, spec, offset);
        Ok(self.mes.handle(slot))
    }

    /// Takes an entry out of the list that it is in.
    #[inline(always)]
    pub(crate) fn unlink_from_list(&mut self, slot: u32) {
        let me = self.mes.at(slot);
        let (list, index) = (me.list(), me.pt_index);
        if let Some(pt) = self.pts.get_mut(usize::from(index.0)).and_then(Option::as_mut) {
            pt.list(list).remove(&mut self.mes, slot);
        }
    }

    /// Tells of what has become of an unlinked entry as far as that is settled,
    /// and forgets the entry when nothing refers to it any more.
    pub(crate) fn settle_entry(&mut self, entry: Handle<Me>) {
        let Some(slot) = self.mes.locate(entry) else { return };
        let cold = self.mes.cold(slot);
        if self.mes.is_listed(slot) || cold.busy > 0 {
            return;
        }
        let me = self.mes.at_mut(slot);
        let tells = me.tell_unlink();
        let free = cold.headers == 0;
        let (pt_index, list, user_ptr) = (me.pt_index, me.list(), me.user_ptr);
        let silent = me.flags.event_unlink_disable();
        if free {
            self.forget_entry(slot);
        }
        if silent {
            return;
        }
        let eq = self.eq_of(pt_index);
        let mut event = Event::new(EventKind::AutoUnlink, pt_index, NOBODY, user_ptr);
        event.list = list;
        if tells && !mutants::is(Mutant::ForgetsUnlinkEvents) {
            self.post(eq, event);
        }
        if (free || mutants::is(Mutant::FreesTooEarly)) && list == List::Overflow {
            event.kind = EventKind::AutoFree;
            self.post(eq, event);
        }
    }

    /// Forgets an entry that nothing refers to any more, with its I/O vector.
    #[inline]
    pub(crate) fn forget_entry(&mut self, slot: u32) {
        if let Some(vector) = self.mes.cold(slot).vector {
            self.vectors.discard(vector);
        }
        self.mes.discard(slot);
    }
}
