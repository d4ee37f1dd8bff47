//! A router of the naive simulator.

use super::{Flit, Place, World};
use sluice_flit::config::{Divert, MarkingQueue, Metric};
use sluice_flit::routing::{At, Hop, Senses};
use sluice_flit::{Passage, Rng, Stream};
use std::collections::VecDeque;

/// What the packet at the front of an input channel has got so far.
#[derive(Clone, Debug)]
struct Front {
    port: u8,
    /// Channels that it may have.
    wanted: Vec<u8>,
    /// The one that it has.
    vc: Option<u8>,
}

#[derive(Clone, Debug, Default)]
struct Input {
    buffer: VecDeque<Flit>,
    front: Option<Front>,
    /// Output channel, port times channels plus channel, that it asks for first.
    wish: usize,
}

#[derive(Clone, Debug)]
struct Output {
    credits: u32,
    room: u32,
    is_held: bool,
    /// Input channel, port times channels plus channel, that goes first.
    claim: usize,
}

/// A flit that passed the switch, with the cycle and step in which it did.
type Passed = (Flit, u32, u32);

pub struct Router {
    id: u32,
    ports: u8,
    vcs: u8,
    inputs: Vec<Vec<Input>>,
    outputs: Vec<Vec<Output>>,
    queues: Vec<VecDeque<Passed>>,
    /// By input port: the channel that goes first.
    /// Output and channel that go first.
    input_next: Vec<(u8, u8)>,
    /// By output port: the input port that goes first.
    output_next: Vec<u8>,
    rng: Rng,
}

/// An input port and channel, and the output that its flit goes to.
#[derive(Clone, Copy)]
struct Grant {
    port: u8,
    vc: u8,
    output: u8,
}

impl Router {
    pub fn new(world: &World, id: u32) -> Router {
        let (ports, vcs) = (world.fabric.ports(), world.vcs);
        let output = |port| {
            let room = world.room(id, port);
            vec![Output { credits: room, room, is_held: false, claim: 0 }; usize::from(vcs)]
        };
        Router {
            id,
            ports,
            vcs,
            inputs: vec![vec![Input::default(); usize::from(vcs)]; usize::from(ports)],
            outputs: (0..ports).map(output).collect(),
            queues: vec![VecDeque::new(); usize::from(ports)],
            input_next: vec![(0, 0); usize::from(ports)],
            output_next: vec![0; usize::from(ports)],
            rng: Rng::new(world.config.seed, Stream::Router, u64::from(id)),
        }
    }

    pub fn credit(&mut self, port: u8, vc: u8) {
        let output = &mut self.outputs[usize::from(port)][usize::from(vc)];
        output.credits += 1;
        assert!(output.credits <= output.room);
    }

    pub fn arrive(&mut self, world: &mut World, port: u8, flit: Flit) {
        let input = &mut self.inputs[usize::from(port)][usize::from(flit.vc)];
        input.buffer.push_back(flit);
        assert!(input.buffer.len() <= usize::from(world.config.router.buffer_flits));
        self.come_to_front(world, port, flit.vc);
    }

    /// If a packet has come to the front, it chooses its way.
    fn come_to_front(&mut self, world: &mut World, port: u8, vc: u8) {
        let input = &self.inputs[usize::from(port)][usize::from(vc)];
        let Some(&first) = input.buffer.front() else { return };
        if input.front.is_some() {
            return;
        }
        assert!(first.head);
        world.packets[first.packet].hops += 1;
        let mut route = world.packets[first.packet].route;
        let mut view = View {
            rng: &mut self.rng,
            outputs: &self.outputs,
            room: u32::from(world.config.router.buffer_flits),
        };
        let hop = world.routing.hop(At { router: self.id, port, vc }, &mut route, &mut view);
        world.packets[first.packet].route = route;
        let wanted = world.allowed(hop.vcs, &route);
        self.inputs[usize::from(port)][usize::from(vc)].front =
            Some(Front { port: hop.port, wanted, vc: None });
    }

