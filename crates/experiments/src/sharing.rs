//! One experiment by several processes, on one host or on many: each takes
//! simulations that nobody has taken, until none is left.
//!
//! The processes share the folder of the results and nothing else. A process that runs
//! a simulation holds a lock on a file of that simulation's number in `claims`. The
//! system frees it when the process ends, however it ends. So a simulation is run by one
//! process at a time, and by another one if that process is killed. It is done when its
//! line is in a journal ([`crate::journal`]), which is written before the lock is freed.
//!
//! One process *leads*: it holds the lock `claims/leader`, stays until all simulations
//! are done, shows the progress of all, and writes the results. If it dies, a process
//! that has nothing left to take becomes the leader.
//!
//! No result depends on a lock. Where a file system keeps locks to each host, hosts run
//! some simulations twice and get the same results.

use crate::journal::{Entries, Entry, Journal};
use anyhow::{Context as _, Result, bail};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use std::collections::BTreeSet;
use std::fs::{File, OpenOptions};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The folder of the locks, in that of the results.
const CLAIMS: &str = "claims";

/// A simulation that this process may run, until this is dropped.
#[derive(Debug)]
pub struct Claim {
    pub run: usize,
    _lock: File,
}

/// What there is to do.
#[derive(Debug)]
pub enum Next {
    /// Run this.
    Run(Claim),
    /// Nothing now: others run all that is left.
    Wait,
    /// Nothing: all simulations are done.
    Done,
}

/// The share of this process, used by all of its threads.
#[derive(Debug)]
pub struct Share {
    claims: PathBuf,
    runs: usize,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    journal: Journal,
    entries: Entries,
    /// What threads of this process run.
    own: BTreeSet<usize>,
    /// The lock of the leader, if this process is the leader.
    lead: Option<File>,
}

impl Share {
    /// Of `runs` simulations in a folder.
    pub fn new(folder: &Path, runs: usize, journal: Journal, entries: Entries) -> Share {
        let state = State { journal, entries, own: BTreeSet::new(), lead: None };
        Share { claims: folder.join(CLAIMS), runs, state: Mutex::new(state) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a simulation that nobody runs.
    pub fn next(&self) -> Result<Next> {
        let mut state = self.state();
        let State { journal, entries, own, .. } = &mut *state;
        journal.refresh(entries)?;
        let waiting = |entries: &Entries| -> Vec<usize> {
            (0..self.runs).filter(|run| !entries.contains_key(run)).collect()
        };
        for run in waiting(entries) {
            if own.contains(&run) {
                continue;
            }
            let Some(lock) = self.lock(&run.to_string())? else { continue };
            // Whoever had it before may have finished it.
            journal.refresh(entries)?;
            if entries.contains_key(&run) {
                continue;
            }
            own.insert(run);
            return Ok(Next::Run(Claim { run, _lock: lock }));
        }
        Ok(if waiting(entries).is_empty() { Next::Done } else { Next::Wait })
    }

    /// Keeps what a claimed simulation has counted, and frees it.
    pub fn keep(&self, claim: Claim, entry: Entry) -> Result<()> {
        let mut state = self.state();
        state.journal.keep(&entry)?;
        state.own.remove(&claim.run);
        state.entries.insert(claim.run, entry);
        Ok(())
    }

    /// Reads what others have done, and shows all that is done.
    pub fn look<T>(&self, at: impl FnOnce(&Entries) -> T) -> Result<T> {
        let mut state = self.state();
        let State { journal, entries, .. } = &mut *state;
        journal.refresh(entries)?;
        Ok(at(entries))
    }

    /// Becomes the leader, unless another process is.
    pub fn lead(&self) -> Result<bool> {
        let mut state = self.state();
        if state.lead.is_none() {
            state.lead = self.lock("leader")?;
        }
        Ok(state.lead.is_some())
    }

    pub fn leads(&self) -> bool {
        self.state().lead.is_some()
    }

    /// Ends the share. The locks go if nothing is left to do; the leader's file is
    /// returned, which keeps others from leading until it is dropped.
    pub fn end(self) -> (Entries, Option<File>) {
        let state = self.state.into_inner().unwrap_or_else(PoisonError::into_inner);
        if state.entries.len() == self.runs {
            // Files that stay behind do no harm: a lock is what counts.
            let _ = std::fs::remove_dir_all(&self.claims);
        }
        (state.entries, state.lead)
    }

    /// Locks a file of the folder of locks; none if another process has it.
    fn lock(&self, name: &str) -> Result<Option<File>> {
        let path = self.claims.join(name);
        let open = || OpenOptions::new().write(true).create(true).truncate(false).open(&path);
        let opened = match open() {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                std::fs::create_dir_all(&self.claims).and_then(|()| open())
            }
            opened => opened,
        };
        let file = opened.with_context(|| format!("cannot open {}", path.display()))?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(file)),
            Err(Errno::WOULDBLOCK) => Ok(None),
            Err(error) => Err(error).with_context(|| format!("cannot lock {}", path.display())),
        }
    }
}

/// The processes of a launcher's job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ranks {
    pub rank: u32,
    pub size: u32,
}

/// Asks the launcher (PMI or PMIx) for the other processes, and finds out whether all see
/// the same folder. Without a launcher this process is alone, as far as it knows.
///
/// # Errors
/// When the processes have folders of their own.
pub fn meet(folder: &Path) -> Result<Ranks> {
    let alone = Ranks { rank: 0, size: 1 };
    let mut job = match sluice_boot::Job::start(None) {
        Ok(job) => job,
        Err(error) => {
            eprintln!(
                "sluice: the launcher does not answer ({error}); this process shares the work \
                 with all that use {}",
                folder.display()
            );
            return Ok(alone);
        }
    };
    let ranks = Ranks { rank: job.rank(), size: job.size() };
    if ranks.size == 1 {
        return Ok(alone);
    }
    let file = folder.join(CLAIMS).join("folder");
    let mut mine = Vec::new();
    if ranks.rank == 0 {
        mine = mark();
        std::fs::create_dir_all(folder.join(CLAIMS))
            .and_then(|()| std::fs::write(&file, &mine))
            .with_context(|| format!("cannot write {}", file.display()))?;
    }
    let marks = job.exchange(&mine)?;
    let same = std::fs::read(&file).is_ok_and(|found| Some(&found) == marks.first());
    if !same {
        let text = format!(
            "rank {} does not see the folder {} of rank 0; choose an --out that all hosts share",
            ranks.rank,
            folder.display()
        );
        job.abort(1, &text);
        bail!(text);
    }
    // All have seen it before anybody may remove it.
    job.barrier()?;
    job.finish()?;
    Ok(ranks)
}

/// Bytes that no other start of the command writes.
fn mark() -> Vec<u8> {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let host = rustix::system::uname();
    let host = host.nodename().to_string_lossy();
    format!("{host} {} {}\n", std::process::id(), now.map_or(0, |now| now.as_nanos())).into_bytes()
}

/// How many processes of its job the launcher has started on this host, if it says so.
pub fn processes_here(variable: impl Fn(&str) -> Option<String>) -> usize {
    const NAMES: [&str; 3] = ["OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS", "PMI_LOCAL_SIZE"];
    let said = NAMES.into_iter().find_map(|name| variable(name)?.parse().ok());
    said.filter(|&count| count >= 1).unwrap_or(1)
}

#[cfg(test)]
mod tests;
