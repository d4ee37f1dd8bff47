//! The short way of a packet: nearly all frames are packets that come next on a rail that can
//! be used, and each table is looked into once for them.
//!
//! All other frames, and all that is not as it should be, are left to the long way
//! ([`super::take_in`]). What is done here before that is found is done again there, to no
//! effect.

use super::check::fast_check_of;
use super::conn::Conn;
use super::remote::{Met, Remote, Stage};
use super::{Entry, Event, Net, Reading};
use slab::Slab;
use sluice_multirail::{Arrival, Number};
use sluice_wire::Packet;
use sluice_wire::frame::{FRAME_HEAD_BYTES, FrameHead, FrameKind};

impl Net {
    /// The packet at the front of what is in the buffer. `None` if it is to go the long way.
    #[inline]
    pub(super) fn next_packet(&mut self) -> Option<Event> {
        let Net { reading, entries, remotes, buffer, now, payload, packet_bytes_max, .. } = self;
        let Reading { entry, at, end } = (*reading)?;
        let Some(Entry::Conn(conn)) = entries.get(entry) else { return None };
        let (peer, rail) = (conn.peer, conn.rail);
        let remote = remotes.get_mut(peer.index()).and_then(Option::as_deref_mut)?;
        let Remote { stage: Stage::Met(met), is_seen: true, .. } = remote else { return None };
        if conn.data.is_some() {
            return None;
        }
        let head = FrameHead::parse_by(buffer[at..end].first_chunk()?, fast_check_of).ok()?;
        let body = at + FRAME_HEAD_BYTES;
        let whole = body + head.len as usize;
        let number = met.number_of(head.id);
        let is_next = head.kind == FrameKind::Packet
            && head.len <= *packet_bytes_max
            && whole <= end
            && number == Number(met.expected);
        if !is_next {
            return None;
        }
        let acknowledged = Number(head.acknowledged);
        // In a burst only the first says something new.
        if !met.rails.has_heard(*now, rail, acknowledged) {
            let fresh = met.rails.heard_in_use(*now, rail, acknowledged)?;
            met.refused = 0;
            if fresh > 0 {
                release(entries, met, fresh);
            }
        }
        let parsed = Packet::parse(&buffer[body..whole]).ok()?;
        if parsed.total_bytes() != u64::from(head.len) {
            return None;
        }
        let Ok(Arrival::New) = met.rails.receive(number) else { return None };
        met.expected += 1;
        *payload = (body + parsed.payload_offset as usize, parsed.payload_len as usize);
        *reading = (whole < end).then_some(Reading { entry, at: whole, end });
        Some(Event::Packet(peer, parsed))
    }
}

/// The oldest packets to a peer have been acknowledged, so many.
pub(super) fn release(entries: &mut Slab<Entry>, met: &mut Met, count: u64) {
    let entry = met.stream_on.and_then(|rail| met.conns[rail.index()]);
    if let Some(Entry::Conn(conn)) = entry.and_then(|entry| entries.get_mut(entry)) {
        let Conn { out, .. } = &mut **conn;
        out.skip_to(&met.ring, met.ring.place_after(count));
    }
    met.ring.release(count);
}
