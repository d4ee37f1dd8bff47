//! What the machines of a world reach through their ports.

use crate::chunk_claims::AllClaims;
use crate::config::Config;
use crate::hosts::Hosts;
use crate::memory::Memory;
use crate::port::{Direct, Mailboxes, Outbox, SimPort};
use sluice_link::{Exposures, Layout};

/// See the module.
#[derive(Debug)]
pub(super) struct Around {
    /// What every mailbox is.
    pub layout: Layout,
    pub memories: Vec<Memory>,
    pub claims: AllClaims,
    /// What each process has exposed.
    pub exposures: Vec<Exposures>,
    /// All on one.
    hosts: Hosts,
    /// What the machine that was called last has asked for.
    pub outbox: Outbox,
    direct: Direct,
}

impl Around {
    pub fn new(config: &Config, layout: Layout) -> Around {
        let rail = config.rail;
        Around {
            layout,
            memories: (0..config.processes).map(|_| Memory::new(config.payload)).collect(),
            claims: AllClaims::of_interfaces(),
            exposures: (0..config.processes).map(|_| Exposures::default()).collect(),
            hosts: Hosts::default(),
            outbox: Outbox::default(),
            direct: Direct {
                reads: rail.reads,
                writes: rail.writes,
                chunk_claims: rail.chunk_claims,
            },
        }
    }

    /// What a process sees, while it handles a packet with this payload.
    #[inline]
    pub fn port<'a>(&'a mut self, process: usize, payload: &'a [u8]) -> SimPort<'a> {
        SimPort {
            me: process as u32,
            direct: self.direct,
            claims: &mut self.claims,
            exposures: &mut self.exposures[process],
            written_alone: false,
            mailboxes: Mailboxes::Alike(&self.layout),
            connections: None,
            hosts: &self.hosts,
            unreadable: &[],
            outbox: &mut self.outbox,
            memory: &mut self.memories[process],
            payload,
            placed: None,
            published: None,
            late: 0,
            looking: 0,
            nic: None,
        }
    }
}
