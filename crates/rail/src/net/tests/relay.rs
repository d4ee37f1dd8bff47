//! What stands between two processes and does to their connections what networks do. The
//! test polls it in the same loop as the processes.

use rustix::net::sockopt;
use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

/// Bytes that one look takes from a connection at most.
const LOOK_BYTES: usize = 64 << 10;

/// What becomes of what comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Course {
    /// It goes on.
    Pass,
    /// So many bytes a poll go on, in each direction.
    Slow(usize),
    /// It is kept back; the connections stay open.
    Hold,
    /// New connections are taken and closed at once; those that are there go on.
    Slam,
}

/// How a connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cut {
    /// In order.
    Fin,
    /// At once, with what is under way.
    Rst,
}

/// What is altered: whose bytes, behind how many of them, which bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Alters {
    /// Zero for the one that has connected.
    pub(super) from: usize,
    pub(super) behind: u64,
    pub(super) bits: u8,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Relay {
    pub(super) at: SocketAddr,
    to: Option<SocketAddr>,
    listener: Option<TcpListener>,
    pairs: Vec<Pair>,
    pub(super) course: Course,
    /// Once so many bytes have gone on, whatever the direction, nothing does.
    pub(super) left: Option<u64>,
    /// Of what comes next from the one that has connected, or from the other one, the byte
    /// behind so many is altered, once.
    pub(super) alters: Option<Alters>,
    /// Bytes that have gone on.
    pub(super) carried: u64,
    /// Connections that were closed at once.
    pub(super) slammed: u32,
}

/// Two connections, and what came on each and has not gone on.
#[derive(Debug)]
struct Pair {
    ends: [TcpStream; 2],
    kept: [VecDeque<u8>; 2],
    ended: [bool; 2],
}

impl Relay {
    /// Listens at an address of this host.
    pub(super) fn new(address: IpAddr) -> Relay {
        let listener = TcpListener::bind((address, 0)).unwrap();
        listener.set_nonblocking(true).unwrap();
        Relay {
            at: listener.local_addr().unwrap(),
            to: None,
            listener: Some(listener),
            pairs: Vec::new(),
            course: Course::Pass,
            left: None,
            alters: None,
            carried: 0,
            slammed: 0,
        }
    }

    /// Where what connects here is led to.
    pub(super) fn lead_to(&mut self, to: SocketAddr) {
        self.to = Some(to);
    }

    /// The system keeps little of what comes.
    pub(super) fn shrink_buffers(&mut self) {
        for end in self.pairs.iter().flat_map(|pair| &pair.ends) {
            sockopt::set_socket_recv_buffer_size(end, 4096).unwrap();
            sockopt::set_socket_send_buffer_size(end, 4096).unwrap();
        }
    }

    /// Ends all connections. What comes may connect again.
    pub(super) fn cut(&mut self, how: Cut) {
        for pair in self.pairs.drain(..) {
            for end in &pair.ends {
                match how {
                    Cut::Fin => drop(end.shutdown(Shutdown::Both)),
                    Cut::Rst => {
                        sockopt::set_socket_linger(end, Some(Duration::ZERO)).unwrap();
                    }
                }
            }
        }
    }

    /// Nobody listens here from now on: the system refuses connections.
    pub(super) fn refuse(&mut self) {
        self.listener = None;
    }

    /// Listens again.
    pub(super) fn listen(&mut self) {
        let listener = TcpListener::bind(self.at).unwrap();
        listener.set_nonblocking(true).unwrap();
        self.listener = Some(listener);
    }

    pub(super) fn poll(&mut self) {
        while let Some(listener) = &self.listener {
            let Ok((end, _)) = listener.accept() else { break };
            self.lead(end);
        }
        let each = match self.course {
            Course::Pass | Course::Slam => LOOK_BYTES,
            Course::Slow(bytes) => bytes,
            Course::Hold => return,
        };
        for at in 0..self.pairs.len() {
            for from in 0..2 {
                let most = self.left.map_or(each, |left| left.min(each as u64) as usize);
                let moved = self.pairs[at].carry(from, most, &mut self.alters) as u64;
                self.carried += moved;
                self.left = self.left.map(|left| left - moved);
            }
        }
        self.pairs.retain(|pair| pair.ended != [true; 2]);
    }

    fn lead(&mut self, end: TcpStream) {
        if self.course == Course::Slam {
            self.slammed += 1;
            return;
        }
        // Where nobody listens, what has connected here is closed.
        let Ok(other) = TcpStream::connect(self.to.unwrap()) else { return };
        let ends = [end, other];
        for end in &ends {
            end.set_nonblocking(true).unwrap();
            end.set_nodelay(true).unwrap();
        }
        self.pairs.push(Pair { ends, kept: Default::default(), ended: [false; 2] });
    }
}

impl Pair {
    /// Takes what one end has, and gives the other up to `most` bytes.
    fn carry(&mut self, from: usize, most: usize, alters: &mut Option<Alters>) -> usize {
        let to = 1 - from;
        let mut bytes = [0; LOOK_BYTES];
        if self.kept[from].len() < most {
            match self.ends[from].read(&mut bytes) {
                Ok(0) => self.ended[from] = true,
                Ok(got) => {
                    alter(&mut bytes[..got], from, alters);
                    self.kept[from].extend(&bytes[..got]);
                }
                Err(cause) if cause.kind() == ErrorKind::WouldBlock => {}
                Err(_) => self.ended = [true; 2],
            }
        }
        let kept = self.kept[from].make_contiguous();
        let sent = match self.ends[to].write(&kept[..kept.len().min(most)]) {
            Ok(sent) => sent,
            Err(cause) if cause.kind() == ErrorKind::WouldBlock => 0,
            Err(_) => {
                self.ended = [true; 2];
                0
            }
        };
        self.kept[from].drain(..sent);
        if self.ended[from] && self.kept[from].is_empty() {
            // What has ended here ends there.
            let _ = self.ends[to].shutdown(Shutdown::Write);
        }
        sent
    }
}

/// Alters what has come, if the byte is among it.
fn alter(bytes: &mut [u8], from: usize, alters: &mut Option<Alters>) {
    let Some(due) = alters.as_mut().filter(|due| due.from == from) else { return };
    match bytes.get_mut(due.behind as usize) {
        Some(byte) => {
            *byte ^= due.bits;
            *alters = None;
        }
        None => due.behind -= bytes.len() as u64,
    }
}
