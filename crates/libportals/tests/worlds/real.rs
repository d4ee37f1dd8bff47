//! Real rails, over shared memory, all of this process and thread, polled in turn.
//! Each has memory of its own, and the guard looks at it before it is used.

use crate::conformance::World;
use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap_anonymous, mprotect, munmap};
use sluice_link::{Machine, Opened, PeerError, Port, RailError, Token};
use sluice_portals::{Limits, Ni, Taken};
use sluice_rail::World as Rails;
use sluice_rail::shm::{BulkKind, Config, Guard};
use sluice_wire::{Addr, Nanos, Parsed, PeerId, Region};
use std::ptr;
use std::time::{Duration, Instant};

/// Packets taken in one go: few, so that the rails take turns.
const PACKETS: usize = 4;
/// Rounds in which nothing happens before nothing will: a rail looks beyond its
/// mailbox every 32 polls.
const QUIET_ROUNDS: u32 = 70;
/// How long anything may take before a test gives up. Far more than needed.
const PATIENCE: Duration = Duration::from_secs(120);
/// Address space of each process; only what is touched is there.
const MEMORY_BYTES: usize = 1 << 30;

pub struct Real {
    rails: Vec<Option<Rails>>,
    engines: Vec<Engine>,
    memories: Vec<Memory>,
    /// What each calls each.
    peers: Vec<Vec<PeerId>>,
    /// Whose turn it is.
    turn: usize,
}

/// An interface as a rail drives it.
struct Engine {
    ni: Ni,
    gone: Vec<PeerId>,
}

impl Machine for Engine {
    fn on_packet<P: Port>(&mut self, _: Nanos, port: &mut P, from: PeerId, packet: &Parsed) {
        let taken = self.ni.on_packet(port, from, packet);
        assert_ne!(taken, Taken::Violation, "{packet:?}");
        self.ni.check_invariants();
    }

    fn placement(&self, from: PeerId, packet: &Parsed) -> Option<Region> {
        self.ni.placement(from, packet)
    }

    fn on_connected<P: Port>(&mut self, _: Nanos, _: &mut P, _: PeerId, _: Opened) {
        panic!("this rail connects at once");
    }

    fn on_transmitted<P: Port>(&mut self, _: Nanos, port: &mut P, token: Token) {
        self.ni.on_transmitted(port, token);
        self.ni.check_invariants();
    }

    fn on_moved<P: Port>(
        &mut self,
        _: Nanos,
        port: &mut P,
        token: Token,
        outcome: Result<(), RailError>,
    ) {
        self.ni.on_moved(port, token, outcome);
        self.ni.check_invariants();
    }

    fn on_peer_gone<P: Port>(&mut self, _: Nanos, port: &mut P, peer: PeerId, why: PeerError) {
        self.ni.on_peer_gone(port, peer, why);
        self.ni.check_invariants();
        self.gone.push(peer);
    }

    fn on_idle<P: Port>(&mut self, _: Nanos, port: &mut P) {
        self.ni.on_idle(port);
    }

    fn deadline(&self) -> Option<Nanos> {
        None
    }
}

/// The memory of one process, handed out from the beginning on.
struct Memory {
    base: *mut u8,
    used: usize,
}

impl Memory {
    fn new() -> Memory {
        let rights = ProtFlags::READ | ProtFlags::WRITE;
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        // SAFETY: a fresh mapping at an address that the kernel chooses.
        let base = unsafe { mmap_anonymous(ptr::null_mut(), MEMORY_BYTES, rights, flags) };
        let base = base.expect("address space").cast::<u8>();
        base.expose_provenance();
        Memory { base, used: 0 }
    }

    fn alloc(&mut self, bytes: &[u8]) -> Region {
        let page = rustix::param::page_size();
        let align = if bytes.len() < page { 16 } else { page };
        let begin = self.used.next_multiple_of(align);
        self.used = begin + bytes.len();
        assert!(self.used <= MEMORY_BYTES, "a test needs more memory");
        let region =
            Region { addr: Addr((self.base.addr() + begin) as u64), len: bytes.len() as u64 };
        self.write(region, bytes);
        region
    }

    /// Where a region of this memory begins.
    fn at(&self, region: Region) -> *mut u8 {
        let offset = region.addr.0 as usize - self.base.addr();
        assert!(offset + region.len as usize <= self.used, "{region:?} was never allocated");
        // SAFETY: inside the mapping.
        unsafe { self.base.add(offset) }
    }

    fn bytes(&self, region: Region) -> Vec<u8> {
        let mut bytes = vec![0; region.len as usize];
        // SAFETY: the region is inside the mapping, into which no references
        // lead, and nobody else runs.
        unsafe { ptr::copy_nonoverlapping(self.at(region), bytes.as_mut_ptr(), bytes.len()) };
        bytes
    }

