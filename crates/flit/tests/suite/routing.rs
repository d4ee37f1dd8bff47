//! Ways of packets: how long they are, that they arrive, and what cannot be
//! configured.

use proptest::prelude::*;
use sluice_flit::config::{Divert, Routing as Config, Topology as TopologyConfig};
use sluice_flit::routing::{At, Hop, Route, Routing, Senses};
use sluice_flit::topology::{End, Fabric, Topology};
use sluice_flit::{ConfigError, Rng, Stream};

const MINIMAL: Config = Config::Minimal { vcs_per_class: 1 };
const VALIANT: Config = Config::Valiant { vcs_per_class: 1 };
const UGAL: Config = Config::Ugal { vcs_per_class: 1, rule: RULE };
const PROGRESSIVE: Config = Config::ProgressiveAdaptive { vcs_per_class: 1, rule: RULE };
const RULE: Divert =
    Divert { bias: 1.0, threshold_flits: 0, metric: sluice_flit::config::Metric::Port };

/// Answers at random.
struct Dice(Rng);

impl Senses for Dice {
    fn below(&mut self, count: u32) -> u32 {
        self.0.below(count)
    }

    fn diverts(&mut self, _rule: &Divert, _minimal: Hop, _detour: Hop) -> bool {
        self.0.below(2) == 1
    }
}

fn dragonfly(p: u32, a: u32, h: u32) -> TopologyConfig {
    TopologyConfig::Dragonfly { p, a, h, local_latency_cycles: 1, global_latency_cycles: 1 }
}

fn torus(dims: &[u32], nodes_per_router: u32) -> TopologyConfig {
    TopologyConfig::Torus { dims: dims.to_vec(), nodes_per_router, latency_cycles: 1 }
}

fn mesh(dims: &[u32], nodes_per_router: u32) -> TopologyConfig {
    TopologyConfig::Mesh { dims: dims.to_vec(), nodes_per_router, latency_cycles: 1 }
}

fn tree(k: u32, n: u32) -> TopologyConfig {
    TopologyConfig::FatTree { k, n, latency_cycles: 1 }
}

fn hyperx(dims: &[u32], nodes_per_router: u32) -> TopologyConfig {
    TopologyConfig::Hyperx { dims: dims.to_vec(), nodes_per_router, latency_cycles: 1 }
}

fn build(
    topology: &TopologyConfig,
    routing: &Config,
    vcs: Option<u8>,
) -> Result<(Fabric, Routing), ConfigError> {
    let topology = Topology::new(topology).expect("a good topology");
    Ok((topology.fabric(), Routing::new(&topology, routing, vcs)?))
}

/// Follows a packet and returns the routers that it passed.
fn routers_passed(
    fabric: &Fabric,
    routing: &Routing,
    source: u32,
    destination: u32,
    dice: &mut Dice,
) -> u32 {
    let pick = |set: u16, dice: &mut Dice| {
        assert!(set != 0 && u32::from(set) >> routing.vcs() == 0, "{set:#b}");
        let members: Vec<u8> = (0..16).filter(|vc| set >> vc & 1 == 1).collect();
        members[dice.below(members.len() as u32) as usize]
    };
    let mut route = Route::new(source, destination);
    let vc = pick(routing.entry(&mut route, dice), dice);
    let (router, port) = fabric.home(source);
    let mut at = At { router, port, vc };
    for passed in 1..100 {
        let hop = routing.hop(at, &mut route, dice);
        let vc = pick(hop.vcs, dice);
        match fabric.link(at.router, hop.port).to {
            End::Node(node) => {
                assert_eq!(node, destination);
                return passed;
            }
            End::Router { router, port } => at = At { router, port, vc },
            End::None => panic!("{route:?} leaves {at:?} by port {}, which has no link", hop.port),
        }
    }
    panic!("{route:?} has not arrived");
}

/// Routers passed on average over all pairs, also of a node with itself.
fn average(topology: &TopologyConfig) -> f64 {
    let (fabric, routing) = build(topology, &MINIMAL, None).expect("a good routing");
    let mut dice = Dice(Rng::new(1, Stream::Router, 0));
    let nodes = fabric.nodes();
    let pairs =
        (0..nodes).flat_map(|source| (0..nodes).map(move |destination| (source, destination)));
    let sum: u64 = pairs
        .map(|(from, to)| u64::from(routers_passed(&fabric, &routing, from, to, &mut dice)))
        .sum();
    sum as f64 / (f64::from(nodes) * f64::from(nodes))
}

