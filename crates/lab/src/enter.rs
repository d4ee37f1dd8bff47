//! Brings a process, or a thread for a moment, into a host.

use crate::directory::{self, Lab};
use crate::plan::{CONTROL, HEAD, host_name};
use crate::process::Holder;
use anyhow::{Context, Result};
use rustix::fd::AsFd as _;
use rustix::thread::{ThreadNameSpaceType, move_into_thread_name_spaces};
use std::env;
use std::ffi::OsString;
use std::fmt;
use std::str::FromStr;
use std::thread;

/// Which network devices Sluice uses.
const DEVICES: &str = "FI_SLUICE_DEVICES";

/// One of a lab's hosts, or its head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Host {
    /// Where launchers run.
    Head,
    /// A host by its number.
    Number(u32),
}

impl FromStr for Host {
    type Err = String;

    fn from_str(text: &str) -> Result<Host, String> {
        let digits = text.strip_prefix('h').unwrap_or(text);
        match digits.parse() {
            Ok(number) => Ok(Host::Number(number)),
            Err(_) if text == HEAD => Ok(Host::Head),
            Err(_) => Err(format!("'{text}' is not a host; give h0, h1 and so on, or {HEAD}")),
        }
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Host::Head => f.write_str(HEAD),
            Host::Number(number) => f.write_str(&host_name(*number)),
        }
    }
}

impl Lab {
    /// The process that holds a host.
    pub fn holder(&self, host: Host) -> Result<Holder> {
        let name = &self.plan.name;
        let identity = match host {
            Host::Head => &self.head,
            Host::Number(number) => self.hosts.get(number as usize).with_context(|| {
                let last = host_name(self.plan.hosts.saturating_sub(1));
                format!("the lab {name} has no host {host}: its hosts are h0 to {last}")
            })?,
        };
        if let Some(holder) = identity.find() {
            return Ok(holder);
        }
        self.running()?;
        anyhow::bail!(
            "the host {host} of the lab {name} has died; start anew: {}",
            directory::down(name)
        )
    }
}

/// Moves the calling process into a host: all its children will run there. The process must
/// have one thread, and can start no other one afterwards. Gives the variables that the
/// children are to have.
pub fn enter(lab: &Lab, host: Host) -> Result<Vec<(&'static str, OsString)>> {
    let holder = lab.holder(host)?;
    let folder = env::current_dir().context("the working directory is gone")?;
    let kinds = ThreadNameSpaceType::NETWORK
        | ThreadNameSpaceType::HOST_NAME_AND_NIS_DOMAIN_NAME
        | ThreadNameSpaceType::INTER_PROCESS_COMMUNICATION
        | ThreadNameSpaceType::PROCESS_ID
        | ThreadNameSpaceType::MOUNT;
    move_into_thread_name_spaces(holder.pidfd.as_fd(), kinds)
        .with_context(|| format!("{host} cannot be entered (it needs root)"))?;
    env::set_current_dir(&folder)
        .with_context(|| format!("{host} does not have {}", folder.display()))?;
    let mut variables = vec![("SLUICE_LAB", OsString::from(&lab.plan.name))];
    // The launchers' device has no rate and does not fail, so it is no rail.
    let devices = env::var_os(DEVICES).unwrap_or_else(|| format!("^{CONTROL}").into());
    variables.push((DEVICES, devices));
    if host == Host::Head {
        // Launchers find the lab's agents under the names of the usual ones.
        let mut path = directory::agents(&lab.plan.name).into_os_string();
        path.push(":");
        path.push(env::var_os("PATH").unwrap_or_else(|| "/usr/bin:/bin".into()));
        variables.push(("PATH", path));
        // Hydra would tell the hosts its loopback address.
        let interface = env::var_os("HYDRA_IFACE").unwrap_or_else(|| CONTROL.into());
        variables.push(("HYDRA_IFACE", interface));
    }
    Ok(variables)
}

/// Does something in a host's network, in a thread of its own.
pub fn in_network<T: Send>(
    lab: &Lab,
    host: Host,
    work: impl FnOnce() -> Result<T> + Send,
) -> Result<T> {
    let holder = lab.holder(host)?;
    let job = move || {
        move_into_thread_name_spaces(holder.pidfd.as_fd(), ThreadNameSpaceType::NETWORK)
            .with_context(|| format!("{host}'s network cannot be entered (it needs root)"))?;
        work()
    };
    thread::scope(|scope| match scope.spawn(job).join() {
        Ok(done) => done,
        Err(panic) => std::panic::resume_unwind(panic),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_named_as_they_name_themselves() {
        assert_eq!("h12".parse(), Ok(Host::Number(12)));
        assert_eq!("3".parse(), Ok(Host::Number(3)));
        assert_eq!("head".parse(), Ok(Host::Head));
        assert!(["", "h", "hh1", "h-1", "localhost"].iter().all(|it| it.parse::<Host>().is_err()));
        assert_eq!(Host::Number(2).to_string(), "h2");
    }
}
