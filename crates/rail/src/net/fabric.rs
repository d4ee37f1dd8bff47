//! Devices of libfabric's: what carries what goes by them, and the lanes over them.
//!
//! Such a device is listened at as any other, and processes meet and open rails over TCP.
//! The connection then stays beside the lane that it has opened ([`crate::ofi`]).

use super::devices::Addresses;
use super::handshake::{FabricHello, FabricName, Hello};
use super::join::Joining;
use super::lane::Lane;
use super::{Entry, LaneToken, Net, NetError, Place};
use crate::ofi::{self, Device, Notice, SharedDevice, TOKEN_BYTES};
use crate::shm::keep_looks;
use rustix::event::epoll;
use rustix::rand::{GetRandomFlags, getrandom};
use sluice_fabric::offers;
use sluice_multirail::RailId;
use sluice_wire::PeerId;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};
use std::time::Instant;

/// For how long a thread may sleep while lanes are open: providers do some of their work,
/// such as sending again, only when they are asked what there is.
pub(super) const REST_NS_MAX: u64 = 10_000_000;
/// The same where a provider has nothing that wakes a thread.
pub(super) const REST_BLIND_NS_MAX: u64 = 100_000;
/// The same while a provider has not taken all, or the end of a lane is waited for.
pub(super) const REST_WAITING_NS_MAX: u64 = 1_000_000;
/// What is expected from asking to the first byte: where the device itself reaches memory,
/// and where a provider stands on the system's sockets, as TCP does, with more between.
const LATENCY_DEVICE_NS: u64 = 3_000;
const LATENCY_SOCKETS_NS: u64 = 40_000;

/// A device of libfabric's that is used.
#[derive(Debug)]
pub(super) struct Fabric {
    pub(super) device: SharedDevice,
    /// The addresses that peers are told.
    told: Addresses,
    /// What tells that something has come, if the provider has such a thing, and whether the
    /// system's list has it: only while there are lanes, because nobody looks at it without.
    entry: Option<usize>,
    is_listed: bool,
}

/// What a provider has at an address of this host, for people to read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FabricOffer {
    /// The provider, with those that it stands on.
    pub provider: String,
    /// The device, as the provider calls it.
    pub domain: String,
    /// How fast it says it is, in Mbit/s.
    pub mbit_per_s: Option<u32>,
    /// Whether its addresses are those of the system's network devices.
    pub is_ip: bool,
}

/// What `provider` offers by an address of this host: different devices, in the order in
/// which [`super::FabricDevice::place`] counts them.
///
/// # Errors
/// Why there is nothing.
pub fn fabric_offers(
    provider: &str,
    at: IpAddr,
) -> Result<Vec<FabricOffer>, sluice_fabric::FabricError> {
    let mut found: Vec<FabricOffer> = Vec::new();
    let offers = ofi::offers_at(provider, at, offers);
    keep_looks();
    for offer in offers? {
        if found.iter().all(|known| known.domain != offer.domain()) {
            found.push(FabricOffer {
                provider: offer.provider(),
                domain: offer.domain(),
                mbit_per_s: offer.mbit_per_s(),
                is_ip: offer.is_ip(),
            });
        }
    }
    Ok(found)
}

impl Net {
    /// Opens the endpoints of the devices that are libfabric's. Each has one endpoint, by the
    /// first address of the device. Where that is an address of the internet it is the only one
    /// that peers are told, so that no rail is tried between endpoints of two families.
    pub(super) fn open_fabrics(&mut self) -> Result<(), NetError> {
        let devices = self.config.devices.clone();
        if devices.iter().all(|device| device.fabric.is_none()) {
            return Ok(());
        }
        for device in devices {
            let Some(spec) = &device.fabric else {
                self.fabrics.push(None);
                continue;
            };
            let opened = Device::open(&spec.provider, device.addresses.first(), spec.place);
            keep_looks();
            let mut opened =
                opened.map_err(|cause| NetError::Fabric { device: device.name.clone(), cause })?;
            let first =
                device.addresses.iter().next().filter(|_| opened.endpoint().offer().is_ip());
            // By the other family no endpoint of a peer reaches this one.
            let told = first.map_or(device.addresses, Addresses::from);
            let device = Arc::new(Mutex::new(opened));
            self.fabrics.push(Some(Fabric { device, told, entry: None, is_listed: false }));
            self.take_descriptor(self.fabrics.len() - 1);
        }
        Ok(())
    }

