//! The engine in virtual time, and its matching against oracles.
//!
//! It is one program. With one for each file, what they share is compiled and linked for each.

mod above;
mod answers;
mod atomics;
mod bulk;
mod codes;
mod cut;
mod flowctrl;
mod lists;
mod matcher;
mod offload;
mod offload_oracle;
mod offload_wildcard;
mod operations;
mod ops_oracle;
mod oracle;
mod pair;
mod permissions;
mod placement;
mod recover;
mod recover_limits;
mod recovery;
mod rendezvous;
mod search;
mod segv;
mod theorem_order;
mod theorem_search;
mod triggered;
mod vectors;
mod waiting;
mod walk;
