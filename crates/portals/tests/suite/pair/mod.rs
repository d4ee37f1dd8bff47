//! Two interfaces in a simulated network: 0 is the initiator, 1 the target,
//! with a portal table entry 4 whose events go to a queue of their own.

#![allow(dead_code, reason = "each test program uses its part of it")]

#[path = "../../../../link/tests/suite/net/mod.rs"]
pub mod net;

use net::{Event as NetEvent, Mode, NetPort, roomy};
use sluice_link::{Layout, PeerError};
use sluice_portals::{
    Command, Ct, Eq, EqTaken, Event, EventKind, Handle, Limits, List, Local, Md, MdOptions, Me,
    MeOptions, MeSpec, Ni, NiFail, PtOptions, PtlError, PutExtras, Taken, Target, Vector,
};
use sluice_wire::{AckKind, Addr, MatchBits, PeerId, PtIndex, Region};

pub const PT: PtIndex = PtIndex(4);

/// Far more than any test needs.
const SETTLE_ROUNDS_MAX: u32 = 100_000;

pub struct Side {
    pub ni: Ni,
    pub port: NetPort,
    pub eq: Handle<Eq>,
    pub ct: Handle<Ct>,
    pub md: Handle<Md>,
}

pub struct Pair {
    pub sides: Vec<Side>,
    /// What the last packet was taken for.
    pub taken: Option<Taken>,
}

/// See [`Pair::of_program`].
pub fn program_limits() -> Limits {
    Limits { credits_until_matched: false, eager_bytes_max: 64, ..Limits::default() }
}

/// Portal table entry [`PT`] of a process.
pub fn target(peer: usize, bits: u64, remote_offset: u64) -> Target {
    Target { peer: PeerId(peer as u32), pt_index: PT, match_bits: MatchBits(bits), remote_offset }
}

/// Bytes of which none is like its neighbours.
pub fn pattern(len: usize, salt: usize) -> Vec<u8> {
    (0..len).map(|at| (at * 7 + at / 251 + salt * 31) as u8).collect()
}

/// Everything is allowed, and every event is reported.
pub fn open() -> MeOptions {
    MeOptions { op_put: true, op_get: true, ..MeOptions::default() }
}

/// An entry for `bits` from anybody, without the link event.
pub fn entry(region: Region, bits: u64, options: MeOptions, user_ptr: u64) -> MeSpec {
    MeSpec {
        region,
        match_bits: MatchBits(bits),
        options: MeOptions { event_link_disable: true, ..options },
        user_ptr,
        ..MeSpec::default()
    }
}

impl Pair {
    pub fn new() -> Pair {
        Pair::with(&[roomy(); 2], Mode::default(), MdOptions::default())
    }

    pub fn with_md(options: MdOptions) -> Pair {
        Pair::with(&[roomy(); 2], Mode::default(), options)
    }

    pub fn with(layouts: &[Layout], mode: Mode, options: MdOptions) -> Pair {
        Pair::with_limits(layouts, mode, options, Limits::default())
    }

    /// Two interfaces as a Portals program has them: nothing is held until it
    /// is matched, and more than 64 bytes do not travel with their header.
    pub fn of_program(mode: Mode) -> Pair {
        Pair::with_limits(&[roomy(); 2], mode, MdOptions::default(), program_limits())
    }

    pub fn with_limits(layouts: &[Layout], mode: Mode, options: MdOptions, limits: Limits) -> Pair {
        let ports = NetPort::network(layouts.to_vec(), mode, 1);
        let sides = ports.into_iter().zip(layouts).map(|(port, layout)| {
            // No memory that a test uses begins at address zero.
            port.alloc(&[net::POISON; 64]);
            let mut ni = Ni::new(limits, *layout);
            let eq = ni.eq_alloc(1024).unwrap();
            let ct = ni.ct_alloc().unwrap();
            let whole = Region { addr: Addr(0), len: u64::MAX };
            let md = ni.md_bind(whole, None, Some(eq), Some(ct), options).unwrap();
            ni.pt_alloc(PT, PtOptions::default(), Some(eq)).unwrap();
            Side { ni, port, eq, ct, md }
        });
        Pair { sides: sides.collect(), taken: None }
    }

