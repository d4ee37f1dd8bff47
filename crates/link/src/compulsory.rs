//! Compulsory credit return requests and responses at their sender (EXTOLL paper,
//! sections 6.1 and 6.5.4): until one can be sent, a flag stands for it.
//!
//! Both take a data credit. If there is none, they wait; the next credit is theirs,
//! the request's first. Credits are set aside for them as soon as they come, so no
//! data packet needs to look whether something goes before it.

/// Where one such packet is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Stage {
    /// None is to be sent.
    #[default]
    Unwanted,
    /// It waits for a credit.
    Waits,
    /// A credit is set aside for it.
    Ready,
}

/// The flags toward one peer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Compulsory {
    request: Stage,
    response: Stage,
    /// A request has gone and is not answered.
    asked: bool,
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
        assert!(self.request == Stage::Unwanted && !self.asked, "asked twice");
        self.request = Stage::Waits;
    }

    /// A request has come, to be answered. False if an earlier one is not.
    #[must_use]
    pub(crate) fn be_asked(&mut self) -> bool {
        let fine = self.response == Stage::Unwanted;
        self.response = Stage::Waits;
        fine
    }

    /// A response has come. False if nothing was asked.
    #[must_use]
    pub(crate) fn be_answered(&mut self) -> bool {
        std::mem::replace(&mut self.asked, false)
    }

    /// Whether a packet waits for a credit.
    #[inline]
    pub(crate) fn waits(&self) -> bool {
        self.request == Stage::Waits || self.response == Stage::Waits
    }

    /// Sets credits aside for what waits.
    pub(crate) fn take_credits(&mut self, credits: &mut u16) {
        for stage in [&mut self.request, &mut self.response] {
            if *stage == Stage::Waits && *credits > 0 {
                *credits -= 1;
                *stage = Stage::Ready;
            }
        }
    }

    /// The packet that goes next; it counts as sent.
    pub(crate) fn next_ready(&mut self) -> Option<Ready> {
        if self.request == Stage::Ready {
            self.request = Stage::Unwanted;
            self.asked = true;
            Some(Ready::Request)
        } else if self.response == Stage::Ready {
            self.response = Stage::Unwanted;
            Some(Ready::Response)
        } else {
            None
        }
    }

    /// Credits that are set aside.
    pub(crate) fn credits_kept(&self) -> u16 {
        u16::from(self.request == Stage::Ready) + u16::from(self.response == Stage::Ready)
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
