//! Faults on purpose, from a seed (`FI_SLUICE_FAULTS`, `docs/recovery.md`): what a network or a
//! system does to a rail now and then, done often.
//!
//! The rails ask here before they touch the world: a lane before it takes or gives bytes, a
//! connection before it is begun, a poll before it looks, shared memory before it copies directly or
//! opens chunk claims, and before it makes or maps a mailbox (`segment`). Without the feature `faults`, and
//! outside of this crate's own tests, the answer is a constant, and nothing of this is there.
//!
//! Invariant: no fault is more than what the world may do to a rail that is as its module says.
//! So whatever is drawn, nothing is lost, unless a peer is given up for the number of faults.

#[cfg(any(test, feature = "faults"))]
mod drawn;
pub(crate) mod segment;

#[cfg(test)]
pub(crate) use drawn::{Counts, Plan, with_plan};

use std::io;
use std::os::fd::AsFd;

/// Most bytes that a lane takes now, if not all; or what it fails with.
#[inline(always)]
pub(crate) fn on_send(lane: &impl AsFd) -> io::Result<Option<usize>> {
    #[cfg(any(test, feature = "faults"))]
    return drawn::on_lane(lane.as_fd());
    #[cfg(not(any(test, feature = "faults")))]
    {
        let _ = lane;
        Ok(None)
    }
}

/// The same of what it gives.
#[inline(always)]
pub(crate) fn on_receive(lane: &impl AsFd) -> io::Result<Option<usize>> {
    on_send(lane)
}

/// Alters bytes that have come and are sealed.
#[inline(always)]
pub(crate) fn on_sealed(bytes: &mut [u8]) {
    #[cfg(any(test, feature = "faults"))]
    drawn::on_sealed(bytes);
    #[cfg(not(any(test, feature = "faults")))]
    let _ = bytes;
}

/// Whether a connection may be begun.
///
/// # Errors
/// What the system says if not.
#[inline(always)]
pub(crate) fn on_connect() -> io::Result<()> {
    #[cfg(any(test, feature = "faults"))]
    return drawn::on_connect();
    #[cfg(not(any(test, feature = "faults")))]
    Ok(())
}

/// How many of `len` bytes a direct read or write of another process's memory moves now.
///
/// # Errors
/// What the system says if it forbids it.
#[inline(always)]
pub(crate) fn on_direct(len: usize) -> io::Result<usize> {
    #[cfg(any(test, feature = "faults"))]
    return drawn::on_direct(len);
    #[cfg(not(any(test, feature = "faults")))]
    Ok(len)
}

/// Whether no chunk claims are to be free.
#[inline(always)]
pub(crate) fn on_claims() -> bool {
    #[cfg(any(test, feature = "faults"))]
    return drawn::on_claims();
    #[cfg(not(any(test, feature = "faults")))]
    false
}

/// Whether a poll of all rails is to find nothing.
#[inline(always)]
pub(crate) fn on_poll() -> bool {
    #[cfg(any(test, feature = "faults"))]
    return drawn::on_poll();
    #[cfg(not(any(test, feature = "faults")))]
    false
}
