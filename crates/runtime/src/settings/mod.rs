//! Variables of the environment: `FI_SLUICE_*`. `docs/configuration.md` is their manual.
//!
//! The libfabric provider and the `sluice` command read the same settings; what they
//! may say is written once, here. What is not allowed is ignored and said.

mod choice;
mod network;
mod options;
mod rails;
mod stats;
mod variable;

pub use choice::{Choice, Matching, Progress, words};
pub use network::{Fabric, NetworkOptions, own_device};
pub use options::RailOptions;
pub use rails::Rails;
pub use stats::{StatsForm, StatsOutput};
pub use variable::{Kind, VARIABLES, Variable};

use variable::unknown;

use sluice_rail::net::devices::Wanted;
use sluice_rail::observer::Observed;
use sluice_rail::shm::{BulkKind, CreditKind, SegmentKind};
use sluice_rail::tune::Mode;
use sluice_text::parse_bytes;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The longest eager message that may be set.
pub const EAGER_BYTES_MAX: u64 = 48 << 10;
/// The same to a receiver that looks.
pub const LOOKING_BYTES_MAX: u64 = 256 << 10;
/// The same over a network.
pub const NETWORK_EAGER_BYTES_MAX: u64 = 64 << 10;
/// The largest length or amount of memory that may be set.
pub const BYTES_MAX: u64 = 1 << 40;
/// The least that the eager limit is if nobody sets it.
const EAGER_DEFAULT: u64 = 4096;
const INJECT_DEFAULT: u64 = 4096;
const INJECT_KEPT_DEFAULT: u64 = 64 << 20;
const LINGER_DEFAULT: Duration = Duration::from_secs(600);
const LINGER_SECONDS_MAX: u64 = 1 << 20;

/// Lengths by which protocols are chosen, where they are set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lengths {
    /// The longest message sent eagerly, at most [`EAGER_BYTES_MAX`].
    pub eager_bytes_max: Option<u64>,
    /// The longest message sent eagerly to a receiver that looks, at most
    /// [`LOOKING_BYTES_MAX`].
    pub looking_bytes_max: Option<u64>,
    /// The shortest receive announced to its source, at most [`BYTES_MAX`].
    pub announce_bytes_min: Option<u64>,
    /// The shortest message that both sides copy, at most [`BYTES_MAX`].
    pub share_bytes_min: Option<u64>,
    /// The longest message sent eagerly over a network, at most
    /// [`NETWORK_EAGER_BYTES_MAX`].
    pub network_eager_bytes_max: Option<u64>,
}

impl Lengths {
    /// The variables that set them, in the order of the fields.
    #[must_use]
    pub fn variables() -> [&'static Variable; 5] {
        [
            &variable::EAGER,
            &variable::LOOKING,
            &variable::ANNOUNCE,
            &variable::SHARE,
            &variable::NETWORK_EAGER,
        ]
    }

    /// What is set, in that order.
    #[must_use]
    pub fn set(&self) -> [Option<u64>; 5] {
        let Lengths {
            eager_bytes_max,
            looking_bytes_max,
            announce_bytes_min,
            share_bytes_min,
            network_eager_bytes_max,
        } = *self;
        [
            eager_bytes_max,
            looking_bytes_max,
            announce_bytes_min,
            share_bytes_min,
            network_eager_bytes_max,
        ]
    }
}

/// Every setting, checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Lengths by which protocols are chosen, where they are set.
    pub lengths: Lengths,
    /// Where the others come from.
    pub tune: Mode,
    /// Longest injected message.
    pub inject_bytes: usize,
    /// Memory for injected messages that wait for credits.
    pub inject_kept_bytes: u64,
    /// How long an endpoint that closes waits for receivers that take nothing of what was injected.
    pub linger: Duration,
    /// What a mailbox is made with.
    pub rail: RailOptions,
    /// By what peers are reached, and how the network is used.
    pub network: NetworkOptions,
    /// Who makes progress.
    pub progress: Progress,
    /// What is said of an endpoint when it closes.
    pub stats: Option<StatsOutput>,
    /// The file that gets a line when an endpoint opens and when it closes.
    pub report: Option<PathBuf>,
    /// Values that are ignored, in words.
    pub warnings: Vec<String>,
}

