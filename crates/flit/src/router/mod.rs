//! An input-queued router with virtual channels and credits.
//!
//! A flit that arrives in cycle t at an empty channel is given an output
//! channel in t, passes the switch in t+1, leaves in t+2 at the earliest and
//! arrives over a link of latency L in t+3+L: the pipeline of BookSim 2 with
//! one cycle a stage and routes looked up ahead. With an internal speedup the
//! steps between are taken more than once a cycle.
//!
//! A router's state is contiguous, in arrays of fixed size: `P` ports and `V` virtual
//! channels. Both are powers of two, at least as large as the network needs. An index
//! is masked instead of checked.
//!
//! - `input`: buffers, and the way of a packet that comes to the front.
//! - `allocate`: output channels to packets, the switch to flits.
//! - `output`: passing the switch, output queues, links, credits.

mod allocate;
mod check;
mod input;
mod output;
mod queue;

use crate::network::Network;
use crate::packet::{Line, NO_PACKET};
use crate::peer::Peer;
use crate::{Rng, Stream};
use queue::Queue;

pub(crate) use input::flow_channel;

/// What the packet at the front of an input channel is doing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum State {
    /// There is none.
    #[default]
    Idle,
    /// It waits for a channel of its output.
    Waiting,
    /// It has one; none of its flits has passed.
    Fresh,
    /// Some of its flits have passed.
    Running,
}

/// An input channel.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Input {
    /// Flits in the buffer.
    pub flits: u16,
    /// Flits of the front packet that have not passed.
    pub left: u16,
    /// Output channels that the front packet may have (a set, while it
    /// waits), or the one that it has.
    pub vcs: u16,
    /// Its output port.
    pub port: u8,
    pub state: State,
}

const _: () = assert!(size_of::<Input>() == 8);

/// No input channel.
const NOBODY: u16 = u16::MAX;

/// An output channel.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OutputVc {
    /// Flits that the other end has room for.
    pub credits: u16,
    /// Input channel (port times 16 plus channel) whose packet holds this one.
    pub owner: u16,
}

/// What a channel needs once a packet.
#[derive(Clone, Copy, Debug)]
struct PacketVc {
    /// The packet at the front of the input channel, and those behind it.
    front: u32,
    line: Line,
    /// Input channel that goes first for the output channel.
    claim_next: u16,
    /// Output port that the input channel got a channel of last, and the channel
    /// behind that one. It goes round all output channels of the router, port by
    /// port.
    wish_port: u8,
    wish_next: u8,
}

const _: () = assert!(size_of::<PacketVc>() == 16);

const IDLE_PACKET_VC: PacketVc =
    PacketVc { front: NO_PACKET, line: Line::EMPTY, claim_next: 0, wish_port: 0, wish_next: 0 };

impl PacketVc {
    /// Of these channels of an output, the one that the input channel asks for. Its
    /// pointer is above or below all of another port's, so the first of them it is.
    #[inline(always)]
    fn wish(&self, output: usize, set: u16) -> usize {
        let from = if usize::from(self.wish_port) == output { self.wish_next } else { 0 };
        first_from(u64::from(set), u32::from(from)) as usize
    }
}

/// The state of one router.
#[derive(Debug)]
pub(crate) struct Router<const P: usize, const V: usize> {
    pub id: u32,
    /// Its column in the wheel.
    column: u32,
    ports: u8,
    vcs: u8,
    /// Input ports with a channel that could pass the switch.
    ready_ports: u64,
    /// Output ports where channels can perhaps be given out.
    dirty: u64,
    /// Output ports with flits in the queue.
    queued: u64,
    /// Output ports whose queue is full.
    full: u64,
    rng: Rng,
    /// Input channels of a port that could pass the switch at once.
    ready: [u16; P],
    /// Input channels of a port that wait for a channel of an output.
    waiting: [u16; P],
    /// Channels of an output port that no packet holds.
    free: [u16; P],
    /// Output that an input port asks for first at the switch, and the channel
    /// that goes first among those for the same output.
    input_next: [(u8, u8); P],
    /// Input port that goes first at an output.
    output_next: [u8; P],
    pub peers: [Peer; P],
    /// Flits that the other end of a link holds, each channel.
    room: [u16; P],
    /// Flits that left by a port since the last sample.
    pub sent: [u32; P],
    pub inputs: [[Input; V]; P],
    outputs: [[OutputVc; V]; P],
    queues: [Queue; P],
    /// Input ports that have a channel waiting for this output.
    waiters: [u64; P],
    packet_vcs: [[PacketVc; V]; P],
}

