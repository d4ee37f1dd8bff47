//! Frames over one connection, never waiting longer than told.
//!
//! A frame is the length of its body (32 bits, little-endian), one byte that says what it is, and
//! the body. Once both sides are proven, frames travel in sealed records: the length of the
//! sealed text (16 bits, little-endian), and the text, of which a frame may need several.
//!
//! Invariant: no more is read than the frame or the record at hand needs, and never more than the
//! greatest length of that, and memory is taken for what has come, not for what is announced. So
//! a stranger cannot make us hold more than that.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Instant;

use rustix::event::{PollFd, PollFlags};
use snow::TransportState;

use super::super::error::{JobError, shown};
use super::super::wait::Waits;
use super::auth::TAG_LEN;

const HEAD_LEN: usize = 5;
/// The length of a record.
const LEN_LEN: usize = 2;
/// The longest sealed text, which is Noise's.
const SEALED_MAX: usize = 65_535;
const OPEN_MAX: usize = SEALED_MAX - TAG_LEN;
/// The most of a reason that is told.
const WHY_MAX: usize = 100;

/// What a frame is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tag {
    Hello = 1,
    Challenge = 2,
    Proof = 3,
    Welcome = 4,
    Refused = 5,
    Start = 6,
    Blob = 7,
    Barrier = 8,
    Failed = 9,
    Bye = 10,
}

impl Tag {
    const ALL: [(Tag, &'static str); 10] = [
        (Tag::Hello, "HELLO"),
        (Tag::Challenge, "CHALLENGE"),
        (Tag::Proof, "PROOF"),
        (Tag::Welcome, "WELCOME"),
        (Tag::Refused, "REFUSED"),
        (Tag::Start, "START"),
        (Tag::Blob, "BLOB"),
        (Tag::Barrier, "BARRIER"),
        (Tag::Failed, "FAILED"),
        (Tag::Bye, "BYE"),
    ];

    pub fn name(self) -> &'static str {
        Tag::ALL.iter().find(|entry| entry.0 == self).map_or("nothing", |entry| entry.1)
    }

    /// The call that sends it.
    pub fn during(self) -> &'static str {
        if self == Tag::Barrier { "a barrier" } else { "an exchange" }
    }
}

#[derive(Debug)]
pub(super) struct Frame {
    pub tag: Tag,
    pub body: Vec<u8>,
}

/// What went wrong with a connection.
#[derive(Debug, thiserror::Error)]
pub(super) enum Fault {
    #[error("its connection closed")]
    Closed,
    #[error("it was silent for too long")]
    Late,
    #[error("it sent a frame of {len} bytes where {max} is the most")]
    TooLong { len: usize, max: usize },
    #[error("it sent a frame of unknown kind {0}")]
    Unknown(u8),
    #[error("it sent what the job's secret does not open")]
    Forged,
    #[error("its connection failed: {0}")]
    Io(io::Error),
}

impl From<io::Error> for Fault {
    fn from(error: io::Error) -> Fault {
        use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset};
        match error.kind() {
            BrokenPipe | ConnectionAborted | ConnectionReset => Fault::Closed,
            _ => Fault::Io(error),
        }
    }
}

pub(super) struct Conn {
    stream: TcpStream,
    waits: Waits,
    /// What has come of a frame.
    inbox: Vec<u8>,
    seal: Option<Box<Seal>>,
    /// Something was sent in part and given up.
    is_cut: bool,
}

/// What the frames of a connection are sealed with.
struct Seal {
    keys: TransportState,
    /// What has come of a record.
    inbox: Vec<u8>,
    /// A record on its way, how much of it has gone, and how much it says.
    outbox: Vec<u8>,
    gone: usize,
    says: usize,
}

impl AsFd for Conn {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

impl Conn {
    pub fn new(stream: TcpStream, waits: Waits) -> io::Result<Conn> {
        stream.set_nonblocking(true)?;
        stream.set_nodelay(true)?;
        Ok(Conn { stream, waits, inbox: Vec::new(), seal: None, is_cut: false })
    }

    /// All frames are sealed from here on.
    pub fn seal(&mut self, keys: TransportState) {
        let (inbox, outbox) = (Vec::new(), Vec::new());
        self.seal = Some(Box::new(Seal { keys, inbox, outbox, gone: 0, says: 0 }));
    }

    /// The next frame, if all of it is here.
    pub fn try_recv(&mut self, body_max: usize) -> Result<Option<Frame>, Fault> {
        loop {
            let mut missing = HEAD_LEN.saturating_sub(self.inbox.len());
            if let Some((head, body)) = self.inbox.split_first_chunk::<HEAD_LEN>() {
                let [a, b, c, d, code] = *head;
                let len = u32::from_le_bytes([a, b, c, d]) as usize;
                if len > body_max {
                    return Err(Fault::TooLong { len, max: body_max });
                }
                let tag = Tag::ALL.iter().find(|entry| entry.0 as u8 == code);
                let tag = tag.ok_or(Fault::Unknown(code))?.0;
                missing = len.saturating_sub(body.len());
                if missing == 0 {
                    let body = body[..len].to_vec();
                    self.inbox.drain(..HEAD_LEN + len);
                    return Ok(Some(Frame { tag, body }));
                }
            }
            let is_more = match &mut self.seal {
                None => read_some(&mut self.stream, missing, &mut self.inbox)?,
                Some(seal) => {
                    let max = (HEAD_LEN + body_max + TAG_LEN).min(SEALED_MAX);
                    seal.open_some(&mut self.stream, max, &mut self.inbox)?
                }
            };
            if !is_more {
                return Ok(None);
            }
        }
    }

