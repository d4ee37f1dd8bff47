//! Chunks that are handed over.

use super::super::bounce::PAYLOAD_BYTES_MIN;
use super::super::bulk::Turn;
use super::super::handover::Handed;
use super::super::ring::Step;
use super::super::segment::Segment;
use super::super::ways::{Way, Ways};
use super::super::{Shm, looks};
use super::bounce::head_offset;
use super::reads::reads_work;
use super::shared::Both;
use super::{
    Noise, Recorder, addr_of, advance_clock, at, poll, put, region_of, send, settle, stop_clock,
};
use sluice_link::chunk_claims::{ClaimsWord, Side, chunk_bytes, chunks};
use sluice_link::{
    ClaimsId, ClaimsStart, HANDOVER_SLOTS, PeerError, RailError, SharedCopy, Token, Transport,
};
use sluice_wire::{Addr, Nanos, PeerId, Region};
use std::sync::atomic::Ordering;
use std::sync::{Barrier, Mutex};

const LEN: usize = 1_500_001;

/// Two that have heard of each other, so that each knows where the other counts what it reads. Time
/// passes with their polls: who waits some microseconds would give up on a busy machine.
fn acquainted(len: usize) -> Both {
    stop_clock();
    let mut both = Both::new(len);
    send(&mut both.a, both.to_b, put(1, 0), b"here I am");
    send(&mut both.b, both.to_a, put(1, 0), b"here I am");
    settle(&mut both.a, &mut both.at_a);
    settle(&mut both.b, &mut both.at_b);
    if let Some((_, segment)) = both.a.peers.mailbox_and_segment(both.to_b) {
        segment.ways = Ways::only(Way::HandedOver);
    }
    both
}

/// A poll of one, during which the other is seen to be in the library.
fn poll_beside(shm: &mut Shm, machine: &mut Recorder, other: &Shm) {
    looks::note_work(other.segment.look());
    poll(shm, machine);
    other.note_look();
}

impl Both {
    fn poll_a(&mut self) {
        poll_beside(&mut self.a, &mut self.at_a, &self.b);
    }

    fn poll_b(&mut self) {
        poll_beside(&mut self.b, &mut self.at_b, &self.a);
    }

    /// Moves all of a transfer while both are in the library, and looks at what has come.
    fn transfer_beside(&mut self) -> ClaimsId {
        let claims = self.open();
        self.read(claims, 1);
        self.poll_a();
        self.write(claims, 2);
        assert_eq!(self.end_beside(), [Ok(()), Ok(())]);
        self.check();
        claims
    }

    /// Polls both in turn until both have ended.
    fn end_beside(&mut self) -> [Result<(), RailError>; 2] {
        for _ in 0..1_000 {
            if !self.at_a.reads.is_empty() && !self.at_b.reads.is_empty() {
                return [self.at_a.reads.remove(0).1, self.at_b.reads.remove(0).1];
            }
            self.poll_a();
            self.poll_b();
        }
        panic!("they have not ended");
    }
}

#[test]
fn all_chunks_are_handed_over_while_both_are_there() {
    let mut both = acquainted(LEN);
    for round in 1..=3 {
        let claims = both.transfer_beside();
        // Nothing was moved by the system, and both sides know who has moved it.
        let handed = both.b.stats().chunks_handed;
        assert_eq!(handed, round * u64::from(chunks(LEN as u64)));
        assert!(both.b.was_written_alone(Some(both.to_a), claims));
        assert!(both.a.was_written_alone(None, claims));
        both.a.close_claims(claims);
        settle(&mut both.a, &mut both.at_a);
        assert_eq!(both.a.stats().read_bytes, round * LEN as u64);
        assert_eq!(both.b.stats().written_bytes, round * LEN as u64);
    }
    assert_eq!((both.a.stats().violations, both.b.stats().violations), (0, 0));
}

/// Three handed over, so that is known, and then one by the system. Chunks of the four are as ever.
#[test]
fn the_reader_tries_both_ways_and_its_writer_keeps_to_it() {
    if !reads_work() {
        return;
    }
    let mut both = acquainted(LEN);
    let chunks = u64::from(chunks(LEN as u64));
    for (ways, handed) in [
        (Ways::default(), [1, 2, 3, 3]),
        (Ways::only(Way::BySystem), [3; 4]),
        (Ways::only(Way::HandedOver), [4, 5, 6, 7]),
    ] {
        both.a.peers.mailbox_and_segment(both.to_b).unwrap().1.ways = ways;
        for times in handed {
            let claims = both.transfer_beside();
            both.a.close_claims(claims);
            settle(&mut both.a, &mut both.at_a);
            assert_eq!(both.b.stats().chunks_handed, times * chunks);
        }
    }
    assert_eq!((both.a.stats().violations, both.b.stats().violations), (0, 0));
}

