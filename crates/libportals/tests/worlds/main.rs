//! The engine's test body (`crates/portals/tests/body`) over two worlds: a
//! simulated network in virtual time, and real rails of this process.

#[path = "../../../portals/tests/body/mod.rs"]
mod body;
#[path = "../../../portals/tests/pair/mod.rs"]
mod pair;
mod real;
mod simulated;
