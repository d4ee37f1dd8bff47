//! Rails between simulated hosts, in virtual time: what `rail` does with sockets, done with
//! queues, over the same `multirail`.
//!
//! | room | what it holds |
//! |---|---|
//! | `setup` | what a seed draws: hosts, rails, timing, faults |
//! | `frame` | what travels on a connection |
//! | `connection` | one connection of a rail: sockets, and what is on its way |
//! | `side` | what one process knows of one peer |
//! | `calls` | connections begin, carry frames and end |
//! | `stream` | packets, reads and writes between two processes |
//! | `faults` `kinds` | what goes wrong, and when |
//! | `spoils` | frames that do not arrive as they were sent |
//!
//! Each pair of processes on different hosts has a connection of its own on each rail
//! between the two hosts. A process handles a frame when it comes, unless it computes.
//!
//! Invariants: a rail that `multirail` takes for usable has an open connection; what is
//! kept is what it counts, and fits the credits of its packets.

mod calls;
mod connection;
mod faults;
mod frame;
mod kinds;
#[cfg(test)]
pub(crate) mod mutants;
mod setup;
mod side;
mod spoils;
mod stream;
pub(crate) use frame::Cx;
pub use kinds::FaultCounts;
pub(crate) use kinds::Kind;
pub(crate) use setup::RailsSetup;
pub(crate) use side::{Do, Todo};

use crate::flight::Flight;
use crate::port::Move;
use crate::swarm::Draw;
use connection::{Connection, EndState};
use faults::Active;
use frame::Message;
#[cfg(test)]
use mutants::Peer;
use side::Side;
use sluice_link::RailError;
#[cfg(not(test))]
use sluice_multirail::Peer;
use sluice_multirail::{RailId, RailState};
use sluice_wire::Nanos;
use std::fmt;

/// Most uses of revoked keys in a world.
const STALE_KEYS_MAX: u32 = 20;

/// Something that is to happen.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Event {
    /// The next frame of a connection, by sender, is there.
    Arrival { connection: u32, from: u8 },
    /// A deadline of a side.
    Wake { side: u32 },
    /// A side owes an acknowledgement on a connection.
    Acknowledge { side: u32, connection: u32 },
    /// A fault strikes again, or ends.
    Fault,
    /// The host of a process that computes takes what is sent to it.
    Alive { connection: u32, from: u8 },
}

/// What comes of it for the processes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Effect {
    /// A packet is in a mailbox.
    Deliver { to: usize, flight: Flight },
    /// A packet will never be.
    Drop { to: usize, flight: Flight },
    /// A read or a write has ended.
    Moved { who: usize, what: Move, outcome: Result<(), RailError> },
    /// The connection to a peer is open.
    Connected { who: usize, peer: usize },
    /// A peer is gone.
    Gone { who: usize, peer: usize },
}

/// What happened, for people.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Note {
    Fault(Kind, usize, u64),
    Opened(usize, usize),
    Broke(usize, usize),
    Closed(usize, usize),
    Suspects(usize, usize),
    Resumes(usize, usize, u64),
}

impl Note {
    /// Whether something goes wrong.
    pub fn is_fault(self) -> bool {
        matches!(self, Note::Fault(..) | Note::Broke(..))
    }
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Note::Fault(Kind::ClockJump, who, ns) => {
                write!(f, "fault: the clock of {who} goes ahead by {ns} ns")
            }
            Note::Fault(kind, who, ns) if kind.is_of_process() => {
                write!(f, "fault: {kind:?}, process {who}, for {ns} ns")
            }
            Note::Fault(kind, pair, ns) => {
                write!(f, "fault: {kind:?} between the hosts of pair {pair}, for {ns} ns")
            }
            Note::Opened(peer, rail) => write!(f, "rail {rail} to {peer} is open"),
            Note::Broke(peer, rail) => write!(f, "rail {rail} to {peer} has broken"),
            Note::Closed(peer, rail) => write!(f, "closes rail {rail} to {peer}"),
            Note::Suspects(peer, rail) => write!(f, "suspects rail {rail} to {peer}"),
            Note::Resumes(peer, rail, first) => {
                write!(f, "goes on over rail {rail} to {peer}, from packet {first}")
            }
        }
    }
}

