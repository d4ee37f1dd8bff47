//! A damaged journal is either resumed from or refused.

use super::*;
use crate::measure::{self, StoppedBy};
use proptest::prelude::*;

fn head() -> Head {
    Head { version: "1".into(), experiment_sha256: "ab".into(), seeds: vec![1, 2] }
}

fn entry(run: usize) -> Entry {
    Entry {
        run,
        seconds: 0.1 + run as f64 / 3.0,
        outcome: Outcome::Network(measure::Outcome {
            nodes: 16,
            slow_nodes: 0,
            batches: Vec::new(),
            cycles: 100,
            injected_flits: 7 * run as u64,
            accepted_flits: u64::MAX - run as u64,
            accepted_flits_slow: 0,
            packets: 1,
            packet_latency_sum: 2,
            network_latency_sum: 3,
            hops_sum: 4,
            latency_p50: Some(5),
            latency_p99: None,
            marks: 6,
            credit_packets: 7,
            stopped_by: StoppedBy::Steady,
            stuck: None,
            links: Vec::new(),
        }),
    }
}

fn written(folder: &Path, entries: usize) -> Vec<u8> {
    let (mut journal, found) = Journal::open(folder, &head()).expect("a new journal");
    assert!(found.is_empty());
    for run in 0..entries {
        journal.keep(&entry(run)).expect("kept");
    }
    std::fs::read(folder.join(FILE)).expect("it is there")
}

#[test]
fn what_was_kept_is_found() {
    let folder = tempfile::tempdir().expect("a folder");
    written(folder.path(), 3);
    let (_journal, found) = Journal::open(folder.path(), &head()).expect("it opens again");
    let outcomes: Vec<&Outcome> = found.values().map(|entry| &entry.outcome).collect();
    assert_eq!(
        outcomes,
        (0..3).map(entry).collect::<Vec<_>>().iter().map(|e| &e.outcome).collect::<Vec<_>>()
    );
}

#[test]
fn results_of_something_else_are_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    written(folder.path(), 1);
    let rows = [
        (Head { experiment_sha256: "cd".into(), ..head() }, "another experiment"),
        (Head { version: "2".into(), ..head() }, "of version 1, and this is 2"),
        (Head { seeds: vec![1], ..head() }, "of the seeds [1, 2], and [1] are wanted"),
    ];
    for (other, part) in rows {
        let error = format!("{:#}", Journal::open(folder.path(), &other).expect_err(part));
        assert!(error.contains(part) && error.contains("choose another --out"), "{error}");
    }
}

#[test]
fn each_process_has_a_journal_and_reads_those_of_others() {
    let folder = tempfile::tempdir().expect("a folder");
    let (mut first, mut of_first) = Journal::open(folder.path(), &head()).expect("a new journal");
    let (mut second, mut of_second) = Journal::open(folder.path(), &head()).expect("another");
    let expected = [FILE, "journal-1.jsonl"].map(|name| folder.path().join(name));
    assert_eq!([&first.path, &second.path], [&expected[0], &expected[1]]);
    for run in [4, 0, 2] {
        let (writer, reader, found) = match run {
            0 => (&mut second, &mut first, &mut of_first),
            _ => (&mut first, &mut second, &mut of_second),
        };
        writer.keep(&entry(run)).expect("kept");
        reader.refresh(found).expect("read");
        assert_eq!(found[&run].outcome, entry(run).outcome);
    }
    drop((first, second));
    let (_third, found) = Journal::open(folder.path(), &head()).expect("it opens again");
    assert_eq!(found.into_keys().collect::<Vec<_>>(), [0, 2, 4]);
}

#[test]
fn half_a_line_of_another_is_read_when_it_is_whole() {
    let folder = tempfile::tempdir().expect("a folder");
    let (mut mine, mut found) = Journal::open(folder.path(), &head()).expect("a new journal");
    let path = folder.path().join(name(7));
    let mut line = serde_json::to_vec(&head()).expect("a head");
    line.push(b'\n');
    serde_json::to_writer(&mut line, &entry(5)).expect("an entry");
    line.push(b'\n');
    for end in [3, line.len() - 20, line.len() - 1] {
        std::fs::write(&path, &line[..end]).expect("written");
        mine.refresh(&mut found).expect("read");
        assert!(found.is_empty(), "{end} bytes");
    }
    std::fs::write(&path, &line).expect("written");
    mine.refresh(&mut found).expect("read");
    assert_eq!(found[&5].outcome, entry(5).outcome);
}

#[test]
fn a_folder_that_something_else_works_on_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let (mut journal, _) = Journal::open(folder.path(), &head()).expect("a new journal");
    let other = Head { version: "2".into(), ..head() };
    let error = format!("{:#}", Journal::open(folder.path(), &other).expect_err("in use"));
    assert!(error.contains("another `sluice sim run` of something else"), "{error}");
    // Nor does the start that was refused disturb who works there.
    journal.refresh(&mut Entries::new()).expect("nothing of something else is there");
    // What has kept nothing and is gone is no obstacle.
    drop(journal);
    let (_, found) = Journal::open(folder.path(), &other).expect("it opens");
    assert!(found.is_empty());
}

#[test]
fn damage_in_the_middle_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut bytes = written(folder.path(), 3);
    let second = bytes.iter().position(|&byte| byte == b'\n').expect("a line") + 5;
    bytes[second] = 0;
    std::fs::write(folder.path().join(FILE), bytes).expect("written");
    let error = format!("{:#}", Journal::open(folder.path(), &head()).expect_err("damaged"));
    assert!(error.contains("of journal.jsonl is damaged"), "{error}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Cut off anywhere, it has what was whole before the cut, and goes on
    /// from there.
    #[test]
    fn a_cut_journal_is_resumed(share in 0.0..=1.0f64) {
        let folder = tempfile::tempdir().expect("a folder");
        let bytes = written(folder.path(), 4);
        let cut = (bytes.len() as f64 * share) as usize;
        std::fs::write(folder.path().join(FILE), &bytes[..cut]).expect("written");
        let lines = bytes[..cut].iter().filter(|&&byte| byte == b'\n').count();
        let (mut journal, found) = Journal::open(folder.path(), &head()).expect("it is resumed");
        prop_assert_eq!(found.len(), lines.saturating_sub(1));
        for run in found.len()..4 {
            journal.keep(&entry(run)).expect("kept");
        }
        prop_assert_eq!(std::fs::read(folder.path().join(FILE)).expect("it is there"), bytes);
    }
}
