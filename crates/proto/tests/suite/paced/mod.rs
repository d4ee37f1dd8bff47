//! The processes of `world` with a network of stated bandwidth and latency, and
//! sinks of stated rates, in virtual time.
//!
//! Each process has one link out and one link in, both of the same bandwidth. A
//! packet takes its bytes' time on either, and the latency in between. What a sink
//! takes slowly lies in a buffer of its process until it is taken; while that buffer
//! is full, the link in stands still for everybody. A process hears of a packet when
//! its sink has taken the bytes; packets of a pair keep their order.

#![allow(dead_code, reason = "each test uses its part of it")]

use crate::world::World;
use crate::world::net::Event;
use sluice_link::PeerError;
use sluice_proto::Failure;
use sluice_wire::{Nanos, Packet};
use std::collections::{BTreeMap, VecDeque};

/// A network.
#[derive(Clone, Copy, Debug)]
pub struct Wires {
    /// Time of a byte on a link.
    pub byte_ps: u64,
    pub latency_ns: u64,
    /// What the buffer at the end of a link holds.
    pub buffer_bytes: u64,
}

/// 10 GB/s, and a microsecond from anybody to anybody.
pub const WIRES: Wires = Wires { byte_ps: 100, latency_ns: 1_000, buffer_bytes: 128 << 10 };

/// Header of the answer to one get of everything.
const REPLY_HEAD_BYTES: u64 = 40;
/// The get itself.
const GET_BYTES: u64 = 56;

pub struct Paced {
    pub world: World,
    pub wires: Wires,
    /// By sender and receiver: the time of a byte in the sink of what comes from it.
    sink_ps: BTreeMap<(usize, usize), u64>,
    sink_free_ps: BTreeMap<(usize, usize), u64>,
    out_free_ps: Vec<u64>,
    in_free_ps: Vec<u64>,
    /// Packets that have left, by when they come to the link in, and in which order
    /// they left: from, to, bytes, and bytes for the sink.
    coming: BTreeMap<(u64, u64), (usize, usize, u64, u64)>,
    left_count: u64,
    /// Packets of a pair that have left and are not heard of.
    on_way: BTreeMap<(usize, usize), usize>,
    /// When each packet of a pair that has come in is heard of.
    due_ps: BTreeMap<(usize, usize), VecDeque<u64>>,
    reads_due_ps: BTreeMap<u64, u64>,
    /// By receiver: until when so many bytes lie in its buffer.
    buffered: Vec<Vec<(u64, u64)>>,
    /// Lengths of the gets that a receiver has out at a sender.
    gets: BTreeMap<(usize, usize), VecDeque<u64>>,
    /// Ends of requests, by process and context.
    pub ends: BTreeMap<(usize, u64), (u64, Result<(), Failure>)>,
    /// Payload that has come, by sender and receiver.
    pub got: BTreeMap<(usize, usize), u64>,
    /// The most bytes that were out at a sender since this was last emptied.
    pub out_peak: BTreeMap<(usize, usize), u64>,
    /// Senders that do nothing: what comes to them is not read.
    pub away: Vec<usize>,
}

impl Paced {
    pub fn new(world: World, wires: Wires) -> Paced {
        let count = world.processes.len();
        Paced {
            world,
            wires,
            sink_ps: BTreeMap::new(),
            sink_free_ps: BTreeMap::new(),
            out_free_ps: vec![0; count],
            in_free_ps: vec![0; count],
            coming: BTreeMap::new(),
            left_count: 0,
            on_way: BTreeMap::new(),
            due_ps: BTreeMap::new(),
            reads_due_ps: BTreeMap::new(),
            buffered: vec![Vec::new(); count],
            gets: BTreeMap::new(),
            ends: BTreeMap::new(),
            got: BTreeMap::new(),
            out_peak: BTreeMap::new(),
            away: Vec::new(),
        }
    }

