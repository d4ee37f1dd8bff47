//! No plan of virtual channels that is shipped lets packets wait for each
//! other in a circle. (That broken plans are found is tested beside them.)

use sluice_flit::config::{Divert, Routing as Config, Topology as TopologyConfig};
use sluice_flit::routing::Routing;
use sluice_flit::routing::dependency::{self, Checked};
use sluice_flit::topology::Topology;

fn check(topology: &TopologyConfig, routing: &Config, vcs: Option<u8>) -> Checked {
    let topology = Topology::new(topology).expect("a good topology");
    let routing = Routing::new(&topology, routing, vcs).expect("a good routing");
    match dependency::check(&topology.fabric(), &routing) {
        Ok(checked) => checked,
        Err(cycle) => panic!("{cycle}"),
    }
}

fn spread(vcs_per_class: u8) -> [Config; 3] {
    [
        Config::Minimal { vcs_per_class },
        Config::Valiant { vcs_per_class },
        Config::Ugal { vcs_per_class, rule: Divert::default() },
    ]
}

fn progressive(vcs_per_class: u8) -> Config {
    Config::ProgressiveAdaptive { vcs_per_class, rule: Divert::default() }
}

#[test]
fn dragonflies_cannot_lock_up() {
    // The third is the smallest in which each kind of hop can follow each that
    // it may follow, by several routers.
    for (a, h, vcs_per_class, routers_max) in
        [(2, 1, 2, [4, 6, 6, 7]), (3, 2, 1, [4, 7, 7, 8]), (4, 2, 1, [4, 7, 7, 8])]
    {
        let topology = TopologyConfig::Dragonfly {
            p: 1,
            a,
            h,
            local_latency_cycles: 1,
            global_latency_cycles: 1,
        };
        let routings = spread(vcs_per_class).into_iter().chain([progressive(vcs_per_class)]);
        for (routing, routers_max) in routings.zip(routers_max) {
            assert_eq!(
                check(&topology, &routing, None).routers_max,
                routers_max,
                "{topology:?} {routing:?}"
            );
        }
    }
}

#[test]
fn cubes_cannot_lock_up() {
    for dims in [&[5][..], &[4, 4], &[3, 2, 1, 3]] {
        let torus =
            TopologyConfig::Torus { dims: dims.to_vec(), nodes_per_router: 1, latency_cycles: 1 };
        let mesh =
            TopologyConfig::Mesh { dims: dims.to_vec(), nodes_per_router: 1, latency_cycles: 1 };
        for routing in spread(1) {
            check(&torus, &routing, None);
            check(&torus, &routing, Some(5));
            check(&mesh, &routing, None);
            check(&mesh, &routing, Some(3));
        }
    }
}

#[test]
fn hyperx_cannot_lock_up() {
    for dims in [&[4][..], &[3, 3], &[2, 3, 2]] {
        let hyperx =
            TopologyConfig::Hyperx { dims: dims.to_vec(), nodes_per_router: 2, latency_cycles: 1 };
        for routing in spread(1) {
            check(&hyperx, &routing, None);
            check(&hyperx, &routing, Some(3));
        }
    }
}

#[test]
fn trees_cannot_lock_up() {
    for (k, n) in [(2, 4), (3, 3), (4, 2)] {
        let tree = TopologyConfig::FatTree { k, n, latency_cycles: 1 };
        assert_eq!(
            check(&tree, &Config::Minimal { vcs_per_class: 2 }, None).routers_max,
            2 * n - 1
        );
    }
}

#[test]
fn counts_are_those_of_a_line() {
    // Three routers in a line: two links, each both ways, and a packet can hold
    // the one and ask for the other in either direction.
    let line = TopologyConfig::Mesh { dims: vec![3], nodes_per_router: 1, latency_cycles: 1 };
    let expected = Checked { channels: 4, dependencies: 2, routers_max: 3 };
    assert_eq!(check(&line, &Config::Minimal { vcs_per_class: 1 }, None), expected);
}
