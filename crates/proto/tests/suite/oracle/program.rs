//! Random programs over the whole interface of an endpoint, run in a world
//! beside the reference matcher. One seed draws everything.

use crate::oracle::buffer::Buffer;
use crate::oracle::matcher::{Matcher, Message, Wanted};
use crate::oracle::said::Said;
use crate::world::net::random::Random;
use crate::world::net::{Mode, layout, roomy};
use crate::world::{Entry, World, pattern};
use sluice_link::Layout;
use sluice_proto::{
    Completion, Config, Delivery, Failure, Kind, Pending, Probe, ProbeAction, Recv, Refused, Send,
    Space,
};
use sluice_wire::{Nanos, Packet, PeerId, Region};
use std::collections::BTreeMap;

const REUSED: u8 = 0xEE;

#[derive(Debug)]
struct Sent {
    id: usize,
    from: usize,
    buf: Region,
    report: bool,
    delivery: Option<Delivery>,
    done: bool,
}

#[derive(Debug)]
struct Posted {
    buffer: Buffer,
    report: bool,
    cancelled: bool,
    done: bool,
}

pub struct Program {
    world: World,
    matcher: Matcher,
    draw: Random,
    sends: BTreeMap<u64, Sent>,
    recvs: BTreeMap<u64, Posted>,
    /// Claimed messages: who, the context, the message.
    claimed: Vec<(usize, u64, usize)>,
    /// Probes that are not answered: who, what for, what then.
    probes: BTreeMap<u64, (usize, Wanted, ProbeAction)>,
    /// Messages of each pair that had to wait, by their numbers.
    waited: BTreeMap<(usize, usize), Vec<usize>>,
    next_context: u64,
    /// How many of a hundred receives have their buffers in pieces; what draws those.
    cut_percent: u64,
    draw_cuts: Random,
    eager_max: u64,
    chunk: u64,
    /// Probes that found something.
    found: u64,
    pends: bool,
    /// Whether unmatched messages stay within the credits.
    bounded: bool,
    layouts: Vec<Layout>,
    /// Messages whose bytes are where they belong, or that were dropped.
    landed: Vec<bool>,
}

/// Runs the program of `seed` and checks everything about it.
pub fn run(seed: u64, operations: u64) -> Said {
    let mut program = Program::new(seed);
    for _ in 0..operations {
        program.operation();
        let steps = program.draw.below(6);
        for _ in 0..steps {
            if !program.world.step() {
                break;
            }
            program.look();
        }
        if program.draw.percent(4) {
            program.rest();
        }
    }
    program.finish();
    Said::of(&program.world)
}

impl Program {
    fn new(seed: u64) -> Program {
        let mut draw = Random::stream(seed, 2);
        let count = draw.between(2, 4) as usize;
        let bounded = draw.percent(50);
        let tiny = !bounded && draw.percent(70);
        let starved = tiny && draw.percent(60);
        let layouts: Vec<Layout> = (0..count)
            .map(|_| {
                if tiny {
                    let few = *draw.pick(&[1, 2, 3, 5]);
                    let data = if starved { few } else { draw.between(1, 24) } as u16;
                    let control = draw.between(1, 4) as u8;
                    let (credit, replies) = (draw.between(2, 8) as u8, draw.between(1, 20) as u16);
                    layout(count as u16, data, control, credit, replies)
                } else {
                    roomy()
                }
            })
            .collect();
        let pends = draw.percent(40);
        let mode = Mode {
            payloads: true,
            pending_percent: if pends { 60 } else { 0 },
            can_read: draw.percent(50),
            forbidden_percent: if draw.percent(30) { 30 } else { 0 },
            only_writes: draw.percent(50),
            is_network: Random::stream(seed, 12).percent(30),
            matches: false,
            publishes: false,
            chunk_claims: draw.percent(60),
            connecting_percent: *Random::stream(seed, 9).pick(&[0, 60, 100]),
            placing_percent: *Random::stream(seed, 10).pick(&[0, 50, 100]),
            looking_percent: *Random::stream(seed, 14).pick(&[0, 50, 100]),
        };
        let eager_max = *draw.pick(&[64, 256, 1024, 8192]);
        let config = Config {
            eager_bytes_max: eager_max as u32,
            looking_bytes_max: *Random::stream(seed, 15).pick(&[0, 600, 8192]),
            network_eager_bytes_max: *Random::stream(seed, 13).pick(&[0, 300, 8192]),
            patience: Nanos(draw.between(0, 50)),
            regions_max: 1,
            requests_max: 1 << 20,
            inject_bytes_max: *draw.pick(&[0, 1000, 1 << 20]),
            announce_bytes_min: *draw.pick(&[0, 100, 1 << 20]),
            share_bytes_min: *draw.pick(&[0, 300, 1 << 20]),
            pull_bytes_max: *Random::stream(seed, 6).pick(&[100, 700, 5_000, 1 << 20]),
        };
        let replies = u64::from(layouts[0].reply_slots);
        Program {
            world: World::new(&layouts, mode, config, seed).journalling(),
            matcher: Matcher::new(count),
            draw,
            sends: BTreeMap::new(),
            recvs: BTreeMap::new(),
            claimed: Vec::new(),
            probes: BTreeMap::new(),
            waited: BTreeMap::new(),
            next_context: 1,
            cut_percent: *Random::stream(seed, 14).pick(&[0, 30, 100]),
            draw_cuts: Random::stream(seed, 15),
            eager_max,
            chunk: 32 + (replies / 2).max(1).saturating_sub(1) * 60,
            found: 0,
            pends,
            bounded,
            layouts,
            landed: Vec::new(),
        }
    }

