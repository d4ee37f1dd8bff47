//! The ring in one process: laps, wrapping, holes.

use super::*;
use std::sync::Arc;
use std::thread;

/// A ring in ordinary memory.
struct Ring {
    tail: AtomicU64,
    slots: Vec<Slot>,
    intents: Vec<AtomicU64>,
}

impl Ring {
    fn new(shift: u32, writers: u16) -> Ring {
        Ring {
            tail: AtomicU64::new(0),
            slots: (0..1 << shift)
                .map(|_| Slot { words: [const { AtomicU64::new(0) }; WORDS] })
                .collect(),
            intents: (0..writers).map(|_| AtomicU64::new(0)).collect(),
        }
    }

    fn writer(&self, index: u16) -> Writer<()> {
        let slots = NonNull::new(self.slots.as_ptr().cast_mut()).unwrap();
        let intent = NonNull::from(&self.intents[usize::from(index)]);
        // SAFETY: the ring outlives the writer in these tests.
        unsafe {
            Writer::new((&self.tail).into(), slots, intent, self.slots.len().ilog2(), index, ())
        }
    }

    fn reader(&self) -> Reader<()> {
        let slots = NonNull::new(self.slots.as_ptr().cast_mut()).unwrap();
        // SAFETY: the ring outlives the reader in these tests.
        unsafe { Reader::new((&self.tail).into(), slots, self.slots.len().ilog2(), ()) }
    }
}

/// Fills each further slot, counted from one, with `mark` and its number. The first bytes
/// are those of a stamp, of this lap or another one.
fn fill(mark: u64) -> impl FnMut(usize, Run<'_>) {
    move |at, run| {
        for (i, slot) in slots_of(run).enumerate() {
            let i = (at + i) as u64 + 1;
            let lap = (mark + i) % 32;
            slot.words[0].store(u64::from(stamp(lap << 3, 3)), Ordering::Relaxed);
            for word in &slot.words[1..] {
                word.store(mark + i, Ordering::Relaxed);
            }
        }
    }
}

fn slots_of(run: Run<'_>) -> impl Iterator<Item = &Slot> {
    run.0.iter().chain(run.1)
}

/// Reads the packet of `count` slots at the head, as the driver does; says word `word` of
/// each further slot.
fn take<K>(reader: &mut Reader<K>, count: u32, word: usize) -> Vec<u64> {
    let words =
        slots_of(reader.further(count)).map(|slot| slot.words[word].load(Ordering::Relaxed));
    let words = words.collect();
    if reader.is_scrub_due(count) {
        reader.scrub(count);
        assert!(!reader.is_scrub_due(count));
    }
    reader.advance(count);
    words
}

#[test]
fn packets_come_out_in_order_over_many_laps() {
    let ring = Ring::new(3, 2);
    let (writer, mut reader) = (ring.writer(1), ring.reader());
    for n in 0..1000_u64 {
        let count = 1 + (n % 5) as u16;
        assert_eq!(reader.peek(), None);
        writer.write(count, &[n << 48, n, 0, 0, 0, 0, 0, n], fill(n), |_| true);
        let copy = reader.peek().expect("published");
        assert_eq!(writer_of(&copy), 1);
        assert_eq!((copy[0] >> 48, copy[1], copy[7]), (n, n, n));
        let further = take(&mut reader, count.into(), 5);
        assert_eq!(further, (1..u64::from(count)).map(|i| n + i).collect::<Vec<_>>());
        assert!(!reader.is_behind());
    }
}

#[test]
fn what_follows_a_packet_is_expected_to_be_alike_until_it_is_there() {
    let ring = Ring::new(4, 1);
    let (writer, mut reader) = (ring.writer(0), ring.reader());
    assert!(!reader.fetch_alike(), "nothing has come");
    for count in [1, 3, 15, 1] {
        writer.write(count, &[0; WORDS], fill(1), |_| true);
        reader.peek().expect("a packet");
        if count > 1 {
            reader.expect_alike(count.into());
        }
        take(&mut reader, count.into(), 1);
        assert_eq!(reader.fetch_alike(), count > 1, "{count} slots");
    }
}

#[test]
fn no_stamp_is_zero_and_neighbouring_laps_differ() {
    let without = u64::from(STAMP_OF_LAP) - 1;
    for lap in [0, 1, without - 1, without, without + 1, 0xffff_ffff, 1 << 32, (1 << 32) + 1] {
        let position = lap << 3;
        assert_ne!(stamp(position, 3), 0);
        assert_ne!(stamp(position, 3), stamp(position + 8, 3));
        assert_eq!(stamp(position, 3), stamp(position + 7, 3));
    }
    assert_eq!(stamp(0, 3), 0xb5c9_4ed2);
}

