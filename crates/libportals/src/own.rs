//! Which process this is: its node, its process identifier, and by what those of other hosts
//! find it.
//!
//! With the key of its job (`PTL_JOB_KEY`) a process is found by node and identifier alone: the
//! node is its IPv4 address, the identifier says at which ports its interfaces listen, and the
//! rest of their addresses follows from the key. So an MPI library or OpenSHMEM that exchanges
//! what `PtlGetPhysId` says has done all that is needed. Without the key the node is a number of
//! the host, and what leads there is told (`book`).
//!
//! Invariants: all interfaces of a process that are open at a time have one identity. Where an
//! address follows from the key, no two processes of a job ever have the same: a process whose
//! interfaces were all closed takes another identifier for the next, unless the program chooses it.

use crate::codes::Code;
use crate::consts::PTL_PID_MAX;
use crate::handle::INTERFACES;
use crate::phys::Phys;
use sluice_rail::net::handshake::{JobKey, Member};
use sluice_rail::shm::{Config, NameError, Names, OpenError, PidClaim, host_id};
use sluice_rail::{Address, World};
use sluice_runtime::NetworkOptions;
use std::net::{Ipv4Addr, SocketAddrV4};

/// Ports of interfaces begin here: below those that Linux takes for connections that go out.
const PORTS_FROM: u16 = 16_384;
/// So many identifiers, one after the other, have ports of their own.
const PIDS_APART: u16 = 4096;
const PORTS: u16 = PIDS_APART * INTERFACES as u16;
/// How many identifiers are tried whose ports others have.
const TRIES_MAX: u32 = 1024;
/// From one life of a process to the next its identifier grows by so much: beyond all that the
/// system gives to others, and with the same ports.
const LIFE_PIDS: u32 = 1 << 22;

/// This process, as long as it has an interface.
#[derive(Clone, Debug)]
pub(crate) struct Own {
    pub phys: Phys,
    /// What its address follows from for other hosts.
    pub key: Option<JobKey>,
    _pid: PidClaim,
}

/// Who this process is, or was before it had closed all of its interfaces.
#[derive(Debug)]
pub(crate) struct Identity {
    own: Option<Own>,
    /// The identifier to begin with, where addresses follow from it and others knew this process by
    /// another one.
    first: Option<u32>,
}

/// The node and the key that a process has by its settings.
#[derive(Debug)]
pub(crate) struct Node {
    nid: u32,
    key: Option<JobKey>,
}

impl Node {
    /// The node of this process, with the key of its job, if it is in use. What keeps it from
    /// that is said.
    pub fn of(network: &NetworkOptions, key: Option<JobKey>) -> Node {
        if let Some(key) = key.filter(|_| network.rails.has_network()) {
            let why = match network.ipv4() {
                Ok(Some(ip)) => return Node { nid: ip.into(), key: Some(key) },
                Ok(None) => "no network device with an IPv4 address is used".to_owned(),
                Err(why) => why.to_string(),
            };
            eprintln!(
                "libportals: PTL_JOB_KEY leads to no process: {why}; see PTL_DEVICES, and what \
                 sluice info shows of devices"
            );
        }
        Node { nid: host_id(), key: None }
    }
}

impl Identity {
    /// No interface was opened yet.
    pub const NEW: Identity = Identity { own: None, first: None };

    /// Opens the rails of an interface, and says who the process is by that. `wanted` is the
    /// identifier that the program wants, if it wants one.
    ///
    /// # Errors
    /// [`Code::PidInUse`] or [`Code::ArgInvalid`] if that one cannot be had, and
    /// [`Code::NoSpace`] if there is none, or the system has no room. That is said.
    pub fn open(
        &self,
        (node, kind): (&Node, u8),
        wanted: Option<u32>,
        names: &Names,
        (network, config): (&NetworkOptions, &Config),
    ) -> Result<(Own, World), Code> {
        let mut first = self.first;
        for tries in 1.. {
            let own = match &self.own {
                Some(own) if wanted.is_none_or(|pid| pid == own.phys.pid) => own.clone(),
                Some(_) => return Err(Code::ArgInvalid),
                None => Own::claim(node, wanted, first, names)?,
            };
            let config = Config { label: own.phys.label(), ..config.clone() };
            let why = match own.open(kind, network, config) {
                Ok(world) => return Ok((own, world)),
                Err(why) => why,
            };
            let is_port_taken = matches!(&why, OpenError::Net(why) if why.is_port_taken());
            if !is_port_taken || own.key.is_none() {
                return Err(failed("mailbox", &why));
            }
            let may_choose = self.own.is_none() && wanted.is_none();
            if !may_choose || tries == TRIES_MAX {
                failed("its port follows from its process identifier", &why);
                return Err(Code::PidInUse);
            }
            first = Some(own.phys.pid + 1);
        }
        unreachable!("the last try returns");
    }

