//! Which devices are used, from lists.

use super::super::{Addresses, Choice, ChooseError, DEVICES_MAX, Wanted, choose};
use super::*;
use proptest::prelude::*;

fn host() -> Vec<Device> {
    vec![
        device(1, "lo", Kind::Loopback, &["127.0.0.1/8", "::1/128"]),
        device(2, "eth0", Kind::Ethernet, &["10.1.0.5/16", "fd00::5/64"]),
        device(3, "eth1", Kind::Ethernet, &["10.2.0.5/16"]),
        device(4, "docker0", Kind::ContainerBridge, &["172.17.0.1/16"]),
        device(5, "wg0", Kind::Tunnel, &["10.9.0.5/24"]),
        device(6, "br1", Kind::Bridge, &["10.8.0.5/24"]),
        device(7, "ib0", Kind::Infiniband, &["10.3.0.5/16"]),
    ]
}

/// A network of one family leaves the other one out.
#[test]
fn of_a_device_of_both_families_either_may_be_named_alone() {
    for (text, wanted) in [
        ("eth0", ["10.1.0.5", "fd00::5"].as_slice()),
        ("10.1.0.0/16", &["10.1.0.5"]),
        ("fd00::/8", &["fd00::5"]),
        ("eth0,^0.0.0.0/0", &["fd00::5"]),
        ("^::/0,eth0", &["10.1.0.5"]),
    ] {
        let choice = chosen(&host(), text).unwrap();
        let used = choice.used();
        let [eth0] = used[..] else { panic!("{text}: {used:?}") };
        let addresses = Addresses::first_of_each(&eth0.addresses).unwrap();
        let addresses: Vec<String> = addresses.iter().map(|net| net.addr().to_string()).collect();
        assert_eq!(addresses, wanted, "{text}");
    }
}

fn chosen(devices: &[Device], text: &str) -> Result<Choice, ChooseError> {
    choose(devices, &text.parse().expect("words"))
}

fn used(devices: &[Device], text: &str) -> Vec<String> {
    let choice = chosen(devices, text).expect("every word fits");
    choice.used().iter().map(|verdict| verdict.device.name.clone()).collect()
}

fn reason(devices: &[Device], text: &str, name: &str) -> String {
    let choice = chosen(devices, text).expect("every word fits");
    let verdict = choice.verdicts.iter().find(|verdict| verdict.device.name == name);
    verdict.expect("a verdict on every device").reason.clone()
}

#[test]
fn by_default_devices_that_lead_to_networks_are_used() {
    let devices = host();
    assert_eq!(used(&devices, ""), ["eth0", "eth1", "ib0"]);
    for (name, expected) in [
        ("lo", "reaches this host only"),
        ("eth0", "by default"),
        ("docker0", "leads to containers of this host; FI_SLUICE_DEVICES may name it"),
        ("wg0", "tunnel; FI_SLUICE_DEVICES may name it"),
        ("br1", "bridge; FI_SLUICE_DEVICES may name it"),
    ] {
        assert_eq!(reason(&devices, "", name), expected, "{name}");
    }
}

#[test]
fn what_cannot_carry_anything_is_not_used_even_if_it_is_named() {
    let mut devices = host();
    devices[1].up = false;
    devices[2].carrier = false;
    devices[6].addresses.clear();
    for text in ["", "eth*,ib0"] {
        assert_eq!(reason(&devices, text, "eth0"), "down");
        assert_eq!(reason(&devices, text, "eth1"), "no carrier");
        assert_eq!(reason(&devices, text, "ib0"), "no address");
    }
    assert_eq!(used(&devices, "eth*,ib0"), [""; 0]);
}

