//! Direct moves between this process's memory and a peer's, with
//! `process_vm_readv` and `process_vm_writev`.
//!
//! Transfers are queued and done in slices, round robin, so that a long one
//! neither stops the mailbox from being looked at nor the short ones behind it.
//! A slice is far below what the system calls move at most (2 GiB), so a
//! transfer may be of any length.
//!
//! A slice of a transfer that both sides copy is a chunk
//! (`sluice_link::chunk_claims`, `shared`).
//! Between its turns such a transfer holds no chunk, so it may end there without
//! anybody waiting for it. One that waits for the other side's chunks stands
//! aside, and is looked at once in each pass.

use super::handover::Handover;
use super::segment::CHUNK_CLAIMS_MAX;
use super::ways::Way;
use crate::faults;
use rustix::io::Errno;
use sluice_link::chunk_claims::{Side, chunk_bytes};
use sluice_link::{ClaimsId, RailError, Token};
use sluice_wire::{Addr, Nanos, PeerId, Region};
use std::collections::VecDeque;

/// Bytes moved in one pass over the queue.
pub(super) const PASS_BYTES: u64 = 1 << 20;
/// Bytes of one transfer in one turn while others wait.
const TURN_BYTES: u64 = 256 << 10;
/// What a turn counts as at least, so that a pass over tiny ones ends too.
const TURN_BYTES_MIN: u64 = 4 << 10;
/// Most transfers queued at once. The machine bounds what it asks for far below.
const TRANSFERS_MAX: usize = 1 << 20;

/// Which way bytes move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    /// From the peer's memory to this process's.
    Read,
    /// From this process's memory to the peer's.
    Write,
}

/// What a transfer that both sides copy is to this side.
#[derive(Clone, Copy, Debug)]
pub(super) struct Share {
    pub(super) claims: ClaimsId,
    pub(super) side: Side,
    /// Chunks that this side has taken, and accounted for.
    pub(super) own: u32,
    /// Why this side could not copy one.
    pub(super) failed: Option<RailError>,
    /// The peer still lived after this side's last read, so the bytes are its own.
    pub(super) is_vouched: bool,
    /// Since when the claims and the peer's record contradict each other.
    pub(super) doubted_since: Option<Nanos>,
    /// Whether chunks are handed over.
    pub(super) handover: Handover,
    /// Since when the other side is not seen in the library.
    pub(super) absent_since: Option<Nanos>,
    /// All chunks are accounted for, and those that were handed over are in the ring before this
    /// position.
    pub(super) handed_until: Option<u64>,
    /// How it goes, once its reader, this process, has had its first turn.
    pub(super) way: Option<Way>,
}

impl Share {
    pub(super) fn new(claims: ClaimsId, side: Side) -> Share {
        Share {
            claims,
            side,
            own: 0,
            failed: None,
            is_vouched: false,
            doubted_since: None,
            handover: Handover::Unasked,
            absent_since: None,
            handed_until: None,
            way: None,
        }
    }
}

/// One transfer, as far as it has got.
#[derive(Clone, Copy, Debug)]
pub(super) struct Transfer {
    pub(super) peer: PeerId,
    pub(super) direction: Direction,
    /// The memory here; its length is that of the transfer.
    pub(super) local: Region,
    /// Where the memory there begins.
    pub(super) remote: Addr,
    /// How much of it is done, if this side does it alone.
    pub(super) done: u64,
    pub(super) token: Token,
    pub(super) share: Option<Share>,
}

impl Transfer {
    /// Whether either end would run past the end of the address space.
    pub(super) fn wraps(&self) -> bool {
        Region::new(self.local.addr, self.local.len).is_none()
            || Region::new(self.remote, self.local.len).is_none()
    }
}

/// What comes of a turn.
#[derive(Clone, Copy, Debug)]
pub(super) enum Turn {
    /// It wants another one.
    More(Transfer),
    /// It waits for the other side.
    Wait(Transfer),
    /// It has ended.
    End(Result<(), RailError>),
}

/// The transfers under way.
#[derive(Debug, Default)]
pub(super) struct Queue {
    transfers: VecDeque<Transfer>,
    /// Those that wait for the other side. Each has chunk claims of this process, so
    /// there are no more than [`CHUNK_CLAIMS_MAX`].
    waiting: VecDeque<Transfer>,
}

impl Queue {
    pub(super) fn is_empty(&self) -> bool {
        self.transfers.is_empty() && self.waiting.is_empty()
    }

    pub(super) fn push(&mut self, transfer: Transfer) {
        assert!(self.transfers.len() < TRANSFERS_MAX, "the machine bounds its transfers");
        self.transfers.push_back(transfer);
    }

    /// Sets a transfer aside that waits for the other side.
    pub(super) fn set_aside(&mut self, transfer: Transfer) {
        let most = usize::from(CHUNK_CLAIMS_MAX);
        assert!(self.waiting.len() < most, "one read for each transfer's claims");
        self.waiting.push_back(transfer);
    }

