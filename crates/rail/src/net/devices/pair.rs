//! Which devices of two processes belong together.
//!
//! Each process computes the rails alone, from its own devices and those that the other
//! told, and both must come to the same. So whichever list is the lower one is taken as
//! the first, and what follows does not know which side it is on.
//!
//! First come devices with addresses of one network, as many pairs as there can be, and
//! among these those that say the same speed: in one flat network a fast device is then
//! not paired with a slow one. What is left is paired in its order within a family, for
//! networks with routers between. Each device is in one pair at most.
//!
//! A pair has one rail, whatever addresses its devices have. It goes over a network that
//! they share; over IPv4 before IPv6, whose header is 20 bytes longer. Addresses that
//! mean different hosts in different places (of the host itself, of one link) are paired
//! only with their like.

use super::is_of_link;
use ipnet::IpNet;
use std::net::IpAddr;

/// A device, as a peer is told of it. Its number is its place in the list.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Offer {
    /// The addresses at which it may be reached, the preferred one first.
    pub addresses: Vec<IpNet>,
    /// How fast it says it is, in Mbit/s.
    pub speed_mbit: Option<u32>,
}

/// Two devices that are a rail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Pair {
    /// The place of this process's device.
    pub own: usize,
    /// The place of the peer's device.
    pub peer: usize,
    /// The address of the rail here.
    pub own_address: IpNet,
    /// The address of the rail there.
    pub peer_address: IpNet,
    /// Whether they are of one network; if not, there is a router between.
    pub same_network: bool,
}

impl Pair {
    /// As the peer computes it.
    #[must_use]
    pub fn mirrored(self) -> Pair {
        Pair {
            own: self.peer,
            peer: self.own,
            own_address: self.peer_address,
            peer_address: self.own_address,
            same_network: self.same_network,
        }
    }
}

/// The rails between two processes, in their order: the peer computes the same ones in the
/// same order, each [mirrored](Pair::mirrored). They are in the order of the devices of one
/// of the two.
#[must_use]
pub fn pair(own: &[Offer], peer: &[Offer]) -> Vec<Pair> {
    if own <= peer {
        pair_in_order(own, peer)
    } else {
        pair_in_order(peer, own).into_iter().map(Pair::mirrored).collect()
    }
}

fn pair_in_order(first: &[Offer], second: &[Offer]) -> Vec<Pair> {
    let at = |i: usize| (0..second.len()).map(move |j| link(i, j, &first[i], &second[j]));
    let links: Vec<Vec<Option<Link>>> = (0..first.len()).map(|i| at(i).collect()).collect();
    let mut matching = Matching::new(first.len(), second.len());
    for closeness in [Closeness::NetworkAndSpeed, Closeness::Network] {
        matching.extend(|i, j| links[i][j].is_some_and(|link| link.closeness <= closeness));
    }
    matching.keep();
    for closeness in [Closeness::FamilyAndSpeed, Closeness::Family] {
        matching.extend(|i, j| links[i][j].is_some_and(|link| link.closeness <= closeness));
    }
    let pairs = matching.pairs().filter_map(|(i, j)| links[i][j]);
    pairs.map(|link| link.pair).collect()
}

/// How two devices may be a rail.
#[derive(Clone, Copy, Debug)]
struct Link {
    closeness: Closeness,
    pair: Pair,
}

/// The closest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Closeness {
    NetworkAndSpeed,
    Network,
    FamilyAndSpeed,
    Family,
}

fn link(own: usize, peer: usize, first: &Offer, second: &Offer) -> Option<Link> {
    let all = first.addresses.iter().flat_map(|a| second.addresses.iter().map(move |b| (a, b)));
    let possible = all.filter(|(a, b)| reach(a.addr()) == reach(b.addr()));
    // The first of those that are equally good.
    let (a, b) = possible.min_by_key(|(a, b)| (!share_network(a, b), a.addr().is_ipv6()))?;
    let same_network = share_network(a, b);
    let same_speed = first.speed_mbit.is_some() && first.speed_mbit == second.speed_mbit;
    let closeness = match (same_network, same_speed) {
        (true, true) => Closeness::NetworkAndSpeed,
        (true, false) => Closeness::Network,
        (false, true) => Closeness::FamilyAndSpeed,
        (false, false) => Closeness::Family,
    };
    let pair = Pair { own, peer, own_address: *a, peer_address: *b, same_network };
    Some(Link { closeness, pair })
}

/// From how far an address may be reached. Addresses of which this is the same may be a
/// rail.
fn reach(address: IpAddr) -> (bool, bool, bool) {
    (address.is_ipv4(), address.is_loopback(), is_of_link(address))
}

fn share_network(a: &IpNet, b: &IpNet) -> bool {
    a.contains(&b.addr()) && b.contains(&a.addr())
}

/// A matching of two lists, grown by augmenting paths.
struct Matching {
    /// Of each of the first.
    partners: Vec<Option<usize>>,
    /// Of each of the second.
    owners: Vec<Option<usize>>,
    /// Those of the second whose partner stays.
    kept: Vec<bool>,
}

impl Matching {
    fn new(first: usize, second: usize) -> Matching {
        Matching {
            partners: vec![None; first],
            owners: vec![None; second],
            kept: vec![false; second],
        }
    }

    /// Makes as many pairs as there can be. Who has a partner has one afterwards, though it
    /// may be another one.
    fn extend(&mut self, may: impl Fn(usize, usize) -> bool) {
        for i in 0..self.partners.len() {
            if self.partners[i].is_none() {
                let mut seen = self.kept.clone();
                self.find(i, &may, &mut seen);
            }
        }
    }

    /// What there is stays.
    fn keep(&mut self) {
        self.kept = self.owners.iter().map(Option::is_some).collect();
    }

    fn find(&mut self, i: usize, may: &impl Fn(usize, usize) -> bool, seen: &mut [bool]) -> bool {
        let free = (0..seen.len()).find(|&j| self.owners[j].is_none() && may(i, j));
        if let Some(j) = free {
            self.join(i, j);
            return true;
        }
        for j in 0..seen.len() {
            if !seen[j] && may(i, j) {
                seen[j] = true;
                let moved = self.owners[j].is_some_and(|owner| self.find(owner, may, seen));
                if moved {
                    self.join(i, j);
                    return true;
                }
            }
        }
        false
    }

    fn join(&mut self, i: usize, j: usize) {
        self.partners[i] = Some(j);
        self.owners[j] = Some(i);
    }

    fn pairs(&self) -> impl Iterator<Item = (usize, usize)> {
        self.partners.iter().enumerate().filter_map(|(i, partner)| Some((i, (*partner)?)))
    }
}
