//! The same over a plain TCP connection, without Sluice: what a rail is compared with, in
//! the same run.
//!
//! One connection between the hosts' first devices, with TCP_NODELAY and the congestion
//! control that Sluice is told to use. Both sides spin, as Sluice does.

use crate::node::Node;
use crate::stats::Samples;
use crate::step::Step;
use anyhow::{Context, Result, bail, ensure};
use rustix::net::sockopt::set_tcp_congestion;
use sluice_runtime::Settings;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

/// Longest wait for one byte.
const PATIENCE: Duration = Duration::from_secs(30);
/// Tries without anything between two looks at the clock.
const TRIES_PER_LOOK: u32 = 1 << 14;
/// Most bytes that one read takes.
const READ_BYTES_MAX: usize = 1 << 20;

/// A connection without Sluice.
#[derive(Debug)]
pub struct Raw {
    socket: TcpStream,
    /// Whether to give the core away when there is nothing.
    yields: bool,
    /// What is sent, and where what comes goes.
    out: Vec<u8>,
    room: Vec<u8>,
}

/// Which messages go one way, and how.
#[derive(Clone, Copy, Debug)]
pub struct RawStream {
    pub size: u64,
    /// Messages before each answer.
    pub window: u64,
    /// Messages that one write has.
    pub per_write: u64,
}

impl Raw {
    /// Connects to the second process.
    pub fn open(node: &mut Node) -> Result<Raw> {
        let host = node.peer_host().context("the second process has no address of a host")?;
        let port = u16::try_from(node.ask(&Step::RawOpen)?).context("the second one's port")?;
        let to = SocketAddr::new(host.ip(), port);
        let socket = TcpStream::connect_timeout(&to, PATIENCE)
            .with_context(|| format!("no plain connection to {to}"))?;
        Raw::new(socket, node.yields())
    }

    /// Waits for the first process to connect, which is told the port.
    pub fn serve(node: &mut Node) -> Result<Raw> {
        let host = node.own_host().context("this process has no address of a host")?;
        let listener = TcpListener::bind(SocketAddr::new(host.ip(), 0))
            .with_context(|| format!("cannot listen at {}", host.ip()))?;
        node.answer(listener.local_addr()?.port().into())?;
        listener.set_nonblocking(true)?;
        let mut wait = Wait::new(true);
        loop {
            match listener.accept() {
                Ok((socket, _)) => return Raw::new(socket, node.yields()),
                Err(error) => wait.after(&error)?,
            }
        }
    }

    fn new(socket: TcpStream, yields: bool) -> Result<Raw> {
        socket.set_nodelay(true).context("TCP_NODELAY")?;
        if let Some(name) = Settings::of_environment().network.congestion {
            set_tcp_congestion(&socket, &name)
                .with_context(|| format!("the system does not let {name} set the pace"))?;
        }
        socket.set_nonblocking(true)?;
        Ok(Raw { socket, yields, out: Vec::new(), room: Vec::new() })
    }

    /// Goes to and fro, as [`latency`](crate::latency) does.
    pub fn ping(&mut self, size: u64, count: u64, samples: &mut Samples) -> Result<()> {
        self.reserve(size);
        let mut before = Instant::now();
        for _ in 0..count {
            self.send(size)?;
            self.receive(size)?;
            let now = Instant::now();
            samples.record((now - before).as_nanos() as u64);
            before = now;
        }
        Ok(())
    }

    /// The other side of [`Raw::ping`].
    pub fn pong(&mut self, size: u64, count: u64) -> Result<()> {
        self.reserve(size);
        for _ in 0..count {
            self.receive(size)?;
            self.send(size)?;
        }
        Ok(())
    }

    /// Windows of messages, each answered by one byte, as [`stream`](crate::stream) does.
    pub fn pour(&mut self, stream: RawStream, count: u64, samples: &mut Samples) -> Result<()> {
        let RawStream { size, window, per_write } = stream;
        self.reserve(size * per_write);
        let mut before = Instant::now();
        for _ in 0..count {
            let mut left = window;
            while left > 0 {
                let now = left.min(per_write);
                self.send(now * size)?;
                left -= now;
            }
            self.receive(1)?;
            let now = Instant::now();
            samples.record((now - before).as_nanos() as u64);
            before = now;
        }
        Ok(())
    }

