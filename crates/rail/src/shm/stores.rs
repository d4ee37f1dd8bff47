//! How bytes are stored into memory that another core reads next.
//!
//! A plain store first fetches the line from the core that had it last. If that core is close
//! this is cheap, and the reader finds the bytes in a cache. If it is far, the fetches are
//! what a copy waits for: 16 KiB took 7 us between two cores that did not share a cache. A
//! *streaming* store (`movntdq`) takes no line from anybody: the bytes go to memory, and the
//! reader gets them from there. That takes some 300 ns more at any distance, and 2 us in all
//! for 16 KiB.
//!
//! How far two cores are is not asked, it is measured, because virtual processors and
//! processes move: now and then a copy is made in one way or the other and timed until its
//! stores are done. The way that is cheaper by what the writer and the reader pay
//! ([`DEARER`], `Class::judge`) is taken until the next look. Plain copies of [`TIMED_BYTES_MIN`] and more are all timed, so that two
//! of them are enough to know that a receiver has become far. Each receiver and each size class, a power of
//! two, is judged by itself.
//!
//! A long payload may go another way: both sides have the system copy it, each a part. Its copies to a
//! receiver are timed, too. Streamed stores, of which the receiver makes a second copy meanwhile, are
//! taken where they are faster than two such copies at once ([`Stores::is_worth_it`]).
//!
//! Where the processor has no such stores every copy is plain.

use super::shared_bytes::{Behind, copy_before, copy_shared};

/// Whether the processor has streaming stores. Miri has none.
const CAN_STREAM: bool = cfg!(all(target_arch = "x86_64", not(miri)));
/// The shortest copy that may be streamed.
const BYTES_MIN: usize = 512;
/// Size classes, from [`BYTES_MIN`] on; the last one has no end.
const CLASSES: usize = 10;
/// One of so many copies is timed.
const LOOK_EVERY: u8 = 64;
/// Times that are kept of each way; their median counts.
const KEPT: usize = 3;

/// Plain copies have to be so many times dearer for each line than streamed ones. The writer's
/// time is not all: the reader takes a streamed line from memory and finds a plain one in a
/// cache. Between cores that share a cache plain lines were 0.7 to 2.5 times as dear, 0.7 to 1.2 times
/// in copies of [`LONG_BYTES_MIN`] or more, and the whole way was as long or shorter with them;
/// between others they were 2 to 10 times as dear, and it was up to twice as long.
const DEARER: u32 = 3;
/// The same of long copies, whose times differ less.
const DEARER_LONG: u32 = 2;
/// The shortest plain copy that is always timed: beside it two looks at the clock cost little. A class
/// begins with it.
pub(super) const TIMED_BYTES_MIN: usize = 32 << 10;
/// Copies by the system are compared as if they had so many bytes. Times of shorter ones are not kept.
const SYSTEM_BYTES: u64 = 32 << 10;
/// One of so many payloads to a far receiver goes by the system, though that was slower.
const SYSTEM_EVERY: u8 = 255;
/// The shortest long copy, by class.
const LONG_BYTES_MIN: usize = 8 << 10;

/// What is known of the copies to one receiver.
#[derive(Clone, Debug, Default)]
pub(super) struct Stores {
    classes: [Class; CLASSES],
    /// Ticks that a streamed copy takes whatever its length, once that was measured.
    start: Option<u32>,
    /// Ticks that the system takes to copy [`SYSTEM_BYTES`].
    system: Times,
    /// Payloads that go by memory until one goes by the system.
    until_system: u8,
}

#[derive(Clone, Copy, Debug, Default)]
struct Class {
    plain: Times,
    streamed: Times,
    streams: bool,
    /// Copies until one is timed.
    until_look: u8,
    /// Which way is timed next.
    looks_at_streamed: bool,
}

/// The last times of one way, in ticks; zero for none.
#[derive(Clone, Copy, Debug, Default)]
struct Times {
    ticks: [u32; KEPT],
    next: u8,
}

