//! libfabric's C interface: the structures and constants of `sluice_fabric`, and the
//! functions that libfabric exports to providers.

mod import;

pub use import::*;
pub use sluice_fabric::ffi::*;