    pub fn alloc(&self, who: usize, bytes: &[u8]) -> Region {
        self.sides[who].port.alloc(bytes)
    }

    pub fn bytes(&self, who: usize, region: Region) -> Vec<u8> {
        self.sides[who].port.bytes(region)
    }

    pub fn append(&mut self, list: List, spec: MeSpec) -> Option<Handle<Me>> {
        let side = &mut self.sides[1];
        let appended = side.ni.me_append(&mut side.port, PT, list, spec);
        side.ni.check_invariants();
        appended.expect("there is room for an entry")
    }

    /// Side 0 puts `bytes` and everything arrives.
    pub fn put(&mut self, bits: u64, bytes: &[u8]) {
        self.put_with(bits, bytes, 0, None);
    }

    pub fn put_with(&mut self, bits: u64, bytes: &[u8], offset: u64, ack: Option<AckKind>) {
        self.put_from(0, bits, bytes, offset, ack);
        self.run();
    }

    pub fn put_from(
        &mut self,
        from: usize,
        bits: u64,
        bytes: &[u8],
        offset: u64,
        ack: Option<AckKind>,
    ) {
        let region = self.alloc(from, bytes);
        let target = Target {
            peer: PeerId(1),
            pt_index: PT,
            match_bits: MatchBits(bits),
            remote_offset: offset,
        };
        let extras = PutExtras { ack, hdr_data: 1000 + bits, ..PutExtras::default() };
        let Side { ni, port, md, .. } = &mut self.sides[from];
        ni.put(port, *md, region.addr.0, region.len, &target, &extras, 500).expect("credits");
    }

    /// Side 0 gets `len` bytes at `offset` of an entry, and they arrive.
    pub fn get(&mut self, bits: u64, offset: u64, len: u64) -> Result<Region, PtlError> {
        let into = self.alloc(0, &vec![0; len as usize]);
        let target = Target {
            peer: PeerId(1),
            pt_index: PT,
            match_bits: MatchBits(bits),
            remote_offset: offset,
        };
        let Side { ni, port, md, .. } = &mut self.sides[0];
        ni.get(port, *md, into.addr.0, len, &target, None, 600)?;
        self.run();
        Ok(into)
    }

    /// Everything on its way arrives, oldest pair first.
    pub fn run(&mut self) {
        loop {
            let event = self.sides[0].port.net().events().first().copied();
            match event {
                Some(event) => self.happen(event),
                None => return,
            }
        }
    }

    pub fn happen(&mut self, event: NetEvent) {
        let net = self.sides[0].port.clone();
        match event {
            NetEvent::Deliver(from, to) => {
                let packet = net.net_mut().begin_packet(from, to);
                let Side { ni, port, .. } = &mut self.sides[to];
                if net.net_mut().asks_placement()
                    && let Some(region) = ni.placement(PeerId(from as u32), &packet)
                {
                    net.net_mut().place(to, region);
                }
                self.taken = Some(ni.on_packet(port, PeerId(from as u32), &packet));
                net.net_mut().end_packet(to);
            }
            NetEvent::Write(from, to) => net.net_mut().write(from, to),
            NetEvent::Transmitted(who, token) => {
                let token = net.net_mut().take_written(who, token);
                let Side { ni, port, .. } = &mut self.sides[who];
                ni.on_transmitted(port, token);
            }
            NetEvent::Read(at) => {
                let (read, outcome) = net.net_mut().end_read(at);
                let Side { ni, port, .. } = &mut self.sides[read.reader];
                ni.on_moved(port, read.token, outcome);
            }
            NetEvent::Connected(who, peer) => {
                let opened = net.net_mut().end_connecting(who, peer);
                let Side { ni, port, .. } = &mut self.sides[who];
                ni.on_connected(port, PeerId(peer as u32), opened).expect("a sound mailbox");
            }
            NetEvent::Share(_) => unreachable!("an interface shares no transfers"),
        }
        self.check();
    }

