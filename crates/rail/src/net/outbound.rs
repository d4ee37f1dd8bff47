//! What goes out on one connection.
//!
//! Three things go: small frames of the connection itself (asks, answers), the stream of
//! packets if it is on this connection, and chunks that the peer has asked for, straight
//! from the memory of the client. Everything that is there goes in one system call. Small
//! frames and packets go before chunks, but never into the middle of a frame.
//!
//! Invariant: what was given to the socket is whole frames and the beginning of at most
//! one more, whose rest goes next.

use super::Place;
use super::lane::Lane;
use super::ring::Ring;
use super::sealed::Sealing;
use super::serve::Serve;
use super::sock::{self, PIECES_MAX};
use sluice_wire::RemoteKey;
use std::collections::VecDeque;
use std::io;

/// From this size on an empty buffer gives its memory back.
const KEPT_BYTES_MAX: usize = 16 << 10;

/// What became of a flush.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flushed {
    /// The socket has taken everything.
    All,
    /// It takes nothing more for now.
    Blocked,
    /// It has as much of the chunks as is good for it.
    Enough,
    /// The memory behind this key cannot be read. Nothing of it was taken by that.
    Faulty(RemoteKey),
}

/// What became of chunks whose memory is not read any more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Forgotten {
    /// Whoever asked for them is told so, by what is to be sent now.
    pub(super) is_told: bool,
    /// The socket has a part of the last frame of one, whose rest does not exist: it can
    /// only be closed, or the reader would take what follows for the rest.
    pub(super) is_cut: bool,
}

/// What became of one call.
enum Given {
    /// There may be more.
    Part,
    /// Some memory cannot be read; nothing was taken.
    Fault,
    /// That was all for now.
    End(Flushed),
}

/// Small frames, in a ring that may wrap, and the stream; more than there ever are.
const PIECES_WITHOUT_CHUNKS: usize = 4;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    Small,
    Stream,
    Serve(usize),
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Outbound {
    small: VecDeque<u8>,
    /// How far the socket has taken the stream, if that is on this connection.
    stream: Option<u64>,
    /// The place is inside a frame.
    is_inside_stream: bool,
    serves: VecDeque<Serve>,
    /// What seals all of it, where that is wanted: then what it has sealed counts as given.
    sealing: Option<Box<Sealing>>,
    /// Bytes that the socket was given in all.
    sent_bytes: u64,
}

impl Outbound {
    /// All that goes out is sealed from now on.
    pub(super) fn seal(&mut self, sealing: Box<Sealing>) {
        self.sealing = Some(sealing);
    }

    /// A frame of the connection's own.
    pub(super) fn push(&mut self, parts: &[&[u8]]) {
        for part in parts {
            self.small.extend(part.iter());
        }
    }

    /// A chunk.
    pub(super) fn serve(&mut self, serve: Serve) {
        self.serves.push_back(serve);
    }

    /// Bytes that the socket was given in all.
    pub(super) fn sent_bytes(&self) -> u64 {
        self.sent_bytes
    }

    /// Bytes of the connection's own frames that wait.
    pub(super) fn small_bytes(&self) -> usize {
        self.small.len()
    }

    /// Whether the socket has all frames of the connection's own, and all that was sealed.
    pub(super) fn is_given(&self) -> bool {
        self.small.is_empty() && self.sealing.as_ref().is_none_or(|sealing| sealing.is_given())
    }

    /// Gives memory back that is not used.
    pub(super) fn give_back(&mut self) {
        if self.small.is_empty() {
            self.small = VecDeque::new();
        }
        if self.serves.is_empty() {
            self.serves = VecDeque::new();
        }
        if let Some(sealing) = &mut self.sealing {
            sealing.give_back();
        }
    }

    /// Bytes of memory that it takes.
    #[cfg(test)]
    pub(super) fn heap_bytes(&self) -> usize {
        let sealed = self.sealing.as_ref().map_or(0, |sealing| sealing.heap_bytes());
        self.small.capacity() + self.serves.capacity() * size_of::<Serve>() + sealed
    }

    /// How many chunks wait.
    pub(super) fn serves(&self) -> usize {
        self.serves.len()
    }

    /// The stream is on this connection, from this place on.
    pub(super) fn begin_stream(&mut self, place: u64) {
        (self.stream, self.is_inside_stream) = (Some(place), false);
    }

    /// The stream goes on elsewhere. A frame that was begun is ended here.
    pub(super) fn end_stream(&mut self, ring: &Ring) {
        self.skip_to(ring, u64::MAX);
        (self.stream, self.is_inside_stream) = (None, false);
    }

