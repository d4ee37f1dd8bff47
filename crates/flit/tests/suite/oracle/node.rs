//! A node of the naive simulator.

use super::{Flit, Packet, Place, World};
use sluice_flit::config::Divert;
use sluice_flit::routing::{Hop, Route, Senses};
use sluice_flit::{Rng, Stream};
use std::collections::VecDeque;

/// What a node has to tell another one.
#[derive(Clone, Copy, Debug, Default)]
struct Debt {
    credits: u32,
    marks: u32,
}

#[derive(Clone, Copy, Debug)]
struct Message {
    born: u32,
    destination: u32,
    left: u32,
}

/// The packet that a node is sending.
#[derive(Clone, Copy, Debug)]
struct Sending {
    packet: usize,
    vc: u8,
    sent: u32,
}

pub struct Node {
    id: u32,
    home: (u32, u8),
    partner: Option<u32>,
    message: Option<Message>,
    messages: u64,
    sending: Option<Sending>,
    credits: Vec<u32>,
    vc_next: u8,
    outstanding: u32,
    debt: Debt,
    debts: VecDeque<(u32, Debt)>,
    counter: u32,
    tokens: u32,
    /// Flits that a slow memory has not taken yet.
    memory: VecDeque<Flit>,
    memory_free_at: u32,
    rng: Rng,
    entry_rng: Rng,
}

impl Node {
    pub fn new(world: &World, id: u32) -> Node {
        let seed = world.config.seed;
        let mut node = Node {
            id,
            home: world.fabric.home(id),
            partner: world.pattern.as_ref().and_then(|pattern| pattern.partner(id)),
            message: None,
            messages: 0,
            sending: None,
            credits: vec![u32::from(world.config.router.buffer_flits); usize::from(world.vcs)],
            vc_next: 0,
            outstanding: 0,
            debt: Debt::default(),
            debts: VecDeque::new(),
            counter: 0,
            tokens: 0,
            memory: VecDeque::new(),
            memory_free_at: 0,
            rng: Rng::new(seed, Stream::Source, u64::from(id)),
            entry_rng: Rng::new(seed, Stream::Entry, u64::from(id)),
        };
        node.next_message(world, 0);
        node
    }

    fn next_message(&mut self, world: &World, from: u32) {
        let nth = self.messages;
        self.messages += 1;
        self.message = None;
        if let Some(trace) = &world.trace {
            let next = trace.messages(self.id).get(nth as usize);
            self.message = next.map(|next| Message {
                born: next.cycle as u32,
                destination: next.destination,
                left: next.flits,
            });
            return;
        }
        let traffic = &world.config.traffic;
        let flits = traffic.message_flits.unwrap_or(u32::from(traffic.packet_flits));
        let rate = traffic.load / f64::from(flits);
        if rate == 0.0 {
            return;
        }
        let unit = self.rng.unit();
        let gap = if rate < 1.0 {
            // As the engine writes it: a product, not a quotient.
            ((1.0 - unit).ln() * (1.0 / (-rate).ln_1p())).floor() as u32
        } else {
            0
        };
        let pattern = world.pattern.as_ref().expect("there is a trace or a pattern");
        self.message = pattern
            .destination(self.id, nth, &mut self.rng)
            .map(|destination| Message { born: from + gap, destination, left: flits });
    }

    /// The throttle's counter falls in every cycle that its period divides.
    pub fn decay(&mut self, world: &World) {
        if let Some(marking) = world.config.endpoint.marking
            && world.now.is_multiple_of(u32::from(marking.decay_cycles))
        {
            self.counter = self.counter.saturating_sub(1);
        }
    }

    pub fn credit(&mut self, vc: u8) {
        self.credits[usize::from(vc)] += 1;
    }

    pub fn arrive(&mut self, world: &mut World, flit: Flit) {
        if world.is_slow[self.id as usize] {
            self.memory.push_back(flit);
        } else {
            self.take(world, flit);
        }
    }

    pub fn cycle(&mut self, world: &mut World) {
        if let Some(&flit) = self.memory.front() {
            let is_control = world.packets[flit.packet].is_control;
            if is_control || self.memory_free_at <= world.now {
                self.memory.pop_front();
                if !is_control {
                    self.memory_free_at = world.now + world.config.endpoint.slow.factor;
                }
                self.take(world, flit);
            }
        }
        if self.sending.is_none() {
            self.sending = self.start_packet(world);
        }
        if let Some(sending) = self.sending {
            self.sending = self.send(world, sending);
        }
    }

    /// Memory takes a flit.
    fn take(&mut self, world: &mut World, flit: Flit) {
        let (router, port) = self.home;
        let delay = 1 + u32::from(world.config.router.credit_cycles);
        world.send_credit(delay, Place::Router(router, port), flit.vc);
        let packet = world.packets[flit.packet].clone();
        assert_eq!(packet.route.destination, self.id);
        if !packet.is_control {
            world.sample.accepted_flits += 1;
            world.sample.accepted_flits_slow += u64::from(world.is_slow[self.id as usize]);
        }
        if flit.tail {
            self.complete(world, flit.packet, &packet);
        }
    }

