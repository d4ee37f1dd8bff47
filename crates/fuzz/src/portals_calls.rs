//! Calls of the C functions of `libportals` with any arguments, from two threads at once.
//!
//! What C cannot check is left alone: a pointer to write a result to is null or good, and memory
//! that an entry or a descriptor has is this target's, or is not mapped.

use crate::{Input, panics};
use portals::types::{
    ptl_ct_event_t, ptl_event_t, ptl_handle_any_t, ptl_le_t, ptl_md_t, ptl_me_t, ptl_ni_limits_t,
    ptl_process_t,
};
use std::ffi::{c_int, c_uint, c_void};
use std::ptr::null_mut;
use std::sync::{Mutex, Once, PoisonError};

const CALLS_MAX: usize = 80;
const BYTES: usize = 1 << 14;
/// What is kept of handles that were given out.
const HANDLES_MAX: usize = 64;

#[allow(improper_ctypes, reason = "they are laid out as C does")]
unsafe extern "C" {
    fn PtlInit() -> c_int;
    fn PtlFini();
    fn PtlNIInit(
        iface: u32,
        options: c_uint,
        pid: u32,
        desired: *const ptl_ni_limits_t,
        actual: *mut ptl_ni_limits_t,
        ni: *mut ptl_handle_any_t,
    ) -> c_int;
    fn PtlNIFini(ni: ptl_handle_any_t) -> c_int;
    fn PtlNIStatus(ni: ptl_handle_any_t, index: c_uint, status: *mut u64) -> c_int;
    fn PtlNIHandle(handle: ptl_handle_any_t, ni: *mut ptl_handle_any_t) -> c_int;
    fn PtlGetPhysId(ni: ptl_handle_any_t, id: *mut ptl_process_t) -> c_int;
    fn PtlPTAlloc(
        ni: ptl_handle_any_t,
        options: c_uint,
        eq: ptl_handle_any_t,
        wanted: u32,
        index: *mut u32,
    ) -> c_int;
    fn PtlPTFree(ni: ptl_handle_any_t, index: u32) -> c_int;
    fn PtlPTEnable(ni: ptl_handle_any_t, index: u32) -> c_int;
    fn PtlPTDisable(ni: ptl_handle_any_t, index: u32) -> c_int;
    fn PtlEQAlloc(ni: ptl_handle_any_t, count: u64, eq: *mut ptl_handle_any_t) -> c_int;
    fn PtlEQFree(eq: ptl_handle_any_t) -> c_int;
    fn PtlEQGet(eq: ptl_handle_any_t, event: *mut ptl_event_t) -> c_int;
    fn PtlEQPoll(
        eqs: *const ptl_handle_any_t,
        size: c_uint,
        timeout: u64,
        event: *mut ptl_event_t,
        which: *mut c_uint,
    ) -> c_int;
    fn PtlCTAlloc(ni: ptl_handle_any_t, ct: *mut ptl_handle_any_t) -> c_int;
    fn PtlCTFree(ct: ptl_handle_any_t) -> c_int;
    fn PtlCTGet(ct: ptl_handle_any_t, event: *mut ptl_ct_event_t) -> c_int;
    fn PtlCTInc(ct: ptl_handle_any_t, by: ptl_ct_event_t) -> c_int;
    fn PtlCTSet(ct: ptl_handle_any_t, to: ptl_ct_event_t) -> c_int;
    fn PtlCTCancelTriggered(ct: ptl_handle_any_t) -> c_int;
    fn PtlMDBind(ni: ptl_handle_any_t, md: *const ptl_md_t, out: *mut ptl_handle_any_t) -> c_int;
    fn PtlMDRelease(md: ptl_handle_any_t) -> c_int;
    fn PtlMEAppend(
        ni: ptl_handle_any_t,
        index: u32,
        me: *const ptl_me_t,
        list: u8,
        user: *mut c_void,
        out: *mut ptl_handle_any_t,
    ) -> c_int;
    fn PtlMEUnlink(me: ptl_handle_any_t) -> c_int;
    fn PtlMESearch(
        ni: ptl_handle_any_t,
        index: u32,
        me: *const ptl_me_t,
        op: u8,
        user: *mut c_void,
    ) -> c_int;
    fn PtlLEAppend(
        ni: ptl_handle_any_t,
        index: u32,
        le: *const ptl_le_t,
        list: u8,
        user: *mut c_void,
        out: *mut ptl_handle_any_t,
    ) -> c_int;
    fn PtlPut(
        md: ptl_handle_any_t,
        offset: u64,
        length: u64,
        ack: u8,
        target: ptl_process_t,
        index: u32,
        bits: u64,
        remote: u64,
        user: *mut c_void,
        data: u64,
    ) -> c_int;
    fn PtlGet(
        md: ptl_handle_any_t,
        offset: u64,
        length: u64,
        target: ptl_process_t,
        index: u32,
        bits: u64,
        remote: u64,
        user: *mut c_void,
    ) -> c_int;
    fn PtlTriggeredPut(
        md: ptl_handle_any_t,
        offset: u64,
        length: u64,
        ack: u8,
        target: ptl_process_t,
        index: u32,
        bits: u64,
        remote: u64,
        user: *mut c_void,
        data: u64,
        ct: ptl_handle_any_t,
        threshold: u64,
    ) -> c_int;
    fn PtlAtomic(
        md: ptl_handle_any_t,
        offset: u64,
        length: u64,
        ack: u8,
        target: ptl_process_t,
        index: u32,
        bits: u64,
        remote: u64,
        user: *mut c_void,
        data: u64,
        op: u8,
        datatype: u8,
    ) -> c_int;
}