/// A last chunk that no buffer is for is written by the system, and the counts of buffers agree.
#[test]
fn a_last_chunk_may_be_short() {
    if !reads_work() {
        return;
    }
    for more in [1, 40, 41, 1023, 1024, 4097] {
        let mut both = acquainted((512 << 10) + more);
        let claims = both.transfer_beside();
        both.a.close_claims(claims);
        let is_handed = more >= PAYLOAD_BYTES_MIN;
        assert_eq!(both.b.stats().chunks_handed, if is_handed { 3 } else { 2 }, "{more}");
        let segment = both.b.peers.get(both.to_a).unwrap().segment.as_ref().unwrap();
        let read = both.b.segment.bounces_read(segment.bounces.entry.unwrap());
        assert_eq!(read.load(Ordering::Relaxed), both.b.stats().bounces_out, "{more}");
    }
}

/// It is handed as many as it has slots for, and the rest is written where it belongs.
#[test]
fn a_reader_that_leaves_keeps_nobody_waiting() {
    if !reads_work() {
        return;
    }
    let mut both = acquainted(LEN);
    let claims = both.open();
    both.read(claims, 1);
    both.poll_a();
    both.write(claims, 2);
    // It seems to be there, and polls no more.
    while both.b.stats().chunks_handed < HANDOVER_SLOTS.into() {
        both.poll_b();
    }
    both.poll_b();
    assert_eq!(both.b.stats().chunks_handed, HANDOVER_SLOTS.into());
    advance_clock(Nanos(1_000_000));
    while both.at_b.reads.is_empty() {
        both.poll_b();
    }
    assert_eq!(both.b.stats().chunks_handed, HANDOVER_SLOTS.into());
    both.source.fill(0);
    assert_eq!(both.end_a(), Ok(()));
    both.source = Noise(LEN as u64).bytes(LEN);
    both.check();
}

#[test]
fn a_writer_that_leaves_keeps_nobody_waiting() {
    if !reads_work() {
        return;
    }
    let mut both = acquainted(LEN);
    let claims = both.open();
    both.read(claims, 1);
    both.poll_a();
    both.write(claims, 2);
    while both.b.stats().chunks_handed == 0 {
        both.poll_b();
    }
    advance_clock(Nanos(1_000_000));
    assert_eq!(both.end_a(), Ok(()));
    both.check();
    assert_eq!(both.a.stats().read_bytes, LEN as u64);
    assert_eq!(both.end_b(), Ok(()));
}

/// What was accounted for is not there before the ring was read, whoever holds that up.
#[test]
fn a_transfer_does_not_end_before_what_was_handed_over_has_come() {
    let mut both = acquainted(LEN);
    let mut third = super::open();
    let to_a = third.peer(&both.a.address()).unwrap();
    third.connect(to_a).unwrap();
    let claims = both.open();
    both.read(claims, 1);
    both.poll_a();
    let (mailbox, _) = third.peers.mailbox_and_segment(to_a).unwrap();
    let first = Handed { claims, chunk: 0, len: 1 }.slot();
    mailbox.writer.write(1, &first, |_, _| {}, |step| step != Step::Reserved);
    both.write(claims, 2);
    while both.at_b.reads.is_empty() {
        advance_clock(Nanos(1_000_000));
        both.poll_b();
    }
    let handed = both.b.stats().chunks_handed;
    assert_eq!(handed, HANDOVER_SLOTS.into());
    for _ in 0..1_000 {
        both.poll_a();
    }
    assert_eq!(both.at_a.reads.len(), 0, "{handed} chunks are behind what the third has reserved");
    // Its end frees the ring.
    drop(third);
    assert_eq!(both.end_a(), Ok(()));
    both.check();
}

/// Nor does one whose claims somebody writes over when all is accounted for.
#[test]
fn a_spoiled_transfer_does_not_end_before_what_was_handed_over_has_come() {
    // As many chunks as there are slots.
    let mut both = acquainted(512 << 10);
    let claims = both.open();
    both.read(claims, 1);
    both.poll_a();
    both.write(claims, 2);
    while both.at_b.reads.is_empty() {
        both.poll_b();
    }
    assert_eq!(both.b.stats().chunks_handed, HANDOVER_SLOTS.into());
    let (line, _) = both.b.line_of(both.to_a, claims).unwrap();
    line.word().store(u64::MAX);
    // A turn before the ring is read.
    let pending = both.a.transfers.next_aside().unwrap();
    let share = pending.share.unwrap();
    assert!(matches!(both.a.turn_shared(pending, share), Turn::Wait(_)));
    both.a.transfers.set_aside(pending);
    assert_eq!(both.end_a(), Ok(()));
    both.check();
    assert_eq!(both.a.stats().violations, 1);
}