    /// Waits for the next frame.
    pub fn recv(&mut self, body_max: usize, until: Instant) -> Result<Frame, Fault> {
        loop {
            if let Some(frame) = self.try_recv(body_max)? {
                return Ok(frame);
            }
            self.ready(PollFlags::IN, until)?;
        }
    }

    /// Sends what the other side takes now, and returns how much that was. Whoever has begun to
    /// send something goes on with its rest, and with nothing else.
    pub fn try_send(&mut self, bytes: &[u8]) -> Result<usize, Fault> {
        if self.is_cut {
            return Err(Fault::Late);
        }
        let Some(seal) = &mut self.seal else { return write_some(&mut self.stream, bytes) };
        let mut sent = 0;
        while sent < bytes.len() {
            seal.close_some(&bytes[sent..]);
            seal.gone += write_some(&mut self.stream, &seal.outbox[seal.gone..])?;
            if seal.gone < seal.outbox.len() {
                break;
            }
            sent += std::mem::take(&mut seal.says);
        }
        Ok(sent)
    }

    /// Sends all of it. If that fails nothing else can be sent: the other side would take it
    /// for the rest.
    pub fn send(&mut self, bytes: &[u8], until: Instant) -> Result<(), Fault> {
        let sent = self.send_whole(bytes, until);
        self.is_cut |= sent.is_err();
        sent
    }

    fn send_whole(&mut self, bytes: &[u8], until: Instant) -> Result<(), Fault> {
        let mut left = bytes;
        loop {
            left = &left[self.try_send(left)?..];
            if left.is_empty() {
                return Ok(());
            }
            self.ready(PollFlags::OUT, until)?;
        }
    }

    fn ready(&self, flags: PollFlags, until: Instant) -> Result<(), Fault> {
        let ready = self.waits.until_ready(&mut [PollFd::new(self, flags)], until)?;
        if ready { Ok(()) } else { Err(Fault::Late) }
    }
}

impl Seal {
    /// Takes in what has come of a record, and adds what it says to `opened` once all of it is
    /// here. Says whether there may be more.
    fn open_some(
        &mut self,
        stream: &mut TcpStream,
        sealed_max: usize,
        opened: &mut Vec<u8>,
    ) -> Result<bool, Fault> {
        let Some((len, text)) = self.inbox.split_first_chunk::<LEN_LEN>() else {
            return read_some(stream, LEN_LEN - self.inbox.len(), &mut self.inbox);
        };
        let len = usize::from(u16::from_le_bytes(*len));
        if len > sealed_max {
            return Err(Fault::TooLong { len, max: sealed_max });
        }
        if text.len() < len {
            return read_some(stream, len - text.len(), &mut self.inbox);
        }
        let begin = opened.len();
        opened.resize(begin + len, 0);
        let says = self.keys.read_message(text, &mut opened[begin..]).map_err(|_| Fault::Forged)?;
        opened.truncate(begin + says);
        self.inbox.clear();
        Ok(true)
    }

