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
use super::events::{Event, Read, Turn};
use super::losses::Losses;
use super::setup::Setup;
use super::trace::{Entry, Trace, What};
use crate::chunk_claims::AllClaims;
use crate::connections::Connections;
use crate::flight::{Flight, Store};
use crate::hosts::Hosts;
use crate::memory::Memory;
use crate::port::{Direct, Mailboxes, Move, Outbox, Placed, SimPort};
use crate::published::{AllPublished, MovedAtOnce, Reach};
use crate::queue::Queue;
use crate::rails::{self, Kind, Rails};
use sluice_link::{Exposures, Layout, Machine as _, Token};
use sluice_proto::{Completion, Endpoint, Pending};
use sluice_wire::{Nanos, Packet, Parsed, PeerId, Region};
use std::collections::{BTreeSet, VecDeque};

/// Most events of a run, and most virtual time: many times what the longest of
/// a million seeds took. What goes beyond them goes on for ever.
const EVENTS_MAX: u64 = 100_000;
const TIME_NS_MAX: u64 = 60_000_000_000;
/// The same where hosts are several.
const EVENTS_MAX_APART: u64 = 1_000_000;
const TIME_NS_MAX_APART: u64 = 3_600_000_000_000;

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
    pub from: Region,
    pub token: Token,
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
    pub(super) endpoints: Vec<Endpoint>,
    pub(super) memories: Vec<Memory>,
    /// By reader: whose memory it cannot read; and whose it does not know yet.
    pub(super) unreadable: Vec<Vec<bool>>,
    pub(super) forbidden: Vec<Vec<bool>>,
    pub(super) store: Store,
    pub(super) outbox: Outbox,
    pub(super) claims: AllClaims,
    /// What each process has exposed.
    pub(super) exposures: Vec<Exposures>,
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
    pub(super) transfers_free: Vec<u32>,
    pub(super) lates: Vec<Option<Late>>,
    pub(super) lates_free: Vec<u32>,
    /// When the last packet of each pair arrives, and when its way is free.
    pub(super) arrival_ns: Vec<u64>,
    pub(super) way_free_ns: Vec<u64>,
    pub(super) books: Books,
    pub(super) losses: Losses,
    /// By process: bytes of injected operations on remote memory that have not ended.
    remote_lent: Vec<u64>,
    /// Where regions are published.
    published: Option<AllPublished>,
    /// How many of what befalls processes have begun.
    pub(super) troubles_begun: usize,
    /// By process: until when it takes what comes slowly.
    pub(super) slow_until: Vec<u64>,
    pub coverage: Coverage,
    pub(super) draw: Draw,
    /// Which packets are taken before their memory is read.
    pub(super) draw_late: Draw,
    /// Who is seen to look.
    pub(super) draw_looking: Draw,
    pub(super) draw_death: Draw,
    /// How long opening a connection takes.
    pub(super) draw_connecting: Draw,
    /// Which payloads the rail puts in their place.
    draw_placing: Draw,
    /// Which attempts to move published memory come at a wrong moment.
    draw_misses: Draw,
    pub(super) trace: &'t mut Trace,
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
        trace.begin(format!("{setup:?}"), count);
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
            }
            .limited(setup.claims_max),
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
            remote_lent: vec![0; count],
            published: setup
                .remote
                .filter(|remote| remote.published_max > 0)
                .map(|remote| AllPublished::new(count, remote.published_max)),
            draw_misses: Draw::stream(seed, 62),
            troubles_begun: 0,
            slow_until: vec![0; count],
            coverage: Coverage::default(),
            draw,
            draw_late: Draw::stream(seed, 4),
            draw_looking: Draw::stream(seed, 70),
            draw_death: Draw::stream(seed, 5),
            draw_connecting: Draw::stream(seed, 12),
            draw_placing: Draw::stream(seed, 14),
            trace,
        }
    }

    /// Lets time pass until a process has something to do.
    pub fn next(&mut self) -> Turn {
        self.begin_troubles();
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
            endpoint.on_any(now, port, from, &packet);
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
        let ahead = self.rails.clock_ahead(who);
        let deadline = self.endpoints[who].deadline().map(|at| at.0.saturating_sub(ahead));
        if let Some(deadline) = deadline.filter(|deadline| *deadline > self.now_ns) {
            self.wake(who, deadline);
        }
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

    pub fn memory(&mut self, who: usize) -> &mut Memory {
        &mut self.memories[who]
    }

    pub fn lent(&self, who: usize) -> u64 {
        self.memories[who].lent()
    }

    /// A process begins an injected operation on remote memory.
    pub fn lends(&mut self, who: usize, bytes: u64) {
        self.remote_lent[who] += bytes;
    }

    /// What has moved in published memory since this was asked last.
    pub fn moved_at_once(&mut self) -> Vec<MovedAtOnce> {
        self.published.as_mut().map_or_else(Vec::new, |all| std::mem::take(&mut all.moved))
    }

    /// It has ended, or was refused.
    pub fn returned(&mut self, who: usize, bytes: u64) {
        self.remote_lent[who] -= bytes;
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
        if !self.books.has(who) {
            return;
        }
        let endpoint = &self.endpoints[who];
        endpoint.check_invariants();
        let stats = endpoint.stats();
        assert_eq!(stats.violations, 0, "{who} was told what breaks the protocol");
        let most = Endpoint::unexpected_bytes_max(&self.setup.layouts[who]);
        let kept = stats.unexpected_bytes_now;
        assert!(kept <= most, "{who} keeps {kept} bytes of at most {most}");
        let (lent, exposed) = (self.memories[who].lent(), self.exposures[who].len());
        // What lies in pieces, and values that go back, are lent until a late rail has read them.
        let is_known = !self.setup.is_late || self.setup.remote.is_none();
        let known =
            kept + stats.injected_bytes_now + stats.staged_bytes_now + self.remote_lent[who];
        assert!(!is_known || lent <= known, "{who} was lent {lent} bytes and knows of {known}");
        let has_pending = endpoint.pending() != Pending::default();
        assert!(has_pending || exposed == 0, "{who} has nothing pending and exposes {exposed}");
        self.books.check(who, &self.setup.layouts, |other| self.endpoints[other].links());
        let own = PeerId(who as u32);
        for (peer, sender) in self.endpoints.iter().enumerate() {
            if !self.is_cut(peer, who) {
                endpoint.check_stall_cursor(PeerId(peer as u32), sender, own);
            }
        }
    }

    /// The same at rest, when every process has had idle moments.
    pub fn check_rest(&self) {
        self.check();
        for who in (0..self.hosts.len()).filter(|who| !self.is_dead(*who)) {
            self.books.check_rest(who, self.endpoints[who].links(), &self.setup.layouts[who]);
        }
    }

    pub(super) fn step<R>(
        &mut self,
        who: usize,
        payload: &[u8],
        call: impl FnOnce(&mut Endpoint, Nanos, &mut SimPort<'_>) -> R,
    ) -> R {
        self.steps += 1;
        let now = self.rails.clock(who, self.now_ns);
        let late = if self.setup.is_late { self.draw_late.bits() } else { 0 };
        let looking = if self.setup.is_looked { self.draw_looking.bits() } else { 0 };
        let (below, rest) = self.memories.split_at_mut(who);
        let (memory, above) = rest.split_first_mut().expect("a process has memory");
        let published = self.published.as_mut().map(|all| Reach {
            me: who,
            all,
            below,
            above,
            unreadable: &self.unreadable[who],
            forbidden: &self.forbidden[who],
            dead: self.losses.dead(),
            misses: if self.setup.misses_published() { self.draw_misses.bits() } else { 0 },
        });
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
            memory,
            payload,
            placed: None,
            late,
            looking,
            published,
            nic: self.nics.as_mut().map(|nics| &mut nics.each[who]),
        };
        let result = call(&mut self.endpoints[who], now, &mut port);
        self.flush(who);
        if self.endpoints[who].stats().pull_senders_waiting_now > 0 {
            self.befall(Kind::PullsOut);
        }
        self.check_books(who);
        result
    }

    /// A process will be told that another has ended.
    pub(super) fn tell(&mut self, who: usize, peer: usize, at: u64) {
        self.queue.add(at, Event::Lose { who: who as u32, peer: peer as u32 });
    }

    pub(super) fn wake(&mut self, who: usize, at: u64) {
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
pub(crate) fn slots_max(layout: &Layout) -> u64 {
    u64::from(layout.grant.total())
        + u64::from(layout.dynamic_slots)
        + u64::from(layout.reply_slots)
}
