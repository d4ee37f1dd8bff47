//! An endpoint of a provider: reliable messages of bounded length, and reads of memory.
//!
//! It is used by one thread at a time. Whoever begins an operation hands a buffer to the
//! provider and has it back with [`Endpoint::poll`]; what is under way when the endpoint
//! is dropped is ended by closing it.

mod objects;
mod queue;
mod registered;

use crate::ffi::{
    self, FI_MR_ENDPOINT, FI_MR_LOCAL, fi_addr_t, fid_av, fid_cq, fid_domain, fid_ep, fid_fabric,
    fid_mr,
};
use crate::memory::{BUFFER_BYTES, BufferId, Memory, Registrar, State};
use crate::{FabricError, Offer};
use libc::ssize_t;
pub use registered::Registered;
use std::collections::VecDeque;
use std::os::fd::RawFd;
use std::ptr;

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
    /// How much memory of the client is registered, and what of it could not be closed.
    registered: usize,
    unclosed: Vec<*mut fid_mr>,
    pid: u32,
}

// SAFETY: libfabric's objects may be used by any thread, one at a time (`FI_THREAD_DOMAIN`),
// which an exclusive borrow sees to.
unsafe impl Send for Endpoint {}
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
            registered: 0,
            unclosed: Vec::new(),
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
        assert!(len <= BUFFER_BYTES && self.memory.state(buffer) == State::Held);
        if !self.offer.reads_memory() {
            return Err(FabricError::of("fi_read", ffi::FI_EOPNOTSUPP as isize));
        }
        // SAFETY: an endpoint that reads memory has the table; else as in `send`.
        let returned = unsafe {
            let read = (*(*self.ep).rma).read;
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
}

#[cfg(test)]
mod tests;
