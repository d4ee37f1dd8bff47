//! The books of one link, to be looked at.

use crate::dynamic::Activity;
use crate::quota::Grant;

/// Where the credits of one link are, for tests and for people.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ledger {
    /// What the peer's mailbox grants; `None` until something was sent.
    pub granted: Option<Grant>,
    /// Data credits left to spend there.
    pub data_credits: u16,
    /// Data credits kept for packets that ask for credits or give them back.
    pub data_credits_kept: u16,
    /// Control credits left to spend there.
    pub control_credits: u16,
    /// Slots of this mailbox's data region that the peer has, or that are on their
    /// way either way (current credits).
    pub data_at_sender: u16,
    /// Slots of this mailbox's data region that hold the peer's messages.
    pub data_held: u16,
    /// Slots of the data region that are freed and not yet returned. Of a dynamic
    /// region others may have got them since.
    pub data_owed: u16,
    /// Slots of the control region that hold the peer's packets.
    pub control_held: u16,
    /// Slots of the control region that are freed and not yet returned.
    pub control_owed: u16,
    /// What only a dynamic data region has.
    pub dynamic: Option<DynamicLedger>,
}

/// What a dynamic data region intends for one sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DynamicLedger {
    /// Slots that it should have in the near future.
    pub intended_quota: u32,
    /// Static slots that it neither has nor fills; they are kept for it.
    pub kept: u16,
    /// How active it is, beside the others.
    pub activity: Activity,
    /// Whether it was asked for credits and has not answered.
    pub is_blocked: bool,
}
