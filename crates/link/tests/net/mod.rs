//! A network of processes under [`Port`], for the tests of every machine: each
//! process has a memory of its own (an address is an offset into it) and a
//! mailbox of which every slot is counted. Packets travel as wire bytes. Each
//! pair keeps its order; which pair moves next is the caller's choice.

#![allow(dead_code, reason = "each test program uses its part of it")]

pub mod random;

use random::Random;
use sluice_link::{Grant, Layout, MailboxRegion, PeerError, Port, RailError, Token, Transmitted};
use sluice_wire::{Addr, Credits, HeadBuf, Packet, Parsed, PeerId, Region, slots_for};
use std::cell::{Ref, RefCell, RefMut};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::rc::Rc;

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
}

impl Default for Mode {
    fn default() -> Self {
        Mode { payloads: true, pending_percent: 0, can_read: true, forbidden_percent: 0 }
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
    local: Region,
    remote: Addr,
    pub token: Token,
}

/// What may not be done to a part of a process's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Barred {
    Unmapped,
    ReadOnly,
}

#[derive(Debug, Default)]
struct Process {
    memory: Vec<u8>,
    /// Parts of the memory that cannot be used as the rest can. The last one
    /// that holds a byte counts; none: the byte can be read and written.
    barred: Vec<(Region, Option<Barred>)>,
    /// What the port has lent, by address: its length, and whether a packet
    /// was being handled then.
    lent: BTreeMap<u64, (u32, bool)>,
    /// The payload of the packet being handled.
    current: Option<Vec<u8>>,
    handling: Option<u32>,
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
}

#[derive(Debug)]
pub struct Net {
    processes: Vec<Process>,
    pub layouts: Vec<Layout>,
    pub mode: Mode,
    flights: BTreeMap<(usize, usize), VecDeque<Flight>>,
    pub reads: Vec<Read>,
    written: Vec<(usize, Token)>,
    unreadable: BTreeSet<(usize, usize)>,
    dead: BTreeSet<usize>,
    /// Pairs (one, other) of which one has given up the other: no book of
    /// theirs is kept any more.
    parted: BTreeSet<(usize, usize)>,
    pub refuse_connect: Option<PeerError>,
    random: Random,
    /// Packets that were sent, of each kind, for tests that count them.
    pub log: Vec<(usize, usize, Packet, Credits)>,
    pub lent_max: u64,
}

/// The network as one process sees it.
#[derive(Clone, Debug)]
pub struct NetPort {
    pub me: usize,
    net: Rc<RefCell<Net>>,
}

impl NetPort {
    /// A network with one process for each layout.
    pub fn network(layouts: Vec<Layout>, mode: Mode, seed: u64) -> Vec<NetPort> {
        let count = layouts.len();
        let net = Net {
            processes: (0..count).map(|_| Process::default()).collect(),
            layouts,
            mode,
            flights: BTreeMap::new(),
            reads: Vec::new(),
            written: Vec::new(),
            unreadable: BTreeSet::new(),
            dead: BTreeSet::new(),
            parted: BTreeSet::new(),
            refuse_connect: None,
            random: Random::new(seed),
            log: Vec::new(),
            lent_max: 0,
        };
        let net = Rc::new(RefCell::new(net));
        (0..count).map(|me| NetPort { me, net: Rc::clone(&net) }).collect()
    }

