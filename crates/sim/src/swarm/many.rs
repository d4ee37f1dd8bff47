//! Buffers that take many messages: each is one receive after the other of what is left of it.
//!
//! A part that a message has met goes on by itself, and what is left waits as the next part, in its
//! place. Nothing else of the judge knows of such
//! buffers: a part is a receive with a name of its own.

use super::judge::{GUARD_BYTES, Judge, UNTOUCHED};
use super::matcher::Wanted;
use super::world::World;
use sluice_proto::{Completion, Failure, Kind, Space};
use sluice_wire::Region;
use std::collections::BTreeMap;

/// Names of parts begin here: no context of a program is so large.
const PARTS: u64 = 1 << 40;

/// A buffer for many messages.
#[derive(Debug)]
struct Many {
    who: usize,
    /// What no message has met.
    rest: Region,
    left_min: u64,
    /// The names of its parts, the one that waits last.
    parts: Vec<u64>,
    is_used_up: bool,
    is_cancelled: bool,
    /// Its end was told.
    is_done: bool,
}

/// See the module.
#[derive(Debug, Default)]
pub struct Manys {
    all: BTreeMap<u64, Many>,
    next_part: u64,
    /// A buffer has taken several messages.
    pub has_taken_several: bool,
    /// One was used up, and said so.
    pub was_used_up: bool,
}

/// What such a buffer takes: any message without a tag.
pub const WANTED: Wanted = Wanted { space: Space::Untagged, source: None, tag: 0, ignore: 0 };

impl Judge {
    /// A buffer for many is about to be posted, for messages of any source.
    pub fn posts_many(&mut self, who: usize, context: u64, buf: Region, left_min: u64) {
        let parts = Vec::new();
        let (is_used_up, is_cancelled, is_done) = (false, false, false);
        let many = Many { who, rest: buf, left_min, parts, is_used_up, is_cancelled, is_done };
        self.manys.all.insert(context, many);
        self.post_part(context);
        self.go_on(who);
    }

    /// What is left of a buffer waits.
    fn post_part(&mut self, context: u64) {
        let name = PARTS + self.manys.next_part;
        self.manys.next_part += 1;
        let many = self.manys.all.get_mut(&context).expect("it was posted");
        many.parts.push(name);
        let (who, rest) = (many.who, many.rest);
        self.matcher.post_at(who, name, WANTED, context);
        self.post_piece(who, name, rest);
    }

    /// The buffers of a process whose parts have met messages wait with what is left.
    pub fn go_on(&mut self, who: usize) {
        loop {
            let met = self.manys.all.iter().find_map(|(context, many)| {
                let waits = many.who == who && !many.is_used_up && !many.is_cancelled;
                let part = many.parts.last().filter(|_| waits)?;
                let id = self.matcher.matched.get(part)?;
                Some((*context, *part, self.matcher.messages[*id].len))
            });
            let Some((context, part, len)) = met else { return };
            let many = self.manys.all.get_mut(&context).expect("it was found");
            let taken = many.rest.truncated(len);
            let left = many.rest.len - taken.len;
            many.rest = Region { addr: taken.addr.offset(taken.len), len: left };
            many.is_used_up = left < many.left_min.max(1);
            self.manys.has_taken_several |= many.parts.len() > 1;
            let is_used_up = many.is_used_up;
            self.narrow_piece(part, taken);
            if !is_used_up {
                self.post_part(context);
            }
        }
    }

    /// The name that a program knows a receive by.
    pub fn name_of(&self, receive: u64) -> u64 {
        let mut all = self.manys.all.iter();
        let found = all.find(|(_, many)| many.parts.contains(&receive));
        found.map_or(receive, |(context, _)| *context)
    }

    /// Whether a receive is a part of a buffer for many that a message has met.
    pub fn is_met_part(&self, receive: u64) -> bool {
        receive >= PARTS && self.matcher.matched.contains_key(&receive)
    }

    /// The part that waits was cancelled.
    pub fn cancelled_part(&mut self, part: u64) {
        let context = self.name_of(part);
        if let Some(many) = self.manys.all.get_mut(&context) {
            many.is_cancelled = true;
        }
    }

    /// Which receive a completion is about: of a buffer for many, the part.
    pub fn receive_of_end(&self, end: &Completion) -> u64 {
        let Some(many) = self.manys.all.get(&end.context) else { return end.context };
        if end.outcome == Err(Failure::Cancelled) {
            return *many.parts.last().expect("there is one at first");
        }
        let is_its = |part: &&u64| {
            self.piece(**part).is_some_and(|(at, is_done)| at == end.buf && !is_done)
                && self.matcher.matched.get(part).is_some_and(|&id| {
                    let message = &self.matcher.messages[id];
                    end.peer.is_none_or(|peer| peer.index() == message.from)
                        && (end.outcome.is_err()
                            || (message.data, message.len) == (end.data, end.len))
                })
        };
        let part = many.parts.iter().find(is_its).copied();
        part.unwrap_or_else(|| panic!("no message of a buffer for many has ended so: {end:?}"))
    }

    /// A buffer for many takes no more.
    pub fn consumed(&mut self, who: usize, end: &Completion) {
        let open = |part: &u64| self.piece(*part).is_some_and(|(_, is_done)| !is_done);
        let many = &self.manys.all[&end.context];
        assert!(many.is_used_up && !many.is_done, "buffer {} takes more: {many:?}", end.context);
        assert!(!many.parts.iter().any(open), "messages of buffer {} have not ended", end.context);
        let told = (end.kind, end.space, end.len, end.buf, end.tag, end.data, end.peer);
        let wanted = (Kind::Consumed, Space::Untagged, 0, many.rest.addr, 0, None, None);
        assert_eq!(told, wanted, "buffer {}", end.context);
        assert_eq!((who, end.quiet, end.outcome), (many.who, false, Ok(())), "{}", end.context);
        self.manys.all.get_mut(&end.context).expect("looked up above").is_done = true;
        self.manys.was_used_up = true;
    }

    /// Panics if anything was written where no message is: in what is left of a buffer, or behind
    /// it.
    pub fn check_rest_of_manys(&self, world: &mut World<'_>) {
        for (context, many) in &self.manys.all {
            let beyond = many.rest.len + GUARD_BYTES;
            let bytes = world.memory(many.who).read(Region { len: beyond, ..many.rest });
            let is_untouched = bytes.iter().all(|byte| *byte == UNTOUCHED);
            assert!(is_untouched, "bytes beyond what buffer {context} has taken: {many:?}");
        }
    }

    /// Panics unless each buffer that is used up has said so.
    pub fn check_manys(&self, world: &World<'_>) {
        for (context, many) in &self.manys.all {
            let is_told = many.is_done || !many.is_used_up || world.is_dead(many.who);
            assert!(is_told, "buffer {context} is used up and has not said so");
        }
    }
}
