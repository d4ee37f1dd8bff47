//! Tallies and the transfers that two processes share, in the network of the
//! tests: each chunk is taken in one event and copied in another, so anything may
//! happen in between.

use super::Net;
use super::memory::{Process, range};
use sluice_link::{RailError, Tally, TallyStart, Token};
use sluice_wire::{Addr, Region};
use std::collections::BTreeMap;
use std::num::NonZeroU32;

/// Bytes of a chunk; the last of a transfer may have fewer.
const CHUNK_BYTES: u64 = 48;

#[derive(Debug)]
struct Count {
    owner: usize,
    peer: usize,
    is_used: bool,
    is_broken: bool,
    /// Bytes taken.
    taken: u64,
    /// Bytes copied, or taken by a side that failed.
    done: u64,
}

/// One side's part of a shared transfer.
#[derive(Debug)]
pub struct Share {
    pub who: usize,
    pub peer: usize,
    tally: u32,
    is_write: bool,
    local: Region,
    remote: Addr,
    pub token: Token,
    /// The chunk being copied: offset and length.
    chunk: Option<(u64, u64)>,
    copied: u64,
    failure: Option<RailError>,
}

#[derive(Debug, Default)]
pub struct Tallies {
    opened: u32,
    /// Closed ones are not here.
    open: BTreeMap<u32, Count>,
    pub shares: Vec<Share>,
    /// The shared transfer that ended last, and whether the side that does not own
    /// the tally has copied all of it.
    was_alone: bool,
    ended: u32,
}

impl Tallies {
    pub fn open(&mut self, owner: usize, peer: usize, start: TallyStart) -> Tally {
        self.opened += 1;
        let is_used = start == TallyStart::Used;
        let count = Count { owner, peer, is_used, is_broken: false, taken: 0, done: 0 };
        self.open.insert(self.opened, count);
        Tally(NonZeroU32::new(self.opened).expect("not zero"))
    }

    pub fn revoke(&mut self, owner: usize, tally: Tally) -> bool {
        let is_free = self.of(tally).is_some_and(|count| count.owner == owner && !count.is_used);
        if is_free {
            self.open.remove(&tally.0.get());
        }
        is_free
    }

    pub fn close(&mut self, owner: usize, tally: Tally) {
        let count = self.open.remove(&tally.0.get()).expect("closed once");
        assert_eq!(count.owner, owner, "closed by its owner");
        let tally = tally.0.get();
        let reads = |share: &Share| !share.is_write && share.tally == tally;
        assert!(!self.shares.iter().any(reads), "closed under a transfer");
    }

    pub fn use_it(&mut self, user: usize, owner: usize, tally: Tally) -> bool {
        let Some(count) = self.open.get_mut(&tally.0.get()) else { return false };
        let may = count.owner == owner && count.peer == user && !count.is_used;
        count.is_used |= may;
        may
    }

    pub fn is_closed(&self, owner: usize, tally: Tally) -> bool {
        self.of(tally).is_none_or(|count| count.owner != owner)
    }

    pub fn begin(
        &mut self,
        (who, peer): (usize, usize),
        tally: Tally,
        is_write: bool,
        local: Region,
        remote: Addr,
        token: Token,
    ) {
        self.shares.push(Share {
            who,
            peer,
            tally: tally.0.get(),
            is_write,
            local,
            remote,
            token,
            chunk: None,
            copied: 0,
            failure: None,
        });
    }

    /// Ends a writer's part if it copies nothing now.
    pub fn leave(&mut self, who: usize, token: Token) -> bool {
        let idles = |share: &Share| share.is_write && share.chunk.is_none();
        let its = |share: &Share| share.who == who && share.token == token && idles(share);
        let at = self.shares.iter().position(its);
        at.map(|at| self.shares.remove(at)).is_some()
    }

