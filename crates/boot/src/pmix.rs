//! PMIx: the launcher's server, spoken to by libpmix, which is loaded when it is needed.
//!
//! An exchange puts this rank's bytes under a fresh key, commits, fences and gets everybody's.
//!
//! Invariants: what crosses into C has the layout of `abi.rs`, and lives longer than the call.
//! What libpmix hands out is checked for its type, copied, then freed. Keys are never used twice
//! in one process, even when it starts a job anew.

mod abi;

use std::ffi::{CStr, CString, c_int, c_void};
use std::sync::atomic::{AtomicU32, Ordering};

use super::BLOB_MAX;
use super::env::SIZE_MAX;
use super::error::{JobError, shown};
use super::wait::Waits;
use abi::{ByteObject, Calls, Data, Info, Proc, Value};

static EXCHANGES: AtomicU32 = AtomicU32::new(0);

pub(super) struct Pmix {
    calls: Calls,
    me: Proc,
    size: u32,
    waits: Waits,
}

impl Pmix {
    /// Loads libpmix, and joins the job that its server knows this process to be of.
    pub fn start(waits: Waits) -> Result<Pmix, JobError> {
        let calls = Calls::load()?;
        let mut me = Proc { nspace: [0; abi::NAME_LEN], rank: 0 };
        // SAFETY: `me` is a writable pmix_proc_t for the whole call; no info is passed.
        let status = unsafe { (calls.init)(&raw mut me, std::ptr::null_mut(), 0) };
        calls.check("PMIx_Init", status)?;
        let mut pmix = Pmix { calls, me, size: 0, waits };
        let size = pmix.get(&pmix.everybody(), abi::JOB_SIZE, |value| match value.kind {
            // SAFETY: the type says that this field is the one that is set.
            abi::UINT32 => Some(unsafe { value.data.uint32 }),
            _ => None,
        })?;
        if !(1..=SIZE_MAX).contains(&size) || me.rank >= size {
            let text = format!("rank {} of {size}", me.rank);
            return Err(malformed("the job's size", &text));
        }
        pmix.size = size;
        Ok(pmix)
    }

    pub fn rank(&self) -> u32 {
        self.me.rank
    }

    pub fn size(&self) -> u32 {
        self.size
    }

    pub fn exchange(&mut self, mine: &[u8]) -> Result<Vec<Vec<u8>>, JobError> {
        let key = format!("sluice.{}", EXCHANGES.fetch_add(1, Ordering::Relaxed));
        let key = CString::new(key).expect("a key without zeros");
        // PMIx does not say what becomes of an empty object, so every one begins with a byte that
        // the reader drops.
        let mut object = vec![0];
        object.extend(mine);
        let bytes = ByteObject { bytes: object.as_mut_ptr().cast(), size: object.len() };
        let mut value = Value { kind: abi::BYTE_OBJECT, data: Data { bytes } };
        // SAFETY: the key is zero-terminated and shorter than a key may be. `value` says that it
        // is a byte object and points to `object`, which is alive and has that length; libpmix
        // copies it before it returns.
        let status = unsafe { (self.calls.put)(abi::GLOBAL, key.as_ptr(), &raw mut value) };
        self.calls.check("PMIx_Put", status)?;
        // SAFETY: takes no argument; PMIx_Init has succeeded.
        let status = unsafe { (self.calls.commit)() };
        self.calls.check("PMIx_Commit", status)?;
        self.fence(true)?;
        (0..self.size)
            .map(|rank| match rank == self.me.rank {
                true => Ok(mine.to_vec()),
                false => self.get(&Proc { rank, ..self.me }, &key, blob),
            })
            .collect()
    }

    pub fn barrier(&mut self) -> Result<(), JobError> {
        self.fence(false)
    }

    pub fn finish(&mut self) -> Result<(), JobError> {
        // SAFETY: PMIx_Init has succeeded, and this undoes it once, for `Job::finish` takes the job
        // by value. No info is passed.
        let status = unsafe { (self.calls.finalize)(std::ptr::null(), 0) };
        self.calls.check("PMIx_Finalize", status)
    }

    pub fn abort(&mut self, code: i32, why: &str) {
        let why = CString::new(why.replace('\0', " ")).unwrap_or_default();
        // Whoever gives up has no use for a second error.
        // SAFETY: the text is zero-terminated and alive. No process is named, which means all.
        let _ = unsafe { (self.calls.abort)(code, why.as_ptr(), std::ptr::null_mut(), 0) };
    }

    fn everybody(&self) -> Proc {
        Proc { rank: abi::WILDCARD, ..self.me }
    }

