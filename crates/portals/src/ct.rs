//! Counting events (Portals 4, section 3.14).

/// What a counter says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ct {
    /// Successes, or bytes, depending on the options that feed it.
    pub success: u64,
    /// Failures.
    pub failure: u64,
}

impl Ct {
    pub(crate) fn count(&mut self, outcome_ok: bool, bytes: Option<u64>) {
        if outcome_ok {
            self.success = self.success.wrapping_add(bytes.unwrap_or(1));
        } else {
            // A failure counts as one, also where bytes are counted.
            self.failure = self.failure.wrapping_add(1);
        }
    }
}
