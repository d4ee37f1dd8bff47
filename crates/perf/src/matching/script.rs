//! What is asked of a match list, step by step: the same for the engine and
//! for the plain list that stands beside it.
//!
//! Every element of a list has a serial number, from which its match bits and
//! its source follow. No number comes twice, so each message has one entry that
//! takes it, and what was taken shows whether the right one did.

use crate::matching::case::{Match, Order};
use anyhow::Result;
use sluice_wire::{MatchBits, PeerId};

/// Processes that messages come from.
pub const PEERS: u64 = 8;

/// Bits above the serial number, as of an MPI communicator.
const CONTEXT: u64 = 0x5A << 48;

/// The bits that a masked entry ignores: those in which an MPI over libfabric
/// keeps the sender's rank.
const MASK: u64 = 0xFFFF << 32;

/// A message, and the entry that it is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Element {
    pub serial: u64,
    /// Bits of the message.
    pub bits: MatchBits,
    /// Where the message comes from.
    pub from: PeerId,
    /// Bits that the entry asks for.
    pub entry_bits: MatchBits,
    /// Bits that the entry ignores.
    pub ignore: u64,
    /// The source that the entry asks for; `None` accepts any.
    pub source: Option<PeerId>,
}

impl Element {
    #[inline]
    pub fn new(kind: Match, serial: u64) -> Element {
        let mixed = serial.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let from = PeerId((mixed >> 61) as u32);
        let entry_bits = CONTEXT | (serial & 0xFFFF_FFFF);
        let (ignore, bits) = match kind {
            Match::Masked => (MASK, entry_bits | mixed & MASK),
            Match::Exact | Match::Wildcard => (0, entry_bits),
        };
        let any_source = kind == Match::Wildcard && serial.is_multiple_of(2);
        Element {
            serial,
            bits: MatchBits(bits),
            from,
            entry_bits: MatchBits(entry_bits),
            ignore,
            source: (!any_source).then_some(from),
        }
    }
}

/// A list that is measured.
pub trait Subject {
    /// Appends an element.
    fn append(&mut self, element: &Element);
    /// Takes an element out by a match.
    fn take(&mut self, element: &Element);
    /// Whether all that was taken was the right thing.
    fn check(&self) -> Result<()>;
}

/// Which element each step takes. The step appends the next serial number.
#[derive(Debug)]
pub struct Script {
    order: Order,
    /// Out of order: the serial numbers that are in the list.
    live: Vec<u64>,
    /// In order: the oldest in the list.
    oldest: u64,
    next: u64,
    random: u64,
}

impl Script {
    /// Of a list that holds the elements `0..depth`.
    pub fn new(order: Order, depth: u32) -> Script {
        let depth = u64::from(depth);
        let live = match order {
            Order::In => Vec::new(),
            Order::Out => (0..depth).collect(),
        };
        Script { order, live, oldest: 0, next: depth, random: 0x51_u64 << 32 | 0x1CE }
    }

    /// Plans `steps` steps: the serial numbers that they take, into `takes`.
    /// Returns the number that the first of them appends.
    pub fn plan(&mut self, steps: usize, takes: &mut Vec<u64>) -> u64 {
        takes.clear();
        let first = self.next;
        self.next += steps as u64;
        match self.order {
            Order::In => {
                takes.extend(self.oldest..self.oldest + steps as u64);
                self.oldest += steps as u64;
            }
            Order::Out => {
                for appended in first..self.next {
                    let at = self.draw(self.live.len() as u64) as usize;
                    takes.push(std::mem::replace(&mut self.live[at], appended));
                }
            }
        }
        first
    }

    /// A number below `bound`, the same in every run (splitmix64).
    fn draw(&mut self, bound: u64) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.random;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((u128::from(mixed ^ mixed >> 31) * u128::from(bound)) >> 64) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_message_is_for_one_entry() {
        for kind in Match::ALL {
            let elements: Vec<Element> = (0..64).map(|n| Element::new(kind, n)).collect();
            assert!(elements.iter().all(|element| u64::from(element.from.0) < PEERS));
            for message in &elements {
                let takers = elements.iter().filter(|entry| {
                    entry.entry_bits.accepts(entry.ignore, message.bits)
                        && entry.source.is_none_or(|source| source == message.from)
                });
                let takers: Vec<u64> = takers.map(|entry| entry.serial).collect();
                assert_eq!(takers, [message.serial], "{kind:?}");
            }
            let any = elements.iter().filter(|element| element.source.is_none()).count();
            assert_eq!(any, if kind == Match::Wildcard { 32 } else { 0 });
        }
    }

    #[test]
    fn a_step_takes_what_is_in_the_list() {
        for order in Order::ALL {
            let mut script = Script::new(order, 10);
            let mut list: BTreeSet<u64> = (0..10).collect();
            let mut takes = Vec::new();
            let mut oldest_taken = 0;
            for _ in 0..50 {
                let first = script.plan(7, &mut takes);
                for (&taken, appended) in takes.iter().zip(first..) {
                    oldest_taken += u32::from(list.first() == Some(&taken));
                    assert!(list.remove(&taken), "{order:?}");
                    assert!(list.insert(appended));
                }
            }
            assert_eq!(oldest_taken == 350, order == Order::In, "{oldest_taken}");
        }
    }
}
