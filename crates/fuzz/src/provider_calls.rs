//! Calls of the functions of `libsluice-fi` with any arguments, from two threads at once.
//!
//! What C cannot check is left alone: objects are open ones, of any class where a function takes
//! any; a pointer to write a result to is good; memory that is sent or received is this target's.

use crate::{Input, panics};
use sluice_fabric::ffi::{
    FI_CQ_FORMAT_TAGGED, FI_ENABLE, FI_RECV, FI_THREAD_SAFE, FI_TRANSMIT, fi_av_attr, fi_cq_attr,
    fi_cq_err_entry, fi_cq_tagged_entry, fi_eq_attr, fi_eq_err_entry, fi_info, fi_msg,
    fi_msg_tagged, fid, fid_av, fid_cq, fid_domain, fid_ep, fid_eq, fid_fabric, fid_mr,
};
use std::ffi::{c_int, c_void};
use std::mem::{MaybeUninit, zeroed};
use std::ptr::{null, null_mut};
use std::sync::OnceLock;

const CALLS_MAX: usize = 80;
const BYTES: usize = 1 << 15;
/// Room for an address, and then some.
const ADDRESS_ROOM: usize = 128;
const ENTRIES: usize = 8;

/// An object, or memory, for both threads.
struct Shared<T>(*mut T);

impl<T> Clone for Shared<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Shared<T> {}

// SAFETY: memory is touched by the library alone; objects are of a domain for threads that call
// at once (FI_THREAD_SAFE); what is offered is not changed after it was made.
unsafe impl<T> Send for Shared<T> {}
// SAFETY: as above.
unsafe impl<T> Sync for Shared<T> {}

/// What is open.
struct Open {
    fabric: Shared<fid_fabric>,
    domain: Shared<fid_domain>,
    av: Shared<fid_av>,
    eq: Shared<fid_eq>,
    cq: Shared<fid_cq>,
    eps: [Shared<fid_ep>; 2],
    address: [u8; ADDRESS_ROOM],
    memory: Shared<u8>,
}

/// No call panics, hangs, or touches what it was not given; and all can be closed afterwards.
pub fn provider_calls(bytes: &[u8]) {
    let panics_before = panics::count();
    let (first, second) = bytes.split_at(bytes.len() / 2);
    // SAFETY: as libfabric opens, calls and closes objects of a provider.
    unsafe {
        let open = Open::new();
        std::thread::scope(|scope| {
            scope.spawn(|| calls(&open, first));
            calls(&open, second);
        });
        open.close();
    }
    assert_eq!(panics::count(), panics_before, "no call panics");
}

/// What `fi_getinfo` offers, and memory: made once, never given back.
fn lasting() -> (Shared<fi_info>, Shared<u8>) {
    static LASTING: OnceLock<(Shared<fi_info>, Shared<u8>)> = OnceLock::new();
    *LASTING.get_or_init(|| {
        let mut info = null_mut();
        // SAFETY: as libfabric calls it; without hints.
        unsafe {
            let provider = &*sluice_provider::fi_prov_ini();
            let getinfo = provider.getinfo.expect("it has one");
            assert_eq!(getinfo(provider.fi_version, null(), null(), 0, null(), &raw mut info), 0);
            (*(*info).domain_attr).hints.threading = FI_THREAD_SAFE;
        }
        (Shared(info), Shared(Box::leak(vec![0_u8; BYTES].into_boxed_slice()).as_mut_ptr()))
    })
}

