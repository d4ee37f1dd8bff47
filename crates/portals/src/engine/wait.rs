//! Commands that wait for credits.

use crate::engine::ni::Ni;
use crate::objects::command::{Command, WaitingCommand};
use crate::objects::event::NiFail;
use crate::objects::md::Md;
use crate::objects::vector::Span;
use crate::table::Handle;
use sluice_link::Port;
use sluice_wire::PeerId;

impl Ni {
    /// Commands that wait for credits.
    #[must_use]
    pub fn waiting_now(&self) -> usize {
        self.waiting_now
    }

    #[cold]
    pub(crate) fn keep_waiting<P: Port>(&mut self, port: &mut P, peer: PeerId, command: &Command) {
        let staged = self
            .volatile_span(command)
            .filter(|&span| self.is_readable(port, span))
            .map(|span| self.gather(port, span));
        self.hold(command);
        self.waiting_now += 1;
        self.waiting
            .entry(peer)
            .or_default()
            .push_back(WaitingCommand::Command { command: *command, staged });
    }

    /// The memory of a command that the client may change as soon as the call has returned.
    pub(crate) fn volatile_span(&self, command: &Command) -> Option<Span> {
        match command {
            Command::Put { from, .. }
            | Command::Atomic { from, .. }
            | Command::Fetch { from, .. } => {
                let md = self.mds.get(from.md).filter(|md| md.options.volatile)?;
                md.span(from.offset, from.length)
                    .filter(|span| span.len > 0 && span.len <= self.limits.volatile_bytes_max())
            }
            _ => None,
        }
    }

    /// Sends what waited for credits toward `peer`, as far as they go: by control credits what
    /// may go so and finds no data credits, for messages that nobody receives may have them all.
    #[cold]
    pub(crate) fn flush_waiting<P: Port>(&mut self, port: &mut P, peer: PeerId) {
        let Some(mut queue) = self.waiting.remove(&peer) else { return };
        while let Some(waiting) = queue.pop_front() {
            let has_gone = match &waiting {
                WaitingCommand::Command { command, staged } => {
                    self.attempt(port, command, *staged)
                        || staged.is_none() && self.attempt_by_control(port, command)
                }
                WaitingCommand::Flow(flow) => self.pump(port, *flow),
            };
            if !has_gone {
                queue.push_front(waiting);
                break;
            }
            self.waiting_now -= 1;
            match waiting {
                WaitingCommand::Flow(flow) => self.waits_no_more(flow),
                WaitingCommand::Command { command, staged } => {
                    self.unhold(&command);
                    if let Some(staged) = staged {
                        port.give_back(staged.addr, staged.len as u32);
                    }
                }
            }
        }
        if !queue.is_empty() {
            self.waiting.insert(peer, queue);
        }
    }

    /// Sends what waited for anything, as far as it goes.
    pub(crate) fn flush_all_waiting<P: Port>(&mut self, port: &mut P) {
        let peers: Vec<PeerId> = self.waiting.keys().copied().collect();
        for peer in peers {
            self.flush_waiting(port, peer);
        }
    }

    /// Ends what waits for a peer that is gone.
    pub(crate) fn drop_waiting<P: Port>(&mut self, port: &mut P, peer: PeerId, why: NiFail) {
        let Some(queue) = self.waiting.remove(&peer) else { return };
        for waiting in queue {
            self.waiting_now -= 1;
            // What a flow keeps ends with the flow.
            let WaitingCommand::Command { command, staged } = waiting else { continue };
            self.unhold(&command);
            if let Some(staged) = staged {
                port.give_back(staged.addr, staged.len as u32);
            }
            self.fail(&command, why);
        }
    }

    /// The descriptors of a command are in use while it waits.
    pub(crate) fn hold(&mut self, command: &Command) {
        for md in descriptors(command).into_iter().flatten() {
            if let Some(md) = self.mds.get_mut(md) {
                md.pending += 1;
            }
        }
    }

    pub(crate) fn unhold(&mut self, command: &Command) {
        for md in descriptors(command).into_iter().flatten() {
            self.let_go(md);
        }
    }
}

/// The descriptors that a command uses.
#[inline]
pub(crate) fn descriptors(command: &Command) -> [Option<Handle<Md>>; 2] {
    match command {
        Command::Put { from, .. } | Command::Atomic { from, .. } => [Some(from.md), None],
        Command::Get { into, .. } | Command::GetFromHeader { into, .. } => [Some(into.md), None],
        Command::Fetch { into, from, .. } => [Some(into.md), Some(from.md)],
        Command::CtInc { .. } | Command::CtSet { .. } => [None, None],
    }
}
