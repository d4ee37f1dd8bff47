//! Whoever asks in vain again and again gives the core away: each function that a
//! program can wait at without blocking. Yields are counted by a function of this
//! program in the place of the system's.

use portals::codes::{PTL_CT_NONE_REACHED, PTL_EQ_EMPTY, PTL_NO_SPACE, PTL_OK};
use portals::consts::*;
use portals::types::*;
use sluice_runtime::spin::LOOKS_ALONE;
use std::cell::Cell;
use std::ffi::{c_int, c_uint, c_void};
use std::ptr::{null, null_mut};
use std::sync::{Mutex, MutexGuard, PoisonError};

type Handle = ptl_handle_any_t;

// Of the library, which is linked for its types as well.
unsafe extern "C" {
    safe fn PtlInit() -> c_int;
    safe fn PtlFini();
    fn PtlNIInit(
        iface: u32,
        options: c_uint,
        pid: u32,
        desired: *const ptl_ni_limits_t,
        actual: *mut ptl_ni_limits_t,
        ni: *mut Handle,
    ) -> c_int;
    fn PtlNIStatus(ni: Handle, register: c_uint, status: *mut c_int) -> c_int;
    fn PtlCTAlloc(ni: Handle, ct: *mut Handle) -> c_int;
    fn PtlCTGet(ct: Handle, event: *mut ptl_ct_event_t) -> c_int;
    fn PtlCTPoll(
        cts: *const Handle,
        tests: *const u64,
        size: c_uint,
        timeout_ms: c_uint,
        event: *mut ptl_ct_event_t,
        which: *mut c_uint,
    ) -> c_int;
    fn PtlEQAlloc(ni: Handle, count: u64, eq: *mut Handle) -> c_int;
    fn PtlEQGet(eq: Handle, event: *mut ptl_event_t) -> c_int;
    fn PtlEQPoll(
        eqs: *const Handle,
        size: c_uint,
        timeout_ms: c_uint,
        event: *mut ptl_event_t,
        which: *mut c_uint,
    ) -> c_int;
    fn PtlPTAlloc(ni: Handle, options: c_uint, eq: Handle, wanted: u32, index: *mut u32) -> c_int;
    fn PtlMEAppend(
        ni: Handle,
        index: u32,
        me: *const ptl_me_t,
        list: u8,
        user_ptr: *mut c_void,
        handle: *mut Handle,
    ) -> c_int;
}

thread_local! {
    static YIELDS: Cell<u32> = const { Cell::new(0) };
}

/// Counts those of each thread apart: the library has threads of its own.
#[unsafe(no_mangle)]
extern "C" fn sched_yield() -> c_int {
    YIELDS.with(|yields| yields.set(yields.get() + 1));
    0
}

/// An interface of this process, for one test at a time.
struct Open {
    ni: Handle,
    _alone: MutexGuard<'static, ()>,
}

impl Open {
    /// With room for so few entries that one more is soon refused.
    fn new() -> Open {
        static ALONE: Mutex<()> = Mutex::new(());
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        assert_eq!(PtlInit(), PTL_OK);
        let limits = ptl_ni_limits_t {
            max_entries: 2,
            max_unexpected_headers: 2,
            max_mds: 2,
            max_cts: 2,
            max_eqs: 2,
            max_pt_index: 63,
            max_iovecs: 2,
            max_list_size: 2,
            max_triggered_ops: 2,
            max_msg_size: 64,
            max_atomic_size: 64,
            max_fetch_atomic_size: 64,
            max_waw_ordered_size: 64,
            max_war_ordered_size: 64,
            max_volatile_size: 64,
            features: 0,
        };
        let mut ni = 0;
        let options = PTL_NI_MATCHING | PTL_NI_PHYSICAL;
        // SAFETY: limits and handle are variables of the types that are wanted.
        let code = unsafe {
            PtlNIInit(PTL_IFACE_DEFAULT, options, PTL_PID_ANY, &limits, null_mut(), &mut ni)
        };
        assert_eq!(code, PTL_OK);
        Open { ni, _alone: alone }
    }

