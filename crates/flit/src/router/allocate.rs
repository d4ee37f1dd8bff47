//! Allocation: output channels to packets, and the switch to flits.
//!
//! Both are separable, inputs first, with round-robin pointers that move only
//! on a grant (as iSLIP's). An output's channels are given out only after
//! something changed there: a channel came free or a packet came to wait.
//! A channel that its packet has left goes to whoever is next behind it, so
//! the same input cannot win it again before the others have had it.

use super::{Router, State};
use crate::shard::ShardState;
use crate::wheel::bits;

/// Flits that pass the switch in one step.
pub(super) struct Grants<const P: usize> {
    /// Output ports that get one.
    pub outputs: u64,
    /// By output: the input port and its channel.
    pub from: [(u8, u8); P],
}

impl<const P: usize> Grants<P> {
    /// An input port and channel ask for an output. Of several, the first
    /// from the output's pointer on is the one.
    #[inline(always)]
    fn ask(&mut self, output: usize, next: u8, port: usize, vc: u32) {
        let from = &mut self.from[output & (P - 1)];
        let distance = |port: u8| port.wrapping_sub(next) & 63;
        if self.outputs >> output & 1 == 0 || distance(port as u8) < distance(from.0) {
            *from = (port as u8, vc as u8);
        }
        self.outputs |= 1 << output;
    }
}

impl<const P: usize, const V: usize> Router<P, V> {
    /// One step of the switch. Returns the outputs that got a flit in it.
    ///
    /// The switch is allocated before channels are given out and before anything
    /// moves, so a step decides by the state at its beginning.
    #[inline(always)]
    pub fn step(&mut self, shard: &mut ShardState<P>) -> u64 {
        let mut grants = Grants { outputs: 0, from: [(0, 0); P] };
        let iterations = shard.net.measures.iterations;
        if iterations == 1 && self.full == 0 {
            self.allocate_switch(&mut grants);
        } else {
            self.allocate_switch_again(&mut grants, iterations);
        }
        let dirty = std::mem::take(&mut self.dirty);
        for port in bits(dirty) {
            self.allocate_channels(port);
        }
        self.pass(&grants, shard)
    }

    #[inline(always)]
    fn allocate_switch(&self, grants: &mut Grants<P>) {
        for port in bits(self.ready_ports) {
            let set = u64::from(self.ready[port & (P - 1)]);
            let (vc, output) = self.choose(port, set);
            grants.ask(output, self.output_next[output & (P - 1)], port, vc);
        }
    }

    /// Which of its channels that could pass an input port sends to the
    /// switch: it goes round the outputs, and among channels for the same
    /// output round the channels.
    #[inline(always)]
    fn choose(&self, port: usize, set: u64) -> (u32, usize) {
        let channels = &self.inputs[port & (P - 1)];
        let first = (set | 1 << 63).trailing_zeros();
        if set & (set - 1) == 0 {
            return (first, usize::from(channels[first as usize & (V - 1)].port));
        }
        let (next_output, next_vc) = self.input_next[port & (P - 1)];
        let mut best = (u32::MAX, 0, 0);
        for vc in bits(set) {
            let output = channels[vc & (V - 1)].port;
            let distance = u32::from(output.wrapping_sub(next_output) & 63) << 4
                | u32::from((vc as u8).wrapping_sub(next_vc) & 15);
            if distance < best.0 {
                best = (distance, vc as u32, usize::from(output));
            }
        }
        (best.1, best.2)
    }

    /// The same with more rounds than one, and with outputs that are full.
    #[cold]
    fn allocate_switch_again(&self, grants: &mut Grants<P>, iterations: u8) {
        let mut matched_inputs = 0u64;
        for _ in 0..iterations {
            let mut round = Grants { outputs: 0, from: [(0, 0); P] };
            let taken = self.full | grants.outputs;
            for port in bits(self.ready_ports & !matched_inputs) {
                let channels = &self.inputs[port & (P - 1)];
                let open = bits(u64::from(self.ready[port & (P - 1)]))
                    .filter(|&vc| taken >> channels[vc & (V - 1)].port & 1 == 0)
                    .fold(0u64, |open, vc| open | 1 << vc);
                if open != 0 {
                    let (vc, output) = self.choose(port, open);
                    round.ask(output, self.output_next[output & (P - 1)], port, vc);
                }
            }
            for output in bits(round.outputs) {
                let from = round.from[output & (P - 1)];
                grants.from[output & (P - 1)] = from;
                matched_inputs |= 1 << from.0;
            }
            grants.outputs |= round.outputs;
        }
    }

    /// Gives the free channels of an output to packets that wait for them:
    /// every packet asks for one of those it may have, every channel takes
    /// one of those that ask.
    fn allocate_channels(&mut self, output: usize) {
        let output = output & (P - 1);
        let free = self.free[output];
        if free == 0 || self.waiters[output] == 0 {
            return;
        }
        let vcs = u32::from(self.vcs);
        let all = u32::from(self.ports) * vcs;
        let mut asked = 0u16;
        let mut asking = 0u32;
        let mut best = [(0u32, 0u8, 0u8); V];
        for port in bits(self.waiters[output]) {
            for vc in bits(u64::from(self.waiting[port & (P - 1)])) {
                let input = *self.input(port, vc);
                let set = input.vcs & free;
                if usize::from(input.port) != output || set == 0 {
                    continue;
                }
                let wish = self.packet_vc(port, vc).wish(output, set);
                let claim = port as u32 * vcs + vc as u32;
                let next = u32::from(self.packet_vc(output, wish).claim_next);
                let distance = if claim >= next { claim - next } else { claim + all - next };
                asking += 1;
                if asked >> wish & 1 == 0 || distance < best[wish & (V - 1)].0 {
                    asked |= 1 << wish;
                    best[wish & (V - 1)] = (distance, port as u8, vc as u8);
                }
            }
        }
        for wish in bits(u64::from(asked)) {
            let (_, port, vc) = best[wish & (V - 1)];
            self.assign(output, wish, usize::from(port), usize::from(vc));
            asking -= 1;
        }
        // A packet whose channel went to another one asks again.
        if asking > 0 && self.free[output] != 0 {
            self.dirty |= 1 << output;
        }
    }

    /// Output channel `out_vc` goes to the packet at an input channel.
    fn assign(&mut self, output: usize, out_vc: usize, port: usize, vc: usize) {
        let (ports, vcs) = (usize::from(self.ports), usize::from(self.vcs));
        let input = self.input(port, vc);
        input.state = State::Fresh;
        input.vcs = out_vc as u16;
        let has_flits = input.flits > 0;
        let given = self.output(output, out_vc);
        given.owner = (port * 16 + vc) as u16;
        let can_pass = has_flits && given.credits > 0;
        self.free[output & (P - 1)] &= !(1 << out_vc);
        let taker = self.packet_vc(port, vc);
        (taker.wish_port, taker.wish_next) = (output as u8, out_vc as u8 + 1);
        self.packet_vc(output, out_vc).claim_next = ((port * vcs + vc + 1) % (ports * vcs)) as u16;
        self.waiting[port & (P - 1)] &= !(1 << vc);
        let still = bits(u64::from(self.waiting[port & (P - 1)]))
            .any(|other| usize::from(self.inputs[port & (P - 1)][other & (V - 1)].port) == output);
        if !still {
            self.waiters[output & (P - 1)] &= !(1 << port);
        }
        if can_pass {
            self.set_ready(port, vc);
        }
    }
}
