//! Which protocol a message takes, and why not another one.
//!
//! The rule is one: the protocols stand in an order ([`Protocol::ALL`]), each may
//! have an objection to the facts, and the first without one is taken. The endpoint
//! decides by these objections at the three places where something is to be decided
//! (a send, a receive that met nothing, an announcement that met its receive);
//! [`Table::choose`] asks them all at once, for people and tests. So what is told
//! is what is done.
//!
//! | room | what it holds |
//! |---|---|
//! | here | facts, objections, the choice |
//! | `table` | the lengths that a choice compares with |
//! | `thresholds` | the lengths in the table: their names, bounds, and where each came from |
//! | `model` | the lengths from what moves cost |
//!
//! Invariants: some protocol is always without objection ([`Protocol::Pull`] has
//! none to a message that is not eager). A choice depends on nothing but the facts
//! and this process's own table: `docs/selection.md` says why processes whose tables
//! differ understand each other.

mod model;
mod table;
mod thresholds;

pub use table::{MemoryKind, NEVER, Table};
pub use thresholds::{Overrides, Source, Threshold, Thresholds};

use std::fmt;

/// The ways of a message, the first choice first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Protocol {
    /// The data travels with the message.
    Eager,
    /// The receive was announced (RTR), and the sender writes where it says.
    Speculative,
    /// Both sides copy, after a CTS with chunk claims.
    Cooperative,
    /// The receiver reads the sender's memory.
    Get,
    /// The sender writes, after a CTS.
    Put,
    /// The receiver asks for chunks, which come in packets.
    Pull,
}

impl Protocol {
    /// All, the first choice first.
    pub const ALL: [Protocol; 6] = [
        Protocol::Eager,
        Protocol::Speculative,
        Protocol::Cooperative,
        Protocol::Get,
        Protocol::Put,
        Protocol::Pull,
    ];

    /// Its name, for people and programs.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Protocol::Eager => "eager",
            Protocol::Speculative => "speculative",
            Protocol::Cooperative => "cooperative",
            Protocol::Get => "get",
            Protocol::Put => "put",
            Protocol::Pull => "pull",
        }
    }

    /// Who moves the data, in words.
    #[must_use]
    pub fn moves(self) -> &'static str {
        match self {
            Protocol::Eager => "the packet itself",
            Protocol::Speculative => {
                "the sender with its send; the receiver takes chunks too once it is there"
            }
            Protocol::Cooperative => "both sides, chunk by chunk",
            Protocol::Get => "the receiver, which reads the sender's memory",
            Protocol::Put => "the sender, which writes the receiver's memory",
            Protocol::Pull => "packets, in chunks that the receiver asks for",
        }
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Which side called the library first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum First {
    /// The message was under way when its receive was posted.
    Sender,
    /// The receive was posted when the message was sent.
    Receiver,
}

/// What the rail can do with one peer, now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Able {
    /// Read its memory.
    pub reads: bool,
    /// Write its memory.
    pub writes: bool,
    /// Open chunk claims for it.
    pub chunk_claims: bool,
}

/// What a choice depends on besides the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Facts {
    /// The message's length in bytes.
    pub len: u64,
    /// That of the buffer that it is received in.
    pub recv_len: u64,
    /// Who came first.
    pub first: First,
    /// Whether the receive names the sender that it accepts.
    pub source_known: bool,
    /// Whether the receiver grants as many slots as the message takes as a packet.
    pub fits: bool,
    /// Whether the receiver takes in what it is sent, at the moment of the send.
    pub looks: bool,
    /// What the rail can do.
    pub able: Able,
}

/// Why a protocol is not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Reason {
    /// The message is longer than the protocol's limit.
    #[error("the message is longer than {max} bytes")]
    Long {
        /// The limit.
        max: u64,
    },
    /// It is longer than one to a receiver that does not look.
    #[error("the message is longer than {max} bytes, and its receiver does not look now")]
    Away {
        /// The limit.
        max: u64,
    },
    /// The message is shorter than the protocol is worth.
    #[error("the message is shorter than {min} bytes")]
    Short {
        /// The limit.
        min: u64,
    },
    /// The receive is shorter than an announcement is worth.
    #[error("the receive is shorter than {min} bytes")]
    ShortReceive {
        /// The limit.
        min: u64,
    },
    /// On this rail it never pays.
    #[error("on this rail it never pays")]
    NeverPays,
    /// The receiver does not grant the slots that the packet would take.
    #[error("the receiver does not grant the slots that it takes")]
    NoRoom,
    /// There was no receive to be announced.
    #[error("the sender came first: there was no receive to announce")]
    SenderFirst,
    /// Nobody knows whom to announce the receive to.
    #[error("the receive accepts any source: there is nobody to announce it to")]
    AnySource,
    /// The rail does not read there.
    #[error("the rail cannot read the peer's memory")]
    CannotRead,
    /// The rail does not write there.
    #[error("the rail cannot write the peer's memory")]
    CannotWrite,
    /// There are no chunk claims for it.
    #[error("the rail has no chunk claims for it")]
    NoClaims,
    /// It would do, but another one comes before it.
    #[error("{0} comes before it")]
    Behind(Protocol),
}

