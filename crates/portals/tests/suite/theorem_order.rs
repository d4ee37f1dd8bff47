//! Matching at the sender. Before each send the sender appends an entry of the
//! message's tag, used once; the header goes to the receiver, which matches it
//! as MPI says; the receive that gets it sends a get whose match bits it chose
//! when it was posted: its tag, or the wildcard. The get takes the oldest entry
//! that accepts it. Is that the entry of its message?
//!
//! It is, for all messages, if and only if **no get overtakes one that it is in
//! conflict with**: of two matched messages, the older one's get comes first if
//! the receive of the younger one would also accept the older one. Gets that
//! come in the order in which their headers were matched keep that always.
//!
//! *If.* Take the first get that finds a wrong entry: of message i, say, while
//! it finds that of i'. The list has i's own entry too, so i' is older, and this
//! receive accepts i'. The header of i' arrived before that of i, so at the
//! match of i it was not unexpected any more (this receive would have taken it
//! first); it was matched, by another receive. That one's get is in conflict
//! with this one, so it came before; it found its own entry, as no earlier get
//! found a wrong one; so the entry of i' is used up. *Only if.* If the younger
//! one's get comes first, the older one's entry is there, is accepted, and is
//! older than its own.
//!
//! These tests ask the same of random programs. Messages that travel whole
//! (eager) have no entry and send no get; they take part in MPI's matching only.

use crate::codes::{Code, TAGS, WILDCARD, accepts, binomial};
use crate::matcher::{Envelope, Match, Matcher, Wanted};
use crate::pair::net::random::Random;
use proptest::prelude::*;
use std::collections::VecDeque;

const TAG_COUNT: u64 = 3;

/// What one process sends to another, and what that receives of it.
#[derive(Clone, Debug)]
struct Program {
    /// Tag, and whether it is fetched.
    sends: Vec<(u32, bool)>,
    receives: Vec<Option<u32>>,
}

impl Program {
    fn random(draw: &mut Random) -> Program {
        let tag = |draw: &mut Random| draw.below(TAG_COUNT) as u32;
        let sends = (0..draw.between(1, 12)).map(|_| (tag(draw), draw.percent(70))).collect();
        let receives = (0..draw.between(1, 12))
            .map(|_| if draw.percent(35) { None } else { Some(tag(draw)) })
            .collect();
        Program { sends, receives }
    }

    fn envelope(&self, send: usize) -> Envelope {
        Envelope { source: 0, tag: self.sends[send].0 }
    }

    fn wanted(&self, receive: usize) -> Wanted {
        Wanted { source: Some(0), tag: self.receives[receive] }
    }

    fn accepts(&self, receive: usize, send: usize) -> bool {
        self.wanted(receive).accepts(self.envelope(send))
    }

    /// The match bits of a receive's get.
    fn word(&self, receive: usize) -> u64 {
        self.receives[receive].map_or(WILDCARD, word)
    }

    /// MPI's matches in the order in which they happen, when headers arrive and
    /// receives are posted in any interleaving.
    fn matches(&self, draw: &mut Random) -> Vec<Match> {
        let mut matcher = Matcher::default();
        let (mut sent, mut posted) = (0, 0);
        let late = *draw.pick(&[0, 50, 50, 100]);
        let mut matches = Vec::new();
        while sent < self.sends.len() || posted < self.receives.len() {
            let arrives =
                posted == self.receives.len() || sent < self.sends.len() && draw.percent(late);
            if arrives {
                matches.extend(matcher.arrive(sent, self.envelope(sent)));
                sent += 1;
            } else {
                matches.extend(matcher.post(posted, self.wanted(posted)));
                posted += 1;
            }
        }
        matches
    }

    /// Those of them that send a get.
    fn fetched(&self, draw: &mut Random) -> Vec<Match> {
        let matches = self.matches(draw);
        matches.into_iter().filter(|of| self.sends[of.send].1).collect()
    }

    /// Whether these two gets must keep their order.
    fn conflict(&self, one: Match, other: Match) -> bool {
        let (older, younger) = if one.send < other.send { (one, other) } else { (other, one) };
        self.accepts(younger.receive, older.send)
    }

    /// Whether every get, in this order, finds the entry of its message.
    fn all_right(&self, gets: &[Match]) -> bool {
        let mut entries = Entries::default();
        for send in 0..self.sends.len() {
            entries.append(self, send);
        }
        gets.iter().all(|get| entries.take(self.word(get.receive)) == Some(get.send))
    }
}

