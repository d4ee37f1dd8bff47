//! An endpoint of a provider: reliable messages of bounded length, and reads of memory.
//!
//! It is used by one thread at a time. Whoever begins an operation hands a buffer to the
//! provider and has it back with [`Endpoint::poll`]; what is under way when the endpoint
//! is dropped is ended by closing it.

use crate::ffi::{
    self, FI_CQ_FORMAT_MSG, FI_ENABLE, FI_GETWAIT, FI_MR_ENDPOINT, FI_MR_LOCAL, FI_MR_PROV_KEY,
    FI_MR_VIRT_ADDR, FI_WAIT_FD, FI_WAIT_NONE, fi_addr_t, fi_av_attr, fi_cq_attr, fi_cq_err_entry,
    fi_cq_msg_entry, fid, fid_av, fid_cq, fid_domain, fid_ep, fid_fabric, fid_mr,
};
use crate::library::Library;
use crate::memory::{BUFFER_BYTES, BufferId, Memory, Registrar, State, close};
use crate::{FabricError, Offer};
use libc::{c_int, c_void, size_t, ssize_t};
use std::collections::VecDeque;
use std::os::fd::{BorrowedFd, RawFd};
use std::{mem, ptr};

/// Longest name of an endpoint, in bytes.
pub const NAME_BYTES_MAX: usize = 64;
/// Completions that are read at once.
const COMPLETIONS: usize = 16;

/// A peer, as the endpoint names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer(pub(crate) fi_addr_t);

/// Whether the provider has taken an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begun {
    /// It has, and the buffer with it.
    Yes,
    /// It is full: once more later. The buffer is still held.
    Later,
}

/// What an operation was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A message to a peer.
    Sent,
    /// A message from somebody.
    Received,
    /// A message that a receive with a tag has met, or the end of one.
    Matched,
    /// A read of a peer's memory.
    Read,
}

/// An operation has ended. Its buffer is held by whoever is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Done {
    /// Which it was.
    pub kind: Kind,
    /// Its buffer.
    pub buffer: BufferId,
    /// Bytes that were received.
    pub len: usize,
    /// Whether it has failed.
    pub failed: Option<FabricError>,
}

/// Memory that peers may read.
#[derive(Debug)]
pub struct Registered {
    region: *mut fid_mr,
    /// By which they read it.
    pub key: u64,
    /// Where for them its first byte is.
    pub base: u64,
}

/// See the module.
pub struct Endpoint {
    offer: Offer,
    fabric: *mut fid_fabric,
    domain: *mut fid_domain,
    av: *mut fid_av,
    cq: *mut fid_cq,
    pub(crate) ep: *mut fid_ep,
    pub(crate) memory: Memory,
    name: Vec<u8>,
    wait: Option<RawFd>,
    done: VecDeque<Done>,
    /// Buffers that the provider did not take for receiving yet.
    unposted: Vec<BufferId>,
    pid: u32,
}

// SAFETY: libfabric's objects may be used by any thread, one at a time (`FI_THREAD_DOMAIN`),
// which an exclusive borrow sees to.
unsafe impl Send for Endpoint {}
// SAFETY: the borrow of what is registered is of one thread at a time, as above.
unsafe impl Send for Registered {}

impl std::fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Endpoint").field("offer", &self.offer).finish_non_exhaustive()
    }
}

impl Endpoint {
    /// Opens an endpoint, with so many buffers for what comes.
    ///
    /// # Errors
    /// [`FabricError`] of the call that has failed.
    pub fn open(offer: Offer, receives: usize) -> Result<Endpoint, FabricError> {
        let mut endpoint = Endpoint {
            offer,
            fabric: ptr::null_mut(),
            domain: ptr::null_mut(),
            av: ptr::null_mut(),
            cq: ptr::null_mut(),
            ep: ptr::null_mut(),
            memory: Memory::default(),
            name: Vec::new(),
            wait: None,
            done: VecDeque::new(),
            unposted: Vec::new(),
            pid: std::process::id(),
        };
        endpoint.open_objects()?;
        endpoint.open_queue()?;
        endpoint.enable()?;
        for _ in 0..receives {
            let buffer = endpoint.take()?;
            endpoint.unposted.push(buffer);
        }
        endpoint.post()?;
        Ok(endpoint)
    }

