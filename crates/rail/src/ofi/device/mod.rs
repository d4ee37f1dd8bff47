//! A device of libfabric's: an endpoint of a provider, the streams over it, and the memory
//! that its messages are in.

use super::fetch::{Fetches, Reading};
use super::link::{Link, WINDOW};
use super::message::{HEAD_BYTES, Head, Token};
use super::opening::Spec;
use super::pieces::{gather, scatter};
use crate::net::Place;
use slab::Slab;
use sluice_fabric::{Begun, BufferId, Done, Endpoint, FabricError, Kind, Peer, Registered};
use sluice_wire::RemoteKey;
use std::collections::{HashMap, VecDeque};
use std::io;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Buffers for what comes, whoever sends it: what fills one is copied at once.
pub(super) const RECEIVES: usize = 64;
/// Completions that one look takes at most.
const LOOK_MAX: usize = 256;
/// Messages of a lane under way that only tell what was read: a later one tells all.
pub(super) const TELLS_MAX: u64 = 2;
/// Least time between two attempts to open an endpoint anew.
const MEND_PAUSE: Duration = Duration::from_secs(1);

/// A device, as the lanes over it share it.
pub(crate) type SharedDevice = Arc<Mutex<Device>>;

/// What has happened to a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Notice {
    /// Something has come, or it has ended.
    Came,
    /// It takes more.
    Room,
}

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
    /// When the last attempt was made to open it anew.
    tried: Option<Instant>,
}

/// One stream.
#[derive(Debug)]
pub(super) struct Stream {
    pub(super) link: Link,
    pub(super) peer: usize,
    /// What is read of the peer's memory.
    pub(super) fetches: Fetches,
    /// What the network calls it.
    entry: usize,
    wants_room: bool,
    is_broken: bool,
    /// What the provider did not take yet, oldest first.
    pub(super) owed: VecDeque<(BufferId, Message)>,
    /// Messages that the provider has, or is owed: with a body, and without.
    under_way: u64,
    tells: u64,
}