/// Memory of entries and descriptors, for as long as the process.
static MEMORY: Mutex<Option<usize>> = Mutex::new(None);

fn memory() -> usize {
    let mut place = MEMORY.lock().unwrap_or_else(PoisonError::into_inner);
    *place.get_or_insert_with(|| {
        Box::leak(vec![0_u8; BYTES].into_boxed_slice()).as_mut_ptr() as usize
    })
}

/// Handles that were given out, by whichever thread.
#[derive(Debug, Default)]
struct Handles(Mutex<Vec<ptl_handle_any_t>>);

impl Handles {
    fn add(&self, handle: ptl_handle_any_t) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() < HANDLES_MAX {
            all.push(handle);
        }
    }

    /// One of them, or any number.
    fn pick(&self, input: &mut Input<'_>) -> ptl_handle_any_t {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if all.is_empty() || input.byte() > 240 {
            return input.word();
        }
        all[input.below(all.len())]
    }
}

/// No call panics, hangs, or touches what it was not given.
pub fn portals_calls(bytes: &[u8]) {
    static POLLED: Once = Once::new();
    // SAFETY: before the library reads the environment, and while no other thread does.
    POLLED.call_once(|| unsafe { std::env::set_var("PTL_PROGRESS", "poll") });
    let panics_before = panics::count();
    let handles = Handles::default();
    let (first, second) = bytes.split_at(bytes.len() / 2);
    // SAFETY: the functions have no requirements of their own but good pointers.
    unsafe {
        assert_eq!(PtlInit(), 0, "it can be opened");
        // So that most executions have an interface.
        let mut ni = 0;
        if PtlNIInit(u32::MAX, 1 | 8, u32::MAX, null_mut(), null_mut(), &raw mut ni) == 0 {
            handles.add(ni);
        }
        std::thread::scope(|scope| {
            scope.spawn(|| calls(&handles, first));
            calls(&handles, second);
        });
        for handle in handles.0.into_inner().unwrap_or_else(PoisonError::into_inner) {
            PtlNIFini(handle);
        }
        PtlFini();
    }
    assert_eq!(panics::count(), panics_before, "no call panics");
}

fn calls(handles: &Handles, bytes: &[u8]) {
    let mut input = Input::new(bytes);
    for _ in 0..CALLS_MAX {
        if input.is_empty() {
            return;
        }
        // SAFETY: pointers are null, or lead to values that live for the call.
        unsafe { call(handles, &mut input) };
    }
}

/// Where memory begins, and its length: within this target's, or where nothing is mapped.
fn place(input: &mut Input<'_>) -> (*mut c_void, u64) {
    if input.byte() > 240 {
        return (std::ptr::without_provenance_mut(8 << input.below(3)), u64::from(input.byte()));
    }
    let offset = input.below(64) * 64;
    let length = usize::from(input.byte()) * input.pick(&[0, 1, 16]);
    let at = std::ptr::with_exposed_provenance_mut(memory() + offset);
    (at, length.min(BYTES - offset) as u64)
}

