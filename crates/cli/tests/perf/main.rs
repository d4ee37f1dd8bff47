//! Runs `sluice perf`, one at a time, and reads what it says.

mod ends;
mod network;
mod pair;
mod portals;
mod shm;

use serde_json::Value;
use std::process::{Command, Output, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Measurements take all cores: one at a time.
static ALONE: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn perf(args: &[&str]) -> Output {
    let _alone = alone();
    let mut command = Command::new(env!("CARGO_BIN_EXE_sluice"));
    command.arg("perf").args(args).stdin(Stdio::null()).output().expect("the command starts")
}

/// The report of a measurement, which is over this rail, or over none (`None`).
fn report<'a>(rail: impl Into<Option<&'a str>>, args: &[&str]) -> Value {
    let output = perf(&[args, &["--json"]].concat());
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{args:?}: {errors}");
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON and nothing else");
    assert_eq!((&report["test"], &report["rail"]), (&args[0].into(), &rail.into().into()));
    report
}

/// What a measurement says to people.
fn table(args: &[&str]) -> String {
    let output = perf(args);
    assert!(output.status.success(), "{args:?}");
    String::from_utf8(output.stdout).expect("text")
}

/// What a measurement says that cannot be.
fn refusal(args: &[&str]) -> String {
    let output = perf(args);
    assert!(!output.status.success(), "{args:?} was accepted");
    assert!(output.stdout.is_empty(), "{args:?} printed something all the same");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn positive(value: &Value) -> bool {
    value["p50"].as_f64().is_some_and(|figure| figure > 0.0)
}
