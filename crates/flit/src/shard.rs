//! A range of routers with their nodes, and one cycle of it.
//!
//! Every link takes at least one cycle. So what a router does in a cycle does not
//! depend on what others do in the same cycle. The routers of a shard run one after
//! the other, each through its whole cycle, and then the nodes.
//!
//! The files of [`crate::router`] and [`crate::endpoint`] hold the steps.

use crate::endpoint::{Home, Nodes, Sinks};
use crate::network::Network;
use crate::packet::{Flit, HEAD, Line, Packet, Packets};
use crate::peer::{Kind, Peer};
use crate::router::Router;
use crate::sample::Sample;
use crate::topology::End;
use crate::wheel::{Credits, Wheel, bits};
use std::sync::Arc;

/// What arrived in one cell of a ghost column: one shard sends it to another.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Letter {
    due: u32,
    pub shard: u16,
    column: u16,
    port: u8,
    /// A flit, or 0.
    flit: Flit,
    /// Credits, or 0.
    credits: Credits,
}

const _: () = assert!(size_of::<Letter>() == 12);

/// Letters in the order of the cycles in which they are due, and the packets of the
/// first flits among them.
#[derive(Debug, Default)]
pub(crate) struct Post {
    pub letters: Vec<Letter>,
    pub packets: Vec<Packet>,
}

/// The shard and place that a port of a ghost stands for.
#[derive(Clone, Copy, Debug)]
struct Ghost {
    shard: u16,
    column: u16,
    port: u8,
}

/// A flit's way through a switch, as recorded for tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Passage {
    /// When.
    pub cycle: u32,
    /// Where.
    pub router: u32,
    /// In by this port.
    pub in_port: u8,
    /// And this virtual channel.
    pub in_vc: u8,
    /// Out by this port.
    pub out_port: u8,
    /// And this virtual channel.
    pub out_vc: u8,
    /// Whether it was the last flit of its packet.
    pub tail: bool,
}

/// The state that the routers and nodes of a shard share.
#[derive(Debug)]
pub(crate) struct ShardState<const P: usize> {
    pub net: Arc<Network>,
    /// The cycle that runs.
    pub now: u32,
    pub wheel: Wheel<P>,
    pub packets: Packets,
    /// Packets whose first flit is in the queue or on the link to a port, by
    /// column and port.
    pub arriving: Vec<[Line; P]>,
    pub nodes: Nodes,
    pub sinks: Sinks,
    pub sample: Sample,
    /// Queues are limited or passages recorded.
    pub is_watched: bool,
    pub passages: Option<Vec<Passage>>,
}

/// See the head of the file.
#[derive(Debug)]
pub(crate) struct Shard<const P: usize, const V: usize> {
    pub routers: Vec<Router<P, V>>,
    pub state: ShardState<P>,
    /// By router.
    first_seats: Vec<u32>,
    ghosts: Vec<Ghost>,
    /// By the thread that runs the receiver.
    pub outbox: Vec<Post>,
}

impl<const P: usize, const V: usize> Shard<P, V> {
    pub fn new(net: Arc<Network>, id: usize) -> Shard<P, V> {
        let (first, end) = (net.cuts[id], net.cuts[id + 1]);
        let count = (end - first) as usize;
        let rows = Wheel::<P>::rows_of(net.horizon);
        let mut homes = Vec::new();
        let mut first_seats = Vec::with_capacity(count);
        let mut ghosts = Vec::new();
        let mut routers = Vec::with_capacity(count);
        for column in 0..count as u32 {
            let mut peers = [Peer::NONE; P];
            let first_seat = homes.len();
            first_seats.push(first_seat as u32);
            for port in 0..net.fabric.ports() {
                let link = net.fabric.link(first + column, port);
                let (flit_delay, credit_delay) = net.delays(link);
                let peer = |column: usize, port, kind| {
                    let base = (column * rows) as u32;
                    Peer { column: column as u32, base, flit_delay, credit_delay, port, kind }
                };
                peers[usize::from(port)] = match link.to {
                    End::None => Peer::NONE,
                    End::Node(node) => {
                        let node_port = net.fabric.ports() + (homes.len() - first_seat) as u8;
                        let to_router = credit_delay - 1 + net.measures.credit_cycles as u16;
                        let home =
                            Home { column, port, node_port, flit_delay, credit_delay: to_router };
                        homes.push((node, home));
                        peer(column as usize, node_port, Kind::Node)
                    }
                    End::Router { router, port } if (first..end).contains(&router) => {
                        peer((router - first) as usize, port, Kind::Router)
                    }
                    End::Router { router, port } => {
                        let shard = net.shard_of(router);
                        let there = u16::try_from(router - net.cuts[shard])
                            .expect("a shard with neighbours is not that large");
                        let nth = ghosts.len();
                        ghosts.push(Ghost { shard: shard as u16, column: there, port });
                        peer(count + nth / P, (nth % P) as u8, Kind::Ghost)
                    }
                };
            }
            routers.push(Router::new(&net, column, first + column, peers));
        }
        let columns = count + ghosts.len().div_ceil(P);
        let nodes = Nodes::new(&net, &homes);
        let state = ShardState {
            now: 0,
            wheel: Wheel::new(net.horizon, columns),
            packets: Packets::default(),
            arriving: vec![[Line::EMPTY; P]; columns],
            sinks: Sinks::new(&net, &nodes),
            nodes,
            sample: Sample::new(0),
            is_watched: net.measures.output_queue < usize::MAX,
            passages: None,
            net,
        };
        let outbox = (0..state.net.threads).map(|_| Post::default()).collect();
        Shard { routers, state, first_seats, ghosts, outbox }
    }

