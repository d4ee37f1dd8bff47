//! `libsluice-fi.so`: Sluice as a libfabric provider.
//!
//! libfabric finds the library through FI_PROVIDER_PATH and calls
//! [`fi_prov_ini`], the only symbol exported. Files follow libfabric's objects:
//!
//! | file | object |
//! |---|---|
//! | `info/` | `fi_getinfo`: what is offered |
//! | `fabric.rs`, `domain.rs` | fabric, domain |
//! | `av.rs` | address vector: peers by number |
//! | `ep.rs` | endpoint; `transfer.rs` its operations, `tagged.rs` and `msg.rs` the C functions of those |
//! | `cq.rs`, `cntr.rs` | completion queue, counter |
//! | `mr.rs` | memory regions of a domain; `remote.rs` operations on those of peers, `rma.rs` and `atomic.rs` the C functions of those |
//! | `eq.rs` | event queue: as little as programs need |
//! | `wait.rs` | descriptors to wait by |
//! | `report.rs` | what was sent, for `sluice run` |
//! | `param.rs`, `log.rs` | settings and messages, by way of libfabric |
//! | `engine.rs` | the protocol endpoint over its rail, as a context of the runtime |
//!
//! The rail, the lock, the settings and the progress thread beneath these objects are
//! `sluice_runtime`'s.
//!
//! Progress is made inside the program's calls, and, where it asks for that, by
//! a thread per endpoint while the program does not call. Each endpoint has one lock;
//! a data call takes it once, a read of a completion queue tries it once per endpoint
//! bound. Every entry from C runs inside the fence of `guard.rs`.

mod atomic;
mod av;
mod cntr;
mod cq;
mod domain;
mod engine;
mod ep;
mod eq;
mod errno;
mod fabric;
mod ffi;
mod guard;
mod info;
mod linger;
mod log;
mod mr;
mod msg;
mod object;
mod param;
mod remote;
mod report;
mod rma;
mod stats;
mod tagged;
mod transfer;
mod wait;

use ffi::fi_provider;
use std::cell::UnsafeCell;

/// Version of the provider. libfabric takes the highest of several of a name.
const VERSION: u32 = ffi::version(0, 1);

/// The interface spoken: the newest whose rules for endpoints of this kind are
/// kept. libfabric hides a provider from programs that ask for a newer one.
const API_VERSION: u32 = ffi::version(2, 6);

/// The structure that libfabric is given, and writes its own part of.
struct Provider(UnsafeCell<fi_provider>);

// SAFETY: this side never writes it; libfabric writes `context` under its own
// lock, which nobody here reads.
unsafe impl Sync for Provider {}

static PROVIDER: Provider = Provider(UnsafeCell::new(fi_provider {
    version: VERSION,
    fi_version: API_VERSION,
    context: [std::ptr::null_mut(); 4],
    name: c"sluice".as_ptr(),
    getinfo: Some(info::getinfo),
    fabric: Some(fabric::open),
    cleanup: Some(cleanup),
}));

/// The provider, as libfabric's functions want it named.
fn provider() -> *mut fi_provider {
    PROVIDER.0.get()
}

/// libfabric is about to unload. Nothing is held that the objects do not hold.
unsafe extern "C" fn cleanup() {}

/// What libfabric calls when it has loaded the library.
#[unsafe(no_mangle)]
pub extern "C" fn fi_prov_ini() -> *mut fi_provider {
    guard::value(std::ptr::null_mut(), || {
        param::define();
        provider()
    })
}
