//! Sources: messages become packets, packets become flits on the injection
//! link, at most one a cycle.
//!
//! A node that cannot send sleeps (`wake` is `NEVER`) until something happens
//! to it: a credit, an arrival, its next message.

use super::arrival::{Gaps, NEVER};
use crate::network::Network;
use crate::packet::{BACKWARD, CONTROL, HEAD, PRESENT, Packet, TAIL};
use crate::router::flow_channel;
use crate::routing::{Hop, Route, Senses};
use crate::shard::ShardState;
use crate::wheel::{Credits, bits, channels};
use crate::{Rng, Stream, config};
use std::collections::VecDeque;

/// Something to tell another node: credits of packets that arrived, a mark.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Debt {
    pub credits: u16,
    pub marks: u16,
}

/// Where a node is attached.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Home {
    /// Its router's column in the wheel.
    pub column: u32,
    /// The router's port.
    pub port: u8,
    /// The node's own, in the same column.
    pub node_port: u8,
    /// Cycles until a flit can be looked at there, and until a credit can.
    pub flit_delay: u16,
    pub credit_delay: u16,
}

/// A node as a sender.
#[derive(Debug)]
pub(crate) struct Source {
    pub node: u32,
    pub home: Home,
    /// Cycle of the message at hand.
    born: u32,
    destination: u32,
    /// Flits of that message not yet in packets; 0: none at hand.
    message_left: u32,
    /// How many messages came before the next one.
    nth: u64,
    packet: u32,
    /// Flits of the packet not yet sent; 0: none at hand.
    packet_left: u16,
    /// Whether its first flit has gone.
    has_begun: bool,
    is_control: bool,
    vc: u8,
    vc_next: u8,
    /// Packets on their way, if that is limited.
    pub outstanding: u32,
    /// What to tell the partner.
    pub debt: Debt,
    /// The throttle of the paper's section 4.1.
    counter: u32,
    counter_cycle: u32,
    tokens: u32,
    rng: Rng,
    entry_rng: Rng,
}

/// The nodes of a shard, by seat.
#[derive(Debug)]
pub(crate) struct Nodes {
    pub sources: Vec<Source>,
    /// When a node looks for something to do.
    pub wake: Vec<u32>,
    /// Room in the first router's buffer, by seat and virtual channel.
    pub credits: Vec<u16>,
    /// What to tell nodes that are not partners, by seat; empty with pairs.
    pub debts: Vec<VecDeque<(u32, Debt)>>,
    gaps: Gaps,
}

impl Nodes {
    /// These nodes, by seat.
    pub fn new(net: &Network, seats: &[(u32, Home)]) -> Nodes {
        let sources: Vec<Source> =
            seats.iter().map(|&(node, home)| Source::new(net.seed, node, home)).collect();
        let mut nodes = Nodes {
            wake: vec![0; sources.len()],
            credits: vec![net.measures.buffer; sources.len() * net.measures.vcs],
            debts: vec![VecDeque::new(); sources.len()],
            gaps: Gaps::new(net.measures.message_rate),
            sources,
        };
        for seat in 0..nodes.sources.len() {
            nodes.next_message(net, seat, 0);
        }
        nodes
    }

    /// Lets a node look for something to do in this cycle.
    #[inline]
    pub fn rouse(&mut self, seat: usize, now: u32) {
        self.wake[seat] = now;
    }

    /// Draws the message after the last one, not before `from`.
    fn next_message(&mut self, net: &Network, seat: usize, from: u32) {
        let source = &mut self.sources[seat];
        let nth = source.nth;
        source.nth += 1;
        if let Some(trace) = &net.trace {
            match trace.messages(source.node).get(nth as usize) {
                Some(message) => {
                    source.born = message.cycle as u32;
                    source.destination = message.destination;
                    source.message_left = message.flits;
                }
                None => source.born = NEVER,
            }
            return;
        }
        source.born = self.gaps.first(from, &mut source.rng);
        if source.born == NEVER {
            return;
        }
        let pattern = net.pattern.as_ref().expect("there is a pattern or a trace");
        match pattern.destination(source.node, nth, &mut source.rng) {
            Some(destination) => {
                source.destination = destination;
                source.message_left = net.measures.message_flits;
            }
            None => source.born = NEVER,
        }
    }
}

impl Source {
    fn new(seed: u64, node: u32, home: Home) -> Source {
        Source {
            node,
            home,
            born: NEVER,
            destination: node,
            message_left: 0,
            nth: 0,
            packet: 0,
            packet_left: 0,
            has_begun: false,
            is_control: false,
            vc: 0,
            vc_next: 0,
            outstanding: 0,
            debt: Debt::default(),
            counter: 0,
            counter_cycle: 0,
            tokens: 0,
            rng: Rng::new(seed, Stream::Source, u64::from(node)),
            entry_rng: Rng::new(seed, Stream::Entry, u64::from(node)),
        }
    }

    /// Whether the throttle lets a flit pass in this cycle. Nothing passes
    /// with the counter at its maximum, everything at 0, a proportional share
    /// between.
    fn may_send(&mut self, marking: &config::Marking, now: u32) -> bool {
        self.decay(marking, now);
        if self.counter == 0 {
            return true;
        }
        let max = u32::from(marking.counter_max);
        self.tokens += max - self.counter;
        if self.tokens >= max {
            self.tokens -= max;
            return true;
        }
        false
    }

    fn decay(&mut self, marking: &config::Marking, now: u32) {
        let period = u32::from(marking.decay_cycles);
        let passed = now / period - self.counter_cycle / period;
        self.counter = self.counter.saturating_sub(passed);
        self.counter_cycle = now;
    }

