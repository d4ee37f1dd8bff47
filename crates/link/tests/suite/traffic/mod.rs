//! Processes that do nothing but send messages to each other and keep what arrives
//! for a while: links over the simulated network, with every book checked.

#![allow(dead_code, reason = "each test program uses its part of it")]

use crate::net::random::Random;
use crate::net::{Event, Mode, NetPort};
use sluice_link::Layout;
use sluice_link::{Ledger, Links, MailboxRegion, PeerError, SendError, Token, Violation};
use sluice_wire::{
    Ack, Addr, List, MatchBits, Packet, PeerId, PtIndex, Put, Region, Status, payload_bytes_max,
    slots_for,
};
use std::collections::VecDeque;

/// One process.
#[derive(Debug)]
pub struct Process {
    pub links: Links,
    pub port: NetPort,
    /// Slots of each message that waits to be sent, by receiver.
    pub queues: Vec<VecDeque<u32>>,
    /// Messages that have arrived: who from, and their slots.
    pub held: Vec<(usize, u32)>,
    /// Messages that have arrived in all, by sender.
    pub arrived: Vec<u64>,
    pub alive: bool,
}

/// All processes.
#[derive(Debug)]
pub struct Traffic {
    pub processes: Vec<Process>,
    /// Whether what an arrival makes due is done at once, or in an idle moment.
    pub answers_at_once: bool,
}

/// A put that takes so many slots.
pub fn put(slots: u32) -> (Packet, Region) {
    let put = Packet::Put(Put {
        pt_index: PtIndex(0),
        match_bits: MatchBits(0),
        hdr_data: 0,
        user: 0,
        remote_offset: 0,
        ack: None,
        rts: None,
        bulk: None,
        by_control: false,
    });
    let header = u64::from(put.header_bytes());
    let len = if slots == 1 { 64 - header } else { payload_bytes_max(slots.into()) };
    assert_eq!(slots_for(header, len), slots);
    (put, Region { addr: Addr(0), len })
}

impl Traffic {
    pub fn new(layouts: Vec<Layout>, seed: u64) -> Traffic {
        let mode = Mode { payloads: false, ..Mode::default() };
        let count = layouts.len();
        let ports = NetPort::network(layouts.clone(), mode, seed);
        let process = |(layout, port): (Layout, NetPort)| Process {
            links: Links::new(layout),
            port,
            queues: vec![VecDeque::new(); count],
            held: Vec::new(),
            arrived: vec![0; count],
            alive: true,
        };
        let processes = layouts.into_iter().zip(ports).map(process).collect();
        Traffic { processes, answers_at_once: true }
    }

    pub fn count(&self) -> usize {
        self.processes.len()
    }

    /// Sends one packet of data; false if there are not enough credits.
    pub fn send(&mut self, from: usize, to: usize, slots: u32) -> bool {
        let (packet, payload) = put(slots);
        let process = &mut self.processes[from];
        let peer = PeerId(to as u32);
        match process.links.send_data(&mut process.port, peer, &packet, payload, Token(0)) {
            Ok(_) => true,
            Err(SendError::NoCredit { need, have }) => {
                assert!(need == slots && have < need);
                false
            }
            Err(SendError::Connecting) => false,
            Err(SendError::Peer(why)) => panic!("{why}"),
        }
    }

    /// Sends what waits, in order; the first that does not go may go as an
    /// announcement.
    pub fn send_queued(&mut self, from: usize, to: usize, announce: bool) {
        while let Some(&slots) = self.processes[from].queues[to].front() {
            if !(self.send(from, to, slots) || announce && self.send(from, to, 1)) {
                return;
            }
            self.processes[from].queues[to].pop_front();
        }
    }

    /// Sends a packet of the control region.
    pub fn send_control(&mut self, from: usize, to: usize) {
        let ack = Packet::Ack(Ack {
            op: 0,
            mlength: 0,
            offset: 0,
            list: List::Priority,
            status: Status::Ok,
        });
        let process = &mut self.processes[from];
        let sent = process.links.send_control(&mut process.port, PeerId(to as u32), &ack);
        assert!(!matches!(sent, Err(SendError::Peer(_))));
    }