#[test]
fn bridges_and_tunnels_are_used_if_nothing_better_is_left_and_the_loopback_device_last() {
    let mut devices = host();
    devices.retain(|device| !matches!(device.kind, Kind::Ethernet | Kind::Infiniband));
    assert_eq!(used(&devices, ""), ["wg0", "br1"]);
    assert_eq!(reason(&devices, "", "br1"), "nothing better than a bridge is left");
    assert_eq!(used(&devices, "^wg0,^br1"), ["lo"]);
    let why = reason(&devices, "^wg0,^br1", "lo");
    assert_eq!(why, "nothing else is left; it reaches this host only");
    assert_eq!(used(&devices, "^wg0,^br1,^lo"), [""; 0]);
    assert_eq!(used(&[], ""), [""; 0]);
}

#[test]
fn an_address_of_the_link_alone_must_be_named() {
    let devices = [
        device(1, "lo", Kind::Loopback, &["127.0.0.1/8"]),
        device(2, "eth0", Kind::Ethernet, &["fe80::1/64"]),
    ];
    assert_eq!(used(&devices, ""), ["lo"]);
    let why = reason(&devices, "", "eth0");
    assert_eq!(why, "has only an address of its link; FI_SLUICE_DEVICES may name it");
    assert_eq!(used(&devices, "eth0"), ["eth0"]);
}

#[test]
fn the_order_of_the_words_is_the_order_of_the_rails() {
    let devices = host();
    assert_eq!(used(&devices, "ib0,eth*"), ["ib0", "eth0", "eth1"]);
    assert_eq!(used(&devices, "eth1,eth*,eth1"), ["eth1", "eth0"]);
    assert_eq!(used(&devices, "10.2.0.0/15,10.1.0.5"), ["eth1", "ib0", "eth0"]);
    assert_eq!(reason(&devices, "eth1,eth*", "eth0"), "named by eth*");
    assert_eq!(reason(&devices, "eth1", "ib0"), "not named in FI_SLUICE_DEVICES");
}

#[test]
fn a_network_names_addresses() {
    let devices = host();
    let addresses = |text: &str, name: &str| {
        let choice = chosen(&devices, text).expect("every word fits");
        let verdict = choice.verdicts.into_iter().find(|verdict| verdict.device.name == name);
        verdict.expect("a verdict on every device").addresses
    };
    let (v4, v6) = (net("10.1.0.5/16"), net("fd00::5/64"));
    assert_eq!(addresses("eth0", "eth0"), [v4, v6]);
    assert_eq!(addresses("fd00::/8", "eth0"), [v6]);
    assert_eq!(addresses("fd00::/8,10.0.0.0/8", "eth0"), [v6, v4]);
    assert_eq!(addresses("^fd00::/8", "eth0"), [v4]);
    assert_eq!(addresses("eth0,^10.0.0.0/8", "eth0"), [v6]);
    assert_eq!(addresses("eth0,^10.0.0.0/8,^fd00::5", "eth0"), []);
    assert_eq!(addresses("eth1", "eth0"), []);
    assert_eq!(reason(&devices, "^10.2.0.0/16", "eth1"), "excluded by ^10.2.0.0/16");
}

#[test]
fn what_is_excluded_is_out_wherever_the_word_stands() {
    let devices = host();
    assert_eq!(used(&devices, "^eth0"), ["eth1", "ib0"]);
    assert_eq!(used(&devices, "^eth0,eth*"), ["eth1"]);
    assert_eq!(used(&devices, "eth*,^eth0"), ["eth1"]);
    assert_eq!(reason(&devices, "^eth?", "eth0"), "excluded by ^eth?");
}

#[test]
fn what_is_named_is_used_whatever_it_is_but_only_its_name_means_the_loopback_device() {
    let devices = host();
    assert_eq!(used(&devices, "wg0,docker0,lo"), ["wg0", "docker0", "lo"]);
    assert_eq!(used(&devices, "*").len(), devices.len() - 1);
    assert_eq!(used(&devices, "0.0.0.0/0").len(), devices.len() - 1);
    assert_eq!(used(&devices, "l*"), ["lo"]);
    assert_eq!(used(&devices, "127.0.0.0/8"), ["lo"]);
}

