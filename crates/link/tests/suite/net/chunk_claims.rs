//! Chunk claims and the transfers that two processes share, in the network of the
//! tests: each chunk is taken in one event and copied in another, so anything may
//! happen in between. Who may take which chunk is decided by the [`ChunkClaims`] that
//! the rail uses too.

use super::Net;
use super::memory::{Process, range};
use sluice_link::chunk_claims::{ChunkClaims, Settled, Side};
use sluice_link::{ClaimsId, ClaimsStart, RailError, Remote, Token};
use sluice_wire::Region;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::num::NonZeroU32;

/// Bytes of a chunk; the last of a transfer may have fewer.
const CHUNK_BYTES: u64 = 48;

/// How many chunks a transfer has: an empty one has one, empty too.
fn chunks(len: u64) -> u32 {
    len.div_ceil(CHUNK_BYTES).max(1) as u32
}

/// Open chunk claims. Their number is their generation too.
#[derive(Debug)]
struct Open {
    owner: usize,
    peer: usize,
    claims: ChunkClaims<Cell<u64>>,
}

/// One side's part of a shared transfer.
#[derive(Debug)]
pub struct Share {
    pub who: usize,
    pub peer: usize,
    claims: u32,
    is_write: bool,
    local: Region,
    remote: Remote,
    pub token: Token,
    /// The chunk being copied.
    chunk: Option<u32>,
    /// Chunks that this side has taken and accounted for.
    own: u32,
    failure: Option<RailError>,
}

impl Share {
    fn side(&self) -> Side {
        if self.is_write { Side::Peer } else { Side::Owner }
    }
}

#[derive(Debug, Default)]
pub struct AllClaims {
    opened: u32,
    /// Closed ones are not here.
    open: BTreeMap<u32, Open>,
    pub shares: Vec<Share>,
    /// The shared transfer that ended last, and whether the side that does not own
    /// the claims has copied all of it.
    was_alone: bool,
    ended: u32,
}

impl AllClaims {
    pub fn open(&mut self, owner: usize, peer: usize, start: ClaimsStart) -> ClaimsId {
        self.opened += 1;
        let claims = ChunkClaims::new(Cell::new(ChunkClaims::<Cell<u64>>::UNUSED), Cell::new(0));
        claims.open(self.opened, start);
        self.open.insert(self.opened, Open { owner, peer, claims });
        ClaimsId(NonZeroU32::new(self.opened).expect("not zero"))
    }

    pub fn revoke(&mut self, owner: usize, id: ClaimsId) -> bool {
        let own = self.of(id).filter(|open| open.owner == owner);
        let is_free = own.is_some_and(|open| open.claims.revoke(id.0.get()));
        if is_free {
            self.open.remove(&id.0.get());
        }
        is_free
    }

    pub fn close(&mut self, owner: usize, id: ClaimsId) {
        let open = self.open.remove(&id.0.get()).expect("closed once");
        assert_eq!(open.owner, owner, "closed by its owner");
        let id = id.0.get();
        let reads = |share: &Share| !share.is_write && share.claims == id;
        assert!(!self.shares.iter().any(reads), "closed under a transfer");
    }

    pub fn try_use(&self, user: usize, owner: usize, id: ClaimsId) -> bool {
        let offered = self.of(id).filter(|open| open.owner == owner && open.peer == user);
        offered.is_some_and(|open| open.claims.try_use(id.0.get()))
    }

    pub fn is_closed(&self, owner: usize, id: ClaimsId) -> bool {
        self.of(id).is_none_or(|open| open.owner != owner)
    }

