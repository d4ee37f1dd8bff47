//! How connections begin, carry frames and end, and what `multirail` wants done with them.
//!
//! Who opens a rail calls (Hello), is granted the connection (Welcome), and it is there
//! when the caller's first frame has come. Of two calls that meet, that of the lower
//! process goes on. A connection that is there takes the place of an older one.

use super::connection::{Connection, EndState, Job};
use super::frame::{Body, Cx, Frame, Message};
use super::kinds::Kind;
use super::setup::SLOW;
use super::side::{Do, Side, Todo};
use super::{Effect, Event, Note, Peer, Rails};
use sluice_link::Remote;
use sluice_multirail::{Number, RailId, RailState};
use sluice_wire::Nanos;

impl Rails {
    /// A process wants to speak to a peer, or to hear of its end.
    pub fn begin(&mut self, cx: &mut Cx<'_>, who: usize, peer: usize) {
        if !self.has_side(who, peer) {
            self.new_side(cx, who, peer);
            let at = self.at(who, peer);
            self.call(cx, at, |peer, now, todo| peer.advance(now, todo));
        }
    }

    fn new_side(&mut self, cx: &Cx<'_>, who: usize, peer_is: usize) {
        let at = self.at(who, peer_is);
        let rails = self.setup.between(who, peer_is);
        let specs: Vec<_> = rails.iter().map(|rail| rail.spec).collect();
        let (timing, striping) = (self.setup.timing, self.setup.striping);
        let mut peer = Peer::new(&specs, timing, striping, self.clock(who, cx.now));
        // Whoever is connected is told of the other's end.
        peer.watch();
        let mut side = Side::new(who, peer_is, specs.len(), peer);
        if let Some(first) = self.setup.opened_first(who, peer_is) {
            side.peer.spare_others(RailId(first as u8));
            side.spared = (0..specs.len()).map(|rail| side.is_spare(rail)).collect();
            self.met.rails_spared |= u64::from(specs.len() > 1);
        }
        self.sides[at] = Some(Box::new(side));
    }

    /// Calls the machine of a side, and does what it then wants done.
    pub(super) fn call<R>(
        &mut self,
        cx: &mut Cx<'_>,
        at: usize,
        call: impl FnOnce(&mut Peer, Nanos, &mut Todo) -> R,
    ) -> R {
        let now = self.clock(at / self.count, cx.now);
        let side = self.sides[at].as_mut().expect("it has begun");
        let result = call(&mut side.peer, now, &mut side.todo);
        side.peer.check_invariants();
        while let Some(todo) = self.side_mut(at).todo.0.pop_front() {
            self.carry_out(cx, at, todo);
        }
        self.arm_deadline(cx, at);
        result
    }

    pub(super) fn side_mut(&mut self, at: usize) -> &mut Side {
        self.sides[at].as_mut().expect("it has begun")
    }

    fn carry_out(&mut self, cx: &mut Cx<'_>, at: usize, todo: Do) {
        let (who, peer) = (at / self.count, at % self.count);
        match todo {
            Do::Open(rail) => self.dial(cx, at, rail),
            Do::Close(rail) => {
                self.note(who, Note::Closed(peer, rail));
                let used = self.side_mut(at).used[rail];
                // One that the peer has called for and that is nearly there may stay.
                let connection = used.or(self.side_mut(at).accepted[rail]);
                self.close_end(cx, connection.expect("it was opened"), who);
            }
            Do::Probe(rail) => {
                if self.side_mut(at).peer.state(RailId(rail as u8)) == RailState::Suspect {
                    self.note(who, Note::Suspects(peer, rail));
                }
                self.say(cx, at, rail, Body::Probe);
            }
            Do::Resume(rail, first) => self.resume(cx, at, rail, first),
            Do::Ask(ask) => {
                let from = self.side_mut(at).reads[&ask.read.0].from;
                let from = Remote { key: from.key, offset: from.offset + ask.offset };
                let body = Body::Ask { chunk: ask.chunk, from, len: ask.len };
                self.say(cx, at, ask.rail.index(), body);
            }
            Do::Release(count) => {
                self.side_mut(at).kept.drain(..count as usize);
            }
            Do::Gone => self.end_side(cx, at),
        }
    }