    fn open_objects(&mut self) -> Result<(), FabricError> {
        let library = Library::get()?;
        let info = self.offer.as_ptr();
        let none = ptr::null_mut();
        let mut av = fi_av_attr {
            type_: ffi::FI_AV_UNSPEC,
            rx_ctx_bits: 0,
            count: 0,
            ep_per_node: 0,
            name: ptr::null(),
            map_addr: none,
            flags: 0,
        };
        // SAFETY: the offer is there; each object is opened by the table of the one before,
        // which is open, and written where it is kept.
        unsafe {
            let returned = (library.fabric)((*info).fabric_attr, &raw mut self.fabric, none);
            check("fi_fabric", returned)?;
            let open = (*(*self.fabric).ops).domain;
            check("fi_domain", open(self.fabric, info, &raw mut self.domain, none))?;
            let domain = &*(*self.domain).ops;
            let returned = (domain.endpoint)(self.domain, info, &raw mut self.ep, none);
            check("fi_endpoint", returned)?;
            check("fi_av_open", (domain.av_open)(self.domain, &raw mut av, &raw mut self.av, none))
        }
    }

    /// With something to wait for, if the provider has that.
    fn open_queue(&mut self) -> Result<(), FabricError> {
        // SAFETY: the domain is open, and attributes hang from the offer.
        let size = unsafe {
            let info = self.offer.info();
            (*info.tx_attr).size.saturating_add((*info.rx_attr).size)
        };
        let mut opened = Err(FabricError::of("fi_cq_open", ffi::FI_ENOSYS as isize));
        for wait_obj in [FI_WAIT_FD, FI_WAIT_NONE] {
            let mut attributes = fi_cq_attr {
                size: size.clamp(1024, 64 << 10),
                flags: 0,
                format: FI_CQ_FORMAT_MSG,
                wait_obj,
                signaling_vector: 0,
                wait_cond: 0,
                wait_set: ptr::null_mut(),
            };
            // SAFETY: the domain is open; the queue is written where it is kept.
            let returned = unsafe {
                let open = (*(*self.domain).ops).cq_open;
                open(self.domain, &raw mut attributes, &raw mut self.cq, ptr::null_mut())
            };
            opened = check("fi_cq_open", returned);
            if opened.is_ok() {
                self.wait = (wait_obj == FI_WAIT_FD).then(|| self.wait_descriptor()).flatten();
                break;
            }
        }
        opened
    }

    fn wait_descriptor(&self) -> Option<RawFd> {
        let mut descriptor: c_int = -1;
        // SAFETY: the queue is open; for this kind of wait one number is written.
        let returned = unsafe {
            let fid: *mut fid = self.cq.cast();
            ((*(*fid).ops).control)(fid, FI_GETWAIT, (&raw mut descriptor).cast())
        };
        (returned == 0 && descriptor >= 0).then_some(descriptor)
    }

    fn enable(&mut self) -> Result<(), FabricError> {
        let mut name = [0u8; 4 * NAME_BYTES_MAX];
        let mut len: size_t = name.len();
        // SAFETY: all objects are open, and of one domain; the name has the room that is said.
        unsafe {
            let fid: *mut fid = self.ep.cast();
            let ops = &*(*fid).ops;
            let flags = ffi::FI_TRANSMIT | ffi::FI_RECV;
            check("fi_ep_bind of the queue", (ops.bind)(fid, self.cq.cast(), flags))?;
            check("fi_ep_bind of addresses", (ops.bind)(fid, self.av.cast(), 0))?;
            check("fi_enable", (ops.control)(fid, FI_ENABLE, ptr::null_mut()))?;
            let getname = (*(*self.ep).cm).getname;
            check("fi_getname", getname(fid, name.as_mut_ptr().cast(), &raw mut len))?;
        }
        if len == 0 || len > NAME_BYTES_MAX {
            return Err(FabricError::of("fi_getname", ffi::FI_ETOOSMALL as isize));
        }
        self.name = name[..len].to_vec();
        Ok(())
    }

    /// Its name, by which peers reach it.
    #[must_use]
    pub fn name(&self) -> &[u8] {
        &self.name
    }

    /// What it was opened by.
    #[must_use]
    pub fn offer(&self) -> &Offer {
        &self.offer
    }

    /// Learns of a peer by its name, which may be from anywhere.
    ///
    /// # Errors
    /// [`FabricError`] if it is no name of this provider's.
    pub fn insert(&mut self, name: &[u8]) -> Result<Peer, FabricError> {
        let wrong = || FabricError::of("fi_av_insert", ffi::FI_EADDRNOTAVAIL as isize);
        // A provider reads as much as its own names have, and of sockets' what their
        // family says.
        let is_like_own = name.len() == self.name.len()
            && (!self.offer.is_ip() || name.get(..2) == self.name.get(..2));
        if !is_like_own {
            return Err(wrong());
        }
        let mut padded = [0u8; 4 * NAME_BYTES_MAX];
        padded[..name.len()].copy_from_slice(name);
        let mut peer = ffi::FI_ADDR_NOTAVAIL;
        // SAFETY: the name is as long as the provider's names, with zeroes behind.
        let inserted = unsafe {
            let insert = (*(*self.av).ops).insert;
            insert(self.av, padded.as_ptr().cast(), 1, &raw mut peer, 0, ptr::null_mut())
        };
        if inserted != 1 || peer == ffi::FI_ADDR_NOTAVAIL {
            return Err(wrong());
        }
        Ok(Peer(peer))
    }

