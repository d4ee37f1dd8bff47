//! A network of processes under a `Port`, for the tests of every machine: each
//! process has a memory of its own (an address is an offset into it) and a
//! mailbox of which every slot is counted. Packets travel as wire bytes. Each
//! pair keeps its order; which pair moves next is the caller's choice.

#![allow(dead_code, reason = "each test program uses its part of it")]

pub mod chunk_claims;
pub mod memory;
pub mod port;
pub mod random;

pub use port::NetPort;

use chunk_claims::AllClaims;
use memory::{Process, range};
use random::Random;
use sluice_link::{
    Connect, Exposures, Grant, KeyError, Layout, MailboxRegion, Opened, PeerError, RailError,
    Remote, Rights, TaggedMessage, Token,
};
use sluice_wire::{Addr, Credits, HeadBuf, Packet, Parsed, PeerId, PtIndex, Region};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// What memory holds once it was given back or its owner may not look.
pub const POISON: u8 = 0xDD;

/// How the network behaves.
#[derive(Clone, Copy, Debug)]
pub struct Mode {
    /// Whether bytes are carried; without them any length may be sent.
    pub payloads: bool,
    /// How many of a hundred packets of the data and reply regions are pending.
    pub pending_percent: u64,
    /// Whether processes can read and write each other's memory.
    pub can_read: bool,
    /// How many of a hundred reads and writes end with `Forbidden`, after which
    /// that process cannot be read or written by that one any more.
    pub forbidden_percent: u64,
    /// Whether processes that cannot read each other's memory can write it.
    pub only_writes: bool,
    /// Whether a network is between them.
    pub is_network: bool,
    /// Whether processes that can read each other's memory share transfers.
    pub chunk_claims: bool,
    /// How many of a hundred ways take time to be opened.
    pub connecting_percent: u64,
    /// Of how many of a hundred packets the rail asks the machine where their payload
    /// should land, and puts it there first.
    pub placing_percent: u64,
    /// How many of a hundred times a process looks.
    pub looking_percent: u64,
    /// Whether processes have interfaces that match messages; these have no room at all for
    /// receives and for what is sent.
    pub matches: bool,
    /// Whether processes move bytes of published regions without their owner's call.
    pub publishes: bool,
}

impl Default for Mode {
    fn default() -> Self {
        Mode {
            payloads: true,
            pending_percent: 0,
            can_read: true,
            forbidden_percent: 0,
            only_writes: false,
            is_network: false,
            chunk_claims: false,
            connecting_percent: 0,
            placing_percent: 0,
            looking_percent: 0,
            matches: false,
            publishes: false,
        }
    }
}

/// A mailbox large enough for tests that are not about its size.
pub fn roomy() -> Layout {
    Layout::divide(4, 1 << 13).expect("four senders fit")
}

/// A mailbox divided by hand.
pub fn layout(senders: u16, data: u16, control: u8, credit: u8, replies: u16) -> Layout {
    let grant = Grant { data_slots: data, control_slots: control, credit_slots: credit };
    dynamic_layout(senders, grant, 0, replies)
}

/// A mailbox with a dynamic region, divided by hand.
pub fn dynamic_layout(senders: u16, grant: Grant, dynamic_slots: u32, replies: u16) -> Layout {
    let sum = u32::from(senders) * grant.total() + dynamic_slots + u32::from(replies);
    Layout {
        grant,
        dynamic_slots,
        senders_max: senders,
        reply_slots: replies,
        ring_slots: sum.next_power_of_two(),
    }
}

/// A packet on its way, or unread in a mailbox.
#[derive(Debug)]
pub struct Flight {
    pub parsed: Parsed,
    pub head: Vec<u8>,
    /// `None` while the rail has not read the sender's memory.
    payload: Option<Vec<u8>>,
    from_memory: Region,
    token: Token,
    pub region: MailboxRegion,
    pub slots: u32,
}

