//! Processes whose queues are too small, each with several portal table entries, and
//! what a naive oracle says of them: each initiator's operations on an entry are done in
//! the order in which they were issued, each once, and told once.

#![allow(dead_code, reason = "each test program uses its part of it")]

use crate::pair::net::{Event as NetEvent, Mode};
use crate::pair::{Pair, Side, open, program_limits};
use sluice_link::Layout;
use sluice_portals::{
    Arithmetic, Command, Eq, EqTaken, Event, EventKind, Handle, Limits, List, Local, Md, MdOptions,
    MeSpec, NiFail, PtOptions, Scheme, Taken, Target,
};
use sluice_wire::{AckKind, Addr, AtomicOp, Datatype, MatchBits, PeerId, PtIndex, Region};
use std::collections::BTreeMap;

/// Bytes of an entry for each operation of one initiator.
pub const STRIDE: u64 = 128;
/// Longer than what travels with its header.
pub const LONG: u64 = 100;
/// What every byte of an entry is before.
pub const BEFORE: u8 = 3;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Put,
    PutNoAck,
    PutLong,
    PutLongNoAck,
    Get,
    GetLong,
    Sum,
    SumNoAck,
    Fetch,
    Swap,
}

pub const KINDS: [Kind; 10] = [
    Kind::Put,
    Kind::PutNoAck,
    Kind::PutLong,
    Kind::PutLongNoAck,
    Kind::Get,
    Kind::GetLong,
    Kind::Sum,
    Kind::SumNoAck,
    Kind::Fetch,
    Kind::Swap,
];

impl Kind {
    fn length(self) -> u64 {
        match self {
            Kind::PutLong | Kind::PutLongNoAck | Kind::GetLong => LONG,
            _ => 8,
        }
    }

    /// What the initiator is told, in this order but for the send of what fetches.
    fn told(self) -> Vec<EventKind> {
        match self {
            Kind::Put | Kind::PutLong | Kind::Sum => vec![EventKind::Send, EventKind::Ack],
            Kind::PutNoAck | Kind::PutLongNoAck | Kind::SumNoAck => vec![EventKind::Send],
            Kind::Get | Kind::GetLong => vec![EventKind::Reply],
            Kind::Fetch | Kind::Swap => vec![EventKind::Reply, EventKind::Send],
        }
    }
}

/// One operation, as the oracle has it.
pub struct Issued {
    pub kind: Kind,
    pub value: u8,
    pub into: Region,
    pub told: Vec<EventKind>,
}

/// Where operations of one initiator on one entry go.
pub type Way = (usize, usize, u8);

pub struct World {
    pub pair: Pair,
    pub entries: u8,
    origin_eqs: Vec<Handle<Eq>>,
    origin_mds: Vec<Handle<Md>>,
    /// By process and entry: its queue, and its memory for each initiator.
    queues: BTreeMap<(usize, u8), Handle<Eq>>,
    memory: BTreeMap<Way, Region>,
    pub issued: BTreeMap<Way, Vec<Issued>>,
    /// How many of them the target was told of.
    pub done: BTreeMap<Way, usize>,
    /// The newest of these that is not long.
    newest: BTreeMap<Way, usize>,
    pub operations_max: u64,
}

pub fn limits(scheme: Scheme) -> Limits {
    Limits { recovery: Some(scheme), ..program_limits() }
}

impl World {
    /// Entries with queues for so many events; those of initiators are roomy.
    pub fn new(
        processes: usize,
        entries: u8,
        queue: usize,
        scheme: Scheme,
        mode: Mode,
        operations_max: u64,
    ) -> World {
        World::with_limits(processes, entries, [queue, 1000], limits(scheme), mode, operations_max)
    }

    /// The same with a limit for the queues of initiators too.
    pub fn with_limits(
        processes: usize,
        entries: u8,
        [queue, own_queue]: [usize; 2],
        limits: Limits,
        mode: Mode,
        operations_max: u64,
    ) -> World {
        let queues = [queue, own_queue];
        World::with_queues(processes, entries, queues, false, limits, mode, operations_max)
    }

    /// The same; where it is `shared`, the queue of the first entry of a process is also that
    /// of its own operations.
    pub fn with_queues(
        processes: usize,
        entries: u8,
        [queue, own_queue]: [usize; 2],
        shared: bool,
        limits: Limits,
        mode: Mode,
        operations_max: u64,
    ) -> World {
        let layout = Layout::divide(processes as u16, 1 << 14).expect("they fit");
        let layouts = vec![layout; processes];
        World::with_layouts(
            &layouts,
            entries,
            [queue, own_queue],
            shared,
            limits,
            mode,
            operations_max,
        )
    }

