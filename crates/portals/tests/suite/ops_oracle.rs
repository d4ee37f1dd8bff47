//! Random streams of everything that a Portals program can ask for, delivered
//! in any order that the network may choose, against a naive model: after each
//! step the books are in order and every event was due; in the end everything
//! was told and nothing is left over.

use crate::oracle::{ENTRIES, Entry, ITEMS, Kind, Model, Op, PTS, STATIC, cut};
use crate::pair;
use crate::pair::net::{Event as NetEvent, Mode, layout, random::Random, roomy};
use crate::pair::{Pair, Side, pattern, program_limits};
use sluice_link::PeerError;
use sluice_portals::{
    Arithmetic, Command, Ct, CtEvent, EqTaken, Handle, Limits, List, Local, Md, MdOptions,
    MeOptions, MeSpec, NiFail, PtOptions, PtlError, SearchOp, Target, Vector,
};
use sluice_wire::{AckKind, AtomicOp, Datatype, MatchBits, Packet, PeerId, Region};
use std::collections::BTreeMap;

const PROCESSES: usize = 3;
const COUNTERS: usize = 2;

/// What a counter sets off.
#[derive(Clone, Copy, Debug)]
enum Shot {
    Op(usize),
    Inc(usize, u64),
    Set(usize, u64),
}

/// A counter of the model.
#[derive(Clone, Debug, Default)]
struct Counter {
    value: u64,
    armed: BTreeMap<(u64, u64), Shot>,
}

struct Run {
    pair: Pair,
    model: Model,
    draw: Random,
    md_options: MdOptions,
    /// Descriptors of whole memories that may change when a call has returned.
    volatile_mds: Vec<Handle<Md>>,
    counters: Vec<[(Handle<Ct>, Counter); COUNTERS]>,
    age: u64,
    /// Descriptors made for one operation.
    mds: Vec<(usize, Handle<Md>)>,
    /// Survivors that know of the death.
    knows: [bool; PROCESSES],
    deadly: bool,
    refused_unlinks: u64,
    /// Steps in which commands waited for credits.
    waited: usize,
}

impl Run {
    fn new(seed: u64) -> Run {
        let mut draw = Random::new(seed);
        let mode = Mode {
            payloads: true,
            pending_percent: *draw.pick(&[0, 0, 40]),
            can_read: draw.percent(70),
            forbidden_percent: *draw.pick(&[0, 0, 30]),
            only_writes: false,
            chunk_claims: false,
            connecting_percent: *Random::stream(seed, 9).pick(&[0, 60, 100]),
            placing_percent: *Random::stream(seed, 10).pick(&[0, 50, 100]),
            looking_percent: 0,
            is_network: false,
            matches: false,
            publishes: false,
        };
        let small = layout(3, 24, draw.between(2, 4) as u8, 4, draw.between(6, 14) as u16);
        let layouts = if draw.percent(70) { [small; PROCESSES] } else { [roomy(); PROCESSES] };
        let counted = draw.percent(50);
        let md_options = MdOptions {
            ct_send: counted,
            ct_ack: counted,
            ct_reply: counted,
            ct_bytes: draw.percent(50),
            ..MdOptions::default()
        };
        let until_matched = draw.percent(30);
        let headers_max = if until_matched || draw.percent(50) { 1 << 20 } else { 3 };
        let limits = Limits {
            credits_until_matched: until_matched,
            unexpected_headers_max: headers_max,
            ..program_limits()
        };
        let mut pair = Pair::with_limits(&layouts, mode, md_options, limits);
        let mut volatile_mds = Vec::new();
        let counters = pair.sides.iter_mut().map(|side| {
            side.ni.eq_free(side.eq);
            side.ni.pt_free(PTS[0]).unwrap();
            side.eq = side.ni.eq_alloc(1 << 16).unwrap();
            let flow = PtOptions { flow_control: true, ..PtOptions::default() };
            side.ni.pt_alloc(PTS[0], PtOptions::default(), Some(side.eq)).unwrap();
            side.ni.pt_alloc(PTS[1], flow, Some(side.eq)).unwrap();
            let whole = Region { addr: sluice_wire::Addr(0), len: u64::MAX };
            let (eq, ct) = (Some(side.eq), Some(side.ct));
            side.md = side.ni.md_bind(whole, None, eq, ct, md_options).unwrap();
            let volatile = MdOptions { volatile: true, ..md_options };
            volatile_mds.push(side.ni.md_bind(whole, None, eq, ct, volatile).unwrap());
            std::array::from_fn(|_| (side.ni.ct_alloc().unwrap(), Counter::default()))
        });
        let counters = counters.collect();
        // What the rail has not read yet is not copied for that.
        if mode.pending_percent > 0 {
            volatile_mds.clear();
        }
        Run {
            pair,
            model: Model::new(PROCESSES, headers_max as usize),
            deadly: draw.percent(25),
            draw,
            md_options,
            volatile_mds,
            counters,
            age: 0,
            mds: Vec::new(),
            knows: [false; PROCESSES],
            refused_unlinks: 0,
            waited: 0,
        }
    }

