//! PMI-1: one line of `key=value` words to the process manager, one line back, over a socket that
//! it opened for us and whose number is in `PMI_FD`.
//!
//! An exchange puts this rank's bytes into the manager's key-value space, waits at its barrier and
//! gets everybody's. Values there are short words, so bytes go as hexadecimal digits, in as many
//! parts as they need: part 0 is `<length in bytes>.<digits>`, the others are digits.
//!
//! Invariants: a key is never used twice, for it holds the number of the exchange and the part. A
//! command never exceeds [`LINE_MAX`] bytes nor a value the manager's own limit. At most one
//! command waits for its answer.

use std::io;
use std::os::fd::{AsFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use rustix::event::{PollFd, PollFlags};
use rustix::net::{RecvFlags, SendFlags, Shutdown};

use super::BLOB_MAX;
use super::error::{JobError, shown};
use super::wait::Waits;

const MANAGER: &str = "the process manager";
/// The longest command: what managers have always accepted.
const LINE_MAX: usize = 1023;
/// The longest answer we take.
const ANSWER_MAX: usize = 64 << 10;
/// The shortest value, in bytes, that is worth splitting into.
const VALUE_MIN: usize = 32;

pub(super) struct Pmi1 {
    socket: OwnedFd,
    inbox: Vec<u8>,
    waits: Waits,
    rank: u32,
    size: u32,
    space: String,
    /// The most digits in one value.
    value_max: usize,
    exchanges: u32,
}

impl Pmi1 {
    /// Takes the socket that the process manager left open as `number`. Works once per process.
    pub fn take(number: i32, rank: u32, size: u32, waits: Waits) -> Result<Pmi1, JobError> {
        static TAKEN: AtomicBool = AtomicBool::new(false);
        if TAKEN.swap(true, Ordering::Relaxed) {
            return Err(JobError::AlreadyTaken);
        }
        let socket = copy_of(number)
            .map_err(|cause| JobError::Io { doing: format!("taking PMI_FD={number}"), cause })?;
        Pmi1::greet(socket, rank, size, waits)
    }

    /// Agrees with the manager at the other end of `socket` on version and limits.
    pub(super) fn greet(
        socket: OwnedFd,
        rank: u32,
        size: u32,
        waits: Waits,
    ) -> Result<Pmi1, JobError> {
        let mut pmi = Pmi1 {
            socket,
            inbox: Vec::new(),
            waits,
            rank,
            size,
            space: String::new(),
            value_max: 0,
            exchanges: 0,
        };
        let answer = pmi.ask("cmd=init pmi_version=1 pmi_subversion=1", "response_to_init")?;
        if answer.number("pmi_version")? != 1 {
            return Err(answer.malformed());
        }
        let answer = pmi.ask("cmd=get_maxes", "maxes")?;
        let key_max = answer.number("keylen_max")?;
        let value_max = answer.number("vallen_max")?;
        let answer = pmi.ask("cmd=get_my_kvsname", "my_kvsname")?;
        pmi.space = answer.word("kvsname")?.to_owned();

        // The longest key and the longest command around a value. A limit may or may not count
        // the terminating zero.
        let key = pmi.key(u32::MAX, size - 1, BLOB_MAX);
        let around = pmi.put_command(&key, "").len();
        pmi.value_max = value_max.saturating_sub(1).min(LINE_MAX.saturating_sub(around));
        if key.len() >= key_max || pmi.value_max < VALUE_MIN {
            return Err(JobError::Refused {
                by: MANAGER.into(),
                what: format!("keys of {} and values of {VALUE_MIN} characters", key.len()),
                why: format!(
                    "its limits are {key_max} and {value_max}; use one with keys of 64 or more"
                ),
            });
        }
        Ok(pmi)
    }

    pub fn exchange(&mut self, mine: &[u8]) -> Result<Vec<Vec<u8>>, JobError> {
        let exchange = self.exchanges;
        self.exchanges += 1;
        for (part, value) in parts(mine, self.value_max).iter().enumerate() {
            let put = self.put_command(&self.key(exchange, self.rank, part), value);
            self.ask(&put, "put_result")?;
        }
        self.barrier()?;
        (0..self.size)
            .map(|rank| match rank == self.rank {
                true => Ok(mine.to_vec()),
                false => self.fetch(exchange, rank),
            })
            .collect()
    }

    pub fn barrier(&mut self) -> Result<(), JobError> {
        self.ask("cmd=barrier_in", "barrier_out").map(drop)
    }

    pub fn finish(&mut self) -> Result<(), JobError> {
        self.ask("cmd=finalize", "finalize_ack")?;
        // The manager is done with us; that it may have hung up first is no error.
        let _ = rustix::net::shutdown(&self.socket, Shutdown::Both);
        Ok(())
    }

    /// The manager answers by ending every rank, this one included.
    pub fn abort(&mut self, code: i32) {
        // Whoever gives up has no use for a second error.
        let _ = self.send(&format!("cmd=abort exitcode={code}"));
    }

    /// What `rank` put in this exchange, part by part.
    fn fetch(&mut self, exchange: u32, rank: u32) -> Result<Vec<u8>, JobError> {
        let mut theirs = Vec::new();
        let mut len = None;
        for part in 0.. {
            let key = self.key(exchange, rank, part);
            let answer =
                self.ask(&format!("cmd=get kvsname={} key={key}", self.space), "get_result")?;
            let mut digits = answer.word("value")?;
            let len = match len {
                Some(len) => len,
                None => {
                    let (first, rest) = digits.split_once('.').ok_or_else(|| answer.malformed())?;
                    digits = rest;
                    let first = first.parse().map_err(|_| answer.malformed())?;
                    *len.insert(first)
                }
            };
            let bytes = from_hex(digits).ok_or_else(|| answer.malformed())?;
            let stuck = bytes.is_empty() && len > 0;
            theirs.extend(bytes);
            if stuck || len > BLOB_MAX || theirs.len() > len {
                return Err(answer.malformed());
            }
            if theirs.len() == len {
                break;
            }
        }
        Ok(theirs)
    }

    fn key(&self, exchange: u32, rank: u32, part: usize) -> String {
        format!("sluice-{exchange}-{rank}-{part}")
    }

    fn put_command(&self, key: &str, value: &str) -> String {
        format!("cmd=put kvsname={} key={key} value={value}", self.space)
    }

    /// Sends a command, and returns its answer, which has to be an `expected`.
    fn ask(&mut self, command: &str, expected: &'static str) -> Result<Answer, JobError> {
        self.send(command)?;
        let answer = Answer { asked: name_of(command).into(), line: self.line(command)? };
        if answer.word("cmd")? != expected {
            return Err(answer.malformed());
        }
        match answer.find("rc") {
            None | Some("0") => Ok(answer),
            Some(code) => Err(JobError::Refused {
                by: MANAGER.into(),
                what: answer.asked.clone(),
                why: format!(
                    "its code is {} ({}); see its output",
                    shown(code.as_bytes()),
                    shown(answer.find("msg").unwrap_or("no reason given").as_bytes())
                ),
            }),
        }
    }

    fn send(&mut self, command: &str) -> Result<(), JobError> {
        let until = Instant::now() + self.waits.timeout;
        let line = format!("{command}\n");
        let mut left = line.as_bytes();
        while !left.is_empty() {
            self.ready(PollFlags::OUT, until, command)?;
            match rustix::net::send(&self.socket, left, SendFlags::NOSIGNAL | SendFlags::DONTWAIT) {
                Ok(sent) => left = &left[sent..],
                Err(error) => self.pass_over(error, command)?,
            }
        }
        Ok(())
    }

    /// The next line, without its end.
    fn line(&mut self, command: &str) -> Result<String, JobError> {
        let until = Instant::now() + self.waits.timeout;
        let mut searched = 0;
        loop {
            if let Some(end) = self.inbox[searched..].iter().position(|&byte| byte == b'\n') {
                let line: Vec<u8> = self.inbox.drain(..=searched + end).collect();
                return String::from_utf8(line[..line.len() - 1].to_vec())
                    .map_err(|_| malformed(name_of(command), &line));
            }
            searched = self.inbox.len();
            if searched > ANSWER_MAX {
                return Err(malformed(name_of(command), &self.inbox));
            }
            self.ready(PollFlags::IN, until, command)?;
            let mut chunk = [0; 4096];
            match rustix::net::recv(&self.socket, &mut chunk, RecvFlags::DONTWAIT) {
                Ok((0, _)) => return Err(closed(command)),
                Ok((_, len)) => self.inbox.extend(&chunk[..len.min(chunk.len())]),
                Err(error) => self.pass_over(error, command)?,
            }
        }
    }

    fn ready(&self, flags: PollFlags, until: Instant, command: &str) -> Result<(), JobError> {
        let mut fds = [PollFd::from_borrowed_fd(self.socket.as_fd(), flags)];
        match self.waits.until_ready(&mut fds, until) {
            Ok(true) => Ok(()),
            Ok(false) => Err(JobError::Late {
                whom: match name_of(command) {
                    "barrier_in" => format!("{MANAGER}, or a rank that it waits for,"),
                    _ => MANAGER.into(),
                },
                during: name_of(command).into(),
                waited_s: self.waits.timeout.as_secs(),
            }),
            Err(cause) => Err(io_error(command, cause)),
        }
    }

    fn pass_over(&self, error: rustix::io::Errno, command: &str) -> Result<(), JobError> {
        use rustix::io::Errno;
        match error {
            Errno::INTR | Errno::AGAIN => Ok(()),
            Errno::PIPE | Errno::CONNRESET => Err(closed(command)),
            other => Err(io_error(command, other.into())),
        }
    }
}

/// One line of the manager's.
struct Answer {
    asked: String,
    line: String,
}

impl Answer {
    fn find(&self, key: &str) -> Option<&str> {
        self.line
            .split(' ')
            .filter_map(|word| word.split_once('='))
            .find_map(|(name, value)| (name == key).then_some(value))
    }

    /// A value that has to be there.
    fn word(&self, key: &str) -> Result<&str, JobError> {
        self.find(key).filter(|word| !word.is_empty()).ok_or_else(|| self.malformed())
    }

    fn number(&self, key: &str) -> Result<usize, JobError> {
        self.word(key)?.parse().map_err(|_| self.malformed())
    }

    fn malformed(&self) -> JobError {
        malformed(&self.asked, self.line.as_bytes())
    }
}

/// `bytes` as values of at most `value_max` characters.
fn parts(bytes: &[u8], value_max: usize) -> Vec<String> {
    let head = format!("{}.", bytes.len());
    let (first, rest) = bytes.split_at(bytes.len().min((value_max - head.len()) / 2));
    let mut parts = vec![head + &to_hex(first)];
    parts.extend(rest.chunks(value_max / 2).map(to_hex));
    parts
}

fn to_hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    bytes
        .iter()
        .flat_map(|byte| [byte >> 4, byte & 15])
        .map(|digit| char::from(DIGITS[usize::from(digit)]))
        .collect()
}

