//! The directory of a lab: what finds it again, and the files that its hosts see.

use crate::plan::Plan;
use crate::process::{Holder, Identity};
use anyhow::{Context, Result, bail};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use rustix::process::geteuid;
use serde::{Deserialize, Serialize};
use std::fs::{self, DirBuilder, File};
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

/// Where the directories of all labs are.
pub const ROOT: &str = "/run/sluice-lab";

/// A lab that was started.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lab {
    /// What it was to be.
    pub plan: Plan,
    /// The process that holds the head.
    pub head: Identity,
    /// The processes that hold the hosts.
    pub hosts: Vec<Identity>,
}

impl Lab {
    /// Reads what is known of a lab.
    pub fn open(name: &str) -> Result<Lab> {
        let path = record(name);
        match fs::read(&path) {
            // Other users cannot see what holds the namespaces, and would find the lab stale.
            Ok(_) if !geteuid().is_root() => bail!("labs need root"),
            Ok(bytes) => serde_json::from_slice(&bytes).with_context(|| {
                format!("{} is damaged; remove the lab: {}", path.display(), down(name))
            }),
            Err(error) if error.kind() == ErrorKind::NotFound => bail!(
                "there is no lab {name}{}; start one: sluice lab up{}",
                if dir(name).exists() { " (one was half started)" } else { "" },
                option(name)
            ),
            Err(error) => Err(error).with_context(|| format!("{} cannot be read", path.display())),
        }
    }

    /// The process that holds the head, if it lives.
    pub fn head(&self) -> Option<Holder> {
        self.head.find()
    }

    /// Fails if the lab's processes are gone.
    pub fn running(&self) -> Result<Holder> {
        let name = &self.plan.name;
        self.head().with_context(|| {
            format!(
                "the lab {name} is stale: its processes are gone; remove what is left: {}",
                down(name)
            )
        })
    }

    /// Writes it, whole or not at all.
    pub fn write(&self) -> Result<()> {
        let path = record(&self.plan.name);
        let draft = path.with_extension("new");
        fs::write(&draft, serde_json::to_vec_pretty(self)?)
            .and_then(|()| fs::rename(&draft, &path))
            .with_context(|| format!("{} cannot be written", path.display()))
    }
}

/// The names of the labs that have a directory.
pub fn names() -> Vec<String> {
    let entries = fs::read_dir(ROOT).into_iter().flatten().flatten();
    let mut names: Vec<String> =
        entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort();
    names
}

/// The directory of a lab.
pub fn dir(name: &str) -> PathBuf {
    Path::new(ROOT).join(name)
}

/// The names that the hosts resolve.
pub fn hosts_file(name: &str) -> PathBuf {
    dir(name).join("hosts")
}

/// What the lab's processes say of their errors.
pub fn log_file(name: &str) -> PathBuf {
    dir(name).join("log")
}

/// The programs that only the head has: `ssh`, `rsh`, `agent`.
pub fn agents(name: &str) -> PathBuf {
    dir(name).join("bin")
}

/// The option that names a lab on the command line; none for the usual one.
pub fn option(name: &str) -> String {
    if name == "lab" { String::new() } else { format!(" --name {name}") }
}

/// The command that ends a lab.
pub fn down(name: &str) -> String {
    format!("sluice lab down{}", option(name))
}

/// What keeps two commands from changing labs at once.
#[derive(Debug)]
pub struct Lock {
    _file: File,
}

impl Lock {
    /// Waits for the other command.
    pub fn take() -> Result<Lock> {
        let failed = || format!("{ROOT} cannot be used");
        loop {
            let made = DirBuilder::new().mode(0o755).create(ROOT);
            made.or_else(|error| {
                if error.kind() == ErrorKind::AlreadyExists { Ok(()) } else { Err(error) }
            })
            .with_context(failed)?;
            let Ok(file) = File::open(ROOT) else { continue };
            while let Err(error) = flock(&file, FlockOperation::LockExclusive) {
                if error != Errno::INTR {
                    return Err(error).with_context(failed);
                }
            }
            // The last `down` removes the directory, perhaps while this one waited.
            let number = |metadata: fs::Metadata| metadata.ino();
            if fs::metadata(ROOT).map(number).ok() == file.metadata().map(number).ok() {
                return Ok(Lock { _file: file });
            }
        }
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // It stays where a lab is.
        let _ = fs::remove_dir(ROOT);
    }
}

fn record(name: &str) -> PathBuf {
    dir(name).join("lab.json")
}
