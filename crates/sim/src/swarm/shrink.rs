//! The least of a world that still fails: what can be left out is, kind by kind, the most at
//! once first.

use super::cut::{Cut, Size};
use std::collections::BTreeSet;

/// Leaves out of a world whatever it still fails without. `fails` runs what a cut leaves.
pub fn shrink(seed: u64, mut fails: impl FnMut(&Cut) -> bool) -> Cut {
    let size = Size::of(seed);
    let mut cut = Cut::default();
    let mut attempt = |cut: &mut Cut, tried: Cut| {
        let is_enough = fails(&tried);
        if is_enough {
            *cut = tried;
        }
        is_enough
    };
    let calm = Cut { is_calm: true, ..cut.clone() };
    attempt(&mut cut, calm);
    for phases in 1..size.phases {
        let tried = Cut { phases: Some(phases), ..cut.clone() };
        if attempt(&mut cut, tried) {
            break;
        }
    }
    for processes in 2..size.processes {
        let tried = Cut { processes: Some(processes), ..cut.clone() };
        if attempt(&mut cut, tried) {
            break;
        }
    }
    let faults: Vec<usize> = (0..size.faults).collect();
    reduce(faults, |kept| {
        let tried = Cut { faults: Some(kept.iter().copied().collect()), ..cut.clone() };
        attempt(&mut cut, tried)
    });
    let processes = cut.processes.unwrap_or(size.processes);
    let each = size.operations / size.phases * cut.phases.unwrap_or(size.phases);
    let operations = (0..processes).flat_map(|who| (0..each).map(move |at| (who, at)));
    reduce(operations.collect(), |kept| {
        let kept: BTreeSet<(usize, u64)> = kept.iter().copied().collect();
        let tried = Cut { operations: Some(kept), ..cut.clone() };
        attempt(&mut cut, tried)
    });
    cut
}

/// Leaves out of a list what is not needed: all of it, halves, quarters, and so on to single
/// items. `is_enough` says of what is left whether it is.
pub(crate) fn reduce<T: Copy>(mut kept: Vec<T>, mut is_enough: impl FnMut(&[T]) -> bool) {
    if kept.is_empty() || is_enough(&[]) {
        return;
    }
    let mut part = kept.len().div_ceil(2);
    loop {
        let mut at = 0;
        let mut has_shrunk = false;
        while at < kept.len() {
            let end = kept.len().min(at + part);
            let rest: Vec<T> = kept[..at].iter().chain(&kept[end..]).copied().collect();
            if is_enough(&rest) {
                kept = rest;
                has_shrunk = true;
            } else {
                at = end;
            }
        }
        if part == 1 && !has_shrunk {
            return;
        }
        part = part.div_ceil(2);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_needed_stays_and_nothing_else() {
        let needed = [3, 17, 18, 60];
        let mut left = Vec::new();
        reduce((0..64).collect(), |kept| {
            let is_enough = needed.iter().all(|one| kept.contains(one));
            if is_enough {
                left = kept.to_vec();
            }
            is_enough
        });
        assert_eq!(left, needed);
    }

    #[test]
    fn a_world_that_fails_whatever_is_left_out_is_cut_to_nothing() {
        let cut = shrink(5, |_| true);
        let none = Some(BTreeSet::new());
        assert!(cut.is_calm && cut.operations == none.map(|_: BTreeSet<u8>| BTreeSet::new()));
        assert_eq!(cut.faults.map_or(0, |kept| kept.len()), 0);
        assert_eq!(shrink(5, |_| false), Cut::default());
    }
}
