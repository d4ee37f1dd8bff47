//! Two processes and the rails between them, in virtual time: rails break, fall silent,
//! become slow and return, and everything arrives once.

use proptest::prelude::*;
use sluice_multirail::{
    Arrival, Ask, Below, ChunkId, Landing, Number, Peer, RailId, RailSpec, RailState, ReadId,
    Striping, Timing,
};
use sluice_wire::Nanos;
use std::collections::{BTreeMap, VecDeque};

const MS: u64 = 1_000_000;
const RAILS: usize = 3;
const DELAY_NS: u64 = 20_000;
/// What a socket brings in one go.
const PIECE_BYTES: u64 = 16 << 10;

/// Far more than anything here takes.
const STEPS_MAX: u64 = 10_000_000;

/// What travels on a rail.
#[derive(Clone, Copy, Debug)]
enum What {
    Packet(Number),
    Ask(ChunkId, u64),
    Bytes(ChunkId, u64),
    /// An answer is wanted.
    Probe,
    /// Nothing but the acknowledgement.
    Answer,
}

/// What a process has asked of the world, and not been given yet.
#[derive(Debug, Default)]
struct Asked {
    /// Numbers that are kept.
    kept: VecDeque<u64>,
    frames: Vec<(RailId, What)>,
    opens: Vec<RailId>,
    closes: Vec<RailId>,
    is_gone: bool,
}

impl Below for Asked {
    fn open(&mut self, rail: RailId) {
        self.opens.push(rail);
    }

    fn close(&mut self, rail: RailId) {
        self.frames.retain(|&(on, _)| on != rail);
        self.closes.push(rail);
    }

    fn probe(&mut self, rail: RailId) {
        self.frames.push((rail, What::Probe));
    }

    fn resume(&mut self, rail: RailId, first: Number) {
        let again = self.kept.iter().filter(|&&number| number >= first.0);
        self.frames.extend(again.map(|&number| (rail, What::Packet(Number(number)))));
    }

    fn ask(&mut self, ask: Ask) {
        self.frames.push((ask.rail, What::Ask(ask.chunk, ask.len)));
    }

    fn release(&mut self, count: u64) {
        self.kept.drain(..count as usize);
    }

    fn gone(&mut self) {
        self.is_gone = true;
    }
}

struct Host {
    peer: Peer,
    asked: Asked,
    sent: u64,
    got: Vec<u64>,
    reads: BTreeMap<u64, u64>,
}

/// One direction of a rail.
#[derive(Clone, Debug, Default)]
struct Wire {
    /// When it has brought what is on it.
    free_at: u64,
    frames: VecDeque<(u64, Number, What)>,
}

#[derive(Clone, Debug)]
struct Link {
    bytes_per_s: u64,
    /// Nothing arrives, and nobody is told.
    is_silent: bool,
    /// It cannot be opened.
    is_cut: bool,
    wants: [bool; 2],
    opens_at: Option<u64>,
    is_open: bool,
    wires: [Wire; 2],
}

struct World {
    hosts: [Host; 2],
    links: Vec<Link>,
    now: u64,
    steps: u64,
}

impl World {
    fn new(gbits: [u64; RAILS], timing: Timing) -> World {
        let host = || {
            let specs = [0, 10_000, 20_000]
                .map(|more| RailSpec { bytes_per_s: 125_000_000, latency_ns: 40_000 + more });
            let peer = Peer::new(&specs, timing, Striping::default(), Nanos(0));
            Host { peer, asked: Asked::default(), sent: 0, got: Vec::new(), reads: BTreeMap::new() }
        };
        let link = |gbit| Link {
            bytes_per_s: gbit * 125_000_000,
            is_silent: false,
            is_cut: false,
            wants: [false; 2],
            opens_at: None,
            is_open: false,
            wires: [Wire::default(), Wire::default()],
        };
        let mut world =
            World { hosts: [host(), host()], links: gbits.map(link).to_vec(), now: 0, steps: 0 };
        world.advance();
        world
    }

    /// Calls a process, and does what it then asks for.
    fn call<R>(&mut self, who: usize, then: impl FnOnce(&mut Peer, Nanos, &mut Asked) -> R) -> R {
        let Host { peer, asked, .. } = &mut self.hosts[who];
        let result = then(peer, Nanos(self.now), asked);
        peer.check_invariants();
        self.serve(who);
        result
    }

