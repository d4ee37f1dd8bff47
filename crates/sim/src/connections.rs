//! The connections between processes, where opening one takes time.
//!
//! A connection is open in both directions or not yet. Both of two processes may ask for
//! it at once; each that has asked is told when it is open, before it reads anything
//! of the other.

use std::collections::BTreeSet;

/// What comes of asking for a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Connection {
    Open,
    /// It is being opened; asked for now, or before.
    Opening,
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Connections {
    /// Pairs with an open connection, the lower number first.
    open: BTreeSet<(u32, u32)>,
    /// Who has asked for the connection to whom, and is to be told.
    asked: BTreeSet<(u32, u32)>,
}

impl Connections {
    /// A process asks for the connection to a peer.
    pub fn ask(&mut self, who: u32, peer: u32) -> Connection {
        if self.open.contains(&pair(who, peer)) && !self.asked.contains(&(who, peer)) {
            return Connection::Open;
        }
        self.asked.insert((who, peer));
        Connection::Opening
    }

    /// A process is told that the connection is open. False if it has not asked for it, or
    /// was told before.
    pub fn tell(&mut self, who: u32, peer: u32) -> bool {
        let has_asked = self.asked.remove(&(who, peer));
        if has_asked {
            self.open.insert(pair(who, peer));
        }
        has_asked
    }

    /// The peer has ended: nobody is told any more.
    pub fn forget(&mut self, who: u32, peer: u32) {
        self.asked.remove(&(who, peer));
    }
}

fn pair(one: u32, other: u32) -> (u32, u32) {
    (one.min(other), one.max(other))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_may_ask_and_each_is_told_once() {
        let mut connections = Connections::default();
        assert_eq!(
            (connections.ask(0, 1), connections.ask(1, 0)),
            (Connection::Opening, Connection::Opening)
        );
        assert!(connections.tell(1, 0));
        assert_eq!(connections.ask(0, 1), Connection::Opening, "it was not told yet");
        assert!(connections.tell(0, 1) && !connections.tell(0, 1));
        assert_eq!(
            (connections.ask(0, 1), connections.ask(1, 0)),
            (Connection::Open, Connection::Open)
        );
        assert_eq!(connections.ask(0, 2), Connection::Opening);
        connections.forget(0, 2);
        assert!(!connections.tell(0, 2));
    }
}
