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

/// The nodes and their coordinates.
#[derive(Clone, Debug)]
pub(crate) struct Grid {
    dims: Vec<u32>,
    wraps: bool,
    is_crossbar: bool,
    coordinates: Vec<u16>,
}

impl Grid {
    pub fn new(config: &config::Network) -> Grid {
        let nodes = config.nodes();
        let mut coordinates = Vec::with_capacity(nodes as usize * config.dims.len());
        for node in 0..nodes {
            let mut rest = node;
            for &dim in &config.dims {
                coordinates.push((rest % dim) as u16);
                rest /= dim;
            }
        }
        Grid {
            dims: config.dims.clone(),
            wraps: config.kind == config::Topology::Torus,
            is_crossbar: config.kind == config::Topology::Crossbar,
            coordinates,
        }
    }

    /// Links between the routers of two nodes. All of a crossbar are one apart.
    pub fn hops(&self, from: u32, to: u32) -> u32 {
        let mut hops = 0;
        self.walk(from, to, |_| hops += 1);
        hops
    }

    /// Mean over all ordered pairs; those of a node with itself count if they
    /// are `included`.
    #[cfg(test)]
    fn hops_mean(&self, included: bool) -> f64 {
        let nodes = (self.coordinates.len() / self.dims.len()) as u32;
        let sum: u64 = (0..nodes)
            .flat_map(|from| (0..nodes).map(move |to| (from, to)))
            .map(|(from, to)| u64::from(self.hops(from, to)))
            .sum();
        let pairs = if included { nodes * nodes } else { nodes * (nodes - 1) };
        sum as f64 / f64::from(pairs)
    }

    /// Calls `visit` with each link of the way, counted `node × 2 × dimensions
    /// + 2 × dimension + direction`.
    #[inline]
    fn walk(&self, from: u32, to: u32, mut visit: impl FnMut(usize)) {
        if from == to {
            return;
        }
        let dims = self.dims.len();
        if self.is_crossbar {
            visit(from as usize * 2);
            return;
        }
        let (mut node, mut stride) = (from as usize, 1);
        for dim in 0..dims {
            let size = self.dims[dim] as usize;
            let mut at = usize::from(self.coordinates[from as usize * dims + dim]);
            let end = usize::from(self.coordinates[to as usize * dims + dim]);
            let up = (end + size - at) % size;
            let goes_up = if self.wraps { up <= size - up } else { end > at };
            while at != end {
                visit((node * dims + dim) * 2 + usize::from(goes_up));
                let next = match (goes_up, at) {
                    (true, _) if at + 1 == size => 0,
                    (true, _) => at + 1,
                    (false, 0) => size - 1,
                    (false, _) => at - 1,
                };
                node = node - at * stride + next * stride;
                at = next;
            }
            stride *= size;
        }
    }
}

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
            grid: Grid::new(config),
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

    /// Closed forms: a ring of k has a mean distance of k/4 (k even), a row of
    /// k one of (k² - 1)/3k, over all pairs, those of a node with itself
    /// included.
    #[test]
    fn mean_distances_are_those_of_the_closed_forms() {
        let cases = [
            (Topology::Torus, vec![4, 4, 4], 3.0, 3.0 * 64.0 / 63.0),
            (Topology::Mesh, vec![4, 4, 4], 3.75, 3.75 * 64.0 / 63.0),
            (Topology::Mesh, vec![8, 8], 5.25, 5.25 * 64.0 / 63.0),
            (Topology::Crossbar, vec![10], 0.9, 1.0),
        ];
        for (kind, dims, included, distinct) in cases {
            let grid = Grid::new(&network(kind, &dims));
            assert!((grid.hops_mean(true) - included).abs() < 1e-9, "{kind:?} {dims:?}");
            assert!((grid.hops_mean(false) - distinct).abs() < 1e-9, "{kind:?} {dims:?}");
        }
    }

    #[test]
    fn the_farthest_nodes_of_the_papers_mesh_are_14_hops_apart() {
        assert_eq!(Grid::new(&network(Topology::Mesh, &[8, 8])).hops(0, 63), 14);
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
