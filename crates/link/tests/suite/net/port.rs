//! What a machine asks of the network ([`Port`]), and what a test asks of the
//! memory of one process.

use super::chunk_claims::AllClaims;
use super::memory::{Barred, Process, range};
use super::random::Random;
use super::{Mode, Net, POISON, Read, flight, take_bytes};
use sluice_link::{
    ClaimsId, ClaimsStart, Connect, Exposures, Full, Layout, LocalMemory, MailboxRegion, PeerError,
    Port, Published, RailError, Remote, RemoteCaps, RemoteMemory, Rights, SharedCopy, TagMatching,
    TaggedMessage, TaggedWanted, Token, Transmitted, Transport,
};
use sluice_wire::{Addr, HeadBuf, Packet, PeerId, PtIndex, Region, RemoteKey};
use std::cell::{Ref, RefCell, RefMut};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

/// The network as one process sees it.
#[derive(Clone, Debug)]
pub struct NetPort {
    pub me: usize,
    net: Rc<RefCell<Net>>,
}

impl NetPort {
    /// A network with one process for each layout.
    pub fn network(layouts: Vec<Layout>, mode: Mode, seed: u64) -> Vec<NetPort> {
        let count = layouts.len();
        let net = Net {
            processes: (0..count).map(|_| Process::default()).collect(),
            layouts,
            mode,
            flights: BTreeMap::new(),
            reads: Vec::new(),
            exposures: (0..count).map(|_| Exposures::default()).collect(),
            published: vec![BTreeMap::new(); count],
            misused: Vec::new(),
            claims: AllClaims::default(),
            written: Vec::new(),
            unreadable: BTreeSet::new(),
            dead: BTreeSet::new(),
            watched: BTreeSet::new(),
            refused: BTreeSet::new(),
            parted: BTreeSet::new(),
            refuse_connect: None,
            unmet: vec![Vec::new(); count],
            crowded: BTreeSet::new(),
            open: BTreeSet::new(),
            connecting: BTreeSet::new(),
            random: Random::new(seed),
            log: Vec::new(),
            lent_max: 0,
            placed: 0,
        };
        let net = Rc::new(RefCell::new(net));
        (0..count).map(|me| NetPort { me, net: Rc::clone(&net) }).collect()
    }

    pub fn net(&self) -> Ref<'_, Net> {
        self.net.borrow()
    }

    pub fn net_mut(&self) -> RefMut<'_, Net> {
        self.net.borrow_mut()
    }

    /// Memory of this process with `bytes` in it, aligned for any value.
    pub fn alloc(&self, bytes: &[u8]) -> Region {
        self.net.borrow_mut().processes[self.me].alloc(|memory| memory.extend_from_slice(bytes))
    }

    /// The same, with one byte all over it.
    pub fn alloc_filled(&self, len: u64, byte: u8) -> Region {
        let fill = |memory: &mut Vec<u8>| memory.resize(memory.len() + len as usize, byte);
        self.net.borrow_mut().processes[self.me].alloc(fill)
    }

    pub fn bytes(&self, region: Region) -> Vec<u8> {
        self.view(region).to_vec()
    }

    /// The bytes where they are.
    pub fn view(&self, region: Region) -> Ref<'_, [u8]> {
        Ref::map(self.net.borrow(), |net| &net.processes[self.me].memory[range(region)])
    }

    /// From now on this part of the memory of this process faults.
    pub fn unmap(&self, region: Region) {
        self.bar(region, Some(Barred::Unmapped));
    }

    /// From now on this part of the memory of this process faults if written.
    pub fn protect(&self, region: Region) {
        self.bar(region, Some(Barred::ReadOnly));
    }

    /// Undoes [`NetPort::unmap`] and [`NetPort::protect`].
    pub fn map(&self, region: Region) {
        self.bar(region, None);
    }

    fn bar(&self, region: Region, barred: Option<Barred>) {
        self.net.borrow_mut().processes[self.me].barred.push((region, barred));
    }

    pub fn fill(&self, region: Region, byte: u8) {
        self.net.borrow_mut().processes[self.me].memory[range(region)].fill(byte);
    }
}

impl Transport for NetPort {
    fn connect(&mut self, peer: PeerId) -> Result<Connect, PeerError> {
        self.watch(peer);
        self.net.borrow_mut().connect(self.me, peer.index())
    }

    fn watch(&mut self, peer: PeerId) {
        self.net.borrow_mut().watched.insert((self.me, peer.index()));
    }

