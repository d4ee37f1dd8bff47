//! Who is to blame, and for what.

use super::super::error::JobError;
use super::conn::{Fault, Frame, Tag, heard};

/// The rank at the other end of `conns[index]`.
pub(super) fn rank_of(index: usize) -> u32 {
    u32::try_from(index).map_or(u32::MAX, |index| index.saturating_add(1))
}

/// What a frame means that is not the one rank 0 waits for.
pub(super) fn unexpected(rank: u32, during: &str, got: Frame) -> JobError {
    let why = match got.tag {
        Tag::Failed => {
            return match heard(&got.body, during) {
                // A rank speaks for itself only.
                JobError::Aborted { code, why, .. } => JobError::Aborted { rank, code, why },
                _ => out_of_turn(rank, during, got.tag),
            };
        }
        Tag::Bye => "it finished, and the others did not".into(),
        Tag::Blob | Tag::Barrier => format!("it called {} instead", got.tag.during()),
        other => return out_of_turn(rank, during, other),
    };
    JobError::RankFailed { rank, during: during.into(), why }
}

/// A connection that failed.
pub(super) fn blame(rank: u32, during: &str, fault: &Fault) -> JobError {
    JobError::RankFailed { rank, during: during.into(), why: fault.to_string() }
}

/// A frame that has no place where it came.
pub(super) fn out_of_turn(rank: u32, during: &str, tag: Tag) -> JobError {
    let why = format!("it sent {} out of turn", tag.name());
    JobError::RankFailed { rank, during: during.into(), why }
}
