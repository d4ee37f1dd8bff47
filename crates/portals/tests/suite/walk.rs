//! Random appends, unlinks, searches and puts against a naive walk of lists
//! that are vectors.

use crate::pair::net::{Mode, random::Random, roomy};
use crate::pair::{PT, Pair, entry};
use proptest::prelude::*;
use sluice_portals::{EventKind, Handle, List, MdOptions, Me, MeOptions, MeSpec, SearchOp};
use sluice_wire::{MatchBits, PeerId, Region};

/// What a client sees: kind, user pointer, match bits, moved length.
type Seen = (EventKind, u64, u64, u64);

#[derive(Clone, Copy, Debug)]
struct Entry {
    user_ptr: u64,
    handle: Option<Handle<Me>>,
    bits: u64,
    ignore: u64,
    source: Option<u32>,
    len: u64,
    use_once: bool,
    no_truncate: bool,
    op_put: bool,
    /// Overflow list: headers that point into it.
    headers: u64,
}

#[derive(Clone, Copy, Debug)]
struct Unexpected {
    bits: u64,
    from: u32,
    len: u64,
    moved: u64,
    /// The overflow entry that took it.
    user_ptr: u64,
}

#[derive(Debug, Default)]
struct Naive {
    priority: Vec<Entry>,
    overflow: Vec<Entry>,
    unlinked: Vec<Entry>,
    unexpected: Vec<Unexpected>,
    seen: Vec<Seen>,
    dropped: u64,
    violations: u64,
}

impl Entry {
    fn accepts(&self, bits: u64, from: u32, len: u64) -> bool {
        (self.bits ^ bits) & !self.ignore == 0
            && self.source.is_none_or(|source| source == from)
            && (!self.no_truncate || len <= self.len)
    }
}

impl Naive {
    fn put(&mut self, bits: u64, from: u32, len: u64) {
        if let Some(at) = self.priority.iter().position(|e| e.accepts(bits, from, len)) {
            let entry = self.priority[at];
            if !entry.op_put {
                self.violations += 1;
                return;
            }
            self.seen.push((EventKind::Put, entry.user_ptr, bits, len.min(entry.len)));
            if entry.use_once {
                self.priority.remove(at);
                self.seen.push((EventKind::AutoUnlink, entry.user_ptr, 0, 0));
            }
            return;
        }
        let Some(at) = self.overflow.iter().position(|e| e.accepts(bits, from, len)) else {
            self.dropped += 1;
            return;
        };
        let entry = &mut self.overflow[at];
        if !entry.op_put {
            self.violations += 1;
            return;
        }
        entry.headers += 1;
        let (moved, user_ptr) = (len.min(entry.len), entry.user_ptr);
        self.seen.push((EventKind::Put, user_ptr, bits, moved));
        self.unexpected.push(Unexpected { bits, from, len, moved, user_ptr });
        if entry.use_once {
            let entry = self.overflow.remove(at);
            self.unlinked.push(entry);
            self.seen.push((EventKind::AutoUnlink, user_ptr, 0, 0));
        }
    }

    fn take(&mut self, wanted: &Entry, appended: bool) -> bool {
        let Some(at) = self.unexpected.iter().position(|u| wanted.accepts(u.bits, u.from, u.len))
        else {
            return false;
        };
        let header = self.unexpected.remove(at);
        self.seen.push((EventKind::PutOverflow, wanted.user_ptr, header.bits, header.moved));
        if appended && wanted.use_once {
            self.seen.push((EventKind::AutoUnlink, wanted.user_ptr, 0, 0));
        }
        for list in [&mut self.overflow, &mut self.unlinked] {
            if let Some(entry) = list.iter_mut().find(|e| e.user_ptr == header.user_ptr) {
                entry.headers -= 1;
            }
        }
        let free = |e: &Entry| e.headers == 0;
        for freed in self.unlinked.iter().filter(|e| free(e)) {
            self.seen.push((EventKind::AutoFree, freed.user_ptr, 0, 0));
        }
        self.unlinked.retain(|e| !free(e));
        true
    }

    /// True if the entry is linked.
    fn append(&mut self, list: List, entry: Entry) -> bool {
        if list == List::Overflow {
            self.overflow.push(entry);
            return true;
        }
        while self.take(&entry, true) {
            if entry.use_once {
                return false;
            }
        }
        self.priority.push(entry);
        true
    }
}

struct Run {
    pair: Pair,
    naive: Naive,
    draw: Random,
    next_user_ptr: u64,
}

