//! `sluice why` and `sluice tune` as people and programs run them, with stated figures.

use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use tempfile::TempDir;

/// Figures of a machine where calls are dear and packets are quick.
const STATED: &str = "sluice-tune 4\nmachine one that is stated\npacket_ns 80\n\
                      packet_byte_ps 150\nread_start_ns_byte_ps 5000 75\n\
                      write_start_ns_byte_ps 5000 75\nclaim_ns 60\nend\n";

/// The command with nothing in its environment that it reads but what is given.
fn sluice(args: &[&str], environment: &[(&str, &str)]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sluice"));
    let ours = |name: &str| {
        ["FI_", "SLUICE_", "PMI_", "OMPI_", "XDG_"].iter().any(|prefix| name.starts_with(prefix))
    };
    for (name, _) in std::env::vars_os() {
        if name.to_str().is_some_and(ours) {
            command.env_remove(name);
        }
    }
    command.args(args).envs(environment.iter().copied()).output().expect("the command starts")
}

fn json(args: &[&str], environment: &[(&str, &str)]) -> Value {
    let output = sluice(args, environment);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{args:?}: {errors}");
    assert!(errors.is_empty(), "{errors}");
    serde_json::from_slice(&output.stdout).expect("JSON and nothing else")
}

const OFF: (&str, &str) = ("FI_SLUICE_TUNE", "off");
/// What the system allows is not asked for then.
const RING: (&str, &str) = ("FI_SLUICE_BULK", "ring");

fn reason<'a>(answer: &'a Value, protocol: &str) -> &'a str {
    let rejected = answer["rejected"].as_array().expect("rejected");
    let found = rejected.iter().find(|row| row["protocol"] == protocol).expect("that protocol");
    found["reason"].as_str().expect("a reason")
}

fn threshold<'a>(document: &'a Value, name: &str) -> (Option<u64>, &'a str) {
    let rows = document["thresholds"].as_array().expect("thresholds");
    let row = rows.iter().find(|row| row["name"] == name).expect("that threshold");
    (row["value"].as_u64(), row["source"].as_str().expect("a source"))
}

#[test]
fn why_tells_protocol_rail_and_every_reason() {
    let answer = json(&["why", "--size", "1048576", "--json"], &[OFF, RING]);
    assert_eq!((&answer["protocol"], &answer["rail"]), (&"pull".into(), &"shm".into()));
    assert_eq!((&answer["size"], &answer["first"]), (&(1 << 20).into(), &"sender".into()));
    assert_eq!(answer["rejected"].as_array().map(Vec::len), Some(5));
    assert_eq!(reason(&answer, "eager"), "the message is longer than 262144 bytes");
    assert_eq!(reason(&answer, "get"), "the rail cannot read the peer's memory");
    assert_eq!(reason(&answer, "put"), "the rail cannot write the peer's memory");
    assert!(reason(&answer, "speculative").contains("the sender came first"));
    assert_eq!(answer["rails"][0]["remedy"], "FI_SLUICE_BULK=auto");
    assert_eq!(threshold(&answer, "share_bytes_min"), (Some(64 << 10), "default"));
    let short = json(&["why", "--size", "8", "--json"], &[OFF, RING]);
    assert_eq!((&short["protocol"], &short["way"]["name"]), (&"eager".into(), &"slot".into()));
    let longer = json(&["why", "--size", "9K", "--json"], &[OFF, RING]);
    assert_eq!(longer["way"]["name"], "portions");
    assert!(longer["way"]["detail"].as_str().is_some_and(|said| said.contains("4 KiB")));
    let away = json(&["why", "--size", "64K", "--json"], &[OFF, RING]);
    assert!(reason(&away, "eager").contains("does not look"));
    let looks = json(&["why", "--size", "64K", "--looks", "--json"], &[OFF, RING]);
    assert_eq!((&looks["protocol"], &looks["way"]["name"]), (&"eager".into(), &"portions".into()));
}

/// A process reads its own memory wherever it can read any.
#[test]
fn who_comes_first_matters_to_a_peer_that_can_be_read() {
    let job = [OFF, ("SLUICE_JOB_SIZE", "2"), ("SLUICE_JOB_RANK", "1")];
    let why = |more: &[&str]| {
        json(&[&["why", "--peer", "1", "--size", "1M", "--json"], more].concat(), &job)
    };
    let answer = why(&[]);
    assert_eq!((&answer["peer"]["rank"], &answer["peer"]["self"]), (&1.into(), &true.into()));
    assert_eq!(answer["protocol"], "cooperative");
    assert_eq!(answer["way"]["name"], "shared copy");
    assert_eq!(reason(&answer, "get"), "cooperative comes before it");
    assert_eq!(why(&["--first", "receiver"])["protocol"], "speculative");
    let any = why(&["--first", "receiver", "--any-source"]);
    assert_eq!(any["protocol"], "cooperative");
    assert!(reason(&any, "speculative").contains("any source"));
}

