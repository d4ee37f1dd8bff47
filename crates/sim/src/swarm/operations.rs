//! What a process does next: sends, receives, probes and cancels, and what each is about.

use super::judge::{GUARD_BYTES, UNTOUCHED, content};
use super::many;
use super::matcher::Wanted;
use super::program::Program;
use super::refusals::try_send;
use super::trace::What;
use crate::rails::Kind;
use sluice_proto::{Cancelled, Delivery, Probe, ProbeAction, Recv, Refused, Send, Space};
use sluice_wire::{PeerId, Region};

impl Program<'_> {
    /// A receive that waits for a message of this process: whose it is, and what it
    /// accepts.
    pub(super) fn awaited_from(&mut self, who: usize) -> Option<(usize, Wanted)> {
        if !self.is_awaited || !self.aims.percent(85) {
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

    pub(super) fn send(&mut self, who: usize) -> bool {
        let (mut to, mut space) = (self.target.unwrap_or_else(|| self.anyone()), self.space());
        let (mut len, mut tag) = (self.len(), if space == Space::Tagged { self.tag() } else { 0 });
        if let Some((awaited_by, wanted)) = self.awaited_from(who) {
            (to, space) = (awaited_by, wanted.space);
            tag = if space == Space::Tagged { wanted.tag } else { 0 };
            if self.aims.percent(85) {
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
            delivery: self.delivery(),
        };
        self.start_send(who, send)
    }

    /// False if it was refused.
    pub(super) fn start_send(&mut self, who: usize, send: Send) -> bool {
        let stalled_before = self.world.endpoint(who).stats().stalled_now;
        let outcome =
            self.world.call(who, |endpoint, now, port| try_send(endpoint, now, port, &send));
        self.world.note(who, What::Sends(send, outcome));
        match outcome {
            Ok(()) => {
                let waits = self.world.endpoint(who).stats().stalled_now > stalled_before;
                self.waited += u64::from(waits);
                if waits {
                    self.world.befall(Kind::CreditsOut);
                }
                let is_large = send.buf.len > u64::from(self.setup.endpoint.eager_bytes_max);
                self.world.coverage.large_messages |= u64::from(is_large);
                self.judge.sent(&mut self.world, who, &send, waits);
                let is_between = !self.actors[who].refusals.is_empty();
                self.world.coverage.sends_between_tries |= u64::from(is_between);
            }
            Err(Refused::Again)
                if send.inject || self.setup.nics.is_some() || self.setup.has_few_requests() =>
            {
                if self.world.endpoint(who).pending().sends >= self.setup.endpoint.requests_max {
                    self.world.befall(Kind::RequestsFull);
                } else if send.inject && self.setup.nics.is_none() {
                    self.world.befall(Kind::InjectsOut);
                }
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

    /// Whether the endpoint of a process takes another receive.
    pub(super) fn has_room(&mut self, who: usize) -> bool {
        let most = self.setup.endpoint.requests_max;
        let has_room = self.world.endpoint(who).pending().recvs < most;
        if !has_room {
            self.world.befall(Kind::RequestsFull);
        }
        has_room
    }

    /// The same once a receive was cancelled, if there is none. False if each has met a message
    /// that is on its way.
    pub(super) fn make_room(&mut self, who: usize) -> bool {
        if self.has_room(who) {
            return true;
        }
        let posted = self.judge.matcher.posted(who).first().map(|(context, _)| *context);
        if let Some(context) = posted {
            self.cancel_one(who, context);
        }
        self.has_room(who)
    }

    /// A receive for which there is no room is refused.
    fn receive_in_vain(&mut self, who: usize, recv: &Recv) {
        let before = self.world.endpoint(who).footprint(recv.source);
        let posted = self.world.call(who, |endpoint, now, port| endpoint.recv(now, port, recv));
        assert_eq!(posted, Err(Refused::Again), "there is no room for a receive");
        let is_unchanged = self.world.endpoint(who).footprint(recv.source) == before;
        assert!(is_unchanged, "a receive was refused and has left a trace");
    }

    pub(super) fn receive(&mut self, who: usize, wanted: Wanted) {
        let context = self.context();
        let (eager, chunk) = (u64::from(self.setup.endpoint.eager_bytes_max), self.chunk());
        let len = if self.draw.percent(85) { 3 * eager + 2 * chunk } else { self.len() };
        let report = self.draw.percent(90);
        let recv = Recv {
            space: wanted.space,
            source: peer(wanted.source),
            buf: Region::EMPTY,
            tag: wanted.tag,
            ignore: wanted.ignore,
            context,
            report,
        };
        let takes_many = wanted.space == Space::Untagged
            && !self.setup.has_few_requests()
            && self.setup.nics.is_none()
            && self.draw_many.percent(30);
        if takes_many && wanted.source.is_none() {
            return self.receive_many(who);
        }
        if !self.has_room(who) {
            return self.receive_in_vain(who, &recv);
        }
        let buf = self.judge.posts(self.world.memory(who), who, context, &wanted, len, report);
        self.judge.go_on(who);
        let recv = Recv { buf, ..recv };
        self.world.note(who, What::Posts(context, wanted, len));
        let pieces = if self.may_be_cut(who, len) { self.cut(context, buf) } else { None };
        let posted = self.world.call(who, |endpoint, now, port| match &pieces {
            Some(pieces) => endpoint.recv_pieces(now, port, &recv, pieces),
            None => endpoint.recv(now, port, &recv),
        });
        posted.expect("there is room for a receive");
        self.look(who, None);
    }

    /// A process posts a buffer for many messages without a tag.
    fn receive_many(&mut self, who: usize) {
        let context = self.context();
        let len = 1 + self.draw.below(2 * u64::from(self.setup.endpoint.eager_bytes_max) + 200);
        let left_min = self.draw.below(len);
        let wanted = many::WANTED;
        let guarded = self.world.memory(who).alloc(len + GUARD_BYTES);
        self.world.fill(who, guarded, UNTOUCHED);
        let buf = guarded.truncated(len);
        let recv = Recv {
            space: wanted.space,
            source: None,
            buf,
            tag: 0,
            ignore: 0,
            context,
            report: true,
        };
        self.world.note(who, What::Posts(context, wanted, len));
        self.judge.posts_many(who, context, buf, left_min);
        let posted = self
            .world
            .call(who, |endpoint, now, port| endpoint.recv_many(now, port, &recv, left_min));
        posted.expect("there is room for a buffer");
        self.look(who, None);
    }

    pub(super) fn probe(&mut self, who: usize) {
        let wanted = self.wanted(who);
        let actions = [ProbeAction::Peek, ProbeAction::Claim, ProbeAction::Discard];
        let action = self.draw.pick(&actions);
        self.ask(who, wanted, action);
    }

    pub(super) fn ask(&mut self, who: usize, wanted: Wanted, action: ProbeAction) {
        if self.world.endpoint(who).pending().probes >= self.setup.endpoint.requests_max {
            return self.world.befall(Kind::RequestsFull);
        }
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
    pub(super) fn fetch(&mut self, who: usize) -> bool {
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
        let pieces = if discard { None } else { self.cut(context, buf) };
        let taken = self.world.call(who, |endpoint, now, port| match &pieces {
            _ if discard => endpoint.discard_claimed(now, port, context, true),
            Some(pieces) => endpoint.recv_claimed_pieces(now, port, context, pieces, true),
            None => endpoint.recv_claimed(now, port, context, buf, true),
        });
        taken.expect("it is claimed");
        self.look(who, None);
        let again = self
            .world
            .call(who, |endpoint, now, port| endpoint.discard_claimed(now, port, context, true));
        assert_eq!(again, Err(Refused::NotClaimed), "a claim is used up");
        true
    }

    pub(super) fn cancel(&mut self, who: usize) {
        let sends = self.judge.unended_sends(who);
        if !sends.is_empty() && self.draw.percent(50) {
            let context = self.draw.pick(&sends);
            return self.cancel_send(who, context);
        }
        let unended = self.judge.unended_receives(who);
        if !unended.is_empty() {
            let context = self.draw.pick(&unended);
            self.cancel_one(who, context);
        }
    }

    pub(super) fn cancel_one(&mut self, who: usize, context: u64) {
        self.world.note(who, What::Cancels(context));
        let name = self.judge.name_of(context);
        let found = self.world.call(who, |endpoint, now, port| endpoint.cancel(now, port, name));
        self.judge.cancels(&self.world, context, found);
        self.look(who, None);
    }

    fn delivery(&mut self) -> Option<Delivery> {
        let wants = self.draw.percent(20);
        wants.then(|| self.draw.pick(&[Delivery::Arrived, Delivery::Matched]))
    }

    fn cancel_send(&mut self, who: usize, context: u64) {
        self.world.note(who, What::Cancels(context));
        let cancelled =
            self.world.call(who, |endpoint, now, port| endpoint.cancel_send(now, port, context));
        match cancelled {
            Some(Cancelled::Withdrawn) => self.world.coverage.sends_withdrawn = 1,
            Some(Cancelled::Sent) => self.world.coverage.sends_cancelled = 1,
            None => {}
        }
        self.judge.cancels_send(&self.world, context, cancelled);
        self.look(who, None);
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
    pub(super) fn wanted(&mut self, who: usize) -> Wanted {
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
    pub(super) fn aimed(&self, id: usize, exactness: u64) -> Wanted {
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
