//! The network of flits: closed forms, conservation, order, and a router's oracle.
//!
//! It is one program. With one for each file, what they share is compiled and linked for each.

mod cases;
mod closed_forms;
mod conservation;
mod deadlock;
mod determinism;
mod limits;
mod oracle;
mod oracle_router;
mod order;
mod routing;
mod topology;
mod traffic;
