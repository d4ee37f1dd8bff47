//! The world: processes, what they wait for, and what happens next.
//!
//! A process does one thing at a time. It chooses the next in this order: send
//! a packet if there is one and a credit for it, take a packet out of its
//! mailbox, go on with its program if the operation is over (these two the
//! other way round if it looks into its mailbox only while it waits); with
//! nothing of these to do it waits, and costs nothing until something arrives. What it does is
//! paid for first and done at the end of that time, so packets enter the
//! network in the order of time; credit packets, and the packets of the message
//! layer, which a machine sends in the middle of something else, enter at once
//! and are paid for afterwards.
//!
//! Invariants: a process that can do something has an event to come; the hash
//! covers every arrival.

mod around;
mod books;
mod bulk;
mod results;

use crate::config::{Config, Cost, Pace, Progress};
use crate::fabric::{Fabric, Shape, Step};
use crate::flight::{Flight, Store};
use crate::library::Library;
use crate::network::Network;
use crate::outcome::{Counts, CreditSample};
use crate::program::{Cursor, Next, Op, Program};
use crate::queue::Queue;
use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::{Rng as _, SeedableRng};
use sluice_link::Layout;
use sluice_wire::{Nanos, PeerId};
use std::collections::VecDeque;

use around::Around;
use bulk::{Cargo, End, Transfer};
use results::LargeSums;

/// Something that happens.
#[derive(Clone, Copy, Debug)]
enum Event {
    /// A packet is in a mailbox.
    Arrive { to: u32, flight: Flight },
    /// A process has done what it paid for, or has waited long enough.
    Wake { process: u32 },
    /// A message has come through the memory of the node.
    Local { to: u32, from: u32 },
    /// A request for a bulk transfer has come to the interface of the other.
    Asked { transfer: u32 },
    /// The bytes are there.
    Moved { transfer: u32 },
    /// Who asked for a write is told of its end.
    Told { transfer: u32 },
    /// A side of a shared transfer has its turn.
    Turn { part: u32 },
    /// What a process had announced has been fetched.
    Fetched { process: u32 },
    /// Something happens within the fabric.
    Fabric { step: Step, node: u32 },
}

const _: () = assert!(size_of::<(u64, Event)>() <= 32);

/// What a process is paying for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Doing {
    /// Nothing: it waits.
    Waiting,
    /// What it did is paid for; nothing more comes of it.
    Paying,
    /// No call of its library until a set time.
    Away,
    Sending,
    Receiving,
    /// It has done its program; it still takes packets in.
    Ended,
}

/// A process, as its processor and its mailbox.
#[derive(Debug)]
struct Host {
    mailbox: VecDeque<Flight>,
    unread_slots: u64,
    /// Bytes were moved, which it has not read.
    ends: VecDeque<End>,
    /// It waits in its library until then.
    rests_until: u64,
    doing: Doing,
    has_ended: bool,
    /// The event that ends what it does.
    wake_at: Option<u64>,
    /// Draws what is random about it: the same, whatever its mailbox is like.
    random: SplitMix64,
    /// Since when it has waited without a credit.
    blocked_since: Option<u64>,
    cursor: Cursor,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct World<L> {
    cost: Cost,
    progress: Progress,
    program: Program,
    network: Network,
    /// In the place of the network, where buffers matter.
    fabric: Option<Fabric<Cargo>>,
    queue: Queue<Event>,
    hosts: Vec<Host>,
    libraries: Vec<L>,
    around: Around,
    store: Store,
    transfers: Vec<Transfer>,
    transfers_free: Vec<u32>,
    counts: Counts,
    before: Counts,
    /// Messages and delayed ones of each process before its own counted repetitions.
    messages_before: Vec<Option<(u64, u64)>>,
    unread_slots_max: u64,
    hash: u64,
    events: u64,
    /// By repetition: how many have done it, and the sum of the times when they
    /// had. Their mean is what counts: when the last one had is chance.
    repeated: Vec<(u32, u64)>,
    /// Who takes part in each repetition.
    participants: Vec<u32>,
    warm_up: u32,
    credit_groups: Vec<u32>,
    credits: Vec<CreditSample>,
    /// Of an overlap or a pace: sums over the counted repetitions.
    large: LargeSums,
    /// What the slow sink of a pace has taken.
    slow_bytes: u64,
    unended: u32,
}

impl<L: Library> World<L> {
    pub fn new(config: &Config, layout: Layout, libraries: Vec<L>) -> World<L> {
        let program = Program::new(config);
        let participants = program.participants();
        let mut world = World {
            cost: config.cost.clone(),
            progress: config.progress,
            network: Network::new(&config.network),
            fabric: config.program.pace.map(|pace| fabric(config, &pace)),
            queue: Queue::new(),
            hosts: (0..config.processes).map(|process| Host::new(config.seed, process)).collect(),
            libraries,
            around: Around::new(config, layout),
            store: Store::default(),
            transfers: Vec::new(),
            transfers_free: Vec::new(),
            counts: Counts::default(),
            before: Counts::default(),
            messages_before: vec![None; config.processes as usize],
            unread_slots_max: 0,
            hash: 0xCBF2_9CE4_8422_2325,
            events: 0,
            repeated: vec![(0, 0); participants.len()],
            participants,
            program,
            warm_up: config.program.warm_up,
            credit_groups: config.program.credit_groups.clone(),
            credits: Vec::new(),
            large: LargeSums::default(),
            slow_bytes: 0,
            unended: config.processes,
        };
        for process in 0..config.processes {
            let start = world.draw(process, config.cost.start_spread_ns);
            world.wake(process, start);
        }
        world
    }

