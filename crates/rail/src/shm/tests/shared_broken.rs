//! Transfers that two sides copy, when one of them cannot, dies, or does not
//! keep to the rules.

use super::super::chunk_claims::parts;
use super::super::segment::Segment;
use super::super::{BulkKind, Config, Shm};
use super::child::{Child, OFFERED_BYTES};
use super::closing::attach;
use super::reads::reads_work;
use super::shared::{Both, ask};
use super::{
    Noise, PATIENCE, Recorder, addr_of, at, open, poll, poll_until, put, region_of, settle,
};
use crate::shm::segment::CHUNK_CLAIMS_MAX;
use crate::shm::watch::Watch;
use sluice_link::chunk_claims::{Settled, Side, chunk_bytes, chunks};
use sluice_link::{
    ClaimsStart, PeerError, RailError, Remote, RemoteMemory, SharedCopy, Token, Transport,
};
use sluice_wire::{Addr, Credits, PacketSeq, PeerId, Region};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

const LEN: usize = 2 << 20;
/// Where nothing is mapped.
const NOWHERE: Addr = Addr(16);

#[test]
fn a_writer_that_cannot_read_its_own_memory_breaks_it() {
    if !reads_work() {
        return;
    }
    let mut both = Both::new(LEN);
    let claims = both.open();
    let nothing = Region { addr: NOWHERE, len: LEN as u64 };
    let to = addr_of(&mut both.target);
    both.b.write_shared(both.to_a, claims, nothing, at(to), Token(1));
    assert_eq!(both.end_b(), Err(RailError::Fault));
    both.read(claims, 2);
    assert_eq!(both.end_a(), Err(RailError::Shared));
    both.write(claims, 3);
    assert_eq!(both.end_b(), Ok(()), "nothing is left to be taken");
    assert!(!both.b.was_written_alone(Some(both.to_a), claims));
    assert!(!both.a.was_written_alone(None, claims));
    assert_eq!((both.a.stats().reads_failed, both.b.stats().writes_failed), (1, 1));
    assert_eq!(both.a.stats().read_bytes, 0);
    both.a.close_claims(claims);
    assert_eq!(both.a.own_claims.free(), usize::from(CHUNK_CLAIMS_MAX));
}

#[test]
fn a_reader_that_cannot_write_its_own_memory_breaks_it() {
    if !reads_work() {
        return;
    }
    let mut both = Both::new(LEN);
    let ends = [(NOWHERE, RailError::Fault), (Addr(u64::MAX - 5), RailError::Fault)];
    for (addr, why) in ends {
        let claims = both.open();
        let to = Region { addr, len: LEN as u64 };
        both.a.read_shared(both.to_b, claims, at(region_of(&both.source).addr), to, Token(1));
        assert_eq!(both.end_a(), Err(why));
        both.write(claims, 2);
        assert_eq!(both.end_b(), Ok(()), "nothing is left to be taken");
        assert!(!both.b.was_written_alone(Some(both.to_a), claims));
        assert_eq!(both.b.stats().written_bytes, 0);
        both.a.close_claims(claims);
    }
}

/// Whichever side fails, the other one's chunk is waited for: its bytes land in
/// the reader's memory.
#[test]
fn a_broken_transfer_ends_after_the_last_chunk_under_way() {
    if !reads_work() {
        return;
    }
    let mut both = Both::new(LEN);
    let count = chunks(LEN as u64);
    let whole = Region { addr: addr_of(&mut both.target), len: LEN as u64 };
    let nowhere = Region { addr: NOWHERE, len: LEN as u64 };
    let ends = [
        (nowhere, true, Err(RailError::Fault)),
        (nowhere, false, Err(RailError::Fault)),
        (whole, false, Err(RailError::Shared)),
        (whole, true, Ok(())),
    ];
    for (to, copied, end) in ends {
        let claims = both.open();
        let taken = both.b.line_of(both.to_a, claims).unwrap();
        assert_eq!(taken.0.take(taken.1, Side::Peer, count), Some(count - 1));
        both.a.read_shared(both.to_b, claims, at(region_of(&both.source).addr), to, Token(1));
        for _ in 0..1000 {
            poll(&mut both.a, &mut both.at_a);
            assert_eq!(both.at_a.reads, []);
        }
        let (line, generation) = both.b.line_of(both.to_a, claims).unwrap();
        line.account(generation, Side::Peer, count, copied);
        assert_eq!(both.end_a(), end);
        both.a.close_claims(claims);
    }
}

