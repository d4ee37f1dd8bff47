//! What the port can do for a transfer.

use crate::selection::Able;
use sluice_link::{Port, RemoteCaps, SharedCopy, Tally, TallyStart};
use sluice_wire::{PeerId, RemoteKey};

/// What the rail can do with a peer now.
pub(crate) fn able_with<P: Port>(port: &P, peer: PeerId, tallies: bool) -> Able {
    let RemoteCaps { read: reads, write: writes } = port.caps(peer);
    Able { reads, writes, tallies }
}

/// What shares transfers with the peers. Whoever has a tally has got it from there.
pub(crate) fn shared<P: Port>(port: &mut P) -> &mut P::Shared {
    port.shared().expect("a tally is of a port that shares transfers")
}

/// A tally for a transfer from `peer`, if there is one to be had.
pub(crate) fn open_tally<P: Port>(port: &mut P, peer: PeerId, start: TallyStart) -> Option<Tally> {
    port.shared()?.open_tally(peer, start)
}

/// Ends what was exposed to a peer, if anything.
pub(crate) fn revoke<P: Port>(port: &mut P, peer: PeerId, key: RemoteKey) {
    if key.is_some() {
        port.revoke(peer, key);
    }
}