    /// The addresses of an own device by which peers have rails to it.
    pub(super) fn told_addresses(&self, device: usize) -> Addresses {
        let fabric = self.fabrics.get(device).and_then(Option::as_ref);
        fabric.map_or(self.config.devices[device].addresses, |fabric| fabric.told)
    }

    /// Takes what a device that was just opened is waited for by. Without it sleeps are
    /// short.
    fn take_descriptor(&mut self, at: usize) {
        let Some(fabric) = &mut self.fabrics[at] else { return };
        // The list forgets it with the last descriptor of it.
        if let Some(entry) = fabric.entry.take() {
            self.entries.try_remove(entry);
        }
        fabric.is_listed = false;
        let mut device = ofi::lock(&fabric.device);
        let found = device.endpoint().descriptor();
        let own = found.and_then(|found| rustix::io::fcntl_dupfd_cloexec(found, 0).ok());
        fabric.entry = own.map(|own| self.entries.insert(Entry::Fabric(own)));
    }

    /// Has the system's list have what is waited for by, and nothing else: what comes by a
    /// device without lanes would keep whoever sleeps awake.
    fn list_fabrics(&mut self) {
        for fabric in self.fabrics.iter_mut().flatten() {
            let is_used = ofi::lock(&fabric.device).is_used();
            let Some(at) = fabric.entry.filter(|_| is_used != fabric.is_listed) else { continue };
            let Some(Entry::Fabric(descriptor)) = self.entries.get(at) else { continue };
            let changed = if is_used {
                // It is told of as long as there is something.
                let data = epoll::EventData::new_u64(at as u64);
                epoll::add(&self.epoll, descriptor, data, epoll::EventFlags::IN)
            } else {
                epoll::delete(&self.epoll, descriptor)
            };
            fabric.is_listed = is_used && changed.is_ok();
        }
    }

    /// Looks what has come by devices of libfabric's.
    pub(super) fn look_at_fabrics(&mut self) {
        for at in 0..self.fabrics.len() {
            let Some(fabric) = &self.fabrics[at] else { continue };
            let device = Arc::clone(&fabric.device);
            let mut locked = ofi::lock(&device);
            if locked.mend() {
                drop(locked);
                keep_looks();
                self.take_descriptor(at);
                continue;
            }
            let is_used = locked.is_used();
            if is_used {
                locked.progress();
            }
            // One that has broken has something to say without lanes too.
            if let Some(warning) = locked.take_warning() {
                (self.warn.0)(&format!("{}: {warning}", self.config.devices[at].name));
            }
            if !is_used {
                continue;
            }
            while let Some((entry, notice)) = locked.next_notice() {
                drop(locked);
                self.on_notice(entry, notice);
                locked = ofi::lock(&device);
            }
        }
    }

    fn on_notice(&mut self, entry: usize, notice: Notice) {
        match notice {
            Notice::Came => self.warm(entry),
            Notice::Room => {
                let Some(conn) = self.conn(entry) else { return };
                if std::mem::take(&mut conn.is_blocked) {
                    self.blocked -= 1;
                }
                self.mark_dirty(entry);
            }
        }
    }

    /// For how long a thread may sleep as far as lanes are concerned.
    pub(super) fn fabrics_rest_ns(&mut self) -> u64 {
        self.list_fabrics();
        let rest_of = |fabric: &Fabric| {
            let mut device = ofi::lock(&fabric.device);
            if !device.is_used() {
                return u64::MAX;
            }
            if device.has_work() || !device.endpoint().may_sleep() {
                return 0;
            }
            match (fabric.is_listed, device.is_waiting()) {
                (false, _) => REST_BLIND_NS_MAX,
                (true, true) => REST_WAITING_NS_MAX,
                (true, false) => REST_NS_MAX,
            }
        };
        let lanes_ns = self.fabrics.iter().flatten().map(rest_of).min().unwrap_or(u64::MAX);
        lanes_ns.min(self.matching_rest_ns())
    }