    fn lives(&self, who: usize) -> bool {
        self.model.dead != Some(who)
    }

    fn alive(&self) -> Vec<usize> {
        (0..PROCESSES).filter(|&who| self.lives(who)).collect()
    }

    fn anybody(&mut self) -> usize {
        loop {
            let who = self.draw.below(PROCESSES as u64) as usize;
            if self.lives(who) {
                return who;
            }
        }
    }

    /// Pieces of memory with `bytes` in them, and all of it by a descriptor.
    fn memory(&mut self, who: usize, bytes: &[u8], vector: bool) -> Vec<Region> {
        let lens =
            if vector { cut(&mut self.draw, bytes.len() as u64) } else { vec![bytes.len() as u64] };
        let mut at = 0;
        let piece = |len: u64| {
            let part = &bytes[at..at + len as usize];
            at += len as usize;
            self.pair.alloc(who, part)
        };
        lens.into_iter().map(piece).collect()
    }

    fn local(&mut self, who: usize, pieces: &[Region]) -> Local {
        if let [one] = pieces {
            return self.pair.local(who, *one);
        }
        let local = self.pair.vector_md(who, pieces, self.md_options);
        self.mds.push((who, local.md));
        local
    }

    fn entry(&mut self, who: usize) -> (Entry, MeSpec) {
        let draw = &mut self.draw;
        let list = if draw.percent(55) { List::Priority } else { List::Overflow };
        let manage_local = draw.percent(30);
        let options = MeOptions {
            op_put: !draw.percent(8),
            op_get: !draw.percent(8),
            use_once: draw.percent(30),
            manage_local,
            inc_by_rlength: draw.percent(30),
            no_truncate: draw.percent(12),
            event_link_disable: draw.percent(50),
            unexpected_hdr_disable: draw.percent(15),
            ..MeOptions::default()
        };
        let len = *draw.pick(&[0, 50, STATIC + ITEMS, 600, 20_000, 20_000, 20_000]);
        let bytes = pattern(len as usize, self.model.entries.len());
        let vector = draw.percent(25);
        let entry = Entry {
            who,
            pt: draw.below(2) as usize,
            list,
            class: draw.below(3),
            ignore: *draw.pick(&[0, 1, 0xFF, 0xFF]),
            source: draw.percent(10).then(|| draw.below(PROCESSES as u64) as u32),
            min_free: *draw.pick(&[0, 0, 64, 500]),
            options,
            pieces: self.memory(who, &bytes, vector),
            bytes,
            unknown: Vec::new(),
            local_offset: 0,
            linked: false,
            auto_unlinked: false,
            handle: None,
            headers: 0,
            moving: 0,
            freed: false,
        };
        let ni = &mut self.pair.sides[who].ni;
        let (region, vector) = match entry.pieces[..] {
            [one] => (one, None),
            _ => {
                let vector = Vector::new(entry.pieces.clone()).unwrap();
                let whole = Region { addr: sluice_wire::Addr(0), len };
                (whole, Some(ni.vector_bind(vector).unwrap()))
            }
        };
        let spec = MeSpec {
            region,
            vector,
            match_bits: MatchBits(entry.class),
            ignore_bits: !0xFF | entry.ignore,
            source: entry.source.map(PeerId),
            min_free: entry.min_free,
            options,
            user_ptr: ENTRIES + self.model.entries.len() as u64,
            ..MeSpec::default()
        };
        (entry, spec)
    }

