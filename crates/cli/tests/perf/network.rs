//! `sluice perf` over TCP, between processes of this host that are started as on two.

use super::{alone, positive, refusal, report};
use serde_json::Value;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How long anything may take. Far more than needed.
const PATIENCE: Duration = Duration::from_secs(60);

fn json(args: &[&str]) -> Value {
    json_over("tcp", args)
}

fn json_over(rail: &str, args: &[&str]) -> Value {
    report(rail, &[args, &["--rail", rail]].concat())
}

const QUICK: [&str; 4] = ["--iterations", "3", "--warmup", "0"];

#[test]
fn every_measurement_runs_over_tcp_and_beside_a_plain_connection() {
    let cases: [(&[&str], &str, &[u64]); 3] = [
        (&["latency", "--size", "8,300000"], "half_rtt_ns", &[1]),
        (&["bandwidth", "--size", "4K,300000", "--window", "5"], "mib_per_s", &[1]),
        (&["rate", "--size", "8", "--window", "70"], "msgs_per_s", &[1, 16, 64]),
    ];
    for (args, figure, messages_per_write) in cases {
        let report = json(&[args, &QUICK, &["--raw"]].concat());
        for row in report["rows"].as_array().expect("rows") {
            assert!(positive(&row[figure]) && row["verified"] == true, "{row}");
            let raw = row["raw"].as_array().expect("a plain connection");
            assert!(raw.iter().all(|raw| positive(&raw[figure])), "{row}");
            let counts: Vec<u64> =
                raw.iter().filter_map(|raw| raw["messages_per_write"].as_u64()).collect();
            assert_eq!(counts, messages_per_write);
        }
    }
    let flood = json(&["flood", "--messages", "2000", "--quiet", "0.05"]);
    let row = &flood["rows"][0];
    assert_eq!((&row["lost"], &row["corrupt"]), (&0.into(), &0.into()));
    assert!(row["peak_unexpected_bytes"].as_u64() <= row["unexpected_bytes_max"].as_u64());
    if std::thread::available_parallelism().is_ok_and(|cores| cores.get() >= 2) {
        let overlap = json(&["overlap", "--size", "100000", "--repetitions", "3"]);
        assert_eq!(overlap["rows"].as_array().map(Vec::len), Some(4));
        let words = ["--first", "receiver", "--side", "receive", "--progress", "thread,manual"];
        let short = ["overlap", "--size", "100000", "--repetitions", "2"];
        let overlap = json(&[&short[..], &words].concat());
        let rows = overlap["rows"].as_array().expect("rows");
        let by: Vec<&Value> = rows.iter().map(|row| &row["progress"]).collect();
        assert_eq!(by, ["manual", "thread"]);
    }
}

#[test]
fn a_message_is_timed_behind_others() {
    let hosts = ["--here", "env", "--other", "env"];
    let behind = json(&[&["behind", "--messages", "5", "--size", "100000"], &hosts[..]].concat());
    let [alone, behind] = behind["rows"].as_array().expect("rows").as_slice() else {
        panic!("two rows: {behind}")
    };
    assert_eq!((&alone["bulk_bytes"], &behind["bulk_bytes"]), (&0.into(), &100_000.into()));
    assert!(positive(&alone["rtt_us"]) && positive(&behind["rtt_us"]), "{behind}");
    assert!(behind["more_us"]["p50"].is_f64() && alone["more_us"].is_null(), "{behind}");
    assert!(behind["bulk_gbit_per_s"].as_f64().is_some_and(|rate| rate > 0.0), "{behind}");
}

/// Bytes of a process for each of 64 peers that it knows, and for each that it has a link with:
/// measured 704 and 4,800 over TCP, 640 and 1,664 over shared memory.
const PEER_BYTES_MAX: [(&str, i64, i64); 2] = [("tcp", 2048, 12_288), ("shm", 2048, 6144)];

#[test]
fn what_peers_take_is_bounded_at_each_number_of_them() {
    for (rail, known_max, connected_max) in PEER_BYTES_MAX {
        let is_within = |memory: &Value| {
            let rows = memory["rows"].as_array().expect("rows");
            let counts: Vec<&Value> = rows.iter().map(|row| &row["peers"]).collect();
            assert_eq!(counts, [2, 64]);
            // Of two, the pages that anything takes would be most of it.
            let bytes = |of: &str| rows[1][of].as_i64().expect("bytes");
            assert!(bytes("process_bytes") > 0, "{memory}");
            // The system takes pages away at times.
            bytes("known_peer_bytes") <= known_max
                && bytes("connected_peer_bytes") > 0
                && bytes("connected_peer_bytes") <= connected_max
                && bytes("busy_peer_bytes") <= connected_max
        };
        // The allocator takes a block from the system now and then: one run of three counts.
        let runs: Vec<Value> = (0..3)
            .map(|_| json_over(rail, &["memory", "--peers", "64,2"]))
            .take_while(|memory| !is_within(memory))
            .collect();
        assert!(runs.len() < 3, "{runs:#?}");
    }
}

