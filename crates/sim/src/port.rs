//! The world as one simulated process sees it. What a machine asks for is
//! collected and carried out when its call has returned.

use crate::chunk_claims::{AllClaims, Share};
use crate::connections::{Connection, Connections};
use crate::hosts::Hosts;
use crate::memory::Memory;
use crate::nic::{Nic, Tagged};
use crate::published::Reach;
use sluice_link::{
    ClaimsId, ClaimsStart, Connect, Exposures, Full, Layout, LocalMemory, MailboxRegion, PeerError,
    Port, Published, RailError, Remote, RemoteCaps, RemoteMemory, Rights, SharedCopy, TagMatching,
    TaggedMessage, TaggedWanted, Token, Transmitted, Transport,
};
use sluice_wire::{Addr, HeadBuf, Packet, PeerId, PtIndex, Region, RemoteKey};

/// A packet to be sent.
#[derive(Debug)]
pub(crate) struct Outgoing {
    pub peer: PeerId,
    pub head: HeadBuf,
    pub payload: Box<[u8]>,
    /// Where the payload is still to be read from, and whom that is reported to.
    pub late: Option<(Region, Token)>,
}

/// Bytes to be moved between two processes' memories.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Move {
    pub peer: PeerId,
    pub local: Region,
    pub remote: Remote,
    pub is_write: bool,
    pub token: Token,
}

/// What a machine has asked for.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    pub packets: Vec<Outgoing>,
    pub moves: Vec<Move>,
    /// Parts of shared transfers.
    pub shares: Vec<Share>,
    /// To whom it has asked for a connection that is not open.
    pub connects: Vec<PeerId>,
    /// Of whose end it wants to hear.
    pub watches: Vec<PeerId>,
    /// Keys that it has revoked, and whose they were.
    pub revoked: Vec<(PeerId, RemoteKey)>,
    /// Whose words it has exchanged: the process waits for each answer.
    pub exchanges: Vec<PeerId>,
}

/// What the rail can do besides packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Direct {
    pub reads: bool,
    pub writes: bool,
    pub chunk_claims: bool,
}

/// How the mailboxes of a world are divided.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Mailboxes<'a> {
    /// All in the same way.
    Alike(&'a Layout),
    /// Each in its own, by process.
    Each(&'a [Layout]),
}

impl<'a> Mailboxes<'a> {
    fn of(self, peer: PeerId) -> &'a Layout {
        match self {
            Mailboxes::Alike(layout) => layout,
            Mailboxes::Each(layouts) => &layouts[peer.index()],
        }
    }
}

/// A payload that lies where the machine has said that it will want it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Placed {
    pub region: Region,
    /// Bytes of it that the machine has wanted there.
    pub copied: u64,
}

/// See the module.
pub(crate) struct SimPort<'a> {
    pub me: u32,
    pub direct: Direct,
    pub claims: &'a mut AllClaims,
    /// What this process has exposed.
    pub exposures: &'a mut Exposures,
    /// Of the shared transfer whose end is being told: whether the writing side
    /// has copied all of it.
    pub written_alone: bool,
    pub mailboxes: Mailboxes<'a>,
    /// `None`: every connection is open.
    pub connections: Option<&'a mut Connections>,
    /// Who is on another host.
    pub hosts: &'a Hosts,
    /// Whose memory cannot be read from here, by process; those beyond the end
    /// of the list are no such.
    pub unreadable: &'a [bool],
    pub outbox: &'a mut Outbox,
    pub memory: &'a mut Memory,
    /// The payload of the packet being handled.
    pub payload: &'a [u8],
    /// Where it is already, if the rail has put it in its place.
    pub placed: Option<Placed>,
    /// Which of the data packets and replies of this call are taken now and read
    /// from memory later: a bit for each, the first one lowest.
    pub late: u64,
    /// Which peers look at this moment: a bit for each.
    pub looking: u64,
    /// Memory that others have published; none if nobody does.
    pub published: Option<Reach<'a>>,
    /// What matches its messages, if something does.
    pub nic: Option<&'a mut Nic>,
}

impl SimPort<'_> {
    /// Whether a peer is on another host.
    #[inline]
    fn is_apart(&self, peer: PeerId) -> bool {
        self.hosts.are_apart(self.me, peer.0)
    }

    /// Moves bytes of a region that a peer on this host has published.
    fn move_now(
        &mut self,
        peer: PeerId,
        at: (u64, u64),
        local: Region,
        is_write: bool,
    ) -> Option<Result<(), RailError>> {
        if self.is_apart(peer) {
            return None;
        }
        let reach = self.published.as_mut()?;
        reach.move_now(self.memory, peer, at, local, is_write)
    }

    /// Whether the rail reads this packet's memory later.
    fn is_late(&mut self, head: &HeadBuf) -> bool {
        let parsed = Packet::parse(head.bytes()).expect("what was emitted can be parsed");
        let region = MailboxRegion::of(&parsed.packet);
        if !matches!(region, MailboxRegion::Data | MailboxRegion::Reply) {
            return false;
        }
        let is_late = self.late & 1 == 1;
        self.late >>= 1;
        is_late
    }
}

