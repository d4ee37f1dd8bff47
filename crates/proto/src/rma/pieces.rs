//! What an operation is cut into, and which of its pieces the target is told of.
//!
//! The target counts operations, so it must not be told of each piece. It is told of the last
//! one of the operation, and, where others of its regions are reached too, of the last one at
//! each of those. Pieces are done in the order in which they are sent, but for long ones, whose
//! bytes come later than their headers. So a piece that is told of waits at its origin until the
//! long ones before it have ended ([`Pieces::next`]). Data is told of no write that fails, so a
//! piece with data waits for short ones too.

use crate::portal::{PT_REMOTE, PT_REMOTE_PART, PT_REMOTE_REGION, PT_REMOTE_TOLD};
use crate::rma::api::Part;
use sluice_link::mutants::{self, Mutant};
use sluice_wire::{PtIndex, Region};
use std::collections::VecDeque;

/// The longest piece, in bytes, of which one command is made.
const PIECE_BYTES_MAX: u64 = 1 << 31;

/// What the target is told when a piece is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tells {
    Nothing,
    /// The operation is done at this region, and goes on at others.
    Region,
    /// The operation is done.
    All,
}

/// What one command is made of.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Piece {
    pub part: Part,
    pub tells: Tells,
}

impl Piece {
    /// Where it goes, of an operation with data or without.
    pub fn pt_index(&self, has_data: bool) -> PtIndex {
        match self.tells {
            Tells::All if has_data => PT_REMOTE_TOLD,
            Tells::All => PT_REMOTE,
            Tells::Region => PT_REMOTE_REGION,
            Tells::Nothing => PT_REMOTE_PART,
        }
    }
}

/// How many pieces these parts are.
pub(crate) fn count(parts: &[Part]) -> usize {
    parts.iter().map(|part| count_of(part) as usize).sum()
}

fn count_of(part: &Part) -> u64 {
    part.local.len.div_ceil(PIECE_BYTES_MAX).max(1)
}

/// The pieces of these parts, in order.
pub(crate) fn pieces_of(parts: &[Part]) -> impl Iterator<Item = Piece> {
    parts.iter().enumerate().flat_map(move |(at, part)| {
        let later = &parts[at + 1..];
        let tells = match later.iter().any(|other| other.key == part.key) {
            _ if later.is_empty() => Tells::All,
            true => Tells::Nothing,
            false => Tells::Region,
        };
        let last = count_of(part) - 1;
        (0..=last).map(move |nth| {
            let tells = match nth == last {
                _ if mutants::is(Mutant::CountsPieces) => Tells::All,
                true => tells,
                false => Tells::Nothing,
            };
            Piece { part: cut(part, nth * PIECE_BYTES_MAX), tells }
        })
    })
}

/// What of a part is one piece, from `at` on.
fn cut(part: &Part, at: u64) -> Part {
    let mut piece = *part;
    let len = (part.local.len - at).min(PIECE_BYTES_MAX);
    piece.local = Region { addr: part.local.addr.offset(at), len };
    piece.offset = part.offset.wrapping_add(at);
    piece
}

/// Pieces of an operation that have not begun.
#[derive(Debug, Default)]
pub(crate) struct Pieces(VecDeque<Piece>);

impl Pieces {
    pub fn new(pieces: impl Iterator<Item = Piece>) -> Pieces {
        Pieces(pieces.collect())
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Takes out those that may begin now, when all before them have ended: at least one.
    /// `short_bytes_max`: up to so many bytes always come in one packet.
    pub fn next(&mut self, short_bytes_max: u64, has_data: bool) -> Vec<Piece> {
        let mut waits = false;
        let begins = |piece: &&Piece| {
            let begins = piece.tells == Tells::Nothing || !waits;
            waits |= piece.part.local.len > short_bytes_max || has_data;
            begins || mutants::is(Mutant::TellsTooEarly)
        };
        let count = self.0.iter().take_while(begins).count();
        self.0.drain(..count).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sluice_wire::{Addr, ITEM_BYTES_MAX};

    fn part(key: u64, len: u64) -> Part {
        let local = Region { addr: Addr(1000), len };
        Part { local, key, offset: 5, result: Addr(0), operand: [0; ITEM_BYTES_MAX] }
    }

    fn tells(parts: &[Part]) -> Vec<Tells> {
        pieces_of(parts).map(|piece| piece.tells).collect()
    }

    /// How many begin at a time.
    fn steps(parts: &[Part], has_data: bool) -> Vec<usize> {
        let mut pieces = Pieces::new(pieces_of(parts));
        let mut next = || (!pieces.is_empty()).then(|| pieces.next(960, has_data).len());
        std::iter::from_fn(&mut next).collect()
    }

    #[test]
    fn each_region_is_told_of_its_last_piece_and_the_operation_of_the_last_of_all() {
        use Tells::{All, Nothing, Region};
        assert_eq!(tells(&[part(1, 8)]), [All]);
        assert_eq!(tells(&[part(1, 8), part(1, 8), part(1, 8)]), [Nothing, Nothing, All]);
        assert_eq!(tells(&[part(1, 8), part(2, 8)]), [Region, All]);
        let mixed = [part(1, 8), part(2, 8), part(1, 8), part(2, 8), part(1, 8)];
        assert_eq!(tells(&mixed), [Nothing, Nothing, Nothing, Region, All]);
        assert_eq!(tells(&[]), []);
    }

    #[test]
    fn a_part_that_is_too_long_for_a_command_is_several_pieces() {
        let parts = [part(1, PIECE_BYTES_MAX + 1), part(2, 2 * PIECE_BYTES_MAX)];
        let pieces: Vec<_> = pieces_of(&parts)
            .map(|piece| (piece.part.local.len, piece.part.offset, piece.tells))
            .collect();
        let (most, next) = (PIECE_BYTES_MAX, 5 + PIECE_BYTES_MAX);
        let expected = [
            (most, 5, Tells::Nothing),
            (1, next, Tells::Region),
            (most, 5, Tells::Nothing),
            (most, next, Tells::All),
        ];
        assert_eq!(pieces, expected);
        assert_eq!(count(&parts), 4);
    }

    #[test]
    fn what_is_told_of_waits_for_long_pieces_and_with_data_for_all() {
        let (short, long) = (960, 961);
        assert_eq!(steps(&[part(1, short), part(1, short), part(1, long)], false), [3]);
        assert_eq!(steps(&[part(1, long), part(1, long), part(1, short)], false), [2, 1]);
        assert_eq!(steps(&[part(1, short), part(2, short), part(3, long)], false), [3]);
        let mixed = [part(1, long), part(2, long), part(1, short), part(2, short)];
        assert_eq!(steps(&mixed, false), [2, 2]);
        assert_eq!(steps(&[part(1, long), part(2, long), part(3, long)], false), [1, 1, 1]);
        assert_eq!(steps(&[part(1, short), part(1, short), part(1, short)], true), [2, 1]);
        assert_eq!(steps(&[part(1, short)], true), [1]);
    }
}
