//! `libportals.so`: Portals 4 for C programs, over the same engine as the MPI
//! message layer.
//!
//! | file | what it holds |
//! |---|---|
//! | `include/portals4.h` | the interface, with its documentation; `sluice_job.h` the start-up helper |
//! | `types` | the structures of the header, laid out as C does |
//! | `consts` | its constants |
//! | `codes` | its return codes and failure codes, and what they are made from |
//! | `handle` | handles as numbers |
//! | `args` | checks of what programs pass in: options, enumerations |
//! | `resolve` `object` | what of that takes memory or an interface to understand |
//! | `api` | the functions, one file for each part of the header |
//! | `ni_slot` `ni_state` `peers` `limits` | the interfaces, open or not, and what each holds |
//! | `own` `phys` | which process this is, and by what others find it |
//! | `book` | what the processes of a job tell each other of where they are |
//! | `settings` | by what peers are reached |
//! | `program` | the functions as safe Rust, for the `sluice` command |
//!
//! Who takes in what arrives, and how a caller waits, is in `sluice_runtime`; how the
//! processes of a job find each other, in `sluice_boot`.
//!
//! Invariants: nothing that a program passes in makes the library panic, and no
//! panic crosses into C. The header is the master: `tests/layout.rs` holds what
//! is here against what a C compiler makes of it.

mod api;
pub mod args;
mod book;
pub mod codes;
pub mod consts;
#[doc(hidden)]
pub mod fuzzing;
pub mod handle;
mod limits;
mod ni_slot;
mod ni_state;
mod object;
mod own;
mod peers;
mod phys;
pub mod program;
mod resolve;
mod settings;
pub mod types;
