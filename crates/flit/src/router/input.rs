//! Input buffers: flits and credits that arrive, and the way of the packet
//! that comes to the front.

use super::{NOBODY, Router, State};
use crate::Rng;
use crate::config::{Divert, Metric};
use crate::packet::{Flit, HEAD, vc_of};
use crate::routing::{At, Hop, Senses};
use crate::shard::ShardState;
use crate::wheel::{Credits, bits, channels};

impl<const P: usize, const V: usize> Router<P, V> {
    /// A flit arrives.
    #[inline(always)]
    pub fn accept(&mut self, port: usize, flit: Flit, shard: &mut ShardState<P>) {
        let vc = vc_of(flit);
        let input = self.input(port, vc);
        input.flits += 1;
        debug_assert!(input.flits <= shard.net.measures.buffer, "credits bound what arrives");
        if flit & HEAD != 0 {
            self.accept_first(port, vc, shard);
        } else if input.flits == 1 && input.state != State::Waiting {
            let (to, to_vc) = (usize::from(input.port), usize::from(input.vcs));
            if self.output(to, to_vc).credits > 0 {
                self.set_ready(port, vc);
            }
        }
    }

    /// The first flit of a packet arrives.
    fn accept_first(&mut self, port: usize, vc: usize, shard: &mut ShardState<P>) {
        let line = &mut shard.arriving[self.column as usize][port & (P - 1)];
        let packet = shard.packets.leave(line);
        if self.input(port, vc).state == State::Idle {
            self.begin(port, vc, packet, shard);
        } else {
            shard.packets.join(&mut self.packet_vc(port, vc).line, packet);
        }
    }

    /// Credits of an output arrive.
    #[inline(always)]
    pub fn credit(&mut self, port: usize, credits: Credits) {
        for vc in channels(credits) {
            let output = self.output(port, vc);
            let had = output.credits;
            output.credits += 1;
            let owner = output.owner;
            if had == 0 && owner != NOBODY {
                let (port, vc) = (usize::from(owner / 16), usize::from(owner % 16));
                if self.input(port, vc).flits > 0 {
                    self.set_ready(port, vc);
                }
            }
        }
    }

    /// A packet comes to the front of a channel, chooses its way and waits.
    pub(super) fn begin(&mut self, port: usize, vc: usize, packet: u32, shard: &mut ShardState<P>) {
        self.packet_vc(port, vc).front = packet;
        let packet = shard.packets.get_mut(packet);
        packet.hops = packet.hops.saturating_add(1);
        let at = At { router: self.id, port: port as u8, vc: vc as u8 };
        let mut route = packet.route();
        // The router is borrowed while its random numbers are drawn.
        let mut rng = self.rng.clone();
        let mut hop =
            shard.net.routing.hop(at, &mut route, &mut View { router: self, rng: &mut rng });
        self.rng = rng;
        packet.set_route(route);
        if shard.net.measures.in_order {
            hop.vcs = flow_channel(hop.vcs, route.source, route.destination);
        }
        debug_assert!(hop.vcs != 0);
        let left = packet.flits;
        let input = self.input(port, vc);
        input.left = left;
        input.port = hop.port;
        input.vcs = hop.vcs;
        input.state = State::Waiting;
        self.waiting[port & (P - 1)] |= 1 << vc;
        self.waiters[usize::from(hop.port) & (P - 1)] |= 1 << port;
        self.dirty |= 1 << hop.port;
    }
}

/// The one channel of a set that all packets of a flow take.
pub(crate) fn flow_channel(vcs: u16, source: u32, destination: u32) -> u16 {
    let flow = (u64::from(source) << 32 | u64::from(destination))
        .wrapping_mul(0x9E37_79B9_7F4A_7C15)
        >> 40;
    let nth = flow as usize % vcs.count_ones() as usize;
    1 << bits(u64::from(vcs)).nth(nth).expect("the set has as many members")
}

/// What a packet sees of its router.
struct View<'a, const P: usize, const V: usize> {
    router: &'a Router<P, V>,
    rng: &'a mut Rng,
}

impl<const P: usize, const V: usize> View<'_, P, V> {
    fn queue(&self, metric: Metric, hop: Hop) -> u32 {
        let port = usize::from(hop.port);
        match metric {
            Metric::Port => self.router.used_by_port(port),
            Metric::VirtualChannel => {
                bits(u64::from(hop.vcs)).map(|vc| self.router.used(port, vc)).sum()
            }
        }
    }
}

impl<const P: usize, const V: usize> Senses for View<'_, P, V> {
    #[inline]
    fn below(&mut self, count: u32) -> u32 {
        self.rng.below(count)
    }

    #[inline]
    fn diverts(&mut self, rule: &Divert, minimal: Hop, detour: Hop) -> bool {
        let (minimal, detour) = (self.queue(rule.metric, minimal), self.queue(rule.metric, detour));
        f64::from(minimal) > rule.bias * f64::from(detour) + f64::from(rule.threshold_flits)
    }
}
