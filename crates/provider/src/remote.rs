//! Operations on the memory of peers, the same for reads, writes and atomic operations.
//! `rma.rs` and `atomic.rs` bring them into this form.

use crate::ep::{EpCore, Posted};
use crate::errno::Errno;
use crate::ffi::{self, fi_addr_t};
use crate::info;
use crate::transfer::Flags;
use libc::c_void;
use sluice_proto::{Deed, Part, Rma};
use sluice_wire::{Addr, ITEM_BYTES_MAX, Region};

/// Flags that an operation may carry. Every one is complete when it is done there, which is
/// no less than any level of completion asks.
const REMOTE_FLAGS: u64 = info::TX_OP_FLAGS | ffi::FI_MORE | ffi::FI_PRIORITY | ffi::FI_FENCE;

/// A stretch of a peer's memory, in the terms of libfabric.
#[derive(Clone, Copy, Debug)]
pub struct There {
    pub offset: u64,
    pub len: u64,
    pub key: u64,
}

/// What is asked, but for its parts.
#[derive(Clone, Copy, Debug)]
pub struct Asked {
    pub deed: Deed,
    pub peer: fi_addr_t,
    pub data: Option<u64>,
    pub context: *mut c_void,
    pub flags: Flags,
}

/// The parts of an operation: as many as there are stretches that are one piece on all
/// sides.
#[derive(Debug)]
pub struct Parts {
    parts: [Part; Parts::MAX],
    count: usize,
}

impl Parts {
    /// Each side has at most [`info::SIDES_MAX`] stretches, and each end of one ends a part.
    const MAX: usize = 3 * info::SIDES_MAX;

    const NONE: Part = Part {
        local: Region::EMPTY,
        key: 0,
        offset: 0,
        result: Addr(0),
        operand: [0; ITEM_BYTES_MAX],
    };

    /// The one part of an operation on contiguous memory.
    pub fn one(local: Region, key: u64, offset: u64) -> Parts {
        let mut parts = [Parts::NONE; Parts::MAX];
        parts[0] = Part { local, key, offset, ..Parts::NONE };
        Parts { parts, count: 1 }
    }

    /// The parts of stretches here and there, and, if they are fetched, of those that the
    /// values from before go to.
    pub fn of(local: &[Region], there: &[There], results: &[Region]) -> Result<Parts, Errno> {
        let sum =
            |regions: &[Region]| regions.iter().map(|region| u128::from(region.len)).sum::<u128>();
        let asked = there.iter().map(|there| u128::from(there.len)).sum::<u128>();
        let limit = info::SIDES_MAX;
        let too_many = local.len() > limit || there.len() > limit || results.len() > limit;
        if too_many || sum(local) != asked || (!results.is_empty() && sum(results) != asked) {
            return Err(Errno::INVALID);
        }
        let mut parts = Parts { parts: [Parts::NONE; Parts::MAX], count: 0 };
        let mut local = Stretches::of(local.iter().map(|region| (region.addr.0, region.len)));
        let mut results = Stretches::of(results.iter().map(|region| (region.addr.0, region.len)));
        for there in there {
            let mut done = 0;
            // One of no bytes is a part too: whether it is allowed is told.
            while done < there.len || (done == 0 && there.len == 0) {
                let left = there.len - done;
                let len = left.min(local.run()).min(results.run());
                let part = &mut parts.parts[parts.count];
                part.local = Region { addr: Addr(local.take(len)), len };
                part.result = Addr(results.take(len));
                (part.key, part.offset) = (there.key, there.offset.wrapping_add(done));
                parts.count += 1;
                done += len;
                if there.len == 0 {
                    break;
                }
            }
        }
        Ok(parts)
    }

    /// All of them.
    pub fn as_slice(&self) -> &[Part] {
        &self.parts[..self.count]
    }

    /// The same with an operand, which an operation of one part alone may have.
    pub fn with_operand(mut self, operand: &[u8]) -> Result<Parts, Errno> {
        if self.count > 1 {
            return Err(Errno::INVALID);
        }
        self.parts[0].operand[..operand.len()].copy_from_slice(operand);
        Ok(self)
    }
}

/// Stretches of memory of this process, taken from the front; without any, as long as
/// need be and nowhere.
struct Stretches<I> {
    rest: I,
    at: u64,
    left: u64,
    is_nowhere: bool,
}

