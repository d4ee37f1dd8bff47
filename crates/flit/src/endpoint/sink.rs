//! Sinks: memory that takes what arrives.
//!
//! A node of full speed takes a flit in the cycle of its arrival. A slow one
//! keeps flits in a buffer, in order of arrival, and takes one every `factor`
//! cycles. Only then does a credit go back, so the buffer fills and congestion spreads
//! into the network. Control packets need no memory: one is taken as soon as its turn
//! comes.

use super::source::{Debt, Nodes};
use crate::network::Network;
use crate::packet::{BACKWARD, CONTROL, FORWARD, Flit, HEAD, Line, NO_PACKET, TAIL, vc_of};
use crate::shard::ShardState;
use std::collections::VecDeque;

/// A slow node's memory.
#[derive(Debug)]
struct SlowSink {
    seat: u32,
    /// Flits that wait, in order of arrival.
    buffer: VecDeque<Flit>,
    /// When the memory takes the next flit.
    free_at: u32,
}

/// A packet that is being taken.
#[derive(Clone, Copy, Debug)]
struct Taking {
    packet: u32,
    is_control: bool,
}

/// Where the flits of a shard end.
#[derive(Debug)]
pub(crate) struct Sinks {
    slow: Vec<SlowSink>,
    /// By seat: which of the slow ones, if it is one.
    slot: Vec<Option<u32>>,
    /// By seat and virtual channel.
    taking: Vec<Taking>,
}

impl Sinks {
    pub fn new(net: &Network, nodes: &Nodes) -> Sinks {
        let idle = Taking { packet: NO_PACKET, is_control: false };
        let taking = vec![idle; nodes.sources.len() * net.measures.vcs];
        let mut sinks = Sinks { slow: Vec::new(), slot: Vec::new(), taking };
        for (seat, source) in nodes.sources.iter().enumerate() {
            let slow = net.slow[source.node as usize];
            sinks.slot.push(slow.then_some(sinks.slow.len() as u32));
            if slow {
                sinks.slow.push(SlowSink {
                    seat: seat as u32,
                    buffer: VecDeque::new(),
                    free_at: 0,
                });
            }
        }
        sinks
    }

    /// Flits that wait for a node's memory.
    pub fn waiting(&self, seat: usize) -> impl Iterator<Item = Flit> + '_ {
        self.slot[seat].into_iter().flat_map(|slot| self.slow[slot as usize].buffer.iter().copied())
    }
}

impl<const P: usize> ShardState<P> {
    /// A flit arrives at a node.
    #[inline(always)]
    pub fn eject(&mut self, seat: usize, flit: Flit) {
        match self.sinks.slot[seat] {
            None => self.take(seat, flit, false),
            Some(slot) => self.sinks.slow[slot as usize].buffer.push_back(flit),
        }
    }

    /// Each slow memory takes the flit that is due, if one is.
    #[inline(always)]
    pub fn run_sinks(&mut self) {
        for slot in 0..self.sinks.slow.len() {
            let sink = &self.sinks.slow[slot];
            let Some(&flit) = sink.buffer.front() else {
                continue;
            };
            let (seat, free_at) = (sink.seat as usize, sink.free_at);
            let is_control = flit & HEAD != 0 && {
                let packet = self.line_to(seat).first();
                self.packets.get(packet).marks & CONTROL != 0
            };
            if !is_control && free_at > self.now {
                continue;
            }
            let sink = &mut self.sinks.slow[slot];
            if !is_control {
                sink.free_at = self.now + self.net.measures.slow_factor;
            }
            sink.buffer.pop_front();
            self.take(seat, flit, true);
        }
    }

    /// The packets whose first flit has not been taken yet.
    fn line_to(&mut self, seat: usize) -> &mut Line {
        let home = &self.nodes.sources[seat].home;
        &mut self.arriving[home.column as usize][usize::from(home.node_port) & (P - 1)]
    }

    /// The memory of a node takes a flit.
    #[inline]
    fn take(&mut self, seat: usize, flit: Flit, slow: bool) {
        let vc = vc_of(flit);
        let home = self.nodes.sources[seat].home;
        self.wheel.put_credit(
            self.now + u32::from(home.credit_delay),
            home.column as usize,
            home.port,
            vc,
        );
        let taking = &mut self.sinks.taking[seat * self.net.measures.vcs + vc];
        if flit & HEAD != 0 {
            let line =
                &mut self.arriving[home.column as usize][usize::from(home.node_port) & (P - 1)];
            let packet = self.packets.leave(line);
            *taking = Taking { packet, is_control: self.packets.get(packet).marks & CONTROL != 0 };
        }
        let Taking { packet, is_control } = *taking;
        if !is_control {
            self.sample.accepted_flits += 1;
            self.sample.accepted_flits_slow += u64::from(slow);
        }
        if flit & TAIL != 0 {
            self.complete(seat, packet);
        }
    }

    /// A packet is in memory.
    fn complete(&mut self, seat: usize, packet: u32) {
        let packet = self.packets.remove(packet);
        let now = self.now;
        let control = packet.marks & CONTROL != 0;
        if !control {
            let (born, entered) = (now - packet.born, now - packet.entered);
            self.sample.packet(u64::from(born), u64::from(entered), u64::from(packet.hops));
        }
        let endpoint = &self.net.endpoint;
        if endpoint.outstanding_packets.is_none() && endpoint.marking.is_none() {
            return;
        }
        let source = &mut self.nodes.sources[seat];
        source.outstanding -= u32::from(packet.credits);
        if let Some(marking) = &endpoint.marking {
            source.on_packet(marking, packet.marks & BACKWARD != 0, now);
        }
        if !control {
            let credits = u16::from(endpoint.outstanding_packets.is_some());
            let marks = u16::from(packet.marks & FORWARD != 0);
            let node = source.node;
            let creditor = packet.route().source;
            if self.net.pattern.as_ref().and_then(|pattern| pattern.partner(node)) == Some(creditor)
            {
                source.debt.credits += credits;
                source.debt.marks += marks;
            } else if credits + marks > 0 {
                self.nodes.debts[seat].push_back((creditor, Debt { credits, marks }));
            }
        }
        self.nodes.rouse(seat, now);
    }
}
