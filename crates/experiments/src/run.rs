//! `sluice sim run`: runs the simulations of a plan that are not done yet, and that no
//! other process runs ([`crate::sharing`]).

use crate::expect::{Verdict, judge};
use crate::journal::{Entries, Entry, Head, Journal};
use crate::library;
use crate::manifest::Manifest;
use crate::measure::measure;
use crate::output;
use crate::plan::{Plan, Run};
use crate::processes;
use crate::progress::Progress;
use crate::results;
use crate::setup::{Outcome, Setup, SetupError};
use crate::sharing::{self, Claim, Next, Share};
use crate::simulator::Simulator;
use anyhow::{Context as _, Result, anyhow, bail};
use clap::Args;
use sha2::{Digest as _, Sha256};
use sluice_flit::config::Pattern;
use sluice_flit::topology::Topology;
use sluice_flit::{ConfigError, Simulation, traffic::Trace};
use sluice_sim::References;
use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Status when an expectation does not hold, or nothing moves.
const EXIT_UNEXPECTED: u8 = 3;
/// Status when the user stopped it, as of a process that SIGINT ended.
const EXIT_STOPPED: u8 = 130;

const HELP: &str = "\
The folder gets results.csv (a row a point), summary.csv (over the seeds), series.csv (a row
a batch), links.csv (if the experiment asks for it), manifest.json, and journal.jsonl, from
which the same command goes on after it was stopped.

Several processes share one experiment: start it under a launcher (mpirun, srun), in a Slurm job
array, or several times, with the same --out on a file system that all hosts share. Each
simulation is run once; one process shows the progress of all and writes the results, and the
others end with status 0. Where a process is killed, another one runs what it had begun.

Exit status: 0 all done and as expected, 1 an error, 3 an expectation does not hold
or a simulation got stuck, 130 stopped by Ctrl-C (a second Ctrl-C ends it at once).

Examples:
  sluice sim run rdrp-fig5-small --out fig5
  sluice sim run my.toml --out mine --threads 4 && sluice report mine
  mpirun -n 4 sluice sim run rdrp-fig5 --out fig5
  sbatch --array=0-15 --wrap 'sluice sim run rdrp-fig5 --out fig5'";

/// Arguments of `sluice sim run`.
#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub struct RunArgs {
    /// An experiment file, or the name of one that `sluice sim list` shows.
    #[arg(value_name = "FILE")]
    file: String,
    /// The folder for the results; made if it is not there.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// The first seed instead of the file's; the others follow it.
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// How many threads; the results do not depend on it [default: one a core, shared among the
    /// processes that the launcher has started on this host].
    #[arg(long, value_name = "N")]
    threads: Option<NonZeroUsize>,
    /// Do not judge the results.
    #[arg(long)]
    no_expect: bool,
    /// Print one JSON document instead of tables.
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(args: &RunArgs) -> Result<ExitCode> {
    let (source, beside) = library::open(&args.file)?;
    let plan = Plan::read(source, args.seed)?;
    let traces = Traces::read(&plan, &beside)?;
    let head = Head {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        experiment_sha256: traces.hash(&plan.source.text),
        seeds: plan.seeds.clone(),
    };
    let threads = threads(args);
    check(&plan, &traces, threads)?;
    make_folder(&args.out)?;
    let (journal, entries) = Journal::open(&args.out, &head)?;
    let ranks = sharing::meet(&args.out)?;
    let share = Share::new(&args.out, plan.runs.len(), journal, entries);
    if ranks.rank == 0 {
        share.lead()?;
    }

    let stop = stop_on_signals()?;
    let references = References::new();
    let work =
        Work { plan: &plan, traces: &traces, references: &references, stop: &stop, share: &share };
    if !work.all(threads, args.json, &head, &args.out)? {
        if share.leads() {
            // It is done: the lock that told so need not stay.
            share.end().1.close();
        } else if ranks.size == 1 && !stop.load(Ordering::Relaxed) {
            eprintln!(
                "sluice: nothing is left to take here; another process leads, and writes the \
                 results when all simulations are done"
            );
        }
        return Ok(if stop.load(Ordering::Relaxed) {
            ExitCode::from(EXIT_STOPPED)
        } else {
            ExitCode::SUCCESS
        });
    }
    let (entries, ending) = share.end();
    let code = conclude(args, head, &plan, &entries)?;
    ending.close();
    Ok(code)
}

