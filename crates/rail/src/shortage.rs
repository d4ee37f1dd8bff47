//! What a process or the system lacks: how that is told from other causes, and what a person
//! does about it. `docs/recovery.md` has the table of what can run out.

use std::io;

/// What a person does about `cause`: what ends a shortage or, if it is none, `otherwise`.
pub(crate) fn remedy<'a>(cause: &io::Error, otherwise: &'a str) -> &'a str {
    match cause.kind() {
        io::ErrorKind::AddrInUse => {
            return "see that a port is left: widen net.ipv4.ip_local_port_range";
        }
        // The system says the same of both.
        io::ErrorKind::AddrNotAvailable => {
            return "see that the device still has its address, and that a port is left: widen \
                    net.ipv4.ip_local_port_range";
        }
        _ => {}
    }
    match cause.raw_os_error() {
        Some(libc::EMFILE) => "raise the limit of open files (ulimit -n)",
        Some(libc::ENFILE) => "raise the system's limit of open files (sysctl fs.file-max)",
        Some(libc::ENOMEM | libc::ENOBUFS) => "raise the limit of memory (ulimit -v)",
        Some(libc::EAGAIN) => "raise the limit of processes and threads (ulimit -u)",
        Some(libc::ENOSPC | libc::EDQUOT) => "give its file system more room",
        _ => otherwise,
    }
}

/// Whether it is this process that lacks something, and the same may work later.
pub(crate) fn is_shortage(cause: &io::Error) -> bool {
    let shortages = [libc::EMFILE, libc::ENFILE, libc::ENOMEM, libc::EAGAIN, libc::EINTR];
    cause.raw_os_error().is_some_and(|errno| shortages.contains(&errno))
}

/// The same for what a connection takes: memory and ports, too.
pub(crate) fn is_shortage_of_network(cause: &io::Error) -> bool {
    lacks_port(cause) || cause.raw_os_error() == Some(libc::ENOBUFS) || is_shortage(cause)
}

/// Whether the system has no port left to give.
fn lacks_port(cause: &io::Error) -> bool {
    matches!(cause.kind(), io::ErrorKind::AddrInUse | io::ErrorKind::AddrNotAvailable)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_shortage_has_its_remedy_and_other_causes_have_their_own() {
        let said = |errno| remedy(&io::Error::from_raw_os_error(errno), "otherwise");
        for (errno, word) in [
            (libc::EMFILE, "ulimit -n"),
            (libc::ENFILE, "file-max"),
            (libc::ENOMEM, "ulimit -v"),
            (libc::EAGAIN, "ulimit -u"),
            (libc::EADDRINUSE, "ip_local_port_range"),
            (libc::EADDRNOTAVAIL, "has its address"),
            (libc::ENOSPC, "room"),
        ] {
            assert!(said(errno).contains(word), "{errno}: {}", said(errno));
        }
        assert_eq!(said(libc::EACCES), "otherwise");
        assert_eq!(remedy(&io::ErrorKind::NotFound.into(), "otherwise"), "otherwise");
    }

    #[test]
    fn what_another_process_refuses_is_no_shortage() {
        for errno in [libc::ECONNREFUSED, libc::ENETUNREACH, libc::ETIMEDOUT, libc::EACCES] {
            assert!(!is_shortage_of_network(&io::Error::from_raw_os_error(errno)));
        }
        assert!(is_shortage_of_network(&io::Error::from_raw_os_error(libc::EADDRNOTAVAIL)));
        assert!(!is_shortage(&io::Error::from_raw_os_error(libc::EADDRNOTAVAIL)));
    }
}
