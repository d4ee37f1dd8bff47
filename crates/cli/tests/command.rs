//! The command as people and programs run it.

use serde_json::Value;
use std::fs;
use std::io::Read;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Measurements take two cores each: one at a time.
static ALONE: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    // A test that failed leaves nothing behind.
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn sluice(args: &[&str]) -> Output {
    let _alone = alone();
    Command::new(env!("CARGO_BIN_EXE_sluice")).args(args).output().expect("the command starts")
}

fn json(args: &[&str]) -> Value {
    let output = sluice(args);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{args:?}: {errors}");
    serde_json::from_slice(&output.stdout).expect("JSON and nothing else")
}

fn refusal(args: &[&str]) -> String {
    let output = sluice(args);
    assert!(!output.status.success(), "{args:?} was accepted");
    assert!(output.stdout.is_empty(), "{args:?} printed something all the same");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn info_is_json() {
    let info = json(&["info", "--json"]);
    assert_eq!(info["rails"][0]["name"], "shm");
    assert_eq!(info["rails"][1]["name"], "tcp");
    for rail in info["rails"].as_array().expect("rails") {
        assert!(rail["usable"].is_boolean() && rail["detail"].is_string(), "{rail}");
    }
    for probe in info["probes"].as_array().expect("probes") {
        assert!(probe["name"].is_string(), "{probe}");
        assert!(probe["status"] == "ok" || probe["status"] == "refused", "{probe}");
        assert!(probe["detail"].is_string(), "{probe}");
    }
    assert!(info["memory"]["unexpected_bytes_max"].as_u64().is_some_and(|bytes| bytes > 0));
    assert!(info["memory"]["idle_peer_bytes"].as_u64().is_some_and(|bytes| bytes < 4096));
    assert!(info["memory"]["mailbox_bytes"].as_u64().is_some_and(|bytes| bytes > 0));
    assert_eq!(info["version"], env!("CARGO_PKG_VERSION"));
}

#[test]
fn info_is_text() {
    let output = sluice(&["info"]);
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).expect("text");
    for part in
        ["rails", "probes", "memory of one process", "unexpected messages", "network devices"]
    {
        assert!(text.contains(part), "no {part:?} in {text}");
    }
}

/// Every network namespace has a loopback device.
#[test]
fn info_shows_which_network_devices_are_used_and_why() {
    let said = |devices: &str, args: &[&str]| {
        let mut sluice = Command::new(env!("CARGO_BIN_EXE_sluice"));
        sluice.args(["info", "--json"]).args(args).env("FI_SLUICE_DEVICES", devices);
        let output = sluice.output().expect("the command starts");
        serde_json::from_slice::<Value>(&output.stdout).expect("JSON and nothing else")
    };
    let device = |info: &Value, name: &str| {
        let devices = info["network_devices"].as_array().expect("devices").iter();
        devices.into_iter().find(|device| device["name"] == name).cloned().expect("it is there")
    };
    let info = said("^lo,^no-such-device", &["--host", "127.0.0.1"]);
    let lo = device(&info, "lo");
    assert_eq!((&lo["used"], &lo["kind"]), (&false.into(), &"loopback".into()));
    assert_eq!(lo["reason"], "excluded by ^lo");
    let warning = info["warnings"][0].as_str().expect("a warning");
    assert_eq!(warning, "^no-such-device of FI_SLUICE_DEVICES fits no network device");
    assert_eq!(info["host"]["host"], "127.0.0.1");
    let named = said("lo", &[]);
    let devices = named["network_devices"].as_array().expect("devices");
    assert!(devices.iter().all(|device| device["used"] == false || device["name"] == "lo"));
    let error = said("no-such-device", &[]);
    let error = error["network_devices"]["error"].as_str().expect("an error");
    assert!(error.contains("no-such-device") && error.contains("lo ("), "{error}");
    // Too long to be looked for anywhere.
    let refused = refusal(&["info", "--host", &"x".repeat(300)]);
    assert!(refused.contains("cannot find the addresses of xxx"), "{refused}");
}