    fn limit(&self) -> Info {
        let seconds = c_int::try_from(self.waits.timeout.as_secs()).unwrap_or(c_int::MAX);
        Info::of(abi::TIMEOUT, Value { kind: abi::INT, data: Data { integer: seconds } })
    }

    /// Waits for everybody, and with `collect` for what everybody has put.
    fn fence(&self, collect: bool) -> Result<(), JobError> {
        let status = self.waits.with_progress(|| {
            let all = [self.everybody()];
            let infos = [
                self.limit(),
                Info::of(abi::COLLECT, Value { kind: abi::BOOL, data: Data { flag: collect } }),
            ];
            // SAFETY: both arrays are alive for the call, have the lengths that are passed and the
            // layouts that `abi.rs` asserts; PMIx_Init has succeeded. It may be called by any
            // thread.
            unsafe { (self.calls.fence)(all.as_ptr(), all.len(), infos.as_ptr(), infos.len()) }
        });
        self.check("PMIx_Fence", status)
    }

    /// Looks `key` up for `whom`, and gives what it finds to `read`, which copies what it needs.
    fn get<T>(
        &self,
        whom: &Proc,
        key: &CStr,
        read: impl FnOnce(&Value) -> Option<T>,
    ) -> Result<T, JobError> {
        let infos = [self.limit()];
        let mut found: *mut Value = std::ptr::null_mut();
        // SAFETY: `whom`, the zero-terminated key and `infos` are alive for the call and have the
        // layouts that `abi.rs` asserts; `found` is writable.
        let status = unsafe {
            (self.calls.get)(whom, key.as_ptr(), infos.as_ptr(), infos.len(), &raw mut found)
        };
        self.check("PMIx_Get", status)?;
        if found.is_null() {
            return Err(malformed(&key.to_string_lossy(), "nothing"));
        }
        // SAFETY: after success a non-null `found` points to a pmix_value_t that is ours until we
        // free it below; nobody else holds it.
        let value = unsafe { &*found };
        let (kind, read) = (value.kind, read(value));
        if kind == abi::BYTE_OBJECT {
            // SAFETY: the type says that this field is set. libpmix allocated the bytes with
            // malloc (or left null, which free takes), and hands them over with the value.
            unsafe { libc::free(value.data.bytes.bytes.cast::<c_void>()) };
        }
        // SAFETY: libpmix allocated the value with malloc, as its own macro for releasing it
        // assumes too; no reference to it is used from here on.
        unsafe { libc::free(found.cast::<c_void>()) };
        read.ok_or_else(|| {
            malformed(&key.to_string_lossy(), &format!("a value of type {kind} or too long"))
        })
    }

    fn check(&self, call: &'static str, status: i32) -> Result<(), JobError> {
        match status {
            abi::ERR_TIMEOUT => Err(JobError::Late {
                whom: "the launcher or another rank".into(),
                during: call.into(),
                waited_s: self.waits.timeout.as_secs(),
            }),
            abi::ERR_PARTIAL => {
                Err(JobError::Pmix { call, status, text: "another rank has ended".into() })
            }
            _ => self.calls.check(call, status),
        }
    }
}

impl Calls {
    fn check(&self, call: &'static str, status: i32) -> Result<(), JobError> {
        if status == abi::SUCCESS {
            return Ok(());
        }
        // SAFETY: takes an integer, and returns null or a zero-terminated text that is static.
        let text = unsafe { (self.error_string)(status) };
        let text = if text.is_null() {
            String::new()
        } else {
            // SAFETY: as above; it is not null.
            shown(unsafe { CStr::from_ptr(text) }.to_bytes())
        };
        Err(JobError::Pmix { call, status, text })
    }
}

/// What another rank put: its bytes after the first.
fn blob(value: &Value) -> Option<Vec<u8>> {
    if value.kind != abi::BYTE_OBJECT {
        return None;
    }
    // SAFETY: the type is checked above, and says that this field is the one that is set.
    let object = unsafe { value.data.bytes };
    if object.bytes.is_null() || !(1..=BLOB_MAX + 1).contains(&object.size) {
        return None;
    }
    // SAFETY: not null, and libpmix says that it points to `size` bytes, which nobody changes
    // before `get` frees them; they are copied here.
    let bytes = unsafe { std::slice::from_raw_parts(object.bytes.cast::<u8>(), object.size) };
    Some(bytes[1..].to_vec())
}

fn malformed(during: &str, answer: &str) -> JobError {
    JobError::Malformed {
        from: "the PMIx server".into(),
        during: during.into(),
        answer: answer.into(),
    }
}
