//! What this machine can do at best: measured in the same run as what it is
//! compared with, because machines have moods.

use crate::cores::{CorePair, Placement, pin};
use crate::stats::tenth;
use serde_json::{Value, json};
use sluice_text::bytes;
use std::hint::black_box;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Instant;

/// The machine's limits.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Half the time in which one cache line goes to the other core and back.
    /// `None` if there are not two cores.
    pub line_half_rtt_ns: Option<f64>,
    /// The same after the test. A machine that moved between two modes has
    /// two values, and the test's figures are of either.
    pub line_half_rtt_after_ns: Option<f64>,
    /// Bytes in a block, and MiB/s at which one core copies it.
    pub memcpy: Vec<(u64, f64)>,
    /// Bytes in a read of the other process's memory, and MiB/s; empty where
    /// the system does not allow it. Measured once there is another process.
    pub direct_read: Vec<(u64, f64)>,
    /// One reading of the clock; each sample has one in it.
    pub clock_ns: f64,
}

const MEMCPY_BYTES: [u64; 4] = [4 << 10, 64 << 10, 1 << 20, 4 << 20];

impl Limits {
    /// Measures them; the value after the test is yet to come.
    pub fn measure(cores: Option<CorePair>) -> Limits {
        Limits {
            line_half_rtt_ns: cores.and_then(line_half_rtt_ns),
            line_half_rtt_after_ns: None,
            memcpy: MEMCPY_BYTES.iter().map(|&bytes| (bytes, memcpy_mib_per_s(bytes))).collect(),
            direct_read: Vec::new(),
            clock_ns: clock_ns(),
        }
    }

    /// Measures once more what changes most.
    pub fn measure_after(&mut self, cores: Option<CorePair>) {
        self.line_half_rtt_after_ns = cores.and_then(line_half_rtt_ns);
    }

    /// Whether the machine was another one at the end than at the start.
    fn moved(&self) -> bool {
        match (self.line_half_rtt_ns, self.line_half_rtt_after_ns) {
            (Some(before), Some(after)) => before.max(after) > 1.5 * before.min(after),
            _ => false,
        }
    }

    /// What the reader of figures must know about the machine.
    pub fn notes(&self, placement: &Placement) -> Vec<String> {
        let moved = "the machine's cores moved apart or together during the run: run it again to \
                     compare figures";
        let moved = self.moved().then(|| moved.to_owned());
        placement.note.iter().cloned().chain(moved).collect()
    }

    /// MiB/s at which one core copies the block whose size is nearest to `bytes`.
    pub fn memcpy_near(&self, bytes: u64) -> Option<f64> {
        nearest(&self.memcpy, bytes)
    }

    /// MiB/s at which the rail reads as many bytes as is nearest to `bytes`.
    pub fn direct_read_near(&self, bytes: u64) -> Option<f64> {
        nearest(&self.direct_read, bytes)
    }

    /// For people.
    pub fn to_text(&self) -> String {
        let ns = |ns: Option<f64>| ns.map_or("-".to_owned(), |ns| format!("{ns:.0} ns"));
        let rates = |rates: &[(u64, f64)]| {
            let list: Vec<String> =
                rates.iter().map(|(size, rate)| format!("{} {rate:.0}", bytes(*size))).collect();
            if list.is_empty() { "-".to_owned() } else { list.join(", ") }
        };
        format!(
            "limits of this machine, in this run\n  \
             cache line, half round trip  {} before, {} after\n  \
             memcpy of one core, MiB/s    {}\n  \
             direct reads, MiB/s          {}\n  \
             reading the clock            {:.0} ns\n",
            ns(self.line_half_rtt_ns),
            ns(self.line_half_rtt_after_ns),
            rates(&self.memcpy),
            rates(&self.direct_read),
            self.clock_ns,
        )
    }

    /// As JSON.
    pub fn to_json(&self) -> Value {
        json!({
            "cache_line_half_rtt_ns": self.line_half_rtt_ns.map(tenth),
            "cache_line_half_rtt_after_ns": self.line_half_rtt_after_ns.map(tenth),
            "memcpy": rates_json(&self.memcpy),
            "direct_read": rates_json(&self.direct_read),
            "clock_ns": tenth(self.clock_ns),
        })
    }
}

