//! How long a thread may sleep, and how much has to come before it is woken.
//!
//! A thread that stands in for a program that computes takes the core from it for each
//! wake, so what comes of chunks is gathered: the system wakes the thread when so many
//! bytes are there as are worth that. Nobody waits for them sooner. A thread of the
//! program that waits here is woken by the first byte ([`Haste`]).
//!
//! What is gathered was asked for and is under way, and is less than that while there is
//! more to ask for, so that the peer has always something to send. A peer may send
//! something else in between, or stop. So a sleep that gathers is short, and if nothing came
//! in one, the next does not gather. The end of a connection wakes in any case.
//!
//! What goes is no reason to stay awake while each socket has enough chunks (`drain`): the sleep ends
//! when more of them are due, unless something else is to be sent.
//!
//! Invariant: a connection that is not looked at in each poll gathers nothing.

use super::conn::Conn;
use super::{Entry, Net};
use crate::waker::Haste;
use rustix::event::epoll::EventFlags;
use sluice_wire::Nanos;

/// What a rail brings in this time is gathered.
const GATHER_NS: u64 = 500_000;
/// Most bytes of that: more do not stay in the processor's cache, and would need larger
/// buffers in the kernel.
const GATHER_BYTES_MAX: u64 = 512 << 10;
/// Least: with fewer the system is not asked to.
const GATHER_BYTES_MIN: u64 = 16 << 10;
/// The longest sleep in which something is gathered, in nanoseconds.
const SLEEP_NS: u64 = 2 * GATHER_NS;

impl Net {
    /// For how long, in nanoseconds, a thread may sleep unless something comes that is worth
    /// a wake; zero if there is something to do.
    #[must_use]
    pub fn rest_ns(&mut self, now: Nanos, haste: Haste) -> u64 {
        if self.has_work_but_chunks() {
            return 0;
        }
        let chunks_due = self.chunks_due();
        if chunks_due.is_some_and(|due| due <= now) {
            return 0;
        }
        let listed_ns = if self.relist_all() { u64::MAX } else { SLEEP_NS };
        let gather_ns = self.gather(haste);
        // News of a device of libfabric's must stay in the list, where they wake.
        if gather_ns < u64::MAX && self.fabrics.iter().all(Option::is_none) {
            // What the list says of bytes that were taken in since would wake at once.
            self.list_ready();
            self.forget_stale();
            if !self.listed.is_empty() {
                self.looks_at_list = true;
                return 0;
            }
        }
        let fabrics_ns = self.fabrics_rest_ns();
        // Whoever wakes looks at all sockets that have something.
        (self.looks_at_list, self.has_slept) = (true, true);
        let due = self.active.iter().filter_map(|&peer| self.due_of(peer, now));
        let later = (!self.accept_later.is_empty()).then_some(self.next_round);
        let due = due.chain(self.news.due()).chain(later).chain(chunks_due).min();
        due.map_or(u64::MAX, |due| due.since(now).0).min(fabrics_ns).min(gather_ns).min(listed_ns)
    }

    /// When the first socket is to be given more that has had enough chunks for now; zero, if one has
    /// something else to be given.
    fn chunks_due(&self) -> Option<Nanos> {
        let due = self.dirty.iter().map(|&entry| match self.entries.get(entry) {
            Some(Entry::Conn(conn)) => conn.rests_until.unwrap_or(Nanos(0)),
            _ => Nanos(0),
        });
        due.min()
    }

    /// Whether the last rest was to gather what comes, and there is more to come.
    #[must_use]
    pub fn gathers(&self) -> bool {
        let gathers = |&&entry: &&usize| match self.entries.get(entry) {
            Some(Entry::Conn(conn)) => conn.gathers() && self.may_gather(conn) > 0,
            _ => false,
        };
        !self.has_work() && self.hot.iter().any(|entry| gathers(&entry))
    }

    /// Bytes on a connection for which nobody need wake.
    fn may_gather(&self, conn: &Conn) -> u64 {
        // Part of a record that is sealed was taken from the socket.
        let here = conn.unsealing.as_ref().map_or(0, |unsealing| unsealing.rest_bytes());
        let bytes = self.met(conn.peer).map_or(0, |met| met.rails.may_gather(conn.rail));
        bytes.saturating_sub(here as u64)
    }

    /// Tells the system how many bytes wake, of each connection. Says for how long it may.
    fn gather(&mut self, haste: Haste) -> u64 {
        let mut gathers = false;
        for at in 0..self.hot.len() {
            let entry = self.hot[at];
            let bytes = match haste {
                Haste::FirstByte => 1,
                Haste::WorthAWake => self.worth_a_wake(entry),
            };
            if let Some(conn) = self.conn(entry) {
                gathers |= conn.wake_from(bytes);
            }
        }
        if gathers { SLEEP_NS } else { u64::MAX }
    }

    fn worth_a_wake(&mut self, entry: usize) -> u32 {
        let Some(conn) = self.conn(entry) else { return 1 };
        let has_come = std::mem::take(&mut conn.has_come);
        let Some(Entry::Conn(conn)) = self.entries.get(entry) else { return 1 };
        let Some(met) = self.met(conn.peer).filter(|_| has_come) else { return 1 };
        let pace = met.rails.pace(conn.rail).bytes_in(GATHER_NS);
        let pace = pace.clamp(GATHER_BYTES_MIN, GATHER_BYTES_MAX);
        let bytes = self.may_gather(conn).min(pace);
        if bytes < GATHER_BYTES_MIN { 1 } else { bytes as u32 }
    }

    /// Forgets what the system lists of connections that have nothing any more: that they
    /// take bytes is news only of one that did not.
    fn forget_stale(&mut self) {
        let Net { listed, entries, .. } = self;
        listed.retain(|&(entry, flags)| match entries.get(entry) {
            Some(Entry::Conn(conn)) => flags != EventFlags::OUT || conn.is_blocked,
            Some(_) => true,
            None => false,
        });
    }
}
