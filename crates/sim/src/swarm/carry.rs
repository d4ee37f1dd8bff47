//! What machines have asked for is carried out: packets leave, memory of others is read and
//! written, connections are opened.

use super::events::Event;
use super::trace::What;
use super::world::{Late, World};
use crate::flight::Flight;
use crate::port::Move;
use crate::rails::Kind;
use sluice_link::{Machine as _, RailError, Token};
use sluice_wire::{PeerId, Region};

impl World<'_> {
    /// Carries out what a machine has asked for.
    pub(super) fn flush(&mut self, who: usize) {
        let mut outbox = std::mem::take(&mut self.outbox);
        for out in outbox.packets.drain(..) {
            let to = out.peer.index();
            let flight = Flight::pack(&out.head, out.payload, PeerId(who as u32), &mut self.store);
            let packet = flight.peek(&self.store);
            let slots = self.books.send(who, to, &packet);
            self.coverage.note(&packet);
            self.note(who, What::Transmits(to, packet, slots));
            if self.hosts_of.are_apart(who as u32, out.peer.0) {
                self.on_rails(|rails, cx| rails.transmit(cx, who, to, flight, slots));
                continue;
            }
            let way = who * self.hosts.len() + to;
            let free =
                self.way_free_ns[way].max(self.now_ns) + u64::from(slots) * self.setup.slot_ns;
            self.way_free_ns[way] = free;
            let late_ns = self.draw.below(self.setup.jitter_ns + 1);
            let mut at = (free + self.setup.latency_ns + late_ns).max(self.arrival_ns[way]);
            if let Some((from, token)) = out.late {
                self.coverage.pending_transmissions = 1;
                let late = Late { who, to, from, token, flight, is_written: false };
                at = at.max(self.take_late(late));
            }
            self.arrival_ns[way] = at;
            self.queue.add(at, Event::Arrive { to: to as u32, flight });
        }
        for what in outbox.moves.drain(..) {
            if self.hosts_of.are_apart(who as u32, what.peer.0) {
                self.on_rails(|rails, cx| rails.start(cx, who, what));
                continue;
            }
            let transfer = self.transfers_free.pop().unwrap_or(self.transfers.len() as u32);
            match self.transfers.get_mut(transfer as usize) {
                Some(place) => *place = Some((who, what)),
                None => self.transfers.push(Some((who, what))),
            }
            let late_ns = self.draw.below(self.setup.jitter_ns + 1);
            let taken_ns = what.local.len.div_ceil(1024) * self.setup.kib_ns;
            let at = self.now_ns + 2 * self.setup.latency_ns + taken_ns + late_ns;
            self.queue.add(at, Event::Moved { transfer });
        }
        for peer in outbox.connects.drain(..) {
            self.coverage.pending_connections = 1;
            self.note(who, What::Connects(peer.index()));
            if self.hosts_of.are_apart(who as u32, peer.0) {
                self.asks_for(who, peer.index());
                continue;
            }
            let at = self.now_ns + 1 + self.draw_connecting.below(self.setup.connecting_ns);
            self.queue.add(at, Event::Connected { who: who as u32, peer: peer.0 });
        }
        if std::mem::take(&mut self.claims.was_out) {
            self.befall(Kind::ClaimsOut);
        }
        self.flush_rails(who, &mut outbox);
        self.flush_nic(who);
        // An exchange has its answer at once: nothing else happens in a step.
        outbox.exchanges.clear();
        for share in outbox.shares.drain(..) {
            let part = self.claims.begin(share);
            let late_ns = self.draw.below(self.setup.jitter_ns + 1);
            self.queue.add(self.now_ns + late_ns, Event::Turn { part });
        }
        self.outbox = outbox;
    }

    /// A read or a write on the same host that `who` had asked for ends.
    pub(super) fn moved(&mut self, who: usize, what: Move) {
        let peer = what.peer.index();
        let may = !self.forbidden[who][peer] && !self.is_dead(peer);
        self.note(who, What::Moved(peer, what.local.len, may));
        let outcome = if self.is_dead(peer) {
            Err(RailError::PeerGone)
        } else if may {
            self.copy(who, &what);
            Ok(())
        } else {
            self.unreadable[who][peer] = true;
            Err(RailError::Forbidden)
        };
        self.tell_moved(who, what.token, outcome);
    }

    /// A process is told how a read or a write has ended.
    pub(super) fn tell_moved(&mut self, who: usize, token: Token, outcome: Result<(), RailError>) {
        self.step(who, &[], |endpoint, now, port| {
            endpoint.on_moved(now, port, token, outcome);
        });
        self.rouse(who);
    }

    /// Moves bytes between a process and memory that another has exposed to it.
    ///
    /// # Panics
    /// If it has not: nobody here uses a key that is not valid.
    pub(super) fn copy(&mut self, who: usize, what: &Move) {
        let (peer, len) = (what.peer.index(), what.local.len);
        let found =
            self.exposures[peer].resolve(PeerId(who as u32), what.remote, len, what.is_write);
        let addr = found.unwrap_or_else(|why| panic!("{who} used a key of {peer}: {why}"));
        let (from, source, to, target) = match what.is_write {
            false => (peer, Region { addr, len }, who, what.local.addr),
            true => (who, what.local, peer, addr),
        };
        let bytes = self.memories[from].read(source).to_vec();
        self.memories[to].write(target, &bytes);
    }

    /// The rail takes a packet before it has read its memory. When it will have.
    fn take_late(&mut self, late: Late) -> u64 {
        let at = self.now_ns + self.draw.below(self.setup.jitter_ns + 1);
        let place = self.lates_free.pop().unwrap_or(self.lates.len() as u32);
        match self.lates.get_mut(place as usize) {
            Some(found) => *found = Some(late),
            None => self.lates.push(Some(late)),
        }
        self.queue.add(at, Event::Write { late: place });
        at
    }

    /// The rail reads the memory of a packet, and says so some time later: maybe
    /// when the packet has long arrived.
    pub(super) fn write(&mut self, place: u32) {
        let late = self.lates[place as usize].as_mut().expect("it was taken by the rail");
        late.is_written = true;
        if late.from.len > 0 {
            let bytes = self.memories[late.who].read(late.from).into();
            late.flight.fill(bytes, &mut self.store);
        }
        let at = self.now_ns + self.draw.below(2 * self.setup.jitter_ns + 1);
        self.queue.add(at, Event::Transmitted { late: place });
    }

    pub(super) fn transmitted(&mut self, late: &Late) {
        self.note(late.who, What::Transmitted(late.to));
        let token = late.token;
        self.step(late.who, &[], |endpoint, now, port| endpoint.on_transmitted(now, port, token));
        self.rouse(late.who);
    }
}
