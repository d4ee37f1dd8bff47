//! The same in virtual time, in worlds of many processes: what one exhaustion costs, as the
//! number of processes grows that the target has a link with.
//!
//! A few put, and all others have put once and wait. Each process does one thing at a time:
//! it handles a packet, sends one, or takes an event, for as long as the constants say. The
//! engines are the real ones; nothing here is random, so a run is the same each time.

use anyhow::{Context as _, Result, ensure};
use sluice_link::{
    Connect, Grant, Layout, LocalMemory, NoShared, NullPort, PeerError, Port, Remote, RemoteCaps,
    RemoteMemory, Rights, Token, Transmitted, Transport,
};
use sluice_portals::{
    Command, Ct, Eq, EqTaken, Handle, Limits, List, Local, Md, MdOptions, MeOptions, MeSpec, Ni,
    PtOptions, Scheme, Taken, Target,
};
use sluice_wire::{AckKind, Addr, HeadBuf, MatchBits, Packet, PeerId, PtIndex, Region, RemoteKey};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// From one process to another.
pub const LATENCY_NS: u64 = 1000;
/// To handle a packet, or to send one.
pub const PACKET_NS: u64 = 100;
/// To take an event.
pub const EVENT_NS: u64 = 50;

const TARGET: usize = 0;
const PT: PtIndex = PtIndex(1);
/// Data slots of a mailbox for each sender, in a world of any size.
const DATA_SLOTS: u16 = 64;

/// A world and what happens in it.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    pub scheme: Scheme,
    /// The target among them.
    pub processes: usize,
    /// Who put.
    pub initiators: usize,
    /// Puts of each, and those that may be under way.
    pub puts: u64,
    pub window: u64,
    /// Places of the target's queue, and of the short one.
    pub queue: usize,
    pub short: usize,
    pub looks_away: u64,
}

/// What came of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    pub ns: u64,
    pub exhaustions: u64,
    /// Puts that were refused and went again.
    pub refused: u64,
    /// Packets that no run without an exhaustion has.
    pub words: u64,
    pub lost: u64,
}

/// What a process sends; its memory is the null port's.
#[derive(Debug)]
struct SimPort {
    null: NullPort,
    sent: Vec<(PeerId, HeadBuf)>,
}

impl Transport for SimPort {
    fn connect(&mut self, peer: PeerId) -> Result<Connect, PeerError> {
        self.null.connect(peer)
    }

    fn watch(&mut self, _: PeerId) {}

    fn refuse(&mut self, _: PeerId) {}

    fn transmit(&mut self, peer: PeerId, head: &HeadBuf, _: Region, _: Token) -> Transmitted {
        self.sent.push((peer, *head));
        Transmitted::Done
    }

    fn is_looking(&mut self, _: PeerId, _: u64) -> bool {
        false
    }

    fn uid(&self, _: PeerId) -> u32 {
        0
    }
}

impl LocalMemory for SimPort {
    fn copy_payload(&mut self, _: u32, _: Addr, _: u32) -> bool {
        true
    }

    fn payload(&self, offset: u32, into: &mut [u8]) {
        self.null.payload(offset, into);
    }

    fn copy(&mut self, _: Addr, _: Addr, _: u64) {}

    fn lend(&mut self, len: u32) -> Addr {
        self.null.lend(len)
    }

    fn give_back(&mut self, _: Addr, _: u32) {}

    fn readable(&self, region: Region) -> bool {
        self.null.readable(region)
    }

    fn writable(&self, region: Region) -> bool {
        self.null.writable(region)
    }

    fn load(&self, from: Addr, into: &mut [u8]) {
        self.null.load(from, into);
    }

    fn store(&mut self, _: Addr, _: &[u8]) {}

    fn compare_exchange(&mut self, at: Addr, width: u32, old: u64, new: u64) -> Result<(), u64> {
        self.null.compare_exchange(at, width, old, new)
    }
}

impl RemoteMemory for SimPort {
    fn caps(&self, peer: PeerId) -> RemoteCaps {
        self.null.caps(peer)
    }

    fn expose(&mut self, peer: PeerId, region: Region, rights: Rights) -> RemoteKey {
        self.null.expose(peer, region, rights)
    }

    fn revoke(&mut self, _: PeerId, _: RemoteKey) {}

    fn read_remote(&mut self, _: PeerId, _: Remote, _: Region, _: Token) {}

