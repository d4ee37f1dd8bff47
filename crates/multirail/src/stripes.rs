//! What is read from the memory of one peer, chunk by chunk over its rails.
//!
//! The reader asks for chunks, and each goes to the rail that will finish it first, by
//! the pace that the rails have now. A rail declines a chunk that the others would finish
//! sooner together with all that is left. The last chunks are cut so that all rails end at
//! the same time. So shares follow real speed, and nothing is told about the rails.
//!
//! How much is asked for of a rail goes by its pace too: chunks of about a millisecond, and
//! about as much ahead. While packets come by a rail it is less, as they wait behind the
//! chunks. Where the process looks seldom it is more, so that rails are not idle between two
//! looks ([`Gaps`](crate::Gaps)). What is thought of the pace of a rail does not depend on that.
//!
//! The peer keeps no state of a read: it sends the bytes of a chunk that it is asked for.
//! The reader puts them in their place itself, so a chunk that is given up on one rail and
//! asked for on another is safe: what comes late is of a chunk that is no more, and lands
//! nowhere ([`Landing::Nowhere`]). Bytes that have come of such a chunk are not asked for
//! again.
//!
//! Invariants:
//! - Each byte of a read is in exactly one place: come, under way in one chunk, or left.
//! - A read ends when all its bytes have come, and no chunk of it is left then.
//! - No more chunks are under way than rails times window, whatever a peer sends.

mod rail;

use crate::{Pace, RailId};
use rail::{CHUNK_BYTES_UNMEASURED, Rail};
use sluice_wire::Nanos;
use std::collections::VecDeque;

/// Names a read of whoever asks for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ReadId(pub u64);

/// Names a chunk that was asked for, also to the peer, which sends it back with the bytes.
/// Not used again for the next 16,777,215 chunks at the same place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ChunkId(u32);

const PLACE_BITS: u32 = 8;
/// Most chunks under way.
const CHUNKS_MAX: usize = 1 << PLACE_BITS;

impl ChunkId {
    /// The number that travels.
    #[must_use]
    pub fn bits(self) -> u32 {
        self.0
    }

    /// Back from a number, which may come from anywhere: a wrong one names no chunk.
    #[must_use]
    pub fn from_bits(bits: u32) -> ChunkId {
        ChunkId(bits)
    }

    fn new(place: usize, generation: u32) -> ChunkId {
        ChunkId(generation << PLACE_BITS | place as u32)
    }

    fn place(self) -> usize {
        self.0 as usize & (CHUNKS_MAX - 1)
    }
}

/// How a read is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Striping {
    /// Chunks go to the rail that finishes first.
    Pull {
        /// Most bytes of a chunk, however fast the rail is.
        chunk_bytes_max: u64,
        /// Least bytes of one, but for the last of a read.
        chunk_bytes_min: u64,
        /// Most chunks that are under way on one rail.
        window: u8,
    },
    /// As in the paper: fragments of one length, in turn over all rails, whatever their
    /// speed.
    Fragments {
        /// Bytes of a fragment.
        bytes: u64,
    },
}

impl Default for Striping {
    /// Two to four chunks under way keep every rail busy.
    fn default() -> Striping {
        Striping::Pull { chunk_bytes_max: 1 << 20, chunk_bytes_min: 16 << 10, window: 3 }
    }
}

/// A chunk to be asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ask {
    /// On which rail.
    pub rail: RailId,
    /// What it is called.
    pub chunk: ChunkId,
    /// Of which read it is.
    pub read: ReadId,
    /// Where in the read it begins, in bytes.
    pub offset: u64,
    /// Its bytes.
    pub len: u64,
}

/// Where the next bytes of a chunk go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Landing {
    /// Into a read.
    Into {
        /// Which one.
        read: ReadId,
        /// Where in it, in bytes.
        offset: u64,
        /// How many bytes the chunk still has.
        len: u64,
    },
    /// The chunk is no more, or never was: its bytes are dropped.
    Nowhere,
}

#[derive(Clone, Copy, Debug)]
struct Chunk {
    rail: RailId,
    read: ReadId,
    offset: u64,
    len: u64,
    come: u64,
    asked: Nanos,
    /// Nothing else was under way on its rail.
    was_alone: bool,
}

impl Chunk {
    fn left(&self) -> u64 {
        self.len - self.come
    }
}