    /// The lengths of those that both sides copy from `peer` to here, and whose first turn was.
    pub(super) fn begun_of(&self, peer: PeerId) -> impl Iterator<Item = u64> {
        let begun = |share: Share| share.side == Side::Owner && share.way.is_some();
        let queued = self.waiting.iter().chain(&self.transfers);
        queued
            .filter(move |transfer| transfer.peer == peer && transfer.share.is_some_and(begun))
            .map(|transfer| transfer.local.len)
    }

    /// Whether there are transfers, and all of them wait for the other side.
    pub(super) fn only_waits(&self) -> bool {
        self.transfers.is_empty() && !self.waiting.is_empty()
    }

    /// How many are set aside.
    pub(super) fn aside(&self) -> usize {
        self.waiting.len()
    }

    /// The one that was set aside first.
    pub(super) fn next_aside(&mut self) -> Option<Transfer> {
        self.waiting.pop_front()
    }

    /// The next transfer and how many bytes of it may be moved in this turn: a
    /// chunk if it is shared, for chunks are moved whole.
    /// `pass` is what the pass has left, and is charged for the turn.
    pub(super) fn turn(&mut self, pass: &mut u64) -> Option<(Transfer, u64)> {
        if *pass == 0 {
            return None;
        }
        let next = self.transfers.pop_front()?;
        let alone = self.transfers.is_empty();
        let most = if alone { PASS_BYTES } else { TURN_BYTES };
        let len = match next.share {
            Some(_) => chunk_bytes(next.local.len).min(next.local.len),
            None => (next.local.len - next.done).min(most).min((*pass).max(TURN_BYTES_MIN)),
        };
        *pass = pass.saturating_sub(len.max(TURN_BYTES_MIN));
        Some((next, len))
    }

    /// Takes out the write of this name if it is shared and the next to have a
    /// turn: the usual case, found at once. Others end in their turn. Between turns
    /// it holds no chunk.
    pub(super) fn leave(&mut self, token: Token) -> bool {
        let is_next = self.transfers.front().is_some_and(|next| {
            next.token == token && next.share.is_some_and(|share| share.side == Side::Peer)
        });
        is_next && self.transfers.pop_front().is_some()
    }

    /// Takes out one transfer with `peer`, the oldest first.
    pub(super) fn take_of(&mut self, peer: PeerId) -> Option<Transfer> {
        [&mut self.transfers, &mut self.waiting].into_iter().find_map(|queue| {
            let at = queue.iter().position(|transfer| transfer.peer == peer)?;
            queue.remove(at)
        })
    }

    /// A chunk of the transfer by these chunk claims of this process has not come.
    pub(super) fn fail_read(&mut self, claims: ClaimsId, why: RailError) {
        let shares = self.waiting.iter_mut().chain(&mut self.transfers);
        for share in shares.filter_map(|transfer| transfer.share.as_mut()) {
            if share.side == Side::Owner && share.claims == claims {
                share.failed = Some(why);
            }
        }
    }

    /// What was handed over may be lost.
    pub(super) fn fail_handed(&mut self, why: RailError) {
        let shares = self.waiting.iter_mut().chain(&mut self.transfers);
        for share in shares.filter_map(|transfer| transfer.share.as_mut()) {
            if share.side == Side::Owner && share.handover != Handover::Unasked {
                share.failed = Some(why);
            }
        }
    }

    /// Whether one of those that wait does so for a moment, for a chunk to be handed over.
    pub(super) fn awaits_handed(&self) -> bool {
        let awaits = |share: Share| matches!(share.handover, Handover::Asking | Handover::On(_));
        self.waiting.iter().any(|transfer| transfer.share.is_some_and(awaits))
    }

    /// The transfer by these chunk claims of this process.
    pub(super) fn shared_read(&self, claims: ClaimsId) -> Option<&Transfer> {
        self.waiting.iter().chain(&self.transfers).find(|transfer| {
            let own = |share: Share| share.side == Side::Owner && share.claims == claims;
            transfer.share.is_some_and(own)
        })
    }
}

