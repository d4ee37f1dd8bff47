//! A device of libfabric's: an endpoint of a provider, the streams over it, and the memory
//! that its messages are in.

use super::link::{Link, WINDOW};
use super::message::{BODY_BYTES_MAX, HEAD_BYTES, Head, Token};
use crate::net::Place;
use slab::Slab;
use sluice_fabric::{
    Begun, BufferId, Done, Endpoint, FabricError, Kind, Offer, Peer, Source, offers,
};
use std::collections::{HashMap, VecDeque};
use std::io;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};

/// Buffers for what comes, whoever sends it: what fills one is copied at once.
const RECEIVES: usize = 64;
/// Completions that one look takes at most.
const LOOK_MAX: usize = 256;
/// Receives that may fail in a row before the endpoint is given up.
const FAILURES_MAX: u32 = 1000;

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
    endpoint: Endpoint,
    streams: Slab<Stream>,
    /// The streams by the tokens of what comes.
    tokens: HashMap<Token, usize>,
    peers: Slab<Known>,
    names: HashMap<Vec<u8>, usize>,
    /// What the provider has.
    under_way: HashMap<BufferId, Message>,
    /// What it did not take yet: of each stream no more than its window.
    owed: VecDeque<(BufferId, Message)>,
    notices: Vec<(usize, Notice)>,
    /// Streams whose end is waited for.
    ending: Vec<usize>,
    /// Messages that are of no lane.
    strays: u64,
    failures: u32,
    is_broken: bool,
}

/// One stream.
#[derive(Debug)]
struct Stream {
    link: Link,
    peer: usize,
    /// What the network calls it.
    entry: usize,
    wants_room: bool,
    is_broken: bool,
    /// Messages that the provider has, or is owed.
    under_way: u64,
}

/// A peer's endpoint, which the provider knows.
#[derive(Debug)]
struct Known {
    name: Vec<u8>,
    peer: Peer,
    /// Streams, and messages under way.
    users: usize,
}

#[derive(Clone, Copy, Debug)]
struct Message {
    /// Of which stream: it may be no more.
    token: Token,
    peer: usize,
    len: usize,
}

/// What a provider offers by this address; or by any, if its devices have none of the
/// system's.
pub(crate) fn offers_at(provider: &str, at: IpAddr) -> Result<Vec<Offer>, FabricError> {
    match offers(provider, Source::Ip(at)) {
        Err(FabricError::NoProvider { .. }) => {}
        found => return found,
    }
    let mut offers = offers(provider, Source::Any)?;
    // By another address of the internet its peers would not expect it.
    offers.retain(|offer| !offer.is_ip());
    if offers.is_empty() {
        let (provider, filter) = (provider.to_owned(), format!(" by {at}"));
        return Err(FabricError::NoProvider { provider, filter });
    }
    Ok(offers)
}

impl Device {
    /// Opens the `place`-th different device that a provider has at an address.
    pub(crate) fn open(provider: &str, at: IpAddr, place: usize) -> Result<Device, FabricError> {
        let mut offers = offers_at(provider, at)?;
        let mut seen: Vec<String> = Vec::new();
        offers.retain(|offer| {
            let domain = offer.domain();
            let is_new = !seen.contains(&domain);
            seen.push(domain);
            is_new
        });
        let missing = || FabricError::NoProvider {
            provider: provider.to_owned(),
            filter: format!(" by device {place}"),
        };
        let offer = offers.into_iter().nth(place).ok_or_else(missing)?;
        Ok(Device {
            endpoint: Endpoint::open(offer, RECEIVES)?,
            streams: Slab::new(),
            tokens: HashMap::new(),
            peers: Slab::new(),
            names: HashMap::new(),
            under_way: HashMap::new(),
            owed: VecDeque::new(),
            notices: Vec::new(),
            ending: Vec::new(),
            strays: 0,
            failures: 0,
            is_broken: false,
        })
    }

    /// The endpoint's name, for peers.
    pub(crate) fn name(&self) -> &[u8] {
        self.endpoint.name()
    }

    pub(crate) fn endpoint(&mut self) -> &mut Endpoint {
        &mut self.endpoint
    }

    /// Whether there is any stream.
    pub(crate) fn is_used(&self) -> bool {
        !self.streams.is_empty()
    }

