//! `sluice perf --api portals`.

use super::{positive, refusal, report, table};
use serde_json::Value;

/// Quick, through libportals.
fn portals(args: &[&str]) -> Value {
    let quick = ["--api", "portals", "--iterations", "3", "--warmup", "0"];
    let report = report("shm", &[args, &quick].concat());
    assert_eq!(report["api"], "portals");
    for row in report["rows"].as_array().expect("rows") {
        assert_eq!((&row["samples"], &row["verified"]), (&3.into(), &true.into()), "{row}");
    }
    report
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
    let text = table(&["latency", "--api", "portals", "--size", "8", "--iterations", "3"]);
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
        let error = refusal(args);
        assert!(error.contains(part), "{args:?}: {error}");
    }
}
