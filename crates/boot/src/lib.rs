//! Start-up: how the processes of one parallel program find each other.
//!
//! A [`Job`] tells this process its rank and the number of ranks, and lets the ranks exchange
//! bytes once or a few times, so that each learns the others' addresses. It is for starting, not
//! for speed: every exchange passes through the launcher or through rank 0.
//!
//! | what is set | who connects the ranks | file |
//! |---|---|---|
//! | `PMI_FD` | a process manager that speaks PMI-1, such as Hydra | `pmi1.rs` |
//! | `PMIX_NAMESPACE` | a launcher with a PMIx server, such as Open MPI's | `pmix.rs` |
//! | `SLUICE_JOB` | rank 0, where `SLUICE_JOB` says | `rendezvous.rs` |
//! | none of these | nobody: a job of one | |
//!
//! Invariants: the environment is read in [`Job::start`] and nowhere else. Every wait ends:
//! `SLUICE_JOB_TIMEOUT_S` (120 if not set) bounds each answer that a call waits for. Nothing that
//! comes from outside makes this panic. After the first error each call answers
//! [`JobError::Failed`], for the ranks no longer agree on where they are.

mod env;
mod error;
#[doc(hidden)]
pub mod fuzzing;
mod pmi1;
mod pmix;
mod rendezvous;
mod wait;

pub use error::JobError;
pub use wait::Poll;

use env::{Bootstrap, Plan};
use wait::Waits;

/// The most that one rank may contribute to one exchange, in bytes: a program's part, and
/// what its library adds.
pub const BLOB_MAX: usize = (1 << 20) + 1024;

/// Who connects the ranks.
#[cfg(test)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Nobody: this process is the whole job.
    Alone,
    /// A process manager that speaks PMI-1.
    Pmi1,
    /// A launcher with a PMIx server.
    Pmix,
    /// Rank 0 of the job itself.
    Rendezvous,
}

/// This process's membership in its job.
///
/// Dropping it without [`Job::finish`] is, to the others, the death of this rank.
pub struct Job {
    rank: u32,
    size: u32,
    failed: bool,
    link: Link,
}

enum Link {
    Alone,
    Pmi1(pmi1::Pmi1),
    Pmix(Box<pmix::Pmix>),
    Rendezvous(rendezvous::Rendezvous),
}

impl Job {
    /// Joins the job that the environment describes, and waits for what that takes. Where
    /// nobody else takes in what arrives for this process, `poll` does, in every wait of the
    /// job; it says how much there was, or `None` where somebody else does.
    ///
    /// # Errors
    ///
    /// When the environment contradicts itself, or whom it names cannot be reached in time.
    pub fn start(poll: Option<Poll>) -> Result<Job, JobError> {
        Job::start_by(env::plan(&|name| std::env::var_os(name))?, poll)
    }

    fn start_by(plan: Plan, poll: Option<Poll>) -> Result<Job, JobError> {
        let waits = Waits { timeout: plan.timeout, poll };
        let (rank, size, link) = match plan.bootstrap {
            Bootstrap::Alone => (0, 1, Link::Alone),
            Bootstrap::Pmi1 { fd, rank, size } => {
                (rank, size, Link::Pmi1(pmi1::Pmi1::take(fd, rank, size, waits)?))
            }
            Bootstrap::Pmix => {
                let pmix = pmix::Pmix::start(waits)?;
                (pmix.rank(), pmix.size(), Link::Pmix(Box::new(pmix)))
            }
            Bootstrap::Rendezvous(meeting) => {
                let (rank, size) = (meeting.rank, meeting.size);
                let met = rendezvous::Rendezvous::start(&meeting, waits)?;
                (rank, size, Link::Rendezvous(met))
            }
        };
        Ok(Job { rank, size, failed: false, link })
    }

    /// This process's number, from 0.
    #[must_use]
    pub fn rank(&self) -> u32 {
        self.rank
    }

    /// How many processes the job has.
    #[must_use]
    pub fn size(&self) -> u32 {
        self.size
    }

