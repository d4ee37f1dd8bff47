//! A slow sink: a receive buffer into which bytes get at a set rate only.
//!
//! It stands between the machine and the rail. What the machine asks to be read
//! into the buffer is read as ever, but the machine hears of its end no sooner
//! than the rate allows, and goes on with everything else meanwhile. So this is
//! a sink that takes no time of a core, as storage or the memory of a device is.
//! What is copied into the buffer at once, from packets, cannot be held back;
//! it counts, and [`Sink::caught_up`] tells when the rate has allowed it.

use sluice_link::{
    ClaimsId, ClaimsStart, Connect, LocalMemory, Machine, Opened, PeerError, Port, RailError,
    Remote, RemoteCaps, RemoteMemory, Rights, SharedCopy, Token, Transmitted, Transport,
};
use sluice_proto::Endpoint;
use sluice_wire::{Addr, HeadBuf, Nanos, Parsed, PeerId, Region, RemoteKey};

/// Most reads into one buffer at once. A window of messages has far fewer chunks
/// under way.
const HELD_MAX: usize = 1 << 16;

/// One slow buffer.
#[derive(Debug)]
pub struct Sink {
    region: Region,
    ns_per_byte: f64,
    /// When it will have taken everything that it was given so far.
    free_ns: f64,
    /// The same of what was copied at once.
    copied_ns: f64,
    /// Reads whose end the machine has not heard of, in the order of their ends.
    held: Vec<Held>,
}

#[derive(Clone, Copy, Debug)]
struct Held {
    token: Token,
    due_ns: f64,
    /// How it went, once it has ended.
    outcome: Option<Result<(), RailError>>,
}

impl Sink {
    /// A buffer at `region` that takes so many bytes in a second.
    pub fn new(region: Region, bytes_per_s: f64) -> Sink {
        let ns_per_byte = 1e9 / bytes_per_s;
        Sink { region, ns_per_byte, free_ns: 0.0, copied_ns: 0.0, held: Vec::new() }
    }

    /// Whether the rate has allowed by now what was copied at once.
    pub fn caught_up(&self, now_ns: u64) -> bool {
        self.copied_ns <= now_ns as f64
    }

    /// A read whose end the machine may hear of now, and how it went.
    pub fn release(&mut self, now_ns: u64) -> Option<(Token, Result<(), RailError>)> {
        let is_due = |held: &Held| held.outcome.is_some() && held.due_ns <= now_ns as f64;
        let index = self.held.iter().position(is_due)?;
        let Held { token, outcome, .. } = self.held.remove(index);
        outcome.map(|outcome| (token, outcome))
    }

    fn takes(&self, to: Addr) -> bool {
        to.0.checked_sub(self.region.addr.0).is_some_and(|at| at < self.region.len)
    }

    /// It is given so many bytes. When it will have taken them.
    fn give(&mut self, now_ns: u64, len: u64) -> f64 {
        self.free_ns = self.free_ns.max(now_ns as f64) + len as f64 * self.ns_per_byte;
        self.free_ns
    }

    fn copied(&mut self, now_ns: u64, to: Addr, len: u64) {
        if self.takes(to) {
            self.copied_ns = self.give(now_ns, len);
        }
    }

    fn reads(&mut self, now_ns: u64, to: Region, token: Token) {
        if self.takes(to.addr) {
            assert!(self.held.len() < HELD_MAX, "a window bounds what is read at once");
            let due_ns = self.give(now_ns, to.len);
            self.held.push(Held { token, due_ns, outcome: None });
        }
    }

    /// A read has ended. Whether the machine is to hear of it later.
    fn keeps(&mut self, token: Token, outcome: Result<(), RailError>) -> bool {
        let Some(held) = self.held.iter_mut().find(|held| held.token == token) else {
            return false;
        };
        held.outcome = Some(outcome);
        true
    }
}

/// An endpoint that has a slow sink.
pub struct Slowed<'a> {
    pub endpoint: &'a mut Endpoint,
    pub sink: &'a mut Sink,
    pub now_ns: u64,
}

impl Slowed<'_> {
    /// The endpoint, and the port as it is to see it.
    pub fn with<'b, P: Port>(
        &'b mut self,
        port: &'b mut P,
    ) -> (&'b mut Endpoint, SlowedPort<'b, P>) {
        (self.endpoint, SlowedPort { port, sink: self.sink, now_ns: self.now_ns })
    }

    /// Lets the endpoint hear of every read that the rate has allowed by `until_ns`.
    pub fn release<P: Port>(&mut self, now: Nanos, port: &mut P, until_ns: u64) -> usize {
        let mut count = 0;
        while let Some((token, outcome)) = self.sink.release(until_ns) {
            let (endpoint, mut port) = self.with(port);
            endpoint.on_moved(now, &mut port, token, outcome);
            count += 1;
        }
        count
    }
}

