//! Buffers of this side's own, which a provider sends from, receives and reads into.
//!
//! They come in slabs, each registered with the provider where it wants that. A buffer is
//! free, held by whoever fills or reads it, or busy: the provider has it, and nobody else
//! touches it until its operation is done.

use crate::FabricError;
use crate::ffi::{self, fi_mr_attr, fid, fid_domain, fid_ep, fid_mr};
use libc::{c_void, iovec};
use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ptr;

/// Length of a buffer, and so of the longest message. What providers send at once.
pub const BUFFER_BYTES: usize = 16 << 10;
/// Buffers of a slab.
const SLAB_BUFFERS: usize = 16;
/// Most slabs of an endpoint: 1 GiB.
const SLABS_MAX: usize = 4096;
const PAGE_BYTES: usize = 4096;

/// Names a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BufferId(u32);

/// What a provider may keep in the context of an operation (`struct fi_context2`), and
/// which buffer it is of.
#[repr(C)]
struct Context {
    internal: [*mut c_void; 8],
    buffer: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Free,
    Held,
    Sending,
    Receiving,
    Matching,
    Reading,
}

struct Slab {
    at: *mut u8,
    region: *mut fid_mr,
    contexts: *mut [Context; SLAB_BUFFERS],
    states: [State; SLAB_BUFFERS],
}

/// All buffers of an endpoint.
#[derive(Default)]
pub(crate) struct Memory {
    slabs: Vec<Slab>,
    free: Vec<BufferId>,
}

fn layout() -> Layout {
    Layout::from_size_align(SLAB_BUFFERS * BUFFER_BYTES, PAGE_BYTES).expect("a good layout")
}

impl BufferId {
    fn slab(self) -> usize {
        self.0 as usize / SLAB_BUFFERS
    }

    fn place(self) -> usize {
        self.0 as usize % SLAB_BUFFERS
    }
}

impl Memory {
    /// A buffer that is free, which is held from now on.
    pub(crate) fn take(&mut self, registrar: &Registrar) -> Result<BufferId, FabricError> {
        if self.free.is_empty() {
            self.grow(registrar)?;
        }
        let buffer = self.free.pop().expect("there is one now");
        self.set(buffer, State::Held);
        Ok(buffer)
    }

    pub(crate) fn give_back(&mut self, buffer: BufferId) {
        assert_eq!(self.state(buffer), State::Held, "a buffer is given back by its holder");
        self.set(buffer, State::Free);
        self.free.push(buffer);
    }

    fn grow(&mut self, registrar: &Registrar) -> Result<(), FabricError> {
        let short = || FabricError::of("memory for messages", ffi::FI_ENOMEM as isize);
        if self.slabs.len() >= SLABS_MAX {
            return Err(short());
        }
        // SAFETY: the layout has a length.
        let at = unsafe { alloc_zeroed(layout()) };
        if at.is_null() {
            return Err(short());
        }
        let first = (self.slabs.len() * SLAB_BUFFERS) as u32;
        let context =
            |place| Context { internal: [ptr::null_mut(); 8], buffer: first + place as u32 };
        let contexts = Box::into_raw(Box::new(std::array::from_fn(context)));
        let mut slab =
            Slab { at, region: ptr::null_mut(), contexts, states: [State::Free; SLAB_BUFFERS] };
        if registrar.is_local {
            let len = SLAB_BUFFERS * BUFFER_BYTES;
            // SAFETY: the slab is there until the region is closed.
            match unsafe {
                registrar.register(at, len, ffi::FI_SEND | ffi::FI_RECV | ffi::FI_READ, 0)
            } {
                Ok(region) => slab.region = region,
                Err(why) => {
                    slab.free();
                    return Err(why);
                }
            }
        }
        self.slabs.push(slab);
        self.free.extend((first..first + SLAB_BUFFERS as u32).rev().map(BufferId));
        Ok(())
    }

    pub(crate) fn state(&self, buffer: BufferId) -> State {
        self.slabs[buffer.slab()].states[buffer.place()]
    }

    pub(crate) fn set(&mut self, buffer: BufferId, state: State) {
        self.slabs[buffer.slab()].states[buffer.place()] = state;
    }

    pub(crate) fn at(&self, buffer: BufferId) -> *mut u8 {
        let slab = &self.slabs[buffer.slab()];
        // SAFETY: the slab has so many buffers.
        unsafe { slab.at.add(buffer.place() * BUFFER_BYTES) }
    }

    /// The bytes of a buffer that is held.
    pub(crate) fn bytes(&self, buffer: BufferId) -> &[u8] {
        assert_eq!(self.state(buffer), State::Held, "bytes are read by their holder");
        // SAFETY: the buffer is initialized, and no provider has it.
        unsafe { std::slice::from_raw_parts(self.at(buffer), BUFFER_BYTES) }
    }