#[test]
fn a_word_that_fits_nothing_is_an_error_that_says_what_there_is() {
    let devices = &host()[..2];
    for (text, word) in [("eth7", "eth7"), ("eth0,ib*", "ib*"), ("eth0,10.7.0.1/16", "10.7.0.0/16")]
    {
        let error = chosen(devices, text).expect_err("nothing fits").to_string();
        let begin = format!("{word} of FI_SLUICE_DEVICES fits no network device of this host");
        assert!(error.starts_with(&begin), "{error}");
        let end = "there are lo (127.0.0.1/8, ::1/128), eth0 (10.1.0.5/16, fd00::5/64)";
        assert!(error.ends_with(end), "{error}");
    }
}

#[test]
fn a_word_that_excludes_may_fit_nothing_and_this_is_said() {
    let choice = chosen(&host(), "^podman0,^docker0").expect("hosts differ");
    assert_eq!(choice.warnings, ["^podman0 of FI_SLUICE_DEVICES fits no network device"]);
}

#[test]
fn there_are_no_more_devices_than_rails() {
    let devices: Vec<Device> = (0..20)
        .map(|i| device(i + 1, &format!("eth{i}"), Kind::Ethernet, &[&format!("10.{i}.0.1/16")]))
        .collect();
    for text in ["", "eth*"] {
        let choice = chosen(&devices, text).expect("every word fits");
        assert_eq!(choice.used().len(), DEVICES_MAX);
        assert_eq!(choice.verdicts[DEVICES_MAX].reason, "16 devices are used already");
    }
    assert_eq!(used(&devices, "eth19,eth*")[..2], ["eth19", "eth0"]);
}

fn any_kind() -> impl Strategy<Value = Kind> {
    prop::sample::select(vec![
        Kind::Ethernet,
        Kind::Veth,
        Kind::ContainerBridge,
        Kind::Bridge,
        Kind::BondMember,
        Kind::Tunnel,
        Kind::Dummy,
        Kind::Loopback,
    ])
}

prop_compose! {
    fn any_device()(
        name in "(eth|ib|lo)[0-3]",
        kind in any_kind(),
        (up, carrier) in (prop::bool::weighted(0.8), prop::bool::weighted(0.8)),
        addresses in prop::collection::vec(
            prop::sample::select(vec!["10.1.0.1/16", "10.2.0.1/16", "fd00::1/64", "fe80::1/64"]),
            0..3,
        ),
    ) -> Device {
        Device { up, carrier, ..device(1, &name, kind, &addresses) }
    }
}

proptest! {
    /// Of any devices and any words: what is used could be, places have no gaps, and
    /// every device has its reason.
    #[test]
    fn what_is_used_can_carry_something_and_everything_has_a_reason(
        devices in prop::collection::vec(any_device(), 0..24),
        text in "(\\^?(eth|ib|lo)[0-3*?],|\\^?10\\.[12]\\.0\\.0/16,|\\^?fd00::/8,){0,3}",
    ) {
        let wanted: Wanted = text.trim_end_matches(',').parse().expect("words");
        let Ok(choice) = choose(&devices, &wanted) else { return Ok(()) };
        prop_assert_eq!(choice.verdicts.len(), devices.len());
        let used = choice.used();
        prop_assert!(used.len() <= DEVICES_MAX);
        for (place, verdict) in used.iter().enumerate() {
            prop_assert_eq!(verdict.place, Some(place));
            prop_assert!(verdict.device.up && verdict.device.carrier);
            prop_assert!(!verdict.addresses.is_empty());
            prop_assert!(verdict.addresses.iter().all(|net| verdict.device.addresses.contains(net)));
        }
        for verdict in &choice.verdicts {
            prop_assert!(!verdict.reason.is_empty(), "{:?}", verdict);
            prop_assert!(verdict.place.is_some() || verdict.addresses.is_empty());
        }
    }
}