#[test]
fn an_intent_covers_its_slots_and_no_others() {
    for first in [0, 5, POSITION_MASK - 2, u64::MAX - 1] {
        let intent = Intent::Writing { position: first & POSITION_MASK, count: 4 };
        assert_eq!(Intent::from_word(word_of(STATE_WRITING, first, 4)), intent);
        let idle = Intent::Idle { last: Some(first & POSITION_MASK) };
        assert_eq!(Intent::from_word(word_of(STATE_IDLE, first, 4)), idle);
        assert!(!idle.may_cover(first));
        for at in 0..4_u64 {
            assert!(intent.may_cover(first.wrapping_add(at)));
        }
        assert!(!intent.may_cover(first.wrapping_add(4)));
        assert!(!intent.may_cover(first.wrapping_sub(1)));
    }
    assert!(Intent::Reserving.may_cover(9));
    for word in [0, 3] {
        assert_eq!(Intent::from_word(word), Intent::Idle { last: None });
    }
}

/// Whatever moves the tail or destroys a stamp, a packet that will not be read is
/// known by its writer's intent; one that is still to come is not taken for it.
#[test]
fn a_packet_that_is_never_read_is_noticed() {
    let moves: [fn(u64) -> u64; 5] = [
        |tail| tail - 2,
        |tail| tail + 3,
        |tail| tail.wrapping_sub(1000),
        |tail| tail + 1000,
        |_| u64::MAX - 9,
    ];
    for moved in moves {
        let ring = Ring::new(4, 2);
        let (early, late, mut reader) = (ring.writer(0), ring.writer(1), ring.reader());
        let mut read = [u32::MAX; 2];
        let missed = |reader: &Reader<()>, read: [u32; 2]| {
            [0, 1].map(|writer| reader.has_missed(&ring.intents[writer], read[writer]))
        };
        early.write(2, &[0; WORDS], fill(0), |_| true);
        early.write(1, &[0; WORDS], fill(0), |_| true);
        assert_eq!(missed(&reader, read), [false, false], "it is still to come");
        for slots in [2, 1] {
            assert!(reader.peek().is_some());
            read[0] = reader.head() as u32;
            reader.advance(slots);
            assert_eq!(missed(&reader, read), [false, false]);
        }
        let tail = ring.tail.load(Ordering::Relaxed);
        ring.tail.store(moved(tail), Ordering::Relaxed);
        late.write(1, &[0; WORDS], fill(0), |_| true);
        loop {
            match reader.stuck(ring.intents.iter(), |_| true) {
                Stuck::No if reader.peek().is_some() => {
                    let copy = reader.peek().unwrap();
                    read[usize::from(writer_of(&copy))] = reader.head() as u32;
                    reader.advance(1);
                }
                Stuck::No => break,
                Stuck::Overwritten => reader.restart(),
                Stuck::Held => panic!("nobody writes"),
                Stuck::Abandoned(slots) => reader.skip(slots),
            }
        }
        let was_read = read[1] != u32::MAX;
        assert_eq!(missed(&reader, read), [false, !was_read], "{:#x}", moved(tail));
    }
}

#[test]
fn a_writer_puts_its_intent_right() {
    let ring = Ring::new(3, 1);
    let (writer, reader) = (ring.writer(0), ring.reader());
    for packets in 0..2 {
        ring.intents[0].store(STATE_RESERVING, Ordering::Relaxed);
        ring.tail.store(7, Ordering::Relaxed);
        assert_eq!(reader.stuck(ring.intents.iter(), |_| true), Stuck::Held);
        writer.renew_intent();
        assert!(matches!(reader.stuck(ring.intents.iter(), |_| true), Stuck::Abandoned(_)));
        writer.write(1, &[0; WORDS], fill(0), |_| true);
        let before = ring.intents[0].load(Ordering::Relaxed);
        writer.renew_intent();
        assert_eq!(ring.intents[0].load(Ordering::Relaxed), before, "packet {packets}");
    }
}

#[test]
fn a_hole_is_skipped_only_once_its_writer_is_dead() {
    for end in [Step::Reserved, Step::Positioned, Step::Filled(1), Step::Filled(2), Step::Unstamped]
    {
        let ring = Ring::new(4, 2);
        let (dying, living, mut reader) = (ring.writer(0), ring.writer(1), ring.reader());
        dying.write(3, &[0; WORDS], fill(0), |step| step != end);
        living.write(1, &[0, 7, 0, 0, 0, 0, 0, 0], fill(0), |_| true);
        assert_eq!(reader.stuck(ring.intents.iter(), |_| true), Stuck::Held, "{end:?}");
        let mut skipped = 0;
        while let Stuck::Abandoned(slots) = reader.stuck(ring.intents.iter(), |writer| writer != 0)
        {
            reader.skip(slots);
            skipped += slots;
        }
        assert_eq!(skipped, 3, "{end:?}");
        assert_eq!(reader.peek().map(|copy| copy[1]), Some(7));
    }
}

