//! `--api portals`: the same measurements through `libportals`, by the functions
//! that a C program calls, with all that they do (looking at memory, lock,
//! progress thread).
//!
//! | `latency` | a put, answered by a put of the same size: half of that; a get: all of it |
//! | `rate` `bandwidth` | windows of puts, each until all acknowledgements are counted |
//!
//! Every wait is `PtlCTWait`. Meanwhile the target of gets and of windows waits
//! in `PtlCTWait` too, as a program that has nothing else to do. What is to be
//! done next goes through a pipe (`order`).

mod order;
mod side;

use crate::cores::Placement;
use crate::pair::{Other, Second, hex, read_line, unhex, write_line};
use crate::stats::Samples;
use crate::{Measured, Test};
use anyhow::{Context, Result, bail, ensure};
use clap::ValueEnum;
use order::Order;
use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};
use serde::Serialize;
use side::Side;
use std::time::{Duration, Instant};

/// Which interface is measured. Both are physical.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum NiKind {
    /// Messages find match list entries by their bits
    Matching,
    /// Messages go to the first entry of a list
    Nonmatching,
}

impl NiKind {
    /// Its name on the command line and in JSON.
    pub fn name(self) -> &'static str {
        match self {
            NiKind::Matching => "matching",
            NiKind::Nonmatching => "nonmatching",
        }
    }
}

/// What is measured of latency.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Op {
    /// Half of a put and the put that answers it
    Put,
    /// The whole of a get, until the bytes are here
    Get,
}

impl Op {
    /// Its name on the command line and in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Op::Put => "put",
            Op::Get => "get",
        }
    }
}

/// Sizes of each test.
pub const LATENCY_SIZES: [u64; 8] = [0, 1, 8, 64, 512, 4 << 10, 64 << 10, 1 << 20];
pub const BANDWIDTH_SIZES: [u64; 4] = [16 << 10, 64 << 10, 1 << 20, 4 << 20];
pub const RATE_SIZES: [u64; 1] = [8];

/// The two processes, as the first one holds them.
#[derive(Debug)]
pub struct Portals {
    side: Side,
    second: Second,
}

impl Portals {
    /// Starts the second process and meets it. No message is longer than `bytes`.
    pub fn start(placement: &Placement, kind: NiKind, bytes: u64) -> Result<Portals> {
        let args = ["--ni", kind.name(), "--bytes", &bytes.to_string()];
        let mut second = Second::start(placement, &args)?;
        watch(second.pid())?;
        let core = placement.cores.map(|pair| pair.first);
        let mut side = Side::open(core, kind, bytes)?;
        let address = second.exchange(&side.address()?)?;
        side.meet(&address)?;
        Ok(Portals { side, second })
    }

    /// Lets the second process end, and waits until it has.
    pub fn stop(mut self) -> Result<()> {
        self.side.check_counts()?;
        self.second.tell(&Order::Stop.to_line())?;
        self.second.part()
    }

    /// Has the second process do something, as soon as it is ready.
    fn begin(&mut self, order: Order) -> Result<()> {
        self.second.tell(&order.to_line())?;
        let answer = self.second.hear()?;
        ensure!(answer == "ready", "the second process answers '{answer}'");
        Ok(())
    }

    fn verify_all(&mut self, size: u64, seed: u64) -> Result<()> {
        let side = &mut self.side;
        side.prepare(size, seed)?;
        side.clear(size)?;
        self.begin(Order::Verify { size, seed })?;
        let side = &mut self.side;
        side.put_counted(size)?;
        side.wait_acked()?;
        side.wait_arrived(1)?;
        side.check(size, !seed, "put")?;
        side.clear(size)?;
        side.get(size)?;
        side.check(size, !seed, "get")?;
        side.put(0)?;
        let answer = self.second.hear()?;
        ensure!(answer == "right", "{answer}");
        Ok(())
    }

