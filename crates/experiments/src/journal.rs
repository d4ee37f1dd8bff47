//! The journals, from which the same command resumes after it was stopped or killed, or
//! after the machine went down.
//!
//! A journal is a text file. Its first line, the head, says what the results are of.
//! Each further line is a simulation that has ended. It is written and synced at once.
//! A line is complete if it ends with a line feed. A last line without one was being
//! written when the process died, and is dropped. Any other damage is an error.
//!
//! Each process that works on a folder has a journal of its own, the first that nobody
//! else has locked, and reads those of the others. So a line has one writer, and what a
//! process that died has written counts.

use crate::setup::Outcome;
use anyhow::{Context as _, Result, bail};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

/// The name of the first of the files.
pub const FILE: &str = "journal.jsonl";
/// Most processes that work on a folder at a time.
const PROCESSES_MAX: usize = 65_536;

/// The name of one of the files.
fn name(number: usize) -> String {
    if number == 0 { FILE.to_owned() } else { format!("journal-{number}.jsonl") }
}

/// Whether a file has such a name.
fn is_journal(name: &str) -> bool {
    let number = name.strip_prefix("journal-").and_then(|rest| rest.strip_suffix(".jsonl"));
    name == FILE || number.is_some_and(|number| number.parse::<usize>().is_ok())
}

/// What the results are of. Results with different heads are never mixed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Head {
    /// Version of the command.
    pub version: String,
    /// Of the experiment's text.
    pub experiment_sha256: String,
    /// In use.
    pub seeds: Vec<u64>,
}

/// A simulation that has ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// Its index in the plan.
    pub run: usize,
    /// How long it took.
    pub seconds: f64,
    /// What it counted.
    pub outcome: Outcome,
}

/// By run.
pub type Entries = BTreeMap<usize, Entry>;

/// The journal of this process, and how far those of others have been read.
#[derive(Debug)]
pub struct Journal {
    folder: PathBuf,
    head: Head,
    path: PathBuf,
    file: File,
    /// Whole lines that were read, in bytes, by file.
    others: BTreeMap<PathBuf, u64>,
}

impl Journal {
    /// Opens a journal of a folder that nobody else has open, or creates one, and
    /// returns the entries of all journals.
    ///
    /// # Errors
    /// When the folder holds results of something else, or a journal is damaged.
    pub fn open(folder: &Path, head: &Head) -> Result<(Journal, Entries)> {
        let (path, mut file) = lock_one(folder)?;
        let name = path.display().to_string();
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).with_context(|| format!("cannot read {name}"))?;
        let found = read(&bytes, &path, head).with_context(|| not_resumed(folder))?;
        let mut journal = Journal {
            folder: folder.to_owned(),
            head: head.clone(),
            path,
            file,
            others: BTreeMap::new(),
        };
        let mut entries = found.entries;
        // Before anything is written: others that work on something else here are not
        // disturbed by a start that is refused.
        journal.refresh(&mut entries)?;
        let file = &mut journal.file;
        file.set_len(found.whole_bytes)
            .and_then(|()| file.seek(SeekFrom::End(0)).map(drop))
            .with_context(|| format!("cannot write {name}"))?;
        if found.whole_bytes == 0 {
            journal.line(head)?;
        }
        // Once more: two may have begun at once.
        journal.refresh(&mut entries)?;
        Ok((journal, entries))
    }

    /// Adds what others have written since the last time.
    ///
    /// # Errors
    /// As of [`Journal::open`].
    pub fn refresh(&mut self, entries: &mut Entries) -> Result<()> {
        let folder = self.folder.clone();
        let what = || format!("cannot read the folder {}", folder.display());
        for file in std::fs::read_dir(&folder).with_context(what)? {
            let path = file.with_context(what)?.path();
            let is_other = path != self.path
                && path.file_name().and_then(|name| name.to_str()).is_some_and(is_journal);
            if is_other {
                self.read_other(&path, entries).with_context(|| not_resumed(&folder))?;
            }
        }
        Ok(())
    }

    fn read_other(&mut self, path: &Path, entries: &mut Entries) -> Result<()> {
        let name = path.display();
        // Opened anew each time: a network file system then asks its server.
        let mut file = File::open(path).with_context(|| format!("cannot open {name}"))?;
        let from = self.others.get(path).copied().unwrap_or(0);
        let mut bytes = Vec::new();
        file.seek(SeekFrom::Start(from))
            .and_then(|_| file.read_to_end(&mut bytes))
            .with_context(|| format!("cannot read {name}"))?;
        let found = if from == 0 {
            read(&bytes, path, &self.head)?
        } else {
            Found { entries: Entries::new(), whole_bytes: 0 }.and(&bytes, path)?
        };
        if from == 0 && found.whole_bytes == 0 && has_line(&bytes) && is_locked(&file) {
            bail!("another `sluice sim run` of something else works on it");
        }
        self.others.insert(path.to_owned(), from + found.whole_bytes);
        entries.extend(found.entries);
        Ok(())
    }

    /// Writes the counts of a simulation to disk.
    pub fn keep(&mut self, entry: &Entry) -> Result<()> {
        self.line(entry)
    }

    fn line(&mut self, content: &impl Serialize) -> Result<()> {
        let mut line = serde_json::to_vec(content)?;
        line.push(b'\n');
        self.file
            .write_all(&line)
            .and_then(|()| self.file.sync_data())
            .with_context(|| format!("cannot write {}", self.path.display()))
    }
}

