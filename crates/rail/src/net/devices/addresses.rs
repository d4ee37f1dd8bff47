//! The addresses by which a device is used.

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use std::net::IpAddr;

/// An address of either family or of both, each with how many of its bits name its network.
///
/// A device has one port, which is listened on at both. Which of the two a rail goes by
/// follows from the two devices ([`pair`](super::pair())).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Addresses {
    four: Option<Ipv4Net>,
    six: Option<Ipv6Net>,
}

impl Addresses {
    /// The first of these of each family; `None` of none.
    #[must_use]
    pub fn first_of_each(all: &[IpNet]) -> Option<Addresses> {
        let four = all.iter().find_map(|net| match net {
            IpNet::V4(net) => Some(*net),
            IpNet::V6(_) => None,
        });
        let six = all.iter().find_map(|net| match net {
            IpNet::V4(_) => None,
            IpNet::V6(net) => Some(*net),
        });
        (four.is_some() || six.is_some()).then_some(Addresses { four, six })
    }

    /// One or two, IPv4 first.
    pub fn iter(self) -> impl Iterator<Item = IpNet> {
        let four = self.four.map(IpNet::V4);
        four.into_iter().chain(self.six.map(IpNet::V6))
    }

    /// That of IPv4, or else that of IPv6.
    #[must_use]
    pub fn first(self) -> IpAddr {
        match (self.four, self.six) {
            (Some(four), _) => four.addr().into(),
            (None, Some(six)) => six.addr().into(),
            (None, None) => unreachable!("there is one at least"),
        }
    }

    /// Whether it is one of the two.
    #[must_use]
    pub fn contains(self, address: IpAddr) -> bool {
        self.iter().any(|net| net.addr() == address)
    }

    /// That of IPv4, if there is one.
    pub(crate) fn four(self) -> Option<Ipv4Net> {
        self.four
    }

    /// That of IPv6, if there is one.
    pub(crate) fn six(self) -> Option<Ipv6Net> {
        self.six
    }

    /// An address of each of a family that both have: IPv4 before IPv6.
    pub(crate) fn of_one_family(self, other: Addresses) -> Option<(IpNet, IpNet)> {
        let all = || self.iter().flat_map(|own| other.iter().map(move |peer| (own, peer)));
        all().find(|(own, peer)| own.addr().is_ipv4() == peer.addr().is_ipv4())
    }
}

/// One address alone.
impl From<IpNet> for Addresses {
    fn from(net: IpNet) -> Addresses {
        match net {
            IpNet::V4(net) => Addresses { four: Some(net), six: None },
            IpNet::V6(net) => Addresses { four: None, six: Some(net) },
        }
    }
}
