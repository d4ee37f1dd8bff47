//! Figures of lines: a column of the results against an axis or another
//! column, and the throughput against time.
//!
//! Cells are never averaged over an axis: an axis that is neither x nor panel
//! makes lines of its own.

use super::chart::{Chart, Curve, Dot};
use super::data::Data;
use super::drawing::{Drawing, Values, file_name};
use super::style::LINES_MAX;
use crate::sim::{COLUMNS, Figure, Summary, column, digits, summary};
use anyhow::Result;

/// A curve, and the cells of its dots.
struct Line {
    curve: Curve,
    summaries: Vec<Summary>,
}

/// The drawings of a figure of lines.
pub fn draw(data: &Data, figure: &Figure, title: &str) -> Result<Vec<Drawing>> {
    let Some(x) = figure.x.as_deref() else { return Ok(Vec::new()) };
    let y = column(&figure.y).unwrap_or(0);
    let mut drawings = Vec::new();
    for (panel, cells) in panels(data, figure) {
        let along = Along::of(data, x);
        let lines = lines(data, figure, &cells, along, y);
        let chart_of = |curves: Vec<Curve>| Chart {
            x_title: along.title(data),
            y_title: COLUMNS[y].title.to_owned(),
            curves,
            scale: figure.scale,
        };
        let title = joined(title, &panel);
        drawings.extend(sheets(&title, lines, &chart_of, |lines| table(data, along, y, lines))?);
    }
    Ok(drawings)
}

/// What x is.
#[derive(Clone, Copy)]
enum Along {
    Axis(usize),
    Column(usize),
}

impl Along {
    fn of(data: &Data, name: &str) -> Along {
        match data.plan.axis(name) {
            Some(axis) => Along::Axis(axis),
            None => Along::Column(column(name).unwrap_or(0)),
        }
    }

    fn title(self, data: &Data) -> String {
        match self {
            Along::Axis(axis) => data.plan.experiment.sweep[axis].title().to_owned(),
            Along::Column(column) => COLUMNS[column].title.to_owned(),
        }
    }
}

/// The selected cells, by value of the panels' axis.
fn panels(data: &Data, figure: &Figure) -> Vec<(String, Vec<usize>)> {
    let cells = data.plan.select(&figure.only);
    let Some(axis) = figure.panel.as_deref().and_then(|name| data.plan.axis(name)) else {
        return vec![(String::new(), cells)];
    };
    let name = data.plan.experiment.sweep[axis].column();
    grouped(cells, |cell| format!("{name} {}", data.plan.cells[cell].marks[axis].label))
}

/// In the order of their first cells.
fn grouped(cells: Vec<usize>, label: impl Fn(usize) -> String) -> Vec<(String, Vec<usize>)> {
    let mut groups: Vec<(String, Vec<usize>)> = Vec::new();
    for cell in cells {
        let label = label(cell);
        match groups.iter_mut().find(|(other, _)| *other == label) {
            Some((_, cells)) => cells.push(cell),
            None => groups.push((label, vec![cell])),
        }
    }
    groups
}

/// What tells cells apart within a drawing: their values on the axes that
/// vary, without those of x and panel; that of the series first.
fn label(
    data: &Data,
    cell: usize,
    cells: &[usize],
    series: Option<usize>,
    without: &[usize],
) -> String {
    let mut axes: Vec<usize> = (0..data.plan.experiment.sweep.len()).collect();
    axes.sort_by_key(|axis| Some(*axis) != series);
    let varies = |axis: usize| {
        let of = |cell: usize| &data.plan.cells[cell].marks[axis];
        cells.iter().any(|&other| of(other) != of(cell))
    };
    let parts: Vec<String> = axes
        .into_iter()
        .filter(|axis| !without.contains(axis) && varies(*axis))
        .map(|axis| {
            let mark = &data.plan.cells[cell].marks[axis];
            let name = data.plan.experiment.sweep[axis].column();
            if mark.number.is_some() && mark.label.parse::<f64>().is_ok() {
                format!("{name} {}", mark.label)
            } else {
                mark.label.clone()
            }
        })
        .collect();
    parts.join(", ")
}

fn lines(data: &Data, figure: &Figure, cells: &[usize], along: Along, y: usize) -> Vec<Line> {
    let series = figure.series.as_deref().and_then(|name| data.plan.axis(name));
    let label_of = |cell: usize| match along {
        Along::Axis(axis) => label(data, cell, cells, series, &[axis]),
        Along::Column(_) => {
            let others: Vec<usize> = (0..data.plan.experiment.sweep.len())
                .filter(|axis| Some(*axis) != series)
                .collect();
            label(data, cell, cells, series, &others)
        }
    };
    let mut lines = Vec::new();
    let mut levels = Vec::new();
    for (name, cells) in grouped(cells.to_vec(), label_of) {
        let mut found: Vec<(Dot, Summary)> = Vec::new();
        for cell in cells {
            let Some(of_y) = summary(&data.rows, cell, y) else { continue };
            let x = match along {
                Along::Axis(axis) => data.plan.cells[cell].marks[axis].number,
                Along::Column(column) => {
                    summary(&data.rows, cell, column).map(|summary| summary.mean)
                }
            };
            let dot = Dot { x: x.unwrap_or(0.0), y: of_y.mean, half_width: of_y.half_width };
            match (x, along) {
                (Some(_), _) => found.push((dot, of_y)),
                (None, Along::Axis(axis)) => {
                    let mark = &data.plan.cells[cell].marks[axis].label;
                    levels.push(line(joined_label(mark, &name), vec![(dot, of_y)], true));
                }
                (None, Along::Column(_)) => {}
            }
        }
        if let Along::Axis(_) = along {
            found.sort_by(|a, b| a.0.x.total_cmp(&b.0.x));
        }
        if !found.is_empty() {
            let name = if name.is_empty() { along.title(data) } else { name };
            lines.push(line(name, found, false));
        }
    }
    lines.extend(levels);
    lines
}

