//! What the processes do: phase by phase, each process some operations at its
//! own pace, then quiet, then whatever is left is received. Some phases begin with
//! receives, at rest, and the messages of those are mostly for them.
//!
//! Why every program is legal: at the end of a phase nothing is to come, and for
//! each message that nobody has met a receive is posted that it matches. A
//! receive of an older message may take it instead, and then there is one more
//! round; each round meets at least one message.

use super::Summary;
use super::draw::Draw;
use super::events::Turn;
use super::judge::{Judge, content};
use super::matcher::Wanted;
use super::refusals::{Refusals, try_send};
use super::setup::Setup;
use super::trace::{Trace, What};
use super::world::World;
use sluice_proto::{Probe, ProbeAction, Recv, Refused, Send, Space};
use sluice_wire::PeerId;
use std::collections::VecDeque;

/// How likely each operation is, of a hundred: send, receive, probe, fetch what
/// is claimed; what is left is cancels.
type Weights = [u64; 4];
const WEIGHTS: [Weights; 5] =
    [[40, 35, 14, 6], [100, 0, 0, 0], [30, 62, 3, 2], [35, 15, 40, 7], [60, 10, 20, 5]];

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
struct Actor {
    operations: u64,
    /// Receives that end a phase.
    wanted: VecDeque<Wanted>,
    /// Whether what it has claimed is to be fetched.
    fetches: bool,
    refusals: Refusals,
}

impl Actor {
    fn new(seed: u64, who: usize) -> Actor {
        let refusals = Refusals::new(seed, who);
        Actor { operations: 0, wanted: VecDeque::new(), fetches: false, refusals }
    }
}

/// See the module.
#[derive(Debug)]
pub struct Program<'t> {
    seed: u64,
    setup: Setup,
    world: World<'t>,
    judge: Judge,
    draw: Draw,
    actors: Vec<Actor>,
    weights: Weights,
    /// Whom all send to in this phase, if it is one.
    target: Option<usize>,
    /// Whether this phase has begun with receives.
    is_awaited: bool,
    /// Draws what those are, and which messages are for them.
    aims: Draw,
    next_context: u64,
    waited: u64,
    refused: u64,
}