    fn append(&mut self) {
        let who = self.anybody();
        let (entry, spec) = self.entry(who);
        let (pt, list) = (PTS[entry.pt], entry.list);
        let (id, linked) = self.model.append(entry);
        let Side { ni, port, .. } = &mut self.pair.sides[who];
        let handle = ni.me_append(port, pt, list, spec).expect("there is room");
        assert_eq!(handle.is_some(), linked);
        self.model.entries[id].handle = handle;
    }

    fn unlink(&mut self) {
        if self.model.entries.is_empty() {
            return;
        }
        let id = self.draw.below(self.model.entries.len() as u64) as usize;
        let entry = &self.model.entries[id];
        let (who, Some(handle)) = (entry.who, entry.handle) else { return };
        if !self.lives(who) {
            return;
        }
        let answer = self.pair.sides[who].ni.me_unlink(handle).map(|_| ());
        let expected = match entry.linked {
            false => Err(PtlError::ArgInvalid("entry is not linked")),
            true if entry.headers > 0 || entry.moving > 0 => Err(PtlError::InUse),
            true => Ok(()),
        };
        assert_eq!(answer, expected);
        self.refused_unlinks += u64::from(answer == Err(PtlError::InUse));
        if answer.is_ok() {
            self.model.unlinked(id);
        }
    }

    fn search(&mut self) {
        let who = self.anybody();
        let (entry, spec) = self.entry(who);
        let op = *self.draw.pick(&[SearchOp::Only, SearchOp::Delete]);
        let user_ptr = (1 << 40) + self.draw.draw() % (1 << 20);
        self.model.search(op, &entry, user_ptr);
        let Side { ni, port, .. } = &mut self.pair.sides[who];
        let spec = MeSpec { user_ptr, ..spec };
        ni.me_search(port, PTS[entry.pt], op, &spec).expect("it is allocated");
    }