impl Transport for SimPort<'_> {
    fn connect(&mut self, peer: PeerId) -> Result<Connect, PeerError> {
        if self.is_apart(peer) {
            if !self.hosts.is_open(self.me, peer.0) {
                self.outbox.connects.push(peer);
                return Ok(Connect::Pending);
            }
        } else if let Some(connections) = &mut self.connections
            && connections.ask(self.me, peer.0) == Connection::Opening
        {
            self.outbox.connects.push(peer);
            return Ok(Connect::Pending);
        }
        Ok(Connect::Ready(self.mailboxes.of(peer).opened()))
    }

    // The world tells of every end on the same host.
    fn watch(&mut self, peer: PeerId) {
        if self.is_apart(peer) {
            self.outbox.watches.push(peer);
        }
    }

    fn refuse(&mut self, peer: PeerId) {
        panic!("all programs here keep to the protocol; process {} refuses {peer:?}", self.me);
    }

    #[inline]
    fn transmit(
        &mut self,
        peer: PeerId,
        head: &HeadBuf,
        payload: Region,
        token: Token,
    ) -> Transmitted {
        if self.late != 0 && !self.is_apart(peer) && self.is_late(head) {
            let late = Some((payload, token));
            self.outbox.packets.push(Outgoing { peer, head: *head, payload: Box::default(), late });
            return Transmitted::Pending;
        }
        // The bytes are taken now, so their memory may be reused at once.
        let payload =
            if payload.len == 0 { Box::default() } else { self.memory.read(payload).into() };
        self.outbox.packets.push(Outgoing { peer, head: *head, payload, late: None });
        Transmitted::Done
    }

    fn is_looking(&mut self, peer: PeerId, _bytes: u64) -> bool {
        self.looking >> (peer.0 % u64::BITS) & 1 == 1
    }

    fn uid(&self, _peer: PeerId) -> u32 {
        0
    }
}

impl LocalMemory for SimPort<'_> {
    fn copy_payload(&mut self, offset: u32, to: Addr, len: u32) -> bool {
        if let Some(Placed { region, copied }) = &mut self.placed {
            assert_eq!(to, region.addr.offset(u64::from(offset)), "copied to where it was said");
            *copied += u64::from(len);
            return true;
        }
        if !self.payload.is_empty() {
            self.memory.write(to, &self.payload[offset as usize..][..len as usize]);
        }
        true
    }

    fn payload(&self, offset: u32, into: &mut [u8]) {
        if !self.payload.is_empty() {
            into.copy_from_slice(&self.payload[offset as usize..][..into.len()]);
        }
    }

    fn copy(&mut self, from: Addr, to: Addr, len: u64) {
        self.memory.copy(from, to, len);
    }

    fn lend(&mut self, len: u32) -> Addr {
        self.memory.lend(len)
    }

    fn give_back(&mut self, addr: Addr, len: u32) {
        self.memory.give_back(addr, len);
    }

    fn readable(&self, _region: Region) -> bool {
        true
    }

    fn writable(&self, _region: Region) -> bool {
        true
    }

    fn load(&self, from: Addr, into: &mut [u8]) {
        let bytes = self.memory.read(Region { addr: from, len: into.len() as u64 });
        if !bytes.is_empty() {
            into.copy_from_slice(bytes);
        }
    }

    fn store(&mut self, to: Addr, bytes: &[u8]) {
        self.memory.write(to, bytes);
    }

    fn compare_exchange(&mut self, at: Addr, width: u32, old: u64, new: u64) -> Result<(), u64> {
        let width = width as usize;
        let mut found = [0; 8];
        self.load(at, &mut found[..width]);
        if found[..width] != old.to_le_bytes()[..width] {
            return Err(u64::from_le_bytes(found));
        }
        self.memory.write(at, &new.to_le_bytes()[..width]);
        Ok(())
    }
}

impl RemoteMemory for SimPort<'_> {
    fn caps(&self, peer: PeerId) -> RemoteCaps {
        if self.is_apart(peer) {
            return RemoteCaps { read: self.hosts.reads, write: true, network: true };
        }
        let unreadable = self.unreadable.get(peer.index()).copied().unwrap_or(false);
        let read = self.direct.reads && !unreadable;
        RemoteCaps { read, write: self.direct.writes, network: false }
    }

    fn expose(&mut self, peer: PeerId, region: Region, rights: Rights) -> RemoteKey {
        self.exposures.expose(peer, region, rights)
    }

    fn revoke(&mut self, peer: PeerId, key: RemoteKey) {
        let revoked = self.exposures.revoke(peer, key);
        assert_eq!(revoked, Ok(()), "each key is revoked once, with its peer");
        if self.is_apart(peer) {
            self.outbox.revoked.push((peer, key));
        }
    }

    fn read_remote(&mut self, peer: PeerId, from: Remote, to: Region, token: Token) {
        let local = to;
        self.outbox.moves.push(Move { peer, local, remote: from, is_write: false, token });
    }

    fn write_remote(&mut self, peer: PeerId, from: Region, to: Remote, token: Token) {
        self.outbox.moves.push(Move { peer, local: from, remote: to, is_write: true, token });
    }

    fn publish(
        &mut self,
        key: u64,
        region: Region,
        first: u64,
        rights: Rights,
    ) -> Option<Published> {
        self.published.as_mut()?.publish(key, region, first, rights)
    }

    fn withdraw(&mut self, published: Published) {
        if let Some(reach) = &mut self.published {
            reach.withdraw(published);
        }
    }

    fn read_published(
        &mut self,
        peer: PeerId,
        key: u64,
        offset: u64,
        to: Region,
    ) -> Option<Result<(), RailError>> {
        self.move_now(peer, (key, offset), to, false)
    }

    fn write_published(
        &mut self,
        peer: PeerId,
        key: u64,
        offset: u64,
        from: Region,
    ) -> Option<Result<(), RailError>> {
        self.move_now(peer, (key, offset), from, true)
    }
}

