//! Systems that forbid something, directories of others, files that vanish.

use super::super::backing::open_descriptor;
use super::super::dirs::user_dirs;
use super::super::identity::stat_of;
use super::super::probe;
use super::super::watch::Watch;
use super::super::{Config, Names, OpenError, SegmentKind, Shm, Warn};
use super::child::Child;
use super::closing::pair;
use super::files::Dir;
use super::{PATIENCE, Recorder, advance_clock, open_memfd, poll, put, send, settle};
use rustix::fd::AsRawFd;
use rustix::fs::MemfdFlags;
use sluice_link::{PeerError, Transport};
use sluice_wire::Nanos;
use std::cell::RefCell;
use std::fs;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt, symlink};
use std::path::Path;
use std::time::Instant;

thread_local! {
    static LINES: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

fn lines() -> Vec<String> {
    LINES.take()
}

pub(super) fn over_files(dir: &Path) -> Shm {
    let warn = Warn(|line| LINES.with_borrow_mut(|lines| lines.push(line.to_owned())));
    let config =
        Config { segment: SegmentKind::File, shm_dir: dir.into(), warn, ..Config::default() };
    Shm::open(config).unwrap()
}

#[test]
fn where_memfds_are_forbidden_mailboxes_are_files() {
    let dir = Dir::new("no-memfd");
    let mut child = Child::run("no memfd", &open_memfd(), 0, Some(&dir.0));
    assert!(child.process.wait().unwrap().success());
}

/// What a child does that may not make memfds.
pub(super) fn without_memfd(dir: &Path) {
    forbid(libc::SYS_memfd_create);
    let config = Config { shm_dir: dir.into(), ..Config::default() };
    let shm = Shm::open(config).unwrap();
    assert!(shm.card.is_file());
    let report = probe::report(dir);
    let said = &report.rails[0];
    assert!(said.usable && said.detail.starts_with("mailboxes in files"), "{said:?}");
}

/// Lets a system call fail from now on, in this thread and those it starts.
fn forbid(call: libc::c_long) {
    let op = |code: u32, jt, jf, k| libc::sock_filter { code: code as u16, jt, jf, k };
    let mut filter = [
        op(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0),
        op(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0, 1, call as u32),
        op(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ERRNO | libc::EPERM as u32),
        op(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
    // SAFETY: the program is valid for the call, which copies it.
    unsafe {
        assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
        let mode = libc::SECCOMP_MODE_FILTER;
        assert_eq!(libc::prctl(libc::PR_SET_SECCOMP, mode, &raw const program), 0);
    }
}

#[test]
fn leftovers_are_reclaimed_also_by_one_that_makes_no_files() {
    let dir = Dir::new("reclaim-memfd");
    let target = dir.open_memfd();
    let mut child = Child::run("wait", &target, 0, Some(&dir.0));
    child.wait_ready();
    child.kill();
    drop(target);
    assert_eq!(dir.files(), (1, 1));
    let shm = dir.open_memfd();
    assert_eq!(shm.notices().len(), 1);
    assert_eq!(dir.files(), (0, 1));
    drop(shm);
    assert!(!dir.user_dir().exists());
}

/// Whoever takes the place of a user's directory stops nobody, unless all are taken.
#[test]
fn a_directory_of_somebody_else_is_passed_over() {
    let dir = Dir::new("foreign");
    let uid = rustix::process::geteuid().as_raw();
    let all: Vec<_> = user_dirs(&dir.0, uid).collect();
    fs::DirBuilder::new().mode(0o700).create(&all[0]).unwrap();
    fs::set_permissions(&all[0], fs::Permissions::from_mode(0o755)).unwrap();
    symlink("/tmp", &all[1]).unwrap();
    if uid == 0 {
        fs::DirBuilder::new().mode(0o700).create(&all[2]).unwrap();
        std::os::unix::fs::chown(&all[2], Some(4242), None).unwrap();
    }
    let (mut a, b) = (over_files(&dir.0), over_files(&dir.0));
    let to_b = a.peer(&b.address()).unwrap();
    assert!(a.connect(to_b).is_ok());
    let (here, there) = (Names::open(&dir.0).unwrap(), Names::open(&dir.0).unwrap());
    let name = here.claim(7, 0, &b.address()).unwrap();
    assert_eq!(there.find(7, 0).unwrap(), b.address());
    // It stays as long as somebody has something there, also if the first is free.
    fs::remove_dir(&all[0]).unwrap();
    assert_eq!(Names::open(&dir.0).unwrap().find(7, 0).unwrap(), b.address());
    drop((a, b, name));
    for path in all.iter().filter(|path| !path.exists()) {
        symlink("/tmp", path).unwrap();
    }
    let why = Names::open(&dir.0).unwrap_err().to_string();
    assert!(matches!(dir.open(), Err(OpenError::DirForeign { .. })));
    let user = format!("user {uid}");
    for part in [all[0].to_str().unwrap(), &user, "FI_SLUICE_SHM_DIR", "PTL_SHM_DIR"] {
        assert!(why.contains(part), "{part} in {why}");
    }
    for path in all.iter().filter(|path| path.is_symlink()) {
        fs::remove_file(path).unwrap();
    }
}

/// Touching a file beyond its end is a signal; here it is an error with a name.
#[test]
fn a_mailbox_file_that_is_shortened_kills_nobody() {
    let dir = Dir::new("shortened");
    let (mut a, mut b) = (over_files(&dir.0), over_files(&dir.0));
    let (to_b, to_a) = (a.peer(&b.address()).unwrap(), b.peer(&a.address()).unwrap());
    a.connect(to_b).unwrap();
    b.connect(to_a).unwrap();
    send(&mut a, to_b, put(1, 0), &[1; 1000]);
    rustix::fs::ftruncate(b.backing.fd(), 0).unwrap();
    for _ in 0..10 {
        send(&mut a, to_b, put(1, 0), &[1; 1000]);
    }
    for (rail, peer) in [(&mut a, to_b), (&mut b, to_a)] {
        let mut machine = Recorder::default();
        let begin = Instant::now();
        while machine.gone.is_empty() {
            advance_clock(Nanos(10_000_000));
            poll(rail, &mut machine);
            assert!(begin.elapsed() < PATIENCE);
        }
        assert_eq!(machine.gone, [(peer, PeerError::Damaged)]);
        assert_eq!(machine.packets, []);
    }
    assert!(lines().iter().any(|line| line.contains("overwritten")));
}

#[test]
fn a_peer_that_could_not_be_watched_is_watched_later() {
    let dir = Dir::new("no-descriptors");
    let mut child = Child::run("no descriptors", &open_memfd(), 0, Some(&dir.0));
    assert!(child.process.wait().unwrap().success());
}

/// What a child does that has no descriptor left for a while.
pub(super) fn without_descriptors(dir: &Path) {
    let (mut a, b) = (over_files(dir), over_files(dir));
    // Of a process in another pid namespace only the lock of its mailbox file tells.
    let card = super::super::Card { pid_ns: b.card.pid_ns + 1, ..b.card };
    let peer = a.admit(&card).unwrap();
    let limit = |soft: u64| {
        let all = rustix::process::getrlimit(rustix::process::Resource::Nofile);
        let new = rustix::process::Rlimit { current: Some(soft), ..all };
        rustix::process::setrlimit(rustix::process::Resource::Nofile, new).unwrap();
        all.current.unwrap()
    };
    let c = over_files(dir);
    let to_c = a.peer(&c.address()).unwrap();
    let before = limit(0);
    for peer in [peer, to_c] {
        a.watch(peer);
        assert_eq!(a.connect(peer), Err(PeerError::Unreachable), "for now");
    }
    limit(before);
    let is_watched = |a: &Shm, peer| a.peers.get(peer).is_some_and(|known| known.watch.is_some());
    assert!(!is_watched(&a, peer), "nothing to watch with");
    assert!(!is_watched(&a, to_c), "nor a card to read");
    let begin = Instant::now();
    let mut machine = Recorder::default();
    while !is_watched(&a, peer) || !is_watched(&a, to_c) {
        advance_clock(Nanos(10_000_000));
        poll(&mut a, &mut machine);
        assert!(begin.elapsed() < PATIENCE);
    }
    assert_eq!(machine.gone, []);
}

/// The one that was given up may be honest, and is told so.
#[test]
fn who_is_given_up_by_a_peer_is_told_that_it_was_refused() {
    let dir = Dir::new("refused");
    let (mut a, mut b) = (over_files(&dir.0), over_files(&dir.0));
    let to_b = a.peer(&b.address()).unwrap();
    a.connect(to_b).unwrap();
    b.adopt_senders();
    b.refuse_entry(0);
    let begin = Instant::now();
    let mut machine = Recorder::default();
    while machine.gone.is_empty() {
        advance_clock(Nanos(10_000_000));
        poll(&mut a, &mut machine);
        assert!(begin.elapsed() < PATIENCE);
    }
    assert_eq!(machine.gone, [(to_b, PeerError::Refused)]);
    assert!(lines().iter().any(|line| line.contains("has given this process up")));
}

/// A machine decides that a peer broke the protocol. Nothing of that one is delivered any
/// more, and it learns that it was refused, not that this process has ended.
#[test]
fn who_is_given_up_by_the_machine_is_told_that_it_was_refused() {
    let (mut a, to_b, mut b, to_a) = pair();
    let (mut at_a, mut at_b) = (Recorder::default(), Recorder::default());
    send(&mut b, to_a, put(1, 0), b"fine");
    settle(&mut a, &mut at_a);
    a.refuse(to_b);
    settle(&mut a, &mut at_a);
    assert_eq!(at_a.gone, [(to_b, PeerError::Protocol)]);
    send(&mut b, to_a, put(2, 0), b"unheard");
    settle(&mut a, &mut at_a);
    assert_eq!((at_a.packets.len(), a.stats().violations), (1, 1));
    let begin = Instant::now();
    while at_b.gone.is_empty() {
        advance_clock(Nanos(10_000_000));
        poll(&mut b, &mut at_b);
        assert!(begin.elapsed() < PATIENCE);
    }
    assert_eq!(at_b.gone, [(to_a, PeerError::Refused)]);
    a.refuse(to_b);
    settle(&mut a, &mut at_a);
    assert_eq!((at_a.gone.len(), a.stats().violations), (1, 1), "once");
}

#[test]
fn a_name_that_leads_nowhere_is_told_once() {
    let dir = Dir::new("nowhere");
    let mut a = over_files(&dir.0);
    a.use_names(Names::open(&dir.0).unwrap(), 0);
    let nobody = a.peer_named(1 << 32 | 77);
    for _ in 0..3 {
        assert_eq!(a.connect(nobody), Err(PeerError::Unreachable));
    }
    assert_eq!(lines().len(), 1);
}

/// A shared memory directory that each process has for itself, whatever the mailboxes
/// are made of.
#[test]
fn a_card_that_is_elsewhere_is_named_with_its_remedy() {
    let (here, there) = (Dir::new("here"), Dir::new("there"));
    for elsewhere in [there.open().unwrap(), there.open_memfd()] {
        let mut a = over_files(&here.0);
        let mut machine = Recorder::default();
        let peer = a.peer(&elsewhere.address()).unwrap();
        for _ in 0..3 {
            assert_eq!(a.connect(peer), Err(PeerError::Unreachable));
            settle(&mut a, &mut machine);
        }
        assert_eq!(machine.gone, [(peer, PeerError::Unreachable)], "who waits for it is told");
        let [line] = &lines()[..] else { panic!("one line") };
        let path = here.user_dir().join(format!("card-{}", elsewhere.address()));
        for part in [path.to_str().unwrap(), "has ended", here.0.to_str().unwrap(), "--ipc=host"] {
            assert!(line.contains(part), "{part} in {line}");
        }
        assert_eq!(a.stats().violations, 0, "nobody has done wrong");
    }
}

/// A child made by `fork`, which ends with the test, however that ends.
struct Fork(u32);

impl Fork {
    fn kill(&self) {
        // SAFETY: a child that is not reaped before this is dropped.
        unsafe { libc::kill(self.0.cast_signed(), libc::SIGKILL) };
    }
}

impl Drop for Fork {
    fn drop(&mut self) {
        self.kill();
        // SAFETY: as above; nothing is asked for.
        unsafe { libc::waitpid(self.0.cast_signed(), std::ptr::null_mut(), 0) };
    }
}

/// As after `pthread_exit` in `main`.
#[test]
fn a_process_whose_first_thread_has_ended_is_alive() {
    let memfd = rustix::fs::memfd_create("test", MemfdFlags::CLOEXEC).unwrap();
    extern "C" fn wait(_: *mut libc::c_void) -> *mut libc::c_void {
        loop {
            // SAFETY: waits for a signal, which ends the process.
            unsafe { libc::pause() };
        }
    }
    // SAFETY: the child makes a thread and ends its first one, by calls that the C
    // library allows in the child of a process with threads.
    let pid = unsafe {
        match libc::fork() {
            0 => {
                let mut thread = std::mem::MaybeUninit::uninit();
                let none = std::ptr::null_mut();
                libc::pthread_create(thread.as_mut_ptr(), std::ptr::null(), wait, none);
                libc::syscall(libc::SYS_exit, 0);
                libc::_exit(1)
            }
            pid => pid.cast_unsigned(),
        }
    };
    let child = Fork(pid);
    let has_state = |state: &str| {
        let text = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        text.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with(state))
    };
    let begin = Instant::now();
    while !has_state("Z") {
        assert!(begin.elapsed() < PATIENCE);
    }
    let stat = stat_of(pid).unwrap();
    assert!(!stat.ended);
    let own = open_memfd().card;
    let card = super::super::Card { pid, start_time: stat.start_time, ..own };
    let watches = [
        Watch::new(&card, &own, rustix::process::geteuid().as_raw(), Path::new("/dev/shm"))
            .expect("it can be asked")
            .expect("it lives"),
        Watch::Stat,
    ];
    assert!(watches.iter().all(|watch| !watch.has_ended(&card)));
    let fd = memfd.as_raw_fd().unsigned_abs();
    assert!(open_descriptor(pid, fd).is_ok());
    child.kill();
    while !watches.iter().all(|watch| watch.has_ended(&card)) {
        assert!(begin.elapsed() < PATIENCE);
    }
}