    pub fn begin(
        &mut self,
        (who, peer): (usize, usize),
        id: ClaimsId,
        is_write: bool,
        local: Region,
        remote: Remote,
        token: Token,
    ) {
        self.shares.push(Share {
            who,
            peer,
            claims: id.0.get(),
            is_write,
            local,
            remote,
            token,
            chunk: None,
            own: 0,
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
    pub fn is_written(&self, owner: usize, id: ClaimsId, len: u64) -> bool {
        self.of(id).is_some_and(|open| {
            assert_eq!(open.owner, owner, "asked of one's own transfer");
            open.claims.settled(id.0.get(), chunks(len), 0) == Settled::Whole
        })
    }

    pub fn was_alone(&self, id: ClaimsId) -> bool {
        assert_eq!(self.ended, id.0.get(), "asked of the transfer that has just ended");
        self.was_alone
    }

    /// How many chunk claims of a process are open.
    pub fn open_of(&self, owner: usize) -> usize {
        self.open.values().filter(|open| open.owner == owner).count()
    }

    fn of(&self, id: ClaimsId) -> Option<&Open> {
        self.open.get(&id.0.get())
    }

    /// Whether a side has something to do: the reader may have to wait for chunks
    /// that the writer has taken.
    pub fn can_go_on(&self, share: &Share) -> bool {
        let Some(open) = self.open.get(&share.claims) else { return true };
        let settled = || open.claims.settled(share.claims, chunks(share.local.len), share.own);
        share.chunk.is_some() || share.is_write || settled() != Settled::Waiting
    }
}

impl Net {
    /// A side of a shared transfer takes a chunk, copies the one that it has, or
    /// ends, which is told.
    pub fn step_share(&mut self, at: usize) -> Option<(usize, Token, Result<(), RailError>)> {
        let share = &self.claims.shares[at];
        let (who, peer, token) = (share.who, share.peer, share.token);
        let is_gone = self.dead.contains(&peer) || self.parted.contains(&(who, peer));
        if is_gone {
            self.claims.shares.remove(at);
            return Some((who, token, Err(RailError::PeerGone)));
        }
        if let Some(chunk) = self.claims.shares[at].chunk.take() {
            self.copy_chunk(at, chunk);
            return None;
        }
        let share = &mut self.claims.shares[at];
        let claims = self.claims.open.get(&share.claims).map(|open| &open.claims);
        let (side, count) = (share.side(), chunks(share.local.len));
        if let Some(claims) = claims {
            let may_take = share.failure.is_none() && share.own < count;
            if may_take && let Some(chunk) = claims.take(share.claims, side, count) {
                share.chunk = Some(chunk);
                return None;
            }
            if !share.is_write {
                let settled = claims.settled(share.claims, count, share.own);
                let is_broken = settled == Settled::Broken;
                assert!(is_broken || settled == Settled::Whole, "the reader waits: {settled:?}");
                if is_broken {
                    share.failure = share.failure.or(Some(RailError::Shared));
                }
            }
        }
        let share = self.claims.shares.remove(at);
        let its_part = if share.is_write { count } else { 0 };
        self.claims.was_alone = share.own == its_part && share.failure.is_none();
        self.claims.ended = share.claims;
        Some((who, token, share.failure.map_or(Ok(()), Err)))
    }

    /// A side copies the chunk that it has taken, and accounts for it.
    fn copy_chunk(&mut self, at: usize, chunk: u32) {
        let Share { who, peer, claims: id, is_write, local, remote, .. } = self.claims.shares[at];
        let count = chunks(local.len);
        let moved = if self.claims.open.contains_key(&id) {
            let offset = u64::from(chunk) * CHUNK_BYTES;
            let len = CHUNK_BYTES.min(local.len - offset);
            let local = Region { addr: local.addr.offset(offset), len };
            let remote = Remote { key: remote.key, offset: remote.offset + offset };
            self.copy_between((who, peer), local, remote, is_write)
        } else {
            // Who wants no bytes does not wait for the chunk without any.
            assert_eq!(local.len, 0, "nobody closes it while bytes are copied");
            Ok(())
        };
        let share = &mut self.claims.shares[at];
        share.failure = moved.err();
        share.own += 1;
        let side = share.side();
        if let Some(open) = self.claims.open.get(&id) {
            open.claims.account(id, side, count, moved.is_ok());
        }
    }

    fn copy_between(
        &mut self,
        pair: (usize, usize),
        local: Region,
        remote: Remote,
        is_write: bool,
    ) -> Result<(), RailError> {
        let forbid = self.random.percent(self.mode.forbidden_percent);
        if forbid || self.unreadable.contains(&pair) {
            self.unreadable.insert(pair);
            return Err(RailError::Forbidden);
        }
        let (who, peer) = pair;
        let remote =
            Region { addr: self.exposed(who, peer, remote, local.len, is_write)?, len: local.len };
        let (from, source, to, target) = match is_write {
            false => (peer, remote, who, local),
            true => (who, local, peer, remote),
        };
        let payloads = self.mode.payloads;
        let whole = move_bytes(&mut self.processes, payloads, from, source, to, target);
        if whole { Ok(()) } else { Err(RailError::Fault) }
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
