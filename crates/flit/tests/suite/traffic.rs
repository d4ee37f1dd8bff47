//! Destinations of the patterns, and traces.

use proptest::prelude::*;
use sluice_flit::config::{Pattern as Config, Topology as TopologyConfig};
use sluice_flit::topology::Topology;
use sluice_flit::traffic::{Message, Pattern, Trace};
use sluice_flit::{ConfigError, Rng, Stream};

fn torus(dims: &[u32], nodes_per_router: u32) -> TopologyConfig {
    TopologyConfig::Torus { dims: dims.to_vec(), nodes_per_router, latency_cycles: 1 }
}

fn dragonfly() -> TopologyConfig {
    TopologyConfig::Dragonfly {
        p: 2,
        a: 4,
        h: 2,
        local_latency_cycles: 1,
        global_latency_cycles: 1,
    }
}

fn pattern(config: &Config, topology: &TopologyConfig, seed: u64) -> Result<Pattern, ConfigError> {
    Pattern::new(config, &Topology::new(topology).expect("a good topology"), seed)
}

fn good(config: &Config, topology: &TopologyConfig) -> Pattern {
    pattern(config, topology, 7).expect("a good pattern")
}

fn rng() -> Rng {
    Rng::new(3, Stream::Source, 0)
}

/// The destinations of a pattern that never changes.
fn fixed(config: &Config, topology: &TopologyConfig, nodes: u32) -> Vec<Option<u32>> {
    let pattern = good(config, topology);
    (0..nodes).map(|node| pattern.destination(node, 0, &mut rng())).collect()
}

proptest! {
    #[test]
    fn pairs_are_mutual_and_at_most_one_is_its_own_partner(nodes in 1u32..60, seed: u64) {
        let pattern = pattern(&Config::Pairs, &torus(&[nodes], 1), seed).expect("a good pattern");
        let mut alone = 0;
        for node in 0..nodes {
            let to = pattern.destination(node, 5, &mut rng());
            prop_assert_eq!(to, pattern.partner(node));
            let to = to.expect("every node has a partner");
            prop_assert_eq!(pattern.partner(to), Some(node));
            alone += u32::from(to == node);
        }
        prop_assert_eq!(alone, nodes % 2);
    }
}

#[test]
fn pairs_depend_on_the_seed() {
    let partners = |seed| {
        let pattern = pattern(&Config::Pairs, &torus(&[64], 1), seed).expect("a good pattern");
        (0..64).map(|node| pattern.partner(node)).collect::<Vec<_>>()
    };
    assert_eq!(partners(1), partners(1));
    assert_ne!(partners(1), partners(2));
}

#[test]
fn uniform_draws_all_nodes_alike() {
    for with_self in [false, true] {
        let pattern = good(&Config::Uniform { with_self }, &torus(&[5], 1));
        let mut rng = rng();
        let mut drawn = [0u32; 5];
        for nth in 0..50_000 {
            drawn[pattern.destination(2, nth, &mut rng).expect("a destination") as usize] += 1;
        }
        for (node, count) in drawn.into_iter().enumerate() {
            let expected = match (with_self, node) {
                (false, 2) => 0,
                (false, _) => 12_500,
                (true, _) => 10_000,
            };
            assert!(count.abs_diff(expected) <= 500, "node {node}: {count}, not {expected}");
        }
        assert_eq!(pattern.partner(2), None);
    }
    assert_eq!(
        good(&Config::Uniform { with_self: false }, &torus(&[1], 1)).destination(0, 0, &mut rng()),
        None
    );
}

#[test]
fn tornado_goes_just_under_half_way() {
    // Routers (x, y) with two nodes each: 2 up of 5, 1 up of 3.
    let to = fixed(&Config::Tornado, &torus(&[5, 3], 2), 30);
    assert_eq!(to[0], Some((2 + 5) * 2));
    // Router 14 is at (4, 2), router 1 at (1, 0).
    assert_eq!(to[29], Some(3));
    // A dimension of 4 gives 1, one of 2 nothing.
    assert_eq!(fixed(&Config::Tornado, &torus(&[4, 2], 1), 8)[7], Some(4));
    let to = fixed(&Config::Tornado, &dragonfly(), 72);
    assert_eq!((to[0], to[71]), (Some(8), Some(7)));
    assert_eq!(good(&Config::Tornado, &dragonfly()).partner(0), None);
}

