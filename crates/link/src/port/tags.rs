//! Tag matching by a rail: for a network interface that matches messages with receives by
//! itself.
//!
//! A port offers it ([`Port::tag_matching`](super::Port::tag_matching)) if the interface is
//! the only way of messages from every peer, so that one list of receives and one of
//! messages are all there is: a receive from any source has one place then. What is matched
//! is told by [`Machine::on_tagged`](super::Machine::on_tagged).
//!
//! A message is its bytes, or an announcement of them. The announcement has met its receive
//! when it is told of; its bytes are fetched by key over whatever rails there are.

use super::Token;
use sluice_wire::{MatchBits, PeerId, PtIndex, Region, Rts};

/// A message, without its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TaggedMessage {
    /// The list of receives that it is for.
    pub list: PtIndex,
    /// Its tag.
    pub match_bits: MatchBits,
    /// Out-of-band data.
    pub hdr_data: u64,
    /// The byte for the layer above.
    pub user: u8,
    /// Its length in bytes.
    pub len: u64,
    /// Its bytes are announced, and not here.
    pub rts: Option<Rts>,
}

/// What a receive or a search accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TaggedWanted {
    /// In this list.
    pub list: PtIndex,
    /// From this peer; `None` from any.
    pub source: Option<PeerId>,
    /// With this tag.
    pub match_bits: MatchBits,
    /// Bits of it that do not matter.
    pub ignore_bits: u64,
}

impl TaggedWanted {
    /// Whether a message is accepted.
    #[must_use]
    pub fn accepts(&self, from: PeerId, message: &TaggedMessage) -> bool {
        self.list == message.list
            && self.source.is_none_or(|source| source == from)
            && (self.match_bits.0 ^ message.match_bits.0) & !self.ignore_bits == 0
    }
}

/// What has come of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaggedEnd {
    /// A receive has met this message. Its bytes, as far as they fit, are in the receive's
    /// buffer, unless they were announced.
    Met {
        /// Who has sent it.
        from: PeerId,
        /// The message.
        message: TaggedMessage,
    },
    /// A message whose end was to be told has met its receive, or was dropped by its
    /// receiver.
    Sent,
}

/// The interface has no room now: once more later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

/// Messages of one process, matched in MPI's order: each receive gets the oldest message
/// that it accepts, each message the oldest receive. Messages of a pair are matched in the
/// order in which they were sent.
///
/// A receive, its end by [`TagMatching::cancel`] and a search take effect in the order of
/// the calls. Each receive that meets a message is told of once, and so is each send with a
/// token whose message has met its receive. When a peer is gone ([`Machine::on_peer_gone`]), the
/// machine cancels what only that peer could fill, and counts sends to it as ended; what is told
/// of those later means nothing. Memory for messages that no receive has met is the
/// interface's.
///
/// [`Machine::on_peer_gone`]: super::Machine::on_peer_gone
pub trait TagMatching {
    /// Longest message that is sent with its bytes.
    fn bytes_max(&self) -> u64;

    /// Posts a receive.
    ///
    /// # Errors
    /// [`Full`]: it is not posted. Until one of the list is, or [`TagMatching::nobody_waits`]
    /// for it, the machine is idle ([`Machine::on_idle`]) soon after a message has come that no
    /// receive has met.
    ///
    /// [`Machine::on_idle`]: super::Machine::on_idle
    fn post(&mut self, wanted: &TaggedWanted, into: Region, token: Token) -> Result<(), Full>;

    /// No receive of the list waits for room any more.
    fn nobody_waits(&mut self, list: PtIndex);

    /// Takes a receive back. False if it has met a message, which is told, or was.
    fn cancel(&mut self, token: Token) -> bool;

    /// Sends a message. Its bytes are taken now; its end is told if it has a token.
    ///
    /// # Errors
    /// [`Full`]: it is not sent.
    fn send(
        &mut self,
        peer: PeerId,
        message: &TaggedMessage,
        bytes: Region,
        token: Option<Token>,
    ) -> Result<(), Full>;

    /// The oldest message that no receive has met and that is wanted. With a `claim` it is
    /// out of the matching, under this name.
    fn search(
        &mut self,
        wanted: &TaggedWanted,
        claim: Option<Token>,
    ) -> Option<(PeerId, TaggedMessage)>;

    /// Claims the oldest message of a list that no receive has met and that `wants` accepts:
    /// what receives would that the interface had no room for.
    fn claim_first(
        &mut self,
        list: PtIndex,
        wants: &mut dyn FnMut(PeerId, &TaggedMessage) -> bool,
        claim: Token,
    ) -> Option<(PeerId, TaggedMessage)>;

    /// Puts the bytes of a claimed message where they are wanted, as far as they fit. The
    /// claim is over.
    fn take(&mut self, claim: Token, into: Region);
}