#[derive(Clone, Copy, Debug)]
struct Place {
    generation: u32,
    chunk: Option<Chunk>,
}

#[derive(Debug)]
struct Read {
    id: ReadId,
    /// First byte that was never asked for.
    next: u64,
    len: u64,
    come: u64,
    /// What was asked for and given back: offset and length.
    again: Vec<(u64, u64)>,
    /// How often a chunk was late since bytes have come last.
    late: u32,
}

impl Read {
    /// Bytes that are to be asked for.
    fn unasked(&self) -> u64 {
        self.len - self.next + self.again.iter().map(|&(_, len)| len).sum::<u64>()
    }

    /// Takes up to `len` of these bytes, from one place.
    fn take(&mut self, len: u64) -> (u64, u64) {
        if let Some((offset, left)) = self.again.pop() {
            let taken = left.min(len);
            if taken < left {
                self.again.push((offset + taken, left - taken));
            }
            return (offset, taken);
        }
        let taken = len.min(self.len - self.next);
        self.next += taken;
        (self.next - taken, taken)
    }
}

/// The reads from one peer, and the rails that they take.
#[derive(Debug)]
pub struct Stripes {
    striping: Striping,
    rails: Vec<Rail>,
    /// In the order in which they began, and are asked for.
    reads: VecDeque<Read>,
    places: Vec<Place>,
    /// Bytes of all reads that are to be asked for.
    unasked: u64,
    /// The rail of the next fragment, where they go in turn.
    turn: usize,
    /// When the process looked before it looks now; `None` where looks have no gaps.
    looked: Option<Nanos>,
}

impl Stripes {
    /// No rails, no reads.
    #[must_use]
    pub fn new(striping: Striping) -> Stripes {
        Stripes {
            striping,
            rails: Vec::new(),
            reads: VecDeque::new(),
            places: Vec::new(),
            unasked: 0,
            turn: 0,
            looked: None,
        }
    }

    /// Adds a rail, of which its device claims so much. It can be used at once.
    ///
    /// # Panics
    /// If there are [`RailId::COUNT_MAX`] already.
    pub fn add_rail(&mut self, bytes_per_s: u64, latency_ns: u64) -> RailId {
        assert!(self.rails.len() < RailId::COUNT_MAX, "too many rails");
        self.rails.push(Rail::claimed(bytes_per_s, latency_ns));
        RailId(self.rails.len() as u8 - 1)
    }

    /// The pace of a rail, as far as it is known.
    #[must_use]
    pub fn pace(&self, rail: RailId) -> Pace {
        self.rails[rail.index()].pace
    }

    /// A packet has come by a rail: those that follow are not to wait long behind chunks.
    pub fn note_packet(&mut self, rail: RailId, now: Nanos) {
        self.rails[rail.index()].packet = Some(now);
    }

    /// The process looks now, and has not looked since then: what has come in between came in a
    /// gap. Whoever does not tell this has no gaps.
    pub fn note_gap(&mut self, since: Nanos) {
        self.looked = Some(since);
    }

    /// Bytes that were asked for on a rail and have not come.
    #[must_use]
    pub fn under_way(&self, rail: RailId) -> u64 {
        self.rails[rail.index()].bytes
    }

    /// How many of these bytes may come before it matters that somebody looks: all, or three
    /// quarters if there is more to ask for, so that the rail does not run dry before it is.
    #[must_use]
    pub fn may_gather(&self, rail: RailId) -> u64 {
        let under_way = self.under_way(rail);
        if self.unasked > 0 { under_way - under_way / 4 } else { under_way }
    }

    /// Whether a rail takes chunks.
    #[must_use]
    pub fn is_usable(&self, rail: RailId) -> bool {
        self.rails[rail.index()].is_usable
    }

    /// Whether as much is to be read as more than one rail would share.
    #[must_use]
    pub fn is_worth_spreading(&self) -> bool {
        let one = match self.striping {
            // However fast the rail is: two of them are faster.
            Striping::Pull { chunk_bytes_max, .. } => chunk_bytes_max.min(CHUNK_BYTES_UNMEASURED),
            Striping::Fragments { bytes } => bytes,
        };
        let under_way: u64 = self.rails.iter().map(|rail| rail.bytes).sum();
        self.unasked.saturating_add(under_way) > one
    }

