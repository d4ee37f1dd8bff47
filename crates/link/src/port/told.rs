//! What a machine tells of its work, for people who watch it.

use crate::ledger::Ledger;
use crate::links::Links;
use sluice_wire::{Nanos, PeerId};

/// Counts since the machine was made, and what it holds now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Told {
    /// Messages sent eagerly.
    pub eager: u64,
    /// Messages announced.
    pub announced: u64,
    /// Messages taken from the queues of senders that wait for credits, because a receive
    /// asked for them.
    pub asked_for: u64,
    /// Messages that arrived before a receive that matches.
    pub unexpected: u64,
    /// Those of them that have not been matched yet.
    pub unexpected_now: u64,
    /// Memory of these, in bytes.
    pub unexpected_bytes_now: u64,
    /// The most that there ever was.
    pub unexpected_bytes_peak: u64,
    /// Packets refused because they broke the protocol.
    pub violations: u64,
    /// The peers that were spoken to, or have spoken.
    pub peers: Vec<ToldPeer>,
}

/// What a machine tells of one peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ToldPeer {
    /// Which.
    pub peer: PeerId,
    /// Packets sent to it. Wraps.
    pub packets_out: u32,
    /// Packets that came from it. Wraps.
    pub packets_in: u32,
    /// Most data credits that it may ever grant.
    pub credits_max: u32,
    /// Where the credits are.
    pub ledger: Ledger,
    /// Most slots that its messages have held here, which came before their receive.
    pub unexpected_slots_max: u32,
    /// Messages that found no credit of it, since the start.
    pub stalls: u64,
    /// For how long there were such, in all.
    pub stalled: Nanos,
    /// Messages that wait for its credits.
    pub waiting: u64,
    /// Since when the oldest of them does.
    pub waits_since: Option<Nanos>,
}

impl Links {
    /// What is to be told of each peer, as far as links know of it.
    #[must_use]
    pub fn told(&self) -> Vec<ToldPeer> {
        let tell = |peer| {
            Some(ToldPeer {
                peer,
                packets_out: self.next_seq(peer).0,
                packets_in: self.expected_seq(peer).0,
                credits_max: self.data_credits_max(peer),
                ledger: self.ledger(peer)?,
                unexpected_slots_max: self.unexpected_slots_max(peer),
                stalls: 0,
                stalled: Nanos(0),
                waiting: 0,
                waits_since: None,
            })
        };
        self.known().filter_map(tell).collect()
    }
}
