//! Messages with tags, which the provider matches with receives.
//!
//! An endpoint has these if it was opened by one of [`tagged_offers`]. Its messages without
//! tags are as ever, and matched apart from these.

use crate::FabricError;
use crate::endpoint::{Begun, Endpoint, Peer};
use crate::ffi::{self, fid};
use crate::memory::{BUFFER_BYTES, BufferId, State};
use crate::offer::{Offer, Source, offers_with};

/// Bits of tags that all providers are asked for.
const TAG_BITS: u32 = u64::BITS;

/// What `provider` offers that matches messages in order, by source and by all bits of a tag.
///
/// # Errors
/// [`FabricError`], also if that is nothing.
pub fn tagged_offers(provider: &str, source: Source) -> Result<Vec<Offer>, FabricError> {
    let caps = ffi::FI_MSG | ffi::FI_TAGGED | ffi::FI_DIRECTED_RECV | ffi::FI_SOURCE;
    let none = |filter| FabricError::NoProvider {
        provider: provider.to_owned(),
        filter: format!(" and matches their tags of {TAG_BITS} bits{filter}"),
    };
    let found = offers_with(provider, source, &[caps], ffi::FI_ORDER_SAS);
    let mut found = found.map_err(|why| match why {
        FabricError::NoProvider { filter, .. } => none(filter),
        other => other,
    })?;
    found.retain(|offer| offer.tag_bits() == TAG_BITS);
    if found.is_empty() { Err(none(String::new())) } else { Ok(found) }
}

impl Endpoint {
    /// Sends the first `len` bytes of a buffer that is held, with a tag.
    ///
    /// # Errors
    /// [`FabricError`]: nothing goes, and the buffer is still held.
    pub fn send_tagged(
        &mut self,
        buffer: BufferId,
        len: usize,
        to: Peer,
        tag: u64,
    ) -> Result<Begun, FabricError> {
        assert!(len <= BUFFER_BYTES && self.memory.state(buffer) == State::Held);
        // SAFETY: an endpoint of such an offer has the table. The buffer is there until the
        // endpoint is closed, and nobody touches it until the operation is done.
        let returned = unsafe {
            let send = (*(*self.ep).tagged).send;
            let descriptor = self.memory.descriptor(buffer);
            let context = self.memory.context(buffer);
            send(self.ep, self.memory.at(buffer).cast(), len, descriptor, to.0, tag, context)
        };
        self.begun("fi_tsend", returned, buffer, State::Sending)
    }

    /// Receives one message into a buffer that is held: from this peer, or from any, with
    /// this tag but for the bits that are ignored.
    ///
    /// # Errors
    /// [`FabricError`]: nothing is received, and the buffer is still held.
    pub fn receive_tagged(
        &mut self,
        buffer: BufferId,
        from: Option<Peer>,
        tag: u64,
        ignore: u64,
    ) -> Result<Begun, FabricError> {
        assert_eq!(self.memory.state(buffer), State::Held);
        let from = from.map_or(ffi::FI_ADDR_UNSPEC, |peer| peer.0);
        // SAFETY: as in `send_tagged`.
        let returned = unsafe {
            let receive = (*(*self.ep).tagged).recv;
            let descriptor = self.memory.descriptor(buffer);
            let context = self.memory.context(buffer);
            let at = self.memory.at(buffer).cast();
            receive(self.ep, at, BUFFER_BYTES, descriptor, from, tag, ignore, context)
        };
        self.begun("fi_trecv", returned, buffer, State::Matching)
    }

    /// Asks for the end of a receive. It ends in any case, by a message or without
    /// ([`FabricError::is_cancelled`]), and [`Endpoint::poll`] tells of it.
    pub fn cancel(&mut self, buffer: BufferId) {
        // SAFETY: the endpoint is open; the context is there as long as it.
        unsafe {
            let fid: *mut fid = self.ep.cast();
            ((*(*self.ep).ops).cancel)(fid, self.memory.context(buffer));
        }
    }
}
