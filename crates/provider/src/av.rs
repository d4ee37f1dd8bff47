//! The address vector: peers by number.
//!
//! It holds addresses only. What an address means to an endpoint (a peer of its
//! rail) is worked out by that endpoint on first use and remembered there
//! ([`crate::ep`]), because a vector may serve several endpoints. A number that
//! the program holds, `fi_addr_t`, is an index in both kinds of vector, given
//! in the order of insertion.

use crate::domain::{Domain, DomainCore};
use crate::engine::{ADDRESS_BYTES, Address};
use crate::eq::{Eq, EqCore};
use crate::errno::Errno;
use crate::ffi::{self, fi_addr_t, fi_av_attr, fi_ops, fi_ops_av, fid, fid_av, fid_domain};
use crate::guard;
use crate::log::{self, About};
use crate::object::{self, Object, no_control, no_op};
use libc::{c_char, c_int, c_void};
use sluice_runtime::lock::Lock;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// What endpoints look addresses up in.
#[derive(Debug)]
pub struct AvCore {
    table: Lock<Table>,
    /// Grows whenever a number may have changed its meaning.
    generation: AtomicU64,
    /// How many peers the program expects; 0 if it does not say.
    pub count: usize,
    /// Where the ends of insertions are reported, if not by return.
    events: OnceLock<Arc<EqCore>>,
    asynchronous: bool,
    _domain: Arc<DomainCore>,
}

/// Addresses by number and numbers by address.
#[derive(Debug, Default)]
struct Table {
    slots: Vec<Option<Address>>,
    free: Vec<u32>,
    /// The lowest number of each process, by its key: what is known of one over shared
    /// memory is not where it is in the network.
    numbers: HashMap<[u8; 32], u32>,
    /// How many insertions found their address present already.
    doubles: usize,
}

impl Table {
    fn insert(&mut self, address: Address) -> u32 {
        let number = match self.free.pop() {
            Some(number) => {
                self.slots[number as usize] = Some(address);
                number
            }
            None => {
                self.slots.push(Some(address));
                (self.slots.len() - 1) as u32
            }
        };
        let lowest = self.numbers.entry(*address.key()).or_insert(number);
        if *lowest != number {
            self.doubles += 1;
            *lowest = number.min(*lowest);
        }
        number
    }

    fn remove(&mut self, number: fi_addr_t) -> Option<Address> {
        let slot = self.slots.get_mut(usize::try_from(number).ok()?)?;
        let address = slot.take()?;
        let number = number as u32;
        self.free.push(number);
        if self.doubles > 0
            && let Some(other) = self
                .slots
                .iter()
                .position(|slot| slot.is_some_and(|other| other.key() == address.key()))
        {
            self.doubles -= 1;
            self.numbers.insert(*address.key(), other as u32);
        } else {
            self.numbers.remove(address.key());
        }
        Some(address)
    }

    fn get(&self, number: fi_addr_t) -> Option<Address> {
        *self.slots.get(usize::try_from(number).ok()?)?
    }
}

impl AvCore {
    /// The address with this number.
    pub fn address(&self, number: fi_addr_t) -> Option<Address> {
        self.table.lock()?.get(number)
    }

    /// The number of this address.
    pub fn number(&self, address: &Address) -> Option<fi_addr_t> {
        self.table.lock()?.numbers.get(address.key()).map(|number| fi_addr_t::from(*number))
    }

    /// Differs from an earlier answer if what was looked up since then may be
    /// wrong now.
    #[inline]
    pub fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }
}

/// An open address vector.
#[repr(C)]
pub struct Av {
    av: fid_av,
    pub core: Arc<AvCore>,
}

// SAFETY: `repr(C)`, begins with `fid_av`, made below with this class.
unsafe impl Object for Av {
    const CLASS: usize = ffi::FI_CLASS_AV;

    fn in_use(&self) -> bool {
        object::shared(&self.core)
    }
}

static OPS: fi_ops = object::ops::<Av>(bind, no_control);

