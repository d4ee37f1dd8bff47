//! Packets, reads and writes between two processes that rails join.
//!
//! A remote write is a read in the other direction, which the receiver begins when the
//! stream says that it is wanted; how it ended comes back in the stream.

use super::connection::{EndState, Job};
use super::frame::{Body, Cx, Message};
use super::side::{ReadFor, Reading, Side};
use super::{Effect, Event, Rails};
use crate::flight::Flight;
use crate::port::Move;
use sluice_link::{RailError, Remote, Rights};
use sluice_multirail::{Arrival, ChunkId, Landing, Number, RailId, ReadId};
use sluice_wire::{PeerId, Region, RemoteKey};

impl Rails {
    /// A process sends a packet of so many slots.
    pub fn transmit(&mut self, cx: &mut Cx<'_>, who: usize, to: usize, flight: Flight, slots: u32) {
        if self.is_gone(who, to) {
            self.effects.push_back(Effect::Drop { to, flight });
            return;
        }
        self.stream(cx, self.at(who, to), Message::Packet(flight, slots));
        self.begin_faults(cx);
        self.check_side(who, to);
    }

    /// A process reads or writes what a peer has exposed.
    pub fn start(&mut self, cx: &mut Cx<'_>, who: usize, what: Move) {
        let peer = what.peer.index();
        self.begin(cx, who, peer);
        let at = self.at(who, peer);
        if self.side_mut(at).is_gone {
            let outcome = Err(RailError::PeerGone);
            self.effects.push_back(Effect::Moved { who, what, outcome });
        } else if what.is_write {
            self.met.writes = 1;
            let key = cx.exposures[who].expose(what.peer, what.local, Rights::READ);
            let side = self.side_mut(at);
            let id = side.name();
            side.writes.insert(id, (what, key));
            let (from, into, len) = (Remote::whole(key), what.remote, what.local.len);
            self.stream(cx, at, Message::Write { id, from, into, len });
        } else {
            let purpose = ReadFor::Move(what);
            self.read(cx, at, Reading { from: what.remote, len: what.local.len, purpose });
        }
        self.check_side(who, peer);
    }

    /// A process uses a key of a peer that was revoked. Few do: who exposes memory again and
    /// again while it waits for credits would go on for ever.
    pub fn use_stale_key(&mut self, cx: &mut Cx<'_>, who: usize, peer: usize, key: RemoteKey) {
        let at = self.at(who, peer);
        let is_well = self.side(who, peer).is_some_and(|side| !side.is_gone);
        if is_well && !self.dead[who] && self.stale_keys_left > 0 {
            self.stale_keys_left -= 1;
            let reading = Reading { from: Remote::whole(key), len: 1, purpose: ReadFor::Nothing };
            self.read(cx, at, reading);
        }
    }

    /// The draw of how many revoked keys are used once more.
    pub fn stale_key_percent(&self) -> u64 {
        self.setup.stale_key_percent
    }

    fn stream(&mut self, cx: &mut Cx<'_>, at: usize, message: Message) {
        let (number, rail) = self.call(cx, at, |peer, now, _| peer.send(now));
        self.side_mut(at).kept.push_back((number, message));
        if let Some(rail) = rail {
            self.say(cx, at, rail.index(), Body::Stream(number, message));
        }
    }

    fn read(&mut self, cx: &mut Cx<'_>, at: usize, reading: Reading) {
        let side = self.side_mut(at);
        let id = side.name();
        side.reads.insert(id, reading);
        if reading.len == 0 {
            return self.end_read(cx, at, id, Ok(()));
        }
        self.call(cx, at, |peer, now, todo| peer.read(now, todo, ReadId(id), reading.len));
    }

