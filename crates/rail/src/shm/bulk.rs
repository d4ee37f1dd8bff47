//! Direct reads of a peer's memory with `process_vm_readv`.
//!
//! Reads are queued and done in slices, round robin, so that a long one
//! neither stops the mailbox from being looked at nor the short ones behind it.

use rustix::io::Errno;
use sluice_link::{RailError, Token};
use sluice_wire::{Addr, PeerId, Region};
use std::collections::VecDeque;

/// Bytes read in one pass over the queue.
pub(super) const PASS_BYTES: u64 = 1 << 20;
/// Bytes of one read in one turn while others wait.
const TURN_BYTES: u64 = 256 << 10;
/// What a turn counts as at least, so that a pass over tiny reads ends too.
const TURN_BYTES_MIN: u64 = 4 << 10;
/// Most reads queued at once. The machine bounds what it asks for far below.
const READS_MAX: usize = 1 << 20;

/// One read, as far as it has got.
#[derive(Clone, Copy, Debug)]
pub(super) struct Read {
    pub(super) peer: PeerId,
    pub(super) from: Addr,
    pub(super) to: Region,
    pub(super) done: u64,
    pub(super) token: Token,
}

/// The reads under way.
#[derive(Debug, Default)]
pub(super) struct Queue {
    reads: VecDeque<Read>,
}

impl Queue {
    pub(super) fn is_empty(&self) -> bool {
        self.reads.is_empty()
    }

    pub(super) fn push(&mut self, read: Read) {
        assert!(self.reads.len() < READS_MAX, "the machine bounds its reads");
        self.reads.push_back(read);
    }

    /// The next read and how many bytes of it may be read in this turn.
    /// `pass` is what the pass has left, and is charged for the turn.
    pub(super) fn turn(&mut self, pass: &mut u64) -> Option<(Read, u64)> {
        if *pass == 0 {
            return None;
        }
        let read = self.reads.pop_front()?;
        let alone = self.reads.is_empty();
        let most = if alone { PASS_BYTES } else { TURN_BYTES };
        let len = (read.to.len - read.done).min(most).min((*pass).max(TURN_BYTES_MIN));
        *pass = pass.saturating_sub(len.max(TURN_BYTES_MIN));
        Some((read, len))
    }

    /// Takes out one read from `peer`, the oldest first.
    pub(super) fn take_of(&mut self, peer: PeerId) -> Option<Read> {
        let at = self.reads.iter().position(|read| read.peer == peer)?;
        self.reads.remove(at)
    }
}

/// Reads up to `len` bytes at `from` in process `pid` to `to`. Says how many,
/// at least one unless `len` is zero.
///
/// # Safety
/// Whoever owns the memory at `to` allows `len` bytes of it to be written.
/// Memory that is not mapped is an error, here and there.
pub(super) unsafe fn read(pid: u32, from: Addr, to: Addr, len: u64) -> Result<u64, RailError> {
    if len == 0 {
        return Ok(0);
    }
    let bytes = usize::try_from(len).map_err(|_| RailError::Fault)?;
    let local = libc::iovec {
        iov_base: std::ptr::with_exposed_provenance_mut(to.0 as usize),
        iov_len: bytes,
    };
    let remote = libc::iovec {
        iov_base: std::ptr::with_exposed_provenance_mut(from.0 as usize),
        iov_len: bytes,
    };
    let pid = libc::pid_t::try_from(pid).map_err(|_| RailError::PeerGone)?;
    // SAFETY: the kernel checks both addresses; the caller vouches that the
    // local one may be written.
    let got = unsafe { libc::process_vm_readv(pid, &raw const local, 1, &raw const remote, 1, 0) };
    match u64::try_from(got) {
        Ok(0) => Err(RailError::Fault),
        Ok(got) => Ok(got),
        Err(_) => Err(match Errno::from_io_error(&std::io::Error::last_os_error()) {
            Some(Errno::SRCH) => RailError::PeerGone,
            Some(Errno::PERM | Errno::ACCESS | Errno::NOSYS) => RailError::Forbidden,
            _ => RailError::Fault,
        }),
    }
}

/// Whether the memory of process `pid` can be read: it holds `nonce` at `at`.
pub(super) fn probe(pid: u32, at: u64, nonce: u64) -> bool {
    let mut found = [0_u8; 8];
    let to = Addr(found.as_mut_ptr().expose_provenance() as u64);
    // SAFETY: the destination is the local array.
    let got = unsafe { read(pid, Addr(at), to, 8) };
    // The compiler must not take the array for unchanged.
    got == Ok(8) && std::hint::black_box(u64::from_ne_bytes(found)) == nonce
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_of(len: u64, token: u64) -> Read {
        let to = Region { addr: Addr(0), len };
        Read { peer: PeerId(0), from: Addr(0), to, done: 0, token: Token(token) }
    }

    #[test]
    fn a_pass_is_bounded_and_goes_round() {
        let mut queue = Queue::default();
        for token in 0..3 {
            queue.push(read_of(10 << 20, token));
        }
        let mut pass = PASS_BYTES;
        let mut order = Vec::new();
        let mut bytes = 0;
        while let Some((mut read, len)) = queue.turn(&mut pass) {
            order.push(read.token.0);
            bytes += len;
            read.done += len;
            queue.push(read);
        }
        assert_eq!(order, [0, 1, 2, 0]);
        assert_eq!(bytes, PASS_BYTES);
    }

    #[test]
    fn a_pass_over_empty_reads_ends() {
        let mut queue = Queue::default();
        queue.push(read_of(0, 0));
        let mut pass = PASS_BYTES;
        let mut turns = 0;
        while let Some((read, _)) = queue.turn(&mut pass) {
            queue.push(read);
            turns += 1;
        }
        assert_eq!(turns, PASS_BYTES / TURN_BYTES_MIN);
    }

    #[test]
    fn unmapped_memory_is_a_fault_and_not_a_signal() {
        let mut to = [0_u8; 64];
        let addr = Addr(to.as_mut_ptr().expose_provenance() as u64);
        let pid = std::process::id();
        // SAFETY: the destination is the local array.
        assert_eq!(unsafe { read(pid, Addr(16), addr, 64) }, Err(RailError::Fault));
        let source = 0x1234_5678_9abc_def0_u64;
        let at = (&raw const source).expose_provenance() as u64;
        assert!(probe(pid, at, source));
        assert!(!probe(pid, at, source + 1));
    }
}
