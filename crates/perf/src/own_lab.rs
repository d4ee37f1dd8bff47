//! The lab that this process has made ends with it, also if a signal ends it.
//!
//! A signal that ends a process runs no destructor, and the lab's namespaces would stay up.
//! So a thread takes the signals that end a measurement, takes the lab down, and then has the
//! signal do what it does by default. A signal that is ignored stays so (nohup).
//!
//! Invariant: whoever makes a lab or takes it down holds [`IS_UP`].

use anyhow::{Context, Result};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;
use std::sync::{Mutex, MutexGuard, Once, PoisonError};

/// Whether there is a lab that was made here.
static IS_UP: Mutex<bool> = Mutex::new(false);
/// The signals are taken.
static ARE_TAKEN: Once = Once::new();

/// Makes the lab by `up`. If a signal is to end this process while there is one, `down` takes
/// it down before.
pub fn make(up: impl FnOnce() -> Result<()>, down: fn()) -> Result<()> {
    let mut taken = Ok(());
    ARE_TAKEN.call_once(|| taken = take_signals(down));
    taken.context("signals cannot be taken")?;
    let mut is_up = lock();
    up()?;
    *is_up = true;
    Ok(())
}

/// Takes it down.
pub fn end(down: impl FnOnce()) {
    let mut is_up = lock();
    down();
    *is_up = false;
}

fn lock() -> MutexGuard<'static, bool> {
    IS_UP.lock().unwrap_or_else(PoisonError::into_inner)
}

fn take_signals(down: fn()) -> Result<()> {
    let ignored = ignored();
    let all = [SIGHUP, SIGINT, SIGTERM].into_iter();
    let mut signals = Signals::new(all.filter(|signal| ignored >> (signal - 1) & 1 == 0))?;
    std::thread::Builder::new().name("signals".to_owned()).spawn(move || {
        for signal in signals.forever() {
            // Nobody else touches the lab until this process has ended.
            let is_up = lock();
            if *is_up {
                down();
            }
            let _ = emulate_default_handler(signal);
        }
    })?;
    Ok(())
}

/// The signals that this process was told to ignore, as a set of bits.
fn ignored() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}
