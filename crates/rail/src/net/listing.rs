//! Which connections are in the system's list of those that have something.
//!
//! A connection that is looked at in each poll has no use for the list, and pays for it: the
//! system notes each packet there, on the sender's core and while it holds the socket, before
//! the message can be received. So a connection that has been busy for a while leaves the
//! list. It comes back before it is needed there: when it is no longer looked at in each poll,
//! when it waits to be writable, and when a thread is about to sleep. What it has at that
//! moment the system lists at once.
//!
//! A process in which a thread has slept keeps all connections in the list from then on: one
//! thread may sleep while another polls.

use super::lane::Lane;
use super::{Entry, Net};
use rustix::event::epoll;

/// A connection leaves the list after so many short looks that have found something: often
/// enough to be worth what it costs to leave and to come back.
const BUSY_LOOKS: u32 = 256;

/// Whether a connection is in the list.
#[derive(Clone, Copy, Debug)]
pub(super) enum Listing {
    /// It is. So many short looks have found something since it came.
    Listed(u32),
    /// It has left.
    Unlisted,
}

impl Default for Listing {
    fn default() -> Listing {
        Listing::Listed(0)
    }
}

impl Net {
    /// A short look has found something on a connection.
    #[inline]
    pub(super) fn note_busy(&mut self, entry: usize) {
        let Some(Entry::Conn(conn)) = self.entries.get_mut(entry) else { return };
        let Listing::Listed(looks) = &mut conn.listing else { return };
        *looks = looks.saturating_add(1);
        if *looks >= BUSY_LOOKS && !self.has_sleepers {
            self.unlist(entry);
        }
    }

    #[cold]
    fn unlist(&mut self, entry: usize) {
        let Some(Entry::Conn(conn)) = self.entries.get_mut(entry) else { return };
        let Lane::Tcp(socket) = &conn.lane else { return };
        if epoll::delete(&self.epoll, socket).is_ok() {
            conn.listing = Listing::Unlisted;
        }
    }

    /// A connection has to be in the list from now on. Says whether it is: the system may
    /// have no memory for that.
    pub(super) fn relist(&mut self, entry: usize) -> bool {
        let Some(Entry::Conn(conn)) = self.entries.get(entry) else { return true };
        if matches!(conn.listing, Listing::Unlisted) && self.list(&conn.lane, entry).is_err() {
            return false;
        }
        if let Some(conn) = self.conn(entry) {
            conn.listing = Listing::Listed(0);
        }
        true
    }

    /// A connection takes nothing for now. The list says when it does again; if it cannot, the
    /// next poll tries.
    pub(super) fn wait_for_room(&mut self, entry: usize) {
        if self.relist(entry) {
            return;
        }
        if let Some(conn) = self.conn(entry) {
            conn.is_blocked = false;
            self.blocked -= 1;
        }
        self.mark_dirty(entry);
    }

    /// A thread is about to sleep, which the list is to wake. Says whether it does.
    pub(super) fn relist_all(&mut self) -> bool {
        self.has_sleepers = true;
        let mut all = true;
        for at in 0..self.hot.len() {
            all &= self.relist(self.hot[at]);
        }
        all
    }
}