#[test]
fn info_and_doctor_look_at_the_directory_that_is_set() {
    let dir = tempfile::tempdir().expect("a directory");
    let said = |command: &str, shm_dir: &std::path::Path| {
        let mut sluice = Command::new(env!("CARGO_BIN_EXE_sluice"));
        let output = sluice.args([command, "--json"]).env("FI_SLUICE_SHM_DIR", shm_dir).output();
        let output = output.expect("the command starts");
        serde_json::from_slice::<Value>(&output.stdout).expect("JSON and nothing else")
    };
    let info = said("info", dir.path());
    assert!(info["memory"]["mailbox_bytes"].is_number(), "{info}");
    assert!(info["probes"].to_string().contains(dir.path().to_str().expect("text")), "{info}");
    let missing = said("info", &dir.path().join("missing"));
    let error = missing["memory"]["error"].as_str().expect("an error");
    assert!(error.contains("missing/sluice-") && error.contains("FI_SLUICE_SHM_DIR"), "{error}");
    let relative = said("info", std::path::Path::new("relative"));
    assert!(relative["warnings"][0].as_str().is_some_and(|it| it.contains("=relative is ignored")));
    let doctor = said("doctor", &dir.path().join("missing"));
    let findings = doctor["findings"].as_array().expect("findings");
    let rail = findings.iter().find(|found| found["topic"] == "shared-memory rail");
    assert_eq!(rail.expect("it is checked")["state"], "fault");
}

/// The command opens a rail of its own, which removes what it finds there.
#[test]
fn doctor_counts_leftovers_before_it_removes_them() {
    let dir = tempfile::tempdir().expect("a directory");
    let uid = fs::metadata(dir.path()).expect("it is there").uid();
    let own = dir.path().join(format!("sluice-{uid}"));
    fs::DirBuilder::new().mode(0o700).create(&own).expect("made");
    for name in ["card-1", "1-0-0000000000000001.seg"] {
        fs::write(own.join(name), "").expect("written");
    }
    let mut sluice = Command::new(env!("CARGO_BIN_EXE_sluice"));
    let output = sluice.args(["doctor", "--json"]).env("FI_SLUICE_SHM_DIR", dir.path()).output();
    let doctor: Value =
        serde_json::from_slice(&output.expect("the command starts").stdout).expect("JSON");
    let findings = doctor["findings"].as_array().expect("findings");
    let found = findings.iter().find(|found| found["topic"] == "leftovers").expect("it is checked");
    assert_eq!(found["state"], "warning");
    let detail = found["detail"].as_str().expect("text");
    assert!(detail.starts_with("1 mailbox files and 1 cards of ended"), "{detail}");
}

#[test]
fn latency_has_its_shape() {
    let report = json(&[
        "perf",
        "latency",
        "--size",
        "8",
        "--seconds",
        "0.05",
        "--warmup",
        "0.01",
        "--json",
    ]);
    assert_eq!(report["test"], "latency");
    assert_eq!(report["rail"], "shm");
    let rows = report["rows"].as_array().expect("rows");
    assert_eq!(rows.len(), 1);
    assert_eq!(rows[0]["size"], 8);
    let figure = |key| rows[0]["half_rtt_ns"][key].as_f64().expect("a figure");
    assert!(figure("min") > 0.0);
    assert!(figure("min") <= figure("p50") && figure("p50") <= figure("p99"));
}

#[test]
fn bandwidth_has_its_shape() {
    // Eager, announced, and far longer than any mailbox.
    let report = json(&[
        "perf",
        "bandwidth",
        "--size",
        "4K,64K,8M",
        "--iterations",
        "2",
        "--warmup",
        "0",
        "--window",
        "4",
        "--json",
    ]);
    assert_eq!(report["test"], "bandwidth");
    let rows = report["rows"].as_array().expect("rows");
    let sizes: Vec<u64> = rows.iter().filter_map(|row| row["size"].as_u64()).collect();
    assert_eq!(sizes, [4096, 65536, 8 << 20]);
    for row in rows {
        assert!(row["mib_per_s"]["p50"].as_f64().is_some_and(|rate| rate > 0.0), "{row}");
        assert_eq!(row["samples"], 2, "{row}");
        assert_eq!(row["verified"], true, "{row}");
    }
}