    fn operation(&mut self) {
        match self.draw.below(100) {
            0..40 => self.send(),
            40..72 => self.recv(),
            72..87 => self.probe(),
            87..93 => self.recv_claimed(),
            93..98 => self.cancel(),
            _ => {
                let who = self.anyone();
                self.world.idle(who);
            }
        }
        self.look();
    }

    fn anyone(&mut self) -> usize {
        self.draw.below(self.layouts.len() as u64) as usize
    }

    fn context(&mut self) -> u64 {
        self.next_context += 1;
        self.next_context
    }

    fn len(&mut self) -> u64 {
        let eager = self.eager_max;
        let chunk = self.chunk;
        match self.draw.below(12) {
            0 => 0,
            1 => self.draw.between(1, 8),
            2 => self.draw.between(23, 26),
            3 => self.draw.between(31, 42),
            4 => self.draw.between(99, 102),
            5 => eager,
            6 => eager + 1,
            7 => self.draw.between(eager, 3 * eager),
            8 => chunk + self.draw.below(3),
            9 => 2 * chunk,
            _ => self.draw.between(0, eager),
        }
    }

    fn tag(&mut self) -> u64 {
        self.draw.below(3) | self.draw.below(2) << 32
    }

    fn wanted(&mut self) -> Wanted {
        let space = if self.draw.percent(80) { Space::Tagged } else { Space::Untagged };
        let source = if self.draw.percent(40) { None } else { Some(self.anyone()) };
        let ignore = *self.draw.pick(&[0, 0, 3, 0xF << 32, u64::MAX]);
        Wanted { space, source, tag: self.tag(), ignore }
    }

    fn send(&mut self) {
        let (from, to) = (self.anyone(), self.anyone());
        let space = if self.draw.percent(80) { Space::Tagged } else { Space::Untagged };
        let len = self.len();
        if self.bounded {
            let quota = u64::from(self.layouts[to].grant.data_slots);
            if self.slots_unmatched(from, to) + slots_at_most(len) > quota {
                return;
            }
        }
        let id = self.matcher.messages.len();
        let buf = self.world.alloc(from, &pattern(id as u64, len));
        let level = if id.is_multiple_of(2) { Delivery::Arrived } else { Delivery::Matched };
        let send = Send {
            space,
            peer: PeerId(to as u32),
            buf,
            tag: if space == Space::Tagged { self.tag() } else { 0 },
            data: self.draw.percent(30).then_some(id as u64 * 7),
            context: self.context(),
            report: self.draw.percent(85),
            // A rail that keeps memory beyond the call cannot inject.
            inject: !self.pends && len <= self.eager_max && self.draw.percent(25),
            delivery: self.draw.percent(20).then_some(level),
        };
        let stalled_before = self.world.processes[from].endpoint.stats().stalled_now;
        match self.world.send(from, &send) {
            Err(Refused::Again) if send.inject => return,
            sent => sent.expect("nothing else refuses a send"),
        }
        if send.inject {
            self.world.processes[from].port.fill(buf, REUSED);
        }
        let Send { tag, data, .. } = send;
        let message = Message { from, to, space, tag, data, len, content: id as u64 };
        assert_eq!(self.matcher.send(message), id);
        if self.world.processes[from].endpoint.stats().stalled_now > stalled_before {
            self.waited.entry((from, to)).or_default().push(id);
        }
        self.landed.push(false);
        let Send { report, delivery, .. } = send;
        self.sends.insert(send.context, Sent { id, from, buf, report, delivery, done: false });
    }

