//! Figures of lines: a column of the results against an axis or another
//! column, and the throughput against time.
//!
//! Cells are never averaged over an axis: an axis that is neither x nor panel
//! makes lines of its own.

use super::chart::{Chart, Curve, Dot};
use super::data::{Data, Moment};
use super::drawing::{Drawing, Values, file_name};
use super::style::LINES_MAX;
use crate::experiment::Figure;
use crate::output::digits;
use crate::results::summary;
use crate::simulator::Simulator;
use crate::statistics::Summary;
use anyhow::{Result, bail};
use std::collections::BTreeMap;

/// A curve, and the cells of its dots.
struct Line {
    curve: Curve,
    summaries: Vec<Summary>,
}

/// The drawings of a figure of lines.
pub fn draw(data: &Data, figure: &Figure, title: &str) -> Result<Vec<Drawing>> {
    let Some(x) = figure.x.as_deref() else { return Ok(Vec::new()) };
    let y = data.plan.column(&figure.y).unwrap_or(0);
    let mut drawings = Vec::new();
    for (panel, cells) in panels(data, figure) {
        let along = Along::of(data, x);
        let lines = lines(data, figure, &cells, along, y);
        let chart_of = |curves: Vec<Curve>| Chart {
            x_title: along.title(data),
            y_title: data.plan.columns[y].title.to_owned(),
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
            None => Along::Column(data.plan.column(name).unwrap_or(0)),
        }
    }

    fn title(self, data: &Data) -> String {
        match self {
            Along::Axis(axis) => data.plan.experiment.sweep[axis].title().to_owned(),
            Along::Column(column) => data.plan.columns[column].title.to_owned(),
        }
    }
}

/// The selected cells, by value of the panels' axis.
fn panels(data: &Data, figure: &Figure) -> Vec<(String, Vec<usize>)> {
    let cells = data.plan.select(&figure.only);
    let Some(axis) = figure.panel.as_deref().and_then(|name| data.plan.axis(name)) else {
        return vec![(String::new(), cells)];
    };
    let name = in_words(data, axis);
    grouped(cells, |cell| format!("{name} {}", data.plan.cells[cell].marks[axis].label))
}

/// The name of an axis as it stands before a value: `credit slots 2`.
fn in_words(data: &Data, axis: usize) -> String {
    data.plan.experiment.sweep[axis].column().replace('_', " ")
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
            let name = in_words(data, axis);
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
            let bar = of_y.half_width.map(|half| (of_y.mean - half, of_y.mean + half));
            let dot = Dot { x: x.unwrap_or(0.0), y: of_y.mean, bar };
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
    let heads = ["line".to_owned(), along.title(data), data.plan.columns[y].name.to_owned()];
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

/// What was written down over time, the mean over the seeds: the throughput of
/// each batch, or credits after each repetition.
pub fn draw_time(data: &Data, figure: &Figure, title: &str) -> Result<Vec<Drawing>> {
    let (x_title, y_title, head) = match data.plan.experiment.simulator {
        Simulator::Network => ("Cycles", data.plan.columns[0].title, "until cycle"),
        Simulator::Processes => ("Repetitions", "Credits toward a rank", "repetition"),
        Simulator::Rails => bail!("a message over rails has nothing over time"),
    };
    let mut drawings = Vec::new();
    for (panel, cells) in panels(data, figure) {
        let axis = figure.panel.as_deref().and_then(|name| data.plan.axis(name));
        let without: Vec<usize> = axis.into_iter().collect();
        let mut lines: Vec<Line> = Vec::new();
        for &cell in &cells {
            for (part, found) in moments(data, cell) {
                let name = label(data, cell, &cells, None, &without);
                let name = match (name.is_empty(), part.is_empty()) {
                    (true, true) => data.plan.experiment.name.clone(),
                    (true, false) => part,
                    (false, true) => name,
                    (false, false) => format!("{name}, {part}"),
                };
                let mut line = line(name, found, false);
                line.curve.has_marks = line.curve.dots.len() <= 20;
                lines.push(line);
            }
        }
        let chart_of = |curves: Vec<Curve>| Chart {
            x_title: x_title.to_owned(),
            y_title: y_title.to_owned(),
            curves,
            scale: crate::experiment::Scale::Linear,
        };
        let table = |lines: &[Line]| time_table(head, lines);
        drawings.extend(sheets(&joined(title, &panel), lines, &chart_of, table)?);
    }
    Ok(drawings)
}

/// The moments of a cell by line, as far as all its seeds have them: the mean
/// of what is left would be of other seeds.
fn moments(data: &Data, cell: usize) -> Vec<(String, Vec<(Dot, Summary)>)> {
    let mut by_line: Vec<(&str, BTreeMap<u64, Vec<&Moment>>)> = Vec::new();
    for moment in data.series.iter().filter(|moment| moment.cell == cell) {
        let known = by_line.iter().position(|(line, _)| *line == moment.line);
        let index = known.unwrap_or_else(|| {
            by_line.push((&moment.line, BTreeMap::new()));
            by_line.len() - 1
        });
        by_line[index].1.entry(moment.at).or_default().push(moment);
    }
    let dots = |by_time: BTreeMap<u64, Vec<&Moment>>| -> Vec<(Dot, Summary)> {
        let most = by_time.values().map(Vec::len).max().unwrap_or(0);
        let dot = |(at, moments): (u64, Vec<&Moment>)| {
            let values: Vec<f64> = moments.iter().map(|moment| moment.value).collect();
            let summary = Summary::of(&values)?;
            let bars = moments.iter().filter_map(|moment| moment.bar);
            let bar = bars.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)));
            Some((Dot { x: at as f64, y: summary.mean, bar }, summary))
        };
        by_time.into_iter().filter(|(_, moments)| moments.len() == most).filter_map(dot).collect()
    };
    by_line.into_iter().map(|(line, by_time)| (line.to_owned(), dots(by_time))).collect()
}

/// A row a batch, a column a line.
fn time_table(head: &str, lines: &[Line]) -> Values {
    let mut cycles: Vec<u64> =
        lines.iter().flat_map(|line| line.curve.dots.iter().map(|dot| dot.x as u64)).collect();
    cycles.sort_unstable();
    cycles.dedup();
    let cell = |line: &Line, cycle: u64| {
        let dot = line.curve.dots.iter().find(|dot| dot.x as u64 == cycle);
        dot.map_or("-".to_owned(), |dot| digits(dot.y))
    };
    let heads = [head.to_owned()].into_iter();
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