/// How many threads this process has.
fn threads(args: &RunArgs) -> usize {
    let cores = || {
        let here = sharing::processes_here(|name| std::env::var(name).ok());
        let usable = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
        let bound =
            rustix::thread::sched_getaffinity(None).map_or(usable, |set| set.count() as usize);
        let online = std::fs::read_to_string("/sys/devices/system/cpu/online").ok();
        let online = online.and_then(|list| sharing::cores_of(&list)).unwrap_or(bound);
        sharing::cores(usable, bound, online, here)
    };
    args.threads.map_or_else(cores, NonZeroUsize::get)
}

/// Writes the results, judges them and prints them.
fn conclude(args: &RunArgs, head: Head, plan: &Plan, entries: &Entries) -> Result<ExitCode> {
    let rows = results::write(&args.out, plan, entries)?;
    let verdicts: Vec<Verdict> = if args.no_expect { Vec::new() } else { judge(plan, &rows) };
    let manifest = Manifest::new(head, plan, entries, verdicts);
    manifest.write(&args.out)?;
    let is_done = entries.len() == plan.runs.len();
    if args.json {
        output::json(plan, &rows, &manifest, &args.out)?;
    } else {
        output::text(plan, &rows, &manifest.expectations, &args.out)?;
    }
    if !is_done {
        eprintln!(
            "sluice: stopped: {} of {} simulations are done; the same command goes on from there",
            entries.len(),
            plan.runs.len()
        );
        return Ok(ExitCode::from(EXIT_STOPPED));
    }
    let stuck = manifest.status.iter().filter(|point| point.status == "stuck").count();
    if stuck > 0 {
        let file = args.out.join(crate::manifest::FILE);
        eprintln!(
            "sluice: in {stuck} of {} points nothing moved any more; {} says where",
            manifest.points,
            file.display()
        );
        return Ok(ExitCode::from(EXIT_UNEXPECTED));
    }
    let failed = manifest.expectations.iter().filter(|verdict| verdict.holds != Some(true)).count();
    if failed > 0 {
        eprintln!("sluice: {failed} of {} expectations do not hold", manifest.expectations.len());
        return Ok(ExitCode::from(EXIT_UNEXPECTED));
    }
    Ok(ExitCode::SUCCESS)
}

/// Set by Ctrl-C or a request to end; the second one ends the process.
fn stop_on_signals() -> Result<Arc<AtomicBool>> {
    use signal_hook::consts::{SIGINT, SIGTERM};
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        // The order matters: the first signal finds the flag not yet set.
        signal_hook::flag::register_conditional_default(signal, Arc::clone(&stop))
            .and_then(|_| signal_hook::flag::register(signal, Arc::clone(&stop)))
            .context("cannot catch Ctrl-C")?;
    }
    Ok(stop)
}

/// The traces of an experiment, by path, as text.
struct Traces(BTreeMap<String, String>);

impl Traces {
    fn read(plan: &Plan, beside: &Path) -> Result<Traces> {
        let mut texts = BTreeMap::new();
        for cell in &plan.cells {
            let pattern = cell.setup.network().map(|config| &config.traffic.pattern);
            if let Some(Pattern::Trace { path }) = pattern {
                let file = beside.join(path);
                let text = std::fs::read_to_string(&file)
                    .with_context(|| format!("cannot read the trace {}", file.display()))?;
                texts.insert(path.clone(), text);
            }
        }
        Ok(Traces(texts))
    }

