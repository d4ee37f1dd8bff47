//! The Portals 4 engine, in the specification's nouns: network interface,
//! portal table, match list entries, memory descriptors, event queues,
//! counting events; initiator and target. It is sans-IO and drives a
//! [`sluice_link::Links`].
//!
//! | room | what it holds |
//! |---|---|
//! | `ni` `pt` `me` `md` `eq` `ct` `event` `limits` | the objects |
//! | `command` | what a program asks for: sent, waiting, triggered |
//! | `from_header` | an extension: a triggered get that goes where a message came from |
//! | `initiator` `atomic` | how an operation starts and ends here |
//! | `target` `landing` `transfer` | what an operation from elsewhere does here |
//! | `matching` `lists` | appending and searching; who matches whom |
//! | `memory` `table` `operation` `arith` | the tools |

#![forbid(unsafe_code)]

mod arith;
mod engine;
mod lists;
mod objects;
mod table;

pub use engine::admit::Taken;
pub use engine::append::{NOBODY, SearchOp};
pub use engine::initiate::{PutExtras, Target};
pub use engine::issue::{Arithmetic, Command, Local};
pub use engine::memory::Vector;
pub use engine::ni::{Ni, Status, UnexpectedBytes};
pub use engine::triggers::GET_FROM_HEADER;
pub use objects::ct::{Ct, CtEvent};
pub use objects::eq::{Eq, Taken as EqTaken};
pub use objects::event::{Event, EventKind, Hold, NiFail};
pub use objects::limits::{Limits, PtlError};
pub use objects::md::{Md, MdOptions};
pub use objects::me::{Me, MeOptions, MeSpec};
pub use objects::pt::{Header, PtOptions};
pub use table::{Handle, Table};

pub use sluice_wire::List;