    /// Whether there is something to do that nobody else calls for.
    pub(crate) fn has_work(&self) -> bool {
        !self.owed.is_empty() || !self.notices.is_empty() || !self.ending.is_empty()
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
            entry,
            wants_room: false,
            is_broken: self.is_broken,
            under_way: 0,
        });
        self.tokens.insert(own_token, stream);
        Ok(stream)
    }

    /// Ends a stream. What is under way ends by itself.
    pub(super) fn remove(&mut self, stream: usize) {
        let Some(ended) = self.streams.try_remove(stream) else { return };
        self.tokens.remove(&ended.link.own_token);
        self.ending.retain(|&other| other != stream);
        self.notices.retain(|&(entry, _)| entry != ended.entry);
        self.let_go(ended.peer);
    }

    fn let_go(&mut self, peer: usize) {
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
        known.under_way += 1;
        self.endpoint.bytes_mut(buffer)[..HEAD_BYTES].copy_from_slice(&head.emit());
        let (token, peer) = (known.link.own_token, known.peer);
        self.peers[peer].users += 1;
        let message = Message { token, peer, len: HEAD_BYTES + head.len as usize };
        self.owed.push_back((buffer, message));
        self.pay();
    }

    /// Gives the provider what it is owed, as far as it takes it.
    fn pay(&mut self) {
        while let Some(&(buffer, message)) = self.owed.front() {
            let begun = match self.tokens.get(&message.token) {
                // What a lane that has ended did not send is sent no more.
                None => Err(None),
                Some(_) => {
                    let to = self.peers[message.peer].peer;
                    self.endpoint.send(buffer, message.len, to).map_err(Some)
                }
            };
            match begun {
                Ok(Begun::Later) => return,
                Ok(Begun::Yes) => {
                    self.owed.pop_front();
                    self.under_way.insert(buffer, message);
                }
                Err(why) => {
                    self.owed.pop_front();
                    self.ended(buffer, message, why.is_some());
                }
            }
        }
    }

    /// The provider does not have a message any more.
    fn ended(&mut self, buffer: BufferId, message: Message, has_failed: bool) {
        self.endpoint.give_back(buffer);
        if let Some(&stream) = self.tokens.get(&message.token) {
            let known = &mut self.streams[stream];
            known.under_way -= 1;
            if has_failed {
                self.break_stream(stream);
            } else if std::mem::take(&mut known.wants_room) {
                let entry = known.entry;
                self.notices.push((entry, Notice::Room));
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
        let mut got = 0;
        for piece in pieces {
            if !piece.is_writable() {
                return Err(io::Error::from_raw_os_error(libc::EFAULT));
            }
            let mut filled = 0;
            while filled < piece.len {
                let link = &mut self.streams[stream].link;
                let front = link.front();
                let len = front.len().min(piece.len - filled);
                if len == 0 {
                    break;
                }
                // SAFETY: the piece is writable, as was just found, and has room; the
                // source is memory of this process's own.
                unsafe {
                    std::ptr::copy_nonoverlapping(front.as_ptr(), piece.at.add(filled), len);
                }
                link.take(len);
                filled += len;
            }
            got += filled;
        }
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
        let Some(head) = self.streams[stream].link.tell() else { return };
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
                Err(_) => return self.break_all(),
            }
        }
        self.pay();
        for at in 0..self.ending.len() {
            let entry = self.streams[self.ending[at]].entry;
            self.notices.push((entry, Notice::Came));
        }
    }

    fn break_all(&mut self) {
        self.is_broken = true;
        let streams: Vec<usize> = self.streams.iter().map(|(at, _)| at).collect();
        streams.into_iter().for_each(|stream| self.break_stream(stream));
    }

    fn on_done(&mut self, done: &Done) {
        match done.kind {
            Kind::Sent | Kind::Read => {
                if let Some(message) = self.under_way.remove(&done.buffer) {
                    self.ended(done.buffer, message, done.failed.is_some());
                }
            }
            Kind::Received => {
                if done.failed.is_none() {
                    self.failures = 0;
                    self.on_message(done.buffer, done.len);
                } else {
                    self.failures += 1;
                }
                self.endpoint.receive_into(done.buffer);
                if self.failures > FAILURES_MAX {
                    self.break_all();
                }
            }
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

    /// What comes is of no lane from now on.
    #[cfg(test)]
    pub(crate) fn forget_tokens(&mut self) {
        self.tokens.clear();
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
        known.is_broken || known.under_way == 0 && known.link.is_drained()
    }
}

/// Copies what comes behind the first `skip` bytes of the pieces. Says how much that was.
///
/// # Safety
/// The pieces are of this process, or of its client.
unsafe fn gather(pieces: &[Place], mut skip: usize, into: &mut [u8]) -> io::Result<usize> {
    let room = into.len().min(BODY_BYTES_MAX);
    let mut filled = 0;
    for piece in pieces {
        let skipped = skip.min(piece.len);
        skip -= skipped;
        // SAFETY: it stays inside the piece.
        let at = unsafe { piece.at.add(skipped) };
        let len = (piece.len - skipped).min(room - filled);
        if len == 0 {
            continue;
        }
        if !(Place { at, len }).is_readable() {
            // What is before it goes first.
            let fault = io::Error::from_raw_os_error(libc::EFAULT);
            return if filled > 0 { Ok(filled) } else { Err(fault) };
        }
        // SAFETY: the bytes are readable, as was just found, and there is room for them.
        unsafe { std::ptr::copy_nonoverlapping(at, into.as_mut_ptr().add(filled), len) };
        filled += len;
    }
    Ok(filled)
}
