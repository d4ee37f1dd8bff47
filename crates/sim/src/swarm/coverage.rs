//! What a run has come by, so that it can be said how many worlds of a swarm have.

use super::remote::RemoteCoverage;
use crate::rails::Met;
use serde::Serialize;
use sluice_wire::{Packet, Parsed};
use std::ops::Add;

/// Of one world zero or one, of several how many of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Coverage {
    /// Messages too long to be sent eagerly were sent.
    pub large_messages: u64,
    /// Receives were announced (RTR).
    pub receives_announced: u64,
    /// A large message was written to a receive that was announced.
    pub announced_used: u64,
    /// Two processes copied a message together.
    pub shared_transfers: u64,
    /// A packet was taken before its memory was read.
    pub pending_transmissions: u64,
    /// Opening a connection took time, and something waited for it.
    pub pending_connections: u64,
    /// A payload was put where it was wanted before the machine handled its packet.
    pub payloads_placed: u64,
    /// A credit of a dynamic mailbox was asked back.
    pub credits_asked_back: u64,
    /// A message was sent while an injected one that was refused waited.
    pub sends_between_tries: u64,
    /// A message was withdrawn by its sender before anything of it had gone.
    pub sends_withdrawn: u64,
    /// A sender waited no more for the word that its message was delivered.
    pub sends_cancelled: u64,
    /// An interface matched messages.
    pub matched_by_interfaces: u64,
    /// A message was announced that was too long for such an interface.
    pub interfaces_exceeded: u64,
    /// A process ended, and others were told.
    pub deaths: u64,
    /// Processes were on different hosts, and spoke.
    pub several_hosts: u64,
    /// A packet came again, and was dropped.
    pub duplicates_dropped: u64,
    /// Bytes came of a chunk that had been given up, and were dropped.
    pub late_bytes_dropped: u64,
    /// The stream of packets came to a rail while something was kept that went there first.
    pub streams_moved: u64,
    /// Two processes opened the same rail at once.
    pub crossed_calls: u64,
    /// Memory on another host was written.
    pub remote_writes: u64,
    /// A key that was revoked was used, and refused.
    pub keys_refused: u64,
    /// Rails were not opened before they were needed.
    pub rails_spared: u64,
    /// One of those was needed.
    pub spares_opened: u64,
    /// A sender without credits was asked for a message.
    pub asked_for: u64,
    /// A probe has found a message.
    pub probes_found: u64,
    /// A process gave up a peer on another host.
    pub peers_given_up: u64,
    /// A buffer for many messages took several.
    pub buffers_for_many: u64,
    /// One was used up.
    pub buffers_used_up: u64,
    /// A message came into several pieces of memory.
    pub pieces_filled: u64,
    /// Of remote memory.
    #[serde(flatten)]
    pub remote: RemoteCoverage,
}

impl Coverage {
    /// What rails have come by.
    pub(super) fn note_rails(&mut self, met: &Met) {
        self.several_hosts = met.connections;
        self.duplicates_dropped = met.duplicates;
        self.late_bytes_dropped = met.late_bytes;
        self.streams_moved = met.streams_moved;
        self.crossed_calls = met.crossed_calls;
        self.remote_writes = met.writes;
        self.keys_refused = met.keys_refused;
        self.rails_spared = met.rails_spared;
        self.spares_opened = met.spares_opened;
    }

    /// A packet was sent.
    pub(super) fn note(&mut self, packet: &Parsed) {
        match packet.packet {
            Packet::Rtr(_) => self.receives_announced = 1,
            Packet::Put(put) => {
                let has_used = put.rts.is_some_and(|rts| rts.claims.is_some());
                self.announced_used |= u64::from(has_used);
            }
            Packet::Cts(cts) => self.shared_transfers |= u64::from(cts.claims.is_some()),
            Packet::ReturnRequest => self.credits_asked_back = 1,
            _ => {}
        }
    }
}

impl Add for Coverage {
    type Output = Coverage;

    fn add(self, other: Coverage) -> Coverage {
        Coverage {
            large_messages: self.large_messages + other.large_messages,
            receives_announced: self.receives_announced + other.receives_announced,
            announced_used: self.announced_used + other.announced_used,
            shared_transfers: self.shared_transfers + other.shared_transfers,
            pending_transmissions: self.pending_transmissions + other.pending_transmissions,
            pending_connections: self.pending_connections + other.pending_connections,
            payloads_placed: self.payloads_placed + other.payloads_placed,
            credits_asked_back: self.credits_asked_back + other.credits_asked_back,
            sends_between_tries: self.sends_between_tries + other.sends_between_tries,
            sends_withdrawn: self.sends_withdrawn + other.sends_withdrawn,
            sends_cancelled: self.sends_cancelled + other.sends_cancelled,
            matched_by_interfaces: self.matched_by_interfaces + other.matched_by_interfaces,
            interfaces_exceeded: self.interfaces_exceeded + other.interfaces_exceeded,
            deaths: self.deaths + other.deaths,
            several_hosts: self.several_hosts + other.several_hosts,
            duplicates_dropped: self.duplicates_dropped + other.duplicates_dropped,
            late_bytes_dropped: self.late_bytes_dropped + other.late_bytes_dropped,
            streams_moved: self.streams_moved + other.streams_moved,
            crossed_calls: self.crossed_calls + other.crossed_calls,
            remote_writes: self.remote_writes + other.remote_writes,
            keys_refused: self.keys_refused + other.keys_refused,
            rails_spared: self.rails_spared + other.rails_spared,
            spares_opened: self.spares_opened + other.spares_opened,
            asked_for: self.asked_for + other.asked_for,
            probes_found: self.probes_found + other.probes_found,
            peers_given_up: self.peers_given_up + other.peers_given_up,
            buffers_for_many: self.buffers_for_many + other.buffers_for_many,
            buffers_used_up: self.buffers_used_up + other.buffers_used_up,
            pieces_filled: self.pieces_filled + other.pieces_filled,
            remote: self.remote + other.remote,
        }
    }
}
