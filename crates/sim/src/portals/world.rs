//! Processes, mailboxes, network and time, for the engine alone.
//!
//! A packet arrives after the latency, what its slots take on its pair's way and a delay of
//! chance, but never before an older one of its pair. A process looks at its mailbox some time
//! after something came, reads a few packets, and is idle once it is empty.
//!
//! Each call into an engine is a step: what it asks for is carried out, and the books are
//! looked at, before anything else happens.

use super::setup::Setup;
use super::trace::{Trace, What};
use crate::chunk_claims::AllClaims;
use crate::connections::Connections;
use crate::flight::{Flight, Store};
use crate::hosts::Hosts;
use crate::memory::Memory;
use crate::port::{Direct, Mailboxes, Move, Outbox, Placed, SimPort};
use crate::queue::Queue;
use crate::rails::{self, Rails};
use crate::swarm::{Books, Draw, Losses, slots_max};
use sluice_link::{Exposures, RailError, Token};
use sluice_portals::{Limits, Ni, Taken};
use sluice_wire::{Parsed, PeerId, Region};
use std::collections::{BTreeSet, VecDeque};

/// Most events of a run: many times what the longest of a million seeds took. What goes beyond
/// goes on for ever.
const EVENTS_MAX: u64 = 100_000;
/// The same where hosts are several.
const EVENTS_MAX_APART: u64 = 1_000_000;

#[derive(Clone, Copy, Debug)]
pub(super) enum Event {
    Arrive {
        to: usize,
        flight: Flight,
    },
    Wake {
        process: usize,
    },
    Moved {
        transfer: usize,
    },
    /// The memory of a packet that was taken before is read, and that is reported.
    Write {
        late: usize,
    },
    Transmitted {
        late: usize,
    },
    Connected {
        who: usize,
        peer: usize,
    },
    /// A process learns that a peer on its host has ended.
    Lost {
        who: usize,
        peer: usize,
    },
    /// Something between hosts.
    Rails(rails::Event),
}

/// What the program is to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// This process has been woken.
    Woken(usize),
    /// The engine of this process has been called.
    Called(usize),
    /// This process has ended.
    Died(usize),
    /// The first has learnt that the second has ended, or has given it up.
    Lost(usize, usize),
    /// The first was told that its data did not move, since the second is gone.
    Doubts(usize, usize),
    /// Nothing is to come.
    Rest,
}

/// A packet whose memory the rail reads after it has taken it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Late {
    pub(super) who: usize,
    pub(super) to: usize,
    from: Region,
    token: Token,
    pub(super) flight: Flight,
    pub(super) is_written: bool,
}

/// What the network has come by.
#[derive(Clone, Copy, Debug, Default)]
pub struct Met {
    pub pending_transmissions: u64,
    pub pending_connections: u64,
    pub payloads_placed: u64,
    pub direct_reads: u64,
    pub direct_writes: u64,
    pub forbidden: u64,
    pub by_rails: u64,
    pub deaths: u64,
    pub peers_given_up: u64,
    pub moves_failed: u64,
}

/// See the module.
#[derive(Debug)]
pub struct World<'t> {
    pub(super) setup: Setup,
    pub now_ns: u64,
    pub(super) queue: Queue<Event>,
    events: u64,
    pub steps: u64,
    pub(super) mailboxes: Vec<VecDeque<Flight>>,
    wake_at: Vec<Option<u64>>,
    nis: Vec<Ni>,
    pub memories: Vec<Memory>,
    unreadable: Vec<Vec<bool>>,
    forbidden: Vec<Vec<bool>>,
    pub(super) store: Store,
    outbox: Outbox,
    claims: AllClaims,
    pub(super) exposures: Vec<Exposures>,
    pub(super) connections: Option<Connections>,
    pub(super) hosts: Hosts,
    /// What is between hosts.
    pub(super) rails: Rails,
    pub(super) stops_begun: usize,
    /// Events of rails in the queue.
    pub(super) rail_events: usize,
    /// Who has asked for a connection to whom elsewhere, and is to be told.
    pub(super) far_asked: BTreeSet<(usize, usize)>,
    /// Which revoked keys are used once more.
    pub(super) draw_stale: Draw,
    /// Reads and writes on this host, until they end.
    pub(super) transfers: Vec<Option<(usize, Move)>>,
    pub(super) lates: Vec<Late>,
    arrival_ns: Vec<u64>,
    way_free_ns: Vec<u64>,
    pub(super) books: Books,
    pub(super) losses: Losses,
    pub met: Met,
    draw: Draw,
    draw_late: Draw,
    draw_placing: Draw,
    pub(super) draw_death: Draw,
    pub(super) trace: &'t mut Trace,
}

