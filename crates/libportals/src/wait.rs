//! Waiting in the library: look, spin, yield, sleep.
//!
//! A waiter takes in what arrives itself, so that an answer is seen by who
//! waits for it without a wake in between. It spins briefly, since answers from
//! a process that runs are fast; then it sleeps by the doorbell. Whoever is to
//! answer may need this core: so a waiter that spins yields every now and then
//! ([`sluice_rail::spin`]). If somebody else ran meanwhile, neither it nor the
//! next waiter spins, until a yield is short again.

use crate::face::Face;
use crate::interface::{Interface, is_aborted};
use sluice_rail::shm::SLEEP_NS_MAX;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// How long a waiter spins on a core that nobody else wants: a little longer
/// than a megabyte is copied, so that who waits for one need not be woken, which
/// costs a third as much again.
const SPIN: Duration = Duration::from_micros(150);
/// How often it yields in vain before it sleeps: after it has spun, or to others.
const YIELDS: u32 = 16;
/// Looks between two looks at the clock.
const LOOKS_PER_TIME: u32 = 32;

/// Why a wait ended without what was waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unmet {
    /// The time has passed.
    TimedOut,
    /// `PtlAbort`.
    Aborted,
    /// The interface is not there, or not any more.
    Gone,
}

/// Waits until `check` finds something, at most until `deadline`.
///
/// # Errors
/// [`Unmet`].
pub(crate) fn wait<R>(
    shell: &Interface,
    life: u32,
    deadline: Option<Instant>,
    mut check: impl FnMut(&mut Face) -> Option<R>,
) -> Result<R, Unmet> {
    let mut looks = 0_u32;
    let mut began: Option<Instant> = None;
    let mut yields = 0;
    let mut is_shared = shell.spin.is_shared();
    let mut slept = false;
    let result = loop {
        // First of all: who aborts may free next what is waited for here.
        if is_aborted() {
            break Err(Unmet::Aborted);
        }
        let looked = shell.with(life, |face| {
            let found = check(face).or_else(|| {
                if face.poll() > 0 {
                    // Where something comes, more does: it pays to stay awake.
                    (began, yields) = (None, 0);
                }
                check(face)
            });
            shell.leave(face);
            found
        });
        match looked {
            Err(_) => break Err(Unmet::Gone),
            Ok(Some(found)) => {
                shell.spin.found();
                break Ok(found);
            }
            Ok(None) => {}
        }
        shell.attention.noted();
        looks += 1;
        // Also counts the calls of a program that waits with no time to wait.
        let is_due = shell.spin.is_due();
        if !is_due && !looks.is_multiple_of(LOOKS_PER_TIME) && began.is_some() && !is_shared {
            std::hint::spin_loop();
            continue;
        }
        let now = Instant::now();
        if deadline.is_some_and(|deadline| deadline <= now) {
            if is_due {
                shell.spin.give_way();
            }
            break Err(Unmet::TimedOut);
        }
        let has_spun = now - *began.get_or_insert(now) >= SPIN;
        if yields < YIELDS {
            if has_spun || is_shared || is_due {
                is_shared = shell.spin.give_way();
                yields += u32::from(has_spun || is_shared);
            }
            continue;
        }
        slept = true;
        match sleep(shell, life, deadline, &mut check) {
            Ok(Some(found)) => break Ok(found),
            Ok(None) => {}
            Err(unmet) => break Err(unmet),
        }
    };
    // Others may wait for what was taken in here.
    shell.wake_sleepers();
    if slept {
        shell.attention.look_again();
    }
    result
}

/// Sleeps until something arrives, unless it has already.
fn sleep<R>(
    shell: &Interface,
    life: u32,
    deadline: Option<Instant>,
    check: &mut impl FnMut(&mut Face) -> Option<R>,
) -> Result<Option<R>, Unmet> {
    let Some(doorbell) = shell.bell() else { return Err(Unmet::Gone) };
    shell.sleepers.fetch_add(1, Ordering::SeqCst);
    let armed = doorbell.arm();
    if is_aborted() {
        armed.disarm();
        shell.sleepers.fetch_sub(1, Ordering::SeqCst);
        return Err(Unmet::Aborted);
    }
    let looked = shell.with(life, |face| match check(face) {
        Some(found) => Ok(found),
        None => Err(face.has_work()),
    });
    let result = match looked {
        Err(_) => Err(Unmet::Gone),
        Ok(Ok(found)) => Ok(Some(found)),
        Ok(Err(true)) => Ok(None),
        Ok(Err(false)) => {
            let left = deadline.map_or(SLEEP_NS_MAX, |deadline| {
                let left = deadline.saturating_duration_since(Instant::now()).as_nanos();
                u64::try_from(left).unwrap_or(SLEEP_NS_MAX).min(SLEEP_NS_MAX)
            });
            let _ = armed.sleep(Some(left));
            shell.sleepers.fetch_sub(1, Ordering::SeqCst);
            return Ok(None);
        }
    };
    armed.disarm();
    shell.sleepers.fetch_sub(1, Ordering::SeqCst);
    result
}
