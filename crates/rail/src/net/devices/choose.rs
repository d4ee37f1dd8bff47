//! Which devices a process uses, with a reason for each, used or not.

use super::wanted::{Wanted, Word, is_of_pattern};
use super::{DEVICES_MAX, Device, Kind, Offer, is_of_link};
use ipnet::IpNet;

/// The name of the setting, in reasons.
const SETTING: &str = "FI_SLUICE_DEVICES";

/// What was decided of each device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// In the order of the devices.
    pub verdicts: Vec<Verdict>,
    /// What of the setting has no effect, in words.
    pub warnings: Vec<String>,
}

/// What was decided of one device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// The device.
    pub device: Device,
    /// Its place among those that are used, if it is.
    pub place: Option<usize>,
    /// Those of its addresses that are used.
    pub addresses: Vec<IpNet>,
    /// Why it is used or not.
    pub reason: String,
}

impl Choice {
    /// The devices that are used, in the order of their rails: at most [`DEVICES_MAX`],
    /// each with an address. There may be none.
    #[must_use]
    pub fn used(&self) -> Vec<&Verdict> {
        let mut used: Vec<&Verdict> =
            self.verdicts.iter().filter(|verdict| verdict.place.is_some()).collect();
        used.sort_by_key(|verdict| verdict.place);
        used
    }
}

impl Verdict {
    /// What a peer is told of it.
    #[must_use]
    pub fn offer(&self) -> Offer {
        Offer { addresses: self.addresses.clone(), speed_mbit: self.device.speed_mbit }
    }
}

/// Why nothing was decided.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChooseError {
    /// A word of the setting fits no device.
    #[error("{word} of FI_SLUICE_DEVICES fits no network device of this host; there are {present}")]
    NoMatch {
        /// Which.
        word: String,
        /// What there is, in words.
        present: String,
    },
}

/// Decides by what the user wants. If that is nothing: all that are up, with carrier and
/// an address, and that lead to a network; if there is none, bridges and tunnels; if there
/// is none, the loopback device.
///
/// # Errors
///
/// If a word that includes fits no device. One that excludes may fit none, because one
/// setting serves hosts that differ.
pub fn choose(devices: &[Device], wanted: &Wanted) -> Result<Choice, ChooseError> {
    let mut choice = Choice { verdicts: Vec::new(), warnings: Vec::new() };
    for device in devices {
        choice.verdicts.push(consider(device, &wanted.excluded));
    }
    for word in &wanted.excluded {
        if !devices.iter().any(|device| is_meant(device, word)) {
            choice.warnings.push(format!("^{word} of {SETTING} fits no network device"));
        }
    }
    if wanted.included.is_empty() {
        take_defaults(&mut choice.verdicts);
    } else {
        take_wanted(&mut choice.verdicts, &wanted.included)?;
    }
    for verdict in &mut choice.verdicts {
        match verdict.place {
            Some(place) if place >= DEVICES_MAX => {
                verdict.place = None;
                verdict.reason = format!("{DEVICES_MAX} devices are used already");
            }
            _ => {}
        }
        if verdict.place.is_none() {
            verdict.addresses.clear();
        }
    }
    Ok(choice)
}

/// What can be said of a device alone. It cannot be used if there is a reason.
fn consider(device: &Device, excluded: &[Word]) -> Verdict {
    let by_name = excluded.iter().find(|word| is_named(device, word));
    let in_one = |net: &&IpNet| excluded.iter().any(|word| holds(word, net));
    let (out, addresses): (Vec<IpNet>, Vec<IpNet>) =
        device.addresses.iter().copied().partition(|net| in_one(&net));
    let by_network = excluded.iter().find(|word| out.iter().any(|net| holds(word, net)));
    let reason = if let Some(word) = by_name {
        format!("excluded by ^{word}")
    } else if !device.up {
        "down".to_owned()
    } else if !device.carrier {
        "no carrier".to_owned()
    } else if device.addresses.is_empty() {
        "no address".to_owned()
    } else if let (true, Some(word)) = (addresses.is_empty(), by_network) {
        format!("excluded by ^{word}")
    } else {
        String::new()
    };
    Verdict { device: device.clone(), place: None, addresses, reason }
}

/// Whether a word is about this device.
fn is_meant(device: &Device, word: &Word) -> bool {
    is_named(device, word) || device.addresses.iter().any(|net| holds(word, net))
}

fn is_named(device: &Device, word: &Word) -> bool {
    match word {
        Word::Name(name) => device.name == *name,
        Word::Pattern(pattern) => is_of_pattern(&device.name, pattern),
        Word::Network(_) => false,
    }
}

fn holds(word: &Word, net: &IpNet) -> bool {
    matches!(word, Word::Network(network) if network.contains(&net.addr()))
}