    /// The hash of everything that the results depend on.
    fn hash(&self, experiment: &str) -> String {
        let mut hash = Sha256::new();
        for text in std::iter::once(experiment).chain(self.0.values().map(String::as_str)) {
            hash.update((text.len() as u64).to_le_bytes());
            hash.update(text);
        }
        hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Whether a configuration can be run.
    fn check(&self, setup: &Setup) -> Result<(), SetupError> {
        match setup {
            Setup::Network(config) => {
                self.simulation(config, 1)?;
            }
            Setup::Processes(config) => {
                sluice_sim::Simulation::new(config)?;
            }
            Setup::Rails(config) => config.check()?,
        }
        Ok(())
    }

    fn simulation(
        &self,
        config: &sluice_flit::Config,
        threads: usize,
    ) -> Result<Simulation, ConfigError> {
        let trace = match &config.traffic.pattern {
            Pattern::Trace { path } => {
                let key = "traffic.pattern.path";
                let text = self.0.get(path).ok_or_else(|| ConfigError::new(key, "was not read"))?;
                let nodes = Topology::new(&config.topology)?.fabric().nodes();
                Some(
                    Trace::parse(text, nodes)
                        .map_err(|error| ConfigError::new(key, format!("{path}: {error}")))?,
                )
            }
            _ => None,
        };
        Simulation::new(config, trace, threads)
    }
}

/// Makes the folder of the results. One that is there is empty or holds results.
fn make_folder(folder: &Path) -> Result<()> {
    let what = || format!("cannot make the folder {}", folder.display());
    std::fs::create_dir_all(folder).with_context(what)?;
    let is_empty = std::fs::read_dir(folder).with_context(what)?.next().is_none();
    if !is_empty && !folder.join(crate::journal::FILE).exists() {
        bail!(
            "{} holds other files, and no results of `sluice sim run`; choose an empty folder \
             or a new one (--out)",
            folder.display()
        );
    }
    Ok(())
}

/// Finds out before anything is written whether every configuration can be run.
fn check(plan: &Plan, traces: &Traces, threads: usize) -> Result<()> {
    let cells: Vec<(usize, &Run)> = (0..plan.cells.len())
        .filter_map(|cell| plan.points.iter().find(|point| point.cell == cell))
        .map(|point| (point.cell, &plan.runs[point.run]))
        .collect();
    let next = AtomicUsize::new(0);
    let first = Mutex::new(None::<(usize, SetupError)>);
    std::thread::scope(|scope| {
        for _ in 0..threads.min(cells.len()) {
            scope.spawn(|| {
                while let Some(&(cell, run)) = cells.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let Err(error) = traces.check(&run.setup) else { continue };
                    let mut first = first.lock().unwrap_or_else(PoisonError::into_inner);
                    if first.as_ref().is_none_or(|(other, _)| cell < *other) {
                        *first = Some((cell, error));
                    }
                }
            });
        }
    });
    match first.into_inner().unwrap_or_else(PoisonError::into_inner) {
        Some((cell, error)) => Err(plan.fault_of_cell(cell, &error).into()),
        None => Ok(()),
    }
}

/// How often a process looks at what others have done.
const LOOK: Duration = Duration::from_millis(200);

struct Work<'a> {
    plan: &'a Plan,
    traces: &'a Traces,
    references: &'a References,
    stop: &'a AtomicBool,
    share: &'a Share,
}

