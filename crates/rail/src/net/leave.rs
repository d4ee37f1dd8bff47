//! The end of this process's part: its peers learn of it at once.
//!
//! What was sent before goes first. So the end is said only on the connection that the
//! stream of a peer is on, behind all of it; the others are closed, which means nothing
//! while that one is open.

use super::{Entry, Net};
use sluice_multirail::RailId;
use sluice_wire::PeerId;
use sluice_wire::frame::{CloseReason, FrameKind};

impl Drop for Net {
    fn drop(&mut self) {
        // The connections of a forked process are its parent's.
        if self.pid != std::process::id() {
            return;
        }
        let peers = std::mem::take(&mut self.active);
        for &peer in &peers {
            self.leave(peer);
        }
        self.drain_fabrics(&peers);
    }
}

impl Net {
    /// The peers whose systems do not have all that was sent to them, and for how much of it
    /// that is so: bytes, or packets where the stream is on no connection. A connection that ends now may
    /// lose it: the system drops what it has as soon as something comes in after the end. What
    /// goes over libfabric the end waits for.
    #[must_use]
    pub fn undelivered(&self) -> Vec<(PeerId, u64)> {
        let each = self.active.iter().map(|&peer| (peer, self.undelivered_to(peer)));
        each.filter(|&(_, left)| left > 0).collect()
    }

    fn undelivered_to(&self, peer: PeerId) -> u64 {
        let Some(met) = self.met(peer) else { return 0 };
        // Between two connections the stream is on none.
        if met.stream_on.is_none_or(|rail| met.conns[rail.index()].is_none()) {
            return met.rails.kept();
        }
        let of = |&entry: &usize| match self.entries.get(entry) {
            Some(Entry::Conn(conn)) if conn.lane.is_tcp() => {
                let small = conn.out.small_bytes() as u64 + u64::from(!conn.out.is_given());
                conn.lane.waiting_bytes() + conn.out.held(&met.ring) + small
            }
            _ => 0,
        };
        met.conns.iter().flatten().map(of).sum()
    }

    /// Gives the system what there is for a peer, and says that no more comes. What TCP
    /// carries is not waited for.
    fn leave(&mut self, peer: PeerId) {
        let Some(met) = self.met_mut(peer) else { return };
        let first = (0..met.conns.len()).map(|at| RailId(at as u8));
        let on = met.stream_on.into_iter().chain(first);
        let Some(entry) = on.filter_map(|rail| met.conns[rail.index()]).next() else { return };
        for other in met.conns.clone().into_iter().flatten().filter(|&other| other != entry) {
            // A TCP connection ends when it is dropped.
            if let Some(lane) = self.conn(other).and_then(|conn| conn.lane.fabric()) {
                lane.end();
            }
        }
        self.leave_by(peer, entry);
    }

    /// The same by one connection, once all of the stream is in it.
    pub(super) fn leave_by(&mut self, peer: PeerId, entry: usize) {
        let Some(met) = self.met_mut(peer) else { return };
        let acknowledged = met.rails.tell().0;
        let mut scratch = std::mem::take(&mut self.scratch);
        if let Some((conn, ring)) = self.conn_and_ring(entry) {
            let is_given = conn.out.flush(&mut conn.lane, ring, 0).is_ok();
            let is_all = is_given && conn.out.held(ring) == 0;
            // Small frames overtake the stream, which this one must not.
            if is_all && !conn.has_said_close {
                conn.has_said_close = true;
                conn.push_bare(FrameKind::Close, CloseReason::Ended.id(), acknowledged);
                let _ = conn.out.flush(&mut conn.lane, ring, 0);
            }
            if conn.lane.fabric().is_none() || is_all && conn.out.is_given() {
                conn.lane.end(&mut scratch);
            }
        }
        self.scratch = scratch;
    }
}
