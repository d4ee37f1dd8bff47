//! Endpoints in a simulated network, in virtual time. After every step the
//! books of every endpoint, and those of each pair together, must be in order.

#![allow(dead_code, reason = "each test program uses its part of it")]

#[path = "../../../../link/tests/suite/net/mod.rs"]
pub mod net;

use net::random::Random;
use net::{Event, Mode, NetPort};
use sluice_link::{Layout, Machine, MailboxRegion, PeerError};
use sluice_portals::UnexpectedBytes;
use sluice_proto::{
    Cancelled, Completion, Config, Endpoint, Failure, Pending, Probe, Recv, Refused, Send, Space,
};
use sluice_wire::{Credits, Nanos, Packet, PacketSeq, Parsed, PeerId, Region};
use std::cell::Ref;
use std::collections::BTreeSet;

pub struct Process {
    pub endpoint: Endpoint,
    pub port: NetPort,
    pub config: Config,
}

pub struct World {
    pub processes: Vec<Process>,
    pub now: Nanos,
    random: Random,
    /// What happened, in order, since it was last emptied. Completions are
    /// moved here only if `journals_ends`.
    pub journal: Vec<Entry>,
    pub journals_ends: bool,
    /// Whether the books are looked at after each step.
    pub checks: bool,
    /// Who was told of whose death.
    told: BTreeSet<(usize, usize)>,
}

/// What the reference matcher is to know.
#[derive(Clone, Copy, Debug)]
pub enum Entry {
    /// A put has arrived: from, to, the packet.
    Put(usize, usize, Parsed),
    /// A process was told of a message that waits at another, and a receive of
    /// it took it or did not.
    Told { from: usize, to: usize, number: u64, taken: bool },
    /// A request of a process has ended.
    Ended(usize, Completion),
}

/// Message `id` as bytes.
pub fn pattern(id: u64, len: u64) -> Vec<u8> {
    let mut random = Random::new(id.wrapping_mul(0x0123_4567_89AB_CDEF));
    let mut bytes = Vec::with_capacity(len as usize + 7);
    while (bytes.len() as u64) < len {
        bytes.extend_from_slice(&random.draw().to_le_bytes());
    }
    bytes.truncate(len as usize);
    bytes
}

impl World {
    /// Two processes with roomy mailboxes that send up to 8 KiB eagerly.
    pub fn pair(mode: Mode) -> World {
        let config = Config { eager_bytes_max: 8192, ..Config::default() };
        World::new(&[net::roomy(); 2], mode, config, 1)
    }

    pub fn new(layouts: &[Layout], mode: Mode, config: Config, seed: u64) -> World {
        let processes = NetPort::network(layouts.to_vec(), mode, seed)
            .into_iter()
            .zip(layouts)
            .map(|(port, layout)| Process {
                endpoint: Endpoint::new(config, *layout),
                port,
                config,
            })
            .collect();
        let random = Random::stream(seed, 1);
        World {
            processes,
            now: Nanos(0),
            random,
            journal: Vec::new(),
            journals_ends: false,
            checks: true,
            told: BTreeSet::new(),
        }
    }

    /// The same world, whose completions are to be found in its journal.
    pub fn journalling(self) -> World {
        World { journals_ends: true, ..self }
    }

    pub fn alloc(&self, who: usize, bytes: &[u8]) -> Region {
        self.processes[who].port.alloc(bytes)
    }

    /// Memory with one byte all over it.
    pub fn alloc_filled(&self, who: usize, len: u64, byte: u8) -> Region {
        self.processes[who].port.alloc_filled(len, byte)
    }

