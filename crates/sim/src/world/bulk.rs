//! What the interfaces move without a processor: reads and writes of memory,
//! shared transfers, and what goes through a fabric.
//!
//! A read is asked for and a write begins at once; who asked for a write is told
//! when the answer is back. A process that exchanges another one's word waits for
//! the answer. Who had no right to a chunk yet asks for it first, in the same time.

use super::{Event, World};
use crate::chunk_claims::{Share, Turn};
use crate::fabric::{Effect, Step};
use crate::flight::Flight;
use crate::library::Library;
use crate::port::Move;
use sluice_link::{MailboxRegion, RailError, Token};
use sluice_wire::{Nanos, PeerId, Region};

/// A bulk transfer under way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Transfer {
    pub process: u32,
    pub what: Move,
    /// The side of a shared transfer that it is a chunk of.
    pub part: Option<u32>,
}

/// What a process has yet to read: bytes that it asked for were moved.
#[derive(Clone, Copy, Debug)]
pub(super) struct End {
    pub token: Token,
    pub outcome: Result<(), RailError>,
    pub written_alone: bool,
}

/// What a fabric carries.
#[derive(Clone, Copy, Debug)]
pub(super) enum Cargo {
    Flight(Flight),
    /// The request for a read, and the bytes of any transfer.
    Asked(u32),
    Moved(u32),
}

impl<L: Library> World<L> {
    /// Sends a packet.
    pub(super) fn send(&mut self, now: u64, from: u32, to: u32, slots: u32, flight: Flight) {
        if let Some(fabric) = &mut self.fabric {
            let packet = flight.peek(&self.store);
            let is_bulk = MailboxRegion::of(&packet.packet) == MailboxRegion::Reply;
            let bytes = u64::from(slots) * 64;
            fabric.send(from as usize, to as usize, bytes, is_bulk, Cargo::Flight(flight));
            return self.settle_fabric(now);
        }
        let at = self.network.send(now, from, to, slots);
        self.queue.add(at, Event::Arrive { to, flight });
    }

    /// Begins what a machine has asked the interface for.
    pub(super) fn begin_bulk(&mut self, now: u64, process: u32) {
        let asked = &self.around.outbox;
        if asked.moves.is_empty() && asked.shares.is_empty() {
            return;
        }
        let mut outbox = std::mem::take(&mut self.around.outbox);
        for what in outbox.moves.drain(..) {
            self.begin_transfer(now, Transfer { process, what, part: None });
        }
        for share in outbox.shares.drain(..) {
            let Share { is_write, peer, .. } = share;
            let may_begin = !is_write || self.around.claims.is_reserved(&share);
            let part = self.around.claims.begin(share);
            let wait_ns = if may_begin { 0 } else { self.round_ns(process, peer) };
            self.queue.add(now + wait_ns, Event::Turn { part });
        }
        self.around.outbox = outbox;
    }

    fn begin_transfer(&mut self, now: u64, entry: Transfer) {
        let Transfer { process, what, .. } = entry;
        let other = what.peer.0;
        let transfer = self.transfers_free.pop().unwrap_or(self.transfers.len() as u32);
        match self.transfers.get_mut(transfer as usize) {
            Some(place) => *place = entry,
            None => self.transfers.push(entry),
        }
        if let Some(fabric) = &mut self.fabric {
            let (from, to) = (process as usize, other as usize);
            if what.is_write {
                fabric.send(from, to, what.local.len, true, Cargo::Moved(transfer));
            } else {
                fabric.send(from, to, 64, false, Cargo::Asked(transfer));
            }
            return self.settle_fabric(now);
        }
        let at = if what.is_write { now } else { self.network.send(now, process, other, 1) };
        self.queue.add(at, Event::Asked { transfer });
    }

    /// What asking another node's interface and hearing from it takes.
    pub(super) fn round_ns(&self, process: u32, other: u32) -> u64 {
        self.network.latency_ns(process, other) + self.network.latency_ns(other, process)
    }

    /// A transfer passes the network.
    pub(super) fn asked(&mut self, now: u64, transfer: u32) {
        let Transfer { process, what, .. } = self.transfers[transfer as usize];
        let other = what.peer.0;
        let (from, to) = if what.is_write { (process, other) } else { (other, process) };
        let at = self.network.transfer(now, from, to, what.local.len);
        self.queue.add(at, Event::Moved { transfer });
    }