/// The entries of the sender, oldest first.
#[derive(Debug, Default)]
struct Entries {
    linked: Vec<(usize, u64)>,
}

impl Entries {
    fn append(&mut self, program: &Program, send: usize) {
        let (tag, is_fetched) = program.sends[send];
        if is_fetched {
            self.linked.push((send, word(tag)));
        }
    }

    fn take(&mut self, get: u64) -> Option<usize> {
        let at = self.linked.iter().position(|&(_, own)| accepts(own, own, get))?;
        Some(self.linked.remove(at).0)
    }
}

fn word(tag: u32) -> u64 {
    TAGS.word(u64::from(tag)).expect("every 32-bit tag has a word")
}

fn shuffle<T>(items: &mut [T], draw: &mut Random) {
    for at in (1..items.len()).rev() {
        items.swap(at, draw.below(at as u64 + 1) as usize);
    }
}

#[test]
fn theorem_there_are_words_enough_for_tags_of_any_width() {
    assert_eq!(TAGS.words(), 9_075_135_300);
    assert!(TAGS.words() > 1 << 32);
    // As few bits as it can be done with, for 32 bits and for MPI's 31.
    assert!(binomial(35, 17) >= 1 << 32 && binomial(34, 17) < 1 << 32);
    assert!(binomial(34, 17) >= 1 << 31 && binomial(33, 16) < 1 << 31);
    assert_eq!(TAGS.word(u64::from(u32::MAX)).map(u64::count_ones), Some(18));
    assert_eq!(TAGS.word(TAGS.words()), None);
    assert_eq!(TAGS.tag(WILDCARD), None);
}

/// Every word against every entry, where there are few.
#[test]
fn theorem_an_entry_accepts_its_own_word_and_the_wildcard_and_no_other() {
    for (bits, weight) in [(1, 1), (4, 2), (5, 2), (8, 4), (9, 4)] {
        let code = Code { bits, weight };
        let words: Vec<u64> = (0..code.words()).map(|tag| code.word(tag).unwrap()).collect();
        assert!(words.windows(2).all(|two| two[0] < two[1]), "in order, so all different");
        for &own in &words {
            assert!(accepts(own, own, WILDCARD));
            let accepted: Vec<u64> =
                words.iter().copied().filter(|&word| accepts(own, own, word)).collect();
            assert_eq!(accepted, [own]);
        }
    }
}

proptest! {
    #[test]
    fn theorem_a_tag_of_32_bits_is_told_from_every_other(one: u32, other: u32, bit in 0..32_u32) {
        let own = word(one);
        prop_assert_eq!(own.count_ones(), TAGS.weight);
        prop_assert_eq!(own >> TAGS.bits, 0);
        prop_assert_eq!(TAGS.tag(own), Some(u64::from(one)));
        prop_assert!(accepts(own, own, WILDCARD));
        for tag in [one, other, one ^ 1 << bit, one.wrapping_add(1)] {
            prop_assert_eq!(accepts(own, own, word(tag)), tag == one);
        }
    }
}

/// From one source the matches do not depend on who was first; and whether two
/// match depends only on what each side did before. So both could compute it:
/// what no mask can say is not unknown, only too long to say.
#[test]
fn theorem_a_match_is_known_from_what_came_before_on_either_side() {
    for seed in 0..3_000 {
        let mut draw = Random::new(seed);
        let program = Program::random(&mut draw);
        let mut matches = program.matches(&mut draw);
        matches.sort_unstable();
        let mut again = program.matches(&mut draw);
        again.sort_unstable();
        assert_eq!(matches, again, "in another interleaving");
        for send in 0..program.sends.len() {
            for receive in 0..program.receives.len() {
                let before = Program {
                    sends: program.sends[..=send].to_vec(),
                    receives: program.receives[..=receive].to_vec(),
                };
                let pair = Match { send, receive };
                let known = before.matches(&mut draw).contains(&pair);
                assert_eq!(known, matches.contains(&pair), "{pair:?} of {program:?}");
            }
        }
    }
}

