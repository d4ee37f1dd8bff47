//! Errors as libfabric's callers see them: one table each for refused calls
//! and for failed operations.

use crate::ffi;
use libc::c_int;
use sluice_link::PeerError;
use sluice_proto::{Failure, Refused};

/// A refused call: a positive `FI_E*` number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Errno(pub c_int);

impl Errno {
    pub const AGAIN: Errno = Errno(ffi::FI_EAGAIN);
    pub const INVALID: Errno = Errno(ffi::FI_EINVAL);
    pub const BUSY: Errno = Errno(ffi::FI_EBUSY);
    pub const NO_MEMORY: Errno = Errno(ffi::FI_ENOMEM);
    pub const NO_SYS: Errno = Errno(ffi::FI_ENOSYS);
    pub const NO_DATA: Errno = Errno(ffi::FI_ENODATA);
    pub const NO_ENTRY: Errno = Errno(ffi::FI_ENOENT);
    pub const NO_OPTION: Errno = Errno(ffi::FI_ENOPROTOOPT);
    pub const NOT_SUPPORTED: Errno = Errno(ffi::FI_EOPNOTSUPP);
    pub const BAD_ADDRESS: Errno = Errno(ffi::FI_EADDRNOTAVAIL);
    pub const BAD_FLAGS: Errno = Errno(ffi::FI_EBADFLAGS);
    pub const BAD_STATE: Errno = Errno(ffi::FI_EOPBADSTATE);
    pub const TOO_SMALL: Errno = Errno(ffi::FI_ETOOSMALL);
    pub const NO_CQ: Errno = Errno(ffi::FI_ENOCQ);
    /// FI_ENOEQ.
    pub const NO_EQ: Errno = Errno(261);
    pub const NO_AV: Errno = Errno(ffi::FI_ENOAV);
    pub const AVAILABLE: Errno = Errno(ffi::FI_EAVAIL);
    /// A panic was caught, now or before, and the object is out of service.
    pub const POISONED: Errno = Errno(ffi::FI_EOTHER);
}

impl From<Refused> for Errno {
    fn from(refused: Refused) -> Errno {
        match refused {
            Refused::Again => Errno::AGAIN,
            Refused::TooLong { .. } => Errno(ffi::FI_EMSGSIZE),
            Refused::NotClaimed => Errno::INVALID,
            Refused::NotAtRail => Errno::NOT_SUPPORTED,
            Refused::PeerGone { peer, why } => Errno(code(&Failure::PeerGone { peer, why }).err),
        }
    }
}

/// What the provider says in `prov_errno`, beside libfabric's `err`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Code {
    /// `err`: the `FI_E*` number.
    pub err: c_int,
    /// `prov_errno`: from 1, in the order of [`CODES`].
    pub prov_errno: c_int,
}

/// Texts of `prov_errno`, for a caller that asks when the entry is forgotten.
const CODES: [&str; 13] = [
    "the message was longer than the buffer",
    "the operation was cancelled",
    "no message matches",
    "the peer has ended",
    "the peer cannot be reached",
    "the peer's mailbox has no room for another sender; raise FI_SLUICE_PEERS_MAX there",
    "the peer broke the protocol",
    "a buffer is not mapped memory",
    "the receiver gave the message up while it fetched it",
    "memory shared with the peer was overwritten",
    "the peer takes nothing more from this process",
    "the peer exposes no memory under this key that has all the bytes",
    "the peer does not allow this on its memory",
];

/// The numbers of a failed operation.
pub fn code(failure: &Failure) -> Code {
    let (err, prov_errno) = match failure {
        Failure::Truncated { .. } => (ffi::FI_ETRUNC, 1),
        Failure::Cancelled => (ffi::FI_ECANCELED, 2),
        Failure::NoMessage => (ffi::FI_ENOMSG, 3),
        Failure::PeerGone { why, .. } => match why {
            PeerError::Dead => (ffi::FI_ECONNABORTED, 4),
            PeerError::Unreachable => (ffi::FI_EHOSTUNREACH, 5),
            PeerError::Full => (ffi::FI_ECONNREFUSED, 6),
            PeerError::Protocol => (ffi::FI_EIO, 7),
            PeerError::Damaged => (ffi::FI_EIO, 10),
            PeerError::Refused => (ffi::FI_ECONNREFUSED, 11),
        },
        Failure::Fault => (ffi::FI_EFAULT, 8),
        Failure::Aborted => (ffi::FI_ECONNABORTED, 9),
        Failure::NoRegion { .. } => (ffi::FI_EKEYREJECTED, 12),
        Failure::NoRight { .. } => (ffi::FI_EACCES, 13),
    };
    Code { err, prov_errno }
}

/// The text of a `prov_errno`.
pub fn text(prov_errno: c_int) -> &'static str {
    usize::try_from(prov_errno)
        .ok()
        .and_then(|n| n.checked_sub(1))
        .and_then(|n| CODES.get(n).copied())
        .unwrap_or("unknown error")
}

#[cfg(test)]
mod tests {
    use super::*;
    use sluice_wire::PeerId;

    #[test]
    fn every_failure_has_a_text_of_its_own() {
        let gone = |why| Failure::PeerGone { peer: PeerId(0), why };
        let all = [
            Failure::Truncated { excess: 1 },
            Failure::Cancelled,
            Failure::NoMessage,
            gone(PeerError::Dead),
            gone(PeerError::Unreachable),
            gone(PeerError::Full),
            gone(PeerError::Protocol),
            Failure::Fault,
            Failure::Aborted,
            gone(PeerError::Damaged),
            gone(PeerError::Refused),
            Failure::NoRegion { peer: PeerId(0) },
            Failure::NoRight { peer: PeerId(0) },
        ];
        for (n, failure) in all.iter().enumerate() {
            let code = code(failure);
            assert_eq!(code.prov_errno, n as c_int + 1);
            assert_eq!(text(code.prov_errno), CODES[n]);
            assert!(code.err > 0);
        }
        assert_eq!(text(0), "unknown error");
        assert_eq!(text(-5), "unknown error");
    }
}