/// What was chosen, and what was not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// The protocol.
    pub protocol: Protocol,
    /// All others, each with the reason.
    pub rejected: Vec<(Protocol, Reason)>,
}

impl Table {
    /// The protocol for these facts.
    #[must_use]
    pub fn choose(&self, facts: &Facts) -> Choice {
        let able = facts.able;
        let objection = |protocol| match protocol {
            Protocol::Eager => self.objection_to_eager(facts.len, facts.fits, || facts.looks),
            Protocol::Speculative => match facts.first {
                First::Sender => Some(Reason::SenderFirst),
                First::Receiver => {
                    self.objection_to_announcing(facts.recv_len, facts.source_known, able)
                }
            },
            way => self.objection_to_way(way, facts.len.min(facts.recv_len), able),
        };
        let protocol = first_without(&Protocol::ALL, objection);
        let rejected = Protocol::ALL
            .into_iter()
            .filter(|&other| other != protocol)
            .map(|other| (other, objection(other).unwrap_or(Reason::Behind(protocol))));
        Choice { protocol, rejected: rejected.collect() }
    }

    /// The protocols by length, for a receive as long as its message: where each
    /// begins.
    #[must_use]
    pub fn ranges(&self, facts: &Facts) -> Vec<(u64, Protocol)> {
        let mut starts =
            [0, self.eager_max(facts.looks) + 1, self.announce_bytes_min, self.share_bytes_min];
        starts.sort_unstable();
        let mut ranges: Vec<(u64, Protocol)> = Vec::new();
        for len in starts.into_iter().filter(|&len| len != NEVER) {
            let protocol = self.choose(&Facts { len, recv_len: len, ..*facts }).protocol;
            if ranges.last().is_none_or(|&(_, before)| before != protocol) {
                ranges.push((len, protocol));
            }
        }
        ranges
    }

    /// Why a message does not travel with its data, if it does not. `fits`: the slots
    /// that it takes are granted. Whether its receiver `looks` is asked only where it matters.
    #[inline(always)]
    pub(crate) fn objection_to_eager(
        &self,
        len: u64,
        fits: bool,
        looks: impl FnOnce() -> bool,
    ) -> Option<Reason> {
        let max = u64::from(self.eager_bytes_max);
        let most = self.eager_max(true);
        if len > most {
            Some(Reason::Long { max: most })
        } else if len > max && !looks() {
            Some(Reason::Away { max })
        } else if !fits {
            Some(Reason::NoRoom)
        } else {
            None
        }
    }

    /// The longest message that is sent eagerly, to a receiver that looks or not.
    fn eager_max(&self, looks: bool) -> u64 {
        let max = if looks { self.looking_bytes_max } else { 0 };
        max.max(self.eager_bytes_max).into()
    }

    /// Whether a request is long enough for its side to mind who comes first: an eager
    /// message comes with its data. Every receive comes by here.
    #[inline(always)]
    pub(crate) fn minds_who_is_first(&self, len: u64) -> bool {
        len >= self.announce_bytes_min && len > u64::from(self.eager_bytes_max)
    }

    /// Why a receive is not announced, if it is not.
    pub(crate) fn objection_to_announcing(
        &self,
        recv_len: u64,
        source_known: bool,
        able: Able,
    ) -> Option<Reason> {
        if !self.minds_who_is_first(recv_len) {
            let min = self.announce_bytes_min.max(u64::from(self.eager_bytes_max) + 1);
            Some(if min == NEVER { Reason::NeverPays } else { Reason::ShortReceive { min } })
        } else if !source_known {
            Some(Reason::AnySource)
        // Where the one direction is not allowed the other is not either.
        } else if !able.reads {
            Some(Reason::CannotRead)
        } else if !able.chunk_claims {
            Some(Reason::NoClaims)
        } else {
            None
        }
    }

    /// How `len` bytes move of an announced message that was not announced to.
    pub(crate) fn way(&self, len: u64, able: Able) -> Protocol {
        let ways = [Protocol::Cooperative, Protocol::Get, Protocol::Put, Protocol::Pull];
        first_without(&ways, |way| self.objection_to_way(way, len, able))
    }

    fn objection_to_way(&self, way: Protocol, len: u64, able: Able) -> Option<Reason> {
        match way {
            Protocol::Cooperative if !able.reads => Some(Reason::CannotRead),
            Protocol::Cooperative if self.share_bytes_min == NEVER => Some(Reason::NeverPays),
            Protocol::Cooperative if len < self.share_bytes_min => {
                Some(Reason::Short { min: self.share_bytes_min })
            }
            Protocol::Cooperative if !able.chunk_claims => Some(Reason::NoClaims),
            Protocol::Get if !able.reads => Some(Reason::CannotRead),
            Protocol::Put if !able.writes => Some(Reason::CannotWrite),
            _ => None,
        }
    }
}

/// The first of `protocols` that nothing is said against. The last one is the last
/// resort.
fn first_without(
    protocols: &[Protocol],
    objection: impl Fn(Protocol) -> Option<Reason>,
) -> Protocol {
    let found = protocols.iter().copied().find(|&protocol| objection(protocol).is_none());
    found.unwrap_or(Protocol::Pull)
}

#[cfg(test)]
mod tests;