#[test]
fn who_may_not_write_says_so_in_the_claims() {
    if !reads_work() {
        return;
    }
    let mut a = open();
    let config = Config { bulk: BulkKind::Ring, ..Config::default() };
    let mut b = Shm::open(config).unwrap();
    let (to_b, to_a) = (a.peer(&b.address()).unwrap(), b.peer(&a.address()).unwrap());
    a.connect(to_b).unwrap();
    b.connect(to_a).unwrap();
    let (source, mut target) = (vec![1; 64 << 10], vec![0; 64 << 10]);
    let to = Region { addr: addr_of(&mut target), len: 64 << 10 };
    let (mut at_a, mut at_b) = (Recorder::default(), Recorder::default());
    let claims = a.open_claims(to_b, ClaimsStart::Free).unwrap();
    assert!(!b.caps(to_a).write && b.use_claims(to_a, claims));
    b.write_shared(to_a, claims, region_of(&source), at(to.addr), Token(1));
    poll_until(&mut b, &mut at_b, "the writer's end", |_, at| !at.reads.is_empty());
    assert_eq!(at_b.reads, [(Token(1), Err(RailError::Forbidden))]);
    a.read_shared(to_b, claims, at(region_of(&source).addr), to, Token(2));
    poll_until(&mut a, &mut at_a, "the reader's end", |_, at| !at.reads.is_empty());
    assert_eq!(at_a.reads, [(Token(2), Err(RailError::Shared))]);
    assert_eq!(std::hint::black_box(target), vec![0; 64 << 10]);
}

/// The writer's rail ends while the reader waits for its chunk.
#[test]
fn the_end_of_the_writer_ends_the_waiting() {
    if !reads_work() {
        return;
    }
    let mut both = Both::new(LEN);
    let claims = both.open();
    let (line, generation) = both.b.line_of(both.to_a, claims).unwrap();
    assert!(line.take(generation, Side::Peer, chunks(LEN as u64)).is_some());
    both.read(claims, 1);
    let late = both.open();
    let Both { mut a, to_b, mut at_a, b, source, mut target, .. } = both;
    while a.transfers.aside() == 0 {
        poll(&mut a, &mut at_a);
    }
    drop(b);
    poll_until(&mut a, &mut at_a, "its end", |_, at| {
        assert!(at.gone.is_empty() || !at.reads.is_empty());
        !at.gone.is_empty()
    });
    assert_eq!(at_a.reads, [(Token(1), Err(RailError::PeerGone))]);
    assert_eq!(at_a.gone, [(to_b, PeerError::Dead)]);
    a.close_claims(claims);
    // One that begins now has nobody to wait for.
    let to = Region { addr: addr_of(&mut target), len: LEN as u64 };
    a.read_shared(to_b, late, at(region_of(&source).addr), to, Token(2));
    poll_until(&mut a, &mut at_a, "the late one", |_, at| at.reads.len() == 2);
    assert_eq!(at_a.reads[1], (Token(2), Err(RailError::PeerGone)));
    a.close_claims(late);
    assert_eq!(a.open_claims(to_b, ClaimsStart::Used), None);
    assert_eq!(a.own_claims.free(), usize::from(CHUNK_CLAIMS_MAX));
}

/// The reader's rail ends in the middle.
#[test]
fn the_end_of_the_reader_ends_the_writing() {
    if !reads_work() {
        return;
    }
    let mut both = Both::new(16 << 20);
    let claims = both.open();
    both.write(claims, 1);
    poll(&mut both.b, &mut both.at_b);
    assert_eq!(both.at_b.reads, []);
    let Both { a, mut b, to_a, mut at_b, .. } = both;
    drop(a);
    poll_until(&mut b, &mut at_b, "its end", |_, at| !at.gone.is_empty());
    assert_eq!(at_b.reads, [(Token(1), Err(RailError::PeerGone))]);
    assert!(b.stats().written_bytes < 16 << 20);
    assert!(b.are_claims_closed(to_a, claims) && !b.was_written_alone(Some(to_a), claims));
}

/// A process killed while it holds a chunk, whichever one it is.
#[test]
fn a_writer_killed_in_the_middle_stops_nobody() {
    if !reads_work() {
        return;
    }
    let count = chunks(OFFERED_BYTES as u64);
    for silent_at in [0, 1, count - 1] {
        let mut shm = open();
        let mut machine = Recorder::default();
        let mut child = Child::run("share", &shm, silent_at.into(), None);
        poll_until(&mut shm, &mut machine, "an offer", |_, at| !at.packets.is_empty());
        let (from, rts) = (machine.packets[0].from, machine.packets[0].put().rts.unwrap());
        shm.connect(from).unwrap();
        let mut target = vec![0; OFFERED_BYTES];
        let claims = shm.open_claims(from, ClaimsStart::Used).unwrap();
        ask(&mut shm, from, claims, &mut target);
        poll_until(&mut shm, &mut machine, "its silence", |_, at| at.packets.len() == 2);
        let to = Region { addr: addr_of(&mut target), len: OFFERED_BYTES as u64 };
        shm.read_shared(from, claims, Remote::whole(rts.from), to, Token(1));
        for _ in 0..10_000 {
            poll(&mut shm, &mut machine);
        }
        assert_eq!(machine.reads, [], "it may still write");
        child.kill();
        poll_until(&mut shm, &mut machine, "its end", |_, at| !at.gone.is_empty());
        assert_eq!(machine.reads, [(Token(1), Err(RailError::PeerGone))]);
        let left = u64::from(silent_at) * chunk_bytes(OFFERED_BYTES as u64);
        assert!(shm.stats().read_bytes <= left);
        shm.close_claims(claims);
        assert_eq!(shm.own_claims.free(), usize::from(CHUNK_CLAIMS_MAX));
    }
}

