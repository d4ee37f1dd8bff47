//! Whether what ends is what must end: the books of all requests, beside the
//! reference matcher.
//!
//! A match is judged at the moment it happens, in the order of the process that
//! it happens at: when a message is read that a posted receive wants, when a
//! receive finds one that is there, and when a sender without credits is told
//! to hand one over. Its completion may come much later; which message it must
//! tell of is known by then.

mod sends;

use self::sends::Sent;
use super::events::Read;
use super::many::Manys;
use super::matcher::{Matcher, Wanted};
use super::pieces::Pieces;
use super::remote::Remote;
use super::world::World;
use crate::memory::Memory;
use sluice_link::TaggedMessage;
use sluice_proto::{Completion, Failure, Kind, Pending, ProbeAction, Space};
use sluice_wire::{Addr, Packet, Parsed, PeerId, PtIndex, Region};
use std::collections::{BTreeMap, BTreeSet};

/// Bytes behind each receive buffer that nothing may touch.
pub const GUARD_BYTES: u64 = 16;
pub const UNTOUCHED: u8 = 0xAA;
/// What memory is filled with that a sender may use again.
const REUSED: u8 = 0xEE;
/// The number of the first message of a pair that waits for credits.
const NUMBER_FIRST: u64 = 1 << 63;
/// The last portal table entry of messages.
const PT_MESSAGES: PtIndex = PtIndex(1);

#[derive(Debug)]
struct Posted {
    who: usize,
    buf: Region,
    whole: Region,
    report: bool,
    cancelled: bool,
    /// It drops a claimed message.
    discard: bool,
    /// It is a part of a buffer, which is never released.
    is_part: bool,
    done: bool,
}

/// A message taken out of the matching by a probe.
#[derive(Clone, Copy, Debug)]
pub struct Claimed {
    pub who: usize,
    pub context: u64,
    pub id: usize,
}

/// See the module.
#[derive(Debug)]
pub struct Judge {
    pub matcher: Matcher,
    pub remote: Remote,
    pub manys: Manys,
    pub pieces: Pieces,
    sends: BTreeMap<u64, Sent>,
    /// By message: the context of its send.
    send_of: Vec<u64>,
    recvs: BTreeMap<u64, Posted>,
    pub claimed: Vec<Claimed>,
    /// Probes that are not answered: who, what for, what then.
    probes: BTreeMap<u64, (usize, Wanted, ProbeAction)>,
    /// Messages of each pair that had to wait, by their numbers.
    waited: BTreeMap<(usize, usize), Vec<usize>>,
    /// Messages whose bytes are where they belong, or that were dropped.
    landed: Vec<bool>,
    /// Messages that have come to their receiver with their bytes.
    came_whole: BTreeSet<usize>,
    /// Probes that found something.
    pub found: u64,
}

impl Judge {
    pub fn new(seed: u64, processes: usize) -> Judge {
        Judge {
            matcher: Matcher::new(processes),
            remote: Remote::default(),
            manys: Manys::default(),
            pieces: Pieces::new(seed),
            sends: BTreeMap::new(),
            send_of: Vec::new(),
            recvs: BTreeMap::new(),
            claimed: Vec::new(),
            probes: BTreeMap::new(),
            waited: BTreeMap::new(),
            landed: Vec::new(),
            came_whole: BTreeSet::new(),
            found: 0,
        }
    }

    /// A receive of so many bytes is about to be posted; this is its buffer.
    pub fn posts(
        &mut self,
        memory: &mut Memory,
        who: usize,
        context: u64,
        wanted: &Wanted,
        len: u64,
        report: bool,
    ) -> Region {
        self.matcher.post(who, context, *wanted);
        self.buffer(memory, who, context, len, report, false)
    }

    /// A claimed message is about to be received, or dropped.
    pub fn takes(
        &mut self,
        memory: &mut Memory,
        claimed: Claimed,
        len: u64,
        discard: bool,
    ) -> Region {
        self.matcher.note(claimed.context, claimed.id);
        self.buffer(memory, claimed.who, claimed.context, len, true, discard)
    }

