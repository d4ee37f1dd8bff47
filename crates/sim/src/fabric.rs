//! A switch between a few nodes, frame by frame, whose buffers fill up: where a
//! slow sink is felt by others.
//!
//! An interface takes what it is given, and passes a frame of a packet at a time
//! to the switch, the packets for different nodes in turn. A frame that is next
//! and finds no room in the buffer before the node that it is for keeps back all
//! behind it. From that buffer frames go to the node in the order in which they
//! came. Memory takes them as they come, but for those of the *slow way*, from
//! one node to one other: they lie in a second buffer, in the interface, until
//! the sink has taken them, and when that is full, the first of them keeps back
//! all others for that node.
//!
//! Invariants: a frame is in one place; a buffer holds no more than it has room
//! for, but for a single frame; packets between two nodes arrive in order.

use std::collections::VecDeque;

/// Bytes of a frame; the last of a packet may have fewer.
pub(crate) const FRAME_BYTES: u64 = 2048;

/// What it is made of.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    /// How long a slot of 64 bytes occupies a link.
    pub slot_ns: u64,
    /// From one node to the other.
    pub hop_ns: u64,
    /// Of each of the two buffers.
    pub buffer_bytes: u64,
    /// The slow way: from, to, and as many times slower as a link its sink is.
    pub slow: (usize, usize, u64),
}

/// Something that happens within.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// The frame that a node passes to the switch has left it.
    Left,
    /// The first frame on its way is in the buffer before a node.
    Reached,
    /// The frame that a node takes is in its interface.
    Taken,
    /// The sink of a node has taken a frame.
    Sunk,
}

/// What comes of a step.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Effect<C> {
    /// There is a step to come, in so many nanoseconds.
    Later(u64, Step, usize),
    /// A packet is in the memory of a node.
    Arrived(usize, C),
}

#[derive(Clone, Copy, Debug)]
struct Frame<C> {
    from: usize,
    to: usize,
    bytes: u64,
    /// A sink takes it slowly.
    is_bulk: bool,
    /// Of the last frame of a packet.
    cargo: Option<C>,
}

#[derive(Debug)]
struct Packet<C> {
    bytes_left: u64,
    is_bulk: bool,
    cargo: C,
}

#[derive(Debug)]
struct Node<C> {
    /// What is to leave, by destination, and whose turn it is.
    leaving: Vec<VecDeque<Packet<C>>>,
    turn: usize,
    /// The next frame to leave, if it has been chosen, and whether it is on the
    /// link.
    next: Option<Frame<C>>,
    is_leaving: bool,
    /// The buffer before it: what has been promised room there, what is on its
    /// way, and what is there.
    promised_bytes: u64,
    coming: VecDeque<Frame<C>>,
    there: VecDeque<Frame<C>>,
    is_taking: bool,
    /// Nodes that wait for room there.
    waiting: VecDeque<usize>,
    /// The buffer of its interface.
    held_bytes: u64,
    held: VecDeque<Frame<C>>,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Fabric<C> {
    shape: Shape,
    nodes: Vec<Node<C>>,
    /// What came of the last call.
    pub effects: Vec<Effect<C>>,
}

impl<C: Copy> Fabric<C> {
    pub fn new(nodes: usize, shape: Shape) -> Fabric<C> {
        let node = || Node {
            leaving: (0..nodes).map(|_| VecDeque::new()).collect(),
            turn: 0,
            next: None,
            is_leaving: false,
            promised_bytes: 0,
            coming: VecDeque::new(),
            there: VecDeque::new(),
            is_taking: false,
            waiting: VecDeque::new(),
            held_bytes: 0,
            held: VecDeque::new(),
        };
        Fabric { shape, nodes: (0..nodes).map(|_| node()).collect(), effects: Vec::new() }
    }

    /// A node has a packet for another.
    pub fn send(&mut self, from: usize, to: usize, bytes: u64, is_bulk: bool, cargo: C) {
        let packet = Packet { bytes_left: bytes.max(1), is_bulk, cargo };
        self.nodes[from].leaving[to].push_back(packet);
        self.leave(from);
    }

