//! The rail between processes of one machine: a mailbox per process in shared
//! memory, and direct moves to and from a peer's memory for large data.
//!
//! Owns: the segments (`segment`, `backing`), the ring in them (`ring`,
//! `copy`), the peers and whether they live (`peers`, `watch`), direct moves
//! (`bulk`), those that both sides copy (`shared`, with their `claims_line` and the
//! record of `chunk_claims`), the memory of the client (`client`, `guard`), lent memory
//! (`lent`), what moves cost (`calibrate`), what wakes a sleeper (`bell`, `doorbell`), the
//! names by which processes find each other (`names`), and the cards that say where the
//! mailbox of an address is (`card`, `lookup`); both are files that their process holds
//! (`held`).
//! `drive` runs a machine over them (`senders`: who writes into the own mailbox), which
//! gets the rail's `host` as its port; `port` is what the machine may ask of this rail.
//! `docs/decisions/0001-the-path-of-a-message.md` says why it is built this way.
//!
//! Invariants:
//! - Shared memory is untrusted: it is copied, then checked; it can make a
//!   packet be refused or a peer be given up, nothing more.
//! - What a peer published before it ended is delivered before its end is
//!   reported, and its end is reported once.
//! - A process that stops living at any instruction stops nobody else.
//! - Whoever writes over the memory leaves nobody waiting: what was lost by it is
//!   found, and the peers concerned are given up by name.
//! - No locks: one thread at a time uses a rail.

mod ahead;
mod announcing;
mod backing;
pub(crate) mod bell;
mod bounce;
mod bulk;
mod calibrate;
mod card;
mod chunk_claims;
mod claims_line;
mod client;
mod config;
mod copy;
mod direct;
mod dirs;
mod doorbell;
pub(crate) mod drive;
mod error;
mod guard;
mod handover;
mod held;
mod host;
mod housekeeping;
mod identity;
mod intent;
mod kept_fd;
mod lent;
mod limits;
mod looks;
mod lookup;
mod mapping;
mod names;
mod observe;
mod packets;
mod peers;
mod place;
mod port;
mod portions;
mod prefetch;
pub mod probe;
mod processor;
mod published;
mod ring;
mod segment;
mod senders;
mod shared;
mod shared_bytes;
mod show;
mod stats;
mod stores;
#[cfg(test)]
pub(crate) mod tests;
mod times;
mod watch;
mod ways;

pub use calibrate::COSTS;
pub use config::{BulkKind, Config, CreditKind, Guard, SegmentKind, Warn};
pub use doorbell::{Armed, Doorbell, SLEEP_NS_MAX, Woken};
pub use error::OpenError;
pub(crate) use host::Host;
pub(crate) use limits::PEERS_MAX;
pub use lookup::stale_cards;
pub use names::{Name, NameError, Names, PidClaim, host_id};
pub(crate) use packets::Copied;
pub use peers::bytes_per_idle_peer;
pub use place::PayloadPlace;
pub use show::{Watchable, Watcher};
pub use stats::Stats;

use crate::address::{Address, AddressError, KEY_BYTES, tag_of};
use crate::observer::{Observed, Observer};
use backing::Backing;
use card::{Card, card_of};
use held::Held;
use identity::Identity;
use lent::Lent;
use packets::Current;
use peers::{Peer, Peers};
use rustix::process::{PTracer, set_ptracer};
use rustix::time::{ClockId, clock_gettime};
use segment::{Reader, Segment, segment_bytes};
use sluice_link::{ClaimsId, Layout, PeerError};
use sluice_wire::{Nanos, PeerId, Region};
use std::collections::HashSet;
use std::io;
use std::path::PathBuf;

/// One process's end of the shared-memory rail.
#[derive(Debug)]
pub struct Shm {
    // The fields that every empty poll reads stand together.
    reader: Reader,
    polls: u32,
    /// Why the next poll does more than to look at the mailbox (`drive`).
    attention: u8,
    clock: Nanos,
    /// What is noted of packets and requests, while somebody wants that.
    observer: Option<Box<Observer>>,

