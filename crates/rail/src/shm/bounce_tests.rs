//! Of bounce buffers: whose they are, and which are taken next.

use super::*;

const UNITS: usize = BOUNCE_BYTES_MAX / UNIT_BYTES;

fn pair() -> Pair {
    Pair { entry: Some(0), ..Pair::default() }
}

/// A sender and a receiver in step.
#[test]
fn all_memory_is_gone_through_before_a_piece_is_used_again() {
    for len in [4096, 5000, PAYLOAD_BYTES_MAX] {
        let (mut own, mut there, mut here) =
            (OwnBounces::with(BOUNCE_BYTES_MAX, Way::OTHERS), pair(), pair());
        let count = AtomicU64::new(0);
        let mut last = None;
        let mut used = 0;
        for _ in 0..10 * UNITS {
            let buffer = own.take(&mut there, &count, len).unwrap();
            if Some(buffer.at()) < last {
                let unused = BOUNCE_BYTES_MAX - BOUNCE_BYTES_MAX / SHORT_PART - used;
                assert!(unused < 2 * usize::from(buffer.count) * UNIT_BYTES, "{len}: {used}");
                used = 0;
            }
            last = Some(buffer.at());
            used += usize::from(buffer.count) * UNIT_BYTES;
            here.note_read(&count);
        }
    }
}

/// The lines that a core fetches behind the end of one are none of another one's.
#[test]
fn a_gap_is_behind_each_buffer() {
    for (len, gap) in [(1024, 2048), (4096, 2048), (5000, 2168), (12_288, 4096), (65_536, 4096)] {
        let mut own = OwnBounces::with(BOUNCE_BYTES_MAX, Way::OTHERS);
        let (mut there, count) = (pair(), AtomicU64::new(0));
        let [first, second] = std::array::from_fn(|_| {
            let expected = own.next_at(len).unwrap();
            let taken = own.take(&mut there, &count, len).unwrap().at();
            assert_eq!(taken, expected, "{len}");
            taken
        });
        assert_eq!(second, first + len + gap, "{len}");
    }
}

/// A chunk of the longest kind, for instance.
#[test]
fn half_of_the_memory_is_half_without_gaps() {
    let memory = 2 * PAYLOAD_BYTES_MAX;
    for way in [Way::INTEL, Way::OTHERS] {
        let mut own = OwnBounces::with(memory, way);
        let (mut there, count) = (pair(), AtomicU64::new(0));
        assert!(own.take(&mut there, &count, PAYLOAD_BYTES_MAX).is_some());
        assert_eq!(own.take(&mut there, &count, 4096), None);
        count.store(1, Ordering::Relaxed);
        own.take_back(&mut there, &count);
        assert_eq!(own.free(), memory / UNIT_BYTES);
    }
}

#[test]
fn short_payloads_go_through_a_small_part() {
    const LEN: usize = SHORT_BYTES_MAX - 1;
    let mut own = OwnBounces::with(BOUNCE_BYTES_MAX, Way::OTHERS);
    let (mut there, mut here, count) = (pair(), pair(), AtomicU64::new(0));
    let short = BOUNCE_BYTES_MAX / SHORT_PART;
    for _ in 0..UNITS {
        let long = own.take(&mut there, &count, 3000).unwrap();
        assert!(long.at() >= short);
        here.note_read(&count);
        own.take(&mut there, &count, LEN).unwrap();
        here.note_read(&count);
    }
    own.take_back(&mut there, &count);
    let taken: Vec<_> = std::iter::from_fn(|| own.take(&mut there, &count, LEN)).collect();
    assert!((1..=short / 4096).contains(&taken.len()), "{}", taken.len());
    assert!(taken.iter().all(|buffer| buffer.at() + 4096 <= short));
    // The last one was not read. Its place is passed over.
    for _ in 1..taken.len() {
        here.note_read(&count);
    }
    let all = short / 4096;
    let free = (0..all).filter(|_| own.take(&mut there, &count, LEN).is_some()).count();
    assert!(free >= all - 2, "{free} of {all}");
}

/// What a sender of packets that are of no stream does: says where the buffer ends.
fn take_alone(own: &mut OwnBounces, there: &mut Pair, count: &AtomicU64, len: usize) -> usize {
    if own.is_round_over() {
        own.take_back(there, count);
        own.begin_round(there);
    }
    own.take(there, count, len).unwrap().at() + len
}

