//! All shards of a simulation, whatever the size of their routers.
//!
//! A router's arrays have a fixed size, so there is a router for few ports and
//! one for many. The rest of the crate sees a [`Fleet`].

use crate::network::Network;
use crate::run;
use crate::sample::Sample;
use crate::shard::{Passage, Shard};
use std::fmt::Debug;
use std::sync::Arc;

/// The shards of a simulation.
pub(crate) trait Fleet: Debug + Send {
    /// Runs up to but not including a cycle.
    fn run(&mut self, net: &Network, until: u32);

    /// Counts since the last time, which begin anew.
    fn take_sample(&mut self) -> Sample;

    /// Flits that left by a port of a router since the last sample.
    fn each_sent(&self, visit: &mut dyn FnMut(u32, u8, u32));

    /// Flits that moved since the last sample.
    fn moved(&self) -> u64;

    /// Packets in the network.
    fn packets(&self) -> usize;

    /// A packet that stands: router, port, channel, port that it wants.
    fn standing(&self) -> Option<(u32, u8, u8, u8)>;

    /// See [`crate::Simulation::passages`].
    fn passages(&mut self, record: bool) -> Vec<Passage>;

    /// See [`crate::Simulation::check_invariants`].
    fn check_invariants(&self);
}

/// The smallest kind of router that has enough virtual channels, and ports for
/// itself and for its nodes.
pub(crate) fn fleet(net: &Arc<Network>) -> Box<dyn Fleet> {
    match (net.measures.ports + net.measures.node_ports, net.measures.vcs) {
        (0..=16, 0..=4) => shards::<16, 4>(net),
        (0..=16, 0..=8) => shards::<16, 8>(net),
        (0..=32, 0..=4) => shards::<32, 4>(net),
        (0..=32, 0..=8) => shards::<32, 8>(net),
        (0..=32, _) => shards::<32, 16>(net),
        (_, 0..=4) => shards::<64, 4>(net),
        (_, 0..=8) => shards::<64, 8>(net),
        _ => shards::<64, 16>(net),
    }
}

fn shards<const P: usize, const V: usize>(net: &Arc<Network>) -> Box<dyn Fleet> {
    Box::new(
        (0..net.cuts.len() - 1).map(|id| Shard::<P, V>::new(net.clone(), id)).collect::<Vec<_>>(),
    )
}

impl<const P: usize, const V: usize> Fleet for Vec<Shard<P, V>> {
    fn run(&mut self, net: &Network, until: u32) {
        run::run(self, net, until);
    }

    fn take_sample(&mut self) -> Sample {
        let mut sum = Sample::new(0);
        for shard in self {
            sum.add(&std::mem::replace(&mut shard.state.sample, Sample::new(0)));
            for router in &mut shard.routers {
                router.sent = [0; P];
            }
        }
        sum
    }

    fn each_sent(&self, visit: &mut dyn FnMut(u32, u8, u32)) {
        for router in self.iter().flat_map(|shard| &shard.routers) {
            for (port, &flits) in router.sent.iter().enumerate() {
                visit(router.id, port as u8, flits);
            }
        }
    }

    fn moved(&self) -> u64 {
        self.iter()
            .map(|shard| shard.state.sample.flit_hops + shard.state.sample.accepted_flits)
            .sum()
    }

    fn packets(&self) -> usize {
        self.iter().map(|shard| shard.state.packets.len()).sum()
    }

    fn standing(&self) -> Option<(u32, u8, u8, u8)> {
        self.iter().flat_map(|shard| &shard.routers).find_map(|router| {
            let (port, vc, to_port) = router.standing()?;
            Some((router.id, port, vc, to_port))
        })
    }

    fn passages(&mut self, record: bool) -> Vec<Passage> {
        let mut all = Vec::new();
        for shard in self {
            let shard = &mut shard.state;
            let recorded = std::mem::replace(&mut shard.passages, record.then(Vec::new));
            shard.is_watched = record || shard.net.measures.output_queue < usize::MAX;
            all.extend(recorded.unwrap_or_default());
        }
        all
    }

    fn check_invariants(&self) {
        let [shard] = &self[..] else { panic!("a network in one piece is checked") };
        shard.check_invariants();
    }
}