    fn recv(&mut self) {
        let who = self.anyone();
        let wanted = self.wanted();
        let len =
            if self.draw.percent(80) { 3 * self.eager_max + 2 * self.chunk } else { self.len() };
        self.post(who, wanted, len);
    }

    fn post(&mut self, who: usize, wanted: Wanted, len: u64) {
        let context = self.context();
        let report = self.draw.percent(90);
        let buffer = self.buffer(who, len);
        let recv = Recv {
            space: wanted.space,
            source: wanted.source.map(|source| PeerId(source as u32)),
            buf: if buffer.is_cut { Region::EMPTY } else { buffer.told() },
            tag: wanted.tag,
            ignore: wanted.ignore,
            context,
            report,
        };
        self.matcher.post(who, context, wanted);
        let posted = match buffer.is_cut {
            true => self.world.recv_pieces(who, &recv, &buffer.pieces),
            false => self.world.recv(who, &recv),
        };
        posted.expect("there is room for a receive");
        self.posted(context, buffer, report);
    }

    /// Data slots that the messages of a pair which nobody has met take at most.
    fn slots_unmatched(&self, from: usize, to: usize) -> u64 {
        let unmatched = self.matcher.unmatched_to(to).into_iter();
        let messages = unmatched.map(|id| &self.matcher.messages[id]);
        messages.filter(|message| message.from == from).map(|m| slots_at_most(m.len)).sum()
    }

    /// Messages of a space to a process that nobody has met.
    fn unmatched_to(&self, who: usize, space: Space) -> usize {
        let unmatched = self.matcher.unmatched_to(who);
        unmatched.iter().filter(|&&id| self.matcher.messages[id].space == space).count()
    }

    fn buffer(&mut self, who: usize, len: u64) -> Buffer {
        if self.draw_cuts.percent(self.cut_percent) {
            return Buffer::cut(&self.world, who, len, &mut self.draw_cuts);
        }
        Buffer::whole(&self.world, who, len)
    }

    fn posted(&mut self, context: u64, buffer: Buffer, report: bool) {
        let posted = Posted { buffer, report, cancelled: false, done: false };
        self.recvs.insert(context, posted);
    }

    fn probe(&mut self) {
        let who = self.anyone();
        let wanted = self.wanted();
        let action =
            *self.draw.pick(&[ProbeAction::Peek, ProbeAction::Claim, ProbeAction::Discard]);
        self.look();
        let context = self.context();
        let is_here = self.matcher.peek(who, &wanted).is_some();
        self.ask(who, &wanted, action, context);
        assert!(!is_here || !self.probes.contains_key(&context), "what is here is found at once");
    }

    fn ask(&mut self, who: usize, wanted: &Wanted, action: ProbeAction, context: u64) {
        let probe = Probe {
            space: wanted.space,
            source: wanted.source.map(|source| PeerId(source as u32)),
            tag: wanted.tag,
            ignore: wanted.ignore,
            context,
            action,
        };
        self.probes.insert(context, (who, *wanted, action));
        self.world.probe(who, &probe).expect("room for a claim");
        self.look();
    }

