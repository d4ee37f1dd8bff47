//! What moves cost on this machine: measured at first use, kept in a file.
//!
//! The file's name holds the version of its format, the rail, the kind of memory, and a
//! hash of what the figures depend on: the processor's model and the kernel's release.
//! So a home directory that several machines share holds a file for each kind of machine.
//!
//! Invariants:
//! - Of several processes that come at once one measures, under a lock of the
//!   directory; the others wait a moment for its file, and take the stated costs if it
//!   does not come. None waits for longer than a fifth of a second.
//! - A file that cannot be used draws one warning and is made anew; if it was named by a
//!   person and is something else altogether, it is left alone.
//! - That nothing can be kept is no error: then each process measures for itself.

mod file;

use crate::hash::fnv1a;
use crate::shortage::remedy;
use file::Unusable;
use rustix::fs::{FlockOperation, flock};
use sluice_link::Costs;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

/// Whose costs are measured: one rail with one kind of memory.
#[derive(Clone, Copy, Debug)]
pub struct Subject {
    /// What it is called in the names of files.
    pub name: &'static str,
    /// Measures them, in a few milliseconds.
    pub measure: fn() -> Costs,
}

/// How long a process waits for another one's figures: several times as long as
/// measuring takes.
const WAIT: Duration = Duration::from_millis(200);
/// How much is read of what the system says of its processors.
const CPUINFO_BYTES_MAX: u64 = 4096;
/// Between two looks.
const PAUSE: Duration = Duration::from_millis(4);

/// Whether costs are measured, and where they are kept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// The stated costs.
    Off,
    /// Measured at first use and kept in the user's cache.
    #[default]
    Auto,
    /// The same, kept in this file, whichever machine it is from.
    File(PathBuf),
}

impl Mode {
    /// What a setting of these words means: `off`, `auto`, or a path, which has a slash.
    #[must_use]
    pub fn from_setting(text: &str) -> Option<Mode> {
        match text {
            _ if text.eq_ignore_ascii_case("off") => Some(Mode::Off),
            _ if text.eq_ignore_ascii_case("auto") => Some(Mode::Auto),
            _ if text.contains('/') && !text.ends_with('/') => {
                Some(Mode::File(PathBuf::from(text)))
            }
            _ => None,
        }
    }
}

/// How costs came about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// They are the stated ones, as was asked for.
    Off,
    /// They were read from the file.
    Kept,
    /// They were measured now, and are in the file if there is one.
    Measured,
    /// They are the stated ones: another process was measuring for too long.
    Busy,
}

/// What moves cost, and how that is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tuned {
    /// `None`: the stated costs hold.
    pub costs: Option<Costs>,
    /// How they came about.
    pub origin: Origin,
    /// Where they are kept, if they are.
    pub file: Option<PathBuf>,
    /// What the figures depend on.
    pub machine: String,
    /// Files that were there and were not used, in words.
    pub warnings: Vec<String>,
    /// What else went otherwise than it might, in words.
    pub notices: Vec<String>,
}

/// The costs from the file, or measured now if there are none.
#[must_use]
pub fn load(subject: &Subject, mode: &Mode) -> Tuned {
    Tuner::new(subject, mode).load(Instant::now() + WAIT)
}

/// Measures whatever there is, and keeps it. Nothing with [`Mode::Off`].
#[must_use]
pub fn measure(subject: &Subject, mode: &Mode) -> Tuned {
    Tuner::new(subject, mode).measure()
}

/// For `fuzzing`: the figures that a text has, for whatever machine they are.
pub(crate) fn figures_again(text: &str) -> Option<String> {
    file::again(text)
}

/// What a tuning has to work with.
#[derive(Debug)]
struct Tuner {
    subject: Subject,
    is_off: bool,
    path: Option<PathBuf>,
    /// A person has named the file.
    is_named: bool,
    machine: String,
    warnings: Vec<String>,
    notices: Vec<String>,
}

impl Tuner {
    fn new(subject: &Subject, mode: &Mode) -> Tuner {
        let machine = machine();
        let path = match mode {
            Mode::Off => None,
            Mode::Auto => cache_dir(|name| std::env::var_os(name)).map(|dir| {
                dir.join(format!(
                    "tune-{}-{}-{:016x}",
                    file::VERSION,
                    subject.name,
                    fnv1a(machine.as_bytes())
                ))
            }),
            Mode::File(path) => Some(path.clone()),
        };
        let is_named = matches!(mode, Mode::File(_));
        let is_off = *mode == Mode::Off;
        Tuner {
            subject: *subject,
            is_off,
            path,
            is_named,
            machine,
            warnings: Vec::new(),
            notices: Vec::new(),
        }
    }

