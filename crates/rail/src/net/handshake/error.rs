//! Why a handshake came to nothing.

use super::Security;
use super::preface::VERSION;
use crate::address::AddressError;

/// Why a handshake came to nothing. The connection is of no use any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HandshakeError {
    /// Garbage, a port scan, another program.
    #[error("the other end is no process of Sluice")]
    NotSluice,
    /// Another version.
    #[error(
        "the other end has version {theirs} of the handshake, and this process version {ours}; \
         use one build of Sluice in all processes of the job",
        ours = VERSION
    )]
    Version {
        /// The other one's.
        theirs: u8,
    },
    /// Another mode.
    #[error(
        "the other end has the security mode {theirs}, and this process {ours}; \
         set FI_SLUICE_SECURITY to the same in all processes of the job"
    )]
    Mode {
        /// The other one's.
        theirs: Security,
        /// This process's.
        ours: Security,
    },
    /// Bytes that no process of this version sends.
    #[error("not a message of the handshake: {0}")]
    Malformed(&'static str),
    /// What it shows as its address is none.
    #[error("the other end shows no address of this version: {0}")]
    Address(#[from] AddressError),
    /// It shows the address of somebody else.
    #[error("the other end shows an address that is not its own")]
    OtherAddress,
    /// Who asks does not have the address of this process, or wants another one.
    #[error("the other end does not know the address of this process")]
    Stranger,
    /// Who answers is not who was asked.
    #[error(
        "the process that answered is not the one that was asked; \
         that one has probably ended, and another one has its port, or the two do not have the same \
         key of a job (of Portals: PTL_JOB_KEY)"
    )]
    NotThePeer,
    /// Who asked does not have the key that it shows: it repeats somebody else's ask.
    #[error("the other end did not prove to have the key of its address")]
    Unproven,
    /// The other one does not want the connection.
    #[error("the other end refuses the connection: {0}")]
    Refused(Refusal),
    /// The peer cannot be asked.
    #[error("the address of the peer names no host")]
    NoNetwork,
    /// The system gives no random numbers.
    #[error("cannot draw a key; allow the system call getrandom")]
    Random,
    /// The stream ended within the handshake.
    #[error("the other end closed the connection {got} bytes into its part of the handshake")]
    Ended {
        /// How much of its present message had come.
        got: usize,
    },
    /// The handshake had ended before, well or badly.
    #[error("the handshake is over")]
    Over,
}

impl HandshakeError {
    /// Whether another attempt would come to the same: the two are not made for each other.
    #[must_use]
    pub fn is_for_good(&self) -> bool {
        matches!(self, HandshakeError::Version { .. } | HandshakeError::Mode { .. })
    }
}

/// Why a connection is not wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// Both have asked, and the attempt of the one that was asked goes first.
    #[error("its own attempt goes first")]
    OwnFirst,
    /// It has given the peer up.
    #[error("it has given this process up")]
    GivenUp,
    /// It has as many peers or connections as it can have.
    #[error("it has no room for another peer")]
    NoRoom,
    /// Messages are matched by a rail in one of the two, or by different ones.
    #[error(
        "the two do not agree on who matches messages; set FI_SLUICE_MATCHING and \
         FI_SLUICE_RAILS to the same in all processes of the job"
    )]
    Matching,
}

impl Refusal {
    /// The byte that says it. Zero says that there is none.
    pub(super) fn code(self) -> u8 {
        match self {
            Refusal::OwnFirst => 1,
            Refusal::GivenUp => 2,
            Refusal::NoRoom => 3,
            Refusal::Matching => 4,
        }
    }

    pub(super) fn from_code(code: u8) -> Option<Refusal> {
        [Refusal::OwnFirst, Refusal::GivenUp, Refusal::NoRoom, Refusal::Matching]
            .into_iter()
            .find(|refusal| refusal.code() == code)
    }
}
