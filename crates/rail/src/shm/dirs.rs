//! The directories of a user's files: mailboxes, cards and names.
//!
//! Anybody may make a directory of any name where all users may write, so a user has
//! several to choose from, and one counts only if it is the user's and private.

use super::error::OpenError;
use rustix::fd::OwnedFd;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::io;
use std::path::{Path, PathBuf};

/// How many directories a user may have files in.
const USER_DIRS: u32 = 8;

/// The directory of one user's files, as a rule.
pub(super) fn user_dir(shm_dir: &Path, uid: u32) -> PathBuf {
    shm_dir.join(format!("sluice-{uid}"))
}

/// All directories in which they may be, in the order in which they are tried:
/// another user may have taken the first.
pub(super) fn user_dirs(shm_dir: &Path, uid: u32) -> impl Iterator<Item = PathBuf> {
    let spare = (1..USER_DIRS).map(move |number| format!("sluice-{uid}-{number}"));
    let spare = spare.map(|name| shm_dir.join(name));
    std::iter::once(user_dir(shm_dir, uid)).chain(spare)
}

/// The directory of this user's files: the first of [`user_dirs`] that is private to
/// the user, or the first that can be made so. Anybody may make a directory of such
/// a name where all users may write, and who comes first must not stop the rest.
///
/// # Errors
/// If none is to be had, why not the first.
pub(super) fn find_user_dir(shm_dir: &Path, uid: u32) -> Result<PathBuf, OpenError> {
    if let Some(there) = user_dirs(shm_dir, uid).find(|dir| existing_dir(dir, uid).is_ok()) {
        return Ok(there);
    }
    let mut first = None;
    for dir in user_dirs(shm_dir, uid) {
        match private_dir(&dir, uid) {
            Ok(_) => return Ok(dir),
            Err(why @ OpenError::DirForeign { .. }) => first = first.or(Some(why)),
            Err(why) => return Err(first.unwrap_or(why)),
        }
    }
    Err(first.expect("there are several"))
}

/// Opens the directory, making it if need be. `None` if it vanished meanwhile.
pub(super) fn private_dir(path: &Path, uid: u32) -> Result<Option<OwnedFd>, OpenError> {
    match rustix::fs::mkdir(path, Mode::RWXU) {
        Ok(()) | Err(Errno::EXIST) => {}
        Err(errno) => return Err(OpenError::Dir { path: path.into(), cause: errno.into() }),
    }
    match existing_dir(path, uid) {
        Err(OpenError::Dir { cause, .. }) if cause.kind() == io::ErrorKind::NotFound => Ok(None),
        opened => opened.map(Some),
    }
}

/// Opens the directory, which is there.
pub(super) fn existing_dir(path: &Path, uid: u32) -> Result<OwnedFd, OpenError> {
    let failed = |errno: Errno| OpenError::Dir { path: path.into(), cause: errno.into() };
    let foreign = |owner| OpenError::DirForeign { path: path.into(), uid, owner };
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let dir = match rustix::fs::open(path, flags, Mode::empty()) {
        Ok(dir) => dir,
        // Others' directories cannot even be opened.
        Err(errno @ (Errno::LOOP | Errno::NOTDIR | Errno::ACCESS)) => {
            let owner = rustix::fs::lstat(path).map(|stat| stat.st_uid);
            return Err(owner.map_or_else(|_| failed(errno), foreign));
        }
        Err(errno) => return Err(failed(errno)),
    };
    let stat = rustix::fs::fstat(&dir).map_err(failed)?;
    if stat.st_uid != uid || stat.st_mode & 0o077 != 0 {
        return Err(foreign(stat.st_uid));
    }
    Ok(dir)
}
