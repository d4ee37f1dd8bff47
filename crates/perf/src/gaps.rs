//! How long nothing came, and how much of that was for want of a core.
//!
//! The processes of a measurement never sleep, and on a machine of two cores each command that
//! breaks a rail, and whatever else runs, takes one of them a core for some milliseconds.
//! Nothing comes meanwhile, whatever the rails do. The system tells for how long a process has
//! waited for its core, so both figures can be told: the gap, and the gap without such times.

use crate::compute::core_wait_ns;
use serde::{Deserialize, Serialize};

/// A process that has not looked for so long may have been without its core.
const ABSENCE_NS_MIN: u64 = 300_000;
/// What a process has waited for its core is read so often: what it waits between two reads may
/// be taken for one absence.
const READ_NS: u64 = 2_000_000;
/// Gaps shorter than this are not kept one by one.
const KEPT_NS_MIN: u64 = 1_000_000;
/// Most gaps, and most absences, that are kept after a mark.
const KEPT_MAX: usize = 4096;

/// From when, and until when.
type Span = (u64, u64);

/// The gaps of one stream since a mark.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Watched {
    /// The longest.
    pub gap_ns: u64,
    /// When it began, after the mark.
    pub begin_ns: u64,
    /// The longest of all if the times do not count in which a process was without its core.
    pub on_core_ns: u64,
}

/// The times between arrivals.
#[derive(Clone, Debug)]
pub struct Gap {
    pub last_ns: u64,
    longest: Span,
    long: Vec<Span>,
}

impl Gap {
    pub fn starting(now_ns: u64) -> Gap {
        Gap { last_ns: now_ns, longest: (now_ns, now_ns), long: Vec::new() }
    }

    pub fn arrival(&mut self, now_ns: u64) {
        let span = (self.last_ns, now_ns.max(self.last_ns));
        self.last_ns = span.1;
        if len(span) > len(self.longest) {
            self.longest = span;
        }
        if len(span) >= KEPT_NS_MIN && self.long.len() < KEPT_MAX {
            self.long.push(span);
        }
    }

    /// What there was since a mark, given when a process was without its core.
    pub fn watched(&self, marked_ns: u64, absences: &[Span]) -> Watched {
        let on_core = |&span: &Span| len(span) - covered(span, absences);
        let gap_ns = len(self.longest);
        let kept = self.long.iter().map(on_core).max();
        Watched {
            gap_ns,
            begin_ns: self.longest.0.saturating_sub(marked_ns),
            on_core_ns: kept.unwrap_or(0).max(gap_ns.min(KEPT_NS_MIN)),
        }
    }
}

/// When processes were without their cores.
#[derive(Clone, Debug)]
pub struct CoreWatch {
    looked_ns: u64,
    read_ns: u64,
    waited_ns: u64,
    absences: Vec<Span>,
}

impl CoreWatch {
    /// Watches the thread that calls this.
    pub fn begin(now_ns: u64) -> CoreWatch {
        let waited_ns = core_wait_ns();
        CoreWatch { looked_ns: now_ns, read_ns: now_ns, waited_ns, absences: Vec::new() }
    }

    /// To be called all the time by that thread. For how long it has been without its core
    /// since it was called last.
    pub fn look(&mut self, now_ns: u64) -> u64 {
        let away_ns = now_ns.saturating_sub(std::mem::replace(&mut self.looked_ns, now_ns));
        let is_absence = away_ns >= ABSENCE_NS_MIN;
        if !is_absence && now_ns.saturating_sub(self.read_ns) < READ_NS {
            return 0;
        }
        self.read_ns = now_ns;
        let waited_ns = core_wait_ns();
        let before_ns = std::mem::replace(&mut self.waited_ns, waited_ns);
        if !is_absence {
            return 0;
        }
        let absent_ns = waited_ns.saturating_sub(before_ns).min(away_ns);
        self.absent(now_ns, absent_ns);
        absent_ns
    }

    /// A process was without its core for so long until now.
    pub fn absent(&mut self, now_ns: u64, absent_ns: u64) {
        if absent_ns > 0 && self.absences.len() < KEPT_MAX {
            self.absences.push((now_ns.saturating_sub(absent_ns), now_ns));
        }
    }

    /// Nothing counts that was before.
    pub fn forget(&mut self) {
        self.absences.clear();
        self.waited_ns = core_wait_ns();
    }

    pub fn absences(&self) -> &[Span] {
        &self.absences
    }
}

fn len((from, to): Span) -> u64 {
    to - from
}

/// How much of a span others cover, which may cover each other.
fn covered(span: Span, others: &[Span]) -> u64 {
    let mut parts: Vec<Span> = others
        .iter()
        .map(|&(from, to)| (from.max(span.0), to.min(span.1)))
        .filter(|(from, to)| from < to)
        .collect();
    parts.sort_unstable();
    let (mut sum, mut end) = (0, 0);
    for (from, to) in parts {
        sum += to.saturating_sub(from.max(end));
        end = end.max(to);
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn the_longest_gap_is_kept_with_its_begin() {
        let mut gap = Gap::starting(100);
        for now_ns in [110, 190, 200] {
            gap.arrival(now_ns);
        }
        let watched = gap.watched(100, &[(0, 1000)]);
        assert_eq!(watched, Watched { gap_ns: 80, begin_ns: 10, on_core_ns: 80 });
        assert_eq!(gap.last_ns, 200);
    }

    #[test]
    fn times_without_a_core_do_not_count_twice() {
        assert_eq!(covered((10, 20), &[(12, 15), (0, 11), (13, 17), (19, 90), (13, 14)]), 7);
        assert_eq!(covered((10, 20), &[(0, 10), (20, 30)]), 0);
        assert_eq!(covered((10, 20), &[(15, 30), (0, 16)]), 10);
    }

    #[test]
    fn another_gap_may_be_the_longest_that_has_other_causes() {
        let mut gap = Gap::starting(0);
        for at_ms in [2, 12, 17, 18] {
            gap.arrival(at_ms * MS);
        }
        let watched = gap.watched(0, &[(3 * MS, 11 * MS)]);
        let expected = Watched { gap_ns: 10 * MS, begin_ns: 2 * MS, on_core_ns: 5 * MS };
        assert_eq!(watched, expected);
    }

    #[test]
    fn who_looks_all_the_time_was_there() {
        let mut core = CoreWatch::begin(0);
        assert_eq!([1, 2, ABSENCE_NS_MIN].map(|now_ns| core.look(now_ns)), [0; 3]);
        core.absent(5 * MS, 0);
        core.absent(5 * MS, MS);
        assert_eq!(core.absences(), [(4 * MS, 5 * MS)]);
        core.forget();
        assert!(core.absences().is_empty());
    }
}
