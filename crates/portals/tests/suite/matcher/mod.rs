//! MPI's matching (MPI 4.1, section 3.5), written down as simply as it goes, for
//! one receiving process: what has arrived and was not received, what was posted
//! and has not received, each in its order.

#![allow(dead_code, reason = "each test program uses its part of it")]

/// What a receive wants; `None` is any.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted {
    pub source: Option<usize>,
    pub tag: Option<u32>,
}

/// What a message says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Envelope {
    pub source: usize,
    pub tag: u32,
}

/// A message and the receive that got it, by the names that they came with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Match {
    pub send: usize,
    pub receive: usize,
}

#[derive(Debug, Default)]
pub struct Matcher {
    arrived: Vec<(usize, Envelope)>,
    posted: Vec<(usize, Wanted)>,
}

impl Wanted {
    pub fn accepts(self, envelope: Envelope) -> bool {
        self.source.is_none_or(|source| source == envelope.source)
            && self.tag.is_none_or(|tag| tag == envelope.tag)
    }
}

impl Matcher {
    /// A message arrives: the oldest posted receive that accepts it gets it.
    pub fn arrive(&mut self, send: usize, envelope: Envelope) -> Option<Match> {
        let at = self.posted.iter().position(|(_, wanted)| wanted.accepts(envelope));
        let Some(at) = at else {
            self.arrived.push((send, envelope));
            return None;
        };
        Some(Match { send, receive: self.posted.remove(at).0 })
    }

    /// A receive is posted: it gets the oldest message that it accepts.
    pub fn post(&mut self, receive: usize, wanted: Wanted) -> Option<Match> {
        let Some(send) = self.take(wanted) else {
            self.posted.push((receive, wanted));
            return None;
        };
        Some(Match { send, receive })
    }

    /// What a probe finds.
    pub fn probe(&self, wanted: Wanted) -> Option<usize> {
        let mut arrived = self.arrived.iter();
        arrived.find(|(_, envelope)| wanted.accepts(*envelope)).map(|(send, _)| *send)
    }

    /// What a matched probe takes.
    pub fn take(&mut self, wanted: Wanted) -> Option<usize> {
        let at = self.arrived.iter().position(|(_, envelope)| wanted.accepts(*envelope))?;
        Some(self.arrived.remove(at).0)
    }

    /// Takes a receive back. False if it has got its message.
    pub fn cancel(&mut self, receive: usize) -> bool {
        let before = self.posted.len();
        self.posted.retain(|(posted, _)| *posted != receive);
        self.posted.len() < before
    }
}