    fn serve(&mut self, who: usize) {
        for (rail, what) in std::mem::take(&mut self.hosts[who].asked.frames) {
            self.put(who, rail, what);
        }
        for rail in std::mem::take(&mut self.hosts[who].asked.opens) {
            let link = &mut self.links[rail.index()];
            link.wants[who] = true;
            if link.is_cut {
                link.wants[who] = false;
                self.call(who, |peer, now, below| peer.broke(now, below, rail));
            } else if link.wants == [true; 2] {
                link.opens_at = Some(self.now + 3 * DELAY_NS);
            }
        }
        for rail in std::mem::take(&mut self.hosts[who].asked.closes) {
            self.end(rail, Some(who));
        }
    }

    fn put(&mut self, who: usize, rail: RailId, what: What) {
        let link = &mut self.links[rail.index()];
        if !link.is_open {
            return;
        }
        let bytes = if let What::Bytes(_, len) = what { len } else { 64 };
        let wire = &mut link.wires[who];
        wire.free_at = wire.free_at.max(self.now) + bytes * 1_000_000_000 / link.bytes_per_s;
        let acknowledged = self.hosts[who].peer.tell();
        wire.frames.push_back((wire.free_at + DELAY_NS, acknowledged, what));
    }

    /// A rail is no more; who did not close it is told.
    fn end(&mut self, rail: RailId, closer: Option<usize>) {
        let link = &mut self.links[rail.index()];
        let told = link.wants;
        link.wires = [Wire::default(), Wire::default()];
        (link.is_open, link.wants, link.opens_at) = (false, [false; 2], None);
        for (who, wanted) in told.into_iter().enumerate() {
            if wanted && closer != Some(who) {
                self.call(who, |peer, now, below| peer.broke(now, below, rail));
            }
        }
    }

    fn advance(&mut self) {
        for who in 0..2 {
            self.call(who, |peer, now, below| peer.advance(now, below));
        }
    }

    /// The next thing that happens until then.
    fn step(&mut self, until: u64) -> bool {
        let arrivals = self.links.iter().enumerate().flat_map(|(at, link)| {
            let comes = |who: usize| link.wires[who].frames.front().map(|frame| frame.0);
            let is_heard = link.is_open && !link.is_silent;
            (0..2).filter_map(move |who| Some((comes(who).filter(|_| is_heard)?, at, who)))
        });
        let arrival = arrivals.min();
        let open = self.links.iter().enumerate();
        let open = open.filter_map(|(at, link)| Some((link.opens_at?, at))).min();
        let due = |host: &Host| host.peer.deadline(Nanos(self.now)).map(|when| when.0);
        let due = self.hosts.iter().filter_map(due).min();
        let times = [arrival.map(|one| one.0), open.map(|one| one.0), due];
        let Some(next) = times.into_iter().flatten().min().filter(|&next| next <= until) else {
            self.now = until;
            return false;
        };
        self.now = self.now.max(next);
        self.steps += 1;
        assert!(self.steps < STEPS_MAX, "time stands still at {} ns", self.now);
        if let Some((when, at, from)) = arrival.filter(|one| one.0 == next) {
            let frame = self.links[at].wires[from].frames.pop_front();
            let (_, acknowledged, what) = frame.expect("it was seen");
            assert_eq!(when, next);
            self.arrive(1 - from, RailId(at as u8), acknowledged, what);
        } else if let Some((_, at)) = open.filter(|one| one.0 == next) {
            self.links[at].opens_at = None;
            self.links[at].is_open = true;
            let rail = RailId(at as u8);
            for who in 0..2 {
                let is_wanted = self.call(who, |peer, now, below| peer.opened(now, below, rail));
                assert!(is_wanted, "both wanted it");
            }
        } else {
            self.advance();
        }
        true
    }

    fn arrive(&mut self, who: usize, rail: RailId, acknowledged: Number, what: What) {
        self.call(who, |peer, now, below| {
            // The short ways first, as who moves bytes has them.
            if peer.has_heard(now, rail, acknowledged) {
                return Ok(());
            }
            match peer.heard_in_use(now, rail, acknowledged) {
                Some(0) => Ok(()),
                Some(fresh) => {
                    below.release(fresh);
                    Ok(())
                }
                None => peer.heard(now, below, rail, acknowledged),
            }
        })
        .unwrap();
        match what {
            What::Packet(number) => {
                let arrival = self.hosts[who].peer.receive(number).expect("numbers follow");
                if arrival == Arrival::New {
                    self.hosts[who].got.push(number.0);
                }
                self.put(who, rail, What::Answer);
            }
            What::Ask(chunk, len) => {
                for at in (0..len).step_by(PIECE_BYTES as usize) {
                    self.put(who, rail, What::Bytes(chunk, PIECE_BYTES.min(len - at)));
                }
            }
            What::Bytes(chunk, bytes) => {
                if let Landing::Into { read, len, .. } = self.hosts[who].peer.landing(rail, chunk) {
                    assert!(bytes <= len);
                    *self.hosts[who].reads.get_mut(&read.0).expect("a read") -= bytes;
                }
                let ended =
                    self.call(who, |peer, now, below| peer.arrived(now, below, rail, chunk, bytes));
                if let Some(ReadId(id)) = ended {
                    assert_eq!(self.hosts[who].reads.remove(&id), Some(0), "all of it has come");
                }
            }
            What::Probe => self.put(who, rail, What::Answer),
            What::Answer => {}
        }
    }