/// What a world has come by: zero or one.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Met {
    pub duplicates: u64,
    pub late_bytes: u64,
    pub streams_moved: u64,
    pub writes: u64,
    pub keys_refused: u64,
    pub crossed_calls: u64,
    pub connections: u64,
    pub rails_spared: u64,
    pub spares_opened: u64,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Rails {
    setup: RailsSetup,
    count: usize,
    /// By process, then peer.
    sides: Vec<Option<Box<Side>>>,
    connections: Vec<Connection>,
    /// By pair of processes, the lower first: connections that are not closed at both ends.
    between: Vec<Vec<usize>>,
    dead: Vec<bool>,
    /// Slots that a peer may hold of each process's mailbox, by credits.
    slots_max: Vec<u64>,
    /// Events to be added to those of the world.
    pub later: Vec<(u64, Event)>,
    /// In order.
    pub effects: std::collections::VecDeque<Effect>,
    /// Who, and what.
    pub notes: Vec<(usize, Note)>,
    /// Given to sockets so far.
    frames: u64,
    faults_begun: usize,
    active: Vec<Active>,
    pub fault_counts: FaultCounts,
    /// By pair of hosts: a partition that peers need not outlast has begun.
    has_lasted: Vec<bool>,
    computes_until: Vec<u64>,
    /// By process: how far its clock is ahead.
    clocks_ahead: Vec<u64>,
    draw_late: Draw,
    stale_keys_left: u32,
    pub met: Met,
}

impl Rails {
    pub fn new(seed: u64, setup: &RailsSetup, slots_max: Vec<u64>) -> Rails {
        let count = setup.host.len();
        Rails {
            setup: setup.clone(),
            count,
            sides: (0..count * count).map(|_| None).collect(),
            connections: Vec::new(),
            between: vec![Vec::new(); count * count],
            dead: vec![false; count],
            slots_max,
            later: Vec::new(),
            effects: std::collections::VecDeque::new(),
            notes: Vec::new(),
            frames: 0,
            faults_begun: 0,
            active: Vec::new(),
            fault_counts: FaultCounts::default(),
            has_lasted: vec![false; setup.rails.len()],
            computes_until: vec![0; count],
            clocks_ahead: vec![0; count],
            draw_late: Draw::stream(seed, 22),
            stale_keys_left: STALE_KEYS_MAX,
            met: Met::default(),
        }
    }

    /// Something that was to happen does.
    pub fn happen(&mut self, cx: &mut Cx<'_>, event: Event) {
        match event {
            Event::Arrival { connection, from } => {
                self.arrive(cx, connection as usize, usize::from(from));
            }
            Event::Wake { side } => self.wake(cx, side as usize),
            Event::Acknowledge { side, connection } => {
                self.acknowledge(cx, side as usize, connection as usize);
            }
            Event::Fault => self.go_on_with_faults(cx),
            Event::Alive { connection, from } => {
                self.alive(cx, connection as usize, usize::from(from));
            }
        }
        self.begin_faults(cx);
        match event {
            Event::Arrival { connection, .. } | Event::Alive { connection, .. } => {
                let [one, other] = self.connections[connection as usize].who;
                self.check_side(one, other);
                self.check_side(other, one);
            }
            Event::Wake { side } | Event::Acknowledge { side, .. } => {
                let side = side as usize;
                self.check_side(side / self.count, side % self.count);
            }
            Event::Fault => {}
        }
    }

    /// A process ends. What it had given to sockets still arrives; then its connections
    /// end. Nobody answers in its place.
    pub fn die(&mut self, cx: &mut Cx<'_>, who: usize) {
        self.dead[who] = true;
        for peer in 0..self.count {
            let at = self.at(who, peer);
            let Some(side) = &mut self.sides[at] else { continue };
            side.is_gone = true;
            side.reads.clear();
            side.writes.clear();
            let connections: Vec<usize> =
                side.used.iter().chain(&side.accepted).flatten().copied().collect();
            for connection in connections {
                self.close_end(cx, connection, who);
            }
        }
        (0..self.count).for_each(|peer| self.drop_kept(who, peer));
    }

    /// Whether a process knows of a peer elsewhere, or the peer has come by.
    pub fn has_side(&self, who: usize, peer: usize) -> bool {
        self.sides[self.at(who, peer)].is_some()
    }

    /// Whether a process has given up a peer.
    pub fn is_gone(&self, who: usize, peer: usize) -> bool {
        self.side(who, peer).is_some_and(|side| side.is_gone)
    }

    /// Until when a process looks at nothing.
    pub fn computes_until(&self, who: usize) -> u64 {
        self.computes_until[who]
    }

    /// A process does nothing until then.
    pub fn stop(&mut self, who: usize, until: u64) {
        let computes_until = &mut self.computes_until[who];
        *computes_until = until.max(*computes_until);
    }

    /// What the clock of a process shows.
    pub fn clock(&self, who: usize, now: u64) -> Nanos {
        Nanos(now + self.clocks_ahead[who])
    }

    /// How far the clock of a process is ahead.
    pub fn clock_ahead(&self, who: usize) -> u64 {
        self.clocks_ahead[who]
    }