    /// The stream goes on over a rail; what was not given to other sockets stays here.
    fn resume(&mut self, cx: &mut Cx<'_>, at: usize, rail: usize, first: Number) {
        let (who, peer) = (at / self.count, at % self.count);
        let side = self.sides[at].as_mut().expect("it has begun");
        let again: Vec<(Number, Message)> =
            side.kept.iter().filter(|(number, _)| *number >= first).copied().collect();
        for connection in side.used.iter().flatten().copied().collect::<Vec<_>>() {
            let end = self.end_index(connection, who);
            let small = &mut self.connections[connection].ways[end].small;
            small.retain(|body| !matches!(body, Body::Stream(..)));
        }
        if !again.is_empty() {
            self.met.streams_moved = 1;
            self.note(who, Note::Resumes(peer, rail, first.0));
        }
        for (number, message) in again {
            self.say(cx, at, rail, Body::Stream(number, message));
        }
    }

    /// A process has something to say on a rail that is open.
    pub(super) fn say(&mut self, cx: &mut Cx<'_>, at: usize, rail: usize, body: Body) {
        let who = at / self.count;
        let connection = self.side_mut(at).used[rail].expect("a rail that is used is open");
        assert_eq!(self.end_of(connection, who), EndState::Open, "a rail that is used is open");
        let end = self.end_index(connection, who);
        self.connections[connection].ways[end].small.push_back(body);
        self.pump(cx, connection, end);
    }

    fn dial(&mut self, cx: &mut Cx<'_>, at: usize, rail: usize) {
        let (who, peer) = (at / self.count, at % self.count);
        let side = self.side_mut(at);
        assert_eq!(side.used[rail], None, "rail {rail} of {who} to {peer} is opened twice");
        if side.accepted[rail].is_some() {
            return;
        }
        let index = self.connections.len();
        self.side_mut(at).used[rail] = Some(index);
        self.connections.push(Connection::new(index, rail, [who, peer]));
        let pair = self.pair_at(who, peer);
        self.between[pair].push(index);
        self.put(cx, index, 0, Body::Hello);
    }

    /// A process ends a connection; the other learns it behind all that is on its way.
    pub(super) fn close_end(&mut self, cx: &mut Cx<'_>, connection: usize, who: usize) {
        let end = self.end_index(connection, who);
        self.forget_end(connection, end);
        self.put(cx, connection, end, Body::Reset);
    }

    /// A connection ends under a process; what it had said is lost.
    pub(super) fn lose_end(&mut self, cx: &mut Cx<'_>, connection: usize, end: usize) {
        if self.connections[connection].ends[end] == EndState::Closed {
            return;
        }
        self.connections[connection].ways[end].wire.clear();
        self.broke(cx, connection, end);
    }

    /// A connection is no more for a process, which is told.
    fn broke(&mut self, cx: &mut Cx<'_>, connection: usize, end: usize) {
        let one = &self.connections[connection];
        let (who, peer, rail, state) = (one.who[end], one.who[1 - end], one.rail, one.ends[end]);
        self.forget_end(connection, end);
        let at = self.at(who, peer);
        let side = self.side_mut(at);
        let id = RailId(rail as u8);
        // While one is called for, another may be nearly there.
        let is_end = match state {
            EndState::Open => true,
            EndState::Calling => side.accepted[rail].is_none(),
            EndState::Accepted => {
                side.used[rail].is_none() && side.peer.state(id) == RailState::Opening
            }
            EndState::Closed => false,
        };
        if is_end && !side.is_gone {
            self.note(who, Note::Broke(peer, rail));
            self.call(cx, at, |peer, now, todo| peer.broke(now, todo, id));
        }
    }

    fn forget_end(&mut self, connection: usize, end: usize) {
        let one = &mut self.connections[connection];
        one.ends[end] = EndState::Closed;
        one.ways[end].small.clear();
        one.ways[end].jobs.clear();
        let [who, peer] = [end, 1 - end].map(|end| one.who[end]);
        let (rail, at) = (one.rail, who * self.count + peer);
        if one.ends == [EndState::Closed; 2] {
            let pair = self.pair_at(who, peer);
            self.between[pair].retain(|other| *other != connection);
        }
        let side = self.sides[at].as_mut().expect("it has a connection");
        for place in [&mut side.used[rail], &mut side.accepted[rail]] {
            if *place == Some(connection) {
                *place = None;
            }
        }
    }

