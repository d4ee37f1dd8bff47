//! What one rail carries of the chunks: how much it owes, how fast it is, how much more it
//! should be asked for now.
//!
//! Invariant: `bytes` is what has not come of its `chunks`.

use crate::{Gaps, Pace};
use sluice_wire::Nanos;

/// How long what was measured of a rail holds while it has nothing to do.
const IDLE_NS: u64 = 1_000_000_000;
/// A chunk is what its rail brings in this time: measured on shaped links of 1 to 4 Gb/s,
/// longer ones leave much to be late with, and shorter ones cost more than they are worth
/// on fast rails. Where more is asked for ahead they are longer, for so many are under way.
const CHUNK_NS: u64 = 1_000_000;
const CHUNKS_AHEAD: u64 = 3;
/// The same of a rail that has not been measured, in bytes.
pub(super) const CHUNK_BYTES_UNMEASURED: u64 = 128 << 10;
/// What a rail brings in this time is asked for ahead, if there is no packet among it and
/// there are no gaps.
const AHEAD_NS: u64 = 1_000_000;
/// The same while packets come by the rail, and how long after the last they do.
const AHEAD_NS_WITH_PACKETS: u64 = 200_000;
const PACKETS_NS: u64 = 1_000_000;
/// A chunk has this part of it at least.
const AHEAD_PARTS: u64 = 8;
/// Least that is asked for ahead.
const AHEAD_BYTES_MIN: u64 = 16 << 10;

#[derive(Clone, Copy, Debug)]
pub(super) struct Rail {
    /// What is thought of it before it is measured: bytes per second, and from asking to the
    /// first byte.
    claimed_bytes_per_s: u64,
    claimed_latency_ns: u64,
    /// When it had something to do last.
    pub(super) used: Nanos,
    pub(super) pace: Pace,
    /// Between looks while it owed something.
    gaps: Gaps,
    /// From asking to the first byte, where nothing else is under way.
    pub(super) latency_ns: u64,
    pub(super) is_usable: bool,
    pub(super) chunks: u16,
    /// Bytes asked for that have not come.
    pub(super) bytes: u64,
    /// Since when it owes something and nothing has come. It stays so when what it owes is
    /// asked for elsewhere: a rail that does not speak has no pace.
    pub(super) silent_since: Option<Nanos>,
    /// When a packet came by it last.
    pub(super) packet: Option<Nanos>,
    /// It has brought all that it was asked for, then, and there was more to ask for.
    pub(super) dry: Option<Nanos>,
}

impl Rail {
    /// A rail of which its device claims so much. It can be used at once.
    pub(super) fn claimed(bytes_per_s: u64, latency_ns: u64) -> Rail {
        Rail {
            claimed_bytes_per_s: bytes_per_s,
            claimed_latency_ns: latency_ns,
            used: Nanos(0),
            pace: Pace::claimed(bytes_per_s),
            gaps: Gaps::default(),
            latency_ns,
            is_usable: true,
            chunks: 0,
            bytes: 0,
            silent_since: None,
            packet: None,
            dry: None,
        }
    }

    /// Bytes of a chunk have come, since the look at `before`; the first of one that was asked
    /// for alone, at `asked`.
    pub(super) fn note(&mut self, now: Nanos, before: Nanos, asked: Option<Nanos>, bytes: u64) {
        // Before it was asked for these bytes nobody waited for a look.
        self.gaps.note(now.since(before.max(self.used)).0, now.since(self.used).0);
        self.used = now;
        if let Some(asked) = asked {
            let ns = now.since(asked).0.saturating_sub(self.pace.ns_for(bytes));
            self.latency_ns = self.latency_ns - self.latency_ns / 4 + ns / 4;
        }
        self.bytes -= bytes;
        self.speak(now);
        self.pace.note(now, bytes);
    }

    /// A chunk has come whole. Whether there is more to ask for decides if the rail rests: one
    /// that has to be asked again and again is as fast as that allows, and its sample goes on.
    pub(super) fn end(&mut self, now: Nanos, is_more: bool) {
        if self.chunks == 0 && is_more {
            self.dry = Some(now);
        } else if self.chunks == 0 {
            self.pace.rest(now);
        }
        self.speak(now);
    }

    /// A chunk will not come: where it was the last one, what has come is no sample.
    pub(super) fn drop_sample(&mut self) {
        if self.chunks == 0 {
            self.pace.stop();
            self.dry = None;
        }
    }

    /// For how long what is asked for ahead of it lasts.
    fn ahead_ns(&self, now: Nanos) -> u64 {
        let has_packets = self.packet.is_some_and(|came| now.since(came).0 <= PACKETS_NS);
        self.gaps.last_ns(if has_packets { AHEAD_NS_WITH_PACKETS } else { AHEAD_NS })
    }

    /// How much that is.
    fn ahead_bytes(&self, now: Nanos) -> u64 {
        if !self.pace.is_measured() {
            return u64::MAX;
        }
        self.pace.bytes_in(self.ahead_ns(now)).max(AHEAD_BYTES_MIN)
    }

    /// Whether it may be asked for a chunk more, which has so many bytes at least. There has to
    /// be room for a good part of what is asked for ahead, or all chunks but one would be short:
    /// as long as what has come since the one before was asked for.
    pub(super) fn has_room(&self, now: Nanos, min: u64) -> bool {
        let ahead = self.ahead_bytes(now);
        let room = (ahead / AHEAD_PARTS).max(min);
        self.chunks == 0 || self.bytes.saturating_add(room) <= ahead
    }

    /// The longest chunk that it should have now, within bounds of which the lower holds.
    pub(super) fn chunk_bytes_max(&self, now: Nanos, max: u64, min: u64) -> u64 {
        let len = if self.pace.is_measured() {
            let chunk_ns = CHUNK_NS.max(self.ahead_ns(now) / CHUNKS_AHEAD);
            self.pace.bytes_in(chunk_ns).min(self.ahead_bytes(now).saturating_sub(self.bytes))
        } else {
            CHUNK_BYTES_UNMEASURED
        };
        len.min(max).max(min)
    }

    /// Nothing is known any more but what is claimed.
    pub(super) fn forget(&mut self) {
        self.pace = Pace::claimed(self.claimed_bytes_per_s);
        self.gaps = Gaps::default();
        self.latency_ns = self.claimed_latency_ns;
        self.dry = None;
    }

    /// A rail that is thought slow is given nothing by which it could show better, so what
    /// is thought of one that has had nothing to do does not hold for long.
    pub(super) fn forget_if_idle(&mut self, now: Nanos) {
        let is_idle = self.chunks == 0 && now.since(self.used).0 >= IDLE_NS;
        if is_idle && self.pace.is_measured() {
            self.forget();
        }
    }

    /// Something has come.
    pub(super) fn speak(&mut self, now: Nanos) {
        self.silent_since = (self.chunks > 0).then_some(now);
    }

    pub(super) fn silent_ns(&self, now: Nanos) -> u64 {
        self.silent_since.map_or(0, |since| now.since(since).0)
    }
}
