//! What a process does with remote memory: it exposes regions and hides them, and writes, reads
//! and combines with those of others, and its own.

use super::super::judge::{GUARD_BYTES, UNTOUCHED, content, reuse};
use super::super::program::Program;
use super::super::trace::What;
use super::books::{Op, Piece, State};
use super::regions::Exposure;
use super::setup::RemoteSetup;
use super::{Begun, Note};
use crate::published::MovedAtOnce;
use crate::rails::Kind;
use sluice_proto::{Access, Deed, Exposed, Part, Refused, Rma, is_defined};
use sluice_wire::{AtomicOp, Datatype, ITEM_BYTES_MAX, PeerId, Region};

/// How often bytes are looked for that nobody uses.
const TRIES: u64 = 4;
/// Most bytes of values at once.
const COMBINED_BYTES_MAX: u64 = 960;
/// The longest part of a write that is never fetched.
const SHORT_BYTES_MAX: u64 = 960;
/// A key of no region.
const NO_KEY: u64 = 1 << 60;
/// Keys of a process: few, so that a new region has the key of one that was hidden.
const KEYS: u64 = 8;

const INTEGERS: [Datatype; 8] = [
    Datatype::Int8,
    Datatype::Uint8,
    Datatype::Int16,
    Datatype::Uint16,
    Datatype::Int32,
    Datatype::Uint32,
    Datatype::Int64,
    Datatype::Uint64,
];

/// Which bytes an operation aims at.
#[derive(Clone, Copy, Debug)]
struct Aim {
    key: u64,
    offset: u64,
    len: u64,
}

