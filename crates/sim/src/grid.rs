//! The nodes as a grid: their coordinates, and the way from one to another.

use serde::{Deserialize, Serialize};

/// How nodes are joined.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Topology {
    /// Every node has one link into a switch that never blocks.
    Crossbar,
    /// A grid with dimension-order routing.
    Mesh,
    /// A grid whose rows are rings; the shorter way round, up if both are equal.
    Torus,
}

/// The nodes and their coordinates.
#[derive(Clone, Debug)]
pub(crate) struct Grid {
    kind: Topology,
    dims: Vec<u32>,
    coordinates: Vec<u16>,
}

impl Grid {
    pub fn new(kind: Topology, dims: &[u32]) -> Grid {
        let nodes: u32 = dims.iter().product();
        let mut coordinates = Vec::with_capacity(nodes as usize * dims.len());
        for node in 0..nodes {
            let mut rest = node;
            for &dim in dims {
                coordinates.push((rest % dim) as u16);
                rest /= dim;
            }
        }
        Grid { kind, dims: dims.to_vec(), coordinates }
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
    pub fn walk(&self, from: u32, to: u32, mut visit: impl FnMut(usize)) {
        if from == to {
            return;
        }
        let dims = self.dims.len();
        if self.kind == Topology::Crossbar {
            visit(from as usize * 2);
            return;
        }
        let (mut node, mut stride) = (from as usize, 1);
        for dim in 0..dims {
            let size = self.dims[dim] as usize;
            let mut at = usize::from(self.coordinates[from as usize * dims + dim]);
            let end = usize::from(self.coordinates[to as usize * dims + dim]);
            let up = (end + size - at) % size;
            let goes_up = if self.kind == Topology::Torus { up <= size - up } else { end > at };
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

#[cfg(test)]
mod tests {
    use super::*;

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
            let grid = Grid::new(kind, &dims);
            assert!((grid.hops_mean(true) - included).abs() < 1e-9, "{kind:?} {dims:?}");
            assert!((grid.hops_mean(false) - distinct).abs() < 1e-9, "{kind:?} {dims:?}");
        }
    }

    #[test]
    fn the_farthest_nodes_of_the_papers_mesh_are_14_hops_apart() {
        assert_eq!(Grid::new(Topology::Mesh, &[8, 8]).hops(0, 63), 14);
    }
}
