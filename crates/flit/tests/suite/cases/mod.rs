//! Small networks that between them use everything a configuration can say.

#![allow(dead_code)] // Every test uses a part of it.

use sluice_flit::config::{
    Config, Divert, Endpoint, Marking, MarkingQueue, Metric, Pattern, Router, Routing, Slow,
    Topology, Traffic,
};

pub const UNIFORM: Pattern = Pattern::Uniform { with_self: false };

pub fn mesh(dims: &[u32]) -> Topology {
    Topology::Mesh { dims: dims.to_vec(), nodes_per_router: 1, latency_cycles: 1 }
}

pub fn torus(dims: &[u32]) -> Topology {
    Topology::Torus { dims: dims.to_vec(), nodes_per_router: 1, latency_cycles: 1 }
}

/// 72 nodes in nine groups.
pub fn dragonfly() -> Topology {
    Topology::Dragonfly { p: 2, a: 4, h: 2, local_latency_cycles: 2, global_latency_cycles: 7 }
}

pub fn minimal() -> Routing {
    Routing::Minimal { vcs_per_class: 1 }
}

pub fn divert(metric: Metric) -> Divert {
    Divert { bias: 1.0, threshold_flits: 2, metric }
}

/// Uniform traffic of packets of 4 flits, with small buffers.
pub fn config(topology: Topology, routing: Routing, load: f64) -> Config {
    Config {
        topology,
        routing,
        router: Router { buffer_flits: 8, ..Router::default() },
        traffic: Traffic { pattern: UNIFORM, load, packet_flits: 4, message_flits: None },
        endpoint: Endpoint::default(),
        seed: 1,
    }
}

/// Slow memory at a tenth of the nodes.
pub fn slow(factor: u32) -> Slow {
    Slow { share: 0.1, factor, buffer_flits: None }
}

/// Marks early, and throttles for long.
pub fn marking(metric: Metric) -> Marking {
    Marking { from: 0.25, rate: 2.0, metric, ..Marking::default() }
}