    fn send(&mut self, who: usize) {
        let (number, rail) = self.hosts[who].peer.send(Nanos(self.now));
        self.hosts[who].sent += 1;
        self.hosts[who].asked.kept.push_back(number.0);
        if let Some(rail) = rail {
            self.put(who, rail, What::Packet(number));
        }
    }

    fn read(&mut self, who: usize, id: u64, len: u64) {
        self.hosts[who].reads.insert(id, len);
        self.call(who, |peer, now, below| peer.read(now, below, ReadId(id), len));
    }

    fn run(&mut self, ns: u64) {
        let until = self.now + ns;
        while self.step(until) {}
    }

    /// Everything has arrived, once and in order.
    fn assert_all_came(&self) {
        for who in 0..2 {
            let sent: Vec<u64> = (0..self.hosts[1 - who].sent).collect();
            assert_eq!(self.hosts[who].got, sent, "what {who} got");
            assert!(self.hosts[who].reads.is_empty(), "reads of {who}");
            assert!(!self.hosts[who].peer.is_gone());
        }
    }
}

fn three() -> World {
    let mut world = World::new([1, 2, 4], Timing::default());
    world.run(MS);
    world
}

#[test]
fn packets_take_the_rail_of_least_latency_and_chunks_all_of_them() {
    let mut world = three();
    for _ in 0..100 {
        world.send(0);
    }
    world.read(1, 0, 8 << 20);
    world.run(50 * MS);
    world.assert_all_came();
    let paces: Vec<bool> =
        (0..3).map(|at| world.hosts[1].peer.pace(RailId(at)).is_measured()).collect();
    assert_eq!(paces, [true; 3]);
    assert_eq!(world.hosts[0].peer.kept(), 0);
}

/// Without loss and without duplication, and within 20 ms.
#[test]
fn a_rail_that_breaks_costs_nothing_but_its_share() {
    let mut world = three();
    for _ in 0..1000 {
        world.send(0);
    }
    world.read(1, 0, 8 << 20);
    world.run(MS / 10);
    world.end(RailId(0), None);
    world.run(20 * MS);
    world.assert_all_came();
}

#[test]
fn a_rail_that_falls_silent_is_left_and_taken_back() {
    let mut world = three();
    world.read(1, 0, 64 << 20);
    world.run(2 * MS);
    for _ in 0..100 {
        world.send(0);
    }
    world.links[0].is_silent = true;
    world.run(50 * MS);
    assert_eq!(world.hosts[1].got.len(), 100, "the stream has moved");
    world.links[0].is_silent = false;
    world.run(200 * MS);
    world.assert_all_came();
    assert!(world.hosts[1].peer.state(RailId(0)) == sluice_multirail::RailState::Up);
}

/// What is kept goes again there, so something is expected of it.
#[test]
fn a_silent_rail_that_the_stream_moves_to_is_left_too() {
    let mut world = three();
    world.links[1].is_silent = true;
    for _ in 0..10 {
        world.send(0);
    }
    world.end(RailId(0), None);
    world.links[0].is_cut = true;
    world.run(1_000 * MS);
    assert_eq!(world.hosts[1].got.len(), 10);
}

/// Nothing has ever come of it, and nobody watches.
#[test]
fn a_rail_that_owes_nothing_but_chunks_and_brings_none_is_left() {
    let mut below = Asked::default();
    let spec = RailSpec { bytes_per_s: 125_000_000, latency_ns: 40_000 };
    let mut peer = Peer::new(&[spec], Timing::default(), Striping::default(), Nanos(0));
    peer.advance(Nanos(0), &mut below);
    assert!(peer.opened(Nanos(0), &mut below, RailId(0)));
    peer.read(Nanos(0), &mut below, ReadId(0), 1 << 20);
    let mut now = Nanos(0);
    while let Some(due) = peer.deadline(now).filter(|due| due.0 <= 500 * MS) {
        now = due;
        peer.advance(now, &mut below);
    }
    assert_eq!(peer.state(RailId(0)), sluice_multirail::RailState::Suspect);
}

