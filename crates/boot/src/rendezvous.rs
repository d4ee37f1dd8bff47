//! A job without a launcher: the ranks meet at rank 0, which listens where `SLUICE_JOB` says.
//!
//! All that crosses is frames (`conn.rs`). To join (`join.rs`), a rank and rank 0 prove to each
//! other that they hold the job's secret (`auth.rs`):
//!
//! | from | frame | carries |
//! |---|---|---|
//! | rank | HELLO | magic with version, the first message of a Noise handshake: rank and size |
//! | rank 0 | CHALLENGE | the second message; or REFUSED and the reason |
//! | rank | PROOF | nothing, sealed, as is all that follows |
//! | rank 0 | WELCOME | nothing; or REFUSED and the reason |
//! | rank 0 | START | nothing: everybody has joined |
//!
//! After that a rank sends BLOB or BARRIER, and rank 0 answers with everybody's BLOB, or BARRIER,
//! or FAILED and the rank that is to blame. BYE takes a rank out, and a rank's own FAILED aborts
//! the job. Who cannot prove the secret is told nothing that depends on it. What ranks send after
//! joining nobody else can read or change. A secret that can be guessed keeps nobody out who
//! listens where the ranks look for rank 0: he has their first words to try guesses on.

pub(super) mod auth;
mod blame;
mod conn;
mod join;
mod root;

use std::io;
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::thread;
use std::time::{Duration, Instant};

use super::BLOB_MAX;
use super::env::Meeting;
use super::error::JobError;
use super::wait::Waits;
use auth::{Claim, Reason};
use blame::{blame, out_of_turn};
use conn::{Conn, Fault, Frame, Tag, frame};
use root::Root;

/// How long one handshake may take, of the time that joining may.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// Between two attempts to reach rank 0.
const RETRY: Duration = Duration::from_millis(50);

pub(super) enum Rendezvous {
    Root(Root),
    Member(Member),
}

impl Rendezvous {
    pub fn start(meeting: &Meeting, waits: Waits) -> Result<Rendezvous, JobError> {
        if meeting.rank == 0 {
            Ok(Rendezvous::Root(Root::start(meeting, waits)?))
        } else {
            Ok(Rendezvous::Member(Member::start(meeting, waits)?))
        }
    }

    pub fn exchange(&mut self, mine: &[u8]) -> Result<Vec<Vec<u8>>, JobError> {
        match self {
            Rendezvous::Root(root) => root.exchange(mine),
            Rendezvous::Member(member) => member.call(Tag::Blob, mine, member.size),
        }
    }

    pub fn barrier(&mut self) -> Result<(), JobError> {
        match self {
            Rendezvous::Root(root) => root.barrier(),
            Rendezvous::Member(member) => member.call(Tag::Barrier, &[], 1).map(drop),
        }
    }

    /// Rank 0 has nobody to tell: whoever calls again finds it gone.
    pub fn finish(&mut self) {
        if let Rendezvous::Member(member) = self {
            member.leave(&frame(Tag::Bye, &[]));
        }
    }

    pub fn abort(&mut self, code: i32, why: &str) {
        match self {
            Rendezvous::Root(root) => {
                root.tell(&JobError::Aborted { rank: 0, code, why: why.into() })
            }
            Rendezvous::Member(member) => {
                let error = JobError::Aborted { rank: member.rank, code, why: why.into() };
                member.leave(&frame(Tag::Failed, &conn::told(&error)));
            }
        }
    }
}

/// A rank other than 0.
pub(super) struct Member {
    conn: Conn,
    rank: u32,
    size: u32,
    waits: Waits,
}

/// Why one attempt to join came to nothing.
enum Attempt {
    /// Worth another: rank 0 may not be up yet, or somebody was in the way.
    Again(String),
    Over(JobError),
}

impl Member {
    fn start(meeting: &Meeting, waits: Waits) -> Result<Member, JobError> {
        let until = Instant::now() + waits.timeout;
        loop {
            let last = match Member::attempt(meeting, waits, until) {
                Ok(mut member) => {
                    let wait = patience(waits.timeout);
                    member.expect(Tag::Start, "joining", Instant::now() + wait)?;
                    return Ok(member);
                }
                Err(Attempt::Over(error)) => return Err(error),
                Err(Attempt::Again(last)) => last,
            };
            if Instant::now() + RETRY >= until {
                return Err(JobError::Unreachable {
                    rank: meeting.rank,
                    at: meeting.at.clone(),
                    waited_s: waits.timeout.as_secs(),
                    last,
                });
            }
            thread::sleep(RETRY);
        }
    }

    fn attempt(meeting: &Meeting, waits: Waits, until: Instant) -> Result<Member, Attempt> {
        let until = until.min(Instant::now() + HANDSHAKE);
        let stream = connect(&meeting.at, until).map_err(|e| Attempt::Again(e.to_string()))?;
        let mut conn = Conn::new(stream, waits).map_err(|e| Attempt::Again(e.to_string()))?;
        greet(&mut conn, meeting, until)?;
        Ok(Member { conn, rank: meeting.rank, size: meeting.size, waits })
    }