impl Open {
    /// # Safety
    /// None of its own.
    unsafe fn new() -> Open {
        let (Shared(info), memory) = lasting();
        let (mut fabric, mut domain, mut av) = (null_mut(), null_mut(), null_mut());
        let (mut eq, mut cq, mut eps) = (null_mut(), null_mut(), [null_mut(); 2]);
        let mut address = [0; ADDRESS_ROOM];
        // SAFETY: attributes are whole; zeros are a value of each.
        unsafe {
            let provider = &*sluice_provider::fi_prov_ini();
            let open = provider.fabric.expect("it has one");
            assert_eq!(open((*info).fabric_attr, &raw mut fabric, null_mut()), 0);
            (*fabric).api_version = provider.fi_version;
            let ops = &*(*fabric).ops;
            assert_eq!((ops.domain)(fabric, info, &raw mut domain, null_mut()), 0);
            let mut eq_attr: fi_eq_attr = zeroed();
            assert_eq!((ops.eq_open)(fabric, &raw mut eq_attr, &raw mut eq, null_mut()), 0);
            let ops = &*(*domain).ops;
            let mut av_attr: fi_av_attr = zeroed();
            assert_eq!((ops.av_open)(domain, &raw mut av_attr, &raw mut av, null_mut()), 0);
            let mut cq_attr = fi_cq_attr { format: FI_CQ_FORMAT_TAGGED, ..zeroed() };
            assert_eq!((ops.cq_open)(domain, &raw mut cq_attr, &raw mut cq, null_mut()), 0);
            for ep in &mut eps {
                assert_eq!((ops.endpoint)(domain, info, ep, null_mut()), 0);
                let at: *mut fid = ep.cast();
                let base = &*(*at).ops;
                assert_eq!((base.bind)(at, av.cast(), 0), 0);
                assert_eq!((base.bind)(at, cq.cast(), FI_TRANSMIT | FI_RECV), 0);
                assert_eq!((base.control)(at, FI_ENABLE, null_mut()), 0);
                let mut len = ADDRESS_ROOM;
                let name = address.as_mut_ptr().cast();
                assert_eq!(((*(**ep).cm).getname)(at, name, &raw mut len), 0);
                let insert = (*(*av).ops).insert;
                assert_eq!(insert(av, name, 1, null_mut(), 0, null_mut()), 1);
            }
        }
        let (fabric, domain, av) = (Shared(fabric), Shared(domain), Shared(av));
        let (eq, cq, eps) = (Shared(eq), Shared(cq), eps.map(Shared));
        Open { fabric, domain, av, eq, cq, eps, address, memory }
    }

    /// All objects, those first that others are of.
    fn objects(&self) -> [*mut fid; 7] {
        let [one, other] = self.eps;
        [
            one.0.cast(),
            other.0.cast(),
            self.cq.0.cast(),
            self.av.0.cast(),
            self.eq.0.cast(),
            self.domain.0.cast(),
            self.fabric.0.cast(),
        ]
    }

    /// # Safety
    /// Nobody uses the objects any more.
    unsafe fn close(self) {
        for object in self.objects() {
            // SAFETY: it is open, and closed once.
            assert_eq!(unsafe { ((*(*object).ops).close)(object) }, 0, "it can be closed");
        }
    }
}

fn calls(open: &Open, bytes: &[u8]) {
    let mut input = Input::new(bytes);
    for _ in 0..CALLS_MAX {
        if input.is_empty() {
            return;
        }
        // SAFETY: the objects are open, and pointers lead to values that live for the call.
        unsafe {
            match input.byte() % 8 {
                0 | 1 => message(open, &mut input),
                2 | 3 => tagged(open, &mut input),
                4 | 5 => read(open, &mut input),
                6 => addresses(open, &mut input),
                _ => others(open, &mut input),
            }
        }
    }
}

/// Memory of the target: where it begins, and how long it is.
fn place(open: &Open, input: &mut Input<'_>) -> (*mut c_void, usize) {
    let offset = input.below(64) * 64;
    let length = usize::from(input.byte()) * input.pick(&[0, 1, 64]);
    (open.memory.0.wrapping_add(offset).cast(), length.min(BYTES - offset))
}

/// Flags as programs have them, or any.
fn flags(input: &mut Input<'_>) -> u64 {
    if input.byte() > 200 { input.word() } else { 1 << (16 + input.byte() % 46) }
}

