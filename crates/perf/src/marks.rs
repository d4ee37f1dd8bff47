//! Which places of the buffers the messages of a stream were really sent from and received into.
//!
//! Before it, the first process writes into the beginning of each of its places a mark of its
//! own, and the second one clears its places. Behind it, the second one counts the places that
//! have the mark of the same place.

use crate::access::Access;
use crate::node::Node;
use crate::step::Step;
use anyhow::{Context, Result, ensure};

/// The answer if a place has the mark of another one.
const MISPLACED: u64 = u64::MAX;

/// Marks so many places of messages of a size.
pub fn set<A: Access>(node: &mut Node<A>, size: u64, count: u64) -> Result<()> {
    write(node.send_buf(), size, count, mark);
    node.begin(&Step::Marks { size, count, look: false })
}

/// How many of them have come.
pub fn count<A: Access>(node: &mut Node<A>, size: u64, count: u64) -> Result<u64> {
    let found = node.ask(&Step::Marks { size, count, look: true })?;
    ensure!(found != MISPLACED, "a message of {size} bytes lies where another one belongs");
    Ok(found)
}

/// The other side of both.
pub fn second(node: &mut Node, size: u64, count: u64, look: bool) -> Result<()> {
    if look {
        let found = found_in(node.recv_buf(), size, count)?;
        return node.answer(found.unwrap_or(MISPLACED));
    }
    write(node.recv_buf(), size, count, |_, _| 0);
    node.answer(0)
}

/// How many places have their mark; nothing if one has what is no mark of its own.
fn found_in(buf: &[u8], size: u64, count: u64) -> Result<Option<u64>> {
    let mut found = 0;
    for (nth, place) in (0..count).zip(buf.chunks(size.max(1) as usize)) {
        let len = len_of(size);
        let bytes = place.get(..len).context("there are fewer places")?;
        let mut word = [0; 8];
        word[..len].copy_from_slice(bytes);
        match u64::from_le_bytes(word) {
            0 => {}
            word if word == mark(nth, size) => found += 1,
            _ => return Ok(None),
        }
    }
    Ok(Some(found))
}

fn write(buf: &mut [u8], size: u64, count: u64, word: impl Fn(u64, u64) -> u64) {
    for (nth, place) in (0..count).zip(buf.chunks_mut(size.max(1) as usize)) {
        let len = len_of(size).min(place.len());
        place[..len].copy_from_slice(&word(nth, size).to_le_bytes()[..len]);
    }
}

fn len_of(size: u64) -> usize {
    size.min(8) as usize
}

/// Not zero.
fn mark(nth: u64, size: u64) -> u64 {
    let max = u64::MAX.checked_shr(64 - 8 * size.min(8) as u32).unwrap_or(0);
    nth % max.max(1) + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_counted_by_their_marks() {
        for size in [1, 3, 8, 100] {
            let mut buf = vec![0; 300 * size as usize];
            assert_eq!(found_in(&buf, size, 300).unwrap(), Some(0));
            write(&mut buf, size, 300, mark);
            assert_eq!(found_in(&buf, size, 300).unwrap(), Some(300));
            write(&mut buf, size, 3, |_, _| 0);
            assert_eq!(found_in(&buf, size, 300).unwrap(), Some(297));
            buf[4 * size as usize] ^= 0x40;
            assert_eq!(found_in(&buf, size, 300).unwrap(), None);
        }
        assert!(found_in(&[0; 10], 8, 2).is_err());
    }
}
