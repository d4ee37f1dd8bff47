//! What a device knows of a stream over it, of a peer and of a message.

use super::super::fetches::Fetches;
use super::super::link::Link;
use super::super::message::{HEAD_BYTES, Token};
use sluice_fabric::{BufferId, Peer};
use std::collections::VecDeque;

/// What has happened to a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Notice {
    /// Something has come, or it has ended.
    Came,
    /// It takes more.
    Room,
}

/// Messages of a lane under way that only tell what was read: a later one tells all.
pub(in crate::ofi) const TELLS_MAX: u64 = 2;

/// One stream.
#[derive(Debug)]
pub(in crate::ofi) struct Stream {
    pub(super) link: Link,
    pub(super) peer: usize,
    /// What is read of the peer's memory.
    pub(super) fetches: Fetches,
    /// What the network calls it.
    pub(super) entry: usize,
    pub(super) wants_room: bool,
    pub(super) is_broken: bool,
    /// What the provider did not take yet, oldest first.
    pub(in crate::ofi) owed: VecDeque<(BufferId, Message)>,
    /// Messages that the provider has, or is owed: with a body, and without.
    pub(super) under_way: u64,
    pub(super) tells: u64,
}

/// A peer's endpoint, which the provider knows.
#[derive(Debug)]
pub(in crate::ofi) struct Known {
    pub(super) name: Vec<u8>,
    pub(super) peer: Peer,
    /// Streams, and messages and reads under way.
    pub(super) users: usize,
}

/// A message that the provider has, or is owed.
#[derive(Clone, Copy, Debug)]
pub(in crate::ofi) struct Message {
    /// Of which stream: it may be no more.
    pub(super) token: Token,
    pub(super) peer: usize,
    pub(super) len: usize,
}

impl Stream {
    /// Where messages of such a length are counted.
    pub(super) fn count_of(&mut self, len: usize) -> &mut u64 {
        if len == HEAD_BYTES { &mut self.tells } else { &mut self.under_way }
    }
}

impl Message {
    /// Whether it only tells what was read.
    pub(super) fn is_tell(&self) -> bool {
        self.len == HEAD_BYTES
    }
}
