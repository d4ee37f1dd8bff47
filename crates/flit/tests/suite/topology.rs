//! The shape of each topology: numbers, degrees, diameters. That every link
//! leads back and every node has one port is asserted where fabrics are made.

use sluice_flit::config::Topology as Config;
use sluice_flit::topology::{End, Fabric, Topology};

fn fabric(config: &Config) -> Fabric {
    Topology::new(config).expect("a good configuration").fabric()
}

fn dragonfly(p: u32, a: u32, h: u32) -> Config {
    Config::Dragonfly { p, a, h, local_latency_cycles: 1, global_latency_cycles: 1 }
}

fn torus(dims: &[u32]) -> Config {
    Config::Torus { dims: dims.to_vec(), nodes_per_router: 1, latency_cycles: 1 }
}

fn mesh(dims: &[u32]) -> Config {
    Config::Mesh { dims: dims.to_vec(), nodes_per_router: 1, latency_cycles: 1 }
}

fn tree(k: u32, n: u32) -> Config {
    Config::FatTree { k, n, latency_cycles: 1 }
}

fn hyperx(dims: &[u32], nodes_per_router: u32) -> Config {
    Config::Hyperx { dims: dims.to_vec(), nodes_per_router, latency_cycles: 1 }
}

/// Links of a router to other routers.
fn degree(fabric: &Fabric, router: u32) -> usize {
    (0..fabric.ports())
        .filter(|&port| matches!(fabric.link(router, port).to, End::Router { .. }))
        .count()
}

/// Links from one router to each other, by breadth-first search.
fn distances(fabric: &Fabric, start: u32) -> Vec<u32> {
    let mut distances = vec![u32::MAX; fabric.routers() as usize];
    distances[start as usize] = 0;
    let mut front = vec![start];
    while !front.is_empty() {
        let mut next = Vec::new();
        for router in front {
            for port in 0..fabric.ports() {
                if let End::Router { router: to, .. } = fabric.link(router, port).to
                    && distances[to as usize] == u32::MAX
                {
                    distances[to as usize] = distances[router as usize] + 1;
                    next.push(to);
                }
            }
        }
        front = next;
    }
    distances
}

/// Most links between the routers of two nodes.
fn diameter(fabric: &Fabric) -> u32 {
    (0..fabric.nodes())
        .map(|from| {
            let distances = distances(fabric, fabric.home(from).0);
            (0..fabric.nodes())
                .map(|to| distances[fabric.home(to).0 as usize])
                .max()
                .expect("a node")
        })
        .max()
        .expect("a node")
}

#[test]
fn numbers_of_routers_nodes_and_ports() {
    for (config, routers, nodes, ports) in [
        (dragonfly(6, 12, 6), 876, 5256, 23),
        (dragonfly(3, 6, 3), 114, 342, 11),
        (dragonfly(1, 2, 1), 6, 6, 3),
        (torus(&[4, 4, 4]), 64, 64, 7),
        (mesh(&[8, 8]), 64, 64, 5),
        (tree(4, 3), 48, 64, 8),
        (hyperx(&[4, 4], 4), 16, 64, 10),
        (
            Config::FlattenedButterfly { k: 4, n: 2, nodes_per_router: 4, latency_cycles: 1 },
            16,
            64,
            10,
        ),
    ] {
        let fabric = fabric(&config);
        assert_eq!(
            (fabric.routers(), fabric.nodes(), fabric.ports()),
            (routers, nodes, ports),
            "{config:?}"
        );
    }
}

#[test]
fn degree_and_diameter() {
    for (config, degrees, longest) in [
        (dragonfly(2, 4, 2), 5..=5, 3),
        (dragonfly(1, 3, 2), 4..=4, 3),
        (dragonfly(2, 1, 3), 3..=3, 1),
        (torus(&[4, 4, 4]), 6..=6, 6),
        (torus(&[5, 2, 1, 3]), 6..=6, 2 + 1 + 1),
        (mesh(&[8, 8]), 2..=4, 14),
        (mesh(&[3, 1, 4]), 2..=4, 5),
        (tree(4, 3), 4..=8, 4),
        (tree(3, 1), 0..=0, 0),
        (hyperx(&[4, 4], 4), 6..=6, 2),
        (hyperx(&[2, 1, 5], 1), 5..=5, 2),
    ] {
        let fabric = fabric(&config);
        let found: Vec<usize> =
            (0..fabric.routers()).map(|router| degree(&fabric, router)).collect();
        assert_eq!(found.iter().min(), Some(degrees.start()), "{config:?}");
        assert_eq!(found.iter().max(), Some(degrees.end()), "{config:?}");
        assert_eq!(diameter(&fabric), longest, "{config:?}");
    }
}

