//! The memory of a process: an address is an offset into it, parts of it may be
//! barred, and what a machine may read or write is asserted.

use super::POISON;
use sluice_wire::{Addr, Region};
use std::collections::BTreeMap;

/// What may not be done to a part of a process's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Barred {
    Unmapped,
    ReadOnly,
}

/// The memory of one process, and the packet that it handles.
#[derive(Debug, Default)]
pub struct Process {
    pub memory: Vec<u8>,
    /// Parts of the memory that cannot be used as the rest can. The last one
    /// that holds a byte counts; none: the byte can be read and written.
    pub barred: Vec<(Region, Option<Barred>)>,
    /// What the port has lent, by address: its length, and whether a packet
    /// was being handled then.
    pub lent: BTreeMap<u64, (u32, bool)>,
    /// The payload of the packet being handled.
    pub current: Option<Vec<u8>>,
    pub handling: Option<u32>,
    /// Where its payload is already, and how many bytes of it the machine wanted there.
    pub placed: Option<(Region, u64)>,
    /// What arrives was not written to its end.
    pub is_cut: bool,
}

impl Process {
    /// Memory that `fill` appends, aligned for any value.
    pub fn alloc(&mut self, fill: impl FnOnce(&mut Vec<u8>)) -> Region {
        self.memory.resize(self.memory.len().next_multiple_of(8), POISON);
        let addr = Addr(self.memory.len() as u64);
        fill(&mut self.memory);
        Region { addr, len: self.memory.len() as u64 - addr.0 }
    }

    pub fn barred(&self, at: u64) -> Option<Barred> {
        let holds = |region: &Region| at.wrapping_sub(region.addr.0) < region.len;
        let last = self.barred.iter().rev().find(|(region, _)| holds(region));
        last.and_then(|(_, barred)| *barred)
    }

    /// How many bytes from the beginning of a region may be read, or written.
    pub fn usable(&self, region: Region, to_write: bool, payloads: bool) -> u64 {
        let Some(Region { addr, len }) = Region::new(region.addr, region.len) else { return 0 };
        // Without payloads there is no memory to look at, only what was barred.
        let there = if payloads { self.memory.len() as u64 } else { u64::MAX };
        let len = len.min(there.saturating_sub(addr.0));
        if self.barred.is_empty() {
            return len;
        }
        let refused = |at: &u64| match self.barred(*at) {
            None => false,
            Some(Barred::ReadOnly) => to_write,
            Some(Barred::Unmapped) => true,
        };
        (addr.0..addr.0 + len).find(refused).map_or(len, |at| at - addr.0)
    }

    pub fn check_payload(&self, offset: u32, len: u64) {
        let payload_len = self.handling.expect("payload only while a packet is handled");
        assert!(
            u64::from(offset) + len <= u64::from(payload_len),
            "a copy stays inside the payload"
        );
    }

    /// The memory of a region that the machine says may be read.
    pub fn read(&self, region: Region) -> &[u8] {
        if region.len == 0 {
            return &[];
        }
        assert_eq!(self.usable(region, false, true), region.len, "{region:?} cannot be read");
        &self.memory[range(region)]
    }

    /// The memory of a region that the machine says may be written.
    pub fn write(&mut self, region: Region) -> &mut [u8] {
        if region.len == 0 {
            return &mut [];
        }
        assert_eq!(self.usable(region, true, true), region.len, "{region:?} cannot be written");
        &mut self.memory[range(region)]
    }
}

/// The places of a region in memory.
pub fn range(region: Region) -> std::ops::Range<usize> {
    region.addr.0 as usize..(region.addr.0 + region.len) as usize
}
