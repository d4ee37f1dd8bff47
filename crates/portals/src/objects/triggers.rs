//! Commands that wait for counters (Portals 4, section 3.16): those of one counter in
//! order of threshold, then of age.

use crate::objects::command::Command;
use crate::objects::ct::Ct;
use crate::table::Handle;
use sluice_link::mutants::{self, Mutant};
use std::collections::BTreeMap;

/// All of an interface. A counter's commands end before the counter does, so the
/// counter's index names it.
#[derive(Debug, Default)]
pub(crate) struct Triggers {
    /// By counter, threshold and age.
    waiting: BTreeMap<(u32, u64, u64), Box<Command>>,
    next_age: u64,
}

impl Triggers {
    /// How many commands wait.
    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Those that wait for a counter.
    pub fn len_of(&self, ct: Handle<Ct>) -> usize {
        self.waiting.range(all_of(ct)).count()
    }

    pub fn add(&mut self, ct: Handle<Ct>, threshold: u64, command: Command) {
        let newest_first = mutants::is(Mutant::FiresTheNewestFirst);
        let age = if newest_first { u64::MAX - self.next_age } else { self.next_age };
        self.next_age += 1;
        self.waiting.insert((ct.index(), threshold, age), Box::new(command));
    }

    /// The lowest threshold of what waits for a counter.
    pub fn first_threshold(&self, ct: Handle<Ct>) -> Option<u64> {
        let (&(_, threshold, _), _) = self.waiting.range(all_of(ct)).next()?;
        Some(threshold)
    }

    /// Takes the command of the lowest threshold out, of equal ones the oldest.
    pub fn take_first(&mut self, ct: Handle<Ct>) -> Option<Command> {
        let (&first, _) = self.waiting.range(all_of(ct)).next()?;
        self.waiting.remove(&first).map(|command| *command)
    }

    /// Forgets what waits for a counter.
    pub fn cancel(&mut self, ct: Handle<Ct>) {
        while self.take_first(ct).is_some() {}
    }
}

fn all_of(ct: Handle<Ct>) -> std::ops::RangeInclusive<(u32, u64, u64)> {
    (ct.index(), 0, 0)..=(ct.index(), u64::MAX, u64::MAX)
}
