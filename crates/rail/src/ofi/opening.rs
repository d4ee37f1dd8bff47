//! How the endpoint of a device is opened: the first time, and anew when it has broken.

use sluice_fabric::{Endpoint, FabricError, Offer, Source, offers};
use std::net::IpAddr;

/// Buffers for what comes, whoever sends it: what fills one is copied at once.
const RECEIVES: usize = 64;

/// Which device it is.
#[derive(Clone, Debug)]
pub(super) struct Spec {
    pub(super) provider: String,
    pub(super) at: IpAddr,
    /// Among the different devices that the provider has at that address.
    pub(super) place: usize,
}

/// What a provider offers by this address; or by any, if its devices have none of the
/// system's. `ask` says what is asked of it: messages, or that it matches their tags.
pub(crate) fn offers_at(
    provider: &str,
    at: IpAddr,
    ask: impl Fn(&str, Source) -> Result<Vec<Offer>, FabricError>,
) -> Result<Vec<Offer>, FabricError> {
    match ask(provider, Source::Ip(at)) {
        Err(FabricError::NoProvider { .. }) => {}
        found => return found,
    }
    let mut offers = ask(provider, Source::Any)?;
    // By another address of the internet its peers would not expect it.
    offers.retain(|offer| !offer.is_ip());
    if offers.is_empty() {
        let (provider, filter) = (provider.to_owned(), format!(" by {at}"));
        return Err(FabricError::NoProvider { provider, filter });
    }
    Ok(offers)
}

impl Spec {
    pub(super) fn open(&self) -> Result<Endpoint, FabricError> {
        let mut offers = offers_at(&self.provider, self.at, offers)?;
        let mut seen: Vec<String> = Vec::new();
        offers.retain(|offer| {
            let domain = offer.domain();
            let is_new = !seen.contains(&domain);
            seen.push(domain);
            is_new
        });
        let missing = || FabricError::NoProvider {
            provider: self.provider.clone(),
            filter: format!(" by device {}", self.place),
        };
        let offer = offers.into_iter().nth(self.place).ok_or_else(missing)?;
        Endpoint::open(offer, RECEIVES)
    }
}
