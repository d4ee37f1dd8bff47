//! The shared-memory rail, as the measurements use it.

use anyhow::{Context, Result};
use clap::ValueEnum;
use serde::Serialize;
use sluice_link::{Layout, Machine, Port, RemoteMemory};
use sluice_proto::Endpoint;
use sluice_rail::shm::{self, Address, Shm};
use sluice_wire::{Nanos, PeerId};

/// A rail that can be measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum RailKind {
    /// Shared memory of one machine.
    Shm,
}

impl RailKind {
    /// Its name on the command line and in JSON.
    pub fn name(self) -> &'static str {
        match self {
            RailKind::Shm => "shm",
        }
    }
}

/// How the bytes of large messages move.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Bulk {
    /// Directly where the system allows it, else through the mailboxes.
    Auto,
    /// Directly, and this process declares that others may read it.
    Direct,
    /// Through the mailboxes.
    Ring,
}

impl Bulk {
    fn of_rail(self) -> shm::BulkKind {
        match self {
            Bulk::Auto => shm::BulkKind::Auto,
            Bulk::Direct => shm::BulkKind::Direct,
            Bulk::Ring => shm::BulkKind::Ring,
        }
    }
}

/// How the room for messages is shared among senders.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Credits {
    /// Who spends it gets it.
    Dynamic,
    /// Equal shares.
    Static,
}

impl Credits {
    fn of_rail(self) -> shm::CreditKind {
        match self {
            Credits::Dynamic => shm::CreditKind::Dynamic,
            Credits::Static => shm::CreditKind::Static,
        }
    }
}

/// What a measured rail is opened with.
#[derive(Clone, Copy, Debug)]
pub struct RailOptions {
    pub bulk: Bulk,
    pub credits: Credits,
    /// Most memory for messages not yet matched.
    pub unexpected_bytes: u64,
}

impl Default for RailOptions {
    fn default() -> RailOptions {
        let unexpected_bytes = UNEXPECTED_BYTES;
        RailOptions { bulk: Bulk::Auto, credits: Credits::Dynamic, unexpected_bytes }
    }
}

/// The default of `FI_SLUICE_UNEXPECTED_BYTES`.
pub const UNEXPECTED_BYTES: u64 = 4 << 20;

/// A mailbox as libfabric programs have it by default.
///
/// # Errors
/// What keeps the rail from opening.
pub fn open_default() -> Result<Shm> {
    let config = shm::Config {
        data_slots_max: Endpoint::data_slots_within(UNEXPECTED_BYTES),
        credits: shm::CreditKind::Dynamic,
        ..shm::Config::default()
    };
    Shm::open(config).context("cannot open the shared-memory rail")
}

/// Packets handled in one turn at most.
const BUDGET: usize = 64;

/// One process's end of a rail.
#[derive(Debug)]
pub struct Rail {
    shm: Shm,
}

impl Rail {
    /// Opens a mailbox for two senders: the other process and this one.
    pub fn open(options: RailOptions) -> Result<Rail> {
        let config = shm::Config {
            senders_max: 2,
            bulk: options.bulk.of_rail(),
            credits: options.credits.of_rail(),
            data_slots_max: Endpoint::data_slots_within(options.unexpected_bytes),
            ..shm::Config::default()
        };
        let shm = Shm::open(config).context("cannot open the shared-memory rail")?;
        Ok(Rail { shm })
    }

    /// Opens a mailbox as libfabric programs have it by default.
    pub fn open_default() -> Result<Rail> {
        Ok(Rail { shm: open_default()? })
    }

    /// How its mailbox is divided.
    pub fn layout(&self) -> Layout {
        self.shm.layout()
    }

    /// Its address, to be given to [`Rail::meet`] of the other process.
    pub fn address(&self) -> Vec<u8> {
        self.shm.address().to_bytes().to_vec()
    }

    /// Takes the other process's address.
    pub fn meet(&mut self, address: &[u8]) -> Result<PeerId> {
        let address = Address::from_bytes(address).context("the other process's address")?;
        self.shm.peer(&address).context("the other process's address")
    }

    /// Lets the machine handle what has arrived. How many inputs it got.
    #[inline]
    pub fn poll<M: Machine>(&mut self, now: Nanos, machine: &mut M) -> usize {
        self.shm.poll(now, machine, BUDGET)
    }

    /// Lets the machine handle what has arrived, and nothing else.
    #[inline]
    pub fn take_in<M: Machine>(&mut self, now: Nanos, machine: &mut M) {
        self.shm.take_in(now, machine, BUDGET);
    }

    /// The time.
    #[inline]
    pub fn now(&self) -> Nanos {
        self.shm.now()
    }

    /// What the endpoint asks of the rail.
    #[inline]
    pub fn port(&mut self) -> &mut impl Port {
        &mut self.shm
    }

    /// Whether large messages from `peer` are read directly from its memory.
    pub fn reads_directly(&self, peer: PeerId) -> bool {
        self.shm.caps(peer).read
    }
}