    pub fn net(&self) -> Ref<'_, Net> {
        self.net.borrow()
    }

    pub fn net_mut(&self) -> RefMut<'_, Net> {
        self.net.borrow_mut()
    }

    /// Memory of this process with `bytes` in it, aligned for any value.
    pub fn alloc(&self, bytes: &[u8]) -> Region {
        let mut net = self.net.borrow_mut();
        let memory = &mut net.processes[self.me].memory;
        memory.resize(memory.len().next_multiple_of(8), POISON);
        let addr = Addr(memory.len() as u64);
        memory.extend_from_slice(bytes);
        Region { addr, len: bytes.len() as u64 }
    }

    pub fn bytes(&self, region: Region) -> Vec<u8> {
        self.net.borrow().processes[self.me].memory[range(region)].to_vec()
    }

    /// From now on this part of the memory of this process faults.
    pub fn unmap(&self, region: Region) {
        self.bar(region, Some(Barred::Unmapped));
    }

    /// From now on this part of the memory of this process faults if written.
    pub fn protect(&self, region: Region) {
        self.bar(region, Some(Barred::ReadOnly));
    }

    /// Undoes [`NetPort::unmap`] and [`NetPort::protect`].
    pub fn map(&self, region: Region) {
        self.bar(region, None);
    }

    fn bar(&self, region: Region, barred: Option<Barred>) {
        self.net.borrow_mut().processes[self.me].barred.push((region, barred));
    }

    pub fn fill(&self, region: Region, byte: u8) {
        self.net.borrow_mut().processes[self.me].memory[range(region)].fill(byte);
    }
}

fn range(region: Region) -> std::ops::Range<usize> {
    region.addr.0 as usize..(region.addr.0 + region.len) as usize
}

impl Process {
    fn barred(&self, at: u64) -> Option<Barred> {
        let holds = |region: &Region| at.wrapping_sub(region.addr.0) < region.len;
        let last = self.barred.iter().rev().find(|(region, _)| holds(region));
        last.and_then(|(_, barred)| *barred)
    }

    /// How many bytes from the beginning of a region may be read, or written.
    fn usable(&self, region: Region, to_write: bool, payloads: bool) -> u64 {
        let Some(Region { addr, len }) = Region::new(region.addr, region.len) else { return 0 };
        // Without payloads there is no memory to look at, only what was barred.
        let there = if payloads { self.memory.len() as u64 } else { u64::MAX };
        let len = len.min(there.saturating_sub(addr.0));
        if self.barred.is_empty() {
            return len;
        }
        let refused = |at: &u64| match self.barred(*at) {
            None => false,
            Some(Barred::ReadOnly) => to_write,
            Some(Barred::Unmapped) => true,
        };
        (addr.0..addr.0 + len).find(refused).map_or(len, |at| at - addr.0)
    }

    fn check_payload(&self, offset: u32, len: u64) {
        let payload_len = self.handling.expect("payload only while a packet is handled");
        assert!(
            u64::from(offset) + len <= u64::from(payload_len),
            "a copy stays inside the payload"
        );
    }

    /// The memory of a region that the machine says may be read.
    fn read(&self, region: Region) -> &[u8] {
        if region.len == 0 {
            return &[];
        }
        assert_eq!(self.usable(region, false, true), region.len, "{region:?} cannot be read");
        &self.memory[range(region)]
    }

    /// The memory of a region that the machine says may be written.
    fn write(&mut self, region: Region) -> &mut [u8] {
        if region.len == 0 {
            return &mut [];
        }
        assert_eq!(self.usable(region, true, true), region.len, "{region:?} cannot be written");
        &mut self.memory[range(region)]
    }
}

impl Net {
    /// Everything that may happen next, in an order that depends on nothing
    /// but what happened before.
    pub fn events(&self) -> Vec<Event> {
        let mut events = Vec::new();
        for (&(from, to), flights) in &self.flights {
            if !self.dead.contains(&to) && flights.front().is_some_and(|f| f.payload.is_some()) {
                events.push(Event::Deliver(from, to));
            }
            if !self.dead.contains(&from) && flights.iter().any(|f| f.payload.is_none()) {
                events.push(Event::Write(from, to));
            }
        }
        events.extend(self.written.iter().map(|&(who, token)| Event::Transmitted(who, token.0)));
        events.extend((0..self.reads.len()).map(Event::Read));
        events
    }