/// A read of another process's memory, or a write to it, that has not ended.
#[derive(Clone, Copy, Debug)]
pub struct Read {
    /// Who reads or writes.
    pub reader: usize,
    /// Whose memory.
    pub peer: usize,
    pub is_write: bool,
    pub local: Region,
    remote: Remote,
    pub token: Token,
}

/// One thing that may happen next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Event {
    /// The oldest packet from one process to another is read.
    Deliver(usize, usize),
    /// The memory of the oldest pending packet is read by the rail.
    Write(usize, usize),
    /// The process is told that its memory was read.
    Transmitted(usize, u64),
    /// A read or a write of another process's memory ends.
    Read(usize),
    /// One side of a shared transfer does its next step.
    Share(usize),
    /// The way from one process to another, which was being opened, is open.
    Connected(usize, usize),
}

#[derive(Debug)]
pub struct Net {
    processes: Vec<Process>,
    pub layouts: Vec<Layout>,
    pub mode: Mode,
    flights: BTreeMap<(usize, usize), VecDeque<Flight>>,
    pub reads: Vec<Read>,
    /// What each process has exposed.
    pub exposures: Vec<Exposures>,
    /// The regions that each process has published: key, first offset, memory, rights.
    pub published: Vec<BTreeMap<u16, (u64, u64, Region, Rights)>>,
    /// Keys that did not reach memory: who used them, whose they were to be, and why.
    pub misused: Vec<(usize, usize, KeyError)>,
    pub claims: AllClaims,
    written: Vec<(usize, Token)>,
    unreadable: BTreeSet<(usize, usize)>,
    dead: BTreeSet<usize>,
    /// Pairs (one, other) of which one is told if the other ends.
    watched: BTreeSet<(usize, usize)>,
    /// The second was given up by the machine of the first.
    refused: BTreeSet<(usize, usize)>,
    /// Pairs (one, other) of which one has given up the other: no book of
    /// theirs is kept any more.
    parted: BTreeSet<(usize, usize)>,
    pub refuse_connect: Option<PeerError>,
    /// Messages that the interface of each process has, and no receive has met.
    pub unmet: Vec<Vec<(PeerId, TaggedMessage)>>,
    /// Lists of processes whose interface has refused a receive that still waits for room.
    pub crowded: BTreeSet<(usize, PtIndex)>,
    /// Pairs whose connection is open, the lower number first.
    open: BTreeSet<(usize, usize)>,
    /// Pairs (one, other) of which one has asked for the way, and has not been told
    /// that it is open.
    connecting: BTreeSet<(usize, usize)>,
    random: Random,
    /// Packets that were sent, of each kind, for tests that count them.
    pub log: Vec<(usize, usize, Packet, Credits)>,
    pub lent_max: u64,
    /// Payloads that were put in their place before the machine asked for the copy.
    pub placed: u64,
}

impl Net {
    /// Everything that may happen next, in an order that depends on nothing
    /// but what happened before.
    pub fn events(&self) -> Vec<Event> {
        let mut events = Vec::new();
        for (&(from, to), flights) in &self.flights {
            // Whoever asked for the way learns that it is open before anything else.
            let may_arrive = !self.dead.contains(&to) && !self.connecting.contains(&(to, from));
            if may_arrive && flights.front().is_some_and(|f| f.payload.is_some()) {
                events.push(Event::Deliver(from, to));
            }
            if !self.dead.contains(&from) && flights.iter().any(|f| f.payload.is_none()) {
                events.push(Event::Write(from, to));
            }
        }
        events.extend(self.written.iter().map(|&(who, token)| Event::Transmitted(who, token.0)));
        events.extend((0..self.reads.len()).map(Event::Read));
        let shares = self.claims.shares.iter().enumerate();
        let able = shares.filter(|(_, share)| self.claims.can_go_on(share));
        events.extend(able.map(|(at, _)| Event::Share(at)));
        let connecting = self.connecting.iter().filter(|(who, _)| !self.dead.contains(who));
        events.extend(connecting.map(|&(who, peer)| Event::Connected(who, peer)));
        events
    }

