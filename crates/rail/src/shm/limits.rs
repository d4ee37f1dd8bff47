//! Numbers that several files and the texts of errors need.

/// Most peers one process may know. Addresses come from outside.
pub(crate) const PEERS_MAX: usize = 1 << 20;
/// The version of a card.
pub(super) const CARD_VERSION: u8 = 1;
