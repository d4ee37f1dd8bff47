//! `sluice report`: draws the results that `sluice sim run` has written to a folder, or what
//! the endpoints of a run have said into a file.

mod axis;
mod chart;
mod dashes;
mod data;
mod drawing;
mod heat;
mod lines;
mod page;
mod stats;
mod style;

use crate::expect::judge;
use crate::experiment::{Figure, Kind};
use crate::results::replace;
use crate::simulator::Simulator;
use anyhow::Result;
use clap::Args;
use data::Data;
use drawing::Drawing;
use std::io::Write as _;
use std::path::PathBuf;

const HELP: &str = "\
Writes DIR/report.html, which has everything in it and fetches nothing, and each figure beside
it as DIR/*.svg. A folder whose run was stopped is drawn as far as it has come.

Of a file that FI_SLUICE_STATS=json:FILE has named it writes FILE.html: what each endpoint has
done, and who has sent how many packets to whom.";

/// Arguments of `sluice report`.
#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub struct ReportArgs {
    /// The folder that `sluice sim run --out` wrote, or a file of FI_SLUICE_STATS.
    #[arg(value_name = "DIR|FILE")]
    source: PathBuf,
    /// Print one JSON document instead of the names of the files.
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(args: &ReportArgs) -> Result<()> {
    if args.source.is_file() {
        let mut page = args.source.clone().into_os_string();
        page.push(".html");
        let page = PathBuf::from(page);
        replace(&page, stats::html(&args.source)?.as_bytes())?;
        return tell(args, &[page], &[]);
    }
    let data = Data::read(&args.source)?;
    let drawings = draw_all(&data)?;
    let mut files = Vec::new();
    for drawing in &drawings {
        let path = args.source.join(format!("{}.svg", drawing.name));
        replace(&path, drawing.svg.as_bytes())?;
        files.push(path);
    }
    let page = args.source.join("report.html");
    let verdicts = judge(&data.plan, &data.rows);
    replace(&page, page::html(&data, &drawings, &verdicts).as_bytes())?;
    files.insert(0, page);
    tell(args, &files, &drawings)
}

/// Which files there are now, the page first.
fn tell(args: &ReportArgs, files: &[PathBuf], drawings: &[Drawing]) -> Result<()> {
    let names: Vec<String> = files.iter().map(|file| file.display().to_string()).collect();
    let mut out = std::io::stdout().lock();
    if args.json {
        let figures: Vec<_> = drawings.iter().map(|drawing| &drawing.name).collect();
        let document = serde_json::json!({ "page": names[0], "figures": figures, "files": names });
        serde_json::to_writer(&mut out, &document)?;
        writeln!(out)?;
    } else {
        writeln!(out, "{}", names.join("\n"))?;
    }
    Ok(())
}

/// Most lines of a figure that nobody asked for.
const TIME_LINES_MAX: usize = 3 * style::LINES_MAX;

/// What the experiment asks for; the loads of links too if they are known, and
/// what was written down over time unless there are many cells.
fn draw_all(data: &Data) -> Result<Vec<Drawing>> {
    let asked = &data.plan.experiment.figure;
    let mut figures: Vec<Figure> = asked.clone();
    let wanted = [
        (
            Kind::Time,
            match data.plan.experiment.simulator {
                Simulator::Network => "Throughput over time",
                Simulator::Processes => "Credits of rank 0 over time",
                Simulator::Rails => "Over time",
            },
            data.plan.cells.len() <= TIME_LINES_MAX && !data.series.is_empty(),
        ),
        (Kind::Links, "Load of the links", !data.links.is_empty()),
    ];
    for (kind, title, is_known) in wanted {
        if is_known && !asked.iter().any(|figure| figure.kind == kind) {
            figures.push(Figure::of_all(kind, title));
        }
    }
    let mut drawings: Vec<Drawing> = Vec::new();
    for figure in &figures {
        let title = figure.title.as_deref().unwrap_or(&data.plan.experiment.title);
        let drawn = match figure.kind {
            Kind::Lines => lines::draw(data, figure, title)?,
            Kind::Time => lines::draw_time(data, figure, title)?,
            Kind::Links => heat::draw(data, figure, title)?,
        };
        drawings.extend(drawn);
    }
    number_namesakes(&mut drawings);
    Ok(drawings)
}

/// Each drawing has a file of its own.
fn number_namesakes(drawings: &mut [Drawing]) {
    for index in 0..drawings.len() {
        let (before, rest) = drawings.split_at_mut(index);
        let wanted = rest[0].name.clone();
        let mut number = 2;
        while before.iter().any(|other| other.name == rest[0].name) {
            rest[0].name = format!("{wanted}-{number}");
            number += 1;
        }
    }
}
