//! The vocabulary of an endpoint: what is asked of it and what it answers.

use crate::selection::Table;
use sluice_link::PeerError;
use sluice_wire::{Addr, Nanos, PeerId, Region};

/// What an endpoint is made with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// Longest message in bytes that is sent eagerly; longer ones are
    /// announced and fetched.
    pub eager_bytes_max: u32,
    /// The same to a peer that a network is between. Injected messages are eager in any
    /// case, up to `eager_bytes_max`.
    pub network_eager_bytes_max: u32,
    /// Longest message in bytes that is sent eagerly to a receiver that takes in what it is
    /// sent, at the moment of the send.
    pub looking_bytes_max: u32,
    /// How long a message of several slots waits for credits before it goes
    /// as an announcement instead.
    pub patience: Nanos,
    /// Most sends, most receives and most unanswered probes that may be pending
    /// at once, and most ends that were not read when a further request is taken. One
    /// more is refused with [`Refused::Again`].
    pub requests_max: u32,
    /// Most bytes of memory that injected messages which wait for credits may
    /// take, their records included. One more is refused with
    /// [`Refused::Again`].
    pub inject_bytes_max: u64,
    /// Most regions that are exposed at once. One more is refused with [`Refused::Again`].
    pub regions_max: u32,
    /// Shortest receive, in bytes, that is announced to its source (RTR).
    pub announce_bytes_min: u64,
    /// Shortest message, in bytes, that both sides copy.
    pub share_bytes_min: u64,
    /// Most bytes of chunks that all pulls together have asked for and not got; zero
    /// counts as one. The reply region of the mailbox is a limit too.
    pub pull_bytes_max: u64,
}

impl Default for Config {
    fn default() -> Self {
        let Table { eager_bytes_max, looking_bytes_max, announce_bytes_min, share_bytes_min } =
            Table::default();
        Config {
            eager_bytes_max,
            network_eager_bytes_max: Table::NETWORK.eager_bytes_max,
            looking_bytes_max,
            patience: Nanos(20_000),
            requests_max: 1 << 23,
            inject_bytes_max: 64 << 20,
            regions_max: 1 << 20,
            announce_bytes_min,
            share_bytes_min,
            pull_bytes_max: 1 << 20,
        }
    }
}

impl Config {
    /// The lengths by which protocols are chosen.
    #[must_use]
    #[inline(always)]
    pub fn table(&self) -> Table {
        Table {
            eager_bytes_max: self.eager_bytes_max,
            looking_bytes_max: self.looking_bytes_max,
            announce_bytes_min: self.announce_bytes_min,
            share_bytes_min: self.share_bytes_min,
        }
    }

    /// The same for messages to peers that a network is between.
    #[must_use]
    pub fn network_table(&self) -> Table {
        Table { eager_bytes_max: self.network_eager_bytes_max, ..Table::NETWORK }
    }

    /// The same with these lengths.
    #[must_use]
    pub fn with_table(self, table: &Table) -> Config {
        let Table { eager_bytes_max, looking_bytes_max, announce_bytes_min, share_bytes_min } =
            *table;
        Config { eager_bytes_max, looking_bytes_max, announce_bytes_min, share_bytes_min, ..self }
    }
}

/// The two spaces that messages are matched in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Space {
    /// Matched by tag and source.
    Tagged,
    /// Matched by source alone.
    Untagged,
}

/// A message to be sent.
#[derive(Clone, Copy, Debug)]
pub struct Send {
    /// Which space it is matched in.
    pub space: Space,
    /// Where it goes.
    pub peer: PeerId,
    /// Its bytes. They may not change before the completion, except with
    /// `inject`.
    pub buf: Region,
    /// Its tag; zero in the untagged space.
    pub tag: u64,
    /// Out-of-band data delivered with it.
    pub data: Option<u64>,
    /// Returned in the completion.
    pub context: u64,
    /// Whether a successful send gives a completion; a failed one always does.
    pub report: bool,
    /// The bytes may be reused as soon as the call returns. One that has to
    /// wait for credits waits as a copy in memory that the port lends, if
    /// [`Config::inject_bytes_max`] allows.
    pub inject: bool,
    /// What it waits for besides, if for anything.
    pub delivery: Option<Delivery>,
}

