//! Rank 0's side once everybody has joined (`join.rs`): it gathers a frame from each rank, then
//! answers all.
//!
//! Invariants: rank 0 never waits for one connection alone, so no rank can hold up what another
//! has to say. A connection that ends is noticed in every call, whether or not its rank has said
//! its part. When a call fails, each rank that can still be told is told who is to blame.

use std::net::TcpListener;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};

use super::super::BLOB_MAX;
use super::super::env::Meeting;
use super::super::error::JobError;
use super::super::wait::Waits;
use super::blame::{blame, rank_of, unexpected};
use super::conn::{Conn, Tag, frame, told};
use super::{addresses, join};

pub(in super::super) struct Root {
    /// Of rank 1 and up.
    conns: Vec<Conn>,
    waits: Waits,
}

impl Root {
    pub fn start(meeting: &Meeting, waits: Waits) -> Result<Root, JobError> {
        let failed = |cause| JobError::Listen { at: meeting.at.clone(), cause };
        if meeting.size == 1 {
            return Ok(Root { conns: Vec::new(), waits });
        }
        let addresses = addresses(&meeting.at).map_err(failed)?;
        let listener = TcpListener::bind(&addresses[..]).map_err(failed)?;
        Root::start_at(listener, meeting, waits)
    }

    pub(super) fn start_at(
        listener: TcpListener,
        meeting: &Meeting,
        waits: Waits,
    ) -> Result<Root, JobError> {
        let mut root = Root { conns: join::everybody(listener, meeting, waits)?, waits };
        root.scatter(&frame(Tag::Start, &[]), "joining")?;
        Ok(root)
    }

    pub fn exchange(&mut self, mine: &[u8]) -> Result<Vec<Vec<u8>>, JobError> {
        let mut all = vec![mine.to_vec()];
        all.extend(self.gather(Tag::Blob)?);
        let frames: Vec<Vec<u8>> = all.iter().map(|blob| frame(Tag::Blob, blob)).collect();
        self.scatter(&frames.concat(), Tag::Blob.during())?;
        Ok(all)
    }

    pub fn barrier(&mut self) -> Result<(), JobError> {
        self.gather(Tag::Barrier)?;
        self.scatter(&frame(Tag::Barrier, &[]), Tag::Barrier.during())
    }

    /// Tells every rank what went wrong, as far as they take it at once.
    pub fn tell(&mut self, error: &JobError) {
        let word = frame(Tag::Failed, &told(error));
        for conn in &mut self.conns {
            // A rank that cannot be told finds the connection closed.
            let _ = conn.try_send(&word);
        }
        // None is to hear more than this, nor half of anything else.
        self.conns.clear();
    }

    /// A body from each rank.
    fn gather(&mut self, tag: Tag) -> Result<Vec<Vec<u8>>, JobError> {
        let mut bodies: Vec<Option<Vec<u8>>> = self.conns.iter().map(|_| None).collect();
        let result = self.gather_into(&mut bodies, tag);
        if let Err(error) = &result {
            self.tell(error);
        }
        result.map(|()| bodies.into_iter().flatten().collect())
    }

    fn gather_into(&mut self, bodies: &mut [Option<Vec<u8>>], tag: Tag) -> Result<(), JobError> {
        let during = tag.during();
        let until = Instant::now() + self.waits.timeout;
        while let Some(missing) = bodies.iter().position(Option::is_none) {
            let ready = self.wait(PollFlags::IN, until, |_| true)?;
            if ready.is_empty() {
                return Err(late(rank_of(missing), during, self.waits.timeout));
            }
            for index in ready {
                let rank = rank_of(index);
                let got = self.conns[index].try_recv(BLOB_MAX);
                match got.map_err(|fault| blame(rank, during, &fault))? {
                    None => {}
                    Some(got) if got.tag == tag && bodies[index].is_none() => {
                        bodies[index] = Some(got.body);
                    }
                    Some(got) => return Err(unexpected(rank, during, got)),
                }
            }
        }
        Ok(())
    }

    /// Sends `bytes` to every rank. A rank that has gone does not keep the others from getting
    /// all of it.
    fn scatter(&mut self, bytes: &[u8], during: &'static str) -> Result<(), JobError> {
        let until = Instant::now() + self.waits.timeout;
        let mut sent = vec![0; self.conns.len()];
        let mut failed = None;
        while let Some(stuck) = sent.iter().position(|&sent| sent < bytes.len()) {
            let ready = self.wait(PollFlags::OUT, until, |index| sent[index] < bytes.len())?;
            if ready.is_empty() {
                failed = Some(late(rank_of(stuck), during, self.waits.timeout));
                break;
            }
            for index in ready {
                match self.conns[index].try_send(&bytes[sent[index]..]) {
                    Ok(len) => sent[index] += len,
                    Err(fault) => {
                        failed.get_or_insert(blame(rank_of(index), during, &fault));
                        sent[index] = bytes.len();
                    }
                }
            }
        }
        match failed {
            None => Ok(()),
            Some(error) => {
                // Who is in the midst of a frame would read this as its rest.
                let mut whole = sent.iter().map(|&sent| sent == bytes.len());
                self.conns.retain(|_| whole.next() == Some(true));
                self.tell(&error);
                Err(error)
            }
        }
    }

    /// Those of the wanted connections that are ready; none when time is up.
    fn wait(
        &self,
        flags: PollFlags,
        until: Instant,
        wanted: impl Fn(usize) -> bool,
    ) -> Result<Vec<usize>, JobError> {
        let indexes: Vec<usize> = (0..self.conns.len()).filter(|&index| wanted(index)).collect();
        let mut fds: Vec<PollFd<'_>> =
            indexes.iter().map(|&index| PollFd::new(&self.conns[index], flags)).collect();
        self.waits
            .until_ready(&mut fds, until)
            .map_err(|cause| JobError::Io { doing: "waiting for the ranks".into(), cause })?;
        let ready = indexes.iter().zip(&fds).filter(|(_, fd)| !fd.revents().is_empty());
        Ok(ready.map(|(&index, _)| index).collect())
    }
}

fn late(rank: u32, during: &str, timeout: Duration) -> JobError {
    let why = format!("it did not take part within {} s", timeout.as_secs());
    JobError::RankFailed { rank, during: during.into(), why }
}
