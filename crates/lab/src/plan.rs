//! What a lab is to be: its hosts, rails and rates, and the addresses that follow.
//!
//! Every lab has the same addresses: no two labs see each other. Rail R is the networks
//! 10.42.R.0/24 and fd42:0:0:R::/64, the control network 10.42.255.0/24. Host I has I + 1
//! as its last number, the head 254.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// Most hosts of a lab.
pub const HOSTS_MAX: u32 = 64;
/// Most rails of a lab.
pub const RAILS_MAX: u32 = 32;
/// The device of launchers' traffic, in each host and in the head.
pub const CONTROL: &str = "ctl";
/// The head's address there.
pub const HEAD_ADDRESS: &str = "10.42.255.254";
/// The name of the namespaces where launchers run.
pub const HEAD: &str = "head";

/// What a lab is to be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// The lab's name.
    pub name: String,
    /// How many hosts.
    pub hosts: u32,
    /// Whether two hosts are joined by switches as well. More always are.
    pub switch: bool,
    /// The rate of each rail.
    pub rates: Vec<Rate>,
    /// The largest packet of the rails, in bytes.
    pub mtu: u32,
    /// TCP's congestion control in the hosts; the machine's if none is named.
    pub congestion: Option<String>,
}

impl Plan {
    /// A plan with one rate for all rails, or one for each.
    pub fn new(name: &str, hosts: u32, rails: u32, rates: &[Rate]) -> Result<Plan, String> {
        let rates = match rates {
            [] => vec![Rate::NONE; rails as usize],
            [rate] => vec![*rate; rails as usize],
            rates if rates.len() == rails as usize => rates.to_vec(),
            rates => {
                return Err(format!(
                    "{} rates for {rails} rails; give one for all, or one for each",
                    rates.len()
                ));
            }
        };
        let name = name.to_owned();
        Ok(Plan { name, hosts, switch: false, rates, mtu: 1500, congestion: None })
    }

    /// How many rails.
    pub fn rails(&self) -> u32 {
        u32::try_from(self.rates.len()).unwrap_or(RAILS_MAX)
    }

    /// Whether each rail is one cable between two hosts. Else it is a switch.
    pub fn is_pair(&self) -> bool {
        self.hosts == 2 && !self.switch
    }

    /// The names that the hosts resolve: each host by its control address, and each rail of
    /// a host.
    pub fn hosts_file(&self) -> String {
        let mut lines = format!("127.0.0.1 localhost\n::1 localhost\n{HEAD_ADDRESS} {HEAD}\n");
        for host in 0..self.hosts {
            lines += &format!("{} {}\n", control_address(host), host_name(host));
            for rail in 0..self.rails() {
                let name = format!("{}-{}", host_name(host), rail_name(rail));
                lines += &format!("{} {name}\n", ipv4(host, rail));
                lines += &format!("{} {name}\n", ipv6(host, rail));
            }
        }
        lines
    }
}

/// The name of a host.
pub fn host_name(host: u32) -> String {
    format!("h{host}")
}

/// The name of a rail's device in each host.
pub fn rail_name(rail: u32) -> String {
    format!("r{rail}")
}

/// A host's address for launchers.
pub fn control_address(host: u32) -> String {
    format!("10.42.255.{}", host + 1)
}

/// A host's IPv4 address on a rail.
pub fn ipv4(host: u32, rail: u32) -> String {
    format!("10.42.{rail}.{}", host + 1)
}

/// A host's IPv6 address on a rail.
pub fn ipv6(host: u32, rail: u32) -> String {
    format!("fd42:0:0:{rail:x}::{:x}", host + 1)
}

/// Bits per second, or no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Rate {
    bits_per_second: Option<u64>,
}

impl Rate {
    /// No limit.
    pub const NONE: Rate = Rate { bits_per_second: None };
    /// Lowest limit: below it one packet takes seconds.
    const MIN: u64 = 8_000;
    /// Highest limit.
    const MAX: u64 = 1_000_000_000_000;
    /// Units as `tc` names them.
    const UNITS: [(&'static str, u64); 5] = [
        ("tbit", 1_000_000_000_000),
        ("gbit", 1_000_000_000),
        ("mbit", 1_000_000),
        ("kbit", 1_000),
        ("bit", 1),
    ];

    /// This many bits per second.
    pub fn of_bits(bits_per_second: u64) -> Rate {
        Rate { bits_per_second: Some(bits_per_second) }
    }

    /// Bits per second; `None` is no limit.
    pub fn bits(self) -> Option<u64> {
        self.bits_per_second
    }
}

impl FromStr for Rate {
    type Err = String;

    fn from_str(text: &str) -> Result<Rate, String> {
        let wrong = || {
            format!(
                "'{text}' is not a rate; give bits per second from 8kbit to 1tbit: \
                 100mbit, 2.5gbit, or none"
            )
        };
        let lower = text.trim().to_ascii_lowercase();
        if lower == "none" {
            return Ok(Rate::NONE);
        }
        let end = lower.find(|c: char| !c.is_ascii_digit() && c != '.').ok_or_else(wrong)?;
        let (number, unit) = lower.split_at(end);
        let (_, factor) =
            Rate::UNITS.into_iter().find(|(name, _)| *name == unit.trim()).ok_or_else(wrong)?;
        let bits = scaled(number, factor).ok_or_else(wrong)?;
        let is_allowed = (Rate::MIN..=Rate::MAX).contains(&bits);
        is_allowed.then_some(Rate::of_bits(bits)).ok_or_else(wrong)
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(bits) = self.bits_per_second else { return f.write_str("none") };
        let whole = |&(_, factor): &(&str, u64)| bits % factor == 0;
        let (name, factor) = Rate::UNITS.into_iter().find(whole).unwrap_or(("bit", 1));
        write!(f, "{}{name}", bits / factor)
    }
}

/// A decimal number times a factor, in whole numbers.
fn scaled(number: &str, factor: u64) -> Option<u64> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let digits = u32::try_from(fraction.len()).ok()?;
    let unit = 10_u64.checked_pow(digits)?;
    let fraction: u64 = if fraction.is_empty() { 0 } else { fraction.parse().ok()? };
    let parts = u128::from(whole.parse::<u64>().ok()?) * u128::from(unit) + u128::from(fraction);
    let scaled = parts.checked_mul(u128::from(factor))?;
    let is_whole = scaled % u128::from(unit) == 0;
    is_whole.then(|| u64::try_from(scaled / u128::from(unit)).ok())?
}

