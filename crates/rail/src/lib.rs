//! The real world: rails that move packets and bulk data between processes.
//!
//! Owns every system call and every raw pointer of the stack's data path; the
//! machines above it only see [`sluice_link::Port`], which is the [`World`]: shared memory
//! ([`shm`]), and the network ([`net`]) for peers on other hosts. What moves cost in shared
//! memory, [`tune`] measures and keeps. A thread
//! with nothing to do sleeps by a [`waker`], which the rail has. Threads of the
//! library's own run no handler of the program ([`signals`]).

#[cfg(target_endian = "big")]
compile_error!(
    "packets are little endian and mailboxes are written word by word as they lie in memory"
);

#[cfg(not(loom))]
mod address;
#[cfg(not(loom))]
mod faults;
#[cfg(not(loom))]
#[doc(hidden)]
pub mod fuzzing;
#[cfg(not(loom))]
mod hash;
#[cfg(not(loom))]
pub mod net;
#[cfg(not(loom))]
pub mod observer;
#[cfg(not(loom))]
mod ofi;
#[cfg(not(loom))]
pub mod shm;
#[cfg(not(loom))]
mod shortage;
#[cfg(not(loom))]
pub mod signals;
#[cfg(not(loom))]
pub mod snapshot;
#[cfg(not(loom))]
pub mod tune;
#[cfg(not(loom))]
pub mod waker;
#[cfg(not(loom))]
mod world;

#[cfg(not(loom))]
pub use world::{World, WorldWaker};

/// Whether this build reads `FI_SLUICE_FAULTS`.
pub const HAS_FAULTS: bool = cfg!(feature = "faults");

#[cfg(not(loom))]
pub use address::{ADDRESS_BYTES, Address, AddressError};

// The model checker explores the ring, the bell, the chunk claims and the published regions alone: its
// atomics cannot live in mapped memory.
#[cfg(loom)]
#[allow(dead_code)]
#[path = "shm/bell.rs"]
mod bell;
#[cfg(loom)]
#[allow(dead_code)]
#[path = "shm/claims_line.rs"]
mod claims_line;
#[cfg(loom)]
#[path = "shm/intent.rs"]
mod intent;
#[cfg(loom)]
#[allow(dead_code)]
#[path = "shm/prefetch.rs"]
mod prefetch;
#[cfg(loom)]
#[allow(dead_code)]
#[path = "shm/published.rs"]
mod published;
#[cfg(loom)]
#[allow(dead_code)]
#[path = "shm/ring.rs"]
mod ring;
