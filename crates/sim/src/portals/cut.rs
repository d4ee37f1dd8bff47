//! A world of which something is left out, and the least that still fails. What is left of it is as the
//! seed draws it: each call has a stream of random numbers of its own.

use super::setup::Setup;
use crate::swarm::reduce;
use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

/// What is left of a world. The default leaves all of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cut {
    /// These calls, by number.
    pub calls: Option<BTreeSet<u64>>,
    /// These faults: those of rails, processes that are stopped, the end of one.
    pub faults: Option<BTreeSet<usize>>,
}

/// A text that is no cut.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is none of calls=N,N,…, faults=N,N,…")]
pub struct CutError(String);

impl Cut {
    /// Whether a call is left.
    pub(super) fn keeps(&self, call: u64) -> bool {
        self.calls.as_ref().is_none_or(|kept| kept.contains(&call))
    }

    /// What is left of a world.
    pub(super) fn of(&self, mut setup: Setup) -> Setup {
        if let Some(kept) = &self.faults {
            setup.keep_faults(|at| kept.contains(&at));
        }
        setup
    }

    fn take(&mut self, part: &str) -> Option<()> {
        let (name, value) = part.split_once('=')?;
        let items = value.split(',').filter(|item| !item.is_empty());
        match name {
            "calls" => self.calls = Some(items.map(|at| at.parse().ok()).collect::<Option<_>>()?),
            "faults" => self.faults = Some(items.map(|at| at.parse().ok()).collect::<Option<_>>()?),
            _ => return None,
        }
        Some(())
    }
}

impl fmt::Display for Cut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts = Vec::new();
        if let Some(kept) = &self.calls {
            let kept: Vec<String> = kept.iter().map(u64::to_string).collect();
            parts.push(format!("calls={}", kept.join(",")));
        }
        if let Some(kept) = &self.faults {
            let kept: Vec<String> = kept.iter().map(usize::to_string).collect();
            parts.push(format!("faults={}", kept.join(",")));
        }
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

/// Leaves out of a world whatever it still fails without. `fails` runs what a cut leaves.
pub fn shrink(seed: u64, mut fails: impl FnMut(&Cut) -> bool) -> Cut {
    let setup = Setup::draw(seed);
    let mut cut = Cut::default();
    let mut attempt = |cut: &mut Cut, tried: Cut| {
        let is_enough = fails(&tried);
        if is_enough {
            *cut = tried;
        }
        is_enough
    };
    reduce((0..setup.faults()).collect(), |kept| {
        let tried = Cut { faults: Some(kept.iter().copied().collect()), ..cut.clone() };
        attempt(&mut cut, tried)
    });
    reduce((0..setup.calls).collect(), |kept| {
        let tried = Cut { calls: Some(kept.iter().copied().collect()), ..cut.clone() };
        attempt(&mut cut, tried)
    });
    cut
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cut_is_read_as_it_is_written() {
        let cut = Cut { calls: Some(BTreeSet::from([0, 7])), faults: Some(BTreeSet::new()) };
        assert_eq!(
            (cut.to_string().as_str(), "calls=0,7/faults=".parse()),
            ("calls=0,7/faults=", Ok(cut))
        );
        assert_eq!("".parse(), Ok(Cut::default()));
        for wrong in ["x", "calls", "calls=x", "ops=0.1"] {
            assert_eq!(wrong.parse::<Cut>(), Err(CutError(wrong.to_owned())), "{wrong}");
        }
    }

    #[test]
    fn what_is_left_still_fails_and_nothing_more_can_be_left_out() {
        let fails = |cut: &Cut| cut.keeps(3) && cut.keeps(11);
        let calls = shrink(2, fails).calls;
        assert_eq!(calls, Some(BTreeSet::from([3, 11])));
    }
}
