//! One run of the processes' simulator: its figures beside those of the same
//! run without limits.

use crate::simulator::Column;
use serde::{Deserialize, Serialize};
use sluice_sim::{Config, ConfigError, References, Simulation};

/// Bytes of a slot.
const SLOT_BYTES: f64 = 64.0;
/// Processes that memory is extrapolated to: the last column of the EXTOLL
/// paper's table 3.
const MANY_PROCESSES: f64 = 262_144.0;
const MIB: f64 = 1_048_576.0;

/// What a run has counted, and how long it takes without limits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outcome {
    /// See [`sluice_sim::Outcome`].
    pub run: sluice_sim::Outcome,
    /// Time of the counted repetitions without limits, in nanoseconds.
    pub reference_ns: u64,
    /// Slots of a mailbox for each process.
    pub slots: u32,
    /// Whether the slots go where they are used.
    pub is_dynamic: bool,
}

/// The figures of a run, in the order of the columns.
pub const COLUMNS: &[Column<Outcome>] = &[
    Column { name: "overhead", title: "Overhead", of: Outcome::overhead },
    Column {
        name: "time_us",
        title: "Time of a repetition, µs",
        of: |o| Some(o.run.repetition_ns() / 1e3),
    },
    Column {
        name: "reference_us",
        title: "Time of a repetition without limits, µs",
        of: |o| Some(o.reference_ns as f64 / f64::from(o.run.repetitions.max(1)) / 1e3),
    },
    Column {
        name: "delayed",
        title: "Share of messages delayed",
        of: |o| ratio(o.run.counts.delayed, o.run.counts.messages),
    },
    Column {
        name: "credit_ratio",
        title: "Credit packets a data packet",
        of: |o| ratio(o.run.counts.credit_packets, o.run.counts.data_packets),
    },
    Column { name: "messages", title: "Messages", of: |o| Some(o.run.counts.messages as f64) },
    Column {
        name: "data_packets",
        title: "Data packets",
        of: |o| Some(o.run.counts.data_packets as f64),
    },
    Column {
        name: "credit_packets",
        title: "Credit packets",
        of: |o| Some(o.run.counts.credit_packets as f64),
    },
    Column {
        name: "overhead_stalls",
        title: "Overhead by stalls and traffic",
        of: |o| Some(o.overhead()? - o.overhead_computing()?),
    },
    Column {
        name: "overhead_computing",
        title: "Overhead by computing",
        of: Outcome::overhead_computing,
    },
    Column {
        name: "stalled_us",
        title: "Time stalled, µs a process and repetition",
        of: |o| {
            let all = f64::from(o.run.active.max(1)) * f64::from(o.run.repetitions.max(1));
            Some(o.run.counts.stalled_ns as f64 / all / 1e3)
        },
    },
    Column {
        name: "unread_slots",
        title: "Most slots unread in a mailbox",
        of: |o| Some(o.run.unread_slots_max as f64),
    },
    Column {
        name: "buffers_mib",
        title: "Mailboxes of all processes, MiB",
        of: |o| {
            let processes = f64::from(o.run.processes);
            Some(processes * processes * f64::from(o.slots) * SLOT_BYTES / MIB)
        },
    },
    Column { name: "peer_bytes", title: "Bytes of state a peer", of: Outcome::peer_bytes },
    Column {
        name: "memory_256k_mib",
        title: "Mailbox and state of a receiver with 262,144 processes, MiB",
        of: |o| Some(o.memory_256k_mib(o.peer_bytes()?)),
    },
    Column {
        name: "paper_256k_mib",
        title: "The same with the state that the paper states, MiB",
        of: |o| Some(o.memory_256k_mib(if o.is_dynamic { 150.0 } else { 4.0 })),
    },
    Column { name: "overlap_pct", title: "Overlap, %", of: Outcome::overlap_pct },
    Column {
        name: "compute_us",
        title: "Computation, µs",
        of: |o| Some(o.run.overlap?.compute_ns as f64 / 1e3),
    },
    Column {
        name: "arrived_us",
        title: "Until the receiver has the message, µs",
        of: |o| Some(o.each_ns(o.run.overlap?.arrived_ns) / 1e3),
    },
    Column {
        name: "kept_pct",
        title: "Speed of the fast flow, % of what it has alone",
        of: |o| {
            o.run.pace?;
            (o.run.time_ns > 0).then(|| 100.0 * o.reference_ns as f64 / o.run.time_ns as f64)
        },
    },
    Column {
        name: "fast_mib_per_s",
        title: "Speed of the fast flow, MiB/s",
        of: |o| Some(o.mib_per_s(o.run.pace?.bytes * u64::from(o.run.repetitions))),
    },
    Column {
        name: "fast_delay_us",
        title: "Until a message of the fast flow is received, µs",
        of: |o| Some(o.each_ns(o.run.pace?.delay_ns) / 1e3),
    },
    Column {
        name: "slow_mib_per_s",
        title: "Speed of the slow flow, MiB/s",
        of: |o| Some(o.mib_per_s(o.run.pace?.slow_bytes)),
    },
    Column {
        name: "sink_busy_pct",
        title: "Speed of the slow flow, % of what its sink takes",
        of: |o| {
            let pace = o.run.pace?;
            let needed_ns = pace.slow_bytes as f64 * pace.sink_kib_ns as f64 / 1024.0;
            (o.run.time_ns > 0).then(|| 100.0 * needed_ns / o.run.time_ns as f64)
        },
    },
    Column { name: "events", title: "Events simulated", of: |o| Some(o.run.events as f64) },
];