    /// This process has an interface.
    pub fn keep(&mut self, own: Own) {
        self.own = Some(own);
    }

    /// It has none any more.
    pub fn end(&mut self) {
        let own = self.own.take().filter(|own| own.key.is_some());
        self.first = own.map(|own| own.phys.pid + LIFE_PIDS).or(self.first);
    }
}

impl Own {
    fn claim(
        node: &Node,
        wanted: Option<u32>,
        first: Option<u32>,
        names: &Names,
    ) -> Result<Own, Code> {
        let claimed = match wanted {
            Some(pid) => names.claim_pid(pid),
            None => names.claim_any_pid(first),
        };
        let pid = claimed.map_err(|why| match why {
            NameError::InUse { .. } => Code::PidInUse,
            why => failed("process identifier", &why),
        })?;
        let phys = Phys { nid: node.nid, pid: pid.pid() };
        Ok(Own { phys, key: node.key.clone(), _pid: pid })
    }

    fn open(&self, kind: u8, network: &NetworkOptions, config: Config) -> Result<World, OpenError> {
        match &self.key {
            Some(key) => network.open_as(config, key.clone(), member(self.phys, kind)),
            None => network.open(config),
        }
    }
}

/// The address of another process's interface, as it follows from the key; `None` if no
/// process has that name.
pub(crate) fn address_of(key: &JobKey, phys: Phys, kind: u8) -> Option<Address> {
    key.address(member(phys, kind)).ok()
}

fn member(phys: Phys, kind: u8) -> Member {
    let nth = phys.pid % u32::from(PIDS_APART) * INTERFACES as u32 + u32::from(kind);
    let at = SocketAddrV4::new(Ipv4Addr::from(phys.nid), PORTS_FROM + nth as u16);
    Member { label: phys.label(), at }
}

/// Says what an interface cannot be opened for.
pub(crate) fn failed(what: &str, why: &dyn std::fmt::Display) -> Code {
    eprintln!("libportals: cannot open an interface: {what}: {why}");
    Code::NoSpace
}

const _: () = assert!(PORTS_FROM.checked_add(PORTS).is_some());
const _: () = assert!(LIFE_PIDS > PTL_PID_MAX && LIFE_PIDS.is_multiple_of(PIDS_APART as u32));

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn processes_of_a_host_and_their_interfaces_have_ports_of_their_own() {
        let mut ports = HashSet::new();
        for pid in 1_000_000..1_000_000 + u32::from(PIDS_APART) {
            for kind in 0..INTERFACES as u8 {
                let member = member(Phys { nid: 0x0a00_0001, pid }, kind);
                assert_eq!(*member.at.ip(), Ipv4Addr::new(10, 0, 0, 1));
                assert_eq!(member.label, 0x0a00_0001_u64 << 32 | u64::from(pid));
                assert!((16_384..32_768).contains(&member.at.port()));
                assert!(ports.insert(member.at.port()));
            }
        }
    }

    #[test]
    fn whoever_has_the_key_has_the_address() {
        let [one, other] = ["one secret", "another one"].map(|key| JobKey::new(key.as_bytes()));
        let phys = Phys { nid: 0x0a00_0001, pid: 5 };
        let address = address_of(&one, phys, 2).unwrap();
        assert_eq!(address.host(), Some("10.0.0.1:16406".parse().unwrap()));
        assert_ne!(Some(address), address_of(&other, phys, 2));
        // One that has its port has not its name.
        let namesake = Phys { pid: phys.pid + u32::from(PIDS_APART), ..phys };
        let namesake = address_of(&one, namesake, 2).unwrap();
        assert_eq!(namesake.host(), address.host());
        assert_ne!(namesake.key(), address.key());
        // Not of a process that listens anywhere.
        assert_eq!(address_of(&one, Phys { nid: 0, pid: 5 }, 0), None);
    }
}
