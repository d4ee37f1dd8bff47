//! What an interface does. `ni` owns its objects and uses no other file here; each of
//! the others is one activity.
//!
//! | activity | files |
//! |---|---|
//! | objects come and go | `allocate`, `append`, `search`; `unexpected` for headers |
//! | a program's commands | `issue`, `wait` for credits, `trigger` by counters |
//! | the initiator's side | `initiate`, `atomic`, `complete` |
//! | the target's side | `arrive`, `land`, `admit`, `put_target`, `get_target`, `atomic` |
//! | data that moves afterwards | `fetch`, `get_target`; `moving`, `operations` keep the books |
//! | events, counts, memory | `tell`, `memory` |
//! | recovery from exhaustion | `recover`: the words; at the initiator `keep`, `keep_put` for most, `go_back`, `ask`, `kept_end`, `places`; at the target `refuse`, `revive` |
//! | what the rail reports besides packets | `peers` |
//! | what must be so | `invariants` |

pub mod admit;
pub mod allocate;
pub mod append;
pub mod arrive;
pub mod ask;
pub mod atomic;
pub mod complete;
pub mod fetch;
pub mod get_target;
pub mod go_back;
pub mod initiate;
pub mod invariants;
pub mod issue;
pub mod keep;
pub mod keep_put;
pub mod kept_end;
pub mod land;
pub mod memory;
pub mod moving;
pub mod ni;
pub mod operations;
pub mod peers;
pub mod places;
pub mod put_target;
pub mod recover;
pub mod refuse;
pub mod revive;
pub mod search;
pub mod tell;
pub mod trigger;
pub mod unexpected;
pub mod wait;
