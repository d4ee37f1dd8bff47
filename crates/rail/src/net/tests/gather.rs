//! What wakes a thread that sleeps.

use super::{MODES, PATIENCE, Process, loopback, region, region_mut, until};
use crate::net::handshake::Security;
use crate::net::{Entry, NetConfig, NetStats, Striping, sock};
use crate::waker::Haste;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, OwnedFd};
use sluice_link::{Connect, Remote, RemoteMemory, Rights, Token, Transport};
use sluice_wire::{Nanos, PeerId};
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};

/// Whether something is listed within so many seconds.
pub(super) fn is_listed(descriptor: &impl AsFd, patience_s: i64) -> bool {
    let mut polled = [PollFd::new(descriptor, PollFlags::IN)];
    let timeout = Timespec { tv_sec: patience_s, tv_nsec: 0 };
    poll(&mut polled, Some(&timeout)).unwrap() > 0
}

#[test]
fn a_socket_is_listed_from_as_many_bytes_on_as_it_was_told_or_at_its_end() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut there = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let here = OwnedFd::from(listener.accept().unwrap().0);
    let patience_s = PATIENCE.as_secs().try_into().unwrap();
    assert!(sock::set_wake_bytes(&here, 1000));
    there.write_all(&[7; 999]).unwrap();
    assert!(!is_listed(&here, 0));
    there.write_all(&[7]).unwrap();
    assert!(is_listed(&here, patience_s));
    let mut here = TcpStream::from(here);
    here.read_exact(&mut [0; 1000]).unwrap();
    there.write_all(&[7; 10]).unwrap();
    assert!(!is_listed(&here, 0));
    there.shutdown(Shutdown::Write).unwrap();
    assert!(is_listed(&here, patience_s), "the end of a connection wakes");
    // And what is there wakes who changes its mind.
    there = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    here = listener.accept().unwrap().0;
    assert!(sock::set_wake_bytes(&here, 1000));
    there.write_all(&[7; 10]).unwrap();
    assert!(sock::set_wake_bytes(&here, 1));
    assert!(is_listed(&here, patience_s));
}

impl Process {
    /// Takes in what is there, and is about to sleep.
    fn rest(&mut self, haste: Haste) -> u64 {
        self.poll();
        self.world.rest_ns(haste)
    }
}

/// A reader and a sender, and what each calls the other. All of a read is asked for at once, however
/// slow this machine makes the rail.
fn connected(security: Security) -> (Process, PeerId, Process, PeerId) {
    let striping = Striping::Fragments { bytes: 1 << 20 };
    let config = || NetConfig { security, striping, ..NetConfig::with_devices(vec![loopback(1)]) };
    let (mut a, mut b) = (Process::with(config()), Process::with(config()));
    let (to_b, to_a) = (a.knows(&b), b.knows(&a));
    assert_eq!(a.world.connect(to_b), Ok(Connect::Pending));
    until(&mut [&mut a, &mut b], "the connection", |all| all[0].machine.connected == [to_b]);
    (a, to_b, b, to_a)
}

/// Some of what `a` reads comes, and then `b` does nothing until `a` gathers: whatever the
/// system still has to bring would keep it from that.
fn sleeps_and_gathers(a: &mut Process, b: &mut Process, security: Security) {
    let come = |process: &Process| {
        let NetStats { placed, copied, .. } = process.world.net().unwrap().stats();
        placed + copied
    };
    let before = come(a);
    until(&mut [a, b], "some of the read", |all| come(all[0]) > before);
    until(&mut [a], "a sleep that gathers", |all| {
        assert!(all[0].machine.moved.is_empty(), "{security:?}: it never gathers");
        let rest_ns = all[0].rest(Haste::WorthAWake);
        assert!(!all[0].world.gathers() || rest_ns <= 1_000_000, "it sleeps for long");
        all[0].world.gathers()
    });
}

