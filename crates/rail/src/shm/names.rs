//! The names by which processes of one user on one host find each other
//! without having exchanged addresses: a Portals pid and the kind of interface
//! lead to its address.
//!
//! A name is a file in the directory of this user's files (`held`):
//! `portals-<pid>-<kind>` with the address, and `portals-<pid>` for the pid
//! itself, which one process at a time has. What is read there is untrusted
//! like every address.

use super::dirs::{existing_dir, find_user_dir};
use super::error::OpenError;
use super::held::{Held, HeldError, hold, read, sweep};
use super::identity::Identity;
use crate::address::{ADDRESS_BYTES, Address, AddressError};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What all files begin with.
const PREFIX: &str = "portals-";
/// How many files are looked at for stale ones when the names are opened.
const SWEEP_FILES_MAX: usize = 256;
/// How many pids are tried for a process that leaves the choice to the system.
const PID_TRIES_MAX: u32 = 4096;
/// Pids handed out by choice end here: below all values that mean something
/// else.
const PID_CHOSEN_MAX: u32 = 0x7fff_ffff;

/// Why a name could not be had or found.
#[derive(Debug, thiserror::Error)]
pub enum NameError {
    /// A living process has it.
    #[error("process {pid} has that name; choose another pid")]
    InUse {
        /// The process, in its own pid namespace.
        pid: u32,
    },
    /// Nobody has it, or who had it has ended.
    #[error("no process has that name")]
    NotFound,
    /// The file is not one that this library made.
    #[error("the file of that name is foreign: {0}; remove it")]
    Foreign(&'static str),
    /// The file holds no address of this version.
    #[error("the file of that name is malformed: {0}; remove it")]
    Malformed(#[from] AddressError),
    /// The system refused.
    #[error("cannot use the directory of names: {0}")]
    Io(#[from] io::Error),
}

impl From<HeldError> for NameError {
    fn from(why: HeldError) -> NameError {
        match why {
            HeldError::InUse { pid } => NameError::InUse { pid },
            HeldError::NotFound => NameError::NotFound,
            HeldError::Foreign(what) => NameError::Foreign(what),
            HeldError::Io(cause) => NameError::Io(cause),
        }
    }
}

/// The names of this user on this host.
#[derive(Debug)]
pub struct Names {
    dir: PathBuf,
}

/// A name that this process has, until it is dropped. A fork of the process
/// does not have it.
#[derive(Debug)]
#[must_use = "a name is given up when dropped"]
pub struct Name {
    _held: Held,
}

/// A Portals pid that this process has, until the last clone is dropped: all
/// interfaces of a process share one.
#[derive(Clone, Debug)]
#[must_use = "a pid is given up when dropped"]
pub struct PidClaim {
    pid: u32,
    _held: Arc<Held>,
}

impl PidClaim {
    /// The pid.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.pid
    }
}

impl Names {
    /// The names below `shm_dir`, which all processes of a job must agree on.
    /// Removes some that ended processes have left.
    ///
    /// # Errors
    /// If this process cannot be identified or the directory not be used.
    pub fn open(shm_dir: &Path) -> io::Result<Names> {
        let identity = identity()?;
        let dir = find_user_dir(shm_dir, identity.uid).map_err(io::Error::other)?;
        sweep(&dir, &identity, PREFIX, SWEEP_FILES_MAX);
        Ok(Names { dir })
    }

    /// Lets `pid` and `kind` lead to `address`.
    ///
    /// # Errors
    /// [`NameError::InUse`] if they lead to the address of a living process,
    /// this one included.
    pub fn claim(&self, pid: u32, kind: u8, address: &Address) -> Result<Name, NameError> {
        let content = address.to_bytes();
        let held = hold(&self.dir, &identity()?, &file_of(pid, kind), &content)?;
        Ok(Name { _held: held })
    }

    /// Takes the pid `wanted`.
    ///
    /// # Errors
    /// [`NameError::InUse`] if a living process has it, this one included.
    pub fn claim_pid(&self, wanted: u32) -> Result<PidClaim, NameError> {
        let held = hold(&self.dir, &identity()?, &format!("{PREFIX}{wanted}"), &[])?;
        Ok(PidClaim { pid: wanted, _held: Arc::new(held) })
    }

    /// Takes the process's own pid, or `first` if that is given; if another process has that, the
    /// next one above it that is free.
    ///
    /// # Errors
    /// [`NameError::InUse`] if none of many is free.
    pub fn claim_any_pid(&self, first: Option<u32>) -> Result<PidClaim, NameError> {
        let next = |pid| if pid < PID_CHOSEN_MAX { pid + 1 } else { 1 };
        let mut pid = match first {
            Some(first) => first.clamp(1, PID_CHOSEN_MAX),
            None => identity()?.pid,
        };
        for _ in 1..PID_TRIES_MAX {
            match self.claim_pid(pid) {
                Err(NameError::InUse { .. } | NameError::Foreign(_)) => pid = next(pid),
                end => return end,
            }
        }
        self.claim_pid(pid)
    }

    /// The address that `pid` and `kind` lead to. It is what that process says,
    /// and may be out of date by the time it is used.
    ///
    /// # Errors
    /// [`NameError::NotFound`] if there is none or its process has ended;
    /// [`NameError::Foreign`] or [`NameError::Malformed`] for a file that this
    /// library did not write.
    pub fn find(&self, pid: u32, kind: u8) -> Result<Address, NameError> {
        let identity = identity()?;
        let dir = match existing_dir(&self.dir, identity.uid) {
            Ok(dir) => dir,
            // It goes with the last file in it.
            Err(OpenError::Dir { cause, .. }) if cause.kind() == io::ErrorKind::NotFound => {
                return Err(NameError::NotFound);
            }
            Err(why) => return Err(NameError::Io(io::Error::other(why))),
        };
        let found = read(&dir, &identity, &file_of(pid, kind))?;
        if found.is_stale {
            return Err(NameError::NotFound);
        }
        if found.content.len() != ADDRESS_BYTES {
            return Err(NameError::Foreign("not the length of an address"));
        }
        Ok(Address::from_bytes(&found.content)?)
    }
}

/// The number of this host among those that processes may speak of: the same
/// for all processes of one boot, no IPv4 address of a host, neither zero nor all ones. Where the host
/// cannot be told it is the second of them; no rail opens there.
#[must_use]
pub fn host_id() -> u32 {
    fold(Identity::of_this_process().map_or(1, |identity| identity.host))
}

/// No IPv4 address of one host, so that who takes it for one reaches nobody: it is of a group.
fn fold(host: u64) -> u32 {
    (host ^ host >> 32) as u32 & 0x0fff_ffff | 0xe000_0000
}

/// Asked each time: a fork is another process.
fn identity() -> io::Result<Identity> {
    Identity::of_this_process().map_err(io::Error::other)
}

fn file_of(pid: u32, kind: u8) -> String {
    format!("{PREFIX}{pid}-{kind}")
}

#[cfg(test)]
#[path = "tests/names.rs"]
mod tests;
