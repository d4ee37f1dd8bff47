//! Completions and manual pages, and what is said without any MPI.

use std::collections::BTreeSet;
use std::fs;
use std::process::{Command, Output};

fn sluice(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sluice"));
    command.args(args).env_remove("FI_PROVIDER_PATH").output().expect("the command starts")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The names of the commands that `--help` lists.
fn commands(path: &[&str]) -> Vec<String> {
    let help = text(&sluice(&[path, &["--help"]].concat()).stdout);
    let list = help.split("Commands:\n").nth(1).unwrap_or_default();
    let lines = list.lines().take_while(|line| line.starts_with("  "));
    let names = lines.filter_map(|line| line.split_whitespace().next());
    names.filter(|&name| name != "help").map(str::to_owned).collect()
}

#[test]
fn completions_know_every_command() {
    for shell in ["bash", "zsh", "fish"] {
        let output = sluice(&["completion", shell]);
        assert!(output.status.success());
        let script = text(&output.stdout);
        for name in commands(&[]) {
            assert!(script.contains(&name), "{shell} does not know {name}");
        }
    }
    assert!(!sluice(&["completion", "no-shell"]).status.success());
}

#[test]
fn every_command_has_a_manual_page_that_renders() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().to_str().expect("text");
    assert!(sluice(&["man", path]).status.success());
    let entries = fs::read_dir(dir.path()).expect("a directory");
    let pages: BTreeSet<String> =
        entries.flatten().map(|entry| text(entry.file_name().as_encoded_bytes())).collect();
    let mut expected = BTreeSet::from(["sluice.1".to_owned()]);
    for name in commands(&[]) {
        expected.insert(format!("sluice-{name}.1"));
        expected.extend(commands(&[&name]).iter().map(|inner| format!("sluice-{name}-{inner}.1")));
    }
    assert_eq!(expected.difference(&pages).count(), 0, "wanted {expected:?}, there are {pages:?}");
    assert!(expected.len() > 15 && !pages.contains("sluice-perf-peer.1"), "{pages:?}");
    let run = fs::read_to_string(dir.path().join("sluice-run.1")).expect("a page");
    assert!(run.contains(".TH") && run.contains("dry\\-run"), "{run}");
}

#[test]
fn run_says_why_nothing_was_started() {
    let refused = |args: &[&str]| {
        let output = sluice(&[&["run"], args].concat());
        assert_eq!(output.status.code(), Some(125), "{args:?}");
        assert!(output.stdout.is_empty());
        text(&output.stderr)
    };
    let absent = ["--provider-path", "/nowhere", "sh", "-c", "true"];
    assert!(refused(&absent).contains("/nowhere has no provider libsluice-fi.so"));
    assert!(refused(&["/nowhere/program"]).contains("is not there"));
    assert!(refused(&["-n", "2", "mpirun", "program"]).contains("-n is for a program"));
    let document: serde_json::Value =
        serde_json::from_str(&refused(&["--json", "/nowhere/program"])).expect("JSON");
    assert!(document["refused"].is_string());
}

#[test]
fn doctor_names_what_is_wrong_with_the_environment() {
    let output = Command::new(env!("CARGO_BIN_EXE_sluice"))
        .args(["doctor", "--json"])
        .env("FI_PROVIDER", "slucie")
        .env("FI_PROVIDER_PATH", "/nowhere")
        .output()
        .expect("the command starts");
    assert_eq!(output.status.code(), Some(1));
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let findings = document["findings"].as_array().expect("findings");
    for topic in ["FI_PROVIDER", "FI_PROVIDER_PATH"] {
        let finding = findings.iter().find(|finding| finding["topic"] == topic).expect("checked");
        assert_eq!(finding["state"], "fault", "{finding}");
        assert!(finding["remedy"].is_string(), "{finding}");
    }
    assert!(document["faults"].as_u64().is_some_and(|faults| faults >= 2));
}
