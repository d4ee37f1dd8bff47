//! What the fuzzer calls, and property tests: the parsers of what other processes of a job and the
//! environment say. They are private otherwise.

use crate::{book, settings};
use std::ffi::OsString;

/// What a process tells the others of its job, read and written anew. `None` if it is refused.
#[must_use]
pub fn told_again(blob: &[u8]) -> Option<Vec<u8>> {
    let (entries, program) = book::parse(blob).ok()?;
    Some([&book::emit(&entries)[..], program].concat())
}

/// What an environment says of the network, of recovery, and of the key of a job: the lines about
/// what it may not say.
#[must_use]
pub fn settings(lookup: impl Fn(&str) -> Option<OsString>) -> Vec<String> {
    let (_, _, mut lines) = settings::read(&lookup);
    if let Err(line) = settings::scheme_of(lookup("PTL_RECOVERY")) {
        lines.push(line);
    }
    if let Err(line) = settings::secret_of(lookup("PTL_JOB_KEY")) {
        lines.push(line);
    }
    lines
}