    /// Gives sockets what they take.
    pub(super) fn pump(&mut self, cx: &mut Cx<'_>, connection: usize, end: usize) {
        loop {
            let one = &mut self.connections[connection];
            let way = &mut one.ways[end];
            if one.ends[end] != EndState::Open || way.in_socket >= self.setup.socket_bytes {
                return;
            }
            if let Some(body) = way.small.pop_front() {
                if !self.is_released(connection, end, &body) {
                    self.put(cx, connection, end, body);
                }
            } else if let Some(job) = way.jobs.front().copied() {
                if way.in_socket >= self.setup.bulk_bytes {
                    return;
                }
                self.put_piece(cx, connection, end, job);
            } else {
                return;
            }
        }
    }

    /// Whether a packet has come by another rail while it waited for a socket.
    fn is_released(&self, connection: usize, end: usize, body: &Body) -> bool {
        let who = &self.connections[connection].who;
        let side = self.side(who[end], who[1 - end]).expect("it has a connection");
        let first = side.kept.front().map(|(number, _)| *number);
        matches!(body, Body::Stream(number, _) if first.is_none_or(|first| *number < first))
    }

    /// The next bytes of a chunk, from memory as it is now: whether the peer may read it
    /// is asked each time, for the read may be over.
    fn put_piece(&mut self, cx: &mut Cx<'_>, connection: usize, end: usize, job: Job) {
        let [owner, peer] = [end, 1 - end].map(|end| self.connections[connection].who[end]);
        let len = job.len.min(self.setup.piece_bytes);
        let found = cx.resolve(owner, peer, job.from, len, false);
        let jobs = &mut self.connections[connection].ways[end].jobs;
        let left = job.len - len;
        jobs.pop_front();
        if left > 0 && found.is_ok() {
            let from = Remote { key: job.from.key, offset: job.from.offset + len };
            jobs.push_front(Job { from, len: left, ..job });
        }
        let body = match found {
            Ok(region) => {
                let bytes = cx.memories[owner].read(region).to_vec();
                Body::Data { chunk: job.chunk, bytes }
            }
            Err(_) => Body::Fault(job.chunk),
        };
        self.put(cx, connection, end, body);
    }

    /// Gives a frame to a socket, which takes it.
    pub(super) fn put(&mut self, cx: &mut Cx<'_>, connection: usize, end: usize, body: Body) {
        self.frames += 1;
        let reach = self.reach(connection, end);
        let late_ns = if reach.is_late {
            self.draw_late.below(2 * self.setup.timing.suspect_alone_ns)
        } else {
            0
        };
        let one = &mut self.connections[connection];
        let (who, peer) = (one.who[end], one.who[1 - end]);
        let side = self.sides[who * self.count + peer].as_mut();
        let acknowledged = match (&body, side) {
            (Body::Hello | Body::Welcome | Body::Reset, _) | (_, None) => Number(0),
            (_, Some(side)) => side.peer.tell(),
        };
        let way = &mut one.ways[end];
        way.in_socket += body.bytes();
        if one.is_swallowed {
            return;
        }
        let rail = &self.setup.between(who, peer)[one.rail];
        let bytes_per_s = if reach.is_slow { rail.bytes_per_s / SLOW } else { rail.bytes_per_s };
        let taken_ns = body.bytes() * 1_000_000_000 / bytes_per_s.max(1);
        way.free_at = way.free_at.max(cx.now) + taken_ns;
        let at = (way.free_at + rail.latency_ns + late_ns).max(way.last_at);
        way.last_at = at;
        way.wire.push_back((at, Frame { acknowledged, body }));
        self.arm_arrival(cx, connection, end);
    }

    /// Has the next frame of a direction looked at when it is there.
    pub(super) fn arm_arrival(&mut self, cx: &Cx<'_>, connection: usize, from: usize) {
        let way = &mut self.connections[connection].ways[from];
        let Some((at, _)) = way.wire.front() else { return };
        let at = cx.now.max(*at);
        if way.looks_at.is_none_or(|looks_at| at < looks_at) {
            way.looks_at = Some(at);
            let event = Event::Arrival { connection: connection as u32, from: from as u8 };
            self.later.push((at, event));
        }
    }

