//! By what peers are reached: `PTL_RAILS`, `PTL_DEVICES`, `PTL_SECURITY`,
//! `PTL_TCP_CONGESTION`, and whether what happens is kept: `PTL_TRACE`. They say here what
//! `FI_SLUICE_RAILS` and the like say to the provider. And whether an interface recovers from exhaustion: `PTL_RECOVERY`.

use sluice_portals::Scheme;
use sluice_rail::observer::Observed;
use sluice_runtime::{NetworkOptions, Settings};

/// The settings that Portals programs have too, as the provider calls them.
const SHARED: [&str; 5] = ["rails", "devices", "security", "tcp_congestion", "trace"];

/// The network of this process, and what is noted of it, as the environment wants it. What
/// it may not say is ignored and said.
pub(crate) fn shared() -> (NetworkOptions, Observed) {
    let settings = Settings::read(|variable| {
        let name = variable.name.to_str().ok().filter(|name| SHARED.contains(name))?;
        std::env::var_os(format!("PTL_{}", name.to_ascii_uppercase()))
    });
    for line in &settings.warnings {
        eprintln!("libportals: {}", line.replace("FI_SLUICE_", "PTL_"));
    }
    (settings.network, settings.rail.observed)
}

/// How interfaces recover from exhaustion, as `PTL_RECOVERY` wants it. What it may not say
/// is ignored and said.
pub(crate) fn recovery() -> Option<Scheme> {
    let value = std::env::var_os("PTL_RECOVERY")?;
    scheme(value.to_str()).unwrap_or_else(|| {
        eprintln!(
            "libportals: PTL_RECOVERY={} is ignored: not 0, 1, resume or pause",
            value.display()
        );
        None
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
    use sluice_runtime::settings::VARIABLES;

    #[test]
    fn schemes_have_names() {
        assert_eq!(scheme(Some("0")), Some(None));
        assert_eq!(scheme(Some("1")), Some(Some(Scheme::Resume)));
        assert_eq!(scheme(Some("resume")), Some(Some(Scheme::Resume)));
        assert_eq!(scheme(Some("pause")), Some(Some(Scheme::Pause)));
        assert_eq!((scheme(Some("yes")), scheme(None)), (None, None));
    }

    #[test]
    fn each_is_a_variable_of_the_provider_too() {
        let is_one = |name: &&str| VARIABLES.iter().any(|v| v.name.to_str() == Ok(*name));
        assert!(SHARED.iter().all(is_one));
    }
}
