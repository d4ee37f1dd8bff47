//! What the processes do: phase by phase, each process some operations at its
//! own pace, then quiet, then whatever is left is received. Some phases begin with
//! receives, at rest, and the messages of those are mostly for them.
//!
//! Why every program is legal: at the end of a phase nothing is to come, and for
//! each message that nobody has met a receive is posted that it matches. A
//! receive of an older message may take it instead, and then there is one more
//! round; each round meets at least one message.

use super::Summary;
use super::cut::Cut;
use super::draw::Draw;
use super::events::Turn;
use super::judge::Judge;
use super::matcher::Wanted;
use super::refusals::Refusals;
use super::setup::Setup;
use super::trace::{Trace, What};
use super::world::World;
use sluice_proto::{ProbeAction, Space};
use std::collections::VecDeque;

/// How likely each operation is, of a hundred: send, receive, probe, fetch what
/// is claimed; what is left is cancels.
type Weights = [u64; 4];
const WEIGHTS: [Weights; 5] =
    [[40, 35, 14, 6], [100, 0, 0, 0], [30, 62, 3, 2], [35, 15, 40, 7], [60, 10, 20, 5]];

/// The streams of operations begin with this number.
const OPERATIONS: u64 = 1 << 56;
/// And those of operations on remote memory with this one.
const REMOTE: u64 = 1 << 57;

/// How the messages that are left at the end of a phase are received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Drain {
    /// By receives that accept anything.
    Any,
    /// One by one, exactly; the oldest, the newest or any first.
    Oldest,
    Newest,
    Shuffled,
    /// Each by a receive of another kind.
    Mixed,
}

/// What one process has left to do.
#[derive(Debug)]
pub(super) struct Actor {
    operations: u64,
    /// Operations that it has come to.
    done: u64,
    /// Receives that end a phase.
    pub wanted: VecDeque<Wanted>,
    /// Whether what it has claimed is to be fetched.
    fetches: bool,
    pub refusals: Refusals,
}

impl Actor {
    fn new(seed: u64, who: usize) -> Actor {
        let refusals = Refusals::new(seed, who);
        Actor { operations: 0, done: 0, wanted: VecDeque::new(), fetches: false, refusals }
    }
}

/// See the module.
#[derive(Debug)]
pub struct Program<'t> {
    seed: u64,
    /// What is left out of it.
    cut: Cut,
    pub(super) setup: Setup,
    pub(super) world: World<'t>,
    pub(super) judge: Judge,
    pub(super) draw: Draw,
    pub(super) actors: Vec<Actor>,
    weights: Weights,
    /// Whom all send to in this phase, if it is one.
    pub(super) target: Option<usize>,
    /// Whether this phase has begun with receives.
    pub(super) is_awaited: bool,
    /// Draws what those are, and which messages are for them.
    pub(super) aims: Draw,
    /// Draws which receives take many messages.
    pub(super) draw_many: Draw,
    /// Draws the regions that there are at first.
    pub(super) draw_regions: Draw,
    next_context: u64,
    pub(super) waited: u64,
    pub(super) refused: u64,
}

