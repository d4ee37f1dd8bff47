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
//! that has nothing left to take becomes the leader. A process that has nothing left to
//! take while another leads ends, so if all others have ended before the leader dies, the
//! same command has to be given again.
//!
//! The locks have to reach all hosts that share the folder, as those of NFS and Lustre do
//! by default. Where a file system keeps them to each host, two hosts may take the same
//! journal.

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

    /// Ends the share. Nobody else leads until what is returned with the entries is
    /// closed, so the results are written before that.
    pub fn end(self) -> (Entries, Ending) {
        let state = self.state.into_inner().unwrap_or_else(PoisonError::into_inner);
        let is_done = state.entries.len() == self.runs;
        (state.entries, Ending { claims: self.claims, is_done, _lead: state.lead })
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

/// What is left of a share whose results are still to be written.
#[derive(Debug)]
pub struct Ending {
    claims: PathBuf,
    is_done: bool,
    /// The lock of the leader, if this process is the leader.
    _lead: Option<File>,
}

impl Ending {
    /// The results are there. The locks go if nothing is left to do.
    pub fn close(self) {
        if self.is_done {
            // Files that stay behind do no harm: a lock is what counts.
            let _ = std::fs::remove_dir_all(&self.claims);
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
    // A file that only this job knows of: others may meet in the same folder.
    let file_of = |mark: &[u8]| folder.join(String::from_utf8_lossy(mark).into_owned());
    let mine = if ranks.rank == 0 { mark() } else { Vec::new() };
    let file = file_of(&mine);
    if ranks.rank == 0 {
        File::create(&file).with_context(|| format!("cannot write {}", file.display()))?;
    }
    let marks = job.exchange(&mine)?;
    let is_seen = marks.first().is_some_and(|mark| is_mark(mark) && file_of(mark).exists());
    if !is_seen {
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
    if ranks.rank == 0 {
        // One that stays behind does no harm.
        let _ = std::fs::remove_file(&file);
    }
    job.finish()?;
    Ok(ranks)
}

/// How the name of a file begins that tells whether all see one folder.
const MARK: &str = "job-";

/// The name of a file that no other start of the command makes.
fn mark() -> Vec<u8> {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let host = rustix::system::uname();
    let host = host.nodename().to_string_lossy().replace('/', "-");
    let now = now.map_or(0, |now| now.as_nanos());
    format!("{MARK}{host}-{}-{now}", std::process::id()).into_bytes()
}

/// Whether another process's bytes are the name of such a file, and lead nowhere else.
fn is_mark(bytes: &[u8]) -> bool {
    bytes.starts_with(MARK.as_bytes()) && !bytes.contains(&b'/') && !bytes.contains(&0)
}

/// How many processes of its job the launcher has started on this host, if it says so.
pub fn processes_here(variable: impl Fn(&str) -> Option<String>) -> usize {
    const NAMES: [&str; 3] = ["OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS", "PMI_LOCAL_SIZE"];
    let said = NAMES.into_iter().find_map(|name| variable(name)?.parse().ok());
    said.filter(|&count| count >= 1).unwrap_or(1)
}

/// Cores of this process where `here` share the host: of `usable` ones, by affinity and quota, of
/// `bound` ones by affinity, and of all that are `online`. A launcher that binds its processes has
/// divided the cores already, except among those that it binds to the same ones.
pub fn cores(usable: usize, bound: usize, online: usize, here: usize) -> usize {
    let share = if bound < online { usable.min(online / here) } else { usable / here };
    share.max(1)
}

/// How many cores a list such as `0-3,8` has.
pub fn cores_of(list: &str) -> Option<usize> {
    let count = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (usize, usize) = (first.parse().ok()?, last.parse().ok()?);
        last.checked_sub(first).map(|more| more + 1)
    };
    list.trim().split(',').map(count).sum()
}

#[cfg(test)]
mod tests;
