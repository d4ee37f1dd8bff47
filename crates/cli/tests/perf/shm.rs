//! `sluice perf` on one host: the buffers of a stream, and many processes.

use super::{alone, positive, refusal, report};
use serde_json::Value;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

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
        let report = report("shm", &args);
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

#[test]
fn alltoall_has_its_shape() {
    // More ranks than cores on most machines; eager, announced, and nothing at all.
    let words = ["--ranks", "4", "--size", "8,1K,100000,0", "--iterations", "20"];
    let report = report("shm", &[&["alltoall"], &words[..]].concat());
    let rows = report["rows"].as_array().expect("rows");
    let sizes: Vec<u64> = rows.iter().filter_map(|row| row["size"].as_u64()).collect();
    assert_eq!(sizes, [8, 1024, 100_000, 0]);
    for row in rows {
        assert_eq!((&row["ranks"], &row["samples"]), (&4.into(), &20.into()), "{row}");
        assert!(positive(&row["us"]) && row["verified"] == true, "{row}");
        assert!(row["us"]["p50"].as_f64() <= row["us"]["p99"].as_f64(), "{row}");
    }
    assert!(report["cores"].as_array().is_some_and(|cores| !cores.is_empty()), "{report}");
}

#[test]
fn ranks_that_cannot_be_are_refused() {
    let cases: [(&[&str], &str); 6] = [
        (&["alltoall", "--ranks", "1"], "give processes from 2 to 128"),
        (&["alltoall", "--ranks", "0"], "give processes from 2 to 128"),
        (&["alltoall", "--ranks", "-4"], "give processes from 2 to 128"),
        (&["alltoall", "--ranks", "129"], "give processes from 2 to 128"),
        (&["alltoall", "--ranks", "all"], "'all' is not a number of ranks"),
        (&["alltoall", "--ranks", "128", "--size", "1M"], "give fewer --ranks"),
    ];
    for (args, part) in cases {
        let error = refusal(args);
        assert!(error.contains(part), "{args:?}: {error}");
    }
}

/// What follows the name in `/proc/PID/stat`; nothing of a process that has ended.
fn stat(pid: u32) -> Vec<String> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let rest = stat.rsplit(')').next().unwrap_or_default();
    rest.split_whitespace().map(str::to_owned).collect()
}

/// Whether a process is there and is not only waited for.
fn lives(pid: u32) -> bool {
    stat(pid).first().is_some_and(|state| state != "Z")
}

/// The processor time that a process has used, in clock ticks.
fn cpu_ticks(pid: u32) -> u64 {
    stat(pid).iter().skip(11).take(2).filter_map(|ticks| ticks.parse::<u64>().ok()).sum()
}

#[test]
fn the_end_of_a_rank_ends_the_others() {
    let _alone = alone();
    let mut command = Command::new(env!("CARGO_BIN_EXE_sluice"));
    command.args(["perf", "alltoall", "--ranks", "4", "--size", "8", "--seconds", "300"]);
    command.stdout(Stdio::null()).stderr(Stdio::piped());
    let first = command.spawn().expect("the command starts");
    let until = Instant::now() + Duration::from_secs(60);
    let path = format!("/proc/{0}/task/{0}/children", first.id());
    let others: Vec<u32> = loop {
        assert!(Instant::now() < until, "the ranks do not start");
        let children = std::fs::read_to_string(&path).unwrap_or_default();
        let pids: Vec<u32> =
            children.split_whitespace().filter_map(|pid| pid.parse().ok()).collect();
        // Well into the rounds.
        if pids.len() == 3 && cpu_ticks(pids[1]) >= 10 {
            break pids;
        }
        std::thread::sleep(Duration::from_millis(10));
    };
    let kill = Command::new("kill").args(["-KILL", &others[1].to_string()]).status();
    assert!(kill.expect("kill").success());
    let output = first.wait_with_output().expect("an end");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && errors.contains("rank "), "{errors}");
    while others.iter().any(|&pid| lives(pid)) {
        assert!(Instant::now() < until, "a rank lives on");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// The scheme of the paper and the other one both run out of places, and lose nothing.
#[test]
fn recover_has_a_row_for_each_scheme() {
    let words = ["--processes", "4", "--puts", "2000", "--queue", "64", "--exhaustions", "5"];
    let report = report("shm", &[&["recover", "--runs", "1"], &words[..]].concat());
    assert_eq!(schemes(&report), ["resume", "pause"]);
    for row in report["rows"].as_array().expect("rows") {
        assert_eq!((&row["processes"], &row["puts"]), (&4.into(), &6000.into()), "{row}");
        let times = [&row["large_ms"], &row["small_ms"]];
        assert!(times.into_iter().all(|ms| ms.as_f64().is_some_and(|ms| ms > 0.0)), "{row}");
    }
}

/// In virtual time an exhaustion takes the same in each run, and the pause more.
#[test]
fn recover_in_virtual_time_is_the_same_in_each_run() {
    let words = ["--processes", "5", "--puts", "500", "--queue", "64", "--exhaustions", "5"];
    let args = [&["recover", "--simulated", "16,64", "--runs", "1"], &words[..]].concat();
    let report = report(None, &args);
    assert_eq!(schemes(&report), ["resume", "resume", "pause", "pause"]);
    let us_each = |at: usize| report["rows"][at]["us_each"].as_f64().expect("microseconds");
    let [resume, resume_of_64, pause, pause_of_64] = [0, 1, 2, 3].map(us_each);
    assert!(resume < pause && resume_of_64 < pause_of_64, "{report}");
    // The pause grows with the world, and going back to what was refused does not.
    assert!(pause_of_64 > 1.5 * pause && resume_of_64 < 1.1 * resume, "{report}");
    assert_eq!(super::report(None, &args), report);
}

/// The schemes of the rows, of which each ran out of places, went on and lost nothing.
fn schemes(report: &Value) -> Vec<&str> {
    let rows = report["rows"].as_array().expect("rows");
    for row in rows {
        let counts = ["exhaustions", "refused"].map(|count| row[count].as_u64());
        assert!(counts.into_iter().all(|count| count > Some(0)) && row["lost"] == 0, "{row}");
    }
    rows.iter().filter_map(|row| row["scheme"].as_str()).collect()
}
