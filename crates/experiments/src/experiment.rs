//! The experiment file: what is varied, over which seeds, when a run ends,
//! what is drawn and what must come out. See `docs/experiments.md`.
//!
//! This file checks keys and types. `plan.rs` checks whether the configurations can be
//! simulated.

use crate::place::{Fault, Source, Step, explain};
use crate::simulator::Simulator;
use serde::Deserialize;
use std::collections::BTreeMap;

/// An experiment file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Experiment {
    /// A short name, as of the file.
    pub name: String,
    /// What the figure is called.
    pub title: String,
    /// What is shown, and what is to be seen in it.
    #[serde(default)]
    pub about: String,
    /// One run of each point a seed.
    #[serde(default = "one_seed")]
    pub seeds: Vec<u64>,
    /// The simulator that it runs.
    #[serde(default)]
    pub simulator: Simulator,
    /// When a run of the network ends.
    #[serde(default)]
    pub stop: Stop,
    /// The configuration that the sweep changes.
    pub base: toml::Table,
    /// Axes; the points are their cross product.
    #[serde(default)]
    pub sweep: Vec<Axis>,
    /// Points whose links' loads are written, for the first seed.
    #[serde(default)]
    pub links: Option<Selection>,
    /// What `sluice report` draws.
    #[serde(default)]
    pub figure: Vec<Figure>,
    /// What must come out.
    #[serde(default)]
    pub expect: Vec<Expect>,
}

fn one_seed() -> Vec<u64> {
    vec![1]
}

/// When a run ends: after the warm-up, batches are run until the throughput of
/// one differs from that of the one before by less than `change`.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Stop {
    /// Cycles before anything is counted.
    pub warm_up_cycles: u64,
    /// Cycles of a batch.
    pub batch_cycles: u64,
    /// Counted cycles before the throughput may end the run, since an early
    /// throughput that looks steady can still fall.
    pub min_cycles: u64,
    /// Counted cycles after which the run ends in any case.
    pub max_cycles: u64,
    /// Share of the throughput by which batches may differ.
    pub change: f64,
}

impl Default for Stop {
    fn default() -> Stop {
        Stop {
            warm_up_cycles: 5_000,
            batch_cycles: 2_000,
            min_cycles: 10_000,
            max_cycles: 50_000,
            change: 0.05,
        }
    }
}

/// One thing that is varied: either a key and its values, or variants that set
/// several keys each.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Axis {
    /// The column it has in the results; none: its key.
    pub name: Option<String>,
    /// What figures write beside it; none: its name.
    pub title: Option<String>,
    /// Dotted path into the base.
    pub key: Option<String>,
    /// Values of the key.
    #[serde(default)]
    pub values: Vec<toml::Value>,
    /// Instead of a key and values.
    #[serde(default)]
    pub variant: Vec<Variant>,
}

impl Axis {
    /// The column it has in the results.
    pub fn column(&self) -> &str {
        self.name.as_deref().or(self.key.as_deref()).unwrap_or("")
    }

    /// What figures write beside it.
    pub fn title(&self) -> &str {
        self.title.as_deref().unwrap_or(self.column())
    }
}

/// Several keys that change together.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Variant {
    /// What it is called.
    pub label: String,
    /// Where it stands on a figure's x axis; none: it has no place on one.
    pub value: Option<f64>,
    /// Dotted paths into the base, and what they become.
    #[serde(default)]
    pub set: toml::Table,
}

/// Which points are meant: of each axis named, one label (or number), or one
/// of several.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Selection {
    /// Not their mean but the largest of them.
    #[serde(default)]
    pub best: bool,
    /// By axis.
    #[serde(flatten)]
    pub axes: BTreeMap<String, Wanted>,
}

/// Values of an axis.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged, expecting = "expected a label, a number, or a list of them")]
pub enum Wanted {
    /// This one.
    One(Scalar),
    /// Any of these.
    Any(Vec<Scalar>),
}

impl Wanted {
    /// All that are wanted.
    pub fn all(&self) -> &[Scalar] {
        match self {
            Wanted::One(one) => std::slice::from_ref(one),
            Wanted::Any(several) => several,
        }
    }
}

/// A value of an axis.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(untagged)]
pub enum Scalar {
    /// By its number.
    Number(f64),
    /// By its label.
    Label(String),
}

/// What `sluice report` draws.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Figure {
    /// What kind of drawing.
    #[serde(default)]
    pub kind: Kind,
    /// What stands above it; none: the experiment's title.
    pub title: Option<String>,
    /// An axis with numbers, or a column of the results.
    pub x: Option<String>,
    /// A column of the results; none: the simulator's first.
    #[serde(default)]
    pub y: String,
    /// The axis whose values are lines of their own.
    pub series: Option<String>,
    /// The axis whose values are drawings of their own.
    pub panel: Option<String>,
    /// Only these points.
    #[serde(default, rename = "where")]
    pub only: Selection,
    /// How the x axis runs.
    #[serde(default)]
    pub scale: Scale,
}

impl Figure {
    /// Of all points.
    pub fn of_all(kind: Kind, title: &str) -> Figure {
        Figure {
            kind,
            title: Some(title.to_owned()),
            x: None,
            y: String::new(),
            series: None,
            panel: None,
            only: Selection::default(),
            scale: Scale::Linear,
        }
    }
}

