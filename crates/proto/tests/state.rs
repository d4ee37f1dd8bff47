//! Bytes of state for each peer, counted by the allocator itself.

#[path = "suite/world/mod.rs"]
mod world;

use sluice_link::NullPort;
use sluice_proto::{Config, Endpoint};
use sluice_wire::{Nanos, Region};
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

/// Bytes that an endpoint holds after speaking to these peers, beyond those
/// that it holds after speaking to none.
fn bytes_of(peers: impl Iterator<Item = u32>) -> usize {
    let layout = layout(2, 20, 4, 4, 16);
    // It keeps nothing, so every byte counted is the endpoint's.
    let mut port = NullPort { opened: layout.opened() };
    let mut endpoint = Endpoint::new(Config::default(), layout);
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
