//! What cannot be sent, and what should not have come.

use crate::port::PeerError;
use crate::region::MailboxRegion;
use sluice_wire::PacketSeq;

/// A packet that cannot be sent now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SendError {
    /// Not enough credits for it.
    #[error("{need} slots wanted, {have} credits left")]
    NoCredit {
        /// Slots that the packet takes.
        need: u32,
        /// Credits that there are.
        have: u32,
    },
    /// The connection to the peer is being opened.
    #[error("the connection to the peer is being opened")]
    Connecting,
    /// The peer cannot be reached.
    #[error(transparent)]
    Peer(#[from] PeerError),
}

/// How a peer broke the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Violation {
    /// A packet is missing or came twice.
    #[error("packet {got:?} came instead of {expected:?}")]
    Sequence {
        /// The number that was due.
        expected: PacketSeq,
        /// The number that came.
        got: PacketSeq,
    },
    /// It wrote more than it had credits for.
    #[error("{slots} slots written without credit in the {region:?} region")]
    NoCredit {
        /// The region written to.
        region: MailboxRegion,
        /// Slots written.
        slots: u32,
    },
    /// It returned more credits than it was given slots.
    #[error("more credits returned than spent")]
    TooManyCredits,
    /// It asked for credits back though its mailbox is not dynamic, or a second
    /// time before it was answered.
    #[error("credits asked back that are not due")]
    ReturnRequest,
    /// It gave back credits that it was not asked for.
    #[error("credits given back unasked")]
    UnaskedReturn,
    /// It gave back more credits than it can have, or some of its static slots.
    #[error("more credits given back than there can be")]
    ReturnedTooMany,
    /// It had been given up before.
    #[error("it was given up before")]
    Gone,
}