#[test]
fn chunks_are_gathered_for_who_does_something_else() {
    const BYTES: usize = 16 << 20;
    for security in MODES {
        let (mut a, to_b, mut b, to_a) = connected(security);
        b.shrink_buffers();
        a.world.rest_ns(Haste::WorthAWake);
        assert!(!a.world.gathers(), "{security:?}: nothing is asked for");

        let there: Vec<u8> = (0..BYTES).map(|at| (at % 251) as u8).collect();
        let mut here = vec![0u8; BYTES];
        let key = b.world.expose(to_a, region(&there), Rights::READ);
        a.world.read_remote(to_b, Remote::whole(key), region_mut(&mut here), Token(1));
        sleeps_and_gathers(&mut a, &mut b, security);
        // Nothing has come since, so that is no more expected.
        until(&mut [&mut a], "a sleep that does not", |all| {
            all[0].world.rest_ns(Haste::WorthAWake);
            !all[0].world.gathers()
        });
        sleeps_and_gathers(&mut a, &mut b, security);
        a.world.rest_ns(Haste::FirstByte);
        assert!(!a.world.gathers(), "{security:?}: who waits is woken by the first byte");

        // Whoever only polls afterwards is not kept waiting.
        until(&mut [&mut a, &mut b], "the read", |all| !all[0].machine.moved.is_empty());
        assert!(here == there, "{security:?}");
        until(&mut [&mut a, &mut b], "a rest", |all| {
            let rest_ns = all[0].world.rest_ns(Haste::WorthAWake);
            // What was taken in would wake at once.
            let net = all[0].world.net().unwrap();
            rest_ns > 0 && !all[0].world.gathers() && !is_listed(&net.sockets(), 0)
        });
        // The end of the read may be in the buffer still, which is full of that.
        b.set_send_buffers(1 << 20);
        b.send(to_a, 0, b"a packet");
        assert!(is_listed(&a.world.net().unwrap().sockets(), 20), "{security:?}");
    }
}

/// A sender that keeps chunks back, because the socket has enough, sleeps until half of that has
/// gone. What else there is to send ends that.
#[test]
fn a_sender_rests_while_a_socket_has_enough_chunks() {
    const BYTES: usize = 64 << 20;
    for security in MODES {
        let (mut a, to_b, mut b, to_a) = connected(security);
        let there = vec![7; BYTES];
        let mut here = vec![0u8; BYTES];
        let key = b.world.expose(to_a, region(&there), Rights::READ);
        a.world.read_remote(to_b, Remote::whole(key), region_mut(&mut here), Token(1));
        // Its pace has to be known, and then nobody reads what it sends.
        until(&mut [&mut a, &mut b], "some of the read", |all| {
            let NetStats { placed, copied, .. } = all[0].world.net().unwrap().stats();
            placed + copied >= (BYTES / 4) as u64
        });
        // Which of the two it is depends on the system's buffers.
        until(&mut [&mut b], "a socket that has enough, or is full", |all| {
            let rest_ns = all[0].rest(Haste::WorthAWake);
            let mut conns = all[0].world.net_mut().entries.iter();
            let waits = conns.any(|(_, entry)| match entry {
                Entry::Conn(conn) => conn.rests_until.is_some() || conn.is_blocked,
                _ => false,
            });
            waits && rest_ns > 0
        });
        // However long this one's rest was.
        let now = b.world.refresh_now();
        let net = b.world.net_mut();
        let mut entries = net.entries.iter();
        let (entry, _) = entries.find(|(_, entry)| matches!(entry, Entry::Conn(_))).unwrap();
        net.mark_dirty(entry);
        assert_eq!(net.rest_ns(now, Haste::WorthAWake), 0, "{security:?}: it has something");
        net.conn(entry).unwrap().rests_until = Some(now.saturating_add(Nanos(500_000)));
        let rest_ns = net.rest_ns(now, Haste::WorthAWake);
        assert!((1..=500_000).contains(&rest_ns), "{security:?}: {rest_ns}");
        let later = now.saturating_add(Nanos(500_000));
        assert_eq!(net.rest_ns(later, Haste::WorthAWake), 0, "{security:?}: it is over");
        net.mark_dirty(entry);
        assert_eq!(net.rest_ns(now, Haste::WorthAWake), 0, "{security:?}: there is more");
        until(&mut [&mut a, &mut b], "the read", |all| !all[0].machine.moved.is_empty());
        assert!(here == there, "{security:?}");
    }
}