/// Killed wherever it happens to be.
#[test]
fn a_writer_killed_at_any_time_stops_nobody() {
    if !reads_work() {
        return;
    }
    for round in 0..chunks(OFFERED_BYTES as u64) {
        let mut shm = open();
        let mut machine = Recorder::default();
        let mut child = Child::run("share", &shm, -1, None);
        poll_until(&mut shm, &mut machine, "an offer", |_, at| !at.packets.is_empty());
        let (from, rts) = (machine.packets[0].from, machine.packets[0].put().rts.unwrap());
        shm.connect(from).unwrap();
        let mut target = vec![0; OFFERED_BYTES];
        let claims = shm.open_claims(from, ClaimsStart::Used).unwrap();
        ask(&mut shm, from, claims, &mut target);
        // Until so many chunks are taken, then it is killed.
        let (line, generation) = shm.own_line(claims).unwrap();
        let begin = Instant::now();
        while line.settled(generation, round + 1, 0) == Settled::Left {
            assert!(begin.elapsed() < PATIENCE);
        }
        child.kill();
        let to = Region { addr: addr_of(&mut target), len: OFFERED_BYTES as u64 };
        shm.read_shared(from, claims, Remote::whole(rts.from), to, Token(1));
        poll_until(&mut shm, &mut machine, "its end", |_, at| !at.gone.is_empty());
        let [(_, end)] = machine.reads[..] else { panic!("one end") };
        // What it had finished is whole.
        if end.is_ok() {
            assert!(shm.was_written_alone(None, claims));
            assert!(std::hint::black_box(target) == Noise(1).bytes(OFFERED_BYTES));
        } else {
            assert_eq!(end, Err(RailError::PeerGone));
        }
    }
}

/// A peer that was given up may still write where its chunk claims are.
#[test]
fn claims_of_a_peer_that_is_given_up_are_kept_until_its_end() {
    if !reads_work() {
        return;
    }
    let all = usize::from(CHUNK_CLAIMS_MAX);
    let mut both = Both::new(LEN);
    let claims = both.open();
    let free = both.a.open_claims(both.to_b, ClaimsStart::Free).unwrap();
    let (line, generation) = both.b.line_of(both.to_a, claims).unwrap();
    assert!(line.take(generation, Side::Peer, chunks(LEN as u64)).is_some());
    both.read(claims, 1);
    let head = put(2, 0).emit(PacketSeq(0), Credits::default(), u32::MAX);
    both.b.transmit(both.to_a, &head, Region::EMPTY, Token(0));
    settle(&mut both.a, &mut both.at_a);
    assert_eq!(both.at_a.gone, [(both.to_b, PeerError::Protocol)]);
    assert_eq!(both.at_a.reads, [(Token(1), Err(RailError::PeerGone))]);
    both.a.close_claims(claims);
    assert!(both.a.revoke_claims(free));
    assert_eq!(both.a.own_claims.free(), all - 2);
    // It learns of it and closes its entry, and only then are they free.
    settle(&mut both.b, &mut both.at_b);
    settle(&mut both.a, &mut both.at_a);
    assert_eq!(both.a.own_claims.free(), all);
}

/// The word that `noise` writes over chunk claims: anything, or what a transfer of a
/// few chunks might look like.
fn scribble(segment: &Segment, noise: &mut Noise, place: u16) {
    assert!(place < CHUNK_CLAIMS_MAX);
    let word = segment.word_at(Segment::claims_line_offset(place));
    let seen = word.load(Ordering::Relaxed);
    let value = match noise.below(4) {
        0 => noise.next(),
        1 => seen ^ 1 << noise.below(64),
        2 => seen & !0x3_ffff_ffff | noise.below(4) << 32 | noise.below(9) << 16 | noise.below(9),
        _ => seen & !0x3_ffff_ffff,
    };
    word.store(value, Ordering::Relaxed);
}

