//! The progress of a run and the time left, on standard error.
//!
//! A terminal shows a bar. Otherwise each simulation that ends gets a line.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::{IsTerminal as _, Write as _};
use std::time::{Duration, Instant};

/// Shared by the threads of a run.
#[derive(Debug)]
pub struct Progress {
    bar: Option<ProgressBar>,
    started: Instant,
    /// Simulations that this command runs, and those that it found done.
    runs: usize,
    found: usize,
    quiet: bool,
}

impl Progress {
    /// Of `runs` simulations of at most `cycles` cycles each, besides `found`
    /// that are done already.
    pub fn new(runs: usize, found: usize, cycles: u64, quiet: bool) -> Progress {
        let bar = (!quiet && std::io::stderr().is_terminal()).then(|| {
            let bar = ProgressBar::new(runs as u64 * cycles);
            bar.set_draw_target(ProgressDrawTarget::stderr_with_hz(5));
            let style = "{bar:30} {percent:>3} %  {msg}  time left {eta}";
            bar.set_style(
                ProgressStyle::with_template(style)
                    .unwrap_or_else(|_| ProgressStyle::default_bar()),
            );
            bar.set_message(format!("{found} of {} done", runs + found));
            bar
        });
        Progress { bar, started: Instant::now(), runs, found, quiet }
    }

    /// So many cycles were simulated.
    pub fn cycles(&self, cycles: u64) {
        if let Some(bar) = &self.bar {
            bar.inc(cycles);
        }
    }

    /// A simulation has ended, `unused` cycles before it had to; with it,
    /// `done` of this command's have.
    pub fn ended(&self, done: usize, unused: u64, what: &str, figure: &str) {
        let count = format!("{} of {} done", done + self.found, self.runs + self.found);
        match &self.bar {
            Some(bar) => {
                bar.inc(unused);
                bar.set_message(count);
            }
            None if self.quiet => {}
            None => {
                let left =
                    self.started.elapsed().mul_f64((self.runs - done) as f64 / done.max(1) as f64);
                let line = format!("{count}: {what}: {figure}; about {} left\n", duration(left));
                // A line that cannot be shown is no reason to stop.
                let _ = std::io::stderr().write_all(line.as_bytes());
            }
        }
    }

    /// Removes the bar.
    pub fn clear(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

/// `3 h 20 min`, `25 min`, `4 min 5 s`, `12 s`.
pub fn duration(duration: Duration) -> String {
    let seconds = duration.as_secs_f64().round() as u64;
    match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
        (0, 0, seconds) => format!("{seconds} s"),
        (0, minutes, seconds) if minutes < 10 => format!("{minutes} min {seconds} s"),
        (0, minutes, _) => format!("{minutes} min"),
        (hours, minutes, _) => format!("{hours} h {minutes} min"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_as_people_say_them() {
        let rows = [
            (12.4, "12 s"),
            (59.6, "1 min 0 s"),
            (245.0, "4 min 5 s"),
            (1500.0, "25 min"),
            (12_000.0, "3 h 20 min"),
        ];
        for (seconds, text) in rows {
            assert_eq!(duration(Duration::from_secs_f64(seconds)), text);
        }
    }
}