    /// The oldest packet from one process to another arrives.
    pub fn deliver(&mut self, from: usize, to: usize) -> Result<(), Violation> {
        let process = &mut self.processes[to];
        let peer = PeerId(from as u32);
        let parsed = process.port.net_mut().begin_packet(from, to);
        let arrival = process.links.on_arrival(peer, &parsed);
        process.port.net_mut().end_packet(to);
        let arrival = arrival?;
        match (arrival.region, &parsed.packet) {
            (MailboxRegion::Data, Packet::Put(_)) => {
                process.held.push((from, arrival.slots));
                process.arrived[from] += 1;
            }
            (MailboxRegion::Control, _) => {
                process.links.free_control(&mut process.port, peer, arrival.slots);
            }
            _ => {}
        }
        if arrival.answer_due && self.answers_at_once {
            process.links.answer(&mut process.port, peer);
        }
        Ok(())
    }

    /// Frees a message that a process holds.
    pub fn free(&mut self, who: usize, which: usize) {
        let process = &mut self.processes[who];
        let (from, slots) = process.held.swap_remove(which);
        process.links.free_data(&mut process.port, PeerId(from as u32), slots);
    }

    pub fn free_all(&mut self, who: usize) {
        while !self.processes[who].held.is_empty() {
            self.free(who, 0);
        }
    }

    pub fn idle(&mut self, who: usize) {
        let process = &mut self.processes[who];
        process.links.on_idle(&mut process.port);
    }

    /// Everything on its way arrives.
    pub fn deliver_all(&mut self) {
        loop {
            let events = self.processes[0].port.net().events();
            if events.is_empty() {
                return;
            }
            for event in events {
                if let Event::Deliver(from, to) = event {
                    self.deliver(from, to).expect("everyone keeps to the protocol");
                }
            }
        }
    }

    /// One of the packets on their way arrives.
    pub fn deliver_one(&mut self, random: &mut Random) {
        let events = self.processes[0].port.net().events();
        if events.is_empty() {
            return;
        }
        if let Event::Deliver(from, to) = *random.pick(&events) {
            self.deliver(from, to).expect("everyone keeps to the protocol");
        }
    }

    /// A process ends, and all others learn of it.
    pub fn kill(&mut self, who: usize) {
        let mut net = self.processes[who].port.net_mut();
        net.kill(who);
        for other in 0..self.processes.len() {
            net.lose(who, other);
            net.lose(other, who);
        }
        drop(net);
        self.processes[who].alive = false;
        for (i, process) in self.processes.iter_mut().enumerate() {
            if i != who {
                process.links.drop_peer(PeerId(who as u32), PeerError::Dead);
                process.queues[who].clear();
            }
        }
    }

    pub fn ledger(&self, of: usize, peer: usize) -> Option<Ledger> {
        self.processes[of].links.ledger(PeerId(peer as u32))
    }

    /// Who is alive.
    pub fn alive(&self) -> Vec<usize> {
        (0..self.count()).filter(|&who| self.processes[who].alive).collect()
    }

    /// Everyone frees and sends, and has idle moments or not, until nothing waits any
    /// more.
    pub fn drain(&mut self, idle: bool) {
        let waiting = |process: &Process| process.queues.iter().map(VecDeque::len).sum::<usize>();
        let total: usize = self.processes.iter().map(waiting).sum();
        // Each round brings every sender at least one message forward, after the few
        // that a request and its response may take.
        for _ in 0..4 * total + 20 {
            for who in self.alive() {
                self.free_all(who);
                if idle {
                    self.idle(who);
                }
                for to in self.alive() {
                    self.send_queued(who, to, true);
                }
            }
            self.check();
            self.deliver_all();
            self.check();
        }
        for who in self.alive() {
            assert_eq!(waiting(&self.processes[who]), 0, "{who} waits for ever");
            self.free_all(who);
        }
        for _ in 0..20 {
            for who in self.alive() {
                self.free_all(who);
                if idle {
                    self.idle(who);
                }
            }
            self.deliver_all();
        }
        self.check();
        for one in self.alive() {
            for other in self.alive() {
                if let Some(ledger) = self.ledger(one, other) {
                    let blocked = ledger.dynamic.is_some_and(|dynamic| dynamic.is_blocked);
                    assert!(!blocked, "{other} has not answered {one}");
                }
            }
        }
    }