    /// A receive was to be cancelled, and was or not. One that no message has met
    /// must be, unless its source has used it: for a message that is on its way, or
    /// was when its sender ended.
    pub fn cancels(&mut self, world: &World<'_>, context: u64, is_cancelled: bool) {
        let posted = self.recvs.get_mut(&context).expect("it was posted");
        let who = posted.who;
        let wanted = self.matcher.posted(who).iter().find(|(one, _)| *one == context);
        let Some(wanted) = wanted.map(|(_, wanted)| *wanted) else {
            assert!(!is_cancelled, "receive {context} was cancelled, and has met a message");
            return;
        };
        if is_cancelled {
            posted.cancelled = self.matcher.cancel(who, context);
            self.cancelled_part(context);
            return;
        }
        let by_dead = wanted.source.is_some_and(|source| world.is_cut(who, source));
        let comes = || self.matcher.coming(who, &wanted).is_some();
        let may_be_used =
            world.has_chunk_claims() && wanted.source.is_some() && (by_dead || comes());
        assert!(may_be_used, "receive {context} was not cancelled");
    }

    /// A probe is about to be asked. Whether what it wants is there, so that it
    /// must be answered at once.
    pub fn asks(&mut self, who: usize, context: u64, wanted: &Wanted, action: ProbeAction) -> bool {
        self.probes.insert(context, (who, *wanted, action));
        self.matcher.peek(who, wanted).is_some()
    }

    /// Whether a probe is not answered yet.
    pub fn is_asking(&self, context: u64) -> bool {
        self.probes.contains_key(&context)
    }

    /// A process has read a packet. The message that it was told of in it.
    pub fn read(&mut self, to: usize, read: &Read) -> Option<(usize, usize)> {
        self.remote.read(read.from, to, &read.packet);
        let told = self.read_message(to, read);
        self.go_on(to);
        told
    }

    fn read_message(&mut self, to: usize, read: &Read) -> Option<(usize, usize)> {
        match read.packet.packet {
            Packet::Put(put) if put.pt_index <= PT_MESSAGES => {
                self.arrived(read.from, to, &read.packet);
                None
            }
            Packet::Waiting(waiting) if waiting.found.is_some() => {
                let waited = &self.waited[&(read.from, to)];
                let id = waited[(waiting.number - NUMBER_FIRST) as usize];
                if read.taken {
                    self.matcher.take_waiting(read.from, to, id);
                }
                Some((read.from, id))
            }
            _ => None,
        }
    }

    /// A message has come to the interface of a process, which matches it now.
    pub fn tagged(&mut self, from: usize, to: usize, found: &TaggedMessage) {
        let id = self.matcher.arrive(from, to);
        let message = self.matcher.messages[id];
        let list = if message.space == Space::Tagged { PtIndex(0) } else { PtIndex(1) };
        let wanted = (list, message.tag, message.len);
        let found = (found.list, found.match_bits.0, found.len);
        assert_eq!(found, wanted, "order of {from} toward {to}");
    }

    /// A request has ended. `told`: the message that the process was told of in
    /// the same step, and its sender.
    pub fn ended(
        &mut self,
        world: &mut World<'_>,
        who: usize,
        end: &Completion,
        told: Option<(usize, usize)>,
    ) {
        match end.kind {
            Kind::Send => self.send_ended(world, who, end),
            Kind::Recv => {
                let context = self.receive_of_end(end);
                self.receive_ended(world, who, &Completion { context, ..*end });
            }
            Kind::Probe => self.probe_ended(world, who, end, told),
            Kind::Write
            | Kind::Read
            | Kind::Combine
            | Kind::Fetch
            | Kind::PeerWrite
            | Kind::PeerRead
            | Kind::RegionWrite
            | Kind::RegionRead => self.remote.ended(world, who, end),
            Kind::Consumed => self.consumed(who, end),
        }
    }

    /// A process has ended. Nobody asks for what it had begun.
    pub fn died(&mut self, who: usize) {
        self.matcher.end(who);
        self.remote.died(who);
        self.claimed.retain(|claimed| claimed.who != who);
        self.probes.retain(|_, (asker, ..)| *asker != who);
    }

    /// A process has been told that `peer` has ended: what has not come from
    /// there never will.
    pub fn lost(&mut self, who: usize, peer: usize) {
        self.matcher.lose(peer, who);
        self.remote.lose(peer, who);
    }

    /// Whether messages to a process have met no receive, or are claimed.
    fn has_messages(&self, who: usize) -> bool {
        let is_claimed = self.claimed.iter().any(|claimed| claimed.who == who);
        is_claimed || !self.matcher.unmatched_to(who).is_empty()
    }

