//! Who is on other hosts, and where: what the processes of a job tell each other
//! beside what the program exchanges (`sluice_job.h`).
//!
//! Each exchange carries, before the program's bytes, the addresses of the interfaces
//! that were opened since the last one. So whoever has learned a node and a process
//! identifier through the job can be spoken to, also from another host. An address holds
//! a secret that strangers do not have; the job keeps it between its processes.
//!
//! Invariants: an address is of the process that the job says has told it. What does not
//! parse is refused as a whole. The book holds one address for each interface of each
//! process.

use crate::handle::INTERFACES;
use crate::phys::Phys;
use sluice_rail::{ADDRESS_BYTES, Address, AddressError};
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

/// Length of one entry: the kind of interface, its label, its address.
const ENTRY_BYTES: usize = 1 + size_of::<u64>() + ADDRESS_BYTES;
/// The most that a process tells beside what its program exchanges.
pub(crate) const TOLD_BYTES_MAX: usize = 1 + INTERFACES * ENTRY_BYTES;

/// An interface of a process that other hosts reach.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    /// The slot of such interfaces.
    pub kind: u8,
    /// The process.
    pub phys: Phys,
    /// Where it is.
    pub address: Address,
}

/// Why what a process told is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Refused {
    /// Too short, or of interfaces that there are not.
    #[error("its part of the exchange is malformed")]
    Malformed,
    /// Not an address of this version.
    #[error("{0}")]
    Address(#[from] AddressError),
}

static BOOK: Mutex<Option<HashMap<(u8, Phys), Address>>> = Mutex::new(None);

/// What precedes the program's bytes: these entries.
pub(crate) fn emit(entries: &[Entry]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(1 + entries.len() * ENTRY_BYTES);
    bytes.push(u8::try_from(entries.len()).expect("as many as a process has interfaces"));
    for entry in entries {
        bytes.push(entry.kind);
        bytes.extend(entry.phys.label().to_le_bytes());
        bytes.extend(entry.address.to_bytes());
    }
    bytes
}

/// The entries that a process told, and the program's bytes behind them.
///
/// # Errors
/// [`Refused`].
pub(crate) fn parse(blob: &[u8]) -> Result<(Vec<Entry>, &[u8]), Refused> {
    let (&count, rest) = blob.split_first().ok_or(Refused::Malformed)?;
    let len = usize::from(count) * ENTRY_BYTES;
    if usize::from(count) > INTERFACES || rest.len() < len {
        return Err(Refused::Malformed);
    }
    let (told, program) = rest.split_at(len);
    let entries = told.chunks_exact(ENTRY_BYTES).map(parse_entry).collect::<Result<_, _>>()?;
    Ok((entries, program))
}

fn parse_entry(bytes: &[u8]) -> Result<Entry, Refused> {
    let (&kind, rest) = bytes.split_first().ok_or(Refused::Malformed)?;
    let (label, address) = rest.split_first_chunk().ok_or(Refused::Malformed)?;
    if usize::from(kind) >= INTERFACES {
        return Err(Refused::Malformed);
    }
    let phys = Phys::from_label(u64::from_le_bytes(*label));
    Ok(Entry { kind, phys, address: Address::from_bytes(address)? })
}

/// Keeps what was told, for interfaces that are opened later.
pub(crate) fn keep(entries: &[Entry]) {
    let mut book = BOOK.lock().unwrap_or_else(PoisonError::into_inner);
    let book = book.get_or_insert_default();
    book.extend(entries.iter().map(|entry| ((entry.kind, entry.phys), entry.address)));
}

/// What is kept for interfaces of one kind.
pub(crate) fn kept(kind: u8) -> Vec<(Phys, Address)> {
    let book = BOOK.lock().unwrap_or_else(PoisonError::into_inner);
    let of_kind = book.iter().flatten().filter(|((other, _), _)| *other == kind);
    of_kind.map(|((_, phys), address)| (*phys, *address)).collect()
}

/// Another job is another book.
pub(crate) fn clear() {
    *BOOK.lock().unwrap_or_else(PoisonError::into_inner) = None;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fuzzing;
    use proptest::prelude::*;

    /// As `Address::to_bytes` writes it: local, of this version.
    fn address(mark: u8) -> Address {
        let mut bytes = [0; ADDRESS_BYTES];
        bytes[..2].copy_from_slice(b"S\x04");
        bytes[32..].fill(mark);
        Address::from_bytes(&bytes).unwrap()
    }

    fn entry(kind: u8) -> Entry {
        Entry { kind, phys: Phys { nid: 0x0102, pid: 7 }, address: address(kind + 1) }
    }

    #[test]
    fn what_is_told_comes_before_what_the_program_says() {
        let blob = [emit(&[entry(0), entry(3)]), b"hello".to_vec()].concat();
        assert_eq!(blob[..10], [2, 0, 7, 0, 0, 0, 2, 1, 0, 0]);
        assert_eq!(parse(&blob), Ok((vec![entry(0), entry(3)], &b"hello"[..])));
        assert_eq!(parse(&emit(&[])), Ok((vec![], &b""[..])));
    }

    #[test]
    fn what_does_not_parse_is_refused() {
        let blob = emit(&[entry(1)]);
        for len in 0..blob.len() {
            assert_eq!(parse(&blob[..len]), Err(Refused::Malformed), "{len} bytes");
        }
        let mut bad = blob.clone();
        bad[1] = 4;
        assert_eq!(parse(&bad), Err(Refused::Malformed));
        let mut bad = blob.clone();
        bad[10] ^= 1;
        assert!(matches!(parse(&bad), Err(Refused::Address(_))));
        let five = [vec![5], vec![0; 5 * ENTRY_BYTES]].concat();
        assert_eq!(parse(&five), Err(Refused::Malformed));
    }

    fn any_entry() -> impl Strategy<Value = Entry> {
        (0..INTERFACES as u8, any::<u32>(), any::<u32>(), 1..=u8::MAX).prop_map(
            |(kind, nid, pid, mark)| Entry {
                kind,
                phys: Phys { nid, pid },
                address: address(mark),
            },
        )
    }

    proptest! {
        #[test]
        fn whatever_is_told_is_read(
            entries in prop::collection::vec(any_entry(), 0..=INTERFACES),
            program in prop::collection::vec(any::<u8>(), 0..50),
        ) {
            let blob = [emit(&entries), program.clone()].concat();
            prop_assert_eq!(parse(&blob), Ok((entries, &program[..])));
        }

        /// Bytes are refused, or are what was read from them; those of one entry also where it was
        /// changed in one place.
        #[test]
        fn any_bytes_are_refused_or_read_whole(
            any in prop::collection::vec(any::<u8>(), 0..200),
            at in 0..1 + ENTRY_BYTES,
            byte: u8,
        ) {
            let mut one = emit(&[entry(1)]);
            one[at] = byte;
            for blob in [any, one] {
                if let Some(again) = fuzzing::told_again(&blob) {
                    prop_assert_eq!(again, blob);
                }
            }
        }
    }
}
