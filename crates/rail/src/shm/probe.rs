//! What this system allows the rail to do, found by trying it.
//!
//! Every probe says what came out and, where something was refused, the line
//! that would permit it. Nothing is left behind.

use super::backing::{in_own_user_namespace, is_dumpable, kind_here};
use super::config::SegmentKind;
use super::dirs::find_user_dir;
use rustix::fd::{AsRawFd, OwnedFd};
use rustix::fs::{Access, MemfdFlags, SealFlags};
use rustix::io::Errno;
use rustix::process::{PidfdFlags, getpid, pidfd_open};
use std::ffi::CString;
use std::fs;
use std::io;
use std::path::Path;

/// How a probe went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// It works, or nothing stands in the way.
    Ok,
    /// It does not work here.
    Refused,
}

/// One thing that was tried or looked up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Probe {
    /// What.
    pub name: &'static str,
    /// How it went.
    pub status: Status,
    /// What was found, or why it was refused.
    pub detail: String,
    /// What to do about it, if it was refused and something can be done.
    pub remedy: Option<String>,
}

/// One rail, as it would run here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RailProbe {
    /// Its name.
    pub name: &'static str,
    /// Whether it can run at all.
    pub usable: bool,
    /// How it would run.
    pub detail: String,
}

/// Everything that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProbeReport {
    /// The rails.
    pub rails: Vec<RailProbe>,
    /// What was probed, in a fixed order.
    pub probes: Vec<Probe>,
}

impl ProbeReport {
    /// The probe of this name.
    #[must_use]
    pub fn probe(&self, name: &str) -> Option<&Probe> {
        self.probes.iter().find(|probe| probe.name == name)
    }

    /// Whether processes can read and write each other's memory.
    #[must_use]
    pub fn reads_work(&self) -> bool {
        self.works(READS)
    }

    /// What to do about it, if they cannot.
    #[must_use]
    pub fn reads_remedy(&self) -> Option<&str> {
        self.probe(READS)?.remedy.as_deref()
    }

    fn works(&self, name: &str) -> bool {
        self.probe(name).is_some_and(|probe| probe.status == Status::Ok)
    }
}

const MEMFD: &str = "memfd";
const DESCRIPTORS: &str = "descriptors of other processes";
const SHM_DIR: &str = "shared memory directory";
const READS: &str = "direct reads";
const PIDFD: &str = "pidfd";
const USER_NAMESPACE: &str = "user namespace";
const DUMPABLE: &str = "dumpable";
const YAMA: &str = "yama ptrace scope";
const SECCOMP: &str = "seccomp";

const YAMA_REMEDY: &str =
    "sysctl kernel.yama.ptrace_scope=0, or let processes allow it themselves (bulk direct)";
const CONTAINER_REMEDY: &str = "docker run --cap-add SYS_PTRACE";

/// Tries everything. `shm_dir` is where processes find each other.
#[must_use]
pub fn report(shm_dir: &Path) -> ProbeReport {
    let siblings = probe_siblings();
    let scope = yama_scope();
    let mut report = ProbeReport {
        rails: Vec::new(),
        probes: vec![
            from_result(
                MEMFD,
                probe_memfd(),
                "can be made and sealed",
                Some("not needed: mailboxes become files".into()),
            ),
            from_result(
                DESCRIPTORS,
                siblings.map(|found| found.open).and_then(errno_result),
                "can be opened",
                Some(if kind_here() == SegmentKind::Memfd {
                    "set FI_SLUICE_SEGMENT=file".into()
                } else {
                    "not needed: mailboxes become files".into()
                }),
            ),
            probe_shm_dir(shm_dir),
            from_result(
                READS,
                siblings.map(|found| found.read).and_then(errno_result),
                "work between two processes",
                Some(if scope == Some(1) { YAMA_REMEDY } else { CONTAINER_REMEDY }.into()),
            ),
            from_result(
                PIDFD,
                pidfd_open(getpid(), PidfdFlags::empty()).map(drop),
                "can be opened",
                Some("not needed: /proc is read instead; Linux 5.3 has it".into()),
            ),
            probe_user_namespace(),
            probe_dumpable(),
            describe_yama(scope),
            probe_seccomp(),
        ],
    };
    // What is opened is decided where it is opened.
    let mailbox = if kind_here() == SegmentKind::Memfd {
        report.works(DESCRIPTORS).then(|| "mailboxes in anonymous memory".to_owned())
    } else {
        Some(format!("mailboxes in files below {}", shm_dir.display()))
    };
    // Processes find each other there, whatever their mailboxes are made of.
    let has_dir = report.works(SHM_DIR);
    let mailbox = mailbox.filter(|_| has_dir);
    let bulk = if report.works(READS) {
        "large messages by direct reads"
    } else {
        "large messages through the mailboxes"
    };
    report.rails.push(RailProbe {
        name: "shm",
        usable: mailbox.is_some(),
        detail: match mailbox {
            Some(mailbox) => format!("{mailbox}, {bulk}"),
            None if !has_dir => format!("no directory below {} of this user", shm_dir.display()),
            None => "no memory that processes could share".into(),
        },
    });
    report
}