/// Further slots full of the stamps that their places have in this lap, the next and the
/// one after: none of them is taken for a packet, read or abandoned.
#[test]
fn no_payload_looks_published() {
    const SHIFT: u32 = 3;
    for (ahead, count) in [(0, 2), (0, 4), (1, 2), (1, 4), (2, 2), (2, 4)] {
        for is_killed in [false, true] {
            let ring = Ring::new(SHIFT, 2);
            let (dying, living, mut reader) = (ring.writer(0), ring.writer(1), ring.reader());
            for n in 0..40_u64 {
                let writer = if is_killed { &dying } else { &living };
                let position = ring.tail.load(Ordering::Relaxed);
                let bait = |at: usize, run: Run<'_>| {
                    for (i, slot) in slots_of(run).enumerate() {
                        let place = position + 1 + (at + i) as u64 + (ahead << SHIFT);
                        slot.words[0].store(stamp(place, SHIFT).into(), Ordering::Relaxed);
                    }
                };
                writer
                    .write(count, &[0; WORDS], bait, |step| !is_killed || step != Step::Unstamped);
                if is_killed {
                    let stuck = reader.stuck(ring.intents.iter(), |writer| writer != 0);
                    assert_eq!(stuck, Stuck::Abandoned(count.into()));
                    reader.skip(count.into());
                } else {
                    assert!(reader.peek().is_some());
                    assert_eq!(reader.is_scrub_due(count.into()), ahead == 1);
                    take(&mut reader, count.into(), 0);
                }
                assert_eq!(reader.peek(), None, "{ahead} laps ahead, packet {n}");
                assert!(!reader.is_behind());
                // Every place is the head once.
                living.write(1, &[0; WORDS], |_, _| {}, |_| true);
                assert!(reader.peek().is_some());
                reader.advance(1);
                assert_eq!(reader.peek(), None, "{ahead} laps ahead, packet {n}");
            }
        }
    }
}

/// A packet that is refused is left behind whole, whatever its payload looks like.
#[test]
fn a_refused_packet_is_as_long_as_its_writer_says() {
    let ring = Ring::new(4, 2);
    let (writer, other, mut reader) = (ring.writer(0), ring.writer(1), ring.reader());
    other.write(1, &[0; WORDS], |_, _| {}, |_| true);
    writer.write(5, &[0; WORDS], fill(0), |_| true);
    assert_eq!(reader.slots_by(&ring.intents[0]), 1, "that is another packet");
    reader.advance(1);
    assert_eq!(reader.slots_by(&ring.intents[0]), 5);
    reader.skip(5);
    assert!(!reader.is_behind());
}

#[test]
fn an_overwritten_tail_is_noticed() {
    let ring = Ring::new(3, 1);
    let mut reader = ring.reader();
    ring.tail.store(9, Ordering::Relaxed);
    assert_eq!(reader.stuck(ring.intents.iter(), |_| true), Stuck::Overwritten);
    assert_eq!(reader.reserved_until(), 8);
    ring.tail.store(u64::MAX, Ordering::Relaxed);
    assert_eq!(reader.stuck(ring.intents.iter(), |_| true), Stuck::Overwritten);
    reader.restart();
    assert_eq!(ring.tail.load(Ordering::Relaxed), reader.head());
    assert_eq!(reader.stuck(ring.intents.iter(), |_| true), Stuck::No);
    ring.writer(0).write(1, &[0, 5, 0, 0, 0, 0, 0, 0], fill(0), |_| true);
    assert_eq!(reader.peek().map(|copy| copy[1]), Some(5));
}

#[test]
fn many_threads_lose_nothing() {
    const WRITERS: u16 = 3;
    const PACKETS: u64 = 20_000;
    let ring = Arc::new(Ring::new(10, WRITERS));
    // What was read, so that writers keep within the ring as credits would.
    let read = Arc::new(AtomicU64::new(0));
    let writers: Vec<_> = (0..WRITERS)
        .map(|index| {
            let (ring, read) = (ring.clone(), read.clone());
            thread::spawn(move || {
                let writer = ring.writer(index);
                for n in 0..PACKETS {
                    // The count read goes first: the tail never is behind it.
                    loop {
                        let read = read.load(Ordering::Acquire);
                        if ring.tail.load(Ordering::Acquire) - read <= 900 {
                            break;
                        }
                        thread::yield_now();
                    }
                    let count = 1 + (n % 7) as u16;
                    writer.write(count, &[0, n, 0, 0, 0, 0, 0, !n], fill(n), |_| true);
                }
            })
        })
        .collect();
    let mut reader = ring.reader();
    let mut next = [0; WRITERS as usize];
    while next.iter().any(|&n| n < PACKETS) {
        let Some(copy) = reader.peek() else {
            thread::yield_now();
            continue;
        };
        let from = usize::from(writer_of(&copy));
        let n = copy[1];
        assert_eq!((n, copy[7]), (next[from], !n));
        let count = 1 + n % 7;
        let further = take(&mut reader, count as u32, 7);
        assert_eq!(further, (1..count).map(|i| n + i).collect::<Vec<_>>());
        next[from] += 1;
        read.store(reader.head(), Ordering::Release);
    }
    for writer in writers {
        writer.join().unwrap();
    }
}
