//! Several processes at full speed.

use super::child::{Child, put_slots};
use super::{Recorder, open, poll_until, send_credit};
use crate::hash::fnv1a;
use crate::shm::Shm;
use sluice_link::Transport;
use sluice_wire::PeerId;
use std::collections::HashMap;

/// Takes `count` packets of each child's stream, in order and whole, and gives
/// their credits back.
pub(super) fn check_stream(shm: &mut Shm, machine: &mut Recorder, children: &[&Child], count: u64) {
    let mut next: HashMap<PeerId, u64> = HashMap::new();
    let mut owed: HashMap<PeerId, u32> = HashMap::new();
    poll_until(shm, machine, "all packets", |shm, machine| {
        for arrived in machine.packets.drain(..) {
            let n = next.entry(arrived.from).or_default();
            let put = arrived.put();
            assert_eq!(put.match_bits.0, *n, "in order");
            assert_eq!(put.hdr_data, fnv1a(&arrived.payload), "whole");
            *n += 1;
            let owed = owed.entry(arrived.from).or_default();
            *owed += put_slots(arrived.payload.len());
            // Rarely enough to let the ring fill up now and then.
            if *owed >= 256 || *n == count {
                shm.connect(arrived.from).unwrap();
                send_credit(shm, arrived.from, *owed as u16);
                *owed = 0;
            }
        }
        next.len() == children.len() && next.values().all(|&n| n == count)
    });
}

#[test]
fn three_processes_write_at_once() {
    const PACKETS: u64 = 200_000;
    let mut shm = open();
    let mut machine = Recorder::default();
    let children: Vec<Child> =
        (0..3).map(|_| Child::run("stream", &shm, PACKETS as i64, None)).collect();
    let all: Vec<&Child> = children.iter().collect();
    check_stream(&mut shm, &mut machine, &all, PACKETS);
    assert_eq!(shm.stats().packets_in, 3 * PACKETS);
    assert_eq!((shm.stats().violations, shm.stats().holes_skipped), (0, 0));
}