    /// A frame has come on a connection that is there.
    pub(super) fn hear(
        &mut self,
        cx: &mut Cx<'_>,
        connection: usize,
        end: usize,
        acknowledged: Number,
        body: Body,
    ) {
        let one = &mut self.connections[connection];
        let (who, peer, rail) = (one.who[end], one.who[1 - end], one.rail);
        let (at, id) = (self.at(who, peer), RailId(rail as u8));
        let heard = self.call(cx, at, |peer, now, todo| peer.heard(now, todo, id, acknowledged));
        heard.expect("both keep to the rules of the stream");
        match body {
            Body::Stream(number, message) => {
                let arrival = self.side_mut(at).peer.receive(number);
                match arrival.expect("both keep to the rules of the stream") {
                    Arrival::New => self.deliver(cx, at, message),
                    Arrival::Duplicate => self.met.duplicates = 1,
                }
                self.owe_acknowledgement(cx, at, connection);
            }
            Body::Ask { chunk, from, len } => {
                self.connections[connection].ways[end].jobs.push_back(Job { chunk, from, len });
                self.pump(cx, connection, end);
            }
            Body::Data { chunk, bytes } => self.land(cx, at, id, chunk, &bytes),
            Body::Fault(chunk) => {
                let failed = self.call(cx, at, |peer, now, todo| peer.failed(now, todo, id, chunk));
                if let Some(ReadId(read)) = failed {
                    self.end_read(cx, at, read, Err(RailError::Fault));
                }
            }
            Body::Probe => self.say(cx, at, rail, Body::Answer),
            Body::Answer => {}
            Body::Hello | Body::Welcome | Body::Reset => unreachable!("not of a connection"),
        }
    }

    /// A message of the stream, the next one.
    fn deliver(&mut self, cx: &mut Cx<'_>, at: usize, message: Message) {
        let side = self.side_mut(at);
        side.delivered += 1;
        let who = side.who;
        match message {
            Message::Packet(flight, _) => {
                self.effects.push_back(Effect::Deliver { to: who, flight });
            }
            Message::Write { id, from, into, len } => {
                let found = cx.resolve(who, self.side_mut(at).peer_is, into, len, true);
                if len > 0 && found.is_err() {
                    let outcome = Err(RailError::Fault);
                    return self.stream(cx, at, Message::Written { id, outcome });
                }
                self.read(cx, at, Reading { from, len, purpose: ReadFor::Write { id, into } });
            }
            Message::Written { id, outcome } => {
                let (what, key) = side.writes.remove(&id).expect("a write ends once");
                cx.exposures[who].revoke(what.peer, key).expect("it was exposed for this");
                self.effects.push_back(Effect::Moved { who, what, outcome });
            }
        }
    }

    /// Bytes of a chunk have come.
    fn land(&mut self, cx: &mut Cx<'_>, at: usize, rail: RailId, chunk: ChunkId, bytes: &[u8]) {
        let side = self.side_mut(at);
        let (who, peer) = (side.who, side.peer_is);
        let len = bytes.len() as u64;
        match side.peer.landing(rail, chunk) {
            Landing::Nowhere => self.met.late_bytes = 1,
            Landing::Into { read, offset, len: left } => {
                assert!(len <= left, "no more comes than was asked for");
                let reading = side.reads.get(&read.0).expect("bytes land in a read under way");
                let place = match reading.purpose {
                    ReadFor::Move(Move { local, .. }) => {
                        Ok(Region { addr: local.addr.offset(offset), len })
                    }
                    ReadFor::Write { into, .. } => {
                        let into = Remote { key: into.key, offset: into.offset + offset };
                        cx.resolve(who, peer, into, len, true)
                    }
                    ReadFor::Nothing => panic!("a key that was revoked reaches memory"),
                };
                let Ok(place) = place else {
                    self.call(cx, at, |peer, now, todo| peer.cancel(now, todo, read));
                    return self.end_read(cx, at, read.0, Err(RailError::Fault));
                };
                cx.memories[who].write(place.addr, bytes);
            }
        }
        let arrived =
            self.call(cx, at, |peer, now, todo| peer.arrived(now, todo, rail, chunk, len));
        if let Some(ReadId(read)) = arrived {
            self.end_read(cx, at, read, Ok(()));
        }
    }

