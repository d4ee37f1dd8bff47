//! The books of one link, to be looked at.

use crate::quota::Grant;

/// Where the credits of one link are, for tests and for people.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ledger {
    /// What the peer's mailbox grants; `None` until something was sent.
    pub granted: Option<Grant>,
    /// Data credits left to spend there.
    pub data_credits: u16,
    /// Control credits left to spend there.
    pub control_credits: u16,
    /// Slots of this mailbox's data region that hold the peer's messages.
    pub data_held: u16,
    /// Slots of the data region that are freed and not yet returned.
    pub data_owed: u16,
    /// Slots of the control region that hold the peer's packets.
    pub control_held: u16,
    /// Slots of the control region that are freed and not yet returned.
    pub control_owed: u16,
}
