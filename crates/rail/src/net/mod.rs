//! Peers on other hosts, over TCP.
//!
//! [`Net`] is what the port of a process asks for peers that shared memory does not
//! reach. Each such peer ([`remote`](self)) has one connection for each pair of network
//! devices by which the two reach each other; `multirail` says which of them takes what,
//! and what happens when one fails.
//!
//! | file | what it holds |
//! |---|---|
//! | `remote` | one peer: what has been asked of it, and its connections |
//! | `check` | the check of a frame's header, in few instructions |
//! | `conn`, `outbound` | one connection: when it is given something, and what |
//! | `serve` | a chunk on its way out |
//! | `bursts` | when small frames wait for each other |
//! | `glance` | the shortest poll: a look at the busy sockets alone |
//! | `gather` | how much wakes a thread that sleeps, and for how long it may |
//! | `lane` | what carries its bytes |
//! | `packets` | what comes most: the packet that is next |
//! | `place` | a place in memory, of this process or of its client |
//! | `ring` | the stream of packets to a peer, until they are acknowledged |
//! | `matching` | a rail that matches tags: who agrees on it, when it is looked at |
//! | `fabric` | devices of libfabric's, and the lanes over them |
//! | `fetch` | chunks that such a device reads by itself |
//! | `meet` | the first contact with a peer, the opening of rails |
//! | `join`, `known` | connections that are not open yet, and those that have just been opened |
//! | `config` | how a process takes part, and what keeps it off the network |
//! | `listening` | where it listens, and is reached |
//! | `listing` | which connections are in the system's list of those that have something |
//! | `strangers` | listening sockets, and those who have not said who they are |
//! | `changes` | news of the network: a link that is there again |
//! | `carried` | how many bytes went by each device |
//! | `stats` | counts of the rest |
//! | `carriers` | which own devices carry nothing, as these news say |
//! | `sealed` | what stands between frames and sockets where they are sealed |
//! | `take_in` | what comes: frames, chunks, ends of connections |
//! | `perform` | what `multirail` wants done |
//! | `leave` | the end of this process's part |
//! | `allowance` | what strangers may cost |
//! | `ask` | what the machine asks for |
//! | `sock` | system calls |
//! | `watcher` | what wakes a thread that sleeps |
//! | `handshake` | who may connect |
//! | `devices` | network devices, and which are used |
//!
//! Nothing here calls a machine. [`Net::poll`] looks what the system has,
//! [`Net::next_event`] says one by one what the machine is to be told, so that what the
//! machine then asks for reaches this again.
//!
//! Invariants:
//! - What comes is checked before it is used. A peer that breaks the rules is given up,
//!   by name; a stranger is dropped and counted.
//! - Bytes of a chunk go only where a read that is under way wants them.
//! - Memory of the client is read only while it is exposed.
//! - Every wait has a deadline, of `multirail` or of [`meet`](self).

mod allowance;
mod ask;
mod bursts;
mod carried;
mod carriers;
mod changes;
mod check;
mod config;
mod conn;
pub mod devices;
mod drain;
mod fabric;
mod fetch;
mod gather;
mod glance;
pub mod handshake;
mod join;
mod known;
mod lane;
mod leave;
mod listening;
mod listing;
mod matching;
mod meet;
mod outbound;
mod packets;
mod perform;
mod place;
mod remote;
mod ring;
mod sealed;
mod serve;
mod sock;
mod stats;
mod strangers;
mod take_in;
#[cfg(test)]
mod tests;
pub(crate) mod watcher;

use crate::address::Address;
use crate::ofi::Token as LaneToken;
use crate::shm::Warn;
use allowance::Allowances;
use bursts::Habit;
use carried::Carried;
use carriers::Carriers;
use changes::News;
pub use config::{FabricDevice, NetConfig, NetError, OwnDevice};
use conn::Conn;
use fabric::Fabric;
pub use fabric::{FabricOffer, fabric_offers};
pub use glance::Glance;
use handshake::Identity;
use join::Joining;
use matching::Matching;
pub use matching::NoMatching;
pub(crate) use place::Place;
use remote::{Met, Remote, Stage};
use rustix::event::epoll;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use slab::Slab;
pub use sluice_fabric::FabricError;
use sluice_link::{Exposures, Layout, Opened, PeerError, RailError, Token};
use sluice_multirail::RailId;
pub use sluice_multirail::Striping;
use sluice_wire::{Nanos, Parsed, PeerId, SLOT_BYTES};
pub use stats::NetStats;
use std::collections::VecDeque;
use std::io;
use std::mem::MaybeUninit;
use std::net::IpAddr;
use strangers::Listener;

