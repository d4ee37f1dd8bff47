//! Why a call on a shared context ended without what it wanted.

/// Why a wait ended without what was waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unmet {
    /// The time has passed.
    TimedOut,
    /// All waits are to end.
    Aborted,
    /// What was waited at is not there, or not any more.
    Gone,
    /// A panic has put it out of service.
    Poisoned,
}