impl Machine for Slowed<'_> {
    fn on_packet<P: Port>(&mut self, now: Nanos, port: &mut P, from: PeerId, packet: &Parsed) {
        let (endpoint, mut port) = self.with(port);
        endpoint.on_any(now, &mut port, from, packet);
    }

    fn placement(&self, from: PeerId, packet: &Parsed) -> Option<Region> {
        self.endpoint.placement(from, packet)
    }

    fn on_connected<P: Port>(&mut self, now: Nanos, port: &mut P, peer: PeerId, opened: Opened) {
        let (endpoint, mut port) = self.with(port);
        endpoint.on_connected(now, &mut port, peer, opened);
    }

    fn on_transmitted<P: Port>(&mut self, now: Nanos, port: &mut P, token: Token) {
        let (endpoint, mut port) = self.with(port);
        endpoint.on_transmitted(now, &mut port, token);
    }

    fn on_moved<P: Port>(
        &mut self,
        now: Nanos,
        port: &mut P,
        token: Token,
        outcome: Result<(), RailError>,
    ) {
        if !self.sink.keeps(token, outcome) {
            let (endpoint, mut port) = self.with(port);
            endpoint.on_moved(now, &mut port, token, outcome);
        }
    }

    fn on_peer_gone<P: Port>(&mut self, now: Nanos, port: &mut P, peer: PeerId, why: PeerError) {
        // A machine hears of a peer's end after that of every read from it.
        self.release(now, port, u64::MAX);
        let (endpoint, mut port) = self.with(port);
        endpoint.on_peer_gone(now, &mut port, peer, why);
    }

    fn on_idle<P: Port>(&mut self, now: Nanos, port: &mut P) {
        let (endpoint, mut port) = self.with(port);
        endpoint.on_idle(now, &mut port);
    }

    fn deadline(&self) -> Option<Nanos> {
        self.endpoint.deadline()
    }
}

/// A rail as an endpoint with a slow sink sees it.
pub struct SlowedPort<'a, P> {
    port: &'a mut P,
    sink: &'a mut Sink,
    now_ns: u64,
}

impl<P: Port> Transport for SlowedPort<'_, P> {
    fn connect(&mut self, peer: PeerId) -> Result<Connect, PeerError> {
        self.port.connect(peer)
    }

    fn watch(&mut self, peer: PeerId) {
        self.port.watch(peer);
    }

    fn is_looking(&mut self, peer: PeerId, bytes: u64) -> bool {
        self.port.is_looking(peer, bytes)
    }

    fn refuse(&mut self, peer: PeerId) {
        self.port.refuse(peer);
    }

    fn transmit(
        &mut self,
        peer: PeerId,
        head: &HeadBuf,
        payload: Region,
        token: Token,
    ) -> Transmitted {
        self.port.transmit(peer, head, payload, token)
    }

    fn uid(&self, peer: PeerId) -> u32 {
        self.port.uid(peer)
    }
}

impl<P: Port> LocalMemory for SlowedPort<'_, P> {
    fn copy_payload(&mut self, offset: u32, to: Addr, len: u32) -> bool {
        self.sink.copied(self.now_ns, to, u64::from(len));
        self.port.copy_payload(offset, to, len)
    }

    fn payload(&self, offset: u32, into: &mut [u8]) {
        self.port.payload(offset, into);
    }

    fn copy(&mut self, from: Addr, to: Addr, len: u64) {
        self.sink.copied(self.now_ns, to, len);
        self.port.copy(from, to, len);
    }

    fn lend(&mut self, len: u32) -> Addr {
        self.port.lend(len)
    }

    fn give_back(&mut self, addr: Addr, len: u32) {
        self.port.give_back(addr, len);
    }

    fn readable(&self, region: Region) -> bool {
        self.port.readable(region)
    }

    fn writable(&self, region: Region) -> bool {
        self.port.writable(region)
    }

    fn load(&self, from: Addr, into: &mut [u8]) {
        self.port.load(from, into);
    }

    fn store(&mut self, to: Addr, bytes: &[u8]) {
        self.sink.copied(self.now_ns, to, bytes.len() as u64);
        self.port.store(to, bytes);
    }

    fn compare_exchange(&mut self, at: Addr, width: u32, old: u64, new: u64) -> Result<(), u64> {
        self.port.compare_exchange(at, width, old, new)
    }
}

