//! The rails of a process as one: the port that machines are given.
//!
//! Peers of all rails have ids of one table, which is that of shared memory. What a
//! machine asks goes to the rail of the peer that it concerns. Shared memory is asked
//! first, and what is asked of it costs no more here than there: a peer that is not on it has
//! no mailbox to write into, and of a packet that is not its own it has no payload.

mod matching;
mod shown;

use crate::address::{Address, AddressError};
use crate::faults;
use crate::net::handshake::Identity;
use crate::net::watcher::Watcher;
use crate::net::{Event, Glance, Net, NetConfig, NetError};
use crate::shm::{Config, Copied, Doorbell, Host, OpenError, Shm, Stats, drive, own_tag};
use crate::waker::{Haste, Waker};
use sluice_link::{
    Connect, Layout, LocalMemory, Machine, PeerError, Port, Published, RailError, Remote,
    RemoteCaps, RemoteMemory, Rights, TagMatching, Token, Transmitted, Transport,
};
use sluice_wire::{Addr, HeadBuf, Nanos, PeerId, Region, RemoteKey};
use std::sync::{Arc, OnceLock};

/// Most inputs of a machine from one poll of the network.
const NET_INPUTS_MAX: usize = 64;

/// The rails of one process.
#[derive(Debug)]
pub struct World {
    shm: Shm,
    net: Option<Box<Net>>,
    /// Peers on this host are spoken to over shared memory.
    shares: bool,
    /// A rail of the network matches messages.
    matches: bool,
    watcher: OnceLock<Option<Arc<Watcher>>>,
    /// Bytes of the messages that the layer above was given to send.
    sent_bytes: u64,
}

/// What threads of a process sleep by: the doorbell in shared memory, which is rung for
/// the network too.
#[derive(Clone, Debug)]
pub struct WorldWaker {
    doorbell: Doorbell,
    watcher: Option<Arc<Watcher>>,
}

impl Waker for WorldWaker {
    fn sleep(&self, rest_ns: impl FnOnce() -> u64) {
        self.doorbell.sleep(|| {
            let rest_ns = rest_ns();
            if let Some(watcher) = self.watcher.as_ref().filter(|_| rest_ns > 0) {
                watcher.arm();
            }
            rest_ns
        });
    }

    fn wake(&self) {
        self.doorbell.wake();
    }
}

impl World {
    /// Makes this process's mailbox.
    ///
    /// # Errors
    /// [`OpenError`], which says what the remedy is.
    pub fn open(config: Config) -> Result<World, OpenError> {
        Ok(World {
            shm: Shm::open(config)?,
            net: None,
            shares: true,
            matches: false,
            watcher: OnceLock::new(),
            sent_bytes: 0,
        })
    }

    /// The same, and listens for peers on other hosts; unless `shares`, for those on this
    /// one too.
    ///
    /// # Errors
    /// [`OpenError`], which says what the remedy is.
    pub fn open_with_net(
        config: Config,
        mut net: NetConfig,
        shares: bool,
    ) -> Result<World, OpenError> {
        let layout = config.layout()?;
        let warn = config.warn;
        // Peers of both rails are told the same.
        net.label = config.label;
        net.limit_matching(shares, warn);
        let identity = match &net.known_as {
            Some((key, member)) => key.identity(*member).map_err(|_| NetError::NoDevice),
            None => Ok(Identity::generate()?),
        };
        let net = identity.and_then(|identity| Net::open(identity, net, &layout, warn));
        let net = net.map_err(OpenError::Net)?;
        // What follows from a key names no boot of a host.
        let config = Config { address: Some(net.address().on_host(own_tag()?)), ..config };
        let mut world = World {
            shm: Shm::open(config)?,
            matches: net.matches_by().is_some(),
            net: Some(Box::new(net)),
            shares,
            watcher: OnceLock::new(),
            sent_bytes: 0,
        };
        if world.matches {
            let own = world.shm.address();
            let own = world.shm.peer(&own).map_err(|_| OpenError::Net(NetError::NoDevice))?;
            world.net.iter_mut().for_each(|net| net.match_own(own));
        }
        Ok(world)
    }

    /// The network, if there is one.
    #[must_use]
    pub fn net(&self) -> Option<&Net> {
        self.net.as_deref()
    }

    /// Packets that wait for others to go with them go now ([`Net::send_held`]).
    #[inline]
    pub fn send_held(&mut self) {
        if let Some(net) = &mut self.net {
            net.send_held();
        }
    }