    /// Sends one frame, and returns the bodies of `count` answers of the same kind.
    fn call(&mut self, tag: Tag, mine: &[u8], count: u32) -> Result<Vec<Vec<u8>>, JobError> {
        let during = tag.during();
        let until = Instant::now() + patience(self.waits.timeout);
        if let Err(fault) = self.conn.send(&frame(tag, mine), until) {
            // Rank 0 may have said why before it hung up.
            return Err(match self.conn.recv(BLOB_MAX, until) {
                Ok(last) if last.tag == Tag::Failed => conn::heard(&last.body, during),
                _ => blame(0, during, &fault),
            });
        }
        (0..count).map(|_| self.expect(tag, during, until)).collect()
    }

    fn expect(
        &mut self,
        tag: Tag,
        during: &'static str,
        until: Instant,
    ) -> Result<Vec<u8>, JobError> {
        match self.conn.recv(BLOB_MAX, until) {
            Ok(frame) if frame.tag == tag => Ok(frame.body),
            Ok(frame) if frame.tag == Tag::Failed => Err(conn::heard(&frame.body, during)),
            Ok(frame) => Err(out_of_turn(0, during, frame.tag)),
            Err(Fault::Late) => Err(JobError::Late {
                whom: "rank 0, or a rank it waits for,".into(),
                during: during.into(),
                waited_s: self.waits.timeout.as_secs(),
            }),
            Err(fault) => Err(blame(0, during, &fault)),
        }
    }

    /// Says a last word. That nobody may hear it is no error.
    fn leave(&mut self, word: &[u8]) {
        let _ = self.conn.send(word, Instant::now() + Duration::from_secs(1));
    }
}

/// How long a member waits. Rank 0 waits less, so that it is the one to find out who is missing.
fn patience(timeout: Duration) -> Duration {
    timeout + timeout / 4
}

fn connect(at: &str, until: Instant) -> io::Result<TcpStream> {
    let mut last = io::Error::other("the name has no address");
    for address in addresses(at)? {
        let left = until.saturating_duration_since(Instant::now()).max(RETRY);
        match TcpStream::connect_timeout(&address, left) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn addresses(at: &str) -> io::Result<Vec<SocketAddr>> {
    Ok(at.to_socket_addrs()?.collect())
}

/// A member's side of the handshake.
fn greet(conn: &mut Conn, meeting: &Meeting, until: Instant) -> Result<(), Attempt> {
    let again = |fault: Fault| Attempt::Again(format!("in the handshake {fault}"));
    let strange = || Attempt::Again("who listens there is no rank 0 of a Sluice job".into());
    let claim = Claim { rank: meeting.rank, size: meeting.size };
    let (asking, hello) =
        auth::ask(&meeting.key, claim).map_err(|e| Attempt::Again(e.to_string()))?;
    conn.send(&frame(Tag::Hello, &hello), until).map_err(again)?;

    let Frame { tag, body } = conn.recv(auth::BODY_MAX, until).map_err(again)?;
    match tag {
        Tag::Challenge => {}
        Tag::Refused => return Err(refused(&body, meeting)),
        _ => return Err(strange()),
    }
    match asking.answered(&body) {
        Some(keys) => conn.seal(keys),
        None => return Err(refused(&[Reason::WrongKey as u8], meeting)),
    }
    conn.send(&frame(Tag::Proof, &[]), until).map_err(again)?;

    let Frame { tag, body } = conn.recv(auth::BODY_MAX, until).map_err(again)?;
    match tag {
        Tag::Welcome => Ok(()),
        Tag::Refused => Err(refused(&body, meeting)),
        _ => Err(strange()),
    }
}

/// What rank 0's refusal means for this rank.
fn refused(body: &[u8], meeting: &Meeting) -> Attempt {
    let Some(reason) = body.first().and_then(|&code| Reason::parse(code)) else {
        return Attempt::Again("a refusal without a reason".into());
    };
    let (rank, size) = (meeting.rank, meeting.size);
    let why = match reason {
        Reason::Version => {
            "it runs another version of this library; start every rank with the same one".into()
        }
        Reason::WrongKey => {
            "its SLUICE_JOB_KEY is another one; set the same secret for every rank".into()
        }
        Reason::WrongSize => format!(
            "its job has another size than {size}; set the same SLUICE_JOB_SIZE for every rank"
        ),
        Reason::UnknownRank => {
            format!("its job has no further rank {rank}; number the ranks from 0")
        }
        Reason::DuplicateRank => format!(
            "a rank {rank} has joined already; give each process a SLUICE_JOB_RANK of its own"
        ),
    };
    Attempt::Over(JobError::Refused {
        by: format!("rank 0 at {}", meeting.at),
        what: format!("rank {rank} of {size}"),
        why,
    })
}

#[cfg(test)]
mod tests;
