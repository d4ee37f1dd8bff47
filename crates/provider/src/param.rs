//! Variables of the environment: FI_SLUICE_*. `docs/configuration.md` is their manual.
//!
//! libfabric lists them (`fi_info -e`) and finds them; this module checks the
//! values, because libfabric takes a number that is none for zero.

use crate::ffi;
use crate::log::{self, About};
use libc::{c_char, c_int, c_void};
use sluice_proto::selection::{Overrides, Threshold, parse_number};
use sluice_rail::tune::Mode;
use std::ffi::CStr;
use std::path::PathBuf;
use std::sync::{Once, OnceLock};

/// How the memory of a mailbox is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Segment {
    /// A memfd; a file where others cannot open that.
    Auto,
    /// A memfd.
    Memfd,
    /// A file in /dev/shm.
    File,
}

/// How large messages are moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bulk {
    /// Directly where the system allows it, else through the mailbox.
    Auto,
    /// Directly from the sender's memory.
    Direct,
    /// Through the mailbox.
    Ring,
}

/// How the room for messages is shared among the senders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Credits {
    /// Who spends it gets it.
    Dynamic,
    /// Equal shares.
    Static,
}

/// Who makes progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// Whom the program asks for (FI_PROGRESS_AUTO: a thread).
    Asked,
    /// The program's calls.
    Poll,
    /// A thread, also where the program asks for none.
    Thread,
}

/// Every setting, checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Params {
    /// Lengths by which protocols are chosen, where they are set.
    pub thresholds: Overrides,
    /// Where the others come from.
    pub tune: Mode,
    /// Longest injected message.
    pub inject_bytes: usize,
    /// Memory for injected messages that wait for credits.
    pub inject_kept_bytes: u64,
    /// Memory for messages that arrived before their receives.
    pub unexpected_bytes: u64,
    /// How the room for them is shared.
    pub credits: Credits,
    /// Senders that a mailbox has room for; `None`: from the address vector.
    pub peers_max: Option<u16>,
    /// Most slots that a mailbox may have; `None`: as many as the senders need.
    pub mailbox_slots: Option<u32>,
    /// How the memory of a mailbox is made.
    pub segment: Segment,
    /// How large messages are moved.
    pub bulk: Bulk,
    /// Who makes progress.
    pub progress: Progress,
    /// Print counters when an endpoint closes.
    pub stats: bool,
    /// The file that gets a line when an endpoint opens and when it closes.
    pub report: Option<PathBuf>,
}

/// The least that the eager limit is if nobody sets it.
const EAGER_DEFAULT: usize = 4096;
const INJECT_DEFAULT: usize = 4096;
const INJECT_KEPT_DEFAULT: usize = 64 << 20;
const UNEXPECTED_DEFAULT: usize = 4 << 20;

struct Variable {
    name: &'static CStr,
    kind: c_int,
    help: &'static CStr,
}

const EAGER: Variable = Variable {
    name: c"eager_size",
    kind: ffi::FI_PARAM_SIZE_T,
    help: c"Longest message in bytes that is sent eagerly; longer ones are fetched by the receiver. 0 to 8192 (default: from FI_SLUICE_TUNE; 4096 where that is off)",
};
const ANNOUNCE: Variable = Variable {
    name: c"announce_size",
    kind: ffi::FI_PARAM_SIZE_T,
    help: c"Shortest receive in bytes that is announced to its source. 0 to 2^40 (default: from FI_SLUICE_TUNE; 32768 where that is off)",
};
const SHARE: Variable = Variable {
    name: c"share_size",
    kind: ffi::FI_PARAM_SIZE_T,
    help: c"Shortest message in bytes that both sides copy. 0 to 2^40 (default: from FI_SLUICE_TUNE; 65536 where that is off)",
};
const TUNE: Variable = Variable {
    name: c"tune",
    kind: ffi::FI_PARAM_STRING,
    help: c"Where the lengths by which protocols are chosen come from: auto (measured at first use, kept in the user's cache), off (stated ones), or the path of a file to keep the figures in (default: auto)",
};
const INJECT: Variable = Variable {
    name: c"inject_size",
    kind: ffi::FI_PARAM_SIZE_T,
    help:
        c"Longest message in bytes that can be injected; 0 turns injection off. 0 to FI_SLUICE_EAGER_SIZE, or to 4096 if that is not set (default: 4096)",
};
const INJECT_KEPT: Variable = Variable {
    name: c"inject_bytes",
    kind: ffi::FI_PARAM_SIZE_T,
    help: c"Most memory in bytes for copies of injected messages whose receiver has no room yet; beyond it injecting says -FI_EAGAIN. 0 to 2^40 (default: 67108864)",
};
const UNEXPECTED: Variable = Variable {
    name: c"unexpected_bytes",
    kind: ffi::FI_PARAM_SIZE_T,
    help: c"Most memory in bytes for messages that arrive before their receives; others wait at their senders. 1 to 2^40 (default: 4194304)",
};
const CREDITS: Variable = Variable {
    name: c"credits",
    kind: ffi::FI_PARAM_STRING,
    help: c"How the room for these is shared among the senders: dynamic (who spends it gets it) or static (equal shares) (default: dynamic)",
};
const PEERS: Variable = Variable {
    name: c"peers_max",
    kind: ffi::FI_PARAM_SIZE_T,
    help: c"How many processes may send to one endpoint. 1 to 65535 (default: count of the address vector and a margin, at least 64)",
};
const SLOTS: Variable = Variable {
    name: c"mailbox_slots",
    kind: ffi::FI_PARAM_SIZE_T,
    help: c"Most 64-byte slots that the mailbox of one endpoint may have. 1024 to 67108864 (default: 65536, or more if the senders need it)",
};
const SEGMENT: Variable = Variable {
    name: c"segment",
    kind: ffi::FI_PARAM_STRING,
    help: c"What a mailbox is made of: auto, memfd, or file (in /dev/shm) (default: auto)",
};
const BULK: Variable = Variable {
    name: c"bulk",
    kind: ffi::FI_PARAM_STRING,
    help: c"How long messages travel: ring (through the mailboxes), auto (read from the sender's memory where the system allows it), or direct (as auto, and other processes of the user are allowed to read this one) (default: auto)",
};
const PROGRESS: Variable = Variable {
    name: c"progress",
    kind: ffi::FI_PARAM_STRING,
    help: c"Who makes progress: poll (the program's calls), thread (a thread per endpoint as well), or auto (a thread if the program asks for FI_PROGRESS_AUTO) (default: auto)",
};
const STATS: Variable = Variable {
    name: c"stats",
    kind: ffi::FI_PARAM_BOOL,
    help: c"Print counters to standard error when an endpoint is closed (default: no)",
};
const REPORT: Variable = Variable {
    name: c"report",
    kind: ffi::FI_PARAM_STRING,
    help: c"Path of a file, which has a slash, that gets a line of JSON when an endpoint opens and when it closes; sluice run sets it (default: none)",
};

