//! The simulators that an experiment can run: the network, flit by flit, the processes that
//! communicate over one, and one message over several rails. What differs between them is
//! here and in their files of figures (`measure.rs`, `processes.rs`, `rails.rs`).

use crate::simulator::{Column, Heading, Simulator};
use crate::{measure, processes, rails};
use serde::{Deserialize, Serialize};
use sluice_flit::topology::Topology;

/// A configuration of one of them.
#[derive(Clone, Debug, PartialEq)]
pub enum Setup {
    /// Of the network.
    Network(sluice_flit::Config),
    /// Of the processes.
    Processes(sluice_sim::Config),
    /// Of a message over rails.
    Rails(sluice_sim::stripes::Config),
}

/// A configuration that cannot be simulated.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{key}: {reason}")]
pub struct SetupError {
    /// The key at fault.
    pub key: String,
    /// What is wrong with it.
    pub reason: String,
}

/// What a run of one of them has counted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Outcome {
    /// Of the network.
    Network(measure::Outcome),
    /// Of the processes.
    Processes(processes::Outcome),
    /// Of a message over rails.
    Rails(sluice_sim::stripes::Outcome),
}

impl Simulator {
    /// The columns of its results; the first is what is drawn and judged if
    /// nothing else is asked for.
    pub fn columns(self) -> Vec<Heading> {
        fn heads<O>(columns: &'static [Column<O>]) -> Vec<Heading> {
            columns
                .iter()
                .map(|column| Heading { name: column.name, title: column.title })
                .collect()
        }
        match self {
            Simulator::Network => heads(measure::COLUMNS),
            Simulator::Processes => heads(processes::COLUMNS),
            Simulator::Rails => heads(rails::COLUMNS),
        }
    }

    /// The head of its series: what lies behind the axes and the seed.
    pub fn series(self) -> &'static [&'static str] {
        match self {
            Simulator::Network => &["from_cycle", "cycles", "warm_up", "accepted"],
            Simulator::Processes => &["repetition", "ranks", "min", "median", "max", "mean"],
            Simulator::Rails => &[],
        }
    }

    /// Columns that the table on the terminal has if anything is in them, and their
    /// heads there.
    pub fn shown(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Simulator::Network => &[
                ("accepted", "accepted"),
                ("packet_latency", "latency"),
                ("latency_p99", "p99"),
                ("hops", "hops"),
            ],
            Simulator::Processes => &[
                ("overhead", "overhead"),
                ("overlap_pct", "overlap %"),
                ("kept_pct", "kept %"),
                ("sink_busy_pct", "sink %"),
                ("time_us", "µs"),
                ("delayed", "delayed"),
                ("credit_ratio", "credits"),
            ],
            Simulator::Rails => &[
                ("mb_per_s", "MB/s"),
                ("efficiency_pct", "of the rails %"),
                ("time_us", "µs"),
                ("rail_chunks_max", "parts on a rail"),
            ],
        }
    }

    /// Reads a configuration.
    ///
    /// # Errors
    /// What is wrong, and where.
    pub fn read(
        self,
        table: toml::Table,
    ) -> Result<Setup, serde_path_to_error::Error<toml::de::Error>> {
        let value = toml::Value::Table(table);
        match self {
            Simulator::Network => serde_path_to_error::deserialize(value).map(Setup::Network),
            Simulator::Processes => serde_path_to_error::deserialize(value).map(Setup::Processes),
            Simulator::Rails => serde_path_to_error::deserialize(value).map(Setup::Rails),
        }
    }
}

impl Setup {
    /// The same with another seed; nothing of a message over rails is random.
    pub fn with_seed(&self, seed: u64) -> Setup {
        let mut setup = self.clone();
        match &mut setup {
            Setup::Network(config) => config.seed = seed,
            Setup::Processes(config) => config.seed = seed,
            Setup::Rails(_) => {}
        }
        setup
    }

    /// The same without what makes no difference: how slow the slow nodes are
    /// if there are none.
    pub fn without_idle_parts(mut self) -> Setup {
        if let Setup::Network(config) = &mut self
            && config.endpoint.slow.share == 0.0
        {
            config.endpoint.slow = sluice_flit::config::Slow::default();
        }
        self
    }