    /// Panics unless the books of each side are in order.
    fn check(&self) {
        for side in &self.sides {
            side.ni.check_invariants();
            side.port.net().check_exposures(side.port.me, side.ni.operations_now() > 0);
        }
    }

    /// All events of a side, in order.
    pub fn events(&mut self, who: usize) -> Vec<Event> {
        let Side { ni, eq, .. } = &mut self.sides[who];
        std::iter::from_fn(|| match ni.eq_take(*eq) {
            EqTaken::Empty => None,
            EqTaken::Event(event) | EqTaken::EventAfterDrop(event) => Some(event),
        })
        .collect()
    }

    /// Kind, user pointer and moved length of all events of a side, in order.
    pub fn happened(&mut self, who: usize) -> Vec<(EventKind, u64, u64)> {
        let events = self.events(who).into_iter();
        events.map(|event| (event.kind, event.user_ptr, event.mlength)).collect()
    }

    pub fn ct(&self, who: usize) -> (u64, u64) {
        let side = &self.sides[who];
        let ct = side.ni.ct(side.ct).expect("the counter is there");
        (ct.success, ct.failure)
    }

    /// All of the memory of a side that `region` is.
    pub fn local(&self, who: usize, region: Region) -> Local {
        Local { md: self.sides[who].md, offset: region.addr.0, length: region.len }
    }

    /// A descriptor of these pieces, and the whole of it.
    pub fn vector_md(&mut self, who: usize, pieces: &[Region], options: MdOptions) -> Local {
        let Side { ni, eq, ct, .. } = &mut self.sides[who];
        let vector = Vector::new(pieces.to_vec()).unwrap();
        let length = vector.total_bytes();
        let vector = Some(ni.vector_bind(vector).unwrap());
        let whole = Region { addr: Addr(0), len: length };
        let md = ni.md_bind(whole, vector, Some(*eq), Some(*ct), options).unwrap();
        Local { md, offset: 0, length }
    }

    /// What an entry of these pieces is made from.
    pub fn vector_entry(
        &mut self,
        pieces: &[Region],
        bits: u64,
        options: MeOptions,
        user_ptr: u64,
    ) -> MeSpec {
        let vector = Vector::new(pieces.to_vec()).unwrap();
        let whole = Region { addr: Addr(0), len: vector.total_bytes() };
        let vector = Some(self.sides[1].ni.vector_bind(vector).unwrap());
        MeSpec { vector, ..entry(whole, bits, options, user_ptr) }
    }

    pub fn gathered(&self, who: usize, pieces: &[Region]) -> Vec<u8> {
        pieces.iter().flat_map(|&piece| self.bytes(who, piece)).collect()
    }

    pub fn issue(&mut self, who: usize, command: &Command) -> Result<(), PtlError> {
        let Side { ni, port, .. } = &mut self.sides[who];
        let issued = ni.issue(port, command);
        self.check();
        issued
    }

    /// Side `who` issues a put of `bytes` to side 1; nothing arrives yet.
    pub fn issue_put(
        &mut self,
        who: usize,
        bits: u64,
        bytes: &[u8],
        ack: Option<AckKind>,
    ) -> Region {
        let region = self.alloc(who, bytes);
        let from = self.local(who, region);
        let put =
            Command::Put { from, ack, target: target(1, bits, 0), hdr_data: 7, user_ptr: 500 };
        self.issue(who, &put).expect("it is right in itself");
        region
    }

