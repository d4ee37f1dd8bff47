//! What `multirail` wants done, what is given to sockets, and the ends of connections
//! and peers.

use super::conn::Conn;
use super::outbound::Flushed;
use super::remote::{Action, Actions, Met, ReadOf, Remote, Stage};
use super::ring::Ring;
use super::take_in::{ALTERED_MAX, Broken};
use super::{Entry, Event, Net, packets};
use sluice_link::{PeerError, RailError};
use sluice_multirail::{Ask as MultirailAsk, Peer, RailId};
use sluice_wire::frame::{Ask, CloseReason, FrameHead, FrameKind};
use sluice_wire::{Nanos, PeerId};
use std::io;

/// A peer whose host has refused so many connections in a row, while none is open, has
/// ended.
pub(super) const REFUSED_MAX: u32 = 3;
/// After so long without a sign of life the peer's host is asked for one.
const PROBE_NS: u64 = 5_000_000;
/// So often it is asked by a frame; the waits between double. Then the system's own
/// probes go on, once a second, and take no room in the peer's socket.
const PROBES_MAX: u32 = 8;
/// A sign of life is as fresh as that, in milliseconds, while frames ask for it, and
/// while the system does.
const FRESH_MS: u32 = 6;
pub(super) const FRESH_ALONE_MS: u32 = 2_500;

/// So often it is said one by one that something was altered; then now and then.
const ALTERED_NAMED: u64 = 10;

impl Net {
    /// Calls the rails of a peer, and does what they then want done.
    pub(super) fn with_rails<R>(
        &mut self,
        peer: PeerId,
        call: impl FnOnce(&mut Peer, &mut Actions) -> R,
    ) -> Option<R> {
        let mut actions = std::mem::take(&mut self.actions);
        let result = self.met_mut(peer).map(|met| call(&mut met.rails, &mut actions));
        if !actions.0.is_empty() {
            for action in actions.0.drain(..) {
                self.perform(peer, action);
            }
        }
        self.actions = actions;
        result
    }

    fn perform(&mut self, peer: PeerId, action: Action) {
        match action {
            Action::Close(_) | Action::Probe(_) => self.stats.noticed = Some(self.now),
            Action::Resume(_) => self.stats.resumed = Some(self.now),
            Action::Open(_) | Action::Ask(_) | Action::Release(_) | Action::Gone => {}
        }
        match action {
            Action::Open(rail) => self.open_soon(peer, rail),
            Action::Close(rail) => self.close(peer, rail),
            Action::Probe(rail) => {
                let Some(met) = self.met_mut(peer) else { return };
                let acknowledged = met.rails.tell().0;
                let entry = met.conns[rail.index()];
                if let Some(conn) = self.conn_of(peer, rail) {
                    conn.push_bare(FrameKind::Probe, 0, acknowledged);
                }
                entry.into_iter().for_each(|entry| self.mark_dirty(entry));
            }
            Action::Resume(rail) => self.move_stream(peer, rail),
            Action::Ask(ask) => self.ask(peer, &ask),
            Action::Release(count) => {
                let Net { entries, remotes, .. } = self;
                let remote = remotes.get_mut(peer.index()).and_then(Option::as_deref_mut);
                if let Some(Remote { stage: Stage::Met(met), .. }) = remote {
                    packets::release(entries, met, count);
                }
            }
            Action::Gone => self.lose(peer, PeerError::Unreachable),
        }
    }

    /// The stream goes on over a rail, beginning with what is kept.
    fn move_stream(&mut self, peer: PeerId, rail: RailId) {
        let Some(met) = self.met_mut(peer) else { return };
        let before = met.stream_on.replace(rail);
        met.resumed += u32::from(before.is_some());
        let entry_of = |met: &Met, rail: RailId| met.conns[rail.index()];
        let left = before.and_then(|before| entry_of(met, before));
        let entered = entry_of(met, rail);
        if let Some((conn, ring)) = left.and_then(|entry| self.conn_and_ring(entry)) {
            conn.out.end_stream(ring);
        }
        if let Some((conn, ring)) = entered.and_then(|entry| self.conn_and_ring(entry)) {
            conn.out.begin_stream(ring.begin());
        }
        [left, entered].into_iter().flatten().for_each(|entry| self.mark_dirty(entry));
    }

    fn ask(&mut self, peer: PeerId, ask: &MultirailAsk) {
        if !self.fetch_chunk(peer, ask) {
            self.push_ask(peer, ask, FrameKind::Ask);
        }
    }

