//! Transfers that two sides copy.

use super::super::{SLEEP_NS_MAX, Shm};
use super::child::{Child, OFFERED_BYTES};
use super::closing::pair;
use super::reads::reads_work;
use super::{Noise, Recorder, addr_of, at, open, poll, poll_until, put, region_of, send, settle};
use crate::shm::segment::CHUNK_CLAIMS_MAX;
use sluice_link::chunk_claims::{Side, chunk_bytes, chunks};
use sluice_link::{
    ClaimsId, ClaimsStart, RailError, Remote, RemoteMemory, SharedCopy, Token, Transport,
};
use sluice_wire::{PeerId, Region};
use std::num::NonZeroU32;

/// A receiver and a sender in one process, their machines, and a message.
pub(super) struct Both {
    pub(super) a: Shm,
    pub(super) to_b: PeerId,
    pub(super) at_a: Recorder,
    pub(super) b: Shm,
    pub(super) to_a: PeerId,
    pub(super) at_b: Recorder,
    pub(super) source: Vec<u8>,
    pub(super) target: Vec<u8>,
}

impl Both {
    pub(super) fn new(len: usize) -> Both {
        let (a, to_b, b, to_a) = pair();
        let mut both = Both {
            a,
            to_b,
            at_a: Recorder::default(),
            b,
            to_a,
            at_b: Recorder::default(),
            source: Noise(len as u64).bytes(len),
            target: vec![0; len],
        };
        settle(&mut both.a, &mut both.at_a);
        settle(&mut both.b, &mut both.at_b);
        both
    }

    pub(super) fn open(&mut self) -> ClaimsId {
        self.a.open_claims(self.to_b, ClaimsStart::Used).unwrap()
    }

    /// The receiver's side.
    pub(super) fn read(&mut self, claims: ClaimsId, token: u64) {
        let len = self.target.len() as u64;
        let to = Region { addr: addr_of(&mut self.target), len };
        let from = region_of(&self.source).addr;
        self.a.read_shared(self.to_b, claims, at(from), to, Token(token));
    }

    /// The sender's side.
    pub(super) fn write(&mut self, claims: ClaimsId, token: u64) {
        let to = addr_of(&mut self.target);
        self.b.write_shared(self.to_a, claims, region_of(&self.source), at(to), Token(token));
    }

    /// Polls the receiver until its transfer has ended.
    pub(super) fn end_a(&mut self) -> Result<(), RailError> {
        poll_until(&mut self.a, &mut self.at_a, "the reader's end", |_, at| !at.reads.is_empty());
        self.at_a.reads.remove(0).1
    }

    /// Polls the sender until its transfer has ended.
    pub(super) fn end_b(&mut self) -> Result<(), RailError> {
        poll_until(&mut self.b, &mut self.at_b, "the writer's end", |_, at| !at.reads.is_empty());
        self.at_b.reads.remove(0).1
    }

    pub(super) fn check(&mut self) {
        assert!(std::hint::black_box(&self.target) == &self.source);
        self.target.fill(0);
    }

    /// Whether the sender copied all, as each side sees it.
    fn alone(&mut self, claims: ClaimsId) -> bool {
        let at_b = self.b.was_written_alone(Some(self.to_a), claims);
        assert_eq!(self.a.was_written_alone(None, claims), at_b);
        at_b
    }
}

#[test]
fn the_reader_copies_alone() {
    if !reads_work() {
        return;
    }
    let mut both = Both::new(3_000_001);
    let claims = both.open();
    both.read(claims, 1);
    assert_eq!(both.end_a(), Ok(()));
    both.check();
    // The writer comes too late, before and after the claims are closed.
    both.write(claims, 2);
    assert_eq!((both.end_b(), both.alone(claims)), (Ok(()), false));
    assert!(!both.b.are_claims_closed(both.to_a, claims));
    both.a.close_claims(claims);
    assert!(both.b.are_claims_closed(both.to_a, claims));
    both.write(claims, 3);
    assert_eq!((both.end_b(), both.alone(claims)), (Ok(()), false));
    let (at_a, at_b) = (both.a.stats(), both.b.stats());
    assert_eq!((at_a.read_bytes, at_a.reads_done, at_a.reads_failed), (3_000_001, 1, 0));
    assert_eq!((at_b.written_bytes, at_b.writes_done, at_b.writes_failed), (0, 2, 0));
}

