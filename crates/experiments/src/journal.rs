//! The journal, from which the same command resumes after it was stopped or killed, or
//! after the machine went down.
//!
//! The journal is a text file. Its first line, the head, says what the results are of.
//! Each further line is a simulation that has ended. It is written and synced at once.
//! A line is complete if it ends with a line feed. A last line without one was being
//! written when the process died, and is dropped. Any other damage is an error.

use crate::setup::Outcome;
use anyhow::{Context as _, Result, bail};
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

/// The name of the file.
pub const FILE: &str = "journal.jsonl";

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

/// An open journal; nobody else can open it meanwhile.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    file: File,
}

impl Journal {
    /// Opens or creates the journal of a folder, and returns its entries.
    ///
    /// # Errors
    /// When the folder is in use, holds results of something else, or its
    /// journal is damaged.
    pub fn open(folder: &Path, head: &Head) -> Result<(Journal, BTreeMap<usize, Entry>)> {
        let path = folder.join(FILE);
        let name = path.display().to_string();
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path)
            .with_context(|| format!("cannot open {name}"))?;
        if flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
            bail!(
                "{} is in use by another `sluice sim run`; wait for it, or choose another --out",
                folder.display()
            );
        }
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).with_context(|| format!("cannot read {name}"))?;
        let found = read(&bytes, head).with_context(|| {
            format!(
                "{} cannot be resumed; choose another --out, or remove it to begin again",
                folder.display()
            )
        })?;
        file.set_len(found.whole_bytes)
            .and_then(|()| file.seek(SeekFrom::End(0)).map(drop))
            .with_context(|| format!("cannot write {name}"))?;
        let mut journal = Journal { path, file };
        if found.whole_bytes == 0 {
            journal.line(head)?;
        }
        Ok((journal, found.entries))
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

struct Found {
    entries: BTreeMap<usize, Entry>,
    whole_bytes: u64,
}

fn read(bytes: &[u8], head: &Head) -> Result<Found> {
    let whole = bytes.iter().rposition(|&byte| byte == b'\n').map_or(0, |end| end + 1);
    let mut entries = BTreeMap::new();
    let lines = bytes[..whole].split_inclusive(|&byte| byte == b'\n');
    for (index, line) in lines.enumerate() {
        let damaged = || format!("line {} of {FILE} is damaged", index + 1);
        if index == 0 {
            let found = serde_json::from_slice(line).with_context(damaged)?;
            match compare(&found, head) {
                // Nothing that could be lost has been kept yet.
                Err(_) if line.len() == whole => return Ok(Found { entries, whole_bytes: 0 }),
                compared => compared?,
            }
        } else {
            let entry: Entry = serde_json::from_slice(line).with_context(damaged)?;
            entries.insert(entry.run, entry);
        }
    }
    Ok(Found { entries, whole_bytes: whole as u64 })
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
