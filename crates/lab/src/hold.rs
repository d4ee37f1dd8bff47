//! The processes that hold the namespaces: the head's, which builds the lab, and the hosts'.
//!
//! Each is the first process of its process namespace. It is told on its standard input
//! what to build, and answers on its standard output, in lines of JSON. If the input ends
//! before the lab is complete, whoever wanted it has died: the head ends, and the lab with
//! it. Afterwards a holder only takes in the ends of processes that have lost their parent.

use crate::directory;
use crate::network;
use crate::plan::{HEAD, Plan, host_name};
use crate::process::{Identity, own_pid};
use crate::programs;
use anyhow::{Context, Result, bail};
use rustix::mount::{MountFlags, mount, mount_bind};
use rustix::process::{WaitOptions, wait};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use signal_hook::consts::SIGCHLD;
use signal_hook::iterator::Signals;
use std::ffi::CString;
use std::fs::{self, Permissions};
use std::io::{BufRead as _, BufReader, Write};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// What tells one start of a machine from another, and so one machine from another.
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";
/// Another number at each look.
const RANDOM_ID: &str = "/proc/sys/kernel/random/uuid";

/// What a holder is to hold.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum Order {
    /// The head, and with it the whole lab.
    Head(Plan),
    /// One host.
    Host(Plan, u32),
}

/// What a holder says of a step.
#[derive(Debug, Serialize, Deserialize)]
pub enum Answer {
    /// A host's namespaces are there; its number in the head.
    Host(Identity, i32),
    /// A host's network is set.
    Set,
    /// The lab is complete: the head, and the hosts.
    Complete(Identity, Vec<Identity>),
    /// It failed, and why.
    Failed(String),
}