#[test]
fn commands_start_the_processes() {
    for hosts in [&["--other", "env"][..], &["--here", "env A=1", "--other", "env B=1"]] {
        let report = json(&[&["latency", "--size", "8"], &QUICK[..], hosts].concat());
        assert!(positive(&report["rows"][0]["half_rtt_ns"]), "{report}");
    }
}

#[test]
fn a_command_that_starts_nothing_is_an_error() {
    let cases = [
        &["--other", "false"][..],
        &["--other", "no-such-command"],
        &["--here", "env", "--other", "false"],
        &["--here", "env", "--other", "no-such-command"],
        &["--here", "false", "--other", "env"],
        &["--here", "no-such-command", "--other", "env"],
    ];
    for hosts in cases {
        let error = refusal(&[&["latency", "--rail", "tcp", "--size", "8"], hosts].concat());
        assert!(error.contains("sluice: ") && error.contains("process"), "{hosts:?}: {error}");
    }
}

#[test]
fn what_does_not_go_together_is_refused() {
    let cases: [(&[&str], &str); 13] = [
        (&["latency", "--other", "env"], "other hosts go with --rail tcp"),
        (&["flood", "--other", "env"], "other hosts go with --rail tcp"),
        (&["rate", "--raw"], "--raw goes with --rail tcp only"),
        (&["latency", "--rail", "tcp", "--here", "env"], "--other"),
        (&["latency", "--rail", "tcp", "--api", "portals"], "--api portals goes with --rail shm"),
        (&["stripe", "--size", "0"], "--size from 1"),
        (&["stripe", "--fragments", "0"], "--fragments from 1"),
        (&["failover", "--trials", "0"], "1..=10000"),
        (&["latency", "--rail", "shm", "--lab-rails", "1"], "other hosts go with --rail tcp"),
        (&["latency", "--rail", "tcp", "--lab", "x", "--other", "env"], "give it or --other"),
        (&["stripe", "--lab", "x", "--lab-rails", "1"], "cannot be used with"),
        (&["behind", "--size", "0"], "--size from 1"),
        (&["memory", "--peers", "0"], "1..="),
    ];
    for (args, part) in cases {
        let error = refusal(args);
        assert!(error.contains(part), "{args:?}: {error}");
    }
}

/// A launcher whose measurement would take long. Killed when dropped.
struct Launcher(Child);

impl Launcher {
    fn start() -> Launcher {
        let mut command = Command::new(env!("CARGO_BIN_EXE_sluice"));
        command.args(["perf", "latency", "--rail", "tcp", "--size", "8", "--seconds", "300"]);
        command.args(["--here", "env", "--other", "env"]);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        Launcher(command.spawn().expect("the command starts"))
    }

    /// Both processes, once the second one is in the measurement.
    fn both(&self) -> [u32; 2] {
        let path = format!("/proc/{0}/task/{0}/children", self.0.id());
        let begin = Instant::now();
        loop {
            assert!(begin.elapsed() < PATIENCE, "the two processes do not start");
            std::thread::sleep(Duration::from_millis(10));
            let children = std::fs::read_to_string(&path).unwrap_or_default();
            let pids: Vec<u32> =
                children.split_whitespace().filter_map(|pid| pid.parse().ok()).collect();
            if let [first, second] = pids[..]
                && cpu_ticks(second) >= 10
            {
                return [first, second];
            }
        }
    }
}

impl Drop for Launcher {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What follows the name in `/proc/PID/stat`; nothing of a process that has ended.
fn stat(pid: u32) -> Vec<String> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let rest = stat.rsplit(')').next().unwrap_or_default();
    rest.split_whitespace().map(str::to_owned).collect()
}

fn cpu_ticks(pid: u32) -> u64 {
    stat(pid).get(11).and_then(|ticks| ticks.parse().ok()).unwrap_or(0)
}

/// Waits until these processes have ended, or are reaped by nobody.
fn wait_gone(pids: &[u32]) {
    let begin = Instant::now();
    while pids.iter().any(|&pid| stat(pid).first().is_some_and(|state| state != "Z")) {
        assert!(begin.elapsed() < PATIENCE, "a process lives on");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn kill(pid: u32) {
    let status = Command::new("kill").args(["-KILL", &pid.to_string()]).status().expect("kill");
    assert!(status.success());
}

#[test]
fn the_end_of_any_of_the_three_ends_the_others() {
    let _alone = alone();
    for victim in 0..3 {
        let mut launcher = Launcher::start();
        let [first, second] = launcher.both();
        kill([launcher.0.id(), first, second][victim]);
        wait_gone(&[first, second]);
        assert!(!launcher.0.wait().expect("an end").success(), "{victim}");
    }
}
