//! What is noted of packets and requests while somebody wants to know: counts by peer
//! ([`Tally`]), and the last things that happened (`trace`).
//!
//! Whatever goes to a peer or comes from one passes the port of the machine. There it is
//! looked at, so that machines know nothing of this. Who wants nothing noted has no observer,
//! and pays for a look at a pointer with each packet and request.

mod trace;

pub(crate) use trace::Keeper;
pub use trace::{EVENTS_MAX, Request, SUFFIX, VERSION};

use sluice_link::TaggedMessage;
use sluice_wire::{Nanos, Packet, Parsed, PeerId, Rts};
use std::path::PathBuf;
use trace::{Trace, What};

/// What is wanted to be noted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Observed {
    /// Counts by peer, from the first packet on. Without that they begin when somebody watches.
    pub peers: bool,
    /// The directory that gets a file of the last things that happened, when all is closed.
    pub trace_dir: Option<PathBuf>,
}

/// What was exchanged with a peer. Messages are also writes and atomic operations on remote
/// memory that travel in packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Messages sent.
    pub messages_out: u64,
    /// Their bytes, those of announced ones included.
    pub bytes_out: u64,
    /// Messages that have come.
    pub messages_in: u64,
    /// Their bytes.
    pub bytes_in: u64,
    /// Messages that were announced, or offered while they waited for credits.
    pub announced_out: u64,
    /// The same of those that have come.
    pub announced_in: u64,
    /// Those that were sent to where an announced receive wanted them.
    pub speculative_out: u64,
    /// Those that both sides were to copy.
    pub cooperative_out: u64,
    /// Those that this side was to write.
    pub put_out: u64,
}

impl Tally {
    /// Messages sent with their announcement.
    #[must_use]
    pub fn eager_out(&self) -> u64 {
        self.messages_out.saturating_sub(self.announced_out)
    }

    /// Announced messages that the receiver fetches, or has not said of how it wants them.
    #[must_use]
    pub fn got_out(&self) -> u64 {
        let others = self.speculative_out + self.cooperative_out + self.put_out;
        self.announced_out.saturating_sub(others)
    }

    fn count_out(&mut self, packet: &Parsed) {
        if let Some((bytes, rts)) = message_of(packet) {
            self.messages_out += 1;
            self.bytes_out = self.bytes_out.wrapping_add(bytes);
            self.announced_out += u64::from(rts.is_some());
            self.speculative_out += u64::from(rts.is_some_and(|rts| rts.claims.is_some()));
        }
        if let Packet::Waiting(waiting) = packet.packet
            && let Some(found) = waiting.found
        {
            self.messages_out += 1;
            self.announced_out += 1;
            self.bytes_out = self.bytes_out.wrapping_add(found.total_len);
        }
    }

    fn count_in(&mut self, packet: &Parsed) {
        if let Some((bytes, rts)) = message_of(packet) {
            self.messages_in += 1;
            // A peer may announce any length.
            self.bytes_in = self.bytes_in.wrapping_add(bytes);
            self.announced_in += u64::from(rts.is_some());
        }
        match packet.packet {
            Packet::Cts(cts) if cts.claims.is_some() => self.cooperative_out += 1,
            Packet::Cts(_) => self.put_out += 1,
            Packet::Waiting(waiting) => {
                let Some(found) = waiting.found else { return };
                self.messages_in += 1;
                self.announced_in += 1;
                self.bytes_in = self.bytes_in.wrapping_add(found.total_len);
            }
            _ => {}
        }
    }
}

/// The length of the message that a packet carries or announces, and how it is announced.
fn message_of(packet: &Parsed) -> Option<(u64, Option<Rts>)> {
    match packet.packet {
        Packet::Put(put) => match put.rts {
            Some(rts) => Some((rts.total_len, Some(rts))),
            None => Some((packet.payload_len.into(), None)),
        },
        Packet::Atomic(_) => Some((packet.payload_len.into(), None)),
        _ => None,
    }
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Observer {
    since: Nanos,
    tallies: Vec<Tally>,
    trace: Option<Trace>,
}

impl Observer {
    /// One that begins now.
    pub fn new(now: Nanos, trace_dir: Option<PathBuf>) -> Observer {
        Observer { since: now, tallies: Vec::new(), trace: trace_dir.map(Trace::new) }
    }

    /// Since when packets are counted by peer.
    pub fn since(&self) -> Nanos {
        self.since
    }

    /// What was exchanged with a peer.
    pub fn tally(&self, peer: PeerId) -> Tally {
        self.tallies.get(peer.index()).copied().unwrap_or_default()
    }

    /// What is to be written when all is closed, if anything is.
    pub fn trace(&self) -> Option<&Trace> {
        self.trace.as_ref()
    }

    /// A packet is about to go.
    pub fn note_out(&mut self, now: impl FnOnce() -> Nanos, peer: PeerId, packet: &Parsed) {
        self.tally_mut(peer).count_out(packet);
        self.add(now, Some(peer), What::Out(*packet));
    }

    /// A packet has come.
    pub fn note_in(&mut self, now: impl FnOnce() -> Nanos, peer: PeerId, packet: &Parsed) {
        self.tally_mut(peer).count_in(packet);
        self.add(now, Some(peer), What::In(*packet));
    }

    /// A message is given to a rail that matches.
    pub fn note_matched(&mut self, peer: PeerId, message: &TaggedMessage) {
        let tally = self.tally_mut(peer);
        tally.messages_out += 1;
        tally.bytes_out = tally.bytes_out.wrapping_add(message.len);
        tally.announced_out += u64::from(message.rts.is_some());
    }

    /// Something happens to a request of the layer above.
    pub fn note_request(
        &mut self,
        now: impl FnOnce() -> Nanos,
        peer: Option<PeerId>,
        request: Request,
    ) {
        self.add(now, peer, What::Request(request));
    }

    /// The newest request to send or to receive was refused.
    pub fn withdraw_request(&mut self) {
        if let Some(trace) = &mut self.trace {
            trace.withdraw_request();
        }
    }

    /// Bytes are to be moved from this process's memory, or into it.
    pub fn note_move(&mut self, now: impl FnOnce() -> Nanos, peer: PeerId, writes: bool, len: u64) {
        self.add(now, Some(peer), What::Moves { writes, len });
    }

    /// The clock is read for a trace alone.
    fn add(&mut self, now: impl FnOnce() -> Nanos, peer: Option<PeerId>, what: What) {
        if let Some(trace) = &mut self.trace {
            trace.add(now(), peer, what);
        }
    }

    fn tally_mut(&mut self, peer: PeerId) -> &mut Tally {
        let index = peer.index();
        if index >= self.tallies.len() {
            self.tallies.resize_with(index + 1, Tally::default);
        }
        &mut self.tallies[index]
    }
}

#[cfg(test)]
mod tests;
