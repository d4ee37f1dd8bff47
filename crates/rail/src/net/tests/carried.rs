//! How many bytes went by which device.

use super::failures::{BRISK, Pair, pattern, payload};
use super::relay::Cut;
use super::{Process, region, region_mut};
use sluice_link::{Remote, RemoteMemory, Rights, Token};

fn carried(process: &Process) -> Vec<u64> {
    let net = process.world.net().expect("it has a network");
    net.carried().into_iter().map(|(_, bytes)| bytes).collect()
}

#[test]
fn bytes_count_for_their_device_also_when_the_connection_is_no_more() {
    let mut pair = Pair::met(2, BRISK);
    let (to_a, to_b) = (pair.to_a, pair.to_b);
    let there = pattern(4 << 20, 3);
    let key = pair.b.world.expose(to_a, region(&there), Rights::READ);
    let mut here = vec![0u8; there.len()];
    pair.a.world.read_remote(to_b, Remote::whole(key), region_mut(&mut here), Token(1));
    pair.until("the read", |pair| !pair.a.machine.moved.is_empty());
    assert!(here == there);
    let (asked, brought) = (carried(&pair.a), carried(&pair.b));
    assert_eq!((asked.len(), brought.len()), (2, 2));
    assert!(brought.iter().sum::<u64>() >= there.len() as u64, "{brought:?}");
    assert!(asked.iter().sum::<u64>() < 1 << 20, "{asked:?}");
    pair.cut(Cut::Rst);
    pair.b.send(to_a, 0, &payload(0));
    pair.until("a packet by another connection", |pair| !pair.a.machine.packets.is_empty());
    let later = carried(&pair.b);
    assert!(later.iter().zip(&brought).all(|(later, before)| later >= before), "{later:?}");
    assert!(later.iter().sum::<u64>() > brought.iter().sum(), "{later:?}");
}

/// One that goes to the socket by itself counts too.
#[test]
fn a_lone_message_counts_for_its_device() {
    let mut pair = Pair::met(1, BRISK);
    let before = carried(&pair.b)[0];
    pair.b.send(pair.to_a, 0, &payload(0));
    assert!(carried(&pair.b)[0] >= before + payload(0).len() as u64);
}
