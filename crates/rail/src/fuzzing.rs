//! What the fuzzer calls: the parsers of the file of transfer costs and of the records beside a lane of
//! libfabric. They are private otherwise.

use crate::{ofi, tune};

/// The figures in a file, read and written anew. `None` if it is not used.
#[must_use]
pub fn figures_again(text: &str) -> Option<String> {
    tune::figures_again(text)
}

/// The records in what comes beside a lane of libfabric, written anew, until the first that is none.
#[must_use]
pub fn records_again(bytes: &[u8]) -> Vec<u8> {
    ofi::records_again(bytes)
}