#[test]
fn bandwidth_without_direct_reads() {
    let report = json(&[
        "perf",
        "bandwidth",
        "--size",
        "100K",
        "--iterations",
        "2",
        "--warmup",
        "0",
        "--window",
        "4",
        "--bulk",
        "ring",
        "--json",
    ]);
    assert_eq!(report["bulk"], "ring");
    assert!(report["rows"][0]["mib_per_s"]["p50"].as_f64().is_some_and(|rate| rate > 0.0));
}

#[test]
fn rate_has_its_shape() {
    let report = json(&["perf", "rate", "--size", "8", "--seconds", "0.05", "--json"]);
    assert_eq!(report["test"], "rate");
    assert_eq!(report["rows"][0]["size"], 8);
    assert!(report["rows"][0]["msgs_per_s"]["p50"].as_f64().is_some_and(|rate| rate > 0.0));
}

#[test]
fn a_flood_is_bounded_and_complete() {
    for (size, credits, unexpected) in [
        ("1K", "dynamic", "4M"),
        ("1K", "static", "64K"),
        ("0", "dynamic", "4K"),
        ("20M", "static", "4K"),
    ] {
        let messages = if size == "20M" { "3" } else { "3000" };
        let report = json(&[
            "perf",
            "flood",
            "--messages",
            messages,
            "--size",
            size,
            "--credits",
            credits,
            "--unexpected",
            unexpected,
            "--quiet",
            "0.05",
            "--json",
        ]);
        let row = &report["rows"][0];
        assert_eq!(row["messages"].as_u64(), messages.parse().ok());
        assert_eq!((row["lost"].as_u64(), row["corrupt"].as_u64()), (Some(0), Some(0)));
        let (peak, bound) = (&row["peak_unexpected_bytes"], &row["unexpected_bytes_max"]);
        assert!(peak.as_u64() > Some(0) && peak.as_u64() <= bound.as_u64(), "{row}");
        assert!(row["peak_rss_bytes"].as_u64() > Some(0) && row["seconds"].as_f64() > Some(0.0));
    }
    let error = refusal(&["perf", "flood", "--unexpected", "100"]);
    assert!(error.contains("data slots"), "{error}");
}

/// Also while its process computes, where the system lets its memory be reached.
#[test]
fn perf_works_on_the_memory_of_another_process() {
    for (test, ops) in [("rma", &["write", "read"][..]), ("atomic", &["sum", "fetch", "swap"])] {
        let report = json(&["perf", test, "--size", "8", "--seconds", "0.02", "--json"]);
        let rows = report["rows"].as_array().expect("rows");
        let found: Vec<_> = rows.iter().filter_map(|row| row["op"].as_str()).collect();
        let wanted: Vec<_> = ops.iter().flat_map(|op| [*op; 2]).collect();
        assert_eq!(found, wanted, "calls and computes");
        for row in rows {
            assert!(row["us"]["p50"].as_f64() > Some(0.0) && row["per_s"].as_f64() > Some(0.0));
        }
    }
    let error = refusal(&["perf", "atomic", "--size", "12"]);
    assert!(error.contains("whole items of 8 bytes"), "{error}");
}