#[test]
fn transpose_and_complement_are_pairwise() {
    let to = fixed(&Config::Transpose, &torus(&[4, 4], 1), 16);
    assert_eq!((to[1], to[4], to[11]), (Some(4), Some(1), Some(14)));
    // The diagonal sends to itself.
    assert_eq!([to[0], to[5], to[10], to[15]], [0, 5, 10, 15].map(Some));
    let pattern = good(&Config::Transpose, &torus(&[4, 4], 1));
    assert_eq!((pattern.partner(1), pattern.partner(5)), (Some(4), Some(5)));
    let to = fixed(&Config::BitComplement, &torus(&[4, 4], 1), 16);
    assert_eq!((to[0], to[5], to[15]), (Some(15), Some(10), Some(0)));
    assert_eq!(good(&Config::BitComplement, &torus(&[4, 4], 1)).partner(5), Some(10));
}

#[test]
fn hot_nodes_get_their_share() {
    let pattern = good(&Config::Hotspot { nodes: 1, share: 0.4 }, &torus(&[11], 1));
    let mut rng = rng();
    let mut drawn = [0u32; 11];
    for node in 0..11 {
        for nth in 0..10_000 {
            let to = pattern.destination(node, nth, &mut rng).expect("a destination");
            assert_ne!(to, node);
            drawn[to as usize] += 1;
        }
    }
    // Of the ten others, the share and a tenth of the rest.
    let hottest = drawn.into_iter().max().expect("a node");
    assert!(hottest.abs_diff(46_000) < 1_000, "{hottest}");
}

#[test]
fn all_to_all_visits_the_others_in_turn() {
    let pattern = good(&Config::AllToAll, &torus(&[4], 1));
    let visited: Vec<_> = (0..7).map(|nth| pattern.destination(2, nth, &mut rng())).collect();
    assert_eq!(visited, [3, 0, 1, 3, 0, 1, 3].map(Some));
    assert_eq!(good(&Config::AllToAll, &torus(&[1], 1)).destination(0, 0, &mut rng()), None);
}

#[test]
fn errors_name_the_key() {
    let tree = TopologyConfig::FatTree { k: 3, n: 2, latency_cycles: 1 };
    for (config, topology, key) in [
        (Config::Tornado, &tree, "traffic.pattern"),
        (Config::Tornado, &torus(&[2, 2], 1), "traffic.pattern"),
        (Config::Transpose, &torus(&[4, 2], 1), "traffic.pattern"),
        (Config::BitComplement, &tree, "traffic.pattern"),
        (Config::Trace { path: "messages".into() }, &tree, "traffic.pattern"),
        (Config::Hotspot { nodes: 0, share: 0.5 }, &tree, "traffic.pattern.nodes"),
        (Config::Hotspot { nodes: 10, share: 0.5 }, &tree, "traffic.pattern.nodes"),
        (Config::Hotspot { nodes: 1, share: 1.5 }, &tree, "traffic.pattern.share"),
        (Config::Hotspot { nodes: 1, share: f64::NAN }, &tree, "traffic.pattern.share"),
    ] {
        let error = pattern(&config, topology, 1).expect_err("a bad pattern");
        assert_eq!(error.key, key, "{config:?}: {error}");
    }
}

#[test]
fn a_trace_is_sorted_by_source_and_cycle() {
    let text =
        "# cycle source destination flits\n\n10 1 0 3\n  5 1 2 4 # late\n5 0 0 1\r\n10 1 2 7\n";
    let trace = Trace::parse(text, 3).expect("a good trace");
    let message = |cycle, destination, flits| Message { cycle, destination, flits };
    assert_eq!(trace.messages(0), [message(5, 0, 1)]);
    assert_eq!(trace.messages(1), [message(5, 2, 4), message(10, 0, 3), message(10, 2, 7)]);
    assert_eq!(trace.messages(2), []);
    assert_eq!((trace.last_cycle(), trace.total_flits()), (Some(10), 15));
    let empty = Trace::parse("# nothing\n", 3).expect("a good trace");
    assert_eq!((empty.last_cycle(), empty.total_flits()), (None, 0));
}

#[test]
fn a_bad_line_is_named_with_what_it_should_be() {
    for (text, message) in [
        ("0 0 1 1\n0 0 1", "line 2: 3 fields; expected 4: cycle source destination flits"),
        ("0 0 1 1 1", "line 1: 5 fields; expected 4: cycle source destination flits"),
        (
            "\n-1 0 1 1",
            "line 2: cycle \"-1\"; expected a number of at least 0 and below 18446744073709551615",
        ),
        ("0 3 1 1", "line 1: source \"3\"; expected a number of at least 0 and below 3"),
        ("0 0 x 1", "line 1: destination \"x\"; expected a number of at least 0 and below 3"),
        ("0 0 1 0", "line 1: flits \"0\"; expected a number of at least 1 and below 4294967296"),
    ] {
        let error = Trace::parse(text, 3).expect_err("a bad line");
        assert_eq!(error.to_string(), message);
    }
}