impl Times {
    fn note(&mut self, ticks: u64) {
        self.ticks[usize::from(self.next)] = u32::try_from(ticks).unwrap_or(u32::MAX).max(1);
        self.next = (self.next + 1) % KEPT as u8;
    }

    /// The median, once there are enough.
    fn median(&self) -> Option<u32> {
        let mut sorted = self.ticks;
        sorted.sort_unstable();
        (sorted[0] != 0).then_some(sorted[KEPT / 2])
    }
}

impl Class {
    /// Chooses again, where a stream takes `start` ticks whatever its length. The reader, who
    /// fetches it from memory, waits about as long once more.
    fn judge(&mut self, start: u32, dearer: u32) {
        if let (Some(plain), Some(streamed)) = (self.plain.median(), self.streamed.median()) {
            let lines = streamed.saturating_sub(start);
            self.streams =
                lines.saturating_mul(dearer) < plain && streamed.saturating_add(start) < plain;
        }
    }

    fn is_known(&self) -> bool {
        self.plain.median().is_some() && self.streamed.median().is_some()
    }
}

impl Stores {
    /// Whether the next copy of `len` bytes to this receiver is streamed, and not timed.
    #[inline]
    pub(super) fn streams(&self, len: usize) -> bool {
        let class = &self.classes[class_of(len)];
        class.streams && class.until_look != 0
    }

    /// Whether a long payload of so many bytes gets to this receiver sooner by two copies in memory
    /// than by the system, if both sides are there. Who streams, and has not seen the system copy,
    /// does not know. Where memory is faster the system is looked at again now and then.
    pub(super) fn is_worth_it(&mut self, len: usize) -> bool {
        if !self.streams(len) {
            return true;
        }
        let is_worth_it = self.is_faster_than_the_system(len) && self.until_system != 0;
        if is_worth_it {
            self.until_system -= 1;
        } else {
            self.until_system = SYSTEM_EVERY;
            // No copy is made that would count.
            let class = &mut self.classes[class_of(len)];
            class.until_look = class.until_look.saturating_sub(1);
        }
        is_worth_it
    }

    fn is_faster_than_the_system(&self, len: usize) -> bool {
        let streamed = self.classes[class_of(len)].streamed.median();
        let (Some(streamed), Some(system)) = (streamed, self.system.median()) else { return false };
        // The system copies half of it on each side.
        let system = u64::from(system).saturating_mul(len as u64) / SYSTEM_BYTES / 2;
        u64::from(streamed) + u64::from(self.start.unwrap_or(0)) < system
    }

    /// The system has copied `len` bytes between this process and the receiver.
    pub(super) fn note_system(&mut self, took: u64, len: u64) {
        if len >= SYSTEM_BYTES {
            self.system.note(took.saturating_mul(SYSTEM_BYTES) / len);
        }
    }

    /// How the parts of the next copy of `len` bytes are to be made, which counts as made then.
    /// `None` if that copy is to be timed: it has to be in one piece.
    #[inline]
    pub(super) fn in_parts(&mut self, len: usize) -> Option<Parts> {
        if !CAN_STREAM {
            return Some(Parts { streams: false });
        }
        let class = &mut self.classes[class_of(len)];
        class.until_look = class.until_look.checked_sub(1)?;
        Some(Parts { streams: class.streams })
    }

    /// All parts of a copy of `len` bytes are made, and `timed` bytes of it took so many ticks.
    #[inline]
    pub(super) fn end(&mut self, parts: Parts, took: u64, timed: usize, len: usize) {
        if CAN_STREAM && len >= TIMED_BYTES_MIN {
            let took = took.saturating_mul(len as u64) / timed as u64;
            if parts.streams {
                self.classes[class_of(len)].streamed.note(took);
            } else {
                self.note_plain(took, len);
            }
        }
    }

    /// A long plain copy of `len` bytes took so many ticks.
    fn note_plain(&mut self, took: u64, len: usize) {
        let class = &mut self.classes[class_of(len)];
        class.plain.note(took);
        if let Some(start) = self.start {
            class.judge(start, DEARER_LONG);
        }
    }