#[test]
fn overlap_has_its_shape() {
    let args = ["perf", "overlap", "--size", "64K,300000", "--repetitions", "3", "--json"];
    if std::thread::available_parallelism().is_ok_and(|cores| cores.get() < 2) {
        assert!(refusal(&args).contains("two cores"));
        return;
    }
    for bulk in ["auto", "ring"] {
        let report = json(&[&args[..], &["--bulk", bulk]].concat());
        assert_eq!(report["test"], "overlap");
        let cases: Vec<String> = report["rows"]
            .as_array()
            .expect("rows")
            .iter()
            .map(|row| {
                let overlap = row["overlap_pct"].as_f64().expect("a figure");
                assert!((0.0..=100.0).contains(&overlap), "{row}");
                assert!(row["comm_us"].as_f64() > Some(0.0) && row["samples"] == 3, "{row}");
                let text = |key: &str| row[key].as_str().expect("a name");
                let is_first = (text("first") == "sender") == (text("side") == "send");
                assert_eq!(row["target_pct"].is_number(), is_first, "{row}");
                format!("{} {} {}", row["size"], text("first"), text("side"))
            })
            .collect();
        let expected: Vec<String> = [65536, 300_000]
            .iter()
            .flat_map(|size| {
                ["receiver receive", "sender send", "sender receive", "receiver send"]
                    .map(|case| format!("{size} {case}"))
            })
            .collect();
        assert_eq!(cases, expected);
    }
}

#[test]
fn pace_has_its_shape() {
    let report = json(&[
        "perf",
        "pace",
        "--sink-mib-per-s",
        "100",
        "--size",
        "256K",
        "--window",
        "4",
        "--rounds",
        "1",
        "--seconds",
        "0.05",
        "--json",
    ]);
    assert_eq!((&report["test"], &report["sink_mib_per_s"]), (&"pace".into(), &100.into()));
    let rows = report["rows"].as_array().expect("rows");
    let names = rows.iter().map(|row| (row["receiver"].as_str(), row["flow"].as_str()));
    let expected = [("same", "fast"), ("same", "slow"), ("other", "fast"), ("other", "slow")];
    assert!(names.eq(expected.map(|(receiver, flow)| (Some(receiver), Some(flow)))), "{report}");
    for row in rows {
        for key in ["alone_mib_per_s", "shared_mib_per_s", "kept_pct"] {
            assert!(row[key].is_number(), "{row}");
        }
    }
}

#[test]
fn messages_without_bytes() {
    let report = json(&["perf", "latency", "--size", "0", "--iterations", "10", "--json"]);
    assert_eq!(report["rows"][0]["samples"], 10);
    let error = refusal(&["perf", "bandwidth", "--size", "0"]);
    assert!(error.contains("--size from 1"), "{error}");
    for test in ["overlap", "pace"] {
        assert!(refusal(&["perf", test, "--size", "0"]).contains("--size from 1"));
    }
}

/// Quick, through libportals.
fn portals(args: &[&str]) -> Value {
    let quick = ["--api", "portals", "--iterations", "3", "--warmup", "0", "--json"];
    let report = json(&[&["perf"], args, &quick].concat());
    assert_eq!((&report["test"], &report["api"]), (&args[0].into(), &"portals".into()));
    for row in report["rows"].as_array().expect("rows") {
        assert_eq!((&row["samples"], &row["verified"]), (&3.into(), &true.into()), "{row}");
    }
    report
}

fn positive(value: &Value) -> bool {
    value["p50"].as_f64().is_some_and(|figure| figure > 0.0)
}

#[test]
fn portals_latency_has_its_shape() {
    for ni in ["matching", "nonmatching"] {
        let report = portals(&["latency", "--ni", ni]);
        assert_eq!(report["ni"], ni);
        let rows = report["rows"].as_array().expect("rows");
        let sizes = [0, 1, 8, 64, 512, 4096, 65536, 1 << 20];
        assert_eq!(rows.len(), 2 * sizes.len());
        for (row, size) in rows.iter().zip(sizes.iter().cycle()) {
            assert_eq!(row["size"], *size, "{row}");
        }
        for row in &rows[..sizes.len()] {
            assert!(row["op"] == "put" && positive(&row["half_rtt_ns"]), "{row}");
        }
        for row in &rows[sizes.len()..] {
            assert!(row["op"] == "get" && positive(&row["rtt_ns"]), "{row}");
            assert!(row["half_rtt_ns"].is_null(), "{row}");
        }
    }
}

