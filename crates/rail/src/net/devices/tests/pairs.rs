//! Which devices of two processes belong together, from lists.

use super::super::{Offer, Pair, pair};
use super::*;
use proptest::prelude::*;

fn offer(speed_mbit: u32, addresses: &[&str]) -> Offer {
    let addresses = addresses.iter().map(|text| net(text)).collect();
    Offer { addresses, speed_mbit: (speed_mbit > 0).then_some(speed_mbit) }
}

fn places(own: &[Offer], peer: &[Offer]) -> Vec<(usize, usize)> {
    let pairs = pair(own, peer);
    let mirrored: Vec<Pair> = pairs.iter().map(|pair| pair.mirrored()).collect();
    assert_eq!(pair(peer, own), mirrored, "both sides compute the same");
    let mut places: Vec<_> = pairs.iter().map(|pair| (pair.own, pair.peer)).collect();
    places.sort_unstable();
    places
}

#[test]
fn devices_of_one_network_are_paired_wherever_they_stand() {
    let own = [offer(0, &["10.1.0.1/16"]), offer(0, &["10.2.0.1/16"])];
    let peer = [offer(0, &["10.2.0.2/16"]), offer(0, &["10.1.0.2/16"])];
    assert_eq!(places(&own, &peer), [(0, 1), (1, 0)]);
    assert!(pair(&own, &peer).iter().all(|pair| pair.same_network));
}

#[test]
fn the_rails_are_in_the_order_of_one_of_the_two() {
    let own = [offer(0, &["10.1.0.1/16"]), offer(0, &["10.2.0.1/16"])];
    let peer = [offer(0, &["10.2.0.2/16"]), offer(0, &["10.1.0.2/16"])];
    let order: Vec<usize> = pair(&own, &peer).iter().map(|pair| pair.own).collect();
    assert_eq!(order, [0, 1]);
}

#[test]
fn in_a_flat_network_devices_of_one_speed_are_paired() {
    let own = [offer(1000, &["10.1.0.1/16"]), offer(10_000, &["10.1.0.2/16"])];
    let peer = [offer(10_000, &["10.1.0.3/16"]), offer(1000, &["10.1.0.4/16"])];
    assert_eq!(places(&own, &peer), [(0, 1), (1, 0)]);
    // Of equal ones the order says it, and so it does where no speed is said.
    for speed in [0, 1000] {
        let own = [offer(speed, &["10.1.0.1/16"]), offer(speed, &["10.1.0.2/16"])];
        let peer = [offer(speed, &["10.1.0.3/16"]), offer(speed, &["10.1.0.4/16"])];
        assert_eq!(places(&own, &peer), [(0, 0), (1, 1)]);
    }
}

/// The first device has both networks, the second only one of them.
#[test]
fn there_are_as_many_pairs_within_networks_as_can_be() {
    let own = [offer(0, &["10.1.0.1/16", "10.2.0.1/16"]), offer(0, &["10.1.0.9/16"])];
    let peer = [offer(0, &["10.1.0.2/16"]), offer(0, &["10.2.0.2/16"])];
    assert_eq!(places(&own, &peer), [(0, 1), (1, 0)]);
}

#[test]
fn what_is_left_is_paired_in_its_order_within_a_family() {
    let own = [
        offer(0, &["10.1.0.1/16"]),
        offer(0, &["10.2.0.1/16"]),
        offer(0, &["fd01::1/64"]),
        offer(0, &["fd03::1/64"]),
    ];
    let peer = [
        offer(0, &["fd02::2/64"]),
        offer(0, &["10.3.0.2/16"]),
        offer(0, &["10.1.0.2/16"]),
        offer(0, &["10.4.0.2/16"]),
    ];
    assert_eq!(places(&own, &peer), [(0, 2), (1, 1), (2, 0)]);
    let routed = pair(&own, &peer).into_iter().find(|pair| pair.own == 1);
    assert!(!routed.expect("a pair").same_network);
}

#[test]
fn devices_of_different_families_are_no_rail() {
    assert_eq!(places(&[offer(0, &["10.1.0.1/16"])], &[offer(0, &["fd00::1/64"])]), []);
    assert_eq!(places(&[], &[offer(0, &["fd00::1/64"])]), []);
    assert_eq!(places(&[offer(0, &[])], &[offer(0, &[])]), []);
}

#[test]
fn a_pair_has_one_rail_over_the_network_that_is_shared_or_over_ipv4() {
    let addresses = |own: &[&str], peer: &[&str]| {
        let pairs = pair(&[offer(0, own)], &[offer(0, peer)]);
        let [pair] = pairs[..] else { panic!("one rail, not {pairs:?}") };
        (pair.own_address, pair.peer_address)
    };
    let own = ["10.1.0.1/16", "fd00::1/64"];
    let (v4, v6) = (net(own[0]), net(own[1]));
    assert_eq!(addresses(&own, &["10.1.0.2/16", "fd00::2/64"]), (v4, net("10.1.0.2/16")));
    assert_eq!(addresses(&own, &["10.7.0.2/16", "fd00::2/64"]), (v6, net("fd00::2/64")));
    assert_eq!(addresses(&own, &["10.7.0.2/16", "fd07::2/64"]), (v4, net("10.7.0.2/16")));
}

