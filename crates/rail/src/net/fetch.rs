//! Chunks that a device of libfabric's reads by itself, without the other side's processor.
//!
//! Whoever wants a chunk over such a lane asks where the memory is (`Seek`), once for each
//! key, and reads from then on. What cannot be read, because the key was revoked or for any
//! other reason, is asked for as over any lane, and that says what there is to say.

use super::conn::DataIn;
use super::take_in::Broken;
use super::{Net, SMALL_BYTES_MAX};
use crate::ofi::{self, Fetched, Whereabouts};
use sluice_fabric::BufferId;
use sluice_link::Remote as RemotePlace;
use sluice_multirail::{Ask as MultirailAsk, ChunkId, Landing, RailId};
use sluice_wire::frame::{Ask, Found, FrameHead, FrameKind};
use sluice_wire::{PeerId, RemoteKey};

impl Net {
    /// Reads a chunk by the device itself, or asks where it is. Says whether that is so.
    pub(super) fn fetch_chunk(&mut self, peer: PeerId, ask: &MultirailAsk) -> bool {
        if self.fabrics.is_empty() {
            return false;
        }
        let Some(met) = self.met(peer) else { return false };
        let Some(read) = met.reads.iter().find(|read| read.id == ask.read).copied() else {
            return false;
        };
        let Some(conn) = self.conn_of(peer, ask.rail) else { return false };
        let is_sealed = conn.unsealing.is_some();
        let Some(lane) = conn.lane.fabric() else { return false };
        if is_sealed || !lane.reads_memory() {
            return false;
        }
        match lane.whereabouts(read.key) {
            Some(Whereabouts { key, base }) => {
                let base = base.wrapping_add(read.offset).wrapping_add(ask.offset);
                lane.fetch(ask.chunk.bits(), Whereabouts { key, base }, ask.len);
            }
            None => self.push_ask(peer, ask, FrameKind::Seek),
        }
        true
    }

    /// The peer has said where the memory is that a chunk is of.
    pub(super) fn on_found(&mut self, entry: usize, chunk: ChunkId, found: Found) {
        let Some((peer, rail)) = self.conn(entry).map(|conn| (conn.peer, conn.rail)) else {
            return;
        };
        let Some((ask, key)) = self.left_of(peer, rail, chunk) else { return };
        let Some(conn) = self.conn(entry) else { return };
        if let Some(lane) = conn.lane.fabric() {
            lane.learn(key, Whereabouts { key: found.key, base: found.base });
        }
        if !self.fetch_chunk(peer, &ask) {
            // The lane has given up reading since it asked.
            self.push_ask(peer, &ask, FrameKind::Ask);
        }
    }

    /// What is left of a chunk, as if it were asked for now, and the key of its memory.
    fn left_of(
        &self,
        peer: PeerId,
        rail: RailId,
        chunk: ChunkId,
    ) -> Option<(MultirailAsk, RemoteKey)> {
        let met = self.met(peer)?;
        let Landing::Into { read, offset, len } = met.rails.landing(rail, chunk) else {
            return None;
        };
        let key = met.reads.iter().find(|known| known.id == read)?.key;
        Some((MultirailAsk { rail, chunk, read, offset, len }, key))
    }

    /// Puts in its place what was read by a lane.
    pub(super) fn take_fetched(&mut self, entry: usize) {
        while let Some(conn) = self.conn(entry)
            && let (peer, rail) = (conn.peer, conn.rail)
            && let Some(lane) = conn.lane.fabric()
            && let Some(fetched) = lane.next_fetched()
        {
            conn.note_heard();
            match fetched {
                Fetched::Bytes { chunk, buffer, len } => {
                    self.place_fetched(entry, ChunkId::from_bits(chunk), buffer, len);
                }
                Fetched::Failed { chunk } => {
                    let left = self.left_of(peer, rail, ChunkId::from_bits(chunk));
                    if let Some(lane) = self.conn(entry).and_then(|conn| conn.lane.fabric()) {
                        lane.note_failure(left.map(|(_, key)| key));
                    }
                    if let Some((ask, _)) = left {
                        self.push_ask(peer, &ask, FrameKind::Ask);
                    }
                }
            }
        }
    }

    fn place_fetched(&mut self, entry: usize, chunk: ChunkId, buffer: BufferId, len: usize) {
        let Some(conn) = self.conn(entry) else { return };
        let (peer, rail, device) = (conn.peer, conn.rail, conn.device);
        let left = self.left_of(peer, rail, chunk).map_or(0, |(ask, _)| ask.len);
        let len = left.min(len as u64) as u32;
        let place =
            (len > 0).then(|| self.place_to_receive(peer, rail, DataIn { chunk, left: len }));
        let Some(lane) = self.conn(entry).and_then(|conn| conn.lane.fabric()) else { return };
        // SAFETY: the place is inside the destination of a read that is under way, which the
        // machine lets be written until the read has ended, or it is of this process.
        unsafe { lane.copy_out(buffer, place) };
        if len == 0 {
            return;
        }
        self.carried.note(device, u64::from(len));
        let (now, since) = (self.now, self.gap_since);
        let ended = self.with_rails(peer, |rails, below| {
            rails.note_gap(since);
            rails.arrived(now, below, rail, chunk, u64::from(len))
        });
        if let Some(Some(read)) = ended {
            self.end_read(peer, read, Ok(()));
        }
    }

    /// Tells a peer where memory is that it wants to read. Says whether it can.
    pub(super) fn tell_found(
        &mut self,
        entry: usize,
        peer: PeerId,
        id: u32,
        ask: &Ask,
    ) -> Result<bool, Broken> {
        let place = RemotePlace { key: ask.key, offset: ask.offset };
        if self.exposures.resolve(peer, place, u64::from(ask.len), false).is_err() {
            return Ok(false);
        }
        let Some(region) = self.exposures.readable(peer, ask.key) else { return Ok(false) };
        let Some(met) = self.met_mut(peer) else { return Ok(false) };
        let acknowledged = met.rails.tell().0;
        let Some(conn) = self.conn(entry) else { return Ok(false) };
        if conn.unsealing.is_some() {
            return Ok(false);
        }
        let found = conn.lane.fabric().and_then(|lane| lane.expose(ask.key, region));
        let Some(Whereabouts { key, base }) = found else { return Ok(false) };
        if conn.out.small_bytes() >= SMALL_BYTES_MAX {
            return Err(Broken::Deaf);
        }
        let head = FrameHead { kind: FrameKind::Found, len: Found::BYTES as u32, id, acknowledged };
        conn.out.push(&[&head.emit(), &Found { key, base }.emit()]);
        self.mark_dirty(entry);
        Ok(true)
    }

    /// The memory behind a key is not read by any device any more.
    pub(super) fn withdraw(&mut self, key: RemoteKey) {
        for fabric in self.fabrics.iter().flatten() {
            ofi::lock(&fabric.device).withdraw(key);
        }
    }
}