    /// An operation that is not issued yet.
    fn operation(&mut self) -> (usize, Command) {
        let id = self.model.ops.len();
        let (from, to) = (self.anybody(), self.draw.below(PROCESSES as u64) as usize);
        let draw = &mut self.draw;
        let atomics = [AtomicOp::Sum, AtomicOp::Bxor, AtomicOp::Max];
        let swaps = [AtomicOp::Swap, AtomicOp::Cswap, AtomicOp::Mswap, AtomicOp::Sum];
        let (kind, len, offset) = match draw.below(10) {
            0..4 => {
                let len = *draw.pick(&[0, 1, 20, 64, 65, 200, 250, 300]);
                // Places of their own, until there are no more.
                let place = if id < 64 { id as u64 } else { 1 << 32 };
                (Kind::Put, len, STATIC + ITEMS + 300 * place)
            }
            4..7 => {
                let len = *draw.pick(&[0, 8, 60, 65, 150]);
                (Kind::Get, len, draw.below(STATIC - len))
            }
            7 => (Kind::Atomic(*draw.pick(&atomics)), 8 * draw.below(5), STATIC),
            _ => {
                let op = *draw.pick(&swaps);
                let most = if op.has_operand() { 1 } else { 4 };
                (Kind::Fetch(op), 8 * draw.between(0, most), STATIC + 8 * draw.below(4))
            }
        };
        let ack = *draw.pick(&[
            None,
            Some(AckKind::Full),
            Some(AckKind::Full),
            Some(AckKind::Count),
            Some(AckKind::OperationCompleted),
        ]);
        let ack = ack.filter(|_| matches!(kind, Kind::Put | Kind::Atomic(_)));
        let (pt, class) = (usize::from(draw.percent(30)), draw.below(3));
        let vectors = draw.percent(25);
        let values = pattern(len as usize, id + 1000);
        let (mut operand, mut sent) = ([0; 32], Vec::new());
        if let Kind::Atomic(op) | Kind::Fetch(op) = kind
            && op.has_operand()
        {
            operand[..8].copy_from_slice(&draw.draw().to_le_bytes());
            sent.extend_from_slice(&operand[..8]);
        }
        sent.extend_from_slice(&values);
        let source = self.memory(from, &values, vectors);
        let answer = match kind {
            Kind::Get | Kind::Fetch(_) => self.memory(from, &vec![0xEE; len as usize], vectors),
            _ => Vec::new(),
        };
        let target = Target {
            peer: PeerId(to as u32),
            pt_index: PTS[pt],
            match_bits: MatchBits(class | (id as u64) << 16),
            remote_offset: offset,
        };
        let (hdr_data, user_ptr) = (id as u64, id as u64);
        let arithmetic = |op| Arithmetic { op, datatype: Datatype::Uint64, operand };
        let command = match kind {
            Kind::Put => {
                let from = self.local(from, &source);
                Command::Put { from, ack, target, hdr_data, user_ptr }
            }
            Kind::Get => Command::Get { into: self.local(from, &answer), target, user_ptr },
            Kind::Atomic(op) => {
                let (from, arithmetic) = (self.local(from, &source), arithmetic(op));
                Command::Atomic { from, ack, target, hdr_data, user_ptr, arithmetic }
            }
            Kind::Fetch(op) => {
                let into = self.local(from, &answer);
                let (from, arithmetic) = (self.local(from, &source), arithmetic(op));
                Command::Fetch { into, from, target, hdr_data, user_ptr, arithmetic }
            }
        };
        self.model.ops.push(Op {
            kind,
            from,
            to,
            pt,
            class,
            len,
            offset,
            ack,
            sent,
            answer,
            verdict: None,
            entry: None,
            landed: 0,
            reply: Vec::new(),
            send_due: false,
            ack_due: false,
            reply_due: false,
            comm_due: false,
            over_due: None,
            claimer: None,
            done: None,
        });
        (id, command)
    }

    fn issue(&mut self) {
        let (id, mut command) = self.operation();
        let Op { from: who, len, .. } = self.model.ops[id];
        let mut changed = None;
        if let Command::Put { from, .. }
        | Command::Atomic { from, .. }
        | Command::Fetch { from, .. } = &mut command
            && len <= 64
            && from.md == self.pair.sides[who].md
            && let Some(&volatile) = self.volatile_mds.get(who)
            && self.draw.percent(50)
        {
            from.md = volatile;
            changed = Some(Region { addr: sluice_wire::Addr(from.offset), len });
        }
        self.model.issued(id);
        self.pair.issue(who, &command).expect("it is right in itself");
        if let Some(changed) = changed {
            self.pair.sides[who].port.fill(changed, 0xAB);
        }
    }

    /// An operation, or a change of a counter, that waits for a counter.
    fn arm(&mut self) {
        let (who, shot, command) = match self.draw.below(4) {
            0 | 1 => {
                let (id, command) = self.operation();
                (self.model.ops[id].from, Shot::Op(id), command)
            }
            kind => {
                let who = self.anybody();
                let at = self.draw.below(COUNTERS as u64) as usize;
                let ct = self.counters[who][at].0;
                let success = self.draw.below(4);
                let by = CtEvent { success, failure: 0 };
                match kind {
                    2 => (who, Shot::Inc(at, success), Command::CtInc { ct, by }),
                    _ => (who, Shot::Set(at, success), Command::CtSet { ct, to: by }),
                }
            }
        };
        let at = self.draw.below(COUNTERS as u64) as usize;
        let threshold = self.draw.below(12);
        self.age += 1;
        self.counters[who][at].1.armed.insert((threshold, self.age), shot);
        self.fire(who, at);
        let ct = self.counters[who][at].0;
        let Side { ni, port, .. } = &mut self.pair.sides[who];
        ni.trigger(port, command, ct, threshold).expect("there is room");
    }

