//! Rank 0's door: who connects is asked for a proof, and seated, refused or dropped.
//!
//! Invariants: one poll waits for the listener, the seated and everybody in the handshake, so that
//! nobody holds up anybody. A handshake has an end, and the number of them a bound: beyond it, the
//! oldest goes, for a rank is through in no time and tries again if it was not. Only who has proven
//! the secret gets a seat, or can spoil the job. The door closes when everybody is in.

use std::collections::VecDeque;
use std::io;
use std::net::TcpListener;
use std::time::Instant;

use rustix::event::{PollFd, PollFlags};

use super::super::env::Meeting;
use super::super::error::{JobError, named};
use super::super::wait::Waits;
use super::HANDSHAKE;
use super::auth::{self, Claim, Heard, Reason};
use super::blame::{blame, rank_of, unexpected};
use super::conn::{Conn, Frame, Tag, frame, told};

/// How many may be in the handshake beyond the ranks themselves.
const STRANGERS_MAX: usize = 64;
/// How many connections are taken between two looks at the others.
const ACCEPT_MAX: usize = 32;
/// How many of the refused are named.
const NAMED_MAX: usize = 4;
const JOINING: &str = "joining";

/// The connections of rank 1 and up, once all of them have joined.
pub(super) fn everybody(
    listener: TcpListener,
    meeting: &Meeting,
    waits: Waits,
) -> Result<Vec<Conn>, JobError> {
    listener
        .set_nonblocking(true)
        .map_err(|cause| JobError::Listen { at: meeting.at.clone(), cause })?;
    let mut door = Door {
        listener,
        meeting,
        waits,
        seats: (1..meeting.size).map(|_| None).collect(),
        pending: VecDeque::new(),
        away: Away::default(),
    };
    match door.run() {
        Ok(()) => {
            if !door.away.is_nobody() {
                // The job is not worse off, but who runs it may want to know.
                eprintln!("sluice: rank 0 has let all ranks of the job in; {}", door.away);
            }
            Ok(door.seats.into_iter().flatten().collect())
        }
        Err(error) => {
            door.tell(&error);
            Err(error)
        }
    }
}

struct Door<'a> {
    listener: TcpListener,
    meeting: &'a Meeting,
    waits: Waits,
    /// Of rank 1 and up.
    seats: Vec<Option<Conn>>,
    /// The oldest first.
    pending: VecDeque<Pending>,
    away: Away,
}

/// Somebody in the handshake.
struct Pending {
    conn: Conn,
    /// Once the first words were heard.
    claim: Option<Claim>,
    until: Instant,
}

/// What becomes of somebody in the handshake.
enum Next {
    Wait,
    Drop,
    Refuse(Reason),
    /// Proven; what they claim to be is still to be checked.
    Proven(Claim),
}

