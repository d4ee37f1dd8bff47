//! The end of this process's part: its peers learn of it at once.
//!
//! What was sent before goes first. So the end is said only on the connection that the
//! stream of a peer is on, behind all of it; the others are closed, which means nothing
//! while that one is open.

use super::Net;
use sluice_multirail::RailId;
use sluice_wire::PeerId;
use sluice_wire::frame::{CloseReason, FrameKind};

impl Drop for Net {
    fn drop(&mut self) {
        // The connections of a forked process are its parent's.
        if self.pid != std::process::id() {
            return;
        }
        for peer in std::mem::take(&mut self.active) {
            self.leave(peer);
        }
    }
}

impl Net {
    /// Gives the system what there is for a peer, and says that no more comes. Nothing is
    /// waited for.
    fn leave(&mut self, peer: PeerId) {
        let Some(met) = self.met_mut(peer) else { return };
        let acknowledged = met.rails.tell().0;
        let first = (0..met.conns.len()).map(|at| RailId(at as u8));
        let on = met.stream_on.into_iter().chain(first);
        let Some(entry) = on.filter_map(|rail| met.conns[rail.index()]).next() else { return };
        let mut scratch = std::mem::take(&mut self.scratch);
        if let Some((conn, ring)) = self.conn_and_ring(entry) {
            let is_given = conn.out.flush(&mut conn.lane, ring, 0).is_ok();
            // Small frames overtake the stream, which this one must not.
            if is_given && conn.out.held(ring) == 0 {
                conn.push_bare(FrameKind::Close, CloseReason::Ended.id(), acknowledged);
                let _ = conn.out.flush(&mut conn.lane, ring, 0);
            }
            conn.lane.end(&mut scratch);
        }
    }
}