const ALL: [&Variable; 15] = [
    &EAGER,
    &ANNOUNCE,
    &SHARE,
    &TUNE,
    &INJECT,
    &INJECT_KEPT,
    &UNEXPECTED,
    &CREDITS,
    &PEERS,
    &SLOTS,
    &SEGMENT,
    &BULK,
    &PROGRESS,
    &STATS,
    &REPORT,
];

/// Makes the variables known to libfabric. Once, when the provider is loaded.
pub fn define() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        for variable in ALL {
            // SAFETY: all strings are static and NUL-terminated; the help text
            // is passed as the argument of a fixed format.
            unsafe {
                ffi::fi_param_define(
                    crate::provider(),
                    variable.name.as_ptr(),
                    variable.kind,
                    c"%s".as_ptr(),
                    variable.help.as_ptr(),
                );
            }
        }
    });
}

/// The settings. Read once; warnings are given then.
pub fn get() -> &'static Params {
    static PARAMS: OnceLock<Params> = OnceLock::new();
    PARAMS.get_or_init(|| {
        warn_unknown();
        read()
    })
}

fn read() -> Params {
    let thresholds = set_thresholds();
    let eager = thresholds[0].map_or(EAGER_DEFAULT, |bytes| bytes as usize);
    let inject = INJECT.number(0, eager).unwrap_or(INJECT_DEFAULT.min(eager));
    Params {
        thresholds,
        tune: TUNE.mode().unwrap_or_default(),
        inject_bytes: inject,
        inject_kept_bytes: INJECT_KEPT.number(0, 1 << 40).unwrap_or(INJECT_KEPT_DEFAULT) as u64,
        unexpected_bytes: UNEXPECTED.number(1, 1 << 40).unwrap_or(UNEXPECTED_DEFAULT) as u64,
        credits: CREDITS
            .choice(&[("dynamic", Credits::Dynamic), ("static", Credits::Static)])
            .unwrap_or(Credits::Dynamic),
        peers_max: PEERS.number(1, usize::from(u16::MAX)).map(|n| n as u16),
        mailbox_slots: SLOTS.number(1024, 1 << 26).map(|n| n as u32),
        segment: SEGMENT
            .choice(&[("auto", Segment::Auto), ("memfd", Segment::Memfd), ("file", Segment::File)])
            .unwrap_or(Segment::Auto),
        bulk: BULK
            .choice(&[("auto", Bulk::Auto), ("direct", Bulk::Direct), ("ring", Bulk::Ring)])
            .unwrap_or(Bulk::Auto),
        progress: PROGRESS
            .choice(&[
                ("auto", Progress::Asked),
                ("poll", Progress::Poll),
                ("thread", Progress::Thread),
            ])
            .unwrap_or(Progress::Asked),
        stats: STATS.flag().unwrap_or(false),
        report: REPORT.path(),
    }
}

/// The lengths that are set, in the order of [`Threshold::ALL`].
fn set_thresholds() -> Overrides {
    Threshold::ALL.map(|threshold| {
        let variable = match threshold {
            Threshold::Eager => EAGER,
            Threshold::Announce => ANNOUNCE,
            Threshold::Share => SHARE,
        };
        variable.number(0, threshold.max() as usize).map(|number| number as u64)
    })
}

