//! libfabric's C interface, by hand: constants and structures. Names are libfabric's
//! own, and its manual pages describe them.
//!
//! Structures have the layout of 1.17, except where a later version made one
//! longer and this side allocates it ([`fi_domain_attr`]) or fills it
//! ([`fi_cq_err_entry`]): those have the later length. `provider/tests/layout.rs`
//! compares sizes and offsets with the installed headers.

#![allow(non_camel_case_types, missing_docs)]

mod consts;
mod head;
mod info;
mod object;
mod provider;
mod queue;
mod remote;

pub use consts::*;
pub use head::*;
pub use info::*;
pub use object::*;
pub use provider::*;
pub use queue::*;
pub use remote::*;

/// `fi_addr_t`: a peer, as an address vector names it.
pub type fi_addr_t = u64;
