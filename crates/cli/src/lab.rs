//! `sluice lab`: the arguments of its commands, and what they print.

use crate::child;
use anyhow::{Context, Result, ensure};
use clap::builder::RangedI64ValueParser;
use clap::{Args, Subcommand};
use serde_json::json;
use sluice_lab::{
    Change, Ended, HOSTS_MAX, Host, Lab, Plan, RAILS_MAX, Rail, Rate, Status, parse_delay,
    parse_name, parse_percent,
};
use sluice_text::Table;
use std::env;
use std::ffi::OsString;
use std::io::Write as _;
use std::os::unix::ffi::OsStringExt as _;
use std::process::{Command, ExitCode};
use std::time::Duration;

/// Exit status if the command did not start, as `sluice run` has it.
const NOT_STARTED: u8 = 125;

/// The commands of `sluice lab`.
#[derive(Debug, Subcommand)]
pub enum LabCommand {
    /// Start a lab.
    Up(UpArgs),
    /// Run a command on a host, or in the head.
    Exec(ExecArgs),
    /// Take a cable down, have it lose or delay packets, or change its rate.
    Link(LinkArgs),
    /// Show hosts, rails and cables.
    Status(StatusArgs),
    /// End a lab: its processes, its network and its files.
    Down(DownArgs),
    /// Run a command of an MPI launcher on a host, as `ssh HOST COMMAND` would.
    Agent(AgentArgs),
    /// Hold namespaces.
    #[command(hide = true)]
    Hold,
    /// Delay what passes a cable.
    #[command(hide = true)]
    Relay(RelayArgs),
}

/// Arguments of `sluice lab up`.
#[derive(Debug, Args)]
#[command(after_help = "\
It needs root. Devices, addresses and mounts are made in namespaces of the lab's own.

Examples:
  sluice lab up                                        two hosts, one rail without a limit
  sluice lab up --rails 4 --rate 1gbit                 four rails of one rate
  sluice lab up --rails 3 --rate 1gbit,2gbit,4gbit     three of different rates
  sluice lab up --hosts 4 --mtu 9000 --name large      four hosts at a switch, a second lab")]
pub struct UpArgs {
    /// How many hosts
    #[arg(long, default_value_t = 2, value_parser = up_to(HOSTS_MAX))]
    hosts: u32,
    /// How many rails join them
    #[arg(long, default_value_t = 1, value_parser = up_to(RAILS_MAX))]
    rails: u32,
    /// Join two hosts by switches, as more hosts are; delays need it
    #[arg(long)]
    switch: bool,
    /// Rate of all rails, or of each: 1gbit, 2.5gbit, 100mbit, none
    #[arg(long, value_delimiter = ',', value_name = "RATE")]
    rate: Vec<Rate>,
    /// Largest packet of the rails, in bytes
    #[arg(long, default_value_t = 1500, value_parser = clap::value_parser!(u32).range(1280..=65535))]
    mtu: u32,
    /// TCP's congestion control in the hosts, such as reno; else the machine's
    #[arg(long, value_name = "NAME")]
    congestion: Option<String>,
    #[command(flatten)]
    lab: Name,
}

/// Arguments of `sluice lab exec`.
#[derive(Debug, Args)]
#[command(after_help = "\
The command has this one's environment, working directory, input and output. Its exit
status is passed on (125 if it was not started), and signals reach it. It sees the host's
network, name, processes and /dev/shm, and the files of this machine. FI_SLUICE_DEVICES is
^ctl unless it is set: Sluice does not use the launchers' device. Launchers run in the head,
where ssh and rsh lead to the lab's hosts.

Examples:
  sluice lab exec h0 ip address
  sluice lab exec h1 -- sh -c 'echo $$ on $(hostname)'
  sluice lab exec head mpirun --host h0:2,h1:2 -np 4 ./program")]
pub struct ExecArgs {
    #[command(flatten)]
    lab: Name,
    /// The host: h0, h1 and so on, or head
    host: Host,
    /// The command and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    command: Vec<OsString>,
}

/// Arguments of `sluice lab agent`.
#[derive(Debug, Args)]
#[command(after_help = "\
Launchers find it in the head under the names ssh and rsh. Options before HOST are
ignored, and the words after it are one line for a shell.

Examples:
  sluice lab exec head mpirun --mca plm_rsh_agent 'sluice lab agent' --host h0,h1 ./program
  sluice lab agent h0 'cd /tmp && hostname'")]
pub struct AgentArgs {
    #[command(flatten)]
    lab: Name,
    /// Options of ssh, the host, and the command
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    words: Vec<OsString>,
}

/// Arguments of `sluice lab link`.
#[derive(Debug, Args)]
#[command(after_help = "\
Two hosts are joined by cables: a rate, silence and loss are both ends'. With more hosts
the other end is a switch's port. Loss counts what the kernel handles at once, which for
TCP may be 64 KiB.