impl Work<'_> {
    /// Runs what is to be run. Says whether this process writes the results.
    fn all(&self, threads: usize, quiet: bool, head: &Head, folder: &Path) -> Result<bool> {
        loop {
            let leads = self.share.leads();
            self.run(threads, quiet || !leads)?;
            if leads {
                return Ok(true);
            }
            let is_done = self.share.look(|entries| entries.len() == self.plan.runs.len())?;
            if self.stop.load(Ordering::Relaxed) {
                return Ok(false);
            }
            // The leader may have ended, by itself or not.
            if !self.share.lead()? || (is_done && Manifest::is_of_all(folder, head)) {
                return Ok(false);
            }
        }
    }

    /// Runs simulations side by side until none is left to take, or, as the leader, until
    /// all are done. When there are fewer of them than threads, each gets several.
    fn run(&self, threads: usize, quiet: bool) -> Result<()> {
        let found = self.share.look(|entries| entries.keys().copied().collect::<BTreeSet<_>>())?;
        let waiting = self.plan.runs.len() - found.len();
        if waiting == 0 {
            return Ok(());
        }
        let beside = threads.min(waiting);
        let each = (threads / beside).max(1);
        let progress = Progress::new(waiting, found.len(), self.cycles_max(), quiet);
        let (send, ended) = channel::<Result<(Claim, Entry)>>();
        let done = std::thread::scope(|scope| {
            for _ in 0..beside {
                let (send, progress) = (send.clone(), &progress);
                scope.spawn(move || {
                    while let Some(ran) = self.take(each, progress).transpose() {
                        let is_over = ran.is_err();
                        if send.send(ran).is_err() || is_over {
                            return;
                        }
                    }
                });
            }
            drop(send);
            let kept = self.keep(&ended, found, &progress);
            if kept.is_err() {
                self.stop.store(true, Ordering::Relaxed);
            }
            kept
        });
        progress.clear();
        done
    }

    /// Takes a simulation and runs it; none if there is nothing left for this process.
    fn take(&self, threads: usize, progress: &Progress) -> Result<Option<(Claim, Entry)>> {
        while !self.stop.load(Ordering::Relaxed) {
            match self.share.next()? {
                Next::Run(claim) => {
                    let entry = self.one(claim.run, threads, progress)?;
                    return Ok(entry.map(|entry| (claim, entry)));
                }
                // Others are at work, and perhaps do not come to the end of it. Nothing
                // tells of that but the lock.
                Next::Wait if self.share.leads() => std::thread::sleep(LOOK),
                Next::Wait | Next::Done => break,
            }
        }
        Ok(None)
    }

    /// Keeps what the threads have run, and shows what others have run besides.
    fn keep(
        &self,
        ended: &Receiver<Result<(Claim, Entry)>>,
        mut shown: BTreeSet<usize>,
        progress: &Progress,
    ) -> Result<()> {
        let found = shown.len();
        loop {
            let mut own = None;
            match ended.recv_timeout(LOOK) {
                Ok(ran) => {
                    let (claim, entry) = ran?;
                    own = Some(claim.run);
                    self.share.keep(claim, entry)?;
                }
                // Only the leader shows what others do.
                Err(RecvTimeoutError::Timeout) if !self.share.leads() => continue,
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Ok(()),
            }
            self.share.look(|entries| {
                for (&run, entry) in entries {
                    if shown.insert(run) {
                        self.show(entry, own == Some(run), shown.len() - found, progress);
                    }
                }
            })?;
        }
    }

    /// Shows that a simulation has ended, as the `nth` since the start.
    fn show(&self, entry: &Entry, is_own: bool, nth: usize, progress: &Progress) {
        let cycles = |outcome: &crate::measure::Outcome| {
            outcome.batches.iter().map(|batch| batch.cycles).sum()
        };
        // The cycles of others have not been shown as they passed.
        let shown: u64 = if is_own { entry.outcome.network().map_or(0, cycles) } else { 0 };
        let unused = self.cycles_max().saturating_sub(shown);
        let figure = entry.outcome.in_words(entry.seconds);
        progress.ended(nth, unused, &self.name(entry.run), &figure);
    }

    /// One simulation; none if the user wants to stop.
    fn one(&self, run: usize, threads: usize, progress: &Progress) -> Result<Option<Entry>> {
        let start = Instant::now();
        let what = &self.plan.runs[run];
        let mut tick = |cycles| {
            progress.cycles(cycles);
            !self.stop.load(Ordering::Relaxed)
        };
        let outcome = match &what.setup {
            Setup::Network(config) => {
                let mut simulation =
                    self.traces.simulation(config, threads).map_err(|error| anyhow!(error))?;
                measure(&mut simulation, &self.plan.experiment.stop, what.links, &mut tick)
                    .map(Outcome::Network)
            }
            Setup::Processes(config) => {
                processes::measure(config, self.references, &mut || tick(0))
                    .map_err(|error| anyhow!(error))?
                    .map(Outcome::Processes)
            }
            Setup::Rails(config) => sluice_sim::stripes::run(config, &mut || tick(0))
                .map_err(|error| anyhow!(error))?
                .map(Outcome::Rails),
        };
        Ok(outcome.map(|outcome| Entry { run, seconds: start.elapsed().as_secs_f64(), outcome }))
    }

    fn cycles_max(&self) -> u64 {
        let stop = &self.plan.experiment.stop;
        match self.plan.experiment.simulator {
            Simulator::Network => stop.warm_up_cycles + stop.max_cycles,
            // How long one takes is not known: each counts as one.
            Simulator::Processes | Simulator::Rails => 1,
        }
    }

    fn name(&self, run: usize) -> String {
        let point = self.plan.points.iter().find(|point| point.run == run);
        point.map_or(String::new(), |point| {
            let cell = self.plan.cell_name(point.cell);
            let comma = if cell.is_empty() { "" } else { ", " };
            format!("{cell}{comma}seed={}", point.seed)
        })
    }
}