impl Settings {
    /// Reads them with `lookup`, which knows what each variable says.
    pub fn read(lookup: impl Fn(&Variable) -> Option<OsString>) -> Settings {
        let mut reader = Reader { lookup, warnings: Vec::new() };
        let eager_bytes_max = reader.bytes(&variable::EAGER, 0, EAGER_BYTES_MAX);
        let lengths = Lengths {
            eager_bytes_max,
            looking_bytes_max: reader.bytes(&variable::LOOKING, 0, LOOKING_BYTES_MAX),
            announce_bytes_min: reader.bytes(&variable::ANNOUNCE, 0, BYTES_MAX),
            share_bytes_min: reader.bytes(&variable::SHARE, 0, BYTES_MAX),
            network_eager_bytes_max: reader.bytes(
                &variable::NETWORK_EAGER,
                0,
                NETWORK_EAGER_BYTES_MAX,
            ),
        };
        let eager = eager_bytes_max.unwrap_or(EAGER_DEFAULT);
        let default = RailOptions::default();
        let unexpected = reader.bytes(&variable::UNEXPECTED, 1, BYTES_MAX);
        let stats = reader.stats(&variable::STATS);
        // The line for people says nothing of single peers.
        let shows_peers = stats.as_ref().is_some_and(|stats| stats.form != StatsForm::Text);
        let trace_dir = reader.dir(&variable::TRACE);
        let rail = RailOptions {
            observed: Observed { peers: shows_peers, trace_dir },
            bulk: reader.choice(&variable::BULK).unwrap_or(BulkKind::Auto),
            credits: reader.choice(&variable::CREDITS).unwrap_or(CreditKind::Dynamic),
            segment: reader.choice(&variable::SEGMENT).unwrap_or(SegmentKind::Auto),
            peers_max: reader.number(&variable::PEERS, 1, u16::MAX.into()).map(|n| n as u16),
            mailbox_slots: reader.number(&variable::SLOTS, 1024, 1 << 26).map(|n| n as u32),
            unexpected_bytes: unexpected.unwrap_or(default.unexpected_bytes),
            shm_dir: reader.dir(&variable::SHM_DIR).unwrap_or(default.shm_dir),
        };
        let inject = reader.bytes(&variable::INJECT, 0, eager);
        let kept = reader.bytes(&variable::INJECT_KEPT, 0, BYTES_MAX);
        let linger = reader.number(&variable::LINGER, 0, LINGER_SECONDS_MAX);
        Settings {
            lengths,
            tune: reader.mode(&variable::TUNE).unwrap_or_default(),
            inject_bytes: inject.unwrap_or(INJECT_DEFAULT.min(eager)) as usize,
            inject_kept_bytes: kept.unwrap_or(INJECT_KEPT_DEFAULT),
            linger: linger.map_or(LINGER_DEFAULT, Duration::from_secs),
            rail,
            network: NetworkOptions {
                rails: reader.rails(&variable::RAILS).unwrap_or_default(),
                devices: reader.devices(&variable::DEVICES).unwrap_or_default(),
                congestion: reader.congestion(&variable::CONGESTION),
                security: reader.choice(&variable::SECURITY).unwrap_or_default(),
                matching: reader.choice(&variable::MATCHING).unwrap_or_default(),
                ..NetworkOptions::default()
            },
            progress: reader.choice(&variable::PROGRESS).unwrap_or_default(),
            stats,
            report: reader.file(&variable::REPORT),
            warnings: reader.warnings,
        }
    }

    /// Those of the environment of this process. Its warnings are also of variables
    /// that nobody reads.
    #[must_use]
    pub fn of_environment() -> Settings {
        Settings::read_all(|variable| std::env::var_os(variable.env()))
    }

    /// As [`Settings::read`], with the variables of this process's environment that
    /// nobody reads.
    #[must_use]
    pub fn read_all(lookup: impl Fn(&Variable) -> Option<OsString>) -> Settings {
        let names = std::env::vars_os().map(|(name, _)| name.to_string_lossy().into_owned());
        let mut settings = Settings::read(lookup);
        settings.warnings.splice(..0, unknown(names));
        settings
    }
}

struct Reader<L> {
    lookup: L,
    warnings: Vec<String>,
}