/// Bytes that one look at a socket brings at most, chunks aside.
const BUFFER_BYTES: usize = 256 << 10;
/// The same behind a chunk, and where one is expected: room for the headers that follow, and
/// little more, because what lands there of the next chunk is copied once more.
const TAIL_BYTES: usize = 512;
/// Bytes that nobody wants are taken in so many at a time.
const SCRATCH_BYTES: usize = 64 << 10;
/// Most sockets that the system lists at once.
const LISTED_MAX: usize = 64;
/// Least time between two looks at the system's list of sockets that have something, while
/// those that have had something lately are looked at in each poll.
const LIST_NS: u64 = 20_000;
/// More sockets than this are not looked at one by one.
const HOT_MAX: usize = 4;
/// Time between two rounds of what is looked after.
const ROUND_NS: u64 = 1_000_000;
/// Most chunks that a peer may have asked for on one connection.
const SERVES_MAX: usize = 1024;
/// Most bytes of answers that wait for a peer to take them.
const SMALL_BYTES_MAX: usize = 1 << 20;
/// Most writes of a peer under way.
const WRITES_MAX: usize = 4096;
/// Most writes of this process to one peer that the peer is told of at once; others wait.
/// Fewer than a peer takes, for those of other builds, and more than keep any rail busy.
const OWN_WRITES_MAX: usize = WRITES_MAX / 4;

/// What the machine is to be told.
#[derive(Clone, Copy, Debug)]
pub enum Event {
    /// The connection to a peer is open.
    Connected(PeerId, Opened),
    /// A packet has come. Its payload can be copied ([`Net::payload`]) until the next
    /// event is asked for.
    Packet(PeerId, Parsed),
    /// A read or write of remote memory has ended.
    Moved(Token, Result<(), RailError>),
    /// A peer will never answer again.
    Gone(PeerId, PeerError),
}

/// See the module.
#[derive(Debug)]
pub struct Net {
    identity: Identity,
    config: NetConfig,
    /// What the own mailbox grants to each sender.
    opened: Opened,
    /// Longest packet that fits the own mailbox.
    packet_bytes_max: u32,
    /// Most peers that may have credits here.
    peers_max: usize,
    /// Where it listens, by device.
    ports: Vec<u16>,
    /// What matches tags in the place of this process, and by which device.
    matching: Option<Matching>,
    /// What carries what goes by a device, if not TCP.
    fabrics: Vec<Option<Fabric>>,
    epoll: OwnedFd,
    entries: Slab<Entry>,
    /// Peers by their ids.
    remotes: Vec<Option<Box<Remote>>>,
    /// Those that both know each other, or are meeting.
    active: Vec<PeerId>,
    /// Connections that may have something: they are looked at in each poll.
    hot: Vec<usize>,
    /// Those that are looked at in this poll, each once (`Conn::is_in_turn`).
    turn: VecDeque<usize>,
    /// Those that have something to send.
    dirty: Vec<usize>,
    events: VecDeque<Event>,
    exposures: Exposures,
    /// What came last, of one connection.
    buffer: Vec<u8>,
    reading: Option<Reading>,
    /// Where bytes go that nobody wants.
    scratch: Vec<u8>,
    /// Where in the buffer the payload of the packet is that is being handled.
    payload: (usize, usize),
    actions: remote::Actions,
    habit: Habit,
    now: Nanos,
    /// When a poll began last, and when the one before it did: what comes now came since then.
    /// After a sleep, which what comes ends, that is now.
    looked: Nanos,
    gap_since: Nanos,
    has_slept: bool,
    /// When a short look has found something, if that was the last one.
    found: Option<Nanos>,
    /// When the system's list is looked at next.
    next_list: Nanos,
    next_round: Nanos,
    reads_made: u64,
    /// Hellos that were said.
    attempts: u32,
    /// Peers that are known, which may have credits.
    met_count: usize,
    /// Those who have connected and not proved who they are, oldest first.
    strangers: VecDeque<usize>,
    allowances: Allowances,
    /// Where the devices of peers are that have ended.
    familiar: VecDeque<IpAddr>,
    /// Listening sockets at which more may wait than was taken; and those at which some wait
    /// until the system has descriptors for them, or strangers make room. Each is there once.
    accept_again: Vec<usize>,
    accept_later: Vec<usize>,
    /// That the network has changed: what failed is tried anew.
    news: News,
    /// The entry of the socket that tells of changes.
    changes: Option<usize>,
    /// Of the own devices, which carry nothing.
    carriers: Carriers,
    /// What went by them.
    carried: Carried,
    /// How many connections take nothing for now.
    blocked: usize,
    /// The next poll asks the system which sockets have something.
    looks_at_list: bool,
    /// A thread has slept, and may sleep again at any time.
    has_sleepers: bool,
    /// What the system has listed and was not looked at: entries, and what is with them.
    listed: Vec<(usize, epoll::EventFlags)>,
    /// Connections with bytes that came behind the handshake.
    unread: Vec<usize>,
    stats: NetStats,
    warn: Warn,
    /// What this process was short of was said.
    is_shortage_told: bool,
    /// The process that opened this.
    pid: u32,
}