    fn write(&mut self, region: Region, bytes: &[u8]) {
        assert_eq!(region.len, bytes.len() as u64);
        // SAFETY: as in `bytes`.
        unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), self.at(region), bytes.len()) };
    }

    fn unmap(&mut self, pages: Region) {
        let (at, len) = (self.at(pages), pages.len as usize);
        // SAFETY: inside the mapping, into which no references lead. The pages
        // stay the mapping's, so nothing else can come to lie there.
        let done = unsafe { mprotect(at.cast(), len, MprotectFlags::empty()) };
        done.expect("whole pages can be protected");
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: the mapping is this one's own, and the rails are gone.
        let done = unsafe { munmap(self.base.cast(), MEMORY_BYTES) };
        done.expect("it was mapped");
    }
}

impl Drop for Real {
    fn drop(&mut self) {
        self.rails.clear();
    }
}

impl Real {
    /// Lets one rail do what there is to do. Says whether there was something.
    fn poll(&mut self, who: usize) -> bool {
        let Some(port) = &mut self.rails[who] else { return false };
        let now = port.now();
        let inputs = port.poll(now, &mut self.engines[who], PACKETS);
        inputs > 0 || port.has_work()
    }

    fn round(&mut self) -> bool {
        let mut busy = false;
        for who in 0..self.rails.len() {
            busy |= self.poll(who);
        }
        busy
    }
}

impl World for Real {
    type Port = Rails;
    type Setting = BulkKind;

    fn settings() -> Vec<BulkKind> {
        vec![BulkKind::Auto, BulkKind::Ring]
    }

    fn copies_at_once(_: BulkKind) -> bool {
        true
    }

    fn open(bulk: BulkKind, interfaces: usize, limits: Limits) -> Real {
        let config = Config {
            senders_max: 4,
            slots_max: 1 << 13,
            bulk,
            guard: Guard::Check,
            ..Config::default()
        };
        let open = |_| Rails::open(config.clone()).expect("a rail opens here");
        let mut rails: Vec<_> = (0..interfaces).map(open).collect();
        let addresses: Vec<_> = rails.iter().map(Rails::address).collect();
        let name_all = |port: &mut Rails| {
            addresses
                .iter()
                .map(|address| port.peer(address).expect("it is of this process"))
                .collect()
        };
        let peers = rails.iter_mut().map(name_all).collect();
        let engine = |port: &Rails| Engine { ni: Ni::new(limits, port.layout()), gone: Vec::new() };
        Real {
            engines: rails.iter().map(engine).collect(),
            memories: (0..interfaces).map(|_| Memory::new()).collect(),
            rails: rails.into_iter().map(Some).collect(),
            peers,
            turn: 0,
        }
    }

    fn side(&mut self, who: usize) -> (&mut Ni, &mut Rails) {
        let port = self.rails[who].as_mut().expect("it has not ended");
        (&mut self.engines[who].ni, port)
    }

    fn interface(&self, who: usize) -> &Ni {
        &self.engines[who].ni
    }

    fn peer(&self, at: usize, of: usize) -> PeerId {
        self.peers[at][of]
    }

    fn alloc(&mut self, who: usize, bytes: &[u8]) -> Region {
        self.memories[who].alloc(bytes)
    }

    fn bytes(&self, who: usize, region: Region) -> Vec<u8> {
        self.memories[who].bytes(region)
    }

    fn write(&mut self, who: usize, region: Region, bytes: &[u8]) {
        self.memories[who].write(region, bytes);
    }

    fn page(&self) -> u64 {
        rustix::param::page_size() as u64
    }

    fn unmap(&mut self, who: usize, pages: Region) {
        self.memories[who].unmap(pages);
    }

    fn lent(&self, who: usize) -> u64 {
        self.rails[who].as_ref().map_or(0, |port| port.stats().lent_now_bytes)
    }

    fn step(&mut self) {
        self.turn = (self.turn + 1) % self.rails.len();
        self.poll(self.turn);
    }

    fn settle(&mut self) {
        let begin = Instant::now();
        let mut quiet = 0;
        while quiet < QUIET_ROUNDS {
            quiet = if self.round() { 0 } else { quiet + 1 };
            assert!(begin.elapsed() < PATIENCE, "it never ends");
        }
    }

    fn end(&mut self, who: usize) {
        self.rails[who] = None;
        let begin = Instant::now();
        for other in (0..self.rails.len()).filter(|&other| other != who) {
            let peer = self.peers[other][who];
            while !self.engines[other].gone.contains(&peer) {
                if !self.round() {
                    std::thread::yield_now();
                }
                assert!(begin.elapsed() < PATIENCE, "{other} never learns that {who} has ended");
            }
        }
    }
}

crate::conformance::tests_over!(Real);
