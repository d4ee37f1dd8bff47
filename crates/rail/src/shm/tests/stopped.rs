//! A writer that is stopped in the middle of a packet.

use super::super::ring::Step;
use super::child::{Child, PORTIONED_BYTES, WHOLE_PACKETS};
use super::{Recorder, advance_clock, code_of, open, poll, poll_until, put, send};
use sluice_link::Transport;
use sluice_wire::Nanos;

/// It holds up what others wrote behind it, and loses nothing of its own or of
/// theirs: however long it is stopped, nobody takes it for dead.
#[test]
fn a_stopped_writer_that_continues_loses_nothing() {
    for step in [Step::Reserved, Step::Positioned, Step::Filled(1), Step::Unstamped] {
        let (mut shm, mut other) = (open(), open());
        let child = Child::run("stop", &shm, i64::from(code_of(step)), None);
        let pid = child.pid().cast_signed();
        let mut status = 0;
        // SAFETY: the status is a variable; a stopped child is not reaped.
        let stopped = unsafe { libc::waitpid(pid, &raw mut status, libc::WUNTRACED) };
        assert!(stopped == pid && libc::WIFSTOPPED(status), "{step:?}");
        let to = other.peer(&shm.address()).unwrap();
        other.connect(to).unwrap();
        send(&mut other, to, put(100, 0), b"behind it");
        let mut machine = Recorder::default();
        for _ in 0..10_000 {
            advance_clock(Nanos(10_000_000));
            poll(&mut shm, &mut machine);
        }
        assert_eq!(machine.packets.len() as u64, WHOLE_PACKETS, "{step:?}");
        // SAFETY: the child is not reaped, so the pid is its own.
        assert_eq!(unsafe { libc::kill(pid, libc::SIGCONT) }, 0);
        poll_until(&mut shm, &mut machine, "the rest", |_, machine| {
            machine.packets.len() as u64 == WHOLE_PACKETS + 3
        });
        assert_eq!(machine.gone, []);
        assert_eq!((shm.stats().violations, shm.stats().holes_skipped), (0, 0), "{step:?}");
    }
}

/// The receiver waits within the packet, and has all of it in the end.
#[test]
fn a_writer_that_is_stopped_between_two_portions_loses_nothing() {
    let mut shm = open();
    let mut machine = Recorder::default();
    let child = Child::run("stop in portions", &shm, code_of(Step::Portion(2)).into(), None);
    poll_until(&mut shm, &mut machine, "a packet", |_, machine| !machine.packets.is_empty());
    let peer = machine.packets[0].from;
    shm.connect(peer).unwrap();
    send(&mut shm, peer, put(0, 0), b"go on");
    let pid = child.pid().cast_signed();
    let continues = std::thread::spawn(move || {
        let mut status = 0;
        // SAFETY: the status is a variable; a stopped child is not reaped, so the pid is its own.
        let (stopped, continued) = unsafe {
            (libc::waitpid(pid, &raw mut status, libc::WUNTRACED), libc::kill(pid, libc::SIGCONT))
        };
        assert!(stopped == pid && libc::WIFSTOPPED(status) && continued == 0);
    });
    poll_until(&mut shm, &mut machine, "the rest", |_, machine| machine.packets.len() == 3);
    continues.join().unwrap();
    assert_eq!(machine.packets[2].payload, [9; PORTIONED_BYTES]);
    assert_eq!((machine.cut, shm.stats().violations), (0, 0));
    assert_eq!(machine.gone, []);
}