/// Whoever has nothing to look at sleeps: a read may wait half a minute for a rail.
#[test]
fn a_read_without_rails_wakes_nobody_each_millisecond() {
    let mut below = Asked::default();
    let spec = RailSpec { bytes_per_s: 125_000_000, latency_ns: 40_000 };
    let mut peer = Peer::new(&[spec; 2], Timing::default(), Striping::default(), Nanos(0));
    peer.advance(Nanos(0), &mut below);
    peer.read(Nanos(0), &mut below, ReadId(0), 1 << 20);
    assert_eq!(peer.deadline(Nanos(0)), Some(Nanos(Timing::default().open_ns)));
}

/// Neither silent nor gone, so nobody but the reader finds that it is late.
#[test]
fn a_rail_that_becomes_slow_does_not_hold_up_the_end_of_a_read() {
    let mut world = three();
    world.read(1, 0, 16 << 20);
    world.run(100 * MS);
    world.assert_all_came();
    world.read(1, 1, 4 << 20);
    world.run(2 * MS);
    world.links[2].bytes_per_s = 1_600_000;
    world.run(40 * MS);
    world.assert_all_came();
}

#[test]
fn a_read_over_a_rail_that_has_never_spoken_is_missed() {
    let timing = Timing::default();
    let spec = RailSpec { bytes_per_s: 1_000_000_000, latency_ns: 20_000 };
    let mut peer = Peer::new(&[spec], timing, Striping::default(), Nanos(0));
    let mut asked = Asked::default();
    peer.advance(Nanos(0), &mut asked);
    assert!(peer.opened(Nanos(0), &mut asked, RailId(0)));
    peer.read(Nanos(0), &mut asked, ReadId(1), 1000);
    peer.advance(Nanos(timing.suspect_alone_ns), &mut asked);
    assert_eq!(peer.state(RailId(0)), RailState::Suspect);
}

#[test]
fn a_peer_without_rails_is_gone_in_the_end_and_one_whose_rails_return_is_not() {
    let mut world = three();
    world.links.iter_mut().for_each(|link| link.is_cut = true);
    (0..3).for_each(|at| world.end(RailId(at), None));
    world.send(0);
    world.run(29_000 * MS);
    assert!(world.hosts.iter().all(|host| !host.peer.is_gone()));
    world.links[1].is_cut = false;
    world.run(2_000 * MS);
    world.assert_all_came();
    world.links[1].is_cut = true;
    world.end(RailId(1), None);
    world.run(31_000 * MS);
    assert!(world.hosts.iter().all(|host| host.peer.is_gone() && host.asked.is_gone));
    assert_eq!(world.hosts[0].peer.deadline(Nanos(world.now)), None);
}

#[derive(Clone, Copy, Debug)]
enum Event {
    Send(usize, u8),
    Read(usize, u64),
    Run(u64),
    Break(usize),
    Cut(usize, bool),
    Silent(usize, bool),
    Rate(usize, u64),
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        4 => (0..2_usize, any::<u8>()).prop_map(|(who, count)| Event::Send(who, count)),
        2 => (0..2_usize, 1..4_000_000_u64).prop_map(|(who, len)| Event::Read(who, len)),
        4 => (1..100_000_000_u64).prop_map(Event::Run),
        4 => (1..1_000_000_u64).prop_map(Event::Run),
        2 => (0..RAILS).prop_map(Event::Break),
        1 => (0..RAILS, any::<bool>()).prop_map(|(rail, on)| Event::Cut(rail, on)),
        2 => (0..RAILS, any::<bool>()).prop_map(|(rail, on)| Event::Silent(rail, on)),
        1 => (0..RAILS, 1..4_000_u64).prop_map(|(rail, mbit)| Event::Rate(rail, mbit)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    /// Whatever the rails do, once they are well everything arrives once and in order.
    #[test]
    fn everything_arrives_once_whatever_rails_do(events in prop::collection::vec(event(), 1..80)) {
        let mut world = three();
        for (event, id) in events.into_iter().zip(0..) {
            match event {
                Event::Send(who, count) => (0..count).for_each(|_| world.send(who)),
                Event::Read(who, len) => world.read(who, id, len),
                Event::Run(ns) => world.run(ns),
                Event::Break(rail) => world.end(RailId(rail as u8), None),
                Event::Cut(rail, on) => {
                    world.links[rail].is_cut = on;
                    if on {
                        world.end(RailId(rail as u8), None);
                    }
                }
                Event::Silent(rail, on) => world.links[rail].is_silent = on,
                Event::Rate(rail, mbit) => world.links[rail].bytes_per_s = mbit * 125_000,
            }
        }
        for link in &mut world.links {
            (link.is_cut, link.is_silent) = (false, false);
            link.bytes_per_s = link.bytes_per_s.max(12_500_000);
        }
        world.run(60_000 * MS);
        world.assert_all_came();
    }
}