/// Moves up to `len` bytes between `local` here and `remote` in process `pid`.
/// Says how many, at least one unless `len` is zero.
///
/// # Safety
/// If it is a read, whoever owns the memory at `local` allows `len` bytes of it
/// to be written. Memory that is not mapped is an error, here and there.
pub(super) unsafe fn step(
    direction: Direction,
    pid: u32,
    local: Addr,
    remote: Addr,
    len: u64,
) -> Result<u64, RailError> {
    if len == 0 {
        return Ok(0);
    }
    let bytes = usize::try_from(len).map_err(|_| RailError::Fault)?;
    let bytes = faults::on_direct(bytes).map_err(|_| RailError::Forbidden)?;
    let iovec = |addr: Addr| libc::iovec {
        iov_base: std::ptr::with_exposed_provenance_mut(addr.0 as usize),
        iov_len: bytes,
    };
    let (local, remote) = (iovec(local), iovec(remote));
    let pid = libc::pid_t::try_from(pid).map_err(|_| RailError::PeerGone)?;
    // SAFETY: the kernel checks both addresses; the caller vouches that the
    // local one may be written if it is.
    let moved = unsafe {
        match direction {
            Direction::Read => {
                libc::process_vm_readv(pid, &raw const local, 1, &raw const remote, 1, 0)
            }
            Direction::Write => {
                libc::process_vm_writev(pid, &raw const local, 1, &raw const remote, 1, 0)
            }
        }
    };
    match u64::try_from(moved) {
        Ok(0) => Err(RailError::Fault),
        Ok(moved) => Ok(moved),
        Err(_) => Err(match Errno::from_io_error(&std::io::Error::last_os_error()) {
            Some(Errno::SRCH) => RailError::PeerGone,
            Some(Errno::PERM | Errno::ACCESS | Errno::NOSYS) => RailError::Forbidden,
            _ => RailError::Fault,
        }),
    }
}

/// Whether the memory of process `pid` can be read: it holds `nonce` at `at`.
/// The system asks for the same right to write it.
pub(super) fn probe(pid: u32, at: u64, nonce: u64) -> bool {
    let mut found = [0_u8; 8];
    let to = Addr(found.as_mut_ptr().expose_provenance() as u64);
    // SAFETY: the destination is the local array.
    let got = unsafe { step(Direction::Read, pid, to, Addr(at), 8) };
    // The compiler must not take the array for unchanged.
    got == Ok(8) && std::hint::black_box(u64::from_ne_bytes(found)) == nonce
}

#[cfg(test)]
mod tests {
    use super::*;

    fn transfer(len: u64, token: u64) -> Transfer {
        Transfer {
            peer: PeerId(0),
            direction: if token.is_multiple_of(2) { Direction::Read } else { Direction::Write },
            local: Region { addr: Addr(0), len },
            remote: Addr(0),
            done: 0,
            token: Token(token),
            share: None,
        }
    }

    #[test]
    fn a_pass_is_bounded_and_goes_round() {
        let mut queue = Queue::default();
        for token in 0..3 {
            queue.push(transfer(10 << 20, token));
        }
        let mut pass = PASS_BYTES;
        let mut order = Vec::new();
        let mut bytes = 0;
        while let Some((mut next, len)) = queue.turn(&mut pass) {
            order.push(next.token.0);
            bytes += len;
            next.done += len;
            queue.push(next);
        }
        assert_eq!(order, [0, 1, 2, 0]);
        assert_eq!(bytes, PASS_BYTES);
    }

    #[test]
    fn a_pass_over_empty_transfers_ends() {
        let mut queue = Queue::default();
        queue.push(transfer(0, 0));
        let mut pass = PASS_BYTES;
        let mut turns = 0;
        while let Some((next, _)) = queue.turn(&mut pass) {
            queue.push(next);
            turns += 1;
        }
        assert_eq!(turns, PASS_BYTES / TURN_BYTES_MIN);
    }

    /// More bytes than one system call moves, and than 32 bits count.
    #[test]
    fn a_transfer_of_more_than_four_gibibytes_is_counted_whole() {
        const LEN: u64 = (5 << 30) + 3;
        let mut queue = Queue::default();
        queue.push(transfer(LEN, 0));
        let mut turns = 0;
        loop {
            let mut pass = PASS_BYTES;
            let (mut next, len) = queue.turn(&mut pass).unwrap();
            assert!(len > 0 && len <= PASS_BYTES);
            next.done += len;
            turns += 1;
            if next.done == LEN {
                break;
            }
            queue.push(next);
        }
        assert_eq!(turns, LEN.div_ceil(PASS_BYTES));
    }

    #[test]
    fn an_end_beyond_the_address_space_is_seen() {
        let at = |local: u64, remote: u64, len| Transfer {
            local: Region { addr: Addr(local), len },
            remote: Addr(remote),
            ..transfer(0, 0)
        };
        assert!(!at(0, u64::MAX - 8, 8).wraps());
        assert!(at(0, u64::MAX - 8, 9).wraps());
        assert!(at(u64::MAX - 8, 0, 9).wraps());
    }

    #[test]
    fn unmapped_memory_is_a_fault_and_not_a_signal() {
        let mut here = [0_u8; 64];
        let addr = Addr(here.as_mut_ptr().expose_provenance() as u64);
        let pid = std::process::id();
        for direction in [Direction::Read, Direction::Write] {
            // SAFETY: what is written, if anything, is the local array.
            let (there, local) = unsafe {
                (step(direction, pid, addr, Addr(16), 64), step(direction, pid, Addr(16), addr, 64))
            };
            assert_eq!((there, local), (Err(RailError::Fault), Err(RailError::Fault)));
        }
        let source = 0x1234_5678_9abc_def0_u64;
        let at = (&raw const source).expose_provenance() as u64;
        assert!(probe(pid, at, source));
        assert!(!probe(pid, at, source + 1));
    }
}
