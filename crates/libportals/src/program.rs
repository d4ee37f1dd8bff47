//! A program's side of the library in safe Rust: as much of it as measurements
//! and tests of puts and gets between two processes need.
//!
//! Every call goes to the function that a C program calls, by an address that
//! the compiler does not see through, as through the loader's table. So nothing
//! of the library (guards, lock, progress) is left out or inlined.
//!
//! Invariants: memory that the network can reach is never given back, so no
//! handle, stale or not, and no operation under way leads to memory that is
//! something else by now. The program touches it under the lock of the
//! interface it belongs to, and so does the library.

use crate::api::{
    PtlAbort, PtlCTAlloc, PtlCTGet, PtlCTWait, PtlFini, PtlGet, PtlGetPhysId, PtlInit, PtlLEAppend,
    PtlMDBind, PtlMEAppend, PtlNIFini, PtlNIInit, PtlPTAlloc, PtlPut,
};
use crate::codes::{PTL_FAIL, PTL_OK, RETURNS};
use crate::consts::{
    PTL_CT_ACK_REQ, PTL_CT_NONE, PTL_EQ_NONE, PTL_IFACE_DEFAULT, PTL_MD_EVENT_CT_ACK,
    PTL_MD_EVENT_CT_REPLY, PTL_ME_EVENT_CT_COMM, PTL_ME_OP_GET, PTL_ME_OP_PUT, PTL_NI_MATCHING,
    PTL_NI_NO_MATCHING, PTL_NI_PHYSICAL, PTL_NID_ANY, PTL_NO_ACK_REQ, PTL_PID_ANY,
    PTL_PRIORITY_LIST, PTL_UID_ANY,
};
use crate::handle::Kind;
use crate::ni_slot::NiSlot;
use crate::object::unpack;
use crate::types::{
    ptl_ct_event_t, ptl_handle_any_t, ptl_le_t, ptl_md_t, ptl_me_t, ptl_phys_t, ptl_process_t,
};
use std::ffi::{c_int, c_void};
use std::hint::black_box;
use std::ptr;

mod queue;

pub use queue::{Arrived, Counts, Queue};

/// Why a call did not do what it was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A function returned another code than `PTL_OK`.
    #[error("{function} returned {}", code_text(*.code))]
    Code {
        /// Its name.
        function: &'static str,
        /// What it returned.
        code: c_int,
    },
    /// A counter has counted failures.
    #[error("{0} operations failed")]
    Failures(u64),
    /// An event that tells of something else than a put that went well.
    #[error("an unexpected event ({0})")]
    Event(u8),
    /// A range goes beyond the memory, or the memory is of another interface.
    #[error("bytes beyond the memory, or memory of another interface")]
    Memory,
}

fn code_text(code: c_int) -> String {
    match RETURNS.iter().find(|(_, value, _)| *value == code) {
        Some((name, _, text)) => format!("{name}: {text}"),
        None => format!("{code}"),
    }
}

fn checked(function: &'static str, code: c_int) -> Result<(), Error> {
    if code == PTL_OK { Ok(()) } else { Err(Error::Code { function, code }) }
}

/// A process as a physical interface names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Process {
    /// The node.
    pub nid: u32,
    /// The process on it.
    pub pid: u32,
}

/// What an entry admits, and what a descriptor is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// Puts.
    Put,
    /// Gets.
    Get,
}

/// A counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counter(ptl_handle_any_t);

/// A memory descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Descriptor(ptl_handle_any_t);

/// Memory that the network can reach; it stays for as long as the process.
#[derive(Clone, Copy, Debug)]
pub struct Memory {
    start: *mut u8,
    len: usize,
    slot: &'static NiSlot,
}

impl Memory {
    /// Its bytes from `at`, `len` of them.
    fn part(&self, at: usize, len: usize) -> Result<*mut u8, Error> {
        let end = at.checked_add(len).ok_or(Error::Memory)?;
        if end > self.len {
            return Err(Error::Memory);
        }
        Ok(self.start.wrapping_add(at))
    }

    /// Copies bytes out of it.
    ///
    /// # Errors
    /// [`Error::Memory`] beyond its end.
    pub fn read(&self, at: usize, to: &mut [u8]) -> Result<(), Error> {
        let from = self.part(at, to.len())?;
        let _held = self.slot.lock();
        // SAFETY: the bytes are within the memory (`part`), which was allocated
        // and initialized by `Interface::memory` and is never given back. No
        // reference to it exists anywhere, so `to` does not overlap it and
        // nothing is aliased. Of this process only the library writes to it,
        // for the interface that it belongs to (`Interface` binds no other),
        // and with that interface's lock, which is held here. Other processes
        // write by system calls or not at all: large messages are read by their
        // receiver.
        unsafe { ptr::copy_nonoverlapping(from, to.as_mut_ptr(), to.len()) };
        Ok(())
    }