    /// As [`World::net`].
    #[cfg(test)]
    pub(crate) fn net_mut(&mut self) -> &mut Net {
        self.net.as_deref_mut().expect("it was opened with one")
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
    /// [`AddressError`] if no rail reaches it.
    pub fn peer(&mut self, address: &Address) -> Result<PeerId, AddressError> {
        if self.net.is_none() {
            return self.shm.peer(address);
        }
        let is_own = *address == self.shm.address();
        if self.matches && !is_own && address.host().is_none() {
            // A rail that matches does not reach it.
            return Err(AddressError::OtherHost);
        }
        if self.shares || is_own || address.host().is_none() {
            let found = self.shm.peer(address);
            if found != Err(AddressError::OtherHost) || address.host().is_none() {
                return found;
            }
        }
        self.peer_beyond(address)
    }

    /// The id of the process with this address, which the network reaches; the same one each
    /// time. Which host it is of was found out otherwise than by its tag.
    ///
    /// # Errors
    /// [`AddressError`] if no rail reaches it.
    pub fn peer_beyond(&mut self, address: &Address) -> Result<PeerId, AddressError> {
        let net = self.net.as_mut().ok_or(AddressError::OtherHost)?;
        let peer = self.shm.peer_elsewhere(address)?;
        net.introduce(peer, address);
        Ok(peer)
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

    /// The address of a peer that the network reaches; `None` for all others.
    #[must_use]
    pub fn far_address(&self, peer: PeerId) -> Option<Address> {
        self.beyond(peer)?;
        self.shm.peer_address(peer)
    }

    /// What the layer above calls a peer ([`Shm::peer_label`]).
    #[must_use]
    pub fn peer_label(&self, peer: PeerId) -> u64 {
        match self.beyond(peer) {
            Some(net) => net.label(peer),
            None => self.shm.peer_label(peer),
        }
    }

    /// A peer in words, for messages to people.
    #[must_use]
    pub fn describe(&self, peer: PeerId) -> String {
        match self.beyond(peer) {
            Some(net) => net.describe(peer),
            None => self.shm.describe(peer),
        }
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
        if faults::on_poll() {
            return 0;
        }
        drive::poll(self, now, machine, budget)
    }

    /// Delivers up to `budget` packets to `machine` and does nothing else: for a
    /// look at what has arrived before a request that may depend on it.
    #[inline]
    pub fn take_in<M: Machine>(&mut self, now: Nanos, machine: &mut M, budget: usize) -> usize {
        let inputs = drive::take_in(self, now, machine, budget);
        if self.shm.others_want() { inputs + self.poll_net(machine) } else { inputs }
    }

    /// Peers on this host are to see that this process takes in what it is sent: it posts a receive.
    #[inline]
    pub fn note_look(&self) {
        self.shm.note_look();
    }

    /// Whether a poll would find something to do; to be asked before sleeping,
    /// after [`Doorbell::arm`] ([`Shm::has_work`]).
    pub fn has_work(&mut self) -> bool {
        self.shm.has_work() || self.net.as_ref().is_some_and(|net| net.has_work())
    }

    /// For how long, in nanoseconds, a thread that looks after the rails may sleep
    /// unless somebody rings; zero if there is something to do. `haste` says what rings for
    /// the network.
    pub fn rest_ns(&mut self, haste: Haste) -> u64 {
        let rest_ns = self.shm.rest_ns();
        match &mut self.net {
            Some(net) => rest_ns.min(net.rest_ns(self.shm.refresh_now(), haste)),
            None => rest_ns,
        }
    }

    /// Whether the last rest was to gather what the network brings, and there is more to come.
    #[must_use]
    pub fn gathers(&self) -> bool {
        self.net.as_ref().is_some_and(|net| net.gathers())
    }

    /// Whether there is something left to be done here that no peer will ring
    /// for: to be asked by a call before it leaves the rails to a thread that
    /// sleeps.
    #[must_use]
    #[inline]
    pub fn is_busy(&self) -> bool {
        self.shm.is_busy() || self.net.as_ref().is_some_and(|net| net.has_work())
    }

    /// What a thread sleeps by until there is something to do.
    #[must_use]
    pub fn waker(&self) -> WorldWaker {
        WorldWaker { doorbell: self.shm.doorbell(), watcher: self.watcher() }
    }

    /// What looks at the network for those who sleep, if there is a network.
    fn watcher(&self) -> Option<Arc<Watcher>> {
        let net = self.net.as_ref()?;
        let made = self.watcher.get_or_init(|| {
            // Without one sleeps end by their deadline.
            Watcher::start(net.sockets(), self.shm.doorbell()).ok().map(Arc::new)
        });
        made.clone()
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

impl World {
    /// The network, for a peer on another host.
    #[inline(always)]
    fn beyond(&self, peer: PeerId) -> Option<&Net> {
        self.net.as_deref().filter(|_| self.shm.is_elsewhere(peer))
    }

    /// As [`World::beyond`].
    #[inline(always)]
    fn beyond_mut(&mut self, peer: PeerId) -> Option<&mut Net> {
        let net = self.net.as_deref_mut()?;
        if !self.shm.is_elsewhere(peer) {
            return None;
        }
        net.set_now(self.shm.refresh_now());
        self.shm.attend_to_others();
        Some(net)
    }

    /// Memory that the network is to use; nothing of it if the client has not the memory
    /// that it names, where that is to be found out. Over shared memory the kernel finds
    /// it out.
    #[inline(always)]
    fn within_reach(&self, peer: PeerId, region: Region, rights: Rights) -> Region {
        if self.beyond(peer).is_none() { region } else { self.usable(region, rights) }
    }

    #[inline(never)]
    fn usable(&self, region: Region, rights: Rights) -> Region {
        let is_there = (!rights.read || self.shm.readable(region))
            && (!rights.write || self.shm.writable(region));
        if is_there { region } else { Region { len: 0, ..region } }
    }

    /// Takes in what the network has.
    #[inline(never)]
    fn poll_net<M: Machine>(&mut self, machine: &mut M) -> usize {
        let now = self.shm.refresh_now();
        let World { shm, net, .. } = self;
        let Some(net) = net else { return 0 };
        match net.glance(now) {
            Glance::Quiet => return 0,
            Glance::Came => {}
            Glance::Due => net.poll(now, &mut |address| shm.peer_elsewhere(address).ok()),
        }
        let matched = if self.matches { self.tell_matched(now, machine) } else { 0 };
        let mut inputs = 0;
        while inputs < NET_INPUTS_MAX {
            let Some(event) = self.net.as_mut().and_then(|net| net.next_event()) else { break };
            inputs += 1;
            match event {
                Event::Connected(peer, opened) => machine.on_connected(now, self, peer, opened),
                Event::Packet(peer, packet) => {
                    self.shm.observe_arrival(peer, &packet);
                    machine.on_any(now, self, peer, &packet);
                }
                Event::Moved(token, outcome) => machine.on_moved(now, self, token, outcome),
                Event::Gone(peer, why)
                    if self.net.as_mut().is_some_and(|net| net.lingers(peer, why)) => {}
                Event::Gone(peer, why) => machine.on_peer_gone(now, self, peer, why),
            }
        }
        if inputs == NET_INPUTS_MAX
            && let Some(net) = &mut self.net
        {
            net.end_poll();
        }
        let all = matched + inputs;
        if all > 0 {
            self.shm.owe_idle();
        }
        all
    }

    #[cold]
    #[inline(never)]
    fn transmit_beyond(&mut self, peer: PeerId, head: HeadBuf, payload: Region) {
        // One that has ended swallows what it is sent.
        if let Some(net) = self.beyond_mut(peer) {
            // SAFETY: the machine vouches for the payload, by the contract of `transmit`.
            unsafe { net.transmit(peer, &head, payload) };
        }
    }

    #[cold]
    #[inline(never)]
    fn copy_payload_beyond(&mut self, offset: u32, to: Addr, len: u32) {
        let bytes = self.payload_beyond(offset, len as usize);
        // SAFETY: the machine vouches for the destination, by the contract of
        // `copy_payload`; the bytes are in a buffer of the network's own.
        unsafe {
            let to: *mut u8 = std::ptr::with_exposed_provenance_mut(to.0 as usize);
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len());
        }
    }

    fn payload_beyond(&self, offset: u32, len: usize) -> &[u8] {
        let payload = self.net.as_deref().map_or(&[][..], Net::payload);
        let within = payload.get(offset as usize..).and_then(|rest| rest.get(..len));
        within.expect("a copy stays inside the payload")
    }
}

impl Host for World {
    #[inline(always)]
    fn shm_mut(&mut self) -> &mut Shm {
        &mut self.shm
    }

    fn poll_others<M: Machine>(&mut self, now: Nanos, machine: &mut M) -> usize {
        let is_due = self.net.as_ref().is_some_and(|net| net.is_due(now));
        if is_due { self.poll_net(machine) } else { 0 }
    }

    #[cold]
    fn show<M: Machine>(&mut self, machine: &M) {
        let snapshot = self.snapshot(machine);
        self.shm.show(&snapshot.to_json());
    }

    fn others_want(&self) -> bool {
        self.net.as_ref().is_some_and(|net| net.is_awake())
    }
}

impl Port for World {
    type Shared = Shm;

    #[inline(always)]
    fn shared(&mut self) -> Option<&mut Shm> {
        Some(&mut self.shm)
    }

    #[inline(always)]
    fn tag_matching(&mut self) -> Option<&mut dyn TagMatching> {
        if self.matches { Some(self) } else { None }
    }
}

impl Transport for World {
    fn connect(&mut self, peer: PeerId) -> Result<Connect, PeerError> {
        match self.beyond_mut(peer) {
            Some(net) => net.connect(peer),
            None => self.shm.connect(peer),
        }
    }

    fn watch(&mut self, peer: PeerId) {
        match self.beyond_mut(peer) {
            Some(net) => net.watch(peer),
            None => self.shm.watch(peer),
        }
    }

    fn refuse(&mut self, peer: PeerId) {
        match self.beyond_mut(peer) {
            Some(net) => net.refuse(peer),
            None => self.shm.refuse(peer),
        }
    }

    #[inline(always)]
    fn transmit(
        &mut self,
        peer: PeerId,
        head: &HeadBuf,
        payload: Region,
        _token: Token,
    ) -> Transmitted {
        self.shm.observe_out(peer, head);
        if !self.shm.write_packet(peer, head, payload) {
            // By value, so that the head of a packet in shared memory stays in registers.
            self.transmit_beyond(peer, *head, payload);
        }
        Transmitted::Done
    }

    fn is_looking(&mut self, peer: PeerId, bytes: u64) -> bool {
        self.shm.is_looking(peer, bytes)
    }

    fn uid(&self, peer: PeerId) -> u32 {
        match self.beyond(peer) {
            Some(net) => net.uid(peer).unwrap_or(u32::MAX),
            None => self.shm.uid(peer),
        }
    }
}

impl LocalMemory for World {
    #[inline(always)]
    fn copy_payload(&mut self, offset: u32, to: Addr, len: u32) -> bool {
        let copied = self.shm.try_copy_payload(offset, to, len);
        if copied == Copied::NotHere {
            self.copy_payload_beyond(offset, to, len);
        }
        copied != Copied::Cut
    }

    #[inline(always)]
    fn payload(&self, offset: u32, into: &mut [u8]) {
        if !self.shm.try_payload(offset, into) {
            into.copy_from_slice(self.payload_beyond(offset, into.len()));
        }
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
        match self.beyond(peer) {
            Some(net) => net.caps(peer),
            None => self.shm.caps(peer),
        }
    }

    #[inline(always)]
    fn expose(&mut self, peer: PeerId, region: Region, rights: Rights) -> RemoteKey {
        let region = self.within_reach(peer, region, rights);
        match self.beyond_mut(peer) {
            Some(net) => net.expose(peer, region, rights),
            None => self.shm.expose(peer, region, rights),
        }
    }

    #[inline(always)]
    fn revoke(&mut self, peer: PeerId, key: RemoteKey) {
        match self.beyond_mut(peer) {
            Some(net) => net.revoke(peer, key),
            None => self.shm.revoke(peer, key),
        }
    }

    #[inline(always)]
    fn read_remote(&mut self, peer: PeerId, from: Remote, to: Region, token: Token) {
        self.shm.observe_move(peer, false, to.len);
        let is_there = self.within_reach(peer, to, Rights::WRITE) == to;
        match self.beyond_mut(peer) {
            Some(net) if !is_there => net.refuse_move(token),
            Some(net) => net.read(peer, from, to, token),
            None => self.shm.read_remote(peer, from, to, token),
        }
    }

    #[inline(always)]
    fn write_remote(&mut self, peer: PeerId, from: Region, to: Remote, token: Token) {
        self.shm.observe_move(peer, true, from.len);
        let is_there = self.within_reach(peer, from, Rights::READ) == from;
        match self.beyond_mut(peer) {
            Some(net) if !is_there => net.refuse_move(token),
            Some(net) => net.write(peer, from, to, token),
            None => self.shm.write_remote(peer, from, to, token),
        }
    }

    fn publish(
        &mut self,
        key: u64,
        region: Region,
        first: u64,
        rights: Rights,
    ) -> Option<Published> {
        self.shm.publish(key, region, first, rights)
    }

    fn withdraw(&mut self, published: Published) {
        self.shm.withdraw(published);
    }

    fn read_published(
        &mut self,
        peer: PeerId,
        key: u64,
        offset: u64,
        to: Region,
    ) -> Option<Result<(), RailError>> {
        self.shm.read_published(peer, key, offset, to)
    }

    fn write_published(
        &mut self,
        peer: PeerId,
        key: u64,
        offset: u64,
        from: Region,
    ) -> Option<Result<(), RailError>> {
        self.shm.write_published(peer, key, offset, from)
    }
}

#[cfg(test)]
mod tests;
