//! `sluice sim` and `sluice report` as people and programs run them.

use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// A run of a few seconds at most, with everything in it: an axis of numbers,
/// one of variants, seeds, links, figures, expectations.
const TINY: &str = r#"name = "tiny"
title = "Tiny & quick"
about = "Six by six."
seeds = [1, 2]

[stop]
warm_up_cycles = 200
batch_cycles = 200
min_cycles = 400
max_cycles = 1000

[base]
topology = { kind = "mesh", dims = [6, 6] }
routing = { kind = "minimal" }

[base.traffic]
pattern = { kind = "uniform" }
packet_flits = 4

[base.endpoint.slow]
share = 0.1
factor = 4

[[sweep]]
name = "protocol"
variant = [
  { label = "none" },
  { label = "limit 4", value = 4, set = { "endpoint.outstanding_packets" = 4 } },
  { label = "limit 8", value = 8, set = { "endpoint.outstanding_packets" = 8 } },
]

[[sweep]]
name = "load"
key = "traffic.load"
values = [0.1, 0.3]

[links]
load = 0.3

[[figure]]
title = "Throughput against the limit"
x = "protocol"
series = "load"

[[figure]]
title = "Latency against load"
x = "load"
y = "packet_latency"
panel = "protocol"

[[expect]]
where = { load = 0.1 }
min = 0.08
max = 0.12
reason = "What is offered arrives."
"#;

struct Bench {
    folder: TempDir,
}

