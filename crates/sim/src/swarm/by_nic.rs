//! Worlds whose interfaces match messages: what travels between them, and what each tells
//! its process.
//!
//! Messages of a pair arrive in the order in which they were sent, and a process is told
//! in the order in which things happened at its interface; both as late as chance will have
//! it. The judge is told of an arrival when it happens, before anything else does.

use super::draw::Draw;
use super::events::{Event, Turn};
use super::trace::What;
use super::world::World;
use crate::nic::{Bounds, Nic, Out, Tagged};
use crate::rails::Kind;
use sluice_link::{Machine as _, TaggedEnd, Token};
use sluice_wire::PeerId;
use std::collections::{BTreeMap, VecDeque};

/// The interfaces of a world.
#[derive(Debug)]
pub(super) struct Nics {
    /// By process.
    pub each: Vec<Nic>,
    /// By sender and receiver: what is on its way, and when the last of it arrives.
    ways: BTreeMap<(usize, usize), (VecDeque<Tagged>, u64)>,
    /// By process: what it will be told, and when the last of it.
    words: Vec<(VecDeque<(Token, TaggedEnd)>, u64)>,
    draw: Draw,
}

impl Nics {
    pub fn new(seed: u64, count: usize, bounds: Bounds) -> Nics {
        Nics {
            each: (0..count).map(|_| Nic::new(bounds)).collect(),
            ways: BTreeMap::new(),
            words: (0..count).map(|_| (VecDeque::new(), 0)).collect(),
            draw: Draw::stream(seed, 27),
        }
    }
}

impl World<'_> {
    /// Whether interfaces match messages here.
    pub fn has_nics(&self) -> bool {
        self.nics.is_some()
    }

    /// Whether the interface of a process, if it matches, keeps nothing.
    pub fn is_nic_empty(&self, who: usize) -> bool {
        self.nics.as_ref().is_none_or(|nics| nics.each[who].is_empty())
    }

    /// Carries out what the interface of a process wants.
    pub(super) fn flush_nic(&mut self, who: usize) {
        self.note_shortages(who);
        let Some(nics) = &mut self.nics else { return };
        let (latency_ns, jitter_ns) = (self.setup.latency_ns, self.setup.jitter_ns);
        let dead = self.losses.dead();
        for out in std::mem::take(&mut nics.each[who].outs) {
            let late_ns = nics.draw.below(jitter_ns + 1);
            match out {
                Out::Send(to, _) if dead == Some(to.index()) => nics.each[who].forget(to),
                Out::Acknowledge(to, _) if dead == Some(to.index()) => {}
                Out::Send(to, tagged) => {
                    let to = to.index();
                    let (way, last_at) = nics.ways.entry((who, to)).or_default();
                    *last_at = (self.now_ns + latency_ns + late_ns).max(*last_at);
                    way.push_back(tagged);
                    let event = Event::Tagged { from: who as u32, to: to as u32 };
                    self.queue.add(*last_at, event);
                }
                Out::Tell(token, end) => {
                    let at = self.now_ns + late_ns;
                    let (words, last_at) = &mut nics.words[who];
                    *last_at = at.max(*last_at);
                    words.push_back((token, end));
                    self.queue.add(*last_at, Event::Word { process: who as u32 });
                }
                Out::Acknowledge(to, token) => {
                    let at = self.now_ns + latency_ns + late_ns;
                    let (words, last_at) = &mut nics.words[to.index()];
                    *last_at = at.max(*last_at);
                    words.push_back((token, TaggedEnd::Sent));
                    self.queue.add(*last_at, Event::Word { process: to.0 });
                }
            }
        }
    }

    /// What the interface of a process has had no room for.
    fn note_shortages(&mut self, who: usize) {
        let Some(nics) = &self.nics else { return };
        let nic = &nics.each[who];
        let shortages =
            [(nic.was_full, Kind::InterfaceSends), (nic.was_crowded, Kind::InterfaceReceives)];
        self.coverage.interfaces_exceeded |= u64::from(nic.was_exceeded);
        for (_, kind) in shortages.into_iter().filter(|(was_short, _)| *was_short) {
            self.befall(kind);
        }
    }

    /// A process ends, and its interface with it, and what is on its way to it and from it.
    pub(super) fn end_nic(&mut self, who: usize) {
        let Some(nics) = &mut self.nics else { return };
        nics.each[who] = Nic::new(nics.each[who].bounds);
        nics.each.iter_mut().for_each(|nic| nic.forget(PeerId(who as u32)));
        nics.words[who].0.clear();
        nics.ways.retain(|(from, to), _| *from != who && *to != who);
    }

    /// A message comes to an interface, unless its sender or receiver has ended.
    pub(super) fn tagged_arrives(&mut self, from: usize, to: usize) -> Option<Turn> {
        if self.is_dead(from) || self.is_dead(to) {
            return None;
        }
        let nics = self.nics.as_mut().expect("it has come between interfaces");
        let (way, _) = nics.ways.get_mut(&(from, to)).expect("it was sent");
        let tagged = way.pop_front().expect("it was sent");
        let message = tagged.message;
        let had_no_room = nics.each[from].end_send(PeerId(to as u32));
        let is_left = nics.each[to].arrive(&mut self.memories[to], tagged);
        self.coverage.matched_by_interfaces = 1;
        self.note(to, What::Meets(from, message.match_bits.0, message.len));
        self.flush_nic(to);
        if had_no_room {
            self.rouse(from);
        }
        if is_left {
            self.rouse(to);
        }
        Some(Turn::Tagged { from, to, message })
    }

    /// A process is told the next thing by its interface, unless it computes or has ended.
    pub(super) fn word_comes(&mut self, who: usize) -> Option<Turn> {
        if self.is_dead(who) {
            return None;
        }
        let busy_until = self.rails.computes_until(who);
        if busy_until > self.now_ns {
            self.queue.add(busy_until, Event::Word { process: who as u32 });
            return None;
        }
        let nics = self.nics.as_mut().expect("an interface has told it");
        let (token, end) = nics.words[who].0.pop_front().expect("a word for each event");
        self.step(who, &[], |endpoint, now, port| endpoint.on_tagged(now, port, token, end));
        self.rouse(who);
        Some(Turn::Moved(who))
    }
}
