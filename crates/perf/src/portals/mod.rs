//! `--api portals`: the same measurements through `libportals`, by the functions
//! that a C program calls, with all that they do (looking at memory, lock,
//! progress thread).
//!
//! | `latency` | a put, answered by a put of the same size: half of that; a get: all of it |
//! | `rate` `bandwidth` | windows of puts, each until all acknowledgements are counted |
//!
//! Every wait is `PtlCTWait`. Meanwhile the target of gets and of windows waits
//! in `PtlCTWait` too, as a program that has nothing else to do. What is to be
//! done next goes through a pipe (`order`). `node` is one of the two processes.

mod node;
mod order;

use crate::cores::Placement;
use crate::measured::{Measured, NiKind, Op, Test};
use crate::other::{Other, Second, Start, read_line, write_line};
use crate::report::word;
use crate::stats::Samples;
use anyhow::{Context, Result, bail, ensure};
use node::PortalsNode;
use order::{Answer, Order};
use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};
use std::time::{Duration, Instant};

/// Sizes of each test.
pub const LATENCY_SIZES: [u64; 8] = [0, 1, 8, 64, 512, 4 << 10, 64 << 10, 1 << 20];
pub const BANDWIDTH_SIZES: [u64; 4] = [16 << 10, 64 << 10, 1 << 20, 4 << 20];
pub const RATE_SIZES: [u64; 1] = [8];

/// The two processes, as the first one holds them.
#[derive(Debug)]
pub struct Portals {
    node: PortalsNode,
    second: Second,
}

impl Portals {
    /// Starts the second process and meets it. No message is longer than `bytes`.
    pub fn start(placement: &Placement, kind: NiKind, bytes: u64) -> Result<Portals> {
        let args = ["--ni", &word(&kind), "--bytes", &bytes.to_string()];
        let mut second = Second::start(&Start::Child, placement, &args)?;
        watch(second.pid().context("the second process is a child")?)?;
        let core = placement.cores.map(|pair| pair.first);
        let mut node = PortalsNode::open(core, kind, bytes)?;
        let address = second.exchange(&node.address()?)?;
        node.meet(&address)?;
        Ok(Portals { node, second })
    }

    /// Lets the second process end, and waits until it has.
    pub fn stop(mut self) -> Result<()> {
        self.node.check_counts()?;
        self.second.tell(&Order::Stop)?;
        self.second.part()
    }

    /// Has the second process do something, as soon as it is ready.
    fn begin(&mut self, order: Order) -> Result<()> {
        self.second.tell(&order)?;
        let answer: Answer = self.second.hear()?;
        ensure!(answer == Answer::Ready, "the second process answers {answer:?}");
        Ok(())
    }

    fn verify_all(&mut self, size: u64, seed: u64) -> Result<()> {
        let node = &mut self.node;
        node.prepare(size, seed)?;
        node.clear(size)?;
        self.begin(Order::Verify { size, seed })?;
        let node = &mut self.node;
        node.put_counted(size)?;
        node.wait_acked()?;
        node.wait_arrived(1)?;
        node.check(size, !seed, "put")?;
        node.clear(size)?;
        node.get(size)?;
        node.check(size, !seed, "get")?;
        node.put(0)?;
        match self.second.hear()? {
            Answer::Right => Ok(()),
            Answer::Wrong(what) => bail!("{what}"),
            Answer::Ready => bail!("the second process did not say what it found"),
        }
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
                let node = &mut self.node;
                timed(count, samples, || {
                    node.put(size)?;
                    node.wait_arrived(1)
                })
            }
            (Test::Latency, Op::Get) => {
                // The second process is in the library until the last put.
                self.begin(Order::Await { count: 1 })?;
                let node = &mut self.node;
                timed(count, samples, || node.get(size))?;
                node.put(0)
            }
            (Test::Bandwidth { window, .. } | Test::Rate { window }, _) => {
                self.begin(Order::Await { count: count * window })?;
                let node = &mut self.node;
                timed(count, samples, || {
                    for _ in 0..window {
                        node.put_counted(size)?;
                    }
                    node.wait_acked()
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

    fn raw_batch(&mut self, _: Test, _: u64, _: u64, _: u64, _: &mut Samples) -> Result<()> {
        bail!("puts and gets are not compared with a plain connection")
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
            // Looked at only; whoever started it reaps it.
            let _ = waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT);
            portals::program::abort();
        })
        .context("cannot watch the second process")?;
    Ok(())
}

/// The life of the second process, from its start on.
pub fn serve(core: Option<usize>, kind: NiKind, bytes: u64, mut first: Other) -> Result<()> {
    let mut node = PortalsNode::open(core, kind, bytes)?;
    let (stdin, stdout) = (std::io::stdin(), std::io::stdout());
    node.meet(&read_line::<Vec<u8>>(&stdin, true)?)?;
    write_line(&stdout, &node.address()?)?;
    loop {
        let order = read_line(&stdin, false)?;
        first.check()?;
        match order {
            Order::Verify { size, seed } => {
                node.prepare(size, !seed)?;
                node.clear(size)?;
                write_line(&stdout, &Answer::Ready)?;
                node.wait_arrived(1)?;
                let found = node.check(size, seed, "put");
                node.put_counted(size)?;
                node.wait_acked()?;
                node.wait_arrived(1)?;
                let wrong = |error| Answer::Wrong(format!("{error:#}"));
                write_line(&stdout, &found.map_or_else(wrong, |()| Answer::Right))?;
            }
            Order::PingPong { size, count } => {
                write_line(&stdout, &Answer::Ready)?;
                for _ in 0..count {
                    node.wait_arrived(1)?;
                    node.put(size)?;
                }
            }
            Order::Await { count } => {
                write_line(&stdout, &Answer::Ready)?;
                node.wait_arrived(count)?;
            }
            Order::Stop => return node.check_counts(),
        }
    }
}
