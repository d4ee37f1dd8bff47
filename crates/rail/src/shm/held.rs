//! Files that stand for a living process: made whole, held by a lock while the
//! process lives, taken over when it has ended.
//!
//! A file begins with who holds it (pid, start time, pid namespace); what
//! follows is the caller's. It gets its name by a hard link once it is written
//! and locked, so nobody ever reads half of one.
//!
//! A file is stale if its holder has ended. In the same pid namespace pid and
//! start time tell; the lock does not, for a fork of the holder keeps it. A
//! free lock says so everywhere: of another namespace, and of a holder that has
//! become another program.
//!
//! Invariants: a name changes hands only by removing the stale file and linking
//! a new one, which succeeds for one process. Files of others are removed only
//! under the lock of the directory, and only after the name was seen to still
//! lead to the file that was found stale.

use super::dirs::{existing_dir, private_dir};
use super::identity::{Identity, stat_of};
use super::kept_fd::KeptFd;
use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, Dir, FlockOperation, Mode, OFlags, Stat};
use rustix::io::Errno;
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Bytes of the holder at the beginning of a file.
const HOLDER_BYTES: usize = 24;
/// Longest content, the holder included. Longer files are nobody's.
const FILE_BYTES_MAX: u64 = 4096;
/// How often something is tried anew that another process has just interfered
/// with.
const TRIES_MAX: u32 = 64;
/// How long to wait for the lock of the directory, which is held for a few
/// system calls, before each further try.
const DIR_LOCK_PAUSE: Duration = Duration::from_millis(2);
const DIR_LOCK_TRIES_MAX: u32 = 1000;

/// Who holds a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Holder {
    pub(super) pid: u32,
    pub(super) start_time: u64,
    pub(super) pid_ns: u64,
}

impl Holder {
    pub(super) fn of(identity: &Identity) -> Holder {
        Holder { pid: identity.pid, start_time: identity.start_time, pid_ns: identity.pid_ns }
    }

    fn to_bytes(self) -> [u8; HOLDER_BYTES] {
        let mut bytes = [0; HOLDER_BYTES];
        bytes[..8].copy_from_slice(&self.start_time.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.pid_ns.to_le_bytes());
        bytes[16..20].copy_from_slice(&self.pid.to_le_bytes());
        bytes
    }

    fn from_bytes(bytes: &[u8]) -> Option<Holder> {
        let (start_time, rest) = bytes.split_first_chunk()?;
        let (pid_ns, rest) = rest.split_first_chunk()?;
        let (pid, rest) = rest.split_first_chunk()?;
        (rest.first_chunk()? == &[0; 4]).then_some(Holder {
            pid: u32::from_le_bytes(*pid),
            start_time: u64::from_le_bytes(*start_time),
            pid_ns: u64::from_le_bytes(*pid_ns),
        })
    }

    /// Whether the process has ended, as far as this namespace can tell.
    fn has_ended(&self, own: &Holder) -> bool {
        self.pid_ns == own.pid_ns
            && match stat_of(self.pid) {
                Ok(stat) => stat.ended || stat.start_time != self.start_time,
                Err(cause) => cause.kind() == io::ErrorKind::NotFound,
            }
    }
}

/// Why a file could not be had.
#[derive(Debug)]
pub(super) enum HeldError {
    /// A living process holds it.
    InUse { pid: u32 },
    /// It is not there.
    NotFound,
    /// It is not what this module writes.
    Foreign(&'static str),
    /// The system refused.
    Io(io::Error),
}

impl From<Errno> for HeldError {
    fn from(errno: Errno) -> HeldError {
        HeldError::Io(errno.into())
    }
}

/// A file that this process holds; removed when dropped.
#[derive(Debug)]
pub(super) struct Held {
    /// Holds the lock.
    fd: KeptFd,
    path: PathBuf,
    /// Only the process that made the file removes it, not a fork of it.
    pid: u32,
}

impl Held {
    /// Whether its name still leads to it. Somebody may have removed it: systemd removes
    /// what a user has in `/dev/shm` when the user's last session ends (`RemoveIPC`).
    pub(super) fn is_there(&self) -> bool {
        self.pid != std::process::id()
            || self.fd.is_same() && rustix::fs::fstat(&self.fd).is_ok_and(|stat| stat.st_nlink > 0)
    }