/// The devices that carry it are this machine's, so only what all have is looked at.
#[test]
fn a_peer_on_this_host_is_reached_as_the_rails_say() {
    let why = |rails, rank: &str, size: &str| {
        let job = [OFF, RING, ("PMI_SIZE", "2"), ("PMI_RANK", "1"), ("FI_SLUICE_RAILS", rails)];
        json(&["why", "--peer", rank, "--size", size, "--json"], &job)
    };
    assert_eq!(why("shm,tcp", "0", "1M")["rail"], "shm");
    let far = why("tcp", "0", "1M");
    assert_eq!((&far["rail"], &far["protocol"]), (&"tcp".into(), &"get".into()));
    let rails = far["rails"].as_array().expect("rails");
    let used: Vec<_> = rails.iter().filter(|row| row["chosen"] == true).collect();
    assert!(!used.is_empty() && used.iter().all(|row| row["address"] == row["peer_address"]));
    assert_eq!(rails.iter().filter(|row| row["eager"] == true).count(), 1);
    assert_eq!(why("tcp", "0", "5000")["protocol"], "eager");
}

/// The rank that asks is its own peer.
#[test]
fn messages_to_itself_need_no_network() {
    let job = [OFF, RING, ("PMI_SIZE", "2"), ("PMI_RANK", "1"), ("FI_SLUICE_SECURITY", "none")];
    let why = |rails, matching, more: &[&str]| {
        let set = [("FI_SLUICE_RAILS", rails), ("FI_SLUICE_MATCHING", matching)];
        let output = sluice(&[&["why", "--peer", "1"], more].concat(), &[&job[..], &set].concat());
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("text")
    };
    for rails in ["shm,tcp", "tcp"] {
        let text = why(rails, "process", &[]);
        assert!(text.contains("rank 1 of 2, this process itself"), "{text}");
        assert!(text.contains("shm: messages to itself go through its own mailbox"), "{text}");
    }
    let text = why("tcp,ofi:tcp", "rail", &[]);
    assert!(text.contains("short messages to itself go by ofi:tcp"), "{text}");
    assert!(text.contains("matching  ofi:tcp"), "{text}");
    let answer: Value = serde_json::from_str(&why("tcp", "process", &["--json"])).expect("JSON");
    assert_eq!((&answer["rail"], &answer["peer"]["self"]), (&"shm".into(), &true.into()));
    let detail = answer["rails"][0]["detail"].as_str().expect("a detail");
    assert!(detail.contains("own mailbox"), "{detail}");
}

#[test]
fn why_without_a_size_is_the_table() {
    let answer = json(&["why", "--json"], &[OFF, RING]);
    assert_eq!(answer["matching"]["who"], "this process");
    let set = [OFF, RING, ("FI_SLUICE_MATCHING", "rail"), ("FI_SLUICE_RAILS", "tcp,ofi:tcp")];
    let (closed, open) = (("FI_SLUICE_SECURITY", "auth"), ("FI_SLUICE_SECURITY", "none"));
    let kept = json(&["why", "--json"], &[&set[..], &[closed]].concat());
    assert_eq!(kept["matching"]["who"], "this process");
    assert!(kept["matching"]["detail"].as_str().expect("a reason").contains("SECURITY=auth"));
    let given = json(&["why", "--json"], &[&set[..], &[open]].concat());
    assert_eq!(given["matching"]["who"], "ofi:tcp");
    let rows = answer["table"].as_array().expect("the table");
    let rows: Vec<String> = rows
        .iter()
        .map(|row| {
            let text = |key: &str| row[key].as_str().expect("a name");
            format!("{} {} {}", text("first"), row["from"], text("protocol"))
        })
        .collect();
    let expected =
        ["sender 0 eager", "sender 49153 pull", "receiver 0 eager", "receiver 49153 pull"];
    assert_eq!(rows, expected);
}