#[test]
fn while_a_receiver_keeps_up_a_part_of_the_memory_does() {
    const LEN: usize = 3000;
    let mut own = OwnBounces::with(BOUNCE_BYTES_MAX, Way::INTEL);
    let (mut there, mut here, count) = (pair(), pair(), AtomicU64::new(0));
    let mut end = 0;
    for _ in 0..UNITS {
        end = end.max(take_alone(&mut own, &mut there, &count, LEN));
        here.note_read(&count);
    }
    assert!(end <= ROUND_BYTES_INTEL + LEN.next_multiple_of(UNIT_BYTES), "{end}");
    for _ in 0..UNITS {
        end = end.max(own.take(&mut there, &count, LEN).unwrap().at() + LEN);
        own.note_stream();
        assert!(!own.is_round_over());
        here.note_read(&count);
    }
    assert!(end > BOUNCE_BYTES_MAX - 2 * LEN, "a stream goes through all of it: {end}");
}

#[test]
fn a_round_begins_again_if_no_more_than_one_payload_is_unread() {
    for (unread, begins) in [(0, true), (1, true), (2, false)] {
        let mut own = OwnBounces::with(BOUNCE_BYTES_MAX, Way::INTEL);
        let (mut there, count) = (pair(), AtomicU64::new(0));
        for _ in 0..unread {
            own.take(&mut there, &count, 1000).unwrap();
        }
        own.next = UNITS / 2;
        own.begin_round(&there);
        assert_eq!(own.next == 0, begins, "{unread}");
    }
}

/// Marks of another one, who is sent nothing any more, do not make each packet a round.
#[test]
fn who_shares_the_memory_with_another_one_goes_through_as_much() {
    let mut own = OwnBounces::with(BOUNCE_BYTES_MAX, Way::INTEL);
    let (mut other, zero) = (pair(), AtomicU64::new(0));
    for _ in 0..100 {
        own.take(&mut other, &zero, 3000).unwrap();
    }
    let (mut there, mut here, count) = (pair(), pair(), AtomicU64::new(0));
    let mut rounds = 0;
    for _ in 0..1000 {
        rounds += usize::from(own.is_round_over());
        take_alone(&mut own, &mut there, &count, 3000);
        here.note_read(&count);
    }
    assert!((10..=12).contains(&rounds), "{rounds} of 3,000 units");
}

#[test]
fn a_receiver_that_does_not_read_has_half_and_no_more() {
    let (mut own, mut there, mut here) =
        (OwnBounces::with(BOUNCE_BYTES_MAX, Way::INTEL), pair(), pair());
    let count = AtomicU64::new(0);
    let taken: Vec<_> = std::iter::from_fn(|| own.take(&mut there, &count, 4096)).collect();
    assert_eq!(taken.len() * 4096, BOUNCE_BYTES_MAX / 2);
    here.note_read(&count);
    assert!(own.take(&mut there, &count, 4096).is_some(), "the first was read");
    assert_eq!(own.take(&mut there, &count, 1), None);
    let (mut other, zero) = (pair(), AtomicU64::new(0));
    // The one that was freed has left a gap.
    let others = std::iter::from_fn(|| own.take(&mut other, &zero, 4096)).count();
    assert_eq!(others * 4096, BOUNCE_BYTES_MAX / 2, "the rest is another one's");
    assert_eq!(own.free(), 0);
    for _ in 0..LOOK_EVERY {
        assert_eq!(own.take(&mut pair(), &zero, 600), None);
    }
    assert!(own.is_look_due());
    assert!(!own.is_look_due());
    count.store(1 + taken.len() as u64, Ordering::Relaxed);
    own.take_back(&mut there, &count);
    assert_eq!(own.free(), UNITS / 2);
}

#[test]
fn a_receiver_that_has_just_read_is_known_for_a_moment() {
    const WRITTEN: u64 = 1_000_000;
    let mut there = pair();
    there.written_at = Nanos(WRITTEN);
    for (count, after_ns, is_just) in [
        (0, 0, false),
        (1, 0, true),
        (1, 10, false),
        (2, JUST.0 - 1, true),
        (3, JUST.0, false),
        (3, 0, false),
    ] {
        let now = Nanos(WRITTEN + after_ns);
        assert_eq!(there.has_just_read(count, now), is_just, "{count} after {after_ns}");
    }
}

