//! Few seeds, and wrong things that the checkers must not miss.

use super::super::setup::Setup;
use super::super::world::World;
use super::super::{Trace, run};
use super::RemoteCoverage;
use super::books::{Op, Piece, Remote, State};
use super::regions::Exposure;
use super::ways::{Looks, Way};
use sluice_proto::{Access, Completion, Deed, Exposed, Failure, Kind, RegionId, Space};
use sluice_wire::{Addr, Datatype, PeerId, Region};
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

#[test]
fn the_first_seeds_come_by_every_path_of_remote_memory() {
    let seeds = (0..1_000).filter(|&seed| Setup::draw(seed).remote.is_some());
    let met = seeds.map(|seed| run(seed, &mut Trace::tail()).coverage.remote);
    let met = met.fold(RemoteCoverage::default(), |all, one| all + one);
    let missed: Vec<_> = met.iter().filter(|(_, worlds)| *worlds < 3).collect();
    assert!(missed.is_empty(), "{missed:?}");
}

const KEY: u64 = 7;
const THERE: [u8; 8] = [1, 2, 3, 4, 5, 6, 7, 8];

/// A region of process 1 and an operation of process 0 on it, whose packet was read.
struct Bench<'t> {
    world: World<'t>,
    remote: Remote,
    local: Region,
}