    /// Everyone has idle moments until they change nothing. Then nobody is without
    /// credits of whom slots are freed, unless there is nothing to give.
    pub fn settle(&mut self) {
        let all = |this: &Traffic| -> Vec<Option<Ledger>> {
            let one_of = |of| (0..this.count()).map(move |peer| this.ledger(of, peer));
            this.alive().into_iter().flat_map(one_of).collect()
        };
        let mut rounds = 0;
        loop {
            let before = all(self);
            for who in self.alive() {
                self.idle(who);
            }
            self.deliver_all();
            self.check();
            rounds += 1;
            // A request for credits, its answer and what follows from that take a round each.
            if before == all(self) {
                break;
            }
            assert!(rounds < 16, "they change something for ever");
        }
        for to in self.alive() {
            let ledgers: Vec<Ledger> =
                (0..self.count()).filter_map(|from| self.ledger(to, from)).collect();
            let dynamic = ledgers.iter().filter_map(|ledger| ledger.dynamic);
            let kept: u64 = dynamic.map(|dynamic| u64::from(dynamic.kept)).sum();
            let pool = self.processes[to].links.slots_available() - kept;
            for ledger in ledgers {
                let waits = ledger.data_at_sender == 0 && ledger.data_owed > 0;
                let Some(dynamic) = ledger.dynamic else { continue };
                assert!(!waits || (pool == 0 && dynamic.kept == 0), "{ledger:?}, {pool} free");
            }
        }
    }

    /// Every credit is in exactly one place.
    pub fn check(&self) {
        for to in self.alive() {
            let process = &self.processes[to];
            process.links.check_invariants();
            let layout = process.port.net().layouts[to];
            let mut own = 0;
            let mut senders = 0;
            let mut intended = 0;
            for from in 0..self.count() {
                let Some(ledger) = self.ledger(to, from) else { continue };
                senders += 1;
                own += u64::from(ledger.data_at_sender) + u64::from(ledger.data_held);
                let held = process.held.iter().filter(|(sender, _)| *sender == from);
                let held: u32 = held.map(|(_, slots)| slots).sum();
                assert_eq!(u32::from(ledger.data_held), held);
                intended += ledger.dynamic.map_or(0, |dynamic| u64::from(dynamic.intended_quota));
                let at_sender = self.at_sender(from, to, layout.grant.data_slots);
                assert_eq!(u32::from(ledger.data_at_sender), at_sender, "{from} to {to}");
                if let Some(dynamic) = ledger.dynamic {
                    // A sender has its static slots, or they will come.
                    let owns = ledger.data_at_sender + ledger.data_held + dynamic.kept;
                    assert!(owns >= layout.grant.data_slots);
                }
            }
            if layout.dynamic_slots > 0 {
                let region =
                    senders * u64::from(layout.grant.data_slots) + u64::from(layout.dynamic_slots);
                let taken = own + process.links.slots_departed();
                let overdrawn = process.links.slots_overdrawn();
                assert_eq!(taken + process.links.slots_available(), region + overdrawn);
                if senders > 0 {
                    assert_eq!(intended, region);
                }
            }
        }
    }

    /// What the receiver should think that a sender has.
    fn at_sender(&self, from: usize, to: usize, static_slots: u16) -> u32 {
        let net = self.processes[to].port.net();
        let returned = net.flights(from, to).map(|flight| match flight.parsed.packet {
            Packet::ReturnResponse(response) => response.slots as u32,
            _ => 0,
        });
        let flying = net.slots_in_flight(from, to, MailboxRegion::Data)
            + returned.sum::<u32>()
            + net.credits_in_flight(to, from).0;
        match self.ledger(from, to) {
            Some(Ledger { granted: Some(_), data_credits, data_credits_kept, .. }) => {
                flying + u32::from(data_credits) + u32::from(data_credits_kept)
            }
            _ => flying + u32::from(static_slots),
        }
    }
}