    fn change_counter(&mut self) {
        let who = self.anybody();
        let at = self.draw.below(COUNTERS as u64) as usize;
        let (ct, counter) = &mut self.counters[who][at];
        let ct = *ct;
        let Side { ni, .. } = &mut self.pair.sides[who];
        if self.draw.percent(10) {
            counter.armed.clear();
            ni.ct_cancel_triggered(ct).expect("it is there");
            return;
        }
        let success = self.draw.below(5);
        let by = CtEvent { success, failure: 0 };
        let set = self.draw.percent(25);
        let command = if set { Command::CtSet { ct, to: by } } else { Command::CtInc { ct, by } };
        counter.value = if set { success } else { counter.value + success };
        self.fire(who, at);
        let Side { ni, port, .. } = &mut self.pair.sides[who];
        ni.issue(port, &command).expect("it is right in itself");
    }

    /// What a counter of the model has become ripe for: each with all that follows from it
    /// before the next.
    fn fire(&mut self, who: usize, at: usize) {
        loop {
            let counter = &mut self.counters[who][at].1;
            let Some(first) = counter.armed.first_entry() else { return };
            if first.key().0 > counter.value {
                return;
            }
            match first.remove() {
                Shot::Op(id) => self.model.issued(id),
                Shot::Inc(changed, by) => {
                    self.counters[who][changed].1.value += by;
                    self.fire(who, changed);
                }
                Shot::Set(changed, to) => {
                    self.counters[who][changed].1.value = to;
                    self.fire(who, changed);
                }
            }
        }
    }

    fn switch_pt(&mut self) {
        let who = self.anybody();
        let at = self.draw.below(2) as usize;
        let enable = self.draw.percent(80);
        self.switch(who, at, enable);
    }

    fn switch(&mut self, who: usize, at: usize, enable: bool) {
        let pair::Side { ni, port, .. } = &mut self.pair.sides[who];
        let pt = &mut self.model.pts[who][at];
        pt.disabled = !enable;
        if enable {
            pt.event_owed = false;
            ni.pt_enable(port, PTS[at]).expect("it is allocated");
        } else {
            ni.pt_disable(PTS[at]).expect("it is allocated");
        }
    }

    fn kill(&mut self) {
        if self.model.dead.is_none() {
            let dead = self.draw.below(PROCESSES as u64) as usize;
            self.model.dead = Some(dead);
            self.knows[dead] = true;
            self.pair.sides[0].port.net_mut().kill(dead);
        } else if let Some(who) = self.knows.iter().position(|knows| !knows) {
            self.learn(who);
        }
    }

    fn learn(&mut self, who: usize) {
        let dead = self.model.dead.expect("somebody has died");
        self.knows[who] = true;
        let net = self.pair.sides[0].port.clone();
        loop {
            let reads = &net.net().reads.clone();
            let ours = reads.iter().position(|read| read.reader == who && read.peer == dead);
            let Some(at) = ours else { break };
            self.happen(NetEvent::Read(at));
        }
        net.net_mut().lose(dead, who);
        net.net_mut().lose(who, dead);
        self.model.on_the_way[dead][who].clear();
        let Side { ni, port, .. } = &mut self.pair.sides[who];
        ni.on_peer_gone(port, PeerId(dead as u32), PeerError::Dead);
    }

    fn happen(&mut self, event: NetEvent) {
        if let NetEvent::Deliver(from, to) = event {
            let packet: Packet = {
                let net = self.pair.sides[0].port.net();
                let flight = net.flights(from, to).next().expect("one is on its way");
                flight.parsed.packet
            };
            self.model.arrives(from, to, &packet);
        }
        self.pair.happen(event);
        assert_ne!(self.pair.taken, Some(sluice_portals::Taken::Violation));
        self.look();
    }

