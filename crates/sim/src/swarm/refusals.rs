//! Messages that were refused, injected ones and those for which an interface had no room: when
//! they are tried again, and that a refusal has changed nothing.
//!
//! Half of the processes begin nothing new before the message is taken; with the
//! others operations come between the tries, other sends to the same target among
//! them. What is left is received in any case, which may be what makes room.

use super::draw::Draw;
use sluice_link::Port;
use sluice_proto::{Endpoint, Refused, Send};
use sluice_wire::Nanos;
use std::collections::VecDeque;

/// Those of one process, in the order in which they are tried.
#[derive(Debug)]
pub struct Refusals {
    waiting: VecDeque<Send>,
    /// Draws when; `None`: before anything else.
    draw: Option<Draw>,
}

impl Refusals {
    pub fn new(seed: u64, who: usize) -> Refusals {
        let mut draw = Draw::stream(seed, 11 + ((who as u64) << 32));
        let waits = draw.percent(50);
        Refusals { waiting: VecDeque::new(), draw: waits.then_some(draw) }
    }

    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// A message was refused, perhaps again.
    pub fn add(&mut self, send: Send) {
        self.waiting.push_back(send);
    }

    /// The message to be tried now; `has_more` says if there is anything else to do.
    pub fn next(&mut self, has_more: bool) -> Option<Send> {
        let is_put_off = !self.waiting.is_empty()
            && has_more
            && self.draw.as_mut().is_some_and(|draw| draw.percent(60));
        if is_put_off { None } else { self.waiting.pop_front() }
    }
}

/// Sends, and sees that a refusal leaves no trace.
pub fn try_send<P: Port>(
    endpoint: &mut Endpoint,
    now: Nanos,
    port: &mut P,
    send: &Send,
) -> Result<(), Refused> {
    let before = endpoint.footprint(Some(send.peer));
    let outcome = endpoint.send(now, port, send);
    let is_unchanged = outcome.is_ok() || endpoint.footprint(Some(send.peer)) == before;
    assert!(is_unchanged, "send {} was refused and has left a trace", send.context);
    outcome
}