    /// Takes the oldest packet off the way; it is the one being handled until
    /// [`Net::end_packet`].
    pub fn begin_packet(&mut self, from: usize, to: usize) -> Parsed {
        let flight = self.flights.get_mut(&(from, to)).and_then(VecDeque::pop_front);
        let flight = flight.expect("a packet is on its way");
        // What arrives is read from the bytes, as a rail does.
        let parsed = Packet::parse(&flight.head).expect("a machine emits what can be parsed");
        assert_eq!(parsed, flight.parsed);
        let process = &mut self.processes[to];
        process.handling = Some(parsed.payload_len);
        process.current = flight.payload;
        parsed
    }

    pub fn end_packet(&mut self, to: usize) {
        self.processes[to].current = None;
        self.processes[to].handling = None;
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
        let remote = Region { addr: read.remote, len: read.local.len };
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
        for other in 0..self.processes.len() {
            self.part(other, who);
        }
    }

    pub fn is_dead(&self, who: usize) -> bool {
        self.dead.contains(&who)
    }

    /// `one` has given up `other`: no book of that pair is kept any more.
    pub fn part(&mut self, one: usize, other: usize) {
        self.parted.insert((one, other));
        self.parted.insert((other, one));
    }

    pub fn is_parted(&self, one: usize, other: usize) -> bool {
        self.parted.contains(&(one, other))
    }

    /// Drops what one process wrote to another and the other has not read.
    pub fn lose(&mut self, from: usize, to: usize) {
        self.flights.remove(&(from, to));
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
        slots: slots_for(parsed.total_bytes()),
    }
}

impl Port for NetPort {
    fn connect(&mut self, peer: PeerId) -> Result<Grant, PeerError> {
        let net = self.net.borrow();
        match net.refuse_connect {
            Some(why) => Err(why),
            // As a rail does until it has noticed: what is sent is swallowed.
            None => Ok(net.layouts[peer.index()].grant),
        }
    }

    fn dynamic_slots(&self, peer: PeerId) -> u32 {
        self.net.borrow().layouts[peer.index()].dynamic_slots
    }

    fn transmit(
        &mut self,
        peer: PeerId,
        head: &HeadBuf,
        payload: Region,
        token: Token,
    ) -> Transmitted {
        let net = &mut *self.net.borrow_mut();
        let to = peer.index();
        let region = MailboxRegion::of(&Packet::parse(head.bytes()).expect("parses").packet);
        let may_pend = matches!(region, MailboxRegion::Data | MailboxRegion::Reply);
        let pends = may_pend && net.random.percent(net.mode.pending_percent);
        let bytes = if pends {
            None
        } else {
            Some(take_bytes(&net.processes[self.me], payload, net.mode.payloads))
        };
        let flight = flight(head, bytes, payload, token);
        assert_eq!(u64::from(flight.parsed.payload_len), payload.len);
        net.log.push((self.me, to, flight.parsed.packet, flight.parsed.credits));
        if net.is_dead(to) {
            return Transmitted::Done;
        }
        net.flights.entry((self.me, to)).or_default().push_back(flight);
        net.check_mailbox(to);
        if pends { Transmitted::Pending } else { Transmitted::Done }
    }

    fn copy_payload(&mut self, offset: u32, to: Addr, len: u32) {
        let net = &mut *self.net.borrow_mut();
        let payloads = net.mode.payloads;
        let process = &mut net.processes[self.me];
        process.check_payload(offset, u64::from(len));
        if payloads {
            let bytes = process.current.clone().expect("a packet is handled");
            let part = &bytes[offset as usize..(offset + len) as usize];
            process.write(Region { addr: to, len: u64::from(len) }).copy_from_slice(part);
        }
    }

    fn copy(&mut self, from: Addr, to: Addr, len: u64) {
        let net = &mut *self.net.borrow_mut();
        if net.mode.payloads {
            let process = &mut net.processes[self.me];
            let disjoint = from.0 + len <= to.0 || to.0 + len <= from.0;
            assert!(disjoint, "the regions of a copy do not overlap");
            let bytes = process.read(Region { addr: from, len }).to_vec();
            process.write(Region { addr: to, len }).copy_from_slice(&bytes);
        }
    }