impl Outcome {
    /// Overlaps and paces have other figures than an overhead.
    fn overhead(&self) -> Option<f64> {
        let is_large = self.run.overlap.is_some() || self.run.pace.is_some();
        (!is_large && self.reference_ns > 0)
            .then(|| self.run.time_ns as f64 / self.reference_ns as f64 - 1.0)
    }

    /// The time that an active process spends on credit packets, as a share of
    /// the time without limits.
    fn overhead_computing(&self) -> Option<f64> {
        let ways = f64::from(self.run.ways);
        let each = self.run.counts.credit_ns as f64 / f64::from(self.run.active.max(1)) / ways;
        (self.reference_ns > 0).then(|| each / self.reference_ns as f64)
    }

    /// The share of the communication that the side which computes does not wait
    /// for (Rashti and Afsahi). What a message takes alone is the reference.
    fn overlap_pct(&self) -> Option<f64> {
        let compute_ns = self.run.overlap?.compute_ns as f64;
        let alone_ns = self.each_ns(self.reference_ns);
        let waited_ns = self.run.repetition_ns() - compute_ns;
        (alone_ns > 0.0).then(|| (100.0 * (1.0 - waited_ns / alone_ns)).clamp(0.0, 100.0))
    }

    fn each_ns(&self, sum_ns: u64) -> f64 {
        sum_ns as f64 / f64::from(self.run.repetitions.max(1))
    }

    fn mib_per_s(&self, bytes: u64) -> f64 {
        bytes as f64 / MIB / (self.run.time_ns.max(1) as f64 / 1e9)
    }

    fn peer_bytes(&self) -> Option<f64> {
        ratio(self.run.link_bytes_max, self.run.link_peers_max)
    }

    fn memory_256k_mib(&self, peer_bytes: f64) -> f64 {
        MANY_PROCESSES * (f64::from(self.slots) * SLOT_BYTES + peer_bytes) / MIB
    }

    /// The credits of rank 0 after each repetition, a row a group.
    pub fn series(&self) -> Vec<Vec<String>> {
        let row = |sample: &sluice_sim::CreditSample| {
            let mean = sample.sum as f64 / f64::from(sample.ranks.max(1));
            let counts = [sample.min, sample.median, sample.max].map(|count| count.to_string());
            let head = [sample.repetition.to_string(), sample.group.clone()];
            [&head[..], &counts[..], &[format!("{mean:.3}")]].concat()
        };
        self.run.credits.iter().map(row).collect()
    }

    /// For people.
    pub fn in_words(&self) -> String {
        let us = self.run.repetition_ns() / 1e3;
        let value = |name: &str| {
            let column = COLUMNS.iter().find(|column| column.name == name);
            column.and_then(|column| (column.of)(self))
        };
        match (value("overlap_pct"), value("kept_pct")) {
            (Some(overlap), _) => format!("{us:.2} µs, overlap {overlap:.1} %"),
            (_, Some(kept)) => format!("{us:.2} µs, {kept:.1} % of the speed alone"),
            _ => format!("{us:.2} µs, overhead {:.4}", self.overhead().unwrap_or(0.0)),
        }
    }
}

/// Runs a configuration, and the same without limits unless it is known.
/// `None`: `go_on` did not want to.
///
/// # Errors
/// The key at fault.
pub fn measure(
    config: &Config,
    references: &References,
    go_on: &mut dyn FnMut() -> bool,
) -> Result<Option<Outcome>, ConfigError> {
    let simulation = Simulation::new(config)?;
    let mut tick = |_| go_on();
    let Some(reference) = references.of(config, &mut tick)? else { return Ok(None) };
    let Some(run) = simulation.run(&mut tick) else { return Ok(None) };
    Ok(Some(Outcome {
        run,
        reference_ns: reference.time_ns,
        slots: config.flow.slots,
        is_dynamic: config.flow.protocol == sluice_sim::config::Protocol::Dynamic,
    }))
}

fn ratio(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}
