//! Reference times: the same run without limits. A sweep asks for few of them
//! again and again, so each is computed once, by whoever asks first.

use crate::config::Config;
use crate::error::ConfigError;
use crate::outcome::Outcome;
use crate::simulation::Simulation;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Reference runs by configuration. Shared by the threads of a sweep.
#[derive(Debug, Default)]
pub struct References {
    known: Mutex<BTreeMap<String, Place>>,
}

/// Who computes it holds the lock; whoever comes later waits for it.
type Place = Arc<Mutex<Option<Outcome>>>;

impl References {
    /// None yet.
    #[must_use]
    pub fn new() -> References {
        References::default()
    }

    /// The outcome without limits of what `config` runs. `None`: `tick` did
    /// not want to go on.
    ///
    /// # Errors
    /// The key at fault.
    pub fn of(
        &self,
        config: &Config,
        tick: &mut dyn FnMut(u64) -> bool,
    ) -> Result<Option<Outcome>, ConfigError> {
        let reference = config.reference();
        let simulation = Simulation::new(&reference)?;
        let place = {
            let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(known.entry(format!("{reference:?}")).or_default())
        };
        let mut outcome = place.lock().unwrap_or_else(PoisonError::into_inner);
        if outcome.is_none() {
            *outcome = simulation.run(tick);
        }
        Ok(outcome.clone())
    }
}