/// Kinds of drawing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A column against an axis or another column. Values of the x axis that
    /// are no numbers are lines across.
    #[default]
    Lines,
    /// The throughput of each batch against time.
    Time,
    /// The loads of links.
    Links,
}

/// How an x axis runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scale {
    /// Evenly.
    #[default]
    Linear,
    /// By factors; 0 stands to the left of the smallest.
    Log,
}

/// What must come out, and why.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Expect {
    /// A column of the results; none: the simulator's first.
    #[serde(default)]
    pub value: String,
    /// Of these points.
    #[serde(default, rename = "where")]
    pub only: Selection,
    /// Divided by that of these.
    pub over: Option<Selection>,
    /// Not the value, but where along this axis it is largest. It must rise
    /// until there and fall from there.
    pub peak: Option<String>,
    /// How far, as a share, a curve with a peak may go the wrong way.
    #[serde(default = "slack")]
    pub slack: f64,
    /// The least that is right.
    pub min: Option<f64>,
    /// The most that is right.
    pub max: Option<f64>,
    /// Why.
    pub reason: String,
}

fn slack() -> f64 {
    0.03
}

impl Experiment {
    /// Reads a file's text.
    ///
    /// # Errors
    /// What is wrong, and the line.
    pub fn parse(source: &Source) -> Result<Experiment, Fault> {
        let deserializer = toml::Deserializer::parse(&source.text).map_err(|error| {
            source.fault_at(error.span().map_or(0, |span| span.start), error.message())
        })?;
        let mut experiment: Experiment =
            serde_path_to_error::deserialize(deserializer).map_err(|error| {
                let (text, place) = explain(error.inner().message(), &steps(error.path()));
                if source.has(&place) {
                    return source.fault(&place, text);
                }
                match error.inner().span() {
                    Some(span) => source.fault_at(span.start, text),
                    None => source.fault(&place, text),
                }
            })?;
        let first = experiment.simulator.columns()[0].name;
        let values = experiment.expect.iter_mut().map(|expect| &mut expect.value);
        for name in experiment.figure.iter_mut().map(|figure| &mut figure.y).chain(values) {
            if name.is_empty() {
                *name = first.to_owned();
            }
        }
        experiment.check(source)?;
        Ok(experiment)
    }

    /// Checks what serde cannot check.
    fn check(&self, source: &Source) -> Result<(), Fault> {
        let stop = &self.stop;
        let at = |key: &str| vec![Step::from("stop"), Step::from(key)];
        if stop.batch_cycles == 0 {
            return Err(
                source.fault(&at("batch_cycles"), "\"batch_cycles\" in [stop] must be at least 1")
            );
        }
        if stop.max_cycles < stop.min_cycles {
            let text = format!(
                "\"max_cycles\" in [stop] is {}, less than \"min_cycles\", which is {}",
                stop.max_cycles, stop.min_cycles
            );
            return Err(source.fault(&at("max_cycles"), text));
        }
        if stop.max_cycles < stop.batch_cycles {
            let text = "\"max_cycles\" in [stop] leaves no room for one batch";
            return Err(source.fault(&at("max_cycles"), text));
        }
        if self.seeds.is_empty() {
            return Err(
                source.fault(&["seeds".into()], "\"seeds\" is empty; at least one is needed")
            );
        }
        for (index, figure) in self.figure.iter().enumerate() {
            if figure.kind == Kind::Lines && figure.x.is_none() {
                let text = "a figure of lines needs an \"x\" in [[figure]]";
                return Err(source.fault(&["figure".into(), index.into()], text));
            }
        }
        for (index, axis) in self.sweep.iter().enumerate() {
            let here = [Step::from("sweep"), index.into()];
            let text = match (&axis.key, axis.values.is_empty(), axis.variant.is_empty()) {
                (Some(_), false, true) => None,
                (None, true, false) => axis.name.is_none().then_some("variants need a \"name\""),
                (Some(_), true, true) => Some("\"key\" needs \"values\""),
                (None, false, _) => Some("\"values\" need the \"key\" that they are of"),
                (None, true, true) => Some("a sweep needs a \"key\" and \"values\", or variants"),
                (Some(_), _, false) => Some("a sweep has either a \"key\" or variants, not both"),
            };
            if let Some(text) = text {
                return Err(source.fault(&here, format!("{text} in [[sweep]]")));
            }
            if self.sweep[..index].iter().any(|other| other.column() == axis.column()) {
                let text = format!("there are two sweeps of the name \"{}\"", axis.column());
                return Err(source.fault(&here, text));
            }
        }
        Ok(())
    }
}

/// The path of a serde error.
pub fn steps(path: &serde_path_to_error::Path) -> Vec<Step> {
    use serde_path_to_error::Segment;
    path.iter()
        .filter_map(|segment| match segment {
            Segment::Seq { index } => Some(Step::Index(*index)),
            Segment::Map { key } => Some(Step::Key(key.clone())),
            Segment::Enum { .. } | Segment::Unknown => None,
        })
        .collect()
}
