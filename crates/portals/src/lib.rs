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
mod atomic;
mod command;
mod ct;
mod eq;
mod event;
mod from_header;
mod initiator;
mod landing;
mod limits;
mod lists;
mod matching;
mod md;
mod me;
mod memory;
mod ni;
mod operation;
mod peers;
mod pt;
mod table;
mod target;
mod transfer;

pub use command::{Arithmetic, Command, Local};
pub use ct::{Ct, CtEvent};
pub use eq::{Eq, Taken as EqTaken};
pub use event::{Event, EventKind, Hold, NiFail};
pub use from_header::GET_FROM_HEADER;
pub use initiator::{PutExtras, Target};
pub use limits::{Limits, PtlError};
pub use matching::{NOBODY, SearchOp};
pub use md::{Md, MdOptions};
pub use me::{Me, MeOptions, MeSpec};
pub use memory::Vector;
pub use ni::{Ni, Status, UnexpectedBytes};
pub use pt::{Header, PtOptions};
pub use table::{Handle, Table};
pub use target::Taken;

pub use sluice_wire::List;