static AV_OPS: fi_ops_av = fi_ops_av {
    size: size_of::<fi_ops_av>(),
    insert,
    insertsvc: no_op,
    insertsym: no_op,
    remove,
    lookup,
    straddr,
    av_set: no_op,
};

/// `fi_av_open`.
///
/// # Safety
/// As libfabric calls it: `domain` and `attr` are whole, `out` can be written.
pub unsafe extern "C" fn open(
    domain: *mut fid_domain,
    attr: *mut fi_av_attr,
    out: *mut *mut fid_av,
    context: *mut c_void,
) -> c_int {
    guard::status(|| {
        // SAFETY: the caller's promise.
        let (domain, attr): (&Domain, _) = unsafe {
            let Some(attr) = attr.as_mut() else { return Err(Errno::INVALID) };
            (object::object(domain), attr)
        };
        if attr.type_ > ffi::FI_AV_TABLE {
            return Err(Errno::INVALID);
        }
        // A named vector would be shared between processes.
        if !attr.name.is_null() {
            return Err(Errno::NO_SYS);
        }
        // How addresses are spread over hosts is a hint, and nothing here depends on it.
        if attr.flags & !(ffi::FI_EVENT | ffi::FI_SYMMETRIC) != 0 {
            return Err(Errno::BAD_FLAGS);
        }
        if attr.type_ == ffi::FI_AV_UNSPEC {
            attr.type_ = match domain.core.av_type {
                ffi::FI_AV_UNSPEC => ffi::FI_AV_MAP,
                given => given,
            };
        }
        let av = Av {
            av: fid_av { fid: object::head::<Av>(context, &OPS), ops: &AV_OPS },
            core: Arc::new(AvCore {
                table: domain.core.lock(Table::default()),
                generation: AtomicU64::new(0),
                count: attr.count,
                events: OnceLock::new(),
                asynchronous: attr.flags & ffi::FI_EVENT != 0,
                _domain: Arc::clone(&domain.core),
            }),
        };
        // SAFETY: the caller's promise.
        unsafe { object::hand_out(av, out) };
        Ok(())
    })
}

/// `fi_av_bind`: an event queue.
unsafe extern "C" fn bind(av: *mut fid, to: *mut fid, _flags: u64) -> c_int {
    guard::status(|| {
        // SAFETY: libfabric passes open objects of this provider.
        let (av, eq): (&Av, _) = unsafe { (object::object(av), object::of_class::<Eq>(to)) };
        let eq = eq.ok_or(Errno::INVALID)?;
        av.core.events.set(Arc::clone(&eq.core)).map_err(|_| Errno::INVALID)
    })
}

unsafe extern "C" fn insert(
    av: *mut fid_av,
    addr: *const c_void,
    count: usize,
    numbers: *mut fi_addr_t,
    flags: u64,
    context: *mut c_void,
) -> c_int {
    guard::count(|| {
        let known = ffi::FI_MORE | ffi::FI_SYNC_ERR;
        if flags & !known != 0 {
            return Err(Errno::BAD_FLAGS);
        }
        if count > 0 && addr.is_null() {
            return Err(Errno::INVALID);
        }
        // SAFETY: as libfabric calls it: `count` addresses of our length can
        // be read, `count` numbers written if the pointer is not null, and the
        // context is an array of `count` ints if FI_SYNC_ERR says so.
        unsafe {
            let object: &Av = object::object(av);
            let errors = (flags & ffi::FI_SYNC_ERR != 0).then(|| context.cast::<c_int>());
            if errors.is_some_and(|errors| errors.is_null()) {
                return Err(Errno::INVALID);
            }
            let events = object.core.events.get().filter(|_| object.core.asynchronous);
            if object.core.asynchronous && events.is_none() {
                return Err(Errno::NO_EQ);
            }
            let mut good = 0;
            for index in 0..count {
                let bytes = addr.cast::<u8>().add(index * ADDRESS_BYTES);
                let outcome = object.core.insert(std::slice::from_raw_parts(bytes, ADDRESS_BYTES));
                if let Some(errors) = errors {
                    *errors.add(index) = outcome.err().map_or(0, |errno| errno.0);
                }
                if let (Err(errno), Some(events)) = (outcome, events) {
                    events.refused(av.cast(), context, index as u64, errno);
                }
                good += usize::from(outcome.is_ok());
                if !numbers.is_null() {
                    *numbers.add(index) = outcome.unwrap_or(ffi::FI_ADDR_NOTAVAIL);
                }
            }
            match events {
                Some(events) => {
                    events.inserted(av.cast(), context, good as u64);
                    Ok(0)
                }
                None => Ok(good),
            }
        }
    }) as c_int
}

