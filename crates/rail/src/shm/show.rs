//! What this process shows to those who watch it, and how they find it.
//!
//! Who watches touches a file in the directory of the user's files. A process looks at the
//! time of that file with its slow looks, ten times a second; while it is young the process
//! writes a snapshot into a file beside its card, whole, under a name of its own first. So a
//! process that nobody watches pays one system call in 100 ms, and nobody reads half a
//! snapshot (`docs/decisions/0020-watching.md`).
//!
//! The directory is private to the user. What is read there is checked by who reads it.

use super::Shm;
use super::card::Card;
use super::dirs::{existing_dir, user_dirs};
use super::error::OpenError;
use super::held;
use super::identity::{Identity, stat_of};
use super::lookup::PREFIX as CARD_PREFIX;
use rustix::fs::{Mode, OFlags};
use sluice_wire::Nanos;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// The file that is touched.
const ASKED: &str = "watched";
/// What the files of snapshots begin with.
const PREFIX: &str = "stats-";
/// For how long a touch counts.
const ASKED_FOR: Duration = Duration::from_secs(2);
/// After how long it is forgotten: who watched was killed.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(10);
/// For how long packets are still counted by peer when nobody watches any more: another one may
/// ask in a moment.
const COUNTED_FOR: Nanos = Nanos(10_000_000_000);
/// Longest snapshot that is read.
const SHOWN_BYTES_MAX: u64 = 256 << 10;

/// What is shown now.
#[derive(Debug, Default)]
pub(super) struct Show {
    is_due: bool,
    /// The file of the last snapshot.
    shown: Option<PathBuf>,
    /// When somebody watched last, if packets are counted for that alone.
    counted_for: Option<Nanos>,
}

impl Show {
    /// Whether somebody has asked for a snapshot since this was asked last.
    pub(super) fn take_due(&mut self) -> bool {
        std::mem::take(&mut self.is_due)
    }
}

impl Shm {
    /// Whether this process has opened it, and is not a child that was forked since.
    pub(crate) fn is_own(&self) -> bool {
        self.card.pid == std::process::id()
    }

    /// Tells a line that a person should see.
    pub(crate) fn warn(&self, line: &str) {
        self.warn.0(line);
    }

    /// Looks whether somebody watches.
    pub(super) fn look_for_watchers(&mut self) {
        let age = fs::symlink_metadata(self.published.dir().join(ASKED))
            .and_then(|file| file.modified())
            .ok()
            .and_then(|touched| SystemTime::now().duration_since(touched).ok());
        let is_own = self.is_own();
        self.show.is_due = is_own && age.is_some_and(|age| age < ASKED_FOR);
        self.count_while_watched();
        if is_own && !self.show.is_due {
            self.show_no_more();
        }
        if age.is_some_and(|age| age > FORGOTTEN_AFTER) {
            let _ = fs::remove_file(self.published.dir().join(ASKED));
        }
    }

    /// Begins to count packets by peer when somebody watches, and ends that some time after.
    fn count_while_watched(&mut self) {
        let now = self.clock;
        if self.show.is_due {
            if self.begin_counting() || self.show.counted_for.is_some() {
                self.show.counted_for = Some(now);
            }
        } else if self.show.counted_for.is_some_and(|last| now > last.saturating_add(COUNTED_FOR)) {
            self.show.counted_for = None;
            self.end_counting();
        }
    }

    /// Shows a snapshot. Where that cannot be done, who watches is told that there is none.
    pub(crate) fn show(&mut self, snapshot: &str) {
        let path = self.published.dir().join(file_of(&self.card));
        let draft = path.with_extension("new");
        let mut options = File::options();
        let options = options.write(true).create(true).truncate(true).mode(0o600);
        let written = options
            .open(&draft)
            .and_then(|mut file| file.write_all(snapshot.as_bytes()))
            .and_then(|()| fs::rename(&draft, &path));
        match written {
            Ok(()) => self.show.shown = Some(path),
            Err(_) => drop(fs::remove_file(&draft)),
        }
    }

    /// Nothing is shown any more.
    pub(super) fn show_no_more(&mut self) {
        if let Some(path) = self.show.shown.take() {
            let _ = fs::remove_file(path);
        }
    }
}

/// The process is part of the name: its file is stale once it has ended.
fn file_of(card: &Card) -> String {
    let Card { pid_ns, pid, start_time, .. } = card;
    format!("{PREFIX}{pid_ns:x}-{pid}-{start_time}-{:016x}", card.mark())
}