    /// A process asks for the connection to another.
    fn connect(&mut self, who: usize, peer: usize) -> Result<Connect, PeerError> {
        if let Some(why) = self.refuse_connect {
            return Err(why);
        }
        let pair = (who.min(peer), who.max(peer));
        if self.connecting.contains(&(who, peer)) {
            return Ok(Connect::Pending);
        }
        if !self.open.contains(&pair) {
            if self.random.percent(self.mode.connecting_percent) {
                self.connecting.insert((who, peer));
                return Ok(Connect::Pending);
            }
            self.open.insert(pair);
        }
        // As a rail does until it has noticed a death: what is sent is swallowed.
        Ok(Connect::Ready(self.layouts[peer].opened()))
    }

    /// The way from one process to another is open; what the other grants.
    pub fn end_connecting(&mut self, who: usize, peer: usize) -> Opened {
        assert!(self.connecting.remove(&(who, peer)), "it was being opened");
        self.open.insert((who.min(peer), who.max(peer)));
        self.layouts[peer].opened()
    }

    /// Takes the oldest packet off the way; it is the one being handled until
    /// [`Net::end_packet`].
    pub fn begin_packet(&mut self, from: usize, to: usize) -> Parsed {
        let flight = self.flights.get_mut(&(from, to)).and_then(VecDeque::pop_front);
        let flight = flight.expect("a packet is on its way");
        // What arrives is read from the bytes, as a rail does.
        let parsed = Packet::parse(&flight.head).expect("a machine emits what can be parsed");
        assert_eq!(parsed, flight.parsed);
        self.watched.insert((to, from));
        let process = &mut self.processes[to];
        process.handling = Some(parsed.payload_len);
        process.current = flight.payload;
        parsed
    }

    /// Whether the rail asks where the payload of the next packet should land.
    pub fn asks_placement(&mut self) -> bool {
        let percent = self.mode.placing_percent;
        percent > 0 && self.random.percent(percent)
    }

    /// The rail puts the payload of the packet to be handled where the machine says.
    pub fn place(&mut self, to: usize, region: Region) {
        let payloads = self.mode.payloads;
        let process = &mut self.processes[to];
        let whole = process.handling.map(u64::from);
        assert_eq!(Some(region.len), whole, "a place for all of the payload");
        // Memory that faults it finds out by itself.
        if process.usable(region, true, payloads) == region.len {
            if payloads {
                let bytes = process.current.take().expect("a packet is handled");
                process.write(region).copy_from_slice(&bytes);
                process.current = Some(bytes);
            }
            process.placed = Some((region, 0));
        }
    }

    pub fn end_packet(&mut self, to: usize) {
        let process = &mut self.processes[to];
        process.current = None;
        process.handling = None;
        if let Some((region, copied)) = process.placed.take() {
            assert_eq!(copied, region.len, "what was put in its place was wanted there");
            self.placed += 1;
        }
    }

    /// The rail reads the memory of the oldest pending packet of a pair.
    pub fn write(&mut self, from: usize, to: usize) {
        let payloads = self.mode.payloads;
        let memory = &self.processes[from];
        let flights = self.flights.get_mut(&(from, to)).expect("packets are on their way");
        let flight = flights.iter_mut().find(|f| f.payload.is_none()).expect("one is pending");
        flight.payload = Some(take_bytes(memory, flight.from_memory, payloads));
        self.written.push((from, flight.token));
    }

    pub fn take_written(&mut self, who: usize, token: u64) -> Token {
        let at = self.written.iter().position(|w| *w == (who, Token(token)));
        self.written.remove(at.expect("it was written")).1
    }