    fn end_read(&mut self, cx: &mut Cx<'_>, at: usize, read: u64, outcome: Result<(), RailError>) {
        let side = self.side_mut(at);
        let who = side.who;
        match side.reads.remove(&read).expect("a read ends once").purpose {
            ReadFor::Move(what) => self.effects.push_back(Effect::Moved { who, what, outcome }),
            ReadFor::Write { id, .. } => self.stream(cx, at, Message::Written { id, outcome }),
            ReadFor::Nothing => {
                assert_eq!(outcome, Err(RailError::Fault), "what comes of a key that was revoked");
                self.met.keys_refused = 1;
            }
        }
    }

    fn owe_acknowledgement(&mut self, cx: &mut Cx<'_>, at: usize, connection: usize) {
        let delay_ns = self.setup.ack_delay_ns;
        let side = self.side_mut(at);
        if side.peer.untold() == 0 || side.acknowledges_at.is_some() {
            return;
        }
        side.acknowledges_at = Some(cx.now + delay_ns);
        let event = Event::Acknowledge { side: at as u32, connection: connection as u32 };
        self.later.push((cx.now + delay_ns, event));
    }

    pub(super) fn acknowledge(&mut self, cx: &mut Cx<'_>, at: usize, connection: usize) {
        let (who, busy_until) = (at / self.count, self.computes_until[at / self.count]);
        if busy_until > cx.now {
            let event = Event::Acknowledge { side: at as u32, connection: connection as u32 };
            return self.later.push((busy_until, event));
        }
        let side = self.side_mut(at);
        side.acknowledges_at = None;
        if side.is_gone || side.peer.untold() == 0 {
            return;
        }
        // On one that is no more nobody waits for it: the peer sends again elsewhere.
        let rail = self.connections[connection].rail;
        if self.side_mut(at).used[rail] == Some(connection)
            && self.end_of(connection, who) == EndState::Open
        {
            self.say(cx, at, rail, Body::Answer);
        }
    }

    /// The peer of a side is gone: all that it had a part in ends.
    pub(super) fn end_side(&mut self, cx: &mut Cx<'_>, at: usize) {
        let (who, peer) = (at / self.count, at % self.count);
        let side = self.side_mut(at);
        side.is_gone = true;
        let connections: Vec<usize> =
            side.used.iter().chain(&side.accepted).flatten().copied().collect();
        for connection in connections {
            self.close_end(cx, connection, who);
        }
        let reads = std::mem::take(&mut self.side_mut(at).reads);
        let clock = self.clock(who, cx.now);
        let outcome = Err(RailError::PeerGone);
        for (read, reading) in reads {
            let side = self.side_mut(at);
            side.peer.cancel(clock, &mut side.todo, ReadId(read));
            if let ReadFor::Move(what) = reading.purpose {
                self.effects.push_back(Effect::Moved { who, what, outcome });
            }
        }
        for (what, key) in std::mem::take(&mut self.side_mut(at).writes).into_values() {
            cx.exposures[who].revoke(PeerId(peer as u32), key).expect("it was exposed for this");
            self.effects.push_back(Effect::Moved { who, what, outcome });
        }
        self.drop_kept(who, peer);
        self.effects.push_back(Effect::Gone { who, peer });
    }

    /// What one of two has not delivered of the other never will be, once neither can.
    pub(super) fn drop_kept(&mut self, one: usize, other: usize) {
        let is_over = |side: Option<&Side>| side.is_none_or(|side| side.is_gone);
        if !is_over(self.side(one, other)) || !is_over(self.side(other, one)) {
            return;
        }
        for (who, to) in [(one, other), (other, one)] {
            let delivered = self.side(to, who).map_or(0, |side| side.delivered);
            let at = self.at(who, to);
            let Some(side) = &mut self.sides[at] else { continue };
            for (number, message) in std::mem::take(&mut side.kept) {
                if let Message::Packet(flight, _) = message
                    && number.0 >= delivered
                {
                    self.effects.push_back(Effect::Drop { to, flight });
                }
            }
        }
    }
}