    pub(super) fn arrive(&mut self, cx: &mut Cx<'_>, connection: usize, from: usize) {
        let is_silent = self.reach(connection, from).is_silent;
        let one = &mut self.connections[connection];
        let (sender, receiver) = (one.who[from], one.who[1 - from]);
        let way = &mut one.ways[from];
        if way.looks_at != Some(cx.now) {
            return;
        }
        way.looks_at = None;
        // It is looked at again when the fault ends.
        if is_silent || way.wire.front().is_none_or(|(at, _)| *at > cx.now) {
            return;
        }
        let busy_until = self.computes_until[receiver];
        if busy_until > cx.now && !self.dead[receiver] {
            way.looks_at = Some(busy_until);
            let event = Event::Arrival { connection: connection as u32, from: from as u8 };
            self.later.push((busy_until, event));
            if self.setup.hosts_answer && !way.is_answered {
                way.is_answered = true;
                self.answer_later(cx, connection, from);
            }
            return;
        }
        let (_, frame) = way.wire.pop_front().expect("it was seen");
        way.in_socket -= frame.body.bytes();
        self.take_as_it_comes(cx, connection, from, frame);
        if !self.dead[sender] {
            self.pump(cx, connection, from);
        }
        self.arm_arrival(cx, connection, from);
    }

    /// The host of a process that computes takes what is sent, and says so again and again.
    fn answer_later(&mut self, cx: &Cx<'_>, connection: usize, from: usize) {
        let one = &self.connections[connection];
        let latency_ns = self.setup.between(one.who[0], one.who[1])[one.rail].latency_ns;
        let at = cx.now + latency_ns.max(self.setup.timing.suspect_ns / 3);
        let event = Event::Alive { connection: connection as u32, from: from as u8 };
        self.later.push((at, event));
    }

    /// The sender looks whether the host of a process that computes takes what it sends.
    pub(super) fn alive(&mut self, cx: &mut Cx<'_>, connection: usize, from: usize) {
        let is_cut =
            self.reach(connection, from).is_silent || self.reach(connection, 1 - from).is_silent;
        let one = &mut self.connections[connection];
        let (who, peer, rail) = (one.who[from], one.who[1 - from], one.rail);
        let waits = !one.ways[from].wire.is_empty() && !self.dead[peer];
        if self.computes_until[peer] <= cx.now || !waits || one.ends[from] == EndState::Closed {
            one.ways[from].is_answered = false;
            return;
        }
        self.answer_later(cx, connection, from);
        let at = self.at(who, peer);
        let is_used = self
            .side(who, peer)
            .is_some_and(|side| [side.used[rail], side.accepted[rail]].contains(&Some(connection)));
        let id = RailId(rail as u8);
        if is_used
            && !is_cut
            && self.computes_until[who] <= cx.now
            && self.side_mut(at).peer.is_awaited(id)
        {
            self.call(cx, at, |peer, now, todo| peer.alive(now, todo, id));
        }
    }

    /// A frame has come.
    pub(super) fn take(&mut self, cx: &mut Cx<'_>, connection: usize, from: usize, frame: Frame) {
        let to = 1 - from;
        let one = &self.connections[connection];
        let (who, peer, rail) = (one.who[to], one.who[from], one.rail);
        let at = self.at(who, peer);
        match (frame.body, one.ends[to]) {
            (Body::Hello, _) => self.called(cx, connection),
            (Body::Reset, EndState::Closed) => {}
            (Body::Reset, _) => self.broke(cx, connection, to),
            // There is nobody, or nobody who knows of it any more.
            (_, EndState::Closed) => {
                if one.ends[from] != EndState::Closed {
                    self.put(cx, connection, to, Body::Reset);
                }
            }
            (Body::Welcome, _) => {
                self.connections[connection].ends[to] = EndState::Open;
                if self.opened(cx, at, rail) {
                    self.say(cx, at, rail, Body::Answer);
                } else {
                    self.close_end(cx, connection, who);
                }
            }
            (body, state) => {
                if state == EndState::Accepted && !self.confirmed(cx, connection) {
                    return;
                }
                self.hear(cx, connection, to, frame.acknowledged, body);
            }
        }
    }

