//! Operations on remote memory that are under way.
//!
//! What becomes of each part is decided at the moment at which the target reads its packet, and
//! by then it is known what the region holds: it is known of each packet which part it is
//! ([`Way`]), and each is carried out in one step, or begins then to be. So operations on values
//! may meet in any order, and what each must give back is exact.

use super::coverage::RemoteCoverage;
use super::regions::{Exposure, Use};
use super::ways::{Looks, Way};
use crate::portals::combined;
use sluice_proto::{Deed, Failure, Kind};
use sluice_wire::{Addr, Packet, Parsed, PeerId, Region, RemoteKey};
use std::collections::BTreeMap;
use std::ops::Range;

/// The portal table entries of remote memory begin here; those before are for messages.
const PT_REMOTE: u8 = 3;

/// What has become of a part at its target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Its packet has not been read.
    OnItsWay,
    Refused(Failure),
    /// Bytes of a region, by its number, and what was there before.
    Taken {
        region: usize,
        bytes: Range<usize>,
        before: Vec<u8>,
    },
}

/// A part of an operation.
#[derive(Clone, Debug)]
pub(super) struct Piece {
    pub local: Region,
    pub key: u64,
    pub offset: u64,
    /// Where values from before go.
    pub result: Region,
    pub operand: Vec<u8>,
    /// What is written or combined.
    pub bytes: Vec<u8>,
    /// Its bytes do not come with its header.
    pub is_long: bool,
    pub state: State,
}

/// An operation.
#[derive(Clone, Debug)]
pub(super) struct Op {
    pub who: usize,
    pub peer: usize,
    pub deed: Deed,
    pub parts: Vec<Piece>,
    pub data: Option<u64>,
    pub report: bool,
    pub inject: bool,
    /// So many parts, the first ones, were done at once, in memory that the target has published.
    pub at_once: usize,
    /// The longest part whose bytes always come in one packet.
    pub short_bytes_max: u64,
    /// It has ended.
    pub is_done: bool,
    /// It ended because its target was lost: its bytes may still move, until all is at rest.
    pub is_lost: bool,
}

impl Op {
    pub fn len(&self) -> u64 {
        self.parts.iter().map(|part| part.local.len).sum()
    }

    pub fn what(&self) -> Use {
        match self.deed {
            Deed::Write => Use::Written,
            Deed::Read => Use::Read,
            Deed::Combine(..) | Deed::Fetch(..) => Use::Combined,
        }
    }

    pub fn kind(&self) -> Kind {
        match self.deed {
            Deed::Write => Kind::Write,
            Deed::Read => Kind::Read,
            Deed::Combine(..) => Kind::Combine,
            Deed::Fetch(..) => Kind::Fetch,
        }
    }
}

/// Something that a target is to be told.
#[derive(Debug)]
pub(super) struct Due {
    pub of: u64,
    pub who: usize,
    pub from: usize,
    pub kind: Kind,
    pub region: usize,
    pub bytes: Range<usize>,
    pub start: Addr,
    pub context: u64,
    pub data: Option<u64>,
}

/// See the module.
#[derive(Debug, Default)]
pub struct Remote {
    pub(super) regions: Vec<Exposure>,
    pub(super) ops: BTreeMap<u64, Op>,
    /// By origin and target.
    pub(super) ways: BTreeMap<(usize, usize), Way>,
    pub(super) dues: Vec<Due>,
    pub met: RemoteCoverage,
}

impl Remote {
    /// An operation has begun. None of its packets comes if the pair `is_cut`.
    pub(super) fn begin(&mut self, context: u64, op: Op, is_cut: bool) {
        self.met.remote_parts |= u64::from(op.parts.len() > 1);
        self.use_regions(context, &op);
        self.ops.insert(context, op);
        self.move_at_once(context);
        let op = &self.ops[&context];
        let has_moved = op.at_once > 0 && op.at_once == op.parts.len();
        if !is_cut && !has_moved {
            self.met.remote_held |= u64::from(op.is_held());
            self.ways.entry((op.who, op.peer)).or_default().begin(context, op);
        }
    }

