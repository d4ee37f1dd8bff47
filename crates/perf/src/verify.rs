//! Whether every byte arrives as it was sent.

use crate::access::Access;
use crate::node::Node;
use crate::step::Step;
use anyhow::{Result, bail};

/// The answer when every byte was right; else it is the first wrong one's index.
const ALL_RIGHT: u64 = u64::MAX;

/// Sends a pattern, has it checked, and checks the one that comes back.
pub fn first<A: Access>(node: &mut Node<A>, size: u64, seed: u64) -> Result<()> {
    first_at(node, size, seed, 0)
}

/// The same with a pattern that lies at `at` of the buffers.
pub fn first_at<A: Access>(node: &mut Node<A>, size: u64, seed: u64, at: u64) -> Result<()> {
    let len = size as usize;
    fill(&mut node.send_buf()[at as usize..][..len], seed);
    node.recv_buf()[..len].fill(0);
    node.begin(&Step::Verify { size, seed, at })?;
    let count = node.data_received() + 1;
    node.post_data(size)?;
    node.send_data_from(at, size)?;
    let found = node.wait_answer()?;
    if found != ALL_RIGHT {
        bail!("data altered on its way: byte {found} of a message of {size} bytes is wrong");
    }
    node.wait_data(count)?;
    if let Some(wrong) = first_wrong(&node.recv_buf()[..len], !seed) {
        bail!("data altered on its way: byte {wrong} of an answer of {size} bytes is wrong");
    }
    Ok(())
}

/// The other side of [`first_at`].
pub fn second(node: &mut Node, size: u64, seed: u64, at: u64) -> Result<()> {
    let len = size as usize;
    fill(&mut node.send_buf()[..len], !seed);
    node.recv_buf()[at as usize..][..len].fill(0);
    let count = node.data_received() + 1;
    node.post_data_into(at, size)?;
    node.answer(0)?;
    node.wait_data(count)?;
    let found = first_wrong(&node.recv_buf()[at as usize..][..len], seed);
    node.answer(found.map_or(ALL_RIGHT, |index| index as u64))?;
    // Its bytes stay until the next step, which comes only after they have
    // arrived.
    node.send_data(size)
}

/// Bytes that no other seed and no shift gives.
pub fn fill(buf: &mut [u8], seed: u64) {
    let mut state = start(seed);
    for chunk in buf.chunks_mut(8) {
        let word = next(&mut state).to_le_bytes();
        chunk.copy_from_slice(&word[..chunk.len()]);
    }
}

/// The index of the first byte that [`fill`] would have made another one.
pub fn first_wrong(buf: &[u8], seed: u64) -> Option<usize> {
    let mut state = start(seed);
    for (at, chunk) in buf.chunks(8).enumerate() {
        let word = next(&mut state).to_le_bytes();
        if chunk != &word[..chunk.len()] {
            let within = chunk.iter().zip(word).position(|(&got, sent)| got != sent);
            return Some(at * 8 + within.unwrap_or(0));
        }
    }
    None
}

fn start(seed: u64) -> u64 {
    // The generator below stands still at zero.
    seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1
}

/// Marsaglia's xorshift: a pattern, not chance.
fn next(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_wrong_byte_is_found() {
        let mut buf = [0; 100];
        fill(&mut buf, 7);
        assert_eq!(first_wrong(&buf, 7), None);
        assert!(first_wrong(&buf, 8).is_some());
        for index in 0..buf.len() {
            buf[index] ^= 0x10;
            assert_eq!(first_wrong(&buf, 7), Some(index));
            buf[index] ^= 0x10;
        }
    }
}
