//! What the numbers of an address vector mean to one endpoint.

use crate::av::AvCore;
use crate::engine::Engine;
use crate::errno::Errno;
use crate::ffi::{FI_ADDR_NOTAVAIL, fi_addr_t};
use crate::log::{self, About};
use sluice_wire::PeerId;
use std::sync::Arc;

/// A number that was not looked up yet.
const UNKNOWN: u32 = u32::MAX;

/// The address vector of an endpoint, and what was looked up in it.
#[derive(Debug, Default)]
pub struct Peers {
    vector: Option<Arc<AvCore>>,
    generation: u64,
    /// By number: the rail's peer, or `UNKNOWN`.
    peers: Vec<u32>,
    /// By peer: its number, or FI_ADDR_NOTAVAIL.
    numbers: Vec<fi_addr_t>,
}

impl Peers {
    /// Whether there is a vector.
    pub fn has_vector(&self) -> bool {
        self.vector.is_some()
    }

    /// Makes `vector` the vector.
    pub fn bind(&mut self, vector: &Arc<AvCore>) {
        self.vector = Some(Arc::clone(vector));
    }

    /// How many peers the program expects; 0 if it does not say.
    pub fn expected(&self) -> usize {
        self.vector.as_ref().map_or(0, |vector| vector.count)
    }

    /// The peer with this number.
    #[inline]
    pub fn peer(&mut self, engine: &mut Engine, number: fi_addr_t) -> Result<PeerId, Errno> {
        let vector = self.vector.as_ref().ok_or(Errno::NO_AV)?;
        if vector.generation() == self.generation
            && let Some(peer) = self.peers.get(number as usize)
            && *peer != UNKNOWN
        {
            return Ok(PeerId(*peer));
        }
        self.find_peer(engine, number)
    }

    #[cold]
    fn find_peer(&mut self, engine: &mut Engine, number: fi_addr_t) -> Result<PeerId, Errno> {
        self.refresh();
        let vector = self.vector.as_ref().ok_or(Errno::NO_AV)?;
        let address = vector.address(number).ok_or(Errno::INVALID)?;
        let peer = engine.peer(&address).map_err(|error| {
            log::warn(About::Addresses, &format!("process {address} is no peer: {error}"));
            Errno(crate::ffi::FI_EHOSTUNREACH)
        })?;
        // The vector has this number, so it is small.
        let index = number as usize;
        if self.peers.len() <= index {
            self.peers.resize(index + 1, UNKNOWN);
        }
        self.peers[index] = peer.0;
        Ok(peer)
    }

    /// The number of this peer, or FI_ADDR_NOTAVAIL.
    pub fn number(&mut self, engine: &Engine, peer: PeerId) -> fi_addr_t {
        let Some(vector) = &self.vector else { return FI_ADDR_NOTAVAIL };
        if vector.generation() != self.generation {
            self.refresh();
        }
        match self.numbers.get(peer.index()) {
            Some(number) if *number != FI_ADDR_NOTAVAIL => *number,
            _ => self.find_number(engine, peer),
        }
    }

    #[cold]
    fn find_number(&mut self, engine: &Engine, peer: PeerId) -> fi_addr_t {
        let number = engine
            .peer_address(peer)
            .and_then(|address| self.vector.as_ref()?.number(&address))
            .unwrap_or(FI_ADDR_NOTAVAIL);
        if self.numbers.len() <= peer.index() {
            self.numbers.resize(peer.index() + 1, FI_ADDR_NOTAVAIL);
        }
        self.numbers[peer.index()] = number;
        number
    }

    /// Forgets what may be wrong since an address was removed.
    fn refresh(&mut self) {
        let Some(vector) = &self.vector else { return };
        let generation = vector.generation();
        if generation != self.generation {
            self.generation = generation;
            self.peers.clear();
            self.numbers.clear();
        }
    }
}