    /// Asks for a chunk by a frame of this kind.
    pub(super) fn push_ask(&mut self, peer: PeerId, ask: &MultirailAsk, kind: FrameKind) {
        let Some(met) = self.met_mut(peer) else { return };
        let Some(read) = met.reads.iter().find(|read| read.id == ask.read) else { return };
        let body = Ask {
            key: read.key,
            offset: read.offset.saturating_add(ask.offset),
            len: u32::try_from(ask.len).expect("a chunk is shorter"),
        };
        let head = FrameHead {
            kind,
            len: Ask::BYTES as u32,
            id: ask.chunk.bits(),
            acknowledged: met.rails.tell().0,
        };
        let Some(entry) = met.conns[ask.rail.index()] else { return };
        if let Some(conn) = self.conn(entry) {
            conn.out.push(&[&head.emit(), &body.emit()]);
            conn.expect_chunk(ask.len);
        }
        self.mark_dirty(entry);
    }

    /// A connection, and the stream of its peer.
    pub(super) fn conn_and_ring(&mut self, entry: usize) -> Option<(&mut Conn, &Ring)> {
        let Entry::Conn(conn) = self.entries.get_mut(entry)? else { return None };
        match &self.remotes.get(conn.peer.index())?.as_deref()?.stage {
            Stage::Met(met) => Some((conn, &met.ring)),
            _ => None,
        }
    }

    /// Gives a socket what there is for it.
    pub(super) fn flush(&mut self, entry: usize) {
        let now = self.now;
        let Some(peer) = self.conn(entry).map(|conn| conn.peer) else { return };
        let Some((conn, ring)) = self.conn_and_ring(entry) else { return };
        let bulk = if conn.out.serves() == 0 {
            0
        } else {
            conn.drain.room(now, conn.out.sent_bytes(), conn.lane.waiting_bytes()) as usize
        };
        conn.burst.note_given();
        let flushed = conn.out.flush(&mut conn.lane, ring, bulk);
        conn.drain.note(now, matches!(flushed, Ok(Flushed::Enough)));
        match flushed {
            Ok(Flushed::All) => {}
            Ok(Flushed::Blocked) => {
                let was_blocked = std::mem::replace(&mut conn.is_blocked, true);
                self.blocked += usize::from(!was_blocked);
                self.wait_for_room(entry);
            }
            Ok(Flushed::Enough) => {
                self.mark_dirty(entry);
                if let Some(conn) = self.conn(entry) {
                    let due = conn.drain.due(now, conn.lane.waiting_bytes());
                    conn.rests_until = Some(due);
                }
            }
            Ok(Flushed::Faulty(key)) => {
                self.exposures.spoil(peer, key);
                self.forget(peer, key);
                self.mark_dirty(entry);
            }
            Err(cause) => self.broke(entry, Some(cause)),
        }
    }

    /// Gives all sockets what there is for them.
    pub(super) fn flush_dirty(&mut self) {
        if self.dirty.is_empty() {
            return;
        }
        // One that has had enough comes into the list again, for the next poll.
        let mut dirty = std::mem::take(&mut self.dirty);
        for entry in dirty.drain(..) {
            if let Some(conn) = self.conn(entry) {
                conn.is_dirty = false;
                if !conn.is_blocked {
                    self.flush(entry);
                }
            }
        }
        if self.dirty.is_empty() {
            // Its memory is used again.
            self.dirty = dirty;
        }
    }

    /// The client is about to say that messages have gone: those go that wait for others or
    /// for the next poll, which may not come.
    #[cold]
    pub fn send_held(&mut self) {
        self.flush_dirty();
    }

    /// What was asked for outside of a poll goes at once: the process may compute from now
    /// on.
    pub(super) fn flush_outside_of_polls(&mut self) {
        if !self.habit.is_polling() {
            self.flush_dirty();
        }
    }

    /// A connection has broken, or its other end was closed.
    pub(super) fn broke(&mut self, entry: usize, _cause: Option<io::Error>) {
        let Some(Entry::Conn(conn)) = self.entries.get(entry) else { return };
        let (peer, rail) = (conn.peer, conn.rail);
        self.stats.broken += 1;
        self.remove(entry);
        if let Some(met) = self.met_mut(peer) {
            met.conns[rail.index()] = None;
        }
        let now = self.now;
        self.with_rails(peer, |rails, below| rails.broke(now, below, rail));
    }

    /// Closes a rail, whatever state it is in.
    fn close(&mut self, peer: PeerId, rail: RailId) {
        let Some(met) = self.met_mut(peer) else { return };
        let at = rail.index();
        let entries = [met.conns[at].take(), met.attempts[at].take()];
        met.open_at[at] = None;
        for entry in entries.into_iter().flatten() {
            self.stats.broken += 1;
            if let Some(conn) = self.conn(entry) {
                conn.lane.give_up();
            }
            self.remove(entry);
        }
    }

