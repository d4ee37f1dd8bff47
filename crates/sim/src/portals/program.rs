//! What the processes do: calls of chance at moments of chance, then quiet, then whatever is left
//! is taken, unlinked and freed. After each call into an engine its counters and events are
//! shown to the model.

use super::bridge;
use super::calls::{ENTRIES, NUMBERS};
use super::coverage::Coverage;
use super::cut::Cut;
use super::judge;
use super::model::{Counter, Entry, Kind, List, Md, Model, Options, Pt};
use super::recovery::Recovered;
use super::setup::{QUEUE_MAX, Setup};
use super::trace::{Trace, What};
use super::world::{Turn, World};
use super::{Summary, model};
use crate::swarm::Draw;
use sluice_portals::{Ct, Eq, Handle, Limits, Md as MdObject, Me, MeSpec, PtOptions, SearchOp};
use sluice_wire::{Addr, Packet, PtIndex, Region};

/// Portal table entries of a process; one more index is never allocated.
pub const PTS: usize = 3;
/// Counters that the network changes, and those that the program alone does.
pub const COUNTERS: usize = 3;
pub const OWN_COUNTERS: usize = 2;
/// Memory descriptors of a process.
const MDS: u64 = 3;
/// Streams of random numbers of the calls begin here.
const CALLS: u64 = 10_000;
/// Match bits name the operation from here on; entries ignore that.
pub const ID_SHIFT: u32 = 40;
/// What raises the program's own counters in the end: above every threshold.
const RAISED: u64 = 1_000;
/// Idle moments without anything else after which nothing comes any more, where interfaces recover:
/// some of what they do waits for every few of them.
const IDLES_TO_REST: u32 = 12;

/// A descriptor that a program keeps.
#[derive(Clone, Copy, Debug)]
pub struct Descriptor {
    pub handle: Handle<MdObject>,
    pub model: Md,
    pub is_volatile: bool,
}

/// One process.
#[derive(Debug)]
pub struct Actor {
    pub queues: [Handle<Eq>; 2],
    pub counters: Vec<Handle<Ct>>,
    pub descriptors: Vec<Descriptor>,
}

/// Memory of an operation at its initiator.
#[derive(Clone, Debug, Default)]
pub struct OpMemory {
    pub source: Vec<Region>,
    pub answer: Vec<Region>,
}

/// Memory and handle of an entry.
#[derive(Clone, Debug)]
pub struct EntryMemory {
    pub pieces: Vec<Region>,
    pub handle: Option<Handle<Me>>,
}

/// See the module.
#[derive(Debug)]
pub struct Program<'t> {
    seed: u64,
    cut: &'t Cut,
    pub setup: Setup,
    pub world: World<'t>,
    pub model: Model,
    /// Of the call that is being made.
    pub draw: Draw,
    draw_turns: Draw,
    draw_taking: Draw,
    draw_rewriting: Draw,
    recovered: Recovered,
    pub actors: Vec<Actor>,
    pub op_memory: Vec<OpMemory>,
    pub entry_memory: Vec<EntryMemory>,
    pub coverage: Coverage,
    events: u64,
}