fn from_result(
    name: &'static str,
    result: Result<(), Errno>,
    works: &str,
    remedy: Option<String>,
) -> Probe {
    match result {
        Ok(()) => Probe { name, status: Status::Ok, detail: works.into(), remedy: None },
        Err(errno) => Probe { name, status: Status::Refused, detail: errno.to_string(), remedy },
    }
}

fn errno_result(errno: i32) -> Result<(), Errno> {
    if errno == 0 { Ok(()) } else { Err(Errno::from_raw_os_error(errno)) }
}

fn sealed_memfd() -> Result<OwnedFd, Errno> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let fd = rustix::fs::memfd_create("sluice-probe", flags)?;
    rustix::fs::ftruncate(&fd, 4096)?;
    rustix::fs::fcntl_add_seals(&fd, SealFlags::SHRINK | SealFlags::GROW)?;
    Ok(fd)
}

fn probe_memfd() -> Result<(), Errno> {
    sealed_memfd().map(drop)
}

fn probe_shm_dir(dir: &Path) -> Probe {
    let remedy = Some("mount a tmpfs there that this user may write".to_owned());
    let refused = |detail, remedy| Probe { name: SHM_DIR, status: Status::Refused, detail, remedy };
    let allowed = rustix::fs::access(dir, Access::WRITE_OK | Access::EXEC_OK);
    let uid = rustix::process::geteuid().as_raw();
    if allowed.is_ok() {
        match find_user_dir(dir, uid) {
            // If it is empty it was made just now, or nobody will miss it.
            Ok(path) => drop(fs::remove_dir(path)),
            Err(why) => return refused(why.to_string(), None),
        }
    }
    match allowed.and_then(|()| rustix::fs::statvfs(dir)) {
        Ok(stat) => Probe {
            name: SHM_DIR,
            status: Status::Ok,
            detail: format!(
                "{}, {} MiB free",
                dir.display(),
                stat.f_bavail.saturating_mul(stat.f_frsize) >> 20
            ),
            remedy: None,
        },
        Err(errno) => refused(format!("{}: {errno}", dir.display()), remedy),
    }
}

fn probe_user_namespace() -> Probe {
    if in_own_user_namespace() {
        Probe {
            name: USER_NAMESPACE,
            status: Status::Refused,
            detail: "not the initial one".into(),
            remedy: Some("not needed: mailboxes become files".into()),
        }
    } else {
        from_result(USER_NAMESPACE, Ok(()), "the initial one", None)
    }
}

fn probe_dumpable() -> Probe {
    if is_dumpable() {
        from_result(DUMPABLE, Ok(()), "others of this user may look into this process", None)
    } else {
        Probe {
            name: DUMPABLE,
            status: Status::Refused,
            detail: "others may not look into this process".into(),
            remedy: Some("run a program that is not setuid and that its user may read".into()),
        }
    }
}

fn yama_scope() -> Option<u32> {
    fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope").ok()?.trim().parse().ok()
}

fn describe_yama(scope: Option<u32>) -> Probe {
    let (status, detail) = match scope {
        None => (Status::Ok, "not present".to_owned()),
        Some(0) => (Status::Ok, "0".to_owned()),
        Some(scope) => (Status::Refused, scope.to_string()),
    };
    let remedy = (status == Status::Refused).then(|| YAMA_REMEDY.to_owned());
    Probe { name: YAMA, status, detail, remedy }
}

fn probe_seccomp() -> Probe {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mode = status
        .lines()
        .find_map(|line| line.strip_prefix("Seccomp:"))
        .map_or("unknown", |mode| mode.trim());
    let detail = match mode {
        "0" => "off",
        "1" => "strict",
        "2" => "a filter is in force; the probes above show what it refuses",
        _ => "unknown",
    };
    from_result(SECCOMP, Ok(()), detail, None)
}

/// What one process could do with another one that is no descendant of it: the
/// error numbers, zero for success.
#[derive(Clone, Copy, Debug)]
struct Siblings {
    open: i32,
    read: i32,
}

/// How long the children may take: they make two system calls.
const SIBLINGS_PATIENCE_MS: i32 = 5000;
static MARK: u64 = 0x5157_0c1c_e5a1_ee75;