    fn refuse(&mut self, peer: PeerId) {
        let is_new = self.net.borrow_mut().refused.insert((self.me, peer.index()));
        assert!(is_new, "a peer is refused once");
    }

    fn transmit(
        &mut self,
        peer: PeerId,
        head: &HeadBuf,
        payload: Region,
        token: Token,
    ) -> Transmitted {
        let net = &mut *self.net.borrow_mut();
        let to = peer.index();
        let region = MailboxRegion::of(&Packet::parse(head.bytes()).expect("parses").packet);
        let may_pend = matches!(region, MailboxRegion::Data | MailboxRegion::Reply);
        let pends = may_pend && net.random.percent(net.mode.pending_percent);
        let bytes = if pends {
            None
        } else {
            Some(take_bytes(&net.processes[self.me], payload, net.mode.payloads))
        };
        let flight = flight(head, bytes, payload, token);
        assert_eq!(u64::from(flight.parsed.payload_len), payload.len);
        net.log.push((self.me, to, flight.parsed.packet, flight.parsed.credits));
        if net.is_dead(to) {
            return Transmitted::Done;
        }
        net.flights.entry((self.me, to)).or_default().push_back(flight);
        net.check_mailbox(to);
        if pends { Transmitted::Pending } else { Transmitted::Done }
    }

    fn is_looking(&mut self, _peer: PeerId, _bytes: u64) -> bool {
        let net = &mut *self.net.borrow_mut();
        let percent = net.mode.looking_percent;
        percent > 0 && net.random.percent(percent)
    }

    fn uid(&self, _peer: PeerId) -> u32 {
        0
    }
}

impl LocalMemory for NetPort {
    fn copy_payload(&mut self, offset: u32, to: Addr, len: u32) -> bool {
        let net = &mut *self.net.borrow_mut();
        let payloads = net.mode.payloads;
        let process = &mut net.processes[self.me];
        process.check_payload(offset, u64::from(len));
        if process.is_cut {
            return false;
        }
        if let Some((region, copied)) = &mut process.placed {
            assert_eq!(to, region.addr.offset(u64::from(offset)), "copied to where it was said");
            *copied += u64::from(len);
            return true;
        }
        if payloads {
            let bytes = process.current.take().expect("a packet is handled");
            let part = &bytes[offset as usize..(offset + len) as usize];
            process.write(Region { addr: to, len: u64::from(len) }).copy_from_slice(part);
            process.current = Some(bytes);
        }
        true
    }

    fn payload(&self, offset: u32, into: &mut [u8]) {
        let net = self.net.borrow();
        let process = &net.processes[self.me];
        process.check_payload(offset, into.len() as u64);
        if net.mode.payloads {
            let bytes = process.current.as_ref().expect("a packet is handled");
            into.copy_from_slice(&bytes[offset as usize..][..into.len()]);
        }
    }

    fn copy(&mut self, from: Addr, to: Addr, len: u64) {
        let net = &mut *self.net.borrow_mut();
        if net.mode.payloads {
            let process = &mut net.processes[self.me];
            let disjoint = from.0 + len <= to.0 || to.0 + len <= from.0;
            assert!(disjoint, "the regions of a copy do not overlap");
            let bytes = process.read(Region { addr: from, len }).to_vec();
            process.write(Region { addr: to, len }).copy_from_slice(&bytes);
        }
    }

    fn lend(&mut self, len: u32) -> Addr {
        assert!(len > 0, "no bytes need no memory");
        let net = &mut *self.net.borrow_mut();
        let process = &mut net.processes[self.me];
        let addr = process.memory.len() as u64;
        process.memory.resize(process.memory.len() + len as usize, POISON);
        process.lent.insert(addr, (len, process.handling.is_some()));
        let now: u64 = process.lent.values().map(|(len, _)| u64::from(*len)).sum();
        net.lent_max = net.lent_max.max(now);
        Addr(addr)
    }

    fn give_back(&mut self, addr: Addr, len: u32) {
        let net = &mut *self.net.borrow_mut();
        let process = &mut net.processes[self.me];
        let lent = process.lent.remove(&addr.0).expect("what is given back was lent");
        assert_eq!(lent.0, len, "given back whole");
        process.memory[range(Region { addr, len: u64::from(len) })].fill(POISON);
    }

    fn readable(&self, region: Region) -> bool {
        let net = self.net.borrow();
        net.processes[self.me].usable(region, false, net.mode.payloads) == region.len
    }

