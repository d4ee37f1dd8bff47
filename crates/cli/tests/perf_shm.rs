//! `sluice perf` on one host: the buffers of a stream.

use serde_json::Value;
use std::process::{Command, Output, Stdio};
use std::sync::{Mutex, PoisonError};

/// Measurements take all cores: one at a time.
static ALONE: Mutex<()> = Mutex::new(());

fn perf(args: &[&str]) -> Output {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let mut command = Command::new(env!("CARGO_BIN_EXE_sluice"));
    command.arg("perf").args(args).stdin(Stdio::null()).output().expect("the command starts")
}

fn json(args: &[&str]) -> Value {
    let output = perf(&[args, &["--json"]].concat());
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{args:?}: {errors}");
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON and nothing else");
    assert_eq!((&report["test"], &report["rail"]), (&args[0].into(), &"shm".into()));
    report
}

fn refusal(args: &[&str]) -> String {
    let output = perf(args);
    assert!(!output.status.success(), "{args:?} was accepted");
    assert!(output.stdout.is_empty(), "{args:?} printed something all the same");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn positive(value: &Value) -> bool {
    value["p50"].as_f64().is_some_and(|figure| figure > 0.0)
}

#[test]
fn bandwidth_says_which_buffers_it_has_used() {
    let quick = ["--iterations", "3", "--warmup", "0", "--window", "5"];
    let cases: [(&[&str], &str); 5] = [
        (&[], "hot"),
        (&["--buffers", "hot"], "hot"),
        (&["--buffers", "distinct"], "distinct"),
        (&["--buffers", "cold"], "cold"),
        (&["--cold"], "cold"),
    ];
    for (words, name) in cases {
        // Eager, announced, and one of which only a few have a place.
        let args = [&["bandwidth", "--size", "4K,100000,30M"], &quick[..], words].concat();
        let report = json(&args);
        let rows = report["rows"].as_array().expect("rows");
        assert_eq!(rows.len(), 3);
        for row in rows {
            assert_eq!((&row["buffers"], &row["verified"]), (&name.into(), &true.into()), "{row}");
            assert!(positive(&row["mib_per_s"]), "{row}");
        }
    }
}

#[test]
fn buffers_that_cannot_be_are_refused() {
    let cases: [(&[&str], &str); 5] = [
        (&["bandwidth", "--buffers", "warm"], "[possible values: hot, distinct, cold]"),
        (&["bandwidth", "--buffers", "hot", "--cold"], "cannot be used with"),
        (&["bandwidth", "--cold", "--api", "portals"], "--buffers goes with --api messages"),
        (&["bandwidth", "--cold", "--raw", "--rail", "tcp"], "--buffers hot only"),
        (&["bandwidth", "--buffers", "distinct", "--size", "1G"], "give a smaller --size"),
    ];
    for (args, part) in cases {
        let error = refusal(args);
        assert!(error.contains(part), "{args:?}: {error}");
    }
}