#[test]
fn minimal_ways_have_the_length_known() {
    // A line of k has k/3 - 1/(3k) links between two points on average, an even
    // ring k/4, an odd one k/4 - 1/(4k).
    let line = |k: f64| k / 3.0 - 1.0 / (3.0 * k);
    // Of a Dragonfly: one local link to another router of the own group; to
    // another group a global link, and at either end a local one unless the
    // router is the one with the link.
    let dragonfly_links = |a: f64, h: f64| {
        let groups = a * h + 1.0;
        let local = (a - 1.0) / a;
        local / groups + (1.0 + 2.0 * local) * (groups - 1.0) / groups
    };
    // Of a tree: twice the levels up to the lowest common ancestor.
    let tree_links = |k: f64, n: i32| {
        2.0 * (1..n).map(|up| f64::from(up) * (k - 1.0) / k * k.powi(up + 1 - n)).sum::<f64>()
    };
    for (topology, links) in [
        (mesh(&[8, 8], 1), 2.0 * line(8.0)),
        (mesh(&[5, 3], 2), line(5.0) + line(3.0)),
        (torus(&[4, 4, 4], 1), 3.0),
        (torus(&[5, 2, 3], 1), 1.25 - 0.05 + 0.5 + 0.75 - 1.0 / 12.0),
        (dragonfly(3, 6, 3), dragonfly_links(6.0, 3.0)),
        (dragonfly(2, 3, 1), dragonfly_links(3.0, 1.0)),
        (tree(4, 3), tree_links(4.0, 3)),
        (tree(3, 2), tree_links(3.0, 2)),
        (hyperx(&[4, 4], 4), 1.5),
        (hyperx(&[2, 5, 3], 1), 0.5 + 0.8 + 2.0 / 3.0),
    ] {
        let found = average(&topology);
        assert!((found - 1.0 - links).abs() < 1e-9, "{topology:?}: {found}, not {}", links + 1.0);
    }
    assert!((average(&mesh(&[8, 8], 1)) - 6.25).abs() < 1e-9);
    assert!((average(&torus(&[4, 4, 4], 1)) - 4.0).abs() < 1e-9);
}

/// Topologies with the routings that they know, and the most routers that a
/// packet passes under each.
fn cases() -> Vec<(TopologyConfig, Vec<(Config, u32)>)> {
    let spread = |minimal: u32| {
        vec![(MINIMAL, minimal), (VALIANT, 2 * minimal - 1), (UGAL, 2 * minimal - 1)]
    };
    vec![
        (dragonfly(2, 4, 2), vec![(MINIMAL, 4), (VALIANT, 7), (UGAL, 7), (PROGRESSIVE, 8)]),
        (dragonfly(3, 2, 3), vec![(MINIMAL, 4), (VALIANT, 7), (UGAL, 7), (PROGRESSIVE, 8)]),
        (dragonfly(1, 1, 4), vec![(MINIMAL, 2), (VALIANT, 3), (UGAL, 3), (PROGRESSIVE, 3)]),
        (torus(&[4, 5, 2], 2), spread(1 + 2 + 2 + 1)),
        (torus(&[1, 3], 1), spread(2)),
        (mesh(&[4, 1, 3], 2), spread(1 + 3 + 2)),
        (hyperx(&[3, 1, 4], 2), spread(3)),
        (tree(3, 3), vec![(MINIMAL, 5)]),
        (tree(5, 1), vec![(MINIMAL, 1)]),
    ]
}

proptest! {
    #[test]
    fn every_packet_arrives_by_a_way_of_bounded_length(case in 0usize..9, ends in any::<[u32; 2]>(), seed: u64) {
        let (topology, routings) = &cases()[case];
        for (config, routers_max) in routings {
            let (fabric, routing) = build(topology, config, None).expect("a good routing");
            let mut dice = Dice(Rng::new(seed, Stream::Router, 0));
            let [source, destination] = ends.map(|end| end % fabric.nodes());
            for _ in 0..8 {
                let passed = routers_passed(&fabric, &routing, source, destination, &mut dice);
                prop_assert!(passed <= *routers_max, "{topology:?} {config:?}: {passed} routers");
            }
        }
    }
}

#[test]
fn a_flow_of_one_way_keeps_to_it() {
    for (topology, routing, single) in [
        (dragonfly(1, 2, 1), MINIMAL, true),
        (dragonfly(1, 2, 1), UGAL, false),
        (mesh(&[4, 4], 1), MINIMAL, true),
        (mesh(&[4, 4], 1), VALIANT, false),
        (torus(&[5, 3], 1), MINIMAL, true),
        (torus(&[5, 4], 1), MINIMAL, false),
        (hyperx(&[4, 4], 1), MINIMAL, true),
        (tree(2, 2), MINIMAL, false),
    ] {
        let (_, made) = build(&topology, &routing, None).expect("a good routing");
        assert_eq!(made.single_path(), single, "{topology:?} {routing:?}");
    }
}