    fn load(mut self, until: Instant) -> Tuned {
        let Some(path) = self.path.clone() else { return self.measure() };
        // The machine is named in the name of a file that nobody else named.
        match self.read(&path) {
            Ok(costs) => return self.end(Some(costs), Origin::Kept),
            Err(Unusable::Missing) => {}
            Err(why) => {
                self.warn(&path, &why);
                if self.is_named && !may_be_replaced(&why) {
                    self.path = None;
                    return self.measure();
                }
            }
        }
        // What prevents it is told when the figures are to be kept.
        let _ = self.make_dir(&path);
        let lock = loop {
            match lock_of(&path) {
                Lock::Ours(lock) => break Some(lock),
                Lock::None => break None,
                Lock::Taken if Instant::now() > until => {
                    let said = "another process is measuring for long; stated figures are used";
                    self.notices.push(said.to_owned());
                    return self.end(None, Origin::Busy);
                }
                Lock::Taken => thread::sleep(PAUSE),
            }
        };
        // Whoever had the lock may have written it meanwhile.
        if let Ok(costs) = self.read(&path) {
            return self.end(Some(costs), Origin::Kept);
        }
        let tuned = self.measure();
        drop(lock);
        tuned
    }

    fn measure(mut self) -> Tuned {
        if self.is_off {
            return self.end(None, Origin::Off);
        }
        if let Some(path) = self.path.clone() {
            let found = if self.is_named { self.read(&path).err() } else { None };
            if let Some(why) = found.filter(|why| !may_be_replaced(why)) {
                self.warn(&path, &why);
                self.path = None;
            }
        }
        let costs = (self.subject.measure)();
        if let Some(path) = self.path.clone() {
            let kept =
                self.make_dir(&path).and_then(|()| file::write(&path, &costs, &self.machine));
            if let Err(why) = kept {
                self.notices.push(format!(
                    "cannot keep figures in {}: {why}; {}; each process measures anew until then",
                    path.display(),
                    remedy(&why, "name a file that can be written (FI_SLUICE_TUNE=FILE)"),
                ));
                self.path = None;
            }
        }
        self.end(Some(costs), Origin::Measured)
    }

    /// Makes the directory of a file that nobody has named.
    fn make_dir(&self, path: &Path) -> io::Result<()> {
        match path.parent().filter(|_| !self.is_named) {
            Some(dir) => fs::create_dir_all(dir),
            None => Ok(()),
        }
    }

    fn read(&self, path: &Path) -> Result<Costs, Unusable> {
        file::read(path, (!self.is_named).then_some(&self.machine))
    }

    fn warn(&mut self, path: &Path, why: &Unusable) {
        self.warnings.push(format!("{} is not used: {why}", path.display()));
    }

    fn end(self, costs: Option<Costs>, origin: Origin) -> Tuned {
        let Tuner { path: file, machine, warnings, notices, .. } = self;
        Tuned { costs, origin, file, machine, warnings, notices }
    }
}

/// Whether a file that a person named is one of ours, or will be.
fn may_be_replaced(why: &Unusable) -> bool {
    match why {
        Unusable::Foreign | Unusable::Unreadable(_) => false,
        Unusable::Missing
        | Unusable::OtherVersion(_)
        | Unusable::OtherMachine(_)
        | Unusable::Damaged(_) => true,
    }
}

enum Lock {
    Ours(#[allow(dead_code)] File),
    Taken,
    /// Not every file system has locks, nor every directory a place.
    None,
}

/// The lock of the directory of `path`. The system gives it back if its holder dies.
fn lock_of(path: &Path) -> Lock {
    let Some(dir) = path.parent() else { return Lock::None };
    let Ok(dir) = File::open(dir) else { return Lock::None };
    match flock(&dir, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Lock::Ours(dir),
        Err(rustix::io::Errno::WOULDBLOCK) => Lock::Taken,
        Err(_) => Lock::None,
    }
}

/// Where files of this user go that may be removed at any time.
fn cache_dir(lookup: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let absolute = |name: &str| lookup(name).map(PathBuf::from).filter(|dir| dir.is_absolute());
    let base = absolute("XDG_CACHE_HOME").or_else(|| absolute("HOME").map(|at| at.join(".cache")));
    base.map(|base| base.join("sluice"))
}

/// What the figures depend on, in one line.
fn machine() -> String {
    let mut cpus = Vec::new();
    // The first processor's part of it. All of it can be long, and slow to make.
    let file = File::open("/proc/cpuinfo").map(|file| file.take(CPUINFO_BYTES_MAX));
    let _ = file.and_then(|mut file| file.read_to_end(&mut cpus));
    let kernel = rustix::system::uname();
    let model = cpu_model(&String::from_utf8_lossy(&cpus));
    format!("{model}; Linux {}", kernel.release().to_string_lossy())
}

/// The model's name, or what stands for it where processors have none.
fn cpu_model(cpuinfo: &str) -> String {
    let field = |name: &str| {
        let mut values = cpuinfo.lines().filter_map(|line| line.split_once(':'));
        values.find(|(key, _)| key.trim() == name).map(|(_, value)| value.trim())
    };
    let part = || Some(format!("part {} of {}", field("CPU part")?, field("CPU implementer")?));
    let named = field("model name").map(str::to_owned);
    named.or_else(part).unwrap_or_else(|| "unknown processor".to_owned())
}

#[cfg(test)]
mod tests;