#[test]
fn the_writer_copies_alone() {
    if !reads_work() {
        return;
    }
    let mut both = Both::new(3_000_001);
    let claims = both.open();
    both.write(claims, 1);
    assert_eq!(both.end_b(), Ok(()));
    assert!(both.b.was_written_alone(Some(both.to_a), claims));
    both.check();
    both.read(claims, 2);
    assert_eq!((both.end_a(), both.alone(claims)), (Ok(()), true));
    both.a.close_claims(claims);
    assert!(both.alone(claims), "a closed one still says so");
    // Its place becomes another one's. The writer knows by itself.
    for _ in 0..CHUNK_CLAIMS_MAX {
        let other = both.open();
        both.a.close_claims(other);
    }
    assert!(both.b.was_written_alone(Some(both.to_a), claims));
    assert!(both.b.are_claims_closed(both.to_a, claims));
    assert_eq!((both.a.stats().read_bytes, both.b.stats().written_bytes), (0, 3_000_001));
}

#[test]
fn a_transfer_that_is_written_needs_no_read() {
    if !reads_work() {
        return;
    }
    let mut both = Both::new(3_000_001);
    let len = both.target.len() as u64;
    let claims = both.open();
    assert!(!both.a.is_written(claims, len), "nobody has begun");
    both.write(claims, 1);
    assert!(!both.a.is_written(claims, len), "no chunk is taken");
    assert_eq!(both.end_b(), Ok(()));
    assert!(both.a.is_written(claims, len));
    assert!(both.alone(claims));
    both.check();
    both.a.close_claims(claims);
    assert!(!both.a.is_written(claims, len), "closed");
    assert_eq!(both.a.stats().reads_done, 1);

    // The reader has copied some itself: it has to see it through.
    let claims = both.open();
    both.read(claims, 2);
    assert_eq!(both.end_a(), Ok(()));
    assert!(!both.a.is_written(claims, len));
    assert!(!both.alone(claims));
}

#[test]
fn an_empty_transfer_ends_on_both_sides() {
    if !reads_work() {
        return;
    }
    for writer_first in [false, true] {
        let mut both = Both::new(0);
        let claims = both.open();
        both.read(claims, 1);
        both.write(claims, 2);
        let ends = if writer_first {
            let end = both.end_b();
            (both.end_a(), end)
        } else {
            (both.end_a(), both.end_b())
        };
        assert_eq!((ends, both.alone(claims)), ((Ok(()), Ok(())), writer_first));
    }
}

/// Lengths around the chunks' ends, and polls in any order.
#[test]
fn transfers_of_all_sizes_are_whole() {
    if !reads_work() {
        return;
    }
    const ROUNDS: u64 = 400;
    let mut noise = Noise(5);
    let (mut shared, mut alone) = (0, 0);
    let mut both = Both::new(0);
    for round in 0..ROUNDS {
        let near = [0, 1, 4096, 32 << 10, 64 << 10, 256 << 10, 2 << 20, 4 << 20];
        let near = near[noise.below(8) as usize] * (1 + noise.below(3));
        let len = (near + noise.below(3)).saturating_sub(1) as usize;
        both.source = noise.bytes(len);
        both.target = vec![0; len];
        let claims = both.open();
        // Who comes first, and who comes at all.
        let (reads, writes) = (noise.below(4), noise.below(4));
        let before = (both.a.stats().read_bytes, both.b.stats().written_bytes);
        for turn in 0.. {
            if turn == reads {
                both.read(claims, round);
            }
            if turn == writes {
                both.write(claims, round);
            }
            match noise.below(2) {
                0 => poll(&mut both.a, &mut both.at_a),
                _ => poll(&mut both.b, &mut both.at_b),
            };
            if both.at_a.reads.len() + both.at_b.reads.len() == 2 {
                break;
            }
            assert!(turn < 1000, "round {round} of {len} bytes does not end");
        }
        assert_eq!((both.end_a(), both.end_b()), (Ok(()), Ok(())));
        let after = (both.a.stats().read_bytes, both.b.stats().written_bytes);
        let (read, written) = (after.0 - before.0, after.1 - before.1);
        assert_eq!(read + written, len as u64, "each byte once");
        if len > 0 {
            assert_eq!(both.alone(claims), read == 0);
        }
        shared += u32::from(read > 0 && written > 0);
        alone += u32::from(both.alone(claims));
        both.a.close_claims(claims);
        both.check();
    }
    assert!(shared > 20 && alone > 20, "{shared} {alone}");
    assert_eq!(
        (both.a.stats().violations, both.a.own_claims.free()),
        (0, usize::from(CHUNK_CLAIMS_MAX))
    );
}