    /// Forgets a peer, to which nothing is under way.
    pub fn remove(&mut self, peer: Peer) {
        // The connections of a forked process are its parent's.
        if self.pid != std::process::id() {
            return;
        }
        let mut peer = peer.0;
        // SAFETY: the peer was inserted, and has no operations, by the caller's word; one
        // that had would end with an error.
        unsafe {
            let remove = (*(*self.av).ops).remove;
            remove(self.av, &raw mut peer, 1, 0);
        }
    }

    /// A buffer.
    ///
    /// # Errors
    /// [`FabricError`] if there is no more memory, or the provider does not take it.
    pub fn take(&mut self) -> Result<BufferId, FabricError> {
        let registrar = self.registrar();
        self.memory.take(&registrar)
    }

    fn registrar(&self) -> Registrar {
        let mode = self.offer.mr_mode();
        Registrar {
            domain: self.domain,
            ep: self.ep,
            is_local: mode & FI_MR_LOCAL != 0,
            is_of_endpoint: mode & FI_MR_ENDPOINT != 0,
        }
    }

    /// A buffer that is held is free again.
    pub fn give_back(&mut self, buffer: BufferId) {
        self.memory.give_back(buffer);
    }

    /// The bytes of a buffer that is held: [`BUFFER_BYTES`].
    #[must_use]
    pub fn bytes(&self, buffer: BufferId) -> &[u8] {
        self.memory.bytes(buffer)
    }

    /// As [`Endpoint::bytes`].
    #[must_use]
    pub fn bytes_mut(&mut self, buffer: BufferId) -> &mut [u8] {
        self.memory.bytes_mut(buffer)
    }

    /// Sends the first `len` bytes of a buffer that is held.
    ///
    /// # Errors
    /// [`FabricError`]: nothing goes, and the buffer is still held.
    pub fn send(&mut self, buffer: BufferId, len: usize, to: Peer) -> Result<Begun, FabricError> {
        assert!(len <= BUFFER_BYTES && self.memory.state(buffer) == State::Held);
        // SAFETY: the buffer is there until the endpoint is closed, and nobody touches it
        // until the operation is done.
        let returned = unsafe {
            let send = (*(*self.ep).msg).send;
            let descriptor = self.memory.descriptor(buffer);
            let context = self.memory.context(buffer);
            send(self.ep, self.memory.at(buffer).cast(), len, descriptor, to.0, context)
        };
        self.begun("fi_send", returned, buffer, State::Sending)
    }

    /// Reads memory of a peer into a buffer that is held.
    ///
    /// # Errors
    /// [`FabricError`]: nothing is read, and the buffer is still held.
    pub fn read(
        &mut self,
        buffer: BufferId,
        len: usize,
        from: Peer,
        at: u64,
        key: u64,
    ) -> Result<Begun, FabricError> {
        /// As `fi_rma.h` has it.
        type Read = unsafe extern "C" fn(
            *mut fid_ep,
            *mut c_void,
            size_t,
            *mut c_void,
            fi_addr_t,
            u64,
            u64,
            *mut c_void,
        ) -> ssize_t;
        assert!(len <= BUFFER_BYTES && self.memory.state(buffer) == State::Held);
        if !self.offer.reads_memory() {
            return Err(FabricError::of("fi_read", ffi::FI_EOPNOTSUPP as isize));
        }
        // SAFETY: an endpoint that reads memory has the table, whose first function is this
        // one; else as in `send`.
        let returned = unsafe {
            let read = mem::transmute::<ffi::NoOp, Read>((*(*self.ep).rma).ops[0]);
            let descriptor = self.memory.descriptor(buffer);
            let context = self.memory.context(buffer);
            let into = self.memory.at(buffer).cast();
            read(self.ep, into, len, descriptor, from.0, at, key, context)
        };
        self.begun("fi_read", returned, buffer, State::Reading)
    }

    pub(crate) fn begun(
        &mut self,
        call: &'static str,
        returned: ssize_t,
        buffer: BufferId,
        state: State,
    ) -> Result<Begun, FabricError> {
        if returned == -(ffi::FI_EAGAIN as ssize_t) {
            return Ok(Begun::Later);
        }
        FabricError::check(call, returned)?;
        self.memory.set(buffer, state);
        Ok(Begun::Yes)
    }