    /// Frames before `place` are about to leave the ring: they need not go here any more.
    pub(super) fn skip_to(&mut self, ring: &Ring, place: u64) {
        let Some(at) = self.stream.filter(|&at| at < place) else { return };
        if self.is_inside_stream {
            // It goes before all other small frames.
            for byte in ring.rest_of_frame(at).into_iter().rev() {
                self.small.push_front(byte);
            }
            self.is_inside_stream = false;
        }
        self.stream = Some(place.min(ring.end()));
    }

    /// Bytes of the stream that the socket has not been given.
    pub(super) fn held(&self, ring: &Ring) -> u64 {
        self.stream.map_or(0, |place| ring.end() - place)
    }

    /// Memory is not exposed any more: it is not read from now on. Whoever asked for it
    /// and waits is told so.
    pub(super) fn forget(&mut self, key: RemoteKey) -> Forgotten {
        let Outbound { small, serves, .. } = self;
        let mut forgotten = Forgotten::default();
        serves.retain_mut(|serve| {
            if !serve.reads(key) {
                return true;
            }
            match serve.cut_short() {
                Some(fault) => {
                    small.extend(fault);
                    forgotten.is_told = true;
                }
                None => forgotten.is_cut = true,
            }
            serve.is_begun()
        });
        forgotten
    }

    /// Gives the socket all that it takes; of chunks no more than about `bulk` bytes.
    ///
    /// # Errors
    /// The system's: the connection is broken.
    pub(super) fn flush(
        &mut self,
        lane: &mut Lane,
        ring: &Ring,
        mut bulk: usize,
    ) -> io::Result<Flushed> {
        if let Some(flushed) = self.give_stream(lane, ring)? {
            return Ok(flushed);
        }
        // After a fault one chunk goes at a time, so that it is known which one it is of.
        let mut is_wary = false;
        loop {
            if let Some(sealing) = &mut self.sealing
                && !sealing.flush(lane)?
            {
                return Ok(Flushed::Blocked);
            }
            // A lone message does not wait until room for many pieces is cleared.
            let given = if self.serves.is_empty() {
                self.give::<PIECES_WITHOUT_CHUNKS>(lane, ring, &mut bulk, is_wary)?
            } else {
                self.give::<PIECES_MAX>(lane, ring, &mut bulk, is_wary)?
            };
            match given {
                Given::Part => {}
                Given::Fault => is_wary = true,
                Given::End(flushed) => return Ok(flushed),
            }
        }
    }

    /// The shortest way of a lone message: gives the socket the stream, if that is all there
    /// is, in one piece. `None` if it is not, or the call has to be made again.
    #[inline]
    fn give_stream(&mut self, lane: &mut Lane, ring: &Ring) -> io::Result<Option<Flushed>> {
        let Some(place) = self.stream else { return Ok(None) };
        if !self.small.is_empty() || !self.serves.is_empty() || self.sealing.is_some() {
            return Ok(None);
        }
        let all = ring.from(place);
        if all.is_empty() {
            return Ok(Some(Flushed::All));
        }
        // SAFETY: the ring is this process's own.
        let sent = match unsafe { lane.send(&[Place::of(all)]) } {
            Ok(sent) => sent,
            Err(cause) if cause.kind() == io::ErrorKind::WouldBlock => {
                return Ok(Some(Flushed::Blocked));
            }
            Err(cause) if cause.kind() == io::ErrorKind::Interrupted => return Ok(None),
            Err(cause) => return Err(cause),
        };
        self.sent_bytes += sent as u64;
        self.note_stream(ring, sent);
        // Of less the system says nothing later: only a call that takes nothing promises an event.
        Ok((sent == all.len()).then_some(Flushed::All))
    }

    /// The socket has taken so much more of the stream.
    #[inline]
    fn note_stream(&mut self, ring: &Ring, taken: usize) {
        let at = self.stream.as_mut().expect("it is here");
        *at += taken as u64;
        self.is_inside_stream = *at != ring.end() && (taken > 0 || self.is_inside_stream);
    }