impl<P: Port> RemoteMemory for SlowedPort<'_, P> {
    fn caps(&self, peer: PeerId) -> RemoteCaps {
        self.port.caps(peer)
    }

    fn expose(&mut self, peer: PeerId, region: Region, rights: Rights) -> RemoteKey {
        self.port.expose(peer, region, rights)
    }

    fn revoke(&mut self, peer: PeerId, key: RemoteKey) {
        self.port.revoke(peer, key);
    }

    fn read_remote(&mut self, peer: PeerId, from: Remote, to: Region, token: Token) {
        self.sink.reads(self.now_ns, to, token);
        self.port.read_remote(peer, from, to, token);
    }

    fn write_remote(&mut self, peer: PeerId, from: Region, to: Remote, token: Token) {
        self.port.write_remote(peer, from, to, token);
    }
}

impl<P: Port> Port for SlowedPort<'_, P> {
    type Shared = Self;

    fn shared(&mut self) -> Option<&mut Self> {
        self.port.shared().is_some().then_some(self)
    }
}

impl<P: Port> SlowedPort<'_, P> {
    fn inner(&mut self) -> &mut P::Shared {
        self.port.shared().expect("offered only if the rail shares transfers")
    }
}

impl<P: Port> SharedCopy for SlowedPort<'_, P> {
    fn open_claims(&mut self, peer: PeerId, start: ClaimsStart) -> Option<ClaimsId> {
        self.inner().open_claims(peer, start)
    }

    fn revoke_claims(&mut self, claims: ClaimsId) -> bool {
        self.inner().revoke_claims(claims)
    }

    fn close_claims(&mut self, claims: ClaimsId) {
        self.inner().close_claims(claims);
    }

    fn use_claims(&mut self, peer: PeerId, claims: ClaimsId) -> bool {
        self.inner().use_claims(peer, claims)
    }

    fn are_claims_closed(&mut self, peer: PeerId, claims: ClaimsId) -> bool {
        self.inner().are_claims_closed(peer, claims)
    }

    // The sink takes its time whoever copies: it has to see the read.
    fn is_written(&mut self, _claims: ClaimsId, _len: u64) -> bool {
        false
    }

    fn read_shared(
        &mut self,
        peer: PeerId,
        claims: ClaimsId,
        from: Remote,
        to: Region,
        token: Token,
    ) {
        self.sink.reads(self.now_ns, to, token);
        self.inner().read_shared(peer, claims, from, to, token);
    }

    fn write_shared(
        &mut self,
        peer: PeerId,
        claims: ClaimsId,
        from: Region,
        to: Remote,
        token: Token,
    ) {
        self.inner().write_shared(peer, claims, from, to, token);
    }

    fn leave_shared(&mut self, token: Token) -> bool {
        self.inner().leave_shared(token)
    }

    fn was_written_alone(&mut self, peer: Option<PeerId>, claims: ClaimsId) -> bool {
        self.inner().was_written_alone(peer, claims)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: Addr = Addr(1000);

    /// A byte in ten nanoseconds.
    fn sink() -> Sink {
        Sink::new(Region { addr: AT, len: 100 }, 1e8)
    }

    #[test]
    fn reads_end_at_the_set_rate_in_turn() {
        let mut sink = sink();
        let to = Region { addr: AT, len: 100 };
        sink.reads(5, to, Token(1));
        sink.reads(5, to, Token(2));
        // Not a word of a read that is still under way.
        assert_eq!(sink.release(u64::MAX), None);
        assert!(sink.keeps(Token(1), Ok(())) && sink.keeps(Token(2), Err(RailError::Fault)));
        assert_eq!(sink.release(1004), None);
        assert_eq!(sink.release(1005), Some((Token(1), Ok(()))));
        assert_eq!(sink.release(2004), None);
        assert_eq!(sink.release(2005), Some((Token(2), Err(RailError::Fault))));
        assert_eq!(sink.release(u64::MAX), None);
    }

    #[test]
    fn what_goes_elsewhere_is_not_held_back() {
        let mut sink = sink();
        for at in [0, AT.0 - 1, AT.0 + 100, u64::MAX] {
            sink.reads(0, Region { addr: Addr(at), len: 1 }, Token(at));
            sink.copied(0, Addr(at), 1);
            assert!(!sink.keeps(Token(at), Ok(())) && sink.caught_up(0));
        }
    }

    #[test]
    fn what_was_copied_takes_its_time_too() {
        let mut sink = sink();
        sink.copied(0, AT, 10);
        assert!(!sink.caught_up(99) && sink.caught_up(100));
        // A read after it waits for it, and it does not wait for the read.
        sink.reads(0, Region { addr: AT, len: 10 }, Token(1));
        assert!(sink.keeps(Token(1), Ok(())) && sink.caught_up(100));
        assert_eq!((sink.release(199), sink.release(200)), (None, Some((Token(1), Ok(())))));
    }
}
