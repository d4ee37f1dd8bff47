//! One stream over an endpoint, without I/O: the numbers of messages in both directions,
//! the window, and what has come and was not read.
//!
//! Providers may deliver messages in another order than they were sent. Those that come
//! early wait, at most a window of them.

use super::message::{Head, Token};
use std::collections::{BTreeMap, VecDeque};

/// Most messages of one direction that are under way or unread.
pub(crate) const WINDOW: u64 = 32;

/// See the module.
#[derive(Debug)]
pub(super) struct Link {
    /// By which messages of the peer are known.
    pub(super) own_token: Token,
    peer_token: Token,
    /// The number of the next message that goes.
    sent: u64,
    /// How many of these the peer has read.
    peer_taken: u64,
    /// The lengths of those that it has not, oldest first.
    waiting: VecDeque<u32>,
    /// The number of the next message that comes.
    expected: u64,
    /// How many have been read, and of how many the peer was told.
    taken: u64,
    told: u64,
    /// What has come and was not read; the first was read so far.
    inbox: VecDeque<Vec<u8>>,
    read: usize,
    early: BTreeMap<u64, Vec<u8>>,
    /// Messages that have come, of any kind, and reads of memory.
    heard: u64,
}

/// The peer has broken the rules of a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Broken;

impl Link {
    pub(super) fn new(own_token: Token, peer_token: Token) -> Link {
        Link {
            own_token,
            peer_token,
            sent: 0,
            peer_taken: 0,
            waiting: VecDeque::new(),
            expected: 0,
            taken: 0,
            told: 0,
            inbox: VecDeque::new(),
            read: 0,
            early: BTreeMap::new(),
            heard: 0,
        }
    }

    /// How many messages may go now.
    pub(super) fn room(&self) -> u64 {
        (self.peer_taken + WINDOW).saturating_sub(self.sent)
    }

    /// How many messages have gone in all.
    pub(super) fn sent(&self) -> u64 {
        self.sent
    }

    /// Whether the peer has read all of them.
    pub(super) fn is_drained(&self) -> bool {
        self.peer_taken == self.sent
    }

    /// Bytes that have gone and were not read.
    pub(super) fn waiting_bytes(&self) -> u64 {
        self.waiting.iter().map(|&len| u64::from(len)).sum()
    }

    /// The header of the next message, whose body has `len` bytes; at least one.
    pub(super) fn number(&mut self, len: u32) -> Head {
        let head = Head { token: self.peer_token, number: self.sent, taken: self.taken, len };
        self.sent += 1;
        self.told = self.taken;
        self.waiting.push_back(len);
        head
    }

    /// The header of a message that only says what was read, if that is worth one.
    pub(super) fn tell(&mut self) -> Option<Head> {
        (self.taken - self.told >= WINDOW / 2).then(|| {
            self.told = self.taken;
            Head { token: self.peer_token, number: 0, taken: self.taken, len: 0 }
        })
    }

    /// A message has come. Says whether there is room again by it.
    pub(super) fn arrived(&mut self, head: &Head, body: &[u8]) -> Result<bool, Broken> {
        if head.taken > self.sent {
            return Err(Broken);
        }
        self.heard += 1;
        // An older message, which was overtaken, tells of less.
        let fresh = head.taken.saturating_sub(self.peer_taken);
        self.waiting.drain(..fresh as usize);
        self.peer_taken += fresh;
        if head.len == 0 {
            return Ok(fresh > 0);
        }
        if head.number < self.expected || head.number >= self.taken + WINDOW {
            return Err(Broken);
        }
        if head.number > self.expected {
            let is_twice = self.early.insert(head.number, body.to_vec()).is_some();
            return if is_twice { Err(Broken) } else { Ok(fresh > 0) };
        }
        self.inbox.push_back(body.to_vec());
        self.expected += 1;
        while let Some(next) = self.early.remove(&self.expected) {
            self.inbox.push_back(next);
            self.expected += 1;
        }
        Ok(fresh > 0)
    }

    /// How many messages have come, in a row.
    pub(super) fn come(&self) -> u64 {
        self.expected
    }

    /// How many messages have come, also those that only tell what was read.
    pub(super) fn heard(&self) -> u64 {
        self.heard
    }

    /// Something has come that is no message.
    pub(super) fn note_heard(&mut self) {
        self.heard += 1;
    }

    /// What comes next to be read; nothing if nothing has come.
    pub(super) fn front(&self) -> &[u8] {
        self.inbox.front().map_or(&[], |front| &front[self.read..])
    }

    /// So much of that was read.
    pub(super) fn take(&mut self, bytes: usize) {
        self.read += bytes;
        if self.inbox.front().is_some_and(|front| front.len() == self.read) {
            self.inbox.pop_front();
            self.read = 0;
            self.taken += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn pair() -> (Link, Link) {
        (Link::new([1; 16], [2; 16]), Link::new([2; 16], [1; 16]))
    }

    #[test]
    fn a_window_of_messages_goes_and_more_when_they_are_read() {
        let (mut a, mut b) = pair();
        for number in 0..WINDOW {
            assert_eq!(a.room(), WINDOW - number);
            let head = a.number(2);
            b.arrived(&head, &[number as u8, 0]).unwrap();
        }
        assert_eq!((a.room(), a.waiting_bytes()), (0, 2 * WINDOW));
        for _ in 0..WINDOW / 2 {
            assert_eq!(b.tell(), None);
            b.take(1);
            b.take(1);
        }
        let told = b.tell().unwrap();
        assert_eq!(a.arrived(&told, &[]), Ok(true));
        assert_eq!((a.room(), a.waiting_bytes()), (WINDOW / 2, WINDOW));
        assert!(!a.is_drained());
    }

    #[test]
    fn what_no_peer_sends_is_refused() {
        let (mut a, mut b) = pair();
        let head = a.number(1);
        assert_eq!(b.arrived(&Head { taken: 1, ..head }, b"x"), Err(Broken), "never sent");
        assert_eq!(b.arrived(&Head { number: WINDOW, ..head }, b"x"), Err(Broken), "too early");
        assert_eq!(b.arrived(&head, b"x"), Ok(false));
        assert_eq!(b.arrived(&head, b"x"), Err(Broken), "twice");
        let early = Head { number: 3, ..head };
        assert_eq!(b.arrived(&early, b"x"), Ok(false));
        assert_eq!(b.arrived(&early, b"x"), Err(Broken), "early, twice");
    }

    proptest! {
        /// In whatever order messages of a window come, they are read in theirs.
        #[test]
        fn order_is_restored(order in Just((0..WINDOW).collect::<Vec<_>>()).prop_shuffle()) {
            let (mut a, mut b) = pair();
            let heads: Vec<Head> = order.iter().map(|_| a.number(1)).collect();
            for &at in &order {
                b.arrived(&heads[at as usize], &[at as u8]).unwrap();
            }
            for at in 0..WINDOW {
                prop_assert_eq!(b.front(), &[at as u8]);
                b.take(1);
            }
            prop_assert_eq!((b.front().len(), b.come()), (0, WINDOW));
        }
    }
}