    /// Gives the socket as much as goes in one call, in at most `N` pieces.
    fn give<const N: usize>(
        &mut self,
        lane: &mut Lane,
        ring: &Ring,
        bulk: &mut usize,
        is_wary: bool,
    ) -> io::Result<Given> {
        let (mut parts, mut places) = ([Part::Small; N], [Place::NONE; N]);
        if !self.serves.is_empty() {
            self.prepare(*bulk);
        }
        let (found, is_cut) = self.gather(ring, &mut parts, &mut places, *bulk);
        if found == 0 {
            return Ok(Given::End(if is_cut { Flushed::Enough } else { Flushed::All }));
        }
        let count = if is_wary { first_alone(&parts[..found]) } else { found };
        let (parts, places) = (&parts[..count], &places[..count]);
        // SAFETY: small frames and the ring are this process's own; the memory of a
        // chunk is exposed, and whoever exposes it keeps it mapped until it revokes
        // the key, when `forget` drops the place.
        let given = unsafe {
            match &mut self.sealing {
                Some(sealing) => sealing.seal(places),
                None => lane.send(places),
            }
        };
        let sent = match given {
            Ok(sent) => sent,
            Err(cause) if cause.kind() == io::ErrorKind::WouldBlock => {
                return Ok(Given::End(Flushed::Blocked));
            }
            Err(cause) if cause.kind() == io::ErrorKind::Interrupted => return Ok(Given::Part),
            Err(cause) if sock::is_fault(&cause) => {
                return match parts[0] {
                    Part::Serve(at) if is_wary => {
                        Ok(Given::End(Flushed::Faulty(self.serves[at].key())))
                    }
                    _ if is_wary => Err(cause),
                    _ => Ok(Given::Fault),
                };
            }
            Err(cause) => return Err(cause),
        };
        self.sent_bytes += sent as u64;
        let wanted: usize = places.iter().map(|place| place.len).sum();
        let given = self.account(ring, parts, places, sent);
        *bulk = bulk.saturating_sub(given);
        if self.sealing.is_some() {
            return Ok(Given::Part);
        }
        // Of fewer bytes the system says nothing later: only a call that takes nothing
        // promises an event.
        let is_all = sent == wanted && self.serves.is_empty() && count == found && found < N;
        Ok(if is_all { Given::End(Flushed::All) } else { Given::Part })
    }

    /// Decides how much of the next chunks goes, of about `bulk` bytes.
    fn prepare(&mut self, mut bulk: usize) {
        for serve in self.serves.iter_mut().take(PIECES_MAX) {
            serve.prepare(bulk);
            bulk = bulk.saturating_sub(serve.left());
            if bulk == 0 {
                break;
            }
        }
    }

    /// Lists what goes next, in order. Says how many pieces that is, and whether chunks
    /// are left out because enough of them went.
    fn gather(
        &self,
        ring: &Ring,
        parts: &mut [Part],
        places: &mut [Place],
        mut bulk: usize,
    ) -> (usize, bool) {
        let mut count = 0;
        let mut add = |part, place: Place| {
            let is_wanted = place.len > 0 && count < parts.len();
            if is_wanted {
                (parts[count], places[count]) = (part, place);
                count += 1;
            }
        };
        let stream = |add: &mut dyn FnMut(Part, Place)| {
            let Some(place) = self.stream else { return };
            add(Part::Stream, Place::of(ring.from(place)));
        };
        let small = |add: &mut dyn FnMut(Part, Place)| {
            let (front, back) = self.small.as_slices();
            add(Part::Small, Place::of(front));
            add(Part::Small, Place::of(back));
        };
        let begun = self.serves.front().filter(|serve| serve.is_begun());
        let mut first = 0;
        if self.is_inside_stream {
            stream(&mut add);
            small(&mut add);
        } else if let Some(serve) = begun {
            // The frame that was begun is ended first.
            serve.pieces(|place| add(Part::Serve(0), place));
            if !serve.ends_with_frame() {
                return (count, false);
            }
            first = 1;
            bulk = bulk.saturating_sub(serve.left());
            small(&mut add);
            stream(&mut add);
        } else {
            small(&mut add);
            stream(&mut add);
        }
        if self.serves.is_empty() {
            return (count, false);
        }
        for (at, serve) in self.serves.iter().enumerate().skip(first) {
            if bulk == 0 {
                return (count, true);
            }
            bulk = bulk.saturating_sub(serve.left());
            serve.pieces(|place| add(Part::Serve(at), place));
            if !serve.ends_with_frame() {
                return (count, bulk == 0);
            }
        }
        (count, false)
    }

    /// Notes what the socket has taken. Says how much of it was chunks.
    fn account(&mut self, ring: &Ring, parts: &[Part], places: &[Place], mut sent: usize) -> usize {
        let (mut bulk, mut ended) = (0, 0);
        let mut small = 0;
        for (part, place) in parts.iter().zip(places) {
            let taken = place.len.min(sent);
            sent -= taken;
            match part {
                Part::Small => small += taken,
                Part::Stream => self.note_stream(ring, taken),
                Part::Serve(at) => {
                    ended += usize::from(taken > 0 && self.serves[*at].take(taken));
                    bulk += taken;
                }
            }
        }
        if small > 0 {
            self.small.drain(..small);
            if self.small.is_empty() && self.small.capacity() > KEPT_BYTES_MAX {
                self.small = VecDeque::new();
            }
        }
        if ended > 0 {
            // They end in their order.
            self.serves.drain(..ended);
        }
        bulk
    }
}