impl Variable {
    /// The name in the environment.
    fn env(&self) -> String {
        format!("FI_SLUICE_{}", self.name.to_string_lossy().to_ascii_uppercase())
    }

    /// What the environment says, where libfabric finds the variable set.
    fn raw(&self) -> Option<String> {
        let found = match self.kind {
            ffi::FI_PARAM_STRING => {
                let mut text: *const c_char = std::ptr::null();
                self.get((&raw mut text).cast())
            }
            ffi::FI_PARAM_SIZE_T => {
                let mut number: usize = 0;
                self.get((&raw mut number).cast())
            }
            _ => {
                let mut number: c_int = 0;
                self.get((&raw mut number).cast())
            }
        };
        // Unset gives FI_ENODATA; a flag that is none gives FI_EINVAL.
        if found == -ffi::FI_ENODATA || found == -ffi::FI_ENOENT {
            return None;
        }
        std::env::var_os(self.env()).map(|value| value.to_string_lossy().into_owned())
    }

    fn get(&self, value: *mut c_void) -> c_int {
        // SAFETY: `value` points to a variable of the type that libfabric
        // writes for this variable's kind (`raw`).
        unsafe { ffi::fi_param_get(crate::provider(), self.name.as_ptr(), value) }
    }

    fn number(&self, min: usize, max: usize) -> Option<usize> {
        let raw = self.raw()?;
        let number = parse_number(&raw).and_then(|n| usize::try_from(n).ok());
        let number = number.filter(|n| (min..=max).contains(n));
        if number.is_none() {
            self.warn_bad(&raw, &format!("a number from {min} to {max}"));
        }
        number
    }

    fn choice<T: Copy>(&self, choices: &[(&str, T)]) -> Option<T> {
        let raw = self.raw()?;
        let choice = choices.iter().find(|(name, _)| raw.eq_ignore_ascii_case(name));
        if choice.is_none() {
            let names: Vec<_> = choices.iter().map(|(name, _)| *name).collect();
            self.warn_bad(&raw, &names.join(", "));
        }
        choice.map(|(_, value)| *value)
    }

    fn mode(&self) -> Option<Mode> {
        let raw = self.raw()?;
        let mode = Mode::from_setting(&raw);
        if mode.is_none() {
            self.warn_bad(&raw, "auto, off, or a path, which has a slash");
        }
        mode
    }

    fn path(&self) -> Option<PathBuf> {
        let raw = self.raw()?;
        if !raw.contains('/') {
            self.warn_bad(&raw, "the path of a file, which has a slash");
            return None;
        }
        // As the environment has it: a path need not be text.
        std::env::var_os(self.env()).map(PathBuf::from)
    }

    fn flag(&self) -> Option<bool> {
        let raw = self.raw()?;
        let flag = match raw.to_ascii_lowercase().as_str() {
            "1" | "yes" | "on" | "true" => Some(true),
            "0" | "no" | "off" | "false" => Some(false),
            _ => None,
        };
        if flag.is_none() {
            self.warn_bad(&raw, "yes, no");
        }
        flag
    }

    fn warn_bad(&self, raw: &str, allowed: &str) {
        let help = self.help.to_string_lossy();
        let default = help.rsplit_once("(default: ").map_or("", |(_, d)| d.trim_end_matches(')'));
        let env = self.env();
        log::warn(
            About::Core,
            &format!(
                "{env}={raw} is ignored: allowed are {allowed}; used is the default: {default}"
            ),
        );
    }
}

/// Warns of each FI_SLUICE_* in the environment that nobody reads.
fn warn_unknown() {
    let known: Vec<String> = ALL.iter().map(|variable| variable.env()).collect();
    for (name, _) in std::env::vars_os() {
        let name = name.to_string_lossy();
        if !name.starts_with("FI_SLUICE_") || known.iter().any(|k| *k == name) {
            continue;
        }
        let nearest = known.iter().min_by_key(|k| distance(k, &name)).map_or("", String::as_str);
        log::warn(
            About::Core,
            &format!(
                "{name} is not a variable of Sluice and has no effect; did you mean {nearest}? \
                 (fi_info -e lists all)"
            ),
        );
    }
}

/// How many letters must be changed, put in or taken out to make `a` into `b`.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let change = diagonal + usize::from(x != *y);
            diagonal = row[j + 1];
            row[j + 1] = change.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thresholds_are_set_by_the_variables_that_are_told_of() {
        for (threshold, variable) in Threshold::ALL.into_iter().zip([&EAGER, &ANNOUNCE, &SHARE]) {
            assert_eq!(variable.env(), threshold.variable());
        }
    }

    #[test]
    fn nearest_name() {
        assert_eq!(distance("FI_SLUICE_EAGER", "FI_SLUICE_EAGER_SIZE"), 5);
        assert_eq!(distance("abc", "abc"), 0);
        assert_eq!(distance("abc", "axc"), 1);
    }

    #[test]
    fn every_variable_says_its_default() {
        for variable in ALL {
            assert!(variable.help.to_string_lossy().contains("(default: "));
        }
    }
}
