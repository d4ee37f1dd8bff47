//! Endpoints of one process, over providers of libfabric's own that match tags. Where
//! libfabric is not installed there is nothing to try, and the test says so.

mod common;

use common::{PATIENCE, open};
use sluice_fabric::{Begun, BufferId, Done, Endpoint, Kind, Peer, tagged_offers};
use std::collections::VecDeque;
use std::time::Instant;

const PROVIDERS: [&str; 2] = ["tcp", "udp;ofi_rxd"];

/// Two that know each other and themselves: each what each calls both.
struct Pair {
    both: [Endpoint; 2],
    peers: [[Peer; 2]; 2],
    done: VecDeque<(usize, Done)>,
}

fn pair(provider: &str) -> Option<Pair> {
    let mut both = [open(provider, tagged_offers)?, open(provider, tagged_offers)?];
    let names = [both[0].name().to_vec(), both[1].name().to_vec()];
    let peers =
        [0, 1].map(|at: usize| [0, 1].map(|of: usize| both[at].insert(&names[of]).unwrap()));
    Some(Pair { both, peers, done: VecDeque::new() })
}

impl Pair {
    /// Polls both, and keeps what has ended and is not a send.
    fn look(&mut self) {
        for (at, endpoint) in self.both.iter_mut().enumerate() {
            let Some(done) = endpoint.poll().unwrap() else { continue };
            if done.kind == Kind::Sent {
                assert_eq!(done.failed, None);
                endpoint.give_back(done.buffer);
            } else {
                self.done.push_back((at, done));
            }
        }
    }

    /// What has ended next, which is to be at one of them.
    fn next(&mut self, at: usize) -> Done {
        let begin = Instant::now();
        loop {
            if let Some((found, done)) = self.done.pop_front() {
                assert_eq!(found, at, "{done:?}");
                return done;
            }
            self.look();
            assert!(begin.elapsed() < PATIENCE, "waited in vain");
        }
    }

    fn send(&mut self, from: usize, to: usize, tag: u64) {
        let buffer = self.both[from].take().unwrap();
        self.both[from].bytes_mut(buffer)[0] = tag as u8;
        let peer = self.peers[from][to];
        let begin = Instant::now();
        while self.both[from].send_tagged(buffer, 1, peer, tag).unwrap() == Begun::Later {
            self.look();
            assert!(begin.elapsed() < PATIENCE, "it never takes anything");
        }
    }

    fn receive(&mut self, at: usize, from: Option<usize>, tag: u64, ignore: u64) -> BufferId {
        let buffer = self.both[at].take().unwrap();
        let from = from.map(|from| self.peers[at][from]);
        let begun = self.both[at].receive_tagged(buffer, from, tag, ignore);
        assert_eq!(begun, Ok(Begun::Yes));
        buffer
    }

    /// What a receive has met, or nothing if it was cancelled.
    fn end(&mut self, at: usize) -> (BufferId, Option<u8>) {
        let done = self.next(at);
        assert_eq!(done.kind, Kind::Matched);
        match done.failed {
            None => (done.buffer, Some(self.both[at].bytes(done.buffer)[0])),
            Some(why) => {
                assert!(why.is_cancelled(), "{why}");
                (done.buffer, None)
            }
        }
    }
}

#[test]
fn the_provider_matches_by_tag_and_by_source_also_of_itself() {
    for provider in PROVIDERS {
        let Some(mut pair) = pair(provider) else { return };
        let by_tag = pair.receive(1, None, u64::MAX, 0);
        let by_source = pair.receive(1, Some(1), 0, u64::MAX);
        pair.send(0, 1, 7);
        pair.send(0, 1, u64::MAX);
        assert_eq!(pair.end(1), (by_tag, Some(255)));
        pair.send(1, 1, 9);
        assert_eq!(pair.end(1), (by_source, Some(9)));
        let any = pair.receive(1, None, 0, u64::MAX);
        assert_eq!(pair.end(1), (any, Some(7)), "it had come first");
    }
}

#[test]
fn a_receive_that_is_taken_back_ends_once() {
    for provider in PROVIDERS {
        let Some(mut pair) = pair(provider) else { return };
        let buffer = pair.receive(1, None, 3, 0);
        pair.both[1].cancel(buffer);
        assert_eq!(pair.end(1), (buffer, None));
        pair.send(0, 1, 3);
        let again = pair.receive(1, Some(0), 3, 0);
        assert_eq!(pair.end(1), (again, Some(3)));
        pair.look();
        assert!(pair.done.is_empty());
    }
}