#[test]
fn why_is_text() {
    let output = sluice(&["why", "--size", "64K"], &[OFF, RING]);
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).expect("text");
    let parts = [
        "another process on this host",
        "matching  this process: ",
        "pull: moved by",
        "rejected",
        "stated figures",
    ];
    for part in parts {
        assert!(text.contains(part), "no {part:?} in {text}");
    }
    let output = sluice(&["why"], &[OFF, RING]);
    let text = String::from_utf8(output.stdout).expect("text");
    assert!(text.contains("the receiver first") && text.contains("from 49153 B"), "{text}");
}

#[test]
fn wrong_questions_are_told_the_right_ones() {
    let job = [OFF, ("OMPI_COMM_WORLD_SIZE", "2"), ("OMPI_COMM_WORLD_RANK", "0")];
    let rows: [(&[&str], &str); 4] = [
        (&["why", "--peer", "2"], "so --peer is 0 to 1"),
        (&["why", "--size", "big"], "give bytes from 0 to 1073741824"),
        (&["why", "--first", "nobody"], "[possible values: sender, receiver]"),
        (&["tune", "--force"], "FI_SLUICE_TUNE is off"),
    ];
    for (args, part) in rows {
        let output = sluice(args, &job);
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && error.contains(part), "{args:?}: {error}");
    }
}

#[test]
fn a_setting_holds_over_everything_and_a_wrong_one_is_warned_of() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = stated(&folder);
    let tune = ("FI_SLUICE_TUNE", file.to_str().expect("text"));
    let answer = json(&["why", "--size", "5000", "--json"], &[tune, RING]);
    assert_eq!(answer["protocol"], "eager");
    assert_eq!(threshold(&answer, "eager_bytes_max"), (Some(49152), "calibrated"));
    let set = [tune, RING, ("FI_SLUICE_EAGER_SIZE", "100"), ("FI_SLUICE_SHARE_SIZE", "lots")];
    let answer = json(&["why", "--size", "5000", "--json"], &set);
    assert_eq!(answer["protocol"], "pull");
    assert_eq!(threshold(&answer, "eager_bytes_max"), (Some(100), "environment"));
    assert_eq!(threshold(&answer, "share_bytes_min").1, "calibrated");
    let warning = answer["warnings"][0].as_str().expect("a warning");
    assert!(warning.contains("FI_SLUICE_SHARE_SIZE=lots is ignored"), "{warning}");
}

#[test]
fn tune_tells_the_figures_and_what_follows() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = stated(&folder);
    let tune = [("FI_SLUICE_TUNE", file.to_str().expect("text"))];
    let found = json(&["tune", "--json"], &tune);
    assert_eq!((&found["origin"], &found["rail"]), (&"kept".into(), &"shm".into()));
    assert_eq!(found["costs"]["read"]["start_ns"], 5000);
    assert_eq!(threshold(&found, "announce_bytes_min"), (Some(32 << 10), "calibrated"));
    let text = String::from_utf8(sluice(&["tune"], &tune).stdout).expect("text");
    assert!(text.contains("direct read") && text.contains("kept in"), "{text}");
    let stated = json(&["tune", "--json"], &[OFF]);
    assert_eq!((&stated["origin"], &stated["file"]), (&"off".into(), &Value::Null));
}

#[test]
fn figures_are_measured_once_and_anew_when_forced() {
    let folder = tempfile::tempdir().expect("a folder");
    let cache = [("XDG_CACHE_HOME", folder.path().to_str().expect("text"))];
    let first = json(&["tune", "--json"], &cache);
    assert_eq!(first["origin"], "measured");
    let file = PathBuf::from(first["file"].as_str().expect("a file"));
    assert_eq!(file.parent(), Some(folder.path().join("sluice").as_path()));
    let next = json(&["tune", "--json"], &cache);
    assert_eq!((&next["origin"], &next["costs"]), (&"kept".into(), &first["costs"]));
    assert_eq!(json(&["tune", "--json", "--force"], &cache)["origin"], "measured");
    fs::write(&file, "sluice-tune 4\nmachine").expect("written");
    let mended = json(&["tune", "--json"], &cache);
    assert_eq!(mended["origin"], "measured");
    assert!(mended["warnings"][0].as_str().is_some_and(|text| text.contains("damaged")));
    assert_eq!(json(&["tune", "--json"], &cache)["origin"], "kept");
}

fn stated(folder: &TempDir) -> PathBuf {
    let file = Path::new(folder.path()).join("figures");
    fs::write(&file, STATED).expect("written");
    file
}
