//! Processes, mailboxes, network and time.
//!
//! A packet arrives after the latency, what its slots take on its pair's way and
//! a delay of chance, but never before an older one of its pair; a mailbox keeps
//! what it gets in order of arrival. A process looks at its mailbox some time
//! after something came, reads a few packets, and is idle once it is empty. A
//! process with nothing to do costs nothing and is woken by what arrives.
//!
//! Each call into a machine is a step: what it asks for is carried out, and the
//! books are looked at, before anything else happens.

use super::books::Books;
use super::by_nic::Nics;
use super::coverage::Coverage;
use super::draw::Draw;
use super::losses::Losses;
use super::setup::Setup;
use super::trace::{Entry, Trace, What};
use crate::chunk_claims::AllClaims;
use crate::connections::Connections;
use crate::flight::{Flight, Store};
use crate::hosts::Hosts;
use crate::memory::Memory;
use crate::port::{Direct, Mailboxes, Move, Outbox, Placed, SimPort};
use crate::queue::Queue;
use crate::rails::{self, Rails};
use sluice_link::{Exposures, Layout, Machine as _, RailError, TaggedMessage, Token};
use sluice_proto::{Completion, Endpoint};
use sluice_wire::{Nanos, Packet, Parsed, PeerId, Region};
use std::collections::{BTreeSet, VecDeque};

/// Most events of a run, and most virtual time: many times what the longest of
/// a million seeds took. What goes beyond them goes on for ever.
const EVENTS_MAX: u64 = 100_000;
const TIME_NS_MAX: u64 = 60_000_000_000;
/// The same where hosts are several.
const EVENTS_MAX_APART: u64 = 1_000_000;
const TIME_NS_MAX_APART: u64 = 3_600_000_000_000;

/// Something that happens.
#[derive(Clone, Copy, Debug)]
pub(super) enum Event {
    /// A packet is in a mailbox.
    Arrive {
        to: u32,
        flight: Flight,
    },
    /// A process looks at what there is to do.
    Wake {
        process: u32,
    },
    /// The bytes of a read are there, or are refused.
    Moved {
        transfer: u32,
    },
    /// A side of a shared transfer takes a chunk, waits or ends; and has copied a
    /// chunk.
    Turn {
        part: u32,
    },
    Copied {
        part: u32,
    },
    /// The memory of a packet that was taken before is read, and that is reported.
    Write {
        late: u32,
    },
    Transmitted {
        late: u32,
    },
    /// A process is told that the connection to another is open.
    Connected {
        who: u32,
        peer: u32,
    },
    /// A process is told that another has ended.
    Lose {
        who: u32,
        peer: u32,
    },
    /// Something between hosts.
    Rails(rails::Event),
    /// A message comes to an interface that matches.
    Tagged {
        from: u32,
        to: u32,
    },
    /// Such an interface tells its process something.
    Word {
        process: u32,
    },
}

/// What the program is to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// This process has been woken.
    Woken(usize),
    /// A read or a transmission of this process has ended.
    Moved(usize),
    /// This process has ended.
    Died(usize),
    /// This process has been told that another one has, or that it will not answer.
    Lost(usize, usize),
    /// A message has come to an interface that matches.
    Tagged { from: usize, to: usize, message: TaggedMessage },
    /// A connection that this process has asked for is open.
    Connected(usize),
    /// Nothing is to come.
    Rest,
}

/// A packet that was read.
#[derive(Clone, Copy, Debug)]
pub struct Read {
    pub from: usize,
    pub packet: Parsed,
    /// A receive took the message that the packet tells of.
    pub taken: bool,
}

#[derive(Debug)]
pub(super) struct Host {
    pub mailbox: VecDeque<Flight>,
    wake_at: Option<u64>,
}

/// A packet whose memory the rail reads after it has taken it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Late {
    pub who: usize,
    pub to: usize,
    from: Region,
    token: Token,
    pub flight: Flight,
    pub is_written: bool,
}

