//! The ring under the model checker: every interleaving of a few steps.

use super::*;
use loom::sync::Arc;
use loom::sync::atomic::AtomicBool;
use loom::thread;

const SHIFT: u32 = 2;

struct Ring {
    tail: AtomicU64,
    slots: Box<[Slot; 1 << SHIFT]>,
    intents: [AtomicU64; 2],
    dead: AtomicBool,
}

// SAFETY: all of it is atomics.
unsafe impl Sync for Ring {}

impl Ring {
    fn new() -> Arc<Ring> {
        let slot = || Slot { words: [AtomicU64::new(0), AtomicU64::new(0)] };
        Arc::new(Ring {
            tail: AtomicU64::new(0),
            slots: Box::new([slot(), slot(), slot(), slot()]),
            intents: [AtomicU64::new(0), AtomicU64::new(0)],
            dead: AtomicBool::new(false),
        })
    }

    fn slots(&self) -> NonNull<Slot> {
        NonNull::from(&*self.slots).cast()
    }

    fn writer(&self, index: u16) -> Writer<()> {
        let intent = NonNull::from(&self.intents[usize::from(index)]);
        // SAFETY: the ring outlives the writer.
        unsafe { Writer::new((&self.tail).into(), self.slots(), intent, SHIFT, index, ()) }
    }

    fn reader(&self) -> Reader<()> {
        // SAFETY: the ring outlives the reader.
        unsafe { Reader::new((&self.tail).into(), self.slots(), SHIFT, ()) }
    }
}

fn write(ring: &Ring, index: u16, count: u16, mark: u64, end: Option<Step>) {
    // The first bytes are a stamp of the first lap or, from writer 1, of the second.
    let bait = u64::from(stamp(u64::from(index) << SHIFT, SHIFT));
    let fill = |_: usize, run: Run<'_>| {
        for slot in run.0.iter().chain(run.1) {
            slot.words[0].store(bait, Ordering::Relaxed);
            slot.words[1].store(mark, Ordering::Relaxed);
        }
    };
    ring.writer(index).write(count, &[0, mark], fill, |step| Some(step) != end);
}

/// Reads the packet at the head, whose every slot must hold its mark.
fn read(reader: &mut Reader<()>, count_of: impl Fn(u16) -> u32) -> Option<u16> {
    let copy = reader.peek()?;
    let writer = writer_of(&copy);
    let count = count_of(writer);
    assert_eq!(copy[1], mark_of(writer), "the first slot is whole");
    let further = reader.further(count);
    for slot in further.0.iter().chain(further.1) {
        let word = slot.words[1].load(Ordering::Relaxed);
        assert_eq!(word, mark_of(writer), "the further slots are whole");
    }
    if reader.is_scrub_due(count) {
        reader.scrub(count);
    }
    reader.advance(count);
    Some(writer)
}

fn mark_of(writer: u16) -> u64 {
    100 + u64::from(writer)
}

#[test]
fn ring_what_is_published_is_whole() {
    loom::model(|| {
        let ring = Ring::new();
        let other = ring.clone();
        let writer = thread::spawn(move || write(&other, 0, 2, mark_of(0), None));
        let mut reader = ring.reader();
        if read(&mut reader, |_| 2).is_none() {
            writer.join().unwrap();
            assert_eq!(read(&mut reader, |_| 2), Some(0));
        }
        assert!(!reader.is_behind());
    });
}

/// What was payload in one lap is no packet of the next one.
#[test]
fn ring_no_payload_of_the_last_lap_is_read() {
    loom::model(|| {
        let ring = Ring::new();
        let mut reader = ring.reader();
        write(&ring, 1, 1 << SHIFT, mark_of(1), None);
        assert_eq!(read(&mut reader, |_| 1 << SHIFT), Some(1));
        let other = ring.clone();
        // It has the credits back.
        let writer = thread::spawn(move || {
            write(&other, 0, 1, mark_of(0), None);
            write(&other, 0, 1, mark_of(0), None);
        });
        let mut count = 0;
        for _ in 0..2 {
            count += u32::from(read(&mut reader, |_| 1).is_some());
        }
        writer.join().unwrap();
        while read(&mut reader, |_| 1).is_some() {
            count += 1;
        }
        assert_eq!(count, 2);
    });
}

#[test]
fn ring_two_writers_lose_nothing() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(|| {
        let ring = Ring::new();
        let writers: Vec<_> = [0_u16, 1]
            .into_iter()
            .map(|index| {
                let ring = ring.clone();
                thread::spawn(move || write(&ring, index, 1 + index, mark_of(index), None))
            })
            .collect();
        let mut reader = ring.reader();
        let mut seen = [0; 2];
        if let Some(writer) = read(&mut reader, |writer| u32::from(writer) + 1) {
            seen[usize::from(writer)] += 1;
        }
        for writer in writers {
            writer.join().unwrap();
        }
        while let Some(writer) = read(&mut reader, |writer| u32::from(writer) + 1) {
            seen[usize::from(writer)] += 1;
        }
        assert_eq!(seen, [1, 1]);
        assert!(!reader.is_behind());
    });
}

/// A slot of a living writer is never taken for abandoned.
#[test]
fn ring_a_living_writer_is_waited_for() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(|| {
        let ring = Ring::new();
        let other = ring.clone();
        let writer = thread::spawn(move || {
            write(&other, 0, 1, mark_of(0), None);
            write(&other, 0, 1, mark_of(0), None);
        });
        let mut reader = ring.reader();
        let mut count = 0;
        for _ in 0..2 {
            count += u32::from(read(&mut reader, |_| 1).is_some());
            let stuck = reader.stuck(ring.intents.iter(), |_| true);
            assert!(!matches!(stuck, Stuck::Abandoned(_)));
        }
        writer.join().unwrap();
        while read(&mut reader, |_| 1).is_some() {
            count += 1;
        }
        assert_eq!(count, 2);
    });
}

/// A writer that dies after any step leaves a hole that is skipped, and costs
/// the living one nothing.
#[test]
fn ring_a_dead_writers_hole_is_skipped() {
    for end in [
        Step::Intent,
        Step::Reserved,
        Step::Positioned,
        Step::Filled(1),
        Step::Unstamped,
        Step::Published,
    ] {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(3);
        model.check(move || {
            let ring = Ring::new();
            let (dying, living) = (ring.clone(), ring.clone());
            let first = thread::spawn(move || {
                write(&dying, 0, 2, mark_of(0), Some(end));
                dying.dead.store(true, Ordering::Release);
            });
            let second = thread::spawn(move || write(&living, 1, 1, mark_of(1), None));
            let mut reader = ring.reader();
            let mut seen = [0; 2];
            let mut skipped = 0;
            let mut go = |reader: &mut Reader<()>, seen: &mut [u32; 2]| {
                if let Some(writer) = read(reader, |writer| 2 - u32::from(writer)) {
                    seen[usize::from(writer)] += 1;
                    return true;
                }
                let alive = |index| index != 0 || !ring.dead.load(Ordering::Acquire);
                if let Stuck::Abandoned(slots) = reader.stuck(ring.intents.iter(), alive) {
                    reader.skip(slots);
                    skipped += slots;
                    return true;
                }
                reader.peek().is_some()
            };
            go(&mut reader, &mut seen);
            first.join().unwrap();
            second.join().unwrap();
            while go(&mut reader, &mut seen) {}
            let reserved = end != Step::Intent;
            let published = end == Step::Published;
            assert_eq!(seen, [u32::from(published), 1]);
            assert_eq!(skipped, if reserved && !published { 2 } else { 0 });
            assert!(!reader.is_behind());
        });
    }
}
