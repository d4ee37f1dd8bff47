//! Passing the switch, output queues, links, and the credits that go back.

use super::allocate::Grants;
use super::{NOBODY, Router, State};
use crate::config::{Marking, MarkingQueue, Metric};
use crate::packet::{FORWARD, Flit, HEAD, NO_PACKET, PRESENT, TAIL, vc_of};
use crate::shard::{Passage, ShardState};
use crate::wheel::bits;

impl<const P: usize, const V: usize> Router<P, V> {
    /// Moves the granted flits to their output queues. Returns the outputs.
    #[inline(always)]
    pub(super) fn pass(&mut self, grants: &Grants<P>, shard: &mut ShardState<P>) -> u64 {
        for output in bits(grants.outputs) {
            let (port, vc) = grants.from[output & (P - 1)];
            self.pass_one(usize::from(port), usize::from(vc), output, shard);
        }
        grants.outputs
    }

    #[inline(always)]
    fn pass_one(&mut self, port: usize, vc: usize, output: usize, shard: &mut ShardState<P>) {
        self.input_next[port & (P - 1)] = (output as u8 + 1, vc as u8 + 1);
        self.output_next[output & (P - 1)] = port as u8 + 1;

        let input = self.input(port, vc);
        debug_assert!(input.flits > 0 && input.left > 0);
        let out_vc = usize::from(input.vcs);
        input.flits -= 1;
        input.left -= 1;
        let (empty, tail) = (input.flits == 0, input.left == 0);
        let mut flit = PRESENT | out_vc as Flit;
        if input.state == State::Fresh {
            input.state = State::Running;
            flit |= HEAD;
            self.announce(port, vc, output, out_vc, shard);
        }
        if tail {
            flit |= TAIL;
        }
        let given = self.output(output, out_vc);
        debug_assert!(given.credits > 0);
        given.credits -= 1;
        let drained = given.credits == 0;
        self.queues[output & (P - 1)].push(flit);
        self.queued |= 1 << output;
        if shard.is_watched {
            self.watch(port, vc, output, flit, shard);
        }
        if tail || empty || drained {
            let ready = &mut self.ready[port & (P - 1)];
            *ready &= !(1 << vc);
            if *ready == 0 {
                self.ready_ports &= !(1 << port);
            }
        }
        shard.wheel.give_back(shard.now, self.peers[port & (P - 1)], vc);
        if tail {
            self.end(port, vc, output, out_vc, shard);
        }
    }

    /// The last flit of a packet has passed: its channel is free, the packet
    /// behind it comes to the front.
    fn end(
        &mut self,
        port: usize,
        vc: usize,
        output: usize,
        out_vc: usize,
        shard: &mut ShardState<P>,
    ) {
        self.output(output, out_vc).owner = NOBODY;
        self.free[output & (P - 1)] |= 1 << out_vc;
        if self.waiters[output & (P - 1)] != 0 {
            self.dirty |= 1 << output;
        }
        let next = shard.packets.leave(&mut self.packet_vc(port, vc).line);
        if next == NO_PACKET {
            debug_assert_eq!(self.input(port, vc).flits, 0);
            self.input(port, vc).state = State::Idle;
        } else {
            self.begin(port, vc, next, shard);
        }
    }

    /// The first flit of a packet passes: its packet joins the line of those
    /// that will arrive at the other end, perhaps marked.
    fn announce(
        &mut self,
        port: usize,
        vc: usize,
        output: usize,
        out_vc: usize,
        shard: &mut ShardState<P>,
    ) {
        let packet = self.packet_vc(port, vc).front;
        if let Some(marking) = shard.net.endpoint.marking
            && self.marks(&marking, (port, vc), (output, out_vc), shard.net.measures.buffer)
        {
            let packet = shard.packets.get_mut(packet);
            shard.sample.marks += u64::from(packet.marks & FORWARD == 0);
            packet.marks |= FORWARD;
        }
        let peer = self.peers[output & (P - 1)];
        let line = &mut shard.arriving[peer.column as usize][usize::from(peer.port) & (P - 1)];
        shard.packets.join(line, packet);
    }

    /// What only some simulations need: queues of limited length, a record of
    /// what passes.
    #[cold]
    fn watch(
        &mut self,
        port: usize,
        vc: usize,
        output: usize,
        flit: Flit,
        shard: &mut ShardState<P>,
    ) {
        if self.queues[output & (P - 1)].len() >= shard.net.measures.output_queue {
            self.full |= 1 << output;
        }
        if let Some(passages) = &mut shard.passages {
            let (in_port, in_vc, out_port, out_vc) =
                (port as u8, vc as u8, output as u8, vc_of(flit) as u8);
            let tail = flit & TAIL != 0;
            passages.push(Passage {
                cycle: shard.now,
                router: self.id,
                in_port,
                in_vc,
                out_port,
                out_vc,
                tail,
            });
        }
    }

    /// Whether a packet that passes from this channel to that one gets a mark (RDRP
    /// paper, section 4.1: the probability rises linearly with the occupancy of the
    /// link's remote queue).
    fn marks(
        &mut self,
        marking: &Marking,
        (port, vc): (usize, usize),
        (output, out_vc): (usize, usize),
        buffer: u16,
    ) -> bool {
        let (used, room) = match (marking.queue, marking.metric) {
            (MarkingQueue::Output, Metric::VirtualChannel) => {
                (self.used(output, out_vc), self.room[output & (P - 1)])
            }
            (MarkingQueue::Output, Metric::Port) => {
                (self.used_by_port(output), self.room[output & (P - 1)])
            }
            (MarkingQueue::Input, Metric::VirtualChannel) => {
                (u32::from(self.input(port, vc).flits), buffer)
            }
            (MarkingQueue::Input, Metric::Port) => {
                let all = 0..usize::from(self.vcs);
                (all.map(|vc| u32::from(self.input(port, vc).flits)).sum(), buffer)
            }
        };
        let queues = if marking.metric == Metric::Port { self.vcs } else { 1 };
        let occupancy = f64::from(used) / (f64::from(room) * f64::from(queues));
        let probability = (occupancy - marking.from) / (1.0 - marking.from) * marking.rate;
        probability > 0.0 && self.rng.unit() < probability
    }

    /// Sends one flit by each output that has one which did not pass the
    /// switch in the cycle's last step.
    #[inline(always)]
    pub fn send(&mut self, fresh: u64, shard: &mut ShardState<P>) {
        let mut count = 0;
        for output in bits(self.queued) {
            let queue = &mut self.queues[output & (P - 1)];
            if fresh >> output & 1 != 0 && queue.is_single() {
                continue;
            }
            let flit = queue.pop();
            if queue.is_empty() {
                self.queued &= !(1 << output);
            }
            self.full &= !(1 << output);
            self.sent[output & (P - 1)] += 1;
            count += 1;
            shard.wheel.send(shard.now, self.peers[output & (P - 1)], flit);
        }
        shard.sample.flit_hops += count;
    }
}
