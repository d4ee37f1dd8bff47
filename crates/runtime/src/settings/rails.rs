//! By what peers are reached.

use std::fmt;
use std::str::FromStr;

/// Most providers of libfabric that are named.
const FABRICS_MAX: usize = 4;
/// Longest name of one ([`sluice_rail::net::handshake::PROVIDER_BYTES_MAX`]).
const PROVIDER_BYTES_MAX: usize = sluice_rail::net::handshake::PROVIDER_BYTES_MAX;
/// What a provider's name begins with.
const FABRIC: &str = "ofi:";

/// What may be said, for people.
pub(super) const ALLOWED: &str =
    "shm, tcp, and ofi:PROVIDER for a provider of libfabric, with commas between";

/// By what peers are reached: at least one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rails {
    /// Shared memory, to peers on this host.
    pub shm: bool,
    /// TCP, to all that shared memory does not reach.
    pub tcp: bool,
    /// Providers of libfabric, to the same.
    pub fabrics: Vec<String>,
}

/// It is none of what may be said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RailsError;

impl Rails {
    /// Shared memory alone.
    pub const SHM: Rails = Rails { shm: true, tcp: false, fabrics: Vec::new() };
    /// TCP alone, also to peers on this host.
    pub const TCP: Rails = Rails { shm: false, tcp: true, fabrics: Vec::new() };

    /// Whether peers are reached by anything but shared memory.
    #[must_use]
    pub fn has_network(&self) -> bool {
        self.tcp || !self.fabrics.is_empty()
    }

    /// The providers of libfabric that it has to know for these rails.
    #[must_use]
    pub fn providers(&self) -> Vec<&str> {
        self.fabrics.iter().flat_map(|name| name.split(';')).collect()
    }
}

impl Default for Rails {
    /// Shared memory on this host, TCP beyond.
    fn default() -> Rails {
        Rails { shm: true, tcp: true, fabrics: Vec::new() }
    }
}

impl FromStr for Rails {
    type Err = RailsError;

    fn from_str(text: &str) -> Result<Rails, RailsError> {
        let mut rails = Rails { shm: false, tcp: false, fabrics: Vec::new() };
        for word in text.split(',').map(|word| word.trim().to_ascii_lowercase()) {
            let is_new = match word.as_str() {
                "shm" => !std::mem::replace(&mut rails.shm, true),
                "tcp" => !std::mem::replace(&mut rails.tcp, true),
                _ => {
                    let provider = word.strip_prefix(FABRIC).filter(|name| is_name(name));
                    let provider = provider.ok_or(RailsError)?.to_owned();
                    let is_new = !rails.fabrics.contains(&provider);
                    rails.fabrics.push(provider);
                    is_new
                }
            };
            if !is_new {
                return Err(RailsError);
            }
        }
        if rails.fabrics.len() > FABRICS_MAX { Err(RailsError) } else { Ok(rails) }
    }
}

/// Whether libfabric could have a provider of this name.
fn is_name(name: &str) -> bool {
    let may_be = |byte: u8| byte.is_ascii_alphanumeric() || b"_-;.".contains(&byte);
    (1..=PROVIDER_BYTES_MAX).contains(&name.len()) && name.bytes().all(may_be)
}

/// As it may be said.
impl fmt::Display for Rails {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let own = [(self.shm, "shm"), (self.tcp, "tcp")].into_iter();
        let own = own.filter(|(is, _)| *is).map(|(_, word)| word.to_owned());
        let fabrics = self.fabrics.iter().map(|name| format!("{FABRIC}{name}"));
        f.write_str(&own.chain(fabrics).collect::<Vec<_>>().join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_be_said_is_read_and_shown_again() {
        for text in ["shm,tcp", "shm", "tcp", "ofi:tcp", "shm,tcp,ofi:udp;ofi_rxd,ofi:verbs"] {
            assert_eq!(text.parse::<Rails>().unwrap().to_string(), text);
        }
        assert_eq!("TCP, shm".parse(), Ok(Rails::default()));
        let both: Rails = "ofi:udp;ofi_rxd".parse().unwrap();
        assert_eq!(both.providers(), ["udp", "ofi_rxd"]);
        assert!(both.has_network() && !both.tcp && !both.shm && !Rails::SHM.has_network());
    }

    #[test]
    fn what_is_nothing_or_twice_is_refused() {
        for text in ["", "shm,", "shm+tcp", "shm,shm", "ofi:", "ofi", "ofi:a b", "ofi:a,ofi:a"] {
            assert_eq!(text.parse::<Rails>(), Err(RailsError), "{text}");
        }
        assert_eq!("ofi:a,ofi:b,ofi:c,ofi:d,ofi:e".parse::<Rails>(), Err(RailsError));
    }
}
