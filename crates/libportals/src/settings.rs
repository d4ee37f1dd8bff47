//! By what peers are reached: `PTL_RAILS`, `PTL_DEVICES`, `PTL_SECURITY`,
//! `PTL_TCP_CONGESTION`, which say here what `FI_SLUICE_RAILS` and the like say to the provider.

use sluice_runtime::{NetworkOptions, Settings};

/// The settings that Portals programs have too, as the provider calls them.
const NETWORK: [&str; 4] = ["rails", "devices", "security", "tcp_congestion"];

/// The network of this process, as the environment wants it. What it may not say is
/// ignored and said.
pub(crate) fn network() -> NetworkOptions {
    let settings = Settings::read(|variable| {
        let name = variable.name.to_str().ok().filter(|name| NETWORK.contains(name))?;
        std::env::var_os(format!("PTL_{}", name.to_ascii_uppercase()))
    });
    for line in &settings.warnings {
        eprintln!("libportals: {}", line.replace("FI_SLUICE_", "PTL_"));
    }
    settings.network
}

#[cfg(test)]
mod tests {
    use super::*;
    use sluice_runtime::settings::VARIABLES;

    #[test]
    fn each_is_a_variable_of_the_provider_too() {
        let is_one = |name: &&str| VARIABLES.iter().any(|v| v.name.to_str() == Ok(*name));
        assert!(NETWORK.iter().all(is_one));
    }
}
