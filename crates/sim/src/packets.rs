//! The packet layer: what the paper's library does over the link layer alone.
//!
//! A message is cut into packets of one slot and one credit each. They go as
//! far as the credits reach; the rest waits at the sender, which takes packets
//! out of its mailbox meanwhile. A slot is free as soon as its packet was taken
//! out. Long messages are announced by one packet and fetched by the receiver.
//!
//! A process has one send that it waits for, or any number that it has posted, at
//! most one to each other process. A posted one without a credit is laid aside,
//! and the next one goes on; it takes its turn again when a credit has come.
//!
//! With piggybacking credits go on the last packet of a message if it has
//! room for them, and on no other.

use crate::config::{Config, Cost, FEW_SENDERS};
use crate::flight::{Flight, Store, short};
use crate::library::{Library, Local, Until};
use crate::port::SimPort;
use crate::program::Op;
use sluice_link::{Layout, Links, Port, RailError, Remote, Token};
use sluice_wire::{Addr, Nanos, Packet, Parsed, PeerId, Region, RemoteKey};
use std::collections::{BTreeMap, VecDeque};

/// Bytes of a packet that carry a message (EXTOLL paper, section 2).
const PACKET_BYTES: u32 = 56;
/// Bytes of MPI's own header in front of a message. Section 5.3 has 16. But then
/// the last of the 37 packets of 2,048 bytes would have eight left, and section
/// 5.4 says that it has no room for two of credits, while that of 2,044 bytes
/// has. With 24 both are so, and a message is 37 packets as well.
const HEADER_BYTES: u32 = 24;
/// Bytes that piggybacked credits take (section 5.4).
const PIGGYBACK_BYTES: u32 = 2;
/// Longest message that goes in packets (section 3).
const EAGER_BYTES_MAX: u32 = 2048;

/// What a packet is, in the byte that the link layer hands on.
const FIRST: u8 = 1;
const MORE: u8 = 2;
const ANNOUNCEMENT: u8 = 3;

/// Packets of a message.
pub(crate) fn packets_of(bytes: u32) -> u32 {
    (bytes + HEADER_BYTES).div_ceil(PACKET_BYTES)
}

/// What has come from one process. Messages are numbered; the counts wrap.
#[derive(Clone, Copy, Debug, Default)]
struct Incoming {
    packets_left: u16,
    arrived: u16,
    taken: u16,
    /// Whether anything has come at all.
    is_known: bool,
}

/// The message being sent.
#[derive(Clone, Copy, Debug)]
struct Sending {
    to: u32,
    bytes: u32,
    packets_left: u32,
    is_announced: bool,
    is_posted: bool,
    is_first: bool,
    was_delayed: bool,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Packets {
    links: Links,
    cost: Cost,
    piggyback: bool,
    is_dynamic: bool,
    /// Processes of this node, if they share its memory.
    local: std::ops::Range<u32>,
    incoming: Vec<Incoming>,
    /// Lengths of announced messages by sender and number.
    announced: BTreeMap<(u32, u16), u32>,
    /// Processes that have sent something.
    senders: u32,
    sending: Option<Sending>,
    /// Posted sends that wait for a credit, by receiver, and those that have got
    /// one: together at most one for each other process.
    stalled: BTreeMap<u32, Sending>,
    ready: VecDeque<Sending>,
    receiving: Option<u32>,
    /// Whose messages the posted receives are for, the oldest first; at most one
    /// for each other process.
    posted: Vec<u32>,
    /// Announced messages that are being fetched.
    fetching: u32,
    until: Until,
    /// Announced by this process, and not fetched yet.
    unfetched: u32,
    /// Whole messages that no receive has asked for yet.
    stored: u32,
    messages: u64,
    delayed: u64,
}

impl Sending {
    /// Whether the last packet has room for credits.
    fn leaves_room(&self) -> bool {
        let bytes = if self.is_announced { 0 } else { self.bytes };
        packets_of(bytes) * PACKET_BYTES >= bytes + HEADER_BYTES + PIGGYBACK_BYTES
    }
}

impl Packets {
    pub fn new(config: &Config, me: u32, layout: Layout) -> Packets {
        let per_node = config.network.processes_per_node;
        let first = me / per_node * per_node;
        let local = if config.program.shared_memory { first..first + per_node } else { 0..0 };
        let mut links = Links::new(layout);
        links.set_piggyback(false);
        if layout.dynamic_slots > 0 {
            // All take part from the start (section 6.3).
            links.admit_all(config.processes as u16);
        }
        Packets {
            links,
            cost: config.cost.clone(),
            piggyback: config.flow.piggyback,
            is_dynamic: layout.dynamic_slots > 0,
            local,
            incoming: vec![Incoming::default(); config.processes as usize],
            announced: BTreeMap::new(),
            senders: 0,
            sending: None,
            stalled: BTreeMap::new(),
            ready: VecDeque::new(),
            receiving: None,
            posted: Vec::new(),
            fetching: 0,
            until: Until::Begun,
            unfetched: 0,
            stored: 0,
            messages: 0,
            delayed: 0,
        }
    }

