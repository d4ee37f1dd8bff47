//! The ways between processes, where opening one takes time.
//!
//! A way is open in both directions or not yet. Both of two processes may ask for
//! it at once; each that has asked is told when it is open, before it reads anything
//! of the other.

use std::collections::BTreeSet;

/// What comes of asking for a way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    Open,
    /// It is being opened; asked for now, or before.
    Opening,
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Ways {
    /// Pairs with an open way, the lower number first.
    open: BTreeSet<(u32, u32)>,
    /// Who has asked for the way to whom, and is to be told.
    asked: BTreeSet<(u32, u32)>,
}

impl Ways {
    /// A process asks for the way to a peer.
    pub fn ask(&mut self, who: u32, peer: u32) -> Way {
        if self.open.contains(&pair(who, peer)) && !self.asked.contains(&(who, peer)) {
            return Way::Open;
        }
        self.asked.insert((who, peer));
        Way::Opening
    }

    /// A process is told that the way is open. False if it has not asked for it, or
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
        let mut ways = Ways::default();
        assert_eq!((ways.ask(0, 1), ways.ask(1, 0)), (Way::Opening, Way::Opening));
        assert!(ways.tell(1, 0));
        assert_eq!(ways.ask(0, 1), Way::Opening, "it was not told yet");
        assert!(ways.tell(0, 1) && !ways.tell(0, 1));
        assert_eq!((ways.ask(0, 1), ways.ask(1, 0)), (Way::Open, Way::Open));
        assert_eq!(ways.ask(0, 2), Way::Opening);
        ways.forget(0, 2);
        assert!(!ways.tell(0, 2));
    }
}