fn line(label: String, found: Vec<(Dot, Summary)>, is_level: bool) -> Line {
    let (dots, summaries) = found.into_iter().unzip();
    Line { curve: Curve { label, dots, is_level, has_marks: !is_level }, summaries }
}

fn joined_label(mark: &str, name: &str) -> String {
    if name.is_empty() { mark.to_owned() } else { format!("{mark}, {name}") }
}

fn joined(title: &str, panel: &str) -> String {
    if panel.is_empty() { title.to_owned() } else { format!("{title}: {panel}") }
}

/// Drawings with as many lines each as can be told apart.
fn sheets(
    title: &str,
    lines: Vec<Line>,
    chart_of: &dyn Fn(Vec<Curve>) -> Chart,
    table: impl Fn(&[Line]) -> Values,
) -> Result<Vec<Drawing>> {
    let count = lines.len().div_ceil(LINES_MAX);
    let mut drawings = Vec::new();
    for (index, lines) in lines.chunks(LINES_MAX).enumerate() {
        let title = if count > 1 {
            format!("{title} ({} of {count})", index + 1)
        } else {
            title.to_owned()
        };
        let chart = chart_of(lines.iter().map(|line| line.curve.clone()).collect());
        let svg = chart.draw()?;
        let names: Vec<&str> = lines.iter().map(|line| line.curve.label.as_str()).collect();
        let description =
            format!("{} against {}. Lines: {}.", chart.y_title, chart.x_title, names.join("; "));
        drawings.push(Drawing::new(file_name(&title), title, description, &svg, table(lines)));
    }
    Ok(drawings)
}

fn table(data: &Data, along: Along, y: usize, lines: &[Line]) -> Values {
    let heads = ["line".to_owned(), along.title(data), COLUMNS[y].name.to_owned()];
    let more = ["± (95 %)", "min", "max"].map(str::to_owned);
    let mut rows = Vec::new();
    for line in lines {
        for (dot, summary) in line.curve.dots.iter().zip(&line.summaries) {
            let x = if line.curve.is_level { "any".to_owned() } else { super::axis::short(dot.x) };
            rows.push(vec![
                line.curve.label.clone(),
                x,
                digits(summary.mean),
                summary.half_width.map_or("-".to_owned(), digits),
                digits(summary.min),
                digits(summary.max),
            ]);
        }
    }
    Values { heads: [heads, more].concat(), rows }
}

/// The throughput of each batch against time, the mean over the seeds.
pub fn draw_time(data: &Data, figure: &Figure, title: &str) -> Result<Vec<Drawing>> {
    let mut drawings = Vec::new();
    for (panel, cells) in panels(data, figure) {
        let axis = figure.panel.as_deref().and_then(|name| data.plan.axis(name));
        let without: Vec<usize> = axis.into_iter().collect();
        let lines: Vec<Line> = cells
            .iter()
            .filter_map(|&cell| {
                let found = batches(data, cell);
                let name = label(data, cell, &cells, None, &without);
                let name = if name.is_empty() { data.plan.experiment.name.clone() } else { name };
                let mut line = line(name, found, false);
                line.curve.has_marks = line.curve.dots.len() <= 20;
                (!line.curve.dots.is_empty()).then_some(line)
            })
            .collect();
        let chart_of = |curves: Vec<Curve>| Chart {
            x_title: "Cycles".to_owned(),
            y_title: COLUMNS[0].title.to_owned(),
            curves,
            scale: crate::sim::Scale::Linear,
        };
        drawings.extend(sheets(&joined(title, &panel), lines, &chart_of, time_table)?);
    }
    Ok(drawings)
}

/// The batches of a cell as far as all its seeds have them: the mean of what
/// is left would be of other seeds.
fn batches(data: &Data, cell: usize) -> Vec<(Dot, Summary)> {
    let mut by_cycle: std::collections::BTreeMap<u64, Vec<f64>> = std::collections::BTreeMap::new();
    for batch in data.series.iter().filter(|batch| batch.cell == cell) {
        by_cycle.entry(batch.until_cycle).or_default().push(batch.accepted);
    }
    let most = by_cycle.values().map(Vec::len).max().unwrap_or(0);
    by_cycle
        .into_iter()
        .filter(|(_, rates)| rates.len() == most)
        .filter_map(|(cycle, rates)| {
            let summary = Summary::of(&rates)?;
            Some((Dot { x: cycle as f64, y: summary.mean, half_width: None }, summary))
        })
        .collect()
}

/// A row a batch, a column a line.
fn time_table(lines: &[Line]) -> Values {
    let mut cycles: Vec<u64> =
        lines.iter().flat_map(|line| line.curve.dots.iter().map(|dot| dot.x as u64)).collect();
    cycles.sort_unstable();
    cycles.dedup();
    let cell = |line: &Line, cycle: u64| {
        let dot = line.curve.dots.iter().find(|dot| dot.x as u64 == cycle);
        dot.map_or("-".to_owned(), |dot| digits(dot.y))
    };
    let heads = ["until cycle".to_owned()].into_iter();
    Values {
        heads: heads.chain(lines.iter().map(|line| line.curve.label.clone())).collect(),
        rows: cycles
            .into_iter()
            .map(|cycle| {
                [cycle.to_string()]
                    .into_iter()
                    .chain(lines.iter().map(|line| cell(line, cycle)))
                    .collect()
            })
            .collect(),
    }
}