    /// Copies bytes into it.
    ///
    /// # Errors
    /// [`Error::Memory`] beyond its end.
    pub fn write(&self, at: usize, from: &[u8]) -> Result<(), Error> {
        let to = self.part(at, from.len())?;
        let _held = self.slot.lock();
        // SAFETY: as in `read`. Other processes may read meanwhile, by system
        // calls; what they see is then old or new bytes, which is theirs to
        // bear.
        unsafe { ptr::copy_nonoverlapping(from.as_ptr(), to, from.len()) };
        Ok(())
    }
}

/// Where an operation aims.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target {
    /// The process.
    pub process: Process,
    /// Its portal table index.
    pub portal: u32,
    /// What its entry must match; unused without matching.
    pub match_bits: u64,
}

impl Target {
    fn id(&self) -> ptl_process_t {
        ptl_process_t::from_phys(self.process.nid, self.process.pid)
    }
}

/// An open physical interface. Closed when dropped.
#[derive(Debug)]
pub struct Interface {
    ni: ptl_handle_any_t,
    matching: bool,
    slot: &'static NiSlot,
}

impl Interface {
    /// Opens the interface with matching or without, with whatever process
    /// identifier is free.
    ///
    /// # Errors
    /// What `PtlInit` and `PtlNIInit` return.
    pub fn open(matching: bool) -> Result<Interface, Error> {
        checked("PtlInit", PtlInit())?;
        let kind = if matching { PTL_NI_MATCHING } else { PTL_NI_NO_MATCHING };
        let mut ni = 0;
        // SAFETY: no limits are asked for or wanted; the handle is written to a
        // variable of its type.
        let code = unsafe {
            PtlNIInit(
                PTL_IFACE_DEFAULT,
                kind | PTL_NI_PHYSICAL,
                PTL_PID_ANY,
                ptr::null(),
                ptr::null_mut(),
                &raw mut ni,
            )
        };
        let opened = checked("PtlNIInit", code).and_then(|()| match unpack(Kind::Ni, ni) {
            Ok(parts) => Ok(Interface { ni, matching, slot: parts.slot }),
            Err(_) => Err(Error::Code { function: "PtlNIInit", code: PTL_FAIL }),
        });
        if opened.is_err() {
            PtlFini();
        }
        opened
    }

    /// This process.
    ///
    /// # Errors
    /// What `PtlGetPhysId` returns.
    pub fn identity(&self) -> Result<Process, Error> {
        let mut id = ptl_process_t::from_phys(0, 0);
        // SAFETY: the result is written to a variable of its type.
        checked("PtlGetPhysId", unsafe { PtlGetPhysId(self.ni, &raw mut id) })?;
        let ptl_phys_t { nid, pid } = id.as_phys();
        Ok(Process { nid, pid })
    }

    /// Takes memory for the network to reach, every page present. It is never
    /// given back.
    #[must_use]
    pub fn memory(&self, len: usize) -> Memory {
        let start = Box::into_raw(vec![1; len].into_boxed_slice()).cast();
        Memory { start, len, slot: self.slot }
    }

    /// A counter, at zero.
    ///
    /// # Errors
    /// What `PtlCTAlloc` returns.
    pub fn counter(&self) -> Result<Counter, Error> {
        let mut ct = 0;
        // SAFETY: the handle is written to a variable of its type.
        checked("PtlCTAlloc", unsafe { PtlCTAlloc(self.ni, &raw mut ct) })?;
        Ok(Counter(ct))
    }

    /// A descriptor of memory, for puts whose acknowledgements or gets whose
    /// replies `counter` counts.
    ///
    /// # Errors
    /// What `PtlMDBind` returns; [`Error::Memory`] for that of another
    /// interface.
    pub fn bind(&self, memory: &Memory, op: Op, counter: Counter) -> Result<Descriptor, Error> {
        let options = match op {
            Op::Put => PTL_MD_EVENT_CT_ACK,
            Op::Get => PTL_MD_EVENT_CT_REPLY,
        };
        let md = ptl_md_t {
            start: self.own(memory)?,
            length: memory.len as u64,
            options,
            eq_handle: PTL_EQ_NONE,
            ct_handle: counter.0,
        };
        let mut handle = 0;
        // SAFETY: both lead to variables of their types. The memory that the
        // descriptor names is valid for as long as the process, and nothing
        // refers to it that the library's reads and writes could contradict
        // (`Memory`).
        let code = unsafe { PtlMDBind(self.ni, &raw const md, &raw mut handle) };
        checked("PtlMDBind", code)?;
        Ok(Descriptor(handle))
    }

