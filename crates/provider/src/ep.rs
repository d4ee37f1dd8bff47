//! The endpoint: what is bound to it, and its life.

mod counters;
mod option;
mod peers;
mod state;

use crate::atomic;
use crate::av::Av;
use crate::cntr::Cntr;
use crate::cq::Cq;
use crate::domain::{Domain, DomainCore};
use crate::engine::ADDRESS_BYTES;
use crate::eq::Eq;
use crate::errno::Errno;
use crate::ffi::{self, NoOps, fi_info, fi_ops, fi_ops_cm, fi_ops_ep, fid, fid_domain, fid_ep};
use crate::guard;
use crate::info;
use crate::linger;
use crate::msg;
use crate::object::{self, Object, no_op};
use crate::param;
use crate::report;
use crate::rma;
use crate::stats;
use crate::tagged;
use counters::Counters;
use libc::{c_int, c_void, ssize_t};
use peers::Peers;
use sluice_runtime::ProgressThread;
use state::Direction;
use std::collections::BTreeMap;
use std::sync::Arc;

pub use state::{EpCore, Posted, State};

/// An open endpoint.
#[repr(C)]
pub struct Ep {
    ep: fid_ep,
    pub core: Arc<EpCore>,
    domain: Arc<DomainCore>,
}

// SAFETY: `repr(C)`, begins with `fid_ep`, made below with this class.
unsafe impl Object for Ep {
    const CLASS: usize = ffi::FI_CLASS_EP;

    /// The queues that count on it let go when it closes.
    fn in_use(&self) -> bool {
        false
    }

    fn closing(&self) {
        let thread = match self.core.take_thread().map(ProgressThread::here) {
            // In a fork: the copy goes when the process does.
            Some(None) => return,
            here => here.flatten(),
        };
        // First out of the queues, each under its own lock, so that no reader
        // comes in any more; then the state, which a reader may still be in.
        let (queues, counters) = {
            let state = self.core.shared.lock_anyway();
            ([state.tx.cq.clone(), state.rx.cq.clone()], state.counters())
        };
        let mut registry = self.domain.registry.lock_anyway();
        // From here on who closes a region does not find this endpoint, which has none then.
        self.core.shared.lock_anyway().hide_all();
        registry.detach(&self.core);
        drop(registry);
        for counter in counters {
            counter.detach(&self.core);
        }
        for cq in queues.iter().flatten() {
            cq.detach(&self.core);
        }
        if let Some(thread) = thread {
            self.core.shared.close();
            thread.join();
        }
        let is_sound = self.core.shared.lock().is_some();
        let mut state = self.core.shared.lock_anyway();
        let engine = state.engine.take().or_else(|| state.named.take());
        drop(state);
        if let Some(mut engine) = engine {
            // What a panic has left is not polled.
            if is_sound {
                linger::linger(&mut engine);
            }
            engine.tell_notices();
            report::closed(&engine);
            stats::say(&engine);
        }
    }
}

static OPS: fi_ops = object::ops::<Ep>(bind, control);

static EP_OPS: fi_ops_ep = fi_ops_ep {
    size: size_of::<fi_ops_ep>(),
    cancel,
    getopt: option::getopt,
    setopt: option::setopt,
    tx_ctx: no_op,
    rx_ctx: no_op,
    rx_size_left: no_op,
    tx_size_left: no_op,
};

static CM_OPS: fi_ops_cm = fi_ops_cm {
    size: size_of::<fi_ops_cm>(),
    setname: no_op,
    getname,
    getpeer: no_op,
    connect: no_op,
    listen: no_op,
    accept: no_op,
    reject: no_op,
    shutdown: no_op,
    join: no_op,
};

static COLLECTIVE_OPS: NoOps<11> = NoOps { size: size_of::<NoOps<11>>(), ops: [no_op; 11] };

/// `fi_endpoint`.
///
/// # Safety
/// As libfabric calls it: `domain` and `info` are whole, `out` can be written.
pub unsafe extern "C" fn open(
    domain: *mut fid_domain,
    info: *mut fi_info,
    out: *mut *mut fid_ep,
    context: *mut c_void,
) -> c_int {
    guard::status(|| {
        // SAFETY: the caller's promise; parts of the info may be missing.
        let (domain, info, type_, tx, rx): (&Domain, _, _, _, _) = unsafe {
            let Some(info) = info.as_ref() else { return Err(Errno::INVALID) };
            (
                object::object(domain),
                info,
                info.ep_attr.as_ref().map(|ep| ep.type_),
                info.tx_attr.as_ref().map_or(0, |tx| tx.op_flags),
                info.rx_attr.as_ref().map_or(0, |rx| rx.op_flags),
            )
        };
        if type_.is_some_and(|type_| type_ != ffi::FI_EP_RDM)
            || info.caps & !info::CAPS != 0
            || tx & !info::TX_OP_FLAGS != 0
            || rx & !info::RX_OP_FLAGS != 0
        {
            return Err(Errno::INVALID);
        }
        let state = State {
            engine: None,
            named: None,
            peers: Peers::default(),
            tx: Direction::new(tx),
            rx: Direction::new(rx),
            directed: info.caps & ffi::FI_DIRECTED_RECV != 0,
            source: info.caps & ffi::FI_SOURCE != 0,
            inject_bytes: param::get().inject_bytes,
            multi_recv_min: info::MULTI_RECV_MIN,
            threaded: domain.core.is_threaded(),
            counters: Counters::default(),
            regions: BTreeMap::new(),
            enabled: false,
            caps: info.caps,
            unused: None,
        };
        let ep = Ep {
            ep: fid_ep {
                fid: object::head::<Ep>(context, &OPS),
                ops: &EP_OPS,
                cm: &CM_OPS,
                msg: &msg::OPS,
                rma: &rma::OPS,
                tagged: &tagged::OPS,
                atomic: &atomic::OPS,
                collective: &COLLECTIVE_OPS,
            },
            core: Arc::new(EpCore::new(state, &domain.core)),
            domain: Arc::clone(&domain.core),
        };
        // SAFETY: the caller's promise.
        unsafe { object::hand_out(ep, out) };
        Ok(())
    })
}