    fn complete(&mut self, world: &mut World, id: usize, packet: &Packet) {
        let endpoint = &world.config.endpoint;
        let creditor = packet.route.source;
        self.outstanding -= packet.credits;
        if let Some(marking) = &endpoint.marking {
            if packet.backward_mark {
                let raised = self.counter + u32::from(marking.step_up);
                self.counter = raised.min(u32::from(marking.counter_max));
            } else {
                self.counter = self.counter.saturating_sub(u32::from(marking.step_down));
            }
        }
        if packet.is_control {
            return;
        }
        world.arrivals.push((creditor, self.id, id));
        let sample = &mut world.sample;
        sample.packets += 1;
        sample.packet_latency_sum += u64::from(world.now - packet.born);
        sample.network_latency_sum += u64::from(world.now - packet.entered);
        sample.hops_sum += packet.hops;
        let credits = u32::from(endpoint.outstanding_packets.is_some());
        let marks = u32::from(packet.forward_mark && endpoint.marking.is_some());
        if self.partner == Some(creditor) {
            self.debt.credits += credits;
            self.debt.marks += marks;
        } else if credits + marks > 0 {
            self.debts.push_back((creditor, Debt { credits, marks }));
        }
    }

    fn start_packet(&mut self, world: &mut World) -> Option<Sending> {
        let limit = world.config.endpoint.outstanding_packets;
        let may_have_more = limit.is_none_or(|limit| self.outstanding < limit);
        let data = self.message.filter(|message| message.born <= world.now && may_have_more);
        let owes_partner = self.debt.credits + self.debt.marks > 0;
        // To whom, how long, made when, with what to tell.
        let (to, flits, born, debt) = match (self.partner, self.debts.front(), data) {
            (None, Some(&(creditor, debt)), _) => (creditor, None, world.now, debt),
            (_, _, Some(data)) => {
                let flits = data.left.min(u32::from(world.config.traffic.packet_flits));
                (data.destination, Some(flits), data.born, self.debt)
            }
            (Some(partner), _, None) if owes_partner => (partner, None, world.now, self.debt),
            _ => return None,
        };
        let mut route = Route::new(self.id, to);
        let vcs = world.routing.entry(&mut route, &mut Chance(&mut self.entry_rng));
        let allowed = world.allowed(vcs, &route);
        let vc = (0..world.vcs)
            .map(|nth| (self.vc_next + nth) % world.vcs)
            .find(|vc| allowed.contains(vc) && self.credits[usize::from(*vc)] > 0)?;
        self.vc_next = (vc + 1) % world.vcs;
        if self.partner.is_some() {
            self.debt = Debt { credits: 0, marks: debt.marks.saturating_sub(1) };
        } else if flits.is_none() {
            self.debts.pop_front();
        }
        world.packets.push(Packet {
            route,
            flits: flits.unwrap_or(1),
            born,
            entered: u32::MAX,
            hops: 0,
            credits: debt.credits,
            is_control: flits.is_none(),
            forward_mark: false,
            backward_mark: debt.marks > 0,
        });
        if let Some(flits) = flits {
            self.outstanding += u32::from(limit.is_some());
            let message = self.message.as_mut().expect("it is from a message");
            message.left -= flits;
            if message.left == 0 {
                let from = message.born + 1;
                self.next_message(world, from);
            }
        } else {
            world.sample.credit_packets += 1;
        }
        Some(Sending { packet: world.packets.len() - 1, vc, sent: 0 })
    }

    /// Sends a flit if it may; returns what is left to send.
    fn send(&mut self, world: &mut World, mut sending: Sending) -> Option<Sending> {
        let packet = &mut world.packets[sending.packet];
        if self.credits[usize::from(sending.vc)] == 0 {
            return Some(sending);
        }
        if !packet.is_control
            && let Some(marking) = world.config.endpoint.marking
            && self.counter > 0
        {
            let max = u32::from(marking.counter_max);
            self.tokens += max - self.counter;
            if self.tokens < max {
                return Some(sending);
            }
            self.tokens -= max;
        }
        self.credits[usize::from(sending.vc)] -= 1;
        if sending.sent == 0 {
            packet.entered = world.now;
        }
        sending.sent += 1;
        let (head, tail) = (sending.sent == 1, sending.sent == packet.flits);
        world.sample.injected_flits += u64::from(!packet.is_control);
        let flit = Flit { packet: sending.packet, head, tail, vc: sending.vc };
        let (router, port) = self.home;
        world.send_flit(2, Place::Router(router, port), flit);
        (!tail).then_some(sending)
    }
}

/// A packet that is in no router yet sees nothing and may draw.
struct Chance<'a>(&'a mut Rng);

impl Senses for Chance<'_> {
    fn below(&mut self, count: u32) -> u32 {
        self.0.below(count)
    }

    fn diverts(&mut self, _: &Divert, _: Hop, _: Hop) -> bool {
        false
    }
}
