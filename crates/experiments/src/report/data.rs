//! Reads a folder of results.

use crate::manifest::Manifest;
use crate::plan::Plan;
use crate::results::{LINKS, RESULTS, Row, SERIES};
use crate::simulator::Simulator;
use anyhow::{Context as _, Result, bail};
use std::collections::HashMap;
use std::path::Path;

/// The contents of a folder.
#[derive(Debug)]
pub struct Data {
    /// The manifest.
    pub manifest: Manifest,
    /// What was to be run.
    pub plan: Plan,
    /// What came out; points that wait are not there.
    pub rows: Vec<Row>,
    /// What was written down over time.
    pub series: Vec<Moment>,
    /// Loads of links.
    pub links: Vec<Load>,
}

/// The throughput of a batch, or credits after a repetition.
#[derive(Clone, Debug)]
pub struct Moment {
    /// Index in the plan.
    pub cell: usize,
    /// Which of several lines of the cell.
    pub line: String,
    /// The last cycle of the batch, or the repetition.
    pub at: u64,
    /// Flits a node and cycle, or the median of the credits.
    pub value: f64,
    /// Least and most.
    pub bar: Option<(f64, f64)>,
}

/// The load of one direction of a link.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// Index in the plan.
    pub cell: usize,
    /// It leaves this router.
    pub router: u32,
    /// By this port.
    pub port: u32,
    /// The router that it leads to, unless it is a node.
    pub to_router: Option<u32>,
    /// Flits a cycle.
    pub load: f64,
}

impl Data {
    /// Reads a folder.
    ///
    /// # Errors
    /// When a file is missing or is not what `sluice sim run` writes.
    pub fn read(folder: &Path) -> Result<Data> {
        let manifest = Manifest::read(folder)?;
        let plan = manifest.plan()?;
        let rows = Sheet::read(folder, RESULTS, &plan)?.lines(|line| {
            let values = plan
                .columns
                .iter()
                .map(|column| line.number(column.name))
                .collect::<Result<_>>()?;
            Ok(Row {
                cell: line.cell,
                seed: line.text("seed")?.parse()?,
                values,
                stopped_by: "",
                state: match line.text("state")? {
                    "stable" => "stable",
                    "stuck" => "stuck",
                    _ => "saturated",
                },
            })
        })?;
        let series = Sheet::read(folder, SERIES, &plan)?.lines(|line| {
            let number = |name| -> Result<u64> { Ok(line.text(name)?.parse()?) };
            let value = |name| -> Result<f64> { Ok(line.number(name)?.unwrap_or(0.0)) };
            Ok(match plan.experiment.simulator {
                Simulator::Network => Moment {
                    cell: line.cell,
                    line: String::new(),
                    at: number("from_cycle")? + number("cycles")?,
                    value: value("accepted")?,
                    bar: None,
                },
                Simulator::Processes => Moment {
                    cell: line.cell,
                    line: format!("ranks {}", line.text("ranks")?),
                    at: number("repetition")?,
                    value: value("median")?,
                    bar: Some((value("min")?, value("max")?)),
                },
                Simulator::Rails => bail!("a message over rails has no series"),
            })
        })?;
        let links = if plan.experiment.links.is_some() && folder.join(LINKS).is_file() {
            Sheet::read(folder, LINKS, &plan)?.lines(|line| {
                Ok(Load {
                    cell: line.cell,
                    router: line.text("router")?.parse()?,
                    port: line.text("port")?.parse()?,
                    to_router: Some(line.text("to_router")?)
                        .filter(|text| !text.is_empty())
                        .map(str::parse)
                        .transpose()?,
                    load: line.number("load")?.unwrap_or(0.0),
                })
            })?
        } else {
            Vec::new()
        };
        Ok(Data { manifest, plan, rows, series, links })
    }
}

/// A CSV file whose first columns are the plan's axes.
struct Sheet<'a> {
    name: &'a str,
    heads: Vec<String>,
    records: Vec<csv::StringRecord>,
    axes: usize,
    cells: HashMap<Vec<&'a str>, usize>,
}

struct Line<'a> {
    cell: usize,
    heads: &'a [String],
    record: &'a csv::StringRecord,
}

impl<'a> Sheet<'a> {
    fn read(folder: &Path, name: &'a str, plan: &'a Plan) -> Result<Sheet<'a>> {
        let path = folder.join(name);
        let mut reader = csv::Reader::from_path(&path)
            .with_context(|| format!("cannot read {}", path.display()))?;
        let heads = reader.headers()?.iter().map(str::to_owned).collect();
        let records = reader
            .records()
            .collect::<Result<_, _>>()
            .with_context(|| format!("{} is damaged", path.display()))?;
        let labels =
            |cell: usize| plan.cells[cell].marks.iter().map(|mark| mark.label.as_str()).collect();
        let cells = (0..plan.cells.len()).map(|cell| (labels(cell), cell)).collect();
        Ok(Sheet { name, heads, records, axes: plan.axes().count(), cells })
    }

    fn lines<T>(&self, read: impl Fn(&Line) -> Result<T>) -> Result<Vec<T>> {
        self.records
            .iter()
            .enumerate()
            .map(|(index, record)| {
                let context =
                    || format!("row {} of {} is not of this experiment", index + 1, self.name);
                let labels: Vec<&str> = record.iter().take(self.axes).collect();
                let cell = *self.cells.get(&labels).with_context(context)?;
                read(&Line { cell, heads: &self.heads, record }).with_context(context)
            })
            .collect()
    }
}

impl Line<'_> {
    fn text(&self, head: &str) -> Result<&str> {
        // An axis may have the name of a column: the column is the later one.
        let index = self.heads.iter().rposition(|other| other == head);
        index
            .and_then(|index| self.record.get(index))
            .with_context(|| format!("there is no column {head}"))
    }

    fn number(&self, head: &str) -> Result<Option<f64>> {
        let text = self.text(head)?;
        Ok(if text.is_empty() { None } else { Some(text.parse()?) })
    }
}
