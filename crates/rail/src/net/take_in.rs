//! What comes on a connection: frames, chunks, and its end.
//!
//! A look at a socket brings what is there into one buffer, which all connections share,
//! and a chunk that is coming straight into its place. Where a chunk is expected no more is
//! taken into the buffer than has room for its header, so what is copied is little. What is left of a frame that has
//! not come whole is kept with its connection, so one that is idle has no buffer.

use super::conn::DataIn;
use super::remote::{Read, ReadOf};
use super::serve::Serve;
use super::{
    BUFFER_BYTES, Entry, Event, Net, Place, Reading, SERVES_MAX, SMALL_BYTES_MAX, TAIL_BYTES,
    WRITES_MAX, sock,
};
use sluice_link::{Opened, PeerError, RailError, Remote as RemotePlace};
use sluice_multirail::{Arrival, ChunkId, Landing, Number, RailId, ReadId};
use sluice_wire::frame::{
    Ask, CloseReason, FRAME_HEAD_BYTES, Found, FrameError, FrameHead, FrameKind, RemoteWrite,
    WriteDone,
};
use sluice_wire::{Packet, PeerId, Region};
use std::io;
use std::ptr;

/// Most connections to one peer that bring what it has not sent. It is given up then, or
/// whoever is between the two could have them connect for ever.
pub(super) const ALTERED_MAX: u32 = 1000;