    /// A probe has ended. `told`: the message whose sender was heard in the same
    /// step.
    fn probed(&mut self, who: usize, answer: &Completion, told: Option<(usize, usize)>) {
        let context = answer.context;
        let probe = self.probes.remove(&context).expect("it was asked, and not answered yet");
        let (asker, wanted, action) = probe;
        assert_eq!(asker, who);
        let here = self.matcher.peek(who, &wanted);
        if answer.outcome.is_err() {
            assert_eq!(answer.outcome, Err(Failure::NoMessage));
            assert_eq!(here, None, "a message is here");
            return;
        }
        let id = match (here, told) {
            (Some(id), _) => {
                if action != ProbeAction::Peek {
                    self.matcher.take(who, &wanted);
                }
                id
            }
            (None, Some((from, id))) => {
                self.matcher.find_waiting(from, who, id, &wanted, context);
                if action != ProbeAction::Peek {
                    self.matcher.leave_way(from, who, id, &wanted);
                }
                id
            }
            (None, None) => panic!("a probe found what is not there"),
        };
        self.found += 1;
        let message = self.matcher.messages[id];
        assert_eq!((answer.len, answer.tag), (message.len, message.tag));
        assert_eq!(answer.data, message.data);
        assert_eq!(answer.peer, Some(PeerId(message.from as u32)));
        match action {
            ProbeAction::Peek => {}
            ProbeAction::Claim => self.claimed.push((who, context, id)),
            ProbeAction::Discard => self.landed[id] = true,
        }
    }

    fn recv_claimed(&mut self) {
        if self.claimed.is_empty() {
            return;
        }
        let at = self.draw.below(self.claimed.len() as u64) as usize;
        let (who, context, id) = self.claimed.swap_remove(at);
        let discard = self.draw.percent(25);
        let len = if self.draw.percent(70) { self.matcher.messages[id].len } else { self.len() };
        if !discard {
            self.matcher.note(context, id);
            let buffer = self.buffer(who, len);
            let process = &mut self.world.processes[who];
            let (now, port, endpoint) = (self.world.now, &mut process.port, &mut process.endpoint);
            let taken = match buffer.is_cut {
                true => endpoint.recv_claimed_pieces(now, port, context, &buffer.pieces, true),
                false => endpoint.recv_claimed(now, port, context, buffer.told(), true),
            };
            taken.expect("it is claimed");
            self.posted(context, buffer, true);
        } else {
            self.landed[id] = true;
            let process = &mut self.world.processes[who];
            let (now, port) = (self.world.now, &mut process.port);
            process.endpoint.discard_claimed(now, port, context, true).expect("it is claimed");
            self.world.check();
            let Some(Entry::Ended(_, done)) = self.world.journal.pop() else {
                panic!("answered at once")
            };
            assert_eq!((done.kind, done.context, done.len), (Kind::Recv, context, 0));
            assert_eq!(done.outcome, Ok(()));
        }
        self.world.check();
        self.look();
        let process = &mut self.world.processes[who];
        let (now, port) = (self.world.now, &mut process.port);
        let again = process.endpoint.discard_claimed(now, port, context, true);
        assert_eq!(again, Err(Refused::NotClaimed), "a claim is used up");
    }

    fn cancel(&mut self) {
        let contexts: Vec<u64> = self.recvs.keys().copied().collect();
        if contexts.is_empty() {
            return;
        }
        let context = *self.draw.pick(&contexts);
        self.cancel_one(context);
    }

    fn cancel_one(&mut self, context: u64) {
        let who = self.recvs[&context].buffer.who;
        let waits = self.matcher.posted(who).iter().find(|(posted, _)| *posted == context);
        let wanted = waits.map(|(_, wanted)| *wanted);
        let found = self.world.cancel(who, context);
        match (found, wanted) {
            (true, _) => {
                assert!(self.matcher.cancel(who, context), "cancel of {context}");
                self.recvs.get_mut(&context).expect("posted").cancelled = true;
            }
            // Its source has met it.
            (false, Some(wanted)) => {
                assert!(self.matcher.coming(who, &wanted).is_some(), "cancel of {context}");
            }
            (false, None) => {}
        }
        self.look();
    }