impl<I: Iterator<Item = (u64, u64)>> Stretches<I> {
    fn of(stretches: I) -> Stretches<I> {
        let mut all = Stretches { rest: stretches, at: 0, left: 0, is_nowhere: true };
        all.next();
        all
    }

    fn next(&mut self) {
        while self.left == 0
            && let Some((at, len)) = self.rest.next()
        {
            (self.at, self.left, self.is_nowhere) = (at, len, false);
        }
    }

    /// Bytes of the stretch at the front.
    fn run(&self) -> u64 {
        if self.is_nowhere { u64::MAX } else { self.left }
    }

    fn take(&mut self, len: u64) -> u64 {
        if self.is_nowhere {
            return 0;
        }
        let at = self.at;
        (self.at, self.left) = (at.wrapping_add(len), self.left.saturating_sub(len));
        self.next();
        at
    }
}

/// Begins an operation.
#[inline]
pub fn begin(ep: &EpCore, asked: Asked, parts: &Parts) -> Result<(), Errno> {
    let known = match asked.deed {
        Deed::Write => REMOTE_FLAGS | ffi::FI_REMOTE_CQ_DATA,
        _ => REMOTE_FLAGS,
    };
    ep.post(|state| {
        let flags = match asked.flags {
            Flags::Default => state.tx.op_flags,
            Flags::Given(flags) if flags & !known == 0 => flags,
            Flags::Given(_) => return Err(Errno::BAD_FLAGS),
        };
        let report = state.tx.reports(flags);
        state.begin_remote(&asked, parts, flags, report)
    })
}

/// Begins one whose bytes are free again when this returns, and which reports only failure.
#[inline]
pub fn inject(ep: &EpCore, asked: Asked, parts: &Parts) -> Result<(), Errno> {
    ep.post(|state| state.begin_remote(&asked, parts, ffi::FI_INJECT, false))
}

impl crate::ep::State {
    fn begin_remote(
        &mut self,
        asked: &Asked,
        parts: &Parts,
        flags: u64,
        report: bool,
    ) -> Result<Posted, Errno> {
        let parts = parts.as_slice();
        let engine = self.engine.as_mut().ok_or(Errno::BAD_STATE)?;
        // Nothing is read from the memory of a read.
        let inject = flags & ffi::FI_INJECT != 0 && asked.deed != Deed::Read;
        let len: u64 = parts.iter().map(|part| part.local.len).sum();
        if inject && len > self.inject_bytes as u64 {
            return Err(Errno(ffi::FI_EMSGSIZE));
        }
        let peer = self.peers.peer(engine, asked.peer)?;
        self.begin_use();
        let engine = self.engine.as_mut().ok_or(Errno::BAD_STATE)?;
        let fence = flags & ffi::FI_FENCE != 0;
        let (deed, data, context) = (asked.deed, asked.data, asked.context as u64);
        engine.rma(&Rma { deed, peer, parts, data, context, report, inject, fence })?;
        Ok(Posted::Taken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn region(at: u64, len: u64) -> Region {
        Region { addr: Addr(at), len }
    }

    fn there(offset: u64, len: u64) -> There {
        There { offset, len, key: offset / 100 }
    }

    #[test]
    fn stretches_are_cut_where_either_side_ends() {
        let parts = Parts::of(
            &[region(10, 4), region(50, 0), region(20, 6)],
            &[there(100, 3), there(200, 7)],
            &[region(1000, 5), region(2000, 5)],
        );
        let parts = parts.unwrap();
        let cut: Vec<_> = parts
            .as_slice()
            .iter()
            .map(|part| (part.local.addr.0, part.local.len, part.key, part.offset, part.result.0))
            .collect();
        assert_eq!(
            cut,
            [
                (10, 3, 1, 100, 1000),
                (13, 1, 2, 200, 1003),
                (20, 1, 2, 201, 1004),
                (21, 5, 2, 202, 2000),
            ]
        );
    }

    #[test]
    fn sides_are_of_one_length() {
        assert!(Parts::of(&[region(10, 4)], &[there(0, 5)], &[]).is_err());
        assert!(Parts::of(&[region(10, 4)], &[there(0, 4)], &[region(0, 3)]).is_err());
        let nothing = Parts::of(&[], &[there(7, 0)], &[]).unwrap();
        assert_eq!(nothing.as_slice().len(), 1);
    }
}