/// See the module.
#[derive(Debug)]
pub struct World<'t> {
    pub(super) setup: Setup,
    pub(super) now_ns: u64,
    pub(super) queue: Queue<Event>,
    events: u64,
    pub(super) steps: u64,
    pub(super) hosts: Vec<Host>,
    endpoints: Vec<Endpoint>,
    pub(super) memories: Vec<Memory>,
    /// By reader: whose memory it cannot read; and whose it does not know yet.
    pub(super) unreadable: Vec<Vec<bool>>,
    pub(super) forbidden: Vec<Vec<bool>>,
    pub(super) store: Store,
    outbox: Outbox,
    pub(super) claims: AllClaims,
    /// What each process has exposed.
    exposures: Vec<Exposures>,
    /// Where opening them takes time.
    pub(super) connections: Option<Connections>,
    /// What is between hosts, and who knows whom there.
    pub(super) rails: Rails,
    pub(super) hosts_of: Hosts,
    /// Where interfaces match messages.
    pub(super) nics: Option<Nics>,
    /// Who has asked for a connection to whom elsewhere, and is to be told.
    pub(super) far_asked: BTreeSet<(usize, usize)>,
    /// Events of rails in the queue.
    rail_events: usize,
    /// Which revoked keys are used once more.
    pub(super) draw_stale: Draw,
    /// Reads under way; none where one has ended before its time.
    pub(super) transfers: Vec<Option<(usize, Move)>>,
    transfers_free: Vec<u32>,
    pub(super) lates: Vec<Option<Late>>,
    lates_free: Vec<u32>,
    /// When the last packet of each pair arrives, and when its way is free.
    arrival_ns: Vec<u64>,
    way_free_ns: Vec<u64>,
    pub(super) books: Books,
    pub(super) losses: Losses,
    pub coverage: Coverage,
    pub(super) draw: Draw,
    /// Which packets are taken before their memory is read.
    draw_late: Draw,
    pub(super) draw_death: Draw,
    /// How long opening a connection takes.
    draw_connecting: Draw,
    /// Which payloads the rail puts in their place.
    draw_placing: Draw,
    trace: &'t mut Trace,
}

