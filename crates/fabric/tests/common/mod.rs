//! What tests of endpoints have in common, inside and outside this crate.

use sluice_fabric::{Endpoint, FabricError, Offer, Source};
use std::io::Write;
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

/// Far more than needed.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// An endpoint of this host's own, of what `ask` finds; none where libfabric is not installed,
/// which is said.
pub fn open(
    provider: &str,
    ask: impl Fn(&str, Source) -> Result<Vec<Offer>, FabricError>,
) -> Option<Endpoint> {
    match ask(provider, Source::Ip(IpAddr::V4(Ipv4Addr::LOCALHOST))) {
        Ok(mut offers) => Some(Endpoint::open(offers.remove(0), 8).unwrap()),
        Err(FabricError::Missing(why)) => {
            // Beside what is kept of the output of tests that pass.
            let _ = writeln!(std::io::stderr(), "skipped: {provider}: {why}");
            None
        }
        Err(why) => panic!("{why}"),
    }
}
