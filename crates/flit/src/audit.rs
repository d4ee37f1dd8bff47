//! Conservation of flits and credits.
//!
//! Tests call this after each cycle. For every link and virtual channel, the
//! credits at the sender, the flits and credits on their way and the flits in
//! the buffer add up to the size of the buffer. Every set that speeds arbitration up
//! agrees with the state.

use crate::packet::{Flit, vc_of};
use crate::peer::Kind;
use crate::shard::Shard;
use crate::topology::VCS_MAX;

/// Counts by virtual channel.
type Counts = [u32; VCS_MAX as usize];

impl<const P: usize, const V: usize> Shard<P, V> {
    /// See [`crate::Simulation::check_invariants`].
    pub fn check_invariants(&self) {
        for (index, router) in self.routers.iter().enumerate() {
            router.check_sets();
            for port in 0..self.state.net.measures.ports {
                self.check_link(index, port);
                if router.peers[port].kind == Kind::Node {
                    self.check_entry(index, port);
                }
            }
        }
    }

    /// Checks the flits and credits of each output port.
    fn check_link(&self, index: usize, port: usize) {
        let (shard, router) = (&self.state, &self.routers[index]);
        let peer = router.peers[port];
        let there = peer.column as usize;
        let room = shard.net.room(router.id, port as u8);
        let queued = flits(router.queued_flits(port));
        let returning = channels(shard.wheel.credits_to(index, port));
        let beyond = match peer.kind {
            Kind::Router => {
                let mut counts = flits(shard.wheel.flits_to(there, usize::from(peer.port)));
                for (count, input) in
                    counts.iter_mut().zip(&self.routers[there].inputs[usize::from(peer.port)])
                {
                    *count += u32::from(input.flits);
                }
                counts
            }
            Kind::Node => flits(
                shard
                    .wheel
                    .flits_to(there, usize::from(peer.port))
                    .chain(shard.sinks.waiting(self.seat(index, port))),
            ),
            Kind::Ghost => unreachable!("a network in one piece has no other shard"),
            Kind::None => [0; VCS_MAX as usize],
        };
        for vc in 0..shard.net.measures.vcs {
            let credits = router.credits(port, vc);
            let sum = credits + queued[vc] + beyond[vc] + returning[vc];
            assert_eq!(sum, u32::from(room), "router {}, port {port}, channel {vc}", router.id);
        }
    }

    /// Checks the flits and credits of each node's link.
    fn check_entry(&self, index: usize, port: usize) {
        let (shard, router) = (&self.state, &self.routers[index]);
        let seat = self.seat(index, port);
        let vcs = shard.net.measures.vcs;
        let on_link = flits(shard.wheel.flits_to(index, port));
        let returning =
            channels(shard.wheel.credits_to(index, usize::from(router.peers[port].port)));
        for vc in 0..vcs {
            let at_node = u32::from(shard.nodes.credits[seat * vcs + vc]);
            let sum =
                at_node + u32::from(router.inputs[port][vc].flits) + on_link[vc] + returning[vc];
            assert_eq!(sum, u32::from(shard.net.measures.buffer), "seat {seat}, channel {vc}");
        }
    }
}

fn flits(flits: impl Iterator<Item = Flit>) -> Counts {
    channels(flits.map(vc_of))
}

fn channels(channels: impl Iterator<Item = usize>) -> Counts {
    let mut counts = [0; VCS_MAX as usize];
    channels.for_each(|vc| counts[vc] += 1);
    counts
}