impl<'t> Bench<'t> {
    fn new(trace: &'t mut Trace, deed: Deed) -> Bench<'t> {
        let setup = Setup { death: None, remote: None, ..Setup::draw(1) };
        let mut world = World::new(1, &setup, trace);
        let access = Access { read: true, write: true };
        let pieces = Exposure::alloc(&mut world, 1, &THERE, &[8]);
        let id = shown(&mut world, &pieces);
        let mut region = Exposure::new(1, id, KEY, access, THERE.to_vec());
        (region.pieces, region.told) = (pieces, Some(3));
        let mut remote = Remote::default();
        remote.regions.push(region);
        let whole = world.memory(0).alloc(4 + 16);
        world.fill(0, whole, 0xAA);
        let local = whole.truncated(4);
        let part = Piece { local, bytes: vec![9; 4], ..part_of(KEY, 2, 4) };
        let op = Op { parts: vec![part], ..op_of(deed) };
        remote.begin(5, op, false);
        Bench { world, remote, local }
    }

    /// The target has taken it.
    fn take(&mut self) {
        let state = self.remote.take(5, 0, 0, 2..6);
        self.remote.ops.get_mut(&5).expect("it was begun").parts[0].state = state;
    }

    fn end(&self, kind: Kind) -> Completion {
        Completion {
            kind,
            space: Space::Untagged,
            context: 5,
            len: 4,
            buf: self.local.addr,
            tag: 0,
            data: None,
            peer: Some(PeerId(1)),
            quiet: false,
            outcome: Ok(()),
        }
    }

    fn is_fine(&mut self, who: usize, end: &Completion) -> bool {
        let Bench { world, remote, .. } = self;
        catch_unwind(AssertUnwindSafe(|| remote.ended(world, who, end))).is_ok()
    }
}

fn shown(world: &mut World<'_>, pieces: &[Region]) -> RegionId {
    let access = Access { read: true, write: true };
    let exposed = Exposed { key: KEY, pieces, access, addressed: false, told: None };
    world.call(1, |endpoint, _, port| endpoint.expose(port, &exposed)).expect("room")
}

#[test]
fn a_write_that_has_ended_is_in_its_place() {
    let mut trace = Trace::tail();
    let verdict = |trace: &mut Trace, is_there: bool, is_taken: bool| {
        let mut bench = Bench::new(trace, Deed::Write);
        if is_taken {
            bench.take();
        }
        let at = bench.remote.regions[0].pieces[0].addr.offset(2);
        if is_there {
            bench.world.memory(1).write(at, &[9; 4]);
        }
        let end = bench.end(Kind::Write);
        bench.is_fine(0, &end)
    };
    assert!(verdict(&mut trace, true, true));
    assert!(!verdict(&mut trace, false, true), "its bytes are not there");
    assert!(!verdict(&mut trace, true, false), "its packet was not read");
}

#[test]
fn a_read_brings_what_was_there_and_no_more() {
    let mut trace = Trace::tail();
    let mut verdict = |bytes: &[u8], meddle: fn(&mut Completion)| {
        let mut bench = Bench::new(&mut trace, Deed::Read);
        bench.take();
        let to = bench.local.addr;
        bench.world.memory(0).write(to, bytes);
        let mut end = bench.end(Kind::Read);
        meddle(&mut end);
        bench.is_fine(0, &end)
    };
    assert!(verdict(&[3, 4, 5, 6], |_| {}));
    assert!(!verdict(&[3, 4, 5, 7], |_| {}));
    assert!(!verdict(&[3, 4, 5, 6, 7], |_| {}), "one more than was asked for");
    let wrong: [fn(&mut Completion); 8] = [
        |end| end.kind = Kind::Write,
        |end| end.len = 3,
        |end| end.buf = Addr(65),
        |end| end.peer = Some(PeerId(0)),
        |end| end.quiet = true,
        |end| end.data = Some(1),
        |end| end.outcome = Err(Failure::NoRight { peer: PeerId(1) }),
        |end| end.outcome = Err(Failure::Fault),
    ];
    for (at, meddle) in wrong.into_iter().enumerate() {
        assert!(!verdict(&[3, 4, 5, 6], meddle), "change {at} went unseen");
    }
}

#[test]
fn a_target_is_told_once_of_what_was_done() {
    let mut trace = Trace::tail();
    let mut bench = Bench::new(&mut trace, Deed::Read);
    bench.take();
    let buf = bench.remote.regions[0].pieces[0].addr.offset(2);
    let told = Completion {
        context: 3,
        buf,
        peer: Some(PeerId(0)),
        quiet: true,
        ..bench.end(Kind::PeerRead)
    };
    assert!(!bench.is_fine(1, &Completion { kind: Kind::PeerWrite, ..told }));
    assert!(!bench.is_fine(0, &told), "another process is told");
    assert!(bench.is_fine(1, &told));
    assert!(!bench.is_fine(1, &told), "it is told twice");
}

#[test]
fn bytes_that_nobody_wrote_are_found() {
    let mut trace = Trace::tail();
    for at in [0, 7, 8] {
        let mut bench = Bench::new(&mut trace, Deed::Read);
        let Bench { world, remote, .. } = &mut bench;
        remote.regions[0].compare(world);
        let addr = remote.regions[0].pieces[0].addr.offset(at);
        world.memory(1).write(addr, &[0x55]);
        let compare = AssertUnwindSafe(|| remote.regions[0].compare(world));
        assert!(catch_unwind(compare).is_err(), "byte {at} has changed");
    }
}

#[test]
fn bytes_are_used_by_one_who_writes_or_by_many_who_do_the_same() {
    let mut trace = Trace::tail();
    let bench = Bench::new(&mut trace, Deed::Read);
    let region = &bench.remote.regions[0];
    let free = |bytes, deed| region.is_free(&bytes, op_of(deed).what());
    let sum = Deed::Combine(sluice_wire::AtomicOp::Sum, Datatype::Uint8);
    assert!(free(0..2, Deed::Write) && free(6..8, Deed::Write) && free(0..8, Deed::Read));
    assert!(!free(5..8, Deed::Write) && !free(0..3, sum));
}

fn part_of(key: u64, offset: u64, len: u64) -> Piece {
    Piece {
        local: Region { addr: Addr(64), len },
        key,
        offset,
        result: Region::EMPTY,
        operand: Vec::new(),
        bytes: Vec::new(),
        is_long: false,
        state: State::OnItsWay,
    }
}

/// An operation of process 0 and the packets that its target reads.
struct Coming {
    ops: BTreeMap<u64, Op>,
    way: Way,
}

impl Coming {
    fn new(ops: &[&[Piece]]) -> Coming {
        let mut coming = Coming { ops: BTreeMap::new(), way: Way::default() };
        for (context, parts) in (0..).zip(ops) {
            let op = Op { parts: parts.to_vec(), ..op_of(Deed::Write) };
            coming.way.begin(context, &op);
            coming.ops.insert(context, op);
        }
        coming
    }

