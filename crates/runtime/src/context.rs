//! A machine at work: the machine and the rails beneath it, as one thing.

use crate::shared::Polled;
use sluice_link::{Layout, Machine};
use sluice_rail::waker::Haste;
use sluice_rail::{World, WorldWaker};
use sluice_wire::Nanos;

/// Most packets taken in by one poll, so that a call returns even if peers send
/// faster than it reads.
pub const POLL_BUDGET: usize = 64;

/// A machine and its rails.
#[derive(Debug)]
pub struct Context<M> {
    machine: M,
    world: World,
    notices_told: usize,
}

impl<M: Machine> Context<M> {
    /// Makes a machine for what the mailbox of these rails is divided into.
    pub fn new(world: World, machine: impl FnOnce(Layout) -> M) -> Context<M> {
        let machine = machine(world.layout());
        Context { machine, world, notices_told: 0 }
    }

    /// Takes in what has arrived and does what has become possible. Says how many
    /// inputs the machine got.
    #[inline]
    pub fn poll(&mut self) -> usize {
        let now = self.now();
        self.world.poll(now, &mut self.machine, POLL_BUDGET)
    }

    /// Takes in what has arrived and does nothing else.
    #[inline]
    pub fn take_in(&mut self) {
        let now = self.now();
        self.world.take_in(now, &mut self.machine, POLL_BUDGET);
    }

    /// The same before a receive is posted, which peers may see.
    #[inline]
    pub fn take_in_for_recv(&mut self) {
        self.world.note_look();
        self.take_in();
    }

    /// The coarse clock: as of one of the last polls.
    #[inline]
    pub fn now(&self) -> Nanos {
        self.world.now()
    }

    /// The machine.
    #[inline]
    pub fn machine(&self) -> &M {
        &self.machine
    }

    /// The machine, for what it says without its port.
    #[inline]
    pub fn machine_mut(&mut self) -> &mut M {
        &mut self.machine
    }

    /// The rails.
    #[inline]
    pub fn world(&self) -> &World {
        &self.world
    }

    /// The rails, for what they say without a machine.
    #[inline]
    pub fn world_mut(&mut self) -> &mut World {
        &mut self.world
    }

    /// All that an operation of the machine takes: the time, the machine, its port.
    #[inline]
    pub fn parts(&mut self) -> (Nanos, &mut M, &mut World) {
        (self.world.now(), &mut self.machine, &mut self.world)
    }

    /// What the rails have found out about their surroundings since this was asked last.
    pub fn new_notices(&mut self) -> &[String] {
        let notices = self.world.notices();
        let first = std::mem::replace(&mut self.notices_told, notices.len());
        &notices[first..]
    }
}

impl<M: Machine> Polled for Context<M> {
    type Waker = WorldWaker;

    #[inline]
    fn poll(&mut self) -> usize {
        Context::poll(self)
    }

    fn poll_after_sleep(&mut self) -> usize {
        self.world.refresh_now();
        Context::poll(self)
    }

    fn rest_ns(&mut self, haste: Haste) -> u64 {
        let rest_ns = self.world.rest_ns(haste);
        match self.machine.deadline() {
            Some(deadline) => rest_ns.min(deadline.0.saturating_sub(self.world.refresh_now().0)),
            None => rest_ns,
        }
    }

    fn gathers(&self) -> bool {
        self.world.gathers()
    }

    #[inline]
    fn is_busy(&self) -> bool {
        self.world.is_busy() || self.machine.deadline().is_some()
    }

    fn waker(&self) -> WorldWaker {
        self.world.waker()
    }
}