    #[inline]
    fn has_credit(&self, to: u32) -> bool {
        let peer = PeerId(to);
        // Before the first packet nothing is spent.
        self.links.data_credits(peer) > 0 || self.links.data_quota(peer) == 0
    }

    fn begin_send(&mut self, to: u32, bytes: u32) -> (u64, Option<Local>) {
        if self.local.contains(&to) {
            return (self.cost.local_message_ns, Some(Local { to, bytes }));
        }
        let is_announced = bytes > EAGER_BYTES_MAX;
        let packets_left = if is_announced { 1 } else { packets_of(bytes) };
        self.messages += 1;
        assert!(self.sending.is_none(), "one message is sent at a time");
        self.sending = Some(Sending {
            to,
            bytes,
            packets_left,
            is_announced,
            is_posted: self.until == Until::Begun,
            is_first: true,
            was_delayed: false,
        });
        (self.cost.send_message_ns, None)
    }

    /// Posts a receive, which may find its message there.
    fn begin_receive<P: Port>(&mut self, port: &mut P, from: u32) -> u64 {
        let incoming = &self.incoming[from as usize];
        if incoming.arrived == incoming.taken {
            match self.until {
                Until::Begun => self.posted.push(from),
                Until::Own | Until::Received(..) | Until::All => self.receiving = Some(from),
            }
            return self.cost.search_ns * u64::from(self.stored);
        }
        self.stored -= 1;
        // On average half of the list is looked through.
        let search_ns = self.cost.search_ns * u64::from(self.stored) / 2;
        search_ns + self.take(port, from)
    }

    /// Takes the oldest whole message of the process that is received from.
    fn take<P: Port>(&mut self, port: &mut P, from: u32) -> u64 {
        let incoming = &mut self.incoming[from as usize];
        let number = incoming.taken;
        incoming.taken = number.wrapping_add(1);
        if let Some(bytes) = self.announced.remove(&(from, number)) {
            let to = Region { addr: Addr(0), len: u64::from(bytes) };
            let there = Remote::whole(RemoteKey::NONE);
            port.read_remote(PeerId(from), there, to, Token(u64::from(from)));
            self.fetching += 1;
        }
        self.cost.receive_message_ns
    }

    /// Ends the receive that waits for the next message of a process, if there
    /// is one. What it costs to find it: older posted ones are looked at first.
    fn end_receive(&mut self, from: u32) -> Option<u64> {
        if self.receiving == Some(from) {
            self.receiving = None;
            return Some(0);
        }
        let older = self.posted.iter().position(|&posted| posted == from)?;
        self.posted.remove(older);
        Some(self.cost.search_ns * older as u64)
    }

    /// A message of this process is there as a whole.
    fn arrive<P: Port>(&mut self, port: &mut P, from: u32) -> u64 {
        let incoming = &mut self.incoming[from as usize];
        let is_next = incoming.arrived == incoming.taken;
        incoming.arrived = incoming.arrived.wrapping_add(1);
        if is_next && let Some(search_ns) = self.end_receive(from) {
            return search_ns + self.take(port, from);
        }
        self.stored += 1;
        0
    }

    /// Marks the message being sent as one that has waited. Whether it can be
    /// laid aside.
    fn delay(&mut self) -> bool {
        let Some(sending) = &mut self.sending else { return false };
        self.delayed += u64::from(!std::mem::replace(&mut sending.was_delayed, true));
        sending.is_posted
    }
}

impl Library for Packets {
    const SENDS_ARE_PREPAID: bool = true;
    const ENDS_ARE_READ: bool = false;
    const EXPOSES: bool = false;

    fn start(&mut self, _now: Nanos, port: &mut SimPort<'_>, op: Op) -> (u64, Option<Local>) {
        self.until = Until::of(op);
        match op {
            Op::Send { to, bytes } => self.begin_send(to, bytes),
            Op::Recv { from } => (self.begin_receive(port, from), None),
            Op::Both { to, bytes, from } | Op::Post { to, bytes, from } => {
                let receive_ns = self.begin_receive(port, from);
                let (send_ns, local) = self.begin_send(to, bytes);
                (receive_ns + send_ns, local)
            }
            Op::Settle => (0, None),
            Op::PostSend { .. }
            | Op::PostRecv { .. }
            | Op::Stream { .. }
            | Op::Await { .. }
            | Op::Away { .. }
            | Op::Rest { .. } => unreachable!("of programs of the other layer"),
        }
    }

    fn should_poll_first(&self, _op: Op) -> bool {
        false
    }

    #[inline]
    fn is_done(&self) -> bool {
        if self.sending.is_some() || self.receiving.is_some() {
            return false;
        }
        match self.until {
            Until::Begun => true,
            Until::Own | Until::Received(..) => self.fetching == 0,
            Until::All => {
                self.fetching == 0
                    && self.unfetched == 0
                    && self.posted.is_empty()
                    && self.stalled.is_empty()
                    && self.ready.is_empty()
            }
        }
    }

