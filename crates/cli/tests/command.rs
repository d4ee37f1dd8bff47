//! The command as people and programs run it.

use serde_json::Value;
use std::fs;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::process::{Command, Output};

fn sluice(args: &[&str]) -> Output {
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
fn the_second_process_is_not_run_by_hand() {
    let error = refusal(&["perf-peer", "--parent", "1", "--bulk", "auto"]);
    assert!(error.contains("not run by hand"), "{error}");
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
