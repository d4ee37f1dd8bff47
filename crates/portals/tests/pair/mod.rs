//! Two interfaces in a simulated network: 0 is the initiator, 1 the target,
//! with a portal table entry 4 whose events go to a queue of their own.

#![allow(dead_code, reason = "each test program uses its part of it")]

#[path = "../../../link/tests/net/mod.rs"]
pub mod net;

use net::{Event as NetEvent, Mode, NetPort, roomy};
use sluice_link::Layout;
use sluice_portals::{
    Ct, Eq, EqTaken, Event, EventKind, Handle, Limits, List, Md, MdOptions, Me, MeOptions, MeSpec,
    Ni, PtOptions, PtlError, PutExtras, Taken, Target,
};
use sluice_wire::{AckKind, Addr, MatchBits, PeerId, PtIndex, Region};

pub const PT: PtIndex = PtIndex(4);

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
        let ports = NetPort::network(layouts.to_vec(), mode, 1);
        let sides = ports.into_iter().zip(layouts).map(|(port, layout)| {
            let mut ni = Ni::new(Limits::default(), *layout);
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
        }
        for side in &self.sides {
            side.ni.check_invariants();
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
}