/// Opens the first journal that nobody else has locked.
fn lock_one(folder: &Path) -> Result<(PathBuf, File)> {
    for number in 0..PROCESSES_MAX {
        let path = folder.join(name(number));
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path)
            .with_context(|| format!("cannot open {}", path.display()))?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok((path, file)),
            Err(Errno::WOULDBLOCK) => {}
            Err(error) => {
                return Err(error).with_context(|| format!("cannot lock {}", path.display()));
            }
        }
    }
    bail!("more than {PROCESSES_MAX} processes work on {}", folder.display())
}

fn is_locked(file: &File) -> bool {
    flock(file, FlockOperation::NonBlockingLockShared) == Err(Errno::WOULDBLOCK)
}

fn has_line(bytes: &[u8]) -> bool {
    bytes.contains(&b'\n')
}

fn not_resumed(folder: &Path) -> String {
    format!(
        "{} cannot be resumed; choose another --out, or remove it to begin again",
        folder.display()
    )
}

struct Found {
    entries: Entries,
    whole_bytes: u64,
}

impl Found {
    /// The same with the whole lines of these bytes.
    fn and(mut self, bytes: &[u8], path: &Path) -> Result<Found> {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        for line in bytes.split_inclusive(|&byte| byte == b'\n') {
            if line.last() != Some(&b'\n') {
                break;
            }
            let entry: Entry = serde_json::from_slice(line)
                .with_context(|| format!("byte {} of {name} is damaged", self.whole_bytes))?;
            self.whole_bytes += line.len() as u64;
            self.entries.insert(entry.run, entry);
        }
        Ok(self)
    }
}

/// Reads a journal from its head on.
fn read(bytes: &[u8], path: &Path, wanted: &Head) -> Result<Found> {
    let nothing = Found { entries: Entries::new(), whole_bytes: 0 };
    let Some(end) = bytes.iter().position(|&byte| byte == b'\n') else { return Ok(nothing) };
    let (head, rest) = bytes.split_at(end + 1);
    let found: Head = serde_json::from_slice(head).with_context(|| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        format!("the first line of {name} is damaged")
    })?;
    match compare(&found, wanted) {
        // Nothing that could be lost has been kept yet.
        Err(_) if !has_line(rest) => Ok(nothing),
        compared => {
            compared?;
            Found { entries: Entries::new(), whole_bytes: head.len() as u64 }.and(rest, path)
        }
    }
}

fn compare(found: &Head, wanted: &Head) -> Result<()> {
    if found.experiment_sha256 != wanted.experiment_sha256 {
        bail!("it holds results of another experiment, or of this one before it was changed");
    }
    if found.version != wanted.version {
        bail!("its results are of version {}, and this is {}", found.version, wanted.version);
    }
    if found.seeds != wanted.seeds {
        bail!("its results are of the seeds {:?}, and {:?} are wanted", found.seeds, wanted.seeds);
    }
    Ok(())
}

#[cfg(test)]
mod tests;