impl Bench {
    fn new(experiment: &str) -> Bench {
        let folder = tempfile::tempdir().expect("a folder");
        fs::write(folder.path().join("x.toml"), experiment).expect("written");
        Bench { folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_sluice"));
        command.current_dir(self.folder.path()).args(args).stdin(Stdio::null());
        command
    }

    fn output(&self, args: &[&str]) -> Output {
        self.command(args).output().expect("the command starts")
    }

    fn start(&self, args: &[&str]) -> Child {
        let mut command = self.command(args);
        command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("the command starts")
    }

    fn good(&self, args: &[&str]) -> String {
        let output = self.output(args);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{args:?}: {errors}");
        String::from_utf8(output.stdout).expect("text")
    }

    fn error(&self, args: &[&str]) -> String {
        let output = self.output(args);
        assert_eq!(output.status.code(), Some(1), "{args:?}");
        assert!(output.stdout.is_empty(), "{args:?} printed something all the same");
        String::from_utf8(output.stderr).expect("text")
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    /// The files that do not depend on how long anything took.
    fn results(&self, folder: &str) -> Vec<String> {
        let files = ["results.csv", "summary.csv", "series.csv", "links.csv"];
        files.iter().map(|file| self.read(&format!("{folder}/{file}"))).collect()
    }
}

#[test]
fn results_are_the_same_on_any_number_of_threads() {
    let bench = Bench::new(TINY);
    bench.good(&["sim", "run", "x.toml", "--out", "one", "--threads", "1"]);
    bench.good(&["sim", "run", "x.toml", "--out", "two", "--threads", "2"]);
    // More threads than simulations: each of them gets several.
    bench.good(&["sim", "run", "x.toml", "--out", "many", "--threads", "30"]);
    assert_eq!(bench.results("one"), bench.results("two"));
    assert_eq!(bench.results("one"), bench.results("many"));
    let results = bench.read("one/results.csv");
    let mut lines = results.lines();
    assert!(lines.next().is_some_and(|head| head.starts_with("protocol,load,seed,accepted,")));
    assert_eq!(lines.count(), 12);
    let other = bench.good(&["sim", "run", "x.toml", "--out", "other", "--seed", "9"]);
    assert!(other.contains("Tiny & quick"));
    assert_ne!(bench.results("one")[0], bench.results("other")[0]);
}

#[test]
fn one_document_for_programs() {
    let bench = Bench::new(TINY);
    let text = bench.good(&["sim", "run", "x.toml", "--out", "o", "--json"]);
    let document: Value = serde_json::from_str(&text).expect("JSON and nothing else");
    assert_eq!(
        (&document["experiment"], &document["seeds"]),
        (&"tiny".into(), &serde_json::json!([1, 2]))
    );
    let points = document["points"].as_array().expect("points");
    assert_eq!(points.len(), 12);
    assert_eq!(points[0]["axes"]["protocol"], "none");
    assert!(points[0]["figures"]["accepted"].as_f64().is_some_and(|rate| rate > 0.08));
    assert!(document["summary"][0]["figures"]["accepted"]["half_width"].is_number());
    assert_eq!(document["expectations"][0]["holds"], true);
    let manifest: Value = serde_json::from_str(&bench.read("o/manifest.json")).expect("JSON");
    assert_eq!(manifest["experiment"], TINY);
    assert_eq!(manifest["status"][11]["status"], "done");
    assert_eq!(manifest["experiment_sha256"], document["experiment_sha256"]);
}

#[test]
fn an_expectation_that_does_not_hold_is_a_status() {
    let bench = Bench::new(&TINY.replace("min = 0.08", "min = 0.11"));
    let output = bench.output(&["sim", "run", "x.toml", "--out", "o"]);
    assert_eq!(output.status.code(), Some(3));
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("UNEXPECTED: accepted (load=0.1) is 0.1"), "{text}");
    assert!(text.contains("wanted 0.11 to 0.12\n    What is offered arrives."), "{text}");
    // Nothing is run again.
    let text = bench.good(&["sim", "run", "x.toml", "--out", "o", "--no-expect"]);
    assert!(!text.contains("expected"), "{text}");
}

/// The same with simulations that take a while.
fn slow() -> String {
    let experiment = TINY.replace("seeds = [1, 2]", "seeds = [1, 2, 3, 4]");
    experiment.replace("cycles = 400", "cycles = 30000").replace("cycles = 1000", "cycles = 30000")
}

fn wait_for_lines(path: &Path, count: usize) {
    let until = Instant::now() + Duration::from_secs(120);
    while fs::read_to_string(path).map_or(0, |text| text.lines().count()) < count {
        assert!(Instant::now() < until, "no {count} lines in {}", path.display());
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn a_run_that_ended_early_goes_on() {
    let bench = Bench::new(&slow());
    bench.good(&["sim", "run", "x.toml", "--out", "whole"]);
    for (signal, status) in [("INT", Some(130)), ("TERM", Some(130)), ("KILL", None)] {
        let args = ["sim", "run", "x.toml", "--out", signal];
        let mut child = bench.start(&args);
        wait_for_lines(&bench.path(signal).join("journal.jsonl"), 3);
        let pid = child.id().to_string();
        assert!(Command::new("kill").args(["-s", signal, &pid]).status().expect("kill").success());
        assert_eq!(child.wait().expect("it ends").code(), status, "{signal}");
        if signal != "KILL" {
            let rows = bench.read(&format!("{signal}/results.csv")).lines().count();
            assert!((2..25).contains(&rows), "{rows} rows after {signal}");
            assert!(bench.good(&["report", signal]).contains("report.html"));
            assert!(bench.read(&format!("{signal}/report.html")).contains("Not finished"));
        }
        bench.good(&args);
        assert_eq!(bench.results("whole"), bench.results(signal), "{signal}");
    }
}

#[test]
fn processes_share_an_experiment_and_one_is_killed() {
    let bench = Bench::new(&slow());
    bench.good(&["sim", "run", "x.toml", "--out", "whole"]);
    let args = ["sim", "run", "x.toml", "--out", "shared", "--threads", "1"];
    // The first leads; the others come when it has begun.
    let mut killed = bench.start(&args);
    wait_for_lines(&bench.path("shared/journal.jsonl"), 2);
    let mut others: Vec<Child> = (0..2).map(|_| bench.start(&args)).collect();
    wait_for_lines(&bench.path("shared/journal-1.jsonl"), 2);
    killed.kill().expect("it runs");
    assert_eq!(killed.wait().expect("it ends").code(), None);
    for other in &mut others {
        assert_eq!(other.wait().expect("it ends").code(), Some(0));
    }
    assert_eq!(bench.results("whole"), bench.results("shared"));
    // Each simulation was kept once, by whoever ran it.
    // One that came late may have gone on with the journal of the one that was killed.
    let journals = ["journal.jsonl", "journal-1.jsonl", "journal-2.jsonl"]
        .map(|name| format!("shared/{name}"))
        .into_iter()
        .filter(|name| bench.path(name).exists());
    let lines: Vec<usize> =
        journals.map(|name| bench.read(&name).matches("\"run\":").count()).collect();
    assert_eq!(lines.iter().sum::<usize>(), 24, "{lines:?}");
    assert!(!bench.path("shared/claims").exists());
}

#[test]
fn a_run_whose_journal_is_cut_off_anywhere_goes_on() {
    let bench = Bench::new(TINY);
    let run = ["sim", "run", "x.toml", "--out", "o"];
    bench.good(&run);
    let (whole, journal) = (bench.results("o"), bench.read("o/journal.jsonl"));
    for share in [0, 1, 13, 50, 77, 99] {
        let cut = journal.len() * share / 100;
        fs::write(bench.path("o/journal.jsonl"), &journal[..cut]).expect("written");
        fs::remove_file(bench.path("o/results.csv")).expect("removed");
        bench.good(&run);
        assert_eq!(bench.results("o"), whole, "cut at {cut}");
    }
}

#[test]
fn a_folder_with_files_of_others_is_left_alone() {
    let bench = Bench::new(TINY);
    fs::create_dir(bench.path("home")).expect("made");
    fs::write(bench.path("home/precious.txt"), "mine").expect("written");
    let error = bench.error(&["sim", "run", "x.toml", "--out", "home"]);
    assert!(error.contains("home holds other files") && error.contains("--out"), "{error}");
    assert_eq!(fs::read_dir(bench.path("home")).expect("read").count(), 1);
}

#[test]
fn a_folder_of_something_else_is_refused() {
    let bench = Bench::new(TINY);
    bench.good(&["sim", "run", "x.toml", "--out", "o"]);
    let error = bench.error(&["sim", "run", "x.toml", "--out", "o", "--seed", "5"]);
    assert!(error.contains("o cannot be resumed; choose another --out"), "{error}");
    fs::write(
        bench.path("x.toml"),
        TINY.replace("0.3]", "0.2]").replace("load = 0.3", "load = 0.2"),
    )
    .expect("written");
    let error = bench.error(&["sim", "run", "x.toml", "--out", "o"]);
    assert!(error.contains("another experiment, or of this one before it was changed"), "{error}");
}

#[test]
fn errors_name_the_thing() {
    let bench = Bench::new(&TINY.replace("packet_flits", "packet_flit"));
    let run = ["sim", "run", "x.toml", "--out", "o"];
    assert_eq!(
        bench.error(&run),
        "sluice: x.toml:18: unknown key \"packet_flit\" in [base.traffic]; did you mean \"packet_flits\"?\n"
    );
    assert!(!bench.path("o").exists(), "nothing is made for a wrong file");
    let error = bench.error(&["sim", "run", "rdrp-fig7", "--out", "o"]);
    let said = "sluice: there is no file rdrp-fig7 and no experiment of that name; did you mean \"rdrp-fig";
    assert!(error.starts_with(said) && error.contains("see `sluice sim list`"), "{error}");
    let error = bench.error(&["report", "nothing"]);
    assert!(error.contains("nothing holds no results of `sluice sim run`"), "{error}");
}

#[test]
fn what_the_simulator_refuses_has_its_line() {
    let bench = Bench::new(&TINY.replace("values = [0.1, 0.3]", "values = [0.1, 0.3, 7.0]"));
    let error = bench.error(&["sim", "run", "x.toml", "--out", "o"]);
    assert!(error.starts_with("sluice: x.toml:35: \"traffic.load\" in [base]: "), "{error}");
}

#[test]
fn a_trace_is_beside_its_experiment() {
    let experiment = TINY
        .replace("{ kind = \"uniform\" }", "{ kind = \"trace\", path = \"t.trace\" }")
        .replace("min = 0.08", "min = 0.0");
    let bench = Bench::new(&experiment);
    let run = ["sim", "run", "x.toml", "--out", "o"];
    assert!(bench.error(&run).contains("cannot read the trace t.trace"));
    fs::write(bench.path("t.trace"), "0 1 2 8\n0 3 99 8\n").expect("written");
    let error = bench.error(&run);
    assert!(
        error.contains("x.toml:17: \"traffic.pattern.path\" in [base]: t.trace: line 2"),
        "{error}"
    );
    fs::write(bench.path("t.trace"), "300 1 2 8\n300 3 4 8\n").expect("written");
    bench.good(&run);
    // Another trace is another experiment.
    fs::write(bench.path("t.trace"), "300 1 2 8\n").expect("written");
    assert!(bench.error(&run).contains("cannot be resumed"));
}

#[test]
fn the_experiments_are_listed() {
    let bench = Bench::new(TINY);
    let document: Value =
        serde_json::from_str(&bench.good(&["sim", "list", "--json"])).expect("JSON");
    let experiments = document["experiments"].as_array().expect("experiments");
    let fig5 = experiments.iter().find(|item| item["name"] == "rdrp-fig5").expect("figure 5");
    assert_eq!(fig5["nodes"], 5256);
    assert!(bench.good(&["sim", "list"]).contains("rdrp-fig5-small"));
}

#[test]
fn a_report_has_every_figure() {
    let bench = Bench::new(TINY);
    bench.good(&["sim", "run", "x.toml", "--out", "o"]);
    let document: Value =
        serde_json::from_str(&bench.good(&["report", "o", "--json"])).expect("JSON");
    let names: Vec<&str> =
        document["figures"].as_array().expect("figures").iter().filter_map(Value::as_str).collect();
    assert_eq!(
        names,
        [
            "throughput-against-the-limit",
            "latency-against-load-protocol-none",
            "latency-against-load-protocol-limit-4",
            "latency-against-load-protocol-limit-8",
            "throughput-over-time",
            "load-of-the-links-protocol-none-load-0-3",
            "load-of-the-links-protocol-limit-4-load-0-3",
            "load-of-the-links-protocol-limit-8-load-0-3",
        ]
    );
    let page = bench.read("o/report.html");
    for name in names {
        let svg = bench.read(&format!("o/{name}.svg"));
        assert!(svg.contains("role=\"img\"") && svg.contains("<title>"), "{name}");
        assert!(page.contains(&svg), "{name} is not in the page");
    }
    assert!(page.contains("Tiny &amp; quick") && page.contains("✓ holds"));
    assert!(!page.contains("src=") && !page.contains("href=\"http"), "the page fetches something");
}

#[test]
fn validate_and_bench_have_their_shape() {
    let bench = Bench::new(TINY);
    let args = ["sim", "validate", "--only", "mesh8x8_dor_uniform_0.10", "--json"];
    let document: Value = serde_json::from_slice(&bench.output(&args).stdout).expect("JSON");
    let row = &document["rows"][0];
    assert_eq!(
        (&row["case"], &row["figure"]),
        (&"mesh8x8_dor_uniform_0.10".into(), &"accepted".into())
    );
    assert!(row["ours"].is_number() && row["theirs"].is_number() && row["agrees"].is_boolean());
    assert!(bench.error(&["sim", "validate", "--only", "ring"]).contains("no case has \"ring\""));
    let text = bench.good(&["sim", "bench", "--cycles", "20", "--threads", "1", "--json"]);
    let document: Value = serde_json::from_str(&text).expect("JSON");
    let rows = document["rows"].as_array().expect("rows");
    assert_eq!((&rows[0]["load"], &rows[1]["load"]), (&"low".into(), &"saturated".into()));
    for row in rows {
        for key in ["cycles_per_s", "flit_hops_per_s", "ns_per_flit_hop", "peak_rss_bytes"] {
            assert!(row[key].as_f64().is_some_and(|figure| figure > 0.0), "{row}");
        }
    }
}