    /// Lets at most so many events happen; how many did. Fewer: all is over.
    pub fn run(&mut self, events: u64) -> u64 {
        for done in 0..events {
            let Some((now, event)) = self.queue.take() else {
                self.events += done;
                return done;
            };
            self.happen(now, event);
        }
        self.events += events;
        events
    }

    fn happen(&mut self, now: u64, event: Event) {
        match event {
            Event::Arrive { to, flight } => self.arrive(now, to, flight),
            Event::Wake { process } => {
                let host = &mut self.hosts[process as usize];
                match host.wake_at {
                    Some(at) if at == now => {
                        host.wake_at = None;
                        self.finish(process, now);
                    }
                    // It has been busy since; it looks by itself.
                    Some(_) => {}
                    None => self.choose(process, now, 0),
                }
            }
            Event::Local { to, from } => {
                self.libraries[to as usize].receive_local(from);
                self.rouse(to, now);
            }
            Event::Asked { transfer } => self.asked(now, transfer),
            Event::Moved { transfer } => self.moved(now, transfer),
            Event::Told { transfer } => self.told(now, transfer),
            Event::Turn { part } => self.turn(now, part),
            Event::Fabric { step, node } => self.step_fabric(now, step, node),
            Event::Fetched { process } => {
                self.libraries[process as usize].fetched();
                self.rouse(process, now);
            }
        }
    }

    /// A packet is in a mailbox.
    #[inline]
    fn arrive(&mut self, now: u64, to: u32, flight: Flight) {
        self.note(now, to, flight);
        let slots = u64::from(flight.message_slots(&self.store));
        let host = &mut self.hosts[to as usize];
        host.mailbox.push_back(flight);
        host.unread_slots += slots;
        self.unread_slots_max = self.unread_slots_max.max(host.unread_slots);
        self.rouse(to, now);
    }

    /// Something has come for a process: if it waits, it looks after a while.
    #[inline]
    fn rouse(&mut self, process: u32, now: u64) {
        let host = &mut self.hosts[process as usize];
        if host.wake_at.is_some() {
            return;
        }
        if let Some(since) = host.blocked_since.take() {
            self.counts.stalled_ns += now - since;
        }
        host.doing = Doing::Paying;
        self.wake(process, now + self.cost.poll_ns);
    }

    #[inline]
    fn wake(&mut self, process: u32, at: u64) {
        self.hosts[process as usize].wake_at = Some(at);
        self.queue.add(at, Event::Wake { process });
    }

