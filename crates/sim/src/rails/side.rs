//! What one process knows of one peer on another host: the machine of `multirail`, what
//! it keeps for it, and the reads and writes under way.

use super::Peer;
use super::frame::Message;
use crate::port::Move;
use sluice_link::Remote;
use sluice_multirail::{Ask, Below, Number, RailId, RailState};
use sluice_wire::RemoteKey;
use std::collections::{BTreeMap, VecDeque};

/// Something that the machine wants done.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Do {
    Open(usize),
    Close(usize),
    Probe(usize),
    Resume(usize, Number),
    Ask(Ask),
    Release(u64),
    Gone,
}

/// What the machine wants done, in order.
#[derive(Debug, Default)]
pub(crate) struct Todo(pub VecDeque<Do>);

impl Below for Todo {
    fn open(&mut self, rail: RailId) {
        self.0.push_back(Do::Open(rail.index()));
    }

    fn close(&mut self, rail: RailId) {
        self.0.push_back(Do::Close(rail.index()));
    }

    fn probe(&mut self, rail: RailId) {
        self.0.push_back(Do::Probe(rail.index()));
    }

    fn resume(&mut self, rail: RailId, first: Number) {
        self.0.push_back(Do::Resume(rail.index(), first));
    }

    fn ask(&mut self, ask: Ask) {
        self.0.push_back(Do::Ask(ask));
    }

    fn release(&mut self, count: u64) {
        self.0.push_back(Do::Release(count));
    }

    fn gone(&mut self) {
        self.0.push_back(Do::Gone);
    }
}

/// Whom the bytes of a read are for.
#[derive(Clone, Copy, Debug)]
pub(super) enum ReadFor {
    /// This process has asked for them.
    Move(Move),
    /// The peer wants them written here: its name for that, and where to.
    Write { id: u64, into: Remote },
    /// Nobody: the key was revoked.
    Nothing,
}

/// Bytes that are read from the peer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reading {
    pub from: Remote,
    pub len: u64,
    pub purpose: ReadFor,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Side {
    pub who: usize,
    pub peer_is: usize,
    pub peer: Peer,
    pub todo: Todo,
    /// By rail: the connection that is used or asked for, and one that the peer has asked
    /// for and that is not there yet.
    pub used: Vec<Option<usize>>,
    pub accepted: Vec<Option<usize>>,
    /// By rail: how often it was open.
    pub opened: Vec<u64>,
    /// By rail: it is opened only if it is needed.
    pub spared: Vec<bool>,
    /// What is not acknowledged.
    pub kept: VecDeque<(Number, Message)>,
    /// Packets of the peer that have been delivered are those before this number.
    pub delivered: u64,
    pub reads: BTreeMap<u64, Reading>,
    /// Writes that have not ended, and the keys under which the peer reads.
    pub writes: BTreeMap<u64, (Move, RemoteKey)>,
    pub next_id: u64,
    /// A rail has been open, and the process may know.
    pub was_open: bool,
    pub is_gone: bool,
    /// When the machine's deadline is looked at.
    pub wakes_at: Option<u64>,
    /// An acknowledgement is due then.
    pub acknowledges_at: Option<u64>,
}

impl Side {
    pub fn new(who: usize, peer_is: usize, rails: usize, peer: Peer) -> Side {
        Side {
            who,
            peer_is,
            peer,
            todo: Todo::default(),
            used: vec![None; rails],
            accepted: vec![None; rails],
            opened: vec![0; rails],
            spared: vec![false; rails],
            kept: VecDeque::new(),
            delivered: 0,
            reads: BTreeMap::new(),
            writes: BTreeMap::new(),
            next_id: 0,
            was_open: false,
            is_gone: false,
            wakes_at: None,
            acknowledges_at: None,
        }
    }

    /// Whether nobody has needed a rail so far.
    pub fn is_spare(&self, rail: usize) -> bool {
        self.peer.state(RailId(rail as u8)) == RailState::Spare
    }

    /// A name for a read or a write, not used before.
    pub fn name(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id
    }
}