Examples:
  sluice lab link h0 r1 down           the device is taken down; the other end loses its carrier
  sluice lab link h0 r1 cut            the device loses its carrier
  sluice lab link h0 r1 silent         nothing arrives any more, and no device shows it
  sluice lab link h0 r1 up             as before
  sluice lab link h0 r1 loss 0.1%      one packet in a thousand is lost, each way
  sluice lab link h0 r1 delay 2ms      packets take 2 ms longer, each way (with --switch)
  sluice lab link h0 r1 rate 100mbit   both ends send at that rate; none is no limit")]
pub struct LinkArgs {
    /// The host: h0, h1 and so on
    host: Host,
    /// The rail: r0, r1 and so on
    rail: Rail,
    /// What happens to it
    #[command(subcommand)]
    change: ChangeCommand,
    #[command(flatten)]
    lab: Name,
}

/// What `sluice lab link` does.
#[derive(Debug, Clone, Copy, Subcommand)]
pub enum ChangeCommand {
    /// End down, cut, silence and loss.
    Up,
    /// Take the host's device down.
    Down,
    /// Have the host's device lose its carrier.
    Cut,
    /// Lose all packets, both ways; the carriers stay.
    Silent,
    /// Lose a share of the packets, both ways.
    Loss {
        /// Per cent, from 0 to 100
        #[arg(value_parser = parse_percent)]
        percent: f64,
    },
    /// Have packets take longer, both ways; it needs a switch.
    Delay {
        /// How much longer: 250us, 2ms, 0.5s; 0 ends it
        #[arg(value_parser = parse_delay)]
        time: Duration,
    },
    /// Send at a rate, both ways.
    Rate {
        /// Bits per second, such as 1gbit, or none
        rate: Rate,
    },
}

/// Arguments of `sluice lab relay`.
#[derive(Debug, Args)]
pub struct RelayArgs {
    /// The host's number
    #[arg(value_parser = clap::value_parser!(u32).range(..i64::from(HOSTS_MAX)))]
    host: u32,
    /// The rail's number
    #[arg(value_parser = clap::value_parser!(u32).range(..i64::from(RAILS_MAX)))]
    rail: u32,
    /// The delay in nanoseconds
    delay_ns: u64,
}

/// Arguments of `sluice lab status`.
#[derive(Debug, Args)]
#[command(after_help = "\
Without --name it shows all labs.

Examples:
  sluice lab status
  sluice lab status --name large --json")]
pub struct StatusArgs {
    /// Print JSON instead of text
    #[arg(long)]
    json: bool,
    /// The lab's name
    #[arg(long, value_parser = parse_name)]
    name: Option<String>,
}

/// Arguments of `sluice lab down`.
#[derive(Debug, Args)]
#[command(after_help = "\
Processes that run on its hosts are killed. It also removes what is left of a lab whose
processes have died.

Examples:
  sluice lab down
  sluice lab down --name large")]
pub struct DownArgs {
    #[command(flatten)]
    lab: Name,
}

/// Which lab.
#[derive(Debug, Args)]
struct Name {
    /// The lab's name; else SLUICE_LAB, else lab
    #[arg(long, global = true, value_parser = parse_name)]
    name: Option<String>,
}

impl Name {
    fn get(&self) -> Result<String> {
        match (&self.name, env::var_os("SLUICE_LAB")) {
            (Some(name), _) => Ok(name.clone()),
            (None, None) => Ok("lab".to_owned()),
            (None, Some(name)) => parse_name(&name.to_string_lossy())
                .map_err(|error| anyhow::anyhow!("SLUICE_LAB: {error}")),
        }
    }

    fn open(&self) -> Result<Lab> {
        Lab::open(&self.get()?)
    }
}

fn up_to(count_max: u32) -> RangedI64ValueParser<u32> {
    clap::value_parser!(u32).range(1..=i64::from(count_max))
}