    /// Drops a descriptor, which ends the connection.
    pub(super) fn remove(&mut self, entry: usize) {
        if self.reading.is_some_and(|reading| reading.entry == entry) {
            self.reading = None;
        }
        self.hot.retain(|&other| other != entry);
        self.turn.retain(|&other| other != entry);
        self.dirty.retain(|&other| other != entry);
        if let Some(Entry::Conn(conn)) = self.entries.try_remove(entry) {
            self.blocked -= usize::from(conn.is_blocked);
            self.carried.note(conn.device, conn.out.sent_bytes());
        }
    }

    /// A peer has broken the protocol.
    pub(super) fn break_with(&mut self, peer: PeerId, why: &Broken) {
        self.stats.violations += 1;
        let who = self.describe(peer);
        (self.warn.0)(&format!("{who} broke the protocol ({why}); it is given up"));
        self.say_goodbye(peer, CloseReason::Protocol);
        self.lose(peer, PeerError::Protocol);
    }

    /// What has come on a connection is not what the peer has sent: the connection is closed,
    /// and what has not come goes over another one. A peer alone is not to blame for that.
    pub(super) fn altered(&mut self, entry: usize, why: &dyn std::error::Error) {
        let Some(Entry::Conn(conn)) = self.entries.get(entry) else { return };
        let peer = conn.peer;
        self.stats.altered += 1;
        let count = self.stats.altered;
        if count <= ALTERED_NAMED || count.is_power_of_two() {
            let who = self.describe(peer);
            (self.warn.0)(&format!(
                "what came from {who} was altered on its way ({why}; {count} times so far); the \
                 connection is closed and opened anew; see what stands between the hosts"
            ));
        }
        self.broke(entry, None);
        let Some(met) = self.met_mut(peer) else { return };
        met.altered += 1;
        if met.altered >= ALTERED_MAX {
            self.break_with(peer, &Broken::Altered);
        }
    }

    /// The machine has given a peer up.
    pub fn refuse(&mut self, peer: PeerId) {
        self.stats.violations += 1;
        self.say_goodbye(peer, CloseReason::Refused);
        self.lose(peer, PeerError::Protocol);
    }

    /// Tells a peer that nothing more comes. It may not hear it.
    fn say_goodbye(&mut self, peer: PeerId, why: CloseReason) {
        let Some(met) = self.met_mut(peer) else { return };
        let acknowledged = met.rails.tell().0;
        for entry in met.conns.clone().into_iter().flatten() {
            if let Some((conn, ring)) = self.conn_and_ring(entry) {
                conn.push_bare(FrameKind::Close, why.id(), acknowledged);
                // Whether it gets there is not waited for.
                let _ = conn.out.flush(&mut conn.lane, ring, 0);
            }
        }
    }

    /// A peer is gone: everything with it ends.
    pub(super) fn lose(&mut self, peer: PeerId, why: PeerError) {
        let Some(remote) = self.remote_mut(peer) else { return };
        if matches!(remote.stage, Stage::Gone(_)) {
            return;
        }
        let is_seen = remote.is_seen;
        remote.is_told = is_seen;
        if why == PeerError::Unreachable {
            let who = self.describe(peer);
            (self.warn.0)(&format!(
                "{who} is given up: no rail has reached it for too long; see that its host is up, \
                 and that the hosts' firewalls let processes connect to each other"
            ));
        }
        self.end_matching(peer);
        let Some(remote) = self.remote_mut(peer) else { return };
        match std::mem::replace(&mut remote.stage, Stage::Gone(why)) {
            Stage::Met(met) => {
                self.met_count -= 1;
                self.remember(&met.pairs);
                let entries = met.conns.iter().chain(&met.attempts);
                entries.flatten().for_each(|&entry| self.remove(entry));
                for read in met.reads {
                    if let ReadOf::Machine(token) = read.of {
                        self.events.push_back(Event::Moved(token, Err(RailError::PeerGone)));
                    }
                }
                for write in met.writes {
                    self.take_back(peer, write.from);
                    self.events.push_back(Event::Moved(write.token, Err(RailError::PeerGone)));
                }
                for write in met.writes_waiting {
                    self.events.push_back(Event::Moved(write.token, Err(RailError::PeerGone)));
                }
            }
            Stage::Meeting(meeting) => {
                meeting.entry.into_iter().for_each(|entry| self.remove(entry));
            }
            Stage::Idle | Stage::Gone(_) => {}
        }
        self.active.retain(|&other| other != peer);
        if is_seen {
            self.events.push_back(Event::Gone(peer, why));
        }
    }