    fn write_remote(&mut self, _: PeerId, _: Region, _: Remote, _: Token) {}
}

impl Port for SimPort {
    type Shared = NoShared;

    fn shared(&mut self) -> Option<&mut NoShared> {
        None
    }
}

/// One process.
#[derive(Debug)]
struct Process {
    ni: Ni,
    port: SimPort,
    /// It is busy until then.
    free_at: u64,
    /// What waits for that, by its number: what was sent first goes first.
    waits: BinaryHeap<Reverse<(u64, What)>>,
    is_idle_due: bool,
    md: Handle<Md>,
    ct: Handle<Ct>,
    /// Puts issued, of how many.
    issued: u64,
    wanted: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum What {
    /// The packet of this index.
    Arrives { from: usize, packet: usize },
    /// It has nothing else to do.
    Idle,
    /// The program of the target goes on, before it handles another packet.
    Program,
    /// It is free for what waits.
    Free,
}

#[derive(Debug)]
struct World {
    plan: Plan,
    processes: Vec<Process>,
    /// What happens: when, in which order, at whom.
    happens: BinaryHeap<Reverse<(u64, u64, usize, What)>>,
    serial: u64,
    /// Packets on their way, and indexes that are free.
    packets: Vec<HeadBuf>,
    free: Vec<usize>,
    words: u64,
    eq: Handle<Eq>,
    came: Handle<Ct>,
    /// The next number of each initiator.
    next: Vec<u64>,
    taken: u64,
    lost: u64,
    looks_away_at: u64,
    /// While it looks away: how many have to come.
    away: Option<(u64, u64)>,
    is_program_due: bool,
}

/// Runs it.
pub fn run(plan: &Plan) -> Result<Outcome> {
    let mut world = World::new(plan)?;
    // Everybody has a link with the target before the clock starts.
    for who in 1..plan.processes {
        world.processes[who].wanted = 1;
        world.go_on(who, 0)?;
    }
    world.settle()?;
    ensure!(world.taken == plan.processes as u64 - 1, "not all have met the target");
    let begun = world.processes.iter().map(|process| process.free_at).max().unwrap_or(0);
    let before = world.processes[TARGET].ni.status();
    world.words = 0;
    world.looks_away_at = world.taken + world.every() / 2;
    for who in 1..=plan.initiators {
        world.processes[who].wanted += plan.puts;
        world.go_on(who, begun)?;
    }
    let ended = world.settle()?;
    let after = world.processes[TARGET].ni.status();
    for who in 1..=plan.initiators {
        world.lost += u64::from(world.next[who] != plan.puts + 1);
    }
    Ok(Outcome {
        ns: ended - begun,
        exhaustions: after.exhaustions - before.exhaustions,
        refused: after.dropped - before.dropped,
        words: world.words,
        lost: world.lost,
    })
}

/// A mailbox that has the same for each sender however many there are. Nothing is allocated
/// for it here.
fn layout(senders: u16) -> Result<Layout> {
    let few = Layout::divide(16, 1 << 16)?;
    let grant = Grant { data_slots: DATA_SLOTS, ..few.grant };
    let slots = u32::from(senders) * grant.total() + u32::from(few.reply_slots);
    Ok(Layout { grant, senders_max: senders, ring_slots: slots.next_power_of_two(), ..few })
}

impl World {
    fn new(plan: &Plan) -> Result<World> {
        let senders = u16::try_from(plan.processes).context("too many processes")?;
        let layout = layout(senders)?;
        let limits = Limits {
            credits_until_matched: false,
            recovery: Some(plan.scheme),
            ..Limits::default()
        };
        let mut processes = Vec::with_capacity(plan.processes);
        for _ in 0..plan.processes {
            let mut ni = Ni::new(limits, layout);
            let ct = ni.ct_alloc()?;
            let whole = Region { addr: Addr(0), len: u64::MAX };
            let options = MdOptions { ct_ack: true, ..MdOptions::default() };
            let md = ni.md_bind(whole, None, None, Some(ct), options)?;
            let null = NullPort { opened: layout.opened() };
            let port = SimPort { null, sent: Vec::new() };
            processes.push(Process {
                ni,
                port,
                free_at: 0,
                waits: BinaryHeap::new(),
                is_idle_due: false,
                md,
                ct,
                issued: 0,
                wanted: 0,
            });
        }
        let Process { ni, port, .. } = &mut processes[TARGET];
        let (eq, came) = (ni.eq_alloc(plan.queue)?, ni.ct_alloc()?);
        ni.pt_alloc(PT, PtOptions { flow_control: true, disabled: false }, Some(eq))?;
        let region = Region { addr: Addr(0), len: super::PUT_BYTES };
        let options = MeOptions {
            op_put: true,
            event_link_disable: true,
            ct_comm: true,
            ..MeOptions::default()
        };
        let spec = MeSpec { region, ct: Some(came), options, ..MeSpec::default() };
        ni.me_append(port, PT, List::Priority, spec)?;
        Ok(World {
            plan: *plan,
            next: vec![0; processes.len()],
            processes,
            happens: BinaryHeap::new(),
            serial: 0,
            packets: Vec::new(),
            free: Vec::new(),
            words: 0,
            eq,
            came,
            taken: 0,
            lost: 0,
            looks_away_at: u64::MAX,
            away: None,
            is_program_due: false,
        })
    }

