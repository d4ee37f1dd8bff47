//! Words about transfers that have ended, and wait for a control credit.

use crate::core::Core;
use crate::portal::bulk_target;
use sluice_link::Port;
use sluice_link::mutants::{self, Mutant};
use sluice_portals::PtlError;
use sluice_wire::{MatchBits, Packet, PeerId, Status, Written};
use std::collections::VecDeque;

/// A word about a transfer: a get-done or a written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fin {
    peer: PeerId,
    packet: FinPacket,
    /// The message was taken from the queue of a stalled sender.
    taken: bool,
}

#[derive(Clone, Copy, Debug)]
enum FinPacket {
    GetDone { key: MatchBits, length: u64, status: Status },
    Written(Written),
}

impl Fin {
    /// Tells a sender that its message is done with.
    pub fn get_done(peer: PeerId, key: MatchBits, length: u64, status: Status, taken: bool) -> Fin {
        Fin { peer, packet: FinPacket::GetDone { key, length, status }, taken }
    }

    /// Tells a receiver how the put went that it asked for.
    pub fn written(peer: PeerId, written: Written) -> Fin {
        Fin { peer, packet: FinPacket::Written(written), taken: false }
    }
}

/// What waits. There are at most as many get-dones as messages announced to this
/// process, which its credits bound, and requests of its own for which it took
/// messages of stalled senders; at most as many writtens as messages it announced.
#[derive(Debug, Default)]
pub(crate) struct Fins {
    queue: VecDeque<Fin>,
}

impl Fins {
    pub fn len(&self) -> usize {
        self.queue.len()
    }

    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Says it, now or when a credit allows.
    pub fn say<P: Port>(&mut self, core: &mut Core, port: &mut P, fin: Fin) {
        let sent = match fin.packet {
            FinPacket::GetDone { key, length, status } => {
                core.ni.get_done(port, &bulk_target(fin.peer, key, 0), length, status)
            }
            FinPacket::Written(written) => core.ni.tell(port, fin.peer, &Packet::Written(written)),
        };
        // A peer that cannot be reached has no use for it.
        if matches!(sent, Err(PtlError::NoCredit { .. })) {
            if !mutants::is(Mutant::ForgetsDelayedFins) {
                self.queue.push_back(fin);
            }
        } else if fin.taken {
            core.peers.note_told(fin.peer);
        }
    }

    /// Says what waited, as far as there are credits.
    pub fn flush<P: Port>(&mut self, core: &mut Core, port: &mut P) {
        // A peer that returns no credits delays only its own.
        for _ in 0..self.queue.len() {
            let Some(fin) = self.queue.pop_front() else { return };
            self.say(core, port, fin);
        }
    }

    /// Nothing is said to a peer that is gone.
    pub fn forget(&mut self, peer: PeerId) {
        self.queue.retain(|fin| fin.peer != peer);
    }
}