/// Nor one whose reader's tail somebody has lowered: the chunks lie before the head, and when they do the
/// tail is where it was.
#[test]
fn chunks_before_the_head_are_not_taken_for_read() {
    let mut both = acquainted(512 << 10);
    // The last packet that was read is another one's: that of the writer is known by its place.
    let mut third = super::open();
    let to_a = third.peer(&both.a.address()).unwrap();
    third.connect(to_a).unwrap();
    send(&mut third, to_a, put(1, 0), b"and I");
    settle(&mut both.a, &mut both.at_a);
    let claims = both.open();
    both.read(claims, 1);
    both.poll_a();
    let tail = both.a.segment.word_at(Segment::tail_offset());
    tail.fetch_sub(HANDOVER_SLOTS.into(), Ordering::Relaxed);
    both.write(claims, 2);
    while both.at_b.reads.is_empty() {
        both.poll_b();
    }
    assert_eq!(both.b.stats().chunks_handed, HANDOVER_SLOTS.into());
    assert_eq!(both.end_a(), Err(RailError::PeerGone));
    settle(&mut both.a, &mut both.at_a);
    assert_eq!(both.at_a.gone, [(both.to_b, PeerError::Damaged)]);
}

/// A chunk that is accounted for and cannot be read is missing, and the transfer fails.
#[test]
fn a_handed_chunk_that_is_cut_fails_its_transfer() {
    let mut both = acquainted(LEN);
    // The first copies are timed, and whole.
    while both.b.own_bounces.portions < 100 {
        let claims = both.open();
        both.read(claims, 1);
        both.poll_a();
        both.write(claims, 2);
        assert_eq!(both.end_beside(), [Ok(()), Ok(())]);
        both.a.close_claims(claims);
    }
    let claims = both.open();
    both.read(claims, 1);
    both.poll_a();
    both.write(claims, 2);
    let before = both.b.own_bounces.portions;
    while both.b.own_bounces.portions == before {
        both.poll_b();
    }
    // Of the last one the count is asked; the others are whole, as another one follows.
    let waiting = both.a.reader.reserved_until() - both.a.reader.head();
    let last = head_offset(&both.a) + (waiting as usize - 1) * 64;
    both.a.segment.word_at(last + 56).fetch_add(1 << 56, Ordering::Relaxed);
    while both.at_a.reads.is_empty() {
        both.poll_a();
        both.poll_b();
    }
    assert_eq!(both.end_a(), Err(RailError::PeerGone));
    settle(&mut both.a, &mut both.at_a);
    assert_eq!(both.at_a.gone, [(both.to_b, PeerError::Damaged)]);
}

/// What comes of a transfer that has ended otherwise is dropped.
#[test]
fn a_handed_chunk_of_no_transfer_is_dropped() {
    let mut both = acquainted(LEN);
    let claims = both.open();
    both.read(claims, 1);
    both.poll_a();
    both.write(claims, 2);
    while both.b.stats().chunks_handed == 0 {
        both.poll_b();
    }
    // As if the transfer had been given up.
    let transfer = both.a.transfers.take_of(both.to_b).unwrap();
    assert_eq!(transfer.token, Token(1));
    both.a.close_claims(claims);
    let before = both.target.clone();
    settle(&mut both.a, &mut both.at_a);
    assert!(std::hint::black_box(&both.target) == &before);
    assert_eq!((both.a.stats().violations, both.at_a.gone.len()), (0, 0));
    // Its buffer is free again, and its slot.
    let entry =
        both.b.peers.get(both.to_a).unwrap().segment.as_ref().unwrap().bounces.entry.unwrap();
    let read = both.b.segment.bounces_read(entry).load(Ordering::Relaxed);
    assert_eq!(read, both.b.stats().bounces_out);
}

#[test]
fn a_chunk_that_nobody_hands_over_ends_its_sender_and_nothing_else() {
    let bad: [fn(Handed) -> Handed; 4] = [
        |handed| Handed { chunk: chunks(LEN as u64), ..handed },
        |handed| Handed { len: handed.len - 1, ..handed },
        // The last one is shorter.
        |handed| Handed { chunk: chunks(LEN as u64) - 1, ..handed },
        |handed| Handed { len: 0, ..handed },
    ];
    for (n, forge) in bad.into_iter().enumerate() {
        let mut both = acquainted(LEN);
        let claims = both.open();
        both.read(claims, 1);
        let handed = Handed { claims, chunk: 0, len: chunk_bytes(LEN as u64) as u32 };
        forged(&mut both, forge(handed));
        settle(&mut both.a, &mut both.at_a);
        assert_eq!(both.at_a.gone, [(both.to_b, PeerError::Protocol)], "{n}");
        assert!(both.target.iter().all(|&byte| byte == 0), "{n}");
    }
    // Claims are open, and nobody has said yet where the bytes go.
    let mut both = acquainted(LEN);
    let claims = both.a.open_claims(both.to_b, ClaimsStart::Free).unwrap();
    forged(&mut both, Handed { claims, chunk: 0, len: chunk_bytes(LEN as u64) as u32 });
    settle(&mut both.a, &mut both.at_a);
    assert_eq!(both.at_a.gone, [(both.to_b, PeerError::Protocol)]);
}