    /// The bytes of a transfer are there.
    pub(super) fn moved(&mut self, now: u64, transfer: u32) {
        let Transfer { process, what, part } = self.transfers[transfer as usize];
        let other = what.peer.0;
        if L::EXPOSES {
            let len = what.local.len;
            let exposures = &self.around.exposures[other as usize];
            let found = exposures.resolve(PeerId(process), what.remote, len, what.is_write);
            let addr = found.unwrap_or_else(|why| panic!("{process} used a key of {other}: {why}"));
            let (from, to, region, at) = if what.is_write {
                (process, other, what.local, addr)
            } else {
                (other, process, Region { addr, len }, what.local.addr)
            };
            let bytes = self.around.memories[from as usize].read(region).to_vec();
            self.around.memories[to as usize].write(at, &bytes);
        }
        let woken = part.and_then(|part| self.around.claims.copied(part, Ok(())));
        if let Some(waiting) = woken {
            self.queue.add(now, Event::Turn { part: waiting });
        }
        let told_ns = if what.is_write { self.network.latency_ns(other, process) } else { 0 };
        if told_ns > 0 {
            self.queue.add(now + told_ns, Event::Told { transfer });
        } else {
            self.told(now, transfer);
        }
    }

    /// Who asked for a transfer is told of its end.
    pub(super) fn told(&mut self, now: u64, transfer: u32) {
        let Transfer { process, what, part } = self.transfers[transfer as usize];
        self.transfers_free.push(transfer);
        match part {
            Some(part) => self.turn(now, part),
            None => {
                let end = End { token: what.token, outcome: Ok(()), written_alone: false };
                self.end(now, process, end);
            }
        }
    }

    /// A side of a shared transfer has its turn.
    pub(super) fn turn(&mut self, now: u64, part: u32) {
        let Some(share) = self.around.claims.share(part) else { return };
        match self.around.claims.turn(part) {
            Turn::Wait => {}
            Turn::Copy(offset, len) => {
                let local = Region { addr: share.local.addr.offset(offset), len };
                let what = Move {
                    peer: PeerId(share.peer),
                    local,
                    remote: share.remote_at(offset),
                    is_write: share.is_write,
                    token: share.token,
                };
                self.begin_transfer(now, Transfer { process: share.who, what, part: Some(part) });
            }
            Turn::End(outcome, written_alone) => {
                self.end(now, share.who, End { token: share.token, outcome, written_alone });
            }
        }
    }

    /// Bytes that a process had asked for were moved.
    fn end(&mut self, now: u64, process: u32, end: End) {
        if L::ENDS_ARE_READ {
            self.hosts[process as usize].ends.push_back(end);
            return self.rouse(process, now);
        }
        // The interface sees to what follows; what the processor sends, it pays later.
        let (told, _) = self.read_end(now, process, end);
        if let Some(told) = told {
            let at = now + self.network.latency_ns(process, told);
            self.queue.add(at, Event::Fetched { process: told });
        }
        self.rouse(process, now);
    }

    /// A process learns of it. Whom to tell, and what it costs.
    pub(super) fn read_end(&mut self, now: u64, process: u32, end: End) -> (Option<u32>, u64) {
        let mut port = self.around.port(process as usize, &[]);
        port.written_alone = end.written_alone;
        let library = &mut self.libraries[process as usize];
        let (told, cost_ns) = library.moved(Nanos(now), &mut port, end.token, end.outcome);
        (told, cost_ns + self.flush(process, now))
    }

    /// Something happens within the fabric.
    pub(super) fn step_fabric(&mut self, now: u64, step: Step, node: u32) {
        if let Some(fabric) = &mut self.fabric {
            fabric.step(step, node as usize);
        }
        self.settle_fabric(now);
    }

    /// Carries out what came of a call of the fabric.
    fn settle_fabric(&mut self, now: u64) {
        while let Some(effect) = self.fabric.as_mut().and_then(|fabric| fabric.effects.pop()) {
            match effect {
                Effect::Later(ns, step, node) => {
                    self.queue.add(now + ns, Event::Fabric { step, node: node as u32 });
                }
                Effect::Arrived(to, Cargo::Flight(flight)) => {
                    self.count_slow(to as u32, flight);
                    self.arrive(now, to as u32, flight);
                }
                Effect::Arrived(_, Cargo::Asked(transfer)) => {
                    let Transfer { process, what, .. } = self.transfers[transfer as usize];
                    let (from, to) = (what.peer.index(), process as usize);
                    let cargo = Cargo::Moved(transfer);
                    if let Some(fabric) = &mut self.fabric {
                        fabric.send(from, to, what.local.len, true, cargo);
                    }
                }
                Effect::Arrived(to, Cargo::Moved(transfer)) => {
                    let Transfer { process, what, .. } = self.transfers[transfer as usize];
                    if (process, what.peer.0, to) == (1, 0, 1) {
                        self.slow_bytes += what.local.len;
                    }
                    self.moved(now, transfer);
                }
            }
        }
    }

    /// Counts what the slow sink has taken.
    fn count_slow(&mut self, to: u32, flight: Flight) {
        if (flight.from().0, to) == (0, 1) {
            let packet = flight.peek(&self.store);
            if MailboxRegion::of(&packet.packet) == MailboxRegion::Reply {
                self.slow_bytes += u64::from(packet.payload_len);
            }
        }
    }
}