    /// Ends a read or a write, moving its bytes now.
    pub fn end_read(&mut self, at: usize) -> (Read, Result<(), RailError>) {
        let read = self.reads.remove(at);
        if self.dead.contains(&read.peer) {
            return (read, Err(RailError::PeerGone));
        }
        let pair = (read.reader, read.peer);
        let forbid = self.random.percent(self.mode.forbidden_percent);
        if forbid || self.unreadable.contains(&pair) {
            self.unreadable.insert(pair);
            return (read, Err(RailError::Forbidden));
        }
        let found =
            self.exposed(read.reader, read.peer, read.remote, read.local.len, read.is_write);
        let remote = match found {
            Ok(addr) => Region { addr, len: read.local.len },
            Err(why) => return (read, Err(why)),
        };
        let (from, source, to, target) = match read.is_write {
            false => (read.peer, remote, read.reader, read.local),
            true => (read.reader, read.local, read.peer, remote),
        };
        let payloads = self.mode.payloads;
        let len = self.processes[from].usable(source, false, payloads);
        let len = self.processes[to].usable(target.truncated(len), true, payloads);
        // What lies before a fault has been moved.
        if payloads && len > 0 {
            let bytes = self.processes[from].memory[range(source.truncated(len))].to_vec();
            self.processes[to].memory[range(target.truncated(len))].copy_from_slice(&bytes);
        }
        if len < read.local.len {
            return (read, Err(RailError::Fault));
        }
        (read, Ok(()))
    }

    /// Where bytes are that one process wants to read from another, or write there.
    fn exposed(
        &mut self,
        who: usize,
        owner: usize,
        remote: Remote,
        len: u64,
        is_write: bool,
    ) -> Result<Addr, RailError> {
        let found = self.exposures[owner].resolve(PeerId(who as u32), remote, len, is_write);
        found.map_err(|why| {
            self.misused.push((who, owner, why));
            why.into()
        })
    }

    /// Panics if a key was used that did not reach memory, between two processes
    /// neither of which has given up the other; or if memory of a process is exposed
    /// that has nothing pending.
    pub fn check_exposures(&self, who: usize, has_pending: bool) {
        for &(user, owner, why) in &self.misused {
            assert!(self.is_parted(user, owner), "{user} used a key of {owner}: {why}");
        }
        let count = self.exposures[who].len();
        assert!(has_pending || count == 0, "{who} has nothing pending and exposes {count} regions");
    }

    /// The process ends: it does nothing more, what it had not written is lost.
    pub fn kill(&mut self, who: usize) {
        self.dead.insert(who);
        for (&(from, _), flights) in &mut self.flights {
            if from == who {
                let cut = flights.iter().position(|f| f.payload.is_none());
                flights.truncate(cut.unwrap_or(flights.len()));
            }
        }
        self.written.retain(|(owner, _)| *owner != who);
        self.reads.retain(|read| read.reader != who);
        self.claims.shares.retain(|share| share.who != who);
        for other in 0..self.processes.len() {
            self.part(other, who);
        }
    }

    /// What arrives at a process from now on was not written to its end, or was again.
    pub fn cut(&mut self, who: usize, is_cut: bool) {
        self.processes[who].is_cut = is_cut;
    }

    pub fn is_dead(&self, who: usize) -> bool {
        self.dead.contains(&who)
    }

    /// Whether `one` has spoken to `other`, heard of it or asked for its end.
    pub fn is_watched(&self, one: usize, other: usize) -> bool {
        self.watched.contains(&(one, other))
    }

    /// Whether the machine of `one` has given up `other` for a reason of its own.
    pub fn has_refused(&self, one: usize, other: usize) -> bool {
        self.refused.contains(&(one, other))
    }

    /// `one` has given up `other`: no book of that pair is kept any more.
    pub fn part(&mut self, one: usize, other: usize) {
        self.connecting.remove(&(one, other));
        self.parted.insert((one, other));
        self.parted.insert((other, one));
    }

    pub fn is_parted(&self, one: usize, other: usize) -> bool {
        self.parted.contains(&(one, other))
    }

    /// Drops what one process wrote to another and the other has not read. What the
    /// rail had not written yet it reads all the same: it says later that it has.
    pub fn lose(&mut self, from: usize, to: usize) {
        let flights = self.flights.remove(&(from, to)).unwrap_or_default();
        if !self.is_dead(from) {
            let pending = flights.iter().filter(|flight| flight.payload.is_none());
            self.written.extend(pending.map(|flight| (from, flight.token)));
        }
    }

