//! The endpoint: what is bound to it, its life, and the dispatch of what it
//! has finished.

mod option;
mod peers;

use crate::av::{Av, AvCore};
use crate::cq::{Cq, CqCore, Entry, Failed, Kept, Sink};
use crate::domain::{Domain, DomainCore};
use crate::engine::{ADDRESS_BYTES, Engine};
use crate::eq::Eq;
use crate::errno::Errno;
use crate::ffi::{
    self, NoOps, fi_addr_t, fi_info, fi_ops, fi_ops_cm, fi_ops_ep, fid, fid_domain, fid_ep,
};
use crate::guard;
use crate::info;
use crate::lock::{Guard, Lock, Unavailable};
use crate::log::{self, About};
use crate::msg;
use crate::object::{self, Object, no_op};
use crate::param;
use crate::tagged;
use libc::{c_int, c_void, ssize_t};
use peers::Peers;
use sluice_proto::{Completion, Kind};
use std::sync::Arc;

/// What completion queues count on.
#[derive(Debug)]
pub struct EpCore {
    state: Lock<State>,
}

/// Everything that an endpoint has, under its lock.
#[derive(Debug)]
pub struct State {
    /// The endpoint at work: from `fi_enable`, or `fi_getname` if that comes
    /// first, to `fi_close`.
    pub engine: Option<Engine>,
    pub peers: Peers,
    pub tx: Direction,
    pub rx: Direction,
    /// Receives may name the sender they accept (FI_DIRECTED_RECV).
    pub directed: bool,
    /// Completions are to tell their source (FI_SOURCE).
    source: bool,
    pub inject_bytes: usize,
    enabled: bool,
    caps: u64,
}

/// One direction of an endpoint: its queue and what its operations do unless
/// told otherwise.
#[derive(Debug, Default)]
pub struct Direction {
    cq: Option<Arc<CqCore>>,
    /// Bound with FI_SELECTIVE_COMPLETION: an operation reports its success
    /// only if its flags say so.
    selective: bool,
    /// Flags of operations that have none of their own.
    pub op_flags: u64,
}

impl Direction {
    /// Whether an operation with these flags reports its success.
    #[inline]
    pub fn reports(&self, flags: u64) -> bool {
        !self.selective || flags & ffi::FI_COMPLETION != 0
    }
}

impl EpCore {
    /// The state, for a call that cannot do without.
    #[inline]
    pub fn state(&self) -> Result<Guard<'_, State>, Errno> {
        self.state.lock().ok_or(Errno::POISONED)
    }

    /// Hands over what is finished: into `sink` what `reader` is to get, to the
    /// other queue what is not for it. Polls if nothing is finished. Does
    /// nothing if another thread is at the endpoint.
    #[inline]
    pub fn collect(&self, reader: &CqCore, sink: &mut Sink) -> Result<(), Errno> {
        match self.state.try_lock() {
            Ok(mut state) => {
                state.collect(reader, sink);
                Ok(())
            }
            Err(Unavailable::Held) => Ok(()),
            Err(Unavailable::Poisoned) => Err(Errno::POISONED),
        }
    }
}

impl State {
    #[inline]
    fn collect(&mut self, reader: &CqCore, sink: &mut Sink) {
        let before = sink.count();
        if !self.drain(reader, sink) || sink.count() > before {
            return;
        }
        let Some(engine) = &mut self.engine else { return };
        engine.poll();
        self.drain(reader, sink);
    }

    /// Hands over what is finished. False if an error for `reader` was kept,
    /// which later completions may not overtake.
    #[inline]
    fn drain(&mut self, reader: &CqCore, sink: &mut Sink) -> bool {
        while !sink.is_full() {
            let Some(engine) = &mut self.engine else { return true };
            let Some(completion) = engine.pop() else { return true };
            let direction = match completion.kind {
                Kind::Send => &self.tx,
                Kind::Recv | Kind::Probe => &self.rx,
            };
            let Some(cq) = &direction.cq else { continue };
            let here = std::ptr::eq(Arc::as_ptr(cq), reader);
            if here && completion.outcome.is_ok() {
                let source =
                    if sink.wants_sources() { self.source_of(&completion) } else { 0 };
                sink.put(&Entry::new(&completion), source);
            } else {
                let cq = Arc::clone(cq);
                cq.keep(self.kept(&completion));
                if here {
                    return false;
                }
            }
        }
        true
    }

