//! By what peers are reached: `PTL_RAILS`, `PTL_DEVICES`, `PTL_SECURITY`,
//! `PTL_TCP_CONGESTION`, and whether what happens is kept: `PTL_TRACE`. They say here what
//! `FI_SLUICE_RAILS` and the like say to the provider. And whether an interface recovers from exhaustion:
//! `PTL_RECOVERY`; and the key of the job: `PTL_JOB_KEY`.

use sluice_portals::Scheme;
use sluice_rail::net::handshake::JobKey;
use sluice_rail::observer::Observed;
use sluice_runtime::{NetworkOptions, Settings};
use std::ffi::OsString;

/// The shortest secret that is a key.
const KEY_CHARS_MIN: usize = 8;

/// The settings that Portals programs have too, as the provider calls them.
const SHARED: [&str; 5] = ["rails", "devices", "security", "tcp_congestion", "trace"];

/// The network of this process, and what is noted of it, as the environment wants it. What
/// it may not say is ignored and said.
pub(crate) fn shared() -> (NetworkOptions, Observed) {
    let (network, observed, ignored) = read(&|name| std::env::var_os(name));
    for line in &ignored {
        eprintln!("libportals: {line}");
    }
    (network, observed)
}

/// The same from what `lookup` says of each variable, and a line about each that is ignored.
pub(crate) fn read(
    lookup: &dyn Fn(&str) -> Option<OsString>,
) -> (NetworkOptions, Observed, Vec<String>) {
    let settings = Settings::read(|variable| {
        let name = variable.name.to_str().ok().filter(|name| SHARED.contains(name))?;
        lookup(&format!("PTL_{}", name.to_ascii_uppercase()))
    });
    let lines = settings.warnings.iter().map(|line| line.replace("FI_SLUICE_", "PTL_"));
    (settings.network, settings.rail.observed, lines.collect())
}

/// How interfaces recover from exhaustion, as `PTL_RECOVERY` wants it. What it may not say
/// is ignored and said.
pub(crate) fn recovery() -> Option<Scheme> {
    scheme_of(std::env::var_os("PTL_RECOVERY")).unwrap_or_else(|line| {
        eprintln!("libportals: {line}");
        None
    })
}

/// The key of this process's job, by which those of other hosts find it: `PTL_JOB_KEY`. What
/// cannot be one is ignored and said.
pub(crate) fn job_key() -> Option<JobKey> {
    let secret = secret_of(std::env::var_os("PTL_JOB_KEY")).unwrap_or_else(|line| {
        eprintln!("libportals: {line}");
        None
    });
    secret.map(|secret| JobKey::new(&secret))
}

/// The secret that a value is, or why it is ignored. It is not shown.
pub(crate) fn secret_of(value: Option<OsString>) -> Result<Option<Vec<u8>>, String> {
    let Some(value) = value.filter(|value| !value.is_empty()) else { return Ok(None) };
    let len = value.to_string_lossy().chars().count();
    if len < KEY_CHARS_MIN {
        return Err(format!(
            "PTL_JOB_KEY is ignored: a secret of {KEY_CHARS_MIN} characters or more is wanted, \
             and it has {len}; processes on other hosts are not found by it"
        ));
    }
    Ok(Some(value.into_encoded_bytes()))
}

/// The scheme that a value asks for, or why it is ignored.
pub(crate) fn scheme_of(value: Option<OsString>) -> Result<Option<Scheme>, String> {
    let Some(value) = value else { return Ok(None) };
    scheme(value.to_str()).ok_or_else(|| {
        let value = value.to_string_lossy();
        let shown = value.escape_debug();
        format!("PTL_RECOVERY={shown} is ignored: not 0, 1, resume or pause")
    })
}

/// The scheme of this name; `None` if it has no meaning.
fn scheme(name: Option<&str>) -> Option<Option<Scheme>> {
    match name? {
        "" | "0" => Some(None),
        "1" | "resume" => Some(Some(Scheme::Resume)),
        "pause" => Some(Some(Scheme::Pause)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fuzzing;
    use proptest::prelude::*;
    use sluice_runtime::settings::VARIABLES;
    use std::os::unix::ffi::OsStringExt as _;

    #[test]
    fn schemes_have_names() {
        assert_eq!(scheme(Some("0")), Some(None));
        assert_eq!(scheme(Some("1")), Some(Some(Scheme::Resume)));
        assert_eq!(scheme(Some("resume")), Some(Some(Scheme::Resume)));
        assert_eq!(scheme(Some("pause")), Some(Some(Scheme::Pause)));
        assert_eq!((scheme(Some("yes")), scheme(None)), (None, None));
    }

    #[test]
    fn a_secret_is_long_enough_or_ignored_and_never_shown() {
        let secret = |text: &str| secret_of(Some(text.into()));
        assert_eq!((secret_of(None), secret("")), (Ok(None), Ok(None)));
        assert_eq!(secret("12345678"), Ok(Some(b"12345678".to_vec())));
        assert_eq!(secret("ÄÖÜäöüßé").map(|secret| secret.map(|bytes| bytes.len())), Ok(Some(16)));
        let line = secret("sesame7").unwrap_err();
        assert!(line.contains("PTL_JOB_KEY") && line.contains("it has 7"), "{line}");
        assert!(!line.contains("sesame"), "{line}");
    }

    #[test]
    fn each_is_a_variable_of_the_provider_too() {
        let is_one = |name: &&str| VARIABLES.iter().any(|v| v.name.to_str() == Ok(*name));
        assert!(SHARED.iter().all(is_one));
    }

    proptest! {
        /// Settings come of it, or defaults and a line about each variable, by the name that it has here.
        #[test]
        fn whatever_is_set_is_read_or_ignored_with_a_line(
            values in prop::collection::vec(
                prop::option::of(prop_oneof![
                    prop::collection::vec(any::<u8>(), 0..24),
                    "[a-z0-9:,*^/. ]{0,16}".prop_map(String::into_bytes),
                ]),
                SHARED.len() + 2,
            ),
        ) {
            let names: Vec<String> = SHARED.iter().chain(&["recovery", "job_key"]).map(|name| {
                format!("PTL_{}", name.to_ascii_uppercase())
            }).collect();
            let lines = fuzzing::settings(|name| {
                let at = names.iter().position(|known| known == name)?;
                values[at].clone().map(OsString::from_vec)
            });
            for line in lines {
                prop_assert!(!line.chars().any(char::is_control), "{line:?}");
                prop_assert!(names.iter().any(|name| line.contains(&**name)), "{line}");
                prop_assert!(!line.contains("FI_SLUICE_"), "{line}");
            }
        }
    }
}
