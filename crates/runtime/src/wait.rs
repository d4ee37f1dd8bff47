//! Waiting in a call: look, spin, yield, sleep.
//!
//! A waiter takes in what arrives itself, so that an answer is seen by who
//! waits for it without a wake in between. It spins briefly, since answers from
//! a process that runs are fast; then it sleeps by the waker. Whoever is to
//! answer may need this core: so a waiter that spins yields every now and then
//! ([`spin`](crate::spin)). If somebody else ran meanwhile, neither it nor the
//! next waiter spins, until a yield is short again.

use crate::shared::{Holds, Polled, Shared};
use crate::unmet::Unmet;
use sluice_rail::waker::{Haste, Waker};
use std::time::{Duration, Instant};

/// How long a waiter spins on a core that nobody else wants: a little longer
/// than a megabyte is copied, so that who waits for one need not be woken, which
/// costs a third as much again.
const SPIN: Duration = Duration::from_micros(150);
/// How often it yields in vain before it sleeps: after it has spun, or to others.
const YIELDS: u32 = 16;
/// Looks between two looks at the clock.
const LOOKS_PER_TIME: u32 = 32;

impl<H: Holds> Shared<H> {
    /// Waits until `check` finds something, at most until `deadline`, and not any
    /// more once `is_aborted`: who says so wakes the waiters ([`Shared::wake`]).
    ///
    /// # Errors
    /// [`Unmet`].
    pub fn wait<R>(
        &self,
        generation: u32,
        deadline: Option<Instant>,
        is_aborted: impl Fn() -> bool,
        mut check: impl FnMut(&mut H) -> Option<R>,
    ) -> Result<R, Unmet> {
        let mut looks = 0_u32;
        let mut began: Option<Instant> = None;
        let mut yields = 0;
        let mut is_shared = self.spin().is_shared();
        let (mut slept, mut has_just_slept) = (false, false);
        let result = loop {
            // First of all: who aborts may free next what is waited for here.
            if is_aborted() {
                break Err(Unmet::Aborted);
            }
            match self.look(generation, std::mem::take(&mut has_just_slept), &mut check) {
                Err(unmet) => break Err(unmet),
                Ok((Some(found), _)) => {
                    self.spin().found();
                    break Ok(found);
                }
                // Where something comes, more does: it pays to stay awake.
                Ok((None, inputs)) if inputs > 0 => (began, yields) = (None, 0),
                Ok((None, _)) => {}
            }
            self.attention.noted();
            looks += 1;
            // Also counts the calls of a program that waits with no time to wait.
            let is_due = self.spin().is_due();
            if !is_due && !looks.is_multiple_of(LOOKS_PER_TIME) && began.is_some() && !is_shared {
                std::hint::spin_loop();
                continue;
            }
            let now = Instant::now();
            if deadline.is_some_and(|deadline| deadline <= now) {
                if is_due {
                    self.spin().give_way();
                }
                break Err(Unmet::TimedOut);
            }
            let has_spun = now - *began.get_or_insert(now) >= SPIN;
            if yields < YIELDS {
                if has_spun || is_shared || is_due {
                    is_shared = self.spin().give_way();
                    yields += u32::from(has_spun || is_shared);
                }
                continue;
            }
            (slept, has_just_slept) = (true, true);
            match self.sleep(generation, deadline, &is_aborted, &mut check) {
                Ok(Some(found)) => break Ok(found),
                Ok(None) => {}
                Err(unmet) => break Err(unmet),
            }
        };
        // Others may wait for what was taken in here.
        self.wake_sleepers();
        if slept {
            self.attention.look_again();
        }
        result
    }

    /// One look, with a poll if it finds nothing. Says what that took in.
    #[inline]
    fn look<R>(
        &self,
        generation: u32,
        has_just_slept: bool,
        check: &mut impl FnMut(&mut H) -> Option<R>,
    ) -> Result<(Option<R>, usize), Unmet> {
        self.with(generation, |held| {
            let mut inputs = 0;
            let mut found = check(held);
            if found.is_none() {
                let polled = held.polled_mut().ok_or(Unmet::Gone)?;
                inputs = if has_just_slept { polled.poll_after_sleep() } else { polled.poll() };
                found = check(held);
            }
            self.leave_to_thread(held);
            Ok((found, inputs))
        })?
    }

    /// Sleeps until something arrives, unless it has already, or until there is something
    /// to do that nobody wakes for.
    fn sleep<R>(
        &self,
        generation: u32,
        deadline: Option<Instant>,
        is_aborted: &impl Fn() -> bool,
        check: &mut impl FnMut(&mut H) -> Option<R>,
    ) -> Result<Option<R>, Unmet> {
        let Some(waker) = self.waker() else { return Err(Unmet::Gone) };
        let mut result = Ok(None);
        let _sleeper = self.sleeper();
        waker.sleep(|| {
            if is_aborted() {
                result = Err(Unmet::Aborted);
                return 0;
            }
            let looked = self.with(generation, |held| match check(held) {
                Some(found) => Ok((Some(found), 0)),
                None => Ok((None, held.polled_mut().ok_or(Unmet::Gone)?.rest_ns(Haste::FirstByte))),
            });
            match looked.and_then(|looked| looked) {
                Ok((None, rest_ns)) => rest_ns.min(deadline.map_or(u64::MAX, ns_until)),
                Ok((found, _)) => {
                    result = Ok(found);
                    0
                }
                Err(unmet) => {
                    result = Err(unmet);
                    0
                }
            }
        });
        result
    }
}

fn ns_until(deadline: Instant) -> u64 {
    let left = deadline.saturating_duration_since(Instant::now()).as_nanos();
    u64::try_from(left).unwrap_or(u64::MAX)
}
