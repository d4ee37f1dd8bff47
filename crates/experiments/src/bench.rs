//! `sluice sim bench`: how fast the simulator is on a Dragonfly, by default that of 5,256 nodes,
//! and how much memory it takes.
//!
//! Each row is measured in a process of its own, so that its peak of memory is
//! its own.

use anyhow::{Context as _, Result, anyhow, bail};
use clap::{Args, ValueEnum};
use serde::{Deserialize, Serialize};
use sluice_flit::config::{Divert, Endpoint, Metric, Pattern, Router, Routing, Topology, Traffic};
use sluice_flit::{Config, Simulation};
use sluice_text::{Table, bytes};
use std::io::Write as _;
use std::process::{Command, Stdio};
use std::time::Instant;

const HELP: &str = "\
Uniform traffic, UGAL, the router of the RDRP paper, at loads of 0.1 and 1.0. A flit-hop is
one flit leaving one router.";

/// Arguments of `sluice sim bench`.
#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub struct BenchArgs {
    /// Cycles to measure, after as many of warm-up.
    #[arg(long, value_name = "N", default_value_t = 3000, value_parser = clap::value_parser!(u64).range(1..))]
    cycles: u64,
    /// Numbers of threads, a row each.
    #[arg(long, value_name = "N,…", value_delimiter = ',', default_value = "1,2",
        value_parser = clap::value_parser!(u16).range(1..=256))]
    threads: Vec<u16>,
    /// Nodes of a router in a balanced Dragonfly: 6 for 5,256 nodes, 9 for 26,406.
    #[arg(long, value_name = "P", default_value_t = 6, value_parser = clap::value_parser!(u32).range(1..=12))]
    nodes_per_router: u32,
    /// Print one JSON document instead of a table.
    #[arg(long)]
    json: bool,
}

/// Arguments of one row's process.
#[derive(Debug, Args)]
pub struct RowArgs {
    #[arg(long)]
    load: Load,
    #[arg(long)]
    threads: u16,
    #[arg(long)]
    cycles: u64,
    #[arg(long)]
    nodes_per_router: u32,
}

/// How busy the network is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Load {
    Low,
    Saturated,
}

impl Load {
    fn name(self) -> &'static str {
        match self {
            Load::Low => "low",
            Load::Saturated => "saturated",
        }
    }

    fn flits_per_node_and_cycle(self) -> f64 {
        match self {
            Load::Low => 0.1,
            Load::Saturated => 1.0,
        }
    }
}

#[derive(Debug, Serialize, Deserialize)]
struct Row {
    load: Load,
    threads: u16,
    cycles_per_s: f64,
    flit_hops_per_s: f64,
    ns_per_flit_hop: f64,
    peak_rss_bytes: u64,
}

/// Runs the command.
pub fn run(args: &BenchArgs) -> Result<()> {
    let mut rows = Vec::new();
    for load in [Load::Low, Load::Saturated] {
        for &threads in &args.threads {
            rows.push(in_own_process(load, threads, args)?);
        }
    }
    let mut out = std::io::stdout().lock();
    if args.json {
        let p = u64::from(args.nodes_per_router);
        let nodes = 2 * p * p * (2 * p * p + 1);
        let document = serde_json::json!({ "nodes": nodes, "cycles": args.cycles, "rows": rows });
        serde_json::to_writer(&mut out, &document)?;
        writeln!(out)?;
        return Ok(());
    }
    let mut table =
        Table::new(&["load", "threads", "cycles/s", "flit-hops/s", "ns/flit-hop", "peak memory"]);
    for row in &rows {
        table.row(vec![
            row.load.name().to_owned(),
            row.threads.to_string(),
            format!("{:.0}", row.cycles_per_s),
            format!("{:.2e}", row.flit_hops_per_s),
            format!("{:.1}", row.ns_per_flit_hop),
            bytes(row.peak_rss_bytes >> 20 << 20),
        ]);
    }
    write!(out, "{table}")?;
    Ok(())
}

fn in_own_process(load: Load, threads: u16, args: &BenchArgs) -> Result<Row> {
    let this = std::env::current_exe().context("cannot find this program to start it again")?;
    let output = Command::new(this)
        .args(["sim", "bench-row", "--load", load.name()])
        .args(["--threads", &threads.to_string(), "--cycles", &args.cycles.to_string()])
        .args(["--nodes-per-router", &args.nodes_per_router.to_string()])
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .context("cannot start the process of a row")?;
    if !output.status.success() {
        bail!(
            "the process of the row {} with {threads} threads failed: {}",
            load.name(),
            output.status
        );
    }
    serde_json::from_slice(&output.stdout).context("the process of a row did not print its row")
}

/// Measures one row and prints it.
pub fn run_row(args: &RowArgs) -> Result<()> {
    let threads = usize::from(args.threads);
    let config = config(args.load.flits_per_node_and_cycle(), args.nodes_per_router);
    let mut simulation = Simulation::new(&config, None, threads).map_err(|error| anyhow!(error))?;
    simulation.run(args.cycles).map_err(|stuck| anyhow!(stuck))?;
    simulation.take_sample();
    let start = Instant::now();
    simulation.run(args.cycles).map_err(|stuck| anyhow!(stuck))?;
    let seconds = start.elapsed().as_secs_f64();
    let hops = simulation.take_sample().flit_hops as f64;
    let row = Row {
        load: args.load,
        threads: args.threads,
        cycles_per_s: rounded(args.cycles as f64 / seconds),
        flit_hops_per_s: rounded(hops / seconds),
        ns_per_flit_hop: rounded(seconds * 1e9 / hops.max(1.0)),
        peak_rss_bytes: peak_rss_bytes()?,
    };
    println!("{}", serde_json::to_string(&row)?);
    Ok(())
}

/// Two digits behind the point: more is noise.
fn rounded(value: f64) -> f64 {
    (value * 100.0).round() / 100.0
}

/// The most memory that this process has had.
fn peak_rss_bytes() -> Result<u64> {
    let status =
        std::fs::read_to_string("/proc/self/status").context("cannot read /proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kib.map(|kib| kib << 10).context("/proc/self/status has no VmHWM")
}

/// The RDRP paper's network and router under uniform traffic.
fn config(load: f64, p: u32) -> Config {
    Config {
        topology: Topology::Dragonfly {
            p,
            a: 2 * p,
            h: p,
            local_latency_cycles: 2,
            global_latency_cycles: 10,
        },
        routing: Routing::Ugal {
            vcs_per_class: 1,
            rule: Divert { bias: 2.0, threshold_flits: 30, metric: Metric::Port },
        },
        router: Router { buffer_flits: 256, speedup: 2.4, ..Router::default() },
        traffic: Traffic {
            pattern: Pattern::Uniform { with_self: false },
            load,
            packet_flits: 16,
            message_flits: None,
        },
        endpoint: Endpoint::default(),
        seed: 1,
    }
}