/// A holder as seen by the process that started it.
pub struct Held {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

/// Holds namespaces, as the first process in them. It returns if it failed, or if nobody
/// wants the lab any more.
pub fn hold() -> Result<()> {
    // Before the first child, so that no end is missed.
    let mut ends = Signals::new([SIGCHLD]).context("signals cannot be taken")?;
    let done = match read_line()? {
        Order::Head(plan) => head(&plan),
        Order::Host(plan, host) => self::host(&plan, host),
    };
    if let Err(error) = done {
        return tell(&Answer::Failed(format!("{error:#}")));
    }
    // The directory that it was started in may be unmounted or removed.
    std::env::set_current_dir("/")?;
    loop {
        while let Ok(Some(_)) = wait(WaitOptions::NOHANG) {}
        ends.wait().for_each(drop);
    }
}

impl Held {
    /// Starts a holder in new namespaces. `log` gets what it says outside of its answers.
    pub fn start(program: &Path, log: Stdio, order: &Order) -> Result<Held> {
        let mut child = Command::new("setsid")
            .args(["unshare", "--net", "--uts", "--ipc", "--pid", "--mount"])
            .args(["--fork", "--kill-child", "--propagation", "private", "--"])
            .arg(program)
            .args(["lab", "hold"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .map_err(|error| programs::not_started("setsid", &error))?;
        let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            bail!("a process was started without pipes");
        };
        let mut held = Held { child, input, output: BufReader::new(output) };
        held.send(order)?;
        Ok(held)
    }

    /// Tells it to go on.
    pub fn send(&mut self, line: &impl Serialize) -> Result<()> {
        let text = serde_json::to_string(line)?;
        writeln!(self.input, "{text}").context("a process of the lab has ended")
    }

    /// What it answers.
    pub fn answer(&mut self) -> Result<Answer> {
        let mut line = String::new();
        self.output.read_line(&mut line).context("a process of the lab cannot be heard")?;
        if line.is_empty() {
            let status = self.child.wait().context("a process of the lab was lost")?;
            bail!("a process of the lab ended ({status})");
        }
        match serde_json::from_str(&line)? {
            Answer::Failed(error) => bail!("{error}"),
            answer => Ok(answer),
        }
    }

    /// Ends it, and waits until it has.
    pub fn end(mut self) {
        // Its input ends, and `unshare` kills what it started.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Builds the lab from within the head.
fn head(plan: &Plan) -> Result<()> {
    let identity = Identity::of_self()?;
    furnish(plan, HEAD)?;
    install_agents(plan)?;
    let program = std::env::current_exe().context("the path of this program is unknown")?;
    let mut hosts = Vec::new();
    let mut identities = Vec::new();
    let mut pids = Vec::new();
    for host in 0..plan.hosts {
        let named = || format!("host {}", host_name(host));
        let order = Order::Host(plan.clone(), host);
        let mut held = Held::start(&program, Stdio::inherit(), &order).with_context(named)?;
        let Answer::Host(identity, pid) = held.answer().with_context(named)? else {
            bail!("host {host} answered something else");
        };
        hosts.push(held);
        identities.push(identity);
        pids.push(pid);
    }
    programs::batch("ip", &network::head_ip(plan, &pids))?;
    programs::batch("tc", &network::head_tc(plan))?;
    for (host, held) in (0..).zip(&mut hosts) {
        held.send(&())?;
        held.answer().with_context(|| format!("host {}", host_name(host)))?;
    }
    tell(&Answer::Complete(identity, identities))?;
    // Nothing comes if the process that wanted the lab has died.
    read_line::<()>().context("nobody wants the lab")
}

/// Holds one host.
fn host(plan: &Plan, host: u32) -> Result<()> {
    let (identity, pid) = (Identity::of_self()?, own_pid()?);
    furnish(plan, &host_name(host))?;
    // Of labs, a host sees none: from within one, the others' processes are not there.
    mount_tmpfs(directory::ROOT, "mode=755")?;
    tell(&Answer::Host(identity, pid))?;
    read_line::<()>().context("the head is gone")?;
    set_up_ipv6()?;
    if let Some(congestion) = &plan.congestion {
        fs::write("/proc/sys/net/ipv4/tcp_congestion_control", congestion)
            .with_context(|| format!("the kernel has no congestion control '{congestion}'"))?;
    }
    programs::batch("ip", &network::host_ip(plan, host))?;
    programs::batch("tc", &network::host_tc(plan))?;
    tell(&Answer::Set)
}

/// Gives the namespaces what makes them a host: a name, `/proc`, `/sys`, `/dev/shm`, a boot
/// identifier and `/etc/hosts`.
fn furnish(plan: &Plan, name: &str) -> Result<()> {
    rustix::system::sethostname(name.as_bytes()).context("no host name can be set")?;
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    for (kind, target) in [("proc", "/proc"), ("sysfs", "/sys")] {
        mount(kind, target, kind, flags, None)
            .with_context(|| format!("{target} cannot be mounted"))?;
    }
    mount_tmpfs("/dev/shm", "mode=1777")?;
    // Programs know a machine by this number. A fresh one is what the kernel makes of `uuid`.
    let boot_id = directory::dir(&plan.name).join(format!("{name}.boot_id"));
    fs::read(RANDOM_ID)
        .and_then(|random| fs::write(&boot_id, random))
        .with_context(|| format!("{} cannot be written", boot_id.display()))?;
    for (file, target) in [(&boot_id, BOOT_ID), (&directory::hosts_file(&plan.name), "/etc/hosts")]
    {
        mount_bind(file, target).with_context(|| format!("{target} cannot be replaced"))?;
    }
    Ok(())
}

/// Puts the agents where the head's processes find them. Only the head sees them.
fn install_agents(plan: &Plan) -> Result<()> {
    let dir = directory::agents(&plan.name);
    mount_tmpfs(&dir, "mode=755")?;
    let program = std::env::current_exe().context("the path of this program is unknown")?;
    let quoted = program.display().to_string().replace('\'', r"'\''");
    let name = &plan.name;
    let script = format!("#!/bin/sh\nexec '{quoted}' lab agent --name {name} \"$@\"\n");
    for agent in ["agent", "ssh", "rsh"] {
        let path = dir.join(agent);
        fs::write(&path, &script)
            .and_then(|()| fs::set_permissions(&path, Permissions::from_mode(0o755)))
            .with_context(|| format!("{} cannot be written", path.display()))?;
    }
    Ok(())
}

fn mount_tmpfs(target: impl AsRef<Path>, options: &str) -> Result<()> {
    let target = target.as_ref();
    let options = CString::new(options)?;
    mount("tmpfs", target, "tmpfs", MountFlags::NOSUID | MountFlags::NODEV, options.as_c_str())
        .with_context(|| format!("no memory can be mounted at {}", target.display()))
}

/// Has IPv6 addresses stay while a device is down, as IPv4 addresses do.
fn set_up_ipv6() -> Result<()> {
    let path = Path::new("/proc/sys/net/ipv6/conf/all/keep_addr_on_down");
    fs::write(path, "1").with_context(|| format!("{} (is IPv6 disabled?)", path.display()))
}

fn tell(answer: &Answer) -> Result<()> {
    println!("{}", serde_json::to_string(answer)?);
    Ok(())
}

fn read_line<T: DeserializeOwned>() -> Result<T> {
    let mut line = String::new();
    std::io::stdin().read_line(&mut line)?;
    serde_json::from_str(&line).context("this command is for `sluice lab up` alone")
}
