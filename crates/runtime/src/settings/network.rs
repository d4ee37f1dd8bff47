//! By what peers are reached, as settings say it.

use super::Rails;
use sluice_rail::World;
use sluice_rail::net::devices::{self, Verdict, Wanted};
use sluice_rail::net::handshake::Security;
use sluice_rail::net::{NetConfig, NetError, OwnDevice, Striping};
use sluice_rail::shm::{Config, OpenError};

/// How the network is used.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NetworkOptions {
    /// By what peers are reached.
    pub rails: Rails,
    /// Which network devices are used.
    pub devices: Wanted,
    /// What sets the pace of connections, if not the system's default.
    pub congestion: Option<String>,
    /// How connections are protected.
    pub security: Security,
    /// How reads of a peer's memory are cut; no setting of a user's.
    pub striping: Striping,
}

impl NetworkOptions {
    /// Shared memory, and the network if that is wanted. Where nobody asked for the network
    /// alone and it cannot be had, shared memory is all, and the reason is said.
    ///
    /// # Errors
    /// [`OpenError`], which says what the remedy is.
    pub fn open(&self, config: Config) -> Result<World, OpenError> {
        if self.rails == Rails::Shm {
            return World::open(config);
        }
        let shares = self.rails == Rails::All;
        let warn = config.warn;
        let opened = self
            .config()
            .map_err(OpenError::Net)
            .and_then(|net| World::open_with_net(config.clone(), net, shares));
        match opened {
            Err(OpenError::Net(why)) if shares => {
                (warn.0)(&format!("processes on other hosts cannot be reached: {why}"));
                World::open(config)
            }
            opened => opened,
        }
    }

    fn config(&self) -> Result<NetConfig, NetError> {
        let found = devices::list().map_err(NetError::List)?;
        let choice = devices::choose(&found, &self.devices)?;
        let used: Vec<OwnDevice> = choice.used().into_iter().filter_map(own_device).collect();
        if used.is_empty() {
            return Err(NetError::NoDevice);
        }
        let NetworkOptions { striping, security, .. } = *self;
        let congestion = self.congestion.clone();
        Ok(NetConfig { congestion, striping, security, ..NetConfig::with_devices(used) })
    }
}

/// The first of a device's addresses is the one that it is reached by.
fn own_device(verdict: &Verdict) -> Option<OwnDevice> {
    let address = verdict.addresses.first()?;
    Some(OwnDevice {
        name: verdict.device.name.clone(),
        index: verdict.device.index,
        address: address.addr(),
        prefix: address.prefix_len(),
        mbit_per_s: verdict.device.speed_mbit.unwrap_or(0),
    })
}