    /// Tells the oracle what has arrived and compares what has ended with what
    /// it foretold.
    fn look(&mut self) {
        let mut told = None;
        let entries = std::mem::take(&mut self.world.journal);
        for entry in entries {
            match entry {
                Entry::Put(from, to, parsed) => {
                    told = None;
                    let id = self.matcher.arrive(from, to);
                    let Packet::Put(put) = parsed.packet else { unreachable!("it is a put") };
                    let len = put.rts.map_or(u64::from(parsed.payload_len), |rts| rts.total_len);
                    let message = self.matcher.messages[id];
                    let arrived = (put.match_bits.0, len);
                    assert_eq!(arrived, (message.tag, message.len), "order of a pair");
                }
                Entry::Told { from, to, number, taken } => {
                    let id = self.waited[&(from, to)][(number - (1 << 63)) as usize];
                    told = Some((from, id));
                    if taken {
                        self.matcher.take_waiting(from, to, id);
                    }
                }
                Entry::Ended(who, completion) => match completion.kind {
                    Kind::Send => self.sent(who, &completion),
                    Kind::Recv => self.received(who, &completion),
                    Kind::Probe => self.probed(who, &completion, told),
                    other => panic!("the program has not asked for {other:?}"),
                },
            }
        }
    }

    fn sent(&mut self, who: usize, completion: &Completion) {
        let sent = self.sends.get_mut(&completion.context).expect("it was sent");
        assert!(!sent.done, "completed twice");
        assert!(sent.report, "nobody asked");
        assert_eq!(completion.outcome, Ok(()));
        assert_eq!((who, completion.buf), (sent.from, sent.buf.addr));
        sent.done = true;
        let (id, from, buf, delivery) = (sent.id, sent.from, sent.buf, sent.delivery);
        let received = self.landed[id] || self.is_silent(id) || self.is_written(id);
        let is_there = |level| received || level == Delivery::Arrived && self.matcher.is_kept(id);
        assert!(delivery.is_none_or(is_there), "delivery was reported before it was made");
        self.world.processes[from].port.fill(buf, REUSED);
    }

    /// Whether the message was met by a receive that does not report.
    fn is_silent(&self, id: usize) -> bool {
        self.matcher.receive_of[id].is_some_and(|context| !self.recvs[&context].report)
    }

    /// Whether the message was written to where a receive wants it that has not met
    /// it yet.
    fn is_written(&self, id: usize) -> bool {
        let Message { to, len, .. } = self.matcher.messages[id];
        let bytes = pattern(id as u64, len);
        let mut waiting = self.recvs.values().filter(|recv| recv.buffer.who == to && !recv.done);
        waiting.any(|recv| recv.buffer.has(&self.world, &bytes))
    }

    fn received(&mut self, who: usize, completion: &Completion) {
        let context = completion.context;
        let posted = self.recvs.get_mut(&context).expect("it was posted");
        assert!(!posted.done, "completed twice");
        assert_eq!(posted.buffer.who, who);
        posted.done = true;
        if posted.cancelled {
            assert_eq!(completion.outcome, Err(Failure::Cancelled));
            return;
        }
        let id = *self.matcher.matched.get(&context).expect("no message should have met it");
        let message = self.matcher.messages[id];
        let fits = message.len.min(posted.buffer.len);
        let outcome = match message.len - fits {
            0 => Ok(()),
            excess => Err(Failure::Truncated { excess }),
        };
        assert!(posted.report || outcome.is_err(), "nobody asked");
        assert_eq!(completion.outcome, outcome, "message {id}");
        assert_eq!((completion.len, completion.tag), (fits, message.tag), "message {id}");
        assert_eq!(completion.data, message.data, "message {id}");
        assert_eq!(completion.peer, Some(PeerId(message.from as u32)), "message {id}");
        assert_eq!(completion.buf, posted.buffer.told().addr);
        self.landed[id] = true;
        self.compare_bytes(context, id);
    }

    fn compare_bytes(&self, context: u64, id: usize) {
        let posted = &self.recvs[&context];
        let message = &self.matcher.messages[id];
        let fits = message.len.min(posted.buffer.len);
        let has_them = posted.buffer.has(&self.world, &pattern(message.content, fits));
        assert!(has_them, "bytes of {id}");
        assert!(posted.buffer.is_untouched_beyond(&self.world, fits), "bytes beyond {id}");
    }