impl Door<'_> {
    fn run(&mut self) -> Result<(), JobError> {
        let until = Instant::now() + self.waits.timeout;
        while self.seats.iter().any(Option::is_none) {
            let now = Instant::now();
            if now >= until {
                return Err(self.absent());
            }
            let before = self.pending.len();
            self.pending.retain(|pending| now < pending.until);
            self.away.strangers += before - self.pending.len();

            let (callers, seated, visitors) = self.wait(until)?;
            for index in seated {
                self.hear_seated(index)?;
            }
            // From the last, so that the indexes of those before stay what they are.
            for index in visitors.into_iter().rev() {
                self.hear_pending(index);
            }
            if callers {
                self.accept()?;
            }
        }
        Ok(())
    }

    /// Whether somebody calls, and which of the seated and of the pending have something to say.
    fn wait(&self, until: Instant) -> Result<(bool, Vec<usize>, Vec<usize>), JobError> {
        let seated: Vec<(usize, &Conn)> = self
            .seats
            .iter()
            .enumerate()
            .filter_map(|(index, seat)| Some((index, seat.as_ref()?)))
            .collect();
        let mut fds = vec![PollFd::new(&self.listener, PollFlags::IN)];
        fds.extend(seated.iter().map(|(_, conn)| PollFd::new(*conn, PollFlags::IN)));
        fds.extend(self.pending.iter().map(|one| PollFd::new(&one.conn, PollFlags::IN)));
        let until = self.pending.iter().map(|one| one.until).fold(until, Instant::min);
        self.waits
            .until_ready(&mut fds, until)
            .map_err(|cause| JobError::Io { doing: "waiting for the ranks".into(), cause })?;

        let ready = |fd: &PollFd<'_>| !fd.revents().is_empty();
        let (of_seated, of_pending) = fds[1..].split_at(seated.len());
        let seated = seated.iter().zip(of_seated).filter(|(_, fd)| ready(fd));
        let pending = of_pending.iter().enumerate().filter(|(_, fd)| ready(fd));
        Ok((
            ready(&fds[0]),
            seated.map(|((index, _), _)| *index).collect(),
            pending.map(|(index, _)| index).collect(),
        ))
    }

    /// A seated rank has nothing to say before the start: it has gone, aborts or errs.
    fn hear_seated(&mut self, index: usize) -> Result<(), JobError> {
        let Some(conn) = &mut self.seats[index] else { return Ok(()) };
        let rank = rank_of(index);
        match conn.try_recv(super::BLOB_MAX) {
            Ok(None) => Ok(()),
            Ok(Some(frame)) => Err(unexpected(rank, JOINING, frame)),
            Err(fault) => Err(blame(rank, JOINING, &fault)),
        }
    }

    fn hear_pending(&mut self, index: usize) {
        let next = self.pending[index].step(&self.meeting.key);
        let next = match next {
            Next::Proven(claim) => self.judge(claim).map_or(Next::Proven(claim), Next::Refuse),
            other => other,
        };
        if matches!(next, Next::Wait) {
            return;
        }
        let Some(mut one) = self.pending.remove(index) else { return };
        match next {
            Next::Proven(claim) => {
                // Who does not even take this has gone, and may come again.
                if one.say(Tag::Welcome, &[]) {
                    self.seats[claim.rank as usize - 1] = Some(one.conn);
                }
            }
            Next::Refuse(reason) => {
                one.say(Tag::Refused, &[reason as u8]);
                self.away.note(reason, one.claim);
            }
            Next::Drop | Next::Wait => self.away.strangers += 1,
        }
    }

    /// What is wrong with a proven rank's claim.
    fn judge(&self, claim: Claim) -> Option<Reason> {
        if claim.size != self.meeting.size {
            return Some(Reason::WrongSize);
        }
        match self.seats.get((claim.rank as usize).wrapping_sub(1)) {
            None => Some(Reason::UnknownRank),
            Some(Some(_)) => Some(Reason::DuplicateRank),
            Some(None) => None,
        }
    }

    fn accept(&mut self) -> Result<(), JobError> {
        let failed = |cause| JobError::Listen { at: self.meeting.at.clone(), cause };
        for _ in 0..ACCEPT_MAX {
            let stream = match self.listener.accept() {
                Ok((stream, _)) => stream,
                Err(error) => match error.kind() {
                    io::ErrorKind::WouldBlock => return Ok(()),
                    io::ErrorKind::Interrupted | io::ErrorKind::ConnectionAborted => continue,
                    // As when there are too many open files: make room, or give up.
                    _ if self.pending.is_empty() => return Err(failed(error)),
                    _ => {
                        self.drop_oldest();
                        return Ok(());
                    }
                },
            };
            let Ok(conn) = Conn::new(stream, self.waits) else { continue };
            if self.pending.len() >= self.seats.len() + STRANGERS_MAX {
                self.drop_oldest();
            }
            let until = Instant::now() + HANDSHAKE;
            self.pending.push_back(Pending { conn, claim: None, until });
        }
        Ok(())
    }

    fn drop_oldest(&mut self) {
        self.pending.pop_front();
        self.away.strangers += 1;
    }

    fn missing(&self) -> Vec<u32> {
        let empty = self.seats.iter().enumerate().filter(|(_, seat)| seat.is_none());
        empty.map(|(index, _)| rank_of(index)).collect()
    }

    fn absent(&self) -> JobError {
        JobError::Absent {
            absent: named(&self.missing()),
            size: self.meeting.size,
            at: self.meeting.at.clone(),
            waited_s: self.waits.timeout.as_secs(),
            refused: self.away.to_string(),
        }
    }

    /// Tells the seated who is to blame.
    fn tell(&mut self, error: &JobError) {
        let body = match (error, self.missing().first()) {
            (JobError::Absent { .. }, Some(&rank)) => told(&JobError::RankFailed {
                rank,
                during: JOINING.into(),
                why: "it did not join in time".into(),
            }),
            _ => told(error),
        };
        for conn in self.seats.iter_mut().flatten() {
            // A rank that cannot be told finds the connection closed.
            let _ = conn.try_send(&frame(Tag::Failed, &body));
        }
    }
}

impl Pending {
    fn step(&mut self, key: &[u8]) -> Next {
        let Frame { tag, body } = match self.conn.try_recv(auth::BODY_MAX) {
            Ok(None) => return Next::Wait,
            Ok(Some(frame)) => frame,
            Err(_) => return Next::Drop,
        };
        match (tag, self.claim) {
            (Tag::Hello, None) => self.hear(key, &body),
            // That it is sealed is the proof.
            (Tag::Proof, Some(claim)) if body.is_empty() => Next::Proven(claim),
            _ => Next::Drop,
        }
    }

    fn hear(&mut self, key: &[u8], body: &[u8]) -> Next {
        match auth::hear(key, body) {
            Ok(Heard::Rank(claim, challenge, keys)) => {
                if !self.say(Tag::Challenge, &challenge) {
                    return Next::Drop;
                }
                self.claim = Some(claim);
                self.conn.seal(*keys);
                Next::Wait
            }
            Ok(Heard::Refused(reason)) => Next::Refuse(reason),
            Ok(Heard::Stranger) | Err(_) => Next::Drop,
        }
    }

    /// Whether all of a short frame went out.
    fn say(&mut self, tag: Tag, body: &[u8]) -> bool {
        let bytes = frame(tag, body);
        self.conn.try_send(&bytes).is_ok_and(|len| len == bytes.len())
    }
}

/// Who did not get in.
#[derive(Default)]
struct Away {
    strangers: usize,
    wrong_key: usize,
    named: Vec<String>,
}

impl Away {
    fn is_nobody(&self) -> bool {
        self.strangers == 0 && self.wrong_key == 0 && self.named.is_empty()
    }

    fn note(&mut self, reason: Reason, claim: Option<Claim>) {
        let text = match (reason, claim) {
            (Reason::WrongKey, _) => {
                self.wrong_key += 1;
                return;
            }
            (Reason::WrongSize, Some(claim)) => {
                format!("rank {} of a job of {}", claim.rank, claim.size)
            }
            (Reason::UnknownRank, Some(claim)) => format!("unknown rank {}", claim.rank),
            (Reason::DuplicateRank, Some(claim)) => format!("another rank {}", claim.rank),
            _ => "one of another version".into(),
        };
        if self.named.len() < NAMED_MAX {
            self.named.push(text);
        }
    }
}

impl std::fmt::Display for Away {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Away { strangers, wrong_key, named } = self;
        write!(f, "turned away: {wrong_key} with another secret, {strangers} strangers")?;
        named.iter().try_for_each(|text| write!(f, ", {text}"))
    }
}