    fn every(&self) -> u64 {
        (self.plan.initiators as u64 * self.plan.puts / self.plan.looks_away).max(1)
    }

    fn put_down(&mut self, at: u64, who: usize, what: What) {
        // The program goes first: it keeps up with what comes unless it looks away.
        self.serial += u64::from(what != What::Program);
        let serial = if what == What::Program { 0 } else { self.serial };
        self.happens.push(Reverse((at, serial, who, what)));
    }

    /// Everything happens. When the last event was taken.
    fn settle(&mut self) -> Result<u64> {
        let mut ended = 0;
        while let Some(Reverse((at, serial, who, what))) = self.happens.pop() {
            let process = &mut self.processes[who];
            if what == What::Free {
                if process.free_at > at {
                    self.put_down(self.processes[who].free_at, who, What::Free);
                    continue;
                }
                let Some(Reverse((_, what))) = process.waits.pop() else { continue };
                let is_last = process.waits.is_empty();
                ended = self.happen(at, who, what)?.unwrap_or(ended);
                if !is_last {
                    self.put_down(self.processes[who].free_at, who, What::Free);
                }
            } else if process.free_at > at || !process.waits.is_empty() {
                process.waits.push(Reverse((serial, what)));
                if process.waits.len() == 1 {
                    self.put_down(self.processes[who].free_at, who, What::Free);
                }
            } else {
                ended = self.happen(at, who, what)?.unwrap_or(ended);
            }
        }
        Ok(ended)
    }

    /// Somebody who is free does one thing. When it is done, if an event was taken.
    fn happen(&mut self, at: u64, who: usize, what: What) -> Result<Option<u64>> {
        match what {
            What::Arrives { from, packet } => self.arrive(at, who, from, packet)?,
            What::Idle => {
                let Process { ni, port, is_idle_due, .. } = &mut self.processes[who];
                *is_idle_due = false;
                ni.on_idle(port);
                self.send_all(who, at);
            }
            What::Program => {
                self.is_program_due = false;
                if self.take(at)? {
                    return Ok(Some(self.processes[TARGET].free_at));
                }
            }
            What::Free => unreachable!("nothing of its own"),
        }
        Ok(None)
    }

    fn arrive(&mut self, at: u64, who: usize, from: usize, packet: usize) -> Result<()> {
        let parsed = Packet::parse(self.packets[packet].bytes()).context("a packet")?;
        self.free.push(packet);
        let Process { ni, port, .. } = &mut self.processes[who];
        let taken = ni.on_packet(port, PeerId(from as u32), &parsed);
        ensure!(taken != Taken::Violation, "a violation by {from} at {who}");
        self.send_all(who, at + PACKET_NS);
        let process = &mut self.processes[who];
        if !process.is_idle_due {
            process.is_idle_due = true;
            let free_at = process.free_at;
            self.put_down(free_at, who, What::Idle);
        }
        if who == TARGET {
            self.call_program();
            return Ok(());
        }
        let free_at = self.processes[who].free_at;
        self.go_on(who, free_at)
    }

    fn call_program(&mut self) {
        if !self.is_program_due {
            self.is_program_due = true;
            let free_at = self.processes[TARGET].free_at;
            self.put_down(free_at, TARGET, What::Program);
        }
    }