    /// The directory in which it is.
    pub(super) fn dir(&self) -> &Path {
        self.path.parent().expect("it was made in one")
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if self.pid != std::process::id() {
            return;
        }
        // While this process lives nobody else replaces its file; somebody may
        // have removed all of them by hand.
        let named = rustix::fs::lstat(&self.path).ok().map(|stat| (stat.st_dev, stat.st_ino));
        if named.is_some() && named == self.fd.file() {
            // Whatever fails here, the next one that wants the name mends.
            let _ = std::fs::remove_file(&self.path);
            if let Some(dir) = self.path.parent() {
                let _ = std::fs::remove_dir(dir);
            }
        }
    }
}

fn is_same(one: &Stat, other: &Stat) -> bool {
    (one.st_dev, one.st_ino) == (other.st_dev, other.st_ino)
}

/// Makes the file `name` in the private directory `dir_path` and holds it.
pub(super) fn hold(
    dir_path: &Path,
    identity: &Identity,
    name: &str,
    content: &[u8],
) -> Result<Held, HeldError> {
    for _ in 0..TRIES_MAX {
        let Some(dir) = open_dir(dir_path, identity)? else { continue };
        let Some((file, draft)) = write_draft(&dir, identity, name, content)? else { continue };
        let linked = rustix::fs::linkat(&dir, &draft, &dir, name, AtFlags::empty());
        let _ = rustix::fs::unlinkat(&dir, &draft, AtFlags::empty());
        match linked {
            Ok(()) => {
                let fd = KeptFd::from(OwnedFd::from(file));
                return Ok(Held { fd, path: dir_path.join(name), pid: identity.pid });
            }
            // The draft was taken for a stale one, or the directory vanished.
            Err(Errno::NOENT) => {}
            Err(Errno::EXIST) => {
                let own = Holder::of(identity);
                match look(&dir, name, identity) {
                    Ok(found) if found.is_stale(&own) => {
                        remove_stale(&dir, name, &own, &found, DIR_LOCK_TRIES_MAX)?
                    }
                    Ok(found) => return Err(HeldError::InUse { pid: found.holder.pid }),
                    Err(HeldError::NotFound) => {}
                    Err(why) => return Err(why),
                }
            }
            Err(errno) => return Err(errno.into()),
        }
    }
    Err(Errno::AGAIN.into())
}

/// A file that was read.
#[derive(Debug)]
pub(super) struct Content {
    pub(super) holder: Holder,
    /// The holder has ended.
    pub(super) is_stale: bool,
    /// What follows the holder.
    pub(super) content: Vec<u8>,
}

/// Reads the file `name` in a private directory.
pub(super) fn read(dir: &OwnedFd, identity: &Identity, name: &str) -> Result<Content, HeldError> {
    let found = look(dir, name, identity)?;
    let is_stale = found.is_stale(&Holder::of(identity));
    Ok(Content { holder: found.holder, is_stale, content: found.content })
}

/// Removes stale files whose names begin with `prefix`, looking at `files_max`
/// of them at most. Says how many it removed.
pub(super) fn sweep(dir_path: &Path, identity: &Identity, prefix: &str, files_max: usize) -> usize {
    let Ok(dir) = existing_dir(dir_path, identity.uid) else { return 0 };
    let Ok(entries) = Dir::read_from(&dir) else { return 0 };
    let own = Holder::of(identity);
    let mut removed = 0;
    for name in names_of(entries, prefix).take(files_max) {
        let Ok(found) = look(&dir, &name, identity) else { continue };
        if !found.is_stale(&own) {
            continue;
        }
        // One who was stopped while it had the lock of the directory must not stop
        // whoever starts: the rest is for a later start.
        if remove_stale(&dir, &name, &own, &found, 1).is_err() {
            break;
        }
        removed += 1;
    }
    removed
}

/// How many stale files there are whose names begin with `prefix`.
pub(super) fn count_stale(dir_path: &Path, identity: &Identity, prefix: &str) -> usize {
    let Ok(dir) = existing_dir(dir_path, identity.uid) else { return 0 };
    let Ok(entries) = Dir::read_from(&dir) else { return 0 };
    let own = Holder::of(identity);
    let is_stale =
        |name: &String| look(&dir, name, identity).is_ok_and(|found| found.is_stale(&own));
    names_of(entries, prefix).filter(is_stale).count()
}

/// The names of files that begin with `prefix`.
pub(super) fn names(dir: &OwnedFd, prefix: &str) -> Vec<String> {
    Dir::read_from(dir).map_or_else(|_| Vec::new(), |entries| names_of(entries, prefix).collect())
}

fn names_of(entries: Dir, prefix: &str) -> impl Iterator<Item = String> {
    entries.flatten().filter_map(move |entry| {
        let name = entry.file_name().to_str().ok()?;
        name.starts_with(prefix).then(|| name.to_owned())
    })
}

fn open_dir(path: &Path, identity: &Identity) -> Result<Option<OwnedFd>, HeldError> {
    private_dir(path, identity.uid).map_err(|why| HeldError::Io(io::Error::other(why)))
}

/// Writes a file under a name of its own and locks it. `None` if somebody took
/// it for a stale one before it was locked.
fn write_draft(
    dir: &OwnedFd,
    identity: &Identity,
    name: &str,
    content: &[u8],
) -> Result<Option<(File, String)>, HeldError> {
    static DRAFTS: AtomicU64 = AtomicU64::new(0);
    let holder = Holder::of(identity);
    let count = DRAFTS.fetch_add(1, Ordering::Relaxed);
    // The namespace, too: another one may have the same pid in this directory.
    let draft = format!("{name}.{}-{}-{:x}-{count}", holder.pid, holder.start_time, holder.pid_ns);
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let fd = match rustix::fs::openat(dir, &draft, flags, Mode::from(0o600)) {
        Ok(fd) => fd,
        // The directory was removed between its making and here; or a fork has
        // counted as far as its parent.
        Err(Errno::NOENT | Errno::EXIST) => return Ok(None),
        Err(errno) => return Err(errno.into()),
    };
    let mut file = File::from(fd);
    let written = lock(&file, FlockOperation::NonBlockingLockExclusive)
        .and_then(|()| file.write_all(&holder.to_bytes()))
        .and_then(|()| file.write_all(content));
    match written {
        Ok(()) => Ok(Some((file, draft))),
        Err(cause) => {
            let _ = rustix::fs::unlinkat(dir, &draft, AtFlags::empty());
            if cause.kind() == io::ErrorKind::WouldBlock {
                Ok(None)
            } else {
                Err(HeldError::Io(cause))
            }
        }
    }
}

fn lock(file: &File, how: FlockOperation) -> io::Result<()> {
    Ok(rustix::fs::flock(file, how)?)
}

/// A file as it was found.
#[derive(Debug)]
struct Found {
    file: File,
    stat: Stat,
    holder: Holder,
    content: Vec<u8>,
}

impl Found {
    fn is_stale(&self, own: &Holder) -> bool {
        if self.holder.has_ended(own) {
            return true;
        }
        // A shared lock: two that look at the same time do not mislead each
        // other. Closing would not undo it if another thread forks meanwhile.
        let is_free = lock(&self.file, FlockOperation::NonBlockingLockShared).is_ok();
        if is_free {
            let _ = lock(&self.file, FlockOperation::Unlock);
        }
        is_free
    }
}

fn look(dir: &OwnedFd, name: &str, identity: &Identity) -> Result<Found, HeldError> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let fd = match rustix::fs::openat(dir, name, flags, Mode::empty()) {
        Ok(fd) => fd,
        Err(Errno::NOENT) => return Err(HeldError::NotFound),
        Err(Errno::LOOP) => return Err(HeldError::Foreign("a symbolic link")),
        Err(errno) => return Err(errno.into()),
    };
    let stat = rustix::fs::fstat(&fd)?;
    if !rustix::fs::FileType::from_raw_mode(stat.st_mode).is_file() || stat.st_uid != identity.uid {
        return Err(HeldError::Foreign("not a file of this user"));
    }
    let file = File::from(fd);
    let mut bytes = Vec::new();
    (&file).take(FILE_BYTES_MAX).read_to_end(&mut bytes).map_err(HeldError::Io)?;
    // A draft whose writer died before it wrote is nobody's and stale.
    let nobody = Holder { pid: 0, start_time: 0, pid_ns: 0 };
    let holder = match bytes.as_slice() {
        [] => nobody,
        bytes => Holder::from_bytes(bytes).ok_or(HeldError::Foreign("no holder in it"))?,
    };
    let content = bytes.split_off(bytes.len().min(HOLDER_BYTES));
    Ok(Found { file, stat, holder, content })
}

/// Removes a file that was found stale, unless another process did.
fn remove_stale(
    dir: &OwnedFd,
    name: &str,
    own: &Holder,
    found: &Found,
    tries_max: u32,
) -> Result<(), HeldError> {
    let mut tries = 0;
    while let Err(errno) = rustix::fs::flock(dir, FlockOperation::NonBlockingLockExclusive) {
        tries += 1;
        if errno != Errno::WOULDBLOCK || tries == tries_max {
            return Err(errno.into());
        }
        std::thread::sleep(DIR_LOCK_PAUSE);
    }
    let removed = match rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(named) if is_same(&named, &found.stat) && found.is_stale(own) => {
            rustix::fs::unlinkat(dir, name, AtFlags::empty())
        }
        _ => Ok(()),
    };
    let _ = rustix::fs::flock(dir, FlockOperation::Unlock);
    Ok(removed?)
}