/// Forks two children, of which one looks into the other: parents and their
/// children may do more to each other than processes of one job.
fn probe_siblings() -> Result<Siblings, Errno> {
    let memfd = sealed_memfd()?;
    let (hold_read, hold_write) = new_pipe()?;
    let (answer_read, answer_write) = new_pipe()?;
    let looked_at = Child::fork(|| {
        // Lives until the parent closes or kills it.
        let mut byte = 0_u8;
        // SAFETY: the descriptors are open in the child, the byte is writable.
        unsafe {
            libc::close(hold_write.as_raw_fd());
            libc::read(hold_read.as_raw_fd(), (&raw mut byte).cast(), 1);
        }
    })?;
    let path = CString::new(format!("/proc/{}/fd/{}", looked_at.pid, memfd.as_raw_fd()))
        .map_err(|_| Errno::INVAL)?;
    let _looker = Child::fork(|| {
        let answer = look_into(looked_at.pid, &path);
        // SAFETY: the descriptor is open, the array readable.
        unsafe { libc::write(answer_write.as_raw_fd(), (&raw const answer).cast(), 8) };
    })?;
    drop(answer_write);
    let mut polled = libc::pollfd { fd: answer_read.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    // SAFETY: one valid entry.
    if unsafe { libc::poll(&raw mut polled, 1, SIBLINGS_PATIENCE_MS) } != 1 {
        return Err(Errno::TIMEDOUT);
    }
    let mut bytes = [0; 8];
    if rustix::io::read(&answer_read, &mut bytes)? != 8 {
        // The child was ended before it could answer, as some filters do.
        return Err(Errno::PERM);
    }
    let [a, b, c, d, e, f, g, h] = bytes;
    Ok(Siblings { open: i32::from_ne_bytes([a, b, c, d]), read: i32::from_ne_bytes([e, f, g, h]) })
}

fn new_pipe() -> Result<(io::PipeReader, io::PipeWriter), Errno> {
    io::pipe().map_err(|cause| Errno::from_io_error(&cause).unwrap_or(Errno::MFILE))
}

/// In a forked child: only calls that are safe after a fork.
fn look_into(pid: libc::pid_t, path: &CString) -> [i32; 2] {
    let mut answer = [0; 2];
    let mut found = 0_u64;
    let local = libc::iovec { iov_base: (&raw mut found).cast(), iov_len: 8 };
    let remote = libc::iovec { iov_base: (&raw const MARK).cast_mut().cast(), iov_len: 8 };
    // SAFETY: the path is a C string; the kernel checks the remote address and
    // the local one is a variable of eight bytes.
    unsafe {
        if libc::open(path.as_ptr(), libc::O_RDWR | libc::O_CLOEXEC) < 0 {
            answer[0] = *libc::__errno_location();
        }
        if libc::process_vm_readv(pid, &raw const local, 1, &raw const remote, 1, 0) != 8 {
            answer[1] = *libc::__errno_location();
        }
    }
    if answer[1] == 0 && std::hint::black_box(found) != MARK {
        answer[1] = libc::EIO;
    }
    answer
}

/// A forked child, ended and reaped when dropped.
struct Child {
    pid: libc::pid_t,
}

impl Child {
    /// `run` may only do what is safe in the child of a process with threads.
    fn fork(run: impl FnOnce()) -> Result<Child, Errno> {
        // SAFETY: the child runs only `run`, which keeps to system calls, and
        // then ends without running anything of the parent.
        match unsafe { libc::fork() } {
            -1 => {
                Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::AGAIN))
            }
            0 => {
                run();
                // SAFETY: ends the child at once.
                unsafe { libc::_exit(0) }
            }
            pid => Ok(Child { pid }),
        }
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // SAFETY: a child of this process that has not been waited for, so the
        // pid is still its own.
        unsafe {
            libc::kill(self.pid, libc::SIGKILL);
            libc::waitpid(self.pid, std::ptr::null_mut(), 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_refusal_says_why_and_some_rail_is_described() {
        let report = report(Path::new("/dev/shm"));
        assert_eq!(report.rails.len(), 1);
        for probe in &report.probes {
            assert!(!probe.detail.is_empty(), "{probe:?}");
            assert!(probe.status == Status::Refused || probe.remedy.is_none(), "{probe:?}");
        }
        // What a segment needs is what the probe finds.
        assert_eq!(
            report.rails[0].usable,
            crate::shm::Shm::open(crate::shm::Config::default()).is_ok()
        );
    }

    #[test]
    fn a_directory_that_is_not_there_is_refused() {
        let report = report(Path::new("/does/not/exist"));
        let probe = report.probe(SHM_DIR).unwrap();
        assert_eq!(probe.status, Status::Refused);
        assert!(probe.remedy.is_some());
    }
}
