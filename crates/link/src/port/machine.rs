//! A machine, as a world drives it.

use super::{PeerError, Port, RailError, TaggedEnd, Token, Told};
use crate::quota::Opened;
use sluice_wire::{Nanos, Parsed, PeerId, PlainParsed, Region};

/// A machine, as a world drives it.
pub trait Machine {
    /// A packet from `from` has arrived, parsed by the world from a private
    /// copy of its header. Its payload is `packet.payload_len` bytes, reached
    /// through [`LocalMemory::copy_payload`](super::LocalMemory::copy_payload) until this call returns.
    fn on_packet<P: Port>(&mut self, now: Nanos, port: &mut P, from: PeerId, packet: &Parsed);

    /// A plain put from `from` has arrived, as [`Machine::on_packet`] says: nearly every
    /// message is one. A machine that has a shorter way for it takes that.
    #[inline]
    fn on_plain<P: Port>(&mut self, now: Nanos, port: &mut P, from: PeerId, packet: &PlainParsed) {
        self.on_packet(now, port, from, &packet.parsed());
    }

    /// A packet has arrived, whichever it is: for a world that parses all in one way.
    #[inline]
    fn on_any<P: Port>(&mut self, now: Nanos, port: &mut P, from: PeerId, packet: &Parsed) {
        match PlainParsed::of(packet) {
            Some(plain) => self.on_plain(now, port, from, &plain),
            None => self.on_packet(now, port, from, packet),
        }
    }

    /// Where the payload of a packet from `from` will be copied, all of it and in order,
    /// if the packet is what it seems to be: for a port that has its header and can
    /// receive its payload straight into its place. The machine asks for the copy all the
    /// same ([`LocalMemory::copy_payload`](super::LocalMemory::copy_payload)); the port
    /// knows then which bytes are there. `None` for packets that have no such place, or
    /// of which that is not known; a machine may always say so.
    ///
    /// The packet is checked as [`Machine::on_packet`] would check it now, as the next one
    /// of its peer: no packet names a place that it could not fill by arriving. Whether
    /// the memory is mapped the port finds out. The place stays the packet's until it
    /// has been handled, or its peer is gone.
    fn placement(&self, from: PeerId, packet: &Parsed) -> Option<Region>;

    /// The connection to `peer` is open, after it was [`Connect::Pending`](super::Connect).
    /// Told once, before any packet of that peer.
    fn on_connected<P: Port>(&mut self, now: Nanos, port: &mut P, peer: PeerId, opened: Opened);

    /// A pending transmission has been written; its memory may be reused.
    fn on_transmitted<P: Port>(&mut self, now: Nanos, port: &mut P, token: Token);

    /// A [`RemoteMemory::read_remote`](super::RemoteMemory::read_remote) or [`RemoteMemory::write_remote`](super::RemoteMemory::write_remote) has ended.
    fn on_moved<P: Port>(
        &mut self,
        now: Nanos,
        port: &mut P,
        token: Token,
        outcome: Result<(), RailError>,
    );

    /// What has come of a request to [`TagMatching`](super::TagMatching).
    fn on_tagged<P: Port>(&mut self, _: Nanos, _: &mut P, _: Token, _: TaggedEnd) {}

    /// `peer` will never answer again. Reported once per peer, after the end
    /// of every read from it, if it was connected or watched or has sent anything.
    fn on_peer_gone<P: Port>(&mut self, now: Nanos, port: &mut P, peer: PeerId, why: PeerError);

    /// The mailbox is empty, or [`Machine::deadline`] has passed: the moment
    /// for what can wait (credit returns, stalled sends).
    fn on_idle<P: Port>(&mut self, now: Nanos, port: &mut P);

    /// When [`Machine::on_idle`] is wanted next even if nothing arrives.
    /// `None`: whenever the mailbox is empty will do.
    fn deadline(&self) -> Option<Nanos>;

    /// What is to be told to people who watch: asked now and then while somebody does, and
    /// at the end. A machine may have nothing to say.
    fn told(&self) -> Told {
        Told::default()
    }
}