/// A peer's endpoint, which the provider knows.
#[derive(Debug)]
pub(super) struct Known {
    name: Vec<u8>,
    pub(super) peer: Peer,
    /// Streams, and messages and reads under way.
    pub(super) users: usize,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Message {
    /// Of which stream: it may be no more.
    token: Token,
    peer: usize,
    len: usize,
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
            tried: None,
        })
    }

    /// Opens the endpoint anew, if it has broken and no stream is left of it. Says whether it
    /// did; its name and its descriptor are others then.
    pub(crate) fn mend(&mut self) -> bool {
        let is_due = self.tried.is_none_or(|tried| tried.elapsed() >= MEND_PAUSE);
        if !self.is_broken || !self.streams.is_empty() || !is_due {
            return false;
        }
        self.tried = Some(Instant::now());
        let Ok(endpoint) = self.spec.open() else { return false };
        self.withdraw_all();
        self.endpoint = endpoint;
        self.reads.clear();
        self.peers.clear();
        self.names.clear();
        self.under_way.clear();
        self.is_broken = false;
        true
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
            fetches: Fetches::default(),
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

    /// Sends what there is room for. Says how many bytes that is.
    ///
    /// # Safety
    /// The pieces are of this process, or of its client.
    pub(super) unsafe fn send(&mut self, stream: usize, pieces: &[Place]) -> io::Result<usize> {
        let wanted: usize = pieces.iter().map(|piece| piece.len).sum();
        let mut sent = 0;
        while sent < wanted {
            let known = &mut self.streams[stream];
            if known.is_broken {
                return Err(io::ErrorKind::ConnectionReset.into());
            }
            if known.link.room() == 0 || known.under_way >= WINDOW {
                known.wants_room = true;
                break;
            }
            let buffer = self.endpoint.take().map_err(io::Error::other)?;
            let body = &mut self.endpoint.bytes_mut(buffer)[HEAD_BYTES..];
            // SAFETY: the caller's promise.
            let len = match unsafe { gather(pieces, sent, body) } {
                Ok(len) => len,
                Err(cause) => {
                    self.endpoint.give_back(buffer);
                    return if sent > 0 { Ok(sent) } else { Err(cause) };
                }
            };
            let head = self.streams[stream].link.number(len as u32);
            self.post(stream, buffer, &head);
            sent += len;
        }
        if sent == 0 { Err(io::ErrorKind::WouldBlock.into()) } else { Ok(sent) }
    }

    fn post(&mut self, stream: usize, buffer: BufferId, head: &Head) {
        let known = &mut self.streams[stream];
        *known.count_of(HEAD_BYTES + head.len as usize) += 1;
        self.endpoint.bytes_mut(buffer)[..HEAD_BYTES].copy_from_slice(&head.emit());
        let (token, peer) = (known.link.own_token, known.peer);
        self.peers[peer].users += 1;
        let message = Message { token, peer, len: HEAD_BYTES + head.len as usize };
        let is_first = known.owed.is_empty();
        known.owed.push_back((buffer, message));
        // Behind others it waits for its turn.
        if is_first && !self.pay_one(stream) {
            self.owing.push_back(stream);
        }
    }

    /// Gives the provider what it is owed, as far as it takes it: of each lane a message in
    /// its turn, until it wants no more of that lane.
    fn pay(&mut self) {
        let mut refused = VecDeque::new();
        while let Some(stream) = self.owing.pop_front() {
            if !self.pay_one(stream) {
                refused.push_back(stream);
            } else if self.streams.get(stream).is_some_and(|known| !known.owed.is_empty()) {
                self.owing.push_back(stream);
            }
        }
        self.owing = refused;
    }

    /// Gives the provider the oldest message that it is owed of a lane. Says whether it is
    /// not owed that one any more.
    fn pay_one(&mut self, stream: usize) -> bool {
        let Some(&(buffer, message)) = self.streams[stream].owed.front() else { return true };
        let to = self.peers[message.peer].peer;
        let begun = self.endpoint.send(buffer, message.len, to);
        if begun == Ok(Begun::Later) {
            return false;
        }
        self.streams[stream].owed.pop_front();
        match begun {
            Ok(_) => drop(self.under_way.insert(buffer, message)),
            Err(_) => self.ended(buffer, message, true),
        }
        true
    }

    /// The provider does not have a message any more.
    fn ended(&mut self, buffer: BufferId, message: Message, has_failed: bool) {
        self.endpoint.give_back(buffer);
        if let Some(&stream) = self.tokens.get(&message.token) {
            let known = &mut self.streams[stream];
            *known.count_of(message.len) -= 1;
            if has_failed {
                self.break_stream(stream);
            } else {
                if std::mem::take(&mut known.wants_room) {
                    let entry = known.entry;
                    self.notices.push((entry, Notice::Room));
                }
                if message.is_tell() {
                    // Of what was read meanwhile nothing was told.
                    self.tell(stream);
                }
            }
        }
        self.let_go(message.peer);
    }

    fn break_stream(&mut self, stream: usize) {
        let known = &mut self.streams[stream];
        if !std::mem::replace(&mut known.is_broken, true) {
            self.notices.push((known.entry, Notice::Came));
        }
    }

    /// Reads what has come on a stream.
    ///
    /// # Safety
    /// The pieces are of this process, or of its client, who lets them be written.
    pub(super) unsafe fn receive(&mut self, stream: usize, pieces: &[Place]) -> io::Result<usize> {
        // SAFETY: the caller's promise.
        let got = unsafe { scatter(&mut self.streams[stream].link, pieces)? };
        self.tell(stream);
        let known = &self.streams[stream];
        match got {
            0 if known.is_broken => Err(io::ErrorKind::ConnectionReset.into()),
            0 => Err(io::ErrorKind::WouldBlock.into()),
            got => Ok(got),
        }
    }

    /// Tells the peer what was read, now and then.
    fn tell(&mut self, stream: usize) {
        let known = &mut self.streams[stream];
        if known.tells >= TELLS_MAX {
            return;
        }
        let Some(head) = known.link.tell() else { return };
        match self.endpoint.take() {
            Ok(buffer) => self.post(stream, buffer, &head),
            Err(_) => self.break_stream(stream),
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

    /// A message could not be received: it is too long, most likely, and of a stranger. What
    /// it would be to a lane, the lane finds out.
    fn note_failure(&mut self, why: &FabricError) {
        self.failures += 1;
        if self.failures.is_power_of_two() {
            let count = self.failures;
            self.warning = Some(format!(
                "a message could not be received and is dropped ({why}; {count} so far): \
                 somebody sends what no peer sends, or the network loses something"
            ));
        }
    }

    fn on_message(&mut self, buffer: BufferId, len: usize) {
        let parsed = Head::parse(&self.endpoint.bytes(buffer)[..len]);
        let known =
            parsed.and_then(|(head, body)| Some((*self.tokens.get(&head.token)?, head, body)));
        let Some((stream, head, body)) = known else {
            self.strays += 1;
            return;
        };
        let known = &mut self.streams[stream];
        let Ok(has_room) = known.link.arrived(&head, body) else {
            return self.break_stream(stream);
        };
        let entry = known.entry;
        if has_room && std::mem::take(&mut known.wants_room) {
            self.notices.push((entry, Notice::Room));
        }
        if head.len > 0 {
            self.notices.push((entry, Notice::Came));
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

impl Stream {
    /// Where messages of such a length are counted.
    fn count_of(&mut self, len: usize) -> &mut u64 {
        if len == HEAD_BYTES { &mut self.tells } else { &mut self.under_way }
    }
}

impl Message {
    /// Whether it only tells what was read.
    fn is_tell(&self) -> bool {
        self.len == HEAD_BYTES
    }
}
