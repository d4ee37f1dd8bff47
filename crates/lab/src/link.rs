//! Changes a cable: the one that joins a host to a rail.
//!
//! Of two hosts' cable, the far end is the other host's device; else it is a switch's port.

use crate::directory::{Lab, Lock};
use crate::enter::{Host, in_network};
use crate::network::{direct_ip, lose, rail_port, relayed_ip, shape};
use crate::plan::{Rate, rail_name};
use crate::programs::batch;
use crate::relay::{self, Word};
use anyhow::{Context, Result, bail, ensure};
use std::str::FromStr;
use std::time::Duration;

/// A rail by its number: `r0` or `0`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rail(pub u32);

/// What is done to a cable.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Change {
    /// Ends `Down`, `Cut`, `Silent` and `Loss`.
    Up,
    /// The host's device is taken down. The other end loses its carrier.
    Down,
    /// The other end is taken down. The host's device loses its carrier.
    Cut,
    /// Whatever is sent is lost, both ways, and both ends keep their carrier.
    Silent,
    /// This share of the packets is lost, both ways, in per cent.
    Loss(f64),
    /// Both ends send at this rate.
    Rate(Rate),
    /// Packets take so much longer, each way. It needs a switch.
    Delay(Duration),
}

impl FromStr for Rail {
    type Err = String;

    fn from_str(text: &str) -> Result<Rail, String> {
        let number = text.strip_prefix('r').unwrap_or(text).parse();
        number.map(Rail).map_err(|_| format!("'{text}' is not a rail; give r0, r1 and so on"))
    }
}

/// Changes a cable.
pub fn link(lab: &Lab, host: Host, rail: Rail, change: Change) -> Result<()> {
    let Host::Number(number) = host else { bail!("{host} has no rails; give h0, h1 and so on") };
    let rails = lab.plan.rails();
    ensure!(rail.0 < rails, "there is no rail r{}: the lab has {rails}", rail.0);
    let _lock = Lock::take()?;
    let device = rail_name(rail.0);
    let near = End { lab, host, device: device.clone() };
    let far = if lab.plan.is_pair() {
        End { lab, host: Host::Number(1 - number.min(1)), device }
    } else {
        End { lab, host: Host::Head, device: rail_port(number, rail.0) }
    };
    match change {
        Change::Down => near.carry(false),
        Change::Cut => far.carry(false),
        Change::Up => [near, far].iter().try_for_each(|end| {
            end.lose(0.0)?;
            end.carry(true)
        }),
        Change::Silent => [near, far].iter().try_for_each(|end| end.lose(100.0)),
        Change::Loss(percent) => [near, far].iter().try_for_each(|end| end.lose(percent)),
        Change::Delay(time) => delay(lab, number, rail.0, time),
        Change::Rate(rate) => {
            [near, far].iter().try_for_each(|end| end.tc(shape(&end.device, rate)))
        }
    }
}

/// Has packets between a host and a switch pass a relay.
fn delay(lab: &Lab, host: u32, rail: u32, delay: Duration) -> Result<()> {
    ensure!(
        !lab.plan.is_pair(),
        "a cable between two hosts has no delay; start the lab with --switch"
    );
    let in_head = |lines: String| {
        in_network(lab, Host::Head, || batch("ip", &lines))
            .context("no relay can be put between (it needs CONFIG_VXLAN)")
    };
    let is_there = relay::tell(lab, host, rail, Word::Ask)?.is_some();
    match (is_there, delay.is_zero()) {
        (true, true) => {
            relay::tell(lab, host, rail, Word::End)?;
            in_head(direct_ip(host, rail))
        }
        (true, false) => relay::tell(lab, host, rail, Word::Delay(delay)).map(drop),
        (false, true) => Ok(()),
        (false, false) => {
            relay::start(lab, host, rail, delay)?;
            in_head(relayed_ip(&lab.plan, host, rail))
        }
    }
}

/// One end of a cable.
struct End<'a> {
    lab: &'a Lab,
    host: Host,
    device: String,
}

impl End<'_> {
    fn carry(&self, up: bool) -> Result<()> {
        let line = format!("link set {} {}\n", self.device, if up { "up" } else { "down" });
        in_network(self.lab, self.host, || batch("ip", &line))
    }

    fn lose(&self, percent: f64) -> Result<()> {
        self.tc(lose(&self.device, percent)).context(
            "the kernel cannot drop packets \
             (it needs CONFIG_NET_SCH_INGRESS and CONFIG_NET_CLS_BPF)",
        )
    }

    fn tc(&self, lines: String) -> Result<()> {
        in_network(self.lab, self.host, || batch("tc", &lines))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rails_are_named_as_their_devices() {
        assert_eq!("r3".parse(), Ok(Rail(3)));
        assert_eq!("3".parse(), Ok(Rail(3)));
        assert!(["", "r", "rr1", "-1", "lo"].iter().all(|text| text.parse::<Rail>().is_err()));
    }
}
