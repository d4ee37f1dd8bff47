//! Two hosts of `sluice lab`, for measurements that need rails with known rates, or rails
//! that fail. A lab is made and ended here (`own_lab`), unless the name of one is given.

use crate::launch::Both;
use crate::own_lab;
use anyhow::{Context, Result, ensure};
use clap::Args;
use serde_json::Value;
use std::ffi::OsString;
use std::process::{Command, Stdio};

/// The lab that is made if none is named.
const NAME: &str = "perf";
/// Of a frame of 1514 bytes TCP's payload has 1448: an MTU of 1500, with timestamps.
const PAYLOAD: f64 = 1448.0 / 1514.0;

/// Which lab.
#[derive(Clone, Debug, Default, Args)]
pub struct LabArgs {
    /// Use this lab of two hosts, which is up, instead of making one
    #[arg(long, value_name = "NAME", conflicts_with = "lab_rails")]
    lab: Option<String>,
    /// Make a lab of two hosts, joined by rails of these rates in Gbit/s: 1,2.5
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = parse_gbit,
          allow_negative_numbers = true)]
    lab_rails: Vec<f64>,
}

impl LabArgs {
    /// Whether any is.
    pub fn is_given(&self) -> bool {
        self.lab.is_some() || !self.lab_rails.is_empty()
    }

    /// The one that is given, or else a new one with rails of these rates, in Gbit/s.
    pub fn open(&self, gbit_per_s: &[f64]) -> Result<Lab> {
        match &self.lab {
            Some(name) => Lab::named(name),
            None if self.lab_rails.is_empty() => Lab::up(gbit_per_s),
            None => Lab::up(&self.lab_rails),
        }
    }
}

/// A lab of two hosts. One that was made here ends when it is dropped.
#[derive(Debug)]
pub struct Lab {
    name: String,
    is_own: bool,
    /// The rate of each rail.
    rates: Vec<f64>,
}

impl Lab {
    /// Makes one with rails of these rates, in Gbit/s.
    fn up(gbit_per_s: &[f64]) -> Result<Lab> {
        ensure!(
            rustix::process::geteuid().is_root(),
            "this needs root: it makes two hosts with 'sluice lab', which are network namespaces"
        );
        let rates: Vec<String> = gbit_per_s.iter().map(|&rate| rate_word(rate)).collect();
        let rails = rates.len().to_string();
        let rates = rates.join(",");
        let up = ["up", "--name", NAME, "--hosts", "2", "--rails", &rails, "--rate", &rates];
        let up = || sluice_lab(&up).map(drop).context("cannot make a lab");
        own_lab::make(up, take_down)?;
        Ok(Lab { name: NAME.to_owned(), is_own: true, rates: gbit_per_s.to_vec() })
    }

    /// One that is there.
    fn named(name: &str) -> Result<Lab> {
        let status = sluice_lab(&["status", "--name", name, "--json"])?;
        let status: Value = serde_json::from_str(&status).context("the lab's state")?;
        let hosts = status["labs"][0]["hosts"].as_array().cloned().unwrap_or_default();
        ensure!(hosts.len() == 2, "two hosts are needed, the lab {name} has {}", hosts.len());
        let rails = hosts[0]["rails"].as_array().cloned().unwrap_or_default();
        let rate = |rail: &Value| {
            let bits = rail["rate"].as_f64();
            let failed = || format!("the rail {} of the lab {name} has no rate", rail["name"]);
            bits.map(|bits| bits / 1e9).with_context(failed)
        };
        let rates: Vec<f64> = rails.iter().map(rate).collect::<Result<_>>()?;
        ensure!(!rates.is_empty(), "the lab {name} has no rails");
        Ok(Lab { name: name.to_owned(), is_own: false, rates })
    }

    /// The rate of each rail, in Gbit/s.
    pub fn gbit_per_s(&self) -> &[f64] {
        &self.rates
    }

    /// Starts the two processes of a measurement, one on each host.
    pub fn start(&self, args: Vec<OsString>) -> Result<Both> {
        let program = std::env::current_exe().context("cannot find this program's own file")?;
        let program = program.to_str().context("this program's path is no text")?;
        let exec = |host| format!("{program} lab exec --name {} {host}", self.name);
        Both::start(&exec("h0"), &exec("h1"), args)
    }

    /// Changes the cable of a rail: `down`, `silent`, `up`.
    pub fn link(&self, rail: usize, change: &str) -> Result<()> {
        let rail = device(rail);
        sluice_lab(&["link", "--name", &self.name, "h0", &rail, change]).map(drop)
    }

    /// Changes the rate of a rail.
    pub fn set_rate(&mut self, rail: usize, gbit_per_s: f64) -> Result<()> {
        let (device, rate) = (device(rail), rate_word(gbit_per_s));
        sluice_lab(&["link", "--name", &self.name, "h0", &device, "rate", &rate])?;
        self.rates[rail] = gbit_per_s;
        Ok(())
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        if self.is_own {
            own_lab::end(take_down);
        }
    }
}

/// Takes down the lab that was made here.
fn take_down() {
    if let Err(error) = sluice_lab(&["down", "--name", NAME]) {
        eprintln!("sluice: warning: {error:#}");
    }
}

/// The device of a rail, on both hosts.
pub fn device(rail: usize) -> String {
    format!("r{rail}")
}

/// What TCP can carry at most over rails of these rates, in Gbit/s.
pub fn payload_gbit_per_s(rates: &[f64]) -> f64 {
    rates.iter().sum::<f64>() * PAYLOAD
}

/// A rate in Gbit/s that a rail can have.
fn parse_gbit(text: &str) -> Result<f64, String> {
    let rate = text.trim().parse::<f64>().ok().filter(|rate| (0.001..=1000.0).contains(rate));
    rate.ok_or_else(|| format!("'{text}' is no rate in Gbit/s from 0.001 to 1000"))
}

fn rate_word(gbit_per_s: f64) -> String {
    format!("{:.0}mbit", gbit_per_s * 1e3)
}

/// Runs `sluice lab`. What it prints.
fn sluice_lab(args: &[&str]) -> Result<String> {
    let program = std::env::current_exe().context("cannot find this program's own file")?;
    let done = Command::new(program).arg("lab").args(args).stdin(Stdio::null()).output();
    let done = done.context("cannot run sluice lab")?;
    let said = String::from_utf8_lossy(&done.stderr);
    let said = said.trim().trim_start_matches("sluice: ");
    ensure!(done.status.success(), "sluice lab {}: {said}", args.first().unwrap_or(&""));
    Ok(String::from_utf8_lossy(&done.stdout).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn payload_is_what_frames_leave() {
        let sum = payload_gbit_per_s(&[1.0, 2.0, 4.0]);
        assert!((sum - 6.695).abs() < 1e-3, "{sum}");
    }

    #[test]
    fn a_rate_is_a_number_that_a_rail_can_have() {
        assert_eq!([" 1", "2.5", "0.1"].map(parse_gbit), [Ok(1.0), Ok(2.5), Ok(0.1)]);
        for wrong in ["", "1gbit", "0", "-1", "nan", "inf", "1e9"] {
            assert!(parse_gbit(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn rates_are_words_of_the_lab() {
        assert_eq!([1.0, 0.1, 2.5].map(rate_word), ["1000mbit", "100mbit", "2500mbit"]);
    }
}
