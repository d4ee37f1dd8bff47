//! What the fuzzer calls, and property tests: the parsers of what a rank, a process manager and an
//! environment say. They are private otherwise.

use super::JobError;
use super::env;
use super::pmi1::Pmi1;
use super::rendezvous::auth;
use super::wait::Waits;
use std::ffi::OsString;
use std::io::Write as _;
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// Longer than any answer takes that is there already.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Rank 0 with this secret hears the first words of somebody: the rank and the size that he says, if
/// he has the secret.
#[must_use]
pub fn hear(key: &[u8], body: &[u8]) -> Option<(u32, u32)> {
    auth::claimed(key, body)
}

/// Whether a rank with this secret takes an answer to its first words.
#[must_use]
pub fn takes_answer(key: &[u8], answer: &[u8]) -> bool {
    auth::takes(key, answer)
}

/// Rank 1 of 2 exchanges `mine` with rank 0, and leaves the job, by a process manager that says just
/// this and hangs up. What rank 0 gave, if all went well.
///
/// # Errors
/// As of a job.
pub fn exchange(answers: &[u8], mine: &[u8]) -> Result<Vec<u8>, JobError> {
    let io = |cause| JobError::Io { doing: "making a socket".into(), cause };
    let (ours, mut manager) = UnixStream::pair().map_err(io)?;
    manager.write_all(answers).map_err(io)?;
    manager.shutdown(Shutdown::Write).map_err(io)?;
    let waits = Waits { timeout: TIMEOUT, poll: None };
    let mut pmi = Pmi1::greet(ours.into(), 1, 2, waits)?;
    let mut all = pmi.exchange(mine)?;
    pmi.barrier()?;
    pmi.finish()?;
    Ok(all.swap_remove(0))
}

/// Whether an environment says how to join a job.
///
/// # Errors
/// What is wrong with it.
pub fn plan(lookup: &dyn Fn(&str) -> Option<OsString>) -> Result<(), JobError> {
    env::plan(lookup).map(drop)
}
