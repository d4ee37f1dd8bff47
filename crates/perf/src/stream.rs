//! One way: windows of messages, each window answered by one small message.
//! Bandwidth and rate are two readings of it.

use crate::buffers::Places;
use crate::node::Node;
use crate::stats::Samples;
use crate::step::Step;
use anyhow::Result;
use std::time::Instant;

/// Sends `count` windows of `window` messages; each window, from its first
/// message until its answer, is one sample.
pub fn first(
    node: &mut Node,
    size: u64,
    window: u64,
    count: u64,
    mut places: Places,
    samples: &mut Samples,
) -> Result<()> {
    node.begin(&Step::Stream { size, count, window, places })?;
    let mut answers = node.answers_received();
    let mut before = Instant::now();
    for _ in 0..count {
        answers += 1;
        node.post_answer()?;
        for _ in 0..window {
            node.send_data_from(places.take(size), size)?;
        }
        node.wait_answers(answers)?;
        let now = Instant::now();
        samples.record((now - before).as_nanos() as u64);
        before = now;
    }
    Ok(())
}

/// The other side of [`first`]. The receives of a window are posted before the
/// answer that lets the first process send it, so no message comes unexpected.
pub fn second(
    node: &mut Node,
    size: u64,
    window: u64,
    count: u64,
    mut places: Places,
) -> Result<()> {
    let mut received = node.data_received();
    for left in (0..=count).rev() {
        if left > 0 {
            for _ in 0..window {
                node.post_data_into(places.take(size), size)?;
            }
        }
        node.answer(0)?;
        if left > 0 {
            received += window;
            node.wait_data(received)?;
        }
    }
    Ok(())
}
