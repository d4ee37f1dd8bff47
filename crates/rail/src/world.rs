//! The rails of a process as one: the port that machines are given.
//!
//! Peers of all rails have ids of one table, which is that of shared memory. What a
//! machine asks goes to the rail of the peer that it concerns. Shared memory is asked
//! first, and what is asked of it costs no more here than there: a peer that is not on it has
//! no mailbox to write into, and of a packet that is not its own it has no payload.

use crate::shm::{Address, AddressError, Config, Doorbell, Host, OpenError, Shm, Stats, drive};
use sluice_link::{
    Connect, Layout, LocalMemory, Machine, PeerError, Port, Remote, RemoteCaps, RemoteMemory,
    Rights, Token, Transmitted, Transport,
};
use sluice_wire::{Addr, HeadBuf, Nanos, PeerId, Region, RemoteKey};

/// The rails of one process.
#[derive(Debug)]
pub struct World {
    shm: Shm,
}

impl World {
    /// Makes this process's mailbox.
    ///
    /// # Errors
    /// [`OpenError`], which says what the remedy is.
    pub fn open(config: Config) -> Result<World, OpenError> {
        Ok(World { shm: Shm::open(config)? })
    }

    /// Shared memory, for what is its own.
    #[must_use]
    #[inline]
    pub fn shm(&self) -> &Shm {
        &self.shm
    }

    /// As [`World::shm`].
    #[inline]
    pub fn shm_mut(&mut self) -> &mut Shm {
        &mut self.shm
    }

    /// How this process's mailbox is divided.
    #[must_use]
    pub fn layout(&self) -> Layout {
        self.shm.layout()
    }

    /// The address of this process, for its peers.
    #[must_use]
    pub fn address(&self) -> Address {
        self.shm.address()
    }

    /// The id of the process with this address; the same one each time.
    ///
    /// # Errors
    /// [`AddressError`] if no rail reaches it: there is none to other hosts.
    pub fn peer(&mut self, address: &Address) -> Result<PeerId, AddressError> {
        self.shm.peer(address)
    }

    /// The id of the process that calls itself `label` ([`Shm::peer_named`]).
    pub fn peer_named(&mut self, label: u64) -> PeerId {
        self.shm.peer_named(label)
    }

    /// The address of a peer; `None` while only its label is known.
    #[must_use]
    pub fn peer_address(&self, peer: PeerId) -> Option<Address> {
        self.shm.peer_address(peer)
    }

    /// What the layer above calls a peer ([`Shm::peer_label`]).
    #[must_use]
    pub fn peer_label(&self, peer: PeerId) -> u64 {
        self.shm.peer_label(peer)
    }

    /// A peer in words, for messages to people.
    #[must_use]
    pub fn describe(&self, peer: PeerId) -> String {
        self.shm.describe(peer)
    }

    /// The coarse clock: as of one of the last polls.
    #[must_use]
    #[inline]
    pub fn now(&self) -> Nanos {
        self.shm.now()
    }

    /// Reads the clock, for a caller that has been away for a while.
    pub fn refresh_now(&mut self) -> Nanos {
        self.shm.refresh_now()
    }

    /// Delivers up to `budget` packets to `machine`, moves bulk data, notices
    /// the ends of peers. Says how many inputs the machine got.
    #[inline]
    pub fn poll<M: Machine>(&mut self, now: Nanos, machine: &mut M, budget: usize) -> usize {
        drive::poll(self, now, machine, budget)
    }

    /// Delivers up to `budget` packets to `machine` and does nothing else: for a
    /// look at what has arrived before a request that may depend on it.
    #[inline]
    pub fn take_in<M: Machine>(&mut self, now: Nanos, machine: &mut M, budget: usize) -> usize {
        drive::take_in(self, now, machine, budget)
    }

    /// Whether a poll would find something to do; to be asked before sleeping,
    /// after [`Doorbell::arm`] ([`Shm::has_work`]).
    pub fn has_work(&mut self) -> bool {
        self.shm.has_work()
    }

