//! Files that are there, missing, damaged, foreign, locked, and cannot be written.

use super::*;
use std::os::unix::fs::PermissionsExt;
use std::sync::Barrier;

const SUBJECT: Subject = crate::shm::COSTS;

/// A directory of this test's own, removed at its end.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Scratch {
        let dir = std::env::temp_dir().join(format!("sluice-tune-{}-{name}", std::process::id()));
        fs::create_dir_all(&dir).expect("a directory can be made");
        Scratch(dir)
    }

    fn file(&self) -> PathBuf {
        self.0.join("figures")
    }

    fn mode(&self) -> Mode {
        Mode::File(self.file())
    }

    /// A tuner of this directory as if it were the cache.
    fn cached(&self) -> Tuner {
        Tuner { path: Some(self.file()), is_named: false, ..Tuner::new(&SUBJECT, &Mode::Off) }.on()
    }
}

impl Tuner {
    fn on(mut self) -> Tuner {
        self.is_off = false;
        self
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn soon() -> Instant {
    Instant::now() + Duration::from_secs(20)
}

#[test]
fn settings() {
    assert_eq!(Mode::from_setting("OFF"), Some(Mode::Off));
    assert_eq!(Mode::from_setting("auto"), Some(Mode::Auto));
    assert_eq!(Mode::from_setting("./x"), Some(Mode::File(PathBuf::from("./x"))));
    for text in ["", "on", "figures", "/", "dir/"] {
        assert_eq!(Mode::from_setting(text), None, "{text:?}");
    }
}

#[test]
fn off_measures_nothing_and_keeps_nothing() {
    for tuned in [load(&SUBJECT, &Mode::Off), measure(&SUBJECT, &Mode::Off)] {
        assert_eq!((tuned.costs, tuned.origin, tuned.file), (None, Origin::Off, None));
    }
}

#[test]
fn the_first_measures_and_the_next_reads() {
    let scratch = Scratch::new("first");
    let first = load(&SUBJECT, &scratch.mode());
    assert_eq!((first.origin, first.file), (Origin::Measured, Some(scratch.file())));
    let mode = fs::metadata(scratch.file()).expect("the file").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let next = load(&SUBJECT, &scratch.mode());
    assert_eq!((next.origin, next.costs), (Origin::Kept, first.costs));
    assert!(first.warnings.is_empty() && next.warnings.is_empty());
    // Nothing but the file is left.
    assert_eq!(fs::read_dir(&scratch.0).expect("a directory").count(), 1);
    // What is stated there holds, until it is measured anew.
    let stated = Costs { packet_ns: 777, ..Costs::default() };
    file::write(&scratch.file(), &stated, "another machine").expect("written");
    assert_eq!(load(&SUBJECT, &scratch.mode()).costs, Some(stated));
    assert_eq!(measure(&SUBJECT, &scratch.mode()).origin, Origin::Measured);
    assert_eq!(load(&SUBJECT, &scratch.mode()).machine, machine());
}

#[test]
fn a_file_that_cannot_be_used_is_made_anew_with_one_warning() {
    let scratch = Scratch::new("damaged");
    let machine = machine();
    let figures = |text: &str| format!("{text}\nmachine {machine}\n");
    for (content, said) in [
        (figures("sluice-tune 4"), "damaged at line 3"),
        (figures("sluice-tune 0"), "version 0"),
        ("sluice-tune 4\nmachine x\n".to_owned(), "another machine"),
        ("something else\n".to_owned(), "not a file of figures"),
        ("x".repeat(5000), "not a file of figures"),
    ] {
        fs::write(scratch.file(), &content).expect("written");
        let tuned = scratch.cached().load(soon());
        assert_eq!((tuned.origin, tuned.warnings.len()), (Origin::Measured, 1), "{said}");
        assert!(tuned.warnings[0].contains(said), "{:?}", tuned.warnings);
        let next = scratch.cached().load(soon());
        assert_eq!((next.origin, next.costs), (Origin::Kept, tuned.costs), "{said}");
    }
}

#[test]
fn a_named_file_of_another_kind_is_left_alone() {
    let scratch = Scratch::new("foreign");
    let content = "something of the user's\n";
    fs::write(scratch.file(), content).expect("written");
    for tuned in [load(&SUBJECT, &scratch.mode()), measure(&SUBJECT, &scratch.mode())] {
        assert_eq!((tuned.origin, tuned.file), (Origin::Measured, None));
        assert!(tuned.warnings[0].contains("not a file of figures"), "{:?}", tuned.warnings);
        assert_eq!(fs::read_to_string(scratch.file()).expect("it is there"), content);
    }
    // One that was ours and is cut off is not.
    fs::write(scratch.file(), "sluice-tune 4\nmach").expect("written");
    assert_eq!(load(&SUBJECT, &scratch.mode()).file, Some(scratch.file()));
}

#[test]
fn a_pipe_of_that_name_does_not_make_anybody_wait() {
    let scratch = Scratch::new("pipe");
    let made = rustix::fs::mknodat(
        rustix::fs::CWD,
        scratch.file(),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR,
        0,
    );
    made.expect("a pipe can be made");
    assert!(load(&SUBJECT, &scratch.mode()).warnings[0].contains("not a file of figures"));
}

#[test]
fn what_cannot_be_kept_is_used_all_the_same() {
    let scratch = Scratch::new("kept");
    let cannot = |tuned: Tuned| {
        assert_eq!((tuned.origin, tuned.file), (Origin::Measured, None));
        assert!(tuned.costs.is_some());
        let said = tuned.notices.last().expect("a notice");
        assert!(said.contains("cannot keep figures"), "{said}");
    };
    // Directories are made in the cache, and not where a person said.
    cannot(load(&SUBJECT, &Mode::File(scratch.0.join("below").join("figures"))));
    let deep = Tuner { path: Some(scratch.0.join("deep").join("figures")), ..scratch.cached() };
    assert!(deep.load(soon()).file.is_some());
    // A file in the way.
    fs::write(scratch.file(), "").expect("written");
    let below = Tuner { path: Some(scratch.file().join("figures")), ..scratch.cached() };
    cannot(below.load(soon()));
}

#[test]
fn nobody_waits_for_ever_for_another_ones_figures() {
    let scratch = Scratch::new("busy");
    let Lock::Ours(lock) = lock_of(&scratch.file()) else { panic!("the lock is free") };
    let busy = scratch.cached().load(Instant::now());
    assert_eq!((busy.origin, busy.costs, busy.notices.len()), (Origin::Busy, None, 1));
    drop(lock);
    assert_eq!(scratch.cached().load(Instant::now()).origin, Origin::Measured);
}

#[test]
fn of_many_that_come_at_once_all_have_the_same_figures() {
    const MANY: usize = 6;
    let scratch = Scratch::new("many");
    let barrier = Barrier::new(MANY);
    let found: Vec<Tuned> = thread::scope(|scope| {
        let threads: Vec<_> = (0..MANY)
            .map(|_| {
                scope.spawn(|| {
                    barrier.wait();
                    scratch.cached().load(soon())
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
    });
    let measured = found.iter().filter(|tuned| tuned.origin == Origin::Measured).count();
    assert_eq!(measured, 1);
    assert!(found.iter().all(|tuned| tuned.costs == found[0].costs), "{found:?}");
}

#[test]
fn the_cache_is_where_users_expect_it() {
    let with = |xdg: Option<&str>, home: Option<&str>| {
        let pick = |name: &str| match name {
            "XDG_CACHE_HOME" => xdg.map(OsString::from),
            _ => home.map(OsString::from),
        };
        cache_dir(pick)
    };
    assert_eq!(with(Some("/c"), Some("/h")), Some(PathBuf::from("/c/sluice")));
    assert_eq!(with(None, Some("/h")), Some(PathBuf::from("/h/.cache/sluice")));
    // A relative one is to be ignored.
    assert_eq!(with(Some("c"), Some("/h")), Some(PathBuf::from("/h/.cache/sluice")));
    assert_eq!(with(Some(""), None), None);
}

#[test]
fn processors_are_told_apart() {
    let x86 = "processor\t: 0\nmodel name\t: Some CPU @ 2 GHz\n\nprocessor\t: 1\n";
    assert_eq!(cpu_model(x86), "Some CPU @ 2 GHz");
    let arm = "processor\t: 0\nCPU implementer\t: 0x41\nCPU part\t: 0xd0c\n";
    assert_eq!(cpu_model(arm), "part 0xd0c of 0x41");
    assert_eq!(cpu_model(""), "unknown processor");
    assert!(machine().contains("; Linux "));
}