    #[cold]
    fn kept(&mut self, completion: &Completion) -> Kept {
        let source = self.source_of(completion);
        match &completion.outcome {
            Ok(()) => Kept::Good(Entry::new(completion), source),
            Err(failure) => {
                // A probe that finds nothing is ordinary, and names nobody.
                let peer = match (&self.engine, completion.peer) {
                    (Some(engine), Some(peer)) if completion.kind != Kind::Probe => {
                        Some(engine.describe(peer))
                    }
                    _ => None,
                };
                Kept::Bad(Failed::new(completion, failure, peer, source))
            }
        }
    }

    /// The number of a completion's peer, if the program asked to be told and
    /// has it in its address vector.
    fn source_of(&mut self, completion: &Completion) -> fi_addr_t {
        match (&self.engine, completion.peer) {
            (Some(engine), Some(peer)) if self.source && completion.kind != Kind::Send => {
                self.peers.number(engine, peer)
            }
            _ => ffi::FI_ADDR_NOTAVAIL,
        }
    }

    /// Opens the mailbox, unless it is open.
    fn open(&mut self) -> Result<&mut Engine, Errno> {
        if self.engine.is_none() {
            let params = param::get();
            let engine = Engine::open(params, self.peers.expected()).map_err(|error| {
                log::warn(About::Endpoint, &format!("endpoint not opened: {error}"));
                Errno::NO_MEMORY
            })?;
            self.engine = Some(engine);
        }
        self.engine.as_mut().ok_or(Errno::BAD_STATE)
    }

    fn enable(&mut self, core: &Arc<EpCore>) -> Result<(), Errno> {
        if self.enabled {
            return Ok(());
        }
        if !self.peers.has_vector() {
            return Err(Errno::NO_AV);
        }
        let needs = [(ffi::FI_SEND, &self.tx), (ffi::FI_RECV, &self.rx)];
        if needs.iter().any(|(cap, direction)| self.caps & cap != 0 && direction.cq.is_none()) {
            return Err(Errno::NO_CQ);
        }
        self.open()?;
        for direction in [&self.tx, &self.rx] {
            if let Some(cq) = &direction.cq {
                cq.attach(core)?;
            }
        }
        self.enabled = true;
        Ok(())
    }
}

/// An open endpoint.
#[repr(C)]
pub struct Ep {
    ep: fid_ep,
    pub core: Arc<EpCore>,
    _domain: Arc<DomainCore>,
}

// SAFETY: `repr(C)`, begins with `fid_ep`, made below with this class.
unsafe impl Object for Ep {
    const CLASS: usize = ffi::FI_CLASS_EP;

    /// The queues that count on it let go when it closes.
    fn in_use(&self) -> bool {
        false
    }

