//! Published regions under the model checker: an owner that takes one back, and a peer
//! that moves bytes, in every interleaving.

use super::*;
use loom::sync::Arc;
use loom::thread;

/// A region, who uses it, and its memory: written without order of its own.
struct Published {
    line: Line,
    in_use: AtomicU64,
    memory: AtomicU64,
}

impl Published {
    fn new() -> Arc<Published> {
        let word = || AtomicU64::new(0);
        let line = Line {
            state: word(),
            key: word(),
            first: word(),
            addr: word(),
            len: word(),
            rights: word(),
        };
        line.publish(&entry(1));
        Arc::new(Published { line, in_use: word(), memory: word() })
    }
}

fn entry(key: u64) -> Entry {
    // Each key has its own address, so that a mixture is seen.
    let region = Region { addr: Addr(key * 100), len: key };
    Entry { key, first: key, region, rights: Rights::WRITE }
}

fn moves(published: &Published) {
    let in_use = InUse(&published.in_use);
    let Some(seen) = published.line.read() else { return };
    in_use.begin(3);
    if published.line.is_still(&seen) {
        assert_eq!(seen.entry, entry(seen.entry.key), "it is whole");
        if seen.entry.key == 1 {
            published.memory.store(1, Ordering::Relaxed);
        }
    }
    in_use.end();
}

#[test]
fn once_it_is_taken_back_nothing_touches_its_memory() {
    loom::model(|| {
        let published = Published::new();
        let other = published.clone();
        let peer = thread::spawn(move || moves(&other));
        published.line.withdraw();
        while InUse(&published.in_use).is(3) {
            thread::yield_now();
        }
        // The memory is used for something else.
        published.memory.store(2, Ordering::Relaxed);
        published.line.publish(&entry(2));
        peer.join().unwrap();
        assert_eq!(published.memory.load(Ordering::Relaxed), 2);
    });
}
