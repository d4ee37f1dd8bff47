//! The memory of a simulated process: with payloads an arena whose addresses
//! are offsets, without them nothing but the next address.

use sluice_wire::{Addr, Region};
use std::collections::BTreeMap;

/// See the module.
#[derive(Debug)]
pub(crate) struct Memory {
    has_payload: bool,
    bytes: Vec<u8>,
    /// First address never given out. Zero is nobody's address.
    end: u64,
    /// What was given back, by length.
    free: BTreeMap<u64, Vec<u64>>,
    /// Bytes that a machine has borrowed.
    lent: u64,
}

impl Memory {
    pub fn new(has_payload: bool) -> Memory {
        Memory { has_payload, bytes: Vec::new(), end: 64, free: BTreeMap::new(), lent: 0 }
    }

    pub fn alloc(&mut self, len: u64) -> Region {
        let size = len.max(1).next_multiple_of(64);
        let addr = self.free.get_mut(&size).and_then(Vec::pop).unwrap_or_else(|| {
            let addr = self.end;
            self.end += size;
            if self.has_payload {
                self.bytes.resize(self.end as usize, 0);
            }
            addr
        });
        Region { addr: Addr(addr), len }
    }

    pub fn release(&mut self, region: Region) {
        let size = region.len.max(1).next_multiple_of(64);
        self.free.entry(size).or_default().push(region.addr.0);
    }

    /// Lends memory to a machine.
    pub fn lend(&mut self, len: u32) -> Addr {
        self.lent += u64::from(len);
        self.alloc(u64::from(len)).addr
    }

    /// Takes back what was lent.
    pub fn give_back(&mut self, addr: Addr, len: u32) {
        let left = self.lent.checked_sub(u64::from(len));
        self.lent = left.expect("no more comes back than was lent");
        self.release(Region { addr, len: u64::from(len) });
    }

    /// Bytes that are lent now.
    pub fn lent(&self) -> u64 {
        self.lent
    }

    /// The bytes of a region; none without payloads.
    pub fn read(&self, region: Region) -> &[u8] {
        if self.has_payload { &self.bytes[span(region)] } else { &[] }
    }

    /// Writes, if there are payloads.
    pub fn write(&mut self, to: Addr, bytes: &[u8]) {
        if self.has_payload {
            let region = Region { addr: to, len: bytes.len() as u64 };
            self.bytes[span(region)].copy_from_slice(bytes);
        }
    }

    /// Copies within it.
    pub fn copy(&mut self, from: Addr, to: Addr, len: u64) {
        if self.has_payload {
            self.bytes.copy_within(span(Region { addr: from, len }), to.0 as usize);
        }
    }
}

fn span(region: Region) -> std::ops::Range<usize> {
    region.addr.0 as usize..(region.addr.0 + region.len) as usize
}
