//! Waits that end: polls, what they find, and what is looked after while they find nothing.

use super::Node;
use crate::access::Access;
use crate::read::Reader;
use anyhow::{Context as _, Result, bail};
use sluice_runtime::Context;
use std::time::{Duration, Instant};

/// Longest wait in which nothing at all happens.
const PATIENCE: Duration = Duration::from_secs(30);
/// Polls without anything between two looks at the clock and the other process.
pub(super) const POLLS_PER_LOOK: u32 = 1 << 14;

/// How long nothing has happened.
#[derive(Debug, Default)]
pub struct Idle {
    polls: u32,
    since: Option<Instant>,
}

impl<A: Access> Node<A> {
    /// Does what there is to do, and rests if that is nothing.
    pub fn turn(&mut self, idle: &mut Idle) -> Result<()> {
        if self.poll()? {
            *idle = Idle::default();
            Ok(())
        } else {
            self.rest(idle)
        }
    }

    /// Waits until every send has ended.
    pub fn wait_sends(&mut self) -> Result<()> {
        let left = |context: &Context<Reader>| context.machine().endpoint.pending().sends;
        self.wait(|node| node.access.look(left) == 0)
    }

    /// Lets messages arrive for a while and wants none.
    pub fn look_on(&mut self, span: Duration) -> Result<()> {
        let until = Instant::now() + span;
        while Instant::now() < until {
            self.poll_or_yield()?;
        }
        Ok(())
    }

    pub(super) fn poll_or_yield(&mut self) -> Result<()> {
        if !self.poll()? {
            rustix::thread::sched_yield();
        }
        Ok(())
    }

    /// Waits until `done`. Ends with an error if the other process does, or if
    /// nothing happens for too long.
    #[inline]
    pub(super) fn wait(&mut self, done: impl Fn(&Node<A>) -> bool) -> Result<()> {
        let mut idle = Idle::default();
        while !done(self) {
            if self.poll()? {
                idle = Idle::default();
            } else {
                self.rest(&mut idle)?;
            }
        }
        Ok(())
    }

    /// After a poll without anything: gives the core away if it is shared, and
    /// looks now and then whether the other process is there.
    #[inline]
    pub fn rest(&mut self, idle: &mut Idle) -> Result<()> {
        idle.polls += 1;
        if self.yields {
            rustix::thread::sched_yield();
        }
        if idle.polls.is_multiple_of(POLLS_PER_LOOK) {
            self.look(&mut idle.since)?;
        }
        Ok(())
    }

    #[cold]
    pub(super) fn look(&mut self, idle_since: &mut Option<Instant>) -> Result<()> {
        // Whoever else wants this core gets it now and then.
        rustix::thread::sched_yield();
        self.other.check()?;
        let since = *idle_since.get_or_insert_with(Instant::now);
        if since.elapsed() > PATIENCE {
            bail!("nothing has happened for {} seconds; giving up", PATIENCE.as_secs());
        }
        Ok(())
    }

    /// Lets the endpoint do what there is to do. Whether there was anything.
    #[inline]
    pub(super) fn poll(&mut self) -> Result<bool> {
        let Node { access, ends, .. } = self;
        let any = access.with(|context| {
            let moved = context.poll() > 0;
            ends.take(&mut context.machine_mut().endpoint) || moved
        });
        if self.ends.failure.is_some() { self.fail() } else { Ok(any) }
    }

    /// The end of the other process explains most failures; it is looked for
    /// first, with a little time for its end to be known.
    #[cold]
    fn fail(&mut self) -> Result<bool> {
        let failure = self.ends.failure.take().unwrap_or_default();
        let until = Instant::now() + Duration::from_millis(500);
        while Instant::now() < until {
            self.other.check().context("a message was lost with it")?;
            std::thread::sleep(Duration::from_millis(5));
        }
        bail!("a message failed: {failure}")
    }
}