#[test]
fn portals_latency_of_one_operation() {
    for op in ["put", "get"] {
        let report = portals(&["latency", "--op", op, "--size", "8,5000"]);
        let rows = report["rows"].as_array().expect("rows");
        assert_eq!(rows.len(), 2);
        assert!(rows.iter().all(|row| row["op"] == op), "{report}");
    }
}

#[test]
fn portals_rate_has_its_shape() {
    let report = portals(&["rate"]);
    assert_eq!((&report["window"], &report["ni"]), (&64.into(), &"matching".into()));
    let rows = report["rows"].as_array().expect("rows");
    assert_eq!(rows.len(), 1);
    assert!(rows[0]["op"] == "put" && rows[0]["size"] == 8 && positive(&rows[0]["msgs_per_s"]));
}

#[test]
fn portals_bandwidth_has_its_shape() {
    let report = portals(&["bandwidth", "--window", "3"]);
    assert_eq!(report["window"], 3);
    let rows = report["rows"].as_array().expect("rows");
    let sizes: Vec<u64> = rows.iter().filter_map(|row| row["size"].as_u64()).collect();
    assert_eq!(sizes, [16 << 10, 64 << 10, 1 << 20, 4 << 20]);
    assert!(rows.iter().all(|row| positive(&row["mib_per_s"])), "{report}");
}

#[test]
fn portals_is_a_table() {
    let args = ["perf", "latency", "--api", "portals", "--size", "8", "--iterations", "3"];
    let output = sluice(&args);
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).expect("text");
    for part in ["libportals, matching interface", "op  size", "put   8 B", "get   8 B"] {
        assert!(text.contains(part), "no {part:?} in {text}");
    }
}

#[test]
fn options_of_the_other_api_are_refused() {
    let rows: [(&[&str], &str); 6] = [
        (&["latency", "--op", "get"], "--op goes with --api portals only"),
        (&["latency", "--ni", "matching"], "--ni goes with --api portals only"),
        (&["rate", "--api", "portals", "--bulk", "ring"], "--bulk goes with --api messages only"),
        (&["rate", "--api", "portals", "--op", "put"], "unexpected argument '--op'"),
        (&["rate", "--api", "sockets"], "[possible values: messages, portals]"),
        (&["bandwidth", "--api", "portals", "--size", "0"], "--size from 1"),
    ];
    for (args, part) in rows {
        let error = refusal(&[&["perf"], args].concat());
        assert!(error.contains(part), "{args:?}: {error}");
    }
}

#[test]
fn match_has_its_shape() {
    let report = json(&["perf", "match", "--depth", "1", "--depth", "50,3", "--json"]);
    assert_eq!(report["test"], "match");
    let rows = report["rows"].as_array().expect("rows");
    let cases: Vec<String> = rows
        .iter()
        .map(|row| {
            let text = |key: &str| row[key].as_str().expect("a name");
            format!("{} {} {} {}", text("queue"), text("order"), text("match"), row["depth"])
        })
        .collect();
    let mut expected = Vec::new();
    for queue in ["posted", "unexpected"] {
        for order in ["in", "out"] {
            for kind in ["exact", "masked", "wildcard"] {
                expected.extend([1, 50, 3].map(|depth| format!("{queue} {order} {kind} {depth}")));
            }
        }
    }
    assert_eq!(cases, expected);
    for row in rows {
        let figure = |key| row["ns_per_match"][key].as_f64().expect("a figure");
        assert!(figure("p50") > 0.0 && figure("p50") <= figure("p99"), "{row}");
        assert!(row["plain_ns"].as_f64().is_some_and(|ns| ns > 0.0), "{row}");
        assert_eq!(row["plain_target_ns"].is_number(), row["depth"] == 1, "{row}");
        assert_eq!(row["verified"], true, "{row}");
    }
}