    /// What was to come has come.
    pub fn step(&mut self, step: Step, node: usize) {
        match step {
            Step::Left => {
                let frame = self.nodes[node].next.take().expect("one was leaving");
                self.nodes[node].is_leaving = false;
                self.nodes[frame.to].coming.push_back(frame);
                self.effects.push(Effect::Later(self.shape.hop_ns, Step::Reached, frame.to));
                self.leave(node);
            }
            Step::Reached => {
                let frame = self.nodes[node].coming.pop_front().expect("one was coming");
                self.nodes[node].there.push_back(frame);
                self.take(node);
            }
            Step::Taken => self.taken(node),
            Step::Sunk => {
                let frame = self.nodes[node].held.pop_front().expect("one was held");
                self.nodes[node].held_bytes -= frame.bytes;
                self.arrive(&frame);
                self.sink(node);
                self.take(node);
            }
        }
    }

    /// What has not arrived, and where it goes.
    pub fn cargoes(&self) -> impl Iterator<Item = (usize, &C)> {
        let whole = self.nodes.iter().flat_map(|node| {
            let packets = node.leaving.iter().enumerate();
            packets.flat_map(|(to, all)| all.iter().map(move |packet| (to, &packet.cargo)))
        });
        let frames = self.nodes.iter().flat_map(|node| {
            let frames = node.next.iter().chain(&node.coming).chain(&node.there).chain(&node.held);
            frames.filter_map(|frame| Some((frame.to, frame.cargo.as_ref()?)))
        });
        whole.chain(frames)
    }

    /// Panics unless the buffers are in order.
    pub fn check_invariants(&self) {
        let room = self.shape.buffer_bytes.max(FRAME_BYTES);
        for node in &self.nodes {
            assert!(node.promised_bytes <= room && node.held_bytes <= room);
            let held: u64 = node.held.iter().map(|frame| frame.bytes).sum();
            assert!(held <= node.held_bytes, "what is held was counted");
        }
    }

    fn is_slow(&self, frame: &Frame<C>) -> bool {
        (frame.from, frame.to) == (self.shape.slow.0, self.shape.slow.1)
    }

    fn link_ns(&self, bytes: u64) -> u64 {
        (bytes * self.shape.slot_ns).div_ceil(64)
    }

    fn has_room(&self, bytes: u64, more: u64) -> bool {
        bytes == 0 || bytes + more <= self.shape.buffer_bytes
    }

    /// A node passes its next frame to the switch, if it can.
    fn leave(&mut self, from: usize) {
        if self.nodes[from].is_leaving {
            return;
        }
        if self.nodes[from].next.is_none() {
            self.nodes[from].next = self.choose(from);
        } else if self.nodes.iter().any(|node| node.waiting.contains(&from)) {
            return;
        }
        let Some(frame) = self.nodes[from].next else { return };
        if !self.has_room(self.nodes[frame.to].promised_bytes, frame.bytes) {
            self.nodes[frame.to].waiting.push_back(from);
            return;
        }
        self.nodes[frame.to].promised_bytes += frame.bytes;
        self.nodes[from].is_leaving = true;
        self.effects.push(Effect::Later(self.link_ns(frame.bytes), Step::Left, from));
    }

    /// The next frame of the node whose turn it is.
    fn choose(&mut self, from: usize) -> Option<Frame<C>> {
        let node = &mut self.nodes[from];
        let count = node.leaving.len();
        let to = (0..count).map(|more| (node.turn + more) % count);
        let to = to.into_iter().find(|&to| !node.leaving[to].is_empty())?;
        node.turn = (to + 1) % count;
        let packet = node.leaving[to].front_mut()?;
        let bytes = packet.bytes_left.min(FRAME_BYTES);
        packet.bytes_left -= bytes;
        let (is_bulk, mut cargo) = (packet.is_bulk, None);
        if packet.bytes_left == 0 {
            cargo = node.leaving[to].pop_front().map(|packet| packet.cargo);
        }
        Some(Frame { from, to, bytes, is_bulk, cargo })
    }

    /// A node takes the next frame out of the buffer before it, if it can.
    fn take(&mut self, to: usize) {
        let node = &self.nodes[to];
        let Some(&frame) = node.there.front() else { return };
        let is_slow = self.is_slow(&frame);
        if node.is_taking || (is_slow && !self.has_room(node.held_bytes, frame.bytes)) {
            return;
        }
        self.nodes[to].is_taking = true;
        self.nodes[to].held_bytes += if is_slow { frame.bytes } else { 0 };
        self.effects.push(Effect::Later(self.link_ns(frame.bytes), Step::Taken, to));
    }