/// # Safety
/// The objects are open.
unsafe fn message(open: &Open, input: &mut Input<'_>) {
    let ep = open.eps[input.below(2)].0;
    let (at, len) = place(open, input);
    let peer = input.pick(&[0, 1, 2, u64::MAX]);
    let context = std::ptr::without_provenance_mut(usize::from(input.byte()));
    let iov = [libc::iovec { iov_base: at, iov_len: len }; 2];
    let iov_count = input.below(3);
    let (addr, data) = (peer, input.word());
    let desc = null_mut();
    let msg = fi_msg { msg_iov: iov.as_ptr(), desc, iov_count, addr, context, data };
    // SAFETY: as the caller says; what is sent or received is the target's.
    unsafe {
        let ops = &*(*ep).msg;
        match input.byte() % 8 {
            0 => (ops.send)(ep, at, len, desc.cast(), peer, context),
            1 => (ops.recv)(ep, at, len, desc.cast(), peer, context),
            2 => (ops.inject)(ep, at, len, peer),
            3 => (ops.senddata)(ep, at, len, desc.cast(), data, peer, context),
            4 => (ops.sendmsg)(ep, &raw const msg, flags(input)),
            5 => (ops.recvmsg)(ep, &raw const msg, flags(input)),
            6 => (ops.sendv)(ep, iov.as_ptr(), desc, iov_count, peer, context),
            _ => (ops.recvv)(ep, iov.as_ptr(), desc, iov_count, peer, context),
        };
    }
}

/// # Safety
/// The objects are open.
unsafe fn tagged(open: &Open, input: &mut Input<'_>) {
    let ep = open.eps[input.below(2)].0;
    let (at, len) = place(open, input);
    let peer = input.pick(&[0, 1, 2, u64::MAX]);
    let context = std::ptr::without_provenance_mut(usize::from(input.byte()));
    let (tag, ignore) = (u64::from(input.byte() & 3), input.pick(&[0, 1, u64::MAX]));
    let iov = [libc::iovec { iov_base: at, iov_len: len }; 2];
    let iov_count = input.below(3);
    let (addr, data, desc) = (peer, input.word(), null_mut());
    let msg =
        fi_msg_tagged { msg_iov: iov.as_ptr(), desc, iov_count, addr, tag, ignore, context, data };
    // SAFETY: as the caller says; what is sent or received is the target's.
    unsafe {
        let ops = &*(*ep).tagged;
        match input.byte() % 8 {
            0 => (ops.send)(ep, at, len, desc.cast(), peer, tag, context),
            1 => (ops.recv)(ep, at, len, desc.cast(), peer, tag, ignore, context),
            2 => (ops.inject)(ep, at, len, peer, tag),
            3 => (ops.senddata)(ep, at, len, desc.cast(), data, peer, tag, context),
            4 => (ops.sendmsg)(ep, &raw const msg, flags(input)),
            5 | 6 => (ops.recvmsg)(ep, &raw const msg, flags(input)),
            _ => (ops.injectdata)(ep, at, len, data, peer, tag),
        };
    }
}

/// # Safety
/// The objects are open.
unsafe fn read(open: &Open, input: &mut Input<'_>) {
    let cq = open.cq.0;
    let mut entries = [const { MaybeUninit::<fi_cq_tagged_entry>::uninit() }; ENTRIES];
    let (at, mut from) = (entries.as_mut_ptr().cast(), [0; ENTRIES]);
    let count = input.below(ENTRIES + 1);
    // SAFETY: as the caller says; there is room for as many entries.
    unsafe {
        let ops = &*(*cq).ops;
        match input.byte() % 6 {
            0 | 1 => (ops.read)(cq, at, count),
            2 => (ops.readfrom)(cq, at, count, from.as_mut_ptr()),
            3 => {
                let mut error: fi_cq_err_entry = zeroed();
                (ops.readerr)(cq, &raw mut error, flags(input))
            }
            4 => (ops.sread)(cq, at, count, null(), 0),
            _ => {
                let mut text = [0; 64];
                let code = input.word() as c_int;
                (ops.strerror)(cq, code, null(), text.as_mut_ptr(), input.below(64));
                0
            }
        };
    }
}

