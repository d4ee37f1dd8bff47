//! A measurement by messages, from the first process: it starts the second one,
//! meets it, and parts from it.

use crate::cores::Placement;
use crate::node::Node;
use crate::other::{Other, Second};
use crate::step::Step;
use anyhow::Result;
use sluice_runtime::{Choice, RailOptions};

/// Starts the second process and meets it.
pub fn start(placement: &Placement, options: RailOptions) -> Result<Node> {
    let core = placement.cores.map(|pair| pair.first);
    let RailOptions { bulk, credits, unexpected_bytes, .. } = options;
    let unexpected = unexpected_bytes.to_string();
    let args = ["--bulk", bulk.word(), "--credits", credits.word(), "--unexpected", &unexpected];
    let second = Second::start(placement, &args)?;
    let mut node = Node::open(core, options, Other::Second(second), placement.shares_a_core())?;
    let address = node.address();
    let Other::Second(second) = node.other() else { unreachable!("this process is the first") };
    let answer = second.exchange(&address)?;
    node.meet(&answer)?;
    Ok(node)
}

/// Lets the second process end, and waits until it has.
pub fn stop(mut node: Node) -> Result<()> {
    node.tell(&Step::Stop)?;
    let Other::Second(second) = node.other() else { unreachable!("this process is the first") };
    second.part()
}
