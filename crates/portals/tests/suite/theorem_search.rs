//! The search of the RDRP paper, section 3.1 (Theorem 2), and what it says.
//!
//! Two sends with tags t1 and t2, in this order, each leave an entry at the
//! sender. Seven pairs of receives (the paper's Table 1) each fetch by a get
//! whose match bits the receiver chose when it posted, from what it knew then:
//! nine bits, one for each value of three things.
//!
//! | bits | what | values |
//! |---|---|---|
//! | 0 to 2 | the tag of the receive | t1, t2, any |
//! | 3 and 4 | which receive it is | first, second |
//! | 5 to 8 | the tag of the receive before it | none, t1, t2, any |
//!
//! Each entry has nine match bits and nine ignore bits: 2^18 entries, 2^36
//! pairs. Over the table there are ten different gets, so an entry is known by
//! the set of those that it accepts. There are 84 such sets; the pairs of sets
//! are searched and each counts for all the pairs of entries that have them.

use std::collections::BTreeMap;

/// Bits of a get.
const BITS: u32 = 9;
/// All of them.
const ALL: u16 = (1 << BITS) - 1;
/// Pairs of entries.
const SPACE: u64 = 1 << (4 * BITS);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tag {
    T1,
    T2,
    Any,
}

use Tag::{Any, T1, T2};

/// Two receives, and which send each takes (0: the one with t1).
#[derive(Clone, Copy, Debug)]
struct Row {
    receives: [Tag; 2],
    takes: [Option<usize>; 2],
}

const fn row(receives: [Tag; 2], first: usize, second: Option<usize>) -> Row {
    Row { receives, takes: [Some(first), second] }
}

/// Table 1, letter by letter.
const PRINTED: [Row; 7] = [
    row([T1, T2], 0, Some(1)),
    row([T2, T1], 1, Some(0)),
    row([Any, Any], 0, Some(1)),
    row([Any, T2], 0, Some(1)),
    row([Any, T1], 0, None),
    row([T1, Any], 0, Some(1)),
    row([T2, Any], 0, Some(1)),
];

/// Its last row says that a receive for t2 takes the send with t1. MPI says
/// that it takes the other, and the receive of any tag takes the first.
fn corrected() -> [Row; 7] {
    let mut rows = PRINTED;
    rows[6] = row([T2, Any], 1, Some(0));
    rows
}

/// What must hold of the gets of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rule {
    /// A get matches the entry of its send and not the other.
    OwnEntry,
    /// Entries are searched in the order of the sends and used once; gets come
    /// in the order in which the receives were posted. So it is when both
    /// sends were there before them.
    PostedOrder,
    /// The same, but gets come in the order of the sends. So it is when both
    /// receives were there before them.
    HeaderOrder,
}

/// What a search has found.
#[derive(Debug, Default, PartialEq, Eq)]
struct Found {
    /// Of the 2^36 pairs of entries, so many.
    assignments: u64,
    /// Pairs of sets of gets: which of [`gets`] the first entry accepts, a bit
    /// each, and which the second.
    accepted: Vec<[u16; 2]>,
}

/// The match bits that a receiver chooses.
fn get(row: &Row, position: usize) -> u16 {
    let before = match position {
        0 => 0,
        _ => 1 + row.receives[position - 1] as u16,
    };
    1 << row.receives[position] as u16 | 1 << (3 + position) | 1 << (5 + before)
}

/// The different gets of a table.
fn gets() -> Vec<u16> {
    let each = PRINTED.iter().flat_map(|row| [get(row, 0), get(row, 1)]);
    let mut gets: Vec<u16> = each.collect();
    gets.sort_unstable();
    gets.dedup();
    gets
}

/// Sets of gets that some entry accepts, and how many entries do.
fn entries(gets: &[u16]) -> BTreeMap<u16, u64> {
    let mut entries = BTreeMap::new();
    for (bits, ignore) in (0..=ALL).flat_map(|bits| (0..=ALL).map(move |ignore| (bits, ignore))) {
        let accepts = |get: u16| (get ^ bits) & !ignore & ALL == 0;
        let set = gets.iter().enumerate().map(|(at, &get)| u16::from(accepts(get)) << at).sum();
        *entries.entry(set).or_default() += 1;
    }
    entries
}

/// Whether two entries, known by the sets that they accept, do what a row says.
/// A receive that takes nothing must find nothing.
fn obeys(rule: Rule, row: &Row, sets: [u16; 2], at: [usize; 2]) -> bool {
    let accepts = |entry: usize, receive: usize| sets[entry] >> at[receive] & 1 != 0;
    if rule == Rule::OwnEntry {
        return (0..2).all(|receive| {
            (0..2).all(|entry| accepts(entry, receive) == (row.takes[receive] == Some(entry)))
        });
    }
    let mut order = [0, 1];
    if rule == Rule::HeaderOrder {
        order.sort_by_key(|&receive| row.takes[receive].unwrap_or(usize::MAX));
    }
    let mut used = [false; 2];
    order.into_iter().all(|receive| {
        let found = (0..2).find(|&entry| !used[entry] && accepts(entry, receive));
        if let Some(entry) = found {
            used[entry] = true;
        }
        found == row.takes[receive]
    })
}

