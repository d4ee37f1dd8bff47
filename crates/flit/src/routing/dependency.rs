//! Whether packets can wait for each other in a circle.
//!
//! A packet that holds a virtual channel and asks for another makes the one
//! depend on the other. The checker sends one packet from every node to every
//! node, answers all questions of the routing in every possible way, and looks
//! for a circle among the dependencies found. Where there is none the network
//! cannot lock up, whatever the traffic (Dally and Seitz, 1987).
//!
//! Every combination of answers is tried, so this is for small networks; a
//! plan of channels that holds for one holds for a larger one of its kind.
//! Channels from nodes are left out because nothing waits for them, and those
//! to nodes because nodes always drain them.

use std::collections::HashMap;
use std::fmt;

use super::{At, Hop, Route, Routing, Senses};
use crate::config::Divert;
use crate::topology::{End, Fabric};

/// What was checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Checked {
    /// Virtual channels between routers that some packet can ask for.
    pub channels: usize,
    /// Pairs of them of which a packet can hold the one and ask for the other.
    pub dependencies: usize,
    /// Most routers that a packet can pass.
    pub routers_max: u32,
}

/// A virtual channel of a link between two routers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Channel {
    /// The router that it leaves.
    pub from: u32,
    /// The port by which it leaves it.
    pub port: u8,
    /// The router that it leads to.
    pub to: u32,
    /// Which one of the link.
    pub vc: u8,
}

impl fmt::Display for Channel {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            out,
            "router {} -> router {} (port {}, vc {})",
            self.from, self.to, self.port, self.vc
        )
    }
}

/// Channels each of which can wait for the next, and the last for the first.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("packets can wait for each other in a circle: {}", listed(.channels))]
pub struct Cycle {
    /// The channels.
    pub channels: Vec<Channel>,
}

fn listed(channels: &[Channel]) -> String {
    channels.iter().map(Channel::to_string).collect::<Vec<_>>().join(", ")
}

/// Checks a routing on a network.
///
/// # Errors
/// Names the channels of a circle, if there is one.
///
/// # Panics
/// If the routing sends a packet nowhere, to the wrong node or in a cycle, or asks for
/// channels that do not exist. That is an error in the file of the routing.
pub fn check(fabric: &Fabric, routing: &Routing) -> Result<Checked, Cycle> {
    search(
        fabric,
        routing.vcs(),
        |route, answers| routing.entry(route, answers),
        |at, route, answers| routing.hop(at, route, answers),
    )
}

fn search(
    fabric: &Fabric,
    vcs: u8,
    entry: impl Fn(&mut Route, &mut Answers) -> u16,
    hop: impl Fn(At, &mut Route, &mut Answers) -> Hop,
) -> Result<Checked, Cycle> {
    let channels = fabric.routers() as usize * usize::from(fabric.ports()) * usize::from(vcs);
    let mut walk = Walk {
        fabric,
        vcs,
        hop,
        waits: vec![Vec::new(); channels],
        used: vec![false; channels],
        passed: HashMap::new(),
    };
    let mut routers_max = 0;
    for source in 0..fabric.nodes() {
        for destination in 0..fabric.nodes() {
            walk.passed.clear();
            let (router, port) = fabric.home(source);
            let mut answers = Answers::default();
            while answers.next() {
                let mut route = Route::new(source, destination);
                let set = entry(&mut route, &mut answers);
                for vc in walk.members(set) {
                    routers_max =
                        routers_max.max(walk.routers_from(At { router, port, vc }, route));
                }
            }
        }
    }
    match circle(&walk.waits) {
        Some(ids) => Err(Cycle { channels: ids.into_iter().map(|id| walk.channel(id)).collect() }),
        None => Ok(Checked {
            channels: walk.used.iter().filter(|&&used| used).count(),
            dependencies: walk.waits.iter().map(Vec::len).sum(),
            routers_max,
        }),
    }
}

/// All ways from one node to another.
struct Walk<'a, F> {
    fabric: &'a Fabric,
    vcs: u8,
    hop: F,
    /// The channels that a packet can ask for while it holds one.
    waits: Vec<Vec<u32>>,
    used: Vec<bool>,
    /// Most routers to pass from a state, itself included; none while its ways
    /// are still being followed.
    passed: HashMap<(u32, u8, u8, Route), Option<u32>>,
}