    /// Who connects the ranks.
    #[cfg(test)]
    pub fn kind(&self) -> Kind {
        match self.link {
            Link::Alone => Kind::Alone,
            Link::Pmi1(_) => Kind::Pmi1,
            Link::Pmix(_) => Kind::Pmix,
            Link::Rendezvous(_) => Kind::Rendezvous,
        }
    }

    /// Gives `mine` to every rank, and returns what each gave, by rank. Every rank has to call it;
    /// the lengths may differ, and none may exceed [`BLOB_MAX`].
    ///
    /// # Errors
    ///
    /// When `mine` is too long, which leaves the job as it was, or when another rank or the
    /// launcher fails.
    pub fn exchange(&mut self, mine: &[u8]) -> Result<Vec<Vec<u8>>, JobError> {
        if mine.len() > BLOB_MAX {
            return Err(JobError::BlobTooLong { len: mine.len(), max: BLOB_MAX });
        }
        self.guarded(|link| match link {
            Link::Alone => Ok(vec![mine.to_vec()]),
            Link::Pmi1(pmi) => pmi.exchange(mine),
            Link::Pmix(pmix) => pmix.exchange(mine),
            Link::Rendezvous(met) => met.exchange(mine),
        })
    }

    /// Returns once every rank has called it.
    ///
    /// # Errors
    ///
    /// When another rank or the launcher fails.
    pub fn barrier(&mut self) -> Result<(), JobError> {
        self.guarded(|link| match link {
            Link::Alone => Ok(()),
            Link::Pmi1(pmi) => pmi.barrier(),
            Link::Pmix(pmix) => pmix.barrier(),
            Link::Rendezvous(met) => met.barrier(),
        })
    }

    /// Leaves the job in good order.
    ///
    /// # Errors
    ///
    /// When the launcher does not acknowledge it.
    pub fn finish(mut self) -> Result<(), JobError> {
        self.guarded(|link| match link {
            Link::Alone => Ok(()),
            Link::Pmi1(pmi) => pmi.finish(),
            Link::Pmix(pmix) => pmix.finish(),
            Link::Rendezvous(met) => {
                met.finish();
                Ok(())
            }
        })
    }

    /// Asks for the end of the whole job, with `code` as its exit code and `why` as its reason.
    /// A launcher may end this process before the call returns; if it does return, the caller
    /// ends the process.
    pub fn abort(mut self, code: i32, why: &str) {
        match &mut self.link {
            Link::Alone => {}
            Link::Pmi1(pmi) => pmi.abort(code),
            Link::Pmix(pmix) => pmix.abort(code, why),
            Link::Rendezvous(met) => met.abort(code, why),
        }
    }

    /// One call, unless an earlier one failed.
    fn guarded<T>(
        &mut self,
        call: impl FnOnce(&mut Link) -> Result<T, JobError>,
    ) -> Result<T, JobError> {
        if self.failed {
            return Err(JobError::Failed);
        }
        let result = call(&mut self.link);
        self.failed = result.is_err();
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn alone() -> Job {
        Job::start_by(env::plan(&|_| None).unwrap(), None).unwrap()
    }

    #[test]
    fn a_job_of_one_exchanges_with_itself() {
        let mut job = alone();
        assert_eq!((job.rank(), job.size(), job.kind()), (0, 1, Kind::Alone));
        assert_eq!(job.exchange(b"me").unwrap(), [b"me".to_vec()]);
        job.barrier().unwrap();
        job.finish().unwrap();
    }

    #[test]
    fn too_long_a_contribution_leaves_the_job_usable() {
        let mut job = alone();
        let error = job.exchange(&vec![0; BLOB_MAX + 1]).unwrap_err();
        assert!(matches!(error, JobError::BlobTooLong { max: BLOB_MAX, .. }), "{error}");
        assert_eq!(job.exchange(&[7; BLOB_MAX]).unwrap()[0].len(), BLOB_MAX);
    }

    #[test]
    fn a_job_may_move_between_threads() {
        fn is_send<T: Send>() {}
        is_send::<Job>();
    }
}