    pub fn cycle(&mut self, world: &mut World) {
        let speedup = (world.config.router.speedup * 1000.0).round() as u64;
        let before = |cycle: u32| u64::from(cycle) * speedup / 1000;
        let steps = (before(world.now + 1) - before(world.now)) as u32;
        for step in 0..steps {
            let grants = self.allocate_switch(world);
            self.allocate_channels();
            for grant in grants {
                self.pass(world, grant, step);
            }
        }
        for port in 0..self.ports {
            let queue = &mut self.queues[usize::from(port)];
            // What passed in the last step of this cycle stays.
            let leaves = |&(_, cycle, step): &Passed| cycle < world.now || step + 1 < steps;
            if queue.front().is_some_and(leaves) {
                let (flit, ..) = queue.pop_front().expect("it has one");
                let (to, latency) = world.beyond(self.id, port);
                let to = to.expect("a way uses links that are there");
                let extra = match to {
                    Place::Node(_) => 0,
                    Place::Router(..) => u32::from(world.config.router.extra_pipeline_cycles),
                };
                world.send_flit(1 + latency + extra, to, flit);
                world.sample.flit_hops += 1;
            }
        }
    }

    /// Which flits pass, in the order of their outputs.
    fn allocate_switch(&self, world: &World) -> Vec<Grant> {
        let limit = world.config.router.output_queue_flits.map_or(usize::MAX, usize::from);
        let mut grants: Vec<Grant> = Vec::new();
        for _ in 0..world.config.router.iterations {
            let mut asking: Vec<Grant> = Vec::new();
            for port in 0..self.ports {
                if grants.iter().any(|grant| grant.port == port) {
                    continue;
                }
                let (first_output, first_vc) = self.input_next[usize::from(port)];
                let candidate = around(first_output, self.ports).find_map(|output| {
                    let is_taken = grants.iter().any(|grant| grant.output == output);
                    let is_full = self.queues[usize::from(output)].len() >= limit;
                    let wants = |vc: &u8| self.can_pass(port, *vc) == Some(output);
                    let vc = around(first_vc, self.vcs).find(wants)?;
                    (!is_taken && !is_full).then_some(Grant { port, vc, output })
                });
                asking.extend(candidate);
            }
            for output in 0..self.ports {
                let first = self.output_next[usize::from(output)];
                let granted = around(first, self.ports).find_map(|port| {
                    asking.iter().find(|ask| ask.output == output && ask.port == port)
                });
                grants.extend(granted);
            }
        }
        grants.sort_by_key(|grant| grant.output);
        grants
    }

    /// The output of the flit at the front of a channel, if it could pass.
    fn can_pass(&self, port: u8, vc: u8) -> Option<u8> {
        let input = &self.inputs[usize::from(port)][usize::from(vc)];
        let front = input.front.as_ref()?;
        let out_vc = front.vc?;
        let credits = self.outputs[usize::from(front.port)][usize::from(out_vc)].credits;
        (!input.buffer.is_empty() && credits > 0).then_some(front.port)
    }

    /// Output channels for packets that wait.
    fn allocate_channels(&mut self) {
        // Input channel, output port, output channel.
        let mut asking = Vec::new();
        for port in 0..self.ports {
            for vc in 0..self.vcs {
                let input = &self.inputs[usize::from(port)][usize::from(vc)];
                let Some(Front { port: output, wanted, vc: None }) = &input.front else { continue };
                let held = |vc: u8| self.outputs[usize::from(*output)][usize::from(vc)].is_held;
                let number =
                    |wish: &u8| usize::from(*output) * usize::from(self.vcs) + usize::from(*wish);
                let all = usize::from(self.ports) * usize::from(self.vcs);
                let wish = wanted
                    .iter()
                    .filter(|wish| !held(**wish))
                    .min_by_key(|wish| (number(wish) + all - input.wish) % all);
                asking.extend(wish.map(|wish| ((port, vc), *output, *wish)));
            }
        }
        let channels = usize::from(self.ports) * usize::from(self.vcs);
        for output in 0..self.ports {
            for wish in 0..self.vcs {
                let first = self.outputs[usize::from(output)][usize::from(wish)].claim;
                let claims = asking.iter().filter(|ask| (ask.1, ask.2) == (output, wish));
                let winner = claims
                    .map(|((port, vc), ..)| {
                        usize::from(*port) * usize::from(self.vcs) + usize::from(*vc)
                    })
                    .min_by_key(|claim| (claim + channels - first) % channels);
                let Some(winner) = winner else { continue };
                let given = &mut self.outputs[usize::from(output)][usize::from(wish)];
                given.is_held = true;
                given.claim = (winner + 1) % channels;
                let vcs = usize::from(self.vcs);
                let input = &mut self.inputs[winner / vcs][winner % vcs];
                input.wish = (usize::from(output) * vcs + usize::from(wish) + 1) % channels;
                input.front.as_mut().expect("it asked").vc = Some(wish);
            }
        }
    }