    /// The same, of processes that grant each other what these layouts say.
    pub fn with_layouts(
        layouts: &[Layout],
        entries: u8,
        [queue, own_queue]: [usize; 2],
        shared: bool,
        limits: Limits,
        mode: Mode,
        operations_max: u64,
    ) -> World {
        let processes = layouts.len();
        let pair = Pair::with_limits(layouts, mode, MdOptions::default(), limits);
        let mut world = World {
            pair,
            entries,
            origin_eqs: Vec::new(),
            origin_mds: Vec::new(),
            queues: BTreeMap::new(),
            memory: BTreeMap::new(),
            issued: BTreeMap::new(),
            done: BTreeMap::new(),
            newest: BTreeMap::new(),
            operations_max,
        };
        for who in 0..processes {
            for entry in 0..entries {
                world.add_entry(who, entry, queue, processes);
            }
            let Side { ni, .. } = &mut world.pair.sides[who];
            let eq = if shared { world.queues[&(who, 0)] } else { ni.eq_alloc(own_queue).unwrap() };
            let whole = Region { addr: Addr(0), len: u64::MAX };
            world
                .origin_mds
                .push(ni.md_bind(whole, None, Some(eq), None, MdOptions::default()).unwrap());
            world.origin_eqs.push(eq);
        }
        world
    }

    fn add_entry(&mut self, who: usize, entry: u8, queue: usize, processes: usize) {
        let pt = PtIndex(10 + entry);
        let Side { ni, .. } = &mut self.pair.sides[who];
        let eq = ni.eq_alloc(queue).unwrap();
        let flow = PtOptions { flow_control: true, ..PtOptions::default() };
        ni.pt_alloc(pt, flow, Some(eq)).unwrap();
        self.queues.insert((who, entry), eq);
        for from in 0..processes {
            let bytes = vec![BEFORE; (self.operations_max * STRIDE) as usize];
            let region = self.pair.alloc(who, &bytes);
            self.memory.insert((from, who, entry), region);
            let mut options = open();
            options.event_link_disable = true;
            let match_bits = MatchBits(from as u64);
            let spec = MeSpec { region, match_bits, options, ..MeSpec::default() };
            let Side { ni, port, .. } = &mut self.pair.sides[who];
            ni.me_append(port, pt, List::Priority, spec).unwrap();
        }
    }

    /// The next operation of this way, of this kind, as a command.
    pub fn command(&mut self, way: Way, kind: Kind) -> Command {
        let (from, to, entry) = way;
        let number = self.issued.entry(way).or_default().len();
        let value = (number % 100 + 100) as u8;
        let source = self.pair.alloc(from, &vec![value; kind.length() as usize]);
        let into = self.pair.alloc(from, &vec![0; kind.length() as usize]);
        let told = kind.told();
        self.issued.get_mut(&way).unwrap().push(Issued { kind, value, into, told });
        let md = self.origin_mds[from];
        let local = |region: Region| Local { md, offset: region.addr.0, length: region.len };
        let target = Target {
            peer: PeerId(to as u32),
            pt_index: PtIndex(10 + entry),
            match_bits: MatchBits(from as u64),
            remote_offset: number as u64 * STRIDE,
        };
        let user_ptr = (to as u64) << 40 | u64::from(entry) << 32 | number as u64;
        let arithmetic = |op| Arithmetic { op, datatype: Datatype::Uint8, operand: [0; 32] };
        let (full, hdr_data) = (Some(AckKind::Full), number as u64);
        match kind {
            Kind::Put | Kind::PutLong => {
                Command::Put { from: local(source), ack: full, target, hdr_data, user_ptr }
            }
            Kind::PutNoAck | Kind::PutLongNoAck => {
                Command::Put { from: local(source), ack: None, target, hdr_data, user_ptr }
            }
            Kind::Get | Kind::GetLong => Command::Get { into: local(into), target, user_ptr },
            Kind::Sum | Kind::SumNoAck => Command::Atomic {
                from: local(source),
                ack: if kind == Kind::Sum { full } else { None },
                target,
                hdr_data,
                user_ptr,
                arithmetic: arithmetic(AtomicOp::Sum),
            },
            Kind::Fetch | Kind::Swap => Command::Fetch {
                into: local(into),
                from: local(source),
                target,
                hdr_data,
                user_ptr,
                arithmetic: arithmetic(if kind == Kind::Fetch {
                    AtomicOp::Sum
                } else {
                    AtomicOp::Swap
                }),
            },
        }
    }