/// Whether a file is one of [`file_of`] that a process of this pid namespace has left.
fn is_stale(name: &str, own: &Identity) -> bool {
    let name = name.strip_prefix(PREFIX).map(|rest| rest.trim_end_matches(".new"));
    let Some(parts) = name.map(|name| name.split('-').collect::<Vec<_>>()) else { return false };
    let [pid_ns, pid, start_time, _] = parts[..] else { return false };
    let (Ok(pid), Ok(start_time)) = (pid.parse(), start_time.parse::<u64>()) else { return false };
    u64::from_str_radix(pid_ns, 16) == Ok(own.pid_ns)
        && match stat_of(pid) {
            Ok(stat) => stat.ended || stat.start_time != start_time,
            Err(cause) => cause.kind() == io::ErrorKind::NotFound,
        }
}

/// Removes snapshots that ended processes have left, of `files_max` files at most.
pub(super) fn sweep(dir: &Path, identity: &Identity, files_max: usize) {
    let Ok(_) = existing_dir(dir, identity.uid) else { return };
    let Ok(files) = fs::read_dir(dir) else { return };
    for file in files.flatten().take(files_max) {
        if file.file_name().to_str().is_some_and(|name| is_stale(name, identity)) {
            let _ = fs::remove_file(file.path());
        }
    }
}

/// An endpoint of a living process of this user.
#[derive(Clone, Debug)]
pub struct Watchable {
    /// The process.
    pub pid: u32,
    /// Whether it is of another pid namespace, where it has another number here.
    pub is_elsewhere: bool,
    file: PathBuf,
}

impl Watchable {
    /// Its name among all of them.
    #[must_use]
    pub fn name(&self) -> String {
        self.file.to_string_lossy().into_owned()
    }
}

/// Watches the processes of this user that have their files below a directory, until
/// dropped.
#[derive(Debug)]
pub struct Watcher {
    identity: Identity,
    dirs: Vec<PathBuf>,
    begun: SystemTime,
}

impl Watcher {
    /// Asks them for snapshots.
    ///
    /// # Errors
    /// If this process cannot be identified.
    pub fn begin(shm_dir: &Path) -> Result<Watcher, OpenError> {
        let identity = Identity::of_this_process()?;
        let is_private = |dir: &PathBuf| existing_dir(dir, identity.uid).is_ok();
        let dirs: Vec<PathBuf> = user_dirs(shm_dir, identity.uid).filter(is_private).collect();
        for dir in &dirs {
            sweep(dir, &identity, usize::MAX);
        }
        let watcher = Watcher { identity, dirs, begun: SystemTime::now() };
        watcher.go_on();
        Ok(watcher)
    }

    /// Goes on asking; to be called at least once a second.
    pub fn go_on(&self) {
        for dir in &self.dirs {
            let mut options = File::options();
            let touched = options.write(true).create(true).truncate(true).mode(0o600);
            // Where it cannot be made nobody answers, which is seen then.
            let _ =
                touched.open(dir.join(ASKED)).and_then(|file| file.set_modified(SystemTime::now()));
        }
    }

    /// The endpoints that there are, in the order of their processes.
    #[must_use]
    pub fn endpoints(&self) -> Vec<Watchable> {
        let mut all = Vec::new();
        for path in &self.dirs {
            let Ok(dir) = existing_dir(path, self.identity.uid) else { continue };
            for name in held::names(&dir, CARD_PREFIX) {
                let Ok(read) = held::read(&dir, &self.identity, &name) else { continue };
                let Ok(card) = Card::from_bytes(&read.content) else { continue };
                if read.is_stale || card.holder() != read.holder {
                    continue;
                }
                let is_elsewhere = card.pid_ns != self.identity.pid_ns;
                all.push(Watchable {
                    pid: card.pid,
                    is_elsewhere,
                    file: path.join(file_of(&card)),
                });
            }
        }
        all.sort_by(|a, b| (a.pid, &a.file).cmp(&(b.pid, &b.file)));
        all
    }

    /// What an endpoint has shown last, if it has since this began, and how long ago. The
    /// bytes are to be checked.
    #[must_use]
    pub fn read(&self, endpoint: &Watchable) -> Option<(Vec<u8>, Duration)> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let file = File::from(rustix::fs::open(&endpoint.file, flags, Mode::empty()).ok()?);
        let about = file.metadata().ok()?;
        let shown = about.modified().ok()?;
        if !about.is_file() || shown < self.begun {
            return None;
        }
        let age = SystemTime::now().duration_since(shown).unwrap_or_default();
        let mut bytes = Vec::new();
        file.take(SHOWN_BYTES_MAX).read_to_end(&mut bytes).ok()?;
        Some((bytes, age))
    }
}

impl Drop for Watcher {
    /// Another one that watches asks again in a moment.
    fn drop(&mut self) {
        for dir in &self.dirs {
            let _ = fs::remove_file(dir.join(ASKED));
        }
    }
}
