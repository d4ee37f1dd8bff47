//! Credits, mailboxes and chunk claims under a network in virtual time.
//!
//! It is one program. With one for each file, what they share is compiled and linked for each.

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