    fn writable(&self, region: Region) -> bool {
        let net = self.net.borrow();
        net.processes[self.me].usable(region, true, net.mode.payloads) == region.len
    }

    fn load(&self, from: Addr, into: &mut [u8]) {
        let region = Region { addr: from, len: into.len() as u64 };
        into.copy_from_slice(self.net.borrow().processes[self.me].read(region));
    }

    fn store(&mut self, to: Addr, bytes: &[u8]) {
        let region = Region { addr: to, len: bytes.len() as u64 };
        self.net.borrow_mut().processes[self.me].write(region).copy_from_slice(bytes);
    }

    fn compare_exchange(&mut self, at: Addr, width: u32, old: u64, new: u64) -> Result<(), u64> {
        assert!(matches!(width, 1 | 2 | 4 | 8), "a width that memory exchanges");
        assert!(at.0.is_multiple_of(u64::from(width)), "an exchange is aligned");
        let width = width as usize;
        let net = &mut *self.net.borrow_mut();
        let memory = net.processes[self.me].write(Region { addr: at, len: width as u64 });
        let mut found = [0; 8];
        found[..width].copy_from_slice(memory);
        if found[..width] != old.to_le_bytes()[..width] {
            return Err(u64::from_le_bytes(found));
        }
        memory.copy_from_slice(&new.to_le_bytes()[..width]);
        Ok(())
    }
}

impl RemoteMemory for NetPort {
    fn caps(&self, peer: PeerId) -> RemoteCaps {
        let net = self.net.borrow();
        let allowed = !net.unreadable.contains(&(self.me, peer.index()));
        let (read, only_writes) = (net.mode.can_read, net.mode.only_writes);
        let network = net.mode.is_network;
        RemoteCaps { read: allowed && read, write: allowed && (read || only_writes), network }
    }

    fn expose(&mut self, peer: PeerId, region: Region, rights: Rights) -> RemoteKey {
        self.net.borrow_mut().exposures[self.me].expose(peer, region, rights)
    }

    fn revoke(&mut self, peer: PeerId, key: RemoteKey) {
        let revoked = self.net.borrow_mut().exposures[self.me].revoke(peer, key);
        assert_eq!(revoked, Ok(()), "each key is revoked once, with its peer");
    }

    fn read_remote(&mut self, peer: PeerId, from: Remote, to: Region, token: Token) {
        self.net.borrow_mut().reads.push(Read {
            reader: self.me,
            peer: peer.index(),
            is_write: false,
            local: to,
            remote: from,
            token,
        });
    }

    fn write_remote(&mut self, peer: PeerId, from: Region, to: Remote, token: Token) {
        self.net.borrow_mut().reads.push(Read {
            reader: self.me,
            peer: peer.index(),
            is_write: true,
            local: from,
            remote: to,
            token,
        });
    }

    fn publish(
        &mut self,
        key: u64,
        region: Region,
        first: u64,
        rights: Rights,
    ) -> Option<Published> {
        let net = &mut *self.net.borrow_mut();
        let own = &mut net.published[self.me];
        let free = (0..4).find(|place| !own.contains_key(place)).filter(|_| net.mode.publishes)?;
        own.insert(free, (key, first, region, rights));
        Some(Published(free))
    }

    fn withdraw(&mut self, published: Published) {
        let withdrawn = self.net.borrow_mut().published[self.me].remove(&published.0);
        assert!(withdrawn.is_some(), "each region is withdrawn once");
    }

    fn read_published(
        &mut self,
        peer: PeerId,
        key: u64,
        offset: u64,
        to: Region,
    ) -> Option<Result<(), RailError>> {
        self.move_published(peer, key, offset, to, Rights::READ)
    }

    fn write_published(
        &mut self,
        peer: PeerId,
        key: u64,
        offset: u64,
        from: Region,
    ) -> Option<Result<(), RailError>> {
        self.move_published(peer, key, offset, from, Rights::WRITE)
    }
}

impl NetPort {
    fn move_published(
        &self,
        peer: PeerId,
        key: u64,
        offset: u64,
        local: Region,
        wanted: Rights,
    ) -> Option<Result<(), RailError>> {
        let net = &mut *self.net.borrow_mut();
        let mut all = net.published[peer.index()].values();
        let &(_, first, region, rights) = all.find(|published| published.0 == key)?;
        let at = offset.checked_sub(first)?;
        at.checked_add(local.len).filter(|end| *end <= region.len)?;
        let there = Region { addr: region.addr.offset(at), len: local.len };
        let (from, to, from_at, to_at) = if wanted.write {
            (self.me, peer.index(), local, there)
        } else {
            (peer.index(), self.me, there, local)
        };
        if !(rights.read || wanted.write) || !(rights.write || wanted.read) {
            return None;
        }
        if net.dead.contains(&peer.index()) {
            return Some(Err(RailError::PeerGone));
        }
        let bytes = net.processes[from].read(from_at).to_vec();
        net.processes[to].write(to_at).copy_from_slice(&bytes);
        Some(Ok(()))
    }
}

