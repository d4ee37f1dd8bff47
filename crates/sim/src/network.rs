//! The network between the nodes, packet by packet: when one that is sent now
//! will arrive.
//!
//! Everything is computed at the moment of sending. A packet leaves its node's
//! interface, which all processes of the node share, follows the dimensions in
//! order, and leaves the last router into the receiver's memory; each of these
//! links lets one packet through at a time, and a packet waits until it is
//! free. It is passed on as soon as its head is there, so a hop costs
//! [`Network::hop_ns`](crate::config::Network::hop_ns) and its length counts
//! once. Buffers between are not modelled: the links of the experiments here
//! are a quarter used. Packets of one pair take the same way and keep their
//! order.

use crate::config;
use crate::grid::Grid;

/// See the module.
#[derive(Debug)]
pub(crate) struct Network {
    grid: Grid,
    config: config::Network,
    /// When each interface has let through what it was given.
    injection_free: Vec<u64>,
    ejection_free: Vec<u64>,
    links_free: Vec<u64>,
}

impl Network {
    pub fn new(config: &config::Network) -> Network {
        let nodes = config.nodes() as usize;
        Network {
            grid: Grid::new(config.kind, &config.dims),
            config: config.clone(),
            injection_free: vec![0; nodes],
            ejection_free: vec![0; nodes],
            links_free: vec![0; nodes * 2 * config.dims.len()],
        }
    }

    /// The node of a process.
    #[inline]
    pub fn node(&self, process: u32) -> u32 {
        process / self.config.processes_per_node
    }

    /// When a packet of `slots` slots that `from` sends now arrives at `to`.
    #[inline]
    pub fn send(&mut self, now: u64, from: u32, to: u32, slots: u32) -> u64 {
        self.pass(now, from, to, self.config.packet_ns * u64::from(slots))
    }

    /// When `bytes` that leave the memory of `from` now are in that of `to`.
    pub fn transfer(&mut self, now: u64, from: u32, to: u32, bytes: u64) -> u64 {
        let length = (bytes * self.config.kib_ns).div_ceil(1024).max(self.config.packet_ns);
        self.pass(now, from, to, length)
    }

    /// How long a process that has sent a packet now must wait until the
    /// interface of its node takes another.
    #[inline]
    pub fn wait_ns(&self, now: u64, from: u32) -> u64 {
        let ahead = self.injection_free[self.node(from) as usize].saturating_sub(now);
        ahead.saturating_sub(self.config.interface_packets * self.config.packet_ns)
    }

    /// What a packet needs on an idle network.
    pub fn latency_ns(&self, from: u32, to: u32) -> u64 {
        let hops = self.grid.hops(self.node(from), self.node(to));
        self.config.interface_ns + u64::from(hops) * self.config.hop_ns + self.config.packet_ns
    }

    #[inline]
    fn pass(&mut self, now: u64, from: u32, to: u32, length_ns: u64) -> u64 {
        let Network { grid, config, injection_free, ejection_free, links_free } = self;
        let from = from / config.processes_per_node;
        let to = to / config.processes_per_node;
        let mut head = take(&mut injection_free[from as usize], now, length_ns);
        grid.walk(from, to, |link| {
            head = take(&mut links_free[link], head, length_ns) + config.hop_ns;
        });
        head = take(&mut ejection_free[to as usize], head, length_ns);
        head + length_ns + config.interface_ns
    }
}

/// When a link lets something through that comes at `now` and occupies it for
/// `length`.
#[inline]
fn take(free: &mut u64, now: u64, length: u64) -> u64 {
    let start = now.max(*free);
    *free = start + length;
    start
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Topology;

    fn network(kind: Topology, dims: &[u32]) -> config::Network {
        config::Network {
            kind,
            dims: dims.to_vec(),
            processes_per_node: 2,
            hop_ns: 100,
            interface_ns: 300,
            packet_ns: 60,
            kib_ns: 1024,
            interface_packets: 4,
        }
    }

    #[test]
    fn a_packet_alone_takes_its_latency() {
        let mut net = Network::new(&network(Topology::Mesh, &[8, 8]));
        assert_eq!(net.send(1000, 0, 127, 1), 1000 + 300 + 14 * 100 + 60);
        assert_eq!(net.latency_ns(0, 127), 300 + 14 * 100 + 60);
        assert_eq!(net.send(9000, 0, 1, 1), 9000 + 300 + 60);
    }

    #[test]
    fn packets_of_a_node_leave_one_after_the_other() {
        let mut net = Network::new(&network(Topology::Mesh, &[4]));
        let times: Vec<u64> = (0..6).map(|_| net.send(0, 0, 2, 1)).collect();
        assert_eq!(times, [460, 520, 580, 640, 700, 760]);
        // Four packets may wait in the interface; six are ahead.
        assert_eq!(net.wait_ns(0, 1), 120);
    }

    #[test]
    fn a_bulk_transfer_takes_its_bandwidth() {
        let mut net = Network::new(&network(Topology::Mesh, &[4]));
        assert_eq!(net.transfer(0, 0, 6, 10_000), 10_000 + 300 + 3 * 100);
    }
}
