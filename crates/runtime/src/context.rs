//! A machine at work: the machine and the rail beneath it, as one thing.

use crate::shared::Polled;
use sluice_link::{Layout, Machine};
use sluice_rail::shm::{Config, Doorbell, OpenError, Shm};
use sluice_wire::Nanos;

/// Most packets taken in by one poll, so that a call returns even if peers send
/// faster than it reads.
pub const POLL_BUDGET: usize = 64;

/// A machine and its rail.
#[derive(Debug)]
pub struct Context<M> {
    machine: M,
    rail: Shm,
    notices_told: usize,
}

impl<M: Machine> Context<M> {
    /// Opens a rail, and makes a machine for what its mailbox is divided into.
    ///
    /// # Errors
    /// What keeps the rail from opening.
    pub fn open(
        config: Config,
        machine: impl FnOnce(Layout) -> M,
    ) -> Result<Context<M>, OpenError> {
        let rail = Shm::open(config)?;
        let machine = machine(rail.layout());
        Ok(Context { machine, rail, notices_told: 0 })
    }

    /// Takes in what has arrived and does what has become possible. Says how many
    /// inputs the machine got.
    #[inline]
    pub fn poll(&mut self) -> usize {
        let now = self.now();
        self.rail.poll(now, &mut self.machine, POLL_BUDGET)
    }

    /// Takes in what has arrived and does nothing else.
    #[inline]
    pub fn take_in(&mut self) {
        let now = self.now();
        self.rail.take_in(now, &mut self.machine, POLL_BUDGET);
    }

    /// The coarse clock: as of one of the last polls.
    #[inline]
    pub fn now(&self) -> Nanos {
        self.rail.now()
    }

    /// The machine.
    #[inline]
    pub fn machine(&self) -> &M {
        &self.machine
    }

    /// The machine, for what it says without a rail.
    #[inline]
    pub fn machine_mut(&mut self) -> &mut M {
        &mut self.machine
    }

    /// The rail.
    #[inline]
    pub fn rail(&self) -> &Shm {
        &self.rail
    }

    /// The rail, for what it says without a machine.
    #[inline]
    pub fn rail_mut(&mut self) -> &mut Shm {
        &mut self.rail
    }

    /// All that an operation of the machine takes: the time, the machine, its port.
    #[inline]
    pub fn parts(&mut self) -> (Nanos, &mut M, &mut Shm) {
        (self.rail.now(), &mut self.machine, &mut self.rail)
    }

    /// What the rail has found out about its surroundings since this was asked last.
    pub fn new_notices(&mut self) -> &[String] {
        let notices = self.rail.notices();
        let first = std::mem::replace(&mut self.notices_told, notices.len());
        &notices[first..]
    }
}

impl<M: Machine> Polled for Context<M> {
    type Waker = Doorbell;

    #[inline]
    fn poll(&mut self) -> usize {
        Context::poll(self)
    }

    fn poll_after_sleep(&mut self) -> usize {
        self.rail.refresh_now();
        Context::poll(self)
    }

    fn rest_ns(&mut self) -> u64 {
        let rest_ns = self.rail.rest_ns();
        match self.machine.deadline() {
            Some(deadline) => rest_ns.min(deadline.0.saturating_sub(self.rail.refresh_now().0)),
            None => rest_ns,
        }
    }

    #[inline]
    fn is_busy(&self) -> bool {
        self.rail.is_busy() || self.machine.deadline().is_some()
    }

    fn waker(&self) -> Doorbell {
        self.rail.doorbell()
    }
}