/// A share of packets: `5%` or `0.1`, in per cent.
pub fn parse_percent(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix('%').unwrap_or(text);
    let percent = number.trim().parse().ok().filter(|it| (0.0..=100.0).contains(it));
    percent.ok_or_else(|| format!("'{text}' is not a share; give per cent from 0 to 100: 0.1, 5%"))
}

/// A delay: `250us`, `2ms`, `0.5s`, `0`.
pub fn parse_delay(text: &str) -> Result<Duration, String> {
    const UNITS: [(&str, u64); 3] = [("us", 1_000), ("ms", 1_000_000), ("s", 1_000_000_000)];
    let wrong = || format!("'{text}' is not a delay; give a time up to 10s: 250us, 2ms, 0.5s, 0");
    if text == "0" {
        return Ok(Duration::ZERO);
    }
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').ok_or_else(wrong)?;
    let (number, unit) = text.split_at(end);
    let (_, factor) = UNITS.into_iter().find(|(name, _)| *name == unit).ok_or_else(wrong)?;
    let delay = Duration::from_nanos(scaled(number, factor).ok_or_else(wrong)?);
    (delay <= Duration::from_secs(10)).then_some(delay).ok_or_else(wrong)
}

/// The name of a lab: it becomes the name of a directory.
pub fn parse_name(text: &str) -> Result<String, String> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    let is_name = !text.is_empty() && text.len() <= 32 && text.chars().all(is_plain);
    is_name.then(|| text.to_owned()).ok_or_else(|| {
        format!("'{text}' is not a name; give up to 32 letters, digits, '-' and '_'")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn rates_are_read_as_tc_reads_them() {
        let read = |text: &str| text.parse::<Rate>().expect(text).bits();
        assert_eq!(read("1gbit"), Some(1_000_000_000));
        assert_eq!(read("2.5Gbit"), Some(2_500_000_000));
        assert_eq!(read("100 mbit"), Some(100_000_000));
        assert_eq!(read("8000bit"), Some(8_000));
        assert_eq!(read("none"), None);
        for wrong in ["", "1", "gbit", "1g", "1gb", "-1gbit", "1..5gbit", "0bit", "2tbit", ".gbit"]
        {
            assert!(wrong.parse::<Rate>().is_err(), "{wrong}");
        }
        assert!("0.0000000001tbit".parse::<Rate>().is_err());
    }

    proptest! {
        #[test]
        fn a_rate_is_read_as_it_was_written(bits in 8_000_u64..=1_000_000_000_000) {
            let rate = Rate::of_bits(bits);
            prop_assert_eq!(rate.to_string().parse::<Rate>(), Ok(rate));
        }
    }

    #[test]
    fn one_rate_is_for_all_rails_and_several_are_for_each() {
        let rates = |count: u64| (1..=count).map(|n| Rate::of_bits(n * 8_000)).collect::<Vec<_>>();
        let plan = |given: &[Rate]| Plan::new("x", 2, 3, given).map(|plan| plan.rates);
        assert_eq!(plan(&[]), Ok(vec![Rate::NONE; 3]));
        assert_eq!(plan(&rates(1)), Ok(vec![Rate::of_bits(8_000); 3]));
        assert_eq!(plan(&rates(3)), Ok(rates(3)));
        assert!(plan(&rates(2)).is_err_and(|error| error.contains("2 rates for 3 rails")));
    }

    #[test]
    fn shares_and_names_have_bounds() {
        assert_eq!(parse_percent("5%"), Ok(5.0));
        assert_eq!(parse_percent("0.1"), Ok(0.1));
        assert!(["", "-1", "101", "NaN", "x%"].iter().all(|text| parse_percent(text).is_err()));
        assert!(parse_name("a-b_9").is_ok());
        assert!(["", "..", "a/b", "a b"].iter().all(|text| parse_name(text).is_err()));
    }

    #[test]
    fn delays_have_units() {
        assert_eq!(parse_delay("250us"), Ok(Duration::from_micros(250)));
        assert_eq!(parse_delay("0.5s"), Ok(Duration::from_millis(500)));
        assert_eq!(parse_delay("0"), Ok(Duration::ZERO));
        assert!(["", "1", "ms", "-1ms", "11s", "1h"].iter().all(|text| parse_delay(text).is_err()));
    }

    #[test]
    fn names_resolve_to_control_addresses_and_rails() {
        let plan = Plan::new("x", 2, 1, &[]).expect("a plan");
        assert_eq!(
            plan.hosts_file(),
            "127.0.0.1 localhost\n::1 localhost\n10.42.255.254 head\n\
             10.42.255.1 h0\n10.42.0.1 h0-r0\nfd42:0:0:0::1 h0-r0\n\
             10.42.255.2 h1\n10.42.0.2 h1-r0\nfd42:0:0:0::2 h1-r0\n"
        );
    }
}
