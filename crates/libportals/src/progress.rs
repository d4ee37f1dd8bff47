//! Progress without the program's calls: a thread per interface.
//!
//! What it does and when is said in [`sluice_rail::attend`]; here is what it
//! does it with.

use crate::face::Face;
use crate::interface::Interface;
use sluice_rail::attend::{Attended, Looked, attend};
use sluice_rail::shm::Doorbell;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use std::thread;

/// Starts the thread of an interface that was opened with this life.
///
/// # Errors
/// The system's, if it has no thread to give.
pub(crate) fn start(shell: &'static Interface, life: u32) -> std::io::Result<()> {
    let thread = thread::Builder::new()
        .name("portals".into())
        .stack_size(256 << 10)
        .spawn(move || attend(&shell.attention, &mut Open { shell, life }))?;
    *shell.thread.lock().unwrap_or_else(PoisonError::into_inner) = Some(thread);
    Ok(())
}

/// An interface, as long as it is the one that was opened with this life.
struct Open {
    shell: &'static Interface,
    life: u32,
}

impl Attended for Open {
    fn is_closed(&self) -> bool {
        self.shell.life() != self.life
    }

    fn is_waited_at(&self) -> bool {
        self.shell.sleepers.load(Ordering::SeqCst) != 0
    }

    fn look(&mut self) -> Looked {
        // With an interface that has been closed there is nothing to do.
        let taken = self.shell.with(self.life, Face::poll).unwrap_or(0);
        if taken == 0 {
            return Looked::Nothing;
        }
        self.shell.wake_sleepers();
        Looked::Something
    }

    fn rest_ns(&mut self) -> u64 {
        self.shell.with(self.life, |face| face.shm.rest_ns()).unwrap_or(0)
    }

    fn doorbell(&self) -> Option<Doorbell> {
        self.shell.bell()
    }
}
