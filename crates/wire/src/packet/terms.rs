//! Terms that several kinds of packet use.

use crate::error::WireError;
use crate::layout::FLAG_OVERFLOW;

/// Credits that a packet brings back to its receiver, in slots.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Credits {
    /// Of the data region.
    pub data: u16,
    /// Of the control region.
    pub control: u8,
}

/// Which acknowledgement a put asks for (Portals 4, section 3.15).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AckKind {
    /// A full acknowledgement: an event and a count.
    Full,
    /// A count only.
    Count,
    /// A count only, also when the put was dropped.
    OperationCompleted,
    /// Nothing to tell the program: the initiator itself must learn when the
    /// target has fetched the data of an announced put.
    Silent,
    /// As a full one, but of a put that is kept in lent memory not before it has met an entry
    /// that wants it. Not of Portals.
    Matched,
}

/// How an operation went at its target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// As asked.
    Ok,
    /// No entry matched, or the portal table entry does not exist.
    NoMatch,
    /// The portal table entry is disabled.
    PtDisabled,
    /// The entry that matched does not allow this operation.
    OpViolation,
    /// The target's memory could not be reached.
    Segv,
    /// The operation was given up by the side that would have moved the data.
    Aborted,
    /// The entry that matched is not for this user.
    PermViolation,
}

/// Which list of a portal table entry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum List {
    /// Searched first; appending searches the unexpected headers.
    #[default]
    Priority,
    /// Takes what the priority list does not.
    Overflow,
}

impl AckKind {
    pub(crate) fn code(self) -> u8 {
        match self {
            AckKind::Full => 1,
            AckKind::Count => 2,
            AckKind::OperationCompleted => 3,
            AckKind::Silent => 4,
            AckKind::Matched => 5,
        }
    }

    pub(crate) fn from_code(code: u8) -> Result<Option<AckKind>, WireError> {
        match code {
            0 => Ok(None),
            1 => Ok(Some(AckKind::Full)),
            2 => Ok(Some(AckKind::Count)),
            3 => Ok(Some(AckKind::OperationCompleted)),
            4 => Ok(Some(AckKind::Silent)),
            5 => Ok(Some(AckKind::Matched)),
            other => Err(WireError::AckKind(other)),
        }
    }
}

impl List {
    /// As the flag of an answer.
    #[inline]
    pub(crate) fn flag(self) -> u8 {
        match self {
            List::Priority => 0,
            List::Overflow => FLAG_OVERFLOW,
        }
    }

    #[inline]
    pub(crate) fn from_flags(flags: u8) -> List {
        if flags & FLAG_OVERFLOW == 0 { List::Priority } else { List::Overflow }
    }
}

impl Status {
    pub(crate) fn code(self) -> u8 {
        match self {
            Status::Ok => 0,
            Status::NoMatch => 1,
            Status::PtDisabled => 2,
            Status::OpViolation => 3,
            Status::Segv => 4,
            Status::Aborted => 5,
            Status::PermViolation => 6,
        }
    }

    pub(crate) fn from_code(code: u8) -> Result<Status, WireError> {
        match code {
            0 => Ok(Status::Ok),
            1 => Ok(Status::NoMatch),
            2 => Ok(Status::PtDisabled),
            3 => Ok(Status::OpViolation),
            4 => Ok(Status::Segv),
            5 => Ok(Status::Aborted),
            6 => Ok(Status::PermViolation),
            other => Err(WireError::Status(other)),
        }
    }
}
