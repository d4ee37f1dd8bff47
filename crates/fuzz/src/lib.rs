//! What each target of the fuzzer does with its bytes.
//!
//! `fuzz/` is a workspace of its own, for a nightly toolchain, with an entry for libFuzzer for
//! each target; all else is here, so that the ordinary tests replay what the fuzzer has kept
//! (`tests/corpora.rs`). A target returns for any bytes, or panics because of a fault.
//!
//! | file | whose bytes |
//! |---|---|
//! | `parsers` | a peer's or the launcher's: packets, frames, addresses, handshakes |
//! | `texts` | the user's: environment, experiment files |
//! | `small_parsers` | users', launchers' and processes': many parsers of short texts and messages |
//! | `mailbox` `memory` `handed` | a peer's that writes anything into shared memory |
//! | `links` `rails` `portals_engine` `endpoints` | calls of a machine, and packets that it gets |
//! | `portals_calls` `provider_calls` | calls of the C functions of `libportals` and of `libsluice-fi`, from two threads |

#![allow(clippy::duplicate_mod, reason = "each network of the tests has a copy of what is below")]

mod endpoints;
mod handed;
mod input;
mod links;
mod mailbox;
mod memory;
mod panics;
mod parsers;
mod portals_calls;
mod portals_engine;
mod provider_calls;
mod rails;
// What it takes from other crates by their paths has tests, which want other crates.
#[cfg(not(test))]
mod small_parsers;
mod texts;

// The network in which the tests of the machines run, too.
#[path = "../../portals/tests/suite/pair/mod.rs"]
mod pair;
#[path = "../../link/tests/suite/traffic/mod.rs"]
mod traffic;
#[path = "../../proto/tests/suite/world/mod.rs"]
mod world;

// `traffic` names it so.
use world::net;

pub use handed::chunks_handed;
pub use input::Input;

/// A target: what it is called, and what is done with its bytes.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Its name, which the entry for libFuzzer and the corpus have too.
    pub name: &'static str,
    /// One execution.
    pub run: fn(&[u8]),
}

/// All of them.
pub const TARGETS: &[Target] = &[
    Target { name: "wire_parse", run: parsers::wire_parse },
    Target { name: "frames", run: parsers::frames },
    Target { name: "address_parse", run: parsers::address_parse },
    Target { name: "handshake_take", run: parsers::handshake_take },
    Target { name: "settings_read", run: texts::settings_read },
    Target { name: "experiment_parse", run: texts::experiment_parse },
    #[cfg(not(test))]
    Target { name: "small_parsers", run: small_parsers::small_parsers },
    Target { name: "shared_memory", run: memory::shared_memory },
    Target { name: "link_calls", run: links::link_calls },
    Target { name: "multirail_calls", run: rails::multirail_calls },
    Target { name: "engine_calls", run: portals_engine::engine_calls },
    Target { name: "endpoint_calls", run: endpoints::endpoint_calls },
    Target { name: "portals_calls", run: portals_calls::portals_calls },
    Target { name: "provider_calls", run: provider_calls::provider_calls },
];

/// Runs the target of this name once.
///
/// # Panics
/// If there is none, or the bytes show a fault.
pub fn run(name: &str, bytes: &[u8]) {
    let target = TARGETS.iter().find(|target| target.name == name);
    let target = target.unwrap_or_else(|| panic!("there is no target {name}"));
    (target.run)(bytes);
}