    /// Copies `len` bytes into shared memory, before what lies `behind`; they are stored when what is stored afterwards
    /// with release is seen.
    ///
    /// # Safety
    /// As for [`copy_shared`].
    #[inline(always)]
    pub(super) unsafe fn copy(&mut self, from: *const u8, to: *mut u8, len: usize, behind: Behind) {
        // SAFETY: as the caller says.
        unsafe {
            if !CAN_STREAM || len < BYTES_MIN {
                return copy_before(from, to, len, behind);
            }
            self.copy_either_way(from, to, len, behind);
        }
    }

    /// # Safety
    /// As for [`copy_shared`].
    #[inline(never)]
    unsafe fn copy_either_way(&mut self, from: *const u8, to: *mut u8, len: usize, behind: Behind) {
        let class = &mut self.classes[class_of(len)];
        if class.until_look == 0 {
            let start = *self.start.get_or_insert_with(start_of_a_stream);
            // SAFETY: as the caller says.
            return unsafe { class.copy_timed(start, (from, to, len), behind) };
        }
        class.until_look -= 1;
        if class.streams {
            // SAFETY: as the caller says.
            return unsafe { stream(from, to, len) };
        }
        if len < TIMED_BYTES_MIN {
            // SAFETY: as the caller says.
            return unsafe { copy_before(from, to, len, behind) };
        }
        let begin = ticks();
        // SAFETY: as the caller says.
        unsafe { copy_before(from, to, len, behind) };
        self.note_plain(ticks().saturating_sub(begin), len);
    }
}

/// How the parts of one copy are made.
#[derive(Clone, Copy, Debug)]
pub(super) struct Parts {
    streams: bool,
}

impl Parts {
    /// Whether they go to memory past the caches.
    #[inline]
    pub(super) fn streams(self) -> bool {
        self.streams
    }

    /// As [`Stores::copy`].
    ///
    /// # Safety
    /// As for [`copy_shared`].
    #[inline]
    pub(super) unsafe fn copy(self, from: *const u8, to: *mut u8, len: usize) {
        // SAFETY: as the caller says.
        unsafe {
            if self.streams {
                stream(from, to, len);
            } else {
                copy_before(from, to, len, Behind::Next);
            }
        }
    }
}

impl Class {
    /// # Safety
    /// As for [`copy_shared`].
    #[cold]
    unsafe fn copy_timed(
        &mut self,
        start: u32,
        (from, to, len): (*const u8, *mut u8, usize),
        behind: Behind,
    ) {
        let is_streamed = self.looks_at_streamed;
        let begin = ticks();
        // SAFETY: as the caller says.
        unsafe {
            if is_streamed {
                stream(from, to, len);
            } else {
                copy_before(from, to, len, behind);
            }
        }
        wait_for_stores();
        self.note_look(start, is_streamed, ticks().saturating_sub(begin), len);
    }

    /// A copy was timed, in the way that it says. Chooses a way, and what is timed next.
    fn note_look(&mut self, start: u32, is_streamed: bool, took: u64, len: usize) {
        let times = if is_streamed { &mut self.streamed } else { &mut self.plain };
        times.note(took);
        let dearer = if len < LONG_BYTES_MIN { DEARER } else { DEARER_LONG };
        let is_timed = len >= TIMED_BYTES_MIN;
        self.judge(start, dearer);
        if !self.is_known() {
            (self.until_look, self.looks_at_streamed) = (1, !is_streamed);
            return;
        }
        // Where all plain copies are timed, the other way is looked at. If that was fast, it is soon
        // looked at again.
        let is_other_fast = is_timed && !is_streamed && self.streams && {
            let streamed = self.streamed.median().unwrap_or(0).saturating_sub(start);
            took < streamed.saturating_mul(dearer).into()
        };
        self.until_look = if is_other_fast { 1 } else { LOOK_EVERY };
        self.looks_at_streamed = if is_timed { !self.streams } else { !is_streamed };
    }
}