    /// A process does what it has paid for.
    fn finish(&mut self, process: u32, now: u64) {
        let index = process as usize;
        let host = &mut self.hosts[index];
        let mut cost_ns = 0;
        match std::mem::replace(&mut host.doing, Doing::Waiting) {
            Doing::Waiting | Doing::Paying | Doing::Away | Doing::Ended => {}
            Doing::Sending => {
                let mut port = self.around.port(index, &[]);
                self.libraries[index].send(&mut port);
                cost_ns += self.flush(process, now);
            }
            Doing::Receiving => {
                let Some(flight) = host.mailbox.pop_front() else {
                    unreachable!("it was paid for")
                };
                let from = flight.from();
                host.unread_slots -= u64::from(flight.message_slots(&self.store));
                let (packet, payload) = flight.unpack(&mut self.store);
                let mut port = self.around.port(index, &payload);
                let library = &mut self.libraries[index];
                cost_ns += library.receive(Nanos(now), &mut port, from, &packet);
                cost_ns += self.flush(process, now);
            }
        }
        self.choose(process, now, cost_ns);
    }

    /// A process decides what it does next, when it has paid `cost_ns` more.
    fn choose(&mut self, process: u32, now: u64, mut cost_ns: u64) {
        let index = process as usize;
        loop {
            if let Some(send_ns) = self.libraries[index].next_send() {
                self.hosts[index].doing = Doing::Sending;
                return self.wake(process, now + cost_ns + send_ns);
            }
            if self.may_go_on(process, now) && !self.should_poll_first(process) {
                match self.program.next(process, &mut self.hosts[index].cursor) {
                    Next::Do(Op::Away { until_ns }) => {
                        self.hosts[index].doing = Doing::Away;
                        return self.wake(process, until_ns.max(now + cost_ns));
                    }
                    Next::Do(Op::Rest { until_ns }) => self.hosts[index].rests_until = until_ns,
                    Next::Do(op) => {
                        // It is paid for before the next one begins.
                        cost_ns += self.start(process, now, cost_ns, op);
                        if cost_ns > 0 && self.libraries[index].next_send().is_none() {
                            self.hosts[index].doing = Doing::Paying;
                            return self.wake(process, now + cost_ns);
                        }
                    }
                    Next::Repeated(repetition) => self.repeat(process, now + cost_ns, repetition),
                    Next::End => {
                        self.hosts[index].has_ended = true;
                        self.unended -= 1;
                    }
                }
                continue;
            }
            if let Some(end) = self.hosts[index].ends.pop_front() {
                cost_ns += self.read_end(now, process, end).1;
                continue;
            }
            if let Some(&flight) = self.hosts[index].mailbox.front() {
                let receive_ns = self.libraries[index].receive_cost(flight, &self.store);
                if flight.is_of_credits() {
                    self.counts.credit_ns += receive_ns;
                }
                self.hosts[index].doing = Doing::Receiving;
                return self.wake(process, now + cost_ns + receive_ns);
            }
            if cost_ns > 0 {
                self.hosts[index].doing = Doing::Paying;
                return self.wake(process, now + cost_ns);
            }
            let mut port = self.around.port(index, &[]);
            let deadline = self.libraries[index].idle(Nanos(now), &mut port);
            cost_ns = self.flush(process, now);
            if cost_ns > 0 || self.may_go_on(process, now) {
                continue;
            }
            let host = &mut self.hosts[index];
            host.doing = if host.has_ended { Doing::Ended } else { Doing::Waiting };
            if host.blocked_since.is_none() && self.libraries[index].is_blocked() {
                host.blocked_since = Some(now);
            }
            let rests_until = host.rests_until;
            if rests_until > now && self.libraries[index].is_done() {
                self.queue.add(rests_until, Event::Wake { process });
            }
            if let Some(deadline) = deadline {
                self.queue.add(deadline.0, Event::Wake { process });
            }
            return;
        }
    }

    /// Whether a process may begin its next operation.
    #[inline]
    fn may_go_on(&self, process: u32, now: u64) -> bool {
        let host = &self.hosts[process as usize];
        !host.has_ended && host.rests_until <= now && self.libraries[process as usize].is_done()
    }