/// `fi_endpoint2`: no flag is known.
///
/// # Safety
/// As [`open`].
pub unsafe extern "C" fn open2(
    domain: *mut fid_domain,
    info: *mut fi_info,
    out: *mut *mut fid_ep,
    flags: u64,
    context: *mut c_void,
) -> c_int {
    if flags != 0 {
        return -ffi::FI_EBADFLAGS;
    }
    // SAFETY: the caller's promise.
    unsafe { open(domain, info, out, context) }
}

/// `fi_ep_bind`: an address vector, one or two completion queues, counters, an event
/// queue (which will stay empty).
unsafe extern "C" fn bind(ep: *mut fid, to: *mut fid, flags: u64) -> c_int {
    guard::status(|| {
        // SAFETY: libfabric passes open objects of this provider.
        let (ep, cq, cntr, av, eq): (&Ep, _, _, _, _) = unsafe {
            (
                object::object(ep),
                object::of_class::<Cq>(to),
                object::of_class::<Cntr>(to),
                object::of_class::<Av>(to),
                object::of_class::<Eq>(to),
            )
        };
        let mut state = ep.core.state()?;
        if state.enabled {
            // Sandia OpenSHMEM binds its counters of reads and writes then.
            let is_of_rma = flags & !(ffi::FI_READ | ffi::FI_WRITE) == 0;
            let cntr = cntr.filter(|_| is_of_rma).ok_or(Errno::BAD_STATE)?;
            state.bind_cntr(&cntr.core, flags)?;
            return cntr.core.attach(&ep.core);
        }
        if let Some(cq) = cq {
            state.bind_cq(&cq.core, flags)
        } else if let Some(cntr) = cntr {
            state.bind_cntr(&cntr.core, flags)
        } else if let Some(av) = av {
            state.bind_av(&av.core)
        } else if eq.is_some() {
            Ok(())
        } else {
            Err(Errno::INVALID)
        }
    })
}

/// `fi_control`: enabling, and the flags of operations that have none.
unsafe extern "C" fn control(ep: *mut fid, command: c_int, arg: *mut c_void) -> c_int {
    guard::status(|| {
        // SAFETY: as libfabric calls it.
        let ep: &Ep = unsafe { object::object(ep) };
        if command == ffi::FI_ENABLE {
            // The regions first: that is the order of the locks.
            let mut registry = ep.domain.registry.lock().ok_or(Errno::POISONED)?;
            ep.core.state()?.enable(&ep.core)?;
            return registry.attach(&ep.core);
        }
        let mut state = ep.core.state()?;
        if command != ffi::FI_GETOPSFLAG && command != ffi::FI_SETOPSFLAG {
            return Err(Errno::NO_SYS);
        }
        if arg.is_null() {
            return Err(Errno::INVALID);
        }
        // SAFETY: as libfabric calls it: flags to be read or written.
        let flags = unsafe { &mut *arg.cast::<u64>() };
        let (direction, known) = match *flags & (ffi::FI_TRANSMIT | ffi::FI_RECV) {
            ffi::FI_TRANSMIT => (&mut state.tx, info::TX_OP_FLAGS),
            ffi::FI_RECV => (&mut state.rx, info::RX_OP_FLAGS),
            _ => return Err(Errno::INVALID),
        };
        if command == ffi::FI_GETOPSFLAG {
            *flags = direction.op_flags;
            return Ok(());
        }
        let wanted = *flags & !(ffi::FI_TRANSMIT | ffi::FI_RECV);
        if wanted & !known != 0 {
            return Err(Errno::BAD_FLAGS);
        }
        direction.op_flags = wanted;
        Ok(())
    })
}

/// `fi_getname`: the address that a peer puts into its vector.
unsafe extern "C" fn getname(ep: *mut fid, addr: *mut c_void, len: *mut usize) -> c_int {
    guard::status(|| {
        // SAFETY: as libfabric calls it.
        let (ep, room): (&Ep, usize) = unsafe { (object::object(ep), *len) };
        // SAFETY: as above.
        unsafe { *len = ADDRESS_BYTES };
        if addr.is_null() && room > 0 {
            return Err(Errno::INVALID);
        }
        let bytes = ep.core.state()?.open()?.address().to_bytes();
        // SAFETY: as libfabric calls it: `room` bytes at `addr` can be written.
        unsafe {
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), addr.cast(), room.min(bytes.len()));
        }
        if room < bytes.len() { Err(Errno::TOO_SMALL) } else { Ok(()) }
    })
}

/// `fi_cancel`: -FI_ENOENT if no unmatched receive has this context, and no send that waits for
/// credits or for the word that it was delivered. A send of `FI_DELIVERY_COMPLETE` that has gone
/// may be received though it was cancelled.
unsafe extern "C" fn cancel(ep: *mut fid, context: *mut c_void) -> ssize_t {
    guard::posted(|| {
        // SAFETY: as libfabric calls it.
        let ep: &Ep = unsafe { object::object(ep) };
        let mut state = ep.core.state()?;
        let engine = state.engine.as_mut().ok_or(Errno::BAD_STATE)?;
        if engine.cancel(context as u64) { Ok(()) } else { Err(Errno::NO_ENTRY) }
    })
}