impl Port for SimPort<'_> {
    type Shared = Self;

    fn shared(&mut self) -> Option<&mut Self> {
        Some(self)
    }

    fn tag_matching(&mut self) -> Option<&mut dyn TagMatching> {
        if self.nic.is_some() { Some(self) } else { None }
    }
}

impl SimPort<'_> {
    /// The interface, and the memory that it writes.
    fn nic(&mut self) -> (&mut Nic, &mut Memory) {
        (self.nic.as_deref_mut().expect("something matches here"), self.memory)
    }
}

impl TagMatching for SimPort<'_> {
    fn bytes_max(&self) -> u64 {
        self.nic.as_ref().expect("something matches here").bounds.bytes_max
    }

    fn post(&mut self, wanted: &TaggedWanted, into: Region, token: Token) -> Result<(), Full> {
        let (nic, memory) = self.nic();
        nic.post(memory, wanted, into, token)
    }

    fn nobody_waits(&mut self, list: PtIndex) {
        self.nic().0.nobody_waits(list);
    }

    fn cancel(&mut self, token: Token) -> bool {
        self.nic().0.cancel(token)
    }

    fn send(
        &mut self,
        peer: PeerId,
        message: &TaggedMessage,
        bytes: Region,
        token: Option<Token>,
    ) -> Result<(), Full> {
        let from = PeerId(self.me);
        let (nic, memory) = self.nic();
        let bytes = if bytes.len == 0 { Box::default() } else { memory.read(bytes).into() };
        nic.send(peer, Tagged { from, message: *message, bytes, token })
    }

    fn search(
        &mut self,
        wanted: &TaggedWanted,
        claim: Option<Token>,
    ) -> Option<(PeerId, TaggedMessage)> {
        self.nic().0.search(wanted, claim)
    }

    fn claim_first(
        &mut self,
        list: PtIndex,
        wants: &mut dyn FnMut(PeerId, &TaggedMessage) -> bool,
        claim: Token,
    ) -> Option<(PeerId, TaggedMessage)> {
        self.nic().0.claim_first(list, wants, claim)
    }

    fn take(&mut self, claim: Token, into: Region) {
        let (nic, memory) = self.nic();
        nic.take(memory, claim, into);
    }
}

impl SharedCopy for SimPort<'_> {
    fn open_claims(&mut self, peer: PeerId, start: ClaimsStart) -> Option<ClaimsId> {
        if !self.direct.chunk_claims || self.is_apart(peer) {
            return None;
        }
        self.claims.open(self.me, peer.0, start)
    }

    fn revoke_claims(&mut self, claims: ClaimsId) -> bool {
        self.claims.revoke(self.me, claims)
    }

    fn close_claims(&mut self, claims: ClaimsId) {
        self.claims.close(self.me, claims);
    }

    fn use_claims(&mut self, peer: PeerId, claims: ClaimsId) -> bool {
        self.outbox.exchanges.push(peer);
        self.claims.try_use(self.me, peer.0, claims)
    }

    // The owner's interface tells the peer's when it closes one.
    fn are_claims_closed(&mut self, peer: PeerId, claims: ClaimsId) -> bool {
        self.claims.is_closed(peer.0, claims)
    }

    fn is_written(&mut self, claims: ClaimsId, len: u64) -> bool {
        self.claims.is_written(self.me, claims, len)
    }

    fn read_shared(
        &mut self,
        peer: PeerId,
        claims: ClaimsId,
        from: Remote,
        to: Region,
        token: Token,
    ) {
        let (who, peer) = (self.me, peer.0);
        let share = Share { who, peer, claims, is_write: false, local: to, remote: from, token };
        self.outbox.shares.push(share);
    }

    fn write_shared(
        &mut self,
        peer: PeerId,
        claims: ClaimsId,
        from: Region,
        to: Remote,
        token: Token,
    ) {
        let (who, peer) = (self.me, peer.0);
        let share = Share { who, peer, claims, is_write: true, local: from, remote: to, token };
        self.outbox.shares.push(share);
    }

    // The network tells every end.
    fn leave_shared(&mut self, _token: Token) -> bool {
        false
    }

    fn was_written_alone(&mut self, _peer: Option<PeerId>, _claims: ClaimsId) -> bool {
        self.written_alone
    }
}
