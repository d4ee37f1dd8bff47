//! A region, as it must be: its bytes, and who does what with which of them now.

use super::super::world::World;
use sluice_proto::{Access, RegionId};
use sluice_wire::{Addr, Region};
use std::ops::Range;

/// Bytes behind each piece of a region that nothing may touch.
const GUARD_BYTES: u64 = 16;
const GUARD: u8 = 0xC3;

/// What is done with bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    Written,
    Read,
    Combined,
}

/// An operation does something with bytes of a region.
#[derive(Clone, Debug)]
struct InUse {
    context: u64,
    bytes: Range<usize>,
    what: Use,
}

/// See the module.
#[derive(Debug)]
pub struct Exposure {
    pub owner: usize,
    pub id: RegionId,
    pub key: u64,
    pub access: Access,
    /// Its offsets are addresses.
    pub addressed: bool,
    pub told: Option<u64>,
    pub is_hidden: bool,
    pub pieces: Vec<Region>,
    /// What must be in it.
    pub bytes: Vec<u8>,
    uses: Vec<InUse>,
}

impl Exposure {
    /// Memory for a region of so many bytes, in pieces of these lengths, filled with them.
    pub fn alloc(world: &mut World<'_>, owner: usize, bytes: &[u8], lens: &[u64]) -> Vec<Region> {
        let mut at = 0;
        let mut piece = |len: &u64| {
            let memory = world.memory(owner);
            let whole = memory.alloc(len + GUARD_BYTES);
            memory.write(whole.addr, &vec![GUARD; whole.len as usize]);
            memory.write(whole.addr, &bytes[at..at + *len as usize]);
            at += *len as usize;
            whole.truncated(*len)
        };
        lens.iter().map(&mut piece).collect()
    }

    pub fn new(owner: usize, id: RegionId, key: u64, access: Access, bytes: Vec<u8>) -> Exposure {
        Exposure {
            owner,
            id,
            key,
            access,
            addressed: false,
            told: None,
            is_hidden: false,
            pieces: Vec::new(),
            bytes,
            uses: Vec::new(),
        }
    }

    /// The offset of its first byte.
    pub fn first(&self) -> u64 {
        if self.addressed { self.pieces[0].addr.0 } else { 0 }
    }

    /// Where so many bytes at an offset are, if it has them all.
    pub fn place(&self, offset: u64, len: u64) -> Option<Range<usize>> {
        let at = offset.checked_sub(self.first());
        if len == 0 {
            // No byte is beyond the end.
            let all = self.bytes.len();
            let at = at.map_or(all, |at| at.min(all as u64) as usize);
            return Some(at..at);
        }
        let at = at?;
        let end = at.checked_add(len)?;
        (end <= self.bytes.len() as u64).then_some(at as usize..end as usize)
    }

    /// Whether bytes may be used so beside what is done with them.
    pub fn is_free(&self, bytes: &Range<usize>, what: Use) -> bool {
        let disturbs = |other: &InUse| what == Use::Written || what != other.what;
        !self.overlapping(bytes).any(disturbs)
    }

    /// Whether something is done with some of these bytes.
    pub fn is_in_use(&self, bytes: &Range<usize>) -> bool {
        self.overlapping(bytes).next().is_some()
    }

    fn overlapping(&self, bytes: &Range<usize>) -> impl Iterator<Item = &InUse> {
        let (start, end) = (bytes.start, bytes.end);
        self.uses.iter().filter(move |other| other.bytes.start < end && start < other.bytes.end)
    }

    pub fn begin(&mut self, context: u64, bytes: Range<usize>, what: Use) {
        self.uses.push(InUse { context, bytes, what });
    }

    /// An operation has ended, whatever became of it.
    pub fn end(&mut self, context: u64) {
        self.uses.retain(|one| one.context != context);
    }

    /// What is in some of its memory.
    pub fn found(&self, world: &mut World<'_>, bytes: &Range<usize>) -> Vec<u8> {
        let memory = world.memory(self.owner);
        let all: Vec<u8> =
            self.pieces.iter().flat_map(|piece| memory.read(*piece).to_vec()).collect();
        all[bytes.clone()].to_vec()
    }

    /// Panics unless its memory is as it must be, and what is behind its pieces too.
    pub fn compare(&self, world: &mut World<'_>) {
        let Exposure { key, owner, .. } = self;
        let found = self.found(world, &(0..self.bytes.len()));
        if let Some(at) = (0..found.len()).find(|&at| found[at] != self.bytes[at]) {
            let (is, must) = (found[at], self.bytes[at]);
            panic!("byte {at} of region {key} of {owner} is {is:#x} and must be {must:#x}");
        }
        for piece in &self.pieces {
            let behind = Region { addr: piece.addr.offset(piece.len), len: GUARD_BYTES };
            let bytes = world.memory(self.owner).read(behind);
            assert!(
                bytes.iter().all(|byte| *byte == GUARD),
                "bytes behind region {key} of {owner}"
            );
        }
    }
}

impl Exposure {
    /// Whether an operation was to reach some of its bytes.
    pub fn is_reached_by(&self, context: u64) -> bool {
        self.uses.iter().any(|one| one.context == context)
    }

    /// Whether something else is done with it now.
    pub fn is_used_beside(&self, context: u64) -> bool {
        self.uses.iter().any(|one| one.context != context)
    }

    /// The address of the first of some of its bytes.
    pub fn start_of(&self, bytes: &Range<usize>) -> Addr {
        if self.pieces.len() > 1 && bytes.is_empty() {
            return Addr(0);
        }
        let mut at = bytes.start as u64;
        for piece in &self.pieces {
            if at < piece.len || self.pieces.len() == 1 {
                return piece.addr.offset(at);
            }
            at -= piece.len;
        }
        self.pieces.last().map_or(Addr(0), |piece| piece.addr.offset(piece.len))
    }
}