    fn taken(&mut self, to: usize) {
        let frame = self.nodes[to].there.pop_front().expect("one was being taken");
        self.nodes[to].is_taking = false;
        self.nodes[to].promised_bytes -= frame.bytes;
        if self.is_slow(&frame) {
            self.nodes[to].held.push_back(frame);
            if self.nodes[to].held.len() == 1 {
                self.sink(to);
            }
        } else {
            self.arrive(&frame);
        }
        if let Some(from) = self.nodes[to].waiting.pop_front() {
            self.leave(from);
        }
        self.take(to);
    }

    /// The sink of a node begins with the next frame.
    fn sink(&mut self, to: usize) {
        let Some(&frame) = self.nodes[to].held.front() else { return };
        let factor = if frame.is_bulk { self.shape.slow.2 } else { 1 };
        let time_ns = self.link_ns(frame.bytes) * factor;
        self.effects.push(Effect::Later(time_ns, Step::Sunk, to));
    }

    fn arrive(&mut self, frame: &Frame<C>) {
        if let Some(cargo) = frame.cargo {
            self.effects.push(Effect::Arrived(frame.to, cargo));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    /// Nodes 0 and 2 send to 1 and 3; the way from 0 to 1 is eight times slower.
    fn fabric() -> Fabric<u32> {
        let slow = (0, 1, 8);
        Fabric::new(4, Shape { slot_ns: 32, hop_ns: 500, buffer_bytes: 8192, slow })
    }

    /// When each packet arrives, by its cargo.
    fn run(mut fabric: Fabric<u32>) -> BTreeMap<u32, u64> {
        let mut queue: BTreeMap<(u64, u64), (Step, usize)> = BTreeMap::new();
        let mut arrived = BTreeMap::new();
        let (mut now, mut added) = (0, 0);
        loop {
            for effect in std::mem::take(&mut fabric.effects) {
                match effect {
                    Effect::Later(ns, step, node) => {
                        added += 1;
                        queue.insert((now + ns, added), (step, node));
                    }
                    Effect::Arrived(_, cargo) => {
                        assert_eq!(arrived.insert(cargo, now), None, "it arrives once");
                    }
                }
            }
            fabric.check_invariants();
            let Some(((at, _), (step, node))) = queue.pop_first() else { return arrived };
            now = at;
            fabric.step(step, node);
        }
    }

    #[test]
    fn a_frame_alone_takes_both_links_and_the_way() {
        let mut fabric = fabric();
        fabric.send(0, 3, 2048, true, 7);
        assert_eq!(run(fabric)[&7], 1024 + 500 + 1024);
    }

    #[test]
    fn a_slow_sink_takes_its_time_and_packets_keep_their_order() {
        let mut fabric = fabric();
        fabric.send(0, 1, 20_480, true, 1);
        fabric.send(0, 1, 64, false, 2);
        let arrived = run(fabric);
        assert_eq!(arrived[&1], 1024 + 500 + 1024 + 10 * 8 * 1024);
        assert_eq!(arrived[&2], arrived[&1] + 32);
    }

    /// What comes in pieces that the sink takes in time keeps nobody back; all at once
    /// it keeps back what comes to the same node, and what comes from it.
    #[test]
    fn full_buffers_keep_others_back() {
        let last = |slow_bytes: u64| {
            let mut fabric = fabric();
            if slow_bytes > 0 {
                fabric.send(0, 1, slow_bytes, true, 1);
            }
            fabric.send(0, 3, 65_536, true, 2);
            fabric.send(2, 1, 65_536, true, 3);
            let arrived = run(fabric);
            [arrived[&2], arrived[&3]]
        };
        let alone = last(0);
        let beside_little = last(8192);
        let beside_much = last(262_144);
        for flow in 0..2 {
            // The frames of the other flow take their time on the link.
            let more_ns = beside_little[flow] - alone[flow];
            assert!((4 * 1024..5 * 1024).contains(&more_ns), "{more_ns}");
            assert!(beside_much[flow] > 4 * alone[flow], "{beside_much:?} and {alone:?}");
        }
    }
}