    /// Nodes of its network, or its processes.
    ///
    /// # Errors
    /// A network that cannot be built.
    pub fn nodes(&self) -> Result<u32, SetupError> {
        match self {
            Setup::Network(config) => Ok(Topology::new(&config.topology)?.fabric().nodes()),
            Setup::Processes(config) => Ok(config.processes),
            Setup::Rails(_) => Ok(rails::PROCESSES),
        }
    }

    /// Of the network, if it is of one.
    pub fn network(&self) -> Option<&sluice_flit::Config> {
        match self {
            Setup::Network(config) => Some(config),
            Setup::Processes(_) | Setup::Rails(_) => None,
        }
    }
}

impl From<sluice_flit::ConfigError> for SetupError {
    fn from(error: sluice_flit::ConfigError) -> SetupError {
        SetupError { key: error.key, reason: error.reason }
    }
}

impl From<sluice_sim::ConfigError> for SetupError {
    fn from(error: sluice_sim::ConfigError) -> SetupError {
        SetupError { key: error.key, reason: error.reason }
    }
}

impl Outcome {
    /// By column.
    pub fn values(&self) -> Vec<Option<f64>> {
        match self {
            Outcome::Network(outcome) => {
                measure::COLUMNS.iter().map(|column| (column.of)(outcome)).collect()
            }
            Outcome::Processes(outcome) => {
                processes::COLUMNS.iter().map(|column| (column.of)(outcome)).collect()
            }
            Outcome::Rails(outcome) => {
                rails::COLUMNS.iter().map(|column| (column.of)(outcome)).collect()
            }
        }
    }

    /// The rows of its series, as text.
    pub fn series(&self) -> Vec<Vec<String>> {
        match self {
            Outcome::Network(outcome) => outcome.series(),
            Outcome::Processes(outcome) => outcome.series(),
            Outcome::Rails(_) => Vec::new(),
        }
    }

    /// Of the network, if it is of one.
    pub fn network(&self) -> Option<&measure::Outcome> {
        match self {
            Outcome::Network(outcome) => Some(outcome),
            Outcome::Processes(_) | Outcome::Rails(_) => None,
        }
    }

    /// Nodes of the network, or processes.
    pub fn nodes(&self) -> u32 {
        match self {
            Outcome::Network(outcome) => outcome.nodes,
            Outcome::Processes(outcome) => outcome.run.processes,
            Outcome::Rails(_) => rails::PROCESSES,
        }
    }

    /// Why nothing happened any more, if so.
    pub fn stuck(&self) -> Option<&str> {
        match self {
            Outcome::Network(outcome) => outcome.stuck.as_deref(),
            Outcome::Processes(outcome) => outcome.run.stuck.as_deref(),
            Outcome::Rails(_) => None,
        }
    }

    /// Why it ended.
    pub fn stopped_by(&self) -> &'static str {
        match self {
            Outcome::Network(outcome) => outcome.stopped_by.name(),
            Outcome::Processes(outcome) if outcome.run.stuck.is_some() => "stuck",
            Outcome::Processes(_) | Outcome::Rails(_) => "end",
        }
    }

    /// Whether what was offered was accepted.
    pub fn state(&self, setup: &Setup) -> &'static str {
        match (self, setup) {
            _ if self.stuck().is_some() => "stuck",
            (Outcome::Network(outcome), Setup::Network(config))
                if !outcome.is_stable(config.traffic.load) =>
            {
                "saturated"
            }
            _ => "stable",
        }
    }

    /// What is said of a run that has ended.
    pub fn in_words(&self, seconds: f64) -> String {
        let figure = match self {
            Outcome::Network(outcome) => outcome.in_words(),
            Outcome::Processes(outcome) => outcome.in_words(),
            Outcome::Rails(outcome) => rails::in_words(outcome),
        };
        let stuck = self.stuck().map_or(String::new(), |stuck| format!(", stuck: {stuck}"));
        format!("{figure} in {seconds:.1} s{stuck}")
    }
}
