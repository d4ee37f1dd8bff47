//! A simulation: a network with its traffic, stepped and sampled.

use crate::cut::Cutting;
use crate::fleet::{Fleet, fleet};
use crate::network::Network;
use crate::sample::Sample;
use crate::shard::Passage;
use crate::topology::End;
use crate::traffic::Trace;
use crate::{Config, ConfigError};
use std::sync::Arc;

/// Cycles without any movement after which a run is stuck, besides what a link,
/// a memory or a throttle may take.
const STILL_CYCLES: u32 = 20_000;

/// Nothing moves any more.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "stuck at cycle {cycle}: nothing has moved for {still_cycles} cycles, with {packets} packets in the network \
     (a deadlock; one stands at router {router}, port {port}, channel {vc}, for port {to_port})"
)]
pub struct Stuck {
    /// When it was noticed.
    pub cycle: u64,
    /// For how long nothing had moved.
    pub still_cycles: u32,
    /// Packets in the network.
    pub packets: u64,
    /// Where one of them stands.
    pub router: u32,
    /// The port that it came in by.
    pub port: u8,
    /// Its virtual channel.
    pub vc: u8,
    /// The port that it wants.
    pub to_port: u8,
}

/// Flits that left by a port of a router.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkLoad {
    /// The router.
    pub router: u32,
    /// The port.
    pub port: u8,
    /// Where it leads.
    pub to: End,
    /// Flits since the last sample.
    pub flits: u64,
}

/// A network with its traffic, at some cycle.
#[derive(Debug)]
pub struct Simulation {
    net: Arc<Network>,
    fleet: Box<dyn Fleet>,
    cycle: u32,
    sampled_cycle: u32,
    moved: u64,
    moved_cycle: u32,
}

impl Simulation {
    /// A network at cycle 0, run by so many threads at most.
    ///
    /// # Errors
    /// Names the key of the configuration that is wrong.
    pub fn new(
        config: &Config,
        trace: Option<Trace>,
        threads: usize,
    ) -> Result<Simulation, ConfigError> {
        Simulation::cut(config, trace, Cutting { threads, whole: false })
    }

    /// The same in one piece, which gives the same results and can be checked
    /// after each cycle.
    ///
    /// # Errors
    /// As [`Simulation::new`].
    pub fn in_one_piece(config: &Config, trace: Option<Trace>) -> Result<Simulation, ConfigError> {
        Simulation::cut(config, trace, Cutting { threads: 1, whole: true })
    }

    fn cut(
        config: &Config,
        trace: Option<Trace>,
        cutting: Cutting,
    ) -> Result<Simulation, ConfigError> {
        let net = Arc::new(Network::new(config, trace, cutting)?);
        let fleet = fleet(&net);
        Ok(Simulation { net, fleet, cycle: 0, sampled_cycle: 0, moved: 0, moved_cycle: 0 })
    }

    /// Runs a number of cycles.
    ///
    /// # Errors
    /// When nothing moves any more although packets are on their way.
    ///
    /// # Panics
    /// After four thousand million cycles.
    pub fn run(&mut self, cycles: u64) -> Result<(), Stuck> {
        let end = u32::try_from(u64::from(self.cycle) + cycles)
            .ok()
            .filter(|&end| end < u32::MAX - 100_000);
        let end = end.expect("a simulation has at most four thousand million cycles");
        while self.cycle < end {
            let until = end.min(self.cycle.saturating_add(STILL_CYCLES / 4));
            self.fleet.run(&self.net, until);
            self.cycle = until;
            self.watch()?;
        }
        Ok(())
    }

    /// The cycle that runs next.
    pub fn cycle(&self) -> u64 {
        u64::from(self.cycle)
    }

    /// How many nodes there are.
    pub fn nodes(&self) -> u32 {
        self.net.fabric.nodes()
    }

    /// How many routers there are.
    pub fn routers(&self) -> u32 {
        self.net.fabric.routers()
    }

    /// Counts since the last sample, which begin anew.
    pub fn take_sample(&mut self) -> Sample {
        let mut sum = Sample::new(self.nodes());
        sum.add(&self.fleet.take_sample());
        sum.from_cycle = u64::from(self.sampled_cycle);
        sum.cycles = u64::from(self.cycle - self.sampled_cycle);
        sum.slow_nodes = self.net.slow.iter().filter(|&&slow| slow).count() as u32;
        self.sampled_cycle = self.cycle;
        self.moved = 0;
        sum
    }

    /// What each link carried since the last sample.
    pub fn link_loads(&self) -> Vec<LinkLoad> {
        let mut loads = Vec::new();
        self.fleet.each_sent(&mut |router, port, flits| {
            if port < self.net.fabric.ports() {
                let to = self.net.fabric.link(router, port).to;
                if to != End::None {
                    loads.push(LinkLoad { router, port, to, flits: u64::from(flits) });
                }
            }
        });
        loads
    }

    /// Records every flit's way through a switch from now on, or gives up
    /// what was recorded, in order.
    #[doc(hidden)]
    pub fn passages(&mut self, record: bool) -> Vec<Passage> {
        let mut all = self.fleet.passages(record);
        all.sort_unstable();
        all
    }

    /// Checks that flits and credits are conserved and that all sets which
    /// speed arbitration up agree with the state. Only in one piece.
    ///
    /// # Panics
    /// When they do not, or with more pieces than one.
    pub fn check_invariants(&self) {
        self.fleet.check_invariants();
    }

    /// Notices a deadlock.
    fn watch(&mut self) -> Result<(), Stuck> {
        let moved = self.fleet.moved();
        let packets = self.fleet.packets();
        if moved != self.moved || packets == 0 {
            self.moved = moved;
            self.moved_cycle = self.cycle;
            return Ok(());
        }
        let still_cycles = self.cycle - self.moved_cycle;
        if still_cycles < STILL_CYCLES + self.net.patience() {
            return Ok(());
        }
        let (router, port, vc, to_port) = self.fleet.standing().unwrap_or_default();
        Err(Stuck {
            cycle: u64::from(self.cycle),
            still_cycles,
            packets: packets as u64,
            router,
            port,
            vc,
            to_port,
        })
    }
}