    /// Side `who` issues a get of `len` bytes from side 1; nothing arrives yet.
    pub fn issue_get(&mut self, who: usize, bits: u64, offset: u64, len: u64) -> Region {
        let region = self.alloc(who, &vec![0; len as usize]);
        let into = self.local(who, region);
        let get = Command::Get { into, target: target(1, bits, offset), user_ptr: 600 };
        self.issue(who, &get).expect("it is right in itself");
        region
    }

    /// Everything arrives, and what idle moments are for is done, until
    /// nothing happens any more.
    ///
    /// # Panics
    /// If that never is.
    pub fn settle(&mut self) {
        for _ in 0..SETTLE_ROUNDS_MAX {
            self.run();
            for side in &mut self.sides {
                if !side.port.net().is_dead(side.port.me) {
                    side.ni.on_idle(&mut side.port);
                    side.ni.check_invariants();
                }
            }
            if self.sides[0].port.net().events().is_empty() {
                return;
            }
        }
        panic!("it never comes to rest");
    }

    /// Process `dead` ends, and all others learn of it.
    pub fn kill(&mut self, dead: usize) {
        let net = self.sides[0].port.clone();
        net.net_mut().kill(dead);
        for who in (0..self.sides.len()).filter(|&who| who != dead) {
            loop {
                let ours = |read: &net::Read| read.reader == who && read.peer == dead;
                let Some(at) = net.net().reads.iter().position(ours) else { break };
                self.happen(NetEvent::Read(at));
            }
            net.net_mut().lose(dead, who);
            net.net_mut().lose(who, dead);
            let Side { ni, port, .. } = &mut self.sides[who];
            ni.on_peer_gone(port, PeerId(dead as u32), PeerError::Dead);
            self.check();
        }
    }

    /// Nothing is left of any operation on a side that lives.
    pub fn assert_quiet(&self) {
        for side in &self.sides {
            let (ni, who) = (&side.ni, side.port.me);
            let net = side.port.net();
            if net.is_dead(who) {
                continue;
            }
            assert_eq!(ni.operations_now(), 0, "operations of {who}");
            assert_eq!(ni.waiting_now(), 0, "commands of {who} wait");
            assert_eq!(ni.owed_now(), 0, "{who} owes answers");
            assert_eq!(ni.links().reply_slots_reserved(), 0, "reply slots of {who}");
            assert_eq!(ni.links().slots_held(), 0, "slots of {who}");
            assert_eq!(net.lent(who), (0, 0), "memory lent to {who}");
            net.check_exposures(who, false);
            assert!(net.reads.iter().all(|read| read.reader != who), "{who} moves data");
            for peer in 0..self.sides.len() {
                if net.is_dead(peer) {
                    continue;
                }
                // Every credit is with its sender or on its way back to it.
                let Some(mine) = ni.links().ledger(PeerId(peer as u32)) else { continue };
                let Some(granted) = mine.granted else { continue };
                let theirs = self.sides[peer].ni.links().ledger(PeerId(who as u32));
                let owed = theirs.map_or((0, 0), |book| (book.data_owed, book.control_owed));
                assert_eq!(mine.data_credits + owed.0, granted.data_slots, "{who} → {peer}");
                assert_eq!(
                    mine.control_credits + owed.1,
                    u16::from(granted.control_slots),
                    "{who} → {peer}"
                );
            }
        }
    }

    /// Kind, moved length and outcome of all events of a side, in order.
    pub fn outcomes(&mut self, who: usize) -> Vec<(EventKind, u64, Result<(), NiFail>)> {
        let events = self.events(who).into_iter();
        events.map(|event| (event.kind, event.mlength, event.outcome)).collect()
    }

    /// How many packets of a kind side `who` has sent.
    pub fn packets(&self, who: usize, is: impl Fn(&sluice_wire::Packet) -> bool) -> usize {
        let net = self.sides[0].port.net();
        net.log.iter().filter(|(from, _, packet, _)| *from == who && is(packet)).count()
    }
}
