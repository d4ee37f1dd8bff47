//! Where the two processes of a measurement run, as it is said on the command line.
//!
//! With `--other` the first process starts the second one by a command, and speaks to it
//! through pipes as on one host. With `--here`, or in a lab, a third process starts both
//! (`launch`), with the same arguments and `--launched`.

use crate::lab::LabArgs;
use crate::launch::Both;
use crate::other::Start;
use anyhow::{Result, ensure};
use clap::Args;
use std::ffi::OsString;

/// Where the two processes run.
#[derive(Clone, Debug, Default, Args)]
pub struct Hosts {
    /// Start the second process by this command, which leads to another host: 'ssh node2'
    #[arg(long, value_name = "COMMAND")]
    other: Option<String>,
    /// Start the first process by a command too: 'sluice lab exec h0'
    #[arg(long, value_name = "COMMAND", requires = "other")]
    here: Option<String>,
    #[command(flatten)]
    lab: LabArgs,
    /// This is the first process, which a launcher has started
    #[arg(long, hide = true)]
    launched: bool,
}

impl Hosts {
    /// How the second process is started.
    pub fn start(&self) -> Start {
        match &self.other {
            _ if self.launched => Start::Launcher,
            Some(command) => Start::By(command.clone()),
            None => Start::Child,
        }
    }

    /// Those of a first process that a launcher has started.
    pub fn launched() -> Hosts {
        Hosts { launched: true, ..Hosts::default() }
    }

    /// Whether they are a lab's.
    pub fn is_in_lab(&self) -> bool {
        self.lab.is_given()
    }

    /// Whether one of the two may be on another host.
    pub fn is_distant(&self) -> bool {
        self.other.is_some() || self.lab.is_given() || self.launched
    }

    /// Starts both processes and waits for their ends, if that is asked for. Whether it was.
    pub fn launch(&self) -> Result<bool> {
        if self.launched {
            return Ok(false);
        }
        if self.lab.is_given() {
            ensure!(self.other.is_none(), "both hosts are the lab's: give it or --other");
            return self.launch_in(&[]);
        }
        let (Some(here), Some(other)) = (&self.here, &self.other) else { return Ok(false) };
        Both::start(here, other, own_args())?.wait()?;
        Ok(true)
    }

    /// The same for a measurement that runs in a lab with rails of these rates, in Gbit/s,
    /// if no hosts are given.
    pub fn launch_in(&self, gbit_per_s: &[f64]) -> Result<bool> {
        if self.launched || self.other.is_some() {
            return self.launch();
        }
        let lab = self.lab.open(gbit_per_s)?;
        lab.start(own_args())?.wait()?;
        Ok(true)
    }
}

/// The arguments of the first process: those of the launcher.
fn own_args() -> Vec<OsString> {
    std::env::args_os().skip(1).chain(["--launched".into()]).collect()
}