impl<'t> Program<'t> {
    pub fn new(seed: u64, trace: &'t mut Trace) -> Program<'t> {
        let setup = Setup::draw(seed);
        let count = setup.layouts.len();
        Program {
            world: World::new(seed, &setup, trace),
            judge: Judge::new(count),
            draw: Draw::stream(seed, 3),
            actors: (0..count).map(|who| Actor::new(seed, who)).collect(),
            weights: WEIGHTS[0],
            target: None,
            is_awaited: false,
            aims: Draw::stream(seed, 7),
            next_context: 1,
            waited: 0,
            refused: 0,
            seed,
            setup,
        }
    }

    pub fn run(mut self) -> Summary {
        for phase in 0..self.setup.phases {
            self.world.note(0, What::Phase(phase));
            self.phase();
        }
        self.finish();
        let count = self.count() as u64;
        let mut coverage = self.world.coverage;
        coverage.note_rails(&self.world.rails.met);
        let asked = |who| self.world.endpoint(who).stats().asked_for;
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
                let source = Some(self.aims.below(count) as usize);
                let tag = self.aims.below(self.setup.tags);
                let ignore = self.aims.pick(&[0, 0, 0, 3]);
                self.receive(who, Wanted { space, source, tag, ignore });
            }
        }
    }

    /// A receive that waits for a message of this process: whose it is, and what it
    /// accepts.
    fn awaited_from(&mut self, who: usize) -> Option<(usize, Wanted)> {
        if !self.is_awaited || !self.aims.percent(70) {
            return None;
        }
        let is_his = |wanted: &Wanted| wanted.source == Some(who);
        let posted = self.alive().into_iter().flat_map(|to| {
            let posted = self.judge.matcher.posted(to).iter();
            posted.map(move |(_, wanted)| (to, *wanted)).filter(|(_, wanted)| is_his(wanted))
        });
        let posted: Vec<(usize, Wanted)> = posted.collect();
        (!posted.is_empty()).then(|| self.aims.pick(&posted))
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
        self.judge.check_rest(&self.world, self.actors.len());
    }

    /// A process reads some packets, does something, and is idle.
    fn turn(&mut self, who: usize) {
        for _ in 0..self.setup.batch {
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
            self.actors[who].fetches = self.fetch(who);
            return true;
        }
        if let Some(wanted) = self.actors[who].wanted.pop_front() {
            self.receive(who, wanted);
            return true;
        }
        let has_more = self.actors[who].operations > 0;
        if let Some(send) = self.actors[who].refusals.next(has_more) {
            return self.start_send(who, send);
        }
        let Some(left) = self.actors[who].operations.checked_sub(1) else { return false };
        self.actors[who].operations = left;
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
            self.fetch(who);
        } else {
            self.cancel(who);
        }
        true
    }

    fn send(&mut self, who: usize) -> bool {
        let (mut to, mut space) = (self.target.unwrap_or_else(|| self.anyone()), self.space());
        let (mut len, mut tag) = (self.len(), if space == Space::Tagged { self.tag() } else { 0 });
        if let Some((awaited_by, wanted)) = self.awaited_from(who) {
            (to, space) = (awaited_by, wanted.space);
            tag = if space == Space::Tagged { wanted.tag } else { 0 };
            if self.aims.percent(70) {
                // Too long to be sent eagerly.
                let eager = u64::from(self.setup.endpoint.eager_bytes_max);
                len = eager + self.aims.between(1, 2 * (eager + self.chunk()));
            }
        }
        let context = self.context();
        let buf = self.world.memory(who).alloc(len);
        let bytes: Vec<u8> = content(context, len).collect();
        self.world.memory(who).write(buf.addr, &bytes);
        let bytes_max = self.setup.nics.map_or(u64::MAX, |bounds| bounds.bytes_max);
        let eager = len <= u64::from(self.setup.endpoint.eager_bytes_max).min(bytes_max);
        let send = Send {
            space,
            peer: PeerId(to as u32),
            buf,
            tag,
            data: self.draw.percent(30).then_some(context * 7),
            context,
            report: self.draw.percent(85),
            // A rail that keeps memory beyond the call cannot inject.
            inject: eager && self.draw.percent(25) && !self.setup.is_late,
            delivery: self.draw.percent(20),
        };
        self.start_send(who, send)
    }

    /// False if it was refused.
    fn start_send(&mut self, who: usize, send: Send) -> bool {
        let stalled_before = self.world.endpoint(who).stats().stalled_now;
        let outcome =
            self.world.call(who, |endpoint, now, port| try_send(endpoint, now, port, &send));
        self.world.note(who, What::Sends(send, outcome));
        match outcome {
            Ok(()) => {
                let waits = self.world.endpoint(who).stats().stalled_now > stalled_before;
                self.waited += u64::from(waits);
                let is_large = send.buf.len > u64::from(self.setup.endpoint.eager_bytes_max);
                self.world.coverage.large_messages |= u64::from(is_large);
                self.judge.sent(&mut self.world, who, &send, waits);
                let is_between = !self.actors[who].refusals.is_empty();
                self.world.coverage.sends_between_tries |= u64::from(is_between);
            }
            Err(Refused::Again) if send.inject || self.setup.nics.is_some() => {
                self.refused += 1;
                self.actors[who].refusals.add(send);
            }
            // Nobody could be told of its end later.
            Err(Refused::PeerGone { peer, .. })
                if send.inject && self.world.is_cut(who, peer.index()) =>
            {
                self.world.memory(who).release(send.buf);
                return true;
            }
            Err(error) => panic!("send {} is refused: {error}", send.context),
        }
        self.look(who, None);
        outcome.is_ok()
    }

    fn receive(&mut self, who: usize, wanted: Wanted) {
        let context = self.context();
        let (eager, chunk) = (u64::from(self.setup.endpoint.eager_bytes_max), self.chunk());
        let len = if self.draw.percent(85) { 3 * eager + 2 * chunk } else { self.len() };
        let report = self.draw.percent(90);
        let buf = self.judge.posts(self.world.memory(who), who, context, &wanted, len, report);
        let recv = Recv {
            space: wanted.space,
            source: peer(wanted.source),
            buf,
            tag: wanted.tag,
            ignore: wanted.ignore,
            context,
            report,
        };
        self.world.note(who, What::Posts(context, wanted, len));
        let posted = self.world.call(who, |endpoint, now, port| endpoint.recv(now, port, &recv));
        posted.expect("there is room for a receive");
        self.look(who, None);
    }

    fn probe(&mut self, who: usize) {
        let wanted = self.wanted(who);
        let actions = [ProbeAction::Peek, ProbeAction::Claim, ProbeAction::Discard];
        let action = self.draw.pick(&actions);
        self.ask(who, wanted, action);
    }

    fn ask(&mut self, who: usize, wanted: Wanted, action: ProbeAction) {
        let context = self.context();
        let is_here = self.judge.asks(who, context, &wanted, action);
        let probe = Probe {
            space: wanted.space,
            source: peer(wanted.source),
            tag: wanted.tag,
            ignore: wanted.ignore,
            context,
            action,
        };
        self.world.note(who, What::Probes(context, wanted, action));
        let asked = self.world.call(who, |endpoint, now, port| endpoint.probe(now, port, &probe));
        asked.expect("there is room for a claim");
        self.look(who, None);
        assert!(!is_here || !self.judge.is_asking(context), "what is there is found at once");
    }

    /// A process receives or drops a message that it has claimed. False if there
    /// is none.
    fn fetch(&mut self, who: usize) -> bool {
        let mine = |claimed: &super::judge::Claimed| claimed.who == who;
        let Some(at) = self.judge.claimed.iter().position(mine) else { return false };
        let claimed = self.judge.claimed.swap_remove(at);
        let context = claimed.context;
        let discard = self.draw.percent(25);
        let whole = self.judge.matcher.messages[claimed.id].len;
        let len = match discard {
            true => 0,
            false if self.draw.percent(70) => whole,
            false => self.len(),
        };
        let buf = self.judge.takes(self.world.memory(who), claimed, len, discard);
        self.world.note(who, if discard { What::Drops(context) } else { What::Takes(context) });
        let taken = self.world.call(who, |endpoint, now, port| {
            if discard {
                endpoint.discard_claimed(now, port, context, true)
            } else {
                endpoint.recv_claimed(now, port, context, buf, true)
            }
        });
        taken.expect("it is claimed");
        self.look(who, None);
        let again = self
            .world
            .call(who, |endpoint, now, port| endpoint.discard_claimed(now, port, context, true));
        assert_eq!(again, Err(Refused::NotClaimed), "a claim is used up");
        true
    }

    fn cancel(&mut self, who: usize) {
        let unended = self.judge.unended_receives(who);
        if !unended.is_empty() {
            let context = self.draw.pick(&unended);
            self.cancel_one(who, context);
        }
    }

    fn cancel_one(&mut self, who: usize, context: u64) {
        self.world.note(who, What::Cancels(context));
        let found = self.world.call(who, |endpoint, now, port| endpoint.cancel(now, port, context));
        self.judge.cancels(&self.world, context, found);
        self.look(who, None);
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
    fn look(&mut self, who: usize, told: Option<(usize, usize)>) {
        while let Some(end) = self.world.pop(who) {
            self.judge.ended(&mut self.world, who, &end, told);
        }
    }

    fn count(&self) -> usize {
        self.actors.len()
    }

    fn alive(&self) -> Vec<usize> {
        (0..self.count()).filter(|who| !self.world.is_dead(*who)).collect()
    }

    fn anyone(&mut self) -> usize {
        self.draw.below(self.setup.layouts.len() as u64) as usize
    }

    fn context(&mut self) -> u64 {
        self.next_context += 1;
        self.next_context
    }

    fn space(&mut self) -> Space {
        if self.draw.percent(80) { Space::Tagged } else { Space::Untagged }
    }

    fn chunk(&self) -> u64 {
        self.setup.chunk_bytes()
    }

    fn len(&mut self) -> u64 {
        let eager = u64::from(self.setup.endpoint.eager_bytes_max);
        let chunk = self.chunk();
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
        self.draw.below(self.setup.tags) | self.draw.below(2) << 32
    }

    /// What a receive or a probe accepts: often a message that there is.
    fn wanted(&mut self, who: usize) -> Wanted {
        if self.draw.percent(50) {
            let unmatched = self.judge.matcher.unmatched_to(who);
            if !unmatched.is_empty() {
                let id = self.draw.pick(&unmatched);
                let exactness = self.draw.below(4);
                return self.aimed(id, exactness);
            }
        }
        let space = self.space();
        let source = if self.draw.percent(40) { None } else { Some(self.anyone()) };
        let ignore = self.draw.pick(&[0, 0, 3, 0xF << 32, u64::MAX]);
        Wanted { space, source, tag: self.tag(), ignore }
    }

    /// What accepts this message: of exactness 3 nothing but it and its like.
    fn aimed(&self, id: usize, exactness: u64) -> Wanted {
        let message = self.judge.matcher.messages[id];
        let (any_source, any_tag) = (exactness & 1 == 0, exactness & 2 == 0);
        Wanted {
            space: message.space,
            source: (!any_source).then_some(message.from),
            tag: if any_tag { 0 } else { message.tag },
            ignore: if any_tag { u64::MAX } else { 0 },
        }
    }
}

fn peer(source: Option<usize>) -> Option<PeerId> {
    source.map(|source| PeerId(source as u32))
}