    /// From now on a byte from `from` takes so long in its sink at `to`.
    pub fn set_sink(&mut self, from: usize, to: usize, byte_ps: u64) {
        self.sink_ps.insert((from, to), byte_ps);
    }

    pub fn now_ns(&self) -> u64 {
        self.world.now.0
    }

    /// When this request ended, without a failure.
    pub fn end_ns(&self, who: usize, context: u64) -> u64 {
        let (at, outcome) = self.ends.get(&(who, context)).expect("it has ended");
        assert_eq!(*outcome, Ok(()), "of {context} at {who}");
        *at
    }

    /// A process ends, and another one is told so.
    pub fn kill(&mut self, dead: usize, told: usize) {
        self.world.kill(dead);
        let lost = (dead, told);
        self.coming.retain(|_, (from, to, ..)| (*from, *to) != lost);
        self.due_ps.remove(&lost);
        self.on_way.remove(&lost);
        self.world.peer_gone(told, dead, PeerError::Dead);
    }

    /// Bytes that `to` has asked `from` for and not got.
    pub fn out(&self, from: usize, to: usize) -> u64 {
        self.gets.get(&(from, to)).map_or(0, |gets| gets.iter().sum())
    }

    /// Runs until nothing happens any more.
    pub fn run(&mut self) {
        self.run_until(u64::MAX);
    }

    /// Runs until nothing happens any more, or until this time.
    pub fn run_until(&mut self, until_ns: u64) {
        self.run_while(|paced| {
            let due = paced.next_due().map(|(at, _)| at);
            let first = paced.coming.keys().next().map(|(at, _)| *at);
            due.into_iter().chain(first).min().is_none_or(|at| at / 1000 <= until_ns)
        });
    }

    /// Runs as long as `goes_on`, and something happens.
    pub fn run_while(&mut self, goes_on: impl Fn(&Paced) -> bool) {
        self.look();
        while goes_on(self) {
            if !self.step() {
                return;
            }
        }
    }

    fn step(&mut self) -> bool {
        let first = self.coming.first_key_value().map(|(&key, &packet)| (key, packet));
        if let Some((key, packet)) = first
            && self.next_due().is_none_or(|(at, _)| key.0 < at)
        {
            self.coming.remove(&key);
            self.come_in(key.0, packet);
            return true;
        }
        let Some((at_ps, event)) = self.next_due() else {
            let before = self.world.now;
            for who in 0..self.world.processes.len() {
                if !self.world.is_dead(who) {
                    self.world.idle(who);
                }
            }
            self.look();
            assert_eq!(before, self.world.now);
            return self.next_due().is_some() || !self.coming.is_empty();
        };
        let at = at_ps.div_ceil(1000).max(self.world.now.0).max(1);
        self.world.now = Nanos(at - 1);
        match event {
            Event::Deliver(from, to) => {
                self.due_ps.get_mut(&(from, to)).and_then(VecDeque::pop_front);
                *self.on_way.get_mut(&(from, to)).expect("it has left") -= 1;
                let flight =
                    self.world.processes[0].port.net().flights(from, to).next().map(|f| f.parsed);
                let parsed = flight.expect("a packet is due");
                if matches!(parsed.packet, Packet::Reply(_)) {
                    self.gets.get_mut(&(from, to)).and_then(VecDeque::pop_front);
                    *self.got.entry((from, to)).or_default() += u64::from(parsed.payload_len);
                }
                self.world.happen(event);
                // The mailbox is empty again.
                self.world.idle(to);
            }
            _ => self.world.happen(event),
        }
        self.look();
        true
    }

