//! `sluice sim run` and `sluice report` with experiments on simulated processes.

use serde_json::Value;
use std::fs;
use std::process::{Command, Output, Stdio};
use tempfile::TempDir;

/// An all-to-all of eight processes, then of four, under both protocols.
const TINY: &str = r#"name = "tiny"
simulator = "processes"
title = "Tiny"
seeds = [1, 2]

[base]
processes = 8

[base.network]
kind = "mesh"
dims = [4]
processes_per_node = 2

[base.flow]
protocol = "static"
slots = 12

[base.program]
pattern = "alltoall"
phases = [{ ranks = 8, repetitions = 3 }, { ranks = 4, repetitions = 3 }]
credit_groups = [4, 8]

[[sweep]]
name = "protocol"
key = "flow.protocol"
values = ["static", "dynamic"]

[[sweep]]
name = "slots"
key = "flow.slots"
values = [12, 58]

[[figure]]
title = "Overhead against slots"
x = "slots"
series = "protocol"

[[figure]]
kind = "time"
title = "Credits"
where = { slots = 12 }

[[expect]]
where = { slots = 12 }
min = 0.0
reason = "Waiting takes time."

[[expect]]
value = "delayed"
where = { protocol = "static", slots = 12 }
min = 0.5
reason = "No message goes at once."
"#;

fn sluice(folder: &TempDir, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sluice"));
    command.current_dir(folder.path()).args(args).stdin(Stdio::null());
    command.output().expect("the command starts")
}

fn folder(experiment: &str) -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("x.toml"), experiment).expect("written");
    folder
}

fn read(folder: &TempDir, name: &str) -> String {
    fs::read_to_string(folder.path().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

#[test]
fn results_are_the_same_on_any_number_of_threads_and_after_a_stop() {
    let folder = folder(TINY);
    for (out, threads) in [("one", "1"), ("two", "2")] {
        let args = ["sim", "run", "x.toml", "--out", out, "--threads", threads, "--json"];
        let output = sluice(&folder, &args);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let document: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        assert_eq!(document["expectations"][1]["holds"], true);
        assert!(document["points"][0]["figures"]["overhead"].is_number());
    }
    let results = |out: &str| {
        ["results.csv", "summary.csv", "series.csv"]
            .map(|file| read(&folder, &format!("{out}/{file}")))
    };
    let whole = results("one");
    assert_eq!(whole, results("two"));
    assert!(whole[0].starts_with("protocol,slots,seed,overhead,time_us,reference_us,delayed,"));
    assert!(whole[2].starts_with("protocol,slots,seed,repetition,ranks,min,median,max,mean\n"));
    // Six repetitions of rank 0, two groups, eight points.
    assert_eq!(whole[2].lines().count(), 1 + 6 * 2 * 8);
    // The same command goes on from a journal that was cut off.
    let journal = read(&folder, "one/journal.jsonl");
    let cut: String = journal.split_inclusive('\n').take(4).collect();
    fs::write(folder.path().join("one/journal.jsonl"), cut).expect("written");
    assert!(sluice(&folder, &["sim", "run", "x.toml", "--out", "one"]).status.success());
    assert_eq!(whole, results("one"));
}

#[test]
fn a_report_has_every_figure() {
    let folder = folder(TINY);
    assert!(sluice(&folder, &["sim", "run", "x.toml", "--out", "o"]).status.success());
    let output = sluice(&folder, &["report", "o", "--json"]);
    let document: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(document["figures"], serde_json::json!(["overhead-against-slots", "credits"]));
    let page = read(&folder, "o/report.html");
    assert!(page.contains("ranks 1-3") && page.contains("ranks 4-7"));
}

#[test]
fn errors_name_the_line_and_the_nearest_key() {
    let cases = [
        ("processes_per_node", "processes_per_nod", "x.toml:12: unknown key \"processes_per_nod\""),
        (
            "slots = 12\n",
            "slots = 12\ncredit_slots = 9\n",
            "x.toml:17: \"flow.credit_slots\" in [base]",
        ),
        ("flow.protocol", "flow.protocl", "unknown key \"protocl\""),
        ("title = \"Overhead", "y = \"overhed\"\ntitle = \"Overhead", "no column \"overhed\""),
        ("ranks = 8", "ranks = 9", "x.toml:20: \"program.phases\" in [base]: ranks"),
    ];
    for (right, wrong, said) in cases {
        let folder = folder(&TINY.replacen(right, wrong, 1));
        let output = sluice(&folder, &["sim", "run", "x.toml", "--out", "o"]);
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{wrong}");
        assert!(error.contains(said), "{wrong}: {error}");
        assert!(!folder.path().join("o").exists());
    }
}