impl<F: Fn(At, &mut Route, &mut Answers) -> Hop> Walk<'_, F> {
    /// Follows all ways from a state and returns the most routers passed.
    fn routers_from(&mut self, at: At, route: Route) -> u32 {
        let state = (at.router, at.port, at.vc, route);
        if let Some(known) = self.passed.get(&state) {
            return known.unwrap_or_else(|| panic!("{route:?} comes back to {at:?}"));
        }
        self.passed.insert(state, None);
        let held = match self.fabric.link(at.router, at.port).to {
            End::Router { router, port } => Some(self.id(router, port, at.vc)),
            _ => None,
        };
        let mut most = 0;
        let mut answers = Answers::default();
        while answers.next() {
            let mut route = route;
            let hop = (self.hop)(at, &mut route, &mut answers);
            let further = match self.fabric.link(at.router, hop.port).to {
                End::None => {
                    panic!("{route:?} at {at:?} takes port {}, which has no link", hop.port)
                }
                End::Node(node) => {
                    assert_eq!(node, route.destination, "{route:?} arrived at the wrong node");
                    assert!(self.members(hop.vcs).next().is_some());
                    0
                }
                End::Router { router, port } => self
                    .members(hop.vcs)
                    .map(|vc| {
                        let asked = self.id(at.router, hop.port, vc);
                        self.used[asked] = true;
                        if let Some(held) = held
                            && !self.waits[held].contains(&(asked as u32))
                        {
                            self.waits[held].push(asked as u32);
                        }
                        self.routers_from(At { router, port, vc }, route)
                    })
                    .max()
                    .expect("a hop names at least one channel"),
            };
            most = most.max(further + 1);
        }
        self.passed.insert(state, Some(most));
        most
    }

    /// The members of a set of virtual channels.
    fn members(&self, set: u16) -> impl Iterator<Item = u8> + use<F> {
        assert!(
            u32::from(set) >> self.vcs == 0,
            "{set:#b} has more than {} virtual channels",
            self.vcs
        );
        (0..self.vcs).filter(move |vc| set >> vc & 1 == 1)
    }

    fn id(&self, router: u32, port: u8, vc: u8) -> usize {
        (router as usize * usize::from(self.fabric.ports()) + usize::from(port))
            * usize::from(self.vcs)
            + usize::from(vc)
    }

    fn channel(&self, id: u32) -> Channel {
        let vcs = u32::from(self.vcs);
        let ports = u32::from(self.fabric.ports());
        let (from, port) = (id / vcs / ports, (id / vcs % ports) as u8);
        let End::Router { router: to, .. } = self.fabric.link(from, port).to else {
            unreachable!("only channels between routers are waited for");
        };
        Channel { from, port, to, vc: (id % vcs) as u8 }
    }
}

/// Answers a routing's questions, in every possible way one after the other.
#[derive(Default)]
struct Answers {
    /// The answer to each question, and how many answers it has.
    given: Vec<(u32, u32)>,
    asked: usize,
    begun: bool,
}

impl Answers {
    /// Goes on to the next way to answer; false after the last.
    fn next(&mut self) -> bool {
        self.asked = 0;
        if !self.begun {
            self.begun = true;
            return true;
        }
        while let Some((answer, count)) = self.given.pop() {
            if answer + 1 < count {
                self.given.push((answer + 1, count));
                return true;
            }
        }
        false
    }
}

impl Senses for Answers {
    fn below(&mut self, count: u32) -> u32 {
        if self.asked == self.given.len() {
            self.given.push((0, count));
        }
        let (answer, of) = self.given[self.asked];
        assert_eq!(of, count, "a routing asks the same when it gets the same answers");
        self.asked += 1;
        answer
    }

    fn diverts(&mut self, _rule: &Divert, _minimal: Hop, _detour: Hop) -> bool {
        self.below(2) == 1
    }
}

/// A circle in a graph, if there is one.
fn circle(edges: &[Vec<u32>]) -> Option<Vec<u32>> {
    #[derive(Clone, Copy, PartialEq)]
    enum Mark {
        New,
        Open,
        Done,
    }
    let mut marks = vec![Mark::New; edges.len()];
    for start in 0..edges.len() {
        if marks[start] != Mark::New {
            continue;
        }
        marks[start] = Mark::Open;
        // The path from the start, each with the edges it has yet to follow.
        let mut path = vec![(start as u32, edges[start].iter())];
        while let Some((here, rest)) = path.last_mut() {
            match rest.next() {
                None => {
                    marks[*here as usize] = Mark::Done;
                    path.pop();
                }
                Some(&to) => match marks[to as usize] {
                    Mark::New => {
                        marks[to as usize] = Mark::Open;
                        path.push((to, edges[to as usize].iter()));
                    }
                    Mark::Open => {
                        let from = path
                            .iter()
                            .position(|step| step.0 == to)
                            .expect("an open node is on the path");
                        return Some(path[from..].iter().map(|step| step.0).collect());
                    }
                    Mark::Done => {}
                },
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::Cube;

    #[test]
    fn a_ring_of_one_class_is_found_to_lock_up() {
        let fabric = Cube::new(&[4], true, 1, 1).expect("a ring").fabric();
        // Always up, whatever the distance.
        let up = |at: At, route: &mut Route, _: &mut Answers| Hop {
            port: if at.router == route.destination { 2 } else { 0 },
            vcs: 1,
        };
        let cycle = search(&fabric, 1, |_, _| 1, up).expect_err("a circle");
        assert_eq!(cycle.channels.len(), 4);
        let text = cycle.to_string();
        assert!(text.starts_with("packets can wait for each other in a circle: router "), "{text}");
        assert!(text.contains("router 3 -> router 0 (port 0, vc 0)"), "{text}");
    }

    #[test]
    #[should_panic(expected = "comes back")]
    fn a_packet_sent_round_and_round_is_noticed() {
        let fabric = Cube::new(&[4], true, 1, 1).expect("a ring").fabric();
        let _ = search(&fabric, 1, |_, _| 1, |_, _, _| Hop { port: 0, vcs: 1 });
    }

    #[test]
    fn answers_cover_every_combination() {
        let mut answers = Answers::default();
        let mut seen = Vec::new();
        while answers.next() {
            // The second question depends on the first answer.
            let first = answers.below(3);
            seen.push((first, if first == 1 { 0 } else { answers.below(2) }));
        }
        assert_eq!(seen, [(0, 0), (0, 1), (1, 0), (2, 0), (2, 1)]);
    }
}