    peers: Peers,
    /// Who writes with which entry of the own mailbox.
    senders: Vec<senders::Sender>,
    /// What the claims of their entries said when they were found out.
    entry_claims: Vec<u64>,
    packet_slots_max: u32,
    current: Current,
    ahead: ahead::Ahead,
    transfers: bulk::Queue,
    own_claims: chunk_claims::OwnClaims,
    own_bounces: bounce::OwnBounces,
    own_published: published::OwnPublished,
    /// The newest transfer by chunk claims of a peer that this process has copied
    /// alone.
    written_alone: Option<(PeerId, ClaimsId)>,
    lent: Lent,
    stats: Stats,
    show: show::Show,

    /// Peers that have ended and are not reported yet.
    ending: Vec<PeerId>,
    /// Peers that are to be given up, and why.
    condemned: Vec<(PeerId, PeerError)>,
    /// Peers that are to be watched as soon as this process has a descriptor for it.
    unwatched: Vec<PeerId>,
    /// Peers whose label was looked up in vain, which was said.
    missed: HashSet<PeerId>,
    /// What this process was short of was said.
    is_shortage_told: bool,
    housekeeping: housekeeping::Housekeeping,

    /// By which peers find the mailbox; dropped, and with it the file of the card,
    /// before the mailbox is.
    published: Held,
    segment: Segment,
    doorbell: Doorbell,
    backing: Backing,
    address: Address,
    card: Card,
    bulk: BulkKind,
    /// Whether memory of the client is looked at before it is used.
    checks: bool,
    shm_dir: PathBuf,
    notices: Vec<String>,
    warn: Warn,
    names: Option<(Names, u8)>,
    identity: Identity,
    /// Where peers look for the mark of the key; boxed, so that it stays where it is.
    _probe: Box<u64>,
}

// SAFETY: the pointers in the reader and in the writers of the peer table lead
// into mappings that they keep and that belong to the process, not to a thread.
// All access is through atomics.
unsafe impl Send for Shm {}

impl Shm {
    /// Makes this process's mailbox.
    ///
    /// # Errors
    /// [`OpenError`], which says what the remedy is.
    pub fn open(config: Config) -> Result<Shm, OpenError> {
        let layout = config.layout()?;
        if config.guard == Guard::Check {
            guard::install();
        }
        let identity = Identity::of_this_process()?;
        let address = match config.address {
            Some(address) => {
                assert_eq!(address.tag(), tag_of(identity.host), "an address of this host");
                address
            }
            None => {
                let key = fresh_key().map_err(|cause| OpenError::Key { cause })?;
                Address::local(tag_of(identity.host), key)
            }
        };
        let mark = address.mark();
        let bytes = segment_bytes(&layout) as u64;
        let mut notices = Vec::new();
        let backing = Backing::create(&config, &identity, mark, bytes, &mut notices)?;
        let segment = Segment::create(backing.fd(), backing.is_file(), layout, mark, config.sleeps)
            .map_err(|cause| OpenError::Map { bytes, cause })?;
        if config.bulk == BulkKind::Direct {
            // Systems without Yama refuse this and need nothing of the kind.
            let _ = set_ptracer(PTracer::Any);
        }
        let probe = Box::new(mark);
        let probe_addr = (&raw const *probe).expose_provenance() as u64;
        let place = backing.place(&identity);
        let card = card_of(&identity, *address.key(), place, probe_addr, config.label);
        // Last: who finds the card finds a whole mailbox.
        let published = lookup::publish(&card, &identity, &config.shm_dir)?;
        let mut shm = Shm {
            reader: segment.reader(),
            polls: 0,
            attention: 0,
            clock: clock_now(),
            observer: observer_of(config.observed),
            peers: Peers::default(),
            senders: vec![senders::Sender::NOBODY; usize::from(layout.senders_max)],
            entry_claims: vec![0; usize::from(layout.senders_max)],
            packet_slots_max: (u32::from(layout.grant.data_slots) + layout.dynamic_slots)
                .max(u32::from(layout.reply_slots)),
            current: Current::none(),
            ahead: ahead::Ahead::default(),
            transfers: bulk::Queue::default(),
            own_claims: chunk_claims::OwnClaims::new(),
            own_bounces: bounce::OwnBounces::new(segment.bounces_len()),
            own_published: published::OwnPublished::new(),
            written_alone: None,
            lent: Lent::new(),
            stats: Stats::default(),
            show: show::Show::default(),
            ending: Vec::new(),
            condemned: Vec::new(),
            unwatched: Vec::new(),
            missed: HashSet::new(),
            is_shortage_told: false,
            housekeeping: housekeeping::Housekeeping::default(),
            doorbell: Doorbell::new(segment.bell()),
            segment,
            backing,
            address,
            card,
            published,
            bulk: config.bulk,
            checks: config.guard == Guard::Check,
            shm_dir: config.shm_dir,
            notices,
            warn: config.warn,
            names: None,
            identity,
            _probe: probe,
        };
        // The first id is this process's own.
        shm.peers.intern(&address).expect("a fresh table has room");
        let own = shm.admit(&card).expect("its address is there");
        debug_assert_eq!(own, shm.own_peer());
        shm.note_seen(own);
        Ok(shm)
    }

