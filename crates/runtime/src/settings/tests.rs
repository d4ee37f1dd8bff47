//! Settings, from what an environment might say.

use super::*;
use proptest::prelude::*;
use sluice_rail::net::handshake::Security;
use std::os::unix::ffi::OsStringExt;

fn settings(pairs: &[(&str, &str)]) -> Settings {
    Settings::read(|variable| {
        let found = pairs.iter().find(|(name, _)| *name == variable.env());
        found.map(|(_, value)| OsString::from(*value))
    })
}

#[test]
fn an_empty_environment_is_the_default() {
    let empty = settings(&[]);
    assert_eq!(empty.lengths, Lengths::default());
    assert_eq!((empty.tune, empty.rail), (Mode::Auto, RailOptions::default()));
    assert_eq!(empty.network.devices, Wanted::default());
    assert_eq!(empty.network.security, Security::Auth);
    assert_eq!((empty.inject_bytes, empty.inject_kept_bytes), (4096, 64 << 20));
    assert_eq!((empty.progress, empty.stats, empty.report), (Progress::Asked, None, None));
    assert_eq!(empty.warnings, Vec::<String>::new());
}

#[test]
fn what_is_set_is_read() {
    let set = settings(&[
        ("FI_SLUICE_EAGER_SIZE", "0x100"),
        ("FI_SLUICE_LOOKING_SIZE", "131072"),
        ("FI_SLUICE_SHARE_SIZE", "131072"),
        ("FI_SLUICE_NETWORK_EAGER_SIZE", "65536"),
        ("FI_SLUICE_TUNE", "off"),
        ("FI_SLUICE_INJECT_BYTES", "0"),
        ("FI_SLUICE_UNEXPECTED_BYTES", "1"),
        ("FI_SLUICE_CREDITS", "static"),
        ("FI_SLUICE_PEERS_MAX", "65535"),
        ("FI_SLUICE_MAILBOX_SLOTS", "1024"),
        ("FI_SLUICE_SEGMENT", "File"),
        ("FI_SLUICE_SHM_DIR", "/tmp/of this job"),
        ("FI_SLUICE_BULK", "RING"),
        ("FI_SLUICE_RAILS", "TCP,ofi:verbs"),
        ("FI_SLUICE_DEVICES", "ib*, 10.1.2.3/16,^docker0"),
        ("FI_SLUICE_TCP_CONGESTION", "reno"),
        ("FI_SLUICE_SECURITY", "Encrypt"),
        ("FI_SLUICE_MATCHING", "Rail"),
        ("FI_SLUICE_PROGRESS", "thread"),
        ("FI_SLUICE_STATS", "json:./stats"),
        ("FI_SLUICE_TRACE", "/tmp/traces"),
        ("FI_SLUICE_REPORT", "./lines"),
    ]);
    let lengths = Lengths {
        eager_bytes_max: Some(256),
        looking_bytes_max: Some(131_072),
        announce_bytes_min: None,
        share_bytes_min: Some(131_072),
        network_eager_bytes_max: Some(65_536),
    };
    assert_eq!((set.lengths, set.tune), (lengths, Mode::Off));
    let rail = RailOptions {
        bulk: BulkKind::Ring,
        credits: CreditKind::Static,
        segment: SegmentKind::File,
        peers_max: Some(65_535),
        mailbox_slots: Some(1024),
        unexpected_bytes: 1,
        shm_dir: "/tmp/of this job".into(),
        observed: Observed { peers: true, trace_dir: Some("/tmp/traces".into()) },
    };
    assert_eq!(set.rail, rail);
    assert_eq!(set.rail.config(0, |_| 1).observed, rail.observed);
    assert_eq!(set.rail.config(0, |_| 1).shm_dir, PathBuf::from("/tmp/of this job"));
    assert_eq!(set.network.rails.to_string(), "tcp,ofi:verbs");
    assert_eq!(set.network.devices.to_string(), "ib*,10.1.0.0/16,^docker0");
    assert_eq!(set.network.security, Security::Encrypt);
    assert_eq!(set.network.matching, Matching::Rail);
    // Nothing is injected that is not eager.
    assert_eq!((set.inject_bytes, set.inject_kept_bytes), (256, 0));
    let stats = StatsOutput { form: StatsForm::Json, file: Some("./stats".into()) };
    assert_eq!((set.progress, set.stats), (Progress::Thread, Some(stats)));
    assert_eq!(set.report, Some(PathBuf::from("./lines")));
    assert_eq!(set.warnings, Vec::<String>::new());
}