fn from_hex(digits: &str) -> Option<Vec<u8>> {
    let value = |digit: u8| char::from(digit).to_digit(16).and_then(|v| u8::try_from(v).ok());
    let (pairs, rest) = digits.as_bytes().as_chunks::<2>();
    if !rest.is_empty() {
        return None;
    }
    pairs.iter().map(|[high, low]| Some(value(*high)? << 4 | value(*low)?)).collect()
}

/// `put` of `cmd=put kvsname=...`.
fn name_of(command: &str) -> &str {
    command.trim_start_matches("cmd=").split(' ').next().unwrap_or(command)
}

fn closed(command: &str) -> JobError {
    JobError::Closed { launcher: MANAGER, during: name_of(command).into() }
}

fn malformed(asked: &str, line: &[u8]) -> JobError {
    JobError::Malformed { from: MANAGER.into(), during: asked.into(), answer: shown(line) }
}

fn io_error(command: &str, cause: io::Error) -> JobError {
    JobError::Io { doing: format!("{} over PMI_FD", name_of(command)), cause }
}

/// A descriptor of our own for the socket that is open as `number`. The inherited one stays, for
/// others may know its number too, but no longer passes to programs that this process starts.
fn copy_of(number: i32) -> io::Result<OwnedFd> {
    // SAFETY: fcntl with F_DUPFD_CLOEXEC takes integers only and touches no memory; a number that
    // is not open is answered with EBADF.
    let copy = unsafe { libc::fcntl(number, libc::F_DUPFD_CLOEXEC, 3) };
    if copy < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just made `copy` for this call, so it is open, nobody else knows it,
    // and nobody else closes it.
    let copy = unsafe { OwnedFd::from_raw_fd(copy) };
    // SAFETY: F_SETFD takes integers only and touches no memory. It changes whether the number
    // survives exec, which ends no use of it in this process.
    if unsafe { libc::fcntl(number, libc::F_SETFD, libc::FD_CLOEXEC) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(copy)
}

#[cfg(test)]
mod tests;