    pub fn issue(&mut self, way: Way, kind: Kind) {
        let command = self.command(way, kind);
        self.pair.issue(way.0, &command).expect("it is right in itself");
    }

    /// Takes at most so many events of the queue of an entry, and judges them.
    pub fn drain_entry(&mut self, who: usize, entry: u8, most: usize) -> usize {
        let eq = self.queues[&(who, entry)];
        for nth in 0..most {
            let event = match self.pair.sides[who].ni.eq_take(eq) {
                EqTaken::Empty => return nth,
                EqTaken::EventAfterDrop(event) => panic!("an event was lost before {event:?}"),
                EqTaken::Event(event) => event,
            };
            match event.kind {
                EventKind::Send | EventKind::Ack | EventKind::Reply => self.judge_own(who, &event),
                _ => self.judge(who, entry, &event),
            }
        }
        most
    }

    fn judge(&mut self, who: usize, entry: u8, event: &Event) {
        assert_ne!(event.kind, EventKind::PtDisabled, "the layer enables it");
        assert_eq!(event.outcome, Ok(()));
        // Data that is fetched later is told later, so only what is not long is in order; and a
        // get whose memory the rail reads later.
        let way = (event.match_bits.0 as usize, who, entry);
        assert_eq!(event.peer, PeerId(way.0 as u32));
        let number = (event.remote_offset / STRIDE) as usize;
        let issued = &self.issued[&way];
        assert!(number < issued.len(), "{way:?}: {number} was never issued");
        let is_late = self.pair.sides[who].port.net().mode.pending_percent > 0;
        let kind = issued[number].kind;
        if kind.length() < LONG && !(is_late && kind == Kind::Get) {
            let newest = self.newest.insert(way, number);
            assert!(
                newest.is_none_or(|newest| newest < number),
                "{way:?}: {number} after {newest:?}"
            );
        }
        *self.done.entry(way).or_default() += 1;
    }

    /// Takes at most so many events of an initiator, and judges them.
    pub fn drain_origin(&mut self, who: usize, most: usize) -> usize {
        if self.queues.get(&(who, 0)) == Some(&self.origin_eqs[who]) {
            return self.drain_entry(who, 0, most);
        }
        for nth in 0..most {
            let event = match self.pair.sides[who].ni.eq_take(self.origin_eqs[who]) {
                EqTaken::Empty => return nth,
                EqTaken::EventAfterDrop(event) => panic!("an event was lost before {event:?}"),
                EqTaken::Event(event) => event,
            };
            self.judge_own(who, &event);
        }
        most
    }

    fn judge_own(&mut self, who: usize, event: &Event) {
        assert_eq!(event.outcome, Ok(()), "{event:?}");
        let (to, entry) = ((event.user_ptr >> 40) as usize, (event.user_ptr >> 32) as u8);
        let number = event.user_ptr as u32 as usize;
        let told = &mut self.issued.get_mut(&(who, to, entry)).unwrap()[number].told;
        let at = told.iter().position(|&kind| kind == event.kind);
        told.remove(at.unwrap_or_else(|| panic!("told twice: {event:?}")));
    }

    pub fn idle(&mut self, who: usize) {
        let Side { ni, port, .. } = &mut self.pair.sides[who];
        ni.on_idle(port);
        ni.check_invariants();
    }

    /// A process asks at once about what nobody acknowledges.
    pub fn ask(&mut self, who: usize) {
        let Side { ni, port, .. } = &mut self.pair.sides[who];
        ni.ask_unsettled(port);
        ni.check_invariants();
    }

    pub fn net_events(&self) -> Vec<NetEvent> {
        self.pair.sides[0].port.net().events()
    }

    /// One thing happens, and no packet is a violation.
    pub fn happen(&mut self, event: NetEvent) {
        self.pair.happen(event);
        assert_ne!(self.pair.taken, Some(Taken::Violation), "{event:?}");
    }

    /// Everything ends.
    pub fn finish(&mut self) {
        let all: Vec<usize> = (0..self.pair.sides.len()).collect();
        self.finish_of(&all);
    }