    /// What a hello by a device says of those of libfabric's.
    pub(super) fn fabric_hello(&self, own_device: u8) -> Option<FabricHello> {
        if self.fabrics.is_empty() {
            return None;
        }
        let mut token = LaneToken::default();
        if self.fabrics.get(usize::from(own_device)).is_some_and(Option::is_some) {
            // So few bytes come all at once or not at all; without them the lane, whose
            // messages nobody could tell from others', is not opened.
            let drawn = getrandom(&mut token, GetRandomFlags::empty());
            if drawn != Ok(TOKEN_BYTES) {
                token = LaneToken::default();
            }
        }
        let names = self.config.devices.iter().zip(&self.fabrics).zip(0..);
        let devices = names.filter_map(|((device, fabric), index)| {
            Some(FabricName {
                index,
                provider: device.fabric.as_ref()?.provider.clone(),
                name: ofi::lock(&fabric.as_ref()?.device).name().to_vec(),
                tags: self.tags_name(usize::from(index)),
            })
        });
        Some(FabricHello { token, devices: devices.collect() })
    }

    /// What is expected from asking to the first byte by a device.
    pub(super) fn fabric_latency_ns(&self, own: u8) -> Option<u64> {
        let device = &self.fabrics.get(usize::from(own))?.as_ref()?.device;
        let is_direct = ofi::lock(device).endpoint().offer().pins_memory();
        Some(if is_direct { LATENCY_DEVICE_NS } else { LATENCY_SOCKETS_NS })
    }

    /// What carries a connection that was just opened, by this process's device `own`; and
    /// what has come on it for that.
    pub(super) fn lane_of(
        &mut self,
        entry: usize,
        own: u8,
        hello: &Hello,
        joining: Joining,
        rest: &[u8],
    ) -> Result<(Lane, Vec<u8>), String> {
        let device = self.fabrics.get(usize::from(own)).and_then(Option::as_ref);
        let device = device.map(|fabric| Arc::clone(&fabric.device));
        let theirs = hello.fabric.as_ref();
        let theirs = theirs.and_then(|fabric| Some((fabric, fabric.name_of(hello.own_device)?)));
        match (device, theirs) {
            (None, None) => Ok((Lane::Tcp(joining.socket), rest.to_vec())),
            (Some(device), Some((fabric, name))) => {
                let own_token = joining.token.unwrap_or_default();
                if [own_token, fabric.token].contains(&LaneToken::default()) {
                    return Err(String::from("it has no token"));
                }
                let tokens = [own_token, fabric.token];
                let lane = ofi::Lane::open(device, entry, tokens, name, joining.socket, rest);
                let lane = lane.map_err(|cause| cause.to_string())?;
                Ok((Lane::Fabric(Box::new(lane)), Vec::new()))
            }
            _ => Err(String::from("one side has it over libfabric, the other over TCP")),
        }
    }

    /// Whether what is received on a rail would be copied by this process to a place that is
    /// not there. Where the system copies, it says so.
    pub(super) fn is_copied_blindly(&mut self, peer: PeerId, rail: RailId, place: Place) -> bool {
        let conn = self.conn_of(peer, rail);
        conn.is_some_and(|conn| conn.lane.fabric().is_some()) && !place.is_writable()
    }

    /// A rail was opened, and has nothing that carries it.
    pub(super) fn lane_failed(&mut self, entry: usize, peer: PeerId, rail: RailId, why: &str) {
        let who = self.describe(peer);
        (self.warn.0)(&format!("a rail to {who} cannot be used: {why}"));
        self.remove(entry);
        if let Some(met) = self.met_mut(peer) {
            met.conns[rail.index()] = None;
        }
        let now = self.now;
        self.with_rails(peer, |rails, below| rails.broke(now, below, rail));
    }

    /// Waits for what was sent over lanes to arrive, for a bounded time in all.
    pub(super) fn drain_fabrics(&mut self, peers: &[PeerId]) {
        let begin = Instant::now();
        while !self.fabrics.is_empty() && begin.elapsed() < self.config.drain {
            self.look_at_fabrics();
            self.look_at_matching();
            if !self.is_matching_drained() {
                std::thread::yield_now();
                continue;
            }
            let left = peers.iter().filter(|&&peer| !self.drain_peer(peer)).count();
            if left == 0 {
                break;
            }
            std::thread::yield_now();
        }
    }

    /// Whether a peer has all that was sent over lanes.
    fn drain_peer(&mut self, peer: PeerId) -> bool {
        let Some(met) = self.met(peer) else { return true };
        let mut is_drained = true;
        for entry in met.conns.clone().into_iter().flatten() {
            let Some(lane) = self.conn(entry).and_then(|conn| conn.lane.fabric()) else { continue };
            if !lane.is_drained() {
                // What did not go before may go now.
                is_drained = false;
                self.leave_by(peer, entry);
            }
        }
        is_drained
    }
}
