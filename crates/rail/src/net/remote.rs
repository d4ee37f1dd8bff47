//! One peer on another host: who it is, what it has been asked for, and the connections
//! to it.

use super::ring::Ring;
use crate::address::Address;
use sluice_link::{Opened, PeerError, Remote as RemotePlace, Token};
use sluice_multirail::{Ask, Below, Number, Peer, RailId, ReadId};
use sluice_wire::{Nanos, Region, RemoteKey};
use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};

/// See the module.
#[derive(Debug)]
pub(super) struct Remote {
    pub(super) address: Address,
    /// What it calls itself; zero before it was met. It outlives its end.
    pub(super) label: u64,
    pub(super) stage: Stage,
    /// The machine waits for the connection.
    pub(super) is_wanted: bool,
    /// The machine knows of it, so its end is told.
    pub(super) is_seen: bool,
    /// Its end was told.
    pub(super) is_told: bool,
    /// How many asks of it have come to nothing since it proved who it is. They have lost to
    /// other ones, most likely; those after [`super::join::EXCUSED_MAX`] have not.
    pub(super) asks_in_vain: usize,
}

/// How far it has got with a peer.
#[derive(Debug)]
pub(super) enum Stage {
    /// Nobody has spoken to it.
    Idle,
    /// It is being spoken to for the first time.
    Meeting(Meeting),
    /// Both know each other.
    Met(Box<Met>),
    /// It is gone.
    Gone(PeerError),
}

/// The first contact.
#[derive(Clone, Copy, Debug)]
pub(super) struct Meeting {
    /// The attempt that is under way.
    pub(super) entry: Option<usize>,
    pub(super) since: Nanos,
    /// Attempts so far: they take turns among the peer's addresses.
    pub(super) attempts: usize,
    /// When to try again, if none is.
    pub(super) retry_at: Nanos,
    pub(super) retry_ns: u64,
    /// Attempts that the peer's host has refused.
    pub(super) refused: u32,
}

/// A peer that is known.
#[derive(Debug)]
pub(super) struct Met {
    pub(super) rails: Peer,
    pub(super) opened: Opened,
    pub(super) uid: u32,
    pub(super) pairs: Vec<Pair>,
    /// Of each rail, the place of its connection.
    pub(super) conns: Vec<Option<usize>>,
    /// Of each rail, the place of the attempt to open it.
    pub(super) attempts: Vec<Option<usize>>,
    /// Of each rail, when it is to be opened, if the peer does not before.
    pub(super) open_at: Vec<Option<Nanos>>,
    pub(super) ring: Ring,
    /// The rail that the stream is on.
    pub(super) stream_on: Option<RailId>,
    /// How often it has moved there from another connection.
    pub(super) resumed: u32,
    /// The number of the next packet that comes.
    pub(super) expected: u64,
    pub(super) reads: Vec<Read>,
    /// Those that the peer has been told of.
    pub(super) writes: Vec<Write>,
    /// Those that it will be told of, in their order.
    pub(super) writes_waiting: VecDeque<WaitingWrite>,
    /// Connections that the peer's host has refused, since something came from it.
    pub(super) refused: u32,
    /// Connections that brought what it had not sent.
    pub(super) altered: u32,
}

/// Two devices that reach each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pair {
    /// This process's, by its place in the list.
    pub(super) own: u8,
    /// The peer's, by its place in its list.
    pub(super) other: u8,
    /// The own address of the rail.
    pub(super) from: IpAddr,
    /// Where the peer listens there.
    pub(super) at: SocketAddr,
    /// No router is between them.
    pub(super) is_one_network: bool,
    /// What the slower one claims, in bytes per second.
    pub(super) bytes_per_s: u64,
}

/// Memory of the peer that is being read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Read {
    pub(super) id: ReadId,
    pub(super) key: RemoteKey,
    pub(super) offset: u64,
    pub(super) into: Region,
    pub(super) of: ReadOf,
    /// Some of the place is not there: the read ends with a fault.
    pub(super) is_faulty: bool,
}

/// Who reads.
#[derive(Clone, Copy, Debug)]
pub(super) enum ReadOf {
    /// The machine.
    Machine(Token),
    /// The peer, which writes: its token, and the key of what is written.
    Writer(u64, RemoteKey),
}

/// Memory of the peer that is being written, by the peer itself.
#[derive(Clone, Copy, Debug)]
pub(super) struct Write {
    /// Its name between the two.
    pub(super) id: u64,
    pub(super) token: Token,
    /// By which the peer reads the bytes.
    pub(super) from: RemoteKey,
}

/// A write that waits until others have ended: a peer takes so many at once.
#[derive(Clone, Copy, Debug)]
pub(super) struct WaitingWrite {
    pub(super) from: Region,
    pub(super) to: RemotePlace,
    pub(super) token: Token,
}

impl Met {
    pub(super) fn rail_of_pair(&self, own: u8, other: u8) -> Option<RailId> {
        let at = self.pairs.iter().position(|pair| (pair.own, pair.other) == (own, other))?;
        Some(RailId(at as u8))
    }

    /// The whole number of a packet whose low half has come.
    pub(super) fn number_of(&self, low: u32) -> Number {
        let ahead = low.wrapping_sub(self.expected as u32).cast_signed();
        Number(self.expected.wrapping_add_signed(i64::from(ahead)))
    }
}

/// What `multirail` wants done, in order.
#[derive(Debug, Default)]
pub(super) struct Actions(pub(super) Vec<Action>);

#[derive(Clone, Copy, Debug)]
pub(super) enum Action {
    Open(RailId),
    Close(RailId),
    Probe(RailId),
    Resume(RailId),
    Ask(Ask),
    Release(u64),
    Gone,
}

impl Below for Actions {
    fn open(&mut self, rail: RailId) {
        self.0.push(Action::Open(rail));
    }

    fn close(&mut self, rail: RailId) {
        self.0.push(Action::Close(rail));
    }

    fn probe(&mut self, rail: RailId) {
        self.0.push(Action::Probe(rail));
    }

    /// The first that is kept is the oldest in the ring: what was acknowledged before
    /// has been released before.
    fn resume(&mut self, rail: RailId, _first: Number) {
        self.0.push(Action::Resume(rail));
    }

    fn ask(&mut self, ask: Ask) {
        self.0.push(Action::Ask(ask));
    }

    fn release(&mut self, count: u64) {
        self.0.push(Action::Release(count));
    }

    fn gone(&mut self) {
        self.0.push(Action::Gone);
    }
}
