//! Shares of one folder, as several processes have them.

use super::*;
use crate::journal::Head;
use crate::measure::{Outcome as Counts, StoppedBy};
use crate::setup::Outcome;

const RUNS: usize = 5;

fn entry(run: usize) -> Entry {
    let outcome = Outcome::Network(Counts {
        nodes: 4,
        slow_nodes: 0,
        batches: Vec::new(),
        cycles: run as u64,
        injected_flits: 0,
        accepted_flits: 0,
        accepted_flits_slow: 0,
        packets: 0,
        packet_latency_sum: 0,
        network_latency_sum: 0,
        hops_sum: 0,
        latency_p50: None,
        latency_p99: None,
        marks: 0,
        credit_packets: 0,
        stopped_by: StoppedBy::Steady,
        stuck: None,
        links: Vec::new(),
    });
    Entry { run, seconds: 1.0, outcome }
}

fn share(folder: &Path) -> Share {
    let head = Head { version: "1".into(), experiment_sha256: "ab".into(), seeds: vec![1] };
    let (journal, entries) = Journal::open(folder, &head).expect("a journal");
    Share::new(folder, RUNS, journal, entries)
}

fn claim(share: &Share) -> Option<Claim> {
    match share.next().expect("locks and journals can be read") {
        Next::Run(claim) => Some(claim),
        Next::Wait | Next::Done => None,
    }
}

#[test]
fn each_simulation_is_taken_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let shares: Vec<Share> = (0..3).map(|_| share(folder.path())).collect();
    let mut taken = Vec::new();
    for nth in 0..RUNS {
        let who = &shares[nth % 3];
        let claim = claim(who).expect("there is one left");
        taken.push(claim.run);
        // Some end at once, some later.
        if nth % 2 == 0 {
            let entry = entry(claim.run);
            who.keep(claim, entry).expect("kept");
        } else {
            std::mem::forget(claim);
        }
    }
    assert_eq!(taken, [0, 1, 2, 3, 4]);
    assert!(shares.iter().all(|share| matches!(share.next(), Ok(Next::Wait))));
}

#[test]
fn what_a_process_leaves_behind_is_taken_by_another() {
    let folder = tempfile::tempdir().expect("a folder");
    let (first, second) = (share(folder.path()), share(folder.path()));
    let begun = claim(&first).expect("one");
    let done = claim(&first).expect("another");
    let kept = entry(done.run);
    first.keep(done, kept).expect("kept");
    // It dies with what it holds.
    drop((begun, first));
    let mut left: Vec<usize> = Vec::new();
    while let Some(claim) = claim(&second) {
        left.push(claim.run);
        let entry = entry(claim.run);
        second.keep(claim, entry).expect("kept");
    }
    assert_eq!(left, [0, 2, 3, 4]);
    assert!(matches!(second.next(), Ok(Next::Done)));
    let (entries, ending) = second.end();
    assert!(folder.path().join(CLAIMS).exists(), "the results are still to be written");
    ending.close();
    assert_eq!(entries.into_values().collect::<Vec<_>>(), (0..RUNS).map(entry).collect::<Vec<_>>());
    assert!(!folder.path().join(CLAIMS).exists(), "no locks are left when all is done");
}

#[test]
fn one_process_leads_until_it_ends() {
    let folder = tempfile::tempdir().expect("a folder");
    let (first, second) = (share(folder.path()), share(folder.path()));
    assert!(first.lead().expect("a lock") && first.lead().expect("a lock"));
    assert!(!second.lead().expect("a lock") && !second.leads());
    drop(first);
    assert!(second.lead().expect("a lock") && second.leads());
}

#[test]
fn the_launcher_says_how_many_share_a_host() {
    let of =
        |name: &str, value: &str| processes_here(|asked| (asked == name).then(|| value.to_owned()));
    assert_eq!(of("OMPI_COMM_WORLD_LOCAL_SIZE", "4"), 4);
    assert_eq!(of("MPI_LOCALNRANKS", "2"), 2);
    assert_eq!(of("MPI_LOCALNRANKS", "0"), 1);
    assert_eq!(of("PMI_LOCAL_SIZE", "some"), 1);
    assert_eq!(of("OTHER", "9"), 1);
}

#[test]
fn cores_are_divided_once() {
    // Not bound: all see all cores.
    assert_eq!([cores(16, 16, 16, 1), cores(16, 16, 16, 4), cores(2, 2, 2, 4)], [16, 4, 1]);
    // Bound to a core each, to four each, and all to the same four of sixteen.
    assert_eq!([cores(1, 1, 16, 4), cores(4, 4, 16, 4), cores(4, 4, 16, 8)], [1, 4, 2]);
    // A quota of two of sixteen cores.
    assert_eq!([cores(2, 16, 16, 1), cores(2, 16, 16, 2)], [2, 1]);
    assert_eq!([cores_of("0-3,8\n"), cores_of("5"), cores_of("a")], [Some(5), Some(1), None]);
}
