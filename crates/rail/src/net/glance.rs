//! The shortest poll: a look at the busy sockets, and at nothing else.
//!
//! A message waits for half the time between two looks on average, so a look in vain is kept
//! as short as the system call that it makes. It asks whether there is something before it
//! receives: receiving in vain takes the socket's lock, which the packet that arrives wants
//! too. What else a poll does waits for one that is *due*: where something was left to be done
//! here, where the system lists another socket, of which it is asked every [`LIST_NS`], and
//! every [`ROUND_NS`] for what deadlines ask for. So nothing is looked at later than without
//! this.
//!
//! A program that has got something may ask once more before it goes on, to be sure that it has
//! all: Open MPI does, and its answer waits meanwhile. So the poll that follows at once on one
//! that has found something, and has taken in all of it, does not look. One that follows later
//! does: whoever polls now and then is not to be a step behind.
//!
//! [`ROUND_NS`]: super::ROUND_NS

use super::lane::Lane;
use super::{Entry, HOT_MAX, LIST_NS, Net, Place, Reading};
use sluice_wire::Nanos;
use std::io;

/// A poll follows at once on the look before if that has begun no longer ago than this: what it
/// takes to receive a message, between cores that share no cache, and to tell of it.
pub(super) const AT_ONCE_NS: u64 = 5_000;

/// What a short look has found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Glance {
    /// Nothing, and nothing else is due: the poll is over.
    Quiet,
    /// Something has come, of which [`Net::next_event`] tells. The rest waits.
    Came,
    /// It was none, or not enough: [`Net::poll`] is to look at everything.
    Due,
}

impl Net {
    /// Looks at the busy sockets, if that is all there is to be done now.
    #[inline]
    pub fn glance(&mut self, now: Nanos) -> Glance {
        if !self.may_glance(now) || now >= self.next_list && self.is_anything_listed(now) {
            return Glance::Due;
        }
        self.begin_look(now);
        self.habit.begin_poll(now);
        if self.found.take().is_some_and(|found| now.since(found).0 <= AT_ONCE_NS) {
            self.habit.end_poll();
            return Glance::Quiet;
        }
        for at in 0..self.hot.len() {
            match self.glance_at(self.hot[at]) {
                Glance::Quiet => {}
                Glance::Came => {
                    // The buffer is full: the others come in their turn.
                    for later in at + 1..self.hot.len() {
                        self.look_again(self.hot[later]);
                    }
                    self.found = Some(now);
                    return Glance::Came;
                }
                Glance::Due => return Glance::Due,
            }
        }
        self.habit.end_poll();
        Glance::Quiet
    }

    /// Whether a poll has nothing to look at but a few busy sockets.
    fn may_glance(&self, now: Nanos) -> bool {
        let has_few = !self.hot.is_empty() && self.hot.len() <= HOT_MAX;
        let is_due = now >= self.next_round || self.looks_at_list;
        let has_devices = self.matching.is_some() || self.fabrics.iter().any(Option::is_some);
        has_few
            && !is_due
            && self.blocked == 0
            && !has_devices
            && !self.has_work()
            && self.hot.iter().all(|&entry| self.is_between_frames(entry))
    }

    /// Asks the system for its list, whose time has come. What is there is left to a whole poll.
    fn is_anything_listed(&mut self, now: Nanos) -> bool {
        self.list_ready();
        if self.listed.is_empty() {
            self.next_list = now.saturating_add(Nanos(LIST_NS));
        }
        !self.listed.is_empty()
    }

    /// Whether what comes next by TCP is the beginning of a frame.
    fn is_between_frames(&self, entry: usize) -> bool {
        let Some(Entry::Conn(conn)) = self.entries.get(entry) else { return false };
        // What is sealed is put together from records in any case.
        let is_whole = conn.unsealing.is_some() || conn.partial.is_empty();
        is_whole && conn.data.is_none() && matches!(conn.lane, Lane::Tcp(_))
    }

    /// A look at one of them. One that has come to its end is left to a whole poll.
    #[inline]
    fn glance_at(&mut self, entry: usize) -> Glance {
        let Some(Entry::Conn(conn)) = self.entries.get_mut(entry) else { return Glance::Due };
        // Where more than one byte is to wake, the system says so of no less.
        if !conn.gathers() && !conn.lane.has_something() {
            return if conn.note_vain() { Glance::Due } else { Glance::Quiet };
        }
        if conn.unsealing.is_some() {
            self.receive_sealed(entry);
            self.note_busy(entry);
            return Glance::Came;
        }
        let ahead = conn.ahead_bytes();
        let place = Place::of_mut(&mut self.buffer[..ahead]);
        // SAFETY: the buffer is this process's own.
        match unsafe { conn.lane.receive(&[place]) } {
            Ok(0) => Glance::Due,
            Ok(got) => {
                conn.note_heard();
                self.reading = Some(Reading { entry, at: 0, end: got });
                if got == ahead {
                    conn.expects_chunk = false;
                    // There is more, most likely.
                    self.look_again(entry);
                }
                self.note_busy(entry);
                Glance::Came
            }
            Err(cause) if cause.kind() == io::ErrorKind::WouldBlock && !conn.note_vain() => {
                Glance::Quiet
            }
            // One that is to be left to the list is found in vain once more.
            Err(_) => Glance::Due,
        }
    }
}