impl<'t> Program<'t> {
    pub fn new(seed: u64, cut: &'t Cut, trace: &'t mut Trace) -> Program<'t> {
        let setup = cut.of(Setup::draw(seed));
        let limits = Limits {
            eager_bytes_max: setup.eager_bytes_max,
            credits_until_matched: false,
            unexpected_headers_max: setup.headers_max as u32,
            triggered_ops_max: setup.triggered_max,
            recovery: setup.recovery,
            ..Limits::default()
        };
        let count = setup.layouts.len();
        let mut program = Program {
            world: World::new(seed, &setup, limits, trace),
            model: Model::new(count, setup.matching, setup.headers_max, setup.recovery.is_some()),
            seed,
            cut,
            draw: Draw::stream(seed, 105),
            draw_turns: Draw::stream(seed, 111),
            draw_taking: Draw::stream(seed, 108),
            draw_rewriting: Draw::stream(seed, 117),
            recovered: Recovered::default(),
            actors: Vec::new(),
            op_memory: Vec::new(),
            entry_memory: Vec::new(),
            coverage: Coverage::default(),
            events: 0,
            setup,
        };
        let mut draw = Draw::stream(seed, 106);
        for who in 0..count {
            let actor = program.open(who, &mut draw);
            program.actors.push(actor);
        }
        program
    }

    /// A process allocates what it uses all the time.
    fn open(&mut self, who: usize, draw: &mut Draw) -> Actor {
        let ni = self.world.ni_mut(who);
        let queues = self.setup.queues_max.map(|max| ni.eq_alloc(max).expect("there is room"));
        let all = COUNTERS + OWN_COUNTERS;
        let counters: Vec<Handle<Ct>> =
            (0..all).map(|_| ni.ct_alloc().expect("there is room")).collect();
        let process = &mut self.model.processes[who];
        process.counters = (0..all)
            .map(|at| if at < COUNTERS { Counter::default() } else { Counter::own() })
            .collect();
        for index in 0..PTS {
            // Without flow control, events are lost where a queue is full.
            let flow_control = draw.percent(50) || self.setup.recovery.is_some();
            let options = PtOptions { flow_control, ..PtOptions::default() };
            // Of what no event tells, nobody knows when its header is free again.
            let is_told = options.flow_control || self.setup.has_few_headers();
            let which = draw.below(2) as usize;
            let queue = Some(queues[which]).filter(|_| is_told || draw.percent(85));
            let has_queue = queue.is_some();
            let has_short_queue = self.setup.queues_max[which] < QUEUE_MAX;
            let pt = Pt { flow_control, has_queue, has_short_queue, ..Pt::default() };
            self.model.pt_alloc(who, index, pt);
            let ni = self.world.ni_mut(who);
            ni.pt_alloc(PtIndex(index as u8), options, queue).expect("it is free");
        }
        let descriptors = (0..MDS).map(|at| self.bind(who, at, &queues, &counters, draw)).collect();
        Actor { queues, counters, descriptors }
    }

    /// A descriptor of all memory.
    fn bind(
        &mut self,
        who: usize,
        at: u64,
        queues: &[Handle<Eq>; 2],
        counters: &[Handle<Ct>],
        draw: &mut Draw,
    ) -> Descriptor {
        // The first one tells everything.
        let plain = at == 0;
        let has_queue = plain || draw.percent(80);
        let model = Md {
            has_queue,
            event_success_disable: !plain && draw.percent(15),
            event_send_disable: !plain && draw.percent(25),
            ct: draw.percent(80).then(|| draw.below(COUNTERS as u64) as usize),
            ct_send: draw.percent(50),
            ct_reply: draw.percent(50),
            ct_ack: draw.percent(50),
            ct_bytes: draw.percent(40),
        };
        // What a rail reads later must not change before.
        let is_volatile = !plain && !self.setup.is_late && draw.percent(40);
        let queue = has_queue.then(|| queues[draw.below(2) as usize]);
        let ct = model.ct.map(|ct| counters[ct]);
        let whole = Region { addr: Addr(0), len: u64::MAX };
        let options = bridge::md_options(&model, is_volatile);
        let ni = self.world.ni_mut(who);
        let handle = ni.md_bind(whole, None, queue, ct, options).expect("there is room");
        Descriptor { handle, model, is_volatile }
    }

    pub fn run(mut self) -> Summary {
        let mut call = 0;
        while call < self.setup.calls {
            if self.draw_turns.percent(self.setup.call_percent) || !self.turn() {
                if self.cut.keeps(call) {
                    self.draw = Draw::stream(self.seed, CALLS + call);
                    self.act();
                }
                call += 1;
            }
        }
        self.draw = Draw::stream(self.seed, CALLS + call);
        self.finish();
        judge::check(&self);
        self.coverage.note_model(&self.model.met);
        self.coverage.note_world(&self.world.met);
        self.coverage.note_recovery(&self.recovered.met);
        self.coverage.non_matching = u64::from(!self.setup.matching);
        Summary {
            processes: self.count() as u64,
            operations: self.model.ops.iter().filter(|op| op.started.is_some()).count() as u64,
            entries: self.model.entries.len() as u64,
            events: self.events,
            steps: self.world.steps,
            time_ns: self.world.now_ns,
            hash: self.world.trace().hash(),
            coverage: self.coverage,
            faults: self.world.trace().faults(),
        }
    }

    pub fn count(&self) -> usize {
        self.setup.layouts.len()
    }

    /// Processes that have not ended.
    fn living(&self) -> impl Iterator<Item = usize> + use<> {
        let dead = (0..self.count()).find(|who| self.world.is_dead(*who));
        (0..self.count()).filter(move |who| Some(*who) != dead)
    }

    /// A process ends. What it was refused, and was to refuse, is over.
    fn dies(&mut self, who: usize) {
        self.model.dies(who);
        for other in 0..self.count() {
            self.recovered.forget(who, other);
        }
    }

    /// Something happens. False if nothing does any more.
    fn turn(&mut self) -> bool {
        match self.world.next() {
            Turn::Rest => return false,
            Turn::Called(who) => {
                self.model.begin_step();
                self.look(who);
            }
            Turn::Died(who) => self.dies(who),
            Turn::Lost(who, peer) => {
                self.model.begin_step();
                self.model.gives_up(who, peer);
                self.recovered.forget(who, peer);
                self.look(who);
            }
            Turn::Doubts(who, peer) => {
                self.model.begin_step();
                self.model.doubts(who, peer);
                self.look(who);
            }
            Turn::Woken(who) => {
                for _ in 0..self.setup.batch {
                    if !self.read(who) {
                        break;
                    }
                }
                if self.world.has_mail(who) {
                    self.world.rouse(who);
                } else {
                    self.idle(who);
                }
            }
        }
        true
    }

    /// A process reads a packet, if there is one. The model is told which operation it begins.
    fn read(&mut self, who: usize) -> bool {
        let Some((from, parsed)) = self.world.peek(who) else { return false };
        self.model.begin_step();
        if self.world.connected(who, from) {
            self.look(who);
            self.model.begin_step();
        }
        let arrived = match &parsed.packet {
            Packet::Put(put) => Some((put.match_bits, put.bulk.is_none())),
            Packet::Atomic(atomic) => Some((atomic.match_bits, true)),
            Packet::Get(get) => Some((get.match_bits, false)),
            _ => None,
        };
        if let Packet::Recovery(said) = &parsed.packet {
            self.recovered.hears(said.word, self.setup.recovery);
        }
        match arrived.map(|(bits, has_data)| ((bits.0 >> ID_SHIFT) as usize, has_data)) {
            Some((id, has_data)) if self.reads_operation(from, who, id) => {
                self.model.arrives(from, who, id, has_data);
            }
            Some((id, _)) => self.model.drops(id),
            None => self.world.read(who),
        }
        self.look(who);
        true
    }

    /// A process reads a packet that begins an operation. Whether that arrives: it does not if it
    /// is refused, to come again.
    fn reads_operation(&mut self, from: usize, who: usize, id: usize) -> bool {
        let op = self.model.ops.get(id).unwrap_or_else(|| panic!("nobody has issued {id}"));
        let (pt, is_triggered) = (op.pt, op.started.is_some_and(|start| start.by.is_some()));
        let all = |program: &Program<'_>| -> Vec<(usize, usize)> {
            let refusals = program.world.ni(who).refusals();
            refusals.map(|(pt, peer)| (usize::from(pt.0), peer.index())).collect()
        };
        let before = all(self);
        self.world.read(who);
        let refused = (before.contains(&(pt, from)), all(self).contains(&(pt, from)));
        let is_exhausted =
            before.iter().any(|(at, _)| *at == pt) || self.recovered.is_shut_for_lost(who, pt);
        let Program { model, recovered, .. } = self;
        let is_taken =
            recovered.is_taken((from, who, pt), id, refused, || model.refuses(id, is_exhausted));
        recovered.met.refused_triggered |= u64::from(is_triggered && !is_taken);
        is_taken
    }

    fn idle(&mut self, who: usize) {
        self.model.begin_step();
        self.world.idle(who);
        self.look(who);
    }

    /// The model is shown what the counters of a process say, and the events that it takes.
    pub fn look(&mut self, who: usize) {
        self.look_at_counters(who);
        if self.draw_taking.percent(self.setup.taking_percent) {
            self.take_events(who);
        }
    }

    fn look_at_counters(&mut self, who: usize) {
        let ni = self.world.ni(who);
        let count = |ct: &Handle<Ct>| ni.ct(*ct).expect("it is there");
        let counts = self.actors[who].counters.iter().map(count);
        let counts: Vec<model::Count> = counts.map(|ct| (ct.success, ct.failure)).collect();
        self.model.counters_are(who, &counts);
        self.coverage.waited |= u64::from(ni.waiting_now() > 0);
    }

    /// A process takes all events that it has. What it appends or searches next may tell as many
    /// as a queue has places for.
    pub fn take_events(&mut self, who: usize) {
        for queue in self.actors[who].queues {
            while let Some(event) = bridge::taken(self.world.ni_mut(who).eq_take(queue)) {
                self.events += 1;
                let told = bridge::told(&event);
                self.world.note(who, What::Takes(Box::new(event), Box::new(told)));
                if let Some(id) = self.model.sees(who, &told) {
                    self.spoil(who, id);
                }
                if told.kind == Kind::Get && told.list == Some(List::Priority) {
                    self.rewrite(told.user_ptr);
                }
            }
        }
        // Somebody has waited for the places.
        if self.world.ni(who).wants_attention() {
            self.world.rouse(who);
        }
    }

    /// The memory that an operation was sent from may be used for anything now.
    pub fn spoil(&mut self, who: usize, id: usize) {
        for region in &self.op_memory[id].source {
            self.world.memories[who].write(region.addr, &vec![0xAB; region.len as usize]);
        }
    }

    /// The memory of an entry was read, and may be used for anything while nothing else moves there.
    /// What a loss has left open would make it uncertain.
    fn rewrite(&mut self, user_ptr: u64) {
        let at = (user_ptr - ENTRIES) as usize;
        let entry = &mut self.model.entries[at];
        if !entry.moving.is_empty() || self.setup.may_lose() || !self.draw_rewriting.percent(50) {
            return;
        }
        let (who, value) = (entry.who, self.draw_rewriting.below(NUMBERS));
        let mut offset = 0;
        for region in &self.entry_memory[at].pieces {
            let bytes: Vec<u8> = (offset..offset + region.len)
                .map(|at| value.to_le_bytes()[at as usize % 8])
                .collect();
            self.world.memories[who].write(region.addr, &bytes);
            entry.memory.write(offset, &bytes);
            offset += region.len;
        }
        self.coverage.rewritten = 1;
    }

    /// Lets everything happen until nothing does any more.
    fn settle(&mut self) {
        let rounds = if self.setup.recovery.is_some() { IDLES_TO_REST } else { 1 };
        let mut idles = 0;
        while idles < rounds {
            for who in self.living() {
                self.idle(who);
                self.take_events(who);
            }
            idles += 1;
            while self.turn() {
                idles = 0;
            }
        }
        self.model.rests();
    }

    /// Entries are enabled and take whatever comes, so that nobody is refused any more.
    fn admit_all(&mut self) {
        for who in self.living() {
            for pt in 0..PTS {
                self.switch_to(who, pt, true);
                let (mut entry, pieces) = self.entry(who, true);
                (entry.pt, entry.list, entry.ignore) = (pt, List::Priority, !0);
                (entry.source, entry.is_foreign, entry.min_free) = (None, false, 0);
                entry.options = Options { op_put: true, op_get: true, ..Options::default() };
                self.append_entry(entry, pieces);
            }
        }
    }

    /// Everything comes to its end, and is taken away.
    fn finish(&mut self) {
        for who in self.living() {
            for at in COUNTERS..COUNTERS + OWN_COUNTERS {
                self.change(who, at, false, (RAISED, 0));
            }
        }
        self.settle();
        if self.setup.recovery.is_some() {
            self.admit_all();
            self.settle();
            self.recovered.check_end();
        }
        for who in self.living() {
            for at in 0..COUNTERS {
                self.cancel(who, at);
            }
            for pt in 0..PTS {
                self.take_all(who, pt);
            }
        }
        self.settle();
        for at in 0..self.model.entries.len() {
            if self.model.entries[at].linked && !self.world.is_dead(self.model.entries[at].who) {
                self.unlink(at);
                assert!(!self.model.entries[at].linked, "entry {at} is in use for ever");
            }
        }
        for who in self.living() {
            for Descriptor { handle, .. } in self.actors[who].descriptors.clone() {
                self.world.ni_mut(who).md_release(handle).expect("it is there");
            }
            for pt in 0..PTS {
                self.world.ni_mut(who).pt_free(PtIndex(pt as u8)).expect("nothing is in use");
            }
            self.look_at_counters(who);
            self.take_events(who);
        }
        self.world.check_rest();
        self.model.check_end();
    }

    /// All headers that wait at a portal table entry are taken.
    fn take_all(&mut self, who: usize, pt: usize) {
        self.take_events(who);
        self.model.begin_step();
        let entry = Entry {
            who,
            pt,
            list: List::Priority,
            bits: 0,
            ignore: !0,
            source: None,
            is_foreign: false,
            min_free: 0,
            options: Options::default(),
            ct: None,
            user_ptr: 1,
            start: None,
            memory: model::Bytes::default(),
            local_offset: 0,
            linked: false,
            auto_unlinked: false,
            headers: 0,
            moving: Vec::new(),
            unlink_due: None,
        };
        let found = self.model.search(&entry, true);
        let spec = MeSpec { ignore_bits: !0, user_ptr: 1, ..MeSpec::default() };
        self.world.note(who, What::Searches(Box::new(entry), true, found));
        self.world.call(who, |ni, port| {
            ni.me_search(port, PtIndex(pt as u8), SearchOp::Delete, &spec).expect("it is right");
        });
        self.look_at_counters(who);
        self.take_events(who);
    }
}