    /// Bytes where they are.
    pub fn view(&self, who: usize, region: Region) -> Ref<'_, [u8]> {
        self.processes[who].port.view(region)
    }

    pub fn bytes(&self, who: usize, region: Region) -> Vec<u8> {
        self.processes[who].port.bytes(region)
    }

    pub fn send(&mut self, who: usize, send: &Send) -> Result<(), Refused> {
        let Process { endpoint, port, .. } = &mut self.processes[who];
        let sent = endpoint.send(self.now, port, send);
        self.check();
        sent
    }

    pub fn recv(&mut self, who: usize, recv: &Recv) -> Result<(), Refused> {
        let Process { endpoint, port, .. } = &mut self.processes[who];
        let posted = endpoint.recv(self.now, port, recv);
        self.check();
        posted
    }

    pub fn recv_pieces(
        &mut self,
        who: usize,
        recv: &Recv,
        pieces: &[Region],
    ) -> Result<(), Refused> {
        let Process { endpoint, port, .. } = &mut self.processes[who];
        let posted = endpoint.recv_pieces(self.now, port, recv, pieces);
        self.check();
        posted
    }

    pub fn cancel(&mut self, who: usize, context: u64) -> bool {
        let Process { endpoint, port, .. } = &mut self.processes[who];
        let found = endpoint.cancel(self.now, port, context);
        self.check();
        found
    }

    pub fn cancel_send(&mut self, who: usize, context: u64) -> Option<Cancelled> {
        let Process { endpoint, port, .. } = &mut self.processes[who];
        let cancelled = endpoint.cancel_send(self.now, port, context);
        self.check();
        cancelled
    }

    pub fn probe(&mut self, who: usize, probe: &Probe) -> Result<(), Refused> {
        let Process { endpoint, port, .. } = &mut self.processes[who];
        let asked = endpoint.probe(self.now, port, probe);
        self.check();
        asked
    }

    pub fn pop(&mut self, who: usize) -> Option<Completion> {
        self.processes[who].endpoint.pop()
    }

    /// The only completion that there is.
    pub fn only(&mut self, who: usize) -> Completion {
        let completion = self.pop(who).expect("a completion");
        assert_eq!(self.pop(who), None, "one completion and no other");
        completion
    }

    /// The outcomes and contexts of all completions, in order.
    pub fn ends(&mut self, who: usize) -> Vec<(u64, Result<(), Failure>)> {
        std::iter::from_fn(|| self.pop(who)).map(|end| (end.context, end.outcome)).collect()
    }

    /// The kinds of the packets sent from one process to another since the
    /// last look, each by its name.
    pub fn sent_packets(&mut self, from: usize, to: usize) -> Vec<&'static str> {
        let log = std::mem::take(&mut self.processes[0].port.net_mut().log);
        let of_pair = log.iter().filter(|(f, t, ..)| (*f, *t) == (from, to));
        of_pair
            .map(|(_, _, packet, _)| match packet {
                Packet::Put(put) if put.rts.is_some() => "rts",
                Packet::Put(_) => "put",
                Packet::Ack(_) => "ack",
                Packet::Get(_) => "get",
                Packet::Reply(_) => "reply",
                Packet::GetDone(_) => "fin",
                Packet::Credit => "credit",
                Packet::Search(_) => "search",
                Packet::Watch(_) => "watch",
                Packet::Waiting(_) => "waiting",
                Packet::Decline(_) => "decline",
                Packet::Rtr(_) => "rtr",
                Packet::Cts(_) => "cts",
                Packet::Written(_) => "written",
                Packet::ReturnRequest => "return request",
                Packet::ReturnResponse(_) => "return response",
                _ => "other",
            })
            .collect()
    }

    pub fn forget_packets(&mut self) {
        self.processes[0].port.net_mut().log.clear();
    }

    /// Delivers the oldest packet of a pair.
    pub fn deliver(&mut self, from: usize, to: usize) {
        self.happen(Event::Deliver(from, to));
    }

    /// How many packets of a pair are on their way.
    pub fn on_their_way(&self, from: usize, to: usize) -> usize {
        self.processes[0].port.net().flights(from, to).count()
    }

    /// The packet arrives at `to` as if `from` had sent it.
    pub fn forge(&mut self, from: usize, to: usize, packet: &Packet, seq: u32, credits: Credits) {
        let head = packet.emit(PacketSeq(seq), credits, 0);
        let net = self.processes[0].port.clone();
        net.net_mut().lose(from, to);
        net.net_mut().forge(from, to, &head, &[]);
        self.deliver(from, to);
    }

    pub fn pending(&self, who: usize) -> Pending {
        self.processes[who].endpoint.pending()
    }

    /// Data credits that `from` has left toward `to`.
    pub fn data_credits(&self, from: usize, to: usize) -> u32 {
        let ledger = self.processes[from].endpoint.links().ledger(PeerId(to as u32));
        match ledger.filter(|ledger| ledger.granted.is_some()) {
            Some(ledger) => u32::from(ledger.data_credits),
            None => u32::from(self.processes[0].port.net().layouts[to].grant.data_slots),
        }
    }

    /// One of the things that may happen happens. False if there is none.
    pub fn step(&mut self) -> bool {
        let events = self.processes[0].port.net().events();
        if events.is_empty() {
            return false;
        }
        let event = *self.random.pick(&events);
        self.happen(event);
        true
    }

    /// This event happens now.
    pub fn happen(&mut self, event: Event) {
        self.now = Nanos(self.now.0 + 1);
        let now = self.now;
        let net = self.processes[0].port.clone();
        match event {
            Event::Deliver(from, to) => {
                let packet = net.net_mut().begin_packet(from, to);
                if matches!(packet.packet, Packet::Put(_)) {
                    self.journal.push(Entry::Put(from, to, packet));
                }
                let Process { endpoint, port, .. } = &mut self.processes[to];
                let taken_before = endpoint.stats().asked_for;
                let probes_before = endpoint.pending().probes;
                let peer = PeerId(from as u32);
                if net.net_mut().asks_placement()
                    && let Some(region) = endpoint.placement(peer, &packet)
                {
                    net.net_mut().place(to, region);
                }
                endpoint.on_any(now, port, peer, &packet);
                if let Packet::Waiting(waiting) = packet.packet
                    && waiting.found.is_some()
                {
                    let by_probe = endpoint.pending().probes < probes_before;
                    let taken = endpoint.stats().asked_for > taken_before && !by_probe;
                    let number = waiting.number;
                    self.journal.push(Entry::Told { from, to, number, taken });
                }
                net.net_mut().end_packet(to);
            }
            Event::Write(from, to) => net.net_mut().write(from, to),
            Event::Transmitted(who, token) => {
                let token = net.net_mut().take_written(who, token);
                let Process { endpoint, port, .. } = &mut self.processes[who];
                endpoint.on_transmitted(now, port, token);
            }
            Event::Connected(who, peer) => {
                let opened = net.net_mut().end_connecting(who, peer);
                let Process { endpoint, port, .. } = &mut self.processes[who];
                endpoint.on_connected(now, port, PeerId(peer as u32), opened);
            }
            Event::Read(at) => {
                let (read, outcome) = net.net_mut().end_read(at);
                let Process { endpoint, port, .. } = &mut self.processes[read.reader];
                endpoint.on_moved(now, port, read.token, outcome);
            }
            Event::Share(at) => {
                let ended = net.net_mut().step_share(at);
                if let Some((who, token, outcome)) = ended {
                    let Process { endpoint, port, .. } = &mut self.processes[who];
                    endpoint.on_moved(now, port, token, outcome);
                }
            }
        }
        self.check();
    }

    /// One side's part of the shared transfers goes as far as it can.
    pub fn move_by(&mut self, who: usize) {
        loop {
            let net = self.processes[0].port.net();
            let able = |share: &net::chunk_claims::Share| net.claims.can_go_on(share);
            let mut shares = net.claims.shares.iter();
            let at = shares.position(|share| share.who == who && able(share));
            drop(net);
            match at {
                Some(at) => self.happen(Event::Share(at)),
                None => return,
            }
        }
    }

    /// An idle moment of one process.
    pub fn idle(&mut self, who: usize) {
        let Process { endpoint, port, .. } = &mut self.processes[who];
        endpoint.on_idle(self.now, port);
        self.check();
    }

    /// Everything on its way arrives, in random order; nobody is idle.
    pub fn deliver_all(&mut self) {
        while self.step() {}
    }

    /// Runs until nothing happens any more, however long everybody waits.
    pub fn run(&mut self) {
        self.run_each(|_| {});
    }

    /// The same, with a look at the world after each step.
    pub fn run_each(&mut self, mut each: impl FnMut(&mut World)) {
        for _ in 0..1_000_000 {
            while self.step() {
                each(self);
            }
            let mut later = self.now;
            for who in 0..self.processes.len() {
                if !self.is_dead(who) {
                    self.idle(who);
                    each(self);
                    let deadline = self.processes[who].endpoint.deadline();
                    later = later.max(deadline.unwrap_or(Nanos(0)));
                }
            }
            let quiet = self.processes[0].port.net().events().is_empty();
            if quiet && later <= self.now {
                // A machine that is idle twice at the same time has nothing
                // new to say.
                return;
            }
            if quiet {
                self.now = later;
            }
        }
        panic!("the world does not come to rest");
    }

    /// The process ends, and nobody has noticed yet.
    pub fn kill(&mut self, who: usize) {
        self.processes[0].port.net_mut().kill(who);
    }

    pub fn is_dead(&self, who: usize) -> bool {
        self.processes[0].port.net().is_dead(who)
    }

    /// `who` is told that `peer` has died, as a rail tells it: if it has a reason to
    /// know. True if it was told now.
    pub fn tell_death(&mut self, who: usize, peer: usize) -> bool {
        let is_due = {
            let net = self.processes[0].port.net();
            net.is_dead(peer) && net.is_watched(who, peer) && !self.told.contains(&(who, peer))
        };
        if is_due {
            self.told.insert((who, peer));
            self.peer_gone(who, peer, PeerError::Dead);
        }
        is_due
    }

    /// `who` has read what it will read of `peer`, and is told that it is gone.
    pub fn peer_gone(&mut self, who: usize, peer: usize, why: PeerError) {
        let net = self.processes[0].port.clone();
        loop {
            let at = net.net().reads.iter().position(|r| r.reader == who && r.peer == peer);
            match at {
                Some(at) => self.happen(Event::Read(at)),
                None => break,
            }
        }
        net.net_mut().part(who, peer);
        loop {
            let shares = |share: &net::chunk_claims::Share| share.who == who && share.peer == peer;
            let at = net.net().claims.shares.iter().position(shares);
            match at {
                Some(at) => self.happen(Event::Share(at)),
                None => break,
            }
        }
        net.net_mut().lose(peer, who);
        let Process { endpoint, port, .. } = &mut self.processes[who];
        endpoint.on_peer_gone(self.now, port, PeerId(peer as u32), why);
        self.check();
    }

    /// Panics unless every book is in order; moves completions to the journal.
    pub fn check(&mut self) {
        if self.journals_ends {
            for (who, process) in self.processes.iter_mut().enumerate() {
                let ends = std::iter::from_fn(|| process.endpoint.pop());
                self.journal.extend(ends.map(|end| Entry::Ended(who, end)));
            }
        }
        if self.checks {
            self.check_books();
        }
    }

    fn check_books(&self) {
        let net = self.processes[0].port.net();
        for (who, process) in self.processes.iter().enumerate() {
            process.endpoint.check_invariants();
            net.check_exposures(who, process.endpoint.pending() != Pending::default());
            let held = process.endpoint.links().slots_held() * 64;
            let (lent, _) = net.lent(who);
            assert!(lent <= held, "{who} lent {lent} bytes with slots of {held} held");
            let kept = process.endpoint.stats().unexpected_bytes_now;
            let most = held / 64 * UnexpectedBytes::SLOT_MAX;
            assert!(kept <= most, "{who} keeps {kept} bytes in slots for {most}");
            for peer in 0..self.processes.len() {
                if !net.is_parted(who, peer) {
                    self.check_pair(&net, who, peer);
                    let (own, sender) = (PeerId(who as u32), &self.processes[peer].endpoint);
                    process.endpoint.check_stall_cursor(PeerId(peer as u32), sender, own);
                }
            }
        }
    }

    /// Credits at the sender, on their way, and held or owed at the receiver
    /// add up to what was granted.
    fn check_pair(&self, net: &net::Net, from: usize, to: usize) {
        let grant = net.layouts[to].grant;
        let ours = self.processes[from].endpoint.links().ledger(PeerId(to as u32));
        let theirs = self.processes[to].endpoint.links().ledger(PeerId(from as u32));
        let (data, control) = match ours.filter(|ledger| ledger.granted.is_some()) {
            Some(ledger) => (ledger.data_credits, ledger.control_credits),
            None => (grant.data_slots, u16::from(grant.control_slots)),
        };
        let [data_there, control_there] = theirs.map_or([0; 2], |ledger| {
            [ledger.data_held + ledger.data_owed, ledger.control_held + ledger.control_owed]
        });
        let (data_back, control_back) = net.credits_in_flight(to, from);
        let data_sum = u32::from(data)
            + net.slots_in_flight(from, to, MailboxRegion::Data)
            + u32::from(data_there)
            + data_back;
        let control_sum = u32::from(control)
            + net.slots_in_flight(from, to, MailboxRegion::Control)
            + u32::from(control_there)
            + control_back;
        if net.layouts[to].dynamic_slots == 0 {
            assert_eq!(data_sum, u32::from(grant.data_slots), "data credits {from}→{to}");
        } else {
            // What is held or owed belongs to the region; the rest is the sender's.
            let kept = ours.map_or(0, |ledger| ledger.data_credits_kept);
            let current = theirs.map_or(grant.data_slots, |ledger| ledger.data_at_sender);
            let returned = net.returned_in_flight(from, to);
            let sum = data_sum - u32::from(data_there) + u32::from(kept) + returned;
            assert_eq!(sum, u32::from(current), "current credits {from}→{to}");
        }
        assert_eq!(control_sum, u32::from(grant.control_slots), "control credits {from}→{to}");
    }
}

/// A tagged send of `buf` to `peer` with everything else left out.
pub fn send_to(peer: usize, buf: Region, tag: u64, context: u64) -> Send {
    Send {
        space: Space::Tagged,
        peer: PeerId(peer as u32),
        buf,
        tag,
        data: None,
        context,
        report: true,
        inject: false,
        delivery: None,
    }
}

/// A tagged receive into `buf` of exactly this source and tag.
pub fn recv_from(peer: usize, buf: Region, tag: u64, context: u64) -> Recv {
    Recv {
        space: Space::Tagged,
        source: Some(PeerId(peer as u32)),
        buf,
        tag,
        ignore: 0,
        context,
        report: true,
    }
}
