//! Memory of every kind, touched; and the faults of others.

use super::{ask, every_page, install, readable, writable};
use crate::shm::{Config, Guard, Shm};
use sluice_link::LocalMemory;
use sluice_wire::{Addr, Region};
use std::os::unix::process::ExitStatusExt;
use std::process::Command;
use std::ptr;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Mapped pages, unmapped when dropped.
struct Pages {
    base: *mut u8,
    len: usize,
}

impl Pages {
    fn new(pages: usize) -> Pages {
        let len = pages * page_bytes();
        // SAFETY: a fresh mapping at an address that the kernel chooses.
        let base = unsafe {
            libc::mmap(
                ptr::null_mut(),
                len,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        assert_ne!(base, libc::MAP_FAILED);
        Pages { base: base.cast(), len }
    }

    fn protect(&self, page: usize, protection: libc::c_int) {
        // SAFETY: inside the mapping, which no reference points into.
        let done = unsafe {
            libc::mprotect(self.base.add(page * page_bytes()).cast(), page_bytes(), protection)
        };
        assert_eq!(done, 0);
    }

    fn region(&self, begin: usize, len: usize) -> Region {
        Region { addr: Addr((self.base.expose_provenance() + begin) as u64), len: len as u64 }
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: the mapping is this one's own.
        unsafe { libc::munmap(self.base.cast(), self.len) };
    }
}

fn page_bytes() -> usize {
    rustix::param::page_size()
}

/// What touching says, which what the system says has to equal.
fn looks(region: Region) -> (bool, bool) {
    let touched = (readable(region), writable(region));
    let page = page_bytes() as u64;
    let asked = (every_page(region, page, ask::read), every_page(region, page, ask::write));
    assert_eq!(touched, asked, "both ways agree about {region:?}");
    touched
}

#[test]
fn mapped_memory_can_be_used_and_unmapped_memory_not() {
    install();
    let page = page_bytes();
    let pages = Pages::new(5);
    pages.protect(2, libc::PROT_NONE);
    assert_eq!(looks(pages.region(0, 2 * page)), (true, true));
    assert_eq!(looks(pages.region(3 * page, 2 * page)), (true, true));
    assert_eq!(looks(pages.region(2 * page, 1)), (false, false));
    assert_eq!(looks(pages.region(3 * page - 1, 1)), (false, false));
    // The gap is in the middle, at the last byte, at the first byte.
    assert_eq!(looks(pages.region(0, 5 * page)), (false, false));
    assert_eq!(looks(pages.region(2 * page - 1, 2)), (false, false));
    assert_eq!(looks(pages.region(3 * page - 1, 2)), (false, false));
    assert_eq!(looks(pages.region(2 * page - 1, 1)), (true, true));
    assert_eq!(looks(Region { addr: Addr(0), len: 1 }), (false, false));
}

#[test]
fn a_read_only_page_can_be_read_but_not_written() {
    install();
    let page = page_bytes();
    let pages = Pages::new(3);
    pages.protect(1, libc::PROT_READ);
    assert_eq!(looks(pages.region(page, page)), (true, false));
    assert_eq!(looks(pages.region(page - 1, 2)), (true, false));
    assert_eq!(looks(pages.region(0, 3 * page)), (true, false));
    assert_eq!(looks(pages.region(page - 1, 1)), (true, true));
}

#[test]
fn no_bytes_need_no_memory_and_a_region_that_wraps_is_none() {
    install();
    assert_eq!(looks(Region::EMPTY), (true, true));
    assert_eq!(looks(Region { addr: Addr(u64::MAX), len: 0 }), (true, true));
    assert_eq!(looks(Region { addr: Addr(u64::MAX - 10), len: 100 }), (false, false));
    let pages = Pages::new(1);
    let wraps = Region { len: u64::MAX, ..pages.region(0, 0) };
    assert_eq!(looks(wraps), (false, false));
    // No address that the machine can have at all.
    assert!(!readable(Region { addr: Addr(1 << 62), len: 8 }));
}

#[test]
fn each_page_is_touched_once() {
    let at = |addr, len| Region { addr: Addr(addr), len };
    for (region, wanted) in [
        (at(4096, 4096), vec![4096]),
        (at(4096, 4097), vec![4096, 8192]),
        (at(8191, 2), vec![8191, 8192]),
        (at(5000, 8192), vec![5000, 8192, 12288]),
        (at(u64::MAX - 5000, 5000), vec![u64::MAX - 5000, u64::MAX - 4095]),
    ] {
        let touched = std::cell::RefCell::new(Vec::new());
        assert!(every_page(region, 4096, |at| {
            touched.borrow_mut().push(at.addr() as u64);
            true
        }));
        assert_eq!(touched.into_inner(), wanted, "{region:?}");
    }
}

/// A file that was cut: its pages are mapped and there is nothing behind them.
#[test]
fn memory_behind_the_end_of_a_file_is_refused() {
    install();
    let page = page_bytes();
    let fd = rustix::fs::memfd_create("sluice-test", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
    rustix::fs::ftruncate(&fd, 2 * page as u64).unwrap();
    use rustix::mm::{MapFlags, ProtFlags, mmap};
    let protection = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: a fresh mapping at an address that the kernel chooses.
    let base =
        unsafe { mmap(ptr::null_mut(), 2 * page, protection, MapFlags::SHARED, &fd, 0) }.unwrap();
    let pages = Pages { base: base.cast(), len: 2 * page };
    assert_eq!(looks(pages.region(0, 2 * page)), (true, true));
    rustix::fs::ftruncate(&fd, page as u64).unwrap();
    assert_eq!(looks(pages.region(0, 2 * page)), (false, false));
    assert_eq!(looks(pages.region(0, page)), (true, true));
}

#[test]
fn a_rail_looks_only_if_it_is_told_to() {
    let nowhere = Region { addr: Addr(16), len: 8 };
    let trusting = Shm::open(Config::default()).unwrap();
    assert!(trusting.readable(nowhere) && trusting.writable(nowhere));
    let careful = Shm::open(Config { guard: Guard::Check, ..Config::default() }).unwrap();
    assert!(!careful.readable(nowhere) && !careful.writable(nowhere));
}

/// One thread counts in the word that two others touch, and one of those
/// touches nothing in between.
#[test]
fn threads_touch_at_once_and_no_write_is_lost() {
    const ROUNDS: u64 = 20_000;
    install();
    let page = page_bytes();
    let pages = Pages::new(2);
    pages.protect(1, libc::PROT_NONE);
    let (good, bad) = (pages.region(0, page), pages.region(page, page));
    // SAFETY: the word is inside the first page, which stays mapped.
    let word = unsafe { AtomicU64::from_ptr(pages.base.cast()) };
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                for _ in 0..ROUNDS {
                    assert!(readable(good) && writable(good));
                    assert!(!readable(bad) && !writable(bad));
                }
            });
        }
        scope.spawn(|| {
            for _ in 0..ROUNDS {
                word.store(word.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
            }
        });
    });
    assert_eq!(word.load(Ordering::Relaxed), ROUNDS);
}