    /// Whether the other side has copied all, before the owner began.
    pub fn is_written(&self, owner: usize, tally: Tally, len: u64) -> bool {
        self.of(tally).is_some_and(|count| {
            assert!(count.owner == owner && count.is_used, "asked of a transfer under way");
            !count.is_broken && count.taken == len && count.done == len
        })
    }

    pub fn was_alone(&self, tally: Tally) -> bool {
        assert_eq!(self.ended, tally.0.get(), "asked of the transfer that has just ended");
        self.was_alone
    }

    /// Tallies of a process that are open.
    pub fn open_of(&self, owner: usize) -> usize {
        self.open.values().filter(|count| count.owner == owner).count()
    }

    fn of(&self, tally: Tally) -> Option<&Count> {
        self.open.get(&tally.0.get())
    }

    /// Whether a side has something to do: the reader may have to wait for chunks
    /// that the writer has taken.
    pub fn can_go_on(&self, share: &Share) -> bool {
        let Some(count) = self.open.get(&share.tally) else { return true };
        share.chunk.is_some()
            || share.is_write
            || count.done == count.taken
            || (share.failure.is_none() && !count.is_broken && count.taken < share.local.len)
    }
}

impl Net {
    /// A side of a shared transfer takes a chunk, copies the one that it has, or
    /// ends, which is told.
    pub fn step_share(&mut self, at: usize) -> Option<(usize, Token, Result<(), RailError>)> {
        let share = &mut self.tallies.shares[at];
        let (who, peer, token) = (share.who, share.peer, share.token);
        let is_gone = self.dead.contains(&peer) || self.parted.contains(&(who, peer));
        if is_gone {
            self.tallies.shares.remove(at);
            return Some((who, token, Err(RailError::PeerGone)));
        }
        let count = self.tallies.open.get_mut(&share.tally);
        if let Some((offset, len)) = share.chunk.take() {
            let count = count.expect("nobody closes it while a chunk is copied");
            count.done += len;
            let pair = (who, peer);
            let forbid = self.random.percent(self.mode.forbidden_percent);
            if forbid || self.unreadable.contains(&pair) {
                self.unreadable.insert(pair);
                share.failure = Some(RailError::Forbidden);
            } else {
                let local = Region { addr: share.local.addr.offset(offset), len };
                let remote = Region { addr: share.remote.offset(offset), len };
                let (from, source, to, target) = match share.is_write {
                    false => (peer, remote, who, local),
                    true => (who, local, peer, remote),
                };
                match move_bytes(&mut self.processes, self.mode.payloads, from, source, to, target)
                {
                    true => share.copied += len,
                    false => share.failure = Some(RailError::Fault),
                }
            }
            count.is_broken |= share.failure.is_some();
            return None;
        }
        if let Some(count) = count {
            assert!(count.is_used, "what is shared was used");
            let left = share.local.len - count.taken;
            if left > 0 && !count.is_broken && share.failure.is_none() {
                let len = left.min(CHUNK_BYTES);
                share.chunk = Some((count.taken, len));
                count.taken += len;
                return None;
            }
            if !share.is_write {
                assert_eq!(count.done, count.taken, "the reader waits for the writer");
                if count.is_broken {
                    share.failure = share.failure.or(Some(RailError::Shared));
                }
            }
        }
        let share = self.tallies.shares.remove(at);
        let part = if share.is_write { share.copied == share.local.len } else { share.copied == 0 };
        self.tallies.was_alone = part && share.failure.is_none();
        self.tallies.ended = share.tally;
        Some((who, token, share.failure.map_or(Ok(()), Err)))
    }
}

/// False if some of it faults.
fn move_bytes(
    processes: &mut [Process],
    payloads: bool,
    from: usize,
    source: Region,
    to: usize,
    target: Region,
) -> bool {
    let fits = processes[from].usable(source, false, payloads) == source.len
        && processes[to].usable(target, true, payloads) == target.len;
    if fits && payloads {
        let bytes = processes[from].memory[range(source)].to_vec();
        processes[to].memory[range(target)].copy_from_slice(&bytes);
    }
    fits
}
