//! The plan of an experiment: cells (the cross product of the axes) and points
//! (cells × seeds), each with its configuration.
//!
//! Points that are the same simulation under two names share one run. For example,
//! the factor of slow nodes makes no difference if there are none.

use crate::experiment::{Axis, Experiment, Scalar, Selection, steps};
use crate::place::{Fault, Source, Step, advice, explain};
use crate::setup::{Setup, SetupError};
use crate::simulator::Heading;
use serde::Deserialize;
use serde::Serialize;

/// What a cell has on an axis.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Mark {
    /// As it is written.
    pub label: String,
    /// As a number, if it is one.
    pub number: Option<f64>,
}

impl Mark {
    fn is(&self, wanted: &Scalar) -> bool {
        match wanted {
            Scalar::Number(number) => self.number == Some(*number),
            Scalar::Label(label) => self.label == *label,
        }
    }
}

/// One combination of the axes' values.
#[derive(Clone, Debug)]
pub struct Cell {
    /// By axis.
    pub marks: Vec<Mark>,
    /// Index of the value, by axis.
    choice: Vec<usize>,
    /// With the first seed.
    pub setup: Setup,
    /// Whether its links' loads are written.
    pub links: bool,
}

/// One row of the results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Point {
    /// Index of the cell.
    pub cell: usize,
    /// The seed of its random numbers.
    pub seed: u64,
    /// Index of the run that it takes its figures from.
    pub run: usize,
}

/// One simulation.
#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    /// With its seed.
    pub setup: Setup,
    /// Whether its links' loads are kept.
    pub links: bool,
}

/// An experiment and its plan.
#[derive(Debug)]
pub struct Plan {
    /// Where it was read from.
    pub source: Source,
    /// As it was read.
    pub experiment: Experiment,
    /// The columns of the results.
    pub columns: Vec<Heading>,
    /// Seeds in use.
    pub seeds: Vec<u64>,
    /// In the order of the axes, the first varying slowest.
    pub cells: Vec<Cell>,
    /// Cell by cell, the seed varying fastest.
    pub points: Vec<Point>,
    /// By index in `points`.
    pub runs: Vec<Run>,
}

impl Plan {
    /// Reads and expands an experiment. With `first_seed` its seeds are that
    /// one and those that follow, as many as the file has.
    ///
    /// # Errors
    /// What is wrong with the file, and the line.
    pub fn read(source: Source, first_seed: Option<u64>) -> Result<Plan, Fault> {
        let experiment = Experiment::parse(&source)?;
        let seeds = match first_seed {
            Some(first) => {
                (0..experiment.seeds.len() as u64).map(|more| first.wrapping_add(more)).collect()
            }
            None => experiment.seeds.clone(),
        };
        let mut plan = Plan {
            source,
            columns: experiment.simulator.columns(),
            experiment,
            seeds,
            cells: Vec::new(),
            points: Vec::new(),
            runs: Vec::new(),
        };
        plan.make_cells()?;
        plan.check_selections()?;
        plan.make_points();
        Ok(plan)
    }

    /// The names of the axes.
    pub fn axes(&self) -> impl Iterator<Item = &str> {
        self.experiment.sweep.iter().map(Axis::column)
    }

    /// The index of an axis.
    pub fn axis(&self, name: &str) -> Option<usize> {
        self.axes().position(|axis| axis == name)
    }

