//! Whether one world of the swarm comes to a good end, and what is said if not.

use sluice_sim::portals;
use sluice_sim::swarm::{self, Cut, Summary, Trace};
use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};

thread_local! {
    /// What the last panic of this thread said, and where.
    static PANIC: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Runs `work` while panics are kept for the report and not printed.
pub fn with_quiet_panics<R>(work: impl FnOnce() -> R) -> R {
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(|info| PANIC.set(info.to_string())));
    let result = work();
    std::panic::set_hook(before);
    result
}

/// Runs what a cut leaves of a world, within [`with_quiet_panics`]. What is wrong, if anything.
pub fn of(seed: u64, cut: &Cut, trace: &mut Trace) -> Result<Summary, String> {
    catch_unwind(AssertUnwindSafe(|| swarm::run_cut(seed, cut, trace)))
        .map_err(|_| PANIC.with_borrow_mut(std::mem::take))
}

/// Runs what a cut leaves of a program of Portals calls, within [`with_quiet_panics`]. What is wrong, if anything.
pub fn of_portals(
    seed: u64,
    cut: &portals::Cut,
    trace: &mut portals::Trace,
) -> Result<portals::Summary, String> {
    catch_unwind(AssertUnwindSafe(|| portals::run_cut(seed, cut, trace)))
        .map_err(|_| PANIC.with_borrow_mut(std::mem::take))
}

/// Where something went wrong: the place in the code that says so.
pub fn place(what: &str) -> &str {
    what.lines().next().unwrap_or(what)
}