/// The class of a copy of `len` bytes, which are [`BYTES_MIN`] or more.
fn class_of(len: usize) -> usize {
    let class = (len / BYTES_MIN).max(1).ilog2() as usize;
    class.min(CLASSES - 1)
}

/// Copies with streaming stores, as far as whole lines go, and waits until they are ordered
/// before later stores.
///
/// # Safety
/// As for [`copy_shared`].
#[cfg(all(target_arch = "x86_64", not(miri)))]
unsafe fn stream(from: *const u8, to: *mut u8, len: usize) {
    use std::arch::x86_64::{__m128i, _mm_loadu_si128, _mm_sfence, _mm_stream_si128};
    const LINE: usize = 64;
    // Streaming stores are of aligned lines.
    let ahead = to.align_offset(LINE).min(len);
    let lines = (len - ahead) / LINE;
    let end = ahead + lines * LINE;
    // SAFETY: all steps are inside the `len` bytes that the caller vouches for: `ahead` bytes,
    // whole lines up to `end`, and the rest. The streaming stores go to aligned addresses, and
    // the fence follows them before anybody can be told of the bytes.
    unsafe {
        copy_shared(from, to, ahead);
        let (source, target) = (from.add(ahead).cast::<__m128i>(), to.add(ahead).cast::<__m128i>());
        for line in 0..lines {
            let (source, target) = (source.add(line * 4), target.add(line * 4));
            let parts = [0, 1, 2, 3].map(|part| _mm_loadu_si128(source.add(part)));
            for (part, bytes) in parts.into_iter().enumerate() {
                _mm_stream_si128(target.add(part), bytes);
            }
        }
        copy_shared(from.add(end), to.add(end), len - end);
        _mm_sfence();
    }
}

#[cfg(not(all(target_arch = "x86_64", not(miri))))]
unsafe fn stream(from: *const u8, to: *mut u8, len: usize) {
    // SAFETY: as the caller says.
    unsafe { copy_shared(from, to, len) };
}

