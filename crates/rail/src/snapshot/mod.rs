//! What a process has done and holds, by peer and by rail: what is shown to those who watch
//! it, and what it says when it ends. `json` and `metrics` write it.

mod json;
mod metrics;

pub use json::quoted;

use crate::net::{Net, NetStats};
use crate::observer::Tally;
use crate::shm::Stats;
use crate::world::World;
use sluice_link::{Told, ToldPeer};
use sluice_wire::Nanos;
use std::fs;

/// The version of what [`Snapshot::to_json`] writes. Others may have other members.
pub const VERSION: u32 = 1;
/// Most peers that are told one by one, those with waiting messages first.
pub const PEERS_MAX: usize = 128;

/// Where launchers say which rank a process is.
pub const RANK_VARIABLES: [&str; 4] =
    ["OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID"];

/// Which rank this process is, if its launcher says so.
pub(crate) fn own_rank() -> Option<u32> {
    RANK_VARIABLES.iter().find_map(|name| std::env::var(name).ok()?.parse().ok())
}

/// The name of this host.
pub(crate) fn own_host() -> String {
    fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default()
}

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// The name of the host.
    pub host: String,
    /// The process.
    pub pid: u32,
    /// When this was: a clock of the host that never goes back.
    pub at: Nanos,
    /// Bytes of the messages that were taken to be sent.
    pub sent_bytes: u64,
    /// What the machine tells; its peers are in `peers`.
    pub told: Told,
    /// What went over shared memory.
    pub shm: Stats,
    /// What happened to connections, if there is a network.
    pub net: Option<NetStats>,
    /// The network devices, and how many bytes went by each.
    pub devices: Vec<(String, u64)>,
    /// The peers.
    pub peers: Vec<Peer>,
    /// How many more peers there are.
    pub peers_left_out: usize,
    /// Since when messages are counted by peer; `None` if they are not.
    pub counted_since: Option<Nanos>,
}

/// What is told of one peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Its name for people.
    pub name: String,
    /// The network reaches it, and not shared memory.
    pub is_far: bool,
    /// What the machine tells.
    pub told: ToldPeer,
    /// How long the oldest message has been waiting for credits.
    pub waiting: Nanos,
    /// What was exchanged with it, since [`Snapshot::counted_since`].
    pub tally: Tally,
    /// How often its stream went on over another connection.
    pub resumed: u32,
}

impl Snapshot {
    /// Of a process with these rails, whose machine tells this.
    pub(crate) fn of(world: &World, mut told: Told, sent_bytes: u64) -> Snapshot {
        let at = world.now();
        let mut all = std::mem::take(&mut told.peers);
        // The sort is stable, so the others stay in the order of their ids.
        all.sort_by_key(|peer| peer.waits_since.map_or((true, Nanos(0)), |since| (false, since)));
        let peers_left_out = all.len().saturating_sub(PEERS_MAX);
        all.truncate(PEERS_MAX);
        let tell = |told: ToldPeer| Peer {
            name: world.describe(told.peer),
            is_far: world.far_address(told.peer).is_some(),
            waiting: told.waits_since.map_or(Nanos(0), |since| Nanos(at.0.saturating_sub(since.0))),
            tally: world.tally(told.peer),
            resumed: world.net().map_or(0, |net| net.resumed(told.peer)),
            told,
        };
        let carried = world.net().map_or_else(Vec::new, Net::carried);
        Snapshot {
            host: own_host(),
            pid: std::process::id(),
            at,
            sent_bytes,
            shm: world.stats(),
            net: world.net().map(Net::stats),
            devices: carried.into_iter().map(|(name, bytes)| (name.to_owned(), bytes)).collect(),
            peers: all.into_iter().map(tell).collect(),
            peers_left_out,
            counted_since: world.counted_since(),
            told,
        }
    }
}

#[cfg(test)]
mod tests;