    /// A packet has come in, with a backward mark or without.
    pub fn on_packet(&mut self, marking: &config::Marking, marked: bool, now: u32) {
        self.decay(marking, now);
        self.counter = if marked {
            (self.counter + u32::from(marking.step_up)).min(u32::from(marking.counter_max))
        } else {
            self.counter.saturating_sub(u32::from(marking.step_down))
        };
    }
}

impl<const P: usize> ShardState<P> {
    /// Every node that is awake does what it can in this cycle.
    #[inline(always)]
    pub fn run_sources(&mut self) {
        for seat in 0..self.nodes.wake.len() {
            if self.nodes.wake[seat] <= self.now {
                self.nodes.wake[seat] = self.run_source(seat);
            }
        }
    }

    /// Credits of the first router's buffer come back to a node.
    #[inline(always)]
    pub fn return_credits(&mut self, seat: usize, credits: Credits) {
        for vc in channels(credits) {
            self.nodes.credits[seat * self.net.measures.vcs + vc] += 1;
        }
        self.nodes.rouse(seat, self.now);
    }

    /// Returns when the node wants to be asked again.
    fn run_source(&mut self, seat: usize) -> u32 {
        if self.nodes.sources[seat].packet_left == 0
            && let Err(wake) = self.start_packet(seat)
        {
            return wake;
        }
        let now = self.now;
        let source = &mut self.nodes.sources[seat];
        let credits =
            &mut self.nodes.credits[seat * self.net.measures.vcs + usize::from(source.vc)];
        if *credits == 0 {
            return NEVER;
        }
        if !source.is_control
            && let Some(marking) = &self.net.endpoint.marking
            && !source.may_send(marking, now)
        {
            return now + 1;
        }
        *credits -= 1;
        let home = source.home;
        let mut flit = PRESENT | source.vc;
        if !source.has_begun {
            source.has_begun = true;
            flit |= HEAD;
            self.packets.get_mut(source.packet).entered = now;
            let line = &mut self.arriving[home.column as usize][usize::from(home.port) & (P - 1)];
            self.packets.join(line, source.packet);
        }
        source.packet_left -= 1;
        if source.packet_left == 0 {
            flit |= TAIL;
        }
        if !source.is_control {
            self.sample.injected_flits += 1;
        }
        self.wheel.put_flit(
            now + u32::from(home.flit_delay),
            home.column as usize,
            home.port,
            flit,
        );
        now + 1
    }

    /// Makes the next packet of a node, or says when to ask again.
    fn start_packet(&mut self, seat: usize) -> Result<(), u32> {
        let now = self.now;
        let net = &*self.net;
        let source = &mut self.nodes.sources[seat];
        let at_limit =
            net.endpoint.outstanding_packets.is_some_and(|limit| source.outstanding >= limit);
        let has_data = source.born <= now && source.born != NEVER;
        let is_free = has_data && !at_limit;
        let partner = net.pattern.as_ref().and_then(|pattern| pattern.partner(source.node));
        // What is owed to the partner is piggybacked on data; if no data may go, and to
        // others always, it goes by itself.
        let owed = match (partner, is_free) {
            (Some(partner), false) if source.debt.credits > 0 || source.debt.marks > 0 => {
                Some((partner, source.debt))
            }
            (None, _) => self.nodes.debts[seat].front().copied(),
            _ => None,
        };
        let (route, flits, is_control) = match owed {
            Some((creditor, _)) => (Route::new(source.node, creditor), 1, true),
            None if is_free => {
                let flits = source.message_left.min(u32::from(net.measures.packet_flits)) as u16;
                (Route::new(source.node, source.destination), flits, false)
            }
            None => return Err(if has_data { NEVER } else { source.born }),
        };

        let mut route = route;
        let mut set = net.routing.entry(&mut route, &mut Entry(&mut source.entry_rng));
        if net.measures.in_order {
            set = flow_channel(set, route.source, route.destination);
        }
        let vcs = net.measures.vcs;
        let credits = &self.nodes.credits[seat * vcs..(seat + 1) * vcs];
        let open = bits(u64::from(set))
            .filter(|&vc| credits[vc] > 0)
            .fold(0u64, |open, vc| open | 1 << vc);
        if open == 0 {
            return Err(NEVER);
        }
        let vc = crate::router::first_from(open, u32::from(source.vc_next)) as u8;
        source.vc = vc;
        source.vc_next = (vc + 1) % vcs as u8;

        let born = if is_control { now } else { source.born };
        let mut packet = Packet::new(route, flits, born, now);
        if is_control {
            packet.marks = CONTROL;
        }
        let debt = match owed {
            Some((_, debt)) => {
                if partner.is_none() {
                    self.nodes.debts[seat].pop_front();
                }
                debt
            }
            None => source.debt,
        };
        packet.credits = debt.credits;
        if debt.marks > 0 {
            packet.marks |= BACKWARD;
        }
        if partner.is_some() {
            source.debt = Debt { credits: 0, marks: debt.marks.saturating_sub(1) };
        }
        source.is_control = is_control;
        source.has_begun = false;
        source.packet_left = flits;
        source.packet = self.packets.insert(packet);
        if is_control {
            self.sample.credit_packets += 1;
        } else {
            source.message_left -= u32::from(flits);
            source.outstanding += u32::from(net.endpoint.outstanding_packets.is_some());
            if source.message_left == 0 {
                let from = source.born + 1;
                self.nodes.next_message(net, seat, from);
            }
        }
        Ok(())
    }
}

/// The [`Senses`] of a packet that has not entered a router: random numbers only.
struct Entry<'a>(&'a mut Rng);

impl Senses for Entry<'_> {
    fn below(&mut self, count: u32) -> u32 {
        self.0.below(count)
    }

    fn diverts(&mut self, _: &config::Divert, _: Hop, _: Hop) -> bool {
        false
    }
}