impl<L: Fn(&Variable) -> Option<OsString>> Reader<L> {
    fn raw(&self, variable: &Variable) -> Option<String> {
        (self.lookup)(variable).map(|value| value.to_string_lossy().into_owned())
    }

    /// What a variable says, if `read` can read it; `allowed` says what it could.
    fn value<T>(
        &mut self,
        variable: &Variable,
        allowed: impl FnOnce() -> String,
        read: impl FnOnce(&str) -> Option<T>,
    ) -> Option<T> {
        let raw = self.raw(variable)?;
        let value = read(&raw);
        if value.is_none() {
            let (env, allowed, default) = (variable.env(), allowed(), variable.default_words());
            let shown = shown(&raw);
            self.warnings.push(format!(
                "{env}={shown} is ignored: allowed are {allowed}; used is the default: {default}"
            ));
        }
        value
    }

    fn number(&mut self, variable: &Variable, min: u64, max: u64) -> Option<u64> {
        let allowed = || format!("numbers from {min} to {max}");
        let within = |number: &u64| (min..=max).contains(number);
        self.value(variable, allowed, |raw| parse_number(raw).filter(within))
    }

    fn bytes(&mut self, variable: &Variable, min: u64, max: u64) -> Option<u64> {
        let allowed =
            || format!("bytes from {min} to {max}, also with K, M or G for units of 1024");
        let parse = |raw: &str| parse_number(raw).or_else(|| parse_bytes(raw));
        self.value(variable, allowed, |raw| parse(raw).filter(|bytes| (min..=max).contains(bytes)))
    }

    fn choice<C: Choice>(&mut self, variable: &Variable) -> Option<C> {
        self.value(variable, words::<C>, C::parse)
    }

    fn mode(&mut self, variable: &Variable) -> Option<Mode> {
        let allowed = || "auto, off, or a path, which has a slash".to_owned();
        self.value(variable, allowed, Mode::from_setting)
    }

    fn devices(&mut self, variable: &Variable) -> Option<Wanted> {
        let allowed = || {
            "names of devices, patterns of names such as eth*, and networks such as 10.1.0.0/16, \
             with commas between, each with ^ in front to exclude it"
                .to_owned()
        };
        self.value(variable, allowed, |raw| raw.parse().ok())
    }

    fn rails(&mut self, variable: &Variable) -> Option<Rails> {
        self.value(variable, || rails::ALLOWED.to_owned(), |raw| raw.parse().ok())
    }

    fn congestion(&mut self, variable: &Variable) -> Option<String> {
        // As long as the system takes names, and of no other letters than they have.
        let is_name = |raw: &&str| {
            (1..16).contains(&raw.len())
                && raw.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
        };
        let allowed = || "names of at most 15 letters, digits, - and _".to_owned();
        self.value(variable, allowed, |raw| Some(raw).filter(is_name).map(str::to_owned))
    }

    fn file(&mut self, variable: &Variable) -> Option<PathBuf> {
        self.path(variable, "the path of a file, which has a slash", |raw| raw.contains('/'))
    }

    fn dir(&mut self, variable: &Variable) -> Option<PathBuf> {
        // A relative one would be another directory in each process.
        let allowed = "the path of a directory, which begins with a slash";
        self.path(variable, allowed, |raw| Path::new(raw).is_absolute())
    }

    fn path(
        &mut self,
        variable: &Variable,
        allowed: &str,
        is_allowed: fn(&str) -> bool,
    ) -> Option<PathBuf> {
        self.value(variable, || allowed.to_owned(), |raw| is_allowed(raw).then_some(()))?;
        // As the environment has it: a path need not be text.
        (self.lookup)(variable).map(PathBuf::from)
    }

    fn stats(&mut self, variable: &Variable) -> Option<StatsOutput> {
        self.value(variable, || stats::ALLOWED.to_owned(), StatsOutput::parse)?
    }
}

/// What a variable says, fit for one line of a terminal.
fn shown(raw: &str) -> String {
    let mut shown = String::with_capacity(raw.len());
    for c in raw.chars() {
        if c.is_control() {
            shown.extend(c.escape_default());
        } else {
            shown.push(c);
        }
    }
    shown
}

/// A number in decimal, or in hexadecimal after `0x`.
fn parse_number(text: &str) -> Option<u64> {
    let text = text.trim();
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

#[cfg(test)]
mod tests;
