//! What a long measurement is doing, on a terminal's standard error.

use sluice_text::bytes;
use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

/// One line that is written over.
#[derive(Debug)]
pub struct Progress {
    test: &'static str,
    /// Nobody reads it otherwise.
    terminal: bool,
    size: String,
    last: Option<Instant>,
}

impl Progress {
    /// Of this test.
    pub fn new(test: &'static str) -> Progress {
        Progress {
            test,
            terminal: std::io::stderr().is_terminal(),
            size: String::new(),
            last: None,
        }
    }

    /// Says what is being done.
    pub fn show(&mut self, what: &str) {
        if self.terminal {
            // A line that cannot be shown is no reason to stop.
            let _ = write!(std::io::stderr(), "\r\x1b[K{}: {what}", self.test);
        }
    }

    /// Begins the size `index` of `count`.
    pub fn at(&mut self, index: usize, count: usize, size: u64) {
        self.size = format!("{} ({} of {count})", bytes(size), index + 1);
        let line = self.size.clone();
        self.show(&line);
    }

    /// So much of this size is done, from 0 to 1.
    pub fn within(&mut self, done: f64) {
        const PERIOD: Duration = Duration::from_millis(200);
        let now = Instant::now();
        if self.last.is_some_and(|last| now - last < PERIOD) {
            return;
        }
        self.last = Some(now);
        let line = format!("{} {:3.0} %", self.size, done * 100.0);
        self.show(&line);
    }

    /// Takes the line away.
    pub fn clear(&mut self) {
        if self.terminal {
            let _ = write!(std::io::stderr(), "\r\x1b[K");
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.clear();
    }
}