    fn samples(
        &mut self,
        test: Test,
        op: Op,
        size: u64,
        count: u64,
        samples: &mut Samples,
    ) -> Result<()> {
        match (test, op) {
            (Test::Latency, Op::Put) => {
                self.begin(Order::PingPong { size, count })?;
                let side = &mut self.side;
                timed(count, samples, || {
                    side.put(size)?;
                    side.wait_arrived(1)
                })
            }
            (Test::Latency, Op::Get) => {
                // The second process is in the library until the last put.
                self.begin(Order::Await { count: 1 })?;
                let side = &mut self.side;
                timed(count, samples, || side.get(size))?;
                side.put(0)
            }
            (Test::Bandwidth { window } | Test::Rate { window }, _) => {
                self.begin(Order::Await { count: count * window })?;
                let side = &mut self.side;
                timed(count, samples, || {
                    for _ in 0..window {
                        side.put_counted(size)?;
                    }
                    side.wait_acked()
                })
            }
        }
    }

    /// The end of the other process explains most failures; there is a little
    /// time for its end to be known.
    fn explained<T>(&mut self, result: Result<T>) -> Result<T> {
        if result.is_err() {
            let until = Instant::now() + Duration::from_millis(500);
            while Instant::now() < until {
                self.second.check()?;
                std::thread::sleep(Duration::from_millis(5));
            }
        }
        result
    }
}

impl Measured for Portals {
    fn verify(&mut self, size: u64, seed: u64) -> Result<()> {
        let result = self.verify_all(size, seed);
        self.explained(result)
    }

    fn batch(
        &mut self,
        test: Test,
        op: Op,
        size: u64,
        count: u64,
        samples: &mut Samples,
    ) -> Result<()> {
        let result = self.samples(test, op, size, count, samples);
        self.explained(result)
    }
}

/// Times each of `count` calls. The clock is read once for each.
#[inline]
fn timed(count: u64, samples: &mut Samples, mut call: impl FnMut() -> Result<()>) -> Result<()> {
    let mut before = Instant::now();
    for _ in 0..count {
        call()?;
        let now = Instant::now();
        samples.record((now - before).as_nanos() as u64);
        before = now;
    }
    Ok(())
}

/// Ends this process's waits when the second process ends: a counter does not
/// tell of puts that will never come.
fn watch(second: u32) -> Result<()> {
    let pid = i32::try_from(second).ok().and_then(Pid::from_raw);
    let pid = pid.context("the second process has no number")?;
    std::thread::Builder::new()
        .name("watch".to_owned())
        .spawn(move || {
            // Looked at only; whoever started it buries it.
            let _ = waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT);
            portals::program::abort();
        })
        .context("cannot watch the second process")?;
    Ok(())
}

/// The life of the second process, from its start on.
pub fn serve(core: Option<usize>, kind: NiKind, bytes: u64, mut first: Other) -> Result<()> {
    let mut side = Side::open(core, kind, bytes)?;
    let (mut stdin, mut stdout) = (std::io::stdin(), std::io::stdout());
    side.meet(&unhex(&read_line(&mut stdin, true)?)?)?;
    write_line(&mut stdout, &hex(&side.address()?))?;
    loop {
        let order = Order::from_line(&read_line(&mut stdin, false)?)?;
        first.check()?;
        match order {
            Order::Verify { size, seed } => {
                side.prepare(size, !seed)?;
                side.clear(size)?;
                write_line(&mut stdout, "ready")?;
                side.wait_arrived(1)?;
                let found = side.check(size, seed, "put");
                side.put_counted(size)?;
                side.wait_acked()?;
                side.wait_arrived(1)?;
                match found {
                    Ok(()) => write_line(&mut stdout, "right")?,
                    Err(error) => write_line(&mut stdout, &format!("{error:#}"))?,
                }
            }
            Order::PingPong { size, count } => {
                write_line(&mut stdout, "ready")?;
                for _ in 0..count {
                    side.wait_arrived(1)?;
                    side.put(size)?;
                }
            }
            Order::Await { count } => {
                write_line(&mut stdout, "ready")?;
                side.wait_arrived(count)?;
            }
            Order::Stop => return side.check_counts(),
        }
    }
}

/// An error for what only the other way to measure can be told.
pub fn check_options(is_portals: bool, given: &[(&str, bool)]) -> Result<()> {
    let api = if is_portals { "messages" } else { "portals" };
    match given.iter().find(|(_, given)| *given) {
        Some((option, _)) => bail!("{option} goes with --api {api} only"),
        None => Ok(()),
    }
}
