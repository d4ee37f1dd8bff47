//! `sluice lab`: several hosts on one machine, each a set of namespaces.
//!
//! A lab has a *head*, where launchers run, and hosts `h0`, `h1` and so on. Each is a
//! process that does nothing (`hold`) in namespaces of its own: network, name, shared
//! memory (IPC and `/dev/shm`), processes, mounts. The hosts' process namespaces are
//! within the head's. So the whole lab ends when the head's process ends: the kernel
//! kills every process in it, and devices, addresses and mounts go with the namespaces.
//! Nothing is made outside of them but a directory in `/run/sluice-lab`.
//!
//! `plan` says what a lab is to be, `network` which commands of `ip` and `tc` make it.
//! `up` starts it, `down` ends it, `link` changes a cable, `relay` delays what passes one,
//! `status` asks the kernel how the cables are, `enter` brings a process into a host.
//! `directory` keeps what finds a lab again, `process` finds its processes.
//!
//! The crate uses the programs `unshare`, `ip` and `tc`, and system calls that need no
//! `unsafe`.

#![forbid(unsafe_code)]

mod checksum;
mod directory;
mod down;
mod enter;
mod hold;
mod link;
mod network;
mod place;
mod plan;
mod process;
mod programs;
mod relay;
mod status;
mod up;

pub use directory::{Lab, names};
pub use down::{Ended, down};
pub use enter::{Host, enter};
pub use hold::hold;
pub use link::{Change, Rail, link};
pub use plan::{HOSTS_MAX, Plan, RAILS_MAX, Rate, parse_delay, parse_name, parse_percent};
pub use relay::relay;
pub use status::{Cable, HostStatus, Status, status};
pub use up::up;