    /// Receives of a process that have not ended, as far as it can be known.
    pub fn unended_receives(&self, who: usize) -> Vec<u64> {
        let unended = self.recvs.iter().filter(|(_, posted)| posted.who == who && !posted.done);
        let unended = unended.map(|(&context, _)| context);
        unended.filter(|context| !self.is_met_part(*context)).collect()
    }

    /// Panics unless everything that could end has: nothing is to come any more.
    /// What may be left is a receive that no message has met and that a process
    /// which lives could fill.
    pub fn check_rest(&mut self, world: &mut World<'_>, count: usize) {
        let has_messages: Vec<bool> = (0..count).map(|who| self.has_messages(who)).collect();
        self.remote.check_rest(world, &has_messages);
        let world = &*world;
        for (&context, &id) in &self.matcher.matched {
            let posted = &self.recvs[&context];
            let fits = self.matcher.messages[id].len <= posted.buf.len || posted.discard;
            let has_ended = posted.done || (!posted.report && fits) || world.is_dead(posted.who);
            assert!(has_ended, "receive {context} has not ended");
            self.check_sent(world, &self.sends[&self.send_of[id]]);
        }
        for sent in self.sends.values() {
            let message = &self.matcher.messages[sent.id];
            if world.is_cut(message.from, message.to) {
                self.check_sent(world, sent);
            }
        }
        self.check_kept(world);
        for (from, to) in self.matcher.pairs_on_their_way() {
            assert!(!world.has_nics(), "a message that an interface matches waits");
            // Only messages that nobody wants may keep it from being sent, and
            // claimed ones that it stands behind.
            if self.claimed.iter().all(|claimed| claimed.who != to) {
                let credits = world.endpoint(from).links().data_credits(PeerId(to as u32));
                assert_eq!(credits, 0, "{from}→{to} waits for nothing");
            }
        }
        for who in (0..count).filter(|who| !world.is_dead(*who)) {
            let answers = world.endpoint(who).pending().answers;
            assert_eq!(answers, 0, "answers of {who} wait for nothing");
            for (context, wanted) in self.matcher.posted(who) {
                let coming = self.matcher.coming(who, wanted);
                assert_eq!(coming, None, "receive {context} of {who} waits for it");
                let of_dead = wanted.source.is_some_and(|source| world.is_cut(who, source));
                assert!(!of_dead, "receive {context} of {who} waits for the dead");
            }
        }
        assert_eq!(self.probes.len(), 0, "a probe has not been answered");
        self.check_manys(world);
    }

    /// Panics unless nothing at all is left.
    pub fn check_end(&self, world: &mut World<'_>, count: usize) {
        self.remote.check_end(world);
        self.check_rest_of_manys(world);
        assert_eq!(self.matcher.pairs_on_their_way().next(), None, "a message was not received");
        let left = |posted: &Posted| !posted.done && !world.is_dead(posted.who);
        let left: Vec<_> = self.recvs.iter().filter(|(_, posted)| left(posted)).collect();
        for (context, posted) in left {
            // It does not report, so its bytes are all there is to see.
            let id = self.matcher.matched[context];
            self.compare_bytes(world.memory(posted.who), *context, id);
        }
        for who in (0..count).filter(|who| !world.is_dead(*who)).collect::<Vec<_>>() {
            let endpoint = world.endpoint(who);
            assert_eq!(endpoint.pending(), Pending::default(), "pending at {who}");
            let open = world.open_claims(who);
            assert_eq!(open, 0, "chunk claims of {who} that nobody needs");
            let links = endpoint.links();
            let held = (links.slots_held(), links.reply_slots_reserved());
            assert_eq!(held, (0, 0), "slots that {who} holds and has set aside");
            assert_eq!(world.lent(who), 0, "bytes that {who} was lent");
            assert!(world.is_nic_empty(who), "the interface of {who} keeps something");
        }
    }

    fn arrived(&mut self, from: usize, to: usize, parsed: &Parsed) {
        let Packet::Put(put) = parsed.packet else { unreachable!("it is a put") };
        let id = self.matcher.arrive(from, to);
        let message = self.matcher.messages[id];
        if put.rts.is_none() {
            self.came_whole.insert(id);
        }
        let len = put.rts.map_or(u64::from(parsed.payload_len), |rts| rts.total_len);
        let pt_index = if message.space == Space::Tagged { PtIndex(0) } else { PtIndex(1) };
        let wanted = (pt_index, message.tag, message.len);
        assert_eq!((put.pt_index, put.match_bits.0, len), wanted, "order of {from} toward {to}");
    }

