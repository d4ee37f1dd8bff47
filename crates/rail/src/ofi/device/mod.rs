//! A device of libfabric's: an endpoint of a provider, the streams over it, and the memory
//! that its messages are in.
//!
//! | file | what it holds |
//! |---|---|
//! | `stream` | what is known of a stream, a peer, a message |
//! | `messages` | messages that go and come |
//! | `reads` | reads of a peer's memory |
//! | `exposed` | memory of this process that peers read |
//! | `mending` | what happens when the endpoint has broken |

mod exposed;
mod mending;
mod messages;
mod reads;
mod stream;

use super::fetches::Reading;
use super::link::Link;
use super::message::Token;
use super::opening::Spec;
use mending::Pause;
use slab::Slab;
use sluice_fabric::{BufferId, Done, Endpoint, FabricError, Kind, Registered};
use sluice_wire::RemoteKey;
use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;
use std::sync::{Arc, Mutex};
pub(crate) use stream::Notice;
#[cfg(test)]
pub(super) use stream::TELLS_MAX;
use stream::{Known, Message, Stream};

/// Completions that one look takes at most.
const LOOK_MAX: usize = 256;
/// A device, as the lanes over it share it.
pub(crate) type SharedDevice = Arc<Mutex<Device>>;

/// See the module.
#[derive(Debug)]
pub(crate) struct Device {
    spec: Spec,
    pub(super) endpoint: Endpoint,
    pub(super) streams: Slab<Stream>,
    /// The streams by the tokens of what comes.
    pub(super) tokens: HashMap<Token, usize>,
    pub(super) peers: Slab<Known>,
    names: HashMap<Vec<u8>, usize>,
    /// What the provider has.
    under_way: HashMap<BufferId, Message>,
    pub(super) reads: HashMap<BufferId, Reading>,
    /// Memory of this process that peers read, by what it is exposed under.
    pub(super) exposed: HashMap<RemoteKey, Registered>,
    /// Whether chunks are read by the device itself. One that does not keep memory in place
    /// copies in this process, where memory that is gone would end it.
    pub(super) reads_memory: bool,
    /// Streams of which the provider did not take a read.
    pub(super) stalled: Vec<usize>,
    /// The streams of which it did not take all yet, each once, in their turn.
    pub(super) owing: VecDeque<usize>,
    notices: Vec<(usize, Notice)>,
    /// Streams whose end is waited for.
    ending: Vec<usize>,
    /// Messages that are of no lane, and those that could not be received.
    strays: u64,
    failures: u64,
    /// What people are to be told.
    warning: Option<String>,
    pub(super) is_broken: bool,
    /// When it may be opened anew, and when memory is closed that was not.
    opening: Pause,
    closing: Pause,
    /// How often memory that peers were to read no more could not be closed.
    close_failures: u64,
}

impl Device {
    /// Opens the `place`-th different device that a provider has at an address.
    pub(crate) fn open(provider: &str, at: IpAddr, place: usize) -> Result<Device, FabricError> {
        let spec = Spec { provider: provider.to_owned(), at, place };
        let endpoint = spec.open()?;
        let reads_memory = endpoint.offer().reads_memory() && endpoint.offer().pins_memory();
        Ok(Device {
            endpoint,
            spec,
            streams: Slab::new(),
            tokens: HashMap::new(),
            peers: Slab::new(),
            names: HashMap::new(),
            under_way: HashMap::new(),
            reads: HashMap::new(),
            exposed: HashMap::new(),
            reads_memory,
            stalled: Vec::new(),
            owing: VecDeque::new(),
            notices: Vec::new(),
            ending: Vec::new(),
            strays: 0,
            failures: 0,
            warning: None,
            is_broken: false,
            opening: Pause::default(),
            closing: Pause::default(),
            close_failures: 0,
        })
    }

    /// The endpoint's name, for peers.
    pub(crate) fn name(&self) -> &[u8] {
        self.endpoint.name()
    }

    pub(crate) fn endpoint(&mut self) -> &mut Endpoint {
        &mut self.endpoint
    }

    /// Whether there is any stream, or a message of one that has ended.
    pub(crate) fn is_used(&self) -> bool {
        let is_busy = !self.under_way.is_empty() || !self.reads.is_empty();
        !self.streams.is_empty() || !self.is_broken && is_busy
    }

    /// Whether there is something to do that nobody else calls for.
    pub(crate) fn has_work(&self) -> bool {
        !self.notices.is_empty()
    }

    /// Whether something is to be looked for that the descriptor may not tell of.
    pub(crate) fn is_waiting(&self) -> bool {
        !self.owing.is_empty() || !self.ending.is_empty() || !self.stalled.is_empty()
    }