/// Gets are sent when their headers are matched and keep their order, however
/// long they take and whatever the sender appends meanwhile.
#[test]
fn theorem_gets_in_the_order_of_their_matches_find_their_own_entries() {
    let mut fetched = 0;
    for seed in 0..20_000 {
        let mut draw = Random::new(seed);
        let program = Program::random(&mut draw);
        let (mut matcher, mut entries) = (Matcher::default(), Entries::default());
        let mut headers = VecDeque::new();
        let mut gets: VecDeque<Match> = VecDeque::new();
        let (mut sent, mut posted) = (0, 0);
        loop {
            let can = [
                sent < program.sends.len(),
                !headers.is_empty(),
                posted < program.receives.len(),
                !gets.is_empty(),
            ];
            let can: Vec<usize> = (0..can.len()).filter(|&what| can[what]).collect();
            if can.is_empty() {
                break;
            }
            let matched = match draw.pick(&can) {
                0 => {
                    entries.append(&program, sent);
                    headers.push_back(sent);
                    sent += 1;
                    None
                }
                1 => {
                    let send = headers.pop_front().expect("it was asked");
                    matcher.arrive(send, program.envelope(send))
                }
                2 => {
                    posted += 1;
                    matcher.post(posted - 1, program.wanted(posted - 1))
                }
                _ => {
                    let get = gets.pop_front().expect("it was asked");
                    let found = entries.take(program.word(get.receive));
                    assert_eq!(found, Some(get.send), "seed {seed}: {program:?}");
                    fetched += 1;
                    None
                }
            };
            gets.extend(matched.filter(|of| program.sends[of.send].1));
        }
    }
    assert!(fetched > 20_000, "{fetched} gets are enough to say so");
}

/// The condition is exact: gets may come in any order that keeps those in
/// conflict, and in no other.
#[test]
fn theorem_exactly_the_gets_in_conflict_must_keep_their_order() {
    let [mut right, mut moved, mut wrong] = [0; 3];
    for seed in 0..20_000 {
        let mut draw = Random::new(seed);
        let program = Program::random(&mut draw);
        let matched = program.fetched(&mut draw);
        for (at, &later) in matched.iter().enumerate() {
            for &earlier in &matched[..at] {
                let in_conflict = program.conflict(earlier, later);
                assert!(!in_conflict || earlier.send < later.send, "matches keep this order");
                assert!(!in_conflict || earlier.receive < later.receive, "of the receives too");
            }
        }
        let mut gets = matched.clone();
        shuffle(&mut gets, &mut draw);
        let kept = (0..gets.len()).all(|late| {
            (0..late).all(|early| {
                gets[early].send < gets[late].send || !program.conflict(gets[early], gets[late])
            })
        });
        assert_eq!(program.all_right(&gets), kept, "seed {seed}: {gets:?} of {program:?}");
        right += usize::from(kept);
        moved += usize::from(kept && gets != matched);
        wrong += usize::from(!kept);
    }
    assert!(right > 2_000 && moved > 1_000 && wrong > 2_000, "{right}, {moved}, {wrong}");
}

/// The smallest case in which order is all that decides.
#[test]
fn theorem_a_get_that_overtakes_another_takes_its_entry() {
    let program = Program { sends: vec![(1, true), (1, true)], receives: vec![Some(1), None] };
    let matched = [Match { send: 0, receive: 0 }, Match { send: 1, receive: 1 }];
    assert_eq!(program.fetched(&mut Random::new(1)), matched);
    assert!(program.all_right(&matched));
    assert!(!program.all_right(&[matched[1], matched[0]]));
    // With two tags and no wildcard any order will do.
    let program = Program { sends: vec![(1, true), (2, true)], receives: vec![Some(1), Some(2)] };
    assert!(program.all_right(&matched) && program.all_right(&[matched[1], matched[0]]));
}

/// A message in two pieces, each fetched by a get with the same bits: the second
/// get of the first message comes after the first get of the second.
#[test]
fn theorem_a_message_cannot_be_fetched_by_several_gets_with_the_same_bits() {
    let program = Program { sends: vec![(1, true), (1, true)], receives: vec![Some(1), Some(1)] };
    let mut entries = Entries::default();
    for send in [0, 0, 1, 1] {
        entries.append(&program, send);
    }
    let gets = [0, 1, 0, 1];
    let found = gets.map(|receive| entries.take(program.word(receive)).expect("an entry is left"));
    assert_eq!(found, [0, 0, 1, 1], "each receive has got a piece of either message");
}

/// The scheme before the paper's (Barrett and others): the n-th receive fetches
/// the n-th send. It is right only while both sides keep the same order.
#[test]
fn theorem_sequence_numbers_alone_are_not_mpis_matching() {
    let program = Program { sends: vec![(1, true), (2, true)], receives: vec![Some(2), Some(1)] };
    let matched = program.fetched(&mut Random::new(1));
    assert!(matched.iter().all(|of| of.send != of.receive));
}
