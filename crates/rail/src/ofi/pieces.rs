//! Bytes between memory that may be the client's and messages, which are this process's.

use super::link::Link;
use super::message::BODY_BYTES_MAX;
use crate::net::Place;
use std::io;

/// Copies what comes behind the first `skip` bytes of the pieces. Says how much that was.
///
/// # Safety
/// The pieces are of this process, or of its client.
pub(super) unsafe fn gather(
    pieces: &[Place],
    mut skip: usize,
    into: &mut [u8],
) -> io::Result<usize> {
    let room = into.len().min(BODY_BYTES_MAX);
    let mut filled = 0;
    for piece in pieces {
        let skipped = skip.min(piece.len);
        skip -= skipped;
        // SAFETY: it stays inside the piece.
        let at = unsafe { piece.at.add(skipped) };
        let len = (piece.len - skipped).min(room - filled);
        if len == 0 {
            continue;
        }
        if !(Place { at, len }).is_readable() {
            // What is before it goes first.
            let fault = io::Error::from_raw_os_error(libc::EFAULT);
            return if filled > 0 { Ok(filled) } else { Err(fault) };
        }
        // SAFETY: the bytes are readable, as was just found, and there is room for them.
        unsafe { std::ptr::copy_nonoverlapping(at, into.as_mut_ptr().add(filled), len) };
        filled += len;
    }
    Ok(filled)
}

/// Reads what has come on a stream. Says how much that was.
///
/// # Safety
/// The pieces are of this process, or of its client, who lets them be written.
pub(super) unsafe fn scatter(link: &mut Link, pieces: &[Place]) -> io::Result<usize> {
    let mut got = 0;
    for piece in pieces {
        if !piece.is_writable() {
            return Err(io::Error::from_raw_os_error(libc::EFAULT));
        }
        let mut filled = 0;
        while filled < piece.len {
            let front = link.front();
            let len = front.len().min(piece.len - filled);
            if len == 0 {
                break;
            }
            // SAFETY: the piece is writable, as was just found, and has room; the source is
            // memory of this process's own.
            unsafe { std::ptr::copy_nonoverlapping(front.as_ptr(), piece.at.add(filled), len) };
            link.take(len);
            filled += len;
        }
        got += filled;
    }
    Ok(got)
}