    /// What people are to be told.
    pub(crate) fn take_warning(&mut self) -> Option<String> {
        self.warning.take()
    }

    /// Adds a stream to the peer whose endpoint has this name.
    pub(super) fn add(
        &mut self,
        entry: usize,
        own_token: Token,
        peer_token: Token,
        name: &[u8],
    ) -> Result<usize, FabricError> {
        let peer = match self.names.get(name) {
            Some(&peer) => peer,
            None => {
                let peer = self.endpoint.insert(name)?;
                let peer = self.peers.insert(Known { name: name.to_vec(), peer, users: 0 });
                self.names.insert(name.to_vec(), peer);
                peer
            }
        };
        self.peers[peer].users += 1;
        let stream = self.streams.insert(Stream {
            link: Link::new(own_token, peer_token),
            peer,
            fetches: Default::default(),
            entry,
            wants_room: false,
            is_broken: self.is_broken,
            owed: VecDeque::new(),
            under_way: 0,
            tells: 0,
        });
        self.tokens.insert(own_token, stream);
        Ok(stream)
    }

    /// Ends a stream. What is under way ends by itself; what the provider did not take is
    /// sent no more.
    pub(super) fn remove(&mut self, stream: usize) {
        let Some(ended) = self.streams.try_remove(stream) else { return };
        for (buffer, message) in ended.owed {
            self.endpoint.give_back(buffer);
            self.let_go(message.peer);
        }
        ended.fetches.here().for_each(|buffer| self.endpoint.give_back(buffer));
        self.owing.retain(|&other| other != stream);
        self.stalled.retain(|&other| other != stream);
        self.tokens.remove(&ended.link.own_token);
        self.ending.retain(|&other| other != stream);
        self.notices.retain(|&(entry, _)| entry != ended.entry);
        self.let_go(ended.peer);
    }

    pub(super) fn let_go(&mut self, peer: usize) {
        self.peers[peer].users -= 1;
        if self.peers[peer].users == 0 {
            let known = self.peers.remove(peer);
            self.names.remove(&known.name);
            self.endpoint.remove(known.peer);
        }
    }

    /// Looks what has ended and what has come. [`Device::next_notice`] says whom it
    /// concerns.
    pub(crate) fn progress(&mut self) {
        if self.is_broken {
            return;
        }
        for _ in 0..LOOK_MAX {
            match self.endpoint.poll() {
                Ok(Some(done)) => self.on_done(&done),
                Ok(None) => break,
                Err(why) => return self.break_all(&why),
            }
        }
        self.pay();
        for stream in std::mem::take(&mut self.stalled) {
            self.begin_reads(stream);
        }
        for at in 0..self.ending.len() {
            let entry = self.streams[self.ending[at]].entry;
            self.notices.push((entry, Notice::Came));
        }
    }

    /// The endpoint is of no use any more.
    pub(super) fn break_all(&mut self, why: &FabricError) {
        self.is_broken = true;
        self.warning = Some(format!("it has broken ({why}); it is opened anew, and rails over it"));
        let streams: Vec<usize> = self.streams.iter().map(|(at, _)| at).collect();
        streams.into_iter().for_each(|stream| self.break_stream(stream));
    }

    pub(super) fn on_done(&mut self, done: &Done) {
        match done.kind {
            Kind::Read => {
                if let Some(reading) = self.reads.remove(&done.buffer) {
                    self.read_ended(done.buffer, reading, done.failed.is_some());
                }
            }
            Kind::Sent | Kind::Matched => {
                if let Some(message) = self.under_way.remove(&done.buffer) {
                    self.ended(done.buffer, message, done.failed.is_some());
                }
            }
            Kind::Received => {
                match &done.failed {
                    None => self.on_message(done.buffer, done.len),
                    Some(why) => self.note_failure(why),
                }
                self.endpoint.receive_into(done.buffer);
            }
        }
    }

    /// What has happened to which lane, by what the network calls it.
    pub(crate) fn next_notice(&mut self) -> Option<(usize, Notice)> {
        self.notices.pop()
    }

    /// A lane is to be looked at.
    pub(super) fn notice(&mut self, stream: usize, notice: Notice) {
        let entry = self.streams[stream].entry;
        self.notices.push((entry, notice));
    }

    /// The end of a lane is waited for.
    pub(super) fn await_end(&mut self, stream: usize) {
        self.ending.push(stream);
    }

    pub(super) fn link(&self, stream: usize) -> &Link {
        &self.streams[stream].link
    }

    /// Whether all that was sent has left this process, and was read.
    pub(super) fn is_drained(&self, stream: usize) -> bool {
        let known = &self.streams[stream];
        known.is_broken || known.under_way + known.tells == 0 && known.link.is_drained()
    }
}