    /// The index of a column.
    pub fn column(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|column| column.name == name)
    }

    /// `protocol=limit 30, slow=0.01`.
    pub fn cell_name(&self, cell: usize) -> String {
        let marks = &self.cells[cell].marks;
        let parts: Vec<String> =
            self.axes().zip(marks).map(|(axis, mark)| format!("{axis}={}", mark.label)).collect();
        parts.join(", ")
    }

    /// The cells that a selection means.
    pub fn select(&self, selection: &Selection) -> Vec<usize> {
        let wanted: Vec<(usize, &[Scalar])> = selection
            .axes
            .iter()
            .filter_map(|(axis, wanted)| Some((self.axis(axis)?, wanted.all())))
            .collect();
        let is_meant = |cell: &Cell| {
            wanted.iter().all(|(axis, any)| any.iter().any(|one| cell.marks[*axis].is(one)))
        };
        (0..self.cells.len()).filter(|&cell| is_meant(&self.cells[cell])).collect()
    }

    fn make_cells(&mut self) -> Result<(), Fault> {
        let lengths: Vec<usize> = self
            .experiment
            .sweep
            .iter()
            .map(|axis| if axis.key.is_some() { axis.values.len() } else { axis.variant.len() })
            .collect();
        let count: usize = lengths.iter().product();
        for index in 0..count {
            let mut rest = index;
            let mut choice = vec![0; lengths.len()];
            for (chosen, length) in choice.iter_mut().zip(&lengths).rev() {
                *chosen = rest % length;
                rest /= length;
            }
            let (marks, table) = self.assemble(&choice)?;
            let setup = self.experiment.simulator.read(table).map_err(|error| {
                let path = [vec![Step::from("base")], steps(error.path())].concat();
                let (text, path) = explain(error.inner().message(), &path);
                self.fault_of_config(&choice, &path[1..], text)
            })?;
            let setup = self.seeds.first().map_or(setup.clone(), |&seed| setup.with_seed(seed));
            self.cells.push(Cell { marks, choice, setup, links: false });
        }
        if let Some(selection) = &self.experiment.links {
            for cell in self.select(selection) {
                self.cells[cell].links = true;
            }
        }
        Ok(())
    }

    /// The base with the chosen values.
    fn assemble(&self, choice: &[usize]) -> Result<(Vec<Mark>, toml::Table), Fault> {
        let mut table = self.experiment.base.clone();
        let mut marks = Vec::new();
        for ((index, axis), &chosen) in self.experiment.sweep.iter().enumerate().zip(choice) {
            let mut change = |key: &str, value: &toml::Value, at: &[Step]| {
                set(&mut table, key, value.clone()).map_err(|part| {
                    let text =
                        format!("\"{key}\" leads through \"{part}\", which is no table in [base]");
                    self.source.fault(at, text)
                })
            };
            if let Some(key) = &axis.key {
                let value = &axis.values[chosen];
                change(key, value, &["sweep".into(), index.into(), "key".into()])?;
                marks.push(Mark { label: written(value), number: number(value) });
            } else {
                let variant = &axis.variant[chosen];
                for (key, value) in &variant.set {
                    let at = [
                        "sweep".into(),
                        index.into(),
                        "variant".into(),
                        chosen.into(),
                        "set".into(),
                    ];
                    change(key, value, &[&at[..], &[key.as_str().into()]].concat())?;
                }
                marks.push(Mark { label: variant.label.clone(), number: variant.value });
            }
        }
        Ok((marks, table))
    }

    /// A fault of a configuration, placed where the value at fault was written:
    /// in the base, or in the sweep that changed it.
    fn fault_of_config(&self, choice: &[usize], path: &[Step], text: String) -> Fault {
        let keys: Vec<&str> = path
            .iter()
            .filter_map(|step| match step {
                Step::Key(key) => Some(key.as_str()),
                Step::Index(_) => None,
            })
            .collect();
        let in_base = self.source.has(&[vec![Step::from("base")], path.to_vec()].concat());
        let covers = |key: &str| {
            let parts: Vec<&str> = key.split('.').collect();
            keys.starts_with(&parts) || (!in_base && parts.starts_with(&keys))
        };
        let tail =
            |key: &str| -> Vec<Step> { path[key.split('.').count().min(path.len())..].to_vec() };
        for ((index, axis), &chosen) in self.experiment.sweep.iter().enumerate().zip(choice) {
            let here = vec![Step::from("sweep"), index.into()];
            if let Some(key) = axis.key.as_deref().filter(|key| covers(key)) {
                let more = if tail(key).is_empty() && text.starts_with("unknown key") {
                    vec![Step::from("key")]
                } else {
                    [vec![Step::from("values"), chosen.into()], tail(key)].concat()
                };
                return self.source.fault(&[here, more].concat(), text);
            }
            for key in axis.variant.get(chosen).iter().flat_map(|variant| variant.set.keys()) {
                if covers(key) {
                    let more =
                        vec!["variant".into(), chosen.into(), "set".into(), key.as_str().into()];
                    return self.source.fault(&[here, more, tail(key)].concat(), text);
                }
            }
        }
        self.source.fault(&[vec![Step::from("base")], path.to_vec()].concat(), text)
    }

    /// The simulator's error about a cell's configuration, with the line.
    pub fn fault_of_cell(&self, cell: usize, error: &SetupError) -> Fault {
        let path: Vec<Step> = error.key.split('.').map(Step::from).collect();
        let text = format!("\"{}\" in [base]: {}", error.key, error.reason);
        self.fault_of_config(&self.cells[cell].choice, &path, text)
    }

    fn check_selections(&self) -> Result<(), Fault> {
        if let Some(selection) = &self.experiment.links {
            self.check_selection(selection, &["links".into()])?;
        }
        for (index, figure) in self.experiment.figure.iter().enumerate() {
            let at = |key: &str| [Step::from("figure"), index.into(), key.into()];
            self.check_selection(&figure.only, &at("where"))?;
            self.check_column(&figure.y, &at("y"), &[])?;
            let axes: Vec<&str> = self.axes().collect();
            for (key, name) in [("series", &figure.series), ("panel", &figure.panel)] {
                if let Some(name) = name {
                    self.check_name("axis", name, &axes, &at(key))?;
                }
            }
            if let Some(x) = &figure.x {
                self.check_column(x, &at("x"), &axes)?;
            }
        }
        for (index, expect) in self.experiment.expect.iter().enumerate() {
            let at = |key: &str| [Step::from("expect"), index.into(), key.into()];
            self.check_selection(&expect.only, &at("where"))?;
            if let Some(over) = &expect.over {
                self.check_selection(over, &at("over"))?;
            }
            self.check_column(&expect.value, &at("value"), &[])?;
            if let Some(axis) = &expect.peak {
                self.check_name("axis", axis, &self.axes().collect::<Vec<_>>(), &at("peak"))?;
            }
            if expect.min.is_none() && expect.max.is_none() {
                let text = "an expectation needs a \"min\", a \"max\" or both in [[expect]]";
                return Err(self.source.fault(&at("reason")[..2], text));
            }
        }
        Ok(())
    }

    fn check_column(&self, name: &str, at: &[Step], more: &[&str]) -> Result<(), Fault> {
        let columns: Vec<&str> =
            more.iter().copied().chain(self.columns.iter().map(|column| column.name)).collect();
        self.check_name("column", name, &columns, at)
    }

    fn check_selection(&self, selection: &Selection, at: &[Step]) -> Result<(), Fault> {
        let axes: Vec<&str> = self.axes().collect();
        for (axis, wanted) in &selection.axes {
            let here = [at, &[axis.as_str().into()]].concat();
            self.check_name("axis", axis, &axes, &here)?;
            let Some(index) = self.axis(axis) else { continue };
            for one in wanted.all() {
                if !self.cells.iter().any(|cell| cell.marks[index].is(one)) {
                    let mut labels: Vec<&str> =
                        self.cells.iter().map(|cell| cell.marks[index].label.as_str()).collect();
                    labels.sort_unstable();
                    labels.dedup();
                    let wrong = match one {
                        Scalar::Number(number) => number.to_string(),
                        Scalar::Label(label) => label.clone(),
                    };
                    let text = format!(
                        "the axis \"{axis}\" has no \"{wrong}\"{}",
                        advice(&wrong, &labels)
                    );
                    return Err(self.source.fault(&here, text));
                }
            }
        }
        Ok(())
    }

    fn check_name(&self, what: &str, name: &str, known: &[&str], at: &[Step]) -> Result<(), Fault> {
        if known.contains(&name) {
            return Ok(());
        }
        Err(self.source.fault(at, format!("there is no {what} \"{name}\"{}", advice(name, known))))
    }

    fn make_points(&mut self) {
        for (cell_index, cell) in self.cells.iter().enumerate() {
            for (seed_index, &seed) in self.seeds.iter().enumerate() {
                let setup = cell.setup.with_seed(seed).without_idle_parts();
                let run = Run { setup, links: cell.links && seed_index == 0 };
                let known = self.runs.iter().position(|other| *other == run);
                let index = known.unwrap_or_else(|| {
                    self.runs.push(run);
                    self.runs.len() - 1
                });
                self.points.push(Point { cell: cell_index, seed, run: index });
            }
        }
    }
}

/// Sets the value at a dotted path. Fails with the part of the path that is no table.
fn set(table: &mut toml::Table, path: &str, value: toml::Value) -> Result<(), String> {
    let Some((first, rest)) = path.split_once('.') else {
        table.insert(path.to_owned(), value);
        return Ok(());
    };
    let inner = table.entry(first).or_insert_with(|| toml::Value::Table(toml::Table::new()));
    match inner.as_table_mut() {
        Some(inner) => set(inner, rest, value),
        None => Err(first.to_owned()),
    }
}

fn written(value: &toml::Value) -> String {
    match value {
        toml::Value::String(text) => text.clone(),
        toml::Value::Float(number) => number.to_string(),
        other => other.to_string(),
    }
}

fn number(value: &toml::Value) -> Option<f64> {
    f64::deserialize(value.clone()).ok()
}

#[cfg(test)]
mod tests;