impl Run {
    fn wanted(&mut self) -> (Entry, MeSpec) {
        self.next_user_ptr += 1;
        let draw = &mut self.draw;
        let new = Entry {
            user_ptr: self.next_user_ptr,
            handle: None,
            bits: draw.below(4),
            ignore: *draw.pick(&[0, 0, 1, 3]),
            source: *draw.pick(&[None, Some(0), Some(2)]),
            len: *draw.pick(&[0, 2, 100]),
            use_once: draw.percent(60),
            no_truncate: draw.percent(30),
            op_put: !draw.percent(10),
            headers: 0,
        };
        let options = MeOptions {
            op_put: new.op_put,
            use_once: new.use_once,
            no_truncate: new.no_truncate,
            ..MeOptions::default()
        };
        let memory = self.pair.alloc(1, &vec![0; new.len as usize]);
        let spec = MeSpec {
            ignore_bits: new.ignore,
            source: new.source.map(PeerId),
            match_bits: MatchBits(new.bits),
            ..entry(memory, new.bits, options, new.user_ptr)
        };
        (new, spec)
    }

    fn append(&mut self) {
        let list = if self.draw.percent(60) { List::Priority } else { List::Overflow };
        let (mut new, spec) = self.wanted();
        new.handle = self.pair.append(list, spec);
        assert_eq!(self.naive.append(list, new), new.handle.is_some());
    }

    fn unlink(&mut self) {
        let overflow = self.draw.percent(50);
        let list = if overflow { &mut self.naive.overflow } else { &mut self.naive.priority };
        if list.is_empty() {
            return;
        }
        let at = self.draw.below(list.len() as u64) as usize;
        let unlinked = self.pair.sides[1].ni.me_unlink(list[at].handle.expect("it is linked"));
        assert_eq!(unlinked.is_ok(), list[at].headers == 0);
        if unlinked.is_ok() {
            list.remove(at);
        }
    }

    fn search(&mut self) {
        let (wanted, spec) = self.wanted();
        let delete = self.draw.percent(50);
        let op = if delete { SearchOp::Delete } else { SearchOp::Only };
        let side = &mut self.pair.sides[1];
        side.ni.me_search(&mut side.port, PT, op, &spec).expect("the entry exists");
        let mut found = 0;
        if delete {
            while (found == 0 || !wanted.use_once) && self.naive.take(&wanted, false) {
                found += 1;
            }
        } else {
            let all = self.naive.unexpected.iter();
            let all = all.filter(|u| wanted.accepts(u.bits, u.from, u.len));
            for u in all.take(if wanted.use_once { 1 } else { usize::MAX }) {
                self.naive.seen.push((EventKind::Search, wanted.user_ptr, u.bits, u.moved));
                found += 1;
            }
        }
        if found == 0 {
            self.naive.seen.push((EventKind::Search, wanted.user_ptr, 0, 0));
        }
    }

    fn put(&mut self) {
        let from = *self.draw.pick(&[0usize, 2]);
        let (bits, len) = (self.draw.below(4), *self.draw.pick(&[0u64, 1, 2, 3, 80]));
        self.pair.put_from(from, bits, &vec![9; len as usize], 0, None);
        self.pair.run();
        self.naive.put(bits, from as u32, len);
    }

    fn compare(&mut self) {
        let seen: Vec<Seen> = self
            .pair
            .events(1)
            .into_iter()
            .map(|event| (event.kind, event.user_ptr, event.match_bits.0, event.mlength))
            .collect();
        assert_eq!(seen, std::mem::take(&mut self.naive.seen));
        let ni = &self.pair.sides[1].ni;
        let status = ni.status();
        assert_eq!(status.dropped, self.naive.dropped);
        assert_eq!(status.operation_violations, self.naive.violations);
        assert_eq!(ni.unexpected_now(), self.naive.unexpected.len() as u64);
        // Headers hold the credits of their messages, and nothing else does.
        let slots_of = |len: u64| if len > 24 { 1 + len.div_ceil(64) } else { 1 };
        let slots: u64 = self.naive.unexpected.iter().map(|u| slots_of(u.len)).sum();
        assert_eq!(ni.links().slots_held(), slots);
    }
}

fn run(seed: u64, operations: u64) {
    let pair = Pair::with(&[roomy(); 3], Mode::default(), MdOptions::default());
    let draw = Random::new(seed);
    let mut run = Run { pair, naive: Naive::default(), draw, next_user_ptr: 0 };
    for _ in 0..operations {
        match run.draw.below(10) {
            0..4 => run.append(),
            4 => run.unlink(),
            5 => run.search(),
            _ => run.put(),
        }
        run.compare();
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 256,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn lists_are_walked_in_order(seed in any::<u64>(), operations in 1u64..200) {
        run(seed, operations);
    }
}

#[test]
fn memory_of_no_bytes_is_memory() {
    let mut pair = Pair::new();
    let options = MeOptions { op_put: true, ..MeOptions::default() };
    pair.append(List::Priority, entry(Region::EMPTY, 7, options, 1));
    pair.put(7, b"nothing fits");
    assert_eq!(pair.happened(1), [(EventKind::Put, 1, 0)]);
}
