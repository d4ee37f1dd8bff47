//! Code words of constant weight: tags of any width as match bits, so that an
//! entry accepts exactly its own tag and the wildcard.
//!
//! A word has `weight` ones among `bits` bits; the wildcard is the word zero.
//! The entry of a tag has the tag's word as match bits and as ignore bits. It
//! accepts a word when that has no one outside of its own: zero, and of the
//! words of the same weight only its own. (No form of words does with fewer
//! bits: none may lie inside another, and by Sperner's theorem the words of
//! half the weight are the largest such family.)
//!
//! Tags are numbered as the combinatorial number system does: the word with
//! ones at c1 < c2 < … has the number binomial(c1, 1) + binomial(c2, 2) + …

#![allow(dead_code, reason = "each test program uses its part of it")]

/// A family of words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Code {
    pub bits: u32,
    pub weight: u32,
}

/// The word that every entry accepts.
pub const WILDCARD: u64 = 0;

/// For every 32-bit tag: 9,075,135,300 words. (35 bits of weight 17 would do,
/// and for the 31 bits of an MPI tag 34.)
pub const TAGS: Code = Code { bits: 36, weight: 18 };

impl Code {
    /// How many words there are.
    pub fn words(self) -> u64 {
        binomial(self.bits, self.weight)
    }

    /// The word of a tag; `None` if there are not so many words.
    pub fn word(self, tag: u64) -> Option<u64> {
        if tag >= self.words() {
            return None;
        }
        let (mut left, mut ones, mut word) = (tag, self.weight, 0);
        for bit in (0..self.bits).rev() {
            let below = binomial(bit, ones);
            if ones > 0 && left >= below {
                left -= below;
                ones -= 1;
                word |= 1 << bit;
            }
        }
        Some(word)
    }

    /// The tag of a word; `None` if it is none.
    pub fn tag(self, word: u64) -> Option<u64> {
        if word >> self.bits != 0 || word.count_ones() != self.weight {
            return None;
        }
        let ones = (0..self.bits).filter(|bit| word >> bit & 1 != 0);
        Some(ones.zip(1..).map(|(bit, nth)| binomial(bit, nth)).sum())
    }
}

/// Whether an entry with these match bits and ignore bits accepts a word, as
/// Portals defines it.
pub fn accepts(bits: u64, ignore: u64, word: u64) -> bool {
    (bits ^ word) & !ignore == 0
}

/// `n` over `k`, for values that fit.
pub fn binomial(n: u32, k: u32) -> u64 {
    if k > n {
        return 0;
    }
    let product = |sum: u128, i: u32| sum * u128::from(n - i) / u128::from(i + 1);
    let result = (0..k.min(n - k)).fold(1, product);
    u64::try_from(result).expect("it fits for words of at most 64 bits")
}