    pub fn forbid(&mut self, reader: usize, peer: usize) {
        self.unreadable.insert((reader, peer));
    }

    /// The packets on their way from one process to another, oldest first.
    pub fn flights(&self, from: usize, to: usize) -> impl Iterator<Item = &Flight> {
        self.flights.get(&(from, to)).into_iter().flatten()
    }

    /// Lets a packet appear that no machine has sent.
    pub fn forge(&mut self, from: usize, to: usize, head: &HeadBuf, payload: &[u8]) {
        self.part(from, to);
        let flight = flight(head, Some(payload.to_vec()), Region::EMPTY, Token(0));
        self.flights.entry((from, to)).or_default().push_back(flight);
    }

    /// Slots on their way from one process to another, of one region.
    pub fn slots_in_flight(&self, from: usize, to: usize, region: MailboxRegion) -> u32 {
        self.flights(from, to).filter(|f| f.region == region).map(|f| f.slots).sum()
    }

    /// Credits on their way.
    pub fn credits_in_flight(&self, from: usize, to: usize) -> (u32, u32) {
        self.flights(from, to).fold((0, 0), |(data, control), f| {
            let credits = f.parsed.credits;
            (data + u32::from(credits.data), control + u32::from(credits.control))
        })
    }

    /// Credits that are given back, on their way.
    pub fn returned_in_flight(&self, from: usize, to: usize) -> u32 {
        let returned = self.flights(from, to).map(|flight| match flight.parsed.packet {
            Packet::ReturnResponse(response) => response.slots as u32,
            _ => 0,
        });
        returned.sum()
    }

    /// Bytes lent to a process for messages, and for anything else.
    pub fn lent(&self, who: usize) -> (u64, u64) {
        let sum = |of: bool| {
            let lent = self.processes[who].lent.values();
            lent.filter(|(_, handling)| *handling == of).map(|(len, _)| u64::from(*len)).sum()
        };
        (sum(true), sum(false))
    }

    /// No region of a mailbox and no ring holds more than it has slots.
    fn check_mailbox(&self, to: usize) {
        let layout = &self.layouts[to];
        let mut total = 0;
        let mut replies = 0;
        let mut dynamic = 0;
        for from in 0..self.processes.len() {
            let [mut data, mut control, mut credit] = [0; 3];
            for flight in self.flights(from, to) {
                *match flight.region {
                    MailboxRegion::Data => &mut data,
                    MailboxRegion::Control => &mut control,
                    MailboxRegion::Credit => &mut credit,
                    MailboxRegion::Reply => &mut replies,
                } += flight.slots;
            }
            if self.is_parted(from, to) {
                return;
            }
            let grant = layout.grant;
            dynamic += data.saturating_sub(u32::from(grant.data_slots));
            assert!(dynamic <= layout.dynamic_slots, "data region {from}→{to}: {data}");
            assert!(control <= u32::from(grant.control_slots), "control {from}→{to}: {control}");
            assert!(credit <= u32::from(grant.credit_slots), "credit {from}→{to}: {credit}");
            total += data + control + credit;
        }
        assert!(replies <= u32::from(layout.reply_slots), "reply region of {to}: {replies}");
        assert!(total + replies <= layout.ring_slots, "ring of {to}");
    }
}

fn take_bytes(process: &Process, region: Region, payloads: bool) -> Vec<u8> {
    if payloads { process.read(region).to_vec() } else { Vec::new() }
}

fn flight(head: &HeadBuf, payload: Option<Vec<u8>>, from: Region, token: Token) -> Flight {
    let parsed = Packet::parse(head.bytes()).expect("a machine emits what can be parsed");
    Flight {
        parsed,
        head: head.bytes().to_vec(),
        payload,
        from_memory: from,
        token,
        region: MailboxRegion::of(&parsed.packet),
        slots: parsed.slots(),
    }
}