/// Sends such a packet, whatever it says, with the bytes of the source.
fn forged(both: &mut Both, handed: Handed) {
    let mut slot = handed.slot();
    let payload = Region { len: u64::from(handed.len).max(4096), ..region_of(&both.source) };
    assert!(both.b.write_by_buffer(both.to_a, &mut slot, payload, false));
}

/// Words of the claims that somebody else writes delay a transfer and change none of its bytes.
#[test]
fn forged_words_change_no_bytes() {
    if !reads_work() {
        return;
    }
    for side in [Side::Owner, Side::Peer] {
        for will in [true, false] {
            let mut both = acquainted(LEN);
            let claims = both.open();
            both.read(claims, 1);
            both.write(claims, 2);
            for _ in 0..1_000 {
                let (line, generation) = both.b.line_of(both.to_a, claims).unwrap();
                line.say(side, generation, will);
                both.poll_a();
                both.poll_b();
                advance_clock(Nanos(10_000));
            }
            assert_eq!((both.at_a.reads.len(), both.at_b.reads.len()), (1, 1));
            both.check();
        }
    }
}

/// A rail of a thread, and what it calls the other.
struct Threaded {
    shm: Shm,
    peer: PeerId,
    machine: Recorder,
}

impl Threaded {
    fn end(&mut self) -> Result<(), RailError> {
        while self.machine.reads.is_empty() {
            poll(&mut self.shm, &mut self.machine);
        }
        self.machine.reads.remove(0).1
    }

    /// Receives what `written` says of the message of `round`, and checks it.
    fn receive(&mut self, round: u64, meeting: &Meeting) {
        let expected = message(round);
        let mut bytes = vec![0; expected.len()];
        let to = Region { addr: addr_of(&mut bytes), len: bytes.len() as u64 };
        let claims = self.shm.open_claims(self.peer, ClaimsStart::Used).unwrap();
        *meeting.target.lock().unwrap() = Some((claims, to.addr));
        meeting.barrier.wait();
        meeting.barrier.wait();
        let from = meeting.source.lock().unwrap().take().unwrap();
        self.shm.read_shared(self.peer, claims, at(from), to, Token(1));
        assert_eq!(self.end(), Ok(()));
        assert!(std::hint::black_box(&bytes) == &expected, "round {round}");
        self.shm.close_claims(claims);
        // Nobody's memory goes before both have ended.
        meeting.barrier.wait();
    }

    fn send(&mut self, round: u64, meeting: &Meeting) {
        let bytes = message(round);
        let from = region_of(&bytes);
        meeting.barrier.wait();
        *meeting.source.lock().unwrap() = Some(from.addr);
        let (claims, to) = meeting.target.lock().unwrap().take().unwrap();
        meeting.barrier.wait();
        self.shm.write_shared(self.peer, claims, from, at(to), Token(2));
        assert_eq!(self.end(), Ok(()));
        meeting.barrier.wait();
    }
}

/// Where two threads tell each other of a message.
struct Meeting {
    barrier: Barrier,
    source: Mutex<Option<Addr>>,
    target: Mutex<Option<(ClaimsId, Addr)>>,
}

fn message(round: u64) -> Vec<u8> {
    let mut noise = Noise(round);
    let len = 100_000 + noise.below(2_000_000) as usize;
    noise.bytes(len)
}

/// Two threads, transfers of all lengths, both ways: each byte is where it belongs.
#[test]
fn transfers_between_two_threads_are_whole() {
    const ROUNDS: u64 = 200;
    if !reads_work() {
        return;
    }
    let Both { a, to_b, b, to_a, .. } = acquainted(1);
    let (source, target) = (Mutex::new(None), Mutex::new(None));
    let meeting = Meeting { barrier: Barrier::new(2), source, target };
    std::thread::scope(|scope| {
        for (shm, peer, first) in [(a, to_b, 0), (b, to_a, 1)] {
            let meeting = &meeting;
            scope.spawn(move || {
                let mut side = Threaded { shm, peer, machine: Recorder::default() };
                for round in 0..ROUNDS {
                    if round % 2 == first {
                        side.receive(round, meeting);
                    } else {
                        side.send(round, meeting);
                    }
                }
                assert_eq!(side.shm.stats().violations, 0);
            });
        }
    });
}