    /// A process is asked for a connection.
    fn called(&mut self, cx: &mut Cx<'_>, connection: usize) {
        let one = &self.connections[connection];
        let ([caller, who], rail) = (one.who, one.rail);
        let at = self.at(who, caller);
        let is_gone = self.sides[at].as_ref().is_some_and(|side| side.is_gone);
        let refuses = self.is_refused(self.setup.host_pair(caller, who), rail);
        if self.dead[who] || is_gone || refuses {
            return self.put(cx, connection, 1, Body::Reset);
        }
        let is_new = self.sides[at].is_none();
        if is_new {
            self.new_side(cx, who, caller);
        }
        let own = self.side_mut(at).used[rail];
        if let Some(own) = own
            && self.end_of(own, who) == EndState::Calling
        {
            self.met.crossed_calls = 1;
            if who < caller {
                return self.put(cx, connection, 1, Body::Reset);
            }
            self.close_end(cx, own, who);
        }
        if let Some(older) = self.side_mut(at).accepted[rail] {
            self.close_end(cx, older, who);
        }
        self.side_mut(at).accepted[rail] = Some(connection);
        self.connections[connection].ends[1] = EndState::Accepted;
        self.put(cx, connection, 1, Body::Welcome);
        if is_new {
            self.call(cx, at, |peer, now, todo| peer.advance(now, todo));
        }
    }

    /// The first frame of a caller has come: its connection is there. Whether it is wanted.
    fn confirmed(&mut self, cx: &mut Cx<'_>, connection: usize) -> bool {
        let one = &self.connections[connection];
        let ([caller, who], rail) = (one.who, one.rail);
        let at = self.at(who, caller);
        if let Some(older) = self.side_mut(at).used[rail] {
            self.close_end(cx, older, who);
            let id = RailId(rail as u8);
            self.note(who, Note::Broke(caller, rail));
            self.call(cx, at, |peer, now, todo| peer.broke(now, todo, id));
        }
        let side = self.side_mut(at);
        (side.accepted[rail], side.used[rail]) = (None, Some(connection));
        self.connections[connection].ends[1] = EndState::Open;
        let is_wanted = self.opened(cx, at, rail);
        if !is_wanted {
            self.close_end(cx, connection, who);
        }
        is_wanted
    }

    /// A connection is there. Whether it is wanted.
    fn opened(&mut self, cx: &mut Cx<'_>, at: usize, rail: usize) -> bool {
        let (who, peer) = (at / self.count, at % self.count);
        self.note(who, Note::Opened(peer, rail));
        let id = RailId(rail as u8);
        let is_wanted = self.call(cx, at, |peer, now, todo| peer.opened(now, todo, id));
        if is_wanted {
            let side = self.side_mut(at);
            side.opened[rail] += 1;
            let (is_first, returns) = (!side.was_open, side.opened[rail] > 1);
            side.was_open = true;
            self.met.spares_opened |= u64::from(side.spared[rail]);
            self.met.connections = 1;
            if is_first {
                self.effects.push_back(Effect::Connected { who, peer });
            }
            if returns {
                self.fault_counts.note(Kind::RailReturned);
            }
        }
        is_wanted
    }

    pub(super) fn arm_deadline(&mut self, cx: &Cx<'_>, at: usize) {
        let who = at / self.count;
        let (clock, ahead) = (self.clock(who, cx.now), self.clock_ahead(who));
        let side = self.side_mut(at);
        let due = if side.is_gone { None } else { side.peer.deadline(clock) };
        let Some(due) = due else { return };
        // Whoever has computed has let some pass.
        let due = due.0.max(clock.0) - ahead;
        if side.wakes_at.is_none_or(|wakes_at| due < wakes_at) {
            side.wakes_at = Some(due);
            self.later.push((due, Event::Wake { side: at as u32 }));
        }
    }

    pub(super) fn wake(&mut self, cx: &mut Cx<'_>, at: usize) {
        let busy_until = self.computes_until[at / self.count];
        let side = self.side_mut(at);
        if side.wakes_at != Some(cx.now) || side.is_gone {
            return;
        }
        if busy_until > cx.now {
            side.wakes_at = Some(busy_until);
            self.later.push((busy_until, Event::Wake { side: at as u32 }));
            return;
        }
        side.wakes_at = None;
        self.call(cx, at, |peer, now, todo| peer.advance(now, todo));
        let side = self.side_mut(at);
        assert_ne!(side.wakes_at, Some(cx.now), "what was due is due again");
    }
}