impl<'t> Program<'t> {
    pub fn new(seed: u64, cut: &Cut, trace: &'t mut Trace) -> Program<'t> {
        let setup = cut.of(Setup::draw(seed));
        let count = setup.layouts.len();
        Program {
            world: World::new(seed, &setup, trace),
            judge: Judge::new(seed, count),
            draw: Draw::stream(seed, 3),
            actors: (0..count).map(|who| Actor::new(seed, who)).collect(),
            weights: WEIGHTS[0],
            target: None,
            is_awaited: false,
            aims: Draw::stream(seed, 7),
            draw_many: Draw::stream(seed, 62),
            draw_regions: Draw::stream(seed, 61),
            next_context: 1,
            waited: 0,
            refused: 0,
            seed,
            cut: cut.clone(),
            setup,
        }
    }

    pub fn run(mut self) -> Summary {
        self.expose_first();
        for phase in 0..self.setup.phases {
            self.world.note(0, What::Phase(phase));
            self.phase();
        }
        self.finish();
        let count = self.count() as u64;
        let mut coverage = self.world.coverage;
        coverage.note_rails(&self.world.rails.met);
        coverage.remote = self.judge.remote.met;
        coverage.buffers_for_many = u64::from(self.judge.manys.has_taken_several);
        coverage.pieces_filled = u64::from(self.judge.pieces.were_filled);
        coverage.buffers_used_up = u64::from(self.judge.manys.was_used_up);
        let asked = |who| self.world.endpoint(who).stats().asked_for;
        coverage.asked_for = u64::from((0..self.count()).any(|who| asked(who) > 0));
        coverage.probes_found = u64::from(self.judge.found > 0);
        Summary {
            processes: count,
            messages: self.judge.matcher.messages.len() as u64,
            waited: self.waited,
            asked_for: (0..self.count()).map(asked).sum(),
            refused: self.refused,
            found: self.judge.found,
            steps: self.world.steps(),
            time_ns: self.world.now_ns(),
            hash: self.world.hash(),
            coverage,
            faults: self.world.rails.fault_counts,
        }
    }

    fn phase(&mut self) {
        self.weights = self.draw.pick(&WEIGHTS);
        self.target = self.draw.percent(35).then(|| self.anyone());
        self.is_awaited = self.aims.percent(self.setup.awaited_percent);
        if self.is_awaited {
            self.await_messages();
            self.rest();
        }
        for who in self.alive() {
            self.actors[who].operations = self.setup.operations;
            self.world.rouse(who);
        }
        self.rest();
        self.find_something();
        let drain = self.draw.pick(&[
            Drain::Any,
            Drain::Oldest,
            Drain::Newest,
            Drain::Newest,
            Drain::Shuffled,
            Drain::Mixed,
        ]);
        while self.begin_drain(drain) {
            self.rest();
        }
    }

    /// Everybody posts a few receives of what somebody may send.
    fn await_messages(&mut self) {
        let count = self.count() as u64;
        for who in self.alive() {
            for _ in 0..self.aims.between(1, 4) {
                let space = if self.aims.percent(80) { Space::Tagged } else { Space::Untagged };
                let source = Some(self.source_of(who, count));
                let tag = self.aims.below(self.setup.tags);
                let ignore = self.aims.pick(&[0, 0, 0, 3]);
                self.receive(who, Wanted { space, source, tag, ignore });
            }
        }
    }

    /// From whom a process awaits something: mostly from one that can write to it at once.
    fn source_of(&mut self, who: usize, count: u64) -> usize {
        let near: Vec<usize> =
            self.alive().into_iter().filter(|peer| !self.world.are_apart(who, *peer)).collect();
        if self.aims.percent(75) {
            return self.aims.pick(&near);
        }
        self.aims.below(count) as usize
    }

    /// Receives that nothing met are cancelled; then nothing is left.
    fn finish(&mut self) {
        for who in self.alive() {
            let posted: Vec<u64> =
                self.judge.matcher.posted(who).iter().map(|(context, _)| *context).collect();
            for context in posted {
                self.cancel_one(who, context);
            }
        }
        self.rest();
        self.judge.check_end(&mut self.world, self.actors.len());
    }

    /// Plans the receives of what is left. False if nothing is left.
    fn begin_drain(&mut self, drain: Drain) -> bool {
        let mut is_left = false;
        for who in self.alive() {
            let mut left = self.judge.matcher.unmatched_to(who);
            match drain {
                Drain::Any | Drain::Oldest | Drain::Mixed => {}
                Drain::Newest => left.reverse(),
                Drain::Shuffled => {
                    for last in (1..left.len()).rev() {
                        left.swap(last, self.draw.below(last as u64 + 1) as usize);
                    }
                }
            }
            for id in left {
                let exactness = match drain {
                    Drain::Any => 0,
                    Drain::Mixed => self.draw.below(4),
                    _ => 3,
                };
                let wanted = self.aimed(id, exactness);
                self.actors[who].wanted.push_back(wanted);
            }
            let actor = &mut self.actors[who];
            actor.fetches = self.judge.claimed.iter().any(|claimed| claimed.who == who);
            let has_more = actor.fetches || !actor.wanted.is_empty();
            is_left |= has_more;
            if has_more {
                self.world.rouse(who);
            }
        }
        if !is_left {
            for (who, actor) in self.actors.iter().enumerate() {
                let is_refused = !actor.refusals.is_empty();
                assert!(!is_refused, "a message of {who} is refused for ever");
                assert_eq!(actor.operations, 0, "{who} does not go on");
            }
        }
        is_left
    }

    /// Runs until nothing is to come; then everything that can end has.
    fn rest(&mut self) {
        loop {
            match self.world.next() {
                Turn::Woken(who) => self.turn(who),
                Turn::Moved(who) | Turn::Connected(who) => self.look(who, None),
                Turn::Tagged { from, to, message } => self.judge.tagged(from, to, &message),
                Turn::Died(who) => {
                    self.actors[who] = Actor::new(self.seed, who);
                    self.judge.died(who);
                    for other in self.alive() {
                        if self.world.knows_nothing_of(other, who) {
                            self.judge.lost(other, who);
                        }
                    }
                }
                Turn::Lost(who, peer) => {
                    self.judge.lost(who, peer);
                    if self.world.knows_nothing_of(peer, who) {
                        self.judge.lost(peer, who);
                    }
                    self.look(who, None);
                }
                Turn::Rest => {
                    // A process that waits in its library is idle again and
                    // again.
                    for who in self.alive() {
                        self.world.idle(who);
                        self.look(who, None);
                    }
                    if self.world.is_quiet() {
                        break;
                    }
                }
            }
        }
        self.world.check_rest();
        self.judge.check_rest(&mut self.world, self.actors.len());
    }

    /// A process reads some packets, does something, and is idle.
    fn turn(&mut self, who: usize) {
        let batch = if self.world.is_slow(who) { 1 } else { self.setup.batch };
        for _ in 0..batch {
            let Some(read) = self.world.read(who) else { break };
            let told = self.judge.read(who, &read);
            self.look(who, told);
        }
        let mut operations = self.draw.between(1, self.setup.burst);
        while operations > 0 && self.act(who) {
            operations -= 1;
        }
        self.world.idle(who);
        self.look(who, None);
        if operations == 0 {
            self.world.rouse(who);
        }
    }

    /// A process does the next thing. False if there is none that it can do now.
    fn act(&mut self, who: usize) -> bool {
        if self.actors[who].fetches {
            if !self.make_room(who) {
                return false;
            }
            self.actors[who].fetches = self.fetch(who);
            return true;
        }
        if !self.actors[who].wanted.is_empty() {
            if !self.make_room(who) {
                return false;
            }
            if let Some(wanted) = self.actors[who].wanted.pop_front() {
                self.receive(who, wanted);
            }
            return true;
        }
        let has_more = self.actors[who].operations > 0;
        if let Some(send) = self.actors[who].refusals.next(has_more) {
            return self.start_send(who, send);
        }
        let actor = &mut self.actors[who];
        let Some(left) = actor.operations.checked_sub(1) else { return false };
        let at = actor.done;
        (actor.operations, actor.done) = (left, at + 1);
        if !self.cut.keeps(who, at) {
            return true;
        }
        if self.reaches(who, at) {
            return true;
        }
        // Whatever else is left out, this operation draws the same.
        let mut draw = Draw::stream(self.seed, OPERATIONS | (who as u64) << 32 | at);
        std::mem::swap(&mut self.draw, &mut draw);
        let goes_on = self.operate(who);
        self.draw = draw;
        goes_on
    }

    /// Whether a process does something with remote memory instead, and does it.
    fn reaches(&mut self, who: usize, at: u64) -> bool {
        let Some(remote) = self.setup.remote else { return false };
        let mut draw = Draw::stream(self.seed, REMOTE | (who as u64) << 32 | at);
        if !draw.percent(remote.percent) {
            return false;
        }
        std::mem::swap(&mut self.draw, &mut draw);
        self.reach(who, &remote);
        self.draw = draw;
        true
    }

    /// A process does what is drawn. False if that is not taken now.
    fn operate(&mut self, who: usize) -> bool {
        let [send, receive, probe, fetch] = self.weights;
        let chance = self.draw.below(100);
        if chance < send {
            return self.send(who);
        } else if chance < send + receive {
            let wanted = self.wanted(who);
            self.receive(who, wanted);
        } else if chance < send + receive + probe {
            self.probe(who);
        } else if chance < send + receive + probe + fetch {
            if self.has_room(who) {
                self.fetch(who);
            }
        } else {
            self.cancel(who);
        }
        true
    }

    /// A probe at rest finds whatever matches it, there or not yet sent.
    fn find_something(&mut self) {
        let alive = self.alive();
        let who = self.draw.pick(&alive);
        let wanted = self.wanted(who);
        let matcher = &self.judge.matcher;
        let there_is = matcher.peek(who, &wanted).or(matcher.coming(who, &wanted)).is_some();
        if self.actors.iter().any(|actor| !actor.refusals.is_empty()) {
            // The probe might make room for that one, and find it.
            return;
        }
        let (found_before, losses_before) = (self.judge.found, self.world.losses());
        self.ask(who, wanted, ProbeAction::Peek);
        self.rest();
        if self.world.losses() != losses_before {
            // Who asked, or what it asked for, may be gone.
            return;
        }
        assert_eq!(self.judge.found > found_before, there_is, "what a probe of {wanted} finds");
    }

    /// Compares what has ended with what must have.
    pub(super) fn look(&mut self, who: usize, told: Option<(usize, usize)>) {
        while let Some(end) = self.world.pop(who) {
            self.judge.ended(&mut self.world, who, &end, told);
        }
    }

    pub(super) fn count(&self) -> usize {
        self.actors.len()
    }

    pub(super) fn alive(&self) -> Vec<usize> {
        (0..self.count()).filter(|who| !self.world.is_dead(*who)).collect()
    }

    pub(super) fn anyone(&mut self) -> usize {
        self.draw.below(self.setup.layouts.len() as u64) as usize
    }

    pub(super) fn context(&mut self) -> u64 {
        self.next_context += 1;
        self.next_context
    }
}
