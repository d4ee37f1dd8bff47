//! A writer that is stopped in the middle of a packet.

use super::super::ring::Step;
use super::child::{Child, WHOLE_PACKETS};
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