    /// The clock of a process goes ahead.
    pub fn jump(&mut self, cx: &Cx<'_>, who: usize, ns: u64) {
        self.clocks_ahead[who] += ns;
        for peer in 0..self.count {
            if self.has_side(who, peer) {
                self.arm_deadline(cx, self.at(who, peer));
            }
        }
    }

    /// Whether a peer may be gone for a process: it is, or a partition has lasted.
    pub fn may_be_gone(&self, who: usize, peer: usize) -> bool {
        self.dead[peer] || self.has_lasted[self.setup.host_pair(who, peer)]
    }

    /// Whether nothing is to come but probes and their answers.
    pub fn is_settled(&self) -> bool {
        self.effects.is_empty()
            && self.active.is_empty()
            && (0..self.count).all(|one| (0..one).all(|other| self.is_pair_settled(one, other)))
    }

    fn is_pair_settled(&self, one: usize, other: usize) -> bool {
        let sides = [self.side(one, other), self.side(other, one)];
        let is_over = |side: &Option<&Side>| side.is_none_or(|side| side.is_gone);
        match sides {
            [None, None] => true,
            _ if self.dead[one] || self.dead[other] => sides.iter().all(is_over),
            [Some(side), None] | [None, Some(side)] => side.is_gone,
            [Some(a), Some(b)] => {
                a.is_gone && b.is_gone || self.are_at_rest(a, b) && self.are_at_rest(b, a)
            }
        }
    }

    /// Whether one side of two that are well waits for nothing.
    fn are_at_rest(&self, side: &Side, other: &Side) -> bool {
        let is_well = |(rail, connection): (usize, &Option<usize>)| {
            let Some(connection) = connection else {
                return [side, other].iter().all(|side| side.is_spare(rail));
            };
            let one = &self.connections[*connection];
            side.peer.state(RailId(rail as u8)) == RailState::Up
                && one.ends == [EndState::Open; 2]
                && other.used[rail] == Some(one.index)
                && !one.is_swallowed
        };
        !side.is_gone
            && side.kept.is_empty()
            && side.reads.is_empty()
            && side.writes.is_empty()
            && side.peer.untold() == 0
            && side.accepted.iter().all(Option::is_none)
            && side.used.iter().enumerate().all(is_well)
            && self.between[self.pair_at(side.who, other.who)]
                .iter()
                .all(|connection| self.connections[*connection].is_idle())
    }

    /// Panics unless what one process knows of a peer is in order.
    pub fn check_side(&self, who: usize, peer: usize) {
        let Some(side) = self.side(who, peer) else { return };
        if side.is_gone {
            return;
        }
        side.peer.check_invariants();
        for (rail, connection) in side.used.iter().enumerate() {
            let state = side.peer.state(RailId(rail as u8));
            let end = connection.map(|at| self.end_of(at, who));
            let is_open = end == Some(EndState::Open);
            let is_usable = matches!(state, RailState::Up | RailState::Suspect);
            assert_eq!(is_usable, is_open, "rail {rail} of {who} to {peer}: {state:?}, {end:?}");
        }
        assert_eq!(side.kept.len() as u64, side.peer.kept(), "what {who} keeps for {peer}");
        let slots = side.kept.iter().map(|(_, message)| match message {
            Message::Packet(_, slots) => u64::from(*slots),
            _ => 0,
        });
        let (slots, most): (u64, u64) = (slots.sum(), self.slots_max[peer]);
        assert!(slots <= most, "{who} keeps {slots} slots for {peer}, of {most}");
        let is_write = |message: &&(_, Message)| matches!(message.1, Message::Write { .. });
        let writes = side.kept.iter().filter(is_write).count();
        assert!(writes <= side.writes.len(), "{who} keeps writes that have ended");
    }

    fn at(&self, who: usize, peer: usize) -> usize {
        who * self.count + peer
    }

    /// Where the connections of two processes are.
    fn pair_at(&self, one: usize, other: usize) -> usize {
        self.at(one.min(other), one.max(other))
    }

    fn side(&self, who: usize, peer: usize) -> Option<&Side> {
        self.sides[self.at(who, peer)].as_deref()
    }

    fn end_of(&self, connection: usize, who: usize) -> EndState {
        self.connections[connection].ends[self.end_index(connection, who)]
    }

    /// Which end of a connection a process has.
    fn end_index(&self, connection: usize, who: usize) -> usize {
        usize::from(self.connections[connection].who[1] == who)
    }

    fn note(&mut self, who: usize, note: Note) {
        self.notes.push((who, note));
    }

    fn note_fault(&mut self, kind: Kind, at: usize, ns: u64) {
        self.note(0, Note::Fault(kind, at, ns));
    }
}
