//! Which simulator an experiment runs, and the columns of its results.

use serde::Deserialize;

/// The simulator that an experiment runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Simulator {
    /// Routers and links.
    #[default]
    Network,
    /// The protocols on simulated processes.
    Processes,
    /// One message over several rails.
    Rails,
}

impl Simulator {
    /// What it has many of, as people are told.
    #[must_use]
    pub fn members(self) -> &'static str {
        match self {
            Simulator::Network => "nodes",
            Simulator::Processes | Simulator::Rails => "processes",
        }
    }
}

/// A column of the results.
pub struct Column<O: 'static> {
    /// Its head.
    pub name: &'static str,
    /// What figures write beside it.
    pub title: &'static str,
    /// Its value.
    pub of: fn(&O) -> Option<f64>,
}

/// The head of a column.
#[derive(Clone, Copy, Debug)]
pub struct Heading {
    /// In the files.
    pub name: &'static str,
    /// In figures.
    pub title: &'static str,
}
