//! What can go wrong between a process and its job, each with the next step.

use std::io;

/// Why a process could not join its job, or lost it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JobError {
    /// An environment variable is set to something that cannot be used.
    #[error("{name}={value:?} is not {wanted}; correct it, or unset it")]
    Variable {
        /// The variable.
        name: &'static str,
        /// Its value.
        value: String,
        /// What it has to be.
        wanted: &'static str,
    },
    /// A variable that another one calls for is absent.
    #[error("{because} is set, but {name} is not; set {name} to {wanted}")]
    Missing {
        /// The absent variable.
        name: &'static str,
        /// The variable that calls for it.
        because: &'static str,
        /// What it has to be.
        wanted: &'static str,
    },
    /// The shared secret is too short. Its value is never shown.
    #[error(
        "SLUICE_JOB_KEY has {len} characters, and {min} is the least; \
         set the same longer secret for every rank"
    )]
    KeyTooShort {
        /// Its length.
        len: usize,
        /// The least length.
        min: usize,
    },
    /// The process manager's connection can be taken once only.
    #[error(
        "this process has already joined its job through PMI_FD; \
         start one job per process, and keep it"
    )]
    AlreadyTaken,
    /// A contribution to an exchange is too long.
    #[error("an exchange takes at most {max} bytes of each rank, and this one gave {len}")]
    BlobTooLong {
        /// The contribution's length.
        len: usize,
        /// The greatest length.
        max: usize,
    },
    /// The job failed in an earlier call.
    #[error("the job failed in an earlier call; see the first error, and start the job again")]
    Failed,
    /// The launcher hung up.
    #[error(
        "{launcher} closed its connection during {during}: the launcher or another rank has \
         ended; see the launcher's output"
    )]
    Closed {
        /// Who hung up.
        launcher: &'static str,
        /// The step it interrupted.
        during: String,
    },
    /// Nobody answered in time.
    #[error(
        "{whom} did not answer {during} within {waited_s} s; see whether every rank still runs, \
         or set SLUICE_JOB_TIMEOUT_S higher"
    )]
    Late {
        /// Who did not answer.
        whom: String,
        /// The step that waited.
        during: String,
        /// For how long.
        waited_s: u64,
    },
    /// An answer that the protocol does not have.
    #[error(
        "{from} answered {during} with {answer:?}, which is no such answer; see whether it speaks \
         this protocol and version"
    )]
    Malformed {
        /// Who answered.
        from: String,
        /// The step it answered.
        during: String,
        /// The answer, or its beginning.
        answer: String,
    },
    /// The other side understood, and refused.
    #[error("{by} refused {what}: {why}")]
    Refused {
        /// Who refused.
        by: String,
        /// What was asked.
        what: String,
        /// The reason, and the remedy.
        why: String,
    },
    /// The system failed a call.
    #[error("{doing} failed: {cause}; see that the launcher passes its connection on")]
    Io {
        /// What was being done.
        doing: String,
        /// The system's reason.
        cause: io::Error,
    },
    /// libpmix is absent or not one we can use.
    #[error(
        "PMIX_NAMESPACE is set, but libpmix cannot be used: {why}; install PMIx 3 or later, or put \
         its folder into LD_LIBRARY_PATH"
    )]
    PmixLibrary {
        /// What is wrong with it.
        why: String,
    },
    /// A call of libpmix failed.
    #[error("{call} failed with PMIx status {status} ({text}); see the launcher's output")]
    Pmix {
        /// The call.
        call: &'static str,
        /// Its status.
        status: i32,
        /// The library's words for it.
        text: String,
    },
    /// Rank 0 cannot listen where the job is to meet.
    #[error(
        "rank 0 cannot listen at SLUICE_JOB={at}: {cause}; name an address of rank 0's own host \
         and a free port"
    )]
    Listen {
        /// The address.
        at: String,
        /// The system's reason.
        cause: io::Error,
    },
    /// A rank never got through to rank 0.
    #[error(
        "rank {rank} could not join rank 0 at SLUICE_JOB={at} within {waited_s} s: {last}; \
         see that rank 0 runs and that the address can be reached"
    )]
    Unreachable {
        /// This rank.
        rank: u32,
        /// The address.
        at: String,
        /// For how long it tried.
        waited_s: u64,
        /// What the last attempt met.
        last: String,
    },
    /// Rank 0 waited, and not everybody came.
    #[error(
        "{absent} of {size} did not join rank 0 at SLUICE_JOB={at} within {waited_s} s \
         ({refused}); see that they run with the same SLUICE_JOB, SLUICE_JOB_SIZE and \
         SLUICE_JOB_KEY"
    )]
    Absent {
        /// The ranks that did not come.
        absent: String,
        /// How many there should be.
        size: u32,
        /// The address.
        at: String,
        /// For how long rank 0 waited.
        waited_s: u64,
        /// Who was turned away meanwhile.
        refused: String,
    },
    /// A rank died, fell silent or did what the others did not.
    #[error("rank {rank} failed the job during {during}: {why}; see that rank's output first")]
    RankFailed {
        /// The rank.
        rank: u32,
        /// The step.
        during: String,
        /// What it did.
        why: String,
    },
    /// A rank gave the job up.
    #[error("rank {rank} aborted the job with code {code}: {why}")]
    Aborted {
        /// The rank.
        rank: u32,
        /// Its exit code.
        code: i32,
        /// Its reason.
        why: String,
    },
}

impl JobError {
    /// Whether the environment contradicts itself, as opposed to others failing.
    #[must_use]
    pub fn is_of_environment(&self) -> bool {
        matches!(
            self,
            JobError::Variable { .. } | JobError::Missing { .. } | JobError::KeyTooShort { .. }
        )
    }
}

/// The beginning of what came from outside, fit for one line of a message.
pub(super) fn shown(bytes: &[u8]) -> String {
    const SHOWN_MAX: usize = 120;
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(SHOWN_MAX)]);
    let mut text: String =
        text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect();
    if bytes.len() > SHOWN_MAX {
        text.push_str("...");
    }
    text
}

/// `ranks 1, 4, 7 and 12 more`.
pub(super) fn named(ranks: &[u32]) -> String {
    const NAMED_MAX: usize = 8;
    let names: Vec<String> = ranks.iter().take(NAMED_MAX).map(u32::to_string).collect();
    let word = if ranks.len() == 1 { "rank" } else { "ranks" };
    match ranks.len().saturating_sub(NAMED_MAX) {
        0 => format!("{word} {}", names.join(", ")),
        more => format!("{word} {} and {more} more", names.join(", ")),
    }
}