/// How far a message has to come before its send is complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// The receiver has it: in its buffer if one was ready, else kept until one is. One that is
    /// only announced is not there before it is fetched, and where a rail matches its provider
    /// says when it is.
    Arrived,
    /// It has met a receive.
    Matched,
}

/// What has become of a send that was cancelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cancelled {
    /// Nothing of it has gone, and nothing will.
    Withdrawn,
    /// All of it has gone, and it may be received: it waits no more to learn that.
    Sent,
}

/// A buffer to be filled by one message.
#[derive(Clone, Copy, Debug)]
pub struct Recv {
    /// Which space it matches in.
    pub space: Space,
    /// The sender it accepts; `None` accepts any.
    pub source: Option<PeerId>,
    /// Where the bytes go.
    pub buf: Region,
    /// The tag it accepts.
    pub tag: u64,
    /// Bits of the tag that do not matter.
    pub ignore: u64,
    /// Returned in the completion.
    pub context: u64,
    /// Whether a successful receive gives a completion; a failed one always
    /// does.
    pub report: bool,
}

/// What a probe does with the message it finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProbeAction {
    /// Leave it.
    Peek,
    /// Take it out of the matching; [`crate::Endpoint::recv_claimed`] fetches it.
    Claim,
    /// Drop it.
    Discard,
}

/// A look for a message that has arrived unexpected.
#[derive(Clone, Copy, Debug)]
pub struct Probe {
    /// Which space.
    pub space: Space,
    /// The sender wanted; `None` for any.
    pub source: Option<PeerId>,
    /// The tag wanted.
    pub tag: u64,
    /// Bits of the tag that do not matter.
    pub ignore: u64,
    /// Returned in the completion; names the message if it is claimed.
    pub context: u64,
    /// What to do with it.
    pub action: ProbeAction,
}

/// What kind of request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A [`Send`].
    Send,
    /// A [`Recv`], or a receive of a claimed message.
    Recv,
    /// A [`Probe`].
    Probe,
    /// A write to remote memory.
    Write,
    /// A read of it.
    Read,
    /// Values combined with those in it.
    Combine,
    /// The same, and the values from before fetched.
    Fetch,
    /// What a peer wrote to, or combined with, a region of this process.
    PeerWrite,
    /// What a peer read of one.
    PeerRead,
    /// What a peer wrote to a region of this process, or combined with it, by an operation that
    /// reaches several: it is told as a [`Kind::PeerWrite`] at another one of them.
    RegionWrite,
    /// The same of a read, told as a [`Kind::PeerRead`] at another region.
    RegionRead,
    /// A buffer for many messages, which takes no more. No message belongs to it.
    Consumed,
}

impl Kind {
    /// Whether it is what a peer did with a region of this process.
    #[must_use]
    #[inline]
    pub fn is_of_region(self) -> bool {
        use Kind::{PeerRead, PeerWrite, RegionRead, RegionWrite};
        matches!(self, PeerWrite | PeerRead | RegionWrite | RegionRead)
    }

    /// Whether this process has begun it toward a peer; else a peer has, or it is about what
    /// peers have sent.
    #[must_use]
    #[inline]
    pub fn is_begun_here(self) -> bool {
        matches!(self, Kind::Send | Kind::Write | Kind::Read | Kind::Combine | Kind::Fetch)
    }
}

/// The end of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// What kind of request.
    pub kind: Kind,
    /// Which space.
    pub space: Space,
    /// The request's context.
    pub context: u64,
    /// Bytes that the message has (probe) or that were placed (receive).
    pub len: u64,
    /// Where they were placed.
    pub buf: Addr,
    /// The message's tag.
    pub tag: u64,
    /// Out-of-band data that came with it.
    pub data: Option<u64>,
    /// Who sent it (receive, probe) or where it went (send), where known.
    pub peer: Option<PeerId>,
    /// It is only to be counted: the program did not ask to be told.
    pub quiet: bool,
    /// How it went.
    pub outcome: Result<(), Failure>,
}

