//! The lengths in a table: what each is called, which values it may have, and where
//! its value came from. Who reads settings hands over numbers ([`Overrides`]).

use super::table::{MemoryKind, Table};
use sluice_link::Costs;
use std::fmt;

/// One length in a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Threshold {
    /// [`Table::eager_bytes_max`].
    Eager,
    /// [`Table::announce_bytes_min`].
    Announce,
    /// [`Table::share_bytes_min`].
    Share,
}

impl Threshold {
    /// All of them.
    pub const ALL: [Threshold; 3] = [Threshold::Eager, Threshold::Announce, Threshold::Share];

    /// Its name in the table.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Threshold::Eager => "eager_bytes_max",
            Threshold::Announce => "announce_bytes_min",
            Threshold::Share => "share_bytes_min",
        }
    }

    /// What it says, in words.
    #[must_use]
    pub fn meaning(self) -> &'static str {
        match self {
            Threshold::Eager => "longest message sent eagerly",
            Threshold::Announce => "shortest receive announced to its source",
            Threshold::Share => "shortest message that both sides copy",
        }
    }

    /// The largest value that it may be set to; the least is zero.
    #[must_use]
    pub fn max(self) -> u64 {
        match self {
            Threshold::Eager => 8192,
            Threshold::Announce | Threshold::Share => 1 << 40,
        }
    }

    /// Its value in `table`.
    #[must_use]
    pub fn of(self, table: &Table) -> u64 {
        match self {
            Threshold::Eager => u64::from(table.eager_bytes_max),
            Threshold::Announce => table.announce_bytes_min,
            Threshold::Share => table.share_bytes_min,
        }
    }

    fn set(self, table: &mut Table, value: u64) {
        match self {
            // Larger than any is allowed to be is the largest.
            Threshold::Eager => {
                table.eager_bytes_max = value.min(Threshold::Eager.max()) as u32;
            }
            Threshold::Announce => table.announce_bytes_min = value,
            Threshold::Share => table.share_bytes_min = value,
        }
    }
}

/// Where a value came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// It is the stated one.
    Default,
    /// From what moves cost on this machine.
    Calibrated,
    /// Somebody has set it.
    Environment,
}

impl Source {
    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Source::Default => "default",
            Source::Calibrated => "calibrated",
            Source::Environment => "environment",
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Values that somebody has set, in the order of [`Threshold::ALL`].
pub type Overrides = [Option<u64>; 3];

/// A table, and where each of its values came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Thresholds {
    /// The table.
    pub table: Table,
    /// The kind of memory that it is for.
    pub memory: MemoryKind,
    /// In the order of [`Threshold::ALL`].
    pub sources: [Source; 3],
}

impl Thresholds {
    /// From the costs, where they are known, else the stated ones; what is set holds
    /// in any case.
    #[must_use]
    pub fn of(costs: Option<&Costs>, memory: MemoryKind, overrides: &Overrides) -> Thresholds {
        let mut table = costs.map_or_else(Table::default, Table::of);
        let from_costs = if costs.is_some() { Source::Calibrated } else { Source::Default };
        let mut sources = [from_costs; 3];
        for ((threshold, set), source) in
            Threshold::ALL.into_iter().zip(overrides).zip(&mut sources)
        {
            if let Some(value) = *set {
                threshold.set(&mut table, value);
                *source = Source::Environment;
            }
        }
        Thresholds { table, memory, sources }
    }

    /// Each threshold with its value and where that came from.
    pub fn iter(&self) -> impl Iterator<Item = (Threshold, u64, Source)> {
        let values = Threshold::ALL.map(|threshold| threshold.of(&self.table));
        let rows = Threshold::ALL.into_iter().zip(values).zip(self.sources);
        rows.map(|((threshold, value), source)| (threshold, value, source))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_set_holds_over_what_was_measured() {
        let costs = Costs { packet_ns: 80, packet_byte_ps: 150, ..Costs::default() };
        let measured = Table::of(&costs);
        assert!(measured != Table::default());
        let none = Thresholds::of(None, MemoryKind::Host, &[None; 3]);
        assert_eq!((none.table, none.sources), (Table::default(), [Source::Default; 3]));
        let all = Thresholds::of(Some(&costs), MemoryKind::Host, &[None; 3]);
        assert_eq!((all.table, all.sources), (measured, [Source::Calibrated; 3]));
        let set = Thresholds::of(Some(&costs), MemoryKind::Host, &[Some(0), None, Some(1 << 40)]);
        let expected = Table { eager_bytes_max: 0, share_bytes_min: 1 << 40, ..measured };
        assert_eq!(set.table, expected);
        let sources = [Source::Environment, Source::Calibrated, Source::Environment];
        assert_eq!(set.sources, sources);
        let values: Vec<u64> = set.iter().map(|(_, value, _)| value).collect();
        assert_eq!(values, [0, measured.announce_bytes_min, 1 << 40]);
    }

    #[test]
    fn no_eager_limit_is_longer_than_the_longest_eager_message() {
        let set = Thresholds::of(None, MemoryKind::Host, &[Some(u64::MAX), None, None]);
        assert_eq!(u64::from(set.table.eager_bytes_max), Threshold::Eager.max());
    }
}