    /// Brings the state of the shard into the cache. A window works on some hundred
    /// kilobytes, which the windows of the other shards have evicted. To read them in
    /// sequence, many lines at once, is far cheaper than to wait for each line when it
    /// is needed.
    pub fn touch(&self) {
        let routers = self.routers.iter().map(Router::touch).fold(0, u64::wrapping_add);
        let nodes = self
            .state
            .nodes
            .sources
            .iter()
            .map(|source| u64::from(source.outstanding) + u64::from(source.node))
            .sum::<u64>();
        std::hint::black_box(routers.wrapping_add(nodes).wrapping_add(self.state.wheel.touch()));
    }

    /// Runs the cycles up to but not including `until`.
    pub fn run(&mut self, until: u32) {
        while self.state.now < until {
            let steps = self.state.net.measures.steps(self.state.now);
            for column in 0..self.routers.len() {
                self.cycle_of(column, steps);
            }
            self.state.run_sinks();
            self.state.run_sources();
            self.state.now += 1;
        }
        self.write_letters();
    }

    #[inline(always)]
    fn cycle_of(&mut self, column: usize, steps: u32) {
        let Shard { routers, state, first_seats, .. } = self;
        let router = &mut routers[column];
        let cell = state.wheel.cell(state.now, column);
        if cell.flits_due | cell.credits_due == 0 && !router.has_work() {
            return;
        }
        let flits = std::mem::take(&mut cell.flits_due);
        let credits = std::mem::take(&mut cell.credits_due);
        let nodes = u64::MAX << state.net.measures.ports;
        for port in bits(credits & !nodes) {
            router.credit(port, std::mem::take(&mut cell.credits[port & (P - 1)]));
        }
        let words = cell.flits;
        if credits & nodes != 0 {
            let returned = std::mem::replace(&mut cell.credits, [0; P]);
            for port in bits(credits & nodes) {
                let seat = first_seats[column] as usize + port - state.net.measures.ports;
                state.return_credits(seat, returned[port & (P - 1)]);
            }
        }
        for port in bits(flits & nodes) {
            let seat = first_seats[column] as usize + port - state.net.measures.ports;
            state.eject(seat, words[port & (P - 1)]);
        }
        for port in bits(flits & !nodes) {
            router.accept(port, words[port & (P - 1)], state);
        }
        let mut fresh = 0;
        for _ in 0..steps {
            fresh = 0;
            if !router.can_step() {
                break;
            }
            fresh = router.step(state);
        }
        router.send(fresh, state);
    }

    /// The seat of the node at a port.
    pub fn seat(&self, column: usize, port: usize) -> usize {
        let node_port = self.routers[column].peers[port].port;
        self.first_seats[column] as usize + usize::from(node_port) - self.state.net.measures.ports
    }

    /// What came to the ghosts goes into the outbox.
    fn write_letters(&mut self) {
        let state = &mut self.state;
        for (nth, ghosts) in self.ghosts.chunks(P).enumerate() {
            let column = self.routers.len() + nth;
            for ahead in 0..state.wheel.rows() {
                let due = state.now + ahead;
                let cell = state.wheel.cell(due, column);
                let (flits, credits) =
                    (std::mem::take(&mut cell.flits_due), std::mem::take(&mut cell.credits_due));
                if flits | credits == 0 {
                    continue;
                }
                let words = cell.flits;
                let returns = std::mem::replace(&mut cell.credits, [0; P]);
                for port in bits(flits | credits) {
                    let Ghost { shard, column: there, port: port_there } = ghosts[port];
                    let flit = if flits >> port & 1 != 0 { words[port & (P - 1)] } else { 0 };
                    let credits = returns[port & (P - 1)];
                    let post = &mut self.outbox[state.net.thread_of(usize::from(shard))];
                    post.letters.push(Letter {
                        due,
                        shard,
                        column: there,
                        port: port_there,
                        flit,
                        credits,
                    });
                    // The packet goes along with its first flit; the flits
                    // behind that are told by their channel.
                    if flit & HEAD != 0 {
                        let packet =
                            state.packets.leave(&mut state.arriving[column][port & (P - 1)]);
                        post.packets.push(state.packets.remove(packet));
                    }
                }
            }
        }
    }

    /// Takes in what another shard sent; a first flit takes its packet from
    /// `packets`.
    #[inline(always)]
    pub fn deliver(&mut self, letter: Letter, packets: &mut impl Iterator<Item = Packet>) {
        let Letter { due, column, port, flit, credits, .. } = letter;
        let (state, column) = (&mut self.state, usize::from(column));
        if credits != 0 {
            state.wheel.put_credits(due, column, port, credits);
        }
        if flit != 0 {
            if flit & HEAD != 0 {
                let packet =
                    state.packets.insert(packets.next().expect("a first flit brings its packet"));
                state
                    .packets
                    .join(&mut state.arriving[column][usize::from(port) & (P - 1)], packet);
            }
            state.wheel.put_flit(due, column, port, flit);
        }
    }
}
