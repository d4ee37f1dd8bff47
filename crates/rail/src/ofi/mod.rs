//! Rails over libfabric: what carries bytes between two processes where a provider of
//! libfabric does it, and not a TCP connection.
//!
//! A device of this kind ([`Device`]) is an endpoint of a provider. The connection to a
//! peer by it is a [`Lane`]: a stream of bytes, as a TCP connection is, cut into messages
//! of bounded length. So all that is above it (frames, the numbered stream, chunks, which
//! rail takes what) is the same for both.
//!
//! | file | what it holds |
//! |---|---|
//! | `device` | the endpoint: messages that go and come, peers, memory for them |
//! | `fetches` | what a lane reads of a peer's memory, without I/O |
//! | `opening` | how that is opened, also anew |
//! | `pieces` | copies between memory of the client's and messages |
//! | `link` | one stream over it, without I/O: numbers, the window, what has come |
//! | `message` | the header of a message |
//! | `lane` | a stream with the TCP connection that it was opened by |
//! | `control` | what goes over that connection |
//! | `answers` | whether a lane is deaf, by what comes there |
//! | `tags` | matching of tags by the provider, over endpoints of its own |
//!
//! Who may use a lane is decided on TCP: processes meet there and prove who they are, and
//! tell each other the name of the endpoint and a *token*, 16 random bytes for this lane.
//! A message without the token of an open lane is dropped and counted. The connection stays
//! open as long as the lane. Its end is the lane's end, and it tells a peer that computes
//! from a lane that is broken.
//!
//! Invariants:
//! - A peer has at most `link::WINDOW` messages under way or unread, so what it can make this
//!   process keep is bounded; a message out of the window ends the lane.
//! - What the provider does not take waits by lane, a window and [`device::stream::TELLS_MAX`]
//!   messages at most. A peer that takes nothing keeps back its own lane alone.
//! - A message that cannot be received is dropped and counted, whoever sent it. Only an
//!   endpoint that says so itself has broken; it is opened anew.
//! - A message goes from memory of this process's own. Memory of the client is looked at
//!   before it is copied, so memory that is gone is an error and no fault.
//! - A fork of the process calls nothing here: what it inherits stays as it is.
//! - A provider is not told to forget a peer to which a message is under way.

mod answers;
mod control;
mod device;
mod fetches;
mod lane;
mod link;
mod message;
mod opening;
mod pieces;
mod tags;
#[cfg(test)]
mod tests;

pub(crate) use control::records_again;
pub(crate) use device::{Device, Notice, SharedDevice};
pub(crate) use fetches::{Fetched, Whereabouts};
pub(crate) use lane::{Lane, lock};
pub(crate) use message::{TOKEN_BYTES, Token};
pub(crate) use opening::offers_at;
pub(crate) use tags::{ID_BYTES, Id, LISTS, Matcher};
