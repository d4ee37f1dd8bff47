//! One connection of a rail: what is given to its sockets, and what is on its way.
//!
//! What is given to a socket arrives in order, or not at all if a side ends the connection
//! first. A socket takes so many bytes that have not arrived; the rest waits with the
//! process, small frames before bytes of chunks.
//!
//! Invariant: frames of one direction arrive in the order in which they were put.

use super::frame::{Body, Frame};
use super::kinds::Kind;
use sluice_link::Remote;
use sluice_multirail::ChunkId;
use std::collections::VecDeque;

/// How one side of a connection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EndState {
    /// It has asked for the connection.
    Calling,
    /// It has granted it, and not heard more.
    Accepted,
    Open,
    Closed,
}

/// How what goes one way fares.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reach {
    pub is_silent: bool,
    pub is_slow: bool,
    pub is_late: bool,
}

/// What becomes of a frame that does not arrive as it was sent.
///
/// A connection numbers or checks its frames, so whoever receives them notices, and ends it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Spoil {
    /// It is not what was sent.
    Altered,
    /// It does not arrive; the next one shows it.
    Lost,
    /// The next one is not what was to come.
    Gap,
    /// It comes once more behind itself.
    Twice,
    /// The next one comes before it.
    Swapped,
}

impl Spoil {
    /// What a kind of fault does to a frame, if it is about one.
    pub fn of(kind: Kind) -> Option<Spoil> {
        match kind {
            Kind::FrameAltered => Some(Spoil::Altered),
            Kind::FrameLost => Some(Spoil::Lost),
            Kind::FrameTwice => Some(Spoil::Twice),
            Kind::FramesSwapped => Some(Spoil::Swapped),
            _ => None,
        }
    }
}

/// A chunk that is being sent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Job {
    pub chunk: ChunkId,
    pub from: Remote,
    pub len: u64,
}

/// What goes one way.
#[derive(Debug, Default)]
pub(super) struct Direction {
    /// What waits for the socket.
    pub small: VecDeque<Body>,
    pub jobs: VecDeque<Job>,
    /// Bytes that the socket has taken and that have not arrived.
    pub in_socket: u64,
    /// What is on its way, and when each frame arrives.
    pub wire: VecDeque<(u64, Frame)>,
    /// When all that was given to the wire has left.
    pub free_at: u64,
    pub last_at: u64,
    /// When the next arrival is looked at.
    pub looks_at: Option<u64>,
    /// Its receiver's host tells that it takes what comes.
    pub is_answered: bool,
    /// What becomes of the next frame that arrives.
    pub spoil: Option<Spoil>,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Connection {
    pub index: usize,
    pub rail: usize,
    /// Who asked for it, and who was asked.
    pub who: [usize; 2],
    pub ends: [EndState; 2],
    /// By sender.
    pub ways: [Direction; 2],
    /// What it is given never arrives.
    pub is_swallowed: bool,
}

impl Connection {
    pub fn new(index: usize, rail: usize, who: [usize; 2]) -> Connection {
        Connection {
            index,
            rail,
            who,
            ends: [EndState::Calling, EndState::Closed],
            ways: Default::default(),
            is_swallowed: false,
        }
    }

    /// From now on nothing that it is given arrives.
    pub fn swallow(&mut self) {
        self.is_swallowed = true;
        for way in &mut self.ways {
            way.wire.clear();
        }
    }

    /// Whether only frames are on their way that nobody waits for.
    pub fn is_idle(&self) -> bool {
        self.ways.iter().all(|way| {
            let mut bodies = way.wire.iter().map(|(_, frame)| &frame.body).chain(&way.small);
            way.jobs.is_empty() && bodies.all(Body::is_idle)
        })
    }
}
