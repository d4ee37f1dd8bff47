//! Who has ended, and which survivors know it.

/// Who has ended, and who knows.
#[derive(Debug)]
pub(super) struct Losses {
    dead: Option<usize>,
    /// By survivor: whether it was told.
    told: Vec<bool>,
    /// By survivor: the number of the first packet of the dead that it had not
    /// written.
    unwritten: Vec<Option<u32>>,
}

impl Losses {
    pub fn new(count: usize) -> Losses {
        Losses { dead: None, told: vec![false; count], unwritten: vec![None; count] }
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