/// A clock that costs little. Its unit does not matter: only times of one process are
/// compared.
pub(super) fn ticks() -> u64 {
    #[cfg(test)]
    if let Some(ticks) = super::tests::stopped_ticks() {
        return ticks;
    }
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: every x86-64 processor has it; it touches no memory.
    unsafe {
        std::arch::x86_64::_rdtsc()
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    0
}

/// Waits until the stores of this thread have reached the cache or the memory. The clock is
/// not read before that.
fn wait_for_stores() {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: SSE2 is part of x86-64; fences touch no memory.
    unsafe {
        std::arch::x86_64::_mm_mfence();
        std::arch::x86_64::_mm_lfence();
    }
}

/// What a streamed copy takes whatever its length: that of one line.
fn start_of_a_stream() -> u32 {
    #[repr(align(64))]
    struct Line([u8; 64]);
    let (from, mut to) = (Line([1; 64]), Line([0; 64]));
    let mut least = u64::MAX;
    for _ in 0..KEPT {
        let begin = ticks();
        // SAFETY: both are lines.
        unsafe { stream(from.0.as_ptr(), to.0.as_mut_ptr(), 64) };
        wait_for_stores();
        least = least.min(ticks().saturating_sub(begin));
    }
    std::hint::black_box(&to.0);
    u32::try_from(least).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::super::portions::portion_bytes;
    use super::*;

    /// Wherever the copy begins and ends, in either way, and timed.
    #[test]
    fn every_copy_is_whole_and_stays_inside() {
        let source: Vec<u8> = (0..70_000_u32).map(|i| (i * 7 + i / 251) as u8).collect();
        for len in [0, 1, 63, 511, 512, 513, 1000, 4096, 16_383, 65_000] {
            for at in [0, 1, 15, 16, 63, 64] {
                let mut stores = Stores::default();
                for _ in 0..2 * KEPT + 2 {
                    let mut target = vec![0xaa_u8; len + at + 64];
                    let to = target[at..].as_mut_ptr();
                    // SAFETY: both have as many bytes.
                    unsafe { stores.copy(source[at..].as_ptr(), to, len, Behind::Unknown) };
                    assert!(target[at..at + len] == source[at..at + len], "{len} at {at}");
                    assert!(target[..at].iter().chain(&target[at + len..]).all(|&b| b == 0xaa));
                }
                let mut target = vec![0xaa_u8; len + at + 64];
                // SAFETY: as above.
                unsafe { stream(source.as_ptr(), target[at..].as_mut_ptr(), len) };
                assert!(target[at..at + len] == source[..len]);
                assert!(target[..at].iter().chain(&target[at + len..]).all(|&b| b == 0xaa));
            }
        }
    }

    #[test]
    fn the_clearly_cheaper_way_is_taken() {
        let mut class = Class::default();
        // Ticks of 512 bytes, near, and of 1, 1, 2, 4, 16 and 16 KiB on another machine, near or far.
        for (start, plain, streamed, dearer, streams) in [
            (518, 340, 550, DEARER, false),
            (440, 442, 780, DEARER, false),
            (440, 1820, 728, DEARER, true),
            (440, 1118, 962, DEARER, false),
            (440, 3692, 884, DEARER, true),
            (440, 1924, 2236, DEARER_LONG, false),
            (440, 7514, 3419, DEARER_LONG, true),
        ] {
            for _ in 0..KEPT {
                class.plain.note(plain);
                class.streamed.note(streamed);
            }
            class.judge(start, dearer);
            assert_eq!(class.streams, streams, "{plain} and {streamed}");
        }
        // One that was interrupted changes nothing.
        class.streamed.note(u64::MAX);
        class.judge(440, DEARER_LONG);
        assert!(class.streams);
    }

    /// Ticks of 256 KiB to a far receiver, streamed, and of what the system has copied there.
    #[test]
    fn long_payload_goes_through_memory_where_the_system_is_slower() {
        const LEN: usize = 256 << 10;
        let worth_it = |streamed: u64, system: Option<(u64, u64)>| {
            let mut stores = Stores::default();
            assert!(stores.is_worth_it(LEN), "nothing is known: plain stores");
            let class = &mut stores.classes[class_of(LEN)];
            (class.streams, class.until_look) = (true, 2);
            stores.until_system = 1;
            for _ in 0..KEPT {
                stores.end(Parts { streams: true }, streamed / 2, LEN / 2, LEN);
            }
            for _ in 0..KEPT {
                // A short one tells nothing.
                stores.note_system(1, SYSTEM_BYTES - 1);
                if let Some((took, len)) = system {
                    stores.note_system(took, len);
                }
            }
            let is_worth_it = stores.is_worth_it(LEN);
            let counted = stores.classes[class_of(LEN)].until_look == 1;
            assert_ne!(counted, is_worth_it, "what makes no copy counts as one");
            assert!(!stores.is_worth_it(LEN), "the system is looked at again");
            is_worth_it
        };
        assert!(!worth_it(40_000, None));
        assert!(worth_it(40_000, Some((330_000, 256 << 10))));
        assert!(worth_it(40_000, Some((41_250, 32 << 10))));
        assert!(!worth_it(u64::from(u32::MAX), Some((41_250, 32 << 10))));
        assert!(!worth_it(40_000, Some((80_000, 256 << 10))), "both sides copy half of it");
        assert!(!worth_it(40_000, Some((10_000, 32 << 10))));
    }

    /// Long copies to a receiver that is near, becomes far, and comes back: the ticks of 256 KiB.
    #[test]
    fn a_receiver_that_moves_is_known_soon() {
        const START: u32 = 440;
        let mut class = Class::default();
        let copies = |class: &mut Class, count: u32, plain: u64| {
            let mut streamed = 0;
            for _ in 0..count {
                let (is_look, is_streamed) = match class.until_look {
                    0 => (true, class.looks_at_streamed),
                    _ => (false, class.streams),
                };
                streamed += u32::from(is_streamed);
                if is_look {
                    class.note_look(
                        START,
                        is_streamed,
                        if is_streamed { 60_000 } else { plain },
                        1 << 18,
                    );
                    continue;
                }
                class.until_look -= 1;
                if !is_streamed {
                    class.plain.note(plain);
                    class.judge(START, DEARER_LONG);
                }
            }
            streamed
        };
        assert_eq!(copies(&mut class, 12, 25_000), 3, "both ways are tried");
        assert_eq!(copies(&mut class, 640, 25_000), 9, "one copy in 65 is a look");
        assert_eq!(copies(&mut class, 100, 140_000), 97, "two slow ones are enough, and a look");
        assert!(copies(&mut class, 140, 25_000) < 70, "a look, and two more");
        assert_eq!(copies(&mut class, 20, 25_000), 0);
    }

    /// Of copies in parts, and of those in one piece.
    #[test]
    fn two_slow_long_copies_are_enough() {
        if !CAN_STREAM {
            return;
        }
        const LEN: usize = 64 << 10;
        let known = |plain: u32| {
            let mut stores = Stores { start: Some(440), ..Stores::default() };
            let class = &mut stores.classes[class_of(LEN)];
            (class.plain.ticks, class.streamed.ticks) = ([plain; KEPT], [15_000; KEPT]);
            class.until_look = LOOK_EVERY;
            stores
        };
        let mut stores = known(8_000);
        for streams in [false, false, true] {
            assert_eq!(stores.streams(LEN), streams);
            let parts = stores.in_parts(LEN).unwrap();
            stores.end(parts, 50_000, LEN - portion_bytes(LEN), LEN);
        }
        // One in one piece takes less than all ticks there are.
        let mut stores = known(u32::MAX);
        let (from, mut to) = (vec![1; LEN], vec![0; LEN]);
        // SAFETY: both have as many bytes.
        unsafe { stores.copy(from.as_ptr(), to.as_mut_ptr(), LEN, Behind::Unknown) };
        let noted = stores.classes[class_of(LEN)].plain.ticks;
        assert_eq!(noted.iter().filter(|&&ticks| ticks != u32::MAX).count(), 1);
    }

    #[test]
    fn nothing_is_chosen_before_both_ways_are_known() {
        let mut class = Class::default();
        for _ in 0..KEPT {
            class.plain.note(5000);
            class.streamed.note(1);
            class.judge(0, DEARER);
        }
        assert!(class.streams);
        let mut class = Class::default();
        class.plain.note(5000);
        class.streamed.note(1);
        class.judge(0, DEARER);
        assert!(!class.streams);
    }

    #[test]
    fn a_copy_that_is_to_be_timed_is_not_made_in_parts() {
        let (from, mut to) = ([7_u8; 4096], [0_u8; 4096]);
        let mut stores = Stores::default();
        for _ in 0..3 * usize::from(LOOK_EVERY) {
            match stores.in_parts(4096) {
                // SAFETY: both have as many bytes.
                Some(parts) => unsafe { parts.copy(from.as_ptr(), to.as_mut_ptr(), 4096) },
                // SAFETY: the same.
                None => unsafe {
                    stores.copy(from.as_ptr(), to.as_mut_ptr(), 4096, Behind::Unknown);
                },
            }
            assert_eq!(std::mem::take(&mut to[4095]), 7);
        }
        let class = &stores.classes[class_of(4096)];
        assert_eq!(class.is_known(), CAN_STREAM, "some of them were timed");
    }

    #[test]
    fn classes_are_powers_of_two() {
        let classes =
            [512, 1023, 1024, 4096, 16_383, 16_384, 65_536, 262_144, 1 << 30].map(class_of);
        assert_eq!(classes, [0, 0, 1, 3, 4, 5, 7, 9, 9]);
    }
}
