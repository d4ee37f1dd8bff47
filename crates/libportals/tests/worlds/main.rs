//! The engine's test body (`crates/portals/tests/conformance`) over two worlds: a
//! simulated network in virtual time, and real rails of this process.

#[path = "../../../portals/tests/conformance/mod.rs"]
mod conformance;
#[path = "../../../portals/tests/suite/pair/mod.rs"]
mod pair;
mod real;
mod simulated;
