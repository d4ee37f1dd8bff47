//! `sluice perf` between two processes of this host: what each measurement says.

use super::{refusal, report, table};

#[test]
fn latency_has_its_shape() {
    let report =
        report("shm", &["latency", "--size", "8", "--seconds", "0.05", "--warmup", "0.01"]);
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
    let report = report(
        "shm",
        &[
            "bandwidth",
            "--size",
            "4K,64K,8M",
            "--iterations",
            "2",
            "--warmup",
            "0",
            "--window",
            "4",
        ],
    );
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
    let report = report(
        "shm",
        &[
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
        ],
    );
    assert_eq!(report["bulk"], "ring");
    assert!(report["rows"][0]["mib_per_s"]["p50"].as_f64().is_some_and(|rate| rate > 0.0));
}

#[test]
fn rate_has_its_shape() {
    let report = report("shm", &["rate", "--size", "8", "--seconds", "0.05"]);
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
        let report = report(
            "shm",
            &[
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
            ],
        );
        let row = &report["rows"][0];
        assert_eq!(row["messages"].as_u64(), messages.parse().ok());
        assert_eq!((row["lost"].as_u64(), row["corrupt"].as_u64()), (Some(0), Some(0)));
        let (peak, bound) = (&row["peak_unexpected_bytes"], &row["unexpected_bytes_max"]);
        assert!(peak.as_u64() > Some(0) && peak.as_u64() <= bound.as_u64(), "{row}");
        assert!(row["peak_rss_bytes"].as_u64() > Some(0) && row["seconds"].as_f64() > Some(0.0));
    }
    let error = refusal(&["flood", "--unexpected", "100"]);
    assert!(error.contains("data slots"), "{error}");
}

/// Also while its process computes, where the system lets its memory be reached.
#[test]
fn perf_works_on_the_memory_of_another_process() {
    for (test, ops) in [("rma", &["write", "read"][..]), ("atomic", &["sum", "fetch", "swap"])] {
        let report = report("shm", &[test, "--size", "8", "--seconds", "0.02"]);
        let rows = report["rows"].as_array().expect("rows");
        let found: Vec<_> = rows.iter().filter_map(|row| row["op"].as_str()).collect();
        let wanted: Vec<_> = ops.iter().flat_map(|op| [*op; 2]).collect();
        assert_eq!(found, wanted, "calls and computes");
        for row in rows {
            assert!(row["us"]["p50"].as_f64() > Some(0.0) && row["per_s"].as_f64() > Some(0.0));
        }
    }
    let error = refusal(&["atomic", "--size", "12"]);
    assert!(error.contains("whole items of 8 bytes"), "{error}");
}

#[test]
fn overlap_has_its_shape() {
    let args = ["overlap", "--size", "64K,300000", "--repetitions", "3"];
    if std::thread::available_parallelism().is_ok_and(|cores| cores.get() < 2) {
        assert!(refusal(&args).contains("two cores"));
        return;
    }
    for bulk in ["auto", "ring"] {
        let report = report("shm", &[&args[..], &["--bulk", bulk]].concat());
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
    let report = report(
        "shm",
        &[
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
        ],
    );
    assert_eq!(report["sink_mib_per_s"], 100);
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
    let report = report("shm", &["latency", "--size", "0", "--iterations", "10"]);
    assert_eq!(report["rows"][0]["samples"], 10);
    let error = refusal(&["bandwidth", "--size", "0"]);
    assert!(error.contains("--size from 1"), "{error}");
    for test in ["overlap", "pace"] {
        assert!(refusal(&[test, "--size", "0"]).contains("--size from 1"));
    }
}

#[test]
fn match_has_its_shape() {
    let report = report(None, &["match", "--depth", "1", "--depth", "50,3"]);
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
    let text = table(&["match", "--depth", "1,20", "--queue", "unexpected"]);
    let lines = |part: &str| text.lines().filter(|line| line.trim().starts_with(part)).count();
    assert_eq!((lines("unexpected"), lines("posted")), (12, 0), "{text}");
    assert!(text.contains("/ depth 1"), "{text}");
}

#[test]
fn bad_arguments_are_told_the_good_ones() {
    let rows: [(&[&str], &str); 13] = [
        (&["latency", "--size", "big"], "give bytes from 0 to 1073741824"),
        (&["latency", "--size", "2G"], "give bytes from 0 to 1073741824"),
        (&["latency", "--rail", "carrier-pigeon"], "[possible values: shm, tcp]"),
        (&["latency", "--seconds", "-1"], "give seconds from 0 to 3600"),
        (&["latency", "--cores", "0,99999"], "cores that may be used"),
        (&["rate", "--window", "0"], "1..=4096"),
        (&["match", "--depth", "0"], "give elements from 1 to 1000000"),
        (&["match", "--depth", "-5"], "give elements from 1 to 1000000"),
        (&["match", "--depth", "1,deep"], "'deep' is not a depth"),
        (&["overlap", "--compute", "-1"], "give times from 0.1 to 100"),
        (&["overlap", "--sizes", "1M,big"], "give bytes from 0 to 1073741824"),
        (&["pace", "--sink-mib-per-s", "0"], "1..=1000000"),
        (&["match", "--queue", "bus"], "[possible values: posted, unexpected, both]"),
    ];
    for (args, part) in rows {
        let error = refusal(args);
        assert!(error.contains(part), "{args:?}: {error}");
    }
}