    /// The parts that have moved without a packet are done, and nobody is told.
    ///
    /// # Panics
    /// If they may not move so.
    fn move_at_once(&mut self, context: u64) {
        for nth in 0..self.ops[&context].at_once {
            let op = &self.ops[&context];
            let Piece { key, offset, local, .. } = op.parts[nth];
            let (region, bytes) = self
                .admit(op, key, offset, local.len)
                .unwrap_or_else(|why| panic!("part {nth} of {context} has moved at once: {why}"));
            let shown = &self.regions[region];
            assert!(op.data.is_none() && shown.told.is_none(), "{context}: who is told of it?");
            assert_eq!(shown.pieces.len(), 1, "what lies in pieces is not published");
            self.met.remote_at_once_beside_packets |= u64::from(shown.is_used_beside(context));
            let state = self.take(context, nth, region, bytes);
            self.ops.get_mut(&context).expect("looked up above").parts[nth].state = state;
        }
        let op = &self.ops[&context];
        let is_some = u64::from(op.at_once > 0);
        match op.deed {
            Deed::Write => self.met.remote_written_at_once |= is_some,
            Deed::Read => self.met.remote_read_at_once |= is_some,
            _ => assert_eq!(op.at_once, 0, "values are combined by their owner"),
        }
        self.met.remote_partly_at_once |= u64::from(op.at_once > 0 && op.at_once < op.parts.len());
    }

    /// The bytes that an operation will be allowed to reach, as far as it is known, are its own.
    fn use_regions(&mut self, context: u64, op: &Op) {
        for part in &op.parts {
            let (offset, len) = (part.offset, part.local.len);
            if let Ok((region, bytes)) = self.admit(op, part.key, offset, len) {
                let overlaps = self.regions[region].is_in_use(&bytes);
                self.met.remote_overlaps |= u64::from(overlaps && op.what() == Use::Combined);
                self.regions[region].begin(context, bytes, op.what());
            }
        }
    }

    /// What part of which region an operation reaches now, or why it does not.
    pub(super) fn admit(
        &self,
        op: &Op,
        key: u64,
        offset: u64,
        len: u64,
    ) -> Result<(usize, Range<usize>), Failure> {
        let peer = PeerId(op.peer as u32);
        let shown = self.regions.iter().enumerate();
        let mut shown = shown.filter(|(_, region)| !region.is_hidden && region.owner == op.peer);
        let found = shown.find_map(|(at, region)| {
            let bytes = region.place(offset, len)?;
            (region.key == key).then_some((at, bytes))
        });
        let (at, bytes) = found.ok_or(Failure::NoRegion { peer })?;
        let access = self.regions[at].access;
        let may = match op.deed {
            Deed::Write | Deed::Combine(..) => access.write,
            Deed::Read => access.read,
            Deed::Fetch(..) => access.read && access.write,
        };
        if may { Ok((at, bytes)) } else { Err(Failure::NoRight { peer }) }
    }

    /// Whether an operation under way names this region of a process.
    pub(super) fn is_named(&self, owner: usize, key: u64) -> bool {
        let mut under_way = self.ops.values().filter(|op| !op.is_done || op.is_lost);
        under_way.any(|op| op.peer == owner && op.parts.iter().any(|part| part.key == key))
    }

    /// Whether a process has begun something on this peer that has not ended.
    pub(super) fn is_busy_with(&self, who: usize, peer: usize) -> bool {
        self.ops.values().any(|op| op.who == who && op.peer == peer && !op.is_done)
    }

    /// A process has read a packet. What it does with remote memory is done.
    pub(in super::super) fn read(&mut self, from: usize, to: usize, packet: &Parsed) {
        let (pt_index, is_long) = match packet.packet {
            Packet::Put(put) => (put.pt_index, put.bulk.is_some()),
            Packet::Get(get) => (get.pt_index, get.into != RemoteKey::NONE),
            Packet::Atomic(atomic) => (atomic.pt_index, false),
            _ => return,
        };
        let looks = Looks::of(&packet.packet, u64::from(packet.payload_len));
        let Some(looks) = looks.filter(|_| pt_index.0 >= PT_REMOTE) else { return };
        let way = self.ways.get_mut(&(from, to)).expect("what arrives was begun");
        let (context, nth) = way.take(&self.ops, &looks);
        let by_control = is_by_control(&packet.packet);
        self.met.remote_by_control |= u64::from(by_control);
        self.ops.get_mut(&context).expect("looked up above").parts[nth].is_long = is_long;
        let op = &self.ops[&context];
        let part = &op.parts[nth];
        let state = match self.admit(op, part.key, part.offset, looks.len) {
            Ok((region, bytes)) => {
                let state = self.take(context, nth, region, bytes);
                self.note_taken(context, nth);
                state
            }
            Err(why) => self.refuse(context, why),
        };
        self.ops.get_mut(&context).expect("looked up above").parts[nth].state = state;
    }