/// Each side in a thread of its own, so that they meet anywhere.
#[test]
fn two_threads_copy_at_once() {
    if !reads_work() {
        return;
    }
    const ROUNDS: u64 = 100;
    let mut noise = Noise(8);
    let mut both = Both::new(0);
    for round in 0..ROUNDS {
        let len = noise.below(6 << 20) as usize;
        both.source = noise.bytes(len);
        both.target = vec![0; len];
        let claims = both.open();
        both.read(claims, round);
        both.write(claims, round);
        let Both { a, at_a, b, at_b, .. } = &mut both;
        std::thread::scope(|scope| {
            scope.spawn(|| {
                poll_until(a, at_a, "the reader's end", |_, at| !at.reads.is_empty());
            });
            scope.spawn(|| {
                poll_until(b, at_b, "the writer's end", |_, at| !at.reads.is_empty());
            });
        });
        assert_eq!((both.end_a(), both.end_b()), (Ok(()), Ok(())));
        let _ = both.alone(claims);
        both.a.close_claims(claims);
        both.check();
    }
}

/// Asks a process to help with `len` of the bytes that it offered.
pub(super) fn ask(shm: &mut Shm, to: PeerId, claims: ClaimsId, target: &mut [u8]) {
    let (at, len) = (addr_of(target).0, target.len() as u64);
    send(shm, to, put(at, u64::from(claims.0.get()) | len << 32), &[]);
}

#[test]
fn two_processes_copy_at_once() {
    if !reads_work() {
        return;
    }
    const ROUNDS: u64 = 100;
    let mut shm = open();
    let mut machine = Recorder::default();
    let _child = Child::run("share", &shm, -1, None);
    poll_until(&mut shm, &mut machine, "an offer", |_, machine| !machine.packets.is_empty());
    let (from, rts) = (machine.packets[0].from, machine.packets[0].put().rts.unwrap());
    machine.packets.clear();
    shm.connect(from).unwrap();
    let mut noise = Noise(4);
    for round in 0..ROUNDS {
        let len = noise.below(OFFERED_BYTES as u64) as usize;
        let mut target = vec![0; len];
        let claims = shm.open_claims(from, ClaimsStart::Used).unwrap();
        ask(&mut shm, from, claims, &mut target);
        let to = Region { addr: addr_of(&mut target), len: len as u64 };
        let both = |machine: &Recorder| machine.reads.len() + machine.packets.len() == 2;
        // One of two times the writer has all the time it wants.
        if round % 2 == 0 {
            poll_until(&mut shm, &mut machine, "its part", |_, at| !at.packets.is_empty());
        }
        shm.read_shared(from, claims, Remote::whole(rts.from), to, Token(round));
        poll_until(&mut shm, &mut machine, "both parts", |_, machine| both(machine));
        assert_eq!(machine.reads, [(Token(round), Ok(()))]);
        let alone = machine.packets[0].put().match_bits.0 == 1;
        assert_eq!(shm.was_written_alone(None, claims), alone);
        assert!(alone || round % 2 == 1);
        shm.close_claims(claims);
        assert!(std::hint::black_box(target) == Noise(1).bytes(OFFERED_BYTES)[..len]);
        (machine.reads, machine.packets) = (vec![], vec![]);
    }
    send(&mut shm, from, put(0, 0), &[]);
    poll_until(&mut shm, &mut machine, "its end", |_, machine| !machine.gone.is_empty());
}

#[test]
fn one_of_two_uses_free_claims() {
    let mut both = Both::new(0);
    let (to_b, to_a) = (both.to_b, both.to_a);
    let free = |both: &mut Both| both.a.open_claims(to_b, ClaimsStart::Free).unwrap();
    let used = free(&mut both);
    assert!(both.b.use_claims(to_a, used) && !both.b.use_claims(to_a, used));
    assert!(!both.a.revoke_claims(used) && !both.b.are_claims_closed(to_a, used));
    let revoked = free(&mut both);
    assert!(both.a.revoke_claims(revoked) && !both.a.revoke_claims(revoked));
    assert!(!both.b.use_claims(to_a, revoked) && both.b.are_claims_closed(to_a, revoked));
    both.a.close_claims(used);
    both.a.close_claims(used);
    assert!(!both.b.use_claims(to_a, used));
    assert_eq!(both.a.own_claims.free(), usize::from(CHUNK_CLAIMS_MAX));
}

