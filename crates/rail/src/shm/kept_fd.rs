//! A descriptor that a library keeps open in a program that may close it.
//!
//! Some programs close all descriptors, to begin anew. The next file that they open gets
//! the number of one of these. So before a descriptor is closed it is made sure that it
//! still leads where it did: what the program has there now is the program's.
//!
//! Descriptors that lead to no file of their own (pidfds of older kernels) have one number
//! in common, so one of them may be taken for another.

use rustix::fd::{AsFd, AsRawFd, BorrowedFd, IntoRawFd, OwnedFd, RawFd};
use rustix::fs::fstat;

/// Closed when dropped, if it still leads to the same file.
#[derive(Debug)]
pub(super) struct KeptFd {
    /// `None` only while this is dropped.
    fd: Option<OwnedFd>,
    /// Device and number of the file; `None` if the system did not say.
    file: Option<(u64, u64)>,
}

impl KeptFd {
    /// Whether it still leads to the file that it led to.
    pub(super) fn is_same(&self) -> bool {
        self.file == file_of(self.as_fd())
    }

    /// Device and number of its file.
    pub(super) fn file(&self) -> Option<(u64, u64)> {
        self.file
    }
}

impl From<OwnedFd> for KeptFd {
    fn from(fd: OwnedFd) -> KeptFd {
        KeptFd { file: file_of(fd.as_fd()), fd: Some(fd) }
    }
}

impl AsFd for KeptFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_ref().expect("it is there until it is dropped").as_fd()
    }
}

impl AsRawFd for KeptFd {
    fn as_raw_fd(&self) -> RawFd {
        self.as_fd().as_raw_fd()
    }
}

impl Drop for KeptFd {
    fn drop(&mut self) {
        if !self.is_same() {
            let _ = self.fd.take().map(IntoRawFd::into_raw_fd);
        }
    }
}

/// What a file is known by.
fn file_of(fd: BorrowedFd<'_>) -> Option<(u64, u64)> {
    fstat(fd).ok().map(|stat| (stat.st_dev, stat.st_ino))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::MemfdFlags;
    use std::fs::File;
    use std::io::Write;
    use std::process::Command;

    /// In a process of its own: descriptors of others must not be replaced.
    #[test]
    fn a_descriptor_that_the_program_has_used_again_stays_open() {
        const ALONE: &str = "SLUICE_TEST_KEPT_FD";
        if std::env::var_os(ALONE).is_none() {
            let test =
                "shm::kept_fd::tests::a_descriptor_that_the_program_has_used_again_stays_open";
            let mut child = Command::new(std::env::current_exe().unwrap());
            let status = child.args(["--exact", test]).env(ALONE, "1").status().unwrap();
            return assert!(status.success());
        }
        let file = |name| rustix::fs::memfd_create(name, MemfdFlags::CLOEXEC).unwrap();
        let (kept, theirs) = (KeptFd::from(file("ours")), file("theirs"));
        let number = kept.as_raw_fd();
        assert!(kept.is_same());
        // SAFETY: what the number leads to is replaced, and nobody else uses it.
        assert_eq!(unsafe { libc::dup2(theirs.as_raw_fd(), number) }, number);
        assert!(!kept.is_same());
        drop(kept);
        // SAFETY: it is open, as it was left so, and nobody else owns it.
        let mut again = unsafe { <File as rustix::fd::FromRawFd>::from_raw_fd(number) };
        again.write_all(b"still open").unwrap();
    }
}
