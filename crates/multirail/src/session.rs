//! The numbered stream of packets to and from one peer, whatever rails they take.
//!
//! Every packet has a number, one more than the one before. Each frame on a rail says up
//! to which number its sender has got everything. What is not acknowledged is kept, and
//! goes again, in order, on each rail that the stream moves to: there it begins with the
//! first number that the peer lacks. So on every rail numbers follow one another, a packet
//! that has come already is known by its number, and one that skips a number breaks the
//! protocol. What is kept is bounded by credits: a packet without one is not given a
//! number.
//!
//! Invariants: `acknowledged <= next`; what is kept is exactly the numbers between them.

/// The number of a packet in the stream of one ordered pair of processes. The first is zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Number(pub u64);

/// What a packet is that has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// The next one.
    New,
    /// It has come before, by another rail or the same.
    Duplicate,
}

/// The peer broke the rules of the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Misnumbered {
    /// A packet came before one that it follows.
    #[error("packet {got} came where {wanted} was next")]
    Gap {
        /// Its number.
        got: u64,
        /// The next one's.
        wanted: u64,
    },
    /// Something was acknowledged that was never sent.
    #[error("{got} packets are acknowledged, and {sent} were sent")]
    NeverSent {
        /// What is acknowledged.
        got: u64,
        /// What was sent.
        sent: u64,
    },
}

/// One peer's stream, in both directions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Session {
    next: u64,
    acknowledged: u64,
    expected: u64,
    told: u64,
}

impl Session {
    /// Numbers a packet, which is kept from now on.
    #[must_use]
    pub fn number(&mut self) -> Number {
        self.next += 1;
        Number(self.next - 1)
    }

    /// How many packets are kept.
    #[must_use]
    pub fn kept(&self) -> u64 {
        self.next - self.acknowledged
    }

    /// The peer has got all packets before this number. Says how many need not be kept any
    /// more; the oldest.
    ///
    /// # Errors
    /// So many were never sent. An older acknowledgement, which comes late, is none.
    pub fn acknowledge(&mut self, before: Number) -> Result<u64, Misnumbered> {
        if before.0 > self.next {
            return Err(Misnumbered::NeverSent { got: before.0, sent: self.next });
        }
        let fresh = before.0.saturating_sub(self.acknowledged);
        self.acknowledged += fresh;
        Ok(fresh)
    }

    /// The stream begins again on a rail, where the peer wants `first` next. Says how many
    /// packets need not be kept any more; all others go again.
    ///
    /// What was acknowledged on another rail since the peer said so does not go again.
    ///
    /// # Errors
    /// It was never sent.
    pub fn resume(&mut self, first: Number) -> Result<u64, Misnumbered> {
        self.acknowledge(first)
    }

    /// The first number that goes again when the stream moves.
    #[must_use]
    pub fn first_kept(&self) -> Number {
        Number(self.acknowledged)
    }

    /// A packet has come.
    ///
    /// # Errors
    /// One that it follows has not.
    pub fn receive(&mut self, number: Number) -> Result<Arrival, Misnumbered> {
        match number.0.cmp(&self.expected) {
            std::cmp::Ordering::Less => {
                // What this side said of it was lost: it is to be said again.
                self.told = self.told.min(number.0);
                Ok(Arrival::Duplicate)
            }
            std::cmp::Ordering::Equal => {
                self.expected += 1;
                Ok(Arrival::New)
            }
            std::cmp::Ordering::Greater => {
                Err(Misnumbered::Gap { got: number.0, wanted: self.expected })
            }
        }
    }

    /// What to acknowledge in the frame that goes now: all before this number.
    #[must_use]
    pub fn tell(&mut self) -> Number {
        self.told = self.expected;
        Number(self.expected)
    }

    /// How many packets have come that the peer has not been told of, or sends again as
    /// if it had not.
    #[must_use]
    pub fn untold(&self) -> u64 {
        self.expected - self.told
    }
}
