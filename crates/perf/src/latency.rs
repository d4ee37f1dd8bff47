//! Half round trips: one message there, one of the same size back.

use crate::node::Node;
use crate::stats::Samples;
use crate::step::Step;
use anyhow::Result;
use std::time::Instant;

/// Goes to and fro `count` times; each round trip is one sample. The clock is
/// read once per round trip, and that reading is in the sample. As in MPI programs a receive is posted when
/// the message before it was sent.
pub fn first(node: &mut Node, size: u64, count: u64, samples: &mut Samples) -> Result<()> {
    node.begin(&Step::PingPong { size, count })?;
    let mut received = node.data_received();
    let mut before = Instant::now();
    for _ in 0..count {
        received += 1;
        node.send_data(size)?;
        node.post_data(size)?;
        node.wait_data(received)?;
        let now = Instant::now();
        samples.record((now - before).as_nanos() as u64);
        before = now;
    }
    Ok(())
}

/// The other side of [`first`]. Its first receive is posted before it says that it is ready.
pub fn second(node: &mut Node, size: u64, count: u64) -> Result<()> {
    let mut received = node.data_received();
    if count > 0 {
        node.post_data(size)?;
    }
    node.answer(0)?;
    for left in (0..count).rev() {
        received += 1;
        node.wait_data(received)?;
        node.send_data(size)?;
        if left > 0 {
            node.post_data(size)?;
        }
    }
    Ok(())
}