    /// Makes a record of the first of `bytes`, unless one is on its way.
    fn close_some(&mut self, bytes: &[u8]) {
        if self.says > 0 {
            return;
        }
        self.says = bytes.len().min(OPEN_MAX);
        self.gone = 0;
        self.outbox.resize(LEN_LEN + self.says + TAG_LEN, 0);
        let (len, text) = self.outbox.split_at_mut(LEN_LEN);
        let sealed = self.keys.write_message(&bytes[..self.says], text);
        assert_eq!(sealed.ok(), Some(text.len()), "a record fits its place");
        let sealed = u16::try_from(text.len()).expect("no longer than Noise allows");
        len.copy_from_slice(&sealed.to_le_bytes());
    }
}

/// Adds what has come to `inbox`, at most `missing` bytes. Says whether there was any.
fn read_some(stream: &mut TcpStream, missing: usize, inbox: &mut Vec<u8>) -> Result<bool, Fault> {
    let mut chunk = [0; 16 << 10];
    let room = missing.min(chunk.len());
    loop {
        match stream.read(&mut chunk[..room]) {
            Ok(0) => return Err(Fault::Closed),
            Ok(len) => {
                inbox.extend(&chunk[..len]);
                return Ok(true);
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Gives the system what it takes of `bytes`, and says how much that was.
fn write_some(stream: &mut TcpStream, bytes: &[u8]) -> Result<usize, Fault> {
    let mut sent = 0;
    while sent < bytes.len() {
        match stream.write(&bytes[sent..]) {
            Ok(len) => sent += len,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(sent)
}

/// A frame as it crosses.
pub(super) fn frame(tag: Tag, body: &[u8]) -> Vec<u8> {
    let len = u32::try_from(body.len()).expect("a body of at most BLOB_MAX");
    let mut bytes = Vec::with_capacity(HEAD_LEN + body.len());
    bytes.extend(len.to_le_bytes());
    bytes.push(tag as u8);
    bytes.extend(body);
    bytes
}

/// The body of FAILED that tells `error` to the others: the rank, whether it aborted the job, the
/// exit code, both numbers little-endian, and the reason as text.
pub(super) fn told(error: &JobError) -> Vec<u8> {
    let (rank, aborted, code, why) = match error {
        JobError::RankFailed { rank, why, .. } => (*rank, 0, 0, why.clone()),
        JobError::Aborted { rank, code, why } => (*rank, 1, *code, why.clone()),
        other => (0, 0, 0, other.to_string()),
    };
    let mut body = rank.to_le_bytes().to_vec();
    body.push(aborted);
    body.extend(code.to_le_bytes());
    body.extend(shown(why.as_bytes()).chars().take(WHY_MAX).collect::<String>().bytes());
    body
}

/// The error that a FAILED frame tells.
pub(super) fn heard(body: &[u8], during: &str) -> JobError {
    let parse = || {
        let (rank, rest) = body.split_first_chunk()?;
        let (aborted, rest) = rest.split_first()?;
        let (code, why) = rest.split_first_chunk()?;
        Some((u32::from_le_bytes(*rank), *aborted, i32::from_le_bytes(*code), shown(why)))
    };
    let during = during.to_owned();
    match parse() {
        Some((rank, 0, _, why)) => JobError::RankFailed { rank, during, why },
        Some((rank, _, code, why)) => JobError::Aborted { rank, code, why },
        None => JobError::RankFailed { rank: 0, during, why: "it failed without a reason".into() },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    /// More than anything that has come, and less than what is announced.
    const TAKEN_MAX: usize = 4096;

    fn pair() -> (Conn, TcpStream) {
        let at = TcpListener::bind("127.0.0.1:0").unwrap();
        let there = TcpStream::connect(at.local_addr().unwrap()).unwrap();
        let waits = Waits { timeout: std::time::Duration::from_secs(60), poll: None };
        (Conn::new(at.accept().unwrap().0, waits).unwrap(), there)
    }

    /// Both ends of a handshake that nobody else has seen.
    fn keys() -> TransportState {
        let builder = || snow::Builder::new("Noise_NN_25519_ChaChaPoly_BLAKE2s".parse().unwrap());
        let mut ends = [builder().build_initiator().unwrap(), builder().build_responder().unwrap()];
        let (mut said, mut heard) = ([0; 200], [0; 200]);
        for from in [0, 1] {
            let len = ends[from].write_message(&[], &mut said).unwrap();
            ends[1 - from].read_message(&said[..len], &mut heard).unwrap();
        }
        let [_, there] = ends;
        there.into_transport_mode().unwrap()
    }

    /// Until what was written has come.
    fn comes(conn: &mut Conn, max: usize, what: impl Fn(&Conn) -> usize, bytes: usize) {
        while what(conn) < bytes {
            conn.ready(PollFlags::IN, Instant::now() + conn.waits.timeout).unwrap();
            assert!(conn.try_recv(max).unwrap().is_none());
        }
    }

    #[test]
    fn no_memory_is_taken_for_what_is_announced() {
        const MAX: usize = 16 << 20;
        let (mut conn, mut there) = pair();
        let head = [&(MAX as u32).to_le_bytes()[..], &[Tag::Blob as u8], &[7; 100]].concat();
        there.write_all(&head).unwrap();
        comes(&mut conn, MAX, |conn| conn.inbox.len(), head.len());
        assert!(conn.inbox.capacity() <= TAKEN_MAX, "{} bytes", conn.inbox.capacity());

        let (mut conn, mut there) = pair();
        conn.seal(keys());
        let head = [&(SEALED_MAX as u16).to_le_bytes()[..], &[7; 100]].concat();
        there.write_all(&head).unwrap();
        let kept = |conn: &Conn| conn.seal.as_ref().unwrap().inbox.len();
        comes(&mut conn, MAX, kept, head.len());
        let seal = conn.seal.as_ref().unwrap();
        let taken = seal.inbox.capacity() + conn.inbox.capacity();
        assert!(taken <= TAKEN_MAX, "{taken} bytes");
    }

    #[test]
    fn a_record_that_is_longer_than_the_longest_frame_is_refused_at_once() {
        const MAX: usize = 100;
        let (mut conn, mut there) = pair();
        conn.seal(keys());
        there.write_all(&((HEAD_LEN + MAX + TAG_LEN + 1) as u16).to_le_bytes()).unwrap();
        let fault = conn.recv(MAX, Instant::now() + conn.waits.timeout).unwrap_err();
        assert!(matches!(fault, Fault::TooLong { len: 122, max: 121 }), "{fault}");
    }
}