    fn pass(&mut self, world: &mut World, grant: Grant, step: u32) {
        let Grant { port, vc, output } = grant;
        self.input_next[usize::from(port)] = ((output + 1) % self.ports, (vc + 1) % self.vcs);
        self.output_next[usize::from(output)] = (port + 1) % self.ports;
        let input = &mut self.inputs[usize::from(port)][usize::from(vc)];
        let mut flit = input.buffer.pop_front().expect("a flit was granted");
        let out_vc = input.front.as_ref().and_then(|front| front.vc).expect("with a channel");
        if flit.head {
            self.mark(world, flit.packet, (port, vc), (output, out_vc));
        }
        flit.vc = out_vc;
        self.queues[usize::from(output)].push_back((flit, world.now, step));
        let given = &mut self.outputs[usize::from(output)][usize::from(out_vc)];
        given.credits -= 1;
        given.is_held = !flit.tail;
        world.passages.push(Passage {
            cycle: world.now,
            router: self.id,
            in_port: port,
            in_vc: vc,
            out_port: output,
            out_vc,
            tail: flit.tail,
        });
        let (back, latency) = world.beyond(self.id, port);
        let back = back.expect("it came from there");
        let look = match back {
            Place::Node(_) => 0,
            Place::Router(..) => u32::from(world.config.router.credit_cycles),
        };
        world.send_credit(1 + latency + look, back, vc);
        if flit.tail {
            self.inputs[usize::from(port)][usize::from(vc)].front = None;
            self.come_to_front(world, port, vc);
        }
    }

    /// Perhaps marks a packet whose first flit has passed from one channel to another.
    fn mark(&mut self, world: &mut World, packet: usize, from: (u8, u8), to: (u8, u8)) {
        let Some(marking) = world.config.endpoint.marking else { return };
        let buffer = usize::from(world.config.router.buffer_flits);
        // Flits and room of each channel of the port.
        let queues: Vec<(usize, usize)> = match marking.queue {
            MarkingQueue::Output => self.outputs[usize::from(to.0)]
                .iter()
                .map(|output| ((output.room - output.credits) as usize, output.room as usize))
                .collect(),
            MarkingQueue::Input => self.inputs[usize::from(from.0)]
                .iter()
                .map(|input| (input.buffer.len(), buffer))
                .collect(),
        };
        let vc = if marking.queue == MarkingQueue::Output { to.1 } else { from.1 };
        let (used, room) = match marking.metric {
            Metric::VirtualChannel => queues[usize::from(vc)],
            Metric::Port => queues.iter().fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1)),
        };
        let occupancy = used as f64 / room as f64;
        let probability = (occupancy - marking.from) / (1.0 - marking.from) * marking.rate;
        if probability > 0.0 && self.rng.unit() < probability {
            let packet = &mut world.packets[packet];
            world.sample.marks += u64::from(!packet.forward_mark);
            packet.forward_mark = true;
        }
    }
}

/// The numbers below `count`, from `first` on, around the end.
fn around(first: u8, count: u8) -> impl Iterator<Item = u8> {
    (0..count).map(move |nth| (first + nth) % count)
}

/// What a packet sees of its router.
struct View<'a> {
    rng: &'a mut Rng,
    outputs: &'a [Vec<Output>],
    room: u32,
}

impl View<'_> {
    fn queue(&self, metric: Metric, hop: Hop) -> f64 {
        let sent =
            (0u8..).zip(&self.outputs[usize::from(hop.port)]).filter(|(vc, _)| match metric {
                Metric::Port => true,
                Metric::VirtualChannel => hop.vcs >> vc & 1 == 1,
            });
        f64::from(sent.map(|(_, output)| self.room - output.credits).sum::<u32>())
    }
}

impl Senses for View<'_> {
    fn below(&mut self, count: u32) -> u32 {
        self.rng.below(count)
    }

    fn diverts(&mut self, rule: &Divert, minimal: Hop, detour: Hop) -> bool {
        let queues = [minimal, detour].map(|hop| self.queue(rule.metric, hop));
        queues[0] > rule.bias * queues[1] + f64::from(rule.threshold_flits)
    }
}