#[test]
fn names_of_no_claims_lead_nowhere() {
    let mut both = Both::new(100);
    let open = both.open();
    let words = [1, 0xff, 0x100 | u32::from(CHUNK_CLAIMS_MAX - 1), open.0.get() + 0x100, u32::MAX];
    for word in words {
        let claims = ClaimsId(NonZeroU32::new(word).unwrap());
        assert!(!both.b.use_claims(both.to_a, claims) && !both.a.revoke_claims(claims));
        assert!(both.b.are_claims_closed(both.to_a, claims));
        assert!(!both.b.was_written_alone(Some(both.to_a), claims));
        assert!(!both.a.was_written_alone(None, claims));
        both.write(claims, 1);
        both.read(claims, 2);
        assert_eq!((both.end_b(), both.end_a()), (Ok(()), Err(RailError::Shared)));
        both.a.close_claims(claims);
    }
    let nobody = PeerId(77);
    assert!(!both.b.use_claims(nobody, open) && both.b.are_claims_closed(nobody, open));
    assert_eq!(both.a.open_claims(nobody, ClaimsStart::Free), None);
    both.b.write_shared(nobody, open, Region::EMPTY, at(addr_of(&mut both.target)), Token(1));
    assert_eq!(both.end_b(), Err(RailError::PeerGone));
}

#[test]
fn there_are_only_so_many_chunk_claims() {
    let mut both = Both::new(0);
    let all: Vec<ClaimsId> =
        std::iter::from_fn(|| both.a.open_claims(both.to_b, ClaimsStart::Free)).collect();
    assert_eq!(all.len(), usize::from(CHUNK_CLAIMS_MAX));
    for claims in all {
        assert!(both.a.revoke_claims(claims));
    }
    assert!(both.a.open_claims(both.to_b, ClaimsStart::Free).is_some());
}

/// Waiting for the last chunk of the other side holds up neither the mailbox nor
/// other transfers.
#[test]
fn who_waits_looks_after_the_rest() {
    if !reads_work() {
        return;
    }
    const PACKETS: u64 = 100;
    let mut both = Both::new(1 << 20);
    let claims = both.open();
    let count = chunks(1 << 20);
    let (line, generation) = both.b.line_of(both.to_a, claims).unwrap();
    assert_eq!(line.take(generation, Side::Peer, count), Some(count - 1));
    both.read(claims, 1);
    for n in 0..PACKETS {
        send(&mut both.b, both.to_a, put(n, 0), &[1; 100]);
        assert!(poll(&mut both.a, &mut both.at_a) > 0);
        assert_eq!((both.at_a.reads.len(), both.a.transfers.aside()), (0, 1));
    }
    let mut small = [0; 100];
    let from = region_of(&both.source).addr;
    let to = Region { addr: addr_of(&mut small), len: 100 };
    both.a.read_remote(both.to_b, at(from), to, Token(2));
    assert_eq!(both.end_a(), Ok(()));
    assert_eq!(std::hint::black_box(small)[..], both.source[..100]);
    assert!(both.a.has_work(), "nobody sleeps meanwhile");
    assert!(both.a.is_busy());
    let nap_ns = both.a.rest_ns();
    assert!((1..SLEEP_NS_MAX).contains(&nap_ns), "but for a nap: {nap_ns}");
    // The other side's chunk.
    let last = (1 << 20) - chunk_bytes(1 << 20) as usize;
    both.target[last..].copy_from_slice(&both.source[last..]);
    let (line, generation) = both.b.line_of(both.to_a, claims).unwrap();
    line.account(generation, Side::Peer, count, true);
    assert_eq!((poll(&mut both.a, &mut both.at_a), both.at_a.reads.len()), (1, 1));
    assert_eq!((both.end_a(), both.a.was_written_alone(None, claims)), (Ok(()), false));
    both.check();
    assert_eq!(both.at_a.packets.len() as u64, PACKETS);
}

#[test]
fn a_writer_leaves_at_once() {
    let mut both = Both::new(1 << 20);
    let claims = both.open();
    assert!(!both.b.leave_shared(Token(1)), "it has not begun");
    both.write(claims, 1);
    assert!(both.b.leave_shared(Token(1)) && !both.b.leave_shared(Token(1)));
    settle(&mut both.b, &mut both.at_b);
    assert_eq!(both.at_b.reads, [], "what was left is not told of");
    let stats = both.b.stats();
    assert_eq!((stats.writes_done, stats.writes_failed, stats.written_bytes), (1, 0, 0));
    // A reader, and a writer that is not shared, stay.
    both.read(claims, 2);
    assert!(!both.a.leave_shared(Token(2)));
    let to = addr_of(&mut both.target);
    both.b.write_remote(both.to_a, region_of(&both.source), at(to), Token(3));
    both.write(claims, 4);
    assert!(!both.b.leave_shared(Token(3)));
    assert!(!both.b.leave_shared(Token(4)), "another has its turn first");
    if reads_work() {
        assert_eq!((both.end_a(), both.end_b(), both.end_b()), (Ok(()), Ok(()), Ok(())));
        assert!(!both.alone(claims));
        both.check();
    }
}