impl<'t> World<'t> {
    pub fn new(seed: u64, setup: &Setup, trace: &'t mut Trace) -> World<'t> {
        let count = setup.layouts.len();
        let mut draw = Draw::stream(seed, 2);
        let mut pairs = |percent: u64| -> Vec<Vec<bool>> {
            (0..count).map(|_| (0..count).map(|_| draw.percent(percent)).collect()).collect()
        };
        let unreadable = pairs(setup.unreadable_percent);
        let forbidden = pairs(setup.forbidden_percent);
        trace.begin(format!("{setup:?}"));
        World {
            setup: setup.clone(),
            now_ns: 0,
            queue: Queue::new(),
            events: 0,
            steps: 0,
            hosts: (0..count).map(|_| Host { mailbox: VecDeque::new(), wake_at: None }).collect(),
            endpoints: setup
                .layouts
                .iter()
                .map(|mine| Endpoint::new(setup.endpoint, *mine))
                .collect(),
            memories: (0..count).map(|_| Memory::new(true)).collect(),
            unreadable,
            forbidden,
            store: Store::default(),
            outbox: Outbox::default(),
            claims: match setup.chunk_claims.flatten() {
                Some(chunk_bytes) => AllClaims::of_chunks(chunk_bytes),
                None => AllClaims::of_interfaces(),
            },
            exposures: (0..count).map(|_| Exposures::default()).collect(),
            connections: (setup.connecting_ns > 0).then(Connections::default),
            rails: Rails::new(seed, &setup.rails, setup.layouts.iter().map(slots_max).collect()),
            hosts_of: Hosts::new(&setup.rails.host, setup.rails.reads),
            nics: setup.nics.map(|bounds| Nics::new(seed, count, bounds)),
            far_asked: BTreeSet::new(),
            rail_events: 0,
            draw_stale: Draw::stream(seed, 23),
            transfers: Vec::new(),
            transfers_free: Vec::new(),
            lates: Vec::new(),
            lates_free: Vec::new(),
            arrival_ns: vec![0; count * count],
            way_free_ns: vec![0; count * count],
            books: Books::new(count),
            losses: Losses::new(count),
            coverage: Coverage::default(),
            draw,
            draw_late: Draw::stream(seed, 4),
            draw_death: Draw::stream(seed, 5),
            draw_connecting: Draw::stream(seed, 12),
            draw_placing: Draw::stream(seed, 14),
            trace,
        }
    }

    /// Lets time pass until a process has something to do.
    pub fn next(&mut self) -> Turn {
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
                Event::Rails(event) => {
                    self.rail_events -= 1;
                    self.on_rails(|rails, cx| rails.happen(cx, event));
                }
                Event::Arrive { to, flight } if self.is_lost(to as usize, flight) => {
                    self.drop_flight(to as usize, flight);
                }
                Event::Arrive { to, flight } => {
                    self.hosts[to as usize].mailbox.push_back(flight);
                    self.rouse(to as usize);
                }
                Event::Wake { process } if self.rails.computes_until(process as usize) > now => {
                    let host = &mut self.hosts[process as usize];
                    if host.wake_at == Some(now) {
                        host.wake_at = None;
                        self.wake(process as usize, self.rails.computes_until(process as usize));
                    }
                }
                Event::Wake { process } => {
                    let is_dead = self.is_dead(process as usize);
                    let host = &mut self.hosts[process as usize];
                    if host.wake_at == Some(now) && !is_dead {
                        host.wake_at = None;
                        return Turn::Woken(process as usize);
                    }
                }
                Event::Moved { transfer } => {
                    self.transfers_free.push(transfer);
                    let ended = self.transfers[transfer as usize].take();
                    if let Some((who, what)) = ended.filter(|(who, _)| !self.is_dead(*who)) {
                        self.moved(who, what);
                        return Turn::Moved(who);
                    }
                }
                Event::Turn { part } => {
                    if let Some(who) = self.turn(part) {
                        return Turn::Moved(who);
                    }
                }
                Event::Copied { part } => self.copied(part),
                Event::Write { late } => self.write(late),
                Event::Transmitted { late } => {
                    self.lates_free.push(late);
                    let late = self.lates[late as usize].take().expect("it was taken by the rail");
                    if !self.is_dead(late.who) {
                        self.transmitted(&late);
                        return Turn::Moved(late.who);
                    }
                }
                Event::Connected { who, peer } => {
                    let (who, peer) = (who as usize, peer as usize);
                    if !self.is_dead(who) && !self.is_dead(peer) && self.connected(who, peer) {
                        return Turn::Connected(who);
                    }
                }
                Event::Tagged { from, to } => {
                    if let Some(turn) = self.tagged_arrives(from as usize, to as usize) {
                        return turn;
                    }
                }
                Event::Word { process } => {
                    if let Some(turn) = self.word_comes(process as usize) {
                        return turn;
                    }
                }
                Event::Lose { who, peer } => {
                    self.lose(who as usize, peer as usize);
                    return Turn::Lost(who as usize, peer as usize);
                }
            }
        }
    }

    /// Panics if there have been more events than can be, or it is too late.
    fn count_event(&mut self) {
        let is_apart = self.setup.rails.host.iter().any(|host| *host > 0);
        let (events_max, time_ns_max) = if is_apart {
            (EVENTS_MAX_APART, TIME_NS_MAX_APART)
        } else {
            (EVENTS_MAX, TIME_NS_MAX)
        };
        self.events += 1;
        assert!(self.events <= events_max, "it goes on and on: {events_max} events");
        assert!(self.now_ns <= time_ns_max, "it takes too long: {time_ns_max} ns");
    }

    /// A process calls its endpoint. One step.
    pub fn call<R>(
        &mut self,
        who: usize,
        call: impl FnOnce(&mut Endpoint, Nanos, &mut SimPort<'_>) -> R,
    ) -> R {
        self.step(who, &[], call)
    }

    /// A process reads the next packet in its mailbox.
    pub fn read(&mut self, who: usize) -> Option<Read> {
        let flight = self.hosts[who].mailbox.pop_front()?;
        let from = flight.from();
        // Whoever has asked for the connection learns that it is open before anything else.
        self.connected(who, from.index());
        let (packet, payload) = flight.unpack(&mut self.store);
        self.note(who, What::Reads(from.index(), packet));
        self.books.read(from.index(), who, &packet);
        let endpoint = &self.endpoints[who];
        let (taken_before, probes_before) = (endpoint.stats().asked_for, endpoint.pending().probes);
        let place = self.place(who, from, &packet, &payload);
        self.step(who, &payload, |endpoint, now, port| {
            port.placed = place.map(|region| Placed { region, copied: 0 });
            endpoint.on_packet(now, port, from, &packet);
            if let Some(Placed { region, copied }) = port.placed {
                assert_eq!(copied, region.len, "what was put in its place was wanted there");
            }
        });
        let tells = matches!(packet.packet, Packet::Waiting(waiting) if waiting.found.is_some());
        let endpoint = &self.endpoints[who];
        let by_probe = endpoint.pending().probes < probes_before;
        let taken = tells && !by_probe && endpoint.stats().asked_for > taken_before;
        Some(Read { from: from.index(), packet, taken })
    }

    /// The rail puts a payload where the machine says that it will want it, if it asks.
    fn place(
        &mut self,
        who: usize,
        from: PeerId,
        packet: &Parsed,
        payload: &[u8],
    ) -> Option<Region> {
        if !self.draw_placing.percent(self.setup.placing_percent) {
            return None;
        }
        let region = self.endpoints[who].placement(from, packet)?;
        assert_eq!(region.len, payload.len() as u64, "a place for all of the payload");
        self.memories[who].write(region.addr, payload);
        self.coverage.payloads_placed = 1;
        Some(region)
    }

    /// A process is told that a connection is open, if it has asked for it and does not know.
    fn connected(&mut self, who: usize, peer: usize) -> bool {
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
        self.step(who, &[], |endpoint, now, port| {
            endpoint.on_connected(now, port, PeerId(peer as u32), opened);
        });
        self.rouse(who);
    }

    /// A process whose mailbox is empty is idle, and sleeps until something
    /// comes or its deadline.
    pub fn idle(&mut self, who: usize) {
        if !self.hosts[who].mailbox.is_empty() {
            return self.rouse(who);
        }
        self.step(who, &[], |endpoint, now, port| endpoint.on_idle(now, port));
        let deadline = self.endpoints[who].deadline();
        if let Some(deadline) = deadline.filter(|deadline| deadline.0 > self.now_ns) {
            self.wake(who, deadline.0);
        }
    }

    /// A process will look after a while.
    pub fn rouse(&mut self, who: usize) {
        self.wake(who, self.now_ns + self.setup.poll_ns[who]);
    }

    /// The next request of a process that has ended.
    pub fn pop(&mut self, who: usize) -> Option<Completion> {
        let end = self.endpoints[who].pop()?;
        self.note(who, What::Ended(end));
        Some(end)
    }

    pub fn note(&mut self, who: usize, what: What) {
        self.trace.add(Entry { at_ns: self.now_ns, who, what });
    }

    pub fn endpoint(&self, who: usize) -> &Endpoint {
        &self.endpoints[who]
    }

    #[cfg(test)]
    pub fn endpoints(&self) -> &[Endpoint] {
        &self.endpoints
    }

    pub fn memory(&mut self, who: usize) -> &mut Memory {
        &mut self.memories[who]
    }

    pub fn lent(&self, who: usize) -> u64 {
        self.memories[who].lent()
    }

    /// Writes the same byte all over a region.
    pub fn fill(&mut self, who: usize, region: Region, byte: u8) {
        self.memories[who].write(region.addr, &vec![byte; region.len as usize]);
    }

    /// Whether nothing lies in any mailbox, and nothing is on its way.
    pub fn is_quiet(&self) -> bool {
        self.queue.len() == self.rail_events && self.rails.is_settled()
    }

    pub fn now_ns(&self) -> u64 {
        self.now_ns
    }

    pub fn steps(&self) -> u64 {
        self.steps
    }

    pub fn hash(&self) -> u64 {
        self.trace.hash()
    }

    /// What the books say of everything, between any two processes.
    pub fn check(&self) {
        for who in 0..self.hosts.len() {
            self.check_books(who);
        }
    }

    fn check_books(&self, who: usize) {
        let (lent, exposed) = (self.memories[who].lent(), self.exposures[who].len());
        self.books.check(who, &self.setup.layouts, &self.endpoints, lent, exposed);
    }

    /// The same at rest, when every process has had idle moments.
    pub fn check_rest(&self) {
        self.check();
        for who in (0..self.hosts.len()).filter(|who| !self.is_dead(*who)) {
            self.books.check_rest(who, &self.endpoints[who]);
        }
    }

    pub(super) fn step<R>(
        &mut self,
        who: usize,
        payload: &[u8],
        call: impl FnOnce(&mut Endpoint, Nanos, &mut SimPort<'_>) -> R,
    ) -> R {
        self.steps += 1;
        let late = if self.setup.is_late { self.draw_late.bits() } else { 0 };
        let mut port = SimPort {
            me: who as u32,
            direct: Direct {
                reads: true,
                writes: true,
                chunk_claims: self.setup.chunk_claims.is_some(),
            },
            claims: &mut self.claims,
            exposures: &mut self.exposures[who],
            written_alone: false,
            mailboxes: Mailboxes::Each(&self.setup.layouts),
            connections: self.connections.as_mut(),
            hosts: &self.hosts_of,
            unreadable: &self.unreadable[who],
            outbox: &mut self.outbox,
            memory: &mut self.memories[who],
            payload,
            placed: None,
            late,
            nic: self.nics.as_mut().map(|nics| &mut nics.each[who]),
        };
        let result = call(&mut self.endpoints[who], Nanos(self.now_ns), &mut port);
        self.flush(who);
        self.check_books(who);
        result
    }

    /// Carries out what a machine has asked for.
    fn flush(&mut self, who: usize) {
        let mut outbox = std::mem::take(&mut self.outbox);
        for out in outbox.packets.drain(..) {
            let to = out.peer.index();
            let flight = Flight::pack(&out.head, out.payload, PeerId(who as u32), &mut self.store);
            let packet = flight.peek(&self.store);
            let slots = self.books.send(who, to, &packet);
            self.coverage.note(&packet);
            self.note(who, What::Transmits(to, packet.packet, slots));
            if self.hosts_of.are_apart(who as u32, out.peer.0) {
                self.on_rails(|rails, cx| rails.transmit(cx, who, to, flight, slots));
                continue;
            }
            let way = who * self.hosts.len() + to;
            let free =
                self.way_free_ns[way].max(self.now_ns) + u64::from(slots) * self.setup.slot_ns;
            self.way_free_ns[way] = free;
            let late_ns = self.draw.below(self.setup.jitter_ns + 1);
            let mut at = (free + self.setup.latency_ns + late_ns).max(self.arrival_ns[way]);
            if let Some((from, token)) = out.late {
                self.coverage.pending_transmissions = 1;
                let late = Late { who, to, from, token, flight, is_written: false };
                at = at.max(self.take_late(late));
            }
            self.arrival_ns[way] = at;
            self.queue.add(at, Event::Arrive { to: to as u32, flight });
        }
        for what in outbox.moves.drain(..) {
            if self.hosts_of.are_apart(who as u32, what.peer.0) {
                self.on_rails(|rails, cx| rails.start(cx, who, what));
                continue;
            }
            let transfer = self.transfers_free.pop().unwrap_or(self.transfers.len() as u32);
            match self.transfers.get_mut(transfer as usize) {
                Some(place) => *place = Some((who, what)),
                None => self.transfers.push(Some((who, what))),
            }
            let late_ns = self.draw.below(self.setup.jitter_ns + 1);
            let taken_ns = what.local.len.div_ceil(1024) * self.setup.kib_ns;
            let at = self.now_ns + 2 * self.setup.latency_ns + taken_ns + late_ns;
            self.queue.add(at, Event::Moved { transfer });
        }
        for peer in outbox.connects.drain(..) {
            self.coverage.pending_connections = 1;
            self.note(who, What::Connects(peer.index()));
            if self.hosts_of.are_apart(who as u32, peer.0) {
                self.asks_for(who, peer.index());
                continue;
            }
            let at = self.now_ns + 1 + self.draw_connecting.below(self.setup.connecting_ns);
            self.queue.add(at, Event::Connected { who: who as u32, peer: peer.0 });
        }
        self.flush_rails(who, &mut outbox);
        self.flush_nic(who);
        // An exchange has its answer at once: nothing else happens in a step.
        outbox.exchanges.clear();
        for share in outbox.shares.drain(..) {
            let part = self.claims.begin(share);
            let late_ns = self.draw.below(self.setup.jitter_ns + 1);
            self.queue.add(self.now_ns + late_ns, Event::Turn { part });
        }
        self.outbox = outbox;
    }

    /// A read or a write on the same host that `who` had asked for ends.
    pub(super) fn moved(&mut self, who: usize, what: Move) {
        let peer = what.peer.index();
        let may = !self.forbidden[who][peer] && !self.is_dead(peer);
        self.note(who, What::Moved(peer, what.local.len, may));
        let outcome = if self.is_dead(peer) {
            Err(RailError::PeerGone)
        } else if may {
            self.copy(who, &what);
            Ok(())
        } else {
            self.unreadable[who][peer] = true;
            Err(RailError::Forbidden)
        };
        self.tell_moved(who, what.token, outcome);
    }

    /// A process is told how a read or a write has ended.
    pub(super) fn tell_moved(&mut self, who: usize, token: Token, outcome: Result<(), RailError>) {
        self.step(who, &[], |endpoint, now, port| {
            endpoint.on_moved(now, port, token, outcome);
        });
        self.rouse(who);
    }

    /// Moves bytes between a process and memory that another has exposed to it.
    ///
    /// # Panics
    /// If it has not: nobody here uses a key that is not valid.
    pub(super) fn copy(&mut self, who: usize, what: &Move) {
        let (peer, len) = (what.peer.index(), what.local.len);
        let found =
            self.exposures[peer].resolve(PeerId(who as u32), what.remote, len, what.is_write);
        let addr = found.unwrap_or_else(|why| panic!("{who} used a key of {peer}: {why}"));
        let (from, source, to, target) = match what.is_write {
            false => (peer, Region { addr, len }, who, what.local.addr),
            true => (who, what.local, peer, addr),
        };
        let bytes = self.memories[from].read(source).to_vec();
        self.memories[to].write(target, &bytes);
    }

    /// The rail takes a packet before it has read its memory. When it will have.
    fn take_late(&mut self, late: Late) -> u64 {
        let at = self.now_ns + self.draw.below(self.setup.jitter_ns + 1);
        let place = self.lates_free.pop().unwrap_or(self.lates.len() as u32);
        match self.lates.get_mut(place as usize) {
            Some(found) => *found = Some(late),
            None => self.lates.push(Some(late)),
        }
        self.queue.add(at, Event::Write { late: place });
        at
    }

    /// The rail reads the memory of a packet, and says so some time later: maybe
    /// when the packet has long arrived.
    fn write(&mut self, place: u32) {
        let late = self.lates[place as usize].as_mut().expect("it was taken by the rail");
        late.is_written = true;
        if late.from.len > 0 {
            let bytes = self.memories[late.who].read(late.from).into();
            late.flight.fill(bytes, &mut self.store);
        }
        let at = self.now_ns + self.draw.below(2 * self.setup.jitter_ns + 1);
        self.queue.add(at, Event::Transmitted { late: place });
    }

    fn transmitted(&mut self, late: &Late) {
        self.note(late.who, What::Transmitted(late.to));
        let token = late.token;
        self.step(late.who, &[], |endpoint, now, port| endpoint.on_transmitted(now, port, token));
        self.rouse(late.who);
    }

    /// A process will be told that another has ended.
    pub(super) fn tell(&mut self, who: usize, peer: usize, at: u64) {
        self.queue.add(at, Event::Lose { who: who as u32, peer: peer as u32 });
    }

    fn wake(&mut self, who: usize, at: u64) {
        if self.is_dead(who) {
            return;
        }
        let host = &mut self.hosts[who];
        if host.wake_at.is_none_or(|wake_at| at < wake_at) {
            host.wake_at = Some(at);
            self.queue.add(at, Event::Wake { process: who as u32 });
        }
    }

    /// Calls what is between hosts.
    pub(super) fn on_rails<R>(
        &mut self,
        call: impl FnOnce(&mut Rails, &mut rails::Cx<'_>) -> R,
    ) -> R {
        let (memories, exposures) = (&mut self.memories[..], &mut self.exposures[..]);
        let mut cx = rails::Cx { now: self.now_ns, memories, exposures };
        let result = call(&mut self.rails, &mut cx);
        for (at, event) in std::mem::take(&mut self.rails.later) {
            self.rail_events += 1;
            self.queue.add(at, Event::Rails(event));
        }
        self.trace.set_faults(self.rails.fault_counts);
        for (who, note) in std::mem::take(&mut self.rails.notes) {
            self.note(who, What::Rails(note));
        }
        result
    }
}

/// Slots that one peer holds at most by the credits of a mailbox.
fn slots_max(layout: &Layout) -> u64 {
    u64::from(layout.grant.total())
        + u64::from(layout.dynamic_slots)
        + u64::from(layout.reply_slots)
}