    /// Does for all peers what is due.
    pub(super) fn look_after(&mut self) {
        let now = self.now;
        self.retry_after_change();
        for entry in std::mem::take(&mut self.accept_later) {
            self.accept(entry);
        }
        for at in (0..self.active.len()).rev() {
            let Some(&peer) = self.active.get(at) else { continue };
            if self.met(peer).is_some() {
                self.look_for_life(peer);
                self.open_due(peer);
                let waits = |met: &Met| met.rails.deadline(now).is_some();
                if self.met(peer).is_some_and(waits) {
                    self.with_rails(peer, |rails, below| rails.advance(now, below));
                }
            }
        }
        self.look_after_meetings();
        self.look_after_strangers();
    }

    /// When a peer is to be looked after next; `None` if nothing is waited for.
    pub(super) fn due_of(&self, peer: PeerId, now: Nanos) -> Option<Nanos> {
        match &self.remote(peer)?.stage {
            Stage::Met(met) => {
                let opens = met.open_at.iter().flatten().copied().min();
                let awaits = (0..met.conns.len()).any(|at| met.rails.is_awaited(RailId(at as u8)));
                let life = awaits.then(|| now.saturating_add(Nanos(PROBE_NS)));
                met.rails.deadline(now).into_iter().chain(opens).chain(life).min()
            }
            Stage::Meeting(_) => Some(now.saturating_add(Nanos(PROBE_NS))),
            Stage::Idle | Stage::Gone(_) => None,
        }
    }

    /// Asks the system whether the hosts of peers that are silent take what is sent.
    fn look_for_life(&mut self, peer: PeerId) {
        let now = self.now;
        let Some(met) = self.met(peer) else { return };
        for at in 0..met.conns.len() {
            let rail = RailId(at as u8);
            let Some(met) = self.met(peer) else { return };
            let entry = met.conns[at].or(met.attempts[at]);
            let (true, Some(entry)) = (met.rails.is_awaited(rail), entry) else { continue };
            let acknowledged = met.expected;
            match self.entries.get_mut(entry) {
                Some(Entry::Conn(conn)) => {
                    let is_fresh = conn.is_alive(now);
                    if conn.probes.is_due(now) {
                        let device = conn.device;
                        conn.lane.ask();
                        conn.push_bare(FrameKind::Probe, 0, acknowledged);
                        self.mark_dirty(entry);
                        self.ask_for_carrier(device);
                    }
                    if is_fresh {
                        self.with_rails(peer, |rails, below| rails.alive(now, below, rail));
                    }
                }
                Some(Entry::Joining(joining)) if joining.is_stuck(now) => {
                    self.give_up_attempt(entry, &io::ErrorKind::TimedOut.into());
                }
                Some(Entry::Joining(joining)) if joining.is_alive() => {
                    self.with_rails(peer, |rails, below| rails.alive(now, below, rail));
                }
                _ => {}
            }
        }
    }

    /// How often the stream to a peer has gone on over another connection.
    #[must_use]
    pub fn resumed(&self, peer: PeerId) -> u32 {
        self.met(peer).map_or(0, |met| met.resumed)
    }

    /// A peer in words, for messages to people.
    #[must_use]
    pub fn describe(&self, peer: PeerId) -> String {
        match self.remote(peer) {
            Some(remote) => match remote.address.host() {
                Some(host) => format!("process {} on {}", remote.address, host.ip()),
                None => format!("process {}", remote.address),
            },
            None => format!("unknown peer {}", peer.0),
        }
    }
}

impl Conn {
    /// Whether the other side's kernel has lately acknowledged something.
    fn is_alive(&mut self, now: Nanos) -> bool {
        if self.probes.count == 0 {
            // Not silent for long yet.
            self.probes.begin(now);
        }
        let fresh_ms = if self.probes.count > PROBES_MAX { FRESH_ALONE_MS } else { FRESH_MS };
        self.lane.is_fresh(fresh_ms)
    }
}

impl super::conn::Probes {
    fn begin(&mut self, now: Nanos) {
        (self.count, self.next) = (1, now.saturating_add(Nanos(PROBE_NS)));
    }

    /// Whether one is to be sent now.
    fn is_due(&mut self, now: Nanos) -> bool {
        if self.count == 0 || self.count > PROBES_MAX || now < self.next {
            return false;
        }
        self.next = now.saturating_add(Nanos(PROBE_NS << self.count));
        self.count += 1;
        true
    }
}