/// Why a peer is given up.
#[derive(Debug, thiserror::Error)]
pub(super) enum Broken {
    #[error("{0}")]
    Frame(#[from] FrameError),
    #[error("{0}")]
    Number(#[from] sluice_multirail::Misnumbered),
    #[error("a packet does not parse: {0}")]
    Packet(#[from] sluice_wire::WireError),
    #[error("a packet of {len} bytes is in a frame of {frame}")]
    PacketLen { len: u64, frame: u32 },
    #[error("a packet of {0} bytes does not fit the mailbox")]
    TooLong(u32),
    #[error("a chunk brings {got} bytes where {wanted} are left of it")]
    Chunk { got: u32, wanted: u64 },
    #[error("it asks for more than {SERVES_MAX} chunks at once")]
    Asks,
    #[error("it writes more than {WRITES_MAX} times at once")]
    Writes,
    #[error("it does not take the answers to what it asks")]
    Deaf,
    #[error("it ends a write that was not begun")]
    NoWrite,
    #[error("on {ALTERED_MAX} connections came what it had not sent")]
    Altered,
}

impl Net {
    /// Takes in what a socket has.
    pub(super) fn receive(&mut self, entry: usize) {
        let Some(conn) = self.conn(entry) else {
            self.hot.retain(|&other| other != entry);
            return;
        };
        if conn.unsealing.is_some() {
            return self.receive_sealed(entry);
        }
        if conn.lane.fabric().is_some() {
            self.take_fetched(entry);
        }
        let Some(conn) = self.conn(entry) else { return };
        // To receive in vain holds the socket's lock while a packet arrives; to look does not.
        // Where more than one byte is to wake, the system says so of no less.
        if !conn.gathers() && !conn.lane.has_something() {
            if conn.note_vain() {
                self.cool(entry);
            }
            return;
        }
        let (peer, rail) = (conn.peer, conn.rail);
        let data = conn.data;
        let kept = conn.partial.len();
        if kept > 0 {
            let mut partial = std::mem::take(&mut conn.partial);
            if self.buffer.len() < kept + BUFFER_BYTES {
                self.buffer.resize(kept + BUFFER_BYTES, 0);
            }
            self.buffer[..kept].copy_from_slice(&partial);
            // The emptied buffer goes back, so that its memory is used again.
            partial.clear();
            if let Some(conn) = self.conn(entry) {
                conn.partial = partial;
            }
        }
        let place = data.map(|data| self.place_to_receive(peer, rail, data));
        let Some(conn) = self.conn(entry) else { return };
        let tail = if place.is_some() { TAIL_BYTES } else { conn.ahead_bytes() };
        let behind = Place::of_mut(&mut self.buffer[kept..kept + tail]);
        // Behind a part of a chunk comes the rest of it, which is no frame.
        let is_last = place.zip(data).is_none_or(|(place, data)| place.len == data.left as usize);
        let Some(conn) = self.conn(entry) else { return };
        let pieces = [place.unwrap_or(behind), behind];
        let pieces = match (place, is_last) {
            (Some(_), true) => &pieces[..],
            (Some(_), false) => &pieces[..1],
            (None, _) => &pieces[1..],
        };
        // SAFETY: the buffer is this process's own. The place of a chunk is inside the
        // destination of a read that is under way, which the machine lets be written
        // until the read has ended; or the scratch buffer.
        match unsafe { conn.lane.receive(pieces) } {
            Ok(0) => self.broke(entry, None),
            Ok(got) => {
                conn.note_heard();
                let is_full = got == pieces.iter().map(|piece| piece.len).sum::<usize>();
                if is_full && place.is_none() {
                    // Unless a chunk begins in what is here.
                    conn.expects_chunk = false;
                }
                let of_chunk = place.map_or(0, |place| place.len.min(got));
                if of_chunk > 0 {
                    self.stats.placed += of_chunk as u64;
                    self.note_chunk(entry, of_chunk as u32);
                }
                let end = kept + got - of_chunk;
                if end > 0 && self.conn(entry).is_some() {
                    self.reading = Some(Reading { entry, at: 0, end });
                }
                if is_full || data.is_some() {
                    // There is more, most likely.
                    self.look_again(entry);
                }
            }
            Err(cause) if cause.kind() == io::ErrorKind::WouldBlock => {
                if kept > 0 {
                    self.keep_partial(entry, 0, kept);
                }
                let is_cold = self.conn(entry).is_some_and(|conn| conn.note_vain());
                if is_cold {
                    self.cool(entry);
                }
            }
            Err(cause) if cause.kind() == io::ErrorKind::Interrupted => {
                self.keep_partial(entry, 0, kept);
                self.look_again(entry);
            }
            Err(cause)
                if sock::is_fault(&cause)
                    && data.is_some_and(|data| self.spoil_chunk(peer, rail, data)) =>
            {
                // The socket still has all of it, which the next look takes to nowhere.
                self.keep_partial(entry, 0, kept);
                self.look_again(entry);
            }
            Err(cause) => self.broke(entry, Some(cause)),
        }
    }

    /// Nothing has come on a connection for long: it is left to the system's list, and
    /// gives its buffers back.
    pub(super) fn cool(&mut self, entry: usize) {
        if !self.relist(entry) {
            return;
        }
        self.hot.retain(|&other| other != entry);
        let Some(conn) = self.conn(entry) else { return };
        if conn.partial.is_empty() {
            conn.partial = Vec::new();
        }
        conn.out.give_back();
        // From now on its first byte is to be known.
        conn.wake_from(1);
        if let Some(unsealing) = &mut conn.unsealing {
            unsealing.give_back();
        }
        let peer = conn.peer;
        if let Some(met) = self.met_mut(peer) {
            met.ring.give_back();
        }
    }

    /// Reads what came on a connection behind the handshake.
    pub(super) fn reread(&mut self, entry: usize) {
        if self.reread_sealed(entry) {
            return;
        }
        let Some(conn) = self.conn(entry) else { return };
        let bytes = std::mem::take(&mut conn.partial);
        if self.buffer.len() < bytes.len() {
            self.buffer.resize(bytes.len(), 0);
        }
        self.buffer[..bytes.len()].copy_from_slice(&bytes);
        self.reading = Some(Reading { entry, at: 0, end: bytes.len() });
    }

    /// Reads the next frame in the buffer. Says what the machine is to be told of it.
    pub(super) fn read_frame(&mut self) -> Option<Event> {
        let Reading { entry, at, end } = self.reading?;
        let Some(conn) = self.conn(entry) else {
            self.reading = None;
            return None;
        };
        let (peer, rail) = (conn.peer, conn.rail);
        match self.frame_at(entry, peer, rail, at, end) {
            Ok(Some((used, event))) => {
                if let Some(reading) = &mut self.reading {
                    reading.at += used;
                    if reading.at == reading.end {
                        self.reading = None;
                    }
                }
                event
            }
            Ok(None) => {
                self.reading = None;
                self.keep_partial(entry, at, end);
                None
            }
            Err(Broken::Frame(why @ FrameError::Check)) => {
                self.altered(entry, &why);
                None
            }
            Err(why) => {
                self.reading = None;
                self.break_with(peer, &why);
                None
            }
        }
    }

    /// The beginning of a frame stays with its connection until the rest comes.
    fn keep_partial(&mut self, entry: usize, at: usize, end: usize) {
        let Some(Entry::Conn(conn)) = self.entries.get_mut(entry) else { return };
        conn.partial.clear();
        conn.partial.extend_from_slice(&self.buffer[at..end]);
    }

    /// The frame at the front of what is in the buffer. Says how many bytes it takes
    /// there; `None` if it is not whole.
    fn frame_at(
        &mut self,
        entry: usize,
        peer: PeerId,
        rail: RailId,
        at: usize,
        end: usize,
    ) -> Result<Option<(usize, Option<Event>)>, Broken> {
        if let Some(data) = self.conn(entry).and_then(|conn| conn.data) {
            let here = (end - at).min(data.left as usize);
            self.put_chunk(entry, data, at, here);
            return Ok(Some((here, None)));
        }
        let Some(head) = self.buffer[at..end].first_chunk::<FRAME_HEAD_BYTES>() else {
            return Ok(None);
        };
        let head = FrameHead::parse(head)?;
        let body = at + FRAME_HEAD_BYTES;
        if head.kind == FrameKind::Data {
            self.heard(peer, rail, head.acknowledged)?;
            let here = (end - body).min(head.len as usize);
            self.begin_chunk(entry, peer, rail, &head, body, here)?;
            return Ok(Some((FRAME_HEAD_BYTES + here, None)));
        }
        if head.kind == FrameKind::Packet && head.len > self.packet_bytes_max {
            return Err(Broken::TooLong(head.len));
        }
        let whole = body + head.len as usize;
        if whole > end {
            return Ok(None);
        }
        self.heard(peer, rail, head.acknowledged)?;
        let event = self.on_frame(entry, peer, rail, &head, body)?;
        Ok(Some((whole - at, event)))
    }

    fn on_frame(
        &mut self,
        entry: usize,
        peer: PeerId,
        rail: RailId,
        head: &FrameHead,
        body: usize,
    ) -> Result<Option<Event>, Broken> {
        let end = body + head.len as usize;
        match head.kind {
            FrameKind::Packet | FrameKind::Write | FrameKind::Written => {
                return self.on_stream(peer, head, body, end);
            }
            FrameKind::Ask => {
                let ask = Ask::parse(&self.buffer[body..end])?;
                self.serve(entry, peer, head.id, &ask)?;
            }
            FrameKind::Seek => {
                let ask = Ask::parse(&self.buffer[body..end])?;
                if !self.tell_found(entry, peer, head.id, &ask)? {
                    self.serve(entry, peer, head.id, &ask)?;
                }
            }
            FrameKind::Found => {
                let found = Found::parse(&self.buffer[body..end])?;
                self.on_found(entry, ChunkId::from_bits(head.id), found);
            }
            FrameKind::Fault => self.fault(peer, rail, ChunkId::from_bits(head.id)),
            FrameKind::Probe => {
                if let Some(met) = self.met_mut(peer) {
                    let acknowledged = met.rails.tell().0;
                    self.answer_with(entry, FrameKind::Answer, 0, acknowledged)?;
                    self.mark_dirty(entry);
                }
            }
            FrameKind::Answer => {}
            FrameKind::Close => {
                let why = match CloseReason::from_id(head.id)? {
                    CloseReason::Ended => PeerError::Dead,
                    CloseReason::Refused | CloseReason::Protocol => PeerError::Refused,
                };
                self.lose(peer, why);
            }
            FrameKind::Data => unreachable!("it is not whole in the buffer"),
        }
        Ok(None)
    }

    /// A frame of the numbered stream.
    fn on_stream(
        &mut self,
        peer: PeerId,
        head: &FrameHead,
        body: usize,
        end: usize,
    ) -> Result<Option<Event>, Broken> {
        let Some(met) = self.met_mut(peer) else { return Ok(None) };
        if met.rails.receive(met.number_of(head.id))? == Arrival::Duplicate {
            self.stats.duplicates += 1;
            return Ok(None);
        }
        met.expected += 1;
        let bytes = &self.buffer[body..end];
        match head.kind {
            FrameKind::Packet => {
                let parsed = Packet::parse(bytes)?;
                if parsed.total_bytes() != u64::from(head.len) {
                    let len = parsed.total_bytes();
                    return Err(Broken::PacketLen { len, frame: head.len });
                }
                let payload = body + parsed.payload_offset as usize;
                self.payload = (payload, parsed.payload_len as usize);
                self.note_seen(peer);
                Ok(Some(Event::Packet(peer, parsed)))
            }
            FrameKind::Write => {
                let write = RemoteWrite::parse(bytes)?;
                self.fetch(peer, &write)?;
                Ok(None)
            }
            _ => {
                let done = WriteDone::parse(bytes)?;
                self.on_written(peer, &done).map(Some)
            }
        }
    }

    /// Every frame says what its sender has got.
    fn heard(&mut self, peer: PeerId, rail: RailId, acknowledged: u64) -> Result<(), Broken> {
        let now = self.now;
        self.with_rails(peer, |rails, below| rails.heard(now, below, rail, Number(acknowledged)))
            .unwrap_or(Ok(()))?;
        if let Some(met) = self.met_mut(peer) {
            met.refused = 0;
        }
        Ok(())
    }

    /// A frame of data begins, of which `here` bytes are in the buffer.
    fn begin_chunk(
        &mut self,
        entry: usize,
        peer: PeerId,
        rail: RailId,
        head: &FrameHead,
        body: usize,
        here: usize,
    ) -> Result<(), Broken> {
        let chunk = ChunkId::from_bits(head.id);
        let Some(met) = self.met(peer) else { return Ok(()) };
        if let Landing::Into { len, .. } = met.rails.landing(rail, chunk)
            && u64::from(head.len) > len
        {
            return Err(Broken::Chunk { got: head.len, wanted: len });
        }
        let data = DataIn { chunk, left: head.len };
        let Some(conn) = self.conn(entry) else { return Ok(()) };
        conn.expect_chunk(u64::from(head.len));
        conn.data = (head.len > 0).then_some(data);
        if here == 0 {
            return Ok(());
        }
        self.put_chunk(entry, data, body, here);
        Ok(())
    }

    /// Puts `here` bytes of the chunk that is coming, which are in the buffer, in their place.
    fn put_chunk(&mut self, entry: usize, data: DataIn, at: usize, here: usize) {
        let Some(conn) = self.conn(entry) else { return };
        let (peer, rail) = (conn.peer, conn.rail);
        if let Some(place) = self.place_of(peer, rail, data) {
            let place = Place { len: here.min(place.len), ..place };
            if place.is_writable() {
                let from = self.buffer[at..at + here].as_ptr();
                // SAFETY: the place can be written, as was just found, and the machine lets it
                // be until the read has ended.
                unsafe { ptr::copy_nonoverlapping(from, place.at, place.len) };
                self.stats.copied += place.len as u64;
            } else {
                self.spoil_chunk(peer, rail, data);
            }
        }
        self.note_chunk(entry, here as u32);
    }

    /// Where the next bytes of a chunk are received: into its read, or to nowhere.
    pub(super) fn place_to_receive(&mut self, peer: PeerId, rail: RailId, data: DataIn) -> Place {
        if let Some(place) = self.place_of(peer, rail, data) {
            if !self.is_copied_blindly(peer, rail, place) {
                return place;
            }
            self.spoil_chunk(peer, rail, data);
        }
        let len = self.scratch.len().min(data.left as usize);
        Place { at: self.scratch.as_mut_ptr(), len }
    }

    /// Where in its read the next bytes of a chunk belong; `None` if nobody wants them, or
    /// the place has turned out not to be there.
    fn place_of(&self, peer: PeerId, rail: RailId, data: DataIn) -> Option<Place> {
        let met = self.met(peer)?;
        let Landing::Into { read, offset, len } = met.rails.landing(rail, data.chunk) else {
            return None;
        };
        let known = met.reads.iter().find(|known| known.id == read && !known.is_faulty)?;
        let at = known.into.addr.offset(offset).0 as usize;
        let len = len.min(u64::from(data.left)) as usize;
        Some(Place { at: ptr::with_exposed_provenance_mut(at), len })
    }

    /// The place of a chunk is not there: its read ends with a fault, once all of it has come
    /// and gone nowhere. False if there is no such read, or that was known.
    fn spoil_chunk(&mut self, peer: PeerId, rail: RailId, data: DataIn) -> bool {
        let Some(met) = self.met_mut(peer) else { return false };
        let Landing::Into { read, .. } = met.rails.landing(rail, data.chunk) else { return false };
        let known = met.reads.iter_mut().find(|known| known.id == read);
        known.is_some_and(|known| !std::mem::replace(&mut known.is_faulty, true))
    }

    /// Bytes of the chunk that is coming are in their place.
    fn note_chunk(&mut self, entry: usize, bytes: u32) {
        let Some(conn) = self.conn(entry) else { return };
        let (peer, rail) = (conn.peer, conn.rail);
        let Some(data) = &mut conn.data else { return };
        let chunk = data.chunk;
        data.left -= bytes;
        if data.left == 0 {
            conn.data = None;
        }
        let (now, since) = (self.now, self.gap_since);
        let ended = self.with_rails(peer, |rails, below| {
            rails.note_gap(since);
            rails.arrived(now, below, rail, chunk, u64::from(bytes))
        });
        if let Some(Some(read)) = ended {
            self.end_read(peer, read, Ok(()));
        }
    }

    /// A read has ended.
    pub(super) fn end_read(&mut self, peer: PeerId, id: ReadId, outcome: Result<(), RailError>) {
        let Some(met) = self.met_mut(peer) else { return };
        let Some(at) = met.reads.iter().position(|read| read.id == id) else { return };
        let read = met.reads.swap_remove(at);
        let outcome = if read.is_faulty { Err(RailError::Fault) } else { outcome };
        match read.of {
            ReadOf::Machine(token) => self.events.push_back(Event::Moved(token, outcome)),
            ReadOf::Writer(token, _) => self.tell_written(peer, token, outcome.is_ok()),
        }
    }

    /// The peer cannot send a chunk: its key does not reach it.
    fn fault(&mut self, peer: PeerId, rail: RailId, chunk: ChunkId) {
        let now = self.now;
        let ended = self.with_rails(peer, |rails, below| rails.failed(now, below, rail, chunk));
        if let Some(Some(read)) = ended {
            self.end_read(peer, read, Err(RailError::Fault));
        }
    }

    /// The peer asks for a chunk.
    fn serve(&mut self, entry: usize, peer: PeerId, id: u32, ask: &Ask) -> Result<(), Broken> {
        let place = RemotePlace { key: ask.key, offset: ask.offset };
        let found = self.exposures.resolve(peer, place, u64::from(ask.len), false);
        let Some(met) = self.met_mut(peer) else { return Ok(()) };
        let acknowledged = met.rails.tell().0;
        let Some(conn) = self.conn(entry) else { return Ok(()) };
        if conn.out.serves() >= SERVES_MAX {
            return Err(Broken::Asks);
        }
        match found {
            Ok(addr) => {
                let from = Region { addr, len: u64::from(ask.len) };
                conn.out.serve(Serve::new(id, acknowledged, from, ask.key));
            }
            Err(_) => self.answer_with(entry, FrameKind::Fault, id, acknowledged)?,
        }
        self.mark_dirty(entry);
        Ok(())
    }

    /// Answers a peer, unless it leaves all answers lying.
    pub(super) fn answer_with(
        &mut self,
        entry: usize,
        kind: FrameKind,
        id: u32,
        acknowledged: u64,
    ) -> Result<(), Broken> {
        let Some(conn) = self.conn(entry) else { return Ok(()) };
        if conn.out.small_bytes() >= SMALL_BYTES_MAX {
            return Err(Broken::Deaf);
        }
        conn.push_bare(kind, id, acknowledged);
        Ok(())
    }

    /// The peer wants to write: its bytes are fetched.
    fn fetch(&mut self, peer: PeerId, write: &RemoteWrite) -> Result<(), Broken> {
        let place = RemotePlace { key: write.to, offset: write.offset };
        let found = self.exposures.resolve(peer, place, write.len, true);
        let Some(met) = self.met(peer) else { return Ok(()) };
        // What this process reads does not count.
        let is_writer = |read: &&Read| matches!(read.of, ReadOf::Writer(..));
        if met.reads.len() >= WRITES_MAX && met.reads.iter().filter(is_writer).count() >= WRITES_MAX
        {
            return Err(Broken::Writes);
        }
        // A packet takes a slot at least, and every write tells which ends of writes have come.
        let Opened { grant, dynamic_slots } = met.opened;
        let slots = u64::from(grant.data_slots)
            + u64::from(grant.control_slots)
            + u64::from(grant.credit_slots)
            + u64::from(dynamic_slots);
        if met.rails.kept() > slots + 2 * WRITES_MAX as u64 {
            return Err(Broken::Deaf);
        }
        match found {
            Ok(_) if write.len == 0 => self.tell_written(peer, write.token, true),
            Ok(addr) => {
                let into = Region { addr, len: write.len };
                let of = ReadOf::Writer(write.token, write.to);
                self.begin_read(peer, write.from, 0, into, of);
            }
            Err(_) => self.tell_written(peer, write.token, false),
        }
        Ok(())
    }

    fn on_written(&mut self, peer: PeerId, done: &WriteDone) -> Result<Event, Broken> {
        let met = self.met_mut(peer).ok_or(Broken::NoWrite)?;
        let at = met.writes.iter().position(|write| write.id == done.token);
        let write = met.writes.swap_remove(at.ok_or(Broken::NoWrite)?);
        self.take_back(peer, write.from);
        self.begin_waiting_writes(peer);
        let outcome = if done.is_done { Ok(()) } else { Err(RailError::Fault) };
        Ok(Event::Moved(write.token, outcome))
    }

    /// Begins to read memory of a peer.
    pub(super) fn begin_read(
        &mut self,
        peer: PeerId,
        key: sluice_wire::RemoteKey,
        offset: u64,
        into: Region,
        of: ReadOf,
    ) {
        self.reads_made += 1;
        let id = ReadId(self.reads_made);
        let now = self.now;
        let Some(met) = self.met_mut(peer) else { return };
        met.reads.push(Read { id, key, offset, into, of, is_faulty: false });
        self.with_rails(peer, |rails, below| rails.read(now, below, id, into.len));
    }
}
