//! Many seeds on all cores. Each is a run of its own, so only the order in which
//! they end depends on the machine.

use std::num::NonZero;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

/// Runs each seed. Panics if one does.
pub fn run_all<R: Send>(seeds: Range<u64>, run: impl Fn(u64) -> R + Sync) -> Vec<R> {
    let cores = thread::available_parallelism().map_or(1, NonZero::get);
    let next = AtomicU64::new(seeds.start);
    let work = || {
        let mine = std::iter::repeat_with(|| next.fetch_add(1, Ordering::Relaxed));
        mine.take_while(|seed| *seed < seeds.end).map(&run).collect::<Vec<R>>()
    };
    thread::scope(|scope| {
        let workers: Vec<_> = (0..cores).map(|_| scope.spawn(work)).collect();
        let results = workers.into_iter().map(|worker| worker.join());
        results
            .flat_map(|result| result.unwrap_or_else(|cause| std::panic::resume_unwind(cause)))
            .collect()
    })
}
