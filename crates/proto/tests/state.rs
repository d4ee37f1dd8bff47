//! Bytes of state for each peer, counted by the allocator itself.

mod world;

use sluice_link::{
    Connect, Layout, LocalMemory, NoShared, PeerError, Port, Remote, RemoteCaps, RemoteMemory,
    Rights, Token, Transmitted, Transport,
};
use sluice_proto::{Config, Endpoint};
use sluice_wire::{Addr, HeadBuf, Nanos, PeerId, Region, RemoteKey};
use std::alloc::{GlobalAlloc, System};
use std::cell::Cell;
use world::net::{Mode, NetPort, layout};
use world::send_to;

struct Counting;

thread_local! {
    static BYTES: Cell<isize> = const { Cell::new(0) };
}

fn count(change: isize) {
    // A thread that ends frees what is not counted any more.
    let _ = BYTES.try_with(|bytes| bytes.set(bytes.get() + change));
}

// SAFETY: every call is the system allocator's own; counting allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: std::alloc::Layout) -> *mut u8 {
        count(layout.size() as isize);
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: std::alloc::Layout) {
        count(-(layout.size() as isize));
        // SAFETY: the caller's promise is passed on.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// A port whose own bookkeeping grows only where the test does not look: every
/// packet is swallowed.
struct Swallow(Layout);

impl Transport for Swallow {
    fn connect(&mut self, _: PeerId) -> Result<Connect, PeerError> {
        Ok(Connect::Ready(self.0.opened()))
    }
    fn watch(&mut self, _: PeerId) {}
    fn refuse(&mut self, _: PeerId) {}
    fn transmit(&mut self, _: PeerId, _: &HeadBuf, _: Region, _: Token) -> Transmitted {
        Transmitted::Done
    }
    fn uid(&self, _: PeerId) -> u32 {
        0
    }
}

impl LocalMemory for Swallow {
    fn copy_payload(&mut self, _: u32, _: Addr, _: u32) {}
    fn payload(&self, _: u32, _: &mut [u8]) {}
    fn copy(&mut self, _: Addr, _: Addr, _: u64) {}
    fn lend(&mut self, _: u32) -> Addr {
        Addr(0)
    }
    fn give_back(&mut self, _: Addr, _: u32) {}
    fn readable(&self, _: Region) -> bool {
        true
    }
    fn writable(&self, _: Region) -> bool {
        true
    }
    fn load(&self, _: Addr, _: &mut [u8]) {}
    fn store(&mut self, _: Addr, _: &[u8]) {}
    fn compare_exchange(&mut self, _: Addr, _: u32, _: u64, _: u64) -> Result<(), u64> {
        Ok(())
    }
}

impl RemoteMemory for Swallow {
    fn caps(&self, _: PeerId) -> RemoteCaps {
        RemoteCaps::default()
    }
    fn expose(&mut self, _: PeerId, _: Region, _: Rights) -> RemoteKey {
        RemoteKey::NONE
    }
    fn revoke(&mut self, _: PeerId, _: RemoteKey) {}
    fn read_remote(&mut self, _: PeerId, _: Remote, _: Region, _: Token) {}
    fn write_remote(&mut self, _: PeerId, _: Region, _: Remote, _: Token) {}
}

impl Port for Swallow {
    type Shared = NoShared;

    fn shared(&mut self) -> Option<&mut NoShared> {
        None
    }
}

/// Bytes that an endpoint holds after speaking to these peers, beyond those
/// that it holds after speaking to none.
fn bytes_of(peers: impl Iterator<Item = u32>) -> usize {
    let mut port = Swallow(layout(2, 20, 4, 4, 16));
    let mut endpoint = Endpoint::new(Config::default(), port.0);
    let before = BYTES.with(Cell::get);
    for peer in peers {
        endpoint.send(Nanos(0), &mut port, &send_to(peer as usize, Region::EMPTY, 7, 1)).unwrap();
        endpoint.pop().unwrap();
    }
    let after = BYTES.with(Cell::get);
    // The queue of completions has its own memory, made by the first.
    usize::try_from(after - before).unwrap() - bytes_of_first_completion()
}

fn bytes_of_first_completion() -> usize {
    let before = BYTES.with(Cell::get);
    let mut queue = std::collections::VecDeque::new();
    queue.push_back(None::<sluice_proto::Completion>);
    usize::try_from(BYTES.with(Cell::get) - before).unwrap()
}

#[test]
fn an_idle_peer_costs_what_it_is_said_to_cost() {
    for peers in [10usize, 100_000] {
        let last = peers as u32 - 1;
        let bytes = bytes_of(std::iter::once(last));
        let said = Endpoint::IDLE_PEER_BYTES * (peers - 1) + Endpoint::ACTIVE_PEER_BYTES;
        assert!(bytes <= said, "{bytes} bytes for {peers} peers, one of them active");
    }
    const { assert!(Endpoint::IDLE_PEER_BYTES == 16) };
}

#[test]
fn an_active_peer_costs_what_it_is_said_to_cost() {
    for peers in [10usize, 100_000] {
        // From the last to the first, so that no table grows beyond its end.
        let bytes = bytes_of((0..peers as u32).rev());
        let said = Endpoint::ACTIVE_PEER_BYTES * peers;
        assert!(bytes <= said, "{bytes} bytes for {peers} active peers, said {said}");
        assert!(bytes * 10 >= said * 9, "{bytes} bytes for {peers} active peers, said {said}");
    }
    const { assert!(Endpoint::ACTIVE_PEER_BYTES <= 320) };
}

/// One that is stalled too has a queue besides.
#[test]
fn the_links_know_their_own_bytes() {
    let port = NetPort::network(vec![layout(2, 20, 4, 4, 16); 2], Mode::default(), 1).remove(0);
    let mut endpoint = Endpoint::new(Config::default(), layout(2, 20, 4, 4, 16));
    assert_eq!(endpoint.links().heap_bytes(), 0);
    endpoint.send(Nanos(0), &mut port.clone(), &send_to(1, Region::EMPTY, 7, 1)).unwrap();
    assert!(endpoint.links().heap_bytes() > 0);
}