    /// The other side of [`Raw::pour`], for windows of so many bytes.
    pub fn drain(&mut self, window_bytes: u64, count: u64) -> Result<()> {
        self.reserve(window_bytes.min(READ_BYTES_MAX as u64));
        for _ in 0..count {
            self.receive(window_bytes)?;
            self.send(1)?;
        }
        Ok(())
    }

    fn reserve(&mut self, bytes: u64) {
        let bytes = bytes.max(1) as usize;
        if self.out.len() < bytes {
            self.out = vec![1; bytes];
            self.room = vec![1; bytes];
        }
    }

    #[inline]
    fn send(&mut self, bytes: u64) -> Result<()> {
        let mut wait = Wait::new(self.yields);
        let mut left = &self.out[..bytes as usize];
        while !left.is_empty() {
            match self.socket.write(left) {
                Ok(count) => left = &left[count..],
                Err(error) => wait.after(&error)?,
            }
        }
        Ok(())
    }

    #[inline]
    fn receive(&mut self, bytes: u64) -> Result<()> {
        let mut wait = Wait::new(self.yields);
        let (mut left, room) = (bytes as usize, self.room.len().min(READ_BYTES_MAX));
        while left > 0 {
            match self.socket.read(&mut self.room[..left.min(room)]) {
                Ok(0) => bail!("the plain connection has ended"),
                Ok(count) => left -= count,
                Err(error) => wait.after(&error)?,
            }
        }
        Ok(())
    }
}

/// A wait that ends.
#[derive(Debug)]
struct Wait {
    yields: bool,
    tries: u32,
    since: Option<Instant>,
}

impl Wait {
    fn new(yields: bool) -> Wait {
        Wait { yields, tries: 0, since: None }
    }

    /// An error unless it says that there is nothing yet.
    fn after(&mut self, error: &std::io::Error) -> Result<()> {
        match error.kind() {
            ErrorKind::WouldBlock | ErrorKind::Interrupted => {}
            _ => bail!("the plain connection: {error}"),
        }
        self.tries = self.tries.wrapping_add(1);
        let is_time = self.tries.is_multiple_of(TRIES_PER_LOOK);
        if self.yields || is_time {
            rustix::thread::sched_yield();
        }
        if is_time {
            let since = *self.since.get_or_insert_with(Instant::now);
            ensure!(since.elapsed() < PATIENCE, "nothing comes over the plain connection");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair() -> [Raw; 2] {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let to = listener.local_addr().expect("bound");
        let first = TcpStream::connect(to).expect("connected");
        let (second, _) = listener.accept().expect("accepted");
        [first, second].map(|socket| Raw::new(socket, true).expect("settings"))
    }

    #[test]
    fn both_sides_of_a_plain_connection_agree() {
        let [mut first, mut second] = pair();
        let other = std::thread::spawn(move || {
            second.pong(100_000, 3).expect("answers");
            second.drain(70 * 8, 2).expect("windows");
            second.drain(3 * (2 << 20), 1).expect("more than one read");
        });
        let mut samples = Samples::new();
        first.ping(100_000, 3, &mut samples).expect("to and fro");
        let small = RawStream { size: 8, window: 70, per_write: 64 };
        first.pour(small, 2, &mut samples).expect("small ones");
        let large = RawStream { size: 2 << 20, window: 3, per_write: 1 };
        first.pour(large, 1, &mut samples).expect("large ones");
        other.join().expect("the other side");
        assert_eq!(samples.count(), 6);
    }

    #[test]
    fn the_end_of_a_plain_connection_is_an_error() {
        let [mut first, second] = pair();
        drop(second);
        let error = first.ping(8, 1, &mut Samples::new()).expect_err("nobody answers");
        assert!(error.to_string().contains("plain connection"), "{error}");
    }
}