#[test]
fn virtual_channels_as_many_as_needed_or_asked_for() {
    for (topology, routing, asked, vcs) in [
        (dragonfly(1, 2, 1), MINIMAL, None, 2),
        (dragonfly(1, 2, 1), VALIANT, None, 4),
        (dragonfly(1, 2, 1), UGAL, Some(4), 4),
        (dragonfly(1, 2, 1), PROGRESSIVE, None, 5),
        (
            dragonfly(1, 2, 1),
            Config::ProgressiveAdaptive { vcs_per_class: 3, rule: RULE },
            None,
            15,
        ),
        (mesh(&[4, 4], 1), MINIMAL, None, 1),
        (mesh(&[4, 4], 1), MINIMAL, Some(16), 16),
        (mesh(&[4, 4], 1), VALIANT, None, 2),
        (torus(&[4, 4], 1), MINIMAL, Some(5), 5),
        (torus(&[4, 4], 1), UGAL, None, 4),
        (hyperx(&[4, 4], 1), MINIMAL, Some(4), 4),
        (hyperx(&[4, 4], 1), VALIANT, Some(3), 3),
        (tree(2, 3), MINIMAL, Some(4), 4),
    ] {
        let (_, made) = build(&topology, &routing, asked).expect("a good routing");
        assert_eq!(made.vcs(), vcs, "{topology:?} {routing:?} {asked:?}");
    }
}

#[test]
fn errors_name_the_key() {
    for (topology, routing, asked, key) in [
        (dragonfly(1, 2, 1), MINIMAL, Some(1), "router.vcs"),
        (dragonfly(1, 2, 1), MINIMAL, Some(3), "router.vcs"),
        (dragonfly(1, 2, 1), PROGRESSIVE, Some(4), "router.vcs"),
        (torus(&[4, 4], 1), MINIMAL, Some(1), "router.vcs"),
        (torus(&[4, 4], 1), VALIANT, Some(3), "router.vcs"),
        (mesh(&[4, 4], 1), MINIMAL, Some(0), "router.vcs"),
        (mesh(&[4, 4], 1), MINIMAL, Some(17), "router.vcs"),
        (mesh(&[4, 4], 1), Config::Minimal { vcs_per_class: 0 }, None, "routing.vcs_per_class"),
        (dragonfly(1, 2, 1), Config::Valiant { vcs_per_class: 5 }, None, "routing.vcs_per_class"),
        (mesh(&[4, 4], 1), PROGRESSIVE, None, "routing.kind"),
        (hyperx(&[4, 4], 1), PROGRESSIVE, None, "routing.kind"),
        (tree(2, 3), PROGRESSIVE, None, "routing.kind"),
        (tree(2, 3), VALIANT, None, "routing.kind"),
        (tree(2, 3), UGAL, None, "routing.kind"),
    ] {
        let error = build(&topology, &routing, asked).expect_err("a bad configuration");
        assert_eq!(error.key, key, "{topology:?} {routing:?} {asked:?}: {error}");
    }
}

#[test]
fn too_few_virtual_channels_are_told_how_many_are_needed() {
    let error = build(&dragonfly(1, 2, 1), &UGAL, Some(3)).expect_err("too few");
    assert_eq!(error.to_string(), "router.vcs: the routing needs 4: 4 classes of 1");
}

/// Never diverts, and always draws the same via.
struct Fixed {
    via: u32,
    diverts: bool,
    asked: u32,
}

impl Senses for Fixed {
    fn below(&mut self, _count: u32) -> u32 {
        self.via
    }

    fn diverts(&mut self, _rule: &Divert, _minimal: Hop, _detour: Hop) -> bool {
        self.asked += 1;
        self.diverts
    }
}

#[test]
fn progressive_adaptive_asks_again_in_the_source_group_only() {
    let (fabric, routing) = build(&dragonfly(1, 4, 1), &PROGRESSIVE, None).expect("a good routing");
    let (_, once) = build(&dragonfly(1, 4, 1), &UGAL, None).expect("a good routing");
    // From router 0 of group 0 to group 2: by way of router 1, which has that
    // link. Node 14 is in group 3.
    for (routing, questions) in [(&routing, 2), (&once, 1)] {
        let mut senses = Fixed { via: 14, diverts: false, asked: 0 };
        let mut route = Route::new(0, 9);
        let mut at = At { router: 0, port: 0, vc: 0 };
        let mut passed = vec![0];
        while let End::Router { router, port } = {
            let hop = routing.hop(at, &mut route, &mut senses);
            at.vc = hop.vcs.trailing_zeros() as u8;
            fabric.link(at.router, hop.port).to
        } {
            at = At { router, port, ..at };
            passed.push(router);
        }
        assert_eq!(senses.asked, questions);
        assert_eq!(passed.first_chunk(), Some(&[0, 1, 8]));
    }
    // A via in the source's group or in the destination's is no detour.
    for via in [3, 11] {
        let mut senses = Fixed { via, diverts: true, asked: 0 };
        let mut route = Route::new(0, 9);
        routing.hop(At { router: 0, port: 0, vc: 0 }, &mut route, &mut senses);
        assert_eq!((senses.asked, route.via), (0, u32::MAX));
    }
}