    fn lend(&mut self, len: u32) -> Addr {
        assert!(len > 0, "no bytes need no memory");
        let net = &mut *self.net.borrow_mut();
        let process = &mut net.processes[self.me];
        let addr = process.memory.len() as u64;
        process.memory.resize(process.memory.len() + len as usize, POISON);
        process.lent.insert(addr, (len, process.handling.is_some()));
        let now: u64 = process.lent.values().map(|(len, _)| u64::from(*len)).sum();
        net.lent_max = net.lent_max.max(now);
        Addr(addr)
    }

    fn give_back(&mut self, addr: Addr, len: u32) {
        let net = &mut *self.net.borrow_mut();
        let process = &mut net.processes[self.me];
        let lent = process.lent.remove(&addr.0).expect("what is given back was lent");
        assert_eq!(lent.0, len, "given back whole");
        process.memory[range(Region { addr, len: u64::from(len) })].fill(POISON);
    }

    fn can_read(&self, peer: PeerId) -> bool {
        let net = self.net.borrow();
        net.mode.can_read && !net.unreadable.contains(&(self.me, peer.index()))
    }

    fn read_remote(&mut self, peer: PeerId, from: Addr, to: Region, token: Token) {
        self.net.borrow_mut().reads.push(Read {
            reader: self.me,
            peer: peer.index(),
            is_write: false,
            local: to,
            remote: from,
            token,
        });
    }

    fn can_write(&self, peer: PeerId) -> bool {
        self.can_read(peer)
    }

    fn write_remote(&mut self, peer: PeerId, from: Region, to: Addr, token: Token) {
        self.net.borrow_mut().reads.push(Read {
            reader: self.me,
            peer: peer.index(),
            is_write: true,
            local: from,
            remote: to,
            token,
        });
    }

    fn readable(&self, region: Region) -> bool {
        let net = self.net.borrow();
        net.processes[self.me].usable(region, false, net.mode.payloads) == region.len
    }

    fn writable(&self, region: Region) -> bool {
        let net = self.net.borrow();
        net.processes[self.me].usable(region, true, net.mode.payloads) == region.len
    }

    fn load(&self, from: Addr, into: &mut [u8]) {
        let region = Region { addr: from, len: into.len() as u64 };
        into.copy_from_slice(self.net.borrow().processes[self.me].read(region));
    }

    fn store(&mut self, to: Addr, bytes: &[u8]) {
        let region = Region { addr: to, len: bytes.len() as u64 };
        self.net.borrow_mut().processes[self.me].write(region).copy_from_slice(bytes);
    }

    fn compare_exchange(&mut self, at: Addr, width: u32, old: u64, new: u64) -> Result<(), u64> {
        assert!(matches!(width, 1 | 2 | 4 | 8), "a width that memory exchanges");
        assert!(at.0.is_multiple_of(u64::from(width)), "an exchange is aligned");
        let width = width as usize;
        let net = &mut *self.net.borrow_mut();
        let memory = net.processes[self.me].write(Region { addr: at, len: width as u64 });
        let mut found = [0; 8];
        found[..width].copy_from_slice(memory);
        if found[..width] != old.to_le_bytes()[..width] {
            return Err(u64::from_le_bytes(found));
        }
        memory.copy_from_slice(&new.to_le_bytes()[..width]);
        Ok(())
    }

    fn payload(&self, offset: u32, into: &mut [u8]) {
        let net = self.net.borrow();
        let process = &net.processes[self.me];
        process.check_payload(offset, into.len() as u64);
        if net.mode.payloads {
            let bytes = process.current.as_ref().expect("a packet is handled");
            into.copy_from_slice(&bytes[offset as usize..][..into.len()]);
        }
    }
}
