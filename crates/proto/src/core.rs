//! What every part of an endpoint works with: its Portals interface, the states of
//! its peers, the time, and what it pushes: counts and completions.

use crate::api::{Completion, Config, Space, Stats};
use crate::peers::Peers;
use crate::portal::{PT_BULK, PT_REMOTE, PTS_REMOTE, overflow_entry};
use sluice_link::{Layout, PeerError, Port};
use sluice_portals::{Eq, Handle, Limits, Md, MdOptions, Ni, PtOptions};
use sluice_wire::{Addr, Nanos, PeerId, PtIndex, Region};
use std::collections::VecDeque;

/// See the module.
#[derive(Debug)]
pub(crate) struct Core {
    pub config: Config,
    /// No message of this length or less is too long to be eager, whoever its receiver is.
    pub short_bytes_max: u64,
    pub ni: Ni,
    pub eq: Handle<Eq>,
    /// All of memory: local offsets are addresses.
    pub md: Handle<Md>,
    /// The same for operations on remote memory, which are told of when they are answered.
    pub remote_md: Handle<Md>,
    pub peers: Peers,
    /// The latest time that a call came with.
    pub now: Nanos,
    pub stats: Stats,
    pub completions: VecDeque<Completion>,
    /// Every end is told, of messages too that were not to report it: they are counted.
    pub counts_all: bool,
}

impl Core {
    /// An interface with the portal table entries of messages.
    ///
    /// # Panics
    /// Never: a new interface has room for what is made here.
    pub fn new(config: Config, mailbox: Layout) -> Core {
        let limits = Limits::default();
        // Regions leave receives as many entries and vectors as there would be without them.
        let of_regions = config.regions_max.saturating_mul(PTS_REMOTE.len() as u32);
        let entries_max = limits.entries_max.saturating_add(of_regions);
        let vectors_max = limits.vectors_max.saturating_add(of_regions);
        let by_control_from = Some(PT_REMOTE);
        let limits = Limits { by_control_from, entries_max, vectors_max, ..limits };
        let mut ni = Ni::new(limits, mailbox);
        // Every event is taken out before the call that caused it returns, and
        // a call causes few; a peer's end causes one for each operation on it.
        let eq = ni.eq_alloc(usize::MAX).expect("a new interface has room");
        let whole = Region { addr: Addr(0), len: u64::MAX };
        let options = MdOptions { event_send_if_pending: true, ..MdOptions::default() };
        let md =
            ni.md_bind(whole, None, Some(eq), None, options).expect("a new interface has room");
        let options = MdOptions { event_send_disable: true, ..MdOptions::default() };
        let remote_md =
            ni.md_bind(whole, None, Some(eq), None, options).expect("a new interface has room");
        for index in [PtIndex(0), PtIndex(1), PT_BULK].into_iter().chain(PTS_REMOTE) {
            ni.pt_alloc(index, PtOptions::default(), Some(eq)).expect("a new interface has room");
        }
        // One entry per space takes what no receive waits for.
        for space in [Space::Tagged, Space::Untagged] {
            ni.me_append_overflow(space.pt(), overflow_entry()).expect("a new interface has room");
        }
        let short_bytes_max = config.eager_bytes_max.min(config.network_eager_bytes_max);
        Core {
            config,
            short_bytes_max: short_bytes_max.into(),
            ni,
            eq,
            md,
            remote_md,
            peers: Peers::default(),
            now: Nanos(0),
            stats: Stats::default(),
            completions: VecDeque::new(),
            counts_all: false,
        }
    }

    /// A call at this time. Some callers look at the clock less often than others.
    #[inline(always)]
    pub fn note_time(&mut self, now: Nanos) {
        self.now = self.now.max(now);
    }

    /// Whether the good end of a message is told that has this wish.
    #[inline(always)]
    pub fn tells(&self, report: bool) -> bool {
        report || self.counts_all
    }

    #[inline(always)]
    pub fn complete(&mut self, completion: Completion) {
        self.completions.push_back(completion);
    }

    /// Whether so many ends were not read that no further request is taken: a program that
    /// never reads them would fill all memory with them.
    #[inline]
    pub fn is_unread(&self) -> bool {
        self.completions.len() >= self.config.requests_max as usize
    }

    /// The next ended request is not wanted any more.
    #[inline]
    pub fn remove_first(&mut self) {
        self.completions.pop_front();
        if self.completions.is_empty() {
            // The next one is written where this one was: those lines are at hand.
            self.completions.clear();
        }
    }

    /// Something waits for `peer` from now on: its end will be told. An error if it
    /// has been.
    #[inline]
    pub fn await_peer<P: Port>(&self, port: &mut P, peer: PeerId) -> Result<(), PeerError> {
        if let Some(why) = self.peers.gone(peer) {
            return Err(why);
        }
        // Nobody else has a reason to watch one that never spoke.
        if !self.ni.links().is_known(peer) {
            port.watch(peer);
        }
        Ok(())
    }
}
