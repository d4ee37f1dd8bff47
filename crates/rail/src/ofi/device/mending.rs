//! A device that has broken: its endpoint is opened anew, and memory that it did not close is
//! tried again.
//!
//! Both happen in a poll, so they may stall all other rails of the process. libfabric opens an
//! endpoint in the call that asks for it, and promises nothing of how long that takes: 2 to
//! 50 ms with providers on the system's sockets, on a busy machine of two cores, and whatever
//! the driver takes with others. A device that is not there is known in less than 0.1 ms, mostly.
//! So attempts keep a distance ([`Pause`]): twice as long after each that fails, and never less
//! than so many times as long as the attempt itself has taken.

use super::super::opening::Spec;
use super::Device;
use sluice_fabric::{Endpoint, FabricError};
use std::time::{Duration, Instant};

/// Least time between two attempts.
const PAUSE_MIN: Duration = Duration::from_secs(1);
/// Most time, unless attempts take long.
const PAUSE_MAX: Duration = Duration::from_secs(30);
/// How many times as long as an attempt has taken is none made after it.
const PAUSE_SHARE: u32 = 100;

/// When the next attempt may be made.
#[derive(Debug, Default)]
pub(super) struct Pause {
    until: Option<Instant>,
    len: Duration,
    /// Attempts in a row that have failed.
    failures: u64,
}

impl Pause {
    fn is_due(&self, now: Instant) -> bool {
        self.until.is_none_or(|until| now >= until)
    }

    /// An attempt has failed.
    fn failed(&mut self, now: Instant, took: Duration) {
        self.failures += 1;
        self.len = (2 * self.len).clamp(PAUSE_MIN, PAUSE_MAX);
        self.until = Some(now + self.len.max(PAUSE_SHARE * took));
    }

    /// One has not: should another be needed, it is as the first but for its distance.
    fn succeeded(&mut self, now: Instant, took: Duration) {
        let until = now + PAUSE_MIN.max(PAUSE_SHARE * took);
        *self = Pause { until: Some(until), ..Pause::default() };
    }

    /// Whether the last failure is one that is told: the first, the second, the fourth.
    fn is_told(&self) -> bool {
        self.failures.is_power_of_two()
    }
}

impl Device {
    /// Opens the endpoint anew, if it has broken and no stream is left of it. Says whether it
    /// did; its name and its descriptor are others then.
    pub(crate) fn mend(&mut self) -> bool {
        self.is_broken && self.mend_by(Instant::now(), Spec::open)
    }

    fn mend_by(
        &mut self,
        now: Instant,
        open: impl FnOnce(&Spec) -> Result<Endpoint, FabricError>,
    ) -> bool {
        self.close_again(now);
        if !self.streams.is_empty() || !self.opening.is_due(now) {
            return false;
        }
        let begin = Instant::now();
        let opened = open(&self.spec);
        let took = begin.elapsed();
        let endpoint = match opened {
            Ok(endpoint) => endpoint,
            Err(why) => {
                self.opening.failed(now + took, took);
                if self.opening.is_told() {
                    let count = self.opening.failures;
                    self.warning =
                        Some(format!("it cannot be opened anew ({why}; {count} attempts so far)"));
                }
                return false;
            }
        };
        self.opening.succeeded(now + took, took);
        self.withdraw_all();
        self.endpoint = endpoint;
        self.reads.clear();
        self.peers.clear();
        self.names.clear();
        self.under_way.clear();
        self.closing = Pause::default();
        self.is_broken = false;
        true
    }

    /// Memory that could not be closed may be, now.
    fn close_again(&mut self, now: Instant) {
        if self.endpoint.unclosed() == 0 || !self.closing.is_due(now) {
            return;
        }
        let begin = Instant::now();
        let left = self.endpoint.close_again();
        let took = begin.elapsed();
        if left == 0 {
            return self.closing.succeeded(now + took, took);
        }
        self.close_failures += left as u64;
        self.closing.failed(now + took, took);
        if self.closing.is_told() {
            let count = self.close_failures;
            self.warning = Some(format!(
                "{left} pieces of memory that peers were to read no more cannot be closed \
                 ({count} failures so far)"
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ofi::tests::{device, refuse_to_close};
    use sluice_wire::{Addr, Region, RemoteKey};

    const NONE: Duration = Duration::ZERO;
    const INSTANT: Duration = Duration::from_nanos(1);

    #[test]
    fn pauses_double_up_to_a_bound_and_success_ends_that() {
        let (mut pause, mut now) = (Pause::default(), Instant::now());
        assert!(pause.is_due(now));
        for seconds in [1, 2, 4, 8, 16, 30, 30] {
            pause.failed(now, NONE);
            let until = now + Duration::from_secs(seconds);
            assert!(!pause.is_due(until - INSTANT) && pause.is_due(until), "{seconds}");
            now = until;
        }
        pause.succeeded(now, NONE);
        assert!(!pause.is_due(now), "what breaks at once is not opened at once");
        now += PAUSE_MIN;
        assert!(pause.is_due(now));
        pause.failed(now, NONE);
        assert!(pause.is_due(now + PAUSE_MIN), "it begins anew");
        let took = Duration::from_secs(1);
        pause.failed(now, took);
        let until = now + PAUSE_SHARE * took;
        assert!(!pause.is_due(until - INSTANT) && pause.is_due(until), "it takes long");
    }

    /// A device that cannot be opened is tried when its time has come, and no sooner.
    #[test]
    fn attempts_to_open_keep_their_distance() {
        let Some(mut device) = device() else { return };
        device.break_down();
        let (mut now, mut attempts) = (Instant::now(), 0);
        for count in 1..6 {
            for _ in 0..3 {
                let is_open = device.mend_by(now, |_| {
                    attempts += 1;
                    Err(FabricError::Function("device"))
                });
                assert!(!is_open);
            }
            assert_eq!((attempts, device.opening.failures), (count, count));
            now = device.opening.until.unwrap();
        }
        assert!(device.take_warning().is_some_and(|text| text.contains("4 attempts")));
        assert!(device.mend_by(now, Spec::open) && !device.is_broken);
        assert_eq!(device.opening.failures, 0);
    }

    /// A device that does not close memory is given up, and asked again until it does.
    #[test]
    fn memory_that_stays_open_is_closed_later() {
        let Some(mut device) = device() else { return };
        device.always_read();
        let there = [7u8; 64];
        let addr = Addr(there.as_ptr().expose_provenance() as u64);
        let (key, region) = (RemoteKey::from_bits(1), Region { addr, len: there.len() as u64 });
        assert!(device.expose(key, region).is_some());
        let relent = refuse_to_close(&device.exposed[&key]);
        device.withdraw(key);
        assert!(device.is_broken && device.take_warning().is_some());
        assert_eq!((device.endpoint.unclosed(), device.close_failures), (1, 1));
        // There is no other endpoint meanwhile.
        let stays = |_: &Spec| Err(FabricError::Function("device"));
        let mut now = Instant::now();
        for _ in 0..3 {
            device.mend_by(now, stays);
        }
        assert_eq!((device.endpoint.unclosed(), device.close_failures), (1, 2), "its pause");
        relent();
        now = device.closing.until.unwrap();
        device.mend_by(now, stays);
        assert_eq!((device.endpoint.unclosed(), device.close_failures), (0, 2));
    }
}