    /// Whether there is nothing to read.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.reads.is_empty()
    }

    /// Begins a read of `len` bytes, at least one. [`Stripes::next_ask`] says what to ask.
    ///
    /// # Panics
    /// If it has no bytes, or has begun already.
    pub fn begin(&mut self, id: ReadId, len: u64) {
        assert!(len > 0, "a read of nothing needs no rail");
        assert!(self.reads.iter().all(|read| read.id != id), "{id:?} begins twice");
        self.reads.push_back(Read { id, next: 0, len, come: 0, again: Vec::new(), late: 0 });
        self.unasked = self.unasked.saturating_add(len);
    }

    /// Ends a read now, if it has not ended: what still comes of it is dropped.
    pub fn cancel(&mut self, id: ReadId) {
        let Some(at) = self.reads.iter().position(|read| read.id == id) else { return };
        for place in 0..self.places.len() {
            if self.places[place].chunk.is_some_and(|chunk| chunk.read == id) {
                let rail = self.end_chunk(place).rail;
                self.rails[rail.index()].drop_sample();
            }
        }
        let read = self.reads.remove(at).expect("it is there");
        self.unasked -= read.unasked();
    }

    /// The next chunk to ask for; `None` if no rail should have one now. To be called
    /// after every change until it says so.
    pub fn next_ask(&mut self, now: Nanos) -> Option<Ask> {
        if self.unasked == 0 {
            return None;
        }
        self.rails.iter_mut().for_each(|rail| rail.forget_if_idle(now));
        let (rail, len) = match self.striping {
            Striping::Pull { chunk_bytes_max, chunk_bytes_min, window } => {
                self.choose(now, chunk_bytes_max, chunk_bytes_min, window)?
            }
            Striping::Fragments { bytes } => (self.next_in_turn()?, bytes),
        };
        let place = self.free_place()?;
        let read = self.reads.iter_mut().find(|read| read.unasked() > 0)?;
        let (offset, len) = read.take(len.max(1));
        let read = read.id;
        self.unasked -= len;
        let Rail { pace, chunks, bytes, silent_since, used, dry, .. } =
            &mut self.rails[rail.index()];
        *used = now;
        let was_alone = *chunks == 0;
        if was_alone {
            // Time in which it was asked for nothing is not its own.
            if let Some(since) = dry.take().filter(|&since| since != now) {
                pace.rest(since);
            }
            pace.begin(now);
        }
        silent_since.get_or_insert(now);
        *chunks += 1;
        *bytes += len;
        let chunk = Chunk { rail, read, offset, len, come: 0, asked: now, was_alone };
        self.places[place].chunk = Some(chunk);
        let chunk = ChunkId::new(place, self.places[place].generation);
        Some(Ask { rail, chunk, read, offset, len })
    }

    /// Where the next bytes of a chunk go that come on `rail`.
    #[must_use]
    pub fn landing(&self, rail: RailId, chunk: ChunkId) -> Landing {
        match self.chunk(rail, chunk) {
            Some(chunk) => Landing::Into {
                read: chunk.read,
                offset: chunk.offset + chunk.come,
                len: chunk.left(),
            },
            None => Landing::Nowhere,
        }
    }

    /// `bytes` of a chunk have come on `rail` and are where [`Stripes::landing`] said; they
    /// are no more than it has left. Says which read has ended by that.
    ///
    /// # Panics
    /// If they are more.
    pub fn arrived(
        &mut self,
        now: Nanos,
        rail: RailId,
        chunk: ChunkId,
        bytes: u64,
    ) -> Option<ReadId> {
        let Some(of) = self.chunk(rail, chunk) else {
            self.rails[rail.index()].speak(now);
            return None;
        };
        assert!(bytes <= of.left(), "no more than was asked for");
        let place = chunk.place();
        let asked = (of.come == 0 && of.was_alone).then_some(of.asked);
        let before = self.looked.unwrap_or(now);
        self.rails[rail.index()].note(now, before, asked, bytes);
        let chunk = self.places[place].chunk.as_mut().expect("it was found");
        chunk.come += bytes;
        let (id, is_whole) = (chunk.read, chunk.left() == 0);
        if is_whole {
            self.end_chunk(place);
            let is_more = self.unasked > 0;
            self.rails[rail.index()].end(now, is_more);
        }
        let at = self.reads.iter().position(|read| read.id == id).expect("chunks are of reads");
        let read = &mut self.reads[at];
        read.come += bytes;
        read.late = 0;
        if read.come < read.len {
            return None;
        }
        assert!(read.unasked() == 0, "all bytes came once");
        self.reads.remove(at);
        Some(id)
    }

    /// The peer does not let this process read what a chunk is of: its read ends. Says
    /// which one that is; none if the chunk is no more.
    pub fn fail(&mut self, rail: RailId, chunk: ChunkId) -> Option<ReadId> {
        let read = self.chunk(rail, chunk)?.read;
        self.cancel(read);
        Some(read)
    }

    /// Whether a rail takes chunks from now on. What one that does not was asked for is
    /// asked for elsewhere.
    pub fn set_usable(&mut self, rail: RailId, is_usable: bool) {
        self.rails[rail.index()].is_usable = is_usable;
        self.rails[rail.index()].silent_since = None;
        if is_usable {
            return;
        }
        for place in 0..self.places.len() {
            if self.places[place].chunk.is_some_and(|chunk| chunk.rail == rail) {
                self.give_back(place);
            }
        }
        let rail = &mut self.rails[rail.index()];
        assert_eq!((rail.chunks, rail.bytes), (0, 0), "nothing is left there");
        // What it will be when it returns, nobody knows.
        rail.forget();
    }

    /// Whether [`Stripes::look`] could find a chunk to be late: all is asked for, and a rail
    /// has nothing to do.
    #[must_use]
    pub fn may_be_late(&self) -> bool {
        let is_idle = |rail: &Rail| rail.is_usable && rail.chunks == 0;
        self.unasked == 0
            && matches!(self.striping, Striping::Pull { .. })
            && self.rails.iter().any(is_idle)
            && self.rails.iter().any(|rail| rail.chunks > 0)
    }

    /// Takes chunks from rails that bring them far later than a rail that has nothing
    /// to do would, so that the end of a read does not wait for the slowest. To be called
    /// now and then while [`Stripes::next_ask`] has nothing to ask.
    ///
    /// Rails may all be slower than they are thought to be, and what was given up still
    /// keeps them busy. So each time that brings nothing the next wait is twice as long.
    pub fn look(&mut self, now: Nanos) {
        if !self.may_be_late() {
            return;
        }
        let idle = self.rails.iter().filter(|rail| rail.is_usable && rail.chunks == 0);
        let Some(best) = idle.min_by_key(|rail| rail.pace.ns_for(1 << 20)) else { return };
        let best = *best;
        for place in 0..self.places.len() {
            let Some(chunk) = self.places[place].chunk else { continue };
            let rail = &self.rails[chunk.rail.index()];
            let there_ns = rail.pace.ns_for(chunk.left()).max(rail.silent_ns(now));
            let here_ns = best.pace.ns_for(chunk.left()).saturating_add(best.latency_ns);
            let read = self.reads.iter_mut().find(|read| read.id == chunk.read);
            let read = read.expect("chunks are of reads");
            if there_ns >> (1 + read.late).min(63) > here_ns {
                read.late += 1;
                self.give_back(place);
                return;
            }
        }
    }

    /// Panics unless each byte is in one place, and each count is what it counts.
    pub fn check_invariants(&self) {
        for read in &self.reads {
            let under_way = self.chunks().filter(|chunk| chunk.read == read.id);
            let under_way: u64 = under_way.map(|chunk| chunk.left()).sum();
            let all = read.come + under_way + read.unasked();
            assert_eq!(all, read.len, "each byte of {:?} is in one place", read.id);
            assert!(read.come < read.len, "{:?} has not ended", read.id);
        }
        let unasked: u64 = self.reads.iter().map(Read::unasked).sum();
        assert_eq!(unasked, self.unasked, "what is to be asked for");
        for (rail, at) in self.rails.iter().zip(0..) {
            let mine = || self.chunks().filter(|chunk| chunk.rail == RailId(at));
            assert_eq!(mine().count(), usize::from(rail.chunks), "chunks of rail {at}");
            assert_eq!(mine().map(|chunk| chunk.left()).sum::<u64>(), rail.bytes);
            assert!(rail.is_usable || rail.chunks == 0, "nothing on a rail that is not used");
        }
        let is_known = |chunk: Chunk| self.reads.iter().any(|read| read.id == chunk.read);
        assert!(self.chunks().all(is_known), "chunks are of reads");
    }

    fn chunks(&self) -> impl Iterator<Item = Chunk> {
        self.places.iter().filter_map(|place| place.chunk)
    }

    fn chunk(&self, rail: RailId, id: ChunkId) -> Option<Chunk> {
        let place = self.places.get(id.place())?;
        let chunk = place.chunk.filter(|chunk| chunk.rail == rail)?;
        (ChunkId::new(id.place(), place.generation) == id).then_some(chunk)
    }

    /// The rail that finishes a chunk first, and how long that is to be.
    fn choose(&self, now: Nanos, max: u64, min: u64, window: u8) -> Option<(RailId, u64)> {
        let usable = || self.rails.iter().filter(|rail| rail.is_usable);
        let rates: u64 = usable().map(|rail| rail.pace.bytes_per_s()).sum();
        let bytes: u64 = usable().map(|rail| rail.bytes).sum::<u64>() + self.unasked;
        // When all is done if every rail does its part, from now.
        let all_ns = ns_for(bytes, rates);
        let chunk_of = |rail: &Rail| {
            let max = rail.chunk_bytes_max(now, max, min);
            let share = rail.pace.bytes_in(all_ns).saturating_sub(rail.bytes);
            let len = share.clamp(min, max);
            // No rest that is shorter than the least chunk.
            if self.unasked < len.saturating_add(min) { self.unasked.min(max) } else { len }
        };
        let finish_ns = |rail: &Rail, len: u64| {
            let bytes_ns = rail.pace.ns_for(rail.bytes.saturating_add(len));
            bytes_ns.saturating_add(rail.latency_ns).saturating_add(rail.silent_ns(now))
        };
        let may_have = |rail: &Rail| {
            rail.is_usable && rail.chunks < u16::from(window) && rail.has_room(now, min)
        };
        let (at, rail) = self
            .rails
            .iter()
            .enumerate()
            .filter(|(_, rail)| may_have(rail))
            .min_by_key(|(_, rail)| finish_ns(rail, chunk_of(rail)))?;
        let len = chunk_of(rail);
        // It declines if a rail that has its fill would finish the chunk sooner after all,
        // and the others would by then have done all that is left. Where nothing is under
        // way nobody declines.
        let full = usable().filter(|other| !may_have(other));
        let others_ns = full.map(|other| finish_ns(other, len)).min().unwrap_or(u64::MAX);
        let bytes_ns = ns_for(bytes - rail.bytes, rates - rail.pace.bytes_per_s());
        if others_ns.max(bytes_ns) < finish_ns(rail, len) {
            return None;
        }
        Some((RailId(at as u8), len))
    }

    fn next_in_turn(&mut self) -> Option<RailId> {
        let count = self.rails.len();
        let at =
            (0..count).map(|i| (self.turn + i) % count).find(|&at| self.rails[at].is_usable)?;
        self.turn = (at + 1) % count;
        Some(RailId(at as u8))
    }

    fn free_place(&mut self) -> Option<usize> {
        let free = self.places.iter().position(|place| place.chunk.is_none());
        free.or_else(|| {
            (self.places.len() < CHUNKS_MAX).then(|| {
                self.places.push(Place { generation: 1, chunk: None });
                self.places.len() - 1
            })
        })
    }

    /// A chunk is no more. Its place has another name from now on.
    fn end_chunk(&mut self, place: usize) -> Chunk {
        let chunk = self.places[place].chunk.take().expect("a chunk ends once");
        let next = (self.places[place].generation + 1) & (u32::MAX >> PLACE_BITS);
        self.places[place].generation = next.max(1);
        let rail = &mut self.rails[chunk.rail.index()];
        rail.chunks -= 1;
        rail.bytes -= chunk.left();
        chunk
    }

    /// What has not come of a chunk is to be asked for again.
    fn give_back(&mut self, place: usize) {
        let chunk = self.end_chunk(place);
        self.rails[chunk.rail.index()].drop_sample();
        let read = self.reads.iter_mut().find(|read| read.id == chunk.read);
        let read = read.expect("chunks are of reads");
        if chunk.left() > 0 {
            read.again.push((chunk.offset + chunk.come, chunk.left()));
            self.unasked += chunk.left();
        }
    }
}

/// Time in nanoseconds for so many bytes at a rate in bytes per second.
fn ns_for(bytes: u64, bytes_per_s: u64) -> u64 {
    let ns = u128::from(bytes) * 1_000_000_000 / u128::from(bytes_per_s.max(1));
    u64::try_from(ns).unwrap_or(u64::MAX)
}