fn search(rows: &[Row], rules: &[Rule]) -> Found {
    let gets = gets();
    let at = |get: u16| gets.binary_search(&get).expect("it is in the table");
    let kinds = entries(&gets);
    assert_eq!(kinds.values().sum::<u64>().pow(2), SPACE, "all of the space is searched");
    let mut found = Found::default();
    for (&first, first_count) in &kinds {
        for (&second, second_count) in &kinds {
            let fits = rows.iter().all(|row| {
                let at = [at(get(row, 0)), at(get(row, 1))];
                rules.iter().all(|&rule| obeys(rule, row, [first, second], at))
            });
            if fits {
                found.assignments += first_count * second_count;
                found.accepted.push([first, second]);
            }
        }
    }
    found
}

/// The set of the gets that this accepts.
fn set_of(accepts: impl Fn(u16) -> bool) -> u16 {
    let gets = gets().into_iter().enumerate();
    gets.map(|(at, get)| u16::from(accepts(get)) << at).sum()
}

#[test]
fn theorem_table_1_as_printed_has_no_assignment() {
    assert_eq!(gets().len(), 10);
    assert_eq!(entries(&gets()).len(), 84);
    assert_eq!(search(&PRINTED, &[Rule::OwnEntry]), Found::default());
    assert_eq!(search(&PRINTED, &[Rule::PostedOrder]), Found::default());
}

/// A list hides the contradiction of the last row when the first send is always
/// fetched first: an entry that accepts too much is used up by then.
#[test]
fn theorem_a_list_met_in_header_order_solves_even_the_printed_table() {
    let found = search(&PRINTED, &[Rule::HeaderOrder]);
    assert_eq!((found.assignments, found.accepted.len()), (294_912, 4));
}

#[test]
fn theorem_table_1_corrected_has_none_if_each_get_matches_only_its_own_entry() {
    assert_eq!(search(&corrected(), &[Rule::OwnEntry]), Found::default());
}

#[test]
fn theorem_table_1_corrected_has_eight_if_entries_are_searched_in_order_and_used_once() {
    let found = search(&corrected(), &[Rule::PostedOrder, Rule::HeaderOrder]);
    assert_eq!((found.assignments, found.accepted.len()), (221_184, 8));
    assert_eq!(found, search(&corrected(), &[Rule::PostedOrder]), "this order is the harder one");
    assert_eq!(search(&corrected(), &[Rule::HeaderOrder]).accepted.len(), 16);
    // The tag alone is enough: each entry accepts its own and any.
    let own = |mine: Tag| set_of(|get| get & 1 << mine as u16 != 0 || get & 1 << Any as u16 != 0);
    assert!(found.accepted.contains(&[own(T1), own(T2)]));
    // In all eight an entry accepts at least the receives that may take it, and
    // refuses those of the other tag; they differ in receives that never come
    // to meet it.
    for [first, second] in found.accepted {
        let only = |tag: Tag| set_of(|get| get & 1 << tag as u16 != 0);
        assert_eq!((first & only(T2), second & only(T1)), (0, 0));
    }
}

/// What a receive that takes nothing would find is never asked: its get is not
/// sent. Without that demand there are more assignments, but still none for
/// entries that stand alone.
#[test]
fn theorem_the_receive_that_takes_nothing_is_not_what_fails() {
    let rows: Vec<Row> = corrected().into_iter().filter(|row| row.takes[1].is_some()).collect();
    assert_eq!(search(&rows, &[Rule::OwnEntry]), Found::default());
    // Row five says one thing more: its first receive is that of other rows.
    let found = search(&rows, &[Rule::PostedOrder, Rule::HeaderOrder]);
    assert_eq!((found.assignments, found.accepted.len()), (663_552, 16));
}

/// The search is about masks, and about this coding of what a receiver knows. If
/// the receiver sends one bit, which it can compute from the same nine, each
/// get of the corrected table finds its own entry and no other.
#[test]
fn theorem_another_coding_of_the_same_knowledge_solves_the_example() {
    let takes_second = |code: u16| {
        let rows = corrected().into_iter();
        let told = rows.flat_map(|row| [0, 1].map(|at| (get(&row, at), row.takes[at] == Some(1))));
        let mut told: Vec<bool> = told.filter(|(of, _)| *of == code).map(|(_, two)| two).collect();
        told.dedup();
        assert_eq!(told.len(), 1, "the same knowledge never means both");
        told[0]
    };
    for row in corrected() {
        for receive in 0..2 {
            let Some(taken) = row.takes[receive] else { continue };
            assert_eq!(usize::from(takes_second(get(&row, receive))), taken, "{row:?}");
        }
    }
}