fn nearest(rates: &[(u64, f64)], bytes: u64) -> Option<f64> {
    rates.iter().min_by_key(|(size, _)| size.abs_diff(bytes)).map(|(_, rate)| *rate)
}

fn rates_json(rates: &[(u64, f64)]) -> Value {
    rates.iter().map(|(size, rate)| json!({ "size": size, "mib_per_s": tenth(*rate) })).collect()
}

/// A word alone in its cache line, and in the one that is fetched with it.
#[repr(align(128))]
struct Line(AtomicU64);

const ROUNDS: u64 = 2_000;
const CHUNKS: usize = 15;

/// One line to and fro between two threads, each on its core.
fn line_half_rtt_ns(cores: CorePair) -> Option<f64> {
    if cores.first == cores.second {
        return None;
    }
    let line = Line(AtomicU64::new(0));
    let pinned = AtomicBool::new(true);
    let rounds = ROUNDS * (CHUNKS as u64 + 1);
    let mut chunks = thread::scope(|scope| {
        scope.spawn(|| {
            if pin(cores.second).is_err() {
                pinned.store(false, Ordering::Relaxed);
            }
            for round in 0..rounds {
                while line.0.load(Ordering::Acquire) != 2 * round + 1 {}
                line.0.store(2 * round + 2, Ordering::Release);
            }
        });
        let first = scope.spawn(|| {
            if pin(cores.first).is_err() {
                pinned.store(false, Ordering::Relaxed);
            }
            let mut chunks = Vec::with_capacity(CHUNKS + 1);
            let mut start = Instant::now();
            for round in 0..rounds {
                line.0.store(2 * round + 1, Ordering::Release);
                while line.0.load(Ordering::Acquire) != 2 * round + 2 {}
                if (round + 1).is_multiple_of(ROUNDS) {
                    let end = Instant::now();
                    chunks.push((end - start).as_nanos() as f64 / (2 * ROUNDS) as f64);
                    start = end;
                }
            }
            chunks
        });
        first.join().unwrap_or_default()
    });
    if !pinned.load(Ordering::Relaxed) || chunks.len() < 2 {
        return None;
    }
    // The first chunk has the start of the threads in it.
    Some(median(&mut chunks[1..]))
}

/// Copies a block again and again on this core.
fn memcpy_mib_per_s(bytes: u64) -> f64 {
    const TOTAL: u64 = 64 << 20;
    let from = vec![0x5Au8; bytes as usize];
    let mut to = vec![0xA5u8; bytes as usize];
    let per_chunk = (TOTAL / CHUNKS as u64 / bytes).max(1);
    let mut chunks: Vec<f64> = (0..CHUNKS)
        .map(|_| {
            let start = Instant::now();
            for _ in 0..per_chunk {
                to.copy_from_slice(black_box(&from));
                black_box(&mut to);
            }
            start.elapsed().as_secs_f64()
        })
        .collect();
    let mib = (per_chunk * bytes) as f64 / f64::from(1 << 20);
    mib / median(&mut chunks).max(1e-9)
}

fn clock_ns() -> f64 {
    const READS: u32 = 10_000;
    let start = Instant::now();
    for _ in 0..READS {
        black_box(Instant::now());
    }
    start.elapsed().as_nanos() as f64 / f64::from(READS)
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}

#[cfg(test)]
impl Limits {
    /// Those of a machine whose cores have moved apart.
    pub fn example() -> Limits {
        Limits {
            line_half_rtt_ns: Some(50.0),
            line_half_rtt_after_ns: Some(200.0),
            memcpy: vec![(65536, 50_000.0)],
            direct_read: Vec::new(),
            clock_ns: 20.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_measured() {
        let limits = Limits::measure(None);
        assert!(limits.memcpy.iter().all(|&(_, rate)| rate > 1.0));
        assert!(limits.clock_ns > 0.0);
        assert!(limits.memcpy_near(60_000) == Some(limits.memcpy[1].1));
        assert!(!limits.moved());
    }

    #[test]
    fn a_machine_that_moved_is_noticed() {
        let limits = Limits::example();
        assert!(limits.moved());
        assert!(limits.to_text().contains("50 ns before, 200 ns after"));
    }
}