#[test]
fn addresses_of_the_host_or_of_a_link_are_paired_with_their_like_only() {
    let lo = [offer(0, &["127.0.0.1/8"])];
    assert_eq!(places(&lo, &[offer(0, &["10.1.0.1/16"])]), []);
    assert_eq!(places(&lo, &lo), [(0, 0)]);
    let link = [offer(0, &["fe80::1/64"])];
    assert_eq!(places(&link, &[offer(0, &["fd00::1/64"])]), []);
    assert_eq!(places(&link, &[offer(0, &["fe80::2/64"])]), [(0, 0)]);
}

/// Of each network twice, one host with one address.
fn any_offer() -> impl Strategy<Value = Offer> {
    let address = prop::sample::select(vec![
        "10.1.0.1/16",
        "10.1.0.2/16",
        "10.1.0.3/24",
        "10.2.0.1/16",
        "10.2.0.2/16",
        "10.3.0.1/32",
        "10.3.0.2/31",
        "0.0.0.1/0",
        "127.0.0.1/8",
        "169.254.0.1/16",
        "169.254.0.2/16",
        "fd00::1/64",
        "fd00::2/64",
        "fd01::1/64",
        "fd01::2/128",
        "fe80::1/64",
        "fe80::2/64",
        "::1/128",
    ]);
    let speed = prop::sample::select(vec![0, 1000, 10_000]);
    (speed, prop::collection::vec(address, 0..4)).prop_map(|(speed, all)| offer(speed, &all))
}

fn any_offers() -> impl Strategy<Value = Vec<Offer>> {
    prop::collection::vec(any_offer(), 0..7)
}

fn share_network(a: IpNet, b: IpNet) -> bool {
    a.contains(&b.addr()) && b.contains(&a.addr())
}

/// Whether two devices have addresses of one network, apart from `pair`.
fn are_close(a: &Offer, b: &Offer) -> bool {
    let kind = |net: IpNet| match net.addr() {
        std::net::IpAddr::V4(a) => (a.is_loopback(), a.is_link_local()),
        std::net::IpAddr::V6(a) => (a.is_loopback(), a.is_unicast_link_local()),
    };
    a.addresses
        .iter()
        .any(|&x| b.addresses.iter().any(|&y| share_network(x, y) && kind(x) == kind(y)))
}

/// The most pairs within networks that there can be, by trying all.
fn most_close(own: &[Offer], peer: &[Offer], taken: u32) -> usize {
    let Some((first, rest)) = own.split_first() else { return 0 };
    let with = |j: usize| {
        (taken & 1 << j == 0 && are_close(first, &peer[j]))
            .then(|| 1 + most_close(rest, peer, taken | 1 << j))
    };
    let without = most_close(rest, peer, taken);
    (0..peer.len()).filter_map(with).max().unwrap_or(0).max(without)
}

proptest! {
    #[test]
    fn both_sides_compute_the_same_rails(own in any_offers(), peer in any_offers()) {
        let pairs = pair(&own, &peer);
        let mirrored: Vec<Pair> = pairs.iter().map(|pair| pair.mirrored()).collect();
        prop_assert_eq!(pair(&peer, &own), mirrored);
    }

    /// Two processes of one host, or two hosts that were set up alike.
    #[test]
    fn equal_lists_pair_each_device_with_itself(all in any_offers()) {
        for pair in pair(&all, &all) {
            prop_assert_eq!(pair, pair.mirrored());
        }
    }

    #[test]
    fn rails_are_of_what_there_is(own in any_offers(), peer in any_offers()) {
        let pairs = pair(&own, &peer);
        for (at, pair) in pairs.iter().enumerate() {
            prop_assert!(own[pair.own].addresses.contains(&pair.own_address));
            prop_assert!(peer[pair.peer].addresses.contains(&pair.peer_address));
            prop_assert_eq!(pair.own_address.addr().is_ipv4(), pair.peer_address.addr().is_ipv4());
            prop_assert_eq!(pair.same_network, share_network(pair.own_address, pair.peer_address));
            prop_assert_eq!(pair.same_network, are_close(&own[pair.own], &peer[pair.peer]));
            prop_assert!(pairs[..at].iter().all(|it| it.own != pair.own && it.peer != pair.peer));
        }
        let close = pairs.iter().filter(|pair| pair.same_network).count();
        prop_assert_eq!(close, most_close(&own, &peer, 0));
    }
}
