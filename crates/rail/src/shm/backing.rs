//! What a segment's memory is made of: a sealed memfd, or a locked file.
//!
//! Invariants: a memfd that peers map cannot shrink (sealed), so nobody is
//! killed by touching it. A mailbox file is locked by its owner from before
//! anybody may know of it until the owner ends, however it ends; one that can
//! be locked is therefore stale and may be removed.

use super::address::{Address, Place, file_name, user_dir};
use super::config::{Config, SegmentKind};
use super::error::OpenError;
use super::identity::Identity;
use rustix::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use rustix::fs::{
    AtFlags, Dir, FallocateFlags, FlockOperation, MemfdFlags, Mode, OFlags, SealFlags,
};
use rustix::io::Errno;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

const SEALS: SealFlags = SealFlags::SHRINK.union(SealFlags::GROW);
/// How often making a file is tried anew after another process that was just
/// starting or ending took the directory or the fresh file away.
const FILE_TRIES_MAX: u32 = 16;

/// The memory of this process's own segment, kept open while peers may want
/// to map it.
#[derive(Debug)]
pub(super) enum Backing {
    /// Anonymous memory.
    Memfd { fd: OwnedFd },
    /// A file.
    File {
        /// Holds the lock.
        fd: OwnedFd,
        /// The file, for its removal.
        path: PathBuf,
        /// Only the process that made the file removes it, not a fork of it.
        pid: u32,
    },
}

impl Backing {
    /// Makes `bytes` bytes of shared memory. Lines about what was reclaimed on
    /// the way go to `notices`.
    pub(super) fn create(
        config: &Config,
        identity: &Identity,
        nonce: u64,
        bytes: u64,
        notices: &mut Vec<String>,
    ) -> Result<Backing, OpenError> {
        let file = match config.segment {
            SegmentKind::Memfd => false,
            SegmentKind::File => true,
            SegmentKind::Auto => !peers_can_open_descriptors(),
        };
        if file {
            create_file(&config.shm_dir, identity, nonce, bytes, notices)
        } else {
            create_memfd(bytes).map_err(|errno| OpenError::Memfd { bytes, cause: errno.into() })
        }
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        match self {
            Backing::Memfd { fd } | Backing::File { fd, .. } => fd.as_fd(),
        }
    }

    pub(super) fn place(&self, identity: &Identity) -> Place {
        match self {
            Backing::Memfd { fd } => Place::Memfd { fd: fd.as_raw_fd().unsigned_abs() },
            Backing::File { .. } => Place::File { uid: identity.uid },
        }
    }

    /// Bytes of it that occupy memory now.
    pub(super) fn resident_bytes(&self) -> u64 {
        rustix::fs::fstat(self.fd()).map_or(0, |stat| stat.st_blocks.unsigned_abs() * 512)
    }
}

impl Drop for Backing {
    fn drop(&mut self) {
        if let Backing::File { path, pid, .. } = self
            && *pid == std::process::id()
        {
            // Whatever fails here, the next process that starts reclaims.
            let _ = fs::remove_file(&*path);
            if let Some(dir) = path.parent() {
                let _ = fs::remove_dir(dir);
            }
        }
    }
}

fn create_memfd(bytes: u64) -> Result<Backing, Errno> {
    let fd = rustix::fs::memfd_create(
        "sluice-mailbox",
        MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING,
    )?;
    rustix::fs::fchmod(&fd, Mode::RUSR | Mode::WUSR)?;
    rustix::fs::ftruncate(&fd, bytes)?;
    rustix::fs::fcntl_add_seals(&fd, SEALS | SealFlags::SEAL)?;
    Ok(Backing::Memfd { fd })
}

fn create_file(
    shm_dir: &Path,
    identity: &Identity,
    nonce: u64,
    bytes: u64,
    notices: &mut Vec<String>,
) -> Result<Backing, OpenError> {
    let dir_path = user_dir(shm_dir, identity.uid);
    let name = file_name(identity.pid, identity.start_time, nonce);
    let path = dir_path.join(&name);
    let failed = |errno: Errno| OpenError::File { path: path.clone(), bytes, cause: errno.into() };
    for _ in 0..FILE_TRIES_MAX {
        let Some(dir) = private_dir(&dir_path, identity.uid)? else { continue };
        reclaim(&dir, &dir_path, notices);
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::RDWR | OFlags::CLOEXEC;
        let made = rustix::fs::openat(&dir, &name, flags | OFlags::NOFOLLOW, Mode::from(0o600));
        let fd = match made {
            Ok(fd) => fd,
            // The directory was removed between its making and here.
            Err(Errno::NOENT) => continue,
            Err(errno) => return Err(failed(errno)),
        };
        rustix::fs::flock(&fd, FlockOperation::LockExclusive).map_err(failed)?;
        // A process that starts right now may have taken the file for a stale
        // one before it was locked.
        if rustix::fs::fstat(&fd).map_err(failed)?.st_nlink == 0 {
            continue;
        }
        let backing = Backing::File { fd, path: path.clone(), pid: identity.pid };
        // Room is taken now: later a full file system would kill whoever
        // touches a page that it cannot provide.
        rustix::fs::fallocate(backing.fd(), FallocateFlags::empty(), 0, bytes).map_err(failed)?;
        return Ok(backing);
    }
    Err(failed(Errno::AGAIN))
}