/// A change of a configuration, and what it is called.
type Change = (&'static str, fn(&mut Config));

const SWITCHES: [Change; 9] = [
    ("as it is", |_| {}),
    ("speedup 1.5", |config| config.router.speedup = 1.5),
    ("speedup 2.4", |config| config.router.speedup = 2.4),
    ("speedup 3", |config| config.router.speedup = 3.0),
    ("speedup 0.7", |config| config.router.speedup = 0.7),
    ("two rounds", |config| config.router.iterations = 2),
    ("three rounds, speedup 2, queues of 2", |config| {
        config.router.iterations = 3;
        config.router.speedup = 2.0;
        config.router.output_queue_flits = Some(2);
    }),
    ("queues of 1", |config| config.router.output_queue_flits = Some(1)),
    ("a longer pipeline, quick credits", |config| {
        config.router.extra_pipeline_cycles = 2;
        config.router.credit_cycles = 0;
    }),
];

const ENDPOINTS: [Change; 11] = [
    ("slow nodes", |config| config.endpoint.slow = slow(4)),
    ("slow nodes with little room", |config| {
        config.endpoint.slow = Slow { buffer_flits: Some(3), ..slow(2) };
    }),
    ("marks by channel", |config| {
        config.endpoint.slow = slow(8);
        config.endpoint.marking = Some(marking(Metric::VirtualChannel));
    }),
    ("marks by port, in pairs", |config| {
        config.traffic.pattern = Pattern::Pairs;
        config.endpoint.slow = slow(8);
        config.endpoint.marking = Some(marking(Metric::Port));
    }),
    ("marks by the channel that packets come from", |config| {
        config.endpoint.slow = slow(8);
        let marking = marking(Metric::VirtualChannel);
        config.endpoint.marking = Some(Marking { queue: MarkingQueue::Input, ..marking });
    }),
    ("marks by the port that packets come from, in pairs", |config| {
        config.traffic.pattern = Pattern::Pairs;
        config.endpoint.slow = slow(8);
        let marking = marking(Metric::Port);
        config.endpoint.marking = Some(Marking { queue: MarkingQueue::Input, ..marking });
    }),
    ("a limit of 1, in pairs", |config| {
        config.traffic.pattern = Pattern::Pairs;
        config.endpoint.outstanding_packets = Some(1);
    }),
    ("a limit of 3, in pairs, messages of 10 flits", |config| {
        config.traffic.pattern = Pattern::Pairs;
        config.traffic.message_flits = Some(10);
        config.endpoint.outstanding_packets = Some(3);
    }),
    ("a limit of 2, to anybody", |config| config.endpoint.outstanding_packets = Some(2)),
    ("limit, marks and slow nodes, in pairs", |config| {
        config.traffic.pattern = Pattern::Pairs;
        config.endpoint.slow = slow(8);
        config.endpoint.marking = Some(marking(Metric::VirtualChannel));
        config.endpoint.outstanding_packets = Some(4);
    }),
    ("limit, marks and slow nodes, to hot nodes", |config| {
        config.traffic.pattern = Pattern::Hotspot { nodes: 2, share: 0.3 };
        config.endpoint.slow = slow(4);
        config.endpoint.marking = Some(marking(Metric::Port));
        config.endpoint.outstanding_packets = Some(4);
    }),
];

/// Every topology with every routing that it knows.
fn networks() -> Vec<(&'static str, Config)> {
    let ugal = |metric| Routing::Ugal { vcs_per_class: 1, rule: divert(metric) };
    let progressive =
        |metric| Routing::ProgressiveAdaptive { vcs_per_class: 1, rule: divert(metric) };
    let valiant = || Routing::Valiant { vcs_per_class: 1 };
    let of = |topology: Topology, routing: Routing| config(topology, routing, 0.5);
    let hyperx = || Topology::Hyperx { dims: vec![3, 4], nodes_per_router: 2, latency_cycles: 2 };
    let butterfly =
        Topology::FlattenedButterfly { k: 3, n: 2, nodes_per_router: 3, latency_cycles: 1 };
    vec![
        ("mesh 3x3", of(mesh(&[3, 3]), minimal())),
        ("mesh 3x3 with 3 channels", of(mesh(&[3, 3]), Routing::Minimal { vcs_per_class: 3 })),
        ("mesh 4x2, ugal", of(mesh(&[4, 2]), ugal(Metric::Port))),
        ("torus 4x4", of(torus(&[4, 4]), Routing::Minimal { vcs_per_class: 2 })),
        ("torus 5x3, valiant", of(torus(&[5, 3]), valiant())),
        ("torus 4x2, ugal", of(torus(&[4, 2]), ugal(Metric::VirtualChannel))),
        ("dragonfly, minimal", of(dragonfly(), minimal())),
        ("dragonfly, valiant", of(dragonfly(), valiant())),
        ("dragonfly, ugal", of(dragonfly(), ugal(Metric::Port))),
        ("dragonfly, progressive", of(dragonfly(), progressive(Metric::Port))),
        ("dragonfly, progressive by channel", of(dragonfly(), progressive(Metric::VirtualChannel))),
        (
            "dragonfly, progressive, 15 channels",
            of(
                dragonfly(),
                Routing::ProgressiveAdaptive { vcs_per_class: 3, rule: divert(Metric::Port) },
            ),
        ),
        ("tree 3-ary 2", of(Topology::FatTree { k: 3, n: 2, latency_cycles: 1 }, minimal())),
        (
            "tree 2-ary 4 with 3 channels",
            of(
                Topology::FatTree { k: 2, n: 4, latency_cycles: 3 },
                Routing::Minimal { vcs_per_class: 3 },
            ),
        ),
        ("hyperx 3x4", of(hyperx(), minimal())),
        ("hyperx 3x4, ugal", of(hyperx(), ugal(Metric::Port))),
        ("flattened butterfly", of(butterfly, Routing::Minimal { vcs_per_class: 2 })),
        (
            "twenty ports",
            of(
                Topology::Hyperx { dims: vec![3], nodes_per_router: 18, latency_cycles: 1 },
                minimal(),
            ),
        ),
        (
            "thirty-six ports",
            of(
                Topology::Hyperx { dims: vec![36], nodes_per_router: 1, latency_cycles: 1 },
                minimal(),
            ),
        ),
    ]
}

/// Every network at two loads, some with each change of the router, and some
/// with each change of the nodes.
pub fn all() -> Vec<(String, Config)> {
    let mut cases = Vec::new();
    let mut add = |network: &str, config: &Config, (what, change): Change, load: f64| {
        let mut config = config.clone();
        config.traffic.load = load;
        config.seed = 1 + cases.len() as u64;
        change(&mut config);
        cases.push((format!("{network}, load {load}, {what}"), config));
    };
    for (nth, (name, config)) in networks().iter().enumerate() {
        add(name, config, SWITCHES[0], 0.15);
        add(name, config, SWITCHES[nth % SWITCHES.len()], 1.0);
        add(name, config, ENDPOINTS[nth % ENDPOINTS.len()], 0.8);
        if nth % 3 == 0 {
            SWITCHES[1..].iter().for_each(|&change| add(name, config, change, 0.9));
        }
        if nth % 3 == 1 || nth == 3 {
            ENDPOINTS.iter().for_each(|&change| add(name, config, change, 0.9));
        }
        if nth == 0 || nth == 6 || nth == 14 {
            add(name, config, ("in order", |config| config.router.in_order = true), 0.9);
            add(
                name,
                config,
                ("in order, with everything", |config| {
                    config.router.in_order = true;
                    ENDPOINTS[7].1(config);
                }),
                1.0,
            );
        }
    }
    for (name, pattern) in [
        ("transpose", Pattern::Transpose),
        ("complement", Pattern::BitComplement),
        ("tornado", Pattern::Tornado),
        ("all to all", Pattern::AllToAll),
        ("with self", Pattern::Uniform { with_self: true }),
    ] {
        let mut config = config(torus(&[4, 4]), Routing::Minimal { vcs_per_class: 2 }, 0.7);
        config.traffic.pattern = pattern;
        config.traffic.packet_flits = 1;
        config.endpoint.outstanding_packets = Some(8);
        cases.push((name.to_string(), config));
    }
    cases
}
