//! The system calls on sockets: what there is of them beyond `rustix`, and the two that
//! move bytes from and to memory of the client.

use super::Place;
use rustix::fd::{AsFd, AsRawFd, OwnedFd};
use rustix::net::{AddressFamily, SocketFlags, SocketType, sockopt};
use std::io;
use std::net::SocketAddr;
use std::ptr;
use std::time::Duration;

/// Most pieces of memory in one call.
pub(super) const PIECES_MAX: usize = 32;

/// A socket for TCP that never blocks.
///
/// # Errors
/// The system's.
pub(super) fn stream_socket(address: &SocketAddr) -> io::Result<OwnedFd> {
    let family = match address {
        SocketAddr::V4(_) => AddressFamily::INET,
        SocketAddr::V6(_) => AddressFamily::INET6,
    };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    Ok(rustix::net::socket_with(family, SocketType::STREAM, flags, None)?)
}

/// How often the system asks the host at the other end of an idle connection whether it
/// lives: that is what tells a process that computes from one that is out of reach.
const KEEPALIVE: Duration = Duration::from_secs(1);
/// So many of these may go unanswered. `multirail` gives a silent connection up before.
const KEEPALIVES_MAX: u32 = 60;

/// Sets up a connection: nothing waits for more in the kernel, which this process sees
/// to, the other side's kernel is asked for signs of life, and `congestion` names what
/// sets its pace, if not the system's default.
pub(super) fn prepare(socket: &impl AsFd, congestion: Option<&str>) {
    // One that the system refuses leaves its default, which works.
    let _ = sockopt::set_tcp_nodelay(socket, true);
    let _ = sockopt::set_tcp_keepidle(socket, KEEPALIVE);
    let _ = sockopt::set_tcp_keepintvl(socket, KEEPALIVE);
    let _ = sockopt::set_tcp_keepcnt(socket, KEEPALIVES_MAX);
    let _ = sockopt::set_socket_keepalive(socket, true);
    if let Some(name) = congestion {
        let _ = sockopt::set_tcp_congestion(socket, name);
    }
}

/// From so many bytes on a socket is listed as one that has something; also if it has
/// ended. Receiving takes what there is. Says whether the system does so.
pub(super) fn set_wake_bytes(socket: &impl AsFd, bytes: u32) -> bool {
    let Ok(bytes) = libc::c_int::try_from(bytes) else { return false };
    // SAFETY: the kernel reads one number there.
    let done = unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_RCVLOWAT,
            (&raw const bytes).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        )
    };
    done == 0
}

/// Gives pieces of memory to a socket. Says how many bytes it has taken.
///
/// # Errors
/// The system's; `WouldBlock` if it takes nothing now.
///
/// # Safety
/// All bytes of the pieces can be read.
pub(super) unsafe fn send(socket: &impl AsFd, pieces: &[Place]) -> io::Result<usize> {
    debug_assert!(pieces.len() <= PIECES_MAX);
    let fd = socket.as_fd().as_raw_fd();
    let flags = libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT;
    if let [piece] = pieces {
        // A lone message: the system copies no list.
        // SAFETY: the caller's promise.
        let sent = unsafe { libc::send(fd, piece.at.cast(), piece.len, flags) };
        return usize::try_from(sent).map_err(|_| io::Error::last_os_error());
    }
    let mut vectors = [libc::iovec { iov_base: ptr::null_mut(), iov_len: 0 }; PIECES_MAX];
    for (vector, piece) in vectors.iter_mut().zip(pieces) {
        *vector = libc::iovec { iov_base: piece.at.cast(), iov_len: piece.len };
    }
    // SAFETY: a header of zeroes is one without address and control data.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = vectors.as_mut_ptr();
    message.msg_iovlen = pieces.len();
    // SAFETY: the vectors are as many as said, and readable by the caller's promise.
    let sent = unsafe { libc::sendmsg(fd, &raw const message, flags) };
    usize::try_from(sent).map_err(|_| io::Error::last_os_error())
}

/// Receives into pieces of memory, one after the other. Zero is the end of the stream.
///
/// # Errors
/// The system's; `WouldBlock` if there is nothing now.
///
/// # Safety
/// All bytes of the pieces can be written, and nobody reads or writes them meanwhile.
pub(super) unsafe fn receive(socket: &impl AsFd, pieces: &[Place]) -> io::Result<usize> {
    let fd = socket.as_fd().as_raw_fd();
    let got = if let [piece] = pieces {
        // SAFETY: the caller's promise.
        unsafe { libc::recv(fd, piece.at.cast(), piece.len, libc::MSG_DONTWAIT) }
    } else {
        let mut vectors = [libc::iovec { iov_base: ptr::null_mut(), iov_len: 0 }; 2];
        for (vector, piece) in vectors.iter_mut().zip(pieces) {
            *vector = libc::iovec { iov_base: piece.at.cast(), iov_len: piece.len };
        }
        // SAFETY: the vectors are writable by the caller's promise.
        unsafe { libc::readv(fd, vectors.as_ptr(), pieces.len().min(2) as libc::c_int) }
    };
    usize::try_from(got).map_err(|_| io::Error::last_os_error())
}

/// Whether a socket has something to receive, has ended or has failed; also if the system does
/// not say. It does not take the socket's lock.
#[inline]
pub(super) fn has_something(socket: &impl AsFd) -> bool {
    let mut asked =
        libc::pollfd { fd: socket.as_fd().as_raw_fd(), events: libc::POLLIN, revents: 0 };
    // SAFETY: the kernel reads and writes one such structure there, and does not wait.
    unsafe { libc::poll(&raw mut asked, 1, 0) != 0 }
}

/// Whether memory that was handed to the system is not there, or may not be used so.
pub(super) fn is_fault(cause: &io::Error) -> bool {
    cause.raw_os_error() == Some(libc::EFAULT)
}

/// What the kernel knows of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Health {
    /// Segments that the other side's kernel has not acknowledged.
    pub(super) unacknowledged: u32,
    /// Since it acknowledged something, in milliseconds.
    pub(super) acknowledged_ms_ago: u32,
    /// The smoothed round trip, in microseconds.
    pub(super) round_trip_us: u32,
}

/// Asks the kernel how a connection is. `None` where it does not say.
pub(super) fn health(socket: &impl AsFd) -> Option<Health> {
    // SAFETY: a structure of numbers.
    let mut info: libc::tcp_info = unsafe { std::mem::zeroed() };
    let mut len = size_of::<libc::tcp_info>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `len` bytes there.
    let done = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            (&raw mut info).cast(),
            &raw mut len,
        )
    };
    (done == 0).then_some(Health {
        unacknowledged: info.tcpi_unacked,
        acknowledged_ms_ago: info.tcpi_last_ack_recv,
        round_trip_us: info.tcpi_rtt,
    })
}

/// Bytes given to a socket that the other side's kernel has not acknowledged.
pub(super) fn unacknowledged_bytes(socket: &impl AsFd) -> usize {
    let mut bytes: libc::c_int = 0;
    // SAFETY: the kernel writes one number there.
    let done = unsafe { libc::ioctl(socket.as_fd().as_raw_fd(), libc::TIOCOUTQ, &raw mut bytes) };
    if done == 0 { usize::try_from(bytes).unwrap_or(0) } else { 0 }
}
