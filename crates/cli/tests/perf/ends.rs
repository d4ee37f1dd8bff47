//! How a measurement ends whose processes are killed.

use super::alone;
use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Until when a measurement has begun, also on a machine that does much else: it lasts as long.
const PATIENCE: Duration = Duration::from_secs(60);

/// The processor time that a process has used in user mode, in clock ticks.
fn cpu_ticks(stat: &str) -> u64 {
    let stat = std::fs::read_to_string(stat).unwrap_or_default();
    // The name, in parentheses, may hold anything; what follows is numbers.
    let numbers = stat.rsplit(')').next().unwrap_or_default();
    numbers.split_whitespace().nth(11).and_then(|ticks| ticks.parse().ok()).unwrap_or(0)
}

/// A measurement that would take long. Killed when dropped.
struct LongRun {
    first: Child,
    second_pid: u32,
}

impl LongRun {
    fn start(more: &[&str]) -> LongRun {
        // Whoever runs the tests may ignore interrupts, in a shell's background
        // for instance; a person at a terminal does not.
        let first = Command::new("env")
            .arg("--default-signal=INT")
            .arg(env!("CARGO_BIN_EXE_sluice"))
            .args(["perf", "latency", "--size", "8", "--seconds", "60"])
            .args(more)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the command starts");
        let mut run = LongRun { first, second_pid: 0 };
        let path = format!("/proc/{0}/task/{0}/children", run.first.id());
        let until = Instant::now() + PATIENCE;
        while run.second_pid == 0 {
            assert!(Instant::now() < until, "no second process");
            std::thread::sleep(Duration::from_millis(10));
            let children = std::fs::read_to_string(&path).unwrap_or_default();
            if let Some(second) = children.split_whitespace().next() {
                run.second_pid = second.parse().expect("a pid");
            }
        }
        // Well into the test, not at its door: the second process has polled for
        // a while.
        let stat = format!("/proc/{}/stat", run.second_pid);
        while cpu_ticks(&stat) < 30 {
            assert!(Instant::now() < until, "the second process does nothing");
            std::thread::sleep(Duration::from_millis(10));
        }
        run
    }

    /// How the command ended, and what it said.
    fn end(&mut self) -> (bool, String) {
        let status = self.first.wait().expect("an end");
        let mut errors = String::new();
        let stderr = self.first.stderr.as_mut().expect("piped");
        stderr.read_to_string(&mut errors).expect("text");
        (status.success(), errors)
    }
}

impl Drop for LongRun {
    fn drop(&mut self) {
        let _ = self.first.kill();
        let _ = self.first.wait();
    }
}

fn kill(signal: &str, pid: u32) {
    let status = Command::new("kill").args([signal, &pid.to_string()]).status().expect("kill");
    assert!(status.success());
}

/// Whether a process is there and not merely one that nobody has reaped.
fn lives(pid: u32) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/stat"))
        .is_ok_and(|stat| !stat.rsplit(')').next().unwrap_or("").trim_start().starts_with('Z'))
}

#[test]
fn a_second_process_that_dies_ends_the_command() {
    let _alone = alone();
    for more in [&[][..], &["--api", "portals"], &["--api", "portals", "--op", "get"]] {
        let mut run = LongRun::start(more);
        let killed = Instant::now();
        kill("-KILL", run.second_pid);
        let (success, errors) = run.end();
        assert!(killed.elapsed() < Duration::from_secs(10));
        assert!(!success);
        assert!(errors.contains("the second process ended"), "{more:?}: {errors}");
    }
}

#[test]
fn an_interrupted_command_takes_the_second_process_with_it() {
    let _alone = alone();
    for (signal, more) in [("-INT", &[][..]), ("-KILL", &[]), ("-KILL", &["--api", "portals"])] {
        let mut run = LongRun::start(more);
        kill(signal, run.first.id());
        let (success, _) = run.end();
        assert!(!success);
        let until = Instant::now() + Duration::from_secs(10);
        while lives(run.second_pid) {
            assert!(Instant::now() < until, "{signal}: the second process lives on");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}