    /// Everything that can happen has happened: what must have ended has.
    fn rest(&mut self) {
        // The closure of `run_each` cannot borrow the program, and completions
        // keep: so look once, at the end.
        self.world.run();
        self.look();
        for (&context, &id) in &self.matcher.matched {
            let posted = &self.recvs[&context];
            let fits = self.matcher.messages[id].len <= posted.buffer.len;
            assert!(posted.done || (!posted.report && fits), "receive {context} did not end");
            let sent = self.sends.values().find(|sent| sent.id == id).expect("it was sent");
            assert!(sent.done || !sent.report, "send of message {id} did not end");
        }
        for (from, to) in self.matcher.pairs_on_their_way() {
            assert!(!self.bounded, "a send within the credits waits: {from}→{to}");
            // Only unmatched messages may keep it from being sent, and claimed
            // ones that it stands behind.
            if self.claimed.iter().any(|(who, ..)| *who == to) {
                continue;
            }
            assert_eq!(self.world.data_credits(from, to), 0, "{from}→{to} waits for nothing");
            let ledger = self.world.processes[to].endpoint.links().ledger(PeerId(from as u32));
            let ledger = ledger.expect("it has packets of that sender");
            // The only place for a credit packet is left to half of the quota.
            let grant = self.layouts[to].grant;
            let places = ledger.granted.unwrap_or(grant).credit_slots / 2;
            let owed_max = if places > 1 { 0 } else { (grant.data_slots / 2).saturating_sub(1) };
            assert_eq!(ledger.data_held + ledger.data_owed, grant.data_slots);
            assert!(ledger.data_owed <= owed_max, "{to} owes {from} slots and keeps them");
        }
        for who in 0..self.layouts.len() {
            let pending = self.world.pending(who);
            assert_eq!(pending.answers, 0, "answers of {who} wait for nothing");
            for (context, wanted) in self.matcher.posted(who) {
                let coming = self.matcher.coming(who, wanted);
                assert_eq!(coming, None, "receive {context} of {who} waits for it");
            }
        }
        assert_eq!(self.probes.len(), 0, "a probe was not answered");
        self.find_all();
    }

    /// A probe finds whatever matches it, here or not yet sent.
    fn find_all(&mut self) {
        let (who, wanted) = (self.anyone(), self.wanted());
        let there_is =
            self.matcher.peek(who, &wanted).or(self.matcher.coming(who, &wanted)).is_some();
        let context = self.context();
        self.found = 0;
        self.ask(who, &wanted, ProbeAction::Peek, context);
        self.world.run();
        self.look();
        assert!(!self.probes.contains_key(&context), "a probe was not answered");
        assert_eq!(self.found > 0, there_is, "what a probe finds");
    }

    /// Whatever is left is received; then nothing at all is left.
    fn finish(&mut self) {
        let longest = 3 * self.eager_max + 2 * self.chunk + 2;
        for who in 0..self.layouts.len() {
            for space in [Space::Tagged, Space::Untagged] {
                for _ in 0..self.unmatched_to(who, space) {
                    let wanted = Wanted { space, source: None, tag: 0, ignore: u64::MAX };
                    self.post(who, wanted, longest);
                    self.look();
                }
            }
        }
        self.rest();
        while !self.claimed.is_empty() {
            self.recv_claimed();
            self.rest();
        }
        assert_eq!(self.matcher.pairs_on_their_way().next(), None, "every message was received");
        for who in 0..self.layouts.len() {
            let posted: Vec<u64> =
                self.matcher.posted(who).iter().map(|(context, _)| *context).collect();
            for context in posted {
                self.cancel_one(context);
            }
        }
        self.rest();
        for (context, posted) in &self.recvs {
            match self.matcher.matched.get(context) {
                Some(&id) => self.compare_bytes(*context, id),
                None => assert!(posted.buffer.is_untouched_beyond(&self.world, 0)),
            }
        }
        for who in 0..self.layouts.len() {
            assert_eq!(self.world.pending(who), Pending::default(), "process {who}");
            assert_eq!(self.world.processes[who].port.net().lent(who), (0, 0), "process {who}");
            let links = self.world.processes[who].endpoint.links();
            assert_eq!((links.slots_held(), links.reply_slots_reserved()), (0, 0));
            assert_eq!(self.world.processes[who].endpoint.stats().violations, 0);
        }
    }
}

/// Data slots that an eager message takes at most.
fn slots_at_most(len: u64) -> u64 {
    1 + len / 60 + 1
}