/// Opens the directory, making it if need be. `None` if it vanished meanwhile.
pub(super) fn private_dir(path: &Path, uid: u32) -> Result<Option<OwnedFd>, OpenError> {
    let failed = |errno: Errno| OpenError::Dir { path: path.into(), cause: errno.into() };
    match rustix::fs::mkdir(path, Mode::RWXU) {
        Ok(()) | Err(Errno::EXIST) => {}
        Err(errno) => return Err(failed(errno)),
    }
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let dir = match rustix::fs::open(path, flags, Mode::empty()) {
        Ok(dir) => dir,
        Err(Errno::NOENT) => return Ok(None),
        Err(Errno::LOOP | Errno::NOTDIR) => {
            return Err(OpenError::DirForeign { path: path.into(), uid });
        }
        Err(errno) => return Err(failed(errno)),
    };
    let stat = rustix::fs::fstat(&dir).map_err(failed)?;
    if stat.st_uid != uid || stat.st_mode & 0o077 != 0 {
        return Err(OpenError::DirForeign { path: path.into(), uid });
    }
    Ok(Some(dir))
}

/// Removes the mailbox files whose owners are gone.
fn reclaim(dir: &OwnedFd, dir_path: &Path, notices: &mut Vec<String>) {
    let Ok(entries) = Dir::read_from(dir) else { return };
    for entry in entries.flatten() {
        let Ok(name) = entry.file_name().to_str() else { continue };
        if !name.ends_with(".seg") {
            continue;
        }
        if let Some(bytes) = reclaim_file(dir, name) {
            let pid = name.split('-').next().unwrap_or("?");
            let path = dir_path.join(name);
            let line = format!(
                "reclaimed shared memory left by pid {pid}: {}, {bytes} bytes",
                path.display()
            );
            tracing::info!("{line}");
            notices.push(line);
        }
    }
}

/// Removes one file if its lock can be taken; says how long it was.
fn reclaim_file(dir: &OwnedFd, name: &str) -> Option<u64> {
    let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let fd = rustix::fs::openat(dir, name, flags, Mode::empty()).ok()?;
    rustix::fs::flock(&fd, FlockOperation::NonBlockingLockExclusive).ok()?;
    let stat = rustix::fs::fstat(&fd).ok()?;
    // Somebody else may have removed it just before; then it is their line.
    if stat.st_nlink == 0 {
        return None;
    }
    rustix::fs::unlinkat(dir, name, AtFlags::empty()).ok()?;
    Some(stat.st_size.unsigned_abs())
}

/// Opens the memory of a peer's segment; says how long it is.
pub(super) fn open_peer(address: &Address, shm_dir: &Path) -> io::Result<(OwnedFd, u64)> {
    let path = address.path(shm_dir);
    let mut flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOCTTY | OFlags::NONBLOCK;
    // The path of a memfd is a link by nature.
    if matches!(address.place, Place::File { .. }) {
        flags |= OFlags::NOFOLLOW;
    }
    let fd = rustix::fs::open(&path, flags, Mode::empty())?;
    let stat = rustix::fs::fstat(&fd)?;
    if !rustix::fs::FileType::from_raw_mode(stat.st_mode).is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "not shared memory"));
    }
    if matches!(address.place, Place::Memfd { .. })
        && !rustix::fs::fcntl_get_seals(&fd)?.contains(SEALS)
    {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "memory is not sealed"));
    }
    Ok((fd, stat.st_size.unsigned_abs()))
}

/// Removes the mailbox file of a peer that has ended, unless another process
/// did.
pub(super) fn remove_peer_file(address: &Address, shm_dir: &Path) {
    let Place::File { .. } = address.place else { return };
    let path = address.path(shm_dir);
    let (Some(dir), Some(name)) = (path.parent(), path.file_name().and_then(|n| n.to_str())) else {
        return;
    };
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    if let Ok(dir) = rustix::fs::open(dir, flags, Mode::empty()) {
        reclaim_file(&dir, name);
    }
}

/// Whether peers of the same user can open this process's descriptors.
fn peers_can_open_descriptors() -> bool {
    is_dumpable() && !in_own_user_namespace()
}

/// Whether the system lets others of the same user look into this process.
pub(super) fn is_dumpable() -> bool {
    matches!(rustix::process::dumpable_behavior(), Ok(rustix::process::DumpableBehavior::Dumpable))
}

/// Whether this process is in a user namespace other than the initial one.
pub(super) fn in_own_user_namespace() -> bool {
    let Ok(map) = fs::read_to_string("/proc/self/uid_map") else { return true };
    let mut numbers = map.split_ascii_whitespace();
    let initial = ["0", "0", "4294967295"].iter().all(|want| numbers.next() == Some(want));
    !initial
}
