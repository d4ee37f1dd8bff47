//! What each process does in one repetition: it prepares a buffer, posts one operation,
//! waits for it, and checks what came.

use crate::access::Access;
use crate::node::Node;
use crate::step::Role;
use anyhow::{Result, bail};

/// Bytes of which one word tells whether they are of this repetition.
const STAMPED_BYTES: usize = 4096;

impl Role {
    pub fn opposite(self) -> Role {
        Role { sends: !self.sends, ..self }
    }

    /// Marks what will be sent, or wipes what an earlier repetition has left.
    pub fn prepare<A: Access>(self, node: &mut Node<A>, size: u64) {
        let buf = if self.sends { node.send_buf() } else { node.recv_buf() };
        for (index, chunk) in buf[..size as usize].chunks_mut(STAMPED_BYTES).enumerate() {
            let stamp = if self.sends { stamp(self.seed, index) } else { [0; 8] };
            let len = chunk.len().min(stamp.len());
            chunk[..len].copy_from_slice(&stamp[..len]);
        }
    }

    /// Starts the operation. How many of its kind will have ended with it.
    pub fn post<A: Access>(self, node: &mut Node<A>, size: u64) -> Result<u64> {
        if self.sends {
            let count = node.sends_ended() + 1;
            node.send_data_reported(size)?;
            return Ok(count);
        }
        let count = node.data_received() + 1;
        node.post_data(size)?;
        Ok(count)
    }

    pub fn wait<A: Access>(self, node: &mut Node<A>, posted: u64) -> Result<()> {
        if self.sends { node.wait_sends_ended(posted) } else { node.wait_data(posted) }
    }

    /// Whether what was received is what was sent in this repetition.
    pub fn check<A: Access>(self, node: &mut Node<A>, size: u64) -> Result<()> {
        if self.sends {
            return Ok(());
        }
        for (index, chunk) in node.recv_buf()[..size as usize].chunks(STAMPED_BYTES).enumerate() {
            let stamp = stamp(self.seed, index);
            let len = chunk.len().min(stamp.len());
            if chunk[..len] != stamp[..len] {
                let at = index * STAMPED_BYTES;
                bail!("data altered on its way: byte {at} of a message of {size} bytes is wrong");
            }
        }
        Ok(())
    }
}

/// What a repetition puts at each place of a message that is looked at.
fn stamp(seed: u32, index: usize) -> [u8; 8] {
    let word = (u64::from(seed) << 32 | index as u64 & 0xFFFF_FFFF).wrapping_add(1);
    word.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_le_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stamps_of_other_repetitions_and_places_are_others() {
        assert_ne!(stamp(1, 0), stamp(2, 0));
        assert_ne!(stamp(1, 0), stamp(1, 1));
        assert_ne!(stamp(0, 0), [0; 8]);
    }
}
