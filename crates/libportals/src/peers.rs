//! Who is who: processes by (nid, pid) as Portals names them, by rank, and by
//! the rail's numbers.
//!
//! A process of this host is looked up by its name. One of another host is reached by the
//! address that the job has told (`book`), or that follows from the job's key (`own`).
//!
//! A rank gets a number when it is first spoken of and a mailbox when it is
//! first spoken to, so a map of a hundred thousand ranks costs its own bytes
//! and nothing else.

use crate::own::{self, Own};
use crate::phys::Phys;
use sluice_rail::net::handshake::JobKey;
use sluice_rail::{Address, World};
use sluice_wire::PeerId;
use std::collections::HashMap;

/// The rank of a process that the map does not have (`PTL_RANK_ANY`).
pub(crate) const RANK_NONE: u32 = u32::MAX;
/// Not looked up yet; no map is that long.
const RANK_UNKNOWN: u32 = u32::MAX - 1;

/// The peers of one interface.
#[derive(Debug, Default)]
pub(crate) struct Peers {
    map: Option<Map>,
    /// Those that the network reaches.
    far: HashMap<Phys, Far>,
    /// The same by what no two of them have in common.
    far_of: HashMap<Address, Phys>,
    /// By the rail's numbers: the rank, as far as it was looked up.
    rank_of: Vec<u32>,
    own: Phys,
    /// Processes of this host are reached over shared memory.
    shares: bool,
    /// What addresses follow from that nobody tells: the job's key, and the slot of such
    /// interfaces.
    job: Option<(JobKey, u8)>,
    /// That nothing leads to a process was said.
    is_told: bool,
}

/// A process that the network reaches.
#[derive(Clone, Copy, Debug)]
struct Far {
    address: Address,
    /// Its number, once somebody has spoken of it.
    peer: Option<PeerId>,
}

#[derive(Debug)]
struct Map {
    phys: Box<[Phys]>,
    peer_of: Box<[Option<PeerId>]>,
    /// The lowest rank of each process.
    rank_of: HashMap<Phys, u32>,
}

impl Peers {
    /// Those of an interface of this process, of this kind; `shares` if those of this host are
    /// reached over shared memory.
    pub fn of(own: &Own, kind: u8, shares: bool) -> Peers {
        let job = own.key.clone().map(|key| (key, kind));
        Peers { own: own.phys, shares, job, ..Peers::default() }
    }

    /// The number of the process with a rank; none beyond the map.
    #[inline]
    pub fn of_rank(&mut self, world: &mut World, rank: u32) -> Option<PeerId> {
        let map = self.map.as_mut()?;
        match map.peer_of.get(rank as usize)? {
            Some(peer) => Some(*peer),
            None => {
                let phys = map.phys[rank as usize];
                let peer = self.of_phys(world, phys);
                self.map.as_mut()?.peer_of[rank as usize] = Some(peer);
                Some(peer)
            }
        }
    }

    /// The number of a process.
    #[inline]
    pub fn of_phys(&mut self, world: &mut World, phys: Phys) -> PeerId {
        match self.far.get_mut(&phys) {
            None => self.unheard_of(world, phys),
            Some(Far { peer: Some(peer), .. }) => *peer,
            Some(far) => match world.peer_beyond(&far.address) {
                Ok(peer) => *far.peer.insert(peer),
                // There are too many, or the address is another's: nobody is reached.
                Err(_) => world.peer_named(0),
            },
        }
    }

    /// Whether a process is reached by its name: it is of this host, or this one.
    fn is_near(&self, phys: Phys) -> bool {
        phys == self.own || self.shares && phys.nid == self.own.nid
    }