#[test]
fn who_sent_a_long_payload_since_it_was_asked_for_answers() {
    let (mut there, word) = (pair(), AtomicU64::new(0));
    assert!(!there.has_answered());
    there.note_read(&word);
    there.note_read(&word);
    assert!(there.has_answered());
    assert!(!there.has_answered());
}

#[test]
fn a_count_that_nobody_can_have_ends_the_use() {
    for count in [3, u64::MAX, 1 << 40] {
        let (mut own, mut there) = (OwnBounces::with(BOUNCE_BYTES_MAX, Way::INTEL), pair());
        let word = AtomicU64::new(0);
        for _ in 0..2 {
            own.take(&mut there, &word, 1000).unwrap();
        }
        word.store(count, Ordering::Relaxed);
        own.take_back(&mut there, &word);
        assert_eq!(there.entry, None);
        assert_eq!(own.free(), UNITS - 2, "they may be read still");
    }
}

#[test]
fn what_a_lost_receiver_has_not_read_comes_back_when_it_has_ended() {
    let (mut own, mut there) = (OwnBounces::with(BOUNCE_BYTES_MAX, Way::INTEL), pair());
    let word = AtomicU64::new(0);
    for _ in 0..3 {
        own.take(&mut there, &word, 2048).unwrap();
    }
    own.keep(PeerId(7), &mut there);
    own.release(PeerId(8));
    assert_eq!(own.free(), UNITS - 6);
    own.release(PeerId(7));
    assert_eq!(own.free(), UNITS);
}

/// However receivers come and go, no unit is in two buffers.
#[test]
fn buffers_never_overlap() {
    check_overlaps(Way::INTEL);
    check_overlaps(Way::OTHERS);
}

fn check_overlaps(way: Way) {
    let mut own = OwnBounces::with(BOUNCE_BYTES_MAX, way);
    let mut pairs: Vec<_> = (0..4).map(|_| (pair(), AtomicU64::new(0), VecDeque::new())).collect();
    let mut random = 1_u64;
    let mut draw = |most: u64| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (random >> 33) % most
    };
    for _ in 0..20_000 {
        let who = draw(4) as usize;
        let len = 512 + draw(60_000) as usize;
        let (pair, count, live) = &mut pairs[who];
        if draw(3) == 0 {
            let read = draw(live.len() as u64 + 1);
            count.fetch_add(read, Ordering::Relaxed);
            live.drain(..read as usize);
        } else if let Some(buffer) = own.take(pair, count, len) {
            live.push_back(buffer);
        }
        let mut seen = [false; UNITS];
        for buffer in pairs.iter().flat_map(|(.., live)| live) {
            let first = usize::from(buffer.unit);
            for unit in &mut seen[first..first + usize::from(buffer.count)] {
                assert!(!std::mem::replace(unit, true));
            }
        }
    }
}

#[test]
fn a_small_ring_has_little_beside_it() {
    let sizes = [0, 64 << 10, 128 << 10, 1 << 20, 4 << 20, 1 << 30].map(bounce_bytes);
    assert_eq!(sizes, [0, 128 << 10, 256 << 10, 2 << 20, 2 << 20, 2 << 20]);
    let mut none = OwnBounces::new(0);
    assert_eq!(none.take(&mut pair(), &AtomicU64::new(0), 4096), None);
}

#[test]
fn a_slot_says_where_its_buffer_is_behind_its_header() {
    assert_eq!(named(&[0, 0, 0, 0, 0, 0, 0, 0], 40), None);
    let whole = |unit| Some(Named { unit, until: None });
    assert_eq!(named(&[0, 0, 0, 0, 0, 0, 0, 1], 40), whole(0));
    assert_eq!(named(&[0, 0, 0, 0, 0, 0, 0, 9], 56), whole(8));
    assert_eq!(named(&[0, 0, 0, 0, 0, 0, 0, 9], 57), None, "those are bytes of the header");
    assert_eq!(place(0, 600, 1024), Some(0));
    assert_eq!(place(2047, 1024, 2048 << 10), Some(2047 << 10));
    assert_eq!(place(2047, 1025, 2048 << 10), None);
    assert_eq!(place(u64::MAX - 1, 1, 2048 << 10), None);
}
