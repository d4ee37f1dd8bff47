//! Whose part shared memory is: the port of the machines that it drives.

use super::Shm;
use sluice_link::Port;

/// A port that has shared memory among its rails. What arrives on shared memory is
/// handed to a machine with the host as the port, so that the machine asks the host, for
/// which shared memory may be one rail of several.
pub(crate) trait Host: Port {
    /// Its shared memory.
    fn shm_mut(&mut self) -> &mut Shm;
}
