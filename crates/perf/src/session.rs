//! A measurement by messages, from the first process: it starts the second one,
//! meets it, and parts from it.

use crate::access::Access;
use crate::cores::Placement;
use crate::node::Node;
use crate::other::{Other, Second, Start};
use crate::rail::Opening;
use crate::step::Step;
use anyhow::Result;
use sluice_runtime::Choice;

/// Starts the second process and meets it.
pub fn start(placement: &Placement, opening: &Opening, start: &Start) -> Result<Node> {
    start_with(placement, opening, start)
}

/// The same for any way to an endpoint.
pub fn start_with<A: Access>(
    placement: &Placement,
    opening: &Opening,
    start: &Start,
) -> Result<Node<A>> {
    let core = placement.cores.map(|pair| pair.first);
    let mailbox = &opening.mailbox;
    let unexpected = mailbox.unexpected_bytes.to_string();
    let mut args = vec!["--rail", opening.kind.name(), "--bulk", mailbox.bulk.word()];
    args.extend(["--credits", mailbox.credits.word(), "--unexpected", &unexpected]);
    let second = Second::start(start, placement, &args)?;
    let mut node = Node::open(core, opening, Other::Second(second), placement.shares_a_core())?;
    let address = node.address();
    let answer = node.second()?.exchange(&address)?;
    node.meet(&answer)?;
    Ok(node)
}

/// Lets the second process end, and waits until it has.
pub fn stop<A: Access>(mut node: Node<A>) -> Result<()> {
    node.tell(&Step::Stop)?;
    node.second()?.part()
}