    /// Takes all events, and checks the books.
    fn look(&mut self) {
        for who in 0..PROCESSES {
            let Side { ni, eq, .. } = &mut self.pair.sides[who];
            if self.model.dead == Some(who) {
                continue;
            }
            loop {
                match ni.eq_take(*eq) {
                    EqTaken::Empty => break,
                    EqTaken::Event(event) => self.model.event(who, &event),
                    EqTaken::EventAfterDrop(event) => panic!("dropped before {event:?}"),
                }
            }
            ni.check_invariants();
            self.waited += ni.waiting_now().min(1);
        }
    }

    fn deliver_one(&mut self) {
        let events = self.pair.sides[0].port.net().events();
        if !events.is_empty() {
            let event = *self.draw.pick(&events);
            self.happen(event);
        }
    }

    fn idle(&mut self) {
        for who in 0..PROCESSES {
            if self.lives(who) {
                let Side { ni, port, .. } = &mut self.pair.sides[who];
                ni.on_idle(port);
            }
        }
    }

    fn step(&mut self) {
        match self.draw.below(100) {
            0..18 => self.append(),
            18..22 => self.unlink(),
            22..24 => self.search(),
            24..50 => self.issue(),
            50..58 => self.arm(),
            58..64 => self.change_counter(),
            64..67 => self.switch_pt(),
            67..69 => self.idle(),
            69 if self.deadly => self.kill(),
            _ => {
                for _ in 0..self.draw.below(6) {
                    self.deliver_one();
                }
            }
        }
        self.look();
    }

    /// Everything arrives, and whatever waits for its receiver is taken.
    fn drain(&mut self) {
        while self.model.dead.is_some()
            && let Some(who) = self.knows.iter().position(|knows| !knows)
        {
            self.learn(who);
        }
        loop {
            while !self.pair.sides[0].port.net().events().is_empty() {
                self.deliver_one();
            }
            self.idle();
            self.look();
            if !self.pair.sides[0].port.net().events().is_empty() {
                continue;
            }
            let mut waits = false;
            for who in self.alive() {
                for (at, &pt) in PTS.iter().enumerate() {
                    waits |= !self.model.pts[who][at].unexpected.is_empty();
                    let (mut all, _) = self.entry(who);
                    (all.pt, all.ignore, all.source) = (at, 0xFF, None);
                    all.options = MeOptions::default();
                    self.model.search(SearchOp::Delete, &all, 1);
                    let spec = MeSpec { ignore_bits: !0, user_ptr: 1, ..MeSpec::default() };
                    let Side { ni, port, .. } = &mut self.pair.sides[who];
                    ni.me_search(port, pt, SearchOp::Delete, &spec).unwrap();
                }
            }
            self.look();
            if !waits && self.pair.sides[0].port.net().events().is_empty() {
                return;
            }
        }
    }

    fn finish(&mut self) {
        for who in self.alive() {
            for at in 0..COUNTERS {
                let ct = self.counters[who][at].0;
                self.counters[who][at].1.value += 100;
                self.fire(who, at);
                let by = CtEvent { success: 100, failure: 0 };
                self.pair.issue(who, &Command::CtInc { ct, by }).unwrap();
            }
            for at in 0..2 {
                self.switch(who, at, true);
            }
        }
        self.look();
        self.drain();
        self.pair.assert_quiet();
        self.model.check_end();
        self.check_memory();
        for id in 0..self.model.entries.len() {
            let entry = &self.model.entries[id];
            if entry.linked && self.model.dead != Some(entry.who) {
                let ni = &mut self.pair.sides[entry.who].ni;
                ni.me_unlink(entry.handle.unwrap()).expect("nothing is in use");
            }
        }
        for (who, md) in std::mem::take(&mut self.mds) {
            if self.lives(who) {
                self.pair.sides[who].ni.md_release(md).expect("nothing is in use");
            }
        }
        for side in &mut self.pair.sides {
            if self.model.dead != Some(side.port.me) {
                for pt in PTS {
                    side.ni.pt_free(pt).expect("nothing is in use");
                }
            }
        }
        self.check_counts();
    }