    fn counter(&self) -> Handle {
        let mut ct = 0;
        // SAFETY: the handle is a variable of its type.
        assert_eq!(unsafe { PtlCTAlloc(self.ni, &mut ct) }, PTL_OK);
        ct
    }

    fn queue(&self) -> Handle {
        let mut eq = 0;
        // SAFETY: the handle is a variable of its type.
        assert_eq!(unsafe { PtlEQAlloc(self.ni, 8, &mut eq) }, PTL_OK);
        eq
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        PtlFini();
    }
}

/// `attempt`, as often in vain, has yielded. It does so earlier where the interface
/// was opened before, and another process wanted the core.
#[track_caller]
fn yields(mut attempt: impl FnMut()) {
    YIELDS.set(0);
    (0..LOOKS_ALONE).for_each(|_| attempt());
    assert_ne!(YIELDS.get(), 0);
}

fn no_event() -> ptl_event_t {
    // SAFETY: pointers, integers and a union of integers: zeros are values of all.
    unsafe { std::mem::zeroed() }
}

#[test]
fn a_counter_that_does_not_change_is_yielded_at() {
    let open = Open::new();
    let ct = open.counter();
    let mut value = ptl_ct_event_t::default();
    // SAFETY: the result is a variable of its type.
    yields(|| assert_eq!(unsafe { PtlCTGet(ct, &mut value) }, PTL_OK));
}

#[test]
fn an_empty_queue_is_yielded_at() {
    let open = Open::new();
    let eq = open.queue();
    let mut event = no_event();
    // SAFETY: the result is a variable of its type.
    yields(|| assert_eq!(unsafe { PtlEQGet(eq, &mut event) }, PTL_EQ_EMPTY));
}

#[test]
fn a_poll_of_counters_with_no_time_is_yielded_at() {
    let open = Open::new();
    let (ct, test) = (open.counter(), 1);
    let (mut value, mut which) = (ptl_ct_event_t::default(), 0);
    // SAFETY: one handle and one value; the results are variables of their types.
    let mut poll = || unsafe { PtlCTPoll(&ct, &test, 1, 0, &mut value, &mut which) };
    yields(|| assert_eq!(poll(), PTL_CT_NONE_REACHED));
}

#[test]
fn a_poll_of_queues_with_no_time_is_yielded_at() {
    let open = Open::new();
    let eq = open.queue();
    let (mut event, mut which) = (no_event(), 0);
    // SAFETY: one handle; the results are variables of their types.
    let mut poll = || unsafe { PtlEQPoll(&eq, 1, 0, &mut event, &mut which) };
    yields(|| assert_eq!(poll(), PTL_EQ_EMPTY));
}

#[test]
fn a_status_that_does_not_change_is_yielded_at() {
    let open = Open::new();
    let mut status = 0;
    // SAFETY: the result is a variable of its type.
    yields(|| assert_eq!(unsafe { PtlNIStatus(open.ni, 0, &mut status) }, PTL_OK));
}

#[test]
fn a_call_that_is_refused_for_want_of_room_is_yielded_at() {
    let open = Open::new();
    let mut index = 0;
    // SAFETY: the result is a variable of its type.
    let code = unsafe { PtlPTAlloc(open.ni, 0, PTL_EQ_NONE, PTL_PT_ANY, &mut index) };
    assert_eq!(code, PTL_OK);
    let entry = ptl_me_t {
        start: null_mut(),
        length: 0,
        ct_handle: PTL_CT_NONE,
        uid: PTL_UID_ANY,
        options: PTL_ME_OP_PUT,
        match_id: ptl_process_t::from_phys(PTL_NID_ANY, PTL_PID_ANY),
        match_bits: 0,
        ignore_bits: 0,
        min_free: 0,
    };
    let mut handle = 0;
    let user = null::<c_void>().cast_mut();
    // SAFETY: an entry of no memory; the result is a variable of its type.
    let mut append =
        || unsafe { PtlMEAppend(open.ni, index, &entry, PTL_PRIORITY_LIST, user, &mut handle) };
    assert_eq!((append(), append()), (PTL_OK, PTL_OK));
    yields(|| assert_eq!(append(), PTL_NO_SPACE));
}
