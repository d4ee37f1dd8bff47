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
    /// [`Table::looking_bytes_max`].
    Looking,
    /// [`Table::announce_bytes_min`].
    Announce,
    /// [`Table::share_bytes_min`].
    Share,
    /// [`Table::eager_bytes_max`] of the table for peers that a network is between.
    NetworkEager,
}

impl Threshold {
    /// All of them.
    pub const ALL: [Threshold; 5] = [
        Threshold::Eager,
        Threshold::Looking,
        Threshold::Announce,
        Threshold::Share,
        Threshold::NetworkEager,
    ];

    /// Its name in the table.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Threshold::Eager => "eager_bytes_max",
            Threshold::Looking => "looking_bytes_max",
            Threshold::Announce => "announce_bytes_min",
            Threshold::Share => "share_bytes_min",
            Threshold::NetworkEager => "network_eager_bytes_max",
        }
    }

    /// What it says, in words.
    #[must_use]
    pub fn meaning(self) -> &'static str {
        match self {
            Threshold::Eager => "longest message sent eagerly",
            Threshold::Looking => "longest message sent eagerly to a receiver that looks",
            Threshold::Announce => "shortest receive announced to its source",
            Threshold::Share => "shortest message that both sides copy",
            Threshold::NetworkEager => "longest message sent eagerly over a network",
        }
    }

    /// The largest value that it may be set to; the least is zero.
    #[must_use]
    pub fn max(self) -> u64 {
        match self {
            Threshold::Eager => 48 << 10,
            Threshold::Looking => 256 << 10,
            Threshold::Announce | Threshold::Share => 1 << 40,
            Threshold::NetworkEager => 64 << 10,
        }
    }

    fn of(self, thresholds: &Thresholds) -> u64 {
        let Thresholds { table, network, .. } = thresholds;
        match self {
            Threshold::Eager => u64::from(table.eager_bytes_max),
            Threshold::Looking => u64::from(table.looking_bytes_max),
            Threshold::Announce => table.announce_bytes_min,
            Threshold::Share => table.share_bytes_min,
            Threshold::NetworkEager => u64::from(network.eager_bytes_max),
        }
    }

    fn set(self, thresholds: &mut Thresholds, value: u64) {
        // Larger than any is allowed to be is the largest.
        let value = value.min(self.max());
        let Thresholds { table, network, .. } = thresholds;
        match self {
            Threshold::Eager => table.eager_bytes_max = value as u32,
            Threshold::Looking => table.looking_bytes_max = value as u32,
            Threshold::Announce => table.announce_bytes_min = value,
            Threshold::Share => table.share_bytes_min = value,
            Threshold::NetworkEager => network.eager_bytes_max = value as u32,
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
pub type Overrides = [Option<u64>; 5];

/// The tables, and where each of their values came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Thresholds {
    /// The table for peers that share memory.
    pub table: Table,
    /// That for peers that a network is between.
    pub network: Table,
    /// The kind of memory that they are for.
    pub memory: MemoryKind,
    /// In the order of [`Threshold::ALL`].
    pub sources: [Source; 5],
}

impl Thresholds {
    /// From the costs, where they are known, else the stated ones; what is set holds
    /// in any case.
    #[must_use]
    pub fn of(costs: Option<&Costs>, memory: MemoryKind, overrides: &Overrides) -> Thresholds {
        let from_costs = if costs.is_some() { Source::Calibrated } else { Source::Default };
        let mut found = Thresholds {
            table: costs.map_or_else(Table::default, Table::of),
            network: Table::NETWORK,
            memory,
            // What networks cost is not measured, nor what it is worth that a receiver looks.
            sources: [from_costs, Source::Default, from_costs, from_costs, Source::Default],
        };
        // Who sets how long an eager message is means all of them.
        let [eager, looking, ..] = *overrides;
        let overrides = &Overrides::from([
            eager,
            looking.or(eager.map(|_| 0)),
            overrides[2],
            overrides[3],
            overrides[4],
        ]);
        for ((threshold, set), at) in Threshold::ALL.into_iter().zip(overrides).zip(0..) {
            if let Some(value) = *set {
                threshold.set(&mut found, value);
                found.sources[at] = Source::Environment;
            }
        }
        found
    }

    /// Each threshold with its value and where that came from.
    pub fn iter(&self) -> impl Iterator<Item = (Threshold, u64, Source)> {
        let values = Threshold::ALL.map(|threshold| threshold.of(self));
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
        let none = Thresholds::of(None, MemoryKind::Host, &[None; 5]);
        assert_eq!((none.table, none.sources), (Table::default(), [Source::Default; 5]));
        let all = Thresholds::of(Some(&costs), MemoryKind::Host, &[None; 5]);
        let [calibrated, default] = [Source::Calibrated, Source::Default];
        assert_eq!(all.sources, [calibrated, default, calibrated, calibrated, default]);
        assert_eq!((all.table, all.network), (measured, Table::NETWORK));
        let set = [Some(0), Some(7), None, Some(1 << 40), Some(100)];
        let set = Thresholds::of(Some(&costs), MemoryKind::Host, &set);
        let expected = Table {
            eager_bytes_max: 0,
            looking_bytes_max: 7,
            share_bytes_min: 1 << 40,
            ..measured
        };
        assert_eq!(set.table, expected);
        assert_eq!(set.network, Table { eager_bytes_max: 100, ..Table::NETWORK });
        let set_by = Source::Environment;
        assert_eq!(set.sources, [set_by, set_by, calibrated, set_by, set_by]);
        let values: Vec<u64> = set.iter().map(|(_, value, _)| value).collect();
        let alone = Thresholds::of(None, MemoryKind::Host, &[Some(9), None, None, None, None]);
        assert_eq!((alone.table.eager_bytes_max, alone.table.looking_bytes_max), (9, 0));
        assert_eq!(values, [0, 7, measured.announce_bytes_min, 1 << 40, 100]);
    }

    #[test]
    fn no_eager_limit_is_longer_than_the_longest_eager_message() {
        let most = Some(u64::MAX);
        let set = Thresholds::of(None, MemoryKind::Host, &[most, most, None, None, most]);
        assert_eq!(u64::from(set.table.eager_bytes_max), Threshold::Eager.max());
        assert_eq!(u64::from(set.table.looking_bytes_max), Threshold::Looking.max());
        assert_eq!(u64::from(set.network.eager_bytes_max), Threshold::NetworkEager.max());
    }
}