    /// How this process's mailbox is divided.
    #[must_use]
    pub fn layout(&self) -> Layout {
        self.segment.layout()
    }

    /// The address of this process, for its peers.
    #[must_use]
    pub fn address(&self) -> Address {
        self.address
    }

    /// The id of the process with this address; the same one each time. Where its
    /// mailbox is, and what it is called, is looked up when it is first spoken to or
    /// waited for, unless it speaks first; until then it costs a few bytes.
    ///
    /// # Errors
    /// [`AddressError`] if this rail cannot reach it.
    pub fn peer(&mut self, address: &Address) -> Result<PeerId, AddressError> {
        if address.tag() != self.address.tag() {
            return Err(AddressError::OtherHost);
        }
        let peer = self.peers.intern(address)?;
        self.note_seen(peer);
        Ok(peer)
    }

    /// An id for a process that another rail reaches; the same one each time. Ids of all
    /// rails come from one table, because machines index by them. Here this one leads to the
    /// address alone: shared memory never looks for the process, and tells nothing of
    /// its end.
    ///
    /// # Errors
    /// [`AddressError::Conflict`] if the key is that of a process on this rail, or of an
    /// address that differs; [`AddressError::TooMany`].
    pub fn peer_elsewhere(&mut self, address: &Address) -> Result<PeerId, AddressError> {
        self.peers.intern_elsewhere(address)
    }

    /// Whether this is an id of [`Shm::peer_elsewhere`].
    #[must_use]
    pub fn is_elsewhere(&self, peer: PeerId) -> bool {
        self.peers.get(peer).is_some_and(Peer::is_elsewhere)
    }

    /// The id of the process that calls itself `label` ([`Config::label`]): the
    /// low half is what it is registered as, the high half its host. It is
    /// looked up when it is first spoken to ([`Shm::use_names`]), so it need
    /// not be there yet. One that has ended gives its label to the next. Who
    /// uses labels does not use [`Shm::peer`] for the same process.
    ///
    /// With too many peers known, and for the label zero, which is none, this
    /// is an id that nothing reaches.
    pub fn peer_named(&mut self, label: u64) -> PeerId {
        let peer = loop {
            let Some(newest) = self.peers.find_named(label) else {
                break self.peers.add_named(label).unwrap_or(PeerId(u32::MAX));
            };
            if !self.has_left(newest) {
                break newest;
            }
            // Its end is not noticed yet.
            self.peers.lose(newest);
        };
        self.note_seen(peer);
        peer
    }

    /// Where processes are looked up of which only the label is known, and as
    /// what kind.
    pub fn use_names(&mut self, names: Names, kind: u8) {
        self.names = Some((names, kind));
    }

    /// The id under which this process knows itself.
    #[must_use]
    pub fn own_peer(&self) -> PeerId {
        PeerId(0)
    }

    /// The address of a peer; `None` while only its label is known.
    #[must_use]
    pub fn peer_address(&self, peer: PeerId) -> Option<Address> {
        self.peers.get(peer)?.address
    }

    /// What the layer above calls a peer, by the peer's own account
    /// ([`Config::label`]); zero for one of which only the address is known, and for an
    /// id that was never given out.
    #[must_use]
    pub fn peer_label(&self, peer: PeerId) -> u64 {
        self.peers.get(peer).map_or(0, |known| known.label)
    }

