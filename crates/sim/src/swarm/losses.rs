//! Who has ended, which survivors know it, and who has given up whom.

use std::collections::BTreeSet;

/// Who has ended, and who knows.
#[derive(Debug)]
pub(crate) struct Losses {
    dead: Option<usize>,
    /// By survivor: whether it was told.
    told: Vec<bool>,
    /// By survivor: the number of the first packet of the dead that it had not
    /// written.
    unwritten: Vec<Option<u32>>,
    /// Pairs on different hosts of which one has given up the other, the lower first.
    parted: BTreeSet<(usize, usize)>,
}

impl Losses {
    pub fn new(count: usize) -> Losses {
        Losses {
            dead: None,
            told: vec![false; count],
            unwritten: vec![None; count],
            parted: BTreeSet::new(),
        }
    }

    /// Who has ended.
    pub fn dead(&self) -> Option<usize> {
        self.dead
    }

    /// A process ends.
    pub fn end(&mut self, who: usize) {
        self.dead = Some(who);
    }

    /// The dead had not written its packet `seq` to a survivor.
    pub fn leave_unwritten(&mut self, to: usize, seq: u32) {
        let first = &mut self.unwritten[to];
        *first = Some(first.map_or(seq, |first| first.min(seq)));
    }

    /// One of two processes on different hosts has given up the other.
    pub fn part(&mut self, one: usize, other: usize) {
        self.parted.insert((one.min(other), one.max(other)));
    }

    /// Whether one of two has given up the other.
    pub fn is_parted(&self, one: usize, other: usize) -> bool {
        self.parted.contains(&(one.min(other), one.max(other)))
    }

    /// How often somebody has lost somebody.
    pub fn count(&self) -> usize {
        self.parted.len() + usize::from(self.dead.is_some())
    }

    /// A survivor is told.
    pub fn tell(&mut self, who: usize) {
        self.told[who] = true;
    }

    /// Whether a packet that would arrive now does not.
    pub fn is_lost(&self, from: usize, to: usize, seq: u32) -> bool {
        let Some(dead) = self.dead else { return false };
        let was_written = || self.unwritten[to].is_none_or(|first| seq < first);
        to == dead || (from == dead && (self.told[to] || !was_written()))
    }
}