impl<const P: usize, const V: usize> Router<P, V> {
    pub fn new(net: &Network, column: u32, id: u32, peers: [Peer; P]) -> Router<P, V> {
        let (ports, vcs) = (net.measures.ports, net.measures.vcs);
        assert!(P >= ports && V >= vcs && P.is_power_of_two() && V.is_power_of_two());
        let room = |port: usize| if port < ports { net.room(id, port as u8) } else { 0 };
        Router {
            id,
            column,
            ports: ports as u8,
            vcs: vcs as u8,
            ready_ports: 0,
            dirty: 0,
            queued: 0,
            full: 0,
            rng: Rng::new(net.seed, Stream::Router, u64::from(id)),
            ready: [0; P],
            waiting: [0; P],
            free: [((1u32 << vcs) - 1) as u16; P],
            input_next: [(0, 0); P],
            output_next: [0; P],
            peers,
            room: std::array::from_fn(room),
            sent: [0; P],
            inputs: [[Input::default(); V]; P],
            outputs: std::array::from_fn(|port| {
                [OutputVc { credits: room(port), owner: NOBODY }; V]
            }),
            queues: std::array::from_fn(|_| Queue::default()),
            waiters: [0; P],
            packet_vcs: [[IDLE_PACKET_VC; V]; P],
        }
    }

    /// Reads a value of each cache line that a busy router uses. The result has no
    /// meaning: it keeps the compiler from dropping the reads.
    pub fn touch(&self) -> u64 {
        let mut sum = u64::from(self.ready[0]) + u64::from(self.sent[P - 1]);
        for port in 0..usize::from(self.ports) {
            for vc in (0..V).step_by(8) {
                sum += u64::from(self.inputs[port][vc].flits);
            }
            for vc in (0..V).step_by(16) {
                sum += u64::from(self.outputs[port][vc].credits);
            }
            for vc in (0..usize::from(self.vcs)).step_by(3) {
                sum += u64::from(self.packet_vcs[port][vc].front);
            }
            sum += u64::from(self.queues[port].is_empty()) + u64::from(self.peers[port].base);
            sum += self.waiters[port];
        }
        sum
    }

    #[inline(always)]
    pub fn has_work(&self) -> bool {
        self.ready_ports | self.dirty | self.queued != 0
    }

    #[inline(always)]
    pub fn can_step(&self) -> bool {
        self.ready_ports | self.dirty != 0
    }

    #[inline(always)]
    fn input(&mut self, port: usize, vc: usize) -> &mut Input {
        &mut self.inputs[port & (P - 1)][vc & (V - 1)]
    }

    #[inline(always)]
    fn output(&mut self, port: usize, vc: usize) -> &mut OutputVc {
        &mut self.outputs[port & (P - 1)][vc & (V - 1)]
    }

    #[inline(always)]
    fn packet_vc(&mut self, port: usize, vc: usize) -> &mut PacketVc {
        &mut self.packet_vcs[port & (P - 1)][vc & (V - 1)]
    }

    /// Flits sent by a port's channel and not yet credited.
    #[inline(always)]
    pub fn used(&self, port: usize, vc: usize) -> u32 {
        u32::from(self.room[port & (P - 1)] - self.outputs[port & (P - 1)][vc & (V - 1)].credits)
    }

    /// Flits sent by a port and not yet credited.
    pub fn used_by_port(&self, port: usize) -> u32 {
        (0..usize::from(self.vcs)).map(|vc| self.used(port, vc)).sum()
    }

    #[inline(always)]
    fn set_ready(&mut self, port: usize, vc: usize) {
        self.ready[port & (P - 1)] |= 1 << vc;
        self.ready_ports |= 1 << port;
    }
}

/// The first member of a set from `from` on, around the end.
#[inline(always)]
pub(crate) fn first_from(set: u64, from: u32) -> u32 {
    debug_assert!(set != 0);
    // A pointer may stand behind the last member there could be.
    let above = set & u64::MAX.wrapping_shl(from);
    // With the top bit set, the instruction needs no case for an empty set.
    (if above != 0 { above } else { set } | 1 << 63).trailing_zeros()
}
