//! What a segment's memory is made of: a sealed memfd, or a locked file.
//!
//! Invariants: a memfd that peers map cannot shrink (sealed), so nobody is
//! killed by touching it; where a file can, the handler of `guard` mends it. A
//! mailbox file is locked by its owner from before
//! anybody may know of it until the owner ends, however it ends; one that can
//! be locked is therefore stale and may be removed.

use super::card::{Card, Place, file_name};
use super::config::{Config, SegmentKind};
use super::dirs::{existing_dir, find_user_dir, private_dir, user_dirs};
use super::error::OpenError;
use super::identity::Identity;
use super::kept_fd::KeptFd;
use crate::faults;
use crate::shortage::is_shortage;
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
    Memfd { fd: KeptFd },
    /// A file.
    File {
        /// Holds the lock.
        fd: KeptFd,
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
        mark: u64,
        bytes: u64,
        notices: &mut Vec<String>,
    ) -> Result<Backing, OpenError> {
        let kind = match config.segment {
            SegmentKind::Auto => kind_here(),
            stated => stated,
        };
        if kind == SegmentKind::File {
            return create_file(&config.shm_dir, identity, mark, bytes, notices);
        }
        reclaim_all(&config.shm_dir, identity.uid, notices);
        let made = faults::segment::on_make().and_then(|()| create_memfd(bytes));
        made.map_err(|errno| OpenError::Memfd { bytes, cause: errno.into() })
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

    pub(super) fn is_file(&self) -> bool {
        matches!(self, Backing::File { .. })
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

/// What a mailbox is made of here if nobody has said it.
pub(super) fn kind_here() -> SegmentKind {
    if peers_can_open_descriptors() && create_memfd(0).is_ok() {
        SegmentKind::Memfd
    } else {
        SegmentKind::File
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
    Ok(Backing::Memfd { fd: fd.into() })
}

fn create_file(
    shm_dir: &Path,
    identity: &Identity,
    mark: u64,
    bytes: u64,
    notices: &mut Vec<String>,
) -> Result<Backing, OpenError> {
    let dir_path = find_user_dir(shm_dir, identity.uid)?;
    let name = file_name(identity.pid, identity.start_time, mark);
    let path = dir_path.join(&name);
    let failed = |errno: Errno| OpenError::File { path: path.clone(), bytes, cause: errno.into() };
    faults::segment::on_make().map_err(failed)?;
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
        let backing = Backing::File { fd: fd.into(), path: path.clone(), pid: identity.pid };
        // Room is taken now: later a full file system would kill whoever
        // touches a page that it cannot provide.
        rustix::fs::fallocate(backing.fd(), FallocateFlags::empty(), 0, bytes).map_err(failed)?;
        return Ok(backing);
    }
    Err(failed(Errno::AGAIN))
}

/// Removes what ended processes of this user have left, wherever it lies.
fn reclaim_all(shm_dir: &Path, uid: u32, notices: &mut Vec<String>) {
    for path in user_dirs(shm_dir, uid) {
        if let Ok(dir) = existing_dir(&path, uid) {
            reclaim(&dir, &path, notices);
            // If it is empty now.
            let _ = fs::remove_dir(&path);
        }
    }
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
pub(super) fn open_peer(card: &Card, uid: u32, shm_dir: &Path) -> io::Result<(OwnedFd, u64)> {
    let fd = match card.place {
        Place::Memfd { fd } => open_descriptor(card.pid, fd)?,
        Place::File { uid } => open_file(&card.file_name(), shm_dir, uid)?,
    };
    let stat = rustix::fs::fstat(&fd)?;
    if !rustix::fs::FileType::from_raw_mode(stat.st_mode).is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "not shared memory"));
    }
    if stat.st_uid != uid {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "memory of another user"));
    }
    if matches!(card.place, Place::Memfd { .. }) && !is_sealed(&fd)? {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "memory is not sealed"));
    }
    Ok((fd, stat.st_size.unsigned_abs()))
}

/// Whether nobody can change a file's length; what is no shared memory has no seals at all.
fn is_sealed(fd: &OwnedFd) -> io::Result<bool> {
    match rustix::fs::fcntl_get_seals(fd) {
        Ok(seals) => Ok(seals.contains(SEALS)),
        Err(Errno::INVAL) => Ok(false),
        Err(cause) => Err(cause.into()),
    }
}

const OPEN_FLAGS: OFlags =
    OFlags::RDWR.union(OFlags::CLOEXEC).union(OFlags::NOCTTY).union(OFlags::NONBLOCK);

/// Opens a descriptor of another process.
pub(super) fn open_descriptor(pid: u32, fd: u32) -> io::Result<OwnedFd> {
    // The path is a link by nature.
    let open = |path: &str| rustix::fs::open(path, OPEN_FLAGS, Mode::empty());
    match open(&format!("/proc/{pid}/fd/{fd}")) {
        // A process whose first thread has ended has descriptors in others only.
        Err(missing @ (Errno::NOENT | Errno::ACCESS)) => {
            let threads = fs::read_dir(format!("/proc/{pid}/task"))?.flatten();
            let mut opened = threads.filter_map(|thread| {
                let thread = thread.file_name();
                open(&format!("/proc/{pid}/task/{}/fd/{fd}", thread.to_str()?)).ok()
            });
            opened.next().ok_or_else(|| missing.into())
        }
        // A socket, or another thing without a file.
        Err(Errno::NXIO) => Err(io::Error::new(io::ErrorKind::InvalidData, "not shared memory")),
        end => Ok(end?),
    }
}

/// Opens a mailbox file of a user, which is this one, in whichever directory it is.
fn open_file(name: &str, shm_dir: &Path, uid: u32) -> io::Result<OwnedFd> {
    for path in user_dirs(shm_dir, uid) {
        let dir = match existing_dir(&path, uid) {
            Ok(dir) => dir,
            Err(OpenError::Dir { cause, .. }) if is_shortage(&cause) => return Err(cause),
            // It is not there, or another user's, which says nothing of the file.
            Err(_) => continue,
        };
        match rustix::fs::openat(&dir, name, OPEN_FLAGS | OFlags::NOFOLLOW, Mode::empty()) {
            Err(Errno::NOENT) => {}
            end => return Ok(end?),
        }
    }
    Err(Errno::NOENT.into())
}

/// Removes the mailbox file of a peer that has ended, unless another process
/// did.
pub(super) fn remove_peer_file(card: &Card, shm_dir: &Path) {
    let Place::File { uid } = card.place else { return };
    for path in user_dirs(shm_dir, uid) {
        if let Ok(dir) = existing_dir(&path, uid) {
            reclaim_file(&dir, &card.file_name());
        }
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