    #[inline]
    fn next_send(&mut self) -> Option<u64> {
        loop {
            let Some(sending) = &self.sending else {
                self.sending = Some(self.ready.pop_front()?);
                continue;
            };
            if self.has_credit(sending.to) {
                return Some(self.cost.send_packet_ns);
            }
            if !self.delay() {
                return None;
            }
            let aside = self.sending.take().and_then(|one| self.stalled.insert(one.to, one));
            assert!(aside.is_none(), "at most one to each process is posted");
        }
    }

    fn send(&mut self, port: &mut SimPort<'_>) {
        let Some(mut sending) = self.sending.take() else {
            unreachable!("a packet was to be sent")
        };
        let (user, value) = match (sending.is_announced, sending.is_first) {
            (true, _) => (ANNOUNCEMENT, sending.bytes),
            (false, true) => (FIRST, sending.bytes),
            (false, false) => (MORE, 0),
        };
        let packet = Packet::Put(short(user, value));
        let is_piggybacked = self.piggyback && sending.packets_left == 1 && sending.leaves_room();
        if is_piggybacked {
            self.links.set_piggyback(true);
        }
        self.links
            .send_data(port, PeerId(sending.to), &packet, Region::EMPTY, Token(0))
            .expect("a credit was there");
        if is_piggybacked {
            self.links.set_piggyback(false);
        }
        sending.packets_left -= 1;
        sending.is_first = false;
        self.unfetched += u32::from(sending.is_announced);
        if sending.packets_left > 0 {
            self.sending = Some(sending);
        }
    }

    fn is_blocked(&self) -> bool {
        let waits = self.sending.as_ref().is_some_and(|sending| !self.has_credit(sending.to));
        waits || (self.sending.is_none() && self.ready.is_empty() && !self.stalled.is_empty())
    }

    #[inline]
    fn receive_cost(&self, flight: Flight, _store: &Store) -> u64 {
        if flight.is_of_credits() {
            return self.cost.credit_receive_ns;
        }
        let crowd_ns = if self.senders > FEW_SENDERS { self.cost.crowd_packet_ns } else { 0 };
        self.cost.receive_packet_ns + crowd_ns
    }

    fn receive(
        &mut self,
        _now: Nanos,
        port: &mut SimPort<'_>,
        from: PeerId,
        packet: &Parsed,
    ) -> u64 {
        let arrival =
            self.links.on_arrival(from, packet).expect("processes here keep the protocol");
        if matches!(packet.packet, Packet::Put(_)) {
            self.links.free_data(port, from, arrival.slots);
        }
        if arrival.answer_due {
            self.links.answer(port, from);
        }
        let process = from.0;
        if !self.stalled.is_empty() && self.has_credit(process) {
            self.ready.extend(self.stalled.remove(&process));
        }
        let Packet::Put(put) = packet.packet else { return 0 };
        let incoming = &mut self.incoming[process as usize];
        self.senders += u32::from(!incoming.is_known);
        incoming.is_known = true;
        match put.user {
            FIRST => incoming.packets_left = (packets_of(put.match_bits.0 as u32) - 1) as u16,
            MORE => incoming.packets_left -= 1,
            _ => {
                let number = incoming.arrived;
                self.announced.insert((process, number), put.match_bits.0 as u32);
            }
        }
        if self.incoming[process as usize].packets_left > 0 {
            return 0;
        }
        self.arrive(port, process)
    }

    fn receive_local(&mut self, from: u32) {
        let incoming = &mut self.incoming[from as usize];
        let is_next = incoming.arrived == incoming.taken;
        incoming.arrived = incoming.arrived.wrapping_add(1);
        if is_next && self.end_receive(from).is_some() {
            let incoming = &mut self.incoming[from as usize];
            incoming.taken = incoming.arrived;
        } else {
            self.stored += 1;
        }
    }

    fn moved(
        &mut self,
        _now: Nanos,
        _port: &mut SimPort<'_>,
        token: Token,
        _outcome: Result<(), RailError>,
    ) -> (Option<u32>, u64) {
        assert!(self.fetching > 0, "only what is received is fetched");
        self.fetching -= 1;
        (u32::try_from(token.0).ok(), 0)
    }

    fn fetched(&mut self) {
        self.unfetched -= 1;
    }

    fn idle(&mut self, _now: Nanos, port: &mut SimPort<'_>) -> Option<Nanos> {
        // With equal quotas the paper's library returns credits at the threshold
        // and never else. Quotas that follow activity need idle moments too.
        if self.is_dynamic {
            self.links.on_idle(port);
        }
        None
    }

    fn messages(&self) -> (u64, u64) {
        (self.messages, self.delayed)
    }

    fn has_pending(&self) -> bool {
        false
    }

    fn links(&self) -> &Links {
        &self.links
    }

    fn credits_toward(&self, process: u32) -> u32 {
        self.links.data_credits(PeerId(process))
    }

    fn check_invariants(&self) {
        self.links.check_invariants();
    }
}