/// One call.
///
/// # Safety
/// None of its own.
unsafe fn call(handles: &Handles, input: &mut Input<'_>) {
    let handle = handles.pick(input);
    let other = handles.pick(input);
    let mut out: ptl_handle_any_t = 0;
    let is_null = input.byte() > 240;
    let out_at = if is_null { null_mut() } else { &raw mut out };
    let index = u32::from(input.pick(&[0_u8, 0, 1, 2, 255])) + u32::from(input.byte() > 250) * 1000;
    let options = if input.flag() { c_uint::from(input.byte()) } else { input.word() as c_uint };
    let (start, length) = place(input);
    let bits = u64::from(input.byte() & 3);
    let remote = input.pick(&[0, 0, 64, u64::MAX]);
    let mut target = ptl_process_t::from_phys(0, 0);
    let mut event = std::mem::MaybeUninit::<ptl_event_t>::uninit();
    let count = ptl_ct_event_t { success: u64::from(input.byte()), failure: 0 };
    let md = ptl_md_t { start, length, options, eq_handle: other, ct_handle: handles.pick(input) };
    // Without those of whole vectors, whose length is a number of pieces.
    let me_options = options & !1;
    let me = ptl_me_t {
        start,
        length,
        ct_handle: other,
        uid: input.pick(&[u32::MAX, 0, 5]),
        options: me_options,
        match_id: ptl_process_t::from_phys(u32::MAX, u32::MAX),
        match_bits: bits,
        ignore_bits: input.pick(&[0, 1, u64::MAX]),
        min_free: u64::from(input.byte()),
    };
    let list = input.pick(&[0, 1, 0, 1, 7]);
    let ack = input.byte() % 6;
    let moved = u64::from(input.byte()) * input.pick(&[0, 1, 64]);
    // SAFETY: as the caller says; what is pointed to lives until the end.
    unsafe {
        PtlGetPhysId(handle, &raw mut target);
        let code = match input.byte() % 24 {
            0 => {
                let kinds = input.pick(&[1 | 8, 2 | 8, 1 | 4, 2 | 4, 0, 15]);
                PtlNIInit(u32::MAX, kinds, u32::MAX, null_mut(), null_mut(), out_at)
            }
            1 if input.byte() > 200 => PtlNIFini(handle),
            2 => PtlNIStatus(handle, index, out_at),
            3 => PtlNIHandle(handle, out_at),
            4 => {
                let mut got = 0;
                PtlPTAlloc(handle, options % 8, other, index, &raw mut got)
            }
            5 => PtlPTFree(handle, index),
            6 => PtlPTEnable(handle, index),
            7 => PtlPTDisable(handle, index),
            8 => PtlEQAlloc(handle, u64::from(input.byte()), out_at),
            9 => PtlEQFree(handle),
            10 | 11 => PtlEQGet(handle, event.as_mut_ptr()),
            12 => {
                let (eqs, mut which) = ([handle, other], 0);
                PtlEQPoll(eqs.as_ptr(), 2, 0, event.as_mut_ptr(), &raw mut which)
            }
            13 => PtlCTAlloc(handle, out_at),
            14 => match input.byte() % 4 {
                0 => PtlCTFree(handle),
                1 => PtlCTInc(handle, count),
                2 => PtlCTSet(handle, count),
                _ => PtlCTCancelTriggered(handle),
            },
            15 => {
                let mut now = count;
                PtlCTGet(handle, if is_null { null_mut() } else { &raw mut now })
            }
            16 => {
                let md = ptl_md_t { options: md.options & !1, ..md };
                PtlMDBind(handle, if is_null { null_mut() } else { &raw const md }, out_at)
            }
            17 => PtlMDRelease(handle),
            18 => PtlMEAppend(handle, index, &raw const me, list, null_mut(), out_at),
            19 => PtlMEUnlink(handle),
            20 => PtlMESearch(handle, index, &raw const me, list, null_mut()),
            21 => {
                let ptl_me_t { start, length, ct_handle, uid, options, .. } = me;
                let le = ptl_le_t { start, length, ct_handle, uid, options };
                PtlLEAppend(handle, index, &raw const le, list, null_mut(), out_at)
            }
            22 => {
                let user = null_mut();
                match input.byte() % 3 {
                    0 => PtlPut(handle, remote, moved, ack, target, index, bits, remote, user, 1),
                    1 => PtlTriggeredPut(
                        handle, 0, moved, ack, target, index, bits, 0, user, 1, other, 2,
                    ),
                    _ => PtlGet(handle, 0, moved, target, index, bits, remote, user),
                }
            }
            _ => {
                let (op, datatype) = (input.byte() % 24, input.byte() % 20);
                PtlAtomic(
                    handle,
                    0,
                    moved,
                    ack,
                    target,
                    index,
                    bits,
                    0,
                    null_mut(),
                    1,
                    op,
                    datatype,
                )
            }
        };
        if code == 0 && out != 0 && !is_null {
            handles.add(out);
        }
    }
}
