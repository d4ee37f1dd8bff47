//! What was said of messages that wait for credits and of receives, to be sure that programs
//! make their processes say it.

use crate::world::World;
use sluice_wire::{Packet, Waiting};

/// How often each thing was said.
#[derive(Debug, Default)]
pub struct Said {
    pub searches: u64,
    pub watches: u64,
    pub answers_found: u64,
    pub answers_missed: u64,
    pub answers_watched: u64,
    pub declines: u64,
    pub taken: u64,
    pub announced: u64,
    pub rtrs_used: u64,
    pub invited: u64,
    pub written: u64,
}

impl Said {
    pub fn add(&mut self, other: &Said) {
        self.searches += other.searches;
        self.watches += other.watches;
        self.answers_found += other.answers_found;
        self.answers_missed += other.answers_missed;
        self.answers_watched += other.answers_watched;
        self.declines += other.declines;
        self.taken += other.taken;
        self.announced += other.announced;
        self.rtrs_used += other.rtrs_used;
        self.invited += other.invited;
        self.written += other.written;
    }

    pub fn of(world: &World) -> Said {
        let mut said = Said::default();
        for (_, _, packet, _) in &world.processes[0].port.net().log {
            match packet {
                Packet::Search(_) => said.searches += 1,
                Packet::Watch(_) => said.watches += 1,
                Packet::Waiting(Waiting { watched: true, .. }) => said.answers_watched += 1,
                Packet::Waiting(Waiting { found: Some(_), .. }) => said.answers_found += 1,
                Packet::Waiting(_) => said.answers_missed += 1,
                Packet::Decline(_) => said.declines += 1,
                Packet::Rtr(_) => said.announced += 1,
                Packet::Cts(_) => said.invited += 1,
                Packet::Written(_) => said.written += 1,
                _ => {}
            }
        }
        let stats = || world.processes.iter().map(|process| process.endpoint.stats());
        said.taken = stats().map(|stats| stats.asked_for).sum();
        said.rtrs_used = stats().map(|stats| stats.rtrs_used).sum();
        said
    }
}