    fn buffer(
        &mut self,
        memory: &mut Memory,
        who: usize,
        context: u64,
        len: u64,
        report: bool,
        discard: bool,
    ) -> Region {
        let whole = memory.alloc(len + GUARD_BYTES);
        memory.write(whole.addr, &vec![UNTOUCHED; whole.len as usize]);
        let buf = whole.truncated(len);
        let (cancelled, is_part, done) = (false, false, false);
        let posted = Posted { who, buf, whole, report, cancelled, discard, is_part, done };
        self.recvs.insert(context, posted);
        buf
    }

    /// A part of a buffer for many waits: all that is left of it.
    pub fn post_piece(&mut self, who: usize, context: u64, buf: Region) {
        let (report, cancelled, discard, is_part, done) = (true, false, false, true, false);
        let posted = Posted { who, buf, whole: buf, report, cancelled, discard, is_part, done };
        self.recvs.insert(context, posted);
    }

    /// A message has met it: the rest is another part's.
    pub fn narrow_piece(&mut self, context: u64, taken: Region) {
        self.recvs.get_mut(&context).expect("it was posted").whole = taken;
    }

    /// Where a receive puts its message, and whether it has ended.
    pub fn piece(&self, context: u64) -> Option<(Addr, bool)> {
        self.recvs.get(&context).map(|posted| (posted.buf.addr, posted.done))
    }

    fn receive_ended(&mut self, world: &mut World<'_>, who: usize, end: &Completion) {
        let context = end.context;
        let posted = &self.recvs[&context];
        if let Some(lost) = names_lost(world, who, end) {
            assert!(posted.who == who && !posted.done, "receive {context}");
            let has_chunk_claims = world.has_chunk_claims();
            return self.receive_failed(world.memory(who), who, context, lost, has_chunk_claims);
        }
        let memory = world.memory(who);
        let posted = self.recvs.get_mut(&context).expect("it was posted");
        assert!(!posted.done, "receive {context} has ended twice");
        assert_eq!(posted.who, who, "receive {context}");
        posted.done = true;
        if posted.cancelled {
            assert_eq!(end.outcome, Err(Failure::Cancelled), "receive {context}");
            let whole = posted.whole;
            let bytes = memory.read(whole);
            assert!(bytes.iter().all(|byte| *byte == UNTOUCHED), "bytes of receive {context}");
            if !posted.is_part {
                memory.release(whole);
            }
            return;
        }
        let id = self.matcher.matched.get(&context).copied();
        let id = id.unwrap_or_else(|| panic!("no message should have met receive {context}"));
        let message = self.matcher.messages[id];
        let posted = &self.recvs[&context];
        let fits = message.len.min(posted.buf.len);
        let outcome = match message.len - fits {
            0 => Ok(()),
            _ if posted.discard => Ok(()),
            excess => Err(Failure::Truncated { excess }),
        };
        assert!(posted.report || outcome.is_err(), "nobody asked for the end of {context}");
        assert_eq!(end.outcome, outcome, "receive {context} of message {id}");
        let told = (end.len, end.tag, end.data, end.peer);
        let wanted = (fits, message.tag, message.data, Some(PeerId(message.from as u32)));
        assert_eq!(told, wanted, "receive {context} of message {id}");
        assert_eq!(end.space, message.space, "receive {context} of message {id}");
        if !posted.discard {
            let addr = posted.buf.addr;
            assert_eq!(end.buf, self.told_address(context, addr), "receive {context}");
        }
        self.landed[id] = true;
        self.compare_bytes(memory, context, id);
        let posted = &self.recvs[&context];
        if !posted.is_part {
            memory.release(posted.whole);
        }
    }