impl<'t> World<'t> {
    pub fn new(seed: u64, setup: &Setup, limits: Limits, trace: &'t mut Trace) -> World<'t> {
        let count = setup.layouts.len();
        let mut draw = Draw::stream(seed, 102);
        let mut pairs = |percent: u64| -> Vec<Vec<bool>> {
            (0..count).map(|_| (0..count).map(|_| draw.percent(percent)).collect()).collect()
        };
        trace.begin(format!("{setup:?}"));
        World {
            unreadable: pairs(setup.unreadable_percent),
            forbidden: pairs(setup.forbidden_percent),
            now_ns: 0,
            queue: Queue::new(),
            events: 0,
            steps: 0,
            mailboxes: vec![VecDeque::new(); count],
            wake_at: vec![None; count],
            nis: setup.layouts.iter().map(|mine| Ni::new(limits, *mine)).collect(),
            memories: (0..count).map(|_| Memory::new(true)).collect(),
            store: Store::default(),
            outbox: Outbox::default(),
            claims: AllClaims::of_interfaces(),
            exposures: (0..count).map(|_| Exposures::default()).collect(),
            connections: (setup.connecting_ns > 0).then(Connections::default),
            hosts: Hosts::new(&setup.rails.host, setup.rails.reads),
            rails: Rails::new(seed, &setup.rails, setup.layouts.iter().map(slots_max).collect()),
            stops_begun: 0,
            rail_events: 0,
            far_asked: BTreeSet::new(),
            draw_stale: Draw::stream(seed, 109),
            transfers: Vec::new(),
            lates: Vec::new(),
            arrival_ns: vec![0; count * count],
            way_free_ns: vec![0; count * count],
            books: Books::new(count),
            losses: Losses::new(count),
            met: Met::default(),
            draw,
            draw_late: Draw::stream(seed, 103),
            draw_placing: Draw::stream(seed, 104),
            draw_death: Draw::stream(seed, 114),
            trace,
            setup: setup.clone(),
        }
    }

    /// Lets time pass until a process has something to do, or an engine was called.
    pub fn next(&mut self) -> Turn {
        self.begin_stops();
        if let Some(who) = self.next_death() {
            return Turn::Died(who);
        }
        loop {
            while let Some(effect) = self.rails.effects.pop_front() {
                if let Some(turn) = self.rails_have(effect) {
                    return turn;
                }
            }
            if self.is_quiet() {
                return Turn::Rest;
            }
            let Some((now, event)) = self.queue.take() else {
                panic!("rails wait for what never comes");
            };
            self.now_ns = now;
            self.count_event();
            match event {
                Event::Arrive { to, flight } if self.is_lost(to, flight) => {
                    self.drop_flight(to, flight);
                }
                Event::Arrive { to, flight } => {
                    self.mailboxes[to].push_back(flight);
                    self.rouse(to);
                }
                Event::Rails(event) => {
                    self.rail_events -= 1;
                    self.on_rails(|rails, cx| rails.happen(cx, event));
                }
                Event::Wake { process } if self.is_dead(process) => {}
                Event::Wake { process } if self.rails.computes_until(process) > now => {
                    if self.wake_at[process].take_if(|at| *at == now).is_some() {
                        self.wake(process, self.rails.computes_until(process));
                    }
                }
                Event::Wake { process } if self.wake_at[process] == Some(now) => {
                    self.wake_at[process] = None;
                    return Turn::Woken(process);
                }
                Event::Wake { .. } => {}
                Event::Moved { transfer } => {
                    let ended = self.transfers[transfer].take();
                    if let Some((who, what)) = ended.filter(|(who, _)| !self.is_dead(*who)) {
                        return self.moved(who, &what);
                    }
                }
                Event::Lost { who, peer } => {
                    self.lose(who, peer);
                    return Turn::Lost(who, peer);
                }
                Event::Write { late } if self.is_dead(self.lates[late].who) => {}
                Event::Write { late } => self.write(late),
                Event::Transmitted { late } if self.is_dead(self.lates[late].who) => {}
                Event::Transmitted { late } => {
                    let Late { who, to, token, .. } = self.lates[late];
                    self.note(who, What::Transmitted(to));
                    self.step(who, &[], |ni, port| ni.on_transmitted(port, token));
                    return Turn::Called(who);
                }
                Event::Connected { who, peer } => {
                    let both = !self.is_dead(who) && !self.is_dead(peer);
                    if both && self.connected(who, peer) {
                        return Turn::Called(who);
                    }
                }
            }
        }
    }

    /// Panics if there have been more events than can be.
    fn count_event(&mut self) {
        let is_apart = self.setup.rails.host.iter().any(|host| *host > 0);
        let events_max = if is_apart { EVENTS_MAX_APART } else { EVENTS_MAX };
        self.events += 1;
        assert!(self.events <= events_max, "it goes on and on: {events_max} events");
    }

    /// A process calls its engine. One step.
    pub fn call<R>(&mut self, who: usize, call: impl FnOnce(&mut Ni, &mut SimPort<'_>) -> R) -> R {
        self.step(who, &[], call)
    }

    /// The next packet in a mailbox, from whom; it stays there.
    pub fn peek(&self, who: usize) -> Option<(usize, Parsed)> {
        let flight = self.mailboxes[who].front()?;
        Some((flight.from().index(), flight.peek(&self.store)))
    }

    /// Whoever has asked for the connection to a peer learns that it is open before it reads
    /// anything of that peer. Whether it did now.
    pub fn connected(&mut self, who: usize, peer: usize) -> bool {
        let is_news = self
            .connections
            .as_mut()
            .is_some_and(|connections| connections.tell(who as u32, peer as u32));
        if is_news {
            self.tell_connected(who, peer);
        }
        is_news
    }

    /// A process is told that the connection that it has asked for is open.
    pub(super) fn tell_connected(&mut self, who: usize, peer: usize) {
        self.note(who, What::Connected(peer));
        let opened = self.setup.layouts[peer].opened();
        self.step(who, &[], |ni, port| {
            ni.on_connected(port, PeerId(peer as u32), opened).expect("a sound mailbox");
        });
        self.rouse(who);
    }

    /// A process reads the next packet in its mailbox.
    pub fn read(&mut self, who: usize) {
        let Some(flight) = self.mailboxes[who].pop_front() else { return };
        let from = flight.from();
        let (packet, payload) = flight.unpack(&mut self.store);
        self.note(who, What::Reads(from.index(), packet));
        self.books.read(from.index(), who, &packet);
        let place = self.place(who, from, &packet, &payload);
        let taken = self.step(who, &payload, |ni, port| {
            port.placed = place.map(|region| Placed { region, copied: 0 });
            let taken = ni.on_packet(port, from, &packet);
            if let Some(Placed { region, copied }) = port.placed {
                assert_eq!(copied, region.len, "what was put in its place was wanted there");
            }
            taken
        });
        assert!(matches!(taken, Taken::Fine { .. }), "{who} refuses {packet:?}: {taken:?}");
    }

    /// The rail puts a payload where the engine says that it will want it, if it asks.
    fn place(&mut self, who: usize, from: PeerId, packet: &Parsed, bytes: &[u8]) -> Option<Region> {
        if !self.draw_placing.percent(self.setup.placing_percent) {
            return None;
        }
        let region = self.nis[who].placement(from, packet)?;
        assert_eq!(region.len, bytes.len() as u64, "a place for all of the payload");
        self.memories[who].write(region.addr, bytes);
        self.met.payloads_placed = 1;
        Some(region)
    }

    /// A process whose mailbox is empty is idle.
    pub fn idle(&mut self, who: usize) {
        self.step(who, &[], |ni, port| ni.on_idle(port));
    }

    pub fn has_mail(&self, who: usize) -> bool {
        !self.mailboxes[who].is_empty()
    }

    pub fn ni(&self, who: usize) -> &Ni {
        &self.nis[who]
    }

    /// The interface of a process, for calls that send nothing.
    pub fn ni_mut(&mut self, who: usize) -> &mut Ni {
        &mut self.nis[who]
    }

    pub fn note(&mut self, who: usize, what: What) {
        self.trace.add(self.now_ns, who, what);
    }

    pub fn trace(&self) -> &Trace {
        self.trace
    }

    /// Panics unless the books are in order and nothing is left of any operation.
    pub fn check_rest(&self) {
        for (who, ni) in self.nis.iter().enumerate().filter(|(who, _)| !self.is_dead(*who)) {
            self.check(who);
            self.books.check_rest(who, ni.links(), &self.setup.layouts[who]);
            assert_eq!(ni.operations_now(), 0, "operations of {who}");
            assert_eq!(ni.waiting_now(), 0, "commands of {who} wait");
            assert_eq!((ni.kept_now(), ni.refused_now()), (0, 0), "recovery of {who}");
            assert_eq!(ni.owed_now(), 0, "{who} owes answers");
            assert_eq!(ni.links().reply_slots_reserved(), 0, "reply slots of {who}");
            assert_eq!(ni.links().slots_held(), 0, "slots of {who}");
            assert_eq!(self.memories[who].lent(), 0, "memory lent to {who}");
            assert!(self.exposures[who].is_empty(), "{who} exposes memory");
        }
    }

    fn check(&self, who: usize) {
        let ni = &self.nis[who];
        ni.check_invariants();
        assert_eq!(ni.status().protocol_violations, 0, "{who} was told what breaks the protocol");
        let exposed = self.exposures[who].len();
        let is_pending = ni.operations_now() > 0 || ni.kept_now() > 0;
        assert!(is_pending || exposed == 0, "{who} has nothing pending and exposes {exposed}");
        self.books.check(who, &self.setup.layouts, |other| self.nis[other].links());
    }

    pub(super) fn step<R>(
        &mut self,
        who: usize,
        payload: &[u8],
        call: impl FnOnce(&mut Ni, &mut SimPort<'_>) -> R,
    ) -> R {
        self.steps += 1;
        let late = if self.setup.is_late { self.draw_late.bits() } else { 0 };
        let mut port = SimPort {
            me: who as u32,
            direct: Direct { reads: true, writes: true, chunk_claims: false },
            claims: &mut self.claims,
            exposures: &mut self.exposures[who],
            written_alone: false,
            mailboxes: Mailboxes::Each(&self.setup.layouts),
            connections: self.connections.as_mut(),
            hosts: &self.hosts,
            unreadable: &self.unreadable[who],
            outbox: &mut self.outbox,
            memory: &mut self.memories[who],
            payload,
            placed: None,
            published: None,
            late,
            looking: 0,
            nic: None,
        };
        let result = call(&mut self.nis[who], &mut port);
        self.flush(who);
        self.check(who);
        result
    }

    /// Carries out what an engine has asked for.
    fn flush(&mut self, who: usize) {
        let mut outbox = std::mem::take(&mut self.outbox);
        for out in outbox.packets.drain(..) {
            let to = out.peer.index();
            let flight = Flight::pack(&out.head, out.payload, PeerId(who as u32), &mut self.store);
            let packet = flight.peek(&self.store);
            let slots = self.books.send(who, to, &packet);
            self.note(who, What::Transmits(to, packet, slots));
            if self.are_apart(who, to) {
                self.on_rails(|rails, cx| rails.transmit(cx, who, to, flight, slots));
                continue;
            }
            let way = who * self.nis.len() + to;
            let free =
                self.way_free_ns[way].max(self.now_ns) + u64::from(slots) * self.setup.slot_ns;
            self.way_free_ns[way] = free;
            let late_ns = self.draw.below(self.setup.jitter_ns + 1);
            let mut at = (free + self.setup.latency_ns + late_ns).max(self.arrival_ns[way]);
            if let Some((from, token)) = out.late {
                let late = Late { who, to, from, token, flight, is_written: false };
                at = at.max(self.take_late(late));
            }
            self.arrival_ns[way] = at;
            self.queue.add(at, Event::Arrive { to, flight });
        }
        for what in outbox.moves.drain(..) {
            if self.are_apart(who, what.peer.index()) {
                self.on_rails(|rails, cx| rails.start(cx, who, what));
                continue;
            }
            let late_ns = self.draw.below(self.setup.jitter_ns + 1);
            let taken_ns = what.local.len.div_ceil(1024) * self.setup.kib_ns;
            let at = self.now_ns + 2 * self.setup.latency_ns + taken_ns + late_ns;
            self.queue.add(at, Event::Moved { transfer: self.transfers.len() });
            self.transfers.push(Some((who, what)));
        }
        for peer in outbox.connects.drain(..) {
            if self.are_apart(who, peer.index()) {
                self.asks_for(who, peer.index());
                continue;
            }
            self.met.pending_connections = 1;
            let at = self.now_ns + 1 + self.draw.below(self.setup.connecting_ns);
            self.queue.add(at, Event::Connected { who, peer: peer.index() });
        }
        for peer in outbox.watches.drain(..) {
            self.on_rails(|rails, cx| rails.begin(cx, who, peer.index()));
        }
        for (peer, key) in outbox.revoked.drain(..) {
            self.revoked(who, peer, key);
        }
        self.outbox = outbox;
    }

    /// A read or a write that `who` had asked for ends. What that is for the program.
    fn moved(&mut self, who: usize, what: &Move) -> Turn {
        let peer = what.peer.index();
        if self.is_dead(peer) && self.fails_to_move(who, peer) {
            self.fail_move(who, what);
            return Turn::Doubts(who, peer);
        }
        let may = !self.forbidden[who][peer];
        self.note(who, What::Moved(peer, what.local.len, may));
        let outcome = if may {
            self.copy(who, what);
            Ok(())
        } else {
            self.met.forbidden = 1;
            self.unreadable[who][peer] = true;
            Err(RailError::Forbidden)
        };
        let token = what.token;
        self.step(who, &[], |ni, port| ni.on_moved(port, token, outcome));
        self.rouse(who);
        Turn::Called(who)
    }

    /// Moves bytes between a process and memory that another has exposed to it.
    fn copy(&mut self, who: usize, what: &Move) {
        let (peer, len) = (what.peer.index(), what.local.len);
        let found =
            self.exposures[peer].resolve(PeerId(who as u32), what.remote, len, what.is_write);
        let addr = found.unwrap_or_else(|why| panic!("{who} used a key of {peer}: {why}"));
        let (from, source, to, target) = if what.is_write {
            self.met.direct_writes = 1;
            (who, what.local, peer, addr)
        } else {
            self.met.direct_reads = 1;
            (peer, Region { addr, len }, who, what.local.addr)
        };
        let bytes = self.memories[from].read(source).to_vec();
        self.memories[to].write(target, &bytes);
    }

    /// The rail takes a packet before it has read its memory. When it will have.
    fn take_late(&mut self, late: Late) -> u64 {
        self.met.pending_transmissions = 1;
        let at = self.now_ns + self.draw.below(self.setup.jitter_ns + 1);
        self.queue.add(at, Event::Write { late: self.lates.len() });
        self.lates.push(late);
        at
    }

    /// The rail reads the memory of a packet, and says so some time later.
    fn write(&mut self, place: usize) {
        self.lates[place].is_written = true;
        let late = self.lates[place];
        if late.from.len > 0 {
            let bytes = self.memories[late.who].read(late.from).into();
            late.flight.fill(bytes, &mut self.store);
        }
        let at = self.now_ns + self.draw.below(2 * self.setup.jitter_ns + 1);
        self.queue.add(at, Event::Transmitted { late: place });
    }

    /// A process will look after a while.
    pub fn rouse(&mut self, who: usize) {
        self.wake(who, self.now_ns + self.setup.poll_ns);
    }

    fn wake(&mut self, who: usize, at: u64) {
        if self.wake_at[who].is_none_or(|wake_at| at < wake_at) {
            self.wake_at[who] = Some(at);
            self.queue.add(at, Event::Wake { process: who });
        }
    }
}