    /// A buffer that is held is for what comes.
    pub fn receive_into(&mut self, buffer: BufferId) {
        assert_eq!(self.memory.state(buffer), State::Held);
        self.unposted.push(buffer);
    }

    /// Gives buffers to the provider for what comes.
    fn post(&mut self) -> Result<(), FabricError> {
        while let Some(&buffer) = self.unposted.last() {
            // SAFETY: as in `send`.
            let returned = unsafe {
                let receive = (*(*self.ep).msg).recv;
                let descriptor = self.memory.descriptor(buffer);
                let context = self.memory.context(buffer);
                let at = self.memory.at(buffer).cast();
                receive(self.ep, at, BUFFER_BYTES, descriptor, ffi::FI_ADDR_UNSPEC, context)
            };
            if self.begun("fi_recv", returned, buffer, State::Receiving)? == Begun::Later {
                break;
            }
            self.unposted.pop();
        }
        Ok(())
    }

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

    /// Lets peers read memory. `key` is what they need, unless the provider makes one.
    ///
    /// # Errors
    /// [`FabricError`], also of memory that is not there.
    ///
    /// # Safety
    /// The memory may be read until [`Endpoint::unregister`].
    pub unsafe fn register(
        &mut self,
        at: *mut u8,
        len: usize,
        key: u64,
    ) -> Result<Registered, FabricError> {
        // SAFETY: attributes hang from the offer.
        let key_bytes = unsafe { (*self.offer.info().domain_attr).hints.mr_key_size };
        let bits = u32::try_from(8 * key_bytes.min(8)).unwrap_or(64);
        let key = if bits == 64 { key } else { key & ((1 << bits) - 1) };
        let mode = self.offer.mr_mode();
        let asked = if mode & FI_MR_PROV_KEY != 0 { 0 } else { key };
        // SAFETY: the caller's promise.
        let region = unsafe { self.registrar().register(at, len, ffi::FI_REMOTE_READ, asked)? };
        // SAFETY: it is open.
        let key = unsafe { (*region).key };
        let base = if mode & FI_MR_VIRT_ADDR != 0 { at.expose_provenance() as u64 } else { 0 };
        Ok(Registered { region, key, base })
    }

    /// Ends that.
    ///
    /// # Errors
    /// [`FabricError`]: peers may still read it, until the endpoint is closed.
    pub fn unregister(&mut self, registered: Registered) -> Result<(), FabricError> {
        // What a forked process inherits is its parent's.
        if self.pid != std::process::id() {
            return Ok(());
        }
        // SAFETY: it is open, and nobody has it any more.
        let is_closed = unsafe { close(registered.region.cast()) };
        let busy = || FabricError::of("fi_close of memory", libc::EBUSY as isize);
        is_closed.then_some(()).ok_or_else(busy)
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
        /// As `fabric.h` has it.
        type TryWait = unsafe extern "C" fn(*mut fid_fabric, *mut *mut fid, c_int) -> c_int;
        if !self.done.is_empty() {
            return false;
        }
        if self.wait.is_none() {
            // Providers look at the wait object of the queue here, which it does not have.
            return true;
        }
        let mut queue: *mut fid = self.cq.cast();
        // SAFETY: the fabric is open, and its table has this function there.
        unsafe {
            let try_wait = mem::transmute::<ffi::NoOp, TryWait>((*(*self.fabric).ops).trywait);
            try_wait(self.fabric, &raw mut queue, 1) == 0
        }
    }
}

impl Drop for Endpoint {
    /// What could not be closed keeps the memory that it may still use. A fork has nothing
    /// to close: all of it is its parent's.
    fn drop(&mut self) {
        if self.pid != std::process::id() {
            return;
        }
        let close_all = |objects: &[*mut fid]| {
            let open = objects.iter().filter(|object| !object.is_null());
            // SAFETY: each was opened and not closed; those that stand on it were closed
            // before.
            let failed = open.filter(|&&object| !unsafe { close(object) });
            failed.count() == 0
        };
        let mut is_closed = close_all(&[self.ep.cast()]);
        if is_closed {
            self.memory.unregister();
        }
        let rest: [*mut fid; 4] =
            [self.cq.cast(), self.av.cast(), self.domain.cast(), self.fabric.cast()];
        is_closed &= close_all(&rest);
        if is_closed {
            mem::take(&mut self.memory).free();
        }
    }
}

fn check(call: &'static str, returned: c_int) -> Result<(), FabricError> {
    FabricError::check(call, returned as isize).map(|_| ())
}

#[cfg(test)]
mod tests;
