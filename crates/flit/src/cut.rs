//! The cut of a network into shards.
//!
//! A shard is a range of routers. Shards run for a *window* of cycles without
//! exchanging anything. The window is the latency of the shortest link between two
//! of them.
//!
//! This has two advantages. Threads synchronize only once a window. A thread that
//! runs several shards, one window after the other, keeps the state of one shard in
//! its cache for the whole window. So a network is cut wherever all links that cross
//! the cut are long: a Dragonfly is cut into its groups.

use crate::topology::{End, Fabric};

/// Shortest window, in cycles. A shorter one costs more in letters between shards
/// than it gains.
const WINDOW_MIN: u32 = 4;
/// Smaller shards are merged.
const ROUTERS_MIN: u32 = 8;
/// Most shards: a letter names one with 16 bits.
const SHARDS_MAX: u32 = u16::MAX as u32;

/// How a network is to be cut.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cutting {
    pub threads: usize,
    /// Leave it in one piece.
    pub whole: bool,
}

impl Cutting {
    /// The first router of each shard and the number of routers; and the
    /// window.
    pub fn cut(self, fabric: &Fabric) -> (Vec<u32>, u32) {
        let routers = fabric.routers();
        if self.whole {
            return (vec![0, routers], u32::MAX);
        }
        let shortest = shortest_cut_links(fabric);
        let threads = (self.threads as u32).clamp(1, routers);
        let longest = shortest[1..routers as usize].iter().copied().max().unwrap_or(0);
        let natural: Vec<u32> =
            (1..routers).filter(|&at| shortest[at as usize] == longest).collect();
        let mut cuts = if longest + 1 >= WINDOW_MIN && natural.len() as u32 + 1 >= threads {
            let least = ROUTERS_MIN.min(routers / threads).max(routers / SHARDS_MAX + 1);
            let mut cuts = vec![0];
            for at in natural {
                if at - cuts[cuts.len() - 1] >= least && routers - at >= least.min(ROUTERS_MIN) {
                    cuts.push(at);
                }
            }
            cuts
        } else {
            (0..threads)
                .map(|nth| (u64::from(routers) * u64::from(nth) / u64::from(threads)) as u32)
                .collect()
        };
        let window = cuts[1..].iter().map(|&at| shortest[at as usize]).min().unwrap_or(u32::MAX);
        cuts.push(routers);
        // A flit sent in a cycle arrives no earlier than one cycle after its
        // link's latency.
        (cuts, window.saturating_add(1))
    }
}

/// For each boundary between two routers, the latency of the shortest link
/// across it.
fn shortest_cut_links(fabric: &Fabric) -> Vec<u32> {
    let mut shortest = vec![u32::MAX; fabric.routers() as usize + 1];
    for (from, to, latency) in each_link(fabric) {
        for boundary in from + 1..=to {
            let here = &mut shortest[boundary as usize];
            *here = (*here).min(latency);
        }
    }
    shortest
}

/// Every link that leads somewhere: its router, the router it leads to (its
/// own for a node), its latency.
pub(crate) fn each_link(fabric: &Fabric) -> impl Iterator<Item = (u32, u32, u32)> + '_ {
    (0..fabric.routers()).flat_map(move |router| {
        (0..fabric.ports()).filter_map(move |port| {
            let link = fabric.link(router, port);
            match link.to {
                End::Router { router: to, .. } => {
                    Some((router, to, u32::from(link.latency_cycles)))
                }
                End::Node(_) => Some((router, router, u32::from(link.latency_cycles))),
                End::None => None,
            }
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config;
    use crate::topology::Topology;

    fn cut(config: &config::Topology, threads: usize) -> (Vec<u32>, u32) {
        let fabric = Topology::new(config).unwrap().fabric();
        Cutting { threads, whole: false }.cut(&fabric)
    }

    #[test]
    fn a_dragonfly_is_cut_into_its_groups() {
        let config = config::Topology::Dragonfly {
            p: 4,
            a: 8,
            h: 4,
            local_latency_cycles: 2,
            global_latency_cycles: 10,
        };
        for threads in [1, 2, 5] {
            let (cuts, window) = cut(&config, threads);
            assert_eq!(window, 11);
            assert_eq!(cuts, (0..=33).map(|group| group * 8).collect::<Vec<u32>>());
        }
    }

    #[test]
    fn a_torus_of_short_links_is_cut_for_threads_only() {
        let config =
            config::Topology::Torus { dims: vec![4, 4, 4], nodes_per_router: 1, latency_cycles: 1 };
        assert_eq!(cut(&config, 1), (vec![0, 64], u32::MAX));
        assert_eq!(cut(&config, 3), (vec![0, 21, 42, 64], 2));
    }
}