    /// Lets every process put to or get from memory, at a portal table entry
    /// that is taken for it. `counter`, if any, counts the operations.
    ///
    /// # Errors
    /// What `PtlPTAlloc`, `PtlMEAppend` or `PtlLEAppend` return;
    /// [`Error::Memory`] for that of another interface.
    pub fn expose(
        &self,
        memory: &Memory,
        op: Op,
        portal: u32,
        match_bits: u64,
        counter: Option<Counter>,
    ) -> Result<(), Error> {
        let start = self.own(memory)?;
        let length = memory.len as u64;
        let ct_handle = counter.map_or(PTL_CT_NONE, |counter| counter.0);
        let admits = match op {
            Op::Put => PTL_ME_OP_PUT,
            Op::Get => PTL_ME_OP_GET,
        };
        let options = if counter.is_some() { admits | PTL_ME_EVENT_CT_COMM } else { admits };
        let uid = PTL_UID_ANY;
        let mut index = 0;
        // SAFETY: the index is written to a variable of its type.
        let code = unsafe { PtlPTAlloc(self.ni, 0, PTL_EQ_NONE, portal, &raw mut index) };
        checked("PtlPTAlloc", code)?;
        let mut handle = 0;
        if !self.matching {
            let le = ptl_le_t { start, length, ct_handle, uid, options };
            // SAFETY: the entry and the handle are variables of their types. For
            // the memory that the entry names see `bind`. The pointer of the
            // program's own is never followed.
            let code = unsafe {
                PtlLEAppend(
                    self.ni,
                    index,
                    &raw const le,
                    PTL_PRIORITY_LIST,
                    ptr::null_mut(),
                    &raw mut handle,
                )
            };
            return checked("PtlLEAppend", code);
        }
        let me = ptl_me_t {
            start,
            length,
            ct_handle,
            uid,
            options,
            match_id: ptl_process_t::from_phys(PTL_NID_ANY, PTL_PID_ANY),
            match_bits,
            ignore_bits: 0,
            min_free: 0,
        };
        // SAFETY: as for the other kind of entry.
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

    /// Puts the first `length` bytes of a descriptor. If it is to be counted,
    /// the counter of the descriptor learns of the acknowledgement.
    ///
    /// # Errors
    /// What `PtlPut` returns.
    #[inline]
    pub fn put(
        &self,
        from: Descriptor,
        length: u64,
        counted: bool,
        to: &Target,
    ) -> Result<(), Error> {
        let put = black_box(PtlPut as extern "C" fn(_, _, _, _, _, _, _, _, _, _) -> _);
        let ack = if counted { PTL_CT_ACK_REQ } else { PTL_NO_ACK_REQ };
        let own: *mut c_void = ptr::null_mut();
        checked(
            "PtlPut",
            put(from.0, 0_u64, length, ack, to.id(), to.portal, to.match_bits, 0_u64, own, 0_u64),
        )
    }

    /// Gets the first `length` bytes into those of a descriptor, whose counter
    /// learns of the reply.
    ///
    /// # Errors
    /// What `PtlGet` returns.
    #[inline]
    pub fn get(&self, into: Descriptor, length: u64, from: &Target) -> Result<(), Error> {
        let get = black_box(PtlGet as extern "C" fn(_, _, _, _, _, _, _, _) -> _);
        let own: *mut c_void = ptr::null_mut();
        checked(
            "PtlGet",
            get(into.0, 0_u64, length, from.id(), from.portal, from.match_bits, 0_u64, own),
        )
    }

    /// Waits until a counter has counted so much in all.
    ///
    /// # Errors
    /// What `PtlCTWait` returns; [`Error::Failures`] if it has counted any.
    #[inline]
    pub fn wait(&self, counter: Counter, count: u64) -> Result<(), Error> {
        let wait = black_box(PtlCTWait as unsafe extern "C" fn(_, _, _) -> _);
        let mut event = ptl_ct_event_t::default();
        // SAFETY: the event is written to a variable of its type.
        checked("PtlCTWait", unsafe { wait(counter.0, count, &raw mut event) })?;
        if event.failure > 0 { Err(Error::Failures(event.failure)) } else { Ok(()) }
    }

    /// What a counter has counted.
    ///
    /// # Errors
    /// What `PtlCTGet` returns; [`Error::Failures`] if it has counted any.
    pub fn count(&self, counter: Counter) -> Result<u64, Error> {
        let mut event = ptl_ct_event_t::default();
        // SAFETY: the event is written to a variable of its type.
        checked("PtlCTGet", unsafe { PtlCTGet(counter.0, &raw mut event) })?;
        if event.failure > 0 { Err(Error::Failures(event.failure)) } else { Ok(event.success) }
    }

    fn own(&self, memory: &Memory) -> Result<*mut c_void, Error> {
        if ptr::eq(self.slot, memory.slot) { Ok(memory.start.cast()) } else { Err(Error::Memory) }
    }
}

impl Drop for Interface {
    fn drop(&mut self) {
        // It was opened here, so neither can refuse.
        let _ = PtlNIFini(self.ni);
        PtlFini();
    }
}

/// Ends every wait of this process with `PTL_ABORTED`.
pub fn abort() {
    PtlAbort();
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::{Mutex, MutexGuard, PoisonError};

    /// The interfaces are the process's: one test at a time has them.
    fn alone() -> MutexGuard<'static, ()> {
        static ALONE: Mutex<()> = Mutex::new(());
        ALONE.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Calls went on as if nothing had happened, and the thread was gone.
    #[test]
    fn a_panic_puts_an_interface_out_of_service_until_it_is_opened_again() {
        let _alone = alone();
        let ni = Interface::open(true).expect("an interface");
        let counter = ni.counter().unwrap();
        let failed = |function| Err(Error::Code { function, code: PTL_FAIL });
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| ni.wait(counter, 1));
            let fault = || ni.slot.with(ni.slot.generation(), |_| panic!("on purpose"));
            assert!(catch_unwind(AssertUnwindSafe(fault)).is_err());
            assert_eq!(waiter.join().unwrap(), failed("PtlCTWait"));
        });
        for _ in 0..2 {
            assert_eq!(ni.counter().err(), failed("PtlCTAlloc").err());
            assert_eq!(ni.identity().err(), failed("PtlGetPhysId").err());
            assert_eq!(ni.wait(counter, 1), failed("PtlCTWait"));
            assert_eq!(Interface::open(true).err(), failed("PtlNIInit").err());
        }
        drop(ni);
        let again = Interface::open(true).expect("an interface");
        assert!(again.counter().is_ok());
    }

    /// Two interfaces of one process are two ends; here it is one and itself.
    #[test]
    fn puts_and_gets_of_a_process_with_itself() {
        let _alone = alone();
        for matching in [true, false] {
            let ni = Interface::open(matching).expect("an interface");
            let (from, into) = (ni.memory(10_000), ni.memory(10_000));
            let (acks, arrivals, replies) =
                (ni.counter().unwrap(), ni.counter().unwrap(), ni.counter().unwrap());
            let puts = ni.bind(&from, Op::Put, acks).expect("a descriptor");
            let gets = ni.bind(&from, Op::Get, replies).expect("a descriptor");
            ni.expose(&into, Op::Put, 3, 7, Some(arrivals)).expect("an entry");
            ni.expose(&into, Op::Get, 4, 7, None).expect("an entry");
            let process = ni.identity().expect("an identity");
            let at = |portal| Target { process, portal, match_bits: 7 };
            for (round, len) in [0, 8, 10_000].into_iter().enumerate() {
                let sent = vec![round as u8 + 5; len];
                from.write(0, &sent).expect("within");
                ni.put(puts, len as u64, true, &at(3)).expect("a put");
                ni.wait(acks, round as u64 + 1).expect("an acknowledgement");
                ni.wait(arrivals, round as u64 + 1).expect("an arrival");
                from.write(0, &vec![0; len]).expect("within");
                ni.get(gets, len as u64, &at(4)).expect("a get");
                ni.wait(replies, round as u64 + 1).expect("a reply");
                let mut got = vec![0; len];
                from.read(0, &mut got).expect("within");
                assert_eq!(got, sent);
                assert_eq!(ni.count(replies), Ok(round as u64 + 1));
            }
            assert_eq!(from.read(9_999, &mut [0; 2]), Err(Error::Memory));
            // Beyond the descriptor.
            assert!(matches!(ni.put(puts, 10_001, true, &at(3)), Err(Error::Code { .. })));
        }
    }

    #[test]
    fn errors_are_told_in_words() {
        let error = Error::Code { function: "PtlPut", code: crate::codes::PTL_ARG_INVALID };
        assert!(error.to_string().starts_with("PtlPut returned PTL_ARG_INVALID: An argument"));
    }
}