#[test]
fn any_two_groups_of_a_dragonfly_have_one_link() {
    let (a, h) = (4, 2);
    let fabric = fabric(&dragonfly(2, a, h));
    let groups = a * h + 1;
    let mut links = vec![0; (groups * groups) as usize];
    for router in 0..fabric.routers() {
        for port in 0..fabric.ports() {
            if let End::Router { router: to, .. } = fabric.link(router, port).to {
                links[(router / a * groups + to / a) as usize] += 1;
            }
        }
    }
    for from in 0..groups {
        for to in 0..groups {
            let expected = if from == to { a * (a - 1) } else { 1 };
            assert_eq!(links[(from * groups + to) as usize], expected);
        }
    }
}

#[test]
fn latencies_are_those_of_the_kind_of_link() {
    let config =
        Config::Dragonfly { p: 2, a: 4, h: 2, local_latency_cycles: 3, global_latency_cycles: 17 };
    let fabric = fabric(&config);
    for router in 0..fabric.routers() {
        for port in 0..fabric.ports() {
            let link = fabric.link(router, port);
            let expected = match link.to {
                End::Router { router: to, .. } if to / 4 == router / 4 => 3,
                End::Router { .. } => 17,
                _ => 1,
            };
            assert_eq!(link.latency_cycles, expected);
        }
    }
}

#[test]
fn cube_ports_go_up_and_down_their_dimension() {
    let fabric = fabric(&torus(&[4, 3]));
    let to = |router, port| fabric.link(router, port).to;
    // Router 7 is at (3, 1).
    assert_eq!(to(7, 0), End::Router { router: 4, port: 1 });
    assert_eq!(to(7, 1), End::Router { router: 6, port: 0 });
    assert_eq!(to(7, 2), End::Router { router: 11, port: 3 });
    assert_eq!(to(7, 3), End::Router { router: 3, port: 2 });
    assert_eq!(to(7, 4), End::Node(7));
}

#[test]
fn errors_name_the_key() {
    for (config, key) in [
        (dragonfly(0, 4, 2), "topology.p"),
        (dragonfly(2, 0, 2), "topology.a"),
        (dragonfly(2, 4, 0), "topology.h"),
        (dragonfly(30, 30, 30), "topology"),
        (dragonfly(u32::MAX, u32::MAX, 1), "topology"),
        (
            Config::Dragonfly {
                p: 1,
                a: 2,
                h: 1,
                local_latency_cycles: 0,
                global_latency_cycles: 1,
            },
            "topology.local_latency_cycles",
        ),
        (torus(&[]), "topology.dims"),
        (torus(&[4, 0]), "topology.dims"),
        (mesh(&[u32::MAX, u32::MAX, u32::MAX]), "topology.dims"),
        (mesh(&[1; 40]), "topology"),
        (
            Config::Torus { dims: vec![4], nodes_per_router: 0, latency_cycles: 1 },
            "topology.nodes_per_router",
        ),
        (
            Config::Torus { dims: vec![4], nodes_per_router: 1, latency_cycles: 0 },
            "topology.latency_cycles",
        ),
        (tree(1, 3), "topology.k"),
        (tree(40, 2), "topology.k"),
        (tree(4, 0), "topology.n"),
        (tree(4, 40), "topology.n"),
        (Config::FatTree { k: 2, n: 2, latency_cycles: 0 }, "topology.latency_cycles"),
        (hyperx(&[40, 40], 4), "topology"),
        (hyperx(&[4, 4], 0), "topology.nodes_per_router"),
        (
            Config::Hyperx { dims: vec![4], nodes_per_router: 1, latency_cycles: 0 },
            "topology.latency_cycles",
        ),
    ] {
        let error = Topology::new(&config).expect_err("a bad configuration");
        assert_eq!(error.key, key, "{config:?}: {error}");
    }
}