/// How readily a device is used if the user names none. Lower goes first; only the first
/// that there are go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    Network,
    Fallback,
    Loopback,
}

/// Or why it is not used.
fn rank(verdict: &Verdict) -> Result<Rank, &'static str> {
    let rank = match verdict.device.kind {
        Kind::Ethernet
        | Kind::Infiniband
        | Kind::Wireless
        | Kind::Vlan
        | Kind::Bond
        | Kind::Veth
        | Kind::HardwareBridge
        | Kind::Virtual => Rank::Network,
        Kind::Bridge | Kind::Tunnel => Rank::Fallback,
        Kind::Loopback => Rank::Loopback,
        Kind::ContainerBridge => return Err("leads to containers of this host"),
        Kind::BondMember => return Err("its bond is used instead"),
        Kind::BridgePort => return Err("its bridge is used instead"),
        Kind::Dummy => return Err("leads nowhere"),
    };
    if verdict.addresses.iter().all(|net| is_of_link(net.addr())) {
        return Err("has only an address of its link");
    }
    Ok(rank)
}

fn take_defaults(verdicts: &mut [Verdict]) {
    let can = |verdict: &&Verdict| verdict.reason.is_empty();
    let best = verdicts.iter().filter(can).filter_map(|verdict| rank(verdict).ok()).min();
    let mut places = 0..;
    for verdict in verdicts.iter_mut().filter(|verdict| verdict.reason.is_empty()) {
        let kind = verdict.device.kind;
        let rank = rank(verdict);
        if rank.is_ok() && rank.ok() == best {
            verdict.place = places.next();
        }
        verdict.reason = match (rank, verdict.place) {
            (Ok(Rank::Network), _) => "by default".to_owned(),
            (Ok(Rank::Fallback), Some(_)) => format!("nothing better than a {kind} is left"),
            (Ok(Rank::Fallback), None) => format!("{kind}; {SETTING} may name it"),
            (Ok(Rank::Loopback), Some(_)) => {
                "nothing else is left; it reaches this host only".to_owned()
            }
            (Ok(Rank::Loopback), None) => "reaches this host only".to_owned(),
            (Err(why), _) => format!("{why}; {SETTING} may name it"),
        };
    }
}

fn take_wanted(verdicts: &mut [Verdict], words: &[Word]) -> Result<(), ChooseError> {
    let mut taken = vec![Vec::new(); verdicts.len()];
    let mut places = 0..;
    for word in words {
        let meant: Vec<usize> = meant_by(word, verdicts);
        if meant.is_empty() {
            return Err(ChooseError::NoMatch {
                word: word.to_string(),
                present: present(verdicts),
            });
        }
        for at in meant {
            let verdict = &mut verdicts[at];
            if verdict.place.is_none() && !verdict.reason.is_empty() {
                continue;
            }
            let more = verdict.addresses.iter().filter(|net| match word {
                Word::Network(_) => holds(word, net),
                Word::Name(_) | Word::Pattern(_) => true,
            });
            let more: Vec<IpNet> = more.filter(|net| !taken[at].contains(*net)).copied().collect();
            if verdict.place.is_none() && !more.is_empty() {
                verdict.place = places.next();
                verdict.reason = format!("named by {word}");
            }
            taken[at].extend(more);
        }
    }
    for (verdict, taken) in verdicts.iter_mut().zip(taken) {
        verdict.addresses = taken;
        if verdict.reason.is_empty() {
            verdict.reason = format!("not named in {SETTING}");
        }
    }
    Ok(())
}

/// The devices that a word means. A pattern or a network that fits others does not mean
/// the loopback device, whose address is another host at every peer.
fn meant_by(word: &Word, verdicts: &[Verdict]) -> Vec<usize> {
    let fits = |at: &usize| is_meant(&verdicts[*at].device, word);
    let is_loopback = |at: &usize| verdicts[*at].device.kind == Kind::Loopback;
    let mut meant: Vec<usize> = (0..verdicts.len()).filter(fits).collect();
    if !meant.iter().all(is_loopback) {
        meant.retain(|at| matches!(word, Word::Name(_)) || !is_loopback(at));
    }
    meant
}

/// Which devices there are, in words.
fn present(verdicts: &[Verdict]) -> String {
    let describe = |verdict: &Verdict| {
        let addresses: Vec<String> =
            verdict.device.addresses.iter().map(IpNet::to_string).collect();
        let addresses =
            if addresses.is_empty() { "no address".into() } else { addresses.join(", ") };
        format!("{} ({addresses})", verdict.device.name)
    };
    let all: Vec<String> = verdicts.iter().map(describe).collect();
    if all.is_empty() { "none".to_owned() } else { all.join(", ") }
}