#[test]
fn match_is_a_table_of_the_queue_asked_for() {
    let output = sluice(&["perf", "match", "--depth", "1,20", "--queue", "unexpected"]);
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).expect("text");
    let lines = |part: &str| text.lines().filter(|line| line.trim().starts_with(part)).count();
    assert_eq!((lines("unexpected"), lines("posted")), (12, 0), "{text}");
    assert!(text.contains("/ depth 1"), "{text}");
}

#[test]
fn bad_arguments_are_told_the_good_ones() {
    let rows: [(&[&str], &str); 13] = [
        (&["perf", "latency", "--size", "big"], "give bytes from 0 to 1073741824"),
        (&["perf", "latency", "--size", "2G"], "give bytes from 0 to 1073741824"),
        (&["perf", "latency", "--rail", "carrier-pigeon"], "[possible values: shm, tcp]"),
        (&["perf", "latency", "--seconds", "-1"], "give seconds from 0 to 3600"),
        (&["perf", "latency", "--cores", "0,99999"], "cores that may be used"),
        (&["perf", "rate", "--window", "0"], "1..=4096"),
        (&["perf", "match", "--depth", "0"], "give elements from 1 to 1000000"),
        (&["perf", "match", "--depth", "-5"], "give elements from 1 to 1000000"),
        (&["perf", "match", "--depth", "1,deep"], "'deep' is not a depth"),
        (&["perf", "overlap", "--compute", "-1"], "give times from 0.1 to 100"),
        (&["perf", "overlap", "--sizes", "1M,big"], "give bytes from 0 to 1073741824"),
        (&["perf", "pace", "--sink-mib-per-s", "0"], "1..=1000000"),
        (&["perf", "match", "--queue", "bus"], "[possible values: posted, unexpected, both]"),
    ];
    for (args, part) in rows {
        let error = refusal(args);
        assert!(error.contains(part), "{args:?}: {error}");
    }
}

#[test]
fn the_second_process_is_not_run_by_hand() {
    let error = refusal(&["perf-peer", "--parent", "1", "--bulk", "auto"]);
    assert!(error.contains("not run by hand"), "{error}");
}

/// The processor time that a process has used in user mode, in clock ticks.
fn cpu_ticks(stat: &str) -> u64 {
    let stat = std::fs::read_to_string(stat).unwrap_or_default();
    // The name, in parentheses, may hold anything; what follows is numbers.
    let numbers = stat.rsplit(')').next().unwrap_or_default();
    numbers.split_whitespace().nth(11).and_then(|ticks| ticks.parse().ok()).unwrap_or(0)
}

/// A measurement that would take long. Killed when dropped.
struct LongRun {
    first: Child,
    second_pid: u32,
}

impl LongRun {
    fn start(more: &[&str]) -> LongRun {
        // Whoever runs the tests may ignore interrupts, in a shell's background
        // for instance; a person at a terminal does not.
        let first = Command::new("env")
            .arg("--default-signal=INT")
            .arg(env!("CARGO_BIN_EXE_sluice"))
            .args(["perf", "latency", "--size", "8", "--seconds", "60"])
            .args(more)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the command starts");
        let mut run = LongRun { first, second_pid: 0 };
        let path = format!("/proc/{0}/task/{0}/children", run.first.id());
        let until = Instant::now() + Duration::from_secs(20);
        while run.second_pid == 0 {
            assert!(Instant::now() < until, "no second process");
            std::thread::sleep(Duration::from_millis(10));
            let children = std::fs::read_to_string(&path).unwrap_or_default();
            if let Some(second) = children.split_whitespace().next() {
                run.second_pid = second.parse().expect("a pid");
            }
        }
        // Well into the test, not at its door: the second process has polled for
        // a while.
        let stat = format!("/proc/{}/stat", run.second_pid);
        while cpu_ticks(&stat) < 30 {
            assert!(Instant::now() < until, "the second process does nothing");
            std::thread::sleep(Duration::from_millis(10));
        }
        run
    }