impl AvCore {
    fn insert(&self, bytes: &[u8]) -> Result<fi_addr_t, Errno> {
        let address = Address::from_bytes(bytes).map_err(|error| {
            log::warn(About::Addresses, &format!("address not inserted: {error}"));
            Errno::BAD_ADDRESS
        })?;
        let mut table = self.table.lock().ok_or(Errno::POISONED)?;
        Ok(fi_addr_t::from(table.insert(address)))
    }
}

unsafe extern "C" fn remove(
    av: *mut fid_av,
    numbers: *mut fi_addr_t,
    count: usize,
    _flags: u64,
) -> c_int {
    guard::status(|| {
        // SAFETY: as libfabric calls it: `count` numbers can be read.
        let (av, numbers): (&Av, &[fi_addr_t]) = unsafe {
            let numbers = if count == 0 { &[] } else { std::slice::from_raw_parts(numbers, count) };
            (object::object(av), numbers)
        };
        let mut table = av.core.table.lock().ok_or(Errno::POISONED)?;
        let mut outcome = Ok(());
        for &number in numbers {
            if table.remove(number).is_none() {
                outcome = Err(Errno::INVALID);
            }
        }
        av.core.generation.fetch_add(1, Ordering::Release);
        outcome
    })
}

unsafe extern "C" fn lookup(
    av: *mut fid_av,
    number: fi_addr_t,
    addr: *mut c_void,
    len: *mut usize,
) -> c_int {
    guard::status(|| {
        // SAFETY: as libfabric calls it.
        let av: &Av = unsafe { object::object(av) };
        let bytes = av.core.address(number).ok_or(Errno::INVALID)?.to_bytes();
        // SAFETY: as libfabric calls it: `*len` bytes at `addr` can be written.
        unsafe {
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), addr.cast(), bytes.len().min(*len));
            *len = bytes.len();
        }
        Ok(())
    })
}

unsafe extern "C" fn straddr(
    _av: *mut fid_av,
    addr: *const c_void,
    buf: *mut c_char,
    len: *mut usize,
) -> *const c_char {
    guard::value(buf.cast_const(), || {
        // SAFETY: as libfabric calls it: `addr` is an address of our length.
        let bytes = unsafe { std::slice::from_raw_parts(addr.cast::<u8>(), ADDRESS_BYTES) };
        let text = match Address::from_bytes(bytes) {
            Ok(address) => format!("sluice://{address}"),
            Err(error) => error.to_string(),
        };
        // SAFETY: as libfabric calls it: `*len` bytes at `buf` can be written.
        unsafe {
            put_text(&text, buf, *len);
            *len = text.len() + 1;
        }
        buf.cast_const()
    })
}

/// Writes as much of `text` as fits, and its end.
///
/// # Safety
/// `len` bytes at `buf` can be written, or it is null.
pub unsafe fn put_text(text: &str, buf: *mut c_char, len: usize) {
    if buf.is_null() || len == 0 {
        return;
    }
    let count = text.len().min(len - 1);
    // SAFETY: the caller's promise; `count + 1 <= len`.
    unsafe {
        std::ptr::copy_nonoverlapping(text.as_ptr(), buf.cast(), count);
        *buf.add(count) = 0;
    }
}
