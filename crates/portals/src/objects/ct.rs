//! Counting events (Portals 4, section 3.14).

use sluice_link::mutants::{self, Mutant};
use sluice_wire::{MatchBits, PeerId};

/// What a counter says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CtEvent {
    /// Successes, or bytes, depending on the options that feed it.
    pub success: u64,
    /// Failures.
    pub failure: u64,
}

impl CtEvent {
    /// What is compared with thresholds and tests: failures count too, so that
    /// who waits for what has failed does not wait for ever.
    #[must_use]
    pub fn sum(self) -> u64 {
        self.success.saturating_add(self.failure)
    }

    pub(crate) fn add(&mut self, by: CtEvent) {
        self.success = self.success.wrapping_add(by.success);
        self.failure = self.failure.wrapping_add(by.failure);
    }

    pub(crate) fn count(&mut self, outcome_ok: bool, bytes: Option<u64>) {
        if outcome_ok {
            self.success = self.success.wrapping_add(bytes.unwrap_or(1));
        } else {
            // A failure counts as one, also where bytes are counted.
            self.failure = self.failure.wrapping_add(1);
        }
    }
}

/// What a counter keeps of a message that an entry counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HeaderNote {
    pub peer: PeerId,
    pub match_bits: MatchBits,
}

/// A counter.
#[derive(Debug, Default)]
pub struct Ct {
    pub(crate) value: CtEvent,
    /// The lowest threshold of the commands that wait for it, if any do.
    pub(crate) threshold: Option<u64>,
    /// The message that an entry counted here last.
    pub(crate) header: Option<HeaderNote>,
}

impl Ct {
    /// Whether something that it triggers is due.
    #[inline]
    pub(crate) fn is_due(&self) -> bool {
        let early = u64::from(mutants::is(Mutant::FiresTooEarly));
        self.threshold.is_some_and(|threshold| threshold <= self.value.sum() + early)
    }
}