/// How far the buffer has been read.
#[derive(Clone, Copy, Debug)]
struct Reading {
    entry: usize,
    at: usize,
    end: usize,
}

/// What a descriptor is for.
#[derive(Debug)]
enum Entry {
    Listener(Listener),
    Joining(Box<Joining>),
    Conn(Box<Conn>),
    /// What tells of changes of the network.
    Changes(OwnedFd),
    /// What tells that something has come by a device of libfabric's.
    Fabric(OwnedFd),
    /// What tells that something has come by a rail that matches, as long as there is
    /// something.
    Matching(OwnedFd),
    /// It is being made into something else.
    Taken,
}

impl Net {
    /// Listens on all devices. `identity` is the process's, without a host; its mailbox is
    /// divided as `layout` says.
    ///
    /// # Errors
    /// [`NetError`].
    pub fn open(
        identity: Identity,
        config: NetConfig,
        layout: &Layout,
        warn: Warn,
    ) -> Result<Net, NetError> {
        let slots = u32::from(layout.grant.data_slots) + layout.dynamic_slots;
        let slots = slots.max(u32::from(layout.reply_slots));
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)
            .map_err(|cause| NetError::Epoll(cause.into()))?;
        let mut net = Net {
            identity,
            opened: layout.opened(),
            packet_bytes_max: slots.saturating_mul(SLOT_BYTES as u32),
            peers_max: usize::from(layout.senders_max),
            ports: Vec::new(),
            fabrics: Vec::new(),
            matching: None,
            epoll,
            entries: Slab::new(),
            remotes: Vec::new(),
            active: Vec::new(),
            hot: Vec::new(),
            turn: VecDeque::new(),
            dirty: Vec::new(),
            events: VecDeque::new(),
            exposures: Exposures::default(),
            buffer: vec![0; BUFFER_BYTES],
            reading: None,
            scratch: vec![0; SCRATCH_BYTES],
            payload: (0, 0),
            actions: remote::Actions::default(),
            habit: Habit::default(),
            now: Nanos(0),
            looked: Nanos(0),
            gap_since: Nanos(0),
            has_slept: false,
            found: None,
            next_list: Nanos(0),
            next_round: Nanos(0),
            reads_made: 0,
            attempts: 0,
            is_shortage_told: false,
            met_count: 0,
            strangers: VecDeque::new(),
            allowances: Allowances::default(),
            accept_again: Vec::new(),
            accept_later: Vec::new(),
            familiar: VecDeque::new(),
            unread: Vec::new(),
            news: News::default(),
            changes: None,
            carriers: Carriers::default(),
            carried: Carried::default(),
            blocked: 0,
            looks_at_list: false,
            has_sleepers: false,
            listed: Vec::new(),
            stats: NetStats::default(),
            warn,
            pid: std::process::id(),
            config,
        };
        net.listen_on_all()?;
        net.carriers = Carriers::of(net.config.devices.len());
        net.carried = Carried::of(net.config.devices.len());
        net.open_fabrics()?;
        net.open_matching();
        if let Ok(socket) = changes::open() {
            // Without it what fails is tried again when its time comes.
            net.changes = net.add(Entry::Changes(socket)).ok();
        }
        net.identity = net.located().ok_or(NetError::NoDevice)?;
        Ok(net)
    }

    /// The address of this process, for its peers.
    #[must_use]
    pub fn address(&self) -> Address {
        self.identity.address()
    }

    /// Looks what the system has. [`Net::next_event`] says what has come of it. `intern`
    /// gives the id of a peer that is not known yet.
    pub fn poll(&mut self, now: Nanos, intern: &mut dyn FnMut(&Address) -> Option<PeerId>) {
        self.begin_look(now);
        if self.habit.begin_poll(now) {
            self.flush_dirty();
        }
        for at in 0..self.hot.len() {
            self.look_again(self.hot[at]);
        }
        if !self.accept_again.is_empty() {
            for entry in std::mem::take(&mut self.accept_again) {
                self.accept(entry);
            }
        }
        let is_listed = self.hot.len() > HOT_MAX
            || self.hot.is_empty() && !self.is_matching_used()
            || self.blocked > 0
            || std::mem::take(&mut self.looks_at_list)
            || now >= self.next_list;
        if is_listed {
            self.next_list = now.saturating_add(Nanos(LIST_NS));
            self.look_at_list(intern);
        }
        self.look_at_fabrics();
        self.look_at_matching();
        if now >= self.next_round {
            self.next_round = now.saturating_add(Nanos(ROUND_NS));
            self.look_after();
        }
    }

    /// A poll begins, short or whole.
    fn begin_look(&mut self, now: Nanos) {
        self.now = now;
        if now > self.looked {
            self.gap_since = if self.has_slept { now } else { self.looked };
            (self.looked, self.has_slept) = (now, false);
        }
    }

    /// The time, for what the machine asks between two polls.
    pub fn set_now(&mut self, now: Nanos) {
        self.now = self.now.max(now);
    }

    /// What the machine is to be told next; `None` if that was all.
    pub fn next_event(&mut self) -> Option<Event> {
        loop {
            if let Some(event) = self.events.pop_front() {
                return Some(event);
            }
            if self.reading.is_some() {
                if let Some(event) = self.next_packet().or_else(|| self.read_frame()) {
                    return Some(event);
                }
            } else if let Some(entry) = self.unread.pop() {
                self.reread(entry);
            } else if let Some(entry) = self.turn.pop_front() {
                if let Some(conn) = self.conn(entry) {
                    conn.is_in_turn = false;
                }
                self.receive(entry);
            } else {
                self.flush_dirty();
                if self.events.is_empty() {
                    self.habit.end_poll();
                    return None;
                }
            }
        }
    }

    /// The caller asks for no more events of this poll, though there may be some.
    pub fn end_poll(&mut self) {
        if self.habit.is_polling() {
            self.flush_dirty();
            self.habit.end_poll();
        }
    }

    /// Whether there is something left to be done here that nobody else calls for.
    #[must_use]
    pub fn has_work(&self) -> bool {
        !self.dirty.is_empty() || self.has_work_but_chunks()
    }

    /// The same, leaving out what sockets are to be given.
    fn has_work_but_chunks(&self) -> bool {
        !self.events.is_empty()
            || !self.turn.is_empty()
            || !self.unread.is_empty()
            || self.reading.is_some()
            || !self.accept_again.is_empty()
            || !self.listed.is_empty()
            || self.has_matched()
    }

    /// Whether something may have come on a connection that was used a moment ago, or is
    /// left to be done here.
    #[must_use]
    pub fn is_awake(&self) -> bool {
        !self.hot.is_empty() || self.has_work() || self.is_matching_used()
    }

    /// Whether a poll now may find something. While nobody is known here only strangers
    /// could come, which are looked for now and then.
    #[must_use]
    pub fn is_due(&self, now: Nanos) -> bool {
        !self.active.is_empty() || self.is_awake() || now >= self.next_round
    }

    /// The list of sockets that have something: readable when one has.
    pub(crate) fn sockets(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }

    /// The payload of the packet that was told last.
    #[must_use]
    pub fn payload(&self) -> &[u8] {
        let (at, len) = self.payload;
        &self.buffer[at..at + len]
    }

    /// Counts.
    #[must_use]
    pub fn stats(&self) -> NetStats {
        self.stats
    }

    fn remote(&self, peer: PeerId) -> Option<&Remote> {
        self.remotes.get(peer.index())?.as_deref()
    }

    fn remote_mut(&mut self, peer: PeerId) -> Option<&mut Remote> {
        self.remotes.get_mut(peer.index())?.as_deref_mut()
    }

    fn met(&self, peer: PeerId) -> Option<&Met> {
        match &self.remote(peer)?.stage {
            Stage::Met(met) => Some(met),
            _ => None,
        }
    }

    fn met_mut(&mut self, peer: PeerId) -> Option<&mut Met> {
        match &mut self.remote_mut(peer)?.stage {
            Stage::Met(met) => Some(met),
            _ => None,
        }
    }

    fn conn(&mut self, entry: usize) -> Option<&mut Conn> {
        match self.entries.get_mut(entry)? {
            Entry::Conn(conn) => Some(conn),
            _ => None,
        }
    }

    /// The connection that a rail to a peer is.
    fn conn_of(&mut self, peer: PeerId, rail: RailId) -> Option<&mut Conn> {
        let entry = self.met(peer)?.conns[rail.index()]?;
        self.conn(entry)
    }

    /// Asks the system which sockets have something, or take something again.
    fn list_ready(&mut self) {
        let mut room = [MaybeUninit::uninit(); LISTED_MAX];
        let timeout = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
        // What is not listed now is the next time.
        if let Ok((events, _)) = epoll::wait(&self.epoll, &mut room, Some(&timeout)) {
            let ready = events.iter().map(|event| (event.data.u64() as usize, event.flags));
            self.listed.extend(ready);
        }
    }

    /// Does what follows from what the system lists.
    fn look_at_list(&mut self, intern: &mut dyn FnMut(&Address) -> Option<PeerId>) {
        self.list_ready();
        let mut listed = std::mem::take(&mut self.listed);
        for (entry, flags) in listed.drain(..) {
            match self.entries.get_mut(entry) {
                Some(Entry::Conn(conn)) => {
                    conn.lane.note_due();
                    if flags.contains(epoll::EventFlags::OUT) && conn.is_blocked {
                        conn.is_blocked = false;
                        self.blocked -= 1;
                        self.mark_dirty(entry);
                    }
                    if flags != epoll::EventFlags::OUT {
                        self.warm(entry);
                    }
                }
                Some(Entry::Listener(_)) => self.accept(entry),
                Some(Entry::Joining(_)) => self.drive_joining(entry, intern),
                Some(Entry::Changes(_)) => self.on_change(entry),
                // All of them are looked at in each poll.
                Some(Entry::Fabric(_) | Entry::Matching(_) | Entry::Taken) | None => {}
            }
        }
        // Its memory is used again.
        self.listed = listed;
    }

    /// A connection may have something: it is looked at in this poll and those that follow.
    fn warm(&mut self, entry: usize) {
        if let Some(conn) = self.conn(entry) {
            conn.polls_in_vain = 0;
        }
        if !self.hot.contains(&entry) {
            self.hot.push(entry);
            self.look_again(entry);
        }
    }

    /// A connection is looked at in this poll, however often that is asked for: once for each
    /// turn that it comes to.
    fn look_again(&mut self, entry: usize) {
        let Some(conn) = self.conn(entry) else { return };
        if !std::mem::replace(&mut conn.is_in_turn, true) {
            self.turn.push_back(entry);
        }
    }

    fn mark_dirty(&mut self, entry: usize) {
        let Some(conn) = self.conn(entry) else { return };
        conn.rests_until = None;
        if !conn.is_dirty {
            conn.is_dirty = true;
            self.dirty.push(entry);
        }
    }

    /// Adds a descriptor to the system's list.
    fn list(&self, socket: &impl AsFd, entry: usize) -> io::Result<()> {
        let mut flags = epoll::EventFlags::IN | epoll::EventFlags::ET;
        if !matches!(self.entries[entry], Entry::Changes(_)) {
            // News are only read, and that one could write there is none.
            flags |= epoll::EventFlags::OUT | epoll::EventFlags::RDHUP;
        }
        Ok(epoll::add(&self.epoll, socket, epoll::EventData::new_u64(entry as u64), flags)?)
    }
}