    /// A receive has ended because the only process that could fill it has, or the
    /// one that was filling it. Where receives are announced, that one may have
    /// written the bytes of a message whose announcement is lost.
    fn receive_failed(
        &mut self,
        memory: &mut Memory,
        who: usize,
        context: u64,
        dead: usize,
        has_chunk_claims: bool,
    ) {
        let posted = self.recvs.get_mut(&context).expect("it was posted");
        posted.done = true;
        let (whole, len, is_part) = (posted.whole, posted.buf.len, posted.is_part);
        let bytes = memory.read(whole);
        let untouched = |bytes: &[u8]| bytes.iter().all(|byte| *byte == UNTOUCHED);
        if let Some(&id) = self.matcher.matched.get(&context) {
            let message = &self.matcher.messages[id];
            assert_eq!(message.from, dead, "receive {context} of message {id}");
            // Some of it may have come, anywhere.
            let fits = message.len.min(posted.buf.len);
            let mut pairs = bytes.iter().zip(content(message.content, fits));
            let is_its = pairs.all(|(found, sent)| *found == sent || *found == UNTOUCHED);
            assert!(is_its, "bytes of message {id} at receive {context}");
            assert!(untouched(&bytes[fits as usize..]), "bytes beyond receive {context}");
        } else {
            let mine = self.matcher.posted(who).iter().find(|(one, _)| *one == context);
            let source = mine.and_then(|(_, wanted)| wanted.source);
            assert_eq!(source, Some(dead), "others could fill receive {context}");
            self.matcher.cancel(who, context);
            let from = if has_chunk_claims { len as usize } else { 0 };
            assert!(untouched(&bytes[from..]), "bytes of receive {context}");
        }
        if !is_part {
            memory.release(whole);
        }
    }

    fn compare_bytes(&self, memory: &Memory, context: u64, id: usize) {
        let posted = &self.recvs[&context];
        let bytes = memory.read(posted.whole);
        let message = &self.matcher.messages[id];
        let fits = message.len.min(posted.buf.len) as usize;
        let same = bytes.iter().zip(content(message.content, fits as u64)).all(|(a, b)| *a == b);
        assert!(same, "bytes of message {id} at receive {context}");
        let beyond = &bytes[fits..];
        assert!(beyond.iter().all(|byte| *byte == UNTOUCHED), "bytes beyond receive {context}");
    }

    fn probe_ended(
        &mut self,
        world: &World<'_>,
        who: usize,
        end: &Completion,
        told: Option<(usize, usize)>,
    ) {
        let context = end.context;
        let (asker, wanted, action) =
            self.probes.remove(&context).expect("it was not answered yet");
        assert_eq!(asker, who, "probe {context}");
        let here = self.matcher.peek(who, &wanted);
        if end.outcome.is_err() {
            let lost = names_lost(world, who, end);
            let asked_lost = lost.is_some() && lost == wanted.source;
            let is_sound = end.outcome == Err(Failure::NoMessage) || asked_lost;
            assert!(is_sound, "probe {context}: {:?}", end.outcome);
            assert_eq!(here, None, "probe {context} found nothing, and a message is there");
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
            (None, None) => panic!("probe {context} found what is not there"),
        };
        self.found += 1;
        let message = self.matcher.messages[id];
        let told = (end.len, end.tag, end.data, end.peer);
        let wanted = (message.len, message.tag, message.data, Some(PeerId(message.from as u32)));
        assert_eq!(told, wanted, "probe {context} and message {id}");
        match action {
            ProbeAction::Peek => {}
            ProbeAction::Claim => self.claimed.push(Claimed { who, context, id }),
            ProbeAction::Discard => self.landed[id] = true,
        }
    }
}

/// The bytes of a message: no two messages of a run are alike.
pub fn content(message: u64, len: u64) -> impl Iterator<Item = u8> {
    let mut state = message.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let words = (0..len.div_ceil(8)).flat_map(move |_| {
        state = state.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(0x1405_7B7E_F767_814F);
        (state ^ state >> 32).wrapping_mul(0x9E37_79B9_7F4A_7C15).to_be_bytes()
    });
    words.take(len as usize)
}

/// The peer by whose end a request of this process has failed, if it names one that has
/// ended, or that the process has given up.
pub fn names_lost(world: &World<'_>, who: usize, end: &Completion) -> Option<usize> {
    let Err(Failure::PeerGone { peer, why }) = end.outcome else { return None };
    let peer = peer.index();
    (world.is_cut(who, peer) && world.may_be_told(who, peer, why)).then_some(peer)
}

/// The sender's memory is its own again, and used for something else.
pub fn reuse(world: &mut World<'_>, from: usize, buf: Region) {
    world.fill(from, buf, REUSED);
    world.memory(from).release(buf);
}