    /// Whether a process first takes in what has arrived.
    #[inline]
    fn should_poll_first(&self, process: u32) -> bool {
        let host = &self.hosts[process as usize];
        if host.mailbox.is_empty() && host.ends.is_empty() {
            return false;
        }
        match self.progress {
            Progress::Always => true,
            Progress::Waiting => false,
            Progress::Large => match self.program.next(process, &mut host.cursor.clone()) {
                Next::Do(op) => self.libraries[process as usize].should_poll_first(op),
                Next::Repeated(_) | Next::End => false,
            },
        }
    }

    /// Begins an operation; what it costs.
    fn start(&mut self, process: u32, now: u64, paid_ns: u64, op: Op) -> u64 {
        let index = process as usize;
        let mut port = self.around.port(index, &[]);
        let (mut cost_ns, local) = self.libraries[index].start(Nanos(now), &mut port, op);
        if matches!(op, Op::Send { .. } | Op::Both { .. } | Op::Post { .. }) {
            cost_ns += self.draw(process, self.cost.noise_ns);
        }
        if let Some(local) = local {
            let at = now + paid_ns + cost_ns + u64::from(local.bytes) / 4;
            self.queue.add(at, Event::Local { to: local.to, from: process });
        }
        cost_ns += self.flush(process, now);
        cost_ns
    }

    /// A span up to `most`.
    fn draw(&mut self, process: u32, most: u64) -> u64 {
        self.hosts[process as usize].random.next_u64() % (most + 1)
    }

    /// Sends what a machine has asked for. What that costs its processor.
    fn flush(&mut self, process: u32, now: u64) -> u64 {
        let asked = std::mem::take(&mut self.around.outbox.exchanges);
        let waited_ns = asked.iter().map(|peer| self.round_ns(process, peer.0)).sum();
        let mut cost_ns = waited_ns;
        let mut packets = std::mem::take(&mut self.around.outbox.packets);
        for out in packets.drain(..) {
            let to = out.peer.0;
            let flight = Flight::pack(&out.head, out.payload, PeerId(process), &mut self.store);
            let slots = flight.message_slots(&self.store).max(1);
            if flight.is_of_credits() {
                self.counts.credit_packets += 1;
                self.counts.credit_ns += self.cost.credit_send_ns;
                cost_ns += self.cost.credit_send_ns;
            } else {
                self.counts.data_packets += 1;
                if !L::SENDS_ARE_PREPAID {
                    cost_ns += self.cost.send_packet_ns * u64::from(slots);
                }
            }
            self.send(now + waited_ns, process, to, slots, flight);
            cost_ns += self.network.wait_ns(now + cost_ns, process);
        }
        self.around.outbox.packets = packets;
        self.begin_bulk(now + waited_ns, process);
        cost_ns
    }

    #[inline]
    fn note(&mut self, now: u64, to: u32, flight: Flight) {
        let (user, value) = flight.short();
        let what = u64::from(value) << 8 | u64::from(user) | u64::from(flight.is_of_credits()) << 7;
        for part in [now, u64::from(to) << 32 | u64::from(flight.from().0), what] {
            self.hash = (self.hash ^ part).wrapping_mul(0x0000_0100_0000_01B3).rotate_left(23);
        }
    }
}

/// The switch of a pace: rank 0's way to rank 1 leads to the slow sink.
fn fabric(config: &Config, pace: &Pace) -> Fabric<Cargo> {
    let network = &config.network;
    let shape = Shape {
        slot_ns: network.packet_ns,
        hop_ns: network.hop_ns + network.interface_ns,
        buffer_bytes: pace.buffer_bytes,
        slow: (0, 1, u64::from(pace.sink_factor)),
    };
    Fabric::new(config.processes as usize, shape)
}

impl Host {
    fn new(seed: u64, process: u32) -> Host {
        Host {
            mailbox: VecDeque::new(),
            unread_slots: 0,
            ends: VecDeque::new(),
            rests_until: 0,
            doing: Doing::Waiting,
            has_ended: false,
            wake_at: None,
            random: SplitMix64::seed_from_u64(seed ^ u64::from(process) << 32),
            blocked_since: None,
            cursor: Cursor::default(),
        }
    }
}