    /// The number of a process that nobody has told of.
    fn unheard_of(&mut self, world: &mut World, phys: Phys) -> PeerId {
        let address = match &self.job {
            Some((key, kind)) if !self.is_near(phys) => own::address_of(key, phys, *kind),
            _ => None,
        };
        let Some(address) = address else {
            if phys.nid != self.own.nid && !std::mem::replace(&mut self.is_told, true) {
                let Phys { nid, pid } = phys;
                eprintln!(
                    "libportals: nothing leads to the process {pid} of the node {nid:#x}, which is \
                     not this host ({:#x}): PTL_JOB_KEY has to be the same secret in all processes \
                     of the job, each on a network with IPv4, or these exchange identities by \
                     sluice_job.h",
                    self.own.nid
                );
            }
            return world.peer_named(phys.label());
        };
        self.far.insert(phys, Far { address, peer: None });
        self.far_of.insert(address, phys);
        self.of_phys(world, phys)
    }

    /// The process that a peer is. What the job has told goes before what it says itself.
    pub fn phys(&self, world: &World, peer: PeerId) -> Phys {
        let told = world.far_address(peer).and_then(|address| self.far_of.get(&address));
        told.copied().unwrap_or_else(|| Phys::from_label(world.peer_label(peer)))
    }

    /// Whether the network may reach any.
    pub fn has_far(&self) -> bool {
        self.job.is_some() || !self.far.is_empty()
    }

    /// Where a process is, as the job has told. Those of this host are known by their names,
    /// unless the network reaches them too. One that had its name before is another one.
    pub fn introduce(&mut self, phys: Phys, address: Address) {
        if self.is_near(phys) {
            return;
        }
        let before = self.far.insert(phys, Far { address, peer: None });
        if let Some(before) = before.filter(|before| before.address != address) {
            self.far_of.remove(&before.address);
        }
        self.far_of.insert(address, phys);
        // Whoever was spoken of before could not be reached.
        if let Some(map) = &mut self.map
            && let Some(&rank) = map.rank_of.get(&phys)
        {
            map.peer_of[rank as usize] = None;
        }
        self.rank_of.clear();
    }

    /// The rank of a peer; [`RANK_NONE`] if the map does not have it.
    #[inline]
    pub fn rank(&mut self, world: &World, peer: PeerId) -> u32 {
        match self.rank_of.get(peer.index()) {
            Some(&rank) if rank != RANK_UNKNOWN => rank,
            _ => self.look_up_rank(world, peer),
        }
    }

    #[cold]
    fn look_up_rank(&mut self, world: &World, peer: PeerId) -> u32 {
        let Some(map) = &self.map else { return RANK_NONE };
        let phys = self.phys(world, peer);
        // Some events have no initiator; their number is beyond all peers.
        if phys.label() == 0 {
            return RANK_NONE;
        }
        let rank = map.rank_of.get(&phys).copied().unwrap_or(RANK_NONE);
        if self.rank_of.len() <= peer.index() {
            self.rank_of.resize(peer.index() + 1, RANK_UNKNOWN);
        }
        self.rank_of[peer.index()] = rank;
        rank
    }

    /// A peer is gone for good. A process that gets its name later is another
    /// peer.
    pub fn forget(&mut self, peer: PeerId) {
        // Its rank may never have been asked for; ends are rare enough to look
        // through the map.
        if let Some(map) = &mut self.map
            && let Some(slot) = map.peer_of.iter_mut().find(|slot| **slot == Some(peer))
        {
            *slot = None;
        }
    }

    /// Sets the map of ranks.
    pub fn set_map(&mut self, phys: Vec<Phys>) {
        let mut rank_of = HashMap::with_capacity(phys.len());
        for (rank, &phys) in phys.iter().enumerate() {
            rank_of.entry(phys).or_insert(rank as u32);
        }
        let peer_of = vec![None; phys.len()].into();
        self.map = Some(Map { phys: phys.into(), peer_of, rank_of });
        self.rank_of.clear();
    }

    /// The map of ranks, if it is set.
    pub fn map(&self) -> Option<&[Phys]> {
        self.map.as_ref().map(|map| &*map.phys)
    }

    /// The rank of a process; [`RANK_NONE`] if the map does not have it.
    pub fn rank_of_phys(&self, phys: Phys) -> u32 {
        let rank = self.map.as_ref().and_then(|map| map.rank_of.get(&phys).copied());
        rank.unwrap_or(RANK_NONE)
    }
}
