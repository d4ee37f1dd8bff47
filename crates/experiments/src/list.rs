//! `sluice sim list`: the experiments that come with the command.

use crate::library::EXPERIMENTS;
use crate::place::Source;
use crate::plan::Plan;
use anyhow::Result;
use clap::Args;
use serde::Serialize;
use sluice_text::Table;
use std::io::Write as _;

/// Arguments of `sluice sim list`.
#[derive(Debug, Args)]
#[command(after_help = "A name can be given to `sluice sim run` in the place of a file.")]
pub struct ListArgs {
    /// Print one JSON document instead of a table.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Serialize)]
struct Item {
    name: String,
    title: String,
    about: String,
    /// Of the largest network, or processes of the largest job.
    nodes: u32,
    /// Which of the two.
    #[serde(skip)]
    members: &'static str,
    /// Rows of the results: combinations times seeds.
    points: usize,
    /// Simulations behind them.
    runs: usize,
}

/// Runs the command.
pub fn run(args: &ListArgs) -> Result<()> {
    let items: Vec<Item> =
        EXPERIMENTS.iter().map(|(name, text)| item(name, text)).collect::<Result<_>>()?;
    let mut out = std::io::stdout().lock();
    if args.json {
        serde_json::to_writer(&mut out, &serde_json::json!({ "experiments": items }))?;
        writeln!(out)?;
        return Ok(());
    }
    let mut table = Table::new(&["name", "size", "points", "runs"]);
    for item in &items {
        let size = format!("{} {}", item.nodes, item.members);
        table.row(vec![item.name.clone(), size, item.points.to_string(), item.runs.to_string()]);
    }
    let text = table.to_string();
    for (line, title) in
        text.lines().zip(["title"].into_iter().chain(items.iter().map(|item| item.title.as_str())))
    {
        writeln!(out, "{line}  {title}")?;
    }
    Ok(())
}

fn item(name: &str, text: &str) -> Result<Item> {
    let source = Source { name: format!("{name}.toml"), text: text.to_owned() };
    let plan = Plan::read(source, None)?;
    let mut nodes_max = 0;
    for (index, cell) in plan.cells.iter().enumerate() {
        let nodes = cell.setup.nodes().map_err(|error| plan.fault_of_cell(index, &error))?;
        nodes_max = nodes_max.max(nodes);
    }
    Ok(Item {
        name: name.to_owned(),
        title: plan.experiment.title.clone(),
        about: plan.experiment.about.clone(),
        nodes: nodes_max,
        members: plan.experiment.simulator.members(),
        points: plan.points.len(),
        runs: plan.runs.len(),
    })
}
