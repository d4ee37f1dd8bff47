//! Credits, mailboxes and chunk claims under a network in virtual time.
//!
//! It is one program: to compile and to link one for each file takes ten times as long.

mod account;
mod adaptation;
mod dynamic;
mod hungry;
mod last_place;
mod layout;
mod net;
mod simulated;
mod traffic;
mod violations;