/// Why a request ended without what was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// The message was longer than the buffer; the excess never travelled.
    #[error("message truncated: {excess} bytes did not fit")]
    Truncated {
        /// Bytes beyond the buffer.
        excess: u64,
    },
    /// It was cancelled.
    #[error("cancelled")]
    Cancelled,
    /// A probe found nothing.
    #[error("no message matches")]
    NoMessage,
    /// The peer is gone.
    #[error("peer {peer:?} cannot be reached: {why}")]
    PeerGone {
        /// Which.
        peer: PeerId,
        /// Why.
        why: PeerError,
    },
    /// Memory, here or there, is not mapped.
    #[error("a buffer of this message is not mapped memory")]
    Fault,
    /// The peer exposes no region by this name that has all the bytes.
    #[error("peer {peer:?} exposes no such memory")]
    NoRegion {
        /// Whose memory.
        peer: PeerId,
    },
    /// The region is not exposed for this.
    #[error("peer {peer:?} does not allow this on its memory")]
    NoRight {
        /// Whose memory.
        peer: PeerId,
    },
    /// The receiver gave the message up while fetching it.
    #[error("the receiver gave up fetching the message")]
    Aborted,
}

/// Why a request was not taken. Nothing has changed; it loses nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// A resource is exhausted for now: progress, then try again.
    #[error("try again after progress")]
    Again,
    /// The message is longer than a message of its kind may be.
    #[error("message too long: {len} bytes, at most {max}")]
    TooLong {
        /// Its length.
        len: u64,
        /// The limit.
        max: u64,
    },
    /// Not where a rail matches messages in this process's place.
    #[error("a rail matches messages, and has no buffers for many")]
    NotAtRail,
    /// No claimed message has that context.
    #[error("no claimed message has this context")]
    NotClaimed,
    /// An injected message, whose end nobody is told later, cannot reach its
    /// peer.
    #[error("peer {peer:?} cannot be reached: {why}")]
    PeerGone {
        /// Which.
        peer: PeerId,
        /// Why.
        why: PeerError,
    },
}

/// What an endpoint has done and holds, for people and tests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Messages sent eagerly.
    pub eager_sent: u64,
    /// Messages announced.
    pub rendezvous_sent: u64,
    /// Receives announced to their sources.
    pub announced: u64,
    /// Messages sent to where a receive that was announced wanted them.
    pub rtrs_used: u64,
    /// Messages that arrived before a receive that matches.
    pub unexpected: u64,
    /// Messages that arrived and have not been matched yet.
    pub unexpected_now: u64,
    /// Packets refused because they broke the protocol.
    pub violations: u64,
    /// Sends waiting for credits now, or told of while they did.
    pub stalled_now: u64,
    /// Memory of messages not matched yet, in bytes: their records, and what is
    /// lent for their payloads.
    pub unexpected_bytes_now: u64,
    /// The most that there ever was.
    pub unexpected_bytes_peak: u64,
    /// Messages taken from the queues of stalled senders, because a receive
    /// asked for them.
    pub asked_for: u64,
    /// Memory of injected messages that wait, in bytes: their copies and their
    /// records.
    pub injected_bytes_now: u64,
    /// Memory that is lent for messages of receives into several pieces, where a rail
    /// matches, in bytes.
    pub staged_bytes_now: u64,
    /// Bytes of chunks that were asked for and have not come.
    pub pull_bytes_now: u64,
    /// The most that there ever were.
    pub pull_bytes_peak: u64,
    /// Senders of which more could be asked for if there were room.
    pub pull_senders_waiting_now: u64,
}

/// What an endpoint has taken on and not ended yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pending {
    /// Sends.
    pub sends: u32,
    /// Receives.
    pub recvs: u32,
    /// Operations on remote memory.
    pub remote: u32,
    /// Messages claimed and not received.
    pub claimed: usize,
    /// Probes that wait for the answers of stalled senders.
    pub probes: u32,
    /// Operations of the interface below whose end is awaited.
    pub operations: u32,
    /// Get-dones and acknowledgements that wait for a control credit.
    pub answers: usize,
}
