//! A run from its configuration to its figures.

use crate::config::{Config, Layer};
use crate::error::ConfigError;
use crate::library::Library;
use crate::mailbox;
use crate::messages::Messages;
use crate::outcome::Outcome;
use crate::packets::Packets;
use crate::world::World;

/// Events between two looks at whether to go on.
const SLICE_EVENTS: u64 = 100_000;

/// A configuration that has been checked.
#[derive(Clone, Debug)]
pub struct Simulation {
    config: Config,
}

impl Simulation {
    /// Checks a configuration.
    ///
    /// # Errors
    /// The key at fault, and what would be right.
    pub fn new(config: &Config) -> Result<Simulation, ConfigError> {
        config.check()?;
        if config.program.shared_memory && config.layer == Layer::Messages {
            let text = "needs layer = \"packets\"";
            return Err(ConfigError::new("program.shared_memory", text));
        }
        mailbox::layout(config)?;
        Ok(Simulation { config: config.clone() })
    }

    /// Runs it. `tick` is told of events as they pass, and says whether to go
    /// on; if not, there is no outcome.
    pub fn run(&self, tick: &mut dyn FnMut(u64) -> bool) -> Option<Outcome> {
        self.dispatch(tick, false)
    }

    /// The same, with a look at every book after every event.
    pub fn run_checked(&self) -> Outcome {
        self.dispatch(&mut |_| true, true).unwrap_or_default()
    }

    fn dispatch(&self, tick: &mut dyn FnMut(u64) -> bool, check: bool) -> Option<Outcome> {
        let Ok(layout) = mailbox::layout(&self.config) else {
            unreachable!("checked when it was made")
        };
        let all = 0..self.config.processes;
        match self.config.layer {
            Layer::Packets => {
                let libraries = all.map(|me| Packets::new(&self.config, me, layout)).collect();
                self.drive(World::new(&self.config, layout, libraries), tick, check)
            }
            Layer::Messages => {
                let libraries = all.map(|me| Messages::new(&self.config, me, layout)).collect();
                self.drive(World::new(&self.config, layout, libraries), tick, check)
            }
        }
    }

    fn drive<L: Library>(
        &self,
        mut world: World<L>,
        tick: &mut dyn FnMut(u64) -> bool,
        check: bool,
    ) -> Option<Outcome> {
        let slice = if check { 1 } else { SLICE_EVENTS };
        loop {
            let done = world.run(slice);
            if check {
                world.check_invariants();
            }
            if done < slice {
                return Some(world.outcome());
            }
            if !tick(done) {
                return None;
            }
        }
    }
}
