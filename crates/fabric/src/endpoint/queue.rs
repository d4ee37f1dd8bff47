//! The queue of completions: what has ended, and what tells of it.

use super::{COMPLETIONS, Done, Endpoint, Kind};
use crate::FabricError;
use crate::ffi::{self, fi_cq_err_entry, fi_cq_msg_entry, fid};
use crate::memory::{BUFFER_BYTES, State};
use libc::{c_void, ssize_t};
use std::os::fd::BorrowedFd;
use std::{mem, ptr};

impl Endpoint {
    /// What has ended next; `None` if nothing has.
    ///
    /// # Errors
    /// [`FabricError`]: the endpoint is of no use any more.
    pub fn poll(&mut self) -> Result<Option<Done>, FabricError> {
        if self.done.is_empty() {
            self.post()?;
            self.read_queue()?;
        }
        Ok(self.done.pop_front())
    }

    fn read_queue(&mut self) -> Result<(), FabricError> {
        let empty = fi_cq_msg_entry { op_context: ptr::null_mut(), flags: 0, len: 0 };
        let mut entries = [empty; COMPLETIONS];
        // SAFETY: the queue has entries of this format, and there is room for so many.
        let returned =
            unsafe { ((*(*self.cq).ops).read)(self.cq, entries.as_mut_ptr().cast(), COMPLETIONS) };
        if returned == -(ffi::FI_EAGAIN as ssize_t) {
            return Ok(());
        }
        if returned == -(ffi::FI_EAVAIL as ssize_t) {
            return self.read_error();
        }
        let count = FabricError::check("fi_cq_read", returned)?;
        for entry in &entries[..count.min(COMPLETIONS)] {
            self.note(entry.op_context, entry.len, None);
        }
        Ok(())
    }

    fn read_error(&mut self) -> Result<(), FabricError> {
        // SAFETY: a structure of numbers and pointers.
        let mut entry: fi_cq_err_entry = unsafe { mem::zeroed() };
        // SAFETY: the entry has the length of all versions.
        let returned = unsafe { ((*(*self.cq).ops).readerr)(self.cq, &raw mut entry, 0) };
        if returned == -(ffi::FI_EAGAIN as ssize_t) {
            return Ok(());
        }
        FabricError::check("fi_cq_readerr", returned)?;
        let why = FabricError::of("an operation", entry.err as isize);
        self.note(entry.op_context, 0, Some(why));
        Ok(())
    }

    fn note(&mut self, context: *mut c_void, len: usize, failed: Option<FabricError>) {
        // An error that is of no operation says nothing that those do not say.
        let Some(buffer) = self.memory.of_context(context) else { return };
        let kind = match self.memory.state(buffer) {
            State::Sending => Kind::Sent,
            State::Receiving => Kind::Received,
            State::Matching => Kind::Matched,
            State::Reading => Kind::Read,
            State::Free | State::Held => return,
        };
        self.memory.set(buffer, State::Held);
        self.done.push_back(Done { kind, buffer, len: len.min(BUFFER_BYTES), failed });
    }

    /// What is readable when something has ended, if the provider has such a thing.
    #[must_use]
    pub fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        // SAFETY: the descriptor is open as long as the queue.
        self.wait.map(|descriptor| unsafe { BorrowedFd::borrow_raw(descriptor) })
    }

    /// Whether a thread may sleep by the descriptor now: nothing has ended that it does not
    /// tell of. Without a descriptor: whether nothing is known to have ended.
    #[must_use]
    pub fn may_sleep(&mut self) -> bool {
        if !self.done.is_empty() {
            return false;
        }
        if self.wait.is_none() {
            // Providers look at the wait object of the queue here, which it does not have.
            return true;
        }
        let mut queue: *mut fid = self.cq.cast();
        // SAFETY: the fabric is open, and so is the queue.
        unsafe { ((*(*self.fabric).ops).trywait)(self.fabric, &raw mut queue, 1) == 0 }
    }
}