/// # Safety
/// The objects are open.
unsafe fn addresses(open: &Open, input: &mut Input<'_>) {
    let av = open.av.0;
    let mut bytes = open.address;
    if input.flag() {
        bytes[input.below(ADDRESS_ROOM)] ^= input.byte();
    }
    let mut numbers = [u64::from(input.byte() % 5), input.word()];
    // SAFETY: as the caller says; an address is shorter than the room.
    unsafe {
        let ops = &*(*av).ops;
        match input.byte() % 4 {
            0 => {
                let at = bytes.as_ptr().cast();
                let mut error: c_int = 0;
                let context = (&raw mut error).cast();
                (ops.insert)(av, at, input.below(2), numbers.as_mut_ptr(), flags(input), context)
            }
            1 if input.byte() > 200 => {
                (ops.remove)(av, numbers.as_mut_ptr(), 1 + input.below(2), 0)
            }
            2 => {
                let (mut text, mut len) = ([0; ADDRESS_ROOM], input.below(ADDRESS_ROOM));
                (ops.straddr)(av, bytes.as_ptr().cast(), text.as_mut_ptr(), &raw mut len);
                0
            }
            _ => {
                let mut len = input.below(ADDRESS_ROOM);
                (ops.lookup)(av, numbers[input.below(2)], bytes.as_mut_ptr().cast(), &raw mut len)
            }
        };
    }
}

/// # Safety
/// The objects are open.
unsafe fn others(open: &Open, input: &mut Input<'_>) {
    let ep = open.eps[input.below(2)].0;
    let at: *mut fid = ep.cast();
    let objects = open.objects();
    let any = objects[input.below(objects.len())];
    let mut room = [0_u64; 16];
    let mut len = input.below(size_of_val(&room) + 1);
    let (start, length) = place(open, input);
    // SAFETY: as the caller says; results have room.
    unsafe {
        let ops = &*(*ep).ops;
        let (level, name) = (c_int::from(input.byte() % 3), c_int::from(input.byte() % 24));
        match input.byte() % 8 {
            0 => {
                (ops.cancel)(at, std::ptr::without_provenance_mut(usize::from(input.byte())));
            }
            1 => {
                (ops.getopt)(at, level, name, room.as_mut_ptr().cast(), &raw mut len);
            }
            2 => {
                (ops.setopt)(at, level, name, room.as_ptr().cast(), len);
            }
            3 => {
                ((*(*ep).cm).getname)(at, room.as_mut_ptr().cast(), &raw mut len);
            }
            4 => {
                room[0] = flags(input);
                ((*(*any).ops).control)(any, name, room.as_mut_ptr().cast());
            }
            5 => {
                let to = objects[input.below(objects.len())];
                ((*(*any).ops).bind)(any, to, flags(input));
            }
            6 => {
                let domain = open.domain.0;
                let (mut mr, key): (*mut fid_mr, u64) = (null_mut(), input.word());
                let reg = (*(*domain).mr).reg;
                let (access, context) = (flags(input), null_mut());
                let to = &raw mut mr;
                if reg(domain.cast(), start, length, access, 0, key, 0, to, context) == 0 {
                    let mr: *mut fid = mr.cast();
                    assert_eq!(((*(*mr).ops).close)(mr), 0, "it can be closed");
                }
            }
            _ => {
                let (eq, mut event) = (open.eq.0, 0);
                let ops = &*(*eq).ops;
                let mut error: fi_eq_err_entry = zeroed();
                match input.byte() % 4 {
                    0 => {
                        (ops.read)(eq, &raw mut event, room.as_mut_ptr().cast(), len, flags(input))
                    }
                    1 => (ops.write)(eq, event, room.as_ptr().cast(), len, flags(input)),
                    2 => (ops.sread)(eq, &raw mut event, room.as_mut_ptr().cast(), len, 0, 0),
                    _ => (ops.readerr)(eq, &raw mut error, flags(input)),
                };
            }
        }
    }
}
