//! The keys of this process, and the address that shows them.

use super::noise::{self, Pair};
use crate::address::{Address, AddressError, KEY_BYTES, Secret};
use crate::shm::{OpenError, own_tag};
use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

/// Who this process is, and what proves it. Made once, and cheap to clone.
#[derive(Clone)]
pub struct Identity {
    keys: Arc<Keys>,
    address: Address,
}

struct Keys {
    private: [u8; KEY_BYTES],
    secret: Secret,
}

impl Identity {
    /// Draws a key pair and a secret. The address has no host yet ([`Identity::at`]).
    ///
    /// # Errors
    /// [`OpenError::Key`] if the system gives no random numbers, and
    /// [`OpenError::Identity`] if it does not say which host this is.
    pub fn generate() -> Result<Identity, OpenError> {
        let tag = own_tag()?;
        let no_key = || OpenError::Key { cause: io::Error::other("no random numbers") };
        let pair = noise::generate().ok_or_else(no_key)?;
        let secret = Secret(noise::random().ok_or_else(no_key)?);
        Ok(Identity::new(tag, pair, secret))
    }

    /// The process that has these. The address has no host yet.
    pub(super) fn new(tag: u16, pair: Pair, secret: Secret) -> Identity {
        let keys = Arc::new(Keys { private: pair.private, secret });
        Identity { keys, address: Address::local(tag, pair.public) }
    }

    /// The same process, which is asked for connections at `host`.
    ///
    /// # Errors
    /// [`AddressError::Malformed`] if nobody can be asked there.
    pub fn at(mut self, host: SocketAddr) -> Result<Identity, AddressError> {
        self.address = self.address.with_network(host, self.keys.secret)?;
        Ok(self)
    }

    /// The same process, which is asked at this address of the other family too, at the same
    /// port.
    ///
    /// # Errors
    /// [`AddressError::Malformed`] if nobody can be asked there.
    pub fn also_at(mut self, ip: IpAddr) -> Result<Identity, AddressError> {
        self.address = self.address.also_at(ip)?;
        Ok(self)
    }

    /// The address, for its peers and for its mailbox
    /// ([`Config::address`](crate::shm::Config::address)).
    #[must_use]
    pub fn address(&self) -> Address {
        self.address
    }

    /// The keys of one process behind the address of another one.
    #[cfg(test)]
    pub(super) fn with(keys: &Identity, address: Address) -> Identity {
        Identity { keys: keys.keys.clone(), address }
    }

    pub(super) fn private(&self) -> &[u8; KEY_BYTES] {
        &self.keys.private
    }
}

/// The address only: nothing that is private.
impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Identity").field("address", &self.address).finish_non_exhaustive()
    }
}
