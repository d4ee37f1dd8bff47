//! Compulsory credit return requests and responses at their sender (EXTOLL paper,
//! sections 6.1 and 6.5.4): until one can be sent, a flag stands for it.
//!
//! Both take a data credit. If there is none, they wait; the next credit is theirs,
//! the request's first. Credits are set aside for them as soon as they come, so no
//! data packet needs to look whether something goes before it.

const REQUEST_WAITS: u8 = 1;
const RESPONSE_WAITS: u8 = 2;
const WAITS: u8 = REQUEST_WAITS | RESPONSE_WAITS;
/// A credit is set aside for it.
const REQUEST_READY: u8 = 4;
const RESPONSE_READY: u8 = 8;
/// A request has gone and is not answered.
const ASKED: u8 = 16;

/// The flags toward one peer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Compulsory {
    flags: u8,
}

/// A packet with a credit set aside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ready {
    Request,
    Response,
}

impl Compulsory {
    /// A request is to be sent.
    ///
    /// # Panics
    /// If an earlier one is not answered: a blocked sender is not asked again.
    pub(crate) fn ask(&mut self) {
        assert!(self.flags & (REQUEST_WAITS | REQUEST_READY | ASKED) == 0, "asked twice");
        self.flags |= REQUEST_WAITS;
    }

    /// A request has come, to be answered. False if an earlier one is not.
    #[must_use]
    pub(crate) fn be_asked(&mut self) -> bool {
        let is_first = self.flags & (RESPONSE_WAITS | RESPONSE_READY) == 0;
        if is_first {
            self.flags |= RESPONSE_WAITS;
        }
        is_first
    }

    /// A response has come. False if nothing was asked.
    #[must_use]
    pub(crate) fn be_answered(&mut self) -> bool {
        let asked = self.flags & ASKED != 0;
        self.flags &= !ASKED;
        asked
    }

    /// Whether a packet waits for a credit.
    #[inline]
    pub(crate) fn waits(self) -> bool {
        self.flags & WAITS != 0
    }

    /// Sets credits aside for what waits.
    pub(crate) fn take_credits(&mut self, credits: &mut u16) {
        for (waits, ready) in [(REQUEST_WAITS, REQUEST_READY), (RESPONSE_WAITS, RESPONSE_READY)] {
            if self.flags & waits != 0 && *credits > 0 {
                *credits -= 1;
                self.flags = self.flags & !waits | ready;
            }
        }
    }

    /// The packet that goes next; it counts as sent.
    pub(crate) fn next_ready(&mut self) -> Option<Ready> {
        if self.flags & REQUEST_READY != 0 {
            self.flags = self.flags & !REQUEST_READY | ASKED;
            Some(Ready::Request)
        } else if self.flags & RESPONSE_READY != 0 {
            self.flags &= !RESPONSE_READY;
            Some(Ready::Response)
        } else {
            None
        }
    }

    /// Credits that are set aside.
    pub(crate) fn credits_kept(self) -> u16 {
        (self.flags & (REQUEST_READY | RESPONSE_READY)).count_ones() as u16
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_credit_is_the_requests() {
        let mut flags = Compulsory::default();
        assert!(flags.be_asked());
        flags.ask();
        let mut credits = 0;
        flags.take_credits(&mut credits);
        assert_eq!((flags.next_ready(), flags.waits()), (None, true));
        credits = 1;
        flags.take_credits(&mut credits);
        assert_eq!((credits, flags.credits_kept()), (0, 1));
        assert_eq!(flags.next_ready(), Some(Ready::Request));
        assert_eq!((flags.next_ready(), flags.waits()), (None, true));
        credits = 5;
        flags.take_credits(&mut credits);
        assert_eq!(credits, 4);
        assert_eq!(flags.next_ready(), Some(Ready::Response));
        assert_eq!((flags.credits_kept(), flags.waits()), (0, false));
    }

    #[test]
    fn one_answer_to_one_request() {
        let mut flags = Compulsory::default();
        assert!(!flags.be_answered());
        flags.ask();
        assert!(!flags.be_answered(), "nothing has gone yet");
        flags.take_credits(&mut 1);
        assert_eq!(flags.next_ready(), Some(Ready::Request));
        assert!(flags.be_answered() && !flags.be_answered());
        assert!(flags.be_asked() && !flags.be_asked());
    }
}