    fn next_due(&self) -> Option<(u64, Event)> {
        let net = self.world.processes[0].port.net();
        let dead = |who: &usize| net.is_dead(*who) || self.away.contains(who);
        let packets = self.due_ps.iter().filter(|((_, to), _)| !dead(to));
        let packets = packets
            .filter_map(|(&(from, to), due)| due.front().map(|at| (*at, Event::Deliver(from, to))));
        let reads = net.reads.iter().enumerate();
        let reads = reads.filter_map(|(nth, read)| {
            self.reads_due_ps.get(&read.token.0).map(|at| (*at, Event::Read(nth)))
        });
        packets.chain(reads).min()
    }

    /// Takes note of what has been sent and what has ended.
    fn look(&mut self) {
        let now = self.world.now.0;
        for who in 0..self.world.processes.len() {
            while let Some(end) = self.world.pop(who) {
                let other = self.ends.insert((who, end.context), (now, end.outcome));
                assert_eq!(other, None, "{} of {who} ended twice", end.context);
            }
        }
        let net = self.world.processes[0].port.clone();
        let net = net.net();
        let wires = self.wires;
        for from in 0..self.world.processes.len() {
            for to in 0..self.world.processes.len() {
                let known = *self.on_way.entry((from, to)).or_default();
                let sent: Vec<_> = net.flights(from, to).skip(known).map(|f| f.parsed).collect();
                for packet in sent {
                    if let Packet::Get(get) = packet.packet {
                        self.gets.entry((to, from)).or_default().push_back(get.length);
                        let out = self.out(to, from);
                        let peak = self.out_peak.entry((to, from)).or_default();
                        *peak = out.max(*peak);
                    }
                    let is_reply = matches!(packet.packet, Packet::Reply(_));
                    let taken = if is_reply { u64::from(packet.payload_len) } else { 0 };
                    self.send(from, to, packet.total_bytes(), taken);
                }
            }
        }
        for read in &net.reads {
            let bytes = GET_BYTES + REPLY_HEAD_BYTES + read.local.len;
            let at = (now + 2 * wires.latency_ns) * 1000 + bytes * wires.byte_ps;
            self.reads_due_ps.entry(read.token.0).or_insert(at);
        }
    }

    /// A packet leaves, with so many bytes for the sink.
    fn send(&mut self, from: usize, to: usize, bytes: u64, taken: u64) {
        let time_ps = bytes * self.wires.byte_ps;
        let left = self.out_free_ps[from].max(self.world.now.0 * 1000);
        self.out_free_ps[from] = left + time_ps;
        let at = left + self.wires.latency_ns * 1000;
        self.left_count += 1;
        self.coming.insert((at, self.left_count), (from, to, bytes, taken));
        *self.on_way.entry((from, to)).or_default() += 1;
    }

    /// A packet comes to the end of a link.
    fn come_in(&mut self, at: u64, (from, to, bytes, taken): (usize, usize, u64, u64)) {
        let time_ps = bytes * self.wires.byte_ps;
        let now_ps = self.world.now.0 * 1000;
        let mut at = at.max(self.in_free_ps[to]);
        let buffered = &mut self.buffered[to];
        buffered.retain(|(until, _)| *until > now_ps);
        loop {
            let full: u64 = buffered.iter().filter(|(until, _)| *until > at).map(|b| b.1).sum();
            if full == 0 || full + bytes <= self.wires.buffer_bytes {
                break;
            }
            let next = buffered.iter().map(|b| b.0).filter(|until| *until > at).min();
            at = next.expect("somebody takes what is there");
        }
        let there = at + time_ps;
        self.in_free_ps[to] = there;
        let sink_ps = self.sink_ps.get(&(from, to)).copied().unwrap_or(0);
        let sink_free = self.sink_free_ps.entry((from, to)).or_default();
        // A sink may take bytes as they come.
        let ready = (*sink_free).max(at) + taken * sink_ps;
        if taken > 0 {
            *sink_free = ready;
        }
        let due = self.due_ps.entry((from, to)).or_default();
        let heard = ready.max(there).max(due.back().copied().unwrap_or(0));
        due.push_back(heard);
        self.buffered[to].push((heard, bytes));
    }
}