    fn refuse(&mut self, context: u64, why: Failure) -> State {
        let named = self.regions.iter().any(|region| region.is_reached_by(context));
        self.met.remote_hidden_meanwhile |= u64::from(named);
        match why {
            Failure::NoRegion { .. } => self.met.remote_no_region = 1,
            _ => self.met.remote_no_right = 1,
        }
        State::Refused(why)
    }

    /// A region takes a part: from now on it holds what it will when that has ended.
    pub(super) fn take(
        &mut self,
        context: u64,
        nth: usize,
        region: usize,
        bytes: Range<usize>,
    ) -> State {
        let op = &self.ops[&context];
        let part = &op.parts[nth];
        let shown = &mut self.regions[region];
        let before = shown.bytes[bytes.clone()].to_vec();
        let target = &mut shown.bytes[bytes.clone()];
        match op.deed {
            Deed::Write => target.copy_from_slice(&part.bytes),
            Deed::Read => {}
            Deed::Combine(what, of) | Deed::Fetch(what, of) => {
                let width = of.bytes();
                for (item, value) in target.chunks_mut(width).zip(part.bytes.chunks(width)) {
                    let new = combined(what, of, item, value, &part.operand);
                    item.copy_from_slice(&new);
                }
            }
        }
        self.met.remote_pieces |= u64::from(shown.pieces.len() > 1);
        self.note_due(context, nth, region, &bytes);
        State::Taken { region, bytes, before }
    }

    /// A part has come by a packet.
    fn note_taken(&mut self, context: u64, nth: usize) {
        let op = &self.ops[&context];
        match op.deed {
            Deed::Write => self.met.remote_puts = 1,
            Deed::Read => self.met.remote_gets = 1,
            Deed::Combine(..) => self.met.remote_atomics = 1,
            Deed::Fetch(..) => self.met.remote_fetches = 1,
        }
        let is_long = u64::from(op.parts[nth].is_long);
        match op.deed {
            Deed::Write => self.met.remote_puts_fetched |= is_long,
            _ => self.met.remote_gets_long |= is_long,
        }
    }

    /// The target is told of an operation once: with its last part; and at each other region
    /// that it reaches, with the last part there.
    fn note_due(&mut self, context: u64, nth: usize, region: usize, bytes: &Range<usize>) {
        let (op, shown) = (&self.ops[&context], &self.regions[region]);
        let is_last = nth + 1 == op.parts.len();
        let data = op.data.filter(|_| is_last);
        if !op.is_told_at(nth) || (shown.told.is_none() && data.is_none()) {
            return;
        }
        let kind = match (op.deed == Deed::Read, is_last) {
            (true, true) => Kind::PeerRead,
            (true, false) => Kind::RegionRead,
            (false, true) => Kind::PeerWrite,
            (false, false) => Kind::RegionWrite,
        };
        self.met.remote_told_apart |= u64::from(!is_last);
        self.met.remote_told_once |= u64::from(is_last && nth > 0);
        self.dues.push(Due {
            of: context,
            who: op.peer,
            from: op.who,
            kind,
            region,
            bytes: bytes.clone(),
            start: shown.start_of(bytes),
            context: shown.told.unwrap_or(0),
            data,
        });
    }

    /// What one process has begun on another, and whose packet was not read, never is.
    pub(in super::super) fn lose(&mut self, from: usize, to: usize) {
        self.ways.remove(&(from, to));
    }

    /// A process has ended.
    pub(in super::super) fn died(&mut self, who: usize) {
        self.ways.retain(|(_, to), _| *to != who);
    }
}

/// Whether a packet takes slots of the control region in the place of those of messages.
fn is_by_control(packet: &Packet) -> bool {
    match packet {
        Packet::Put(put) => put.by_control,
        Packet::Atomic(atomic) => atomic.by_control,
        _ => false,
    }
}