/// Does what is asked.
pub fn run(command: &LabCommand) -> Result<ExitCode> {
    match command {
        LabCommand::Up(args) => up(args)?,
        LabCommand::Exec(args) => return Ok(started(exec(args))),
        LabCommand::Agent(args) => return Ok(started(agent(args))),
        LabCommand::Link(args) => link(args)?,
        LabCommand::Status(args) => status(args)?,
        LabCommand::Down(args) => down(args)?,
        LabCommand::Hold => sluice_lab::hold()?,
        LabCommand::Relay(args) => {
            sluice_lab::relay(args.host, args.rail, Duration::from_nanos(args.delay_ns))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn up(args: &UpArgs) -> Result<()> {
    let plan = Plan::new(&args.lab.get()?, args.hosts, args.rails, &args.rate);
    let plan = plan.map_err(anyhow::Error::msg)?;
    let plan =
        Plan { switch: args.switch, mtu: args.mtu, congestion: args.congestion.clone(), ..plan };
    let lab = sluice_lab::up(&plan)?;
    write_text(&[sluice_lab::status(&lab)?])
}

fn down(args: &DownArgs) -> Result<()> {
    let name = args.lab.get()?;
    let was = match sluice_lab::down(&name)? {
        Ended::Running => "is gone",
        Ended::Stale => "had died; what was left is removed",
    };
    writeln!(std::io::stdout(), "the lab {name} {was}")?;
    Ok(())
}

fn link(args: &LinkArgs) -> Result<()> {
    let change = match args.change {
        ChangeCommand::Up => Change::Up,
        ChangeCommand::Down => Change::Down,
        ChangeCommand::Cut => Change::Cut,
        ChangeCommand::Silent => Change::Silent,
        ChangeCommand::Loss { percent } => Change::Loss(percent),
        ChangeCommand::Delay { time } => Change::Delay(time),
        ChangeCommand::Rate { rate } => Change::Rate(rate),
    };
    sluice_lab::link(&args.lab.open()?, args.host, args.rail, change)
}

fn status(args: &StatusArgs) -> Result<()> {
    let mut statuses = Vec::new();
    match &args.name {
        Some(name) => statuses.push(sluice_lab::status(&Lab::open(name)?)?),
        None => {
            for name in sluice_lab::names() {
                match Lab::open(&name).and_then(|lab| sluice_lab::status(&lab)) {
                    Ok(status) => statuses.push(status),
                    // One that is half started does not hide the others.
                    Err(error) => eprintln!("sluice: warning: {error:#}"),
                }
            }
        }
    }
    if !args.json {
        return write_text(&statuses);
    }
    let mut out = std::io::stdout().lock();
    serde_json::to_writer_pretty(&mut out, &json!({ "labs": statuses }))
        .map_err(std::io::Error::from)?;
    writeln!(out)?;
    Ok(())
}

fn write_text(statuses: &[Status]) -> Result<()> {
    let mut out = std::io::stdout().lock();
    if statuses.is_empty() {
        writeln!(out, "no labs; start one: sluice lab up")?;
    }
    for status in statuses {
        writeln!(out, "lab {}: {}", status.name, status.state)?;
        let mut table =
            Table::new(&["host", "rail", "IPv4", "IPv6", "rate", "delay", "state", "loss %"]);
        for host in &status.hosts {
            let state = if host.alive { "" } else { "dead" };
            let control = ["ctl", &host.control, "", "none", "0", state, "0"].map(str::to_owned);
            table.row([vec![host.name.clone()], control.to_vec()].concat());
            for rail in &host.rails {
                table.row(vec![
                    host.name.clone(),
                    rail.name.clone(),
                    rail.ipv4.clone(),
                    rail.ipv6.clone(),
                    rail.rate.to_string(),
                    delay_text(rail.delay_ns),
                    rail.state.to_owned(),
                    rail.loss.to_string(),
                ]);
            }
        }
        if !status.hosts.is_empty() {
            write!(out, "{table}")?;
        }
    }
    Ok(())
}

fn exec(args: &ExecArgs) -> Result<ExitCode> {
    start(&args.lab.open()?, args.host, &args.command)
}

/// Runs what a launcher gave: options, a host, and words for a shell.
fn agent(args: &AgentArgs) -> Result<ExitCode> {
    let is_option = |word: &&OsString| word.as_encoded_bytes().starts_with(b"-");
    let mut words = args.words.iter().skip_while(is_option);
    let host = words.next().context("no host is named; give sluice lab agent HOST COMMAND")?;
    let host = host.to_string_lossy().parse::<Host>().map_err(anyhow::Error::msg)?;
    let words: Vec<&[u8]> = words.map(|word| word.as_encoded_bytes()).collect();
    ensure!(!words.is_empty(), "no command is given for {host}");
    let line = OsString::from_vec(words.join(&b' '));
    start(&args.lab.open()?, host, &["sh".into(), "-c".into(), line])
}

fn delay_text(delay_ns: u64) -> String {
    match delay_ns {
        0 => "0".to_owned(),
        _ => format!("{:?}", Duration::from_nanos(delay_ns)),
    }
}

/// The command's exit status, or another one if there was none.
fn started(done: Result<ExitCode>) -> ExitCode {
    done.unwrap_or_else(|error| {
        eprintln!("sluice: {error:#}");
        ExitCode::from(NOT_STARTED)
    })
}

/// Runs a command on a host.
fn start(lab: &Lab, host: Host, words: &[OsString]) -> Result<ExitCode> {
    let (program, rest) = words.split_first().context("no command is given")?;
    let mut command = Command::new(program);
    command.args(rest);
    let enter = |command: &mut Command| {
        let variables = sluice_lab::enter(lab, host)?;
        command.envs(variables);
        Ok(())
    };
    let status = child::run(&mut command, enter)
        .with_context(|| format!("{} did not run on {host}", program.display()))?;
    Ok(ExitCode::from(child::code_of(status)))
}