    /// For how long, in nanoseconds, a thread that looks after the rails may sleep
    /// unless somebody rings; zero if there is something to do.
    pub fn rest_ns(&mut self) -> u64 {
        self.shm.rest_ns()
    }

    /// Whether there is something left to be done here that no peer will ring
    /// for: to be asked by a call before it leaves the rails to a thread that
    /// sleeps.
    #[must_use]
    #[inline]
    pub fn is_busy(&self) -> bool {
        self.shm.is_busy()
    }

    /// What a thread sleeps by until somebody writes into the mailbox.
    #[must_use]
    pub fn doorbell(&self) -> Doorbell {
        self.shm.doorbell()
    }

    /// What was found and mended when the rails were opened, in words.
    #[must_use]
    pub fn notices(&self) -> &[String] {
        self.shm.notices()
    }

    /// Counts.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.shm.stats()
    }
}

impl Host for World {
    #[inline(always)]
    fn shm_mut(&mut self) -> &mut Shm {
        &mut self.shm
    }
}

impl Port for World {
    type Shared = Shm;

    #[inline(always)]
    fn shared(&mut self) -> Option<&mut Shm> {
        Some(&mut self.shm)
    }
}

impl Transport for World {
    fn connect(&mut self, peer: PeerId) -> Result<Connect, PeerError> {
        self.shm.connect(peer)
    }

    fn watch(&mut self, peer: PeerId) {
        self.shm.watch(peer);
    }

    fn refuse(&mut self, peer: PeerId) {
        self.shm.refuse(peer);
    }

    #[inline(always)]
    fn transmit(
        &mut self,
        peer: PeerId,
        head: &HeadBuf,
        payload: Region,
        token: Token,
    ) -> Transmitted {
        self.shm.transmit(peer, head, payload, token)
    }

    fn uid(&self, peer: PeerId) -> u32 {
        self.shm.uid(peer)
    }
}

impl LocalMemory for World {
    #[inline(always)]
    fn copy_payload(&mut self, offset: u32, to: Addr, len: u32) {
        self.shm.copy_payload(offset, to, len);
    }

    #[inline(always)]
    fn payload(&self, offset: u32, into: &mut [u8]) {
        self.shm.payload(offset, into);
    }

    #[inline(always)]
    fn copy(&mut self, from: Addr, to: Addr, len: u64) {
        self.shm.copy(from, to, len);
    }

    #[inline(always)]
    fn lend(&mut self, len: u32) -> Addr {
        self.shm.lend(len)
    }

    #[inline(always)]
    fn give_back(&mut self, addr: Addr, len: u32) {
        self.shm.give_back(addr, len);
    }

    #[inline(always)]
    fn readable(&self, region: Region) -> bool {
        self.shm.readable(region)
    }

    #[inline(always)]
    fn writable(&self, region: Region) -> bool {
        self.shm.writable(region)
    }

    #[inline(always)]
    fn load(&self, from: Addr, into: &mut [u8]) {
        self.shm.load(from, into);
    }

    #[inline(always)]
    fn store(&mut self, to: Addr, bytes: &[u8]) {
        self.shm.store(to, bytes);
    }

    #[inline(always)]
    fn compare_exchange(&mut self, at: Addr, width: u32, old: u64, new: u64) -> Result<(), u64> {
        self.shm.compare_exchange(at, width, old, new)
    }
}

impl RemoteMemory for World {
    #[inline(always)]
    fn caps(&self, peer: PeerId) -> RemoteCaps {
        self.shm.caps(peer)
    }

    #[inline(always)]
    fn expose(&mut self, peer: PeerId, region: Region, rights: Rights) -> RemoteKey {
        self.shm.expose(peer, region, rights)
    }

    #[inline(always)]
    fn revoke(&mut self, peer: PeerId, key: RemoteKey) {
        self.shm.revoke(peer, key);
    }

    #[inline(always)]
    fn read_remote(&mut self, peer: PeerId, from: Remote, to: Region, token: Token) {
        self.shm.read_remote(peer, from, to, token);
    }

    #[inline(always)]
    fn write_remote(&mut self, peer: PeerId, from: Region, to: Remote, token: Token) {
        self.shm.write_remote(peer, from, to, token);
    }
}