    /// How the command ended, and what it said.
    fn end(&mut self) -> (bool, String) {
        let status = self.first.wait().expect("an end");
        let mut errors = String::new();
        let stderr = self.first.stderr.as_mut().expect("piped");
        stderr.read_to_string(&mut errors).expect("text");
        (status.success(), errors)
    }
}

impl Drop for LongRun {
    fn drop(&mut self) {
        let _ = self.first.kill();
        let _ = self.first.wait();
    }
}

fn kill(signal: &str, pid: u32) {
    let status = Command::new("kill").args([signal, &pid.to_string()]).status().expect("kill");
    assert!(status.success());
}

/// Whether a process is there and not merely one that nobody has reaped.
fn lives(pid: u32) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/stat"))
        .is_ok_and(|stat| !stat.rsplit(')').next().unwrap_or("").trim_start().starts_with('Z'))
}

#[test]
fn a_second_process_that_dies_ends_the_command() {
    let _alone = alone();
    for more in [&[][..], &["--api", "portals"], &["--api", "portals", "--op", "get"]] {
        let mut run = LongRun::start(more);
        let killed = Instant::now();
        kill("-KILL", run.second_pid);
        let (success, errors) = run.end();
        assert!(killed.elapsed() < Duration::from_secs(10));
        assert!(!success);
        assert!(errors.contains("the second process ended"), "{more:?}: {errors}");
    }
}

#[test]
fn an_interrupted_command_takes_the_second_process_with_it() {
    let _alone = alone();
    for (signal, more) in [("-INT", &[][..]), ("-KILL", &[]), ("-KILL", &["--api", "portals"])] {
        let mut run = LongRun::start(more);
        kill(signal, run.first.id());
        let (success, _) = run.end();
        assert!(!success);
        let until = Instant::now() + Duration::from_secs(10);
        while lives(run.second_pid) {
            assert!(Instant::now() < until, "{signal}: the second process lives on");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

#[test]
fn a_swarm_is_the_same_on_any_number_of_threads() {
    let with = |threads: &str| {
        let swarm = ["sim", "swarm", "--seeds", "0..12", "--json", "--threads", threads];
        let output = sluice(&swarm);
        assert!(output.status.success(), "{output:?}");
        let mut found: serde_json::Value =
            serde_json::from_slice(&output.stdout).expect("a JSON document");
        found["seconds"] = 0.into();
        found
    };
    let one = with("1");
    assert_eq!((&one["seeds"], &one["failed"]), (&12.into(), &0.into()));
    assert_eq!(one, with("3"));
}

#[test]
fn a_swarm_of_no_seeds_is_refused() {
    let output = sluice(&["sim", "swarm", "--seeds", "5..5"]);
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn a_seed_can_be_looked_at() {
    let show = |args: &[&str]| {
        let output = sluice(&[&["sim", "trace", "3"], args].concat());
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).expect("text")
    };
    let ladder = show(&[]);
    assert!(ladder.contains("send #") && ladder.contains("all well"), "{ladder}");
    assert!(ladder.contains("►") && ladder.contains("eager"), "{ladder}");
    assert!(show(&["--raw"]).contains("sends #"));
    let nothing = show(&["--keep", "faults=/ops="]);
    assert!(nothing.contains("seed 3: 0 messages"), "{nothing}");
    assert_eq!(sluice(&["sim", "trace", "3", "--keep", "nothing"]).status.code(), Some(2));
    let nothing = show(&["--portals", "--keep", "calls=/faults="]);
    assert!(nothing.contains("seed 3: 0 operations"), "{nothing}");
    let ops = sluice(&["sim", "trace", "3", "--portals", "--keep", "ops=0.1"]);
    assert_eq!(ops.status.code(), Some(2));
}

#[test]
fn a_world_that_is_well_cannot_be_shrunk() {
    for args in [&["sim", "shrink", "3"][..], &["sim", "shrink", "--portals", "3"]] {
        let output = sluice(args);
        assert!(output.status.success(), "{output:?}");
        assert_eq!(String::from_utf8_lossy(&output.stdout), "seed 3 does not fail\n");
    }
}