/// Of pieces in order, how many are this process's own before all others, or else of the
/// first chunk.
fn first_alone(parts: &[Part]) -> usize {
    let of_chunk = |part: Part| matches!(part, Part::Serve(_)).then_some(part);
    let first = of_chunk(parts[0]);
    parts.iter().take_while(|&&part| of_chunk(part) == first).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::handshake::Cipher;
    use sluice_wire::frame::{FRAME_HEAD_BYTES, FrameHead, FrameKind};
    use sluice_wire::{Addr, Region};
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;

    const CHUNK_BYTES: usize = 100_000;

    fn region(bytes: &[u8]) -> Region {
        Region { addr: Addr(bytes.as_ptr().expose_provenance() as u64), len: bytes.len() as u64 }
    }

    /// Reads what came, frame by frame: kind, id, body.
    fn frames(mut bytes: &[u8]) -> Vec<(FrameKind, u32, Vec<u8>)> {
        let mut frames = Vec::new();
        while let Some((head, rest)) = bytes.split_first_chunk::<FRAME_HEAD_BYTES>() {
            let head = FrameHead::parse(head).unwrap();
            let (body, rest) = rest.split_at(head.len as usize);
            frames.push((head.kind, head.id, body.to_vec()));
            bytes = rest;
        }
        assert!(bytes.is_empty(), "whole frames");
        frames
    }

    /// A lane that ends when all is given must not count what waits in sealed records.
    #[test]
    fn what_is_sealed_and_not_taken_is_not_given() {
        let (mut ours, mut theirs) = UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        theirs.set_nonblocking(true).unwrap();
        while ours.write(&[0; 4096]).is_ok() {}
        let mut lane = Lane::Tcp(ours.into());
        let (mut out, mut ring) = (Outbound::default(), Ring::default());
        out.seal(crate::net::sealed::both(Cipher::example(), &[]).0);
        out.begin_stream(0);
        let frame = FrameHead { kind: FrameKind::Probe, len: 0, id: 0, acknowledged: 0 }.emit();
        ring.push([&frame]);
        out.push(&[&frame]);
        assert_eq!(out.flush(&mut lane, &ring, 0).unwrap(), Flushed::Blocked);
        assert_eq!((out.held(&ring), out.small_bytes()), (0, 0));
        assert!(!out.is_given());
        while theirs.read(&mut [0; 4096]).is_ok() {}
        assert_eq!(out.flush(&mut lane, &ring, 0).unwrap(), Flushed::All);
        assert!(out.is_given());
    }

    /// Chunks that go in several frames, small frames and packets between, and a socket that
    /// takes a little at a time.
    #[test]
    fn frames_do_not_get_mixed_up_whatever_the_socket_takes() {
        let chunks: Vec<Vec<u8>> = (0..5u8).map(|at| vec![at; CHUNK_BYTES]).collect();
        for (step, bulk) in [(700, 20_000), (10_000, 20_000), (50_000, 30_000), (3_000, 1 << 20)] {
            let (ours, mut theirs) = UnixStream::pair().unwrap();
            ours.set_nonblocking(true).unwrap();
            theirs.set_nonblocking(true).unwrap();
            let mut lane = Lane::Tcp(ours.into());
            let (mut out, mut ring) = (Outbound::default(), Ring::default());
            out.begin_stream(0);
            for (id, chunk) in (0..).zip(&chunks) {
                out.serve(Serve::new(id, 0, region(chunk), RemoteKey::from_bits(1)));
            }
            let (mut got, mut said) = (Vec::new(), 0);
            let mut buffer = vec![0; step];
            loop {
                let frame = |kind, id| FrameHead { kind, len: 0, id, acknowledged: 0 }.emit();
                if said < 100 {
                    out.push(&[&frame(FrameKind::Probe, said)]);
                    ring.push([&frame(FrameKind::Fault, said)]);
                    said += 1;
                }
                let flushed = out.flush(&mut lane, &ring, bulk).unwrap();
                match theirs.read(&mut buffer) {
                    Ok(count) => got.extend(&buffer[..count]),
                    Err(_) if flushed == Flushed::All && said == 100 => break,
                    Err(_) => {}
                }
            }
            let of_kind = |kind| {
                let of_kind = frames(&got).into_iter().filter(move |frame| frame.0 == kind);
                of_kind.map(|(_, id, _)| id).collect::<Vec<_>>()
            };
            assert_eq!(of_kind(FrameKind::Probe), (0..100).collect::<Vec<_>>());
            assert_eq!(of_kind(FrameKind::Fault), (0..100).collect::<Vec<_>>());
            for (id, chunk) in (0..).zip(&chunks) {
                let data = frames(&got).into_iter();
                let data = data.filter(|frame| frame.0 == FrameKind::Data && frame.1 == id);
                let body: Vec<u8> = data.flat_map(|frame| frame.2).collect();
                assert!(body == *chunk, "chunk {id} in steps of {step}");
            }
        }
    }
}
