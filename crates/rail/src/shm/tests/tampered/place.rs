//! Where in a mailbox somebody writes.

use super::super::super::Shm;
use super::super::super::bounce::BOUNCE_WORD;
use super::super::super::card::CARD_BYTES;
use super::super::super::chunk_claims::parts;
use super::super::super::handover::Handed;
use super::super::super::ring::WORDS;
use super::super::super::segment::{ENTRY_CARD_AT, Segment};
use super::super::Noise;
use super::Process;
use std::sync::atomic::Ordering;

/// See the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Header,
    EntryClaims,
    Closed,
    Tail,
    Bell,
    ChunkClaims,
    EntryClaim,
    Address,
    Intent,
    Unused,
    Stamp,
    /// What both sides of a transfer say in its line of the claims about handing over.
    TakesIn,
    HandsOver,
    /// What a packet with a handed chunk says of claims, chunk, length and buffer.
    Handed,
    /// How many portions the owner has stored.
    Portions,
    /// How many of the owner's buffers a writer has read.
    BouncesRead,
    /// Payload in the owner's buffers.
    BounceBytes,
    /// Whether the owner looks.
    Look,
}

use Place::*;

pub(super) const PLACES: [Place; 18] = [
    Header,
    EntryClaims,
    Closed,
    Tail,
    Bell,
    ChunkClaims,
    EntryClaim,
    Address,
    Intent,
    Unused,
    Stamp,
    TakesIn,
    HandsOver,
    Handed,
    Portions,
    BouncesRead,
    BounceBytes,
    Look,
];
/// Those that a chunk that is handed over depends on.
pub(super) const OF_HANDED: [Place; 8] =
    [TakesIn, HandsOver, Handed, Portions, BouncesRead, BounceBytes, Look, ChunkClaims];

impl Place {
    /// Whoever writes there delays others and nothing else.
    pub(super) fn is_a_hint(self) -> bool {
        matches!(self, Unused | TakesIn | HandsOver | Look)
    }

    /// Whether packets may have other bytes then: they are written over each other, in the ring or in
    /// the buffers, or their bytes are.
    pub(super) fn changes_payloads(self) -> bool {
        matches!(self, Tail | Stamp | BouncesRead | BounceBytes)
    }

    /// Whether a transfer may have other bytes then. Who writes over all that says of a handed chunk
    /// what it is, or over its bytes, is its sender; and a reader knows by the tail what
    /// was handed over.
    pub(super) fn changes_transfers(self) -> bool {
        self == Handed || self.changes_payloads()
    }
}

/// Writes over one word of a process's mailbox. False if there is nothing of the kind now.
pub(super) fn tamper(shm: &Shm, process: &Process, place: Place, noise: &mut Noise) -> bool {
    let Some(at) = offset(shm, process, place, noise) else { return false };
    if place == BounceBytes {
        for word in at / 8..at / 8 + 256 {
            shm.segment.word_at(word * 8).store(noise.next(), Ordering::Relaxed);
        }
        return true;
    }
    let word = shm.segment.word_at(at);
    let now = word.load(Ordering::Relaxed);
    let value = value(now, shm, noise);
    // Of a slot only the stamp and the writer.
    let mask = if place == Stamp { 0xffff_ffff_ffff } else { u64::MAX };
    word.store(now & !mask | value & mask, Ordering::Relaxed);
    true
}

fn value(now: u64, shm: &Shm, noise: &mut Noise) -> u64 {
    let slots = u64::from(shm.layout().ring_slots);
    let any = noise.next();
    match noise.below(8) {
        0 => 0,
        1 => u64::MAX,
        2 => now.wrapping_add(1 + noise.below(30)),
        3 => now.wrapping_sub(1 + noise.below(30)),
        4 => now ^ 1 << noise.below(64),
        5 => now.wrapping_add(noise.below(2 * slots)),
        6 => noise.below(4),
        _ => any,
    }
}

fn offset(shm: &Shm, process: &Process, place: Place, noise: &mut Noise) -> Option<usize> {
    let entry = Segment::entry_offset(noise.below(4) as usize);
    let ahead = shm.reader.head() + noise.below(20);
    Some(match place {
        Header => noise.below(16) as usize * 8,
        EntryClaims => 128,
        Closed => 192,
        Tail => Segment::tail_offset(),
        Bell => 384,
        // The claims, or the peer's record.
        ChunkClaims => line(process)? + noise.below(2) as usize * 8,
        TakesIn => line(process)? + 16,
        HandsOver => line(process)? + 24,
        EntryClaim => entry,
        Address => entry + ENTRY_CARD_AT + noise.below(CARD_BYTES as u64 / 8) as usize * 8,
        Intent => entry + 128,
        BouncesRead => entry + 136,
        Unused => [400, 448, 1024, 4032][noise.below(4) as usize],
        Stamp => slot_offset(shm, ahead),
        Handed => handed_slot(shm)? + [1, 2, BOUNCE_WORD][noise.below(3) as usize] * 8,
        Portions => 512,
        Look => 640,
        BounceBytes => {
            let all = shm.segment.bounces_len();
            let begin = shm.segment.bytes() - all;
            begin + noise.below(all as u64 / 2048) as usize * 2048
        }
    })
}

/// The line of the claims of a transfer that is under way to a process.
fn line(process: &Process) -> Option<usize> {
    let mut open = process.others.iter().filter_map(|with| parts(with.claims?));
    open.next().map(|(place, _)| Segment::claims_line_offset(place))
}

/// The first slot with a chunk that was handed over and not taken in.
fn handed_slot(shm: &Shm) -> Option<usize> {
    (shm.reader.head()..shm.reader.reserved_until()).map(|at| slot_offset(shm, at)).find(|at| {
        let mut slot = [0; WORDS];
        slot[0] = shm.segment.word_at(*at).load(Ordering::Relaxed);
        Handed::of(&slot).is_some()
    })
}

fn slot_offset(shm: &Shm, position: u64) -> usize {
    let slots = u64::from(shm.layout().ring_slots);
    shm.segment.ring_offset() + (position & (slots - 1)) as usize * 64
}
