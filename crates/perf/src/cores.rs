//! Which cores the two processes of a measurement run on.

use anyhow::{Context, Result, bail};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::fs;
use std::str::FromStr;

/// Two cores as given on the command line: `A,B`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CorePair {
    pub first: usize,
    pub second: usize,
}

impl FromStr for CorePair {
    type Err = String;

    fn from_str(text: &str) -> Result<CorePair, String> {
        let wrong = || format!("'{text}' is not two cores; {}", allowed_text());
        let (first, second) = text.split_once(',').ok_or_else(wrong)?;
        let core = |text: &str| -> Result<usize, String> {
            let core = text.trim().parse().map_err(|_| wrong())?;
            if allowed().contains(&core) { Ok(core) } else { Err(wrong()) }
        };
        Ok(CorePair { first: core(first)?, second: core(second)? })
    }
}

/// Where the two processes run.
#[derive(Clone, Debug)]
pub struct Placement {
    /// One core each, or neither is pinned.
    pub cores: Option<CorePair>,
    /// What the reader of the figures must know about it.
    pub note: Option<String>,
}

impl Placement {
    /// The cores asked for, or else two that are not one physical core.
    pub fn choose(asked: Option<CorePair>) -> Placement {
        let allowed = allowed();
        let cores = asked.or_else(|| {
            let first = *allowed.first()?;
            let siblings = siblings_of(first);
            let others = || allowed.iter().copied().filter(|&core| core != first);
            let second =
                others().find(|core| !siblings.contains(core)).or_else(|| others().next())?;
            Some(CorePair { first, second })
        });
        let note = match cores {
            None => Some(
                "only one core may be used: the two processes take turns on it, which costs \
                 microseconds each"
                    .to_owned(),
            ),
            Some(pair) if pair.first == pair.second => {
                Some(format!("both processes take turns on core {}", pair.first))
            }
            Some(pair) if siblings_of(pair.first).contains(&pair.second) => {
                Some(format!("cores {} and {} are one physical core", pair.first, pair.second))
            }
            Some(_) => None,
        };
        Placement { cores, note }
    }

    /// Whether a process that waits must give its core away for the other one
    /// to get on.
    pub fn shares_a_core(&self) -> bool {
        self.cores.is_none_or(|pair| pair.first == pair.second)
    }
}

/// Pins the calling thread.
pub fn pin(core: usize) -> Result<()> {
    let mut set = CpuSet::new();
    if core >= CpuSet::MAX_CPU {
        bail!("core {core} is beyond the {} that can be named", CpuSet::MAX_CPU);
    }
    set.set(core);
    sched_setaffinity(None, &set).with_context(|| format!("cannot run on core {core}"))
}

/// Lets the calling thread run on all cores that the system has for it, if it can be let.
pub fn unpin() {
    let mut set = CpuSet::new();
    (0..CpuSet::MAX_CPU).for_each(|core| set.set(core));
    let _ = sched_setaffinity(None, &set);
}

/// The cores that this process may run on.
pub fn allowed() -> Vec<usize> {
    sched_getaffinity(None)
        .map(|set| (0..CpuSet::MAX_CPU).filter(|&core| set.is_set(core)).collect())
        .unwrap_or_default()
}

fn allowed_text() -> String {
    let list: Vec<String> = allowed().iter().map(usize::to_string).collect();
    format!("give A,B out of the cores that may be used: {}", list.join(", "))
}

/// The cores that are one physical core with this one, itself among them;
/// nothing if the system does not say.
fn siblings_of(core: usize) -> Vec<usize> {
    let path = format!("/sys/devices/system/cpu/cpu{core}/topology/thread_siblings_list");
    fs::read_to_string(path).map(|text| parse_list(&text)).unwrap_or_default()
}

/// A list of cores as the kernel writes it: `0-1,4`.
fn parse_list(text: &str) -> Vec<usize> {
    text.trim()
        .split(',')
        .filter_map(|part| {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            Some(first.parse::<usize>().ok()?..=last.parse::<usize>().ok()?)
        })
        .flatten()
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_as_the_kernel_writes_them() {
        assert_eq!(parse_list("0\n"), [0]);
        assert_eq!(parse_list("0-2,5"), [0, 1, 2, 5]);
        assert_eq!(parse_list(""), [0; 0]);
    }

    #[test]
    fn wrong_cores_are_told_the_right_ones() {
        for text in ["1", "a,b", "0,100000", ""] {
            let error = text.parse::<CorePair>().expect_err("not two cores");
            assert!(error.contains("cores that may be used"), "{error}");
        }
    }
}