    fn check_memory(&self) {
        for entry in self.model.entries.iter().filter(|entry| self.lives(entry.who)) {
            let mut found = self.pair.gathered(entry.who, &entry.pieces);
            for range in &entry.unknown {
                found[range.clone()].copy_from_slice(&entry.bytes[range.clone()]);
            }
            assert_eq!(found, entry.bytes, "memory of {:?}", entry.options);
        }
        for op in self.model.ops.iter().filter(|op| self.lives(op.from)) {
            let Some((Ok(()), mlength)) = op.verdict else { continue };
            if op.answer.is_empty() || !self.lives(op.to) {
                continue;
            }
            let found = self.pair.gathered(op.from, &op.answer);
            let (moved, rest) = found.split_at(mlength as usize);
            assert_eq!(moved, op.reply, "answer to {op:?}");
            assert!(rest.iter().all(|&byte| byte == 0xEE), "beyond the answer to {op:?}");
        }
    }

    /// Counters of descriptors have counted every end once.
    fn check_counts(&self) {
        if self.model.dead.is_some() || !self.md_options.ct_send {
            return;
        }
        for who in 0..PROCESSES {
            let mut counted = (0, 0);
            let mut count = |ok: bool, bytes: u64| match ok {
                true => counted.0 += if self.md_options.ct_bytes { bytes } else { 1 },
                false => counted.1 += 1,
            };
            for op in self.model.ops.iter().filter(|op| op.from == who) {
                let Some((outcome, mlength)) = op.verdict else { continue };
                if op.kind != Kind::Get {
                    count(true, op.len);
                }
                if let Some(ack) = op.ack {
                    let completed = ack == AckKind::OperationCompleted;
                    count(outcome.is_ok() || completed, mlength);
                }
                if matches!(op.kind, Kind::Get | Kind::Fetch(_)) {
                    count(outcome.is_ok(), mlength);
                }
            }
            assert_eq!(self.pair.ct(who), counted, "counter of {who}");
        }
    }
}

fn run(seed: u64) -> Run {
    let mut run = Run::new(seed);
    let steps = run.draw.between(20, 300);
    for _ in 0..steps {
        run.step();
    }
    run.finish();
    run
}

fn seeds(from: u64, count: u64) {
    let mut reached = [0; 8];
    for seed in from..from + count {
        let outcome = std::panic::catch_unwind(|| run(seed));
        let run = outcome.unwrap_or_else(|_| panic!("seed {seed}"));
        let ops = run.model.ops.iter();
        let outcome = |is: fn(&Result<(), NiFail>) -> bool| {
            ops.clone().filter(|op| op.verdict.is_some_and(|(outcome, _)| is(&outcome))).count()
        };
        let counts = [
            outcome(|outcome| outcome.is_ok()),
            outcome(|outcome| *outcome == Err(NiFail::NoMatch)),
            outcome(|outcome| *outcome == Err(NiFail::PtDisabled)),
            outcome(|outcome| *outcome == Err(NiFail::OpViolation)),
            run.model.pull as usize,
            run.refused_unlinks as usize,
            run.model.claimed_arriving,
            run.waited,
        ];
        for (sum, count) in reached.iter_mut().zip(counts) {
            *sum += count;
        }
    }
    // What the streams are for is reached, in each seed or in some.
    let enough = reached.iter().all(|&sum| sum > count as usize / 10);
    assert!(enough && reached[0] > 5 * count as usize, "{reached:?} in {count} seeds");
}

#[test]
fn random_streams_agree_with_the_model() {
    match std::env::var("SLUICE_SEED").map(|seed| seed.parse()) {
        Ok(seed) => drop(run(seed.expect("SLUICE_SEED is a number"))),
        Err(_) => seeds(0, 1200),
    }
}

#[test]
fn more_random_streams_agree_with_the_model() {
    seeds(1 << 32, 1200);
}