    /// As [`Memory::bytes`].
    pub(crate) fn bytes_mut(&mut self, buffer: BufferId) -> &mut [u8] {
        assert_eq!(self.state(buffer), State::Held, "bytes are written by their holder");
        // SAFETY: as above, and the borrow is the only one.
        unsafe { std::slice::from_raw_parts_mut(self.at(buffer), BUFFER_BYTES) }
    }

    /// What a provider wants beside the address of registered memory.
    pub(crate) fn descriptor(&self, buffer: BufferId) -> *mut c_void {
        let region = self.slabs[buffer.slab()].region;
        if region.is_null() {
            return ptr::null_mut();
        }
        // SAFETY: the region is open as long as the slab.
        unsafe { (*region).mem_desc }
    }

    pub(crate) fn context(&self, buffer: BufferId) -> *mut c_void {
        let contexts = self.slabs[buffer.slab()].contexts;
        // SAFETY: so many are there.
        unsafe { (&raw mut (*contexts)[buffer.place()]).cast() }
    }

    /// The buffer whose operation has this context, if it is one of these.
    pub(crate) fn of_context(&self, context: *mut c_void) -> Option<BufferId> {
        let is_in = |slab: &&Slab| {
            let begin = slab.contexts as usize;
            (begin..begin + size_of::<[Context; SLAB_BUFFERS]>()).contains(&(context as usize))
        };
        self.slabs.iter().find(is_in)?;
        // SAFETY: it is among the contexts, whose addresses alone are given away.
        Some(BufferId(unsafe { (*context.cast::<Context>()).buffer }))
    }

    /// Closes what is registered.
    pub(crate) fn unregister(&mut self) {
        for slab in &mut self.slabs {
            let region = std::mem::replace(&mut slab.region, ptr::null_mut());
            if !region.is_null() {
                // SAFETY: it was registered and not closed, and no operation is under way.
                unsafe { close(region.cast()) };
            }
        }
    }

    /// Frees all of it. To be called when no provider knows of it any more; without that
    /// it stays.
    pub(crate) fn free(self) {
        self.slabs.iter().for_each(Slab::free);
    }
}

impl Slab {
    fn free(&self) {
        // SAFETY: both were allocated so, and nobody has them any more.
        unsafe {
            dealloc(self.at, layout());
            drop(Box::from_raw(self.contexts));
        }
    }
}

/// What memory is registered with.
#[derive(Clone, Copy)]
pub(crate) struct Registrar {
    pub(crate) domain: *mut fid_domain,
    pub(crate) ep: *mut fid_ep,
    /// This side's own buffers are to be registered too.
    pub(crate) is_local: bool,
    /// Memory belongs to an endpoint.
    pub(crate) is_of_endpoint: bool,
}

impl Registrar {
    /// Registers memory under a key, which counts only where the provider makes none.
    ///
    /// # Safety
    /// What is to be done with the memory is allowed as long as it is registered.
    pub(crate) unsafe fn register(
        &self,
        at: *mut u8,
        len: usize,
        access: u64,
        key: u64,
    ) -> Result<*mut fid_mr, FabricError> {
        let piece = iovec { iov_base: at.cast(), iov_len: len };
        let attributes = fi_mr_attr {
            mr_iov: &raw const piece,
            iov_count: 1,
            access,
            offset: 0,
            requested_key: key,
            context: ptr::null_mut(),
            auth_key_size: 0,
            auth_key: ptr::null_mut(),
            iface: 0,
            device: 0,
        };
        let mut region = ptr::null_mut();
        // SAFETY: the domain is open; the attributes are there for the call.
        let returned = unsafe {
            let domain = self.domain;
            ((*(*domain).mr).regattr)(
                &raw mut (*domain).fid,
                &raw const attributes,
                0,
                &raw mut region,
            )
        };
        FabricError::check("fi_mr_regattr", returned as isize)?;
        if self.is_of_endpoint {
            // SAFETY: the region and the endpoint are open.
            let bound = unsafe {
                let fid: *mut fid = region.cast();
                match ((*(*fid).ops).bind)(fid, self.ep.cast(), 0) {
                    0 => ((*(*fid).ops).control)(fid, ffi::FI_ENABLE, ptr::null_mut()),
                    failed => failed,
                }
            };
            if let Err(why) = FabricError::check("fi_mr_bind", bound as isize) {
                // SAFETY: it is open, and nobody uses it.
                unsafe { close(region.cast()) };
                return Err(why);
            }
        }
        Ok(region)
    }
}

/// Closes an object. Says whether it is closed.
///
/// # Safety
/// It is open, and was handed out by libfabric.
pub(crate) unsafe fn close(object: *mut fid) -> bool {
    // SAFETY: the caller's promise.
    unsafe { ((*(*object).ops).close)(object) == 0 }
}
