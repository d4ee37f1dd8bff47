//! What functions return and what events report as failed: each code once, with
//! its text, and which refusal or failure of the engine it stands for.

use crate::args::Invalid;
use crate::types::ptl_ni_fail_t;
use sluice_portals::{NiFail, PtlError};
use sluice_runtime::Unmet;
use std::ffi::c_int;

/// Defines codes, and a table of all of them: name, value, text.
macro_rules! codes {
    ($(#[$meta:meta])* $table:ident: $kind:ty { $($name:ident = $value:literal, $text:literal;)* }) => {
        $(#[doc = $text] pub const $name: $kind = $value;)*

        $(#[$meta])*
        pub const $table: &[(&str, $kind, &str)] = &[$((stringify!($name), $value, $text)),*];
    };
}

codes! {
    /// Every return code, in order.
    RETURNS: c_int {
        PTL_OK = 0, "Done.";
        PTL_ARG_INVALID = 1, "An argument, a handle among them, is not valid.";
        PTL_CT_NONE_REACHED = 2, "Time is over and no counter has reached its value.";
        PTL_EQ_DROPPED = 3, "Here is an event, and some before it were lost.";
        PTL_EQ_EMPTY = 4, "There is no event.";
        PTL_FAIL = 5, "It failed for another reason.";
        PTL_IGNORED = 6, "It was already so; nothing was changed.";
        PTL_IN_USE = 7, "Something still works with the object.";
        PTL_LIST_TOO_LONG = 8, "The list has its max_list_size entries.";
        PTL_NO_INIT = 9, "PtlInit has not been called.";
        PTL_NO_SPACE = 10, "No memory, or a limit of the interface is reached.";
        PTL_PID_IN_USE = 11, "Another process has the process identifier.";
        PTL_PT_FULL = 12, "Every portal table entry is taken.";
        PTL_PT_EQ_NEEDED = 13, "Flow control without an event queue.";
        PTL_PT_IN_USE = 14, "The portal table entry is taken, or not empty.";
        PTL_ABORTED = 15, "PtlAbort was called (4.3).";
        PTL_INTERRUPTED = 16, "A wait was interrupted (4.2). Never returned.";
    }
}

codes! {
    /// Everything that an event's `ni_fail_type` may say, in order.
    FAILS: ptl_ni_fail_t {
        PTL_NI_OK = 0, "It did not.";
        PTL_NI_UNDELIVERABLE = 1, "The target cannot be reached.";
        PTL_NI_DROPPED = 2, "No entry and no space for it.";
        PTL_NI_PT_DISABLED = 3, "The portal table entry is disabled.";
        PTL_NI_PERM_VIOLATION = 4, "The entry is for another user.";
        PTL_NI_OP_VIOLATION = 5, "The entry does not admit this operation.";
        PTL_NI_NO_MATCH = 6, "A search found nothing.";
        PTL_NI_SEGV = 7, "Memory of a descriptor or entry is not accessible.";
    }
}

/// What a function returns when it does not do what it was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub(crate) enum Code {
    ArgInvalid = PTL_ARG_INVALID,
    CtNoneReached = PTL_CT_NONE_REACHED,
    EqDropped = PTL_EQ_DROPPED,
    EqEmpty = PTL_EQ_EMPTY,
    Fail = PTL_FAIL,
    Ignored = PTL_IGNORED,
    InUse = PTL_IN_USE,
    ListTooLong = PTL_LIST_TOO_LONG,
    NoInit = PTL_NO_INIT,
    NoSpace = PTL_NO_SPACE,
    PidInUse = PTL_PID_IN_USE,
    PtFull = PTL_PT_FULL,
    PtEqNeeded = PTL_PT_EQ_NEEDED,
    PtInUse = PTL_PT_IN_USE,
    Aborted = PTL_ABORTED,
}

impl Code {
    /// What a wait returns that ended without what it waited for; `timed_out` if time
    /// was over.
    pub fn of_unmet(unmet: Unmet, timed_out: Code) -> Code {
        match unmet {
            Unmet::TimedOut => timed_out,
            Unmet::Aborted => Code::Aborted,
            Unmet::Gone => Code::ArgInvalid,
            Unmet::Poisoned => Code::Fail,
        }
    }
}

impl From<PtlError> for Code {
    /// What the engine has refused. `NoCredit` never gets that far: an operation
    /// without credit waits in the engine.
    fn from(error: PtlError) -> Code {
        match error {
            PtlError::ArgInvalid(_) | PtlError::Peer(_) => Code::ArgInvalid,
            PtlError::NoSpace(_) | PtlError::NoCredit { .. } => Code::NoSpace,
            PtlError::InUse => Code::InUse,
            PtlError::PtInUse => Code::PtInUse,
            PtlError::ListTooLong => Code::ListTooLong,
            PtlError::PtEqNeeded => Code::PtEqNeeded,
            PtlError::PtFull => Code::PtFull,
        }
    }
}

impl From<Invalid> for Code {
    fn from(_: Invalid) -> Code {
        Code::ArgInvalid
    }
}

/// What an event says of a failure. A message that matched nothing was dropped;
/// a search that matched nothing has just that to say.
#[must_use]
pub fn failure(fail: &NiFail, search: bool) -> ptl_ni_fail_t {
    match fail {
        NiFail::NoMatch if search => PTL_NI_NO_MATCH,
        NiFail::NoMatch => PTL_NI_DROPPED,
        NiFail::PtDisabled => PTL_NI_PT_DISABLED,
        NiFail::OpViolation => PTL_NI_OP_VIOLATION,
        NiFail::PermViolation => PTL_NI_PERM_VIOLATION,
        NiFail::Segv => PTL_NI_SEGV,
        NiFail::Undeliverable(_) | NiFail::Aborted | NiFail::Forbidden => PTL_NI_UNDELIVERABLE,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_count_up_from_zero() {
        for (index, (name, value, _)) in RETURNS.iter().enumerate() {
            assert_eq!(index as c_int, *value, "{name}");
        }
        for (index, (name, value, _)) in FAILS.iter().enumerate() {
            assert_eq!(index, usize::from(*value), "{name}");
        }
        assert_eq!(RETURNS.len() as u32, crate::consts::PTL_STATUS_LAST);
    }

    #[test]
    fn a_message_without_entry_is_dropped_and_a_search_has_no_match() {
        assert_eq!(failure(&NiFail::NoMatch, false), PTL_NI_DROPPED);
        assert_eq!(failure(&NiFail::NoMatch, true), PTL_NI_NO_MATCH);
    }
}
