//! The Portals 4 engine, in the specification's nouns: network interface,
//! portal table, match list entries, memory descriptors, event queues,
//! counting events; initiator and target. It is sans-IO and drives a
//! [`sluice_link::Links`].
//!
//! | room | what it holds |
//! |---|---|
//! | `objects` | what an interface has, as data; no file there uses the engine |
//! | `engine` | what an interface does: `ni` owns the objects, each other file is one activity |
//! | `lists` | who matches whom |
//! | `arith` | what atomic operations compute |
//! | `table` | objects by handles |

#![forbid(unsafe_code)]

mod arith;
mod engine;
mod lists;
mod objects;
mod table;

pub use arith::is_defined;
pub use engine::land::Landed;
pub use engine::ni::Ni;
pub use lists::Age;
pub use objects::command::{Arithmetic, Command, Local, PutExtras, Target};
pub use objects::ct::{Ct, CtEvent};
pub use objects::eq::{Eq, Taken as EqTaken};
pub use objects::event::{Event, EventKind, Hold, NOBODY, NiFail};
pub use objects::limits::{Limits, PtlError};
pub use objects::md::{Md, MdOptions};
pub use objects::me::{Me, MeOptions, MeSpec, SearchOp};
pub use objects::pt::{Header, PtOptions};
pub use objects::recovery::Scheme;
pub use objects::request::Taken;
pub use objects::status::{Status, UnexpectedBytes};
pub use objects::vector::Vector;
pub use table::{Handle, Table};

pub use sluice_wire::List;
