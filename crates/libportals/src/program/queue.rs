//! Events of a program in safe Rust, and what an interface counts: what a measurement of
//! recovery from exhaustion needs.

use super::{Counter, Descriptor, Error, Interface, Memory, Process, Target, checked};
use crate::api::{PtlEQAlloc, PtlEQGet, PtlMEAppend, PtlPTAlloc, PtlPut};
use crate::codes::{PTL_EQ_EMPTY, PTL_NI_OK, PTL_OK};
use crate::consts::{
    PTL_CT_ACK_REQ, PTL_CT_NONE, PTL_EVENT_PUT, PTL_ME_EVENT_CT_COMM, PTL_ME_EVENT_LINK_DISABLE,
    PTL_ME_OP_PUT, PTL_NID_ANY, PTL_PID_ANY, PTL_PRIORITY_LIST, PTL_PT_FLOWCTRL, PTL_UID_ANY,
};
use crate::types::{ptl_event_t, ptl_handle_any_t, ptl_me_t, ptl_phys_t, ptl_process_t};
use std::ffi::c_void;
use std::hint::black_box;
use std::mem::MaybeUninit;
use std::ptr;

/// An event queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Queue(ptl_handle_any_t);

/// A put that has arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrived {
    /// Who put.
    pub from: Process,
    /// What was said with it.
    pub hdr_data: u64,
}

/// What an interface has counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// How often an entry with flow control ran out of something.
    pub exhaustions: u64,
    /// Operations that no entry took.
    pub refused: u64,
    /// Initiators that were refused and have not begun again.
    pub held: u64,
}

impl Interface {
    /// An event queue of so many places.
    ///
    /// # Errors
    /// What `PtlEQAlloc` returns.
    pub fn queue(&self, places: u64) -> Result<Queue, Error> {
        let mut eq = 0;
        // SAFETY: the handle is written to a variable of its type.
        checked("PtlEQAlloc", unsafe { PtlEQAlloc(self.ni, places, &raw mut eq) })?;
        Ok(Queue(eq))
    }

    /// Lets every process put to memory, at a portal table entry with flow control that is
    /// taken for it. `queue` is told of each put, `counter` counts them. For interfaces with
    /// matching.
    ///
    /// # Errors
    /// What `PtlPTAlloc` or `PtlMEAppend` return; [`Error::Memory`] for that of another
    /// interface.
    pub fn expose_told(
        &self,
        memory: &Memory,
        portal: u32,
        match_bits: u64,
        queue: Queue,
        counter: Option<Counter>,
    ) -> Result<(), Error> {
        let start = self.own(memory)?;
        let mut index = 0;
        // SAFETY: the index is written to a variable of its type.
        let code = unsafe { PtlPTAlloc(self.ni, PTL_PT_FLOWCTRL, queue.0, portal, &raw mut index) };
        checked("PtlPTAlloc", code)?;
        let counts = if counter.is_some() { PTL_ME_EVENT_CT_COMM } else { 0 };
        let me = ptl_me_t {
            start,
            length: memory.len as u64,
            ct_handle: counter.map_or(PTL_CT_NONE, |counter| counter.0),
            uid: PTL_UID_ANY,
            options: PTL_ME_OP_PUT | PTL_ME_EVENT_LINK_DISABLE | counts,
            match_id: ptl_process_t::from_phys(PTL_NID_ANY, PTL_PID_ANY),
            match_bits,
            ignore_bits: 0,
            min_free: 0,
        };
        let mut handle = 0;
        // SAFETY: the entry and the handle are variables of their types. For the memory that
        // the entry names see `Interface::bind`. The pointer of the program's own is never
        // followed.
        let code = unsafe {
            PtlMEAppend(
                self.ni,
                index,
                &raw const me,
                PTL_PRIORITY_LIST,
                ptr::null_mut(),
                &raw mut handle,
            )
        };
        checked("PtlMEAppend", code)
    }

    /// Puts the first `length` bytes of a descriptor, and says `hdr_data` with them. The
    /// counter of the descriptor learns of the acknowledgement.
    ///
    /// # Errors
    /// What `PtlPut` returns.
    #[inline]
    pub fn put_with(
        &self,
        from: Descriptor,
        length: u64,
        hdr_data: u64,
        to: &Target,
    ) -> Result<(), Error> {
        let put = black_box(PtlPut as extern "C" fn(_, _, _, _, _, _, _, _, _, _) -> _);
        let (ack, own): (_, *mut c_void) = (PTL_CT_ACK_REQ, ptr::null_mut());
        let (id, portal, bits) = (to.id(), to.portal, to.match_bits);
        let code = put(from.0, 0_u64, length, ack, id, portal, bits, 0_u64, own, hdr_data);
        checked("PtlPut", code)
    }

    /// The oldest event of a queue, if there is one. It has to tell of a put.
    ///
    /// # Errors
    /// What `PtlEQGet` returns, as when an event was lost; [`Error::Event`] for another event.
    #[inline]
    pub fn take(&self, queue: Queue) -> Result<Option<Arrived>, Error> {
        let get = black_box(PtlEQGet as unsafe extern "C" fn(_, _) -> _);
        let mut event = MaybeUninit::<ptl_event_t>::zeroed();
        // SAFETY: the event is written to a variable of its type.
        let code = unsafe { get(queue.0, event.as_mut_ptr()) };
        if code == PTL_EQ_EMPTY {
            return Ok(None);
        }
        if code != PTL_OK {
            return Err(Error::Code { function: "PtlEQGet", code });
        }
        // SAFETY: all of its fields are numbers and pointers, for which zeros are values, and
        // the library has written over them.
        let event = unsafe { event.assume_init() };
        if event.r#type != PTL_EVENT_PUT || event.ni_fail_type != PTL_NI_OK {
            return Err(Error::Event(event.r#type));
        }
        let ptl_phys_t { nid, pid } = event.initiator.as_phys();
        Ok(Some(Arrived { from: Process { nid, pid }, hdr_data: event.hdr_data }))
    }

    /// What the interface has counted.
    #[must_use]
    pub fn counts(&self) -> Counts {
        let counts = self.slot.with(self.slot.generation(), |state| {
            let (status, held) = (state.ni().status(), state.ni().refused_now() as u64);
            Counts { exhaustions: status.exhaustions, refused: status.dropped, held }
        });
        counts.unwrap_or_default()
    }
}