#[test]
fn what_is_not_allowed_is_ignored_and_said() {
    let wrong = [
        ("FI_SLUICE_EAGER_SIZE", "49153"),
        ("FI_SLUICE_LOOKING_SIZE", "262145"),
        ("FI_SLUICE_ANNOUNCE_SIZE", "-1"),
        ("FI_SLUICE_SHARE_SIZE", "0x10000000001"),
        ("FI_SLUICE_NETWORK_EAGER_SIZE", "65537"),
        ("FI_SLUICE_TUNE", "quick"),
        ("FI_SLUICE_INJECT_SIZE", "4097"),
        ("FI_SLUICE_UNEXPECTED_BYTES", "0"),
        ("FI_SLUICE_PEERS_MAX", "65536"),
        ("FI_SLUICE_MAILBOX_SLOTS", "1023"),
        ("FI_SLUICE_SHM_DIR", "shm/of-this-job"),
        ("FI_SLUICE_BULK", "pigeon"),
        ("FI_SLUICE_RAILS", "shm+tcp"),
        ("FI_SLUICE_SECURITY", "tls"),
        ("FI_SLUICE_MATCHING", "card"),
        ("FI_SLUICE_DEVICES", "eth0,10.1.0.0/33"),
        ("FI_SLUICE_TCP_CONGESTION", "re no"),
        ("FI_SLUICE_STATS", "perhaps"),
        ("FI_SLUICE_TRACE", "traces"),
        ("FI_SLUICE_REPORT", "lines"),
    ];
    let read = settings(&wrong);
    assert_eq!(Settings { warnings: Vec::new(), ..read.clone() }, settings(&[]));
    assert_eq!(read.warnings.len(), wrong.len(), "{:?}", read.warnings);
    for (name, value) in wrong {
        let begin = format!("{name}={value} is ignored: allowed are ");
        assert!(read.warnings.iter().any(|text| text.starts_with(&begin)), "{begin}");
    }
    assert!(read.warnings.iter().all(|text| text.contains("; used is the default: ")));
}

#[test]
fn the_bounds_of_numbers_are_allowed() {
    for (name, least, most) in [
        ("FI_SLUICE_EAGER_SIZE", "0", "49152"),
        ("FI_SLUICE_ANNOUNCE_SIZE", "0", "0x10000000000"),
        ("FI_SLUICE_INJECT_SIZE", "0", "4096"),
        ("FI_SLUICE_MAILBOX_SLOTS", "1024", "67108864"),
    ] {
        for value in [least, most] {
            assert_eq!(settings(&[(name, value)]).warnings, Vec::<String>::new(), "{name}={value}");
        }
    }
}

#[test]
fn numbers() {
    assert_eq!(parse_number("4096"), Some(4096));
    assert_eq!(parse_number(" 0x10 "), Some(16));
    assert_eq!(parse_number("4k"), None);
    assert_eq!(parse_number("-1"), None);
    assert_eq!(parse_number(""), None);
}

#[test]
fn bytes_may_have_units() {
    let read = settings(&[
        ("FI_SLUICE_EAGER_SIZE", "32K"),
        ("FI_SLUICE_SHARE_SIZE", "1024 GiB"),
        ("FI_SLUICE_UNEXPECTED_BYTES", "0x100000"),
        ("FI_SLUICE_INJECT_BYTES", "2m"),
    ]);
    assert_eq!(read.warnings, Vec::<String>::new());
    assert_eq!(read.lengths.eager_bytes_max, Some(32 << 10));
    assert_eq!(read.lengths.share_bytes_min, Some(BYTES_MAX));
    assert_eq!((read.rail.unexpected_bytes, read.inject_kept_bytes), (1 << 20, 2 << 20));
    for (name, value) in [
        ("FI_SLUICE_EAGER_SIZE", "49K"),
        ("FI_SLUICE_SHARE_SIZE", "1MB"),
        ("FI_SLUICE_MAILBOX_SLOTS", "64K"),
    ] {
        assert_eq!(settings(&[(name, value)]).warnings.len(), 1, "{name}={value}");
    }
}

#[test]
fn a_path_need_not_be_text() {
    let path = OsString::from_vec(b"/tmp/\xff".to_vec());
    let names = ["FI_SLUICE_REPORT", "FI_SLUICE_SHM_DIR"];
    let read = Settings::read(|variable| names.contains(&&*variable.env()).then(|| path.clone()));
    assert_eq!(read.report, Some(PathBuf::from(&path)));
    assert_eq!(read.rail.shm_dir, PathBuf::from(path));
}

proptest! {
    /// Whatever a variable says, it is taken, or told in one line and as if not set.
    #[test]
    fn any_text_is_a_setting_or_a_warning(
        at in 0..VARIABLES.len(),
        text in prop_oneof![".*", "[0-9x]{0,22}", "/?[a-z]{0,8}", "[a0-9*^,:./]{0,12}"],
    ) {
        let read = settings(&[(&VARIABLES[at].env(), &text)]);
        prop_assert!(read.warnings.len() <= 1, "{:?}", read.warnings);
        prop_assert!(!read.warnings.concat().contains(char::is_control), "{:?}", read.warnings);
        if !read.warnings.is_empty() {
            prop_assert_eq!(Settings { warnings: Vec::new(), ..read }, settings(&[]));
        }
    }

    #[test]
    fn numbers_are_read_as_they_are_written(number: u64) {
        prop_assert_eq!(parse_number(&number.to_string()), Some(number));
        prop_assert_eq!(parse_number(&format!("{number:#x}")), Some(number));
    }
}