const ROLE: &str = "SLUICE_TEST_FAULT";
const EXIT_CHAINED: i32 = 42;
static CAUGHT: AtomicU32 = AtomicU32::new(0);

extern "C" fn plain_handler(_: libc::c_int) {
    CAUGHT.fetch_add(1, Ordering::Relaxed);
}

extern "C" fn ending_handler(
    signal: libc::c_int,
    info: *mut libc::siginfo_t,
    _: *mut libc::c_void,
) {
    // SAFETY: the system hands over a valid `info` of a fault; `_exit` is
    // allowed in a handler.
    unsafe {
        let right = signal == libc::SIGSEGV && (*info).si_addr().addr() == 24;
        libc::_exit(if right { EXIT_CHAINED } else { 1 });
    }
}

fn set_action(handler: libc::sighandler_t, flags: libc::c_int) {
    // SAFETY: zeroes are a valid action; the handler fits the flags.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler;
        action.sa_flags = flags;
        assert_eq!(libc::sigaction(libc::SIGSEGV, &raw const action, ptr::null_mut()), 0);
    }
}

fn fault() {
    // SAFETY: none; the fault is what is wanted.
    unsafe { ptr::with_exposed_provenance::<u64>(24).read_volatile() };
}

/// Not a test of its own: what a child runs.
#[test]
fn run_fault() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let nowhere = Region { addr: Addr(16), len: 8 };
    let begin = |handler, flags| {
        set_action(handler, flags);
        install();
        assert!(!readable(nowhere) && !writable(nowhere));
    };
    match role.as_str() {
        "informed" => {
            begin(ending_handler as *const () as libc::sighandler_t, libc::SA_SIGINFO);
            fault();
        }
        "plain once" => {
            let handler = plain_handler as *const () as libc::sighandler_t;
            begin(handler, libc::SA_RESETHAND);
            // SAFETY: a process may send itself a signal.
            unsafe { libc::raise(libc::SIGSEGV) };
            assert_eq!(CAUGHT.load(Ordering::Relaxed), 1);
            assert!(!readable(nowhere), "a foreign fault changes nothing");
            // Its handler was for one time; now it is the default.
            fault();
        }
        "default" => {
            begin(libc::SIG_DFL, 0);
            fault();
        }
        "default sent" => {
            begin(libc::SIG_DFL, 0);
            // SAFETY: a process may send itself a signal.
            unsafe { libc::raise(libc::SIGSEGV) };
        }
        "ignored" => {
            begin(libc::SIG_IGN, 0);
            // SAFETY: a process may send itself a signal.
            unsafe { libc::raise(libc::SIGSEGV) };
            assert!(!readable(nowhere), "a foreign signal changes nothing");
            fault();
        }
        other => panic!("no such role: {other}"),
    }
    // None of them gets here.
    std::process::exit(2);
}

#[test]
fn the_faults_of_others_are_handled_as_they_were_before() {
    let run = |role: &str| {
        Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "shm::guard::tests::run_fault"])
            .env(ROLE, role)
            .output()
            .unwrap()
            .status
    };
    assert_eq!(run("informed").code(), Some(EXIT_CHAINED));
    for role in ["plain once", "default", "default sent", "ignored"] {
        assert_eq!(run(role).signal(), Some(libc::SIGSEGV), "{role}");
    }
}
