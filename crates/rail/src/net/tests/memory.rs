//! How much memory a peer on another host takes.

use super::{Process, region, region_mut, until};
use crate::net::Entry;
use crate::net::conn::Conn;
use crate::net::handshake::Identity;
use crate::net::remote::{Met, Remote};
use sluice_link::{Connect, RemoteMemory, Rights, Token, Transport};
use sluice_wire::PeerId;
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

/// Counts what each thread has.
struct Counting;

#[global_allocator]
static COUNTING: Counting = Counting;

thread_local! {
    static LIVE: Cell<isize> = const { Cell::new(0) };
}

fn count(bytes: isize) {
    // A thread that ends frees after its counter is gone.
    let _ = LIVE.try_with(|live| live.set(live.get() + bytes));
}

// SAFETY: the system's allocator does it all; counting allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        count(-(layout.size() as isize));
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(at, layout) }
    }
}

/// What `call` leaves allocated.
fn grown(call: impl FnOnce()) -> isize {
    let before = LIVE.get();
    call();
    LIVE.get() - before
}

#[test]
fn bytes_per_peer_that_is_only_known() {
    const PEERS: u32 = 1024;
    let mut a = Process::new(1);
    let at = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(127, 0, 9, 9)), 9);
    let addresses: Vec<_> =
        (0..PEERS).map(|_| Identity::generate().unwrap().at(at).unwrap().address()).collect();
    let net = a.world.net_mut();
    let bytes = grown(|| {
        for (peer, address) in (1..).zip(&addresses) {
            net.introduce(PeerId(peer), address);
        }
    });
    let with_shm = grown(|| {
        for address in &addresses {
            a.world.peer(address).unwrap();
        }
    });
    println!("{} bytes per known peer in shared memory's table", with_shm / PEERS as isize);
    let each = bytes / PEERS as isize;
    println!("{each} bytes per known peer, of which {} are the struct", size_of::<Remote>());
    assert!(each <= 192, "{each} bytes");
}

/// Has several peers connect, by one rail or by all, move something, and be idle.
fn per_connected_peer(devices: u8, opened: u8) -> isize {
    const PEERS: usize = 6;
    let mut a = Process::new(devices);
    let mut others: Vec<Process> = (0..PEERS).map(|_| Process::new(devices)).collect();
    // What is longer would open the other rails.
    let len = if opened == devices { 1 << 20 } else { 64 << 10 };
    let bytes_there = vec![7u8; len];
    let mut bytes_here = vec![0u8; len];
    let mut all_bytes = 0;
    for (at, other) in others.iter_mut().enumerate() {
        let to_other = a.knows(other);
        let to_a = other.knows(&a);
        let mut bytes = grown(|| assert_eq!(a.world.connect(to_other), Ok(Connect::Pending)));
        let mut run = |other: &mut Process, is_so: &mut dyn FnMut(&Process, &Process) -> bool| {
            let begin = std::time::Instant::now();
            while !is_so(&a, other) {
                bytes += grown(|| a.poll());
                other.poll();
                assert!(begin.elapsed() < super::PATIENCE);
            }
        };
        let conns = |process: &Process| {
            let entries = process.world.net().unwrap().entries.iter();
            entries.filter(|(_, entry)| matches!(entry, Entry::Conn(_))).count()
        };
        let want = (at + 1) * usize::from(opened);
        run(other, &mut |a, other| conns(a) > want - usize::from(opened) && conns(other) > 0);
        if opened == devices {
            bytes += grown(|| a.open_all());
        }
        let mut run = |other: &mut Process, is_so: &mut dyn FnMut(&Process, &Process) -> bool| {
            let begin = std::time::Instant::now();
            while !is_so(&a, other) {
                bytes += grown(|| a.poll());
                other.poll();
                assert!(begin.elapsed() < super::PATIENCE);
            }
        };
        run(other, &mut |a, other| conns(a) == want && conns(other) == usize::from(opened));
        let _ = other.world.connect(to_a);
        let key = other.world.expose(to_a, region(&bytes_there), Rights::READ);
        let from = sluice_link::Remote::whole(key);
        bytes += grown(|| {
            for seq in 0..200 {
                a.send(to_other, seq, &[5; 1000]);
            }
            a.world.read_remote(to_other, from, region_mut(&mut bytes_here), Token(1));
        });
        let mut run = |other: &mut Process, is_so: &mut dyn FnMut(&Process, &Process) -> bool| {
            let begin = std::time::Instant::now();
            while !is_so(&a, other) {
                bytes += grown(|| a.poll());
                other.poll();
                assert!(begin.elapsed() < super::PATIENCE);
            }
        };
        run(other, &mut |a, other| {
            !a.machine.moved.is_empty() && other.machine.packets.len() == 200
        });
        run(other, &mut |a, _| {
            let net = a.world.net().unwrap();
            net.hot.is_empty() && net.met(to_other).unwrap().rails.kept() == 0
        });
        a.machine.moved.clear();
        all_bytes += bytes;
    }
    let net = a.world.net().unwrap();
    for (_, entry) in &net.entries {
        if let Entry::Conn(conn) = entry {
            assert_eq!((conn.partial.capacity(), conn.out.heap_bytes()), (0, 0));
        }
    }
    for peer in &net.active {
        assert_eq!(net.met(*peer).unwrap().ring.heap_bytes(), 0);
    }
    // What tables grow by is among it.
    all_bytes / PEERS as isize
}

#[test]
fn bytes_per_connected_idle_peer() {
    for (devices, opened, most) in [(1, 1, 3_000), (4, 1, 4_000), (4, 4, 6_000)] {
        let each = per_connected_peer(devices, opened);
        println!(
            "{each} bytes per connected idle peer with {opened} of {devices} rails opened; \
             Met {}, Conn {}",
            size_of::<Met>(),
            size_of::<Conn>()
        );
        assert!(each <= most, "{each} bytes with {opened} of {devices} rails opened");
    }
}

#[test]
fn bytes_per_peer_that_is_gone() {
    let mut a = Process::new(2);
    let mut level = None;
    let mut bytes = 0;
    for round in 0..20 {
        let mut b = Process::new(2);
        let to_a = b.knows(&a);
        assert_eq!(b.world.connect(to_a), Ok(Connect::Pending));
        let begin = std::time::Instant::now();
        while b.machine.connected.is_empty() {
            bytes += grown(|| a.poll());
            b.poll();
            assert!(begin.elapsed() < super::PATIENCE);
        }
        drop(b);
        while !a.world.net().unwrap().active.is_empty() {
            bytes += grown(|| a.poll());
            assert!(begin.elapsed() < super::PATIENCE);
        }
        until(&mut [&mut a], "the last descriptors", |all| {
            let mut entries = all[0].world.net().unwrap().entries.iter();
            entries.all(|(_, entry)| !matches!(entry, Entry::Joining(_) | Entry::Conn(_)))
        });
        if round == 3 {
            level = Some(bytes);
        }
    }
    let more = (bytes - level.unwrap()) / 16;
    println!("{more} bytes per peer that is gone");
    assert!(more <= 2048, "{more} bytes");
}
