//! A world of which something is left out: processes, phases, operations, faults. What is left
//! is as the seed draws it.

use super::setup::Setup;
use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

/// What is left of a world. The default leaves all of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cut {
    /// The first so many processes.
    pub processes: Option<usize>,
    /// The first so many phases.
    pub phases: Option<u64>,
    /// These faults: those of rails, then what befalls processes, then the end of one.
    pub faults: Option<BTreeSet<usize>>,
    /// These operations, by process and number.
    pub operations: Option<BTreeSet<(usize, u64)>>,
    /// Nothing comes late, and no phase begins with receives.
    pub is_calm: bool,
}

/// How much there is of a world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// Processes.
    pub processes: usize,
    /// Phases.
    pub phases: u64,
    /// Faults.
    pub faults: usize,
    /// Operations of each process, of all phases together.
    pub operations: u64,
}

/// A text that is no cut.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is none of processes=N, phases=N, faults=N,N,…, ops=P.N,P.N,…, calm")]
pub struct CutError(String);

impl Size {
    /// How much there is of the world of a seed.
    #[must_use]
    pub fn of(seed: u64) -> Size {
        let setup = Setup::draw(seed);
        Size {
            processes: setup.layouts.len(),
            phases: setup.phases,
            faults: setup.faults(),
            operations: setup.phases * setup.operations,
        }
    }
}

impl Cut {
    /// Whether an operation of a process is left.
    pub(super) fn keeps(&self, who: usize, at: u64) -> bool {
        self.operations.as_ref().is_none_or(|kept| kept.contains(&(who, at)))
    }

    /// What is left of a world.
    pub(super) fn of(&self, mut setup: Setup) -> Setup {
        if let Some(kept) = &self.faults {
            setup.keep_faults(|fault| kept.contains(&fault));
        }
        if let Some(count) = self.processes {
            setup.keep_processes(count.clamp(1, setup.layouts.len()));
        }
        if let Some(phases) = self.phases {
            setup.phases = phases.clamp(1, setup.phases);
        }
        if self.is_calm {
            setup.calm();
        }
        setup
    }
}

impl fmt::Display for Cut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts = Vec::new();
        parts.extend(self.processes.map(|count| format!("processes={count}")));
        parts.extend(self.phases.map(|count| format!("phases={count}")));
        parts.extend(self.faults.as_ref().map(|kept| {
            let kept: Vec<String> = kept.iter().map(usize::to_string).collect();
            format!("faults={}", kept.join(","))
        }));
        parts.extend(self.operations.as_ref().map(|kept| {
            let kept: Vec<String> = kept.iter().map(|(who, at)| format!("{who}.{at}")).collect();
            format!("ops={}", kept.join(","))
        }));
        parts.extend(self.is_calm.then(|| "calm".to_owned()));
        f.write_str(&parts.join("/"))
    }
}

impl FromStr for Cut {
    type Err = CutError;

    fn from_str(text: &str) -> Result<Cut, CutError> {
        let mut cut = Cut::default();
        for part in text.split('/').filter(|part| !part.is_empty()) {
            cut.take(part).ok_or_else(|| CutError(part.to_owned()))?;
        }
        Ok(cut)
    }
}

impl Cut {
    /// One part of a text; nothing if it is none.
    fn take(&mut self, part: &str) -> Option<()> {
        if part == "calm" {
            self.is_calm = true;
            return Some(());
        }
        let (name, value) = part.split_once('=')?;
        let items = || value.split(',').filter(|item| !item.is_empty());
        match name {
            "processes" => self.processes = Some(value.parse().ok()?),
            "phases" => self.phases = Some(value.parse().ok()?),
            "faults" => {
                self.faults = Some(items().map(|item| item.parse().ok()).collect::<Option<_>>()?);
            }
            "ops" => {
                let operation = |item: &str| {
                    let (who, at) = item.split_once('.')?;
                    Some((who.parse().ok()?, at.parse().ok()?))
                };
                self.operations = Some(items().map(operation).collect::<Option<_>>()?);
            }
            _ => return None,
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cut_is_read_as_it_is_written() {
        let cut = Cut {
            processes: Some(2),
            phases: Some(1),
            faults: Some(BTreeSet::from([0, 3])),
            operations: Some(BTreeSet::from([(0, 4), (1, 0)])),
            is_calm: true,
        };
        let text = "processes=2/phases=1/faults=0,3/ops=0.4,1.0/calm";
        assert_eq!((cut.to_string().as_str(), text.parse()), (text, Ok(cut)));
        let none = Cut { faults: Some(BTreeSet::new()), ..Cut::default() };
        assert_eq!((none.to_string().as_str(), "faults=".parse()), ("faults=", Ok(none)));
        assert_eq!("".parse(), Ok(Cut::default()));
        for wrong in ["x", "phases", "phases=x", "faults=a", "ops=3", "calm=1"] {
            assert_eq!(wrong.parse::<Cut>(), Err(CutError(wrong.to_owned())), "{wrong}");
        }
    }
}
