//! By what peers are reached, as settings say it.

use super::{Matching, Rails};
use sluice_rail::World;
use sluice_rail::net::devices::{self, Addresses, DEVICES_MAX, Verdict, Wanted};
use sluice_rail::net::handshake::{FABRICS_MAX, JobKey, Member, Security};
use sluice_rail::net::{
    FabricDevice, FabricError, FabricOffer, NetConfig, NetError, NoMatching, OwnDevice, Striping,
    fabric_offers,
};
use sluice_rail::shm::{Config, OpenError};
use std::net::{IpAddr, Ipv4Addr};

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
    /// Who matches messages with receives.
    pub matching: Matching,
    /// How reads of a peer's memory are cut; no setting of a user's.
    pub striping: Striping,
}

impl NetworkOptions {
    /// Shared memory, and the network if that is wanted. Where nobody asked for the network
    /// alone, or for a provider of libfabric, and it cannot be had, shared memory is all, and
    /// the reason is said.
    ///
    /// # Errors
    /// [`OpenError`], which says what the remedy is.
    pub fn open(&self, config: Config) -> Result<World, OpenError> {
        if !self.rails.has_network() {
            return World::open(config);
        }
        let warn = config.warn;
        match self.open_with_net(config.clone(), None) {
            Err(OpenError::Net(why)) if self.rails.shm && self.rails.fabrics.is_empty() => {
                (warn.0)(&format!(
                    "processes on other hosts cannot be reached: {why}; {}",
                    why.remedy()
                ));
                World::open(config)
            }
            opened => opened,
        }
    }

    /// Shared memory, if that is wanted, and the network, for peers that know the key of this
    /// process's job, and who it is in it.
    ///
    /// # Errors
    /// As [`NetworkOptions::open`].
    pub fn open_as(&self, config: Config, key: JobKey, member: Member) -> Result<World, OpenError> {
        self.open_with_net(config, Some((key, member)))
    }

    fn open_with_net(
        &self,
        config: Config,
        known_as: Option<(JobKey, Member)>,
    ) -> Result<World, OpenError> {
        let net = NetConfig { known_as, ..self.config().map_err(OpenError::Net)? };
        World::open_with_net(config, net, self.rails.shm)
    }

    /// The address of IPv4 that other hosts reach this one at first; `None` without a network
    /// that has one.
    ///
    /// # Errors
    /// [`NetError`] if the devices cannot be listed or chosen.
    pub fn ipv4(&self) -> Result<Option<Ipv4Addr>, NetError> {
        if !self.rails.has_network() {
            return Ok(None);
        }
        let devices = self.config()?.devices;
        let all = devices.iter().flat_map(|device| device.addresses.iter());
        Ok(all.map(|net| net.addr()).find_map(|ip| match ip {
            IpAddr::V4(ip) => Some(ip),
            IpAddr::V6(_) => None,
        }))
    }

    /// The provider of libfabric whose rail is to match messages, unless settings forbid it;
    /// `None` if this process is to.
    ///
    /// # Errors
    /// Why no rail may.
    pub fn matching_rail(&self) -> Result<Option<&str>, NoMatching> {
        if self.matching == Matching::Process {
            return Ok(None);
        }
        let provider = self.rails.fabrics.first();
        match NoMatching::of(self.rails.shm, self.security, provider.is_some()) {
            Some(why) => Err(why),
            None => Ok(provider.map(String::as_str)),
        }
    }

    fn config(&self) -> Result<NetConfig, NetError> {
        let found = devices::list().map_err(NetError::List)?;
        let choice = devices::choose(&found, &self.devices)?;
        let used: Vec<OwnDevice> = choice.used().into_iter().filter_map(own_device).collect();
        if used.is_empty() {
            return Err(NetError::NoDevice);
        }
        let mut own = if self.rails.tcp { used.clone() } else { Vec::new() };
        for Fabric { provider, found } in self.fabrics(&used) {
            let found =
                found.map_err(|cause| NetError::Fabric { device: provider.clone(), cause })?;
            own.extend(found.into_iter().map(|(device, _)| device));
        }
        own.truncate(DEVICES_MAX);
        let NetworkOptions { striping, security, .. } = *self;
        let matching = self.matching == Matching::Rail;
        let congestion = self.congestion.clone();
        Ok(NetConfig { congestion, striping, security, matching, ..NetConfig::with_devices(own) })
    }
}

/// What a provider of libfabric has at the network devices that are used.
#[derive(Debug)]
pub struct Fabric {
    /// The provider, as it was asked for.
    pub provider: String,
    /// Its devices, or why there is none.
    pub found: Result<Vec<(OwnDevice, FabricOffer)>, FabricError>,
}

impl NetworkOptions {
    /// The devices of the providers of libfabric that are to be rails, in the order of
    /// these, at most [`FABRICS_MAX`] in all.
    #[must_use]
    pub fn fabrics(&self, used: &[OwnDevice]) -> Vec<Fabric> {
        let mut left = FABRICS_MAX;
        let of_provider = |provider: &String| {
            let mut found = devices_of(provider, used);
            if let Ok(found) = &mut found {
                found.truncate(left);
                left -= found.len();
            }
            Fabric { provider: provider.clone(), found }
        };
        self.rails.fabrics.iter().map(of_provider).collect()
    }
}

/// A provider that goes by addresses of the internet has a device at each network device
/// that carries it; another one's devices are met at the first.
fn devices_of(
    provider: &str,
    used: &[OwnDevice],
) -> Result<Vec<(OwnDevice, FabricOffer)>, FabricError> {
    let mut devices = Vec::new();
    let mut failed = None;
    for at in used {
        let offers = match fabric_offers(provider, at.addresses.first()) {
            Ok(offers) => offers,
            Err(why) => {
                failed.get_or_insert(why);
                continue;
            }
        };
        for (place, offer) in offers.into_iter().enumerate() {
            let fabric = FabricDevice { provider: provider.to_owned(), place };
            let mbit_per_s = offer.mbit_per_s.unwrap_or(at.mbit_per_s);
            let name = format!("ofi:{provider} at {}", at.name);
            let device = OwnDevice { name, mbit_per_s, fabric: Some(fabric), ..at.clone() };
            devices.push((device, offer));
        }
        if devices.iter().any(|(_, offer)| !offer.is_ip) {
            break;
        }
    }
    match failed {
        Some(why) if devices.is_empty() => Err(why),
        _ => Ok(devices),
    }
}

/// The first of a device's addresses of each family are those that it is reached by.
#[must_use]
pub fn own_device(verdict: &Verdict) -> Option<OwnDevice> {
    let addresses = Addresses::first_of_each(&verdict.addresses)?;
    Some(OwnDevice {
        name: verdict.device.name.clone(),
        index: verdict.device.index,
        addresses,
        mbit_per_s: verdict.device.speed_mbit.unwrap_or(0),
        fabric: None,
    })
}
