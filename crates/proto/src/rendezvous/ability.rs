//! What the port can do for a transfer.

use crate::selection::Able;
use sluice_link::{ClaimsId, ClaimsStart, Port, RemoteCaps, SharedCopy};
use sluice_wire::{PeerId, RemoteKey};

/// What the rail can do with a peer now.
pub(crate) fn able_with<P: Port>(port: &P, peer: PeerId, chunk_claims: bool) -> Able {
    let RemoteCaps { read: reads, write: writes, .. } = port.caps(peer);
    Able { reads, writes, chunk_claims }
}

/// What shares transfers with the peers. Whoever has chunk claims has got them from there.
pub(crate) fn shared<P: Port>(port: &mut P) -> &mut P::Shared {
    port.shared().expect("chunk claims are of a port that shares transfers")
}

/// Chunk claims for a transfer from `peer`, if there are any to be had.
pub(crate) fn open_claims<P: Port>(
    port: &mut P,
    peer: PeerId,
    start: ClaimsStart,
) -> Option<ClaimsId> {
    port.shared()?.open_claims(peer, start)
}

/// Ends what was exposed to a peer, if anything.
pub(crate) fn revoke<P: Port>(port: &mut P, peer: PeerId, key: RemoteKey) {
    if key.is_some() {
        port.revoke(peer, key);
    }
}