impl Port for NetPort {
    type Shared = Self;

    fn shared(&mut self) -> Option<&mut Self> {
        Some(self)
    }

    fn tag_matching(&mut self) -> Option<&mut dyn TagMatching> {
        let matches = self.net.borrow().mode.matches;
        if matches { Some(self) } else { None }
    }
}

/// An interface without room for receives and for what is sent. What has come is what a test
/// puts into [`Net::unmet`].
impl TagMatching for NetPort {
    fn bytes_max(&self) -> u64 {
        64
    }

    fn post(&mut self, wanted: &TaggedWanted, _: Region, _: Token) -> Result<(), Full> {
        self.net.borrow_mut().crowded.insert((self.me, wanted.list));
        Err(Full)
    }

    fn nobody_waits(&mut self, list: PtIndex) {
        self.net.borrow_mut().crowded.remove(&(self.me, list));
    }

    fn cancel(&mut self, _: Token) -> bool {
        false
    }

    fn send(
        &mut self,
        _: PeerId,
        _: &TaggedMessage,
        _: Region,
        _: Option<Token>,
    ) -> Result<(), Full> {
        Err(Full)
    }

    fn claim_first(
        &mut self,
        list: PtIndex,
        wants: &mut dyn FnMut(PeerId, &TaggedMessage) -> bool,
        _: Token,
    ) -> Option<(PeerId, TaggedMessage)> {
        let unmet = &mut self.net.borrow_mut().unmet[self.me];
        let at = unmet.iter().position(|(from, one)| one.list == list && wants(*from, one))?;
        Some(unmet.remove(at))
    }

    fn search(&mut self, _: &TaggedWanted, _: Option<Token>) -> Option<(PeerId, TaggedMessage)> {
        None
    }

    fn take(&mut self, _: Token, _: Region) {}
}

impl SharedCopy for NetPort {
    fn open_claims(&mut self, peer: PeerId, start: ClaimsStart) -> Option<ClaimsId> {
        let able = self.caps(peer).read;
        let net = &mut *self.net.borrow_mut();
        (able && net.mode.chunk_claims).then(|| net.claims.open(self.me, peer.index(), start))
    }

    fn revoke_claims(&mut self, claims: ClaimsId) -> bool {
        self.net.borrow_mut().claims.revoke(self.me, claims)
    }

    fn close_claims(&mut self, claims: ClaimsId) {
        self.net.borrow_mut().claims.close(self.me, claims);
    }

    fn use_claims(&mut self, peer: PeerId, claims: ClaimsId) -> bool {
        self.net.borrow_mut().claims.try_use(self.me, peer.index(), claims)
    }

    fn are_claims_closed(&mut self, peer: PeerId, claims: ClaimsId) -> bool {
        self.net.borrow().claims.is_closed(peer.index(), claims)
    }

    fn is_written(&mut self, claims: ClaimsId, len: u64) -> bool {
        self.net.borrow().claims.is_written(self.me, claims, len)
    }

    fn read_shared(
        &mut self,
        peer: PeerId,
        claims: ClaimsId,
        from: Remote,
        to: Region,
        token: Token,
    ) {
        let pair = (self.me, peer.index());
        self.net.borrow_mut().claims.begin(pair, claims, false, to, from, token);
    }

    fn write_shared(
        &mut self,
        peer: PeerId,
        claims: ClaimsId,
        from: Region,
        to: Remote,
        token: Token,
    ) {
        let pair = (self.me, peer.index());
        self.net.borrow_mut().claims.begin(pair, claims, true, from, to, token);
    }

    fn leave_shared(&mut self, token: Token) -> bool {
        // A rail may put it off, and tell of its end.
        let mut net = self.net.borrow_mut();
        net.random.percent(50) && net.claims.leave(self.me, token)
    }

    fn was_written_alone(&mut self, _peer: Option<PeerId>, claims: ClaimsId) -> bool {
        self.net.borrow().claims.was_alone(claims)
    }
}