    /// What a process has sent leaves, one packet after the other.
    fn send_all(&mut self, who: usize, mut at: u64) {
        let sent = std::mem::take(&mut self.processes[who].port.sent);
        for (peer, head) in sent {
            at += PACKET_NS;
            let is_word = Packet::parse(head.bytes())
                .is_ok_and(|parsed| matches!(parsed.packet, Packet::Recovery(_)));
            self.words += u64::from(is_word);
            let packet = match self.free.pop() {
                Some(free) => {
                    self.packets[free] = head;
                    free
                }
                None => {
                    self.packets.push(head);
                    self.packets.len() - 1
                }
            };
            self.put_down(at + LATENCY_NS, peer.index(), What::Arrives { from: who, packet });
        }
        let process = &mut self.processes[who];
        process.free_at = process.free_at.max(at);
    }

    /// An initiator puts what its window allows.
    fn go_on(&mut self, who: usize, at: u64) -> Result<()> {
        let window = self.plan.window;
        let Process { ni, port, md, ct, issued, wanted, .. } = &mut self.processes[who];
        let acked = ni.ct(*ct).context("its counter")?;
        ensure!(acked.failure == 0, "puts failed");
        while *issued < *wanted && *issued < acked.success + window {
            let from = Local { md: *md, offset: 0, length: super::PUT_BYTES };
            let target = Target {
                peer: PeerId(TARGET as u32),
                pt_index: PT,
                match_bits: MatchBits(0),
                remote_offset: 0,
            };
            let (ack, hdr_data) = (Some(AckKind::Count), *issued);
            ni.issue(port, &Command::Put { from, ack, target, hdr_data, user_ptr: 0 })?;
            *issued += 1;
        }
        self.send_all(who, at);
        Ok(())
    }

    /// The target's program goes on: it takes an event, or looks away. Whether it took one.
    fn take(&mut self, at: u64) -> Result<bool> {
        // While some are held back, not enough may come to run out again.
        let is_held = self.processes[TARGET].ni.refused_now() > 0;
        if self.taken >= self.looks_away_at && self.away.is_none() && !is_held {
            self.looks_away_at += self.every();
            let all = self.plan.processes as u64 - 1 + self.plan.initiators as u64 * self.plan.puts;
            let wanted = (self.taken + self.plan.short as u64 + 1).min(all);
            self.away = Some((wanted, self.processes[TARGET].ni.status().exhaustions + 1));
        }
        let Process { ni, port, free_at, .. } = &mut self.processes[TARGET];
        if let Some((wanted, exhaustions)) = self.away {
            let came = ni.ct(self.came).context("its counter")?.success;
            if came < wanted && ni.status().exhaustions < exhaustions {
                // The next packet calls it again.
                return Ok(false);
            }
            self.away = None;
        }
        let event = match ni.eq_take(self.eq) {
            EqTaken::Empty => return Ok(false),
            EqTaken::Event(event) => event,
            EqTaken::EventAfterDrop(_) => {
                self.lost += 1;
                return Ok(false);
            }
        };
        *free_at = at + EVENT_NS;
        if ni.wants_attention() {
            ni.on_idle(port);
        }
        let next = &mut self.next[event.peer.index()];
        self.lost += u64::from(event.hdr_data != *next);
        *next = event.hdr_data + 1;
        self.taken += 1;
        self.send_all(TARGET, at + EVENT_NS);
        self.call_program();
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(scheme: Scheme, processes: usize, queue: usize) -> Plan {
        let (initiators, puts, window) = (7, 400, 32);
        Plan { scheme, processes, initiators, puts, window, queue, short: 64, looks_away: 10 }
    }

    /// What an exhaustion costs grows with the world where all are paused, and only there.
    #[test]
    fn a_pause_grows_with_the_world_and_a_resumption_does_not() {
        let cost = |scheme, processes| {
            let large = run(&plan(scheme, processes, 4096)).expect("a run");
            let small = run(&plan(scheme, processes, 64)).expect("a run");
            assert_eq!((large.exhaustions, large.lost, small.lost), (0, 0, 0));
            assert!(small.exhaustions >= 10, "{small:?}");
            (small.ns - large.ns.min(small.ns)) / small.exhaustions
        };
        let (paused, paused_more) = (cost(Scheme::Pause, 16), cost(Scheme::Pause, 256));
        let (resumed, resumed_more) = (cost(Scheme::Resume, 16), cost(Scheme::Resume, 256));
        assert!(paused_more > 3 * paused.max(1), "{paused} {paused_more}");
        assert!(resumed_more <= resumed + resumed / 10 + 100, "{resumed} {resumed_more}");
    }
}