    /// A peer in words, for messages to people.
    #[must_use]
    pub fn describe(&self, peer: PeerId) -> String {
        let Some(known) = self.peers.get(peer) else { return format!("unknown peer {}", peer.0) };
        match (&known.card, &known.address) {
            (Some(card), _) if card.pid_ns != self.card.pid_ns => {
                format!("pid {} of another pid namespace", card.pid)
            }
            (Some(card), _) => format!("pid {}", card.pid),
            (None, Some(address)) => format!("process {address}"),
            (None, None) => format!("the process called {:#x}", known.label),
        }
    }

    /// The coarse clock: as of one of the last polls.
    #[must_use]
    #[inline]
    pub fn now(&self) -> Nanos {
        self.clock
    }

    /// Reads the clock, for a caller that has been away for a while.
    pub fn refresh_now(&mut self) -> Nanos {
        self.clock = clock_now();
        self.clock
    }

    /// What a thread sleeps by until somebody writes into the mailbox. Only with
    /// [`Config::sleeps`] do the peers ring it.
    #[must_use]
    pub fn doorbell(&self) -> Doorbell {
        self.doorbell.clone()
    }

    /// What was found and mended when the rail was opened, in words.
    #[must_use]
    pub fn notices(&self) -> &[String] {
        &self.notices
    }

    /// Counts.
    #[must_use]
    pub fn stats(&self) -> Stats {
        let mut stats = self.stats;
        stats.lent_now_bytes = self.lent.now_bytes();
        stats.lent_peak_bytes = self.lent.peak_bytes();
        stats.segment_bytes = segment_bytes(&self.layout()) as u64;
        stats.resident_bytes = self.backing.resident_bytes();
        for (_, peer) in self.peers.iter() {
            stats.peers_known += 1;
            stats.peers_attached += u32::from(peer.segment.is_some());
            stats.peers_gone += u32::from(peer.gone.is_some());
        }
        stats
    }
}

/// The tag in the addresses of this host's processes.
pub(crate) fn own_tag() -> Result<u16, OpenError> {
    Ok(tag_of(Identity::of_this_process()?.host))
}

/// Whether all bytes of a region can be read now: for libraries that are given
/// pointers by programs. From the first call on this process has a handler for
/// faults ([`Guard::Check`]).
#[must_use]
pub fn is_readable(region: Region) -> bool {
    guard::install();
    guard::readable(region)
}

/// To be called after a library was loaded that may handle faults of memory itself: looks at
/// memory go on ending with an answer.
pub(crate) fn keep_looks() {
    guard::install_above();
}

/// As [`is_readable`], for writing.
#[must_use]
pub fn is_writable(region: Region) -> bool {
    guard::install();
    guard::writable(region)
}

impl Drop for Shm {
    /// The peers learn that the mailbox is gone, also where the process lives
    /// on. A fork of the process has a copy of the rail, which is not the
    /// mailbox's end.
    fn drop(&mut self) {
        if self.card.pid == std::process::id() {
            self.withdraw_all();
            self.peers.close(&self.card);
            self.segment.close_own();
            self.show_no_more();
        }
    }
}

/// Monotonic time. All rails of a machine agree on it.
fn clock_now() -> Nanos {
    let now = clock_gettime(ClockId::Monotonic);
    let now = Nanos(now.tv_sec.unsigned_abs() * 1_000_000_000 + now.tv_nsec.unsigned_abs());
    #[cfg(test)]
    let now = tests::shown(now);
    now
}

/// What notes what is wanted, if anything is.
fn observer_of(observed: Observed) -> Option<Box<Observer>> {
    let Observed { peers, trace_dir } = observed;
    let is_wanted = peers || trace_dir.is_some();
    is_wanted.then(|| Box::new(Observer::new(clock_now(), trace_dir)))
}

/// A key that no other mailbox has.
fn fresh_key() -> io::Result<[u8; KEY_BYTES]> {
    let mut key = [0; KEY_BYTES];
    // So few bytes come all at once or not at all.
    let drawn = rustix::rand::getrandom(&mut key, rustix::rand::GetRandomFlags::empty())?;
    if drawn == KEY_BYTES { Ok(key) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
}
