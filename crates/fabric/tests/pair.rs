//! Two endpoints of one process, over providers of libfabric's own. Where libfabric is not
//! installed there is nothing to try, and the test says so.

mod common;

use common::{PATIENCE, open};
use sluice_fabric::{Begun, Done, Endpoint, Kind, Peer, offers};
use std::time::Instant;

const PROVIDERS: [&str; 2] = ["tcp", "udp;ofi_rxd"];

/// Polls both until one of them has something.
fn next(both: &mut [Endpoint; 2], wanted: Kind) -> (usize, Done) {
    let begin = Instant::now();
    loop {
        for (at, endpoint) in both.iter_mut().enumerate() {
            let Some(done) = endpoint.poll().unwrap() else { continue };
            assert_eq!(done.failed, None);
            if done.kind == wanted {
                return (at, done);
            }
            endpoint.give_back(done.buffer);
        }
        assert!(begin.elapsed() < PATIENCE, "waited in vain: {wanted:?}");
    }
}

fn pair(provider: &str) -> Option<([Endpoint; 2], Peer)> {
    let mut both = [open(provider, offers)?, open(provider, offers)?];
    let name = both[1].name().to_vec();
    let peer = both[0].insert(&name).unwrap();
    Some((both, peer))
}

#[test]
fn messages_arrive() {
    for provider in PROVIDERS {
        let Some((mut both, peer)) = pair(provider) else { return };
        for round in 0..100u8 {
            let buffer = both[0].take().unwrap();
            both[0].bytes_mut(buffer)[..3].copy_from_slice(&[round, 1, 2]);
            let begin = Instant::now();
            while both[0].send(buffer, 3, peer).unwrap() == Begun::Later {
                // What was sent the round before may end only now.
                if let Some(done) = both[0].poll().unwrap() {
                    assert_eq!(done.kind, Kind::Sent);
                    both[0].give_back(done.buffer);
                }
                assert_eq!(both[1].poll().unwrap(), None, "nothing is sent");
                assert!(begin.elapsed() < PATIENCE, "it never takes anything");
            }
            let (at, done) = next(&mut both, Kind::Received);
            assert_eq!((at, done.len), (1, 3));
            assert_eq!(both[1].bytes(done.buffer)[..3], [round, 1, 2]);
            both[1].receive_into(done.buffer);
        }
    }
}

#[test]
fn memory_is_read() {
    for provider in PROVIDERS {
        let Some((mut both, peer)) = pair(provider) else { return };
        let mut there: Vec<u8> = (0..50_000).map(|at| (at % 251) as u8).collect();
        // SAFETY: the memory is there until it is unregistered.
        let registered =
            unsafe { both[1].register(there.as_mut_ptr(), there.len(), 0x1234_5678_9abc) }.unwrap();
        let buffer = both[0].take().unwrap();
        let at = registered.base + 20_000;
        let begin = Instant::now();
        while both[0].read(buffer, 10_000, peer, at, registered.key).unwrap() == Begun::Later {
            assert_eq!(both[0].poll().unwrap(), None, "nothing was begun");
            both[1].poll().unwrap();
            assert!(begin.elapsed() < PATIENCE, "it never takes anything");
        }
        let (_, done) = next(&mut both, Kind::Read);
        assert_eq!(both[0].bytes(done.buffer)[..10_000], there[20_000..30_000]);
        both[1].unregister(registered).unwrap();
    }
}

#[test]
fn a_name_of_another_kind_is_refused() {
    let Some(mut endpoint) = open("tcp", offers) else { return };
    let name = endpoint.name().to_vec();
    assert!(endpoint.insert(&name[1..]).is_err());
    let other_family = [&[10, 0], &name[2..]].concat();
    assert!(endpoint.insert(&other_family).is_err());
    assert!(endpoint.insert(&[]).is_err());
}