    /// Whether these may come in this order.
    fn may(mut self, order: &[(u64, usize)]) -> bool {
        let mut all = || {
            for &(context, nth) in order {
                let looks = Looks::of_part(Deed::Write, &self.ops[&context].parts[nth]);
                assert_eq!(self.way.take(&self.ops, &looks), (context, nth));
                let (region, bytes, before) = (0, 0..0, Vec::new());
                self.ops.get_mut(&context).expect("it is there").parts[nth].state =
                    State::Taken { region, bytes, before };
            }
        };
        catch_unwind(AssertUnwindSafe(&mut all)).is_ok()
    }
}

#[test]
fn a_part_that_is_told_of_comes_when_the_long_ones_before_it_are_done() {
    let part = |offset, len| part_of(KEY, offset, len);
    let held = [part(0, 1000), part(1000, 8)];
    let short = [part(2000, 8), part(2008, 8)];
    let ops: [&[Piece]; 2] = [&held, &short];
    assert!(Coming::new(&ops).may(&[(0, 0), (1, 0), (1, 1), (0, 1)]));
    assert!(Coming::new(&ops).may(&[(0, 0), (0, 1), (1, 0), (1, 1)]));
    assert!(Coming::new(&ops).may(&[(0, 0), (1, 0), (0, 1), (1, 1)]));
    assert!(!Coming::new(&ops).may(&[(0, 1)]), "before the other");
    assert!(!Coming::new(&ops).may(&[(1, 0)]), "before what was begun earlier");
    assert!(!Coming::new(&ops).may(&[(0, 0), (1, 1)]), "short ones keep their order");
    assert!(!Coming::new(&ops).may(&[(0, 0), (0, 1), (0, 1)]), "twice");
    let mut ended = Coming::new(&ops);
    ended.way.ended(0);
    assert!(!ended.may(&[(0, 0), (0, 1)]), "after its end");
    // What is sent with it comes at once behind it.
    let more = [part(0, 1000), part_of(KEY + 1, 0, 8), part(1000, 8)];
    let ops: [&[Piece]; 2] = [&more, &short];
    assert!(Coming::new(&ops).may(&[(0, 0), (1, 0), (0, 1), (0, 2), (1, 1)]));
    assert!(!Coming::new(&ops).may(&[(0, 0), (1, 0), (0, 1), (1, 1)]));
}

#[test]
fn what_moves_at_once_is_what_may_and_nobody_is_told() {
    let mut trace = Trace::tail();
    let mut verdict = |change: fn(&mut Exposure), data: Option<u64>| {
        let Bench { mut remote, local, .. } = Bench::new(&mut trace, Deed::Write);
        remote.regions[0].told = None;
        change(&mut remote.regions[0]);
        let part = Piece { local, bytes: vec![9; 4], ..part_of(KEY, 2, 4) };
        let op = Op { parts: vec![part], at_once: 1, data, ..op_of(Deed::Write) };
        let begins = AssertUnwindSafe(|| remote.begin(6, op, false));
        let is_fine = catch_unwind(begins).is_ok();
        is_fine.then(|| remote.regions[0].bytes.clone())
    };
    assert_eq!(verdict(|_| {}, None), Some(vec![1, 2, 9, 9, 9, 9, 7, 8]));
    assert_eq!(verdict(|region| region.is_hidden = true, None), None);
    assert_eq!(verdict(|region| region.access.write = false, None), None);
    assert_eq!(verdict(|region| region.told = Some(3), None), None);
    assert_eq!(verdict(|_| {}, Some(1)), None, "data is told");
}

#[test]
fn a_target_is_told_when_all_parts_are_done() {
    let mut trace = Trace::tail();
    let mut verdict = |is_there: bool, data: bool, is_refused: bool| {
        let mut bench = Bench::new(&mut trace, Deed::Write);
        let Bench { world, remote, .. } = &mut bench;
        let op = remote.ops.get_mut(&5).expect("it was begun");
        op.data = data.then_some(1);
        op.parts.push(Piece { bytes: vec![8; 1], ..part_of(KEY, 7, 1) });
        let first = remote.take(5, 0, 0, 2..6);
        let last = remote.take(5, 1, 0, 7..8);
        let op = remote.ops.get_mut(&5).expect("it was begun");
        op.parts[0].state = first;
        op.parts[1].state = last;
        let start = remote.regions[0].pieces[0].addr;
        if is_refused {
            op.parts[0].state = State::Refused(Failure::NoRegion { peer: PeerId(1) });
            remote.regions[0].bytes[2..6].copy_from_slice(&THERE[2..6]);
        }
        world.memory(1).write(start.offset(7), &[8]);
        if is_there {
            world.memory(1).write(start.offset(2), &[9; 4]);
        }
        let told = Completion {
            context: 3,
            buf: start.offset(7),
            len: 1,
            peer: Some(PeerId(0)),
            quiet: !data,
            data: data.then_some(1),
            ..bench.end(Kind::PeerWrite)
        };
        bench.is_fine(1, &told)
    };
    assert!(verdict(true, false, false) && verdict(true, true, false));
    assert!(!verdict(false, false, false), "the first part is on its way");
    // A short part that is refused keeps nobody from counting, but data is told of the whole.
    assert!(verdict(false, false, true));
    assert!(!verdict(false, true, true), "the data of a write that fails");
}

fn op_of(deed: Deed) -> Op {
    Op {
        who: 0,
        peer: 1,
        deed,
        parts: Vec::new(),
        data: None,
        report: true,
        inject: false,
        short_bytes_max: 960,
        at_once: 0,
        is_done: false,
        is_lost: false,
    }
}