    /// Everything ends that these processes have to do with, who are all that live.
    pub fn finish_of(&mut self, living: &[usize]) {
        for _ in 0..100_000 {
            let mut moved = 0;
            while let Some(&event) = self.net_events().first() {
                self.happen(event);
                moved += 1;
            }
            for &who in living {
                for entry in 0..self.entries {
                    moved += self.drain_entry(who, entry, 1);
                }
                moved += self.drain_origin(who, 1);
                self.idle(who);
            }
            let has_to_ask = living.iter().any(|&who| self.pair.sides[who].ni.has_to_ask());
            if moved == 0 && !has_to_ask && self.net_events().is_empty() {
                return;
            }
        }
        panic!("it never ends");
    }

    /// All was done once, in order as far as memory can tell, and nothing is left.
    pub fn assert_done(&self) {
        for (&way, issued) in &self.issued {
            assert_eq!(self.done.get(&way).copied().unwrap_or(0), issued.len(), "{way:?}");
            let (from, to, _) = way;
            let memory = self.pair.bytes(to, self.memory[&way]);
            for (number, one) in issued.iter().enumerate() {
                let at = number * STRIDE as usize;
                let length = one.kind.length() as usize;
                let now = &memory[at..at + length];
                let after = match one.kind {
                    Kind::Get | Kind::GetLong => BEFORE,
                    Kind::Sum | Kind::SumNoAck | Kind::Fetch => BEFORE.wrapping_add(one.value),
                    _ => one.value,
                };
                assert!(now.iter().all(|&byte| byte == after), "{way:?} {number} {:?}", one.kind);
                let got = self.pair.bytes(from, one.into);
                let back = match one.kind {
                    Kind::Get | Kind::GetLong | Kind::Fetch | Kind::Swap => BEFORE,
                    _ => 0,
                };
                assert!(got.iter().all(|&byte| byte == back), "{way:?} {number} {:?}", one.kind);
                assert!(one.told.is_empty(), "{way:?} {number}: {:?} was not told", one.told);
            }
        }
        self.pair.assert_quiet();
        for side in &self.pair.sides {
            assert_eq!((side.ni.kept_now(), side.ni.refused_now()), (0, 0));
        }
    }

    /// How many operations were turned away, at all entries.
    pub fn refused(&self) -> u64 {
        self.pair.sides.iter().map(|side| side.ni.status().dropped).sum()
    }

    /// Everything ends, but for events: they are taken and not looked at.
    pub fn finish_without_judging(&mut self) {
        self.pair.settle();
        let eqs: Vec<(usize, Handle<Eq>)> =
            self.queues.iter().map(|(&(who, _), &eq)| (who, eq)).collect();
        for (who, eq) in eqs {
            while self.pair.sides[who].ni.eq_take(eq) != EqTaken::Empty {}
        }
        self.pair.settle();
        for who in 0..self.pair.sides.len() {
            self.ask(who);
        }
        self.pair.settle();
    }

    /// What a process is told of its own operations, and how they ended.
    pub fn origin_ends(&mut self, who: usize) -> Vec<(EventKind, Result<(), NiFail>)> {
        let (ni, eq) = (&mut self.pair.sides[who].ni, self.origin_eqs[who]);
        let next = || match ni.eq_take(eq) {
            EqTaken::Event(event) => Some((event.kind, event.outcome)),
            _ => None,
        };
        std::iter::from_fn(next).collect()
    }

    /// How many events an initiator's queue has, which are taken.
    pub fn count_origin(&mut self, who: usize) -> usize {
        let Side { ni, .. } = &mut self.pair.sides[who];
        let eq = self.origin_eqs[who];
        std::iter::from_fn(|| match ni.eq_take(eq) {
            EqTaken::Empty => None,
            EqTaken::Event(event) => Some(event),
            EqTaken::EventAfterDrop(event) => panic!("an event was lost before {event:?}"),
        })
        .count()
    }

    /// The queue of an entry.
    pub fn queue_of(&self, who: usize, entry: u8) -> Handle<Eq> {
        self.queues[&(who, entry)]
    }

    /// Bytes of an entry for an initiator, from `at` on.
    pub fn bytes_from(&self, way: Way, at: u64, len: u64) -> Vec<u8> {
        let Region { addr, .. } = self.memory[&way];
        self.pair.bytes(way.1, Region { addr: addr.offset(at), len })
    }

    /// The first bytes of an entry for an initiator.
    pub fn bytes_at(&self, way: Way, len: u64) -> Vec<u8> {
        let region = self.memory[&way];
        self.pair.bytes(way.1, Region { len, ..region })
    }
}