impl Program<'_> {
    /// Everybody exposes regions before anything else happens.
    pub(in super::super) fn expose_first(&mut self) {
        for who in self.alive() {
            for _ in 0..self.draw_regions.between(1, 3) {
                std::mem::swap(&mut self.draw, &mut self.draw_regions);
                self.expose_one(who);
                std::mem::swap(&mut self.draw, &mut self.draw_regions);
            }
        }
    }

    /// A process does something with remote memory.
    pub(in super::super) fn reach(&mut self, who: usize, setup: &RemoteSetup) {
        match self.draw.below(100) {
            0..6 => self.expose_one(who),
            6..11 => self.hide_one(who),
            11 => self.combine_too_much(who),
            _ => self.access(who, setup),
        }
    }

    fn expose_one(&mut self, who: usize) {
        let Some(setup) = self.setup.remote else { return };
        let key = self.draw.below(KEYS);
        let remote = &self.judge.remote;
        let mut shown = remote.regions.iter().filter(|one| one.owner == who && !one.is_hidden);
        if shown.any(|one| one.key == key) || remote.is_named(who, key) {
            return;
        }
        let len = match self.draw.percent(setup.long_percent) {
            true => RemoteSetup::LONG_BYTES + self.draw.below(1_000),
            false => self.draw.pick(&[8, 16, 40, 100, 100, 300]),
        };
        let access = match self.draw.below(10) {
            0 => Access { read: true, write: false },
            1 => Access { read: false, write: true },
            _ => Access { read: true, write: true },
        };
        let is_split = self.draw.percent(25);
        let first = if is_split { 1 + self.draw.below(len - 1) } else { len };
        let lens = if is_split { vec![first, len - first] } else { vec![len] };
        let bytes: Vec<u8> = content(self.context(), len).collect();
        let pieces = Exposure::alloc(&mut self.world, who, &bytes, &lens);
        let addressed = !is_split && self.draw.percent(30);
        let told = self.draw.percent(30).then(|| self.context());
        let exposed = Exposed { key, pieces: &pieces, access, addressed, told };
        let count = self.shown_by(who);
        let outcome = self.world.call(who, |endpoint, _, port| endpoint.expose(port, &exposed));
        self.world.note(who, What::Remote(Note::Exposes(key, len, outcome.is_ok())));
        match outcome {
            Ok(id) => {
                assert!(count < setup.regions_max, "{who} exposes more regions than it may");
                let mut region = Exposure::new(who, id, key, access, bytes);
                (region.pieces, region.addressed, region.told) = (pieces, addressed, told);
                self.judge.remote.regions.push(region);
            }
            Err(refused) => {
                assert_eq!((refused, count), (Refused::Again, setup.regions_max), "a region");
                self.world.befall(Kind::RegionsFull);
            }
        }
    }

    /// Regions that a process exposes now.
    fn shown_by(&self, who: usize) -> u32 {
        let shown = |one: &&Exposure| one.owner == who && !one.is_hidden;
        self.judge.remote.regions.iter().filter(shown).count() as u32
    }

    fn hide_one(&mut self, who: usize) {
        let shown = self.judge.remote.regions.iter().enumerate();
        let shown = shown.filter(|(_, one)| one.owner == who && !one.is_hidden);
        let shown: Vec<usize> = shown.map(|(at, _)| at).collect();
        if shown.is_empty() {
            return;
        }
        let at = self.draw.pick(&shown);
        let region = &mut self.judge.remote.regions[at];
        region.is_hidden = true;
        let (id, key) = (region.id, region.key);
        self.world.note(who, What::Remote(Note::Hides(key)));
        self.world.call(who, |endpoint, _, port| endpoint.hide(port, id));
    }

    /// A process begins an operation on a region, if there is one whose bytes may be used so.
    fn access(&mut self, who: usize, setup: &RemoteSetup) {
        if self.judge.remote.regions.is_empty() {
            return;
        }
        let deed = self.deed();
        let at = self.draw.below(self.judge.remote.regions.len() as u64) as usize;
        let peer = self.judge.remote.regions[at].owner;
        let count = if self.draw.percent(20) { self.draw.between(2, 4) } else { 1 };
        let data = deed == Deed::Write && self.draw.percent(20);
        let mut op = Op {
            who,
            peer,
            deed,
            parts: Vec::new(),
            data: None,
            report: self.draw.percent(80),
            inject: deed != Deed::Read && self.draw.percent(25),
            short_bytes_max: match deed {
                Deed::Read => {
                    RemoteSetup::reply_bytes_max(&self.setup.layouts[who]).min(SHORT_BYTES_MAX)
                }
                _ => SHORT_BYTES_MAX,
            },
            at_once: 0,
            is_done: false,
            is_lost: false,
        };
        for nth in 0..count {
            let at = self.region_of(&op, at);
            let tries = (0..TRIES).find_map(|_| self.aim(at, &op, setup));
            let Some(aim) = tries else { break };
            op.parts.push(self.piece(&op, aim, nth));
        }
        if op.parts.is_empty() {
            return;
        }
        let context = self.context();
        op.data = data.then_some(context * 5);
        let fence = self.draw.percent(12);
        if op.is_mistakable(&self.judge.remote.ops) {
            return self.forget(&op);
        }
        self.begin(context, op, fence);
    }

    /// Where the next part of an operation goes that began at this region: often there too.
    fn region_of(&mut self, op: &Op, first: usize) -> usize {
        if op.parts.is_empty() || self.draw.percent(60) {
            return first;
        }
        let regions = self.judge.remote.regions.iter().enumerate();
        let regions = regions.filter(|(_, one)| one.owner == op.peer && !one.is_hidden);
        let regions: Vec<usize> = regions.map(|(at, _)| at).collect();
        if regions.is_empty() { first } else { self.draw.pick(&regions) }
    }

    fn deed(&mut self) -> Deed {
        let what = self.draw.below(100);
        if what < 35 {
            return Deed::Write;
        } else if what < 60 {
            return Deed::Read;
        }
        let fetches = what < 82;
        let of = self.draw.pick(&INTEGERS);
        let op = self.draw.pick(AtomicOp::ALL);
        assert!(is_defined(op, of), "all operations are those of integers");
        match fetches || op.is_swap() {
            true => Deed::Fetch(op, of),
            false => Deed::Combine(op, of),
        }
    }

    /// Bytes that an operation may use so, or that it may not reach at all. Nothing if others
    /// use them now.
    fn aim(&mut self, at: usize, op: &Op, setup: &RemoteSetup) -> Option<Aim> {
        let is_long = self.draw.percent(60);
        let len = self.len_of(op, setup, is_long);
        let region = &self.judge.remote.regions[at];
        let (key, all, first) = (region.key, region.bytes.len() as u64, region.first());
        let aim = match self.draw.below(100) {
            wrong @ 0..3 => Aim { key: NO_KEY + wrong, offset: first, len },
            3..7 => {
                let beyond = [all, all + 1, u64::MAX, (all + 1).saturating_sub(len)];
                let offset = first.wrapping_add(self.draw.pick(&beyond));
                Aim { key, offset, len }
            }
            _ => {
                let offset = self.offset(op.deed, all.checked_sub(len)?);
                Aim { key, offset: first.wrapping_add(offset), len }
            }
        };
        let own = |part: &Piece| {
            let end = |offset: u64, len| offset.saturating_add(len);
            let (end, aim_end) = (end(part.offset, part.local.len), end(aim.offset, len));
            part.key == key && part.offset < aim_end && aim.offset < end
        };
        // By now its key may be that of another region.
        match self.judge.remote.admit(op, aim.key, aim.offset, len) {
            Ok((at, bytes)) => {
                let is_free = self.judge.remote.regions[at].is_free(&bytes, op.what());
                (is_free && (len == 0 || !op.parts.iter().any(own))).then_some(aim)
            }
            Err(_) => Some(aim),
        }
    }

    /// An offset of at most so many bytes.
    fn offset(&mut self, deed: Deed, most: u64) -> u64 {
        let offset = self.draw.below(most + 1);
        let (Deed::Combine(_, of) | Deed::Fetch(_, of)) = deed else { return offset };
        if self.draw.percent(40) {
            // Where others are likely to be.
            return 0;
        }
        let is_aligned = self.draw.percent(85);
        if is_aligned { offset - offset % of.bytes() as u64 } else { offset }
    }

    /// How many bytes an operation is about.
    fn len_of(&mut self, op: &Op, setup: &RemoteSetup, is_long: bool) -> u64 {
        let room = setup.together_bytes_max;
        match op.deed {
            Deed::Combine(what, of) | Deed::Fetch(what, of) => {
                let width = of.bytes() as u64;
                let back = matches!(op.deed, Deed::Fetch(..)).then_some(setup.back_bytes_max);
                // The operand travels before the value.
                let (room, most) = if what.has_operand() { (room - width, 1) } else { (room, 20) };
                let room = room.min(COMBINED_BYTES_MAX);
                let most = most.min(room.min(back.unwrap_or(room)) / width);
                width * self.draw.between(most.min(1), most)
            }
            Deed::Write | Deed::Read if is_long && setup.long_percent > 0 => {
                RemoteSetup::LONG_BYTES + self.draw.below(900)
            }
            Deed::Write | Deed::Read => match self.draw.below(8) {
                0 => 0,
                1 => 8.min(room),
                2 => room,
                _ => self.draw.between(1, room.min(100)),
            },
        }
    }

    /// A part with its memory here.
    fn piece(&mut self, op: &Op, aim: Aim, nth: u64) -> Piece {
        let Aim { key, offset, len } = aim;
        let mut bytes = Vec::new();
        let mut operand = Vec::new();
        if op.deed != Deed::Read {
            bytes = content(self.draw.bits() ^ nth, len).collect();
        }
        if let Deed::Combine(what, of) | Deed::Fetch(what, of) = op.deed
            && what.has_operand()
        {
            operand = self.operand(aim, op.peer, of);
        }
        let memory = self.world.memory(op.who);
        let mut guarded = |len: u64| {
            let whole = memory.alloc(len + GUARD_BYTES);
            memory.write(whole.addr, &vec![UNTOUCHED; whole.len as usize]);
            whole.truncated(len)
        };
        let result = if matches!(op.deed, Deed::Fetch(..)) { guarded(len) } else { Region::EMPTY };
        let local = if op.deed == Deed::Read { guarded(len) } else { memory.alloc(len) };
        if op.deed != Deed::Read {
            memory.write(local.addr, &bytes);
        }
        let is_long = false;
        let state = State::OnItsWay;
        Piece { local, key, offset, result, operand, bytes, is_long, state }
    }

    /// What a swap on a condition compares with: often what is there.
    fn operand(&mut self, aim: Aim, peer: usize, of: Datatype) -> Vec<u8> {
        let width = of.bytes();
        let there = self
            .judge
            .remote
            .regions
            .iter()
            .find(|one| one.owner == peer && !one.is_hidden && one.key == aim.key);
        let place = there.and_then(|one| Some((one, one.place(aim.offset, width as u64)?)));
        match place.filter(|_| self.draw.percent(60)) {
            Some((one, bytes)) => one.bytes[bytes].to_vec(),
            None => content(self.draw.bits(), width as u64).collect(),
        }
    }

    fn begin(&mut self, context: u64, mut op: Op, fence: bool) {
        let Op { who, peer, deed, data, report, inject, .. } = op;
        let parts: Vec<Part> = op.parts.iter().map(part_of).collect();
        let to = PeerId(peer as u32);
        let rma = Rma { deed, peer: to, parts: &parts, data, context, report, inject, fence };
        let before = self.world.endpoint(who).footprint(Some(to));
        if inject {
            self.world.lends(who, op.len());
        }
        let outcome = self.world.call(who, |endpoint, now, port| endpoint.rma(now, port, &rma));
        op.at_once = self.at_once(&op);
        let Part { key, offset, local, .. } = parts[0];
        let (parts, len) = (parts.len(), local.len);
        let begun = Begun { context, deed, peer, parts, key, offset, len, fence, inject, outcome };
        self.world.note(who, What::Remote(Note::Begins(begun)));
        match outcome {
            Ok(()) => {
                let is_busy = self.judge.remote.is_busy_with(who, peer);
                assert!(!fence || !is_busy, "operation {context} did not wait for earlier ones");
                self.judge.remote.met.remote_fences_begun |= u64::from(fence);
                if inject {
                    op.parts.iter().for_each(|part| reuse(&mut self.world, who, part.local));
                }
                let is_cut = self.world.is_cut(who, peer);
                self.judge.remote.begin(context, op, is_cut);
            }
            Err(refused) => {
                assert_eq!(op.at_once, 0, "operation {context} was refused and has moved bytes");
                let after = self.world.endpoint(who).footprint(Some(to));
                assert!(after == before, "operation {context} was refused and has left a trace");
                self.refused_remote(who, refused, fence);
                if inject {
                    self.world.returned(who, op.len());
                }
                self.forget(&op);
            }
        }
        self.look(who, None);
    }

    /// How many parts of an operation that has just begun were done at once.
    ///
    /// # Panics
    /// Unless they are the first ones, and done as they are to be.
    fn at_once(&mut self, op: &Op) -> usize {
        let moved = self.world.moved_at_once();
        let is_write = op.deed == Deed::Write;
        let first = op.parts.iter().map(|part| MovedAtOnce {
            peer: op.peer,
            key: part.key,
            offset: part.offset,
            len: part.local.len,
            is_write,
        });
        let first: Vec<MovedAtOnce> = first.take(moved.len()).collect();
        assert_eq!(moved, first, "what has moved at once");
        moved.len()
    }

    /// An operation was not taken: for a reason.
    fn refused_remote(&mut self, who: usize, refused: Refused, fence: bool) {
        assert_eq!(refused, Refused::Again, "an operation of {who}");
        let pending = self.world.endpoint(who).pending();
        let is_full = pending.remote >= self.setup.endpoint.requests_max;
        if is_full {
            self.world.befall(Kind::RequestsFull);
        } else {
            assert!(fence, "{who} has room for an operation");
            assert!(pending.remote + pending.sends > 0, "{who} waits for nothing");
            self.judge.remote.met.remote_fences_waited = 1;
        }
    }

    fn forget(&mut self, op: &Op) {
        let memory = self.world.memory(op.who);
        for part in &op.parts {
            let whole = |region: Region| Region { len: region.len + GUARD_BYTES, ..region };
            let is_read = op.deed == Deed::Read;
            memory.release(if is_read { whole(part.local) } else { part.local });
            if matches!(op.deed, Deed::Fetch(..)) {
                memory.release(whole(part.result));
            }
        }
    }

    /// Values that are too long for an operation are refused.
    fn combine_too_much(&mut self, who: usize) {
        let len = COMBINED_BYTES_MAX + 8;
        let local = self.world.memory(who).alloc(len);
        let piece =
            Part { local, key: 0, offset: 0, result: local.addr, operand: [0; ITEM_BYTES_MAX] };
        let deed = Deed::Combine(AtomicOp::Sum, Datatype::Uint64);
        let (peer, parts) = (PeerId(who as u32), &[piece]);
        let (data, context, report, inject, fence) = (None, 0, true, false, false);
        let rma = Rma { deed, peer, parts, data, context, report, inject, fence };
        let outcome = self.world.call(who, |endpoint, now, port| endpoint.rma(now, port, &rma));
        let refused = Err(Refused::TooLong { len, max: COMBINED_BYTES_MAX });
        assert_eq!(outcome, refused, "values of {len} bytes");
        self.world.memory(who).release(local);
    }
}

fn part_of(piece: &Piece) -> Part {
    let mut operand = [0; ITEM_BYTES_MAX];
    operand[..piece.operand.len()].copy_from_slice(&piece.operand);
    let Piece { local, key, offset, result, .. } = piece;
    Part { local: *local, key: *key, offset: *offset, result: result.addr, operand }
}