    fn closing(&self) {
        // First out of the queues, each under its own lock, so that no reader
        // comes in any more; then the state, which a reader may still be in.
        let queues = {
            let state = self.core.state.lock_anyway();
            [state.tx.cq.clone(), state.rx.cq.clone()]
        };
        for cq in queues.iter().flatten() {
            cq.detach(&self.core);
        }
        let engine = self.core.state.lock_anyway().engine.take();
        if let Some(mut engine) = engine {
            engine.tell_notices();
            if param::get().stats {
                eprintln!("sluice: pid {}: {:?}", std::process::id(), engine.stats());
            }
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

static RMA_OPS: NoOps<9> = NoOps { size: size_of::<NoOps<9>>(), ops: [no_op; 9] };
static ATOMIC_OPS: NoOps<13> = NoOps { size: size_of::<NoOps<13>>(), ops: [no_op; 13] };
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
            peers: Peers::default(),
            tx: Direction { op_flags: tx, ..Direction::default() },
            rx: Direction { op_flags: rx, ..Direction::default() },
            directed: info.caps & ffi::FI_DIRECTED_RECV != 0,
            source: info.caps & ffi::FI_SOURCE != 0,
            inject_bytes: param::get().inject_bytes,
            enabled: false,
            caps: info.caps,
        };
        let ep = Ep {
            ep: fid_ep {
                fid: object::head::<Ep>(context, &OPS),
                ops: &EP_OPS,
                cm: &CM_OPS,
                msg: &msg::OPS,
                rma: &RMA_OPS,
                tagged: &tagged::OPS,
                atomic: &ATOMIC_OPS,
                collective: &COLLECTIVE_OPS,
            },
            core: Arc::new(EpCore { state: Lock::new(state, domain.core.serial) }),
            _domain: Arc::clone(&domain.core),
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

/// `fi_ep_bind`: an address vector, one or two completion queues, an event
/// queue (which will stay empty).
unsafe extern "C" fn bind(ep: *mut fid, to: *mut fid, flags: u64) -> c_int {
    guard::status(|| {
        // SAFETY: libfabric passes open objects of this provider.
        let (ep, cq, av, eq): (&Ep, _, _, _) = unsafe {
            (
                object::object(ep),
                object::of_class::<Cq>(to),
                object::of_class::<Av>(to),
                object::of_class::<Eq>(to),
            )
        };
        let mut state = ep.core.state()?;
        if state.enabled {
            return Err(Errno::BAD_STATE);
        }
        if let Some(cq) = cq {
            state.bind_cq(&cq.core, flags)
        } else if let Some(av) = av {
            state.bind_av(&av.core)
        } else if eq.is_some() {
            Ok(())
        } else {
            Err(Errno::INVALID)
        }
    })
}

impl State {
    fn bind_cq(&mut self, cq: &Arc<CqCore>, flags: u64) -> Result<(), Errno> {
        let directions = ffi::FI_TRANSMIT | ffi::FI_RECV;
        if flags & !(directions | ffi::FI_SELECTIVE_COMPLETION) != 0 {
            return Err(Errno::BAD_FLAGS);
        }
        if flags & directions == 0 {
            return Err(Errno::INVALID);
        }
        for (flag, direction) in [(ffi::FI_TRANSMIT, &mut self.tx), (ffi::FI_RECV, &mut self.rx)] {
            if flags & flag == 0 {
                continue;
            }
            if direction.cq.is_some() {
                return Err(Errno::INVALID);
            }
            direction.cq = Some(Arc::clone(cq));
            direction.selective = flags & ffi::FI_SELECTIVE_COMPLETION != 0;
        }
        Ok(())
    }

    fn bind_av(&mut self, av: &Arc<AvCore>) -> Result<(), Errno> {
        if self.peers.has_vector() {
            return Err(Errno::INVALID);
        }
        self.peers.bind(av);
        Ok(())
    }
}

/// `fi_control`: enabling, and the flags of operations that have none.
unsafe extern "C" fn control(ep: *mut fid, command: c_int, arg: *mut c_void) -> c_int {
    guard::status(|| {
        // SAFETY: as libfabric calls it.
        let ep: &Ep = unsafe { object::object(ep) };
        let mut state = ep.core.state()?;
        if command == ffi::FI_ENABLE {
            return state.enable(&ep.core);
        }
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

/// `fi_cancel`: -FI_ENOENT if no unmatched receive has this context.
unsafe extern "C" fn cancel(ep: *mut fid, context: *mut c_void) -> ssize_t {
    guard::posted(|| {
        // SAFETY: as libfabric calls it.
        let ep: &Ep = unsafe { object::object(ep) };
        let mut state = ep.core.state()?;
        let engine = state.engine.as_mut().ok_or(Errno::BAD_STATE)?;
        if engine.cancel(context as u64) { Ok(()) } else { Err(Errno::NO_ENTRY) }
    })
}