/// Whatever is written into the table while a transfer runs, nothing is copied
/// beside it, polls return, and the next transfers go on.
#[test]
fn scribbling_over_the_table_spoils_transfers_and_nothing_else() {
    if !reads_work() {
        return;
    }
    const ROUNDS: u64 = 300;
    const EDGE: usize = 4096;
    let stop = AtomicBool::new(false);
    let mut ends = [0; 2];
    let mut both = Both::new(0);
    let segment = attach(&both.a);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut noise = Noise(1);
            while !stop.load(Ordering::Relaxed) {
                let place = noise.below(u64::from(CHUNK_CLAIMS_MAX)) as u16;
                scribble(&segment, &mut noise, place);
            }
        });
        let mut noise = Noise(2);
        for round in 0..ROUNDS {
            let len = noise.below(2 << 20);
            let source = noise.bytes(len as usize);
            let mut target = vec![0xaa; len as usize + 2 * EDGE];
            let Some(claims) = both.a.open_claims(both.to_b, ClaimsStart::Used) else { break };
            let place = parts(claims).unwrap().0;
            let before = (both.a.stats().read_bytes, both.b.stats().written_bytes);
            let to = Region { addr: addr_of(&mut target).offset(EDGE as u64), len };
            both.a.read_shared(both.to_b, claims, at(region_of(&source).addr), to, Token(round));
            both.b.write_shared(both.to_a, claims, region_of(&source), at(to.addr), Token(round));
            // A transfer that waits for chunks that nobody took would wait as long
            // as its peer lives; the scribbling wakes it.
            for _ in 0.. {
                scribble(&both.a.segment, &mut noise, place);
                poll(&mut both.a, &mut both.at_a);
                scribble(&both.a.segment, &mut noise, place);
                poll(&mut both.b, &mut both.at_b);
                if !both.at_a.reads.is_empty() && !both.at_b.reads.is_empty() {
                    break;
                }
            }
            // No side copies more chunks than there are.
            let most = u64::from(chunks(len)) * chunk_bytes(len);
            assert!(both.a.stats().read_bytes - before.0 <= most);
            assert!(both.b.stats().written_bytes - before.1 <= most);
            let end = both.at_a.reads.remove(0).1;
            both.at_b.reads.clear();
            assert!(matches!(end, Ok(()) | Err(RailError::Shared)), "{end:?}");
            ends[usize::from(end.is_ok())] += 1;
            both.a.close_claims(claims);
            let target = std::hint::black_box(target);
            assert!(target[..EDGE].iter().all(|&byte| byte == 0xaa));
            assert!(target[EDGE + len as usize..].iter().all(|&byte| byte == 0xaa));
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert!(ends[0] > 0, "some are spoiled: {ends:?}");
    assert!(both.a.stats().violations > 0);
    // The places that were scribbled over are free again once their peer ends.
    let Both { mut a, b, mut at_a, .. } = both;
    drop(b);
    poll_until(&mut a, &mut at_a, "its end", |_, at| !at.gone.is_empty());
    assert_eq!(a.own_claims.free(), usize::from(CHUNK_CLAIMS_MAX));
    let mut both = Both::new(LEN);
    let claims = both.open();
    both.write(claims, 1);
    both.read(claims, 2);
    assert_eq!((both.end_a(), both.end_b()), (Ok(()), Ok(())));
    both.check();
}

/// Lets a peer have ended, though its memory can be read: its pid is another one's
/// by now.
fn end_unseen(rail: &mut Shm, peer: PeerId) {
    let known = rail.peers.get_mut(peer).unwrap();
    known.card.as_mut().unwrap().start_time = 0;
    known.watch = Some(Box::new(Watch::Stat));
}

#[test]
fn bytes_of_one_that_has_ended_are_not_believed() {
    if !reads_work() {
        return;
    }
    let mut both = Both::new(LEN);
    let claims = both.open();
    end_unseen(&mut both.a, both.to_b);
    both.read(claims, 1);
    assert_eq!(both.end_a(), Err(RailError::PeerGone));
    assert_eq!(both.at_a.gone, [], "nobody has told of it");
}

/// What was read before the peer ended is the peer's, and so is what it wrote.
#[test]
fn the_end_of_one_after_all_is_copied_changes_nothing() {
    if !reads_work() {
        return;
    }
    let mut both = Both::new(LEN);
    let claims = both.open();
    let count = chunks(LEN as u64);
    let (line, generation) = both.b.line_of(both.to_a, claims).unwrap();
    assert_eq!(line.take(generation, Side::Peer, count), Some(count - 1));
    both.read(claims, 1);
    let others = LEN as u64 - chunk_bytes(LEN as u64);
    while both.a.stats().read_bytes < others {
        poll(&mut both.a, &mut both.at_a);
    }
    end_unseen(&mut both.a, both.to_b);
    let last = LEN - chunk_bytes(LEN as u64) as usize;
    both.target[last..].copy_from_slice(&both.source[last..]);
    let (line, generation) = both.b.line_of(both.to_a, claims).unwrap();
    line.account(generation, Side::Peer, count, true);
    assert_eq!(both.end_a(), Ok(()));
    both.check();
}
