//! Names in a directory of each test's own.

use super::super::dirs::user_dir;
use super::*;
use crate::address::{KEY_BYTES, tag_of};
use rustix::fs::{FlockOperation, flock};
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt, symlink};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

struct Home(PathBuf);

impl Home {
    fn new(name: &str) -> Home {
        let path = std::env::temp_dir().join(format!("sluice-names-{}-{name}", std::process::id()));
        fs::DirBuilder::new().mode(0o700).create(&path).unwrap();
        Home(path)
    }

    fn names(&self) -> Names {
        Names::open(&self.0).unwrap()
    }

    fn files(&self) -> Vec<String> {
        let dir = user_dir(&self.0, rustix::process::geteuid().as_raw());
        let Ok(entries) = fs::read_dir(dir) else { return Vec::new() };
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    fn path(&self, file: &str) -> PathBuf {
        user_dir(&self.0, rustix::process::geteuid().as_raw()).join(file)
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn address(number: u64) -> Address {
    let mut key = [7; KEY_BYTES];
    key[..8].copy_from_slice(&number.to_le_bytes());
    Address::local(tag_of(Identity::of_this_process().unwrap().host), key)
}

#[test]
fn a_name_leads_to_its_address_until_it_is_dropped() {
    let home = Home::new("lead");
    let names = home.names();
    assert!(matches!(names.find(7, 1), Err(NameError::NotFound)));
    let one = names.claim(7, 1, &address(1)).unwrap();
    let two = names.claim(7, 2, &address(2)).unwrap();
    assert_eq!(names.find(7, 1).unwrap(), address(1));
    assert_eq!(home.names().find(7, 2).unwrap(), address(2));
    assert!(matches!(names.find(71, 1), Err(NameError::NotFound)));
    let own = std::process::id();
    assert!(matches!(names.claim(7, 1, &address(3)), Err(NameError::InUse { pid }) if pid == own));
    assert_eq!(names.find(7, 1).unwrap(), address(1), "who comes second changes nothing");
    assert_eq!(home.files(), ["portals-7-1", "portals-7-2"], "no drafts are left");
    let mode = fs::metadata(home.path("portals-7-1")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    drop(one);
    assert!(matches!(names.find(7, 1), Err(NameError::NotFound)));
    drop(two);
    assert!(home.files().is_empty());
    // The directory went with the last name, and comes back with the next.
    let again = names.claim(7, 1, &address(4)).unwrap();
    assert_eq!(names.find(7, 1).unwrap(), address(4));
    drop(again);
}

#[test]
fn a_pid_is_one_process_s_and_shared_by_its_interfaces() {
    let home = Home::new("pid");
    let names = home.names();
    let own = std::process::id();
    let first = names.claim_any_pid(None).unwrap();
    assert_eq!(first.pid(), own);
    let other = first.clone();
    drop(first);
    assert!(matches!(names.claim_pid(own), Err(NameError::InUse { pid }) if pid == own));
    let next = names.claim_any_pid(None).unwrap();
    assert_eq!(next.pid(), own + 1, "the choice falls forward");
    drop(other);
    assert_eq!(names.claim_pid(own).unwrap().pid(), own);
    assert_eq!(names.claim_pid(9).unwrap().pid(), 9);
    // A pid and a name with that pid are different files.
    let _name = names.claim(own + 1, 0, &address(0)).unwrap();
}

#[test]
fn what_others_put_there_is_refused() {
    let home = Home::new("foreign");
    let names = home.names();
    let kept = names.claim(1, 1, &address(1)).unwrap();
    let good = fs::read(home.path("portals-1-1")).unwrap();
    // Held by a living process like a true one, so that only the content tells.
    let put = |kind: u8, bytes: &[u8]| {
        let path = home.path(&format!("portals-2-{kind}"));
        fs::write(&path, bytes).unwrap();
        let file = fs::File::open(path).unwrap();
        flock(&file, FlockOperation::LockExclusive).unwrap();
        file
    };
    let _short = put(0, &good[..good.len() - 1]);
    assert!(matches!(names.find(2, 0), Err(NameError::Foreign(_))));
    let mut bad = good.clone();
    bad[24] ^= 1;
    let _damaged = put(1, &bad);
    assert!(matches!(names.find(2, 1), Err(NameError::Malformed(AddressError::Malformed(_)))));
    bad = good.clone();
    bad[24 + 1] = 1;
    let _older = put(2, &bad);
    assert!(matches!(names.find(2, 2), Err(NameError::Malformed(AddressError::Version(1)))));
    let _text = put(3, b"hello");
    assert!(matches!(names.find(2, 3), Err(NameError::Foreign(_))));
    assert!(matches!(names.claim(2, 3, &address(1)), Err(NameError::Foreign(_))));
    let _long = put(4, &vec![0; 1 << 20]);
    assert!(matches!(names.find(2, 4), Err(NameError::Foreign(_))));
    symlink(home.path("portals-1-1"), home.path("portals-2-5")).unwrap();
    assert!(matches!(names.find(2, 5), Err(NameError::Foreign(_))));
    fs::create_dir(home.path("portals-2-6")).unwrap();
    assert!(matches!(names.find(2, 6), Err(NameError::Foreign(_))));
    drop(kept);
}

/// The lock alone does not make a holder: a fork of it may keep that. Nor does
/// the pid: it may be somebody else's by now.
#[test]
fn a_holder_with_another_start_time_has_ended() {
    let home = Home::new("reused");
    let names = home.names();
    let kept = names.claim(3, 1, &address(1)).unwrap();
    let mut bytes = fs::read(home.path("portals-3-1")).unwrap();
    bytes[0] ^= 1;
    fs::write(home.path("portals-3-2"), bytes).unwrap();
    let file = fs::File::open(home.path("portals-3-2")).unwrap();
    flock(&file, FlockOperation::LockExclusive).unwrap();
    assert!(matches!(names.find(3, 2), Err(NameError::NotFound)));
    let taken = names.claim(3, 2, &address(2)).unwrap();
    assert_eq!(names.find(3, 2).unwrap(), address(2));
    drop((kept, taken));
}

#[test]
fn stale_files_are_removed_when_the_names_are_opened_and_only_so_many() {
    let home = Home::new("sweep");
    let names = home.names();
    let kept = names.claim(4, 1, &address(1)).unwrap();
    let good = fs::read(home.path("portals-4-1")).unwrap();
    // Drafts, one of them empty; and what is none of ours.
    for n in 0..SWEEP_FILES_MAX + 20 {
        let bytes = if n == 0 { &[][..] } else { &good };
        fs::write(home.path(&format!("portals-9-1.{n}")), bytes).unwrap();
    }
    fs::write(home.path("other"), b"").unwrap();
    let left = |home: &Home| home.files().len() - 2;
    home.names();
    assert!((20..=21).contains(&left(&home)), "{} are left", left(&home));
    home.names();
    assert_eq!(left(&home), 0);
    assert_eq!(names.find(4, 1).unwrap(), address(1));
    fs::remove_file(home.path("other")).unwrap();
    drop(kept);
}

/// Several claimers, and one that looks: a name has one holder at a time, and
/// what is found is whole.
#[test]
fn claimers_at_once_have_it_in_turn() {
    const ROUNDS: u32 = 300;
    let home = Home::new("turns");
    let holders = AtomicU32::new(0);
    std::thread::scope(|scope| {
        let claimers: Vec<_> = (0..3)
            .map(|label| {
                let (names, holders) = (home.names(), &holders);
                scope.spawn(move || {
                    let mut claimed = 0;
                    while claimed < ROUNDS {
                        match names.claim(5, 1, &address(label)) {
                            Ok(name) => {
                                assert_eq!(holders.fetch_add(1, Ordering::SeqCst), 0);
                                assert_eq!(names.find(5, 1).unwrap(), address(label));
                                holders.fetch_sub(1, Ordering::SeqCst);
                                drop(name);
                                claimed += 1;
                            }
                            Err(NameError::InUse { .. }) => std::thread::yield_now(),
                            Err(why) => panic!("{why}"),
                        }
                    }
                })
            })
            .collect();
        let names = home.names();
        while claimers.iter().any(|claimer| !claimer.is_finished()) {
            match names.find(5, 1) {
                Ok(found) => assert!((0..3).any(|number| found == address(number))),
                Err(NameError::NotFound) => {}
                Err(why) => panic!("{why}"),
            }
        }
    });
    assert!(home.files().is_empty());
}

#[test]
fn the_host_has_a_number() {
    assert_eq!(host_id(), host_id());
    assert!(host_id() != 0 && host_id() != u32::MAX);
    assert_eq!(
        (fold(0), fold(0xffff_ffff), fold(5 << 32 | 5)),
        (0xe000_0000, 0xefff_ffff, 0xe000_0000)
    );
    assert_eq!((fold(5), fold(7 << 32)), (0xe000_0005, 0xe000_0007));
}

const ROLE: &str = "SLUICE_TEST_NAMES_ROLE";
const HOME: &str = "SLUICE_TEST_NAMES_HOME";

/// A process that has the pid 6 and a name, killed and reaped when dropped.
struct Holding {
    process: Child,
    /// Open, so that the process, and a fork of it, waits.
    _stdin: ChildStdin,
}

impl Holding {
    fn run(role: &str, home: &Home) -> Holding {
        let mut process = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "shm::names::tests::run_holder", "--nocapture"])
            .env(ROLE, role)
            .env(HOME, &home.0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let stdin = process.stdin.take().unwrap();
        let mut lines = BufReader::new(process.stdout.as_mut().unwrap()).lines();
        assert!(lines.any(|line| line.unwrap().contains("holder is ready")));
        Holding { process, _stdin: stdin }
    }

    fn kill(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

impl Drop for Holding {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Not a test of its own: what a child runs.
#[test]
fn run_holder() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let names = Names::open(Path::new(&std::env::var_os(HOME).unwrap())).unwrap();
    let pid = names.claim_pid(6).unwrap();
    let name = names.claim(6, 1, &address(6)).unwrap();
    if role == "fork" {
        // SAFETY: the child of the fork only reads until the end of its input
        // and ends at once.
        unsafe {
            if libc::fork() == 0 {
                let mut byte = 0_u8;
                libc::read(0, (&raw mut byte).cast(), 1);
                libc::_exit(0);
            }
        }
    }
    println!("holder is ready");
    std::io::stdout().flush().unwrap();
    let _ = std::io::stdin().read(&mut [0]);
    drop((name, pid));
}

#[test]
fn the_name_of_a_killed_process_is_taken_over() {
    let home = Home::new("killed");
    let names = home.names();
    let mut holder = Holding::run("hold", &home);
    assert_eq!(names.find(6, 1).unwrap(), address(6));
    let theirs = holder.process.id();
    assert!(
        matches!(names.claim(6, 1, &address(1)), Err(NameError::InUse { pid }) if pid == theirs)
    );
    assert!(matches!(names.claim_pid(6), Err(NameError::InUse { pid }) if pid == theirs));
    holder.kill();
    assert_eq!(home.files(), ["portals-6", "portals-6-1"], "a killed process leaves its files");
    assert!(matches!(names.find(6, 1), Err(NameError::NotFound)));
    let taken = (names.claim_pid(6).unwrap(), names.claim(6, 1, &address(1)).unwrap());
    assert_eq!(names.find(6, 1).unwrap(), address(1));
    drop(taken);
}

#[test]
fn the_name_of_a_killed_process_is_removed_by_the_next_that_opens() {
    let home = Home::new("swept");
    Holding::run("hold", &home).kill();
    assert_eq!(home.files().len(), 2);
    home.names();
    assert!(home.files().is_empty());
}

#[test]
fn a_fork_that_outlives_the_holder_does_not_keep_its_name() {
    let home = Home::new("outlived");
    let names = home.names();
    let mut holder = Holding::run("fork", &home);
    holder.kill();
    let file = fs::File::open(home.path("portals-6-1")).unwrap();
    assert!(flock(&file, FlockOperation::NonBlockingLockShared).is_err(), "the fork has the lock");
    assert!(matches!(names.find(6, 1), Err(NameError::NotFound)));
    let taken = names.claim(6, 1, &address(1)).unwrap();
    assert_eq!(names.find(6, 1).unwrap(), address(1));
    drop(taken);
}

/// In a process of its own: a fork of this one would keep the locks of other
/// tests for a moment.
#[test]
fn a_fork_neither_has_the_name_nor_removes_it() {
    if std::env::var_os(ROLE).is_none() {
        let home = Home::new("fork");
        let run = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "shm::names::tests::a_fork_neither_has_the_name_nor_removes_it"])
            .env(ROLE, "forking")
            .env(HOME, &home.0)
            .output()
            .unwrap();
        assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stdout));
        assert!(home.files().is_empty());
        return;
    }
    let names = Names::open(Path::new(&std::env::var_os(HOME).unwrap())).unwrap();
    let name = names.claim(8, 1, &address(8)).unwrap();
    // SAFETY: the name is read a second time, but each process drops it once.
    let copy = unsafe { std::mem::ManuallyDrop::new(std::ptr::read(&raw const name)) };
    let ours = std::process::id();
    // SAFETY: the child drops the name and asks for it, then ends at once. No
    // other thread of this process holds a lock that it needs.
    let child = unsafe { libc::fork() };
    if child == 0 {
        drop(std::mem::ManuallyDrop::into_inner(copy));
        let asked = names.claim(8, 1, &address(1));
        let refused = matches!(asked, Err(NameError::InUse { pid }) if pid == ours);
        // SAFETY: ends the child at once.
        unsafe { libc::_exit(if refused { 0 } else { 1 }) };
    }
    let mut status = -1;
    // SAFETY: a child of this process that has not been waited for.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    assert_eq!(status, 0, "the fork is refused the name");
    assert_eq!(names.find(8, 1).unwrap(), address(8));
    drop(name);
}
